"""Replay of a trace's mbarriers: the phase of every update and wait in this one schedule.

Asynchronous operations complete where they are issued. The object follows PTX ISA 9.1, 9.7.13.15:
a phase completes when no arrival and no byte is pending; a parity wait names the phase before the
current one when its parity differs. `expect_tx` may complete a phase too (seen on hardware).
Whether every schedule gives the same phases is `phases.certify`'s question, not this file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.project import Blocks, View

LIMIT = 2**20 - 1
"""Largest count of arrivals or bytes that the object holds."""


@dataclass(slots=True, eq=False)
class Barrier:
    """One life of an mbarrier object, from its init on. `chain`: number of the object, the same
    for every life at this place; `base`: what the object counted before this life."""

    chain: int
    cta: int
    address: int
    base: int
    count: int
    view: int
    """Position of the init."""
    row: int
    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0
    phases: list[Phase] = field(default_factory=list)

    def mark(self, phase: int) -> int:
        """Value on the object's chain once `phase` is complete; -1: once it is initialised."""
        return self.base + phase + 2


@dataclass(slots=True, eq=False)
class Phase:
    index: int
    expected: int
    touches: list[Touch] = field(default_factory=list)
    waits: list[Touch] = field(default_factory=list)
    completed: Touch | None = None
    """The update that completed it in this schedule."""


@dataclass(slots=True, eq=False)
class Touch:
    """What one event does to one barrier in one phase.

    `rows`: rows of the event's lanes (units) that do it, None: all. `column`: of the barrier
    operands (multicast). Totals over the rows; `late`: a deferred arrival (commit, cp.async).
    """

    view: int
    barrier: Barrier
    phase: int
    rows: np.ndarray | None
    column: int = 0
    arrivals: int = 0
    expect: int = 0
    landed: int = 0
    raised: int = 0
    """Arrivals added to the pending count first (cp.async.mbarrier.arrive without noinc)."""
    late: bool = False
    wait: bool = False
    peek: bool = False
    completes: bool = False

    @property
    def current(self) -> Phase:
        return self.barrier.phases[self.phase]


@dataclass(slots=True)
class Trouble:
    """Something the replay itself finds wrong. `what` is a word for `phases` to turn into text."""

    what: str
    view: int
    rows: np.ndarray | None
    barrier: Barrier | None
    numbers: tuple[int, ...] = ()


@dataclass(slots=True)
class Replay:
    touches: dict[int, list[Touch]] = field(default_factory=dict)
    """By position of the event in the views; in the order in which they happened."""
    barriers: list[Barrier] = field(default_factory=list)
    ended: dict[int, list[tuple[Barrier, int]]] = field(default_factory=dict)
    """Lives ended by inval, or (2) by another init without one: by position."""
    born: dict[int, list[Barrier]] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    chains: int = 0


class _Machine:
    def __init__(self, blocks: Blocks):
        self.blocks = blocks
        self.first = blocks.first
        self.live: dict[tuple[int, int], Barrier] = {}
        self.chain: dict[tuple[int, int], int] = {}
        self.counted: dict[tuple[int, int], int] = {}
        self.out = Replay()

    def run(self) -> Replay:
        for at, view in enumerate(self.blocks.views):
            event = view.event
            match event:
                case ev.BarrierInit():
                    self.init(at, view, event)
                case ev.BarrierInval():
                    self.inval(at, view, event)
                case ev.Arrive():
                    self.arrive(at, view, event)
                case ev.ExpectTx():
                    self.transfer(at, view, event.address, event.cta, event.bytes, 1)
                case ev.CompleteTx():
                    self.transfer(at, view, event.address, event.cta, event.bytes, -1)
                case ev.AsyncOp(completion=ev.ByBytes() as done):
                    unit = event.unit
                    self.transfer(at, view, done.address, done.cta, done.bytes, -1, unit)
                case ev.Wait():
                    self.wait(at, view, event)
                case _:
                    pass
        self.out.chains = len(self.chain)
        return self.out

    # Groups of rows ---------------------------------------------------------------------------

    def own(self, view: View) -> np.ndarray:
        return view.lanes // self.blocks.threads

    def at(self, where: tuple[int, int], at: int, rows: np.ndarray | None) -> Barrier | None:
        barrier = self.live.get(where)
        if barrier is None:
            self.out.troubles.append(Trouble("no barrier", at, rows, None, where))
        return barrier

    def groups(
        self, view: View, address: np.ndarray, cta: np.ndarray, unit: int
    ) -> Iterator[tuple[tuple[int, int], np.ndarray | None, int]]:
        """((block, address), rows or None for all, column), in order of columns, then rows."""
        n = len(view.lanes) // unit
        address = view.rows(address, unit).reshape(-1, address.shape[-1])
        cta = view.rows(np.asarray(cta), unit)
        cta = cta.reshape(cta.shape[0], -1) - self.first
        for column in range(address.shape[1]):
            a = address[:, column]
            c = cta[:, min(column, cta.shape[1] - 1)]
            yield from (((w[0], w[1]), rows, column) for w, rows in _distinct(n, c, a) if w[1] >= 0)

    # Events -----------------------------------------------------------------------------------

    def init(self, at: int, view: View, event: ev.BarrierInit) -> None:
        count = view.rows(event.count)
        for where, rows in _distinct(len(view.lanes), self.own(view), view.rows(event.address)):
            row = 0 if rows is None else int(rows[0])
            old = self.live.get(where)
            if old is not None:
                self.out.ended.setdefault(at, []).append((old, 2))
            chain = self.chain.setdefault(where, len(self.chain))
            base = self.counted.get(where, 0)
            number = int(count[row if count.shape[0] > 1 else 0])
            barrier = Barrier(chain, *where, base, number, at, row, number, number)
            barrier.phases.append(Phase(0, number))
            self.live[where] = barrier
            self.counted[where] = base + 1
            self.out.barriers.append(barrier)
            self.out.born.setdefault(at, []).append(barrier)
            if (rows is None and len(view.lanes) > 1) or (rows is not None and len(rows) > 1):
                self.out.troubles.append(Trouble("many inits", at, rows, barrier))

    def inval(self, at: int, view: View, event: ev.BarrierInval) -> None:
        for where, rows in _distinct(len(view.lanes), self.own(view), view.rows(event.address)):
            barrier = self.at(where, at, rows)
            if barrier is not None:
                self.out.ended.setdefault(at, []).append((barrier, 1))
                del self.live[where]

    def arrive(self, at: int, view: View, event: ev.Arrive) -> None:
        counts, expects = view.rows(event.count), view.rows(event.expect)
        for where, rows, column in self.groups(view, event.address, event.cta, 1):
            barrier = self.at(where, at, rows)
            if barrier is None:
                continue
            chosen = np.arange(len(view.lanes)) if rows is None else rows
            for part, count, expect in _uniform(chosen, counts, expects):
                self.arrive_part(at, event, barrier, part, column, count, expect)

    def arrive_part(
        self,
        at: int,
        event: ev.Arrive,
        barrier: Barrier,
        rows: np.ndarray,
        column: int,
        count: int,
        expect: int,
    ) -> None:
        """Lanes `rows` arrive one after the other, `count` and `expect` bytes each."""
        raises = event.by == "cp.async" and not event.noinc
        while len(rows):
            if raises:
                m = len(rows)
            else:
                m = max(1, min(len(rows), barrier.pending // max(count, 1)))
            part, rows = rows[:m], rows[m:]
            touch = self.touch(at, barrier, part, column)
            touch.arrivals, touch.expect = m * count, m * expect
            touch.late = event.by != "thread"
            if raises:
                touch.raised = m * count
                barrier.pending += m * count
            barrier.bytes += m * expect
            if not raises and barrier.pending < m * count:
                left = (barrier.pending, barrier.bytes)
                self.out.troubles.append(Trouble("over-arrival", at, part, barrier, left))
                barrier.pending = 0
            else:
                barrier.pending -= m * count
            if event.drop:
                barrier.expected -= m * count
                if barrier.expected < 0:
                    self.out.troubles.append(Trouble("dropped", at, part, barrier))
                    barrier.expected = 0
            self.settle(touch)
            if touch.completes and event.no_complete:
                self.out.troubles.append(Trouble("noComplete", at, part, barrier))

    def transfer(
        self,
        at: int,
        view: View,
        address: np.ndarray,
        cta: np.ndarray,
        amount: np.ndarray,
        sign: int,
        unit: int = 1,
    ) -> None:
        amounts = view.rows(amount, unit).reshape(-1, amount.shape[-1] if amount.ndim > 1 else 1)
        for where, rows, column in self.groups(view, address, cta, unit):
            barrier = self.at(where, at, rows)
            if barrier is None:
                continue
            chosen = np.arange(len(view.lanes) // unit) if rows is None else rows
            mine = amounts[:, min(column, amounts.shape[1] - 1)]
            mine = np.broadcast_to(mine, len(mine)) if len(mine) > 1 else mine
            each = np.broadcast_to(mine, len(chosen)) if len(mine) == 1 else mine[chosen]
            steps = [chosen] if barrier.pending else list(chosen.reshape(-1, 1))
            done = 0
            for part in steps:
                total = int(each[done : done + len(part)].sum())
                done += len(part)
                touch = self.touch(at, barrier, part, column)
                if sign > 0:
                    touch.expect = total
                else:
                    touch.landed = total
                barrier.bytes += sign * total
                self.settle(touch)

    def touch(self, at: int, barrier: Barrier, rows: np.ndarray, column: int) -> Touch:
        touch = Touch(at, barrier, barrier.phase, rows, column)
        barrier.phases[-1].touches.append(touch)
        self.out.touches.setdefault(at, []).append(touch)
        return touch

    def settle(self, touch: Touch) -> None:
        """Complete the phase if nothing is pending."""
        barrier = touch.barrier
        if abs(barrier.bytes) > LIMIT:
            numbers = (barrier.bytes,)
            self.out.troubles.append(Trouble("range", touch.view, touch.rows, barrier, numbers))
        if barrier.pending == 0 and barrier.bytes == 0:
            touch.completes = True
            barrier.phases[-1].completed = touch
            barrier.phase += 1
            barrier.pending = barrier.expected
            barrier.phases.append(Phase(barrier.phase, barrier.expected))
            self.counted[barrier.cta, barrier.address] += 1

    def wait(self, at: int, view: View, event: ev.Wait) -> None:
        parity, phase = view.rows(event.parity), view.rows(event.phase)
        for where, rows in _distinct(len(view.lanes), self.own(view), view.rows(event.address)):
            barrier = self.at(where, at, rows)
            if barrier is None:
                continue
            chosen = np.arange(len(view.lanes)) if rows is None else rows
            for part, bit, token in _uniform(chosen, parity, phase):
                current = barrier.phase
                if token >= 0:
                    named, true = token, token == current - 1
                else:
                    true = (current & 1) != bit
                    named = current - 1 if true else current
                if not true and not event.peek:
                    where_ = (current, bit, token)
                    self.out.troubles.append(Trouble("returned", at, part, barrier, where_))
                    continue
                touch = Touch(at, barrier, named, part, wait=True, peek=event.peek)
                if named >= 0:
                    barrier.phases[named].waits.append(touch)
                self.out.touches.setdefault(at, []).append(touch)


def replay(blocks: Blocks) -> Replay:
    """Phases of the events of `blocks`, as they fell in this schedule."""
    return _Machine(blocks).run()


def _distinct(
    n: int, cta: np.ndarray, address: np.ndarray
) -> Iterator[tuple[tuple[int, int], np.ndarray | None]]:
    """((block, address), rows) for `n` rows; rows None: all of them."""
    if (address.size == 1 or (address == address[0]).all()) and (
        cta.size == 1 or (cta == cta[0]).all()
    ):
        yield (int(cta[0]), int(address[0])), None
        return
    code = np.broadcast_to((cta.astype(np.int64) << 40) + address + 1, (n,))
    values, where = np.unique(code, return_inverse=True)
    for i, value in enumerate(values.tolist()):
        place = (value >> 40, (value & ((1 << 40) - 1)) - 1)
        yield place, np.flatnonzero(where == i)


def _uniform(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray
) -> Iterator[tuple[np.ndarray, int, int]]:
    """`rows` in runs that agree in both values."""
    if first.size == 1 and second.size == 1:
        yield rows, int(first[0]), int(second[0])
        return
    a = np.broadcast_to(first, (max(first.size, int(rows.max()) + 1),))[rows]
    b = np.broadcast_to(second, (max(second.size, int(rows.max()) + 1),))[rows]
    cuts = np.flatnonzero((np.diff(a) != 0) | (np.diff(b) != 0)) + 1
    for part in np.split(np.arange(len(rows)), cuts):
        yield rows[part], int(a[part[0]]), int(b[part[0]])
