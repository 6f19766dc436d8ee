"""Loads whose value has no effect: a race with one is by the letter only.

Compilers let lanes load what other lanes load too, and mask the store alone (a tile with fewer
elements than threads). Such a lane reads a place that somebody may be writing, and nothing ever
depends on what it gets. A lane has used a value if it executed any of the stores that the value can
reach; a value that can get anywhere else counts as used by all lanes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xttir.analyses.events import Trace

WHY = "not ordered, but the value that it reads is not used"


class Used:
    """Which lanes use what a load gives them. `events`: (instruction, lanes) pairs in the
    numbering of the lanes that is asked about, `count` lanes of them."""

    def __init__(self, trace: Trace, events: Iterable[tuple[int, np.ndarray]], count: int):
        self.trace = trace
        self.events = events
        self.count = count
        self.executed: dict[int, list[np.ndarray]] | None = None
        self.known: dict[int, np.ndarray | None] = {}

    def by_lane(self, ins: int) -> np.ndarray | None:
        """bool by lane for a load; None: all lanes, as far as is known."""
        if ins not in self.known:
            self.known[ins] = self._find(ins)
        return self.known[ins]

    def _find(self, ins: int) -> np.ndarray | None:
        stores = None if self.trace.stores_of is None else self.trace.stores_of(ins)
        if stores is None:
            return None
        if self.executed is None:
            self.executed = {}
            for index, lanes in self.events:
                self.executed.setdefault(index, []).append(lanes)
        used = np.zeros(self.count, bool)
        for store in stores:
            for lanes in self.executed.get(store, []):
                used[lanes] = True
        return None if used.all() else used
