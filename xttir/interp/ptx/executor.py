"""Runs a plan: groups of lanes over blocks of code, splitting, waiting and joining.

Runnable groups stand in a queue by block, lowest first, and groups at the same place are joined
(thread frontiers: Diamos et al., 2011), so threads reconverge where their ways meet and a group
that waits never holds up another. A schedule that interleaves warps instead is in `schedules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xttir.analyses.events import (
    Blocked,
    Exit,
)
from xttir.diagnostics import Kind, Location, Unsupported
from xttir.frontends.launch_description import LaunchDescription
from xttir.interp.ptx import converge, unknown
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.barriers import Barriers
from xttir.interp.ptx.code import Block, Do, Run
from xttir.interp.ptx.delays import Delays
from xttir.interp.ptx.effects import Effects
from xttir.interp.ptx.fingerprints import Fingerprints
from xttir.interp.ptx.forget import without
from xttir.interp.ptx.geometry import Geometry
from xttir.interp.ptx.group import Group, merge
from xttir.interp.ptx.instruction import UNKNOWN, Ins
from xttir.interp.ptx.launch_setup import Contents, lay_out
from xttir.interp.ptx.leaving import Origins
from xttir.interp.ptx.memory import LaunchMemory
from xttir.interp.ptx.plan import Plan
from xttir.interp.ptx.scalar import defined_slots
from xttir.interp.ptx.schedules import Merged, Schedule
from xttir.interp.ptx.values import Pending

MAX_STEPS = 500_000
"""Instructions with an effect that groups of threads execute in a trace, and blocks of code they
leave; more takes minutes, or never ends."""
RUN_STEPS = 40 * MAX_STEPS
"""The same in a run on numbers, where every warp goes by itself."""
MAX_THREADS = 1 << 24
"""Threads of a launch: all are there at once, and each takes memory."""
BATCH_LANES = 1 << 16
"""Blocks are started in batches of whole clusters with about this many threads."""


class Executor(Effects):
    """One execution of a launch."""

    def __init__(
        self,
        plan: Plan,
        launch: LaunchDescription,
        data: Mapping[str, np.ndarray] | None,
        schedule: Schedule | None = None,
        most_steps: int = 0,
        fingerprints: bool = False,
    ):
        """`most_steps`: after how many a run counts as endless, 0: `MAX_STEPS` or `RUN_STEPS`.
        `fingerprints`: find out, in a trace, which lanes hold equal values."""
        super().__init__()
        self.plan = plan
        self.launch = launch
        self.arch = launch.capability
        self.tracing = data is None
        self.geometry = Geometry(launch.grid, launch.block, launch.cluster)
        self.threads_per_cta = self.geometry.threads
        self.layout = lay_out(plan.kernel, launch)
        lanes = self.geometry.ctas * self.threads_per_cta
        if lanes > MAX_THREADS:
            raise Unsupported(
                f"a launch of {lanes:,} threads (at most {MAX_THREADS:,})",
                Location(launch.file) if launch.file else None,
                hint="fewer blocks that do the same show the same faults",
            )
        self.memory = LaunchMemory(
            self.geometry.ctas,
            lanes,
            self.layout.shared_bytes,
            self.layout.local_bytes,
            data is None,
        )
        self.fingerprints = Fingerprints(lanes) if fingerprints else None
        self.memory.fingerprints = self.fingerprints
        self.contents = Contents(plan.kernel, launch, self.layout, self.memory, data)
        self.barriers = Barriers(self)
        self.origins = Origins(self)
        self.state: dict[str, Any] = {}
        self.assumptions: dict[str, None] = {}
        self.alive = self.barriers.alive
        self.exits = 0
        self.versions: dict[str, int] = dict.fromkeys(("", "mbarrier", "named", "cluster"), 0)
        self.schedule: Schedule = schedule or Merged()
        self.schedule.executor = self
        if self.schedule.delays and not self.tracing:
            ranks, shared = self.geometry.ranks, self.memory.shared
            self.memory.delays = Delays(
                lanes, self.threads_per_cta, ranks, shared, self.schedule.late_copies
            )
        self.waiting: dict[Any, Group] = {}
        self.gathering: dict[Any, Group] = {}
        self.blocked: list[Blocked] = []
        self.next_cluster = 0
        self.steps = 0
        self.most_steps = most_steps or (MAX_STEPS if data is None else RUN_STEPS)
        self.clock = 0
        self.stopped = False

    # The loop -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until all threads have ended, or none can go on."""
        with np.errstate(all="ignore"):
            self.admit()
            while True:
                group = self.schedule.pick()
                if group is not None:
                    self.advance(group)
                elif not self._recover():
                    break
        if self.waiting or self.gathering:
            self._stuck()

    def _recover(self) -> bool:
        """Nothing can run: wake what may go on, perform what is in flight, start more blocks."""
        if self.wake() or self.schedule.release() or self._seen() or self.admit():
            return True
        return converge.force(self)

    def _seen(self) -> bool:
        """Let everybody see all stores: they do not take for ever."""
        delays = self.memory.delays
        if delays is None or not delays.blocks.flush():
            return False
        self.memory.version += 1
        self.memory.global_version += 1
        return self.wake()

    def admit(self) -> bool:
        """Start the next batch of clusters; False when there are none left."""
        ranks = self.geometry.ranks
        clusters = self.geometry.ctas // ranks
        if self.next_cluster >= clusters or self.stopped:
            return False
        per_cluster = ranks * self.threads_per_cta
        count = min(max(1, BATCH_LANES // per_cluster), clusters - self.next_cluster)
        first = self.next_cluster * per_cluster
        self.next_cluster += count
        lanes = np.arange(first, first + count * per_cluster, dtype=np.int32)
        self.alive[lanes] = True
        block = self.plan.blocks[0]
        group = Group(self, lanes, block)
        for slot in block.live:
            group.env[slot] = self.undefined(slot)
        self.schedule.start(group)
        return True

    def undefined(self, slot: int) -> Any:
        """A register that nothing has defined: unknown, or zero where numbers are needed."""
        if self.tracing:
            return UNKNOWN
        return np.zeros(1, self.plan.containers[slot])

    def push(self, group: Group) -> None:
        """The group can run."""
        self.schedule.push(group)

    def merged(self, groups: list[Group]) -> Group:
        """Groups at one place as one."""
        first = groups[0]
        return merge(groups, self.live_at(first))

    def live_at(self, group: Group) -> tuple[int, ...]:
        """Slots that are live where the group stands."""
        if group.at == 0:
            return group.block.live
        return self.plan.live_from(group.block, group.at)

    def advance(self, group: Group) -> None:
        """Run a group until it waits, ends, or another one comes before it."""
        current: Group | None = group
        while current is not None:
            group = current
            block = group.block
            code = block.code
            size = len(code)
            while group.at < size:
                item = code[group.at]
                if item.__class__ is Run:
                    if group.held or self.fingerprints is not None:
                        self._watched(group, item)  # type: ignore[arg-type]
                    else:
                        env = group.env
                        for function in item.functions:  # type: ignore[union-attr]
                            function(env)
                    group.at += 1
                    continue
                next_group = self.execute(group, item)  # type: ignore[arg-type]
                if next_group is None:
                    return
                group = next_group
            current = self.leave(group, block)

    def _watched(self, group: Group, run: Run) -> None:
        """Scalar instructions while registers are held by operations that read them later, or are
        told apart by fingerprints."""
        for function, ins in zip(run.functions, run.instructions, strict=True):
            if self.fingerprints is not None:
                self.fingerprints.scalar(group, ins)
            for slot in _defined(ins):
                if slot in group.held:
                    self.overwritten(group, slot, ins)
            function(group.env)

    # One instruction ------------------------------------------------------------------------------

    def execute(self, group: Group, do: Do) -> Group | None:
        """An instruction with an effect; the group that goes on after it, None when none does."""
        if (
            do.together > 1
            and (group.complete != self.exits or group.whole < do.together)
            and not group.forced
        ):
            gathered = converge.gather(self, group, do)
            if gathered is None:
                return None
            group = gathered
        rows, maybe = None, False
        guard = do.ins.guard
        if guard is not None:
            flag = group.env[guard.slot]
            if flag.__class__ is np.ndarray and flag.shape[0] == 1:
                if bool(flag[0]) == guard.negated:
                    group.at += 1
                    return group
            else:
                rows, maybe = self._guarded(group, do, flag)
                if rows is not None and not rows.size:
                    group.at += 1
                    return group
        self.steps += 1
        step = ActualStep(self, group, do, rows)
        if maybe:
            step.maybe = step.doubtful = True
        self.memory.report, self.memory.lanes = step.report, step.lanes
        if self.fingerprints is not None:
            self.fingerprints.before(step)
        do.meaning(step)  # type: ignore[arg-type]
        if step.ready is not None:
            return self._wait(group, step)
        if step.gone:
            return self._gone(group, step)
        if self.fingerprints is not None:
            self.fingerprints.after(step)
        if self.tracing and do.ins.index in self.plan.feeds:
            self.origins.note(group, do, step.lanes)
        group.at += 1
        if self.schedule.interleaves:
            return self.schedule.after(group)
        return group

    def _guarded(self, group: Group, do: Do, flag: Any) -> tuple[np.ndarray | None, bool]:
        """(rows whose guard holds, None for all; whether that is not known)."""
        guard = do.ins.guard
        assert guard is not None
        if isinstance(flag, Pending):
            flag = self.used_early(group, flag, do.ins)
        if flag.__class__ is np.ndarray:
            mask = flag != guard.negated
            return (None if mask.all() else np.flatnonzero(mask)), False
        if do.ins.name not in unknown.HARMLESS:
            raise Unsupported(
                f"{do.ins.name} under a guard that depends on data",
                self.plan.location(do.ins),
                "give the tensors that it is read from an `init`",
            )
        if flag is UNKNOWN:
            return None, True
        mask = (flag.data != guard.negated) | ~flag.known
        return (None if mask.all() else np.flatnonzero(mask)), True

    def _wait(self, group: Group, step: ActualStep) -> Group | None:
        """Lanes that are not ready stay at the instruction; the others come to it again."""
        assert step.ready is not None
        stay = np.flatnonzero(~step.ready)
        if step.rows is not None:
            stay = step.rows[stay]
        if stay.size == group.n:
            self.park(group)
            return None
        live = self.plan.live_before(step.do)
        mask = np.ones(group.n, bool)
        mask[stay] = False
        self.park(group.part(stay, live))
        return group.part(np.flatnonzero(mask), live)

    def _gone(self, group: Group, step: ActualStep) -> Group | None:
        """Lanes that end in the middle of a block."""
        if group.way is not None:
            group.way.lost(step.lanes)
        else:
            self.end(step.lanes, step.ins.index, silent=True)
        if step.rows is None:
            joined = None if group.way is None else group.way.check(self)
            if joined is not None:
                self.push(joined)
            return None
        mask = np.ones(group.n, bool)
        mask[step.rows] = False
        live = self.plan.live_before(step.do)
        rest = group.part(np.flatnonzero(mask), live)
        rest.at += 1
        return rest

    # Waiting --------------------------------------------------------------------------------------

    def progress(self, kind: str) -> int:
        """A number that changes when what waits for this kind of thing may go on."""
        if kind == "memory":
            return self.memory.version
        if kind == "global":
            return self.memory.global_version
        if kind == "":
            return self.versions[""] + self.memory.version
        return self.versions[kind]

    def park(self, group: Group, version: int | None = None) -> None:
        """The group waits where it stands, for `group.waits_for`."""
        group.version = self.progress(group.waits_for) if version is None else version
        key = self.schedule.parking(group)
        there = self.waiting.get(key)
        if there is not None:
            what = there.what
            group = self.merged([there, group])
            group.what = what
        self.waiting[key] = group

    def wake(self) -> bool:
        """Make what may go on runnable again."""
        found = [
            key
            for key, group in self.waiting.items()
            if group.version != self.progress(group.waits_for)
        ]
        for key in found:
            self.push(self.waiting.pop(key))
        return bool(found)

    # Control flow ---------------------------------------------------------------------------------

    def leave(self, group: Group, block: Block) -> Group | None:
        """The end of a block."""
        self.steps += 1
        if self.steps > self.most_steps:
            self.stopped = True
            raise Unsupported(
                f"a run of more than {self.most_steps:,} steps (this loop may have no end)",
                self._place(block.ending.index),
                hint="fewer iterations show the same faults; --max-steps N allows more",
            )
        ending = block.ending
        if ending.kind == "goto":
            return self.go(group, block.targets[0], block)
        if ending.kind == "exit":
            return self.finish_lanes(group, ending.index)
        guard = ending.guard
        assert guard is not None
        flag = group.env[guard.slot]
        if isinstance(flag, Pending):
            flag = self.used_early(group, flag, self.plan.ending_ins(block))
        if ending.kind == "index":
            return self._indexed(group, block, flag)
        if flag.__class__ is not np.ndarray:
            return unknown.branch(self, group, block, flag)
        if flag.shape[0] == 1:
            return self.go(group, block.targets[bool(flag[0]) == guard.negated], block)
        return self.divide(group, block, flag == guard.negated)

    def divide(self, group: Group, block: Block, second: np.ndarray) -> Group | None:
        """Lanes of `second` (bool) go to the second target, the others to the first."""
        count = int(np.count_nonzero(second))
        if count in (0, group.n):
            return self.go(group, block.targets[count != 0], block)
        return self._to_each(group, block, second.astype(np.int8))

    def _to_each(self, group: Group, block: Block, choice: np.ndarray) -> Group | None:
        for k in np.unique(choice):
            target = block.targets[k]
            part = self.go(group.part(np.flatnonzero(choice == k), target.live), target, block)
            if part is not None:
                self.push(part)
        return None

    def _indexed(self, group: Group, block: Block, index: Any) -> Group | None:
        if index.__class__ is not np.ndarray:
            raise Unsupported(
                "a branch index that depends on data", self._place(block.ending.index)
            )
        beyond = index >= len(block.targets)
        if beyond.any():
            lanes = group.lanes if beyond.shape[0] == 1 else group.lanes[beyond]
            self.fault(
                Kind.UNDEFINED,
                f"branch index {int(index.max())} of {len(block.targets)} targets",
                self.plan.ending_ins(block),
                lanes,
            )
            index = np.minimum(index, len(block.targets) - 1)
        if (index == index[0]).all():
            return self.go(group, block.targets[int(index[0])], block)
        return self._to_each(group, block, index.astype(np.int64))

    def go(self, group: Group, target: Block, source: Block) -> Group | None:
        """To the start of a block; the group if it may go on at once."""
        group.block = target
        group.at = 0
        if self.tracing and source.number in self.plan.vague:
            inside, slots = self.plan.vague[source.number]
            if target.number not in inside:
                group.env |= dict.fromkeys(slots, UNKNOWN)
                if self.fingerprints is not None:
                    self.fingerprints.lost(group, slots)
        if group.way is not None and target.number == group.way.join:
            return group.way.arrive(self, group)
        if target.spin and not self._spin(group, target, source):
            return None
        return self.schedule.entered(group)

    def _spin(self, group: Group, head: Block, source: Block) -> bool:
        """Into a loop that only reads, or round it once more: then the lanes wait for a change of
        memory, and what they read is as if it had not been."""
        before, group.round = group.round, self.progress(head.spin_on)
        if source.number not in head.spin:
            peeled = head.peeled.get(source.number)
            if peeled and self.tracing:
                self._forget(group.lanes, peeled, 0, once=True)
            group.seen = self.next_event
            return True
        if self.tracing:
            self._forget(group.lanes, head.spin_instructions, group.seen)
            group.seen = self.next_event
        else:
            self.schedule.round_again(group)
        if before != group.round:
            return True
        group.waits_for, group.what = head.spin_on, "a change of the memory it reads in a loop"
        group.prune(head.live)
        self.park(group)
        return False

    def _forget(
        self, lanes: np.ndarray, instructions: frozenset[int], start: int, once: bool = False
    ) -> None:
        """Take lanes out of events since `start` (or out of the last one)."""
        for n in range(len(self.events) - 1, start - 1, -1):
            event = self.events[n]
            if event is not None and event.ins in instructions:
                self.events[n] = without(event, lanes)
                if once:
                    return

    def finish_lanes(self, group: Group, index: int) -> Group | None:
        """exit, or the end of the kernel."""
        way = group.way
        if way is not None:
            group.at = 0
            if way.join >= len(self.plan.blocks):
                return way.arrive(self, group)
            way.lost(group.lanes)
            return way.check(self)
        self.end(group.lanes, index)
        return None

    def end(self, lanes: np.ndarray, index: int, silent: bool = False) -> None:
        self.alive[lanes] = False
        self.exits += 1
        if not self.tracing:
            blocks = np.unique(lanes // self.threads_per_cta)
            alive = self.alive.reshape(-1, self.threads_per_cta)[blocks].any(axis=1)
            self.memory.ended[blocks] = ~alive
            self.memory.any_ended |= not alive.all()
        if not silent:
            self.emit(Exit(index, lanes))
        self.barriers.exited(lanes)
        self.bump("")

    # Stuck ----------------------------------------------------------------------------------------

    def _stuck(self) -> None:
        for group in self.gathering.values():
            group.what = "the other threads of its warp"
        for group in [*self.waiting.values(), *self.gathering.values()]:
            item = group.block.code[group.at] if group.at < len(group.block.code) else None
            index = item.ins.index if isinstance(item, Do) else self._first_read(group.block)
            what = self.barriers.explain(group, item) or group.what
            self.blocked.append(Blocked(index, group.lanes, what))

    def _first_read(self, block: Block) -> int:
        for number in sorted(block.spin) or [block.number]:
            for item in self.plan.blocks[number].code:
                if isinstance(item, Do) and item.wait == "spin":
                    return item.ins.index
        return block.ending.index


def _defined(ins: Ins) -> list[int]:
    found = ins.cache.get("slots")
    if found is None:
        found = ins.cache["slots"] = defined_slots(ins.dst)
    return found
