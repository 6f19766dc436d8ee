"""Which programs of a batch take part: positions int64[n], and what is computed from them.

Ops that the same programs run one after the other compute the same choices, so each is kept for as
long as it is likely to be asked for again. Arrays of positions, flags and slots are never changed
in place; they are known by identity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_MANY = 64
"""Choices kept of each kind."""


_arrays: dict[bytes, np.ndarray] = {}


def same(array: np.ndarray) -> np.ndarray:
    """The one array of these numbers (int64[n])."""
    key = array.tobytes()
    found = _arrays.get(key)
    if found is None:
        if len(_arrays) >= _MANY:
            _arrays.clear()
        found = _arrays[key] = array
    return found


def _remembered(
    compute: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`compute`, which gives the same array for the same two arrays while it is remembered."""
    known: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def call(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        key = (id(first), id(second))
        found = known.get(key)
        if found is None:
            if len(known) >= _MANY:
                known.clear()
            # The arguments are kept as well, so that their ids stay theirs.
            found = known[key] = (first, second, compute(first, second))
        return found[2]

    return call


choose = _remembered(lambda array, rows: same(array[rows]))
"""array[rows]: the positions, slots or ids of some of the programs at hand."""


def _positions(batch: np.ndarray, pids: np.ndarray) -> np.ndarray:
    order = np.argsort(batch)
    return order[np.searchsorted(batch, pids, sorter=order)]


positions_in = _remembered(_positions)
"""The positions in the first array, which has no element twice, of those of the second."""

_where = _remembered(lambda flags, _: same(np.flatnonzero(flags)))


def where(flags: np.ndarray) -> np.ndarray:
    """The positions at which `flags` (bool[b]) holds."""
    return _where(flags, flags)


_OTHERS: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}


def others(at: np.ndarray, batch: int) -> np.ndarray:
    """int64[batch]: all bits for the programs that are not at positions `at`, else none."""
    key = (id(at), batch)
    found = _OTHERS.get(key)
    if found is None:
        if len(_OTHERS) >= _MANY:
            _OTHERS.clear()
        bits = np.full(batch, -1)
        bits[at] = 0
        found = _OTHERS[key] = (at, bits)
    return found[1]
