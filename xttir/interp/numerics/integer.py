"""Two's complement integers of 1, 8, 16, 32 and 64 bits, as arith has them.

Arrays are signed numpy integers or bool (i1); unsigned operations look at the same bits as
unsigned. Everything wraps. Functions whose result can be undefined return the lanes where it is,
or None where no lane is; their values there are fixed: see each function.
"""

from __future__ import annotations

import numpy as np

from xttir.interp.types import SIGNED_TO_UNSIGNED

Lanes = np.ndarray | None
BOOL = np.dtype(bool)


def unsigned(a: np.ndarray) -> np.ndarray:
    """The same bits as unsigned integers; i1 as uint8 0 or 1."""
    return a.view(np.uint8) if a.dtype == bool else a.view(SIGNED_TO_UNSIGNED[a.dtype])


def signed(a: np.ndarray) -> np.ndarray:
    """The same bits as signed integers; i1 as int8 0 or -1."""
    return -a.view(np.int8) if a.dtype == bool else a


def _back(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Bits `a` (the low ones count) as `dtype`."""
    if dtype == BOOL:
        return (a & 1).astype(bool)
    return a.view(dtype) if a.dtype.itemsize == dtype.itemsize else a.astype(dtype)


def width(dtype: np.dtype) -> int:
    return 1 if dtype == BOOL else dtype.itemsize * 8


def any_lane(lanes: np.ndarray) -> Lanes:
    return lanes if lanes.any() else None


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a ^ b if a.dtype == bool else a + b


def sub(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a ^ b if a.dtype == bool else a - b


def mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a & b if a.dtype == bool else a * b


# Division -----------------------------------------------------------------------------------------


def _divide_trunc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Signed quotient towards zero, b != 0.

    Up to 32 bits through f64, whose rounded quotient never reaches the next integer; several
    times faster than numpy's floor division.
    """
    if a.dtype.itemsize <= 4:
        return np.true_divide(a, b, dtype=np.float64).astype(np.int64).astype(a.dtype)
    q = a // b
    return q + ((q * b != a) & ((a ^ b) < 0))


def _checked_divisor(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """(b with zeros replaced by one, the lanes of `a / b` that are undefined)."""
    low = np.iinfo(a.dtype).min
    zero = b == 0
    bad: Lanes = None
    if zero.any():
        b = np.where(zero, b.dtype.type(1), b)
        bad = np.broadcast_to(zero, np.broadcast_shapes(a.shape, b.shape))
    minus_one = b == -1
    if minus_one.any():
        over = any_lane((a == low) & minus_one)
        if over is not None:
            bad = over if bad is None else bad | over
    return b, bad


def div_signed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Towards zero. Undefined: b = 0 (the value is -1), and INT_MIN / -1 (INT_MIN)."""
    if a.dtype == bool:
        # i1 is 0 or -1: -1 / -1 = 1 is out of range, any division by 0 undefined.
        return np.broadcast_arrays(a, b)[0].copy(), any_lane(np.broadcast_arrays(~b | a, a)[0])
    divisor, bad = _checked_divisor(a, b)
    q = _divide_trunc(a, divisor)
    if bad is not None:
        q = np.where(b == 0, q.dtype.type(-1), q)
    return q, bad


def rem_signed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """With the sign of `a`. Undefined: b = 0 (the value is -1), and INT_MIN % -1 (0)."""
    if a.dtype == bool:
        return np.broadcast_to(~b, np.broadcast_shapes(a.shape, b.shape)), any_lane(~b | a)
    divisor, bad = _checked_divisor(a, b)
    r = a - _divide_trunc(a, divisor) * divisor
    if bad is not None:
        r = np.where(b == 0, r.dtype.type(-1), r)
    return r, bad


def div_unsigned(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Undefined: b = 0 (the value has all bits set)."""
    ua, ub = unsigned(a), unsigned(b)
    zero = ub == 0
    if not zero.any():
        return _back(ua // ub, a.dtype), None
    q = ua // np.where(zero, ub.dtype.type(1), ub)
    q = np.where(zero, np.array(-1, np.int64).astype(q.dtype), q)
    return _back(q, a.dtype), np.broadcast_to(zero, q.shape)


def rem_unsigned(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Undefined: b = 0 (the value has all bits set)."""
    ua, ub = unsigned(a), unsigned(b)
    zero = ub == 0
    if not zero.any():
        return _back(ua - (ua // ub) * ub, a.dtype), None
    r = ua % np.where(zero, ub.dtype.type(1), ub)
    r = np.where(zero, np.array(-1, np.int64).astype(r.dtype), r)
    return _back(r, a.dtype), np.broadcast_to(zero, r.shape)


def floordiv_signed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Towards minus infinity. Undefined as `div_signed`."""
    q, bad = div_signed(a, b)
    if a.dtype != bool:
        inexact = (b != 0) & (q * b != a)
        q = q - (inexact & ((a ^ b) < 0))
    return q, bad


def ceildiv_signed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Towards plus infinity. Undefined as `div_signed`."""
    q, bad = div_signed(a, b)
    if a.dtype != bool:
        inexact = (b != 0) & (q * b != a)
        q = q + (inexact & ((a ^ b) >= 0))
    return q, bad


def ceildiv_unsigned(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Towards plus infinity. Undefined as `div_unsigned`."""
    q, bad = div_unsigned(a, b)
    inexact = b & (q != a) if a.dtype == bool else (b != 0) & (q * b != a)
    return add(q, inexact.astype(q.dtype)), bad


# Shifts -------------------------------------------------------------------------------------------


def _shift_amount(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, Lanes]:
    """(amounts clamped to width - 1, where they were beyond, undefined lanes)."""
    last = width(a.dtype) - 1
    amount = unsigned(b)
    if int(amount.max(initial=0)) <= last:
        return amount, np.zeros((), bool), None
    beyond = amount > last
    lanes = np.broadcast_to(beyond, np.broadcast_shapes(a.shape, b.shape))
    return np.minimum(amount, amount.dtype.type(last)), beyond, lanes


def shl(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Undefined from the bit width on (the value is 0, as on NVIDIA)."""
    amount, beyond, bad = _shift_amount(a, b)
    out = _back(unsigned(a) << amount, a.dtype)
    return (out if bad is None else np.where(beyond, out.dtype.type(0), out)), bad


def shr_unsigned(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Undefined from the bit width on (the value is 0, as on NVIDIA)."""
    amount, beyond, bad = _shift_amount(a, b)
    out = _back(unsigned(a) >> amount, a.dtype)
    return (out if bad is None else np.where(beyond, out.dtype.type(0), out)), bad


def shr_signed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Lanes]:
    """Undefined from the bit width on (the value is the sign in all bits, as on NVIDIA)."""
    amount, _, bad = _shift_amount(a, b)
    if a.dtype == bool:
        return np.broadcast_arrays(a, b)[0].copy(), bad
    return a >> amount.view(a.dtype), bad


# Products -----------------------------------------------------------------------------------------


def mulhi_unsigned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the double-width unsigned product."""
    ua, ub = unsigned(a), unsigned(b)
    if a.dtype == bool:
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    if a.dtype.itemsize < 8:
        bits = 8 * a.dtype.itemsize
        product = np.multiply(ua, ub, dtype=np.uint64)
        product >>= np.uint64(bits)
        return product.astype(ua.dtype).view(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + (al * bl >> half)
    carry = (middle & low) + al * bh
    return (ah * bh + (middle >> half) + (carry >> half)).view(a.dtype)


def mulhi_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the double-width signed product."""
    if a.dtype == bool:
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    if a.dtype.itemsize < 8:
        product = np.multiply(a, b, dtype=np.int64)
        return (product >> (8 * a.dtype.itemsize)).astype(a.dtype)
    high = mulhi_unsigned(a, b)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


# Comparison, extrema ------------------------------------------------------------------------------

_SIGNED_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}
_UNSIGNED_COMPARE = {
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
}


def compare(predicate: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bool: `a` `predicate` `b`, by arith.cmpi's names."""
    if predicate in _SIGNED_COMPARE:
        return _SIGNED_COMPARE[predicate](signed(a), signed(b))
    return _UNSIGNED_COMPARE[predicate](unsigned(a), unsigned(b))


def max_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a & b if a.dtype == bool else np.maximum(a, b)


def min_signed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a | b if a.dtype == bool else np.minimum(a, b)


def max_unsigned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _back(np.maximum(unsigned(a), unsigned(b)), a.dtype)


def min_unsigned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _back(np.minimum(unsigned(a), unsigned(b)), a.dtype)


# Widths -------------------------------------------------------------------------------------------


def extend_signed(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Sign extension: i1 true is -1. Also truncation, for index casts."""
    return signed(a).astype(dtype) if dtype != BOOL else truncate(a, dtype)


def extend_unsigned(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Zero extension. Also truncation, for index casts."""
    if dtype == BOOL:
        return truncate(a, dtype)
    return unsigned(a).astype(SIGNED_TO_UNSIGNED[dtype]).view(dtype)


def truncate(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The low bits."""
    return (a & 1).astype(bool) if dtype == BOOL else a.astype(dtype)


# Bits ---------------------------------------------------------------------------------------------


def popcount(a: np.ndarray) -> np.ndarray:
    """The number of set bits, in the operand's type."""
    return a if a.dtype == bool else np.bitwise_count(unsigned(a)).astype(a.dtype)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """The number of zero bits above the highest set bit; the width for 0."""
    if a.dtype == bool:
        return ~a
    bits = unsigned(a).copy()
    shift = 1
    while shift < width(a.dtype):
        bits |= bits >> bits.dtype.type(shift)
        shift *= 2
    return np.bitwise_count(~bits).astype(a.dtype)


def trailing_zeros(a: np.ndarray) -> np.ndarray:
    """The number of zero bits below the lowest set bit; the width for 0."""
    if a.dtype == bool:
        return ~a
    return np.bitwise_count(unsigned(~a & (a - a.dtype.type(1)))).astype(a.dtype)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a ** b, wrapping. Negative powers are 0 but for a = 1 and -1; 0 ** -n is 0 too."""
    exponent = np.where(b < 0, np.where((a == 1) | (a == -1), -b, 0), b)
    out = np.power(a, np.where(exponent < 0, 0, exponent), dtype=a.dtype)
    return np.where((b < 0) & (a != 1) & (a != -1), a.dtype.type(0), out)
