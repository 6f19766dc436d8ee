"""Rounding of exact rationals, to test roundings of arrays against."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

FORMATS = {
    np.dtype(np.float32): (24, -126, 127),
    np.dtype(np.float64): (53, -1022, 1023),
    np.dtype(np.float16): (11, -14, 15),
}
"""Precision, least and greatest exponent of normal numbers."""


def rounded(q: Fraction, mode: str, form: tuple[int, int, int]) -> float:
    """`q` rounded in PTX mode `mode` ("rn", "rz", "rm", "rp"), overflow as IEEE says."""
    if q == 0:
        return 0.0
    precision, low, high = form
    negative, size = q < 0, abs(q)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** e > size:
        e -= 1
    quantum = Fraction(2) ** (max(e, low) - precision + 1)
    whole, rest = divmod(size / quantum, 1)
    half = Fraction(1, 2)
    up = {
        "rn": rest > half or (rest == half and whole % 2 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    value = (whole + up) * quantum
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    if value > largest:
        cut = {"rn": False, "rz": True, "rm": not negative, "rp": negative}[mode]
        result = float(largest) if cut else math.inf
    else:
        result = float(value)
    return -result if negative else result


def floats(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Finite floats over the whole range, some with few significant bits."""
    if dtype == np.float32:
        x = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(x), x, np.float32(1.5))
    digits = rng.integers(1, 1 << 53, n) * rng.choice([-1.0, 1.0], n)
    digits = np.where(rng.random(n) < 0.4, np.rint(digits / 2**48), digits)
    return np.ldexp(digits, rng.integers(-1120, 900, n))
