"""Which programs of a batch take part: positions int64[n], and what is computed from them.

Ops that the same programs run one after the other compute the same choices, so each is kept for as
long as it is likely to be asked for again. Arrays of positions, flags and slots are never changed
in place; they are known by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

_MANY = 64
"""Choices kept of each kind."""

T = TypeVar("T")


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


def remembered(
    compute: Callable[[np.ndarray, np.ndarray], T],
) -> Callable[[np.ndarray, np.ndarray], T]:
    """`compute`, which gives the same result for the same two arrays while it is remembered."""
    known: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, T]] = {}

    def call(first: np.ndarray, second: np.ndarray) -> T:
        key = (id(first), id(second))
        found = known.get(key)
        if found is None:
            if len(known) >= _MANY:
                known.clear()
            # The arguments are kept as well, so that their ids stay theirs.
            found = known[key] = (first, second, compute(first, second))
        return found[2]

    return call


choose = remembered(lambda array, rows: same(array[rows]))
"""array[rows]: the positions, slots or ids of some of the programs at hand."""


def _positions(batch: np.ndarray, pids: np.ndarray) -> np.ndarray:
    order = np.argsort(batch)
    return order[np.searchsorted(batch, pids, sorter=order)]


positions_in = remembered(_positions)
"""The positions in the first array, which has no element twice, of those of the second."""

_where = remembered(lambda flags, _: same(np.flatnonzero(flags)))


def where(flags: np.ndarray) -> np.ndarray:
    """The positions at which `flags` (bool[b]) holds."""
    return _where(flags, flags)


def bits_of(flags: np.ndarray) -> int:
    """bool[n] as bits, the first one lowest."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def numbers_of_bits(bits: int) -> np.ndarray:
    """The numbers of the bits that are set."""
    raw = np.frombuffer(bits.to_bytes(-(-bits.bit_length() // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))


def who_of(slots: np.ndarray) -> int:
    """Positions (or slots) int64[n] as bits."""
    known = _WHO.get(id(slots))
    if known is not None and known[0] is slots:
        return known[1]
    flags = np.zeros(int(slots.max(initial=0)) + 1, bool)
    flags[slots] = True
    if len(_WHO) >= _MANY:
        _WHO.clear()
    bits = bits_of(flags)
    _WHO[id(slots)] = (slots, bits)
    return bits


_WHO: dict[int, tuple[np.ndarray, int]] = {}
