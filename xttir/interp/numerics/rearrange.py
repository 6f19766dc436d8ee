"""Rearranging elements of values (b, *s): reshape, transpose, concatenate, gather, histogram.

Arrays may have size-1 dims that stand for a larger extent; functions keep them where the result
allows it. Functions that need elements in memory order make the extents real first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xttir.interp.numerics.integer import Lanes, any_lane

Shape = tuple[int, ...]


def with_shape(a: np.ndarray, shape: Shape) -> np.ndarray:
    """`a` (b, *s) with extents `shape`, the batch axis as it is (a view)."""
    return a if a.shape[1:] == shape else np.broadcast_to(a, (a.shape[0], *shape))


def _groups(old: Shape, new: Shape) -> list[tuple[int, int, int, int]] | None:
    """Runs of dims with equal products, as short as can be: (first, end) in old, then in new."""
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        first_i, first_j = i, j
        left = right = 1
        while True:
            if left == right and i > first_i and j > first_j:
                break
            if left <= right and i < len(old):
                left *= old[i]
                i += 1
            elif j < len(new):
                right *= new[j]
                j += 1
            elif i < len(old):
                left *= old[i]
                i += 1
            else:
                break
        if left != right:
            return None
        groups.append((first_i, i, first_j, j))
    return groups


def reshape(a: np.ndarray, old: Shape, new: Shape) -> np.ndarray:
    """The elements of `a`, of extents `old`, in row-major order in the shape `new`.

    Runs of dims in which `a` does not vary stay size 1.
    """
    groups = _groups(old, new) or [(0, len(old), 0, len(new))]
    target: list[int] = []
    source: list[int] = []
    for first_i, end_i, first_j, end_j in groups:
        lazy = all(n == 1 for n in a.shape[1 + first_i : 1 + end_i])
        source += [1] * (end_i - first_i) if lazy else old[first_i:end_i]
        target += [1] * (end_j - first_j) if lazy else new[first_j:end_j]
    full = np.broadcast_to(a, (a.shape[0], *source))
    return full.reshape(a.shape[0], *target)


def transpose(a: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Dim i of the result is dim order[i] of `a` (the batch axis not counted)."""
    return a.transpose(0, *(n + 1 for n in order))


def _same_batch(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    batch = max(a.shape[0] for a in arrays)
    return [np.broadcast_to(a, (batch, *a.shape[1:])) for a in arrays]


def cat(a: np.ndarray, b: np.ndarray, shape: Shape) -> np.ndarray:
    """`a`, then `b`, both of extents `shape`, along dim 0."""
    return np.concatenate(_same_batch([with_shape(a, shape), with_shape(b, shape)]), axis=1)


def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a` and `b` side by side in a new last dim of extent 2."""
    a, b = np.broadcast_arrays(a, b)
    return np.stack([a, b], axis=-1)


def split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two parts along the last dim, of extent 2."""
    return a[..., 0], a[..., -1]


def gather(
    a: np.ndarray, indices: np.ndarray, axis: int, shape: Shape, index_shape: Shape
) -> tuple[np.ndarray, Lanes]:
    """out[.., i, ..] = a[.., indices[.., i, ..], ..] along dim `axis` of a, of extents `shape`.

    Undefined where an index is negative or not below the extent (the value is element 0's).
    """
    a, indices = with_shape(a, shape), with_shape(indices, index_shape)
    # Other dims of the indices may be smaller than those of a: only that part of a is read.
    a = a[
        (
            slice(None),
            *(slice(None) if n == axis else slice(0, index_shape[n]) for n in range(len(shape))),
        )
    ]
    bad = any_lane((indices < 0) | (indices >= shape[axis]))
    if bad is not None:
        indices = np.where(bad, indices.dtype.type(0), indices)
    a, indices = _same_batch([a, indices])
    return np.take_along_axis(a, indices.astype(np.int64), axis + 1), bad


def histogram(
    a: np.ndarray, mask: np.ndarray | None, extent: int, bins: int, dtype: np.dtype
) -> tuple[np.ndarray, Lanes]:
    """[b, bins]: how often each of 0 .. bins - 1 occurs among the `extent` elements of a program.

    Elements where `mask` is false do not count, nor do those outside of the range. The latter
    are told: bool[b, extent], None if there are none.
    """
    a = with_shape(a, (extent,))
    if mask is not None:
        a, mask = _same_batch([a, with_shape(mask, (extent,))])
    batch = a.shape[0]
    inside = (a >= 0) & (a < bins)
    counted = inside if mask is None else inside & mask
    lost = any_lane(~inside if mask is None else ~inside & mask)
    keys = np.where(counted, a, bins).astype(np.int64) + np.arange(batch)[:, None] * (bins + 1)
    counts = np.bincount(keys.reshape(-1), minlength=batch * (bins + 1))
    return counts.reshape(batch, bins + 1)[:, :bins].astype(dtype), lost


def packs(a: np.ndarray, shape: Shape, pack: int) -> list[np.ndarray]:
    """`a` as `pack` arrays (b, n): element k of every run of `pack` neighbours in memory order.

    Where the number of elements is no multiple of `pack`, the last element fills the last run.
    """
    n = math.prod(shape)
    flat = with_shape(a, shape).reshape(a.shape[0], n)
    if n % pack:
        flat = np.concatenate([flat, np.repeat(flat[:, -1:], pack - n % pack, axis=1)], axis=1)
    return [flat[:, k::pack] for k in range(pack)]


def unpack(parts: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
    """The inverse of `packs`: (b, *shape)."""
    arrays = np.broadcast_arrays(*parts)
    batch, n = arrays[0].shape[0], math.prod(shape)
    return np.stack(arrays, axis=-1).reshape(batch, -1)[:, :n].reshape(batch, *shape)
