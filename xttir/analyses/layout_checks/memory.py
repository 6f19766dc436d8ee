"""Views of shared memory, and what reads and writes it: the addresses that types promise.

Triton lowers a view by renaming indices: the address of an element of the view is that of the
element of the source that it names. The layout in the type of the view says the same address only
if it is the right one; each function here compares the two, as arrays of offsets. Engines (TMA,
wgmma, tcgen05) are told a swizzle and an element size, which must be those of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from xttir.analyses.layout_checks.finding import Finding, element
from xttir.dialects.layouts.encodings import NVMMASharedEncodingAttr
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.parameters import SHARED, TENSOR_MEMORY
from xttir.dialects.layouts.to_linear import (
    allocation_blocks,
    allocation_elements,
    allocation_offsets,
    layout_of,
    linear_layout,
    memory_shape,
)
from xttir.dialects.tt.types import PointerType, TensorDescType, bit_width
from xttir.dialects.ttg.types import MemDescType


def bits_of_element(type_: Attribute) -> int:
    """The width of an element in memory."""
    return 64 if isinstance(type_, PointerType) else bit_width(type_)


def covers(type_: MemDescType) -> Finding | None:
    """The layout exists on the shape of the allocation, and every element has a place."""
    encoding = type_.encoding
    if not isinstance(encoding, SHARED + TENSOR_MEMORY):
        return None
    try:
        layout = linear_layout(encoding, memory_shape(encoding, type_.get_alloc_shape()))
    except LayoutError as error:
        return Finding(f"the layout of {type_} does not exist: {error.what}")
    if layout.is_surjective:
        return None
    lost = (1 << layout.out_bits) - (1 << layout.rank)
    return Finding(f"the layout of {type_} has no place for {lost} of its elements")


def _is_shared(*types: MemDescType) -> bool:
    return all(isinstance(type_.encoding, SHARED) for type_ in types)


def _own_alloc(type_: MemDescType) -> tuple[int, ...]:
    """The allocation, as far as the view still has its dimensions."""
    alloc = type_.get_alloc_shape()
    return alloc[len(alloc) - len(type_.get_shape()) :]


def _addresses(type_: MemDescType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(offsets, blocks): int64[*alloc_shape] each."""
    alloc = _own_alloc(type_)
    return allocation_offsets(type_.encoding, alloc), allocation_blocks(type_.encoding, alloc)


def _same_places(
    got: Sequence[NDArray[np.int64]], result: MemDescType, what: str
) -> Finding | None:
    """The (offsets, blocks) that a view leads to, against those that its type says."""
    for name, mine, theirs in zip(("offset", "block"), got, _addresses(result), strict=True):
        if mine.shape != theirs.shape:
            return Finding(f"{what}: the allocation of the result must be of shape {mine.shape}")
        wrong = np.argwhere(mine != theirs)
        if len(wrong):
            at = tuple(wrong[0])
            return Finding(
                f"{what} renames indices, but the layout of its result puts elements elsewhere: "
                f"{len(wrong)} of {mine.size}",
                (
                    f"element {[int(i) for i in at]} of the result is at {name} {mine[at]}; its "
                    f"layout says {theirs[at]}",
                    f"the result is {result}",
                ),
            )
    return None


def trans(source: MemDescType, order: Sequence[int], result: MemDescType) -> Finding | None:
    if not _is_shared(source, result):
        return None
    return _same_places(
        [part.transpose(order) for part in _addresses(source)], result, "ttg.memdesc_trans"
    )


def reshape(source: MemDescType, result: MemDescType) -> Finding | None:
    if not _is_shared(source, result):
        return None
    shape = _own_alloc(result)
    parts = _addresses(source)
    if parts[0].size != np.prod(shape):
        return Finding("ttg.memdesc_reshape: the allocations hold different numbers of elements")
    return _same_places([part.reshape(shape) for part in parts], result, "ttg.memdesc_reshape")


def index(source: MemDescType, result: MemDescType) -> Finding | None:
    """One buffer of several, each laid out alike."""
    if not _is_shared(source, result):
        return None
    return _same_places([part[0] for part in _addresses(source)], result, "ttg.memdesc_index")


def subslice(source: MemDescType, offsets: Sequence[int], result: MemDescType) -> Finding | None:
    """The address of element i is computed as that of the view's start xor that of i."""
    if not _is_shared(source, result):
        return None
    if source.encoding != result.encoding or _own_alloc(source) != _own_alloc(result):
        return Finding(
            "ttg.memdesc_subslice: a view has the layout and the allocation of its source",
            (f"{source} to {result}",),
        )
    shape, rank = result.get_shape(), len(memory_shape(source.encoding, source.get_shape()))
    inner, start = shape[len(shape) - rank :], offsets[len(shape) - rank :]
    layout = linear_layout(source.encoding, memory_shape(source.encoding, _own_alloc(source)))
    inverse = layout.pseudo_invert()
    # Renaming adds the start to the index; the address takes both apart.
    added = np.ogrid[tuple(slice(o, o + n) for o, n in zip(start, inner, strict=True))]
    right = inverse.apply_flat(**{f"dim{d}": axis for d, axis in enumerate(added)})
    plain = np.ogrid[tuple(slice(n) for n in inner)]
    apart = inverse.apply_flat(**{f"dim{d}": axis for d, axis in enumerate(plain)})
    apart = apart ^ inverse.apply_flat(**{f"dim{d}": o for d, o in enumerate(start)})
    wrong = np.argwhere(right != apart)
    if not len(wrong):
        return None
    return Finding(
        f"ttg.memdesc_subslice at {list(offsets)}: the start does not divide the view's shape, so "
        "that addresses are not those of the elements",
        (f"first wrong at element {[int(i) for i in wrong[0]]} of {result}",),
    )


def _bytes(type_: MemDescType, shape: tuple[int, ...]) -> int:
    return allocation_elements(type_.encoding, shape) * bits_of_element(type_.element_type) // 8


def reinterpret(source: MemDescType, result: MemDescType) -> Finding | None:
    """The result stays within the bytes of the source."""
    if not _is_shared(source, result):
        return None
    have = _bytes(source, (*source.get_shape()[: -len(_inner(source))], *_inner_alloc(source)))
    need = _bytes(result, result.get_alloc_shape())
    if need <= have:
        return None
    return Finding(
        f"ttg.memdesc_reinterpret: the result takes {need} bytes of a source of {have}",
        (f"{source} to {result}",),
    )


def _inner(type_: MemDescType) -> tuple[int, ...]:
    return memory_shape(type_.encoding, type_.get_shape())


def _inner_alloc(type_: MemDescType) -> tuple[int, ...]:
    return memory_shape(type_.encoding, type_.get_alloc_shape())


def access(memory: MemDescType, tensor: TensorType, what: str) -> Finding | None:
    """A load or store between registers and memory: same elements, of the same size."""
    if tuple(memory.get_shape()) != tuple(tensor.get_shape()):
        return Finding(f"{what} of {tensor}, but memory has {memory}")
    if bits_of_element(memory.element_type) != bits_of_element(tensor.element_type):
        return Finding(f"{what} of elements of {tensor.element_type}, but memory has {memory}")
    return None


def _swizzle(encoding: NVMMASharedEncodingAttr) -> dict[str, int]:
    names = ("swizzlingByteWidth", "elementBitWidth", "transposed", "fp4Padded")
    return {name: encoding.number(name, 0) for name in names}


def element_width(memory: MemDescType, what: str) -> Finding | None:
    """An engine reads elements of the width for which memory is swizzled, if it is."""
    encoding = memory.encoding
    if not isinstance(encoding, NVMMASharedEncodingAttr):
        return None
    if not encoding.number("swizzlingByteWidth"):
        return None
    said, is_ = encoding.number("elementBitWidth"), bits_of_element(memory.element_type)
    if said == is_:
        return None
    return Finding(
        f"{what}: memory is swizzled for elements of {said} bits, but holds {is_}-bit elements",
        (f"memory is {memory}",),
    )


def copy_by_tma(desc: Attribute, memory: MemDescType, what: str) -> Finding | None:
    """The tensor map's box, element size and swizzle are those of the memory."""
    found = element_width(memory, what)
    if found is not None:
        return found
    if not isinstance(desc, TensorDescType) or isinstance(desc.shared_layout, NoneAttr):
        return None
    if bits_of_element(desc.element_type) != bits_of_element(memory.element_type):
        return Finding(
            f"{what}: the descriptor has elements of {desc.element_type}, memory of "
            f"{memory.element_type}"
        )
    mine, theirs = memory.encoding, desc.shared_layout
    swizzled = isinstance(mine, NVMMASharedEncodingAttr) and mine.number("swizzlingByteWidth") > 0
    if isinstance(mine, NVMMASharedEncodingAttr) and isinstance(theirs, NVMMASharedEncodingAttr):
        for name, value in _swizzle(theirs).items():
            if _swizzle(mine)[name] != value and (name != "elementBitWidth" or swizzled):
                return Finding(
                    f"{what}: the descriptor has {name} = {value}, memory has "
                    f"{name} = {_swizzle(mine)[name]}",
                    (f"{desc}", f"{memory}"),
                )
        return None
    shape = memory_shape(mine, memory.get_shape()) if isinstance(mine, SHARED) else ()
    if shape and tuple(desc.get_shape()[-len(shape) :]) == shape:
        inner = linear_layout(theirs, shape)
        if inner.table.shape != linear_layout(mine, shape).table.shape or not np.array_equal(
            inner.table, linear_layout(mine, shape).table
        ):
            return Finding(
                f"{what}: the layout of the descriptor is not that of the memory",
                (f"{desc}", f"{memory}"),
            )
    return None


def tensor_memory_access(memory: MemDescType, tensor: TensorType, what: str) -> Finding | None:
    """Warp w of a group of four reaches rows 32 w to 32 w + 31 of tensor memory, and no others."""
    found = access(memory, tensor, what)
    if found is not None or not isinstance(memory.encoding, TENSOR_MEMORY):
        return found
    shape = tuple(tensor.get_shape())
    alloc = memory_shape(memory.encoding, memory.get_alloc_shape())
    if len(shape) != 2 or alloc != shape:
        return None
    names = ("dim1", "dim0")
    reached = linear_layout(memory.encoding, shape).transpose_outs(names).flat_table
    if reached.shape[0] != 128:
        return None
    rows = reached.reshape(4, -1)
    can = np.zeros((4, shape[0] * shape[1]), dtype=bool)
    can[np.arange(4)[:, None], rows] = True
    held = layout_of(tensor).transpose_outs(names).flat_table
    for warp in range(held.shape[2]):
        here = held[:, :, warp].reshape(-1)
        wrong = np.flatnonzero(~can[warp % 4][here])
        if len(wrong):
            return Finding(
                f"{what}: warp {warp} holds elements of tensor memory that are outside of the 32 "
                "rows that it reaches",
                (
                    f"first element {element(int(here[wrong[0]]), shape)} of {tensor}",
                    f"tensor memory is {memory}",
                ),
            )
    return None
