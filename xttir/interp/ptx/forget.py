"""Events that turned out not to have happened for some of their lanes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from xttir.analyses.events import Access, Bounds, Event


def without(event: Event, lanes: np.ndarray) -> Event | None:
    """An event without some of its lanes; None when none are left."""
    keep = ~np.isin(event.lanes, lanes, assume_unique=True)
    if not keep.any():
        return None
    if keep.all():
        return event
    n = event.lanes.size
    for f in fields(event):
        if f.name == "leaves":
            continue
        value = getattr(event, f.name)
        if isinstance(value, np.ndarray):
            setattr(event, f.name, _rows(value, keep, n))
    if isinstance(event, Access):
        event.footprints = tuple(
            replace(
                f,
                starts=_rows(f.starts, keep, n),
                cta=_rows(f.cta, keep, n),
                bounds=None if f.bounds is None else Bounds(),
            )
            for f in event.footprints
        )
    return event


def _rows(array: Any, keep: np.ndarray, n: int) -> Any:
    if array is None or array.shape[0] != n:
        return array
    return array[keep]
