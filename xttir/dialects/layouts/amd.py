"""Layouts of AMD's matrix instructions: tiles of mfma and wmma, results and operands.

Each function gives the layout of one block's warps before it is repeated over a tensor.
The rules are those of `lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import (
    AMDMfmaEncodingAttr,
    AMDWmmaEncodingAttr,
    DotOperandEncodingAttr,
)
from xttir.dialects.layouts.linear_layout import (
    LayoutError,
    LinearLayout,
    identity_nd,
    standard_names,
)
from xttir.dialects.layouts.parameters import (
    bases_of,
    k_dim,
    matrix_order,
    operand_order,
    row_major,
)

_WAVE = 64
"""Lanes of a warp where there is mfma."""


def _identity(size: int, source: str, dim: int) -> LinearLayout:
    return LinearLayout.identity(size, source, f"dim{dim}")


def _tiles_per_warp(encoding: AMDMfmaEncodingAttr, rank: int) -> tuple[int, ...]:
    if encoding.get("tilesPerWarp") is None:
        return (1,) * rank
    return encoding.numbers("tilesPerWarp")


def mfma(encoding: AMDMfmaEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Each lane holds four (one, if of 64 bits) elements along M; lanes go along N, then M.

    Tiles are repeated along all of N before they are along M.
    """
    rank = len(shape)
    m, n = rank - 2, rank - 1
    rows, columns = encoding.numbers("instrShape")[:2]
    transposed = encoding.number("isTransposed", 0)
    height = 1 if encoding.number("elementBitWidth", 32) == 64 else 4
    tall, wide, across = (n, m, rows) if transposed else (m, n, columns)
    layout = (
        _identity(height, "register", tall)
        * _identity(across, "lane", wide)
        * _identity(_WAVE // across, "lane", tall)
    )
    tiles = rows * columns // (_WAVE * height)
    if tiles > 0:
        layout = layout * _identity(tiles, "register", tall)
    layout = layout.transpose_outs((f"dim{n}", f"dim{m}"))
    per_warp, warps = _tiles_per_warp(encoding, rank), encoding.numbers("warpsPerCTA")
    layout = layout * _identity(per_warp[n], "register", n) * _identity(warps[n], "warp", n)
    repeated = shape[n] // (columns * warps[n] * per_warp[n])
    if repeated:
        layout = layout * _identity(repeated, "register", n)
    layout = layout * _identity(per_warp[m], "register", m) * _identity(warps[m], "warp", m)
    if rank == 3:
        layout = layout * _identity(warps[0], "warp", 0)
    return layout


def mfma_operand(
    encoding: DotOperandEncodingAttr, parent: AMDMfmaEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    """Each lane holds kWidth elements along K; lanes go along M or N, then K."""
    rank = len(shape)
    index, k_width = encoding.number("opIdx"), encoding.number("kWidth")
    order = operand_order(index, rank)
    summed, other = order[0], order[1]
    rows, columns = parent.numbers("instrShape")[:2]
    across = rows if index == 0 else columns
    layout = (
        _identity(k_width, "register", summed)
        * _identity(across, "lane", other)
        * _identity(_WAVE // across, "lane", summed)
    )
    depth = _WAVE // across * k_width
    if (rows, columns, index) in ((64, 4, 0), (4, 64, 1)):
        layout = layout * _identity(16, "register", summed)
        depth *= 16
    if shape[k_dim(encoding, rank)] > depth:
        layout = layout * _identity(shape[summed] // depth, "register", summed)
    layout = layout * _identity(_tiles_per_warp(parent, rank)[other], "register", other)
    layout = layout.transpose_outs((f"dim{summed}", f"dim{other}"))
    if rank == 3:
        layout = layout * _identity(1, "register", 0)
    warps = identity_nd("warp", parent.numbers("warpsPerCTA"), row_major(rank))
    return layout * warps.transpose_outs(layout.out_names)


def _wmma_warps(encoding: AMDWmmaEncodingAttr) -> LinearLayout:
    """How warps, and repetitions in one, are placed: (register, warp) -> tile."""
    rank = encoding.number("rank", 2)
    warps = encoding.get("ctaLayout")
    if not isinstance(warps, DictionaryAttr):
        raise LayoutError("ctaLayout of amd_wmma must be a dictionary of bases")
    bases = {name: bases_of(warps.data.get(name), name) for name in ("register", "warp")}
    return LinearLayout.of(bases, standard_names(rank))


def _wmma_version(encoding: AMDWmmaEncodingAttr) -> int:
    version = encoding.number("version")
    if version not in (1, 2, 3):
        raise Unsupported(f"amd_wmma version {version}")
    return version


def _wmma_shape(encoding: AMDWmmaEncodingAttr) -> tuple[int, ...]:
    return (16, 16, 16) if encoding.get("instrShape") is None else encoding.numbers("instrShape")


def wmma(encoding: AMDWmmaEncodingAttr, shape: Sequence[int]) -> LinearLayout:
    """Each lane holds eight elements along M (every second one in version 1), lanes go along N."""
    rank = len(shape)
    names = standard_names(rank)
    order = matrix_order(rank, rows=not encoding.number("isTranspose", 0))
    lanes = [(1, 0), (2, 0), (4, 0), (8, 0)]
    if _wmma_version(encoding) == 1:
        registers, last = [(0, 2), (0, 4), (0, 8)], (0, 1)
    else:
        registers, last = [(0, 1), (0, 2), (0, 4)], (0, 8)
        if _wmma_shape(encoding)[:2] == (32, 16):
            registers.append((0, 16))
    tile = LinearLayout.of(
        {"register": registers, "lane": [*lanes, last]}, (names[order[0]], names[order[1]])
    )
    if rank == 3:
        tile = tile * _identity(1, "register", 0)
    layout = tile.transpose_outs(names) * _wmma_warps(encoding)
    return layout.transpose_outs([names[d] for d in row_major(rank)])


def wmma_operand(
    encoding: DotOperandEncodingAttr, parent: AMDWmmaEncodingAttr, shape: Sequence[int]
) -> LinearLayout:
    """Each lane holds kWidth elements along K; 16 lanes go along M or N, the halves along K.

    In version 1 both halves of a warp hold the same.
    """
    rank = len(shape)
    index, k_width = encoding.number("opIdx"), encoding.number("kWidth")
    order = operand_order(index, rank)
    summed, other = order[0], order[1]
    rows, columns, depth = _wmma_shape(parent)
    swapped = bool(parent.number("isTranspose", 0)) and rows != columns
    extent = rows if (index == 0) != swapped else columns
    version = _wmma_version(parent)
    halves = LinearLayout.zeros if version == 1 else LinearLayout.identity
    layout = (
        _identity(k_width, "register", summed)
        * _identity(16, "lane", other)
        * halves(2, "lane", f"dim{summed}")
    )
    repeated = depth // (2 * k_width)
    if repeated:
        layout = layout * _identity(repeated, "register", summed)
    layout = layout * _identity(max(1, extent // 16), "register", other)
    warps = _wmma_warps(parent).resize_out(f"dim{summed}", 1).without_zero_bases("register")
    names = [f"dim{d}" for d in order]
    return (layout * warps).transpose_outs(names)
