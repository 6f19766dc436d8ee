"""What lanes have stored themselves on their way through one arm of an unknown branch.

Memory has those bytes as unknown, for everybody else and for what comes after the arms. On its way
a lane reads back what it has stored, unless another lane, which may or may not go the same way, has
stored there since.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.values import partial, parts_of

KEPT = 32
"""Stores that are remembered; what older ones have left is unknown."""
BLOCK_BITS = 44
"""Addresses of one block or lane fit below."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A store: starts (int64, ascending), by start the lane; elements of `size` bytes, `parts` of
    them; `data` (None: nothing known) and where it is known (bool), by start."""

    space: Any
    starts: np.ndarray
    lanes: np.ndarray
    size: int
    parts: int
    data: np.ndarray | None
    known: np.ndarray


class Overlay:
    def __init__(self) -> None:
        self.stores: deque[Stored] = deque(maxlen=KEPT)

    def add(
        self,
        space: Any,
        address: np.ndarray,
        block: np.ndarray | None,
        lanes: np.ndarray,
        size: int,
        parts: int,
        value: Any,
    ) -> None:
        """`value` as memory takes it; UNKNOWN: something was stored, or perhaps."""
        starts = _starts(address, block, lanes.size)
        order = np.argsort(starts, kind="stable")
        data, known = parts_of(value, lanes.size)
        if data is not None:
            data = data.astype(f"u{size}", copy=False)
            data = np.broadcast_to(data, (lanes.size, *data.shape[1:]))[order]
        known = np.broadcast_to(np.asarray(known), (lanes.size,))[order]
        self.stores.append(Stored(space, starts[order], lanes[order], size, parts, data, known))

    def read(
        self,
        space: Any,
        address: np.ndarray,
        block: np.ndarray | None,
        lanes: np.ndarray,
        size: int,
        parts: int,
        value: Any,
    ) -> Any:
        """`value` (what memory gives) with what these lanes have stored where it is unknown."""
        n = lanes.size
        data, known = parts_of(value, n)
        open_ = ~np.broadcast_to(np.asarray(known), (n,))
        shape = (n,) if parts == 1 else (n, parts)
        out = np.zeros(shape, f"u{size}")
        if data is not None:
            out[:] = data
        found = ~open_
        starts = _starts(address, block, n)
        for store in reversed(self.stores):
            if store.space != space or not open_.any():
                continue
            total = store.size * store.parts
            low = np.searchsorted(store.starts, starts - total + 1)
            high = np.searchsorted(store.starts, starts + size * parts)
            met = open_ & (high > low)
            open_ &= ~met
            if store.data is None:
                continue
            if (store.size, store.parts) != (size, parts):
                continue
            at = np.minimum(low, store.starts.size - 1)
            mine = met & (high - low == 1) & (store.starts[at] == starts)
            mine &= (store.lanes[at] == lanes) & store.known[at]
            out[mine] = store.data[at[mine]]
            found |= mine
        return partial(out, found)


def _starts(address: np.ndarray, block: np.ndarray | None, n: int) -> np.ndarray:
    where = np.asarray(address, np.int64)
    if block is not None:
        where = where + (np.asarray(block, np.int64) << BLOCK_BITS)
    return np.broadcast_to(where, (n,))


def stored(step: Any, place: Any, size: int, parts: int, value: Any) -> None:
    """Note a store that may or may not happen on the way it is on, if any (see `unknown.Way`);
    outside of its fork nothing is known of it."""
    way = step.group.way
    lanes = step.lanes if place.rows is None else step.lanes[place.rows]
    if size * parts > 16 or step.doubtful:
        value = UNKNOWN
    while way is not None:
        # In the next round of a loop it may stand there, or not yet.
        mine = UNKNOWN if way.fork.loop else value
        way.overlay.add(place.space, place.address, place.block, lanes, size, parts, mine)
        way, value = way.fork.outer, UNKNOWN


def forgotten(step: Any, place: Any) -> None:
    """A store somewhere: what lanes of its blocks have stored on the way is not known any more."""
    way = step.group.way
    while way is not None:
        way.overlay.stores.clear()
        way = way.fork.outer


def read_back(way: Any, place: Any, lanes: np.ndarray, size: int, parts: int, value: Any) -> Any:
    """What a load on a way gives, `value` in memory."""
    while way is not None and value.__class__ is not np.ndarray:
        value = way.overlay.read(place.space, place.address, place.block, lanes, size, parts, value)
        way = way.fork.outer
    return value
