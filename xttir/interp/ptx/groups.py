"""Async groups: which operations a commit closes and a wait covers, thread by thread.

cp.async and bulk groups belong to a thread, wgmma groups to a warpgroup, whose threads do the same.
PTX ISA 9.1, sections 9.7.9.25.3 and 9.7.15.7. Only operations that something is still to be done
for are kept: when tracing, the ones that write registers, and stores to tensor memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xttir.interp.ptx.step import Step, Task


def _within(lanes: np.ndarray, others: np.ndarray) -> np.ndarray | bool:
    """Which of `lanes` are in `others`; a bool when it is all or none of them."""
    if lanes is others or np.array_equal(lanes, others):
        return True
    found = np.isin(lanes, others, assume_unique=True)
    if found.all():
        return True
    return found if found.any() else False


@dataclass(slots=True, eq=False)
class _Entry:
    lanes: np.ndarray
    tasks: list[Task]


@dataclass(slots=True, eq=False)
class Groups:
    """Open operations and committed groups of one engine, oldest first."""

    open: list[_Entry] = field(default_factory=list)
    committed: list[_Entry] = field(default_factory=list)

    def add(self, task: Task, lanes: np.ndarray) -> None:
        self.open.append(_Entry(lanes, [task]))

    def commit(self, lanes: np.ndarray) -> None:
        self.committed.append(_Entry(lanes, self._take(self.open, lanes)))

    def wait(self, lanes: np.ndarray, pending: int, everything: bool = False) -> list[Task]:
        """The operations that are complete when at most `pending` of the newest groups are not."""
        counts = np.zeros(lanes.size, np.int64)
        out: list[Task] = []
        keep: list[_Entry] = []
        for entry in reversed(self.committed):
            mine = _within(lanes, entry.lanes)
            if mine is False:
                keep.append(entry)
                continue
            covered = counts >= pending
            if mine is not True:
                covered &= mine
            counts += 1 if mine is True else mine
            if covered.any():
                out = entry.tasks + out
                entry.lanes = np.setdiff1d(entry.lanes, lanes[covered], assume_unique=True)
            if entry.lanes.size:
                keep.append(entry)
        self.committed = keep[::-1]
        if everything:
            out += self._take(self.open, lanes)
        return out

    def has(self, lanes: np.ndarray) -> bool:
        """Whether some of the lanes have issued what they have not waited for."""
        entries = (*self.open, *self.committed)
        return any(_within(lanes, entry.lanes) is not False for entry in entries)

    @staticmethod
    def _take(entries: list[_Entry], lanes: np.ndarray) -> list[Task]:
        """Remove `lanes` from the entries; the tasks of those that had any of them."""
        tasks: list[Task] = []
        keep: list[_Entry] = []
        for entry in entries:
            mine = _within(entry.lanes, lanes)
            if mine is False:
                keep.append(entry)
                continue
            tasks += entry.tasks
            if mine is not True:
                keep.append(_Entry(entry.lanes[~mine], entry.tasks))
        entries[:] = keep
        return tasks


def groups(step: Step, engine: str) -> Groups:
    """The groups of the launch of `engine` ("cp.async", "bulk", "wgmma", "tcgen05.ld", ..)."""
    return step.state.setdefault(f"groups {engine}", Groups())


class InFlight:
    """Operations that later ones of the same lanes may have to follow, in order of issue."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def add(self, task: Task) -> None:
        self.tasks.append(task)

    def before(self, lanes: np.ndarray) -> list[Task]:
        """Those of `lanes` that have not been performed."""
        self.tasks = [t for t in self.tasks if not t.done]
        return [t for t in self.tasks if _within(lanes, t.event.lanes) is not False]


def in_flight(step: Step, engine: str) -> InFlight:
    return step.state.setdefault(f"in flight {engine}", InFlight())
