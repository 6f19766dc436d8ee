"""Order by values: a flag or counter in memory that one thread writes and another one reads.

A strong read observes a strong write; with release and acquire (or fences) on both sides that
orders them (PTX ISA 9.1, 8.9.2). The trace says what was observed in one schedule. The edge holds
in all schedules when the reader spins until it sees what only that write, or the last of a chain
of atomics, produces; and for a ticket, an atomic that saw all the others. Other edges are doubtful:
pairs that need one are left undecided.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Mode, Scope, Sem
from xttir.analyses.project import Blocks, View
from xttir.analyses.spins import Doubts, Line, Spins, Spot, Wait, Write

if TYPE_CHECKING:
    from xttir.analyses.classes import Cast
    from xttir.analyses.state import State

RELEASES = frozenset({Sem.RELEASE, Sem.ACQ_REL, Sem.SC})
ACQUIRES = frozenset({Sem.ACQUIRE, Sem.ACQ_REL, Sem.SC})

WEAK = "weak"
"""Stands for the instruction of a write that needs order of its own."""

COUNTS = re.compile(r"(atom|red)\b.*\.(add|inc|dec)\.")
"""Atomics that all count: who sees the last of them has seen all."""


@dataclass(slots=True)
class ValueEdges:
    """`edges`: for each observing (event, lane), the writer, and whether all schedules agree; None:
    nothing depends on what it sees."""

    edges: dict[Spot, tuple[Spot, bool | None]] = field(default_factory=dict)
    spins: Spins = field(default_factory=lambda: Spins(Doubts()))
    """Loops that wait, as far as it is understood what ends them: they have no edges."""
    origins: set[Spot] = field(default_factory=set)
    """Atomics on whose results such loops depend."""
    writers: set[int] = field(default_factory=set)
    """Trace indices of events that are observed."""
    doubtful: bool = False
    tickets: set[int] = field(default_factory=set)
    """Positions of atomics whose edges hold because they saw all others, and of those that took a
    lock: another order of threads is as good."""
    locks: dict[tuple[ev.Space, int], Line] = field(default_factory=dict)
    """Places that are locks: see `_is_lock`."""
    starts: dict[Spot, Spot] = field(default_factory=dict)
    """For each write to a place that begins with a strong store: that store."""
    began: dict[Spot, tuple[int, int]] = field(default_factory=dict)
    """Rep and epoch of such stores."""
    loose: set[Spot] = field(default_factory=set)
    """Those of them that are not before all other writes; of `resets`, those out of order."""
    resets: dict[Spot, list[Spot]] = field(default_factory=dict)
    """Stores that set a counter back, with the writes before them."""
    reset_by: dict[Spot, Spot] = field(default_factory=dict)
    """For each write from such a store on: the store."""
    watched: set[Spot] = field(default_factory=set)
    """Writes that others must come after: stores that set back, and what is before them."""
    indices: dict[Spot, tuple[int, int]] = field(default_factory=dict)
    """For each write to a watched place: the number of the place, and its own there, from 1."""
    places: int = 0
    sent: dict[Spot, tuple[list[np.ndarray], Scope]] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        return bool(self.edges) or bool(self.spins.waits)

    @classmethod
    def find(cls, blocks: Blocks, doubts: Doubts | None = None) -> ValueEdges:
        """`doubts`: what earlier passes could not prove of loops that wait."""
        out = cls(spins=Spins(doubts or Doubts()))
        reads: list[tuple[int, View, ev.Access]] = []
        for at, view in enumerate(blocks.views):
            event = view.event
            if (
                isinstance(event, ev.Access)
                and event.observed is not None
                and event.footprints
                and not exchange(event)
                and (view.rows(event.observed) >= 0).any()
            ):
                reads.append((at, view, event))
        if not reads:
            return out
        watched: set[tuple[ev.Space, int]] = set()
        for _, view, event in reads:
            f = event.footprints[0]
            watched |= {(f.space, int(a)) for a in np.unique(view.rows(f.starts)) if a >= 0}
        lines = _lines_of(blocks, watched)
        for number, line in enumerate(lines.values()):
            for own, write in enumerate(line.writes):
                out.indices[write.spot] = (number, own + 1)
        out.places = len(lines)
        accesses = {v.index: v.event for v in blocks.views if isinstance(v.event, ev.Access)}
        out.locks = {key: line for key, line in lines.items() if _is_lock(line, accesses)}
        # Loops first: what they depend on needs no order of its own.
        reads.sort(key=lambda r: not r[2].spins)
        for at, view, event in reads:
            out._read(blocks, at, view, event, lines)
        return out

    def _read(
        self,
        blocks: Blocks,
        at: int,
        view: View,
        event: ev.Access,
        lines: dict[tuple[ev.Space, int], Line],
    ) -> None:
        assert event.observed is not None
        n = len(view.lanes)
        seen = np.broadcast_to(view.rows(event.observed), (n,))
        f = event.footprints[0]
        starts = np.broadcast_to(view.rows(f.starts)[:, :1], (n, 1))[:, 0]
        for row in np.flatnonzero(seen >= 0).tolist():
            lane = int(view.lanes[row])
            line = lines.get((f.space, int(starts[row])))
            own = (view.index, lane)
            if line is None or own in self.origins:
                continue
            locks = line.key in self.locks and event.footprints[0].mode is Mode.RMW
            if (
                not locks
                and event.spins
                and self.spins.add(own, view, event, line, lane + blocks.base, row)
            ):
                origin = self.spins.waits[own].origin
                if origin is not None:
                    self.origins.add(origin)
                self.writers |= {w.spot[0] for w in line.writes}
                continue
            # Lanes of one event go one after the other, in order.
            candidates = [w for w in line.writes if w.spot[0] == int(seen[row]) and w.spot < own]
            if not candidates:
                continue
            last = candidates[-1]
            size = blocks.trace.threads_per_cta * blocks.trace.ctas_per_cluster
            locks = locks and event.spins and last.spot[1] // size != lane // size
            self._edge(at, event, own, last, line.writes, locks)

    def _edge(
        self, at: int, event: ev.Access, own: Spot, last: Write, writes: list[Write], locks: bool
    ) -> None:
        """A read that sees `last`. `locks`: it takes a lock that another cluster gave back."""
        # A write by the reader itself, later, cannot be what it saw.
        others = [w for w in writes if not (w.spot[1] == own[1] and w.spot >= own)]
        # What a thread wrote before all atomics is a start value. Were a plain write not ordered
        # before them, that would be a race; of a strong one it is checked.
        start = 1 if others and not others[0].atomic else 0
        if start and others[0].text != WEAK:
            self.starts |= {w.spot: others[0].spot for w in others}
            self.writers |= {w.spot[0] for w in others}
        complete = bool(others) and others[-1].spot == last.spot
        before = all(w.spot < own for w in others)
        sure: bool | None = False
        if event.reduces:
            # It passes on what came before it, and learns nothing itself.
            sure = None
        elif locks:
            sure = True
            self.tickets.add(at)
        elif event.spins:
            sure = len(others) - start == 1 and complete
        elif event.footprints[0].mode is Mode.RMW and complete and before:
            resets = [i + 1 for i, w in enumerate(others) if not w.atomic]
            start = resets[-1] if resets else 0
            sure = all(COUNTS.match(w.text) for w in others[start:])
            if sure and start > 1:
                self._reset(others, start - 1)
            if sure:
                self.tickets.add(at)
        self.edges[own] = (last.spot, sure)
        self.writers.add(last.spot[0])
        self.doubtful |= sure is False

    def _reset(self, writes: list[Write], at: int) -> None:
        """A store in the middle sets a counter back, if it comes after all writes before it and
        before all after it: to be seen in the pass."""
        reset = writes[at].spot
        self.resets[reset] = [w.spot for w in writes[:at]]
        self.reset_by |= {w.spot: reset for w in writes[at:]}
        self.watched |= {w.spot for w in writes[: at + 1]}
        self.writers |= {w.spot[0] for w in writes}

    # During the pass --------------------------------------------------------------------------

    def seen_by(self, order: State, view: View) -> tuple[np.ndarray, np.ndarray] | None:
        """(chain, value) by actor of the writes of a view to watched places; None: none."""
        cast = order.classes.cast(view)
        lanes = _lanes(order, cast)
        found = [self.indices.get((view.index, lane)) for lane in lanes]
        if all(f is None for f in found):
            return None
        chain = [0 if f is None else order.chains.place(f[0]) for f in found]
        value = [2**31 - 1 if f is None else f[1] for f in found]
        return np.array(chain, np.int64), np.array(value, np.int64)

    def receive(self, order: State, view: View, event: ev.Access, cast: Cast) -> None:
        """The reads of an event learn what the writes they saw have published."""
        if event.observed is None:
            return
        for rep, lane in zip(cast.first.tolist(), _lanes(order, cast), strict=True):
            wait = self.spins.waits.get((view.index, lane))
            if wait is not None:
                self._waited(order, event, rep, wait)
            edge = self.edges.get((view.index, lane))
            if edge is not None and edge[0][0] < view.index:
                self._learn(order, event, rep, lane, *edge)

    def _waited(self, order: State, event: ev.Access, rep: int, wait: Wait) -> None:
        """The last read of a loop learns what it has waited for."""
        sure, perhaps = self.spins.read(order, wait, rep, _scope(event))
        number = self.indices.get(wait.line.writes[0].spot)
        if number is not None:
            chain, table = order.chains.place(number[0]), order.clocks.table
            count = self.spins.place(order, wait)
            table[order.clocks.own, rep, chain] = np.maximum(
                table[order.clocks.own, rep, chain], count
            )
        for message, distance in sure:
            self._take(order, event, rep, message, distance, True)
        for message, distance in perhaps:
            self._take(order, event, rep, message, distance, False)

    def _learn(
        self, order: State, event: ev.Access, rep: int, lane: int, writer: Spot, sure: bool | None
    ) -> None:
        if writer not in self.sent or sure is None:
            return
        clocks, levels = order.clocks, order.clocks.levels
        start = self.starts.get(writer)
        reset = self.reset_by.get(writer)
        if sure and reset is not None:
            sure = reset not in self.loose
        elif sure and start is not None and start != writer:
            sure = start not in self.loose and self._after_start(order, rep, start)
        messages, scope = self.sent[writer]
        distance = order.distance(lane, writer[1])
        if min(scope, _scope(event)) < distance:
            return
        message = messages[distance]
        place = self.indices.get(writer)
        if place is not None:
            # What comes after the read comes after the write that it saw, fences or not.
            chain = order.chains.place(place[0])
            levels_ = clocks.own if sure else np.array([levels.perhaps])
            table = clocks.table
            table[levels_, rep, chain] = np.maximum(table[levels_, rep, chain], place[1])
        if sure and writer in self.spins.writes:
            # That this one comes last is so in this schedule: who waits for the place must not
            # count on it.
            message = message.copy()
            message[levels.happens] = 0
        self._take(order, event, rep, message, distance, sure)

    def _after_start(self, order: State, rep: int, start: Spot) -> bool:
        began, epoch = self.began[start]
        clocks = order.clocks
        return bool(clocks.table[clocks.levels.happens, rep, began] >= epoch)

    @staticmethod
    def _take(
        order: State, event: ev.Access, rep: int, message: np.ndarray, distance: int, sure: bool
    ) -> None:
        """A read learns a message, at once or at the next fence."""
        clocks, levels = order.clocks, order.clocks.levels
        if not sure:
            only = np.zeros_like(message)
            only[levels.perhaps] = np.maximum(message[levels.perhaps], message[levels.visible])
            message = only
        pick = np.array([rep])
        if event.sem in ACQUIRES:
            clocks.acquire(pick, message)
        else:
            clocks.acquire_relaxed(pick, message, distance)

    def send(self, order: State, view: View, event: ev.Access, cast: Cast) -> None:
        """The writes of an observed event publish; an atomic passes on what it saw."""
        if view.index not in self.writers:
            return
        clocks = order.clocks
        for rep, lane in zip(cast.first.tolist(), _lanes(order, cast), strict=True):
            seen = self.edges.get((view.index, lane))
            if seen is not None and seen[0][0] == view.index:
                self._learn(order, event, rep, lane, *seen)
            start = self.starts.get((view.index, lane))
            if start is not None and start == (view.index, lane):
                self.began[start] = (rep, int(clocks.epoch[rep]))
            elif start is not None and not self._after_start(order, rep, start):
                self.loose.add(start)
            self._set_back(order, (view.index, lane), rep)
            pick = np.array([rep])
            if event.sem in RELEASES:
                messages = [clocks.full(pick)] * 3
            else:
                messages = [clocks.relaxed(pick, distance) for distance in range(3)]
            self.spins.written(order, (view.index, lane), rep, messages, _scope(event))
            if seen is not None and event.footprints[0].mode is Mode.RMW:
                earlier = self.sent.get(seen[0])
                if earlier is not None:
                    messages = [np.maximum(m, e) for m, e in zip(messages, earlier[0], strict=True)]
            self.sent[view.index, lane] = (messages, _scope(event))
        clocks.bump(cast.reps, order.at)

    def _set_back(self, order: State, spot: Spot, rep: int) -> None:
        """Look whether a write that sets a counter back is in order with the others."""
        if spot in self.watched:
            self.began[spot] = (rep, int(order.clocks.epoch[rep]))
        reset = self.reset_by.get(spot)
        if reset is None:
            return
        others = self.resets[reset] if reset == spot else [reset]
        began = self.began
        if not all(other in began and self._after_start(order, rep, other) for other in others):
            self.loose.add(reset)


def _is_lock(line: Line, events: dict[int, ev.Access]) -> bool:
    """Whether a place is a lock: an atomic that waits until it reads "free" takes it, and the
    thread that did so gives it back by a strong write before anybody else takes it. Whoever takes
    it comes after all who gave it back before, whatever their order."""
    writes = line.writes
    if writes and not writes[0].atomic:
        writes = writes[1:]
    if len(writes) < 2:
        return False
    free, holder = writes[0].before, None
    for w in writes:
        event = events[w.spot[0]]
        if holder is None:
            if not event.spins or event.leaves is None or w.before != free:
                return False
            if w.operation not in ("take", "set") or w.operand == free:
                return False
            ways = event.leaves(w.lane, np.array([free, w.operand], np.uint64), None)
            if event.origin is None or (event.origin >= 0).any() or ways is None:
                return False
            if not ways[0][0] or ways[0][1]:
                return False
            holder = w.spot[1]
        else:
            if w.spot[1] != holder or w.text == WEAK or w.operation != "set" or w.operand != free:
                return False
            holder = None
    return True


def exchange(event: ev.Access) -> bool:
    """Volatile accesses to shared memory that do not spin: data, passed on between barriers. They
    order nothing, and where nothing else does, what is read depends on the schedule: the code that
    relied on the lanes of a warp running in step (before compute capability 7.0)."""
    shared = event.footprints[0].space is ev.Space.SHARED
    return shared and event.sem is Sem.VOLATILE and not event.spins


def _scope(event: ev.Access) -> Scope:
    return Scope.SYS if event.sem is Sem.VOLATILE else event.scope


def _lanes(order: State, cast: Cast) -> list[int]:
    return order.classes.lane[cast.first].tolist()


def _lines_of(
    blocks: Blocks, watched: set[tuple[ev.Space, int]]
) -> dict[tuple[ev.Space, int], Line]:
    """Writes to the watched places in trace order."""
    out: dict[tuple[ev.Space, int], Line] = {}
    addresses = {s: np.array(sorted(a for t, a in watched if t is s)) for s in ev.Space}
    for view in blocks.views:
        event = view.event
        if not isinstance(event, ev.Access) or event.operation == "keep":
            continue
        for f in event.footprints:
            if f.mode is Mode.READ or not addresses[f.space].size:
                continue
            starts = np.broadcast_to(view.rows(f.starts), (len(view.lanes), f.starts.shape[1]))
            hit = np.isin(starts, addresses[f.space])
            if not hit.any():
                continue
            text = blocks.trace.instructions[event.ins].text.lstrip()
            text = text.split(None, 1)[1] if text.startswith("@") else text
            atomic = f.mode is Mode.RMW
            if event.sem is Sem.WEAK and not atomic:
                text = WEAK
            for row, piece in np.argwhere(hit).tolist():
                key = (f.space, int(starts[row, piece]))
                line = out.setdefault(key, Line(key, f.size, []))
                line.size = max(line.size, f.size)
                operand, before = _number(view, event.operand, row), _number(view, event.value, row)
                known = event.operation if operand is not None and not f.may else ""
                spot = (view.index, int(view.lanes[row]))
                lane = int(view.lanes[row]) + blocks.base
                write = Write(spot, atomic, text, known, operand or 0, before, lane)
                line.writes.append(write)
                line.at[spot] = write
    return out


def _number(view: View, array: np.ndarray | None, row: int) -> int | None:
    if array is None:
        return None
    rows = view.rows(array)
    return int(rows[row if rows.shape[0] > 1 else 0])
