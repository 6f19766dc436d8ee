"""How far apart iterations must be for everything in one to come before everything in the other.

At each of some cuts of a trace the vector clocks are kept, and what everybody had started by then.
"Distance" d: what was started before a cut is over, and known to be, for every agent d cuts later.
A path of happens-before between two events then never leaves the iterations between them by more
than d, or there would be a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.engines import READ
from xttir.analyses.events import Mode, Space, Trace
from xttir.analyses.grid import near_places, survey
from xttir.analyses.happens_before import Order
from xttir.analyses.layout import lay_out
from xttir.analyses.project import View, project


@dataclass(slots=True)
class Snapshot:
    """`table`: int32 (levels, reps, chains), clocks. `started`: int32 (chains,), the value at which
    everything that was started on a chain is over."""

    table: np.ndarray
    started: np.ndarray


class Cuts(Order):
    """The pass over one cluster, with a `Snapshot` before each of some events of the trace."""

    def __init__(self, trace: Trace, cuts: Sequence[int]):
        grid = survey(trace)
        blocks = project(trace, int(trace.ctas.min()), len(trace.ctas))
        size = trace.threads_per_cta * trace.ctas_per_cluster
        first = int(trace.ctas.min()) // trace.ctas_per_cluster
        places = near_places(grid, [first * size])
        super().__init__(blocks, partial(lay_out, places=places))
        self.cuts = list(cuts)
        self.snapshots: list[Snapshot] = []
        self._started = np.zeros(self.chains.count, np.int64)
        self._counted = 0
        self.run()

    def before(self, view: View) -> None:
        while len(self.snapshots) < len(self.cuts) and view.index >= self.cuts[len(self.snapshots)]:
            self._take()
        reps = self.classes.cast(view).reps
        self._started[reps] = self.clocks.epoch[reps]

    def _take(self) -> None:
        for at in islice(self.operations, self._counted, None):
            self._count(at)
        self._counted = len(self.operations)
        self.snapshots.append(Snapshot(self.clocks.table.copy(), self._started.copy()))

    def _count(self, at: int) -> None:
        """What the asynchronous operation at position `at` starts."""
        event = self.blocks.views[at].event
        assert isinstance(event, ev.AsyncOp)
        quiet = False
        if event.engine == "bulk" and isinstance(event.completion, ev.ByGroup):
            # Only what it reads is memory that others may reuse.
            quiet = all(f.mode is Mode.READ or f.space is Space.GLOBAL for f in event.footprints)
        for chain, value in self.operations[at][2]:
            if quiet:
                owners = {c: r for (n, r), c in self.chains.engines.items() if n == "bulk"}
                reps = [owners[int(c)] for c in chain]
                chain = np.array([self.chains.engines["bulk" + READ, r] for r in reps])
            np.maximum.at(self._started, chain, value)

    def active(self, first: int, last: int) -> np.ndarray:
        """Reps that take part in events between two cuts."""
        low, high = self.cuts[first], self.cuts[last]
        found: set[int] = set()
        for view in self.blocks.views:
            if low <= view.index < high:
                found.update(self.classes.cast(view).reps.tolist())
        return np.array(sorted(found), np.int64)


def distance(cuts: Cuts, first: int, last: int, most: int) -> int | None:
    """The distance between cuts `first` and `last` of a trace, if it is at most `most`."""
    shots = cuts.snapshots
    reps = cuts.active(first, last)
    happens = cuts.clocks.levels.happens

    def holds(d: int) -> bool:
        return all(
            bool((shots[k + d].table[happens][reps] >= shots[k].started).all())
            for k in range(last - d + 1)
        )

    return next((d for d in range(1, most + 1) if d <= last - first and holds(d)), None)


def settled(cuts: Cuts, first: int, since: int, until: int) -> bool:
    """Whether between cuts `since` and `until` nobody learns more of what was before `first`."""
    shots = cuts.snapshots
    top = np.maximum(shots[first].started, shots[first].table.max(axis=(0, 1)))
    reps = cuts.active(since, until)

    def known(k: int) -> np.ndarray:
        return np.minimum(shots[k].table[:, reps], top)

    return all(np.array_equal(known(k), known(k + 1)) for k in range(since, until))
