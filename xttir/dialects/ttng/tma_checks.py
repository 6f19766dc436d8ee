"""What copies through tensor descriptors require (`ttng.async_tma_*`, `ttng.async_shared_store`).

The rules are those of the verifiers in Triton's `lib/Dialect/TritonNvidiaGPU/IR/Ops.cpp`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import NVMMASharedEncodingAttr, PaddedSharedEncodingAttr
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.parameters import cga_of, rank_of
from xttir.dialects.layouts.placement import blocks_at, module_of
from xttir.dialects.layouts.to_linear import layout_of, linear_layout, memory_shape
from xttir.dialects.tt.enums import DescriptorReduceKind
from xttir.dialects.tt.memory import check_block, check_rows
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import TensorDescType, bit_width
from xttir.dialects.ttg.memory_checks import check_extent, check_mutable
from xttir.dialects.ttg.types import MemDescType
from xttir.dialects.ttng.barrier_checks import (
    cga_bases,
    check_barrier,
    one_per_block,
    text,
)
from xttir.dialects.ttng.types import TensorDescIm2ColType


def description(desc: Attribute) -> TensorDescType:
    """What a descriptor says of its blocks."""
    if isinstance(desc, TensorDescIm2ColType):
        return desc.block
    assert isinstance(desc, TensorDescType)
    return desc


def check_coordinates(desc: Attribute, coordinates: int, offsets: int = 0) -> None:
    """How many coordinates and offsets an access needs."""
    if isinstance(desc, TensorDescIm2ColType):
        check(
            coordinates >= 3,
            f"IM2COL mode requires at least 3D coordinates, but got {coordinates}D",
        )
        check(
            coordinates <= 5,
            f"IM2COL mode supports at most 5D coordinates, but got {coordinates}D",
        )
        check(offsets > 0, "IM2COL mode requires offsets to be provided")
        check(
            offsets == coordinates - 2,
            lambda: (
                f"IM2COL mode with {coordinates}D coordinates requires {coordinates - 2} offsets,"
                f" but got {offsets}"
            ),
        )
        return
    rank = len(description(desc).get_shape())
    check(coordinates == rank, f"expected {rank} coordinates, but got {coordinates}")
    check(1 <= coordinates <= 5, "must have between 1 and 5 coordinates")
    check(offsets == 0, "TILED mode does not support offsets")


def check_tma_block(desc: Attribute, memory: Attribute) -> None:
    """A block of the descriptor and the memory hold equally many elements of one type."""
    assert isinstance(memory, MemDescType)
    check_block(description(desc), memory.element_type, memory.get_shape())


def _check_encoding(desc: Attribute, memory: MemDescType) -> None:
    """Memory lies as the descriptor says (ranks may differ where extents of 1 are left out)."""
    layout = memory.encoding
    check(
        isinstance(layout, NVMMASharedEncodingAttr),
        "TMA descriptor must have NVMMA shared layout",
    )
    assert isinstance(layout, NVMMASharedEncodingAttr)
    check(
        rank_of(layout) == len(memory.get_shape()),
        "TMA shared memory and layout ranks must match",
    )
    own = description(desc).shared_layout
    check(
        isinstance(own, NVMMASharedEncodingAttr)
        and all(
            own.number(name, 0) == layout.number(name, 0)
            for name in ("transposed", "swizzlingByteWidth", "elementBitWidth", "fp4Padded")
        ),
        lambda: (
            "TMA descriptor layout must match shared layout, but got descriptor layout "
            f"{own} and shared memory layout {layout}"
        ),
    )
    check(not layout.number("transposed", 0), "TMA descriptor layout must not be transposed")


def _check_tma_barrier(op: Operation, barrier: MemDescType) -> None:
    """Where pairs of CTAs may work together, a barrier belongs to one or to a pair."""
    pairs = module_of(op).attributes.get("ttng.two-ctas")
    if not isinstance(pairs, IntegerAttr):
        return
    blocks, got = blocks_at(op), cga_bases(barrier)
    single = one_per_block(blocks)
    if got == single:
        return
    wanted = text(single)
    if pairs.value.data:
        double = ((0,), *one_per_block(blocks // 2))
        if got == double:
            return
        wanted += f" or {text(double)}"
    check(False, f"TMA barrier cga_layout must be {wanted}, got {text(got)}")


def _parts(memory: MemDescType) -> list[bool]:
    """Per bit of the block's index, whether it leads out of the view."""
    layout = memory.encoding
    alloc = memory_shape(layout, memory.get_alloc_shape())
    shape = memory_shape(layout, memory.get_shape())
    return [
        any(value >= size for value, size in zip(basis, shape, strict=True))
        for basis in linear_layout(layout, alloc).bases("block")
    ]


def check_tma_load(op: Operation, desc: Attribute, barrier: Attribute, result: Attribute) -> None:
    """What writes shared memory and completes on a barrier."""
    assert isinstance(barrier, MemDescType)
    assert isinstance(result, MemDescType)
    check_barrier(op, barrier)
    _check_tma_barrier(op, barrier)
    check_mutable(result)
    _check_encoding(desc, result)
    try:
        free = sum(1 << i for i, basis in enumerate(cga_bases(barrier)) if not any(basis))
        check(
            not any(out and (bit or free > 1) for bit, out in enumerate(_parts(result))),
            "TMA destination and completion barrier must belong to the same CTA or a CTA pair",
        )
    except LayoutError as error:
        raise VerifyException(error.what) from error


def check_multicast(result: Attribute) -> None:
    """Several CTAs get the same."""
    assert isinstance(result, MemDescType)
    check(
        any(not any(basis) for basis in cga_of(result.encoding).bases("block")),
        "multicast requires the shared layout to broadcast across CTAs",
    )


def check_not_fp4_padded(memory: Attribute) -> None:
    assert isinstance(memory, MemDescType)
    layout = memory.encoding
    check(
        not (isinstance(layout, NVMMASharedEncodingAttr) and layout.number("fp4Padded", 0)),
        "does not support fp4_padded operands",
    )


def check_tma_store(desc: Attribute, source: Attribute) -> None:
    """What reads shared memory."""
    assert isinstance(source, MemDescType)
    check_not_fp4_padded(source)
    try:
        check(not any(_parts(source)), "source subview may have an origin in another CTA")
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return
    _check_encoding(desc, source)


def check_reduce_kind(kind: DescriptorReduceKind, element: Attribute) -> None:
    """Which reductions TMA does on which types."""
    K = DescriptorReduceKind
    width = element.width.data if isinstance(element, IntegerType) else 0
    signed = isinstance(element, IntegerType) and (element.signedness.data == Signedness.SIGNED)
    half = isinstance(element, Float16Type | BFloat16Type)
    match kind:
        case K.ADD:
            allowed = (
                width == 32
                or (width == 64 and not signed)
                or isinstance(element, Float32Type)
                or half
            )
        case K.MIN | K.MAX:
            allowed = width in (32, 64) or half
        case K.AND | K.OR | K.XOR:
            allowed = width in (32, 64)
        case _:
            allowed = False
    check(allowed, lambda: f"unsupported reduce kind {kind.keyword} for element type {element}")


def check_tma_rows(desc: Attribute, memory: Attribute, offsets: Attribute) -> None:
    """Gathers and scatters of rows; each warp has the same four or more rows in a row."""
    assert isinstance(memory, MemDescType)
    assert isinstance(offsets, TensorType)
    check_rows(description(desc), memory.element_type, memory.get_shape(), offsets)
    if isinstance(offsets.encoding, NoneAttr):
        return
    try:
        layout = layout_of(offsets)
    except LayoutError as error:
        raise VerifyException(error.what) from error
    except Unsupported:
        return
    run = 1
    for (value,) in layout.bases("register"):
        if value != run:
            break
        run *= 2
    check(run >= 4, "x offsets must have at least 4 contiguous elements per thread")
    check(
        not any(any(basis) for basis in layout.bases("lane")),
        "x offsets must be broadcasted across each warp",
    )
    rows = tuple((basis[0],) for basis in cga_bases(memory))
    check(
        rows == cga_of(offsets.encoding).bases("block"),
        "x offsets must have the same row CGA layout as the memdesc",
    )


def check_async_store(
    op: Operation, source: Attribute, target: Attribute, barrier: Attribute
) -> None:
    """Stores into the memory of a cluster."""
    assert isinstance(source, TensorType)
    assert isinstance(target, MemDescType)
    check(blocks_at(op) >= 2, "requires at least two CTAs in the cluster")
    check_mutable(target)
    check_extent(source, target)
    check_barrier(op, barrier)
    if isinstance(source.encoding, NoneAttr):
        return
    try:
        run = _vector(source, target)
    except (LayoutError, Unsupported):
        return
    check(
        run * bit_width(source.element_type) >= 32,
        "requires a layout vectorizing stores to at least 32 bits",
    )


def _vector(source: TensorType, target: MemDescType) -> int:
    """How many registers in a row of a thread go to adjacent places of shared memory."""
    memory = linear_layout(target.encoding, memory_shape(target.encoding, target.get_shape()))
    registers = layout_of(source)
    inverse = memory.pseudo_invert()
    run = 1
    bases = {basis for basis in registers.bases("register") if any(basis)}
    limit = registers.in_size("register")
    if isinstance(target.encoding, PaddedSharedEncodingAttr):
        limit = min(limit, min(interval.data for interval in target.encoding.intervals))
    places = {
        int(inverse.apply(**dict(zip(registers.out_names, basis, strict=True)))["offset"])
        for basis in bases
    }
    while run < limit and run in places:
        run *= 2
    return run
