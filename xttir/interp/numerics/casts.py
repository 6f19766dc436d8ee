"""Casts between integers and floats, and the lanes where a promise about a result is broken."""

from __future__ import annotations

import numpy as np

from xttir.interp.numerics import integer
from xttir.interp.numerics.exact import directed, odd, to_f32_directed, two_sum
from xttir.interp.numerics.floats import (
    BF16,
    F16,
    F32,
    F64,
    ROUND_INTEGRAL,
    from_f64,
    narrow,
    round_to,
    to_odd_f32,
    widen,
)
from xttir.interp.numerics.integer import BOOL, Lanes, any_lane


def float_to_float(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`a` as `dtype`, to nearest even with one rounding; overflow to infinity (NaN if none)."""
    if dtype == a.dtype:
        return a
    if dtype == F64:
        return a.astype(np.float64) if a.dtype == F32 else widen(a).astype(np.float64)
    if a.dtype == F64:
        return from_f64(a, dtype)
    return narrow(widen(a), dtype)


def _odd_f64(a: np.ndarray) -> np.ndarray:
    """64-bit integers as f64 rounded to odd, so that one more rounding is exact."""
    near = a.astype(np.float64)
    # Where the rounded value does not fit the integer type it is 2^63 or 2^64, above `a`.
    limit = 2.0**63 if a.dtype == np.int64 else 2.0**64
    fits = near < limit
    back = np.where(fits, near, 0).astype(a.dtype)
    bits = near.view(np.int64)
    even_up = (bits & 1 == 0) & fits & (back < a)
    even_down = (bits & 1 == 0) & (~fits | (back > a))
    # Away from zero is up for positive numbers, down for negative ones.
    sign = np.where(near < 0, -1, 1)
    return (bits + sign * even_up - sign * even_down).view(np.float64)


def _int_to_float(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype in (F64, F32):
        return a.astype(dtype)  # one correctly rounded instruction
    if dtype == F16:
        return a.astype(np.float64).astype(np.float16)  # 64 bits: what f64 rounds overflows f16
    exact = a.astype(np.float64) if a.dtype.itemsize < 8 else _odd_f64(a)
    return to_odd_f32(exact).astype(dtype) if dtype == BF16 else round_to(exact, dtype)


def signed_to_float(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Signed integers (i1 true is -1) rounded once to nearest even."""
    return _int_to_float(integer.signed(a), dtype)


def unsigned_to_float(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Unsigned integers rounded once to nearest even."""
    return _int_to_float(integer.unsigned(a), dtype)


def _in_range(a: np.ndarray, low: float, high: float) -> Lanes:
    """The lanes where trunc(a) is not in [low, high), or a is NaN; None if there are none."""
    # `low - 1` may not be representable; then low itself is the least float that is in range.
    below = low - 1.0
    strict = a.dtype.type(below) != a.dtype.type(low)
    bottom, top = a.min(initial=0), a.max(initial=0)
    if bottom >= low and top < high:  # false where there is a NaN
        return None
    inside = (a > a.dtype.type(below)) if strict else (a >= a.dtype.type(low))
    return any_lane(~(inside & (a < a.dtype.type(high))))


def float_to_integer(
    a: np.ndarray, low: int, high: int, dtype: np.dtype
) -> tuple[np.ndarray, Lanes]:
    """trunc(a) as integers of `dtype`, saturating at low and high - 1.

    NaN is 0; from f64 or to 64 bits it is the highest bit alone, as PTX's cvt says. Also returns
    the lanes that are out of range or NaN.
    """
    a = widen(a)
    bad = _in_range(a, float(low), float(high))
    if bad is None:
        return a.astype(dtype), None
    value = np.where(bad, a.dtype.type(0), a).astype(dtype)
    limit = np.where(a >= high, np.array(high - 1).astype(dtype), np.array(low).astype(dtype))
    highest = a.dtype == F64 or dtype.itemsize == 8
    nan = np.array(1 << (8 * dtype.itemsize - 1) if highest else 0, np.uint64)
    limit = np.where(np.isnan(a), nan.astype(dtype), limit)
    return np.where(bad, limit, value), bad


def float_to_signed(a: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, Lanes]:
    """Towards zero. Undefined out of range and for NaN (for the value see `float_to_integer`)."""
    if dtype == BOOL:
        value, bad = float_to_integer(a, -1, 1, np.dtype(np.int8))
        return value != 0, bad
    half = 1 << (8 * dtype.itemsize - 1)
    return float_to_integer(a, -half, half, dtype)


def float_to_unsigned(a: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, Lanes]:
    """Towards zero. Undefined out of range and for NaN (for the value see `float_to_integer`)."""
    if dtype == BOOL:
        value, bad = float_to_integer(a, 0, 2, np.dtype(np.uint8))
        return value != 0, bad
    out = np.dtype(f"u{dtype.name}")
    value, bad = float_to_integer(a, 0, 1 << (8 * dtype.itemsize), out)
    return value.view(dtype), bad


# Conversions of instructions (PTX's cvt, libdevice's functions), defined for all inputs ---------


def convert_to_integer(a: np.ndarray, mode: str, dtype: np.dtype) -> np.ndarray:
    """f32 or f64 (narrower floats too) rounded in `mode`, then saturated, as integers of `dtype`.

    `mode` as in `floats.ROUND_INTEGRAL`; NaN as in `float_to_integer`.
    """
    info = np.iinfo(dtype)
    whole = ROUND_INTEGRAL[mode](widen(a))
    return float_to_integer(whole, int(info.min), int(info.max) + 1, dtype)[0]


def convert_from_integer(a: np.ndarray, mode: str, dtype: np.dtype) -> np.ndarray:
    """Integers (signed or unsigned) rounded once in `mode` to f32 or f64."""
    if mode == "rn":
        return a.astype(dtype)
    if a.dtype.itemsize < 8:
        exact = a.astype(np.float64)
        return exact if dtype == F64 else to_f32_directed(exact, mode)
    high = (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
    total, rest = two_sum(high, low)
    if dtype == F64:
        return directed(total, rest, mode)
    return to_f32_directed(odd(total, rest), mode)


# Promises -----------------------------------------------------------------------------------------


def overflows(name: str, args: tuple[np.ndarray, ...], value: np.ndarray, flags: set[str]) -> Lanes:
    """The lanes where addi, subi, muli or shli overflows although `flags` (nsw, nuw) say no."""
    a, b = args
    bad = np.zeros(value.shape, bool)
    if "nsw" in flags:
        bad |= _signed_overflow(name, a, b, value)
    if "nuw" in flags:
        bad |= _unsigned_overflow(name, a, b, value)
    return any_lane(bad)


def _signed_overflow(name: str, a: np.ndarray, b: np.ndarray, value: np.ndarray) -> np.ndarray:
    a, b, value = (integer.signed(v) for v in (a, b, value))
    if name == "addi":
        return ((a ^ value) & (b ^ value)) < 0
    if name == "subi":
        return ((a ^ b) & (a ^ value)) < 0
    if name == "muli":
        return integer.mulhi_signed(a, b) != (value >> (8 * value.dtype.itemsize - 1))
    return integer.shr_signed(value, b)[0] != a


def _unsigned_overflow(name: str, a: np.ndarray, b: np.ndarray, value: np.ndarray) -> np.ndarray:
    if name == "addi":
        return integer.compare("ult", value, a)
    if name == "subi":
        return integer.compare("ult", a, b)
    if name == "muli":
        return integer.mulhi_unsigned(a, b) != 0
    return integer.shr_unsigned(value, b)[0] != a


def loses(source: np.ndarray, value: np.ndarray, flags: set[str]) -> Lanes:
    """The lanes where a truncation loses bits although `flags` (nsw, nuw) say it does not."""
    bad = np.zeros(value.shape, bool)
    if "nsw" in flags:
        bad |= integer.extend_signed(value, source.dtype) != source
    if "nuw" in flags:
        bad |= integer.extend_unsigned(value, source.dtype) != source
    return any_lane(bad)
