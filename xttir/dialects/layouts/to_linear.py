"""Every encoding as a linear layout, and the index arrays that interpreters and checks use.

Tensors: `element_of(type)` says which element each register of each lane holds. Memory:
`shared_offsets(type)` says at which offset of shared memory each element lies. All is remembered
per encoding and shape; arrays are read-only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts import amd, distributed, shared, tensor_memory
from xttir.dialects.layouts.encodings import (
    AMDMfmaEncodingAttr,
    AMDRotatingSharedEncodingAttr,
    AMDWmmaEncodingAttr,
    BlockedEncodingAttr,
    DotOperandEncodingAttr,
    GenericLinearEncodingAttr,
    LinearEncodingAttr,
    NvidiaMmaEncodingAttr,
    NVMMASharedEncodingAttr,
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    SliceEncodingAttr,
    SwizzledSharedEncodingAttr,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout, bits_of
from xttir.dialects.layouts.parameters import (
    REGISTER_DIMS,
    SHARED,
    TENSOR_MEMORY,
    cga_of,
    rank_of,
    without_dim,
)


@lru_cache(maxsize=16384)
def linear_layout(encoding: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    """The layout of a tensor, or of memory, of `shape`.

    Inputs are register, lane, warp, block (tensors), offset, block (shared memory) or row, col,
    block (tensor memory); outputs dim0, dim1, ... For padded memory, offsets are those before
    padding. A LayoutError means that the encoding cannot hold the shape; Unsupported that it has
    no layout yet (`gluon.auto_encoding`).
    """
    for size in shape:
        bits_of(size, "extent")
    match encoding:
        case BlockedEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.blocked(encoding, shape)
        case SliceEncodingAttr():
            return _slice(encoding, shape)
        case LinearEncodingAttr() | GenericLinearEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.linear(encoding, shape)
        case DotOperandEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.dot_operand(encoding, shape)
        case NvidiaMmaEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.nvidia_mma(encoding, shape)
        case AMDMfmaEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.spread(amd.mfma(encoding, shape), cga_of(encoding), shape)
        case AMDWmmaEncodingAttr():
            rank_must_be(encoding, shape)
            return distributed.spread(amd.wmma(encoding, shape), cga_of(encoding), shape)
        case _:
            return _memory_layout(encoding, shape)


def layout_with_copies(encoding: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    """As `linear_layout` in Triton 3.8: a blocked layout keeps registers that hold copies."""
    if isinstance(encoding, BlockedEncodingAttr):
        rank_must_be(encoding, shape)
        return distributed.blocked(encoding, shape, copies=True)
    return linear_layout(encoding, shape)


def _memory_layout(encoding: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    rank_must_be(encoding, shape)
    match encoding:
        case SwizzledSharedEncodingAttr() | AMDRotatingSharedEncodingAttr():
            return shared.swizzled(encoding, shape)
        case NVMMASharedEncodingAttr():
            return shared.nvmma(encoding, shape)
        case SharedLinearEncodingAttr():
            return shared.shared_linear(encoding, shape)
        case PaddedSharedEncodingAttr():
            return shared.padded(encoding, shape)
        case PartitionedSharedEncodingAttr():
            return shared.partitioned(encoding, shape)
        case TensorMemoryEncodingAttr():
            return tensor_memory.accumulator(encoding, shape)
        case TensorMemoryScalesEncodingAttr():
            return tensor_memory.scales(encoding, shape)
        case _:
            raise Unsupported(f"the layout of {encoding}")


def rank_must_be(encoding: Attribute, shape: Sequence[int]) -> None:
    rank = rank_of(encoding)
    if rank != len(shape):
        raise LayoutError(f"a layout of rank {rank} on a shape of rank {len(shape)}")


def _slice(encoding: SliceEncodingAttr, shape: tuple[int, ...]) -> LinearLayout:
    """The parent's, on the shape with an extent of 1 at `dim`, without that dimension."""
    dim = encoding.number("dim")
    if not 0 <= dim <= len(shape):
        raise LayoutError(f"a slice along dimension {dim} of {len(shape) + 1}")
    parent = encoding.get("parent")
    assert parent is not None
    whole = linear_layout(parent, (*shape[:dim], 1, *shape[dim:]))
    return without_dim(whole, dim).without_zero_bases("register")


# Tensors


def layout_of(type_: TensorType) -> LinearLayout:
    """The layout of a tensor type that has an encoding."""
    if isinstance(type_.encoding, NoneAttr):
        raise LayoutError(f"{type_} has no layout")
    return linear_layout(type_.encoding, tuple(type_.get_shape()))


@lru_cache(maxsize=1024)
def element_of(type_: TensorType) -> NDArray[np.int64]:
    """int64[registers, lanes, warps, blocks, rank]: the index of the element that is held there."""
    return _with_all_dims(layout_of(type_)).table


@lru_cache(maxsize=1024)
def flat_element_of(type_: TensorType) -> NDArray[np.int64]:
    """int64[registers, lanes, warps, blocks]: as `element_of`, as an offset in row-major order."""
    layout = _with_all_dims(layout_of(type_))
    return layout.transpose_outs(layout.out_names[::-1]).flat_table


def _with_all_dims(layout: LinearLayout) -> LinearLayout:
    """Inputs register, lane, warp, block in this order; one that is missing has extent 1."""
    have = dict(layout.ins)
    return LinearLayout(tuple((n, have.get(n, ())) for n in REGISTER_DIMS), layout.outs)


# Memory


def memory_shape(encoding: Attribute, shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` without the leading dimensions that the encoding does not lay out: its buffers."""
    rank = rank_of(encoding)
    if len(shape) < rank:
        raise LayoutError(f"a layout of rank {rank} on a shape of rank {len(shape)}")
    return tuple(shape[len(shape) - rank :])


def buffer_elements(encoding: Attribute, alloc_shape: Sequence[int]) -> int:
    """How many elements one buffer of an allocation takes in the memory of one block.

    It counts places that hold nothing, but no padding; of partitioned memory it is the part in one
    partition. For tensor memory it is a number of columns.
    """
    layout = linear_layout(encoding, memory_shape(encoding, alloc_shape))
    return layout.in_size("col" if isinstance(encoding, TENSOR_MEMORY) else "offset")


def allocation_elements(encoding: Attribute, alloc_shape: Sequence[int]) -> int:
    """How many elements an allocation takes in the shared memory of one block, with padding."""
    buffers = math.prod(alloc_shape) // math.prod(memory_shape(encoding, alloc_shape))
    last = np.array([buffers * buffer_elements(encoding, alloc_shape) - 1])
    parts = encoding.number("numPartitions") if _is_partitioned(encoding) else 1
    return (int(with_padding(last, encoding)[0]) + 1) * parts


def _is_partitioned(encoding: Attribute) -> TypeGuard[PartitionedSharedEncodingAttr]:
    return isinstance(encoding, PartitionedSharedEncodingAttr)


def with_padding(offsets: NDArray[np.int64], encoding: Attribute) -> NDArray[np.int64]:
    """Where offsets are in padded memory; the same for an encoding that has no padding.

    After every `interval` elements come `padding` that hold nothing; several of them add up.
    """
    if _is_partitioned(encoding):
        encoding = encoding.parameters_.data["partitionLayout"]
    if not isinstance(encoding, PaddedSharedEncodingAttr):
        return offsets
    result = offsets.copy()
    for interval, padding in zip(encoding.intervals, encoding.paddings, strict=True):
        result += offsets // interval.data * padding.data
    return result


@lru_cache(maxsize=1024)
def allocation_offsets(encoding: Attribute, alloc_shape: tuple[int, ...]) -> NDArray[np.int64]:
    """int64[*alloc_shape]: where each element of an allocation of shared memory lies.

    Offsets count elements from the start of the allocation in the memory of the block that holds
    the element (`allocation_blocks` says which). Leading dimensions that the encoding does not lay
    out are buffers, one after another. Partitions, which the compiler places as it likes, are one
    after another too.
    """
    if not isinstance(encoding, SHARED):
        raise LayoutError(f"{encoding} lays out no shared memory")
    place = _places(encoding, alloc_shape)
    offsets = with_padding(place["offset"], encoding)
    if _is_partitioned(encoding):
        part = allocation_elements(encoding, alloc_shape) // encoding.number("numPartitions")
        offsets = offsets + place["partition"] * part
    size = buffer_elements(encoding, alloc_shape)
    return _over_buffers(offsets, alloc_shape, size, encoding)


@lru_cache(maxsize=1024)
def allocation_blocks(encoding: Attribute, alloc_shape: tuple[int, ...]) -> NDArray[np.int64]:
    """int64[*alloc_shape]: which block of the cluster holds each element; the first of several."""
    return _over_buffers(_places(encoding, alloc_shape)["block"], alloc_shape, 0, encoding)


def _over_buffers(
    values: NDArray[np.int64], alloc_shape: tuple[int, ...], size: int, encoding: Attribute
) -> NDArray[np.int64]:
    """`values` of one buffer for all of them, which begin every `size` elements, before padding."""
    leading = alloc_shape[: len(alloc_shape) - values.ndim]
    starts = with_padding(np.arange(math.prod(leading)) * size, encoding)
    result = values + starts.reshape(leading + (1,) * values.ndim)
    result.setflags(write=False)
    return result


def _places(encoding: Attribute, alloc_shape: tuple[int, ...]) -> dict[str, NDArray[np.int64]]:
    """Per input of a memory layout (offset, block, row, ...): int64[*shape of a buffer]."""
    shape = memory_shape(encoding, alloc_shape)
    inverse = linear_layout(encoding, shape).pseudo_invert()
    grid = np.ogrid[tuple(slice(size) for size in shape)]
    index = {f"dim{i}": axis for i, axis in enumerate(grid)}
    place = inverse.apply(**index)
    return place if "block" in place else {**place, "block": np.zeros(shape, dtype=np.int64)}


def shared_offsets(type_: Attribute) -> NDArray[np.int64]:
    """int64[*shape]: the offset, in elements, of each element of a memdesc in shared memory.

    For a view of a larger allocation (a subslice) these are the offsets of the view that begins at
    index 0; the one that begins at `start` is the part [start : start + shape] of
    `allocation_offsets(type.encoding, type.alloc_shape)`. (Offsets of a view that begins elsewhere
    are not those plus a constant, where memory is swizzled.)
    """
    from xttir.dialects.ttg.types import MemDescType

    assert isinstance(type_, MemDescType)
    shape, alloc = type_.get_shape(), type_.get_alloc_shape()
    # A view of one buffer of several: drop the leading dimensions it no longer has.
    offsets = allocation_offsets(type_.encoding, alloc[len(alloc) - len(shape) :])
    return offsets[tuple(slice(size) for size in shape)]


def shared_blocks(type_: Attribute) -> NDArray[np.int64]:
    """int64[*shape]: the block of the cluster whose memory holds each element of a memdesc."""
    from xttir.dialects.ttg.types import MemDescType

    assert isinstance(type_, MemDescType)
    shape, alloc = type_.get_shape(), type_.get_alloc_shape()
    blocks = allocation_blocks(type_.encoding, alloc[len(alloc) - len(shape) :])
    return blocks[tuple(slice(size) for size in shape)]


def tensor_memory_places(type_: Attribute) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, columns), int64[*shape]: where a memdesc in tensor memory has each element.

    Columns count elements of the type (for scales, bytes), as the layout does; leading buffers
    follow one another. Of several places of one element it is the first.
    """
    from xttir.dialects.ttg.types import MemDescType

    assert isinstance(type_, MemDescType)
    shape, alloc = type_.get_shape(), type_.get_alloc_shape()
    alloc = alloc[len(alloc) - len(shape) :]
    place = _places(type_.encoding, alloc)
    size = buffer_elements(type_.encoding, alloc)
    rows = _over_buffers(place["row"], alloc, 0, type_.encoding)
    columns = _over_buffers(place["col"], alloc, size, type_.encoding)
    view = tuple(slice(size) for size in shape)
    return rows[view], columns[view]
