"""Dot products of tiles in every operand type, with the splittings Triton uses for f32.

Operands of 16 bits and less are widened to f32, where their products are exact; the sum along k
is taken by BLAS in f32, then the accumulator is added. Tensor cores sum in another order and with
other roundings, so results agree to the tolerance of f32 sums, not bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xttir.interp.numerics.blas import matmul
from xttir.interp.numerics.floats import F32, F64, narrow, widen


def tf32_truncate(a: np.ndarray) -> np.ndarray:
    """f32 with the low 13 bits cleared: what tensor cores read of an f32 operand."""
    return (a.view(np.int32) & np.int32(-8192)).view(np.float32)


def tf32_round(a: np.ndarray) -> np.ndarray:
    """f32 to tf32, to nearest with ties away from zero (cvt.rna.tf32.f32); NaN is truncated."""
    return _tf32_with(a, a.view(np.int32) + np.int32(0x1000))


def tf32_nearest(a: np.ndarray) -> np.ndarray:
    """f32 to tf32, to nearest even (what a tensor map of TFLOAT32 loads); NaN is truncated."""
    bits = a.view(np.int32)
    return _tf32_with(a, bits + (bits >> 13 & 1) + np.int32(0xFFF))


def _tf32_with(a: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """`moved` truncated where `a` is finite, `a` elsewhere."""
    rounded = (moved & np.int32(-8192)).view(np.float32)
    special = (a.view(np.int32) & np.int32(0x7F800000)) == 0x7F800000
    return np.where(special, tf32_truncate(a), rounded) if special.any() else rounded


def _bf16(a: np.ndarray) -> np.ndarray:
    import ml_dtypes

    return a.astype(ml_dtypes.bfloat16).astype(np.float32)


def _parts(a: np.ndarray, rounding: Callable[[np.ndarray], np.ndarray], n: int) -> list[np.ndarray]:
    """`a` as a sum of `n` terms of fewer bits, largest first."""
    parts = []
    for _ in range(n - 1):
        part = rounding(a)
        parts.append(part)
        a = a - part
    return [*parts, rounding(a)]


def _sum_of_parts(a: list[np.ndarray], b: list[np.ndarray], pairs: tuple[tuple[int, int], ...]):
    """Products of the parts in the order given; the last pair is (0, 0), the leading product.

    The small products of infinities are NaN; Triton drops those NaN before adding the leading one.
    """
    total = matmul(a[pairs[0][0]], b[pairs[0][1]])
    for i, j in pairs[1:-1]:
        total += matmul(a[i], b[j])
    np.copyto(total, np.float32(0), where=np.isnan(total))
    total += matmul(a[0], b[0])
    return total


def _tf32x3(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _sum_of_parts(
        _parts(a, tf32_round, 2), _parts(b, tf32_round, 2), ((1, 0), (0, 1), (0, 0))
    )


def _bf16x3(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _sum_of_parts(_parts(a, _bf16, 3), _parts(b, _bf16, 3), ((1, 0), (0, 1), (0, 0)))


def _bf16x6(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    pairs = ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))
    return _sum_of_parts(_parts(a, _bf16, 3), _parts(b, _bf16, 3), pairs)


PRECISIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ieee": matmul,
    "tf32": lambda a, b: matmul(tf32_truncate(a), tf32_truncate(b)),
    "tf32x3": _tf32x3,
    "bf16x3": _bf16x3,
    "bf16x6": _bf16x6,
}
"""What becomes of f32 operands, by the keywords of `tt.dot`'s input precision."""


def _integer_product(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The exact product of integer matrices, wrapped to `dtype`.

    8-bit operands go through f32 where all partial sums are below 2^24, else (and 16-bit ones)
    through f64; wider ones through numpy's integer loops.
    """
    k = a.shape[-1]
    width = 8 * max(a.dtype.itemsize, b.dtype.itemsize)
    if width == 8 and k <= 1 << 10:
        return matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
    if width <= 16 and k <= 1 << 20:
        exact = matmul(a.astype(np.float64), b.astype(np.float64))
        return exact.astype(np.int64).astype(dtype)
    return np.matmul(a.astype(dtype), b.astype(dtype))


def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray, precision: str = "ieee") -> np.ndarray:
    """a @ b + c for stacks (.., m, k) @ (.., k, n), in the type of `c`.

    `precision` counts for f32 operands only. Integers are exact and wrap. With f16 or bf16 `c` the
    sum is still taken in f32, and rounded once.
    """
    if a.dtype.kind in "iu":
        return _integer_product(a, b, c.dtype) + c
    if F64 in (a.dtype, b.dtype):
        product = matmul(widen(a).astype(np.float64), widen(b).astype(np.float64))
    elif a.dtype == F32 and b.dtype == F32:
        product = PRECISIONS[precision](a, b)
    else:
        product = matmul(widen(a), widen(b))
    if c.dtype in (F32, F64) and product.dtype == c.dtype:
        if np.broadcast_shapes(product.shape, c.shape) == product.shape:
            return np.add(product, c, out=product)
        return product + c
    return narrow((product + widen(c)).astype(np.float32), c.dtype)


def side_by_side(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    """`a` and `b`, stacks of matrices, joined along `axis` (-1 or -2): a view of their memory where
    `b` follows `a` there, else a copy."""
    if _follows(a, b, axis):
        shape = list(a.shape)
        shape[axis] += b.shape[axis]
        return np.lib.stride_tricks.as_strided(a, shape, a.strides, writeable=False)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    full = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)]
    return np.concatenate(full, axis=axis)


def _follows(a: np.ndarray, b: np.ndarray, axis: int) -> bool:
    """Whether `b` begins where one more step along `axis` would leave `a`, in one array."""
    if a.base is None or a.base is not b.base or a.strides != b.strides:
        return False
    other = -3 - axis
    if a.shape[:-2] != b.shape[:-2] or a.shape[other] != b.shape[other]:
        return False
    return b.ctypes.data - a.ctypes.data == a.shape[axis] * a.strides[axis]
