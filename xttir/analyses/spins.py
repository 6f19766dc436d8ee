"""Loops that wait for memory: after which writes they end, in every schedule.

A loop that reads a counter, a flag or a barrier that flips a bit ends on certain values (the code
says which: `events.Leaves`). What the place can hold when it is read follows from which writes have
come: any set that holds with each write what must come before it. An order from a write to the loop
is there in all schedules if no set without that write gives a value on which the loop ends. As with
mbarriers, these orders are assumed together along one schedule and then proved with each other: the
first loop, in any schedule, that ended without its writes would contradict its own proof.

Two kinds of places are understood: those that atomics add to, where whoever reads has seen every
atomic that came (PTX ISA 9.1, 8.9.2: an order passes through atomics), and those that are set,
where the loop sees one of the writes on whose value it ends. If what is done next depends on that
value too (a flag that says "sum" or "total"), it is one of those that lead the way that was taken;
the other ways must have been taken by somebody else in the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Scope, Space
from xttir.analyses.project import View

if TYPE_CHECKING:
    from xttir.analyses.state import State

Spot = tuple[int, int]
"""(trace index of the event, lane)."""
ANOTHER_WAY = "it may end on a value after which something else is done than was traced"
MAX_VALUES = 1 << 16
"""Values that a place may have, or pairs of these and results: more are not tried."""


@dataclass(slots=True, eq=False)
class Write:
    """One strong (or plain) write to a watched place. `before`: the value it found, if known."""

    spot: Spot
    atomic: bool
    text: str
    """The instruction; `values.WEAK` for a write that is neither strong nor atomic."""
    operation: str
    operand: int
    before: int | None
    lane: int = -1
    """Launch number."""
    rep: int = -1
    epoch: int = 0
    clock: np.ndarray | None = None
    """What happens before it, once the pass has come to it."""
    sent: list[np.ndarray] | None = None
    """What it publishes itself, by distance."""
    scope: Scope = Scope.CTA


@dataclass(slots=True, eq=False)
class Line:
    """The writes to one place, in trace order."""

    key: tuple[Space, int]
    size: int
    writes: list[Write]
    at: dict[Spot, Write] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Wait:
    """The read that ended a loop. `guess`: writes that must have come, as the schedule has it."""

    spot: Spot
    lane: int
    """Launch number."""
    event: ev.Access
    line: Line
    origin: Spot | None
    """An atomic of the same place whose result the loop depends on."""
    seen: int | None = None
    """The value that it read."""
    way: int = 0
    """The way that it took then; 0: not known."""
    guess: list[Write] = field(default_factory=list)
    learned: np.ndarray | None = None
    rep: int = -1
    epoch: int = 0
    clock: np.ndarray | None = None


class Spins:
    """The loops of some blocks. `open`: those for which an order was not proved in an earlier pass,
    with the writes concerned (None: all), and whether it is certain that there is none."""

    def __init__(self, doubts: Doubts):
        self.waits: dict[Spot, Wait] = {}
        self.lines: dict[tuple[Space, int], Line] = {}
        self.doubts = doubts
        self.found = Doubts()
        self.writes: dict[Spot, list[Write]] = {}
        self.taken = doubts.taken
        self.divided: set[int] = set()
        """Instructions on whose value it depends which way is taken."""
        self.elsewhere: set[Spot] = set()
        """Atomics with other results than in the trace after which a lane does not wait."""
        self._known: dict[object, np.ndarray | None] = {}

    def add(
        self, spot: Spot, view: View, event: ev.Access, line: Line, lane: int, row: int
    ) -> bool:
        """Note a loop; False: what ends it is not understood."""
        if event.leaves is None or event.origin is None or line.size > 8:
            return False
        n = len(view.lanes)
        source = int(np.broadcast_to(view.rows(event.origin), (n,))[row])
        origin = None
        if source >= 0:
            origin = (source, spot[1])
            if origin not in line.at:
                return False
        if any(w.operation not in ("add", "set") for w in line.writes):
            return False
        if line.key not in self.lines:
            self.lines[line.key] = line
            for write in line.writes:
                self.writes.setdefault(write.spot, []).append(write)
        wait = self.waits[spot] = Wait(spot, lane, event, line, origin)
        value = view.rows(event.value) if event.value is not None else None
        if origin is None and value is not None:
            wait.seen = int(value[row if value.shape[0] > 1 else 0])
            ways = self.ends(wait, np.array([wait.seen], np.uint64), None)
            wait.way = 0 if ways is None else int(ways[0])
            self.taken.setdefault(event.ins, set()).add(wait.way)
        return True

    # During the pass --------------------------------------------------------------------------

    def written(
        self, order: State, spot: Spot, rep: int, sent: list[np.ndarray], scope: Scope
    ) -> None:
        """The pass is at a write: remember what is before it and what it publishes."""
        for write in self.writes.get(spot, ()):
            levels = order.clocks.levels
            write.rep, write.epoch = rep, int(order.clocks.epoch[rep])
            write.clock = order.clocks.table[levels.happens, rep].copy()
            write.sent, write.scope = sent, scope

    def read(self, order: State, wait: Wait, rep: int, scope: Scope) -> tuple[list, list]:
        """The pass is at a loop's last read: what it learns for sure and what perhaps, as lists of
        (message, distance)."""
        clocks = order.clocks
        wait.rep, wait.epoch = rep, int(clocks.epoch[rep])
        wait.clock = clocks.table[clocks.levels.happens, rep].copy()
        clock = wait.clock
        assert clock is not None
        earlier = [w for w in wait.line.writes if w.spot < wait.spot and w.clock is not None]
        open_ = [w for w in earlier if clock[w.rep] < w.epoch]
        if not open_:
            return [], []
        wanted = self._needed(wait, earlier, open_)
        excluded = self.doubts.writes.get(wait.spot, frozenset())
        absent = self.doubts.absent.get(wait.spot, frozenset())
        wait.guess = [w for w in wanted if w.spot not in excluded]
        doubtful = [w for w in wanted if w.spot in excluded and w.spot not in absent]
        sure = self._messages(order, wait, wait.guess, scope)
        if sure and wait.guess[0].operation == "set":
            # One of them is seen.
            distances = {d for _, d in sure}
            joined = np.minimum.reduce([m for m, _ in sure])
            if len(sure) < len(wait.guess):
                return [], []
            sure = [(joined, max(distances))]
            wait.learned = joined
        return sure, self._messages(order, wait, doubtful, scope)

    def place(self, order: State, wait: Wait) -> int:
        """How many writes of the place, counted in trace order, are before the read for sure."""
        assert wait.clock is not None
        guess = {id(w) for w in wait.guess}
        if len(guess) > 1 and wait.guess[0].operation == "set":
            guess = set()
        count = 0
        for w in wait.line.writes:
            if w.clock is None or not (wait.clock[w.rep] >= w.epoch or id(w) in guess):
                break
            count += 1
        return count

    def _messages(self, order: State, wait: Wait, writes: list[Write], scope: Scope) -> list:
        out = []
        for w in writes:
            distance = order.distance(wait.spot[1], w.spot[1])
            if w.sent is not None and min(scope, w.scope) >= distance:
                out.append((w.sent[distance], distance))
        return out

    def _needed(self, wait: Wait, earlier: list[Write], open_: list[Write]) -> list[Write]:
        """Writes in `open_`, not known to be before the loop otherwise, that it seems to need."""
        kinds = {w.operation for w in open_}
        if len(kinds) > 1:
            return []
        values = _running(earlier)
        if values is None:
            return []
        first = len(earlier) - len(open_)
        if earlier[first:] != open_ and kinds == {"add"}:
            # Writes that are before in any case come between: only the last value is sure.
            return open_
        ends = self.ends(wait, np.array(values, np.uint64), self._result(wait))
        if ends is None:
            return []
        if kinds == {"set"}:
            same = ends[1:] == wait.way if wait.way else ends[1:] > 0
            chosen = dict(zip([w.spot for w in earlier], same.tolist(), strict=True))
            return [w for w in open_ if chosen[w.spot]]
        stays = np.flatnonzero(ends == 0)
        if not len(stays):
            return []
        return [w for w in earlier[: int(stays[-1]) + 1] if w in set(open_)]

    def _result(self, wait: Wait) -> np.ndarray | None:
        if wait.origin is None:
            return None
        before = wait.line.at[wait.origin].before
        return None if before is None else np.array([before], np.uint64)

    def ends(self, wait: Wait, values: np.ndarray, results: np.ndarray | None) -> np.ndarray | None:
        """By value: the way taken when the loop ends on it after one of the results; 0: none."""
        leaves = wait.event.leaves
        assert leaves is not None
        if wait.origin is None:
            found = leaves(wait.lane, values, None)
            return None if found is None else found[0]
        if results is None or len(results) * len(values) > MAX_VALUES:
            return None
        grid = np.repeat(values, len(results)), np.tile(results, len(values))
        found = leaves(wait.lane, *grid)
        if found is None:
            return None
        if found[1]:
            self.elsewhere.add(wait.origin)
        return found[0].reshape(len(values), len(results)).max(axis=1)

    # Proofs -----------------------------------------------------------------------------------

    def prove(self) -> Doubts:
        """What could not be proved, after a pass over everything."""
        for wait in self.waits.values():
            if wait.guess:
                self._prove(wait)
        return self.found

    def _prove(self, wait: Wait) -> None:
        writes = wait.line.writes
        past, free = self._window(wait.line, wait)
        if past is None:
            return self._refuse(wait, wait.guess, "not all of its writes were seen")
        base = _value_of(past, wait.line)
        kinds = {writes[i].operation for i in free}
        if base is None or len(kinds) != 1:
            return self._refuse(wait, wait.guess, "its value is both set and added to")
        if kinds == {"set"}:
            return self._prove_set(wait, base, [writes[i] for i in free])
        results, exact = None, wait.origin is None
        if wait.origin is not None:
            results = self._results(wait)
            if results is None:
                return self._refuse(wait, wait.guess, "the results of its atomic are not known")
        clock = np.stack([w.clock for w in writes if w.clock is not None])
        reps, epochs = _columns(writes)
        inner = clock[free][:, reps[free]] >= epochs[free]
        operands = np.array([writes[i].operand for i in free], np.uint64)
        failed = []
        absent = []
        for w in wait.guess:
            without = ~(clock[free, w.rep] >= w.epoch)
            without[[k for k, i in enumerate(free) if writes[i] is w]] = False
            values = self._reachable(base, operands[without], wait.line.size)
            ends = None if values is None else self._any_ends(wait, values, results)
            if ends is False:
                continue
            failed.append(w)
            loose = inner[without][:, without]
            if ends and exact and not (loose & ~np.eye(len(loose), dtype=bool)).any():
                absent.append(w)
        if failed:
            self._refuse(wait, failed, "it may end without them", absent)

    def _any_ends(self, wait: Wait, values: np.ndarray, results: np.ndarray | None) -> bool | None:
        key = (wait.spot, values.tobytes())
        if key not in self._known:
            ends = self.ends(wait, values, results)
            self._known[key] = None if ends is None else np.array(bool(ends.any()))
        known = self._known[key]
        return None if known is None else bool(known)

    def _prove_set(self, wait: Wait, base: int, free: list[Write]) -> None:
        ends = self.ends(wait, np.array([base, *(w.operand for w in free)], np.uint64), None)
        if ends is None or wait.origin is not None:
            return self._refuse(wait, wait.guess, "what ends it is not known")
        other = (ends > 0) & (ends != wait.way) if wait.way else np.zeros(len(ends), bool)
        if other.any():
            self.divided.add(wait.event.ins)
            if not set(ends[other].tolist()) <= self.taken[wait.event.ins]:
                return self._refuse(wait, wait.guess, ANOTHER_WAY)
        ends = np.where(other, 0, ends)
        if ends[0]:
            return self._refuse(wait, wait.guess, "it may end at once", wait.guess)
        known = set(wait.guess)
        others = [w for w, end in zip(free, ends[1:].tolist(), strict=True) if end]
        for w in others:
            if w in known:
                continue
            sent = None if w.sent is None or wait.learned is None else w.sent[-1]
            if sent is None or (sent < wait.learned).any():
                return self._refuse(wait, wait.guess, "it may end on another write", wait.guess)
        return None

    def _refuse(
        self, wait: Wait, writes: list[Write], why: str, absent: list[Write] | None = None
    ) -> None:
        self.found.writes[wait.spot] = frozenset(w.spot for w in writes)
        self.found.absent[wait.spot] = frozenset(w.spot for w in absent or ())
        self.found.why[wait.spot] = why

    def _window(self, line: Line, at: Wait | Write) -> tuple[list[Write] | None, list[int]]:
        """Writes that are before something in any case, and the numbers of those that may come
        before it or not."""
        writes = line.writes
        if at.clock is None or any(w.clock is None for w in writes):
            return None, []
        reps, epochs = _columns(writes)
        past = at.clock[reps] >= epochs
        after = np.array([w.clock[at.rep] >= at.epoch for w in writes])  # type: ignore[index]
        own = np.array([w.spot[1] == at.spot[1] for w in writes])
        first = np.array([w.spot < at.spot for w in writes])
        past = np.where(own, first, past)
        after = np.where(own, ~first, after)
        return (
            [w for w, p in zip(writes, past.tolist(), strict=True) if p],
            np.flatnonzero(~past & ~after).tolist(),
        )

    def _results(self, wait: Wait) -> np.ndarray | None:
        """What the atomic that a loop depends on may have given."""
        assert wait.origin is not None
        key = (wait.line.key, wait.origin)
        if key not in self._known:
            self._known[key] = None
            own = wait.line.at[wait.origin]
            past, free = self._window(wait.line, own)
            chosen = [wait.line.writes[i] for i in free]
            base = None if past is None else _value_of(past, wait.line)
            if base is not None and all(w.operation == "add" for w in chosen):
                operands = np.array([w.operand for w in chosen], np.uint64)
                self._known[key] = self._reachable(base, operands, wait.line.size)
        return self._known[key]

    def _reachable(self, base: int, operands: np.ndarray, size: int) -> np.ndarray | None:
        """Sums of `base` and any of the operands, modulo the size of the place (bytes)."""
        distinct, counts = np.unique(operands, return_counts=True)
        key = (base, distinct.tobytes(), counts.tobytes(), size)
        if key in self._known:
            return self._known[key]
        mask = np.uint64((1 << 8 * size) - 1)
        values: np.ndarray | None = np.array([base], np.uint64)
        for operand, count in zip(distinct, counts.tolist(), strict=True):
            steps = np.arange(count + 1, dtype=np.uint64) * operand
            values = np.unique((values[:, None] + steps) & mask)
            if len(values) > MAX_VALUES:
                values = None
                break
        self._known[key] = values
        return values


@dataclass(slots=True)
class Doubts:
    """By loop: the writes to which no order was proved; those to which there is certainly none;
    and why."""

    writes: dict[Spot, frozenset[Spot]] = field(default_factory=dict)
    absent: dict[Spot, frozenset[Spot]] = field(default_factory=dict)
    why: dict[Spot, str] = field(default_factory=dict)
    taken: dict[int, set[int]] = field(default_factory=dict)
    """By instruction: the ways that lanes took after a loop that it ended, in all schedules."""

    def with_(self, other: Doubts) -> Doubts:
        """Both together."""
        out = Doubts(dict(self.writes), dict(self.absent), {**self.why, **other.why}, self.taken)
        for mine, theirs in ((out.writes, other.writes), (out.absent, other.absent)):
            for spot, writes in theirs.items():
                mine[spot] = mine.get(spot, frozenset()) | writes
        return out


def _columns(writes: list[Write]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([w.rep for w in writes]), np.array([w.epoch for w in writes])


def _running(writes: list[Write]) -> list[int] | None:
    """The value before the first write, and after each, in this order."""
    value = writes[0].before
    if value is None:
        if writes[0].operation != "set":
            return None
        value = 0
    out = [value]
    for w in writes:
        value = w.operand if w.operation == "set" else value + w.operand
        out.append(value)
    return out


def _value_of(past: list[Write], line: Line) -> int | None:
    """The value after writes that come in any case and before all others; None if it depends on
    their order."""
    sets = [w for w in past if w.operation == "set"]
    if not sets:
        value = line.writes[0].before
        return None if value is None else value + sum(w.operand for w in past)
    last = sets[-1]
    assert last.clock is not None
    value = last.operand
    for w in past:
        assert w.clock is not None
        if w is last or last.clock[w.rep] >= w.epoch:
            continue
        if w.operation == "set" or w.clock[last.rep] < last.epoch:
            return None
        value += w.operand
    return value
