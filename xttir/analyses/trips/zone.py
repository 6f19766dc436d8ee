"""Where a trace repeats itself, and what a launch with one period more adds to it.

The trace is cut where one agent begins an iteration of the loop that counts. Two stretches between
cuts are the same if their events are, in everything but addresses in global memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from xdsl.ir import Block

from xttir.analyses.events import Event, Trace
from xttir.analyses.project import describe
from xttir.interp.tracing.visits import Visit, Visits

Heads = dict[str, Block]
"""By agent: the block that begins the iterations of its counting loop."""


@dataclass(eq=False)
class Run:
    """A traced launch: its trace, and the visits of its loops."""

    trace: Trace
    visits: Visits

    def count(self, agent: str, block: Block) -> int:
        return len(self.visits.of.get((agent, block), ()))

    def of(self, heads: Heads, agent: str) -> list[Visit]:
        return self.visits.of[agent, heads[agent]]


def heads_of(runs: Sequence[Run]) -> Heads:
    """The loops that go round once more in each of `runs` than in the one before: the first of
    each agent."""
    heads: Heads = {}
    for agent, block in runs[0].visits.of:
        counts = [run.count(agent, block) for run in runs]
        if agent not in heads and all(b - a == 1 for a, b in pairwise(counts)):
            heads[agent] = block
    return heads


def stretches(run: Run, heads: Heads, interned: dict[Any, int]) -> list[int]:
    """A number for what happens before the first cut, and after each: equal numbers, equal events.
    The cuts are the visits of the first agent in `heads`."""
    cuts = [visit.at for visit in run.of(heads, next(iter(heads)))]
    known: dict[int, int] = {}

    def number(event: Event) -> int:
        found = known.get(id(event))
        if found is None:
            found = known[id(event)] = interned.setdefault(
                _content(event, run.trace), len(interned)
            )
        return found

    events = run.trace.events
    bounds = [0, *cuts, len(events)]
    return [
        interned.setdefault(("stretch", *(number(e) for e in events[a:b])), len(interned))
        for a, b in pairwise(bounds)
    ]


def _content(event: Event, trace: Trace) -> tuple[Any, ...]:
    head, arrays = describe(event, trace)
    parts = [(array.shape, array.tobytes()) for _, array in arrays]
    return (head, event.lanes.tobytes(), *parts)


@dataclass(frozen=True)
class Zone:
    """Cuts `first`..`last` - 1 begin stretches that come again `period` cuts later."""

    first: int
    last: int
    period: int

    @property
    def length(self) -> int:
        return self.last - self.first


def zone_of(keys: Sequence[int], period: int, differs: Callable[[int], str]) -> tuple[Zone, str]:
    """The longest run of cuts whose stretches come again with the program in the same state, and
    why it is not longer. `keys`: of `stretches`; `differs(cut)`: of `State`."""
    own = keys[1:]
    best, why, start = Zone(0, 0, period), "", 0
    for k in range(len(own) - period + 1):
        if k + period < len(own) and own[k] == own[k + period]:
            reason = differs(k)
            if not reason:
                continue
            why = reason
        if k - start > best.length:
            best = Zone(start, k, period)
        start = k + 1
    return best, why


def inserted(short: Sequence[int], long: Sequence[int], zone: Zone) -> bool:
    """Whether the longer launch is the shorter one with a period more in its zone."""
    at = 1 + zone.first
    return list(long[: at + zone.period]) == list(short[: at + zone.period]) and list(
        long[at + zone.period :]
    ) == list(short[at:])


class State:
    """The state of the whole program at the cuts of a run."""

    def __init__(self, run: Run, heads: Heads, period: int):
        self.cuts = run.of(heads, next(iter(heads)))
        self.steps = {agent: [v.steps for v in run.of(heads, agent)] for agent in heads}
        self.period = period

    def differs(self, cut: int) -> str:
        """Why it is another one a period after `cut`: how far every agent is in its iteration, what
        barriers count. "" if it is the same."""
        before, after = self.cuts[cut], self.cuts[cut + self.period]
        then = dict(after.others)
        for agent, done in before.others:
            if agent not in self.steps:
                if then.get(agent) != done:
                    return f"{agent} goes on outside of the loop"
            elif agent not in then or not self._same(self.steps[agent], done, then[agent]):
                return f"{agent} is elsewhere a period later"
        (p, t, f), (p2, t2, f2) = before.barriers, after.barriers
        if p.shape != p2.shape or not (np.array_equal(p, p2) and np.array_equal(t, t2)):
            return "an mbarrier counts differently a period later"
        if ((f2 - f) & 1).any():
            return "the parity of an mbarrier is another one a period later"
        return ""

    def _same(self, steps: list[int], before: int, after: int) -> bool:
        """Whether an agent that has executed so many ops is as far in its iteration."""
        a, b = bisect_right(steps, before), bisect_right(steps, after)
        if b - a != self.period or not a:
            return False
        return before - steps[a - 1] == after - steps[b - 1]
