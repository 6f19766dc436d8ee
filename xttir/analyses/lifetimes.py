"""Lifetimes: of mbarriers, of tensor memory, and of a block's memory at its end.

Shared and tensor memory go with the last thread of their block, so what another block or an
asynchronous operation does to them must be over before some thread of it ends. Tensor memory is
freed by whoever allocated it (PTX ISA 9.1, 9.7.16.7); an mbarrier's word is given back by inval.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xttir.analyses.records import Record
from xttir.analyses.replay import Barrier

OUTLIVES = frozenset({"cp.async", "tcgen05.ld", "tcgen05.st"})
"""Engines whose operations may be outstanding when their own block ends."""


@dataclass(slots=True)
class LifetimeFault:
    """`what`: "exit" (something outlives the memory of block `cta`), "leak", "not allocated",
    "second init", "inval in use"; "arrives twice" and "waits without arriving", at the cluster
    barrier. Positions are in the views; rows of the events' lanes."""

    what: str
    at: int
    cta: int
    other: int = -1
    """Position of another event to show: -1 none."""
    numbers: tuple[int, ...] = ()
    lanes: tuple[int, ...] = ()
    signal: bool = False
    """It is a signal to an mbarrier that outlives it."""


@dataclass(slots=True)
class Lasting:
    """The latest of what an instruction does to a block's memory, by the chain that ends it."""

    at: int
    value: int
    lanes: tuple[int, ...]
    signal: bool
    other: tuple[int, int] | None = None
    """A second chain and value, either of which will do."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A signal that comes when asynchronous work is done. It has come for whoever knows that phase
    `phase` is complete, or all of `over` (chains, values): what is known to come after it."""

    phase: int
    over: tuple[np.ndarray, np.ndarray] | None

    def has_come(self, barrier: Barrier, chain: int, known: np.ndarray) -> bool:
        if known[chain] >= barrier.mark(self.phase):
            return True
        return self.over is not None and bool((known[self.over[0]] >= self.over[1]).all())


@dataclass(slots=True)
class Lifetimes:
    threads: int
    faults: list[LifetimeFault] = field(default_factory=list)
    lasting: dict[tuple[int, int, int], Lasting] = field(default_factory=dict)
    """By (block, instruction, chain)."""
    ended: dict[int, np.ndarray] = field(default_factory=dict)
    """By block: joined clocks of the ends of its threads, in time."""
    left: dict[int, int] = field(default_factory=dict)
    """By block: threads that have ended."""
    allocated: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By (block, first column): position of the allocation, columns."""
    used: dict[Barrier, np.ndarray] = field(default_factory=dict)
    """By rep: epoch of its last use of the barrier."""

    deferred: dict[Barrier, dict[tuple[int, int], Deferred]] = field(default_factory=dict)
    """By instruction and first lane: the latest signal that asynchronous work makes."""

    # Memory of a block ------------------------------------------------------------------------

    def touch(self, record: Record, reached: list[tuple[int, int]]) -> None:
        """An access to shared or tensor memory: (actor, block whose memory it is) pairs."""
        asynchronous = record.nature.engine and record.nature.engine not in OUTLIVES
        for actor, cta in reached:
            lane = int(record.lanes[int(np.argmax(record.actor == actor))])
            if asynchronous or lane // self.threads != cta:
                chain, value = int(record.chain[actor]), int(record.value[actor])
                self.last(cta, record.ins, chain, Lasting(record.at, value, (lane,), False))

    def last(self, cta: int, ins: int, chain: int, entry: Lasting) -> None:
        key = (cta, ins, chain)
        old = self.lasting.get(key)
        if old is None or old.value <= entry.value:
            self.lasting[key] = entry

    def exit(self, cta: int, threads: int, clock: np.ndarray) -> None:
        """`threads` threads of a block end; `clock`: joined over them."""
        old = self.ended.get(cta)
        self.ended[cta] = clock.copy() if old is None else np.maximum(old, clock)
        self.left[cta] = self.left.get(cta, 0) + threads

    def finish(self, complete: bool) -> None:
        """`complete`: the schedule came to its end."""
        told: set[tuple[int, int]] = set()
        for (cta, ins, chain), entry in self.lasting.items():
            clock = self.ended.get(cta)
            if clock is None or self.left[cta] < self.threads or clock[chain] >= entry.value:
                continue
            if entry.other is not None and clock[entry.other[0]] >= entry.other[1]:
                continue
            if (cta, ins) not in told:
                told.add((cta, ins))
                self.faults.append(
                    LifetimeFault("exit", entry.at, cta, lanes=entry.lanes, signal=entry.signal)
                )
        if complete:
            for (cta, base), (at, columns) in self.allocated.items():
                self.faults.append(LifetimeFault("leak", at, cta, numbers=(base, columns)))

    # Tensor memory ----------------------------------------------------------------------------

    def allocate(self, at: int, ctas: list[int], base: int, columns: int) -> None:
        for cta in ctas:
            self.allocated[cta, base] = (at, columns)

    def free(self, at: int, ctas: list[int], base: int, columns: int) -> None:
        for cta in ctas:
            known = self.allocated.pop((cta, base), None)
            if known is None or known[1] != columns:
                other = -1 if known is None else known[0]
                numbers = (base, columns)
                self.faults.append(LifetimeFault("not allocated", at, cta, other, numbers))

    # mbarriers --------------------------------------------------------------------------------

    def use(self, barrier: Barrier, reps: np.ndarray, epochs: np.ndarray, count: int) -> None:
        """Reps use a barrier (`count`: of all reps)."""
        known = self.used.get(barrier)
        if known is None:
            known = self.used[barrier] = np.zeros(count, np.int32)
        known[reps] = epochs

    def end(self, barrier: Barrier, at: int, how: int, known: np.ndarray, chain: int) -> None:
        """A barrier's life ends; `known`: clock of the thread that ends it, in time."""
        if how == 2:
            fault = LifetimeFault("second init", at, barrier.cta, barrier.view)
            self.faults.append(fault)
        used = self.used.get(barrier)
        signals = self.deferred.get(barrier, {}).values()
        pending = any(not s.has_come(barrier, chain, known) for s in signals)
        if pending or (used is not None and (known[: len(used)] < used).any()):
            touches = [t for p in barrier.phases for t in (*p.touches, *p.waits)]
            other = max((t.view for t in touches if t.view < at), default=barrier.view)
            self.faults.append(LifetimeFault("inval in use", at, barrier.cta, other))
