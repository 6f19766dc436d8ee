"""Tensor descriptors: a tensor in memory and the blocks that are copied from and to it.

What is outside of the tensor reads as zero or NaN and is not written. The rounding to tf32 is that
of a tensor map whose elements are TFLOAT32: to nearest even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, Operation

from xttir.diagnostics import Kind, Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp import affine
from xttir.interp.affine import Box, Index, dense
from xttir.interp.batch import merge, take
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.memory_ops import load
from xttir.interp.numerics.products import tf32_nearest
from xttir.interp.taint import Tainted, plain, report
from xttir.interp.tt import INT64, add_offset


@dataclass(eq=False)
class Descriptor:
    """A tensor descriptor value.

    `base`: scalar `Pointer`. `shape`, `strides` (elements): int64[b] each, a number an axis.
    `block`: the shape of a block. `nan`: loads give NaN outside, else zero. `tf32`: they round.
    """

    base: Pointer
    shape: Sequence[np.ndarray]
    strides: Sequence[np.ndarray]
    block: tuple[int, ...]
    dtype: np.dtype
    nan: bool
    tf32: bool = False

    def take(self, programs: np.ndarray) -> Self:
        """The descriptor for some programs of the batch."""
        base = take(self.base, programs)
        shape = [take(a, programs) for a in self.shape]
        strides = [take(a, programs) for a in self.strides]
        pairs = zip((*shape, *strides), (*self.shape, *self.strides), strict=True)
        if base.offset is self.base.offset and all(a is b for a, b in pairs):
            return self
        return replace(self, base=base, shape=shape, strides=strides)

    def merge(self, parts: Sequence[tuple[np.ndarray, Self]], batch: int) -> Self:
        """One descriptor for a whole batch."""

        def column(get: Any) -> Any:
            return merge([(where, get(d)) for where, d in parts], batch)

        rank = range(len(self.shape))
        return replace(
            self,
            base=column(lambda d: d.base),
            shape=[column(lambda d, k=k: d.shape[k]) for k in rank],
            strides=[column(lambda d, k=k: d.strides[k]) for k in rank],
        )

    def with_block(self, block: tuple[int, ...]) -> Self:
        """The same tensor in blocks of another shape."""
        return replace(self, block=block)

    def fetch(self, m: Machine, op: Operation, pointer: Pointer, mask: Any) -> Any:
        """The block at `pointer`, of whose elements `mask` says which are inside."""
        fill = None
        if self.nan:
            one = (1,) * (len(self.block) + 1)
            fill = np.full(one, np.nan, np.float32).astype(self.dtype)
        value = load(m, op, pointer, mask, fill, self.dtype, self.block)
        if not self.tf32:
            return value
        if type(value) is Tainted:
            return Tainted(tf32_nearest(dense(value.value)), value.bad, value.origin)
        return tf32_nearest(dense(value))


def block_access(d: Descriptor, indices: Sequence[Any]) -> tuple[Pointer, Box | np.ndarray]:
    """Pointers and bounds mask of the block of `d` at `indices`; an index may be an `Index` or
    array of the block's shape (gather) or a scalar."""
    shape = d.block
    pointer = Pointer(d.base.region, _splat(d.base.offset, shape))
    mask: Box | np.ndarray | None = None
    for axis, (index, extent, stride) in enumerate(zip(indices, d.shape, d.strides, strict=True)):
        coordinate = _coordinate(index, axis, shape)
        step = _splat(stride, shape)
        limit = _splat(extent, shape)
        zero = Index(np.zeros(1, np.int64), (0,) * len(shape), shape, INT64)
        inside: Box | np.ndarray
        if type(coordinate) is Index and type(step) is Index:
            offset = affine.mul(coordinate, step, INT64)
            low = affine.compare(coordinate, zero, "sge")
            high = affine.compare(coordinate, limit, "slt")
            assert low is not None
            assert high is not None
            inside = affine.intersect(low, high)
            if offset is None:
                offset = coordinate.dense() * step.dense()
        else:
            value = dense(coordinate)
            inside = (value >= 0) & (value < limit.dense())
            offset = value * step.dense()
        pointer = add_offset(pointer, offset, d.dtype.itemsize, shape)
        if mask is None:
            mask = inside
        elif type(mask) is Box and type(inside) is Box:
            mask = affine.intersect(mask, inside)
        else:
            mask = dense(mask) & dense(inside)
    assert mask is not None
    return pointer, mask


def reduction(op: Operation, kind: tt.DescriptorReduceKind, ty: Attribute) -> str:
    """What a reduction through a descriptor of type `ty` does to memory, as a keyword of
    `memory_ops.RMW`. Which of two integers is less depends on the descriptor's elements, which are
    signed or unsigned where those of tensors are neither."""
    assert isinstance(ty, tt.TensorDescType)
    element, keyword = ty.element_type, kind.keyword
    if keyword not in ("add", "min", "max", "and", "or", "xor"):
        raise Unsupported(f"{op.name} {keyword}", location_of(op))
    if not isinstance(element, IntegerType):
        return "fadd" if keyword == "add" else keyword
    if keyword not in ("min", "max"):
        return keyword
    match element.signedness.data:
        case Signedness.UNSIGNED:
            return f"u{keyword}"
        case Signedness.SIGNED:
            return keyword
        case _:
            what = f"{op.name} {keyword} of {element}: neither signed nor unsigned"
            raise Unsupported(what, location_of(op))


def undefined_with(value: Any, indices: Sequence[Any]) -> Any:
    """A block that was read at `indices`: where one of them is undefined, so is all of the block.
    What is read lies inside of the tensor or is filled in all the same, so that is no fault yet."""
    marked = [index for index in indices if type(index) is Tainted]
    if not marked:
        return value
    bare = dense(value.value if type(value) is Tainted else value)
    bad: np.ndarray = _rows_of(marked).reshape((-1,) + (1,) * (bare.ndim - 1))
    if type(value) is Tainted:
        bad = bad | value.bad
    return Tainted(bare, bad, marked[0].origin) if bad.any() else value


def _rows_of(marked: Sequence[Tainted]) -> np.ndarray:
    """bool[1 or b]: for which programs one of the values has an undefined lane."""
    rows = np.zeros(1, bool)
    for value in marked:
        rows = rows | value.bad.reshape(value.bad.shape[0], -1).any(axis=1)
    return rows


def observe_block(
    m: Machine, op: Operation, d: Descriptor, indices: Sequence[Any], stored: Any
) -> tuple[list[Any], Any]:
    """The plain indices at which `op` stores a block, and the plain value (shaped as the block).
    Undefined indices are reported unless the tensor has no elements at all, undefined elements
    where they are inside of it."""
    bare = [plain(index) for index in indices]
    anything = np.ones(1, bool)
    for extent in d.shape:
        anything = anything & (dense(extent).reshape(-1) > 0)
    rows = np.zeros(1, bool)
    for index in indices:
        if type(index) is Tainted and index.origin.kind is not Kind.INT_OVERFLOW:
            lanes = (-1,) + (1,) * (index.bad.ndim - 1)
            bad = index.bad & anything.reshape(lanes)
            if bad.any():
                report(m, op, index, bad, "coordinate")
            rows = rows | _rows_of([index])
    if type(stored) is Tainted and stored.origin.kind is not Kind.INT_OVERFLOW:
        mask = dense(block_access(d, bare)[1])
        bad = stored.bad & mask & ~rows.reshape((-1,) + (1,) * len(d.block))
        if bad.any():
            report(m, op, stored, bad, "stored value")
    return bare, plain(stored)


def _splat(value: Any, shape: tuple[int, ...]) -> Index:
    array = value.base if type(value) is Index else dense(value).reshape(-1).astype(np.int64)
    return Index(array, (0,) * len(shape), shape, INT64)


def _coordinate(index: Any, axis: int, shape: tuple[int, ...]) -> Index | np.ndarray:
    if type(index) is np.ndarray and index.ndim > 1:
        return index.astype(np.int64)
    strides = tuple(1 if k == axis else 0 for k in range(len(shape)))
    array = dense(index).reshape(-1).astype(np.int64)
    return Index(array, strides, shape, INT64)
