"""Several lanes that write one place by one instruction: whether they write one value.

A tile with fewer elements than threads has replicas, and compilers let them all store. Where lanes
of one warp have different values, one of them stays; which one is not defined, but it is the same
for warps that are copies of each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Footprint, Space
from xttir.interp.ptx.fingerprints import folded, mix


def repeated(place: Footprint, value: Any, cta: np.ndarray, thread: np.ndarray) -> dict[str, Any]:
    """What is known of lanes that write one place, a piece (n, 1) each: `Access.equal` or
    `Access.copied`. `value` (n, ..) or (1, ..): known contents, or fingerprints; anything else:
    nothing is known. `cta`, `thread` (n,): who writes."""
    if value.__class__ is not np.ndarray:
        return {}
    live = place.starts[:, 0] >= 0
    if value.shape[0] == 1 and live.all():
        return {"equal": True}
    where, size = place.starts[live, 0], place.size
    if place.cta is not None:
        block = np.broadcast_to(place.cta, place.starts.shape)[live, 0]
    elif place.space is Space.SHARED:
        block = cta[live]
    else:
        block = np.zeros(where.shape, np.int64)
    mine = np.broadcast_to(value, (len(live), *value.shape[1:]))[live]
    order, near, same = _neighbours(where, block, size)
    rows = mine.reshape(len(where), -1)
    if _equal(rows[order], near, same):
        return {"equal": True}
    if not same[near].all():
        return {"copied": False}
    return {"copied": _copied(where, block, cta[live], thread[live], rows)}


def _equal(rows: np.ndarray, near: np.ndarray, same: np.ndarray) -> bool:
    """Whether values, (n, ..) in an order by place, are one for each place; `near`, `same`: see
    `_neighbours`."""
    if not near.any():
        return True
    alike = (rows[1:] == rows[:-1]).all(axis=1)
    return bool((alike & same)[near].all())


def _copied(
    where: np.ndarray, block: np.ndarray, cta: np.ndarray, thread: np.ndarray, rows: np.ndarray
) -> bool:
    """Whether warps that write one place write the same values to it from the same lanes. `where`,
    `block` (n,): the place; `cta`, `thread` (n,): who writes; `rows` (n, ..): what."""
    places = np.stack([block, where], axis=1)
    _, place = np.unique(places, axis=0, return_inverse=True)
    place = place.reshape(-1)
    numbers = folded(rows.astype(np.uint64))
    each = mix(numbers + mix((thread & 31).astype(np.uint64)))
    warp = (cta.astype(np.int64) << 32) + (thread >> 5)
    order = np.lexsort((warp, place))
    starts = np.flatnonzero(
        np.concatenate([[True], (np.diff(place[order]) != 0) | (np.diff(warp[order]) != 0)])
    )
    sums = np.add.reduceat(each[order], starts)
    of = place[order][starts]
    return bool((sums[1:] == sums[:-1])[of[1:] == of[:-1]].all())


def _neighbours(
    where: np.ndarray, block: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An order by place; between each and the next, whether they overlap and are the same."""
    order = np.lexsort((where, block))
    step = np.diff(where[order])
    near = (np.diff(block[order]) == 0) & (step < size)
    return order, near, step == 0
