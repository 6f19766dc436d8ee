"""Layouts of shared memory: (offset, block) -> element; offsets count elements, not bytes.

Swizzled (NVIDIA's classic, AMD's rotating), NVIDIA's TMA and wgmma swizzles, shared linear, padded
and partitioned. The rules are those of `lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp`; the
swizzles of nvmma_shared are those of the PTX ISA, section "Swizzling modes".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xttir.dialects.layouts.distributed import spread
from xttir.dialects.layouts.encodings import (
    AMDRotatingSharedEncodingAttr,
    NVMMASharedEncodingAttr,
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    SwizzledSharedEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import (
    LayoutError,
    LinearLayout,
    identity_nd,
    standard_names,
)
from xttir.dialects.layouts.parameters import cga_of, own_layout, row_major, shape_per_block

TMA_BOX = 256
"""The largest extent of a box that TMA copies."""


def swizzled(
    encoding: SwizzledSharedEncodingAttr | AMDRotatingSharedEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    """Row r has its groups of `vec` elements at their places xor the phase of r."""
    cga = cga_of(encoding)
    part = shape_per_block(cga, shape)
    if len(shape) == 1:
        return spread(LinearLayout.identity(part[0], "offset", "dim0"), cga, shape)
    rotating = isinstance(encoding, AMDRotatingSharedEncodingAttr)
    extent = shape if rotating else part
    order = encoding.numbers("order")
    vec, per_phase, max_phase = (encoding.number(n) for n in ("vec", "perPhase", "maxPhase"))
    columns, rows = extent[order[0]], extent[order[1]]
    bases: list[tuple[int, int]] = [(0, 1 << i) for i in range(columns.bit_length() - 1)]
    for i in range(rows.bit_length() - 1):
        row = 1 << i
        phase = (row // per_phase) % max_phase
        if rotating:
            phase ^= row // max_phase // per_phase % max_phase
        bases.append((row, vec * phase % columns))
    layout = LinearLayout.of({"offset": bases}, {f"dim{order[1]}": rows, f"dim{order[0]}": columns})
    for dim in order[2:]:
        layout = layout * LinearLayout.identity(extent[dim], "offset", f"dim{dim}")
    return spread(layout, cga, shape)


def tma_box(
    encoding: NVMMASharedEncodingAttr, part: Sequence[int], packed: bool = True
) -> tuple[int, ...]:
    """The box that one TMA copy brings of the part of a tensor that a block holds.

    With `packed`, elements of fp4 are counted by pairs, as they lie in memory.
    """
    box = list(part)
    inner = 0 if encoding.number("transposed") else len(box) - 1
    padded = bool(encoding.number("fp4Padded", 0))
    if padded:
        box[inner] *= 2
    box = [min(size, TMA_BOX) for size in box]
    swizzle = encoding.number("swizzlingByteWidth")
    if swizzle:
        width = 8 * swizzle // encoding.number("elementBitWidth")
        if box[inner] < width:
            raise LayoutError(
                f"an extent of {box[inner]} elements along dimension {inner} is too small for a "
                f"swizzle of {swizzle} bytes, which needs {width}"
            )
        box[inner] = width
    if padded and packed:
        box[inner] //= 2
    return tuple(box)


def _core_matrix(encoding: NVMMASharedEncodingAttr, swizzle: bool) -> LinearLayout:
    """Eight rows of the swizzle's width: (offset) -> (dim0, dim1).

    The chunks of 16 bytes of row r are at their places xor the phase of r. With fp4Padded, eight
    elements (pairs of fp4) are followed by eight places that hold nothing.
    """
    width, bits = encoding.number("swizzlingByteWidth"), encoding.number("elementBitWidth")
    vec = 128 // bits
    per_phase, max_phase = 128 // width, width // 16
    padded = bool(encoding.number("fp4Padded", 0))

    def packed(column: int) -> int:
        return column // 16 * 8 + column % 8 if padded else column

    columns = 8 * max(16, width) // bits
    bases = [(0, packed(1 << i)) for i in range(columns.bit_length() - 1)]
    for row in (1, 2, 4):
        phase = row // per_phase % max_phase if swizzle else 0
        bases.append((row, packed(vec * phase)))
    return LinearLayout.of({"offset": bases}, standard_names(2))


def nvmma(
    encoding: NVMMASharedEncodingAttr, shape: Sequence[int], swizzle: bool = True
) -> LinearLayout:
    """Boxes of TMA one after another, each swizzled; the first dimension inner if transposed.

    From three dimensions on, a transposed layout is not what that suggests, but what Triton makes.
    """
    rank = len(shape)
    names = standard_names(rank)
    cga = cga_of(encoding)
    part = shape_per_block(cga, shape)
    box = tma_box(encoding, part)
    transposed = bool(encoding.number("transposed"))
    # As it lies in memory, the inner dimension last.
    memory = box[1:] + box[:1] if transposed else box
    if encoding.number("swizzlingByteWidth") == 0:
        # Dimensions are in the order of memory here, and Triton permutes them as they stand.
        layout = identity_nd("offset", memory, row_major(rank))
    else:
        if rank < 2:
            raise LayoutError("a swizzle needs a tensor of two dimensions or more")
        tile = _core_matrix(encoding, swizzle)
        rows, columns = math.prod(box[:-1]), box[-1]
        if transposed:
            rows, columns = columns, rows
        if columns < tile.out_size("dim1") or rows < tile.out_size("dim0"):
            raise LayoutError(
                f"{rows}x{columns} elements are less than the swizzle's tile of "
                f"{tile.out_size('dim0')}x{tile.out_size('dim1')}"
            )
        layout = tile.extend({"dim0": rows, "dim1": columns})
        # The fastest dimension, which is the last, into the lowest bits.
        flat = layout.transpose_outs(("dim1", "dim0"))
        dims = [(name, memory[i]) for i, name in reversed(list(enumerate(names)))]
        layout = flat.reshape_outs(dims).transpose_outs(names)
    if transposed:
        layout = layout.permute((rank - 1, *range(rank - 1)))
    filled = layout.extend(dict(zip(names, part, strict=True)))
    return spread(filled, cga, shape)


def shared_linear(encoding: SharedLinearEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    layout = own_layout(encoding)
    if layout.out_shape != tuple(shape):
        raise LayoutError(f"a layout of {layout.out_shape} elements on a shape of {tuple(shape)}")
    return layout


def padded(encoding: PaddedSharedEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Where elements lie before padding is put in; `padded_offsets` adds it."""
    layout = own_layout(encoding)
    if layout.out_shape != tuple(shape):
        raise LayoutError(f"a layout of {layout.out_shape} elements on a shape of {tuple(shape)}")
    return layout


def partitioned(encoding: PartitionedSharedEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Pieces along a dimension dealt out to buffers: (offset, block, partition) -> element."""
    from xttir.dialects.layouts.to_linear import linear_layout

    parts, groups, dim = (
        encoding.number(name) for name in ("numPartitions", "numGroups", "partitionDim")
    )
    if shape[dim] % (parts * groups):
        raise LayoutError(f"dimension {dim} of {tuple(shape)} has no {parts * groups} pieces")
    piece = list(shape)
    piece[dim] //= parts * groups
    inner = encoding.get("partitionLayout")
    assert inner is not None
    layout = linear_layout(inner, tuple(piece))
    name = f"dim{dim}"
    return (
        layout
        * LinearLayout.identity(parts, "partition", name)
        * LinearLayout.identity(groups, "offset", name)
    )
