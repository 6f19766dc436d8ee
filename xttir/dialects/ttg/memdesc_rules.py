"""What the parameters of a memory descriptor must satisfy together (`MemDescType::verify`)."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    NVMMASharedEncodingAttr,
    PaddedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    SharedMemorySpaceAttr,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
    TensorMemorySpaceAttr,
)
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.parameters import (
    SHARED,
    TENSOR_MEMORY,
    cga_of,
    own_layout,
    rank_of,
    shape_per_block,
)
from xttir.dialects.layouts.rules import check, is_power_of_two
from xttir.dialects.layouts.shared import tma_box
from xttir.dialects.layouts.to_linear import linear_layout
from xttir.dialects.tt.types import PointerType

Shape = tuple[int, ...]


def element_bits(element: Attribute) -> int:
    """The width of an element in memory; a pointer has 64 bits."""
    if isinstance(element, PointerType):
        return 64
    if isinstance(element, IntegerType | AnyFloat):
        return element.bitwidth
    raise VerifyException(f"memory cannot hold elements of type {element}")


def check_memdesc(
    shape: Shape, element: Attribute, encoding: Attribute, space: Attribute, alloc: Shape
) -> None:
    """Raise a VerifyException where such a descriptor cannot be."""
    check(bool(shape), "rank 0 memdesc is not allowed")
    bits = element_bits(element)
    check(bits == 1 or bits >= 8, f"element type bit width must be 1 or at least 8; got {bits}")
    check(0 not in shape, "shape has 0 dimension")
    check(0 not in alloc, "alloc shape has 0 dimension")
    check(len(alloc) >= len(shape), "alloc shape must have at least as many dimensions as shape")
    check(
        isinstance(encoding, SHARED + TENSOR_MEMORY), lambda: f"{encoding} is not a valid encoding"
    )
    try:
        _check_rank(shape, encoding)
        _check_extents(shape, alloc, rank_of(encoding))
        if isinstance(encoding, TensorMemoryEncodingAttr):
            _check_tensor_memory(shape, bits, encoding, space, alloc)
        elif isinstance(encoding, TensorMemoryScalesEncodingAttr):
            _check_scales(bits, space, alloc)
        else:
            _check_shared(bits, encoding, space, alloc)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return


def _check_rank(shape: Shape, encoding: Attribute) -> None:
    rank, have = rank_of(encoding), len(shape)
    if isinstance(encoding, TensorMemoryEncodingAttr):
        check(have in (2, 3), "rank must be 2 or 3")
    elif isinstance(encoding, TensorMemoryScalesEncodingAttr):
        check(have == 2, f"tensor-memory scale descriptors must have rank 2; got {have}")
    else:
        check(
            rank in (have, have - 1),
            f"rank must be equal to or one less than the shape size. Got {rank} and {have}",
        )


def _check_extents(shape: Shape, alloc: Shape, rank: int) -> None:
    """Only a leading dimension of buffers may have another extent than a power of two."""
    for what, extents in (("shape", shape), ("alloc shape", alloc)):
        check(
            all(map(is_power_of_two, extents[max(0, len(extents) - rank) :])),
            f"{what} must have power-of-2 and non-zero dimensions; got {list(extents)}",
        )
    check(
        all(a <= b for a, b in zip(shape, alloc[len(alloc) - len(shape) :], strict=True)),
        f"shape must be less than or equal to allocShape: {list(shape)}, {list(alloc)}",
    )


def _check_tensor_memory(
    shape: Shape, bits: int, encoding: TensorMemoryEncodingAttr, space: Attribute, alloc: Shape
) -> None:
    check(isinstance(space, TensorMemorySpaceAttr), "memorySpace must be TensorMemorySpace")
    check(bits >= 8, f"tensor-memory element type bit width must be at least 8; got {bits}")
    stride = encoding.number("colStride")
    check(
        bits * stride <= 32,
        f"bitwidth * colStride must be less than or equal to 32. Got {bits} and {stride}",
    )
    rows, columns = encoding.number("blockM"), min(encoding.number("blockN"), shape[-1])
    split = cga_of(encoding).out_shape
    least = (rows * split[0], columns * split[1])
    check(
        shape[-2] >= least[0] and shape[-1] >= least[1],
        f"the tensor shape must be at least {least[0]}x{least[1]}. Got {list(shape)}",
    )
    whole = alloc[-2:]
    have = linear_layout(encoding, whole).out_shape
    check(have == whole, f"allocation shape must be equal to {have[0]}x{have[1]}")


def _check_scales(bits: int, space: Attribute, alloc: Shape) -> None:
    check(isinstance(space, TensorMemorySpaceAttr), "memorySpace must be TensorMemorySpace")
    check(len(alloc) == 2, "scales don't currently support multibuffering")
    check(bits == 8, "bitwidth must be 8")


def _check_shared(bits: int, encoding: Attribute, space: Attribute, alloc: Shape) -> None:
    check(
        isinstance(space, SharedMemorySpaceAttr),
        lambda: f"memorySpace must be SharedMemorySpace for shared encoding. Got {space}",
    )
    check(
        bits % 8 == 0,
        f"shared-memory element type bit width must be a multiple of 8; got {bits}",
    )
    rank = rank_of(encoding)
    whole = alloc[len(alloc) - rank :]
    if isinstance(encoding, PaddedSharedEncodingAttr | SharedLinearEncodingAttr):
        own = own_layout(encoding).out_shape
        check(
            own == whole,
            lambda: f"mismatch in expected shape: {list(whole)}, but the layout has {own}",
        )
    elif isinstance(encoding, NVMMASharedEncodingAttr):
        tma_box(encoding, shape_per_block(cga_of(encoding), alloc)[len(alloc) - rank :])
