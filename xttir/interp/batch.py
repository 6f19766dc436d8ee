"""Choosing and merging programs of a batch: what divergent control flow does to values.

Programs that take a branch are compressed into a smaller batch, run, and scattered back; that is
cheaper than masking, and checks and side effects need no extra mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xttir.interp.affine import Box, Index, dense
from xttir.interp.memory import Pointer


def take(value: Any, programs: np.ndarray) -> Any:
    """`value` for the programs at positions `programs` of a batch of more than one."""
    if type(value) is np.ndarray:
        return value if value.shape[0] == 1 else value[programs]
    if value is None:
        return None
    return value.take(programs)


def merge(parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> Any:
    """One value for a batch of `batch` programs, from values for disjoint parts of it that
    together cover it: (positions, value of those programs)."""
    if len(parts) == 1:
        return parts[0][1] if parts[0][0].size == batch else _spread(parts, batch)
    values = [v for _, v in parts]
    first: Any = values[0]
    if all(v is first for v in values[1:]):
        if type(first) is np.ndarray and first.shape[0] == 1:
            return first
        if type(first) is Index and first.base.size == 1:
            return first
    kind = type(first)
    if any(hasattr(v, "merge_tainted") for v in values):
        return next(v for v in values if hasattr(v, "merge_tainted")).merge_tainted(parts, batch)
    if kind is Pointer:
        return _merge_pointers(parts, batch)
    if kind is Index and all(
        type(v) is Index and v.strides == first.strides and v.shape == first.shape for v in values
    ):
        base = np.empty(batch, np.int64)
        for where, v in parts:
            base[where] = v.base
        return Index(base, first.strides, first.shape, first.dtype)
    if kind is np.ndarray or kind is Index or kind is Box:
        return _spread([(where, dense(v)) for where, v in parts], batch)
    own: Any = getattr(first, "merge", None)
    if own is not None:
        return own(parts, batch)
    raise TypeError(f"cannot merge values of type {kind.__name__}")


def _spread(parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> np.ndarray:
    arrays = [v for _, v in parts]
    lanes = np.broadcast_shapes(*(a.shape[1:] for a in arrays))
    out = np.empty((batch, *lanes), arrays[0].dtype)
    for where, v in parts:
        out[where] = v
    return out


def _merge_pointers(parts: Sequence[tuple[np.ndarray, Pointer]], batch: int) -> Pointer:
    region = parts[0][1].region
    if all(p.region is region for _, p in parts):
        return Pointer(region, merge([(where, p.offset) for where, p in parts], batch))
    return Pointer(None, _spread([(where, p.addresses()) for where, p in parts], batch))


def choose(condition: Any, a: Any, b: Any, batch: int) -> Any:
    """For each of `batch` programs `a` where the scalar `condition` holds, else `b`. For values
    that have no elements: descriptors, tokens."""
    flags = as_condition(condition)
    if isinstance(flags, bool):
        return a if flags else b
    parts = [(np.flatnonzero(flags), a), (np.flatnonzero(~flags), b)]
    return merge([(where, take(value, where)) for where, value in parts], batch)


def as_condition(value: Any) -> bool | np.ndarray:
    """A scalar i1 as a bool where all programs agree, else bool[b]."""
    array = dense(value)
    if array.ndim != 1:
        array = array.reshape(-1)
    if array.size == 1 or (array == array[0]).all():
        return bool(array[0])
    return array
