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

if TYPE_CHECKING:
    from xttir.analyses.classes import Cast
    from xttir.analyses.state import State

RELEASES = frozenset({Sem.RELEASE, Sem.ACQ_REL, Sem.SC})
ACQUIRES = frozenset({Sem.ACQUIRE, Sem.ACQ_REL, Sem.SC})

WEAK = "weak"
"""Stands for the instruction of a write that needs order of its own."""

COUNTS = re.compile(r"(atom|red)\..*\.(add|inc|dec)\.")
"""Atomics that all count: who sees the last of them has seen all."""

Spot = tuple[int, int]
"""(trace index of the event, lane)."""


@dataclass(slots=True)
class ValueEdges:
    """`edges`: for each observing (event, lane), the writer, and whether all schedules agree."""

    edges: dict[Spot, tuple[Spot, bool]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    """Trace indices of events that are observed."""
    doubtful: bool = False
    tickets: set[int] = field(default_factory=set)
    """Positions of atomics whose edges hold because they saw all others."""
    indices: dict[Spot, tuple[int, int]] = field(default_factory=dict)
    """For each write to a watched place: the number of the place, and its own there, from 1."""
    places: int = 0
    sent: dict[Spot, tuple[list[np.ndarray], Scope]] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        return bool(self.edges)

    @classmethod
    def find(cls, blocks: Blocks) -> ValueEdges:
        out = cls()
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
        writes = _writes(blocks, watched)
        for number, line in enumerate(writes.values()):
            for own, write in enumerate(line):
                out.indices[write[:2]] = (number, own + 1)
        out.places = len(writes)
        for at, view, event in reads:
            out._read(blocks, at, view, event, writes)
        return out

    def _read(
        self,
        blocks: Blocks,
        at: int,
        view: View,
        event: ev.Access,
        writes: dict[tuple[ev.Space, int], list[tuple[int, int, bool, str]]],
    ) -> None:
        assert event.observed is not None
        n = len(view.lanes)
        seen = np.broadcast_to(view.rows(event.observed), (n,))
        f = event.footprints[0]
        starts = np.broadcast_to(view.rows(f.starts)[:, :1], (n, 1))[:, 0]
        for row in np.flatnonzero(seen >= 0).tolist():
            lane = int(view.lanes[row])
            line = writes.get((f.space, int(starts[row])), [])
            own = (view.index, lane)
            # Lanes of one event go one after the other, in order.
            candidates = [w for w in line if w[0] == int(seen[row]) and w[:2] < own]
            if not candidates:
                continue
            last = candidates[-1]
            # A write by the reader itself, later, cannot be what it saw.
            others = [w for w in line if not (w[1] == lane and w[:2] >= own)]
            # What a thread wrote before all atomics is a start value: were it not ordered before
            # them, that would be a race.
            start = 1 if others and others[0][3] == WEAK else 0
            atomics = all(w[2] for w in others[start:])
            complete = bool(others) and others[-1][:2] == last[:2]
            before = all(w[:2] < own for w in others)
            if event.spins:
                sure = (len(others) == 1 or (atomics and before)) and complete
            else:
                adds = all(COUNTS.match(w[3]) for w in others[start:])
                sure = f.mode is Mode.RMW and atomics and adds and before and complete
                if sure:
                    self.tickets.add(at)
            self.edges[own] = (last[:2], sure)
            self.writers.add(last[0])
            self.doubtful |= not sure

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
            edge = self.edges.get((view.index, lane))
            if edge is not None and edge[0][0] < view.index:
                self._learn(order, event, rep, lane, *edge)

    def _learn(
        self, order: State, event: ev.Access, rep: int, lane: int, writer: Spot, sure: bool
    ) -> None:
        if writer not in self.sent:
            return
        clocks, levels = order.clocks, order.clocks.levels
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
            pick = np.array([rep])
            messages = []
            for distance in range(3):
                release = event.sem in RELEASES
                message = clocks.full(pick) if release else clocks.relaxed(pick, distance)
                messages.append(message)
            if seen is not None and event.footprints[0].mode is Mode.RMW:
                earlier = self.sent.get(seen[0])
                if earlier is not None:
                    messages = [np.maximum(m, e) for m, e in zip(messages, earlier[0], strict=True)]
            self.sent[view.index, lane] = (messages, _scope(event))
        clocks.bump(cast.reps, order.at)


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


def _writes(
    blocks: Blocks, watched: set[tuple[ev.Space, int]]
) -> dict[tuple[ev.Space, int], list[tuple[int, int, bool, str]]]:
    """Writes to the watched places in trace order: (trace index, lane, atomic, instruction)."""
    out: dict[tuple[ev.Space, int], list[tuple[int, int, bool, str]]] = {}
    addresses = {s: np.array(sorted(a for t, a in watched if t is s)) for s in ev.Space}
    for view in blocks.views:
        event = view.event
        if not isinstance(event, ev.Access):
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
            for row, piece in np.argwhere(hit).tolist():
                key = (f.space, int(starts[row, piece]))
                if event.sem is Sem.WEAK and f.mode is not Mode.RMW:
                    text = WEAK
                entry = (view.index, int(view.lanes[row]), f.mode is Mode.RMW, text)
                out.setdefault(key, []).append(entry)
    return out
