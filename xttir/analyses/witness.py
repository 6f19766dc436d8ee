"""Witness schedules: an order of a trace's events in which a fault shows.

For two unordered events the later one can run when only what happens before it has run. So: run
the downset of the second without the first, then the second, then the first. The form is that of
`xttir run --schedule`: lanes that do n more of their events, and asynchronous operations performed.
Where only a fence or a release is missing the order stays, and stores are seen late (`stale`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.happens_before import Order

ANY = {"steps": []}
"""The witness of a fault that every schedule shows."""
_FAR = 1 << 30
LONGEST = 20_000
"""Steps of a witness from which on it is not written."""


def schedule_in(witness: dict[str, Any]) -> dict[str, Any]:
    """What `xttir run --schedule` reads of a fault's witness; empty when it has no schedule."""
    if "steps" not in witness:
        return {}
    return {key: witness[key] for key in ("steps", "stale") if key in witness}


class Writer:
    """Writes the schedules of faults of one pass."""

    def __init__(self, order: Order):
        self.order = order
        self.classes = order.classes
        self.ends = self._ends()
        self.numbers = self._numbers()
        self._sets: dict[int, frozenset[int]] = {}

    def _ends(self) -> list[list[int]]:
        """By rep: positions of the events that ended its epochs."""
        ends: list[list[int]] = [[] for _ in range(self.order.reps)]
        for at, reps in self.order.clocks.log:
            for rep in reps.tolist():
                ends[rep].append(at)
        return ends

    def _numbers(self) -> dict[int, np.ndarray]:
        """By position of an asynchronous operation or deferred arrival: its number, by lane."""
        count = np.zeros(self.order.blocks.lanes, np.int64)
        out: dict[int, np.ndarray] = {}
        for at, view in enumerate(self.order.blocks.views):
            event = view.event
            if isinstance(event, ev.AsyncOp) or (
                isinstance(event, ev.Arrive) and event.by != "thread"
            ):
                out[at] = count[view.lanes]
                count[view.lanes] += 1
        return out

    def until(self, clock: np.ndarray) -> np.ndarray:
        """By lane: position after the last event that the clock (in time) covers."""
        reps = self.order.reps
        limit = np.zeros(reps, np.int64)
        for rep in range(reps):
            known = int(clock[rep])
            if known > 0:
                ends = self.ends[rep]
                limit[rep] = ends[known - 1] + 1 if known <= len(ends) else self._latest(rep)
        out = np.zeros(self.order.blocks.lanes, np.int64)
        for number, lanes in enumerate(self.classes.members):
            first, second = limit[2 * number], limit[2 * number + 1]
            out[lanes] = second if len(lanes) > 1 else first
            out[lanes[0]] = first
        return out

    def _latest(self, rep: int) -> int:
        ends = self.ends[rep]
        return ends[-1] + 1 if ends else 0

    def schedule(
        self,
        clock: np.ndarray,
        second: tuple[int, list[int]],
        first: tuple[int, list[int]] | None = None,
        swap: list[tuple[int, int]] | None = None,
        before: bool = False,
    ) -> dict[str, Any]:
        """Run what `clock` covers, then the event at position `second[0]` for lanes `second[1]`,
        then `first`. `swap`: lanes of one class to exchange with their representatives. `before`:
        stop short of `second`."""
        limit = self.until(clock)
        for a, b in swap or ():
            limit[[a, b]] = limit[[b, a]]
        at, lanes = second
        limit[lanes] = at if before else np.maximum(limit[lanes], at)
        if first is not None:
            limit[first[1]] = np.minimum(limit[first[1]], first[0])
        steps: list[dict[str, Any]] = []
        base = self.order.blocks.base
        top = int(limit.max(initial=0))
        told: set[int] = set()
        for position, view in enumerate(self.order.blocks.views[:top]):
            chosen = view.lanes[limit[view.lanes] > position]
            if len(chosen):
                steps += self._signals(position, told)
                _run(steps, chosen + base, 1)
                self._complete(steps, position, clock, chosen)
            if len(steps) > LONGEST:
                return {}
        for event in (second, first):
            if event is None or before:
                continue
            position, lanes = event
            left = self._between(limit, position, lanes)
            for lane, n in left:
                _run(steps, np.array([lane + base]), n)
            if position in self.numbers:
                view = self.order.blocks.views[position]
                row = int(np.searchsorted(view.lanes, lanes[0]))
                number = int(self.numbers[position][row])
                steps.append({"complete": {"lane": lanes[0] + base, "op": number}})
        return {"steps": steps}

    def complete(self, at: int, rows: np.ndarray | None) -> list[dict[str, Any]]:
        """Steps that perform an operation, of some of its rows (units of lanes; None: all)."""
        event, base = self.order.blocks.views[at].event, self.order.blocks.base
        unit = event.unit if isinstance(event, ev.AsyncOp) else 1
        lanes, numbers = self.order.blocks.views[at].lanes[::unit], self.numbers[at][::unit]
        if rows is not None:
            lanes, numbers = lanes[rows], numbers[rows]
        pairs = zip(lanes.tolist(), numbers.tolist(), strict=True)
        return [{"complete": {"lane": lane + base, "op": number}} for lane, number in pairs]

    def onwards(self, lanes: np.ndarray) -> list[dict[str, Any]]:
        """Steps in which lanes go as far as they can."""
        steps: list[dict[str, Any]] = []
        _run(steps, np.unique(lanes) + self.order.blocks.base, _FAR)
        return steps

    def _signals(self, at: int, told: set[int]) -> list[dict[str, Any]]:
        """Steps for the deferred arrivals that a wait at this position waits for; `told`: positions
        of those that were made."""
        steps: list[dict[str, Any]] = []
        for touch in self.order.replayed.touches.get(at, ()):
            if not touch.wait or touch.peek or touch.phase >= len(touch.barrier.phases):
                continue
            for other in touch.current.touches:
                if other.late and other.view < at and other.view not in told:
                    told.add(other.view)
                    steps += self.complete(other.view, other.rows)
        return steps

    def _between(self, limit: np.ndarray, position: int, lanes: list[int]) -> list[tuple[int, int]]:
        """How many events each lane does from its limit up to and with a position."""
        wanted = dict.fromkeys(lanes, 0)
        for at in range(int(limit[lanes].min()), position + 1):
            view = self.order.blocks.views[at]
            for lane in lanes:
                if at >= limit[lane] and lane in self._set(view.key):
                    wanted[lane] += 1
        for lane in lanes:
            limit[lane] = max(int(limit[lane]), position + 1)
        return [(lane, n) for lane, n in wanted.items() if n]

    def _set(self, key: int) -> frozenset[int]:
        known = self._sets.get(key)
        if known is None:
            lanes = self.order.blocks.lane_sets[key]
            known = self._sets[key] = frozenset(lanes.tolist())
        return known

    def _complete(
        self, steps: list[dict[str, Any]], at: int, clock: np.ndarray, chosen: np.ndarray
    ) -> None:
        """Perform the operations of an event that are over by `clock`."""
        found = self.order.operations.get(at)
        if found is None:
            return
        view = self.order.blocks.views[at]
        lanes, actor, ends = found
        known = np.logical_or.reduce([clock[chain] >= value for chain, value in ends])
        over = known[actor] & np.isin(lanes, chosen)
        base = self.order.blocks.base
        for lane in lanes[over].tolist():
            row = int(np.searchsorted(view.lanes, lane))
            number = int(self.numbers[at][row])
            steps.append({"complete": {"lane": lane + base, "op": number}})


def _run(steps: list[dict[str, Any]], lanes: np.ndarray, events: int) -> None:
    if not len(lanes):
        return
    cuts = np.flatnonzero(np.diff(lanes) != 1) + 1
    for part in np.split(lanes, cuts):
        span = [int(part[0]), int(part[-1])]
        if steps and steps[-1].get("lanes") == span:
            steps[-1]["events"] += events
        else:
            steps.append({"lanes": span, "events": events})
