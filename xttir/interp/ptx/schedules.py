"""Who runs next, and when asynchronous operations are performed.

`Merged` runs everything that stands at the same place together and performs operations at issue:
what a trace is, and the schedule "first". The others run warps by themselves and may change between
them at every event: at random, against the program, or as a witness says.
"""

from __future__ import annotations

import heapq
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.analyses.events import AsyncOp, ByBytes, ClusterBarrier, Event
from xttir.diagnostics import InputError
from xttir.interp.ptx.step import Task

if TYPE_CHECKING:
    from xttir.interp.ptx.actual_step import ActualStep
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group


class Schedule:
    """The decisions of one run. `executor` is set when it starts."""

    interleaves = False
    """Asked after every instruction with an effect (`after`)."""
    delays = False
    """Stores are seen by the async proxy and by other blocks as late as can be."""
    late_copies = False
    """So is what cp.async has copied by the async proxy: the letter asks for a fence there that
    shipped kernels do without (docs/trust.md)."""
    peeks_false = False
    """A try_wait that is tried once says False, as in a trace."""
    executor: Executor

    def start(self, group: Group) -> None:
        """A batch of blocks begins."""
        self.push(group)

    def push(self, group: Group) -> None:
        """The group can run."""
        raise NotImplementedError

    def pick(self) -> Group | None:
        """The group that runs now; None: none can."""
        raise NotImplementedError

    def entered(self, group: Group) -> Group | None:
        """A group is at the start of a block: it goes on, or is pushed."""
        return group

    def after(self, group: Group) -> Group | None:
        """An instruction with an effect is done: the group goes on, or is pushed."""
        return group

    def parking(self, group: Group) -> Any:
        """Groups with the same key wait as one."""
        return id(group)

    def happened(self, event: Event) -> None:
        """An event, in a run."""

    def round_again(self, group: Group) -> None:
        """The lanes go round a loop that only reads; what they did there has not happened."""

    def submitted(self, task: Task) -> bool:
        """Whether an operation is performed as soon as it is issued."""
        return True

    def in_flight(self, task: Task, step: ActualStep) -> None:
        """An operation was issued and is not performed yet."""

    def release(self) -> bool:
        """Nothing can run: perform an operation that is in flight; False when there is none."""
        tasks = self.executor.tasks
        if not tasks:
            return False
        self.executor.perform(*tasks[0])
        return True


class Merged(Schedule):
    """Everybody together, lowest block first; operations are performed when they are issued."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.ready: dict[int, list[Group]] = {}

    def push(self, group: Group) -> None:
        number = group.block.number
        there = self.ready.get(number)
        if there is None:
            self.ready[number] = [group]
            heapq.heappush(self.queue, number)
        else:
            there.append(group)

    def pick(self) -> Group | None:
        """The lanes at the lowest place, as one group."""
        if not self.queue:
            return None
        number = self.queue[0]
        there = self.ready[number]
        if len(there) == 1:
            rest: list[Group] = []
            mine = there
        else:
            first = min(there, key=lambda g: g.at)
            mine = [g for g in there if g.at == first.at and g.way is first.way]
            rest = [g for g in there if g.at != first.at or g.way is not first.way]
        if rest:
            self.ready[number] = rest
        else:
            del self.ready[number]
            heapq.heappop(self.queue)
        return mine[0] if len(mine) == 1 else self.executor.merged(mine)

    def entered(self, group: Group) -> Group | None:
        if self.queue and self.queue[0] <= group.block.number:
            self.push(group)
            return None
        return group

    def parking(self, group: Group) -> Any:
        return (group.block.number, group.at, group.way)


class Backward(Schedule):
    """Clusters by themselves, the last one first, each as far as it gets; like `Merged` in each."""

    def __init__(self) -> None:
        self.queues: dict[int, Merged] = {}

    def start(self, group: Group) -> None:
        cluster = self._clusters(group)
        for rows in np.split(np.arange(group.n), np.flatnonzero(np.diff(cluster)) + 1):
            self.push(group.part(rows, group.block.live))

    def _clusters(self, group: Group) -> np.ndarray:
        return group.cta // self.executor.geometry.ranks

    def _queue(self, group: Group) -> Merged:
        cluster = int(self._clusters(group)[0])
        known = self.queues.get(cluster)
        if known is None:
            known = self.queues[cluster] = Merged()
            known.executor = self.executor
        return known

    def push(self, group: Group) -> None:
        self._queue(group).push(group)

    def pick(self) -> Group | None:
        last = max((c for c, queue in self.queues.items() if queue.queue), default=-1)
        return None if last < 0 else self.queues[last].pick()

    def entered(self, group: Group) -> Group | None:
        return self._queue(group).entered(group)

    def parking(self, group: Group) -> Any:
        return (int(self._clusters(group)[0]), *self._queue(group).parking(group))


class _Warps(Schedule):
    """Warps by themselves; operations stay in flight until somebody says otherwise."""

    interleaves = True

    def __init__(self) -> None:
        self.runnable: list[Group] = []

    def start(self, group: Group) -> None:
        for rows in self.pieces(group):
            self.push(group.part(rows, group.block.live))

    def pieces(self, group: Group) -> list[np.ndarray]:
        """Rows of the lanes that run by themselves."""
        warp = group.cta.astype(np.int64) * (1 << 20) + (group.tid >> 5)
        return np.split(np.arange(group.n), np.flatnonzero(np.diff(warp)) + 1)

    def push(self, group: Group) -> None:
        self.runnable.append(group)

    def pick(self) -> Group | None:
        return self.runnable.pop() if self.runnable else None

    def submitted(self, task: Task) -> bool:
        return False


def _latest(executor: Executor) -> bool:
    """Perform the last operation that an mbarrier hears of, else the last one at all."""
    tasks = executor.tasks
    if not tasks:
        return False
    heard = [pair for pair in tasks if _signals(pair[0])]
    executor.perform(*(heard or tasks)[-1])
    return True


def _signals(task: Task) -> bool:
    """Whether an mbarrier hears of the operation; groups are waited for by name."""
    event = task.event
    return not isinstance(event, AsyncOp) or isinstance(event.completion, ByBytes)


class Random(_Warps):
    """Any warp may run at any event, any operation may be performed between two; with odd seeds
    stores are seen late."""

    def __init__(self, seed: int):
        super().__init__()
        self.random = random.Random(seed)
        self.delays = seed % 2 == 1

    def pick(self) -> Group | None:
        executor = self.executor
        executor.wake()
        tasks = executor.tasks
        while tasks and self.random.random() < 0.3:
            executor.perform(*tasks[self.random.randrange(len(tasks))])
            executor.wake()
        if not self.runnable:
            return None
        at = self.random.randrange(len(self.runnable))
        self.runnable[at], self.runnable[-1] = self.runnable[-1], self.runnable[at]
        return self.runnable.pop()

    def in_flight(self, task: Task, step: ActualStep) -> None:
        if self.random.random() < 0.2:
            self.executor.count_early(task, step)

    def after(self, group: Group) -> Group | None:
        if self.random.random() < 0.5:
            return group
        self.push(group)
        return None

    def release(self) -> bool:
        tasks = self.executor.tasks
        if not tasks:
            return False
        self.executor.perform(*tasks[self.random.randrange(len(tasks))])
        return True


class Adversarial(_Warps):
    """A warp runs as far as it can before another one does, the last one first. Operations are
    performed when nothing else can happen, the last one first and what nobody can be waiting for
    after all others; some of their bytes are counted before they are there, and stores are seen
    late. After a cluster barrier the last block goes first, as far as to its end."""

    delays = True

    def __init__(self) -> None:
        super().__init__()
        self.together = False

    def pick(self) -> Group | None:
        if self.executor.geometry.ranks > 1 and len(self.runnable) > 1:
            last = max(range(len(self.runnable)), key=lambda n: self.runnable[n].lanes[0])
            return self.runnable.pop(last)
        return super().pick()

    def happened(self, event: Event) -> None:
        self.together |= isinstance(event, ClusterBarrier)

    def after(self, group: Group) -> Group | None:
        if not self.together:
            return group
        self.together = False
        self.push(group)
        self.executor.wake()
        return None

    def in_flight(self, task: Task, step: ActualStep) -> None:
        self.executor.count_early(task, step)

    def release(self) -> bool:
        return _latest(self.executor)


class Witness(_Warps):
    """As a file says: see `xttir.analyses.schedules`. What it does not list runs afterwards,
    threads before operations in flight."""

    peeks_false = True

    def __init__(self, schedule: dict[str, Any]):
        super().__init__()
        self.steps = checked_steps(schedule)
        self.delays = self.late_copies = schedule.get("stale") is True
        self.at = 0
        self.wanted: set[tuple[int, int]] = set()
        self.named: dict[tuple[int, int], Task] = {}
        cuts: set[int] = set()
        self.watched: set[int] = set()
        for step in self.steps:
            if "lanes" in step:
                cuts |= {step["lanes"][0], step["lanes"][1] + 1}
            else:
                self.watched.add(step["complete"]["lane"])
        self.ordered = sorted(cuts)
        self.issued = dict.fromkeys(self.watched, 0)

    def start(self, group: Group) -> None:
        self.quota = np.zeros(self.executor.alive.size, np.int64)
        self.spent = np.zeros(self.executor.alive.size, np.int64)
        super().start(group)

    def pieces(self, group: Group) -> list[np.ndarray]:
        out = []
        for rows in super().pieces(group):
            lanes = group.lanes[rows]
            inner = np.searchsorted(lanes, [c for c in self.ordered if lanes[0] < c <= lanes[-1]])
            out += [piece for piece in np.split(rows, inner) if piece.size]
        return out

    def pick(self) -> Group | None:
        while True:
            self._land()
            self.executor.wake()
            for at in range(len(self.runnable) - 1, -1, -1):
                group = self.runnable[at]
                if self.at > len(self.steps) or (self.quota[group.lanes] > 0).all():
                    return self.runnable.pop(at)
            if self.at >= len(self.steps):
                if self.at > len(self.steps):
                    return None
                self.at += 1
                continue
            self._next_step()

    def _next_step(self) -> None:
        step = self.steps[self.at]
        self.at += 1
        if "lanes" in step:
            first, last = step["lanes"]
            self.quota[first : last + 1] += step["events"]
        else:
            self.wanted.add((step["complete"]["lane"], step["complete"]["op"]))

    def _land(self) -> None:
        for key in list(self.wanted):
            task = self.named.get(key)
            if task is not None:
                self.wanted.discard(key)
                self.executor.perform(task)

    def after(self, group: Group) -> Group | None:
        if self.wanted:
            self._land()
        if group.n > 1 and self.at <= len(self.steps):
            pieces = self.pieces(group)
            if len(pieces) > 1:  # brought together by an instruction of the warp
                live = self.executor.live_at(group)
                for rows in pieces:
                    self.push(group.part(rows, live))
                return None
        if self.at > len(self.steps) or (self.quota[group.lanes] > 0).all():
            return group
        self.push(group)
        return None

    def happened(self, event: Event) -> None:
        self.quota[event.lanes] -= 1
        self.spent[event.lanes] += 1

    def entered(self, group: Group) -> Group | None:
        if group.block.spin:
            group.seen = int(self.spent[group.lanes[0]])
        return group

    def round_again(self, group: Group) -> None:
        """Rounds of a loop that waits are no events of the trace."""
        again = self.spent[group.lanes] - group.seen
        self.quota[group.lanes] += again
        self.spent[group.lanes] -= again

    def release(self) -> bool:
        return _latest(self.executor)

    def submitted(self, task: Task) -> bool:
        for lane in self.watched.intersection(task.event.lanes.tolist()):
            self.named[lane, self.issued[lane]] = task
            self.issued[lane] += 1
        return False


def checked_steps(schedule: Any) -> list[dict[str, Any]]:
    """The steps of a witness; InputError where one is not of the format."""
    steps = schedule.get("steps") if isinstance(schedule, dict) else None
    if not isinstance(steps, list):
        raise InputError("a schedule is an object with a list `steps`")
    for step in steps:
        lanes = step.get("lanes") if isinstance(step, dict) else None
        what = step.get("complete") if isinstance(step, dict) else None
        if lanes is not None:
            pair = isinstance(lanes, list) and len(lanes) == 2
            good = pair and all(isinstance(x, int) for x in [*lanes, step.get("events")])
            good = good and 0 <= lanes[0] <= lanes[1]
        else:
            keys = what if isinstance(what, dict) else {}
            good = all(isinstance(keys.get(key), int) for key in ("lane", "op"))
        if not good:
            raise InputError(f"not a step of a schedule: {step}")
    return steps


def schedule_of(text: str | dict[str, Any]) -> Schedule:
    """The schedule that `first`, `random:SEED`, `adversarial`, a witness or its file names."""
    if isinstance(text, dict):
        return Witness(text)
    word, _, number = text.partition(":")
    if text == "first":
        return Merged()
    if text == "adversarial":
        return Adversarial()
    if word == "random" and number.lstrip("-").isdigit():
        return Random(int(number))
    return Witness(read_witness(text))


def read_witness(path: str) -> dict[str, Any]:
    """The JSON of a witness file; InputError when it cannot be read."""
    try:
        return json.loads(Path(path).read_text())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"no schedule `{path}`: {reason}", hint=SCHEDULES) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"schedule `{path}` is not JSON: {error}") from None


SCHEDULES = "schedules: first, random:SEED, adversarial, or a witness file"
