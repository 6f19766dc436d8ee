"""Exact rounding: fused multiply-add and directed rounding of +, -, *, /, sqrt and fma.

Results are first represented exactly as an unevaluated pair high + low of f64 (Dekker, Knuth), or
with a `low` of the right sign when the rest is not representable; then rounded once. See Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums" (2008).
"""

from __future__ import annotations

import numpy as np

from xttir.interp.numerics.floats import F32, F64, from_f64, widen

MODES = ("rn", "rz", "rm", "rp")
"""PTX's rounding modes: nearest even, toward zero, toward minus and plus infinity."""


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f64 s = a + b rounded and e with s + e = a + b exactly (barring overflow)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    c = a * 134217729.0  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def two_prod(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f64 p = a * b rounded and e with p + e = a * b exactly (barring over- and underflow)."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def odd(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """f64 high + low rounded to odd, where high = RN(high + low)."""
    bits = high.view(np.int64) if high.flags.c_contiguous else high.copy().view(np.int64)
    even = (bits & 1 == 0) & (low != 0) & np.isfinite(high)
    if not even.any():
        return high
    away = (low > 0) == (high > 0)
    return (bits + np.where(even, np.where(away, 1, -1), 0)).view(np.float64)


def fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """f32 a * b + c with one rounding.

    The product is exact in f64. Rounding the f64 sum again is wrong only where that sum lies just
    between two f32 values and is not exact, so only such lanes take the slow way.
    """
    p = a.astype(np.float64) * b
    s = p + c
    out = s.astype(np.float32)
    bits = s.view(np.int64)
    between = (bits & 0x1FFFFFFF) == 0x10000000
    # Below the normal range the midpoints lie elsewhere.
    between |= (np.abs(s) < 2.0**-126) & (s != 0)
    if between.any():
        p, c64, s = (np.broadcast_to(v, s.shape)[between] for v in (p, c.astype(np.float64), s))
        _, rest = two_sum(p, c64)
        out[between] = odd(np.ascontiguousarray(s), rest).astype(np.float32)
    return out


def _scaled_fma(
    a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finite f64 a * b + c as (high, low, e): (high + low) * 2**e, high = RN(high + low).

    `low` is exact up to rounding to odd. Scaling keeps all intermediate steps in range.
    """
    ma, ea = np.frexp(a)
    mb, eb = np.frexp(b)
    mc, ec = np.frexp(c)
    ep = ea + eb
    product_zero = (ma == 0) | (mb == 0)
    # Everything relative to the larger of the two; what is 2^-220 below it only matters by sign.
    e = np.where(product_zero, ec, np.where(mc == 0, ep, np.maximum(ep, ec)))
    down = np.maximum(ep - e, -220)
    ph, pl = two_prod(ma, mb)
    ph, pl = np.ldexp(ph, down), np.ldexp(pl, down)
    cc = np.ldexp(mc, np.maximum(ec - e, -400))
    # The product may be so far below c that only its sign counts: keep it apart from zero.
    uh, ul = two_sum(cc, pl)
    vh, vl = two_sum(ph, uh)
    th, tl = two_sum(vl, ul)
    rest = odd(th, tl)
    high, low = two_sum(vh, rest)
    return high, low, e


def _round_pair(high: np.ndarray, low: np.ndarray, e: np.ndarray, mode: str) -> np.ndarray:
    """(high + low) * 2**e rounded once to f64, subnormal results included."""
    out = np.ldexp(directed(high, low, mode), e)
    # Up to the smallest normal number the last place is 2^-1074, whatever the exponent.
    small = (np.frexp(high)[1] + e <= -1021) & (high != 0)
    if small.any():
        # Far below half a unit only the sign matters, so the shift can stop there.
        shift = np.maximum(np.broadcast_to(e, high.shape)[small] + 1074, -200)
        units = _integral(np.ldexp(high[small], shift), np.ldexp(low[small], shift), mode)
        out[small] = np.copysign(np.ldexp(units, -1074), high[small])
    return out


def _integral(high: np.ndarray, low: np.ndarray, mode: str) -> np.ndarray:
    """high + low rounded to an integer; |low| at most half an ulp of high, |high| < 2^53."""
    floor = np.floor(high)
    floor = np.where((floor == high) & (low < 0), floor - 1, floor)
    fraction = high - floor
    exact = (fraction == 0) & (low == 0)
    if mode == "rm":
        up = np.zeros_like(exact)
    elif mode == "rp":
        up = ~exact
    elif mode == "rz":
        up = ~exact & (high < 0)
    else:
        tie = (fraction == 0.5) & (low == 0)
        above = (fraction > 0.5) | ((fraction == 0.5) & (low > 0))
        # fraction == 1 happens when low pulled an integral high down by less than one.
        above |= fraction == 1.0
        up = np.where(tie, np.mod(floor, 2) == 1, above)
    return np.where(exact, high, floor + up)


def directed(high: np.ndarray, low: np.ndarray, mode: str) -> np.ndarray:
    """f64 high + low, where high = RN(high + low), rounded in `mode`.

    Infinities in `high` with a nonzero `low` stand for finite sums that overflowed.
    """
    if mode == "rn":
        return high
    if mode == "rm":
        step = low < 0
        target = -np.inf
    elif mode == "rp":
        step = low > 0
        target = np.inf
    else:
        step = np.where(high > 0, low < 0, low > 0)
        target = 0.0
    return np.where(step, np.nextafter(high, target), high)


def fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """f64 a * b + c with one rounding, for all inputs."""
    a, b, c = np.broadcast_arrays(a, b, c)
    factors = np.isfinite(a) & np.isfinite(b)
    # A finite product that overflows does not cancel an infinite addend.
    plain = np.where(factors & np.isinf(c), c, a * b + c)
    regular = factors & np.isfinite(c)
    high, low, e = _scaled_fma(*(np.where(regular, v, 1.0) for v in (a, b, c)))
    exact_zero = high == 0
    out = _round_pair(high, low, e, mode)
    if mode in ("rz", "rm", "rp"):
        out = _clip_overflow(out, high, mode)
    if exact_zero.any():
        # Both terms zero keep IEEE's sign rule; an exact cancellation is -0 only rounding down.
        terms_zero = ((a == 0) | (b == 0)) & (c == 0)
        zero = np.where(terms_zero, a * b + c, -0.0 if mode == "rm" else 0.0)
        if mode == "rm":
            product_sign = np.signbit(a) ^ np.signbit(b)
            zero = np.where(terms_zero, np.where(product_sign | np.signbit(c), -0.0, 0.0), zero)
        out = np.where(exact_zero, zero, out)
    return np.where(regular, out, plain)


def _clip_overflow(out: np.ndarray, sign: np.ndarray, mode: str) -> np.ndarray:
    """Overflowed results of directed modes: the largest finite value where the mode cuts."""
    largest = np.finfo(out.dtype).max
    over = np.isinf(out)
    if not over.any():
        return out
    positive = sign > 0
    cut = np.ones_like(over) if mode == "rz" else (positive if mode == "rm" else ~positive)
    return np.where(over & cut, np.copysign(largest, sign).astype(out.dtype), out)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c with a single rounding to the operands' type, whatever float type that is."""
    dtype = a.dtype
    if dtype == F32:
        return fma_f32(a, b, c)
    if dtype == F64:
        return fma_f64(a, b, c)
    p = widen(a).astype(np.float64) * widen(b)
    s, rest = two_sum(p, widen(c).astype(np.float64))
    return from_f64(odd(s, rest), dtype)


# Directed rounding --------------------------------------------------------------------------------


def _to_f32(high: np.ndarray, low: np.ndarray, mode: str) -> np.ndarray:
    """f64 pair (high = RN(high + low)) rounded once to f32 in `mode`, overflow included."""
    return to_f32_directed(odd(high, low), mode)


def to_f32_directed(x: np.ndarray, mode: str) -> np.ndarray:
    """f64 `x` rounded to f32 in `mode` (NaN and infinities stay)."""
    near = x.astype(np.float32)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    if mode == "rm":
        step = back > x
        target = np.float32(-np.inf)
    elif mode == "rp":
        step = back < x
        target = np.float32(np.inf)
    else:
        step = np.abs(back) > np.abs(x)
        target = np.float32(0)
    return np.where(step, np.nextafter(near, target), near)


def _signed_zero(out: np.ndarray, a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """IEEE's sign of an exact zero sum: -0 only in mode rm, or of two negative zeros."""
    if mode != "rm":
        return out
    cancels = (a + b == 0) & ~((a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b))
    return np.where(cancels, np.copysign(out, -1.0).astype(out.dtype), out)


def add(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a + b rounded in `mode`, for f32 and f64."""
    plain = a + b
    if mode == "rn":
        return plain
    if a.dtype == F64:
        s, rest = two_sum(a, b)
        out = _clip_overflow(directed(s, rest, mode), s, mode)
    else:
        s, rest = two_sum(a.astype(np.float64), b.astype(np.float64))
        out = _to_f32(s, rest, mode)
    out = np.where(np.isfinite(a) & np.isfinite(b), out, plain)
    return _signed_zero(out, a, b, mode)


def mul(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b rounded in `mode`, for f32 and f64."""
    if mode == "rn":
        return a * b
    if a.dtype == F32:
        return to_f32_directed(a.astype(np.float64) * b, mode)
    plain = a * b
    # The added zero must not decide the sign of a zero product.
    out = fma_f64(a, b, np.zeros((), np.float64), mode)
    zero = (a == 0) | (b == 0)
    return np.where(zero, plain, np.copysign(out, plain))


def fma_directed(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c with one rounding in `mode`, for f32 and f64."""
    if a.dtype == F64:
        return fma_f64(a, b, c, mode)
    if mode == "rn":
        return fma_f32(a, b, c)
    p = a.astype(np.float64) * b
    c64 = c.astype(np.float64)
    s, rest = two_sum(p, c64)
    plain = s.astype(np.float32)
    out = np.where(np.isfinite(s), _to_f32(s, rest, mode), plain)
    return _signed_zero(out, p, c64, mode)


def div(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a / b rounded in `mode`, for f32 and f64.

    An f64 quotient of two f32 values is never so close to an f32 value or midpoint that its own
    rounding matters (it would need more than 48 bits), unless it is exact.
    """
    if mode == "rn":
        return a / b
    if a.dtype == F32:
        return to_f32_directed(a.astype(np.float64) / b.astype(np.float64), mode)
    return _correct_quotient(a, b, mode)


def _correct_quotient(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    plain = a / b
    regular = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    ma, ea = np.frexp(np.where(regular, a, 1.0))
    mb, eb = np.frexp(np.where(regular, b, 1.0))
    q = ma / mb
    p, rest = two_prod(q, mb)
    remainder = (ma - p) - rest  # exact: the remainder of a rounded quotient fits
    low = np.where(mb > 0, remainder, -remainder) * 2.0**-60
    out = _round_pair(q, low, ea - eb, mode)
    out = _clip_overflow(out, q, mode)
    return np.where(regular, out, plain)


def sqrt(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """The square root of f32 or f64 `a` rounded in `mode`."""
    if mode == "rn":
        return np.sqrt(a)
    if a.dtype == F32:
        return to_f32_directed(np.sqrt(a.astype(np.float64)), mode)
    plain = np.sqrt(a)
    regular = np.isfinite(plain) & (plain != 0)
    m, e = np.frexp(np.where(regular, a, 1.0))
    uneven = e % 2 != 0
    m, e = np.where(uneven, m * 2.0, m), np.where(uneven, e - 1, e)
    root = np.sqrt(m)
    p, rest = two_prod(root, root)
    low = ((m - p) - rest) * 2.0**-60
    return np.where(regular, np.ldexp(directed(root, low, mode), e // 2), plain)


def reciprocal(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """1 / a rounded in `mode`, for f32 and f64."""
    return div(np.ones((), a.dtype), a, mode)
