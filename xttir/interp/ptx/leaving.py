"""Which values end a loop that waits for memory: its code, executed on values it might read.

A trace shows one value on which a lane left the loop. Whether other values would do is asked of the
code itself: the read's register gets many values at once and the closures run until the loop's head
comes again or the loop is left. Where it depends on the result of an earlier atomic too (the old
value of a barrier that flips a bit), execution begins after that one, on possible results of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx.code import Block, Do, Run
from xttir.interp.ptx.instruction import UNKNOWN, Ins, Reg, registers
from xttir.interp.ptx.scalar import GROUP, container, fit
from xttir.interp.ptx.values import take
from xttir.interp.ptx.waits import Registers

if TYPE_CHECKING:
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group

HANDED = GROUP - 1
"""A slot of its own: what the lane has told its block in this round."""
STAYS, LEAVES, ELSEWHERE = 0, 1, 2
MAX_BLOCKS = 256
"""Blocks from an atomic to the end of the loop."""
MAX_AFTER = 8
"""Blocks after the loop in which the value may decide where to go."""


class Origins:
    """Registers of lanes after the atomics and strong reads that decide when loops end."""

    def __init__(self, executor: Executor):
        self.executor = executor
        self.snapshots: list[tuple[np.ndarray, dict[int, Any]]] = []
        self.latest: dict[int, np.ndarray] = {}
        """By instruction: for each lane the number of its latest snapshot, -1: none."""
        self.events: list[int] = []
        """By snapshot: index of the event."""
        self.instructions: dict[int, Do] = {}

    def note(self, group: Group, do: Do, lanes: np.ndarray) -> None:
        """`lanes` of a group have executed `do`, whose event is the last one."""
        index = do.ins.index
        latest = self.latest.get(index)
        if latest is None:
            latest = self.latest[index] = np.full(self.executor.alive.size, -1, np.int32)
            self.instructions[index] = do
        latest[lanes] = len(self.snapshots)
        live = self.executor.plan.live_from(do.block, do.at + 1)
        kept = {slot: group.env[slot] for slot in live if slot in group.env}
        self.snapshots.append((group.lanes, kept))
        self.events.append(self.executor.next_event - 1)

    def of(self, index: int, lanes: np.ndarray) -> np.ndarray:
        """int32 by lane: the event of its latest execution of instruction `index`, -1: none."""
        latest = self.latest.get(index)
        if latest is None:
            return np.full(lanes.size, -1, np.int32)
        number = latest[lanes]
        events = np.array([*self.events, -1], np.int32)
        return events[number]


class Leaving:
    """`events.Leaves` of the lanes of a group that read by `do` and leave the loop."""

    def __init__(self, executor: Executor, group: Group, do: Do):
        assert do.spin is not None
        self.executor = executor
        self.do = do
        self.spin = do.spin
        self.lanes = group.lanes
        self.start: Do | None = None
        self.numbers: np.ndarray | None = None
        self.env: dict[int, Any] = {}
        if self.spin.origin >= 0:
            self.start = executor.origins.instructions.get(self.spin.origin)
            latest = executor.origins.latest.get(self.spin.origin)
            self.numbers = None if latest is None else latest[group.lanes]
        else:
            self.env = {s: v for s, v in group.env.items() if s >= 0 and self.spin.slots >> s & 1}

    def registers(self, lanes: np.ndarray) -> list[np.ndarray]:
        """What it depends on: rows by lane (or one for all)."""
        if self.spin.origin >= 0:
            return [lanes.astype(np.int64)]
        rows = np.searchsorted(self.lanes, lanes)
        values = [take(v, rows) for v in self.env.values() if v.__class__ is np.ndarray]
        return [v if v.shape[0] > 1 else np.broadcast_to(v, (lanes.size,)) for v in values]

    def __call__(
        self, lane: int, values: np.ndarray, results: np.ndarray | None
    ) -> tuple[np.ndarray, bool] | None:
        """See `events.Leaves`."""
        row = int(np.searchsorted(self.lanes, lane))
        lanes, stored = self.lanes, self.env
        if self.start is not None and self.numbers is not None and self.numbers[row] >= 0:
            lanes, stored = self.executor.origins.snapshots[int(self.numbers[row])]
        elif self.spin.origin >= 0:
            return None
        index = np.array([int(np.searchsorted(lanes, lane))])
        env = Registers()
        for slot, value in stored.items():
            if value.__class__ is np.ndarray:
                env[slot] = take(value, index)
        env[GROUP] = _Lane(self.executor, lane)
        walk = _Walk(self, values)
        rows = np.arange(values.size)
        with np.errstate(all="ignore"):
            if self.start is None:
                _put(env, self.do.ins, values)
                done = walk.follow(self.do.block, self.do.at + 1, env, rows, False)
            else:
                assert results is not None
                _put(env, self.start.ins, results)
                done = walk.follow(self.start.block, self.start.at + 1, env, rows, True)
        if not done:
            return None
        ways = np.where(walk.out == LEAVES, walk.ways, 0)
        return ways, bool((walk.out == ELSEWHERE).any())


class _Walk:
    """From an instruction on to the head of the loop, or out of it. `out`: what became of each of
    the values."""

    def __init__(self, leaving: Leaving, values: np.ndarray):
        self.leaving = leaving
        self.values = values
        self.head = leaving.spin.head
        self.out = np.full(values.size, ELSEWHERE, np.int8)
        self.ways = np.zeros(values.size, np.int32)
        self.blocks = 0

    def follow(
        self, block: Block, at: int, env: Registers, rows: np.ndarray, to_read: bool
    ) -> bool:
        """Execute for the values `rows`; `to_read`: the read is still to come. False: something
        is not known."""
        while True:
            self.blocks += 1
            if self.blocks > MAX_BLOCKS:
                return False
            what = self._through(block, at, env, rows, to_read)
            if what == "elsewhere":
                return True
            if what == "unknown":
                return False
            to_read = to_read and what != "read"
            targets = self._targets(block, env, rows)
            if targets is None:
                return False
            if not targets:
                self.out[rows] = ELSEWHERE if to_read else LEAVES
                return True
            for target, part in targets[1:]:
                mine = _part(env, rows, part)
                if not self._enter(target, mine, rows[part], to_read):
                    return False
            target, part = targets[0]
            if len(targets) > 1:
                env, rows = _part(env, rows, part), rows[part]
            if self._over(target, env, rows, to_read):
                return True
            block, at = target, 0

    def _through(
        self, block: Block, at: int, env: Registers, rows: np.ndarray, to_read: bool
    ) -> str:
        """To the end of a block: "read" when the read was in it, "elsewhere" when the atomic comes
        again first, "unknown"."""
        what = ""
        for item in block.code[at:]:
            if isinstance(item, Run):
                if not _execute(item, env):
                    return "unknown"
            elif to_read and not what and item.spin is not None and item.spin.head is self.head:
                _put(env, item.ins, self.values[rows])
                what = "read"
            elif item is self.leaving.start:
                return "elsewhere"
            elif item.hands_on and item.ins.name == "st":
                env[HANDED] = _handed(item.ins, env)
            elif item.hands_on:
                for reg in registers(item.ins.dst):
                    env[reg.slot] = env.get(HANDED, UNKNOWN)
            else:
                for reg in registers(item.ins.dst):
                    env[reg.slot] = UNKNOWN
        return what

    def _enter(self, target: Block, env: Registers, rows: np.ndarray, to_read: bool) -> bool:
        if self._over(target, env, rows, to_read):
            return True
        return self.follow(target, 0, env, rows, to_read)

    def _over(self, target: Block, env: Registers, rows: np.ndarray, to_read: bool) -> bool:
        """Whether the way ends before `target`: the loop begins again, or is left."""
        if to_read:
            return False
        if target is self.head:
            self.out[rows] = STAYS
            return True
        if target.number not in self.head.spin:
            self.out[rows] = LEAVES
            self._beyond(target, env, rows, ())
            return True
        return False

    def _beyond(
        self, block: Block, env: Registers, rows: np.ndarray, before: tuple[int, ...]
    ) -> None:
        """Which way the values `rows` go after the loop, as far as they decide it."""
        while True:
            before += (block.number,)
            targets = None
            if len(before) < MAX_AFTER and self._through(block, 0, env, rows, False) != "unknown":
                targets = self._targets(block, env, rows)
            if not targets or any(t.number in before or t is self.head for t, _ in targets):
                if targets and len(targets) > 1:
                    for target, part in targets:
                        self._number(rows[part], (*before, target.number))
                else:
                    self._number(rows, before)
                return
            for target, part in targets[1:]:
                self._beyond(target, _part(env, rows, part), rows[part], before)
            block, part = targets[0]
            if len(targets) > 1:
                env, rows = _part(env, rows, part), rows[part]

    def _number(self, rows: np.ndarray, way: tuple[int, ...]) -> None:
        known = self.leaving.executor.plan.ways
        self.ways[rows] = known.setdefault(way, len(known) + 1)

    def _targets(
        self, block: Block, env: Registers, rows: np.ndarray
    ) -> list[tuple[Block, np.ndarray]] | None:
        """Where the end of a block leads, and which of the rows; none: the kernel ends."""
        ending = block.ending
        every = np.arange(rows.size)
        if ending.kind == "exit":
            return []
        if ending.kind == "goto":
            return [(block.targets[0], every)]
        if ending.kind != "branch":
            return None
        assert ending.guard is not None
        flag = env[ending.guard.slot]
        if flag.__class__ is not np.ndarray:
            target = self.leaving.executor.plan.idle.get(block.number)
            return None if target is None else [(target, every)]
        second = np.broadcast_to(flag == ending.guard.negated, rows.shape)
        found = [(block.targets[0], every[~second]), (block.targets[1], every[second])]
        return [(target, part) for target, part in found if part.size]


def _execute(run: Run, env: Registers) -> bool:
    try:
        for function in run.functions:
            function(env)
    except Exception:
        return False
    return True


def _put(env: Registers, ins: Ins, values: np.ndarray) -> None:
    """The results of a read or atomic, uint64, in its register."""
    reg = ins.dst[0]
    assert isinstance(reg, Reg)
    type_ = ins.modifiers[-1]
    raw = values.astype(f"u{int(type_.lstrip('busf')) // 8}")
    env[reg.slot] = fit(raw, container(reg.type), type_.startswith("s"))


def _handed(ins: Ins, env: Registers) -> Any:
    """What a lane stores for its block; UNKNOWN where it may be another one that does."""
    source = ins.src[1]
    assert isinstance(source, Reg)
    if ins.guard is not None:
        flag = env[ins.guard.slot]
        if flag.__class__ is not np.ndarray or (flag == ins.guard.negated).any():
            return UNKNOWN
    return env[source.slot]


def _part(env: Registers, rows: np.ndarray, part: np.ndarray) -> Registers:
    out = Registers(env)
    for slot, value in env.items():
        if value.__class__ is np.ndarray and value.shape[0] == rows.size > 1:
            out[slot] = value[part]
    return out


class _Lane:
    """What closures ask of the group, for one lane."""

    n = 1

    def __init__(self, executor: Executor, lane: int):
        self.executor = executor
        self.cta = np.array([lane // executor.threads_per_cta], np.int32)
        self.tid = np.array([lane % executor.threads_per_cta], np.int32)
        self.rows_cta = self.cta

    def special(self, name: str) -> Any:
        return self.executor.special(name, self)  # type: ignore[arg-type]

    def symbol(self, name: str, offset: int) -> Any:
        return self.executor.symbol(name, offset, self)  # type: ignore[arg-type]

    def used_early(self, value: Any, ins: Ins) -> Any:
        return UNKNOWN
