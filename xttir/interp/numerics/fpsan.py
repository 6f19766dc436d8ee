"""The integer ring that Triton's float sanitizer computes in: floats as integers, and back.

Signed magnitudes are mixed by two odd multipliers with a xor of shifted bits between, so that 1.0
becomes 1 and every float an integer of its own; products and sums of integers then stand for those
of floats (`FpSanToLLVM.cpp` in Triton).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

_FIRST = 14940041
"""The first multiplier."""


class _Ring(NamedTuple):
    """Constants for one float type, as integers of `width` bits."""

    width: int
    shift: int
    first: int
    second: tuple[int, int]
    """For magnitudes of positive and of negative values."""

    @property
    def magnitude(self) -> int:
        return (1 << (self.width - 1)) - 1


@cache
def _ring(dtype: np.dtype) -> _Ring:
    width = 8 * dtype.itemsize
    one = int(np.ones((), dtype).view(f"u{dtype.itemsize}"))
    shift = (one & -one).bit_length() - 1
    modulus = 1 << (width - 1)
    first = _FIRST % modulus
    mixed = one * first % modulus
    mixed ^= mixed >> shift
    second = pow(mixed, -1, modulus)
    return _Ring(width, shift, first, (second, -second % modulus))


def embed(values: np.ndarray) -> np.ndarray:
    """The ring's elements for floats: signed integers of their width."""
    ring = _ring(values.dtype)
    word = f"u{values.dtype.itemsize}"
    raw = np.ascontiguousarray(values).view(word).astype(np.uint64)
    negative = _negative(raw, ring)
    mixed = _times(raw, ring.first, ring)
    mixed ^= mixed >> np.uint64(ring.shift)
    mixed = np.where(negative, *(_times(mixed, ring.second[k], ring) for k in (1, 0)))
    return _signed(mixed, negative, ring).astype(word).view(f"i{values.dtype.itemsize}")


def unembed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The floats of type `dtype` that `values` (integers of its width) stand for."""
    ring = _ring(dtype)
    word = f"u{dtype.itemsize}"
    raw = np.ascontiguousarray(values).view(word).astype(np.uint64)
    negative = _negative(raw, ring)
    modulus = 1 << (ring.width - 1)
    inverse = [pow(factor, -1, modulus) for factor in ring.second]
    mixed = np.where(negative, *(_times(raw, inverse[k], ring) for k in (1, 0)))
    shift = ring.shift
    while shift < ring.width:
        mixed ^= mixed >> np.uint64(shift)
        shift *= 2
    mixed = _times(mixed, pow(ring.first, -1, modulus), ring)
    return _signed(mixed, negative, ring).astype(word).view(dtype)


def _times(values: np.ndarray, factor: int, ring: _Ring) -> np.ndarray:
    """The magnitudes of `values`, multiplied and wrapped."""
    with np.errstate(over="ignore"):
        return values * np.uint64(factor) & np.uint64(ring.magnitude)


def _negative(raw: np.ndarray, ring: _Ring) -> np.ndarray:
    return raw >> np.uint64(ring.width - 1) != 0


def _signed(magnitude: np.ndarray, negative: np.ndarray, ring: _Ring) -> np.ndarray:
    sign = np.uint64(1 << (ring.width - 1))
    return magnitude | np.where(negative, sign, np.uint64(0))
