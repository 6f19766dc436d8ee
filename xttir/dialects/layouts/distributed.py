"""Layouts of tensors in registers: (register, lane, warp, block) -> element.

Blocked, slice, linear, NVIDIA's tensor-core results (mma v2, wgmma) and the operands of dots.
The rules are those of `lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp`; the fragments of
NVIDIA's instructions are in the PTX ISA, sections "Matrix Fragments for mma" and "wgmma".
"""

from __future__ import annotations

from collections.abc import Sequence

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.amd import mfma_operand, wmma_operand
from xttir.dialects.layouts.encodings import (
    AMDMfmaEncodingAttr,
    AMDWmmaEncodingAttr,
    BlockedEncodingAttr,
    DotOperandEncodingAttr,
    GenericLinearEncodingAttr,
    LinearEncodingAttr,
    NvidiaMmaEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import (
    LayoutError,
    LinearLayout,
    identity_nd,
    standard_names,
)
from xttir.dialects.layouts.parameters import (
    cga_of,
    k_dim,
    matrix_order,
    operand_order,
    own_layout,
    rep_order,
    row_major,
)


def spread(layout: LinearLayout, cga: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of one block, repeated or clipped to its part of `shape`, for all blocks.

    Repetitions become registers (or offsets): first along the first output of `layout`.
    """
    names = standard_names(len(shape))
    whole = dict(zip(names, shape, strict=True))
    blocks = cga.clip(whole).transpose_outs(layout.out_names)
    part = {name: max(1, whole[name] // blocks.out_size(name)) for name in names}
    filled = layout.extend(part).clip(part)
    result = (filled * blocks).transpose_outs(names)
    if result.out_shape != tuple(shape):
        raise LayoutError(f"a layout of {result.out_shape} elements cannot fill {tuple(shape)}")
    return result


def blocked(
    encoding: BlockedEncodingAttr, shape: Sequence[int], copies: bool = False
) -> LinearLayout:
    """The tile of a block, repeated; without the registers that a small `shape` makes equal.

    With `copies` these stay, as in Triton 3.8 (and in tensor-core layouts of all releases).
    """
    order = encoding.numbers("order")
    layout = (
        identity_nd("register", encoding.numbers("sizePerThread"), order)
        * identity_nd("lane", encoding.numbers("threadsPerWarp"), order)
        * identity_nd("warp", encoding.numbers("warpsPerCTA"), order)
    )
    whole = spread(layout, cga_of(encoding), shape)
    return whole if copies else whole.without_zero_bases("register")


def linear(
    encoding: LinearEncodingAttr | GenericLinearEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    """The bases given, repeated or clipped to `shape`; registers so made equal are left out."""
    own = own_layout(encoding)
    names = own.out_names
    sizes = dict(zip(names, shape, strict=True))
    order = [names[i] for i in rep_order(encoding)]
    filled = own.transpose_outs(order).extend(sizes).clip(sizes, drop_registers=True)
    return filled.transpose_outs(names)


def broadcast_along(
    name: str, shape: Sequence[int], order: Sequence[int], dim: int
) -> LinearLayout:
    """`name` counted through `shape` in `order`; what goes along `dim` holds the same elements."""
    layout = LinearLayout.empty()
    for d in order:
        one = LinearLayout.zeros if d == dim else LinearLayout.identity
        layout = layout * one(shape[d], name, f"dim{d}")
    return layout


def _mma_tile(
    tile: Sequence[int], k_width: int, order: Sequence[int], repetition: Sequence[int]
) -> LinearLayout:
    """A warp's part of an instruction: rows of eight groups of four lanes, `k_width` elements each.

    `tile` is its shape; order[0] is the dimension along which a lane's elements lie.
    """
    inner, outer = order[0], order[1]
    rows, columns = tile[outer], tile[inner]
    if rows % 8 or columns % (4 * k_width):
        raise LayoutError(f"a tile of {rows}x{columns} is not made of 8x{4 * k_width}")
    layout = identity_nd("register", (1,) * len(repetition), repetition)
    for size, source, dim in (
        (k_width, "register", inner),
        (4, "lane", inner),
        (8, "lane", outer),
        (rows // 8, "register", outer),
        (columns // (4 * k_width), "register", inner),
    ):
        layout = layout * LinearLayout.identity(size, source, f"dim{dim}")
    return layout


def _is_hopper(encoding: NvidiaMmaEncodingAttr) -> bool:
    version = encoding.number("versionMajor")
    if version not in (2, 3):
        raise Unsupported(f"tensor-core layout version {version}")
    return version == 3


def nvidia_mma(encoding: NvidiaMmaEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    rank = len(shape)
    hopper = _is_hopper(encoding)
    instruction = encoding.numbers("instrShape")
    order = row_major(rank)
    layout = _mma_tile(instruction[:2] if hopper else instruction, 2, order, order)
    warps = identity_nd("warp", encoding.numbers("warpsPerCTA"), matrix_order(rank, not hopper))
    return spread(layout * warps.transpose_outs(layout.out_names), cga_of(encoding), shape)


def _nvidia_operand(
    encoding: DotOperandEncodingAttr, parent: NvidiaMmaEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    rank = len(shape)
    hopper = _is_hopper(parent)
    index, k_width = encoding.number("opIdx"), encoding.number("kWidth", 0)
    rows = parent.numbers("instrShape")[rank - 2]
    # fp64 has instructions of 8 rows, with half the depth.
    depth = k_width * (4 if rows == 8 else 8)
    tile = [1] * rank
    if index == 0:
        tile[-2:] = [rows, depth]
    elif hopper:
        raise LayoutError("wgmma takes its second operand from shared memory")
    else:
        tile[-2:] = [depth, 8]
    order = operand_order(index, rank)
    layout = _mma_tile(tile, k_width, order, rep_order(encoding))
    warps = broadcast_along(
        "warp",
        parent.numbers("warpsPerCTA"),
        matrix_order(rank, not hopper),
        k_dim(encoding, rank),
    )
    return spread(layout * warps.transpose_outs(layout.out_names), cga_of(encoding), shape)


def _fma_operand(
    encoding: DotOperandEncodingAttr, parent: BlockedEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    rank = len(shape)
    order = parent.numbers("order")
    summed = k_dim(encoding, rank)
    size = list(parent.numbers("sizePerThread"))
    size[summed] = shape[summed]
    names = [f"dim{d}" for d in rep_order(encoding)]
    layout = (
        identity_nd("register", size, order).transpose_outs(names)
        * broadcast_along("lane", parent.numbers("threadsPerWarp"), order, summed)
        * broadcast_along("warp", parent.numbers("warpsPerCTA"), order, summed)
    )
    return spread(layout, cga_of(encoding), shape)


def dot_operand(encoding: DotOperandEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    match encoding.get("parent"):
        case BlockedEncodingAttr() as parent:
            return _fma_operand(encoding, parent, shape)
        case NvidiaMmaEncodingAttr() as parent:
            return _nvidia_operand(encoding, parent, shape)
        case AMDMfmaEncodingAttr() as parent:
            return spread(mfma_operand(encoding, parent, shape), cga_of(parent), shape)
        case AMDWmmaEncodingAttr() as parent:
            return spread(wmma_operand(encoding, parent, shape), cga_of(encoding), shape)
        case parent:
            raise Unsupported(f"operands of a dot whose result has layout {parent}")
