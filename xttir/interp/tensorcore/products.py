"""What one matrix instruction computes, bit for bit.

As recorded on an H200: a step takes a group of products and the accumulator together. Products are
exact; the largest exponent among them and the accumulator fixes a grid 2^(e - F); every product
and the accumulator is truncated toward zero to that grid, the sum is exact, and the result is
rounded once. An element's exponent is that of its format (`formats`), a product's the sum of two.

All of it is exact in float64. A product has at most 24 + 24 significant bits, so it is exact;
scaled by a power of two and truncated it is an integer below 2^(F + 3) (two mantissas below 2
each), a sum of 33 of them stays below 2^(F + 9) < 2^53. Scaling by 2^(F - e) neither over- nor
underflows: e lies between 2 * -126 and 2 * 127 + 1, the products between 2^-298 and 2^256, and
what is truncated away is below the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from xttir.interp.tensorcore.formats import FORMATS, ZERO, decode, integers

_CHUNK = 1 << 15
"""Accumulators handled together: a handful of float64 arrays of them fit into the cache."""


@dataclass(frozen=True)
class Recipe:
    """How an instruction adds up: `group` products and C at once, on a grid F bits below."""

    group: int
    grid: int
    final: str = "rz"
    """"rz": toward zero to f32. "rz14": to 14 significant bits. "half": nearest even to f16.
    "add": the steps start from zero, and the sum is added to C in f32, to nearest."""
    order: tuple[int, ...] = ()
    """Order in which elements along k join the groups, if not their own."""


@cache
def recipe(arch: int, kind: str, type_: str, result: str, k: int) -> Recipe:
    """The recipe of an instruction.

    `arch` is the compute capability times 10, `kind` "mma" (mma.sync), "wgmma" or "tcgen05",
    `type_` the element type of A, `result` f32 or f16, `k` the depth of the instruction. Recorded
    for compute capability 9.0. The ones for 8.x (groups of 128 bits, grid 24) and 10.x (grid 25
    for every type) are published models of those cards, not recorded here.
    """
    final = "half" if result == "f16" else "rz"
    bits = FORMATS[type_].bits
    if arch < 90:
        return Recipe(min(k, 4 if bits == 32 else 8), 24, final)
    if bits > 8:
        return Recipe(k, 25, final)
    if kind == "wgmma":
        return Recipe(k, 13, "rz14" if final == "rz" else final)
    if kind == "mma" and arch < 100:
        order = tuple(sorted(range(k), key=lambda i: (i % 4) // 2))
        return Recipe(16, 25, "add" if final == "rz" else final, order)
    return Recipe(k, 25, final)


def multiply(
    how: Recipe,
    type_a: str,
    a: np.ndarray,
    type_b: str,
    b: np.ndarray,
    c: np.ndarray | None,
    scale: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """D = A B^T + C for codes `a` [.., M, K], `b` [.., N, K]; `c` float32 or float16 [.., M, N].

    `c` None is zero, of the type that `how.final` says. `scale` (float64 [.., M, K], [.., N, K])
    multiplies the elements (powers of two, or values that keep the products exact). Returns
    float32 or float16 [.., M, N]; every NaN is the canonical one.
    """
    (av, ae), (bv, be) = decode(type_a, a), decode(type_b, b)
    if scale is not None:
        av, ae = _scaled(av, ae, scale[0])
        bv, be = _scaled(bv, be, scale[1])
    return _product(how, av, ae, bv, be, c)


def negated(value: np.ndarray, bits: int) -> np.ndarray:
    """Codes with the sign bit (bit `bits` - 1) flipped."""
    return value ^ value.dtype.type(1 << (bits - 1))


def _scaled(value: np.ndarray, exponent: np.ndarray, scale: np.ndarray):
    with np.errstate(invalid="ignore"):
        scaled = value * scale
    more = np.where(scale == 0, 0, np.frexp(np.where(np.isfinite(scale), scale, 1))[1] - 1)
    zero = (exponent == ZERO) | (scale == 0)
    return scaled, np.where(zero, ZERO, exponent + more).astype(np.int16)


def _product(how: Recipe, av, ae, bv, be, c: np.ndarray | None) -> np.ndarray:
    m, k = av.shape[-2:]
    n = bv.shape[-2]
    batch = np.broadcast_shapes(av.shape[:-2], bv.shape[:-2], () if c is None else c.shape[:-2])
    count = int(np.prod(batch, dtype=np.int64))
    av, ae, bv, be = (_batched(x, batch) for x in (av, ae, bv, be))
    wide = None
    if c is not None:
        with np.errstate(invalid="ignore"):
            wide = _batched(c, batch).astype(np.float64)
    dirty = not (np.isfinite(av).all() and np.isfinite(bv).all())
    dirty = dirty or (wide is not None and not np.isfinite(wide).all())
    order = list(how.order) or list(range(k))
    out = np.empty((count, m, n), np.float16 if how.final == "half" else np.float32)
    size = max(1, _CHUNK // (m * n))
    for i in range(0, count, size):
        part = slice(i, i + size)
        acc = None if wide is None else wide[part]
        if dirty:
            out[part] = _dirty(how, order, av[part], ae[part], bv[part], be[part], acc)
        else:
            out[part] = _steps(how, order, av[part], ae[part], bv[part], be[part], acc)
    return out.reshape(*batch, m, n)


def _batched(x: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    if x.shape[:-2] != batch:
        x = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    return x.reshape(-1, *x.shape[-2:])


def _dirty(how: Recipe, order: list[int], av, ae, bv, be, c: np.ndarray | None) -> np.ndarray:
    """`_steps` for operands with infinities and NaN.

    Where a product or C is not finite the result is what IEEE sums give, NaN canonical. float64
    sums of finite operands cannot overflow, so what is not finite in them is so for a reason.
    """
    clean = [np.where(np.isfinite(x), x, 0.0) for x in (av, bv)]
    exponents = [np.where(np.isfinite(x), e, ZERO) for x, e in ((av, ae), (bv, be))]
    acc = None if c is None else np.where(np.isfinite(c), c, 0.0)
    out = _steps(how, order, clean[0], exponents[0], clean[1], exponents[1], acc)
    with np.errstate(invalid="ignore"):
        full = av @ bv.swapaxes(-1, -2)
        if c is not None:
            full = full + c
    odd = ~np.isfinite(full)
    out[odd] = full[odd]
    half = out.dtype == np.float16
    out.view(np.uint16 if half else np.uint32)[np.isnan(full)] = 0x7FFF if half else 0x7FFFFFFF
    return out


def _steps(how: Recipe, order: list[int], av, ae, bv, be, c: np.ndarray | None) -> np.ndarray:
    """Finite operands [T, M, K], [T, N, K], float64 C: float32 or float16 results [T, M, N].

    k leads, so that one element of every dot product is a column times a row. The innermost axis
    is n, or for many small products the batch.
    """
    batch_last = av.shape[0] > bv.shape[1]
    if batch_last:
        av, ae = (np.ascontiguousarray(x.transpose(2, 1, 0))[:, :, None, :] for x in (av, ae))
        bv, be = (np.ascontiguousarray(x.transpose(2, 1, 0))[:, None, :, :] for x in (bv, be))
        c = None if c is None else np.ascontiguousarray(c.transpose(1, 2, 0))
    else:
        av, ae = (np.ascontiguousarray(x.transpose(2, 0, 1))[:, :, :, None] for x in (av, ae))
        bv, be = (np.ascontiguousarray(x.transpose(2, 0, 1))[:, :, None, :] for x in (bv, be))
    acc = None if how.final == "add" else c
    for start in range(0, len(order), how.group):
        acc = _step(how, order[start : start + how.group], av, bv, ae, be, acc)
    assert acc is not None
    out = acc.astype(np.float16 if how.final == "half" else np.float32)
    if how.final == "add" and c is not None:
        out = c.astype(np.float32) + out
    return out.transpose(2, 0, 1) if batch_last else out


def _step(how: Recipe, ks: list[int], a, b, ea, eb, c: np.ndarray | None) -> np.ndarray:
    """One group: float64 results. `a`, `b`, `ea`, `eb` [K, ..] broadcast together behind k."""
    shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
    largest = np.full(shape, -600, np.int16)  # all zero: any grid will do
    sums = np.empty(shape, np.int16)
    for k in ks:
        np.add(ea[k], eb[k], out=sums)
        np.maximum(largest, sums, out=largest)
    if c is not None:
        ec = np.frexp(c)[1].astype(np.int16)
        ec -= 1
        np.maximum(ec, np.int16(-14 if how.final == "half" else -126), out=ec)
        ec[c == 0] = ZERO
        np.maximum(largest, ec, out=largest)
    grid = _power(largest - np.int16(how.grid))
    fine = 1.0 / grid
    total = np.zeros(shape) if c is None else np.trunc(c * fine)
    term = np.empty(shape)
    for k in ks:
        np.multiply(a[k], b[k], out=term)
        term *= fine
        np.trunc(term, out=term)
        total += term
    total *= grid
    if how.final == "half":
        with np.errstate(over="ignore"):
            total = total.astype(np.float16).astype(np.float64)
    else:
        total = _toward_zero(total, 14 if how.final == "rz14" else 24)
    total += 0.0  # a zero is never negative
    return total


def _power(exponents: np.ndarray) -> np.ndarray:
    """2.0 ** exponents, for exponents of normal float64 numbers."""
    return ((exponents.astype(np.int64) + 1023) << 52).view(np.float64)


def _toward_zero(x: np.ndarray, bits: int) -> np.ndarray:
    """float64 `x` cut to `bits` significant bits, and to f32's range: multiples of 2^-149."""
    cut = (x.view(np.int64) & np.int64(-1 << (53 - bits))).view(np.float64)
    size = np.abs(x)
    small = size < 2.0**-126
    if small.any():
        small &= x != 0
        cut[small] = np.ldexp(np.trunc(np.ldexp(x[small], 149)), -149)
    if size.max(initial=0.0) >= 2.0**128:
        cut[size >= 2.0**128] *= np.inf
    return cut


def multiply_integers(
    type_a: str,
    a: np.ndarray,
    type_b: str,
    b: np.ndarray,
    c: np.ndarray | None,
    saturate: bool = False,
) -> np.ndarray:
    """int32 D = A B^T + C for codes as in `multiply`; wraps, or clamps with `saturate`.

    The products are below 2^16 and at most 2^8 of them are added: exact in float64.
    """
    total = integers(type_a, a) @ integers(type_b, b).swapaxes(-1, -2)
    wide = total.astype(np.int64)
    if c is not None:
        wide = wide + c.astype(np.int64)
    if saturate:
        wide = np.clip(wide, -(1 << 31), (1 << 31) - 1)
    return wide.astype(np.int32)


def multiply_bits(op: str, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """int32 D = C + popcount(a op b) along k, for bits 0/1 `a` [.., M, K], `b` [.., N, K]."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    both = x @ y.swapaxes(-1, -2)
    if op == "xor":
        both = x.sum(-1)[..., :, None] + y.sum(-1)[..., None, :] - 2 * both
    total = both.astype(np.int64)
    return (total if c is None else total + c.astype(np.int64)).astype(np.int32)


def multiply_doubles(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float64 D = A B^T + C, one fused multiply-add after the other along k."""
    from xttir.interp.numerics.exact import fma_f64

    out = c
    for k in range(a.shape[-1]):
        left = np.broadcast_to(a[..., :, None, k], out.shape)
        right = np.broadcast_to(b[..., None, :, k], out.shape)
        out = fma_f64(np.ascontiguousarray(left), np.ascontiguousarray(right), out)
    return out
