"""Views that would lie outside of their buffer, until somebody uses them.

Pipelines compute the view of a stage that does not exist and never touch it, because the op that
takes it is predicated off. So an index that is out of bounds is a fault at the first use only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xttir.interp.batch import merge, take


class Outside:
    """A view `desc` that is outside for the programs `bad` (bool[b], or [1] for all). Any use of it
    calls `report(bad)`, and takes the view wrapped round."""

    __slots__ = ("_bad", "_desc", "_report")

    def __init__(self, desc: Any, bad: np.ndarray, report: Callable[[np.ndarray], None]):
        self._desc = desc
        self._bad = bad
        self._report = report

    def take(self, programs: np.ndarray) -> Any:
        """The view for some programs of the batch; a plain one if it is inside for those."""
        bad, desc = take(self._bad, programs), self._desc.take(programs)
        return Outside(desc, bad, self._report) if bad.any() else desc

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> Outside:
        """One view for a whole batch."""
        bad = np.zeros(batch, bool)
        descs: list[tuple[np.ndarray, Any]] = []
        for at, part in parts:
            outside = type(part) is Outside
            bad[at] = part._bad if outside else False
            descs.append((at, part._desc if outside else part))
        return Outside(merge(descs, batch), bad, self._report)

    def __getattr__(self, name: str) -> Any:
        self._report(self._bad)
        return getattr(self._desc, name)
