"""`select` without branches: `numpy.where` mispredicts on irregular masks, at 10x the cost."""

from __future__ import annotations

import numpy as np

_INTEGERS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32)}
_INTEGERS[8] = np.dtype(np.int64)
_LARGE = 2048


def align(cond: np.ndarray, ndim: int) -> np.ndarray:
    """A scalar condition (b,) shaped to choose among values of rank `ndim`: (b, 1, ..., 1)."""
    if cond.ndim == ndim:
        return cond
    return cond.reshape(cond.shape + (1,) * (ndim - cond.ndim))


def select(cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a` where `cond` else `b`; `cond` is bool of their rank, or (b,) for a scalar condition."""
    if cond.size == 1:
        return a if cond.flat[0] else b
    cond = align(cond, max(a.ndim, b.ndim))
    if cond.size < _LARGE:
        return np.where(cond, a, b)
    bits = _INTEGERS[a.dtype.itemsize]
    mask = cond.astype(bits)
    np.negative(mask, out=mask)
    ab, bb = a.view(bits), b.view(bits)
    out = np.bitwise_and(ab ^ bb, mask)
    if out.shape == np.broadcast_shapes(out.shape, bb.shape):
        np.bitwise_xor(out, bb, out=out)
    else:
        out = out ^ bb
    return out.view(a.dtype)
