"""Float arithmetic as arith has it: comparisons, extrema with their NaN and zero rules, min, max.

f16, bf16 and the 8-bit types are computed in f32 and rounded once; that is the correctly rounded
result for +, -, *, / and sqrt, since f32 has more than twice their precision. Subnormals are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xttir.interp.numerics.floats import F32, F64, narrow, widen

_BITS = {4: np.int32, 8: np.int64}


def through_f32(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`f` on f32 or f64 arrays made to work on narrower floats too: widen, compute, round once."""

    def compute(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        if dtype in (F32, F64):
            return f(*args)
        return narrow(f(*(widen(a) for a in args)), dtype)

    compute.__name__ = getattr(f, "__name__", "compute")
    compute.__doc__ = f.__doc__
    return compute


add = through_f32(np.add)
sub = through_f32(np.subtract)
mul = through_f32(np.multiply)
div = through_f32(np.divide)
rem = through_f32(np.fmod)
sqrt = through_f32(np.sqrt)


def negate(a: np.ndarray) -> np.ndarray:
    """The sign bit flipped, NaN too (formats without -0 keep their zero)."""
    return np.negative(a)


def _bits(a: np.ndarray) -> np.ndarray:
    return a.view(_BITS[a.dtype.itemsize])


def _max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.maximum(a, b)
    bits = _bits(out)
    low = np.iinfo(bits.dtype).min  # the bits of -0, which numpy may prefer to +0
    if (bits == low).any():
        # A maximum is negative only where both operands are.
        bits &= (_bits(a) & _bits(b)) | np.invert(low)
    return out


def _min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.minimum(a, b)
    zero = _bits(out) == 0
    if zero.any():
        out = np.where(zero & (np.signbit(a) | np.signbit(b)), -out, out)
    return out


def _max_number(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.fmax(a, b)
    bits = _bits(out)
    minus_zero = bits == np.iinfo(bits.dtype).min
    if minus_zero.any():
        # Where one operand is NaN the other is the result, sign and all.
        other = minus_zero & (((a == 0) & ~np.signbit(a)) | ((b == 0) & ~np.signbit(b)))
        out = np.where(other, -out, out)
    return out


def _min_number(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.fmin(a, b)
    zero = _bits(out) == 0
    if zero.any():
        other = zero & (((a == 0) & np.signbit(a)) | ((b == 0) & np.signbit(b)))
        out = np.where(other, -out, out)
    return out


maximum = through_f32(_max)
"""NaN if either operand is (max.NaN on NVIDIA, arith.maximumf); +0 above -0."""
minimum = through_f32(_min)
"""NaN if either operand is (min.NaN on NVIDIA, arith.minimumf); -0 below +0."""
max_number = through_f32(_max_number)
"""The other operand where one is NaN (arith.maxnumf); +0 above -0, as NVIDIA's max."""
min_number = through_f32(_min_number)
"""The other operand where one is NaN (arith.minnumf); -0 below +0, as NVIDIA's min."""


def clamp(x: np.ndarray, low: np.ndarray, high: np.ndarray, propagate_nan: bool) -> np.ndarray:
    """min(max(x, low), high). Without `propagate_nan` a NaN in `x` gives `low`."""
    if propagate_nan:
        return minimum(maximum(x, low), high)
    return min_number(max_number(x, low), high)


_ORDERED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "une": np.not_equal,
}
_NEGATED = {"ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt"}


def compare(predicate: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bool: `a` `predicate` `b`, by arith.cmpf's names."""
    a, b = widen(a), widen(b)
    if predicate in _ORDERED:
        return _ORDERED[predicate](a, b)
    if predicate in _NEGATED:
        return ~_ORDERED[_NEGATED[predicate]](a, b)
    if predicate == "one":
        return (a < b) | (a > b)
    if predicate == "ueq":
        return ~((a < b) | (a > b))
    if predicate == "ord":
        return (a == a) & (b == b)
    if predicate == "uno":
        return (a != a) | (b != b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    return np.full(shape, predicate == "true")
