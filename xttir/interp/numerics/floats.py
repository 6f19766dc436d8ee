"""Narrow floats: widening, rounding to a format in any mode, fast paths for the common pairs.

Arithmetic on types narrower than f32 is done in f32 and rounded once. `widen` and `narrow` are the
two ends of that. `round_to` rounds an f64 array to any format in any mode, exactly; the fast paths
give the same bits and are tested against it and against ml_dtypes for all inputs of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from xttir.interp.numerics import half

F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
BF16 = np.dtype(ml_dtypes.bfloat16)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E4M3FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
E5M2FNUZ = np.dtype(ml_dtypes.float8_e5m2fnuz)
E4M3B11FNUZ = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
E2M1 = np.dtype(ml_dtypes.float4_e2m1fn)
E2M3 = np.dtype(ml_dtypes.float6_e2m3fn)
E3M2 = np.dtype(ml_dtypes.float6_e3m2fn)

# Below this many elements numpy's own casts beat several passes of integer arithmetic.
_SMALL = 4096


@dataclass(frozen=True)
class Format:
    """A binary float format: `mantissa` stored bits, exponent of the smallest normal number.

    `largest`: the largest finite value. `infinite`: whether the format has infinities; if not,
    what overflows becomes NaN (or `largest`, when saturating). `nan`: whether it has NaN.
    """

    dtype: np.dtype
    mantissa: int
    min_exponent: int
    largest: float
    infinite: bool = True
    nan: bool = True


def _format(dtype: np.dtype, infinite: bool = True, nan: bool = True) -> Format:
    info = ml_dtypes.finfo(dtype)
    return Format(dtype, int(info.nmant), int(info.minexp), float(info.max), infinite, nan)


FORMATS: dict[np.dtype, Format] = {
    f.dtype: f
    for f in (
        _format(F16),
        _format(BF16),
        _format(F32),
        _format(E5M2),
        _format(E4M3FN, infinite=False),
        _format(E4M3FNUZ, infinite=False),
        _format(E5M2FNUZ, infinite=False),
        _format(E4M3B11FNUZ, infinite=False),
        _format(E2M1, infinite=False, nan=False),
        _format(E2M3, infinite=False, nan=False),
        _format(E3M2, infinite=False, nan=False),
    )
}


# Widening -----------------------------------------------------------------------------------------

_TABLES: dict[np.dtype, np.ndarray] = {}


def _table(dtype: np.dtype) -> np.ndarray:
    """float32[2**bits]: the value of every code of an 8-bit (or narrower, byte stored) format."""
    if dtype not in _TABLES:
        codes = np.arange(256, dtype=np.uint8)
        if dtype in (E2M1, E2M3, E3M2):
            codes &= 15 if dtype == E2M1 else 63
        _TABLES[dtype] = codes.view(dtype).astype(np.float32)
    return _TABLES[dtype]


def _widen_f16(a: np.ndarray) -> np.ndarray:
    """f16 to f32 by moving the bits and rebiasing with one exact product (2x numpy's cast)."""
    bits = a.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)  # sign, and the exponent and mantissa fields: 0x8fffe000
    out = bits.view(np.float32)
    out *= np.float32(2.0**112)
    largest = max(float(out.max()), -float(out.min()))
    if largest >= 65536.0:  # exponent 31: infinities and NaN
        return a.astype(np.float32)
    return out


def widen(a: np.ndarray) -> np.ndarray:
    """`a` as f32 (f64 stays), exactly. Quiet NaN payloads may change."""
    dtype = a.dtype
    if dtype in (F32, F64):
        return a
    if dtype.itemsize == 1:
        return np.take(_table(dtype), a.view(np.uint8))
    if dtype == F16 and a.size >= _SMALL:
        fast = half.widen(a)
        return _widen_f16(a) if fast is None else fast
    return a.astype(np.float32)


# Rounding -----------------------------------------------------------------------------------------


def _away(x: np.ndarray) -> np.ndarray:
    """Nearest integer, ties away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


ROUND_INTEGRAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": _away,
}
"""Rounding of floats to integers, by PTX's names: nearest even, zero, minus, plus, nearest away."""


def round_value(x: np.ndarray, fmt: Format, mode: str = "rn", saturate: bool = False) -> np.ndarray:
    """f64 `x` rounded to `fmt`, as f64. Infinities and NaN as `round_to` says.

    Where a directed mode points towards zero, overflow gives the largest finite value.
    """
    _, exponent = np.frexp(x)
    quantum = np.ldexp(1.0, np.maximum(exponent - 1, fmt.min_exponent) - fmt.mantissa)
    finite = np.isfinite(x)
    value = np.where(finite, ROUND_INTEGRAL[mode](np.where(finite, x, 0.0) / quantum) * quantum, x)
    value = np.copysign(value, x)
    over = finite & (np.abs(value) > fmt.largest)
    if over.any():
        toward_zero = (
            np.ones_like(over)
            if mode == "rz"
            else x > 0
            if mode == "rm"
            else x < 0
            if mode == "rp"
            else np.zeros_like(over)
        )
        limit = np.copysign(fmt.largest, x)
        past_end = np.inf if fmt.infinite else np.nan if fmt.nan else fmt.largest
        beyond = np.copysign(past_end, x)
        value = np.where(over, np.where(toward_zero | saturate, limit, beyond), value)
    if saturate:
        value = np.where(np.isinf(value), np.copysign(fmt.largest, x), value)
    elif not fmt.infinite:
        value = np.where(np.isinf(value), np.copysign(np.nan if fmt.nan else fmt.largest, x), value)
    if not fmt.nan:
        value = np.where(np.isnan(value), fmt.largest, value)
    return value


def round_to(
    x: np.ndarray, dtype: np.dtype, mode: str = "rn", saturate: bool = False
) -> np.ndarray:
    """f32 or f64 `x` rounded once to `dtype`, in `mode` (see `ROUND_INTEGRAL`).

    `saturate` (satfinite): overflow and infinities give the largest finite value, NaN stays NaN.
    Without it overflow gives an infinity where the mode rounds away from zero, and NaN in formats
    without infinities. Formats without NaN get the largest value for NaN. A result of zero keeps
    its sign, but in `fnuz` formats, which have no negative zero.
    """
    if dtype == F64:
        return x.astype(np.float64)
    if mode == "rn" and not saturate and (dtype in (F32, F16) or (dtype == BF16 == x.dtype)):
        return x.astype(dtype)
    value = round_value(x.astype(np.float64), FORMATS[dtype], mode, saturate)
    # A value of the format, so that f32 holds it and the last cast is exact.
    value = value.astype(np.float32)
    if dtype == F32:
        return value
    out = value.astype(dtype)
    if dtype in (E4M3FN, E5M2):  # the one NaN that conversions give
        out.view(np.uint8)[np.isnan(value)] = 0x7F
    return out


def _encode(x: np.ndarray, fmt: Format, saturate: float) -> np.ndarray:
    """Codes (int32) of f32 `x` rounded to nearest even, |x| clamped to `saturate`, NaN apart.

    Normal numbers round by integer carry on the bits, subnormal ones by scaling; as the first
    code is too small below the normal range and the second too large above it, the larger of the
    first and the clamped second is right everywhere, without a branch.
    """
    shift = 23 - fmt.mantissa
    bits = x.view(np.int32)
    magnitude = bits & np.int32(0x7FFFFFFF)
    size = magnitude.view(np.float32)
    np.minimum(size, np.float32(saturate), out=size)
    small = size * np.float32(2.0 ** (fmt.mantissa - fmt.min_exponent))
    np.minimum(small, np.float32(2.0**fmt.mantissa), out=small)
    np.rint(small, out=small)
    codes = magnitude >> shift
    codes &= 1
    codes += magnitude
    # The rounding increment, and the exponent from f32's bias to the format's.
    codes += np.int32((1 << (shift - 1)) - 1 - ((126 + fmt.min_exponent) << 23))
    codes >>= shift
    np.maximum(codes, small.astype(np.int32), out=codes)
    return codes


def _narrow_f16(x: np.ndarray) -> np.ndarray:
    codes = _encode(x, FORMATS[F16], 65536.0)
    codes |= (x.view(np.int32) >> 16) & np.int32(-0x8000)
    out = codes.astype(np.int16).view(np.float16)
    lost = np.isnan(x)
    if lost.any():
        out[lost] = np.nan
    return out


def _narrow_f8(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """f32 to e4m3fn or e5m2, to nearest even, saturating to finite values."""
    fmt = FORMATS[dtype]
    codes = _encode(x, fmt, fmt.largest)
    codes |= (x.view(np.int32) >> 24) & np.int32(-0x80)
    out = codes.astype(np.int8)
    lost = np.isnan(x)
    if lost.any():
        out[lost] = 0x7F
    return out.view(dtype)


def narrow(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """f32 `x` rounded to nearest even to `dtype`; overflow as in IEEE (infinity, NaN if none)."""
    if dtype == x.dtype:
        return x
    if dtype == F16 and x.dtype == F32 and x.size >= _SMALL:
        fast = half.narrow(x)
        return _narrow_f16(x) if fast is None else fast
    if dtype in (F64, F32, F16) or (dtype == BF16 and x.dtype == F32):
        return x.astype(dtype)
    return round_to(x, dtype)


def satfinite(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """f32 or f64 `x` rounded to nearest even to an 8-bit `dtype`, saturating (PTX `.satfinite`)."""
    if x.dtype == F32 and dtype in (E4M3FN, E5M2) and x.size:
        return _narrow_f8(x, dtype)
    return round_to(x, dtype, "rn", saturate=True)


def to_odd_f32(x: np.ndarray) -> np.ndarray:
    """f64 `x` rounded to odd to f32: rounding the result once more to fewer bits is exact.

    A value that f32 cannot hold goes to its neighbour whose last bit is one.
    """
    near = x.astype(np.float32)
    bits = near.view(np.int32)
    back = near.astype(np.float64)
    inexact = (back != x) & (x == x)
    even = inexact & (bits & 1 == 0)
    if even.any():
        # Of the two neighbours of x, the odd one is on the other side of x from `near`.
        up = np.abs(x) > np.abs(back)
        bits = bits + np.where(even, np.where(up, 1, -1), 0).astype(np.int32)
    return bits.view(np.float32)


def from_f64(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """f64 `x` rounded once, to nearest even, to `dtype` (plain casts to bf16 and fp8 go by f32)."""
    if dtype in (F64, F32, F16):
        return x.astype(dtype)
    if dtype == BF16:
        return to_odd_f32(x).astype(dtype)
    return round_to(x, dtype)
