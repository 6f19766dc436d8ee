"""What ops of `ttg` require of memory descriptors: allocations, views, loads and stores.

The rules are those of the ops' verifiers in Triton's `lib/Dialect/TritonGPU/IR/Ops.cpp`. Views are
judged on linear layouts; a layout that has none here is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    TensorMemoryEncodingAttr,
    TensorMemorySpaceAttr,
)
from xttir.dialects.layouts.inference import normal, reshaped
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout
from xttir.dialects.layouts.parameters import SHARED, TENSOR_MEMORY, rank_of
from xttir.dialects.layouts.to_linear import linear_layout, memory_shape
from xttir.dialects.tt.traits import check
from xttir.dialects.ttg.memdesc_rules import element_bits
from xttir.dialects.ttg.types import MemDescType


def check_extent(source: Attribute, target: Attribute) -> None:
    """`source` and `target`, tensors or memory descriptors, must hold the same elements."""
    assert isinstance(source, TensorType | MemDescType)
    assert isinstance(target, TensorType | MemDescType)
    check(
        source.element_type == target.element_type,
        lambda: (
            f"source element type {source.element_type} must match destination element type "
            f"{target.element_type}"
        ),
    )
    check(
        tuple(source.get_shape()) == tuple(target.get_shape()),
        f"source shape {list(source.get_shape())} must match destination shape "
        f"{list(target.get_shape())}",
    )


def check_mutable(type_: Attribute) -> None:
    """The memory that `type_` describes must be one that may be stored to."""
    assert isinstance(type_, MemDescType)
    check(bool(type_.mutable_memory.data), "cannot store into immutable memory")


def check_rank(tensor: Attribute, memory: Attribute) -> None:
    """A tensor that is loaded or stored whole has the rank of the memory's layout."""
    assert isinstance(tensor, TensorType)
    assert isinstance(memory, MemDescType)
    try:
        rank = rank_of(memory.encoding)
    except Unsupported:
        return
    have = tensor.get_num_dims()
    check(have == rank, f"a tensor of rank {have}, but the layout of the memory has rank {rank}")


def check_alloc(source: Attribute | None, result: Attribute) -> None:
    """An allocation, with the initial value of type `source`."""
    assert isinstance(result, MemDescType)
    check(result.shape == result.alloc_shape, "result shape and its alloc shape must match")
    if source is None:
        check(bool(result.mutable_memory.data), "uninitialized memory must be mutable")
    else:
        check_extent(source, result)


def is_shared(layout: Attribute) -> bool:
    """Whether a layout is one of shared memory; what is unknown may be."""
    return isinstance(layout, SHARED) or not isinstance(layout, TENSOR_MEMORY)


def check_indexed(
    memory: Attribute, indices: Attribute, values: Attribute, axis: int, what: str
) -> None:
    """A gather from `memory` or a scatter to it; `what` names the values."""
    assert isinstance(memory, MemDescType)
    assert isinstance(indices, TensorType)
    assert isinstance(values, TensorType)
    check(is_shared(memory.encoding), "the memory must have a shared memory encoding")
    check(values.get_shape() == indices.get_shape(), f"{what} shape must match indices shape")
    rank = len(memory.get_shape())
    check(rank == indices.get_num_dims(), "memory and indices must have the same rank")
    check(0 <= axis < rank, f"axis {axis} is out of bounds for rank {rank}")
    check(
        memory.element_type == values.element_type,
        f"{what} element type must match that of the memory",
    )
    check(values.encoding == indices.encoding, f"{what} must have the same layout as indices")


# Views


def _check_same(source: MemDescType, result: MemDescType) -> None:
    check(
        source.element_type == result.element_type,
        "result element type must match that of the source",
    )
    check(source.encoding == result.encoding, "source and result must have the same encoding")
    _check_same_memory(source, result)


def _check_same_memory(source: MemDescType, result: MemDescType) -> None:
    check(
        source.memory_space == result.memory_space,
        "source and result must have the same memory space",
    )
    check(
        source.mutable_memory == result.mutable_memory,
        "source and result must have the same mutability",
    )


def check_index(source: MemDescType, result: MemDescType) -> None:
    """`result` is one of the buffers of `source`."""
    check(
        source.element_type == result.element_type,
        "result element type must match that of the source",
    )
    check(source.encoding == result.encoding, "source and result must have the same encoding")
    shape, alloc = source.get_shape(), source.get_alloc_shape()
    part = result.get_shape()
    check(len(shape) == len(part) + 1, "result rank must be input rank - 1")
    check(len(alloc) == len(shape), "memdesc_index of a memdesc_index")
    rank = len(part)
    if isinstance(source.encoding, SHARED + TENSOR_MEMORY):
        rank = rank_of(source.encoding)
    check(shape[len(shape) - rank :] == part, f"result shape must be {list(shape[1:])}")
    check(
        alloc[len(alloc) - rank :] == part,
        "memdesc_index needs whole buffers, not parts of them",
    )
    check(result.shape == result.alloc_shape, "alloc shape must match shape for the result")
    if isinstance(source.encoding, TensorMemoryEncodingAttr):
        check(
            len(shape) == 3 and len(part) == 2,
            "only 3D -> 2D subviews are supported for tensor memory",
        )


def check_subslice(source: MemDescType, result: MemDescType, offsets: Sequence[int]) -> None:
    """`result` is the part of `source` that begins at `offsets`."""
    check(
        source.element_type == result.element_type,
        "result element type must match that of the source",
    )
    check(source.encoding == result.encoding, "source and result must have the same encoding")
    whole, part = source.get_shape(), result.get_shape()
    check(len(offsets) == len(whole), "offsets must have the same rank as input")
    check(len(whole) == len(part), "result rank must equal to input rank")
    check(
        source.alloc_shape == result.alloc_shape,
        "source and result must have the same allocation shape",
    )
    layout = source.encoding
    check(isinstance(layout, SHARED), "source and result must both be of shared memory encoding")
    prefix = len(whole) - rank_of(layout)
    split = [i for i, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b]
    for dim, offset in enumerate(offsets):
        if dim not in split:
            check(offset == 0, "a non zero offset in a dimension that is not being split")
            continue
        check(
            0 <= offset <= whole[dim] - part[dim],
            "the split offset may not exceed the source shape",
        )
        check(dim < prefix or offset % part[dim] == 0, "the split offset may not touch the tile")
    if not split:
        return
    if isinstance(layout, PaddedSharedEncodingAttr):
        check(prefix <= 0, "subslices of multibuffered padded memory are not supported")
    try:
        _check_split(layout, whole, part, [dim for dim in split if dim >= prefix], prefix)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return


def _check_split(
    layout: Attribute,
    whole: Sequence[int],
    part: Sequence[int],
    split: Sequence[int],
    prefix: int,
) -> None:
    """Parts along `split` begin at one offset each: no swizzle goes across them."""
    if isinstance(layout, PaddedSharedEncodingAttr):
        # A part of padded memory is laid out as the whole.
        own = linear_layout_of_alloc(layout, whole)
    else:
        own = linear_layout(layout, memory_shape(layout, whole))
    inverse = own.pseudo_invert()
    for dim in split:
        step = part[dim]
        while step < whole[dim]:
            place = inverse.apply(
                **{name: step if i == dim - prefix else 0 for i, name in enumerate(own.out_names)}
            )
            offset = int(place["offset"])
            check(
                offset & (offset - 1) == 0,
                "splitting along the swizzling pattern is not supported",
            )
            step *= 2


def linear_layout_of_alloc(layout: Attribute, shape: Sequence[int]) -> LinearLayout:
    """The layout of padded memory, which says itself what it is the layout of."""
    from xttir.dialects.layouts.parameters import own_layout

    own = own_layout(layout)
    want = memory_shape(layout, shape)
    return own if own.out_shape == want else own.clip(dict(zip(own.out_names, want, strict=True)))


def check_trans(source: MemDescType, result: MemDescType, order: Sequence[int]) -> None:
    """Dimension i of `result` is dimension order[i] of `source`."""
    check(source.element_type == result.element_type, "element type must not change")
    shape, alloc = source.get_shape(), source.get_alloc_shape()
    check(
        len(order) == len(shape),
        "order must have the same size as the rank of the operand and result",
    )
    check(sorted(order) == list(range(len(order))), "order must be a permutation of 0..rank-1")
    check(
        result.get_shape() == tuple(shape[i] for i in order),
        "result shape must match the permutation of the source shape",
    )
    tail = alloc[len(alloc) - len(order) :]
    check(
        result.get_alloc_shape() == (*alloc[: len(alloc) - len(order)], *(tail[i] for i in order)),
        "alloc shape of the result must match the permutation of that of the source",
    )
    _check_same_memory(source, result)
    if list(order) == list(range(len(order))):
        check(source.encoding == result.encoding, "encoding must not change")
        return
    if not isinstance(source.encoding, SHARED):
        return
    check(
        rank_of(source.encoding) == len(order),
        f"rank of encoding does not match order: {rank_of(source.encoding)} and {len(order)}",
    )
    try:
        moved = linear_layout(source.encoding, shape).permute(order)
        got = linear_layout(result.encoding, result.get_shape())
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return
    check(
        normal(moved) == normal(got),
        lambda: f"the layout of {result} is not that of {source} permuted",
    )


def check_reshape(source: MemDescType, result: MemDescType) -> None:
    """`result` has the bytes of `source` in another shape."""
    before, after = source.get_shape(), result.get_shape()
    check(
        math.prod(before) == math.prod(after),
        "number of src and dst elements of reshape must be the same",
    )
    check(
        source.element_type == result.element_type,
        "result element type must match src element type",
    )
    alloc = source.get_alloc_shape()
    leading = alloc[: len(alloc) - len(before)]
    check(alloc[len(leading) :] == before, "memdesc_reshape of a memdesc_subslice")
    check(
        result.get_alloc_shape() == (*leading, *after),
        f"alloc shape of the result must be {[*leading, *after]}",
    )
    _check_same_memory(source, result)
    if not isinstance(source.encoding, SHARED):
        return
    try:
        moved = reshaped(linear_layout(source.encoding, before), after)
        got = linear_layout(result.encoding, after)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return
    check(
        normal(moved) == normal(got),
        lambda: f"the layout of {result} is not that of {source} reshaped",
    )


def _is_part(type_: MemDescType) -> bool:
    """Whether a view is part of a buffer (and not one or several whole ones)."""
    layout = type_.encoding
    return memory_shape(layout, type_.get_shape()) != memory_shape(layout, type_.get_alloc_shape())


def padding_of(encoding: Attribute) -> PaddedSharedEncodingAttr | None:
    """The padded encoding that `encoding` is, or partitions; None for memory without padding."""
    if isinstance(encoding, PartitionedSharedEncodingAttr):
        encoding = encoding.parameters_.data["partitionLayout"]
    return encoding if isinstance(encoding, PaddedSharedEncodingAttr) else None


def _padding(type_: MemDescType) -> list[tuple[int, int]] | None:
    """Interval and padding in bytes; None for memory without padding."""
    padded = type_.encoding
    if not isinstance(padded, PaddedSharedEncodingAttr):
        return None
    size = element_bits(type_.element_type) // 8
    return [
        (interval.data * size, padding.data * size)
        for interval, padding in zip(padded.intervals, padded.paddings, strict=True)
    ]


def check_reinterpret(source: MemDescType, result: MemDescType) -> None:
    """`result` sees the bytes of `source` as another type."""
    layouts = (source.encoding, result.encoding)
    check(
        not any(isinstance(layout, PartitionedSharedEncodingAttr) for layout in layouts),
        "cannot reinterpret partitioned shared layouts",
    )
    before, after = _padding(source), _padding(result)
    check(
        (before is None) == (after is None),
        "cannot reinterpret between padded and non-padded layouts",
    )
    if before is not None:
        check(not _is_part(source), "cannot reinterpret a padded source subview")
        check(before == after, "cannot reinterpret with different padding pattern")
    _check_same_memory(source, result)
    if not all(isinstance(layout, SHARED + TENSOR_MEMORY) for layout in layouts):
        return
    check(not _is_part(result), "result must not be a subview")
    try:
        _check_footprint(source, result)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return


def _check_footprint(source: MemDescType, result: MemDescType) -> None:
    """All that `result` sees belongs to `source`."""
    mine = linear_layout(source.encoding, memory_shape(source.encoding, source.get_alloc_shape()))
    theirs = linear_layout(result.encoding, memory_shape(result.encoding, result.get_alloc_shape()))
    shape = memory_shape(source.encoding, source.get_shape())
    check(
        all(a < b for basis in mine.bases("block") for a, b in zip(basis, shape, strict=True)),
        "cannot reinterpret a source subview sliced across CTAs",
    )
    tensor = isinstance(source.memory_space, TensorMemorySpaceAttr)
    unit, address = (32, "col") if tensor else (8, "offset")
    if tensor:
        _check_rows(mine, theirs, shape)
    have = _stride(mine, address, source, unit) * _stages(source)
    need = _stride(theirs, address, result, unit) * _stages(result)
    what = "columns" if tensor else "bytes"
    check(
        need <= have,
        f"result footprint ({need} {what}) exceeds the source view ({have} {what})",
    )
    if _is_part(source):
        owned = _owned(mine, address, shape)
        bits = element_bits(source.element_type)
        units = have if owned == mine.in_size(address) else -(-owned * bits // unit)
        check(
            need <= units,
            f"result footprint ({need} {what}) includes {what} not owned by the source subview"
            f" ({units} are contiguous)",
        )


def _stages(type_: MemDescType) -> int:
    shape = type_.get_shape()
    return math.prod(shape[: len(shape) - len(memory_shape(type_.encoding, shape))])


def _stride(layout: LinearLayout, address: str, type_: MemDescType, unit: int) -> int:
    """Units that one buffer takes."""
    return -(-layout.in_size(address) * element_bits(type_.element_type) // unit)


def _rows(layout: LinearLayout, shape: Sequence[int]) -> int:
    """The bits of the row that tell elements of a view of `shape` apart, as a mask."""
    mask = 0
    for i, basis in enumerate(layout.bases("row")):
        if any(basis) and all(a < b for a, b in zip(basis, shape, strict=True)):
            mask |= 1 << i
    return mask


def _check_rows(mine: LinearLayout, theirs: LinearLayout, shape: Sequence[int]) -> None:
    """Rows of tensor memory that a subview does not see stay unseen."""
    hidden = _rows(mine, mine.out_shape) & ~_rows(mine, shape)
    check(
        not _rows(theirs, theirs.out_shape) & hidden,
        "result accesses tensor-memory rows outside the source subview",
    )


def _owned(layout: LinearLayout, address: str, shape: Sequence[int]) -> int:
    """From the start of a view of `shape`, how many addresses in a row belong to it.

    Addresses at which the layout has nothing belong to the view as well.
    """
    size = 1
    for basis in layout.bases(address):
        if not all(a < b for a, b in zip(basis, shape, strict=True)):
            break
        size *= 2
    return size
