"""Layouts against what the hardware does: PTX's fragments, swizzles and tensor-memory places.

The formulas are those that the PTX interpreter uses; it has no part in computing layouts.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.dialects.layouts.modules import CONTEXT
from xttir.dialects.layouts.linear_layout import LayoutError
from xttir.dialects.layouts.to_linear import (
    allocation_elements,
    element_of,
    flat_element_of,
    shared_blocks,
    shared_offsets,
    tensor_memory_places,
)
from xttir.dialects.syntax.parser import TTParser
from xttir.interp.tensorcore.fragments import Fragment, mma_a, mma_b, mma_c, wgmma_a, wgmma_d
from xttir.interp.tensorcore.swizzle import swizzle


def type_of(text: str):
    return TTParser(CONTEXT, text).parse_attribute()


def mma(major: int, warps: str, instruction: str) -> str:
    return (
        f"#ttg.nvidia_mma<{{versionMajor = {major}, versionMinor = 0, warpsPerCTA = [{warps}], "
        f"instrShape = [{instruction}]}}>"
    )


def operand(index: int, parent: str, k_width: int) -> str:
    return f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}, kWidth = {k_width}}}>"


def same(type_text: str, fragment: Fragment, transposed: bool = False) -> None:
    """Registers are a fragment's elements; lanes of warps follow one another."""
    table = element_of(type_of(type_text))[..., 0, :]
    lanes = table.transpose(2, 1, 0, 3).reshape(-1, table.shape[0], 2)
    rows, columns = (1, 0) if transposed else (0, 1)
    assert np.array_equal(lanes[..., rows], fragment.rows)
    assert np.array_equal(lanes[..., columns], fragment.columns)


MMA, WGMMA = mma(2, "1, 1", "16, 8"), mma(3, "4, 1", "16, 64, 16")


@pytest.mark.parametrize(("bits", "k_width", "k"), [(32, 1, 8), (16, 2, 16), (8, 4, 32)])
def test_operands_of_mma(bits: int, k_width: int, k: int) -> None:
    element = {32: "f32", 16: "f16", 8: "i8"}[bits]
    same(f"tensor<16x{k}x{element}, {operand(0, MMA, k_width)}>", mma_a(16, k, bits))
    same(f"tensor<{k}x8x{element}, {operand(1, MMA, k_width)}>", mma_b(k, bits), transposed=True)


def test_results_of_tensor_cores() -> None:
    same(f"tensor<16x8xf32, {MMA}>", mma_c(16))
    same(f"tensor<64x64xf32, {WGMMA}>", wgmma_d(64))
    same(f"tensor<64x128xf32, {mma(3, '4, 1', '16, 128, 16')}>", wgmma_d(128))


def test_operand_of_wgmma_in_registers() -> None:
    same(f"tensor<64x16xf16, {operand(0, WGMMA, 2)}>", wgmma_a(16, 16))
    same(f"tensor<64x32xi8, {operand(0, WGMMA, 4)}>", wgmma_a(32, 8))


def memdesc(shape: str, layout: str, element: str = "f16", rest: str = "") -> str:
    return f"!ttg.memdesc<{shape}x{element}, {layout}, #ttg.shared_memory, mutable{rest}>"


def nvmma(width: int, bits: int, transposed: bool = False) -> str:
    return (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, "
        f"transposed = {str(transposed).lower()}, elementBitWidth = {bits}}}>"
    )


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("transposed", [False, True])
def test_swizzles_of_tma(width: int, bits: int, transposed: bool) -> None:
    """A box as wide as the swizzle; the next box begins after all of its rows."""
    inner, rows = 2 * width * 8 // bits, 64
    shape = f"{inner}x{rows}" if transposed else f"{rows}x{inner}"
    type_ = memdesc(shape, nvmma(width, bits, transposed), f"i{bits}")
    offsets = shared_offsets(type_of(type_)) * bits // 8
    row, byte = np.indices((rows, inner))
    byte = byte * bits // 8
    expected = byte // width * rows * width + swizzle(row * width + byte % width, f"{width}B")
    assert np.array_equal(offsets.T if transposed else offsets, expected)


# From the description of the attribute in TritonGPUAttrDefs.td: what lies in memory, row by row.
SWIZZLED = [
    (1, 1, 4, [[0, 1, 2, 3], [5, 4, 7, 6], [10, 11, 8, 9], [15, 14, 13, 12]]),
    (1, 2, 4, [[0, 1, 2, 3], [4, 5, 6, 7], [9, 8, 11, 10], [13, 12, 15, 14]]),
    (1, 2, 2, [[0, 1, 2, 3], [4, 5, 6, 7], [9, 8, 11, 10], [13, 12, 15, 14]]),
    (
        2,
        1,
        4,
        [
            [0, 1, 2, 3, 4, 5, 6, 7],
            [10, 11, 8, 9, 14, 15, 12, 13],
            [20, 21, 22, 23, 16, 17, 18, 19],
            [30, 31, 28, 29, 26, 27, 24, 25],
        ],
    ),
]


@pytest.mark.parametrize(("vec", "per_phase", "max_phase", "rows"), SWIZZLED)
def test_swizzled(vec: int, per_phase: int, max_phase: int, rows: list[list[int]]) -> None:
    layout = (
        f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
        "order = [1, 0]}>"
    )
    memory = np.array(rows)
    offsets = shared_offsets(type_of(memdesc(f"{len(rows)}x{len(rows[0])}", layout)))
    assert np.array_equal(np.argsort(offsets.reshape(-1)), memory.reshape(-1))


def test_padded() -> None:
    layout = "#ttg.padded_shared<[2:+1, 4:+2] {order = [1, 0], shape = [2, 4]}>"
    one = shared_offsets(type_of(memdesc("2x4", layout)))
    assert one.tolist() == [[0, 1, 3, 4], [8, 9, 11, 12]]
    # The next buffer follows after the padding of all of the one before.
    two = shared_offsets(type_of(memdesc("2x2x4", layout)))
    assert two[1].tolist() == (one + 16).tolist()
    assert allocation_elements(type_of(layout), (2, 2, 4)) == 29


def test_views() -> None:
    layout = nvmma(128, 16)
    whole = shared_offsets(type_of(memdesc("3x64x64", layout)))
    assert whole.max() == 3 * 64 * 64 - 1
    one = shared_offsets(type_of(memdesc("64x64", layout, rest=", 3x64x64")))
    assert np.array_equal(whole[2], one + 2 * 64 * 64)
    part = shared_offsets(type_of(memdesc("16x32", layout, rest=", 64x64")))
    assert np.array_equal(part, one[:16, :32])
    assert not one.flags.writeable


def test_blocks_of_a_cluster() -> None:
    layout = (
        "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0], "
        "CGALayout = [[1, 0]]}>"
    )
    type_ = type_of(memdesc("64x32", layout))
    assert np.array_equal(shared_blocks(type_), np.repeat([0, 1], 32)[:, None] * np.ones(32))
    assert np.array_equal(shared_offsets(type_)[32:], shared_offsets(type_)[:32])


def test_fp4_leaves_places_empty() -> None:
    """Eight bytes with sixteen fp4 are followed by eight that hold nothing."""
    layout = (
        "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 8, "
        "fp4Padded = true}>"
    )
    offsets = shared_offsets(type_of(memdesc("8x64", layout, "i8")))
    assert offsets[0, :24].tolist() == [*range(8), *range(16, 24), *range(32, 40)]
    assert len(np.unique(offsets)) == offsets.size
    assert allocation_elements(type_of(layout), (8, 64)) == 1024


def tensor_memory(shape: str, rows: int, columns: int) -> str:
    return (
        f"!ttg.memdesc<{shape}xf32, #ttng.tensor_memory_encoding<blockM = {rows}, "
        f"blockN = {columns}, colStride = 1>, #ttng.tensor_memory, mutable>"
    )


def test_accumulators_in_tensor_memory() -> None:
    """M = 128 has a lane per row; M = 64 the first 16 lanes of each warp's 32 (layouts D and F)."""
    m, n = np.indices((128, 64))
    lanes, columns = tensor_memory_places(type_of(tensor_memory("128x64", 128, 64)))
    assert np.array_equal(lanes, m)
    assert np.array_equal(columns, n)
    m, n = np.indices((64, 64))
    lanes, columns = tensor_memory_places(type_of(tensor_memory("64x64", 64, 64)))
    assert np.array_equal(lanes, m % 16 + 32 * (m // 16))
    assert np.array_equal(columns, n)


def test_blocks_in_tensor_memory_go_along_m_first() -> None:
    """The picture in the description of `TensorMemorySpace`: rows 64..79 are lanes 16..31."""
    lanes, columns = tensor_memory_places(type_of(tensor_memory("128x128", 64, 32)))
    assert lanes[64:80, 0].tolist() == [*range(16, 32)]
    assert np.array_equal(columns[0], np.arange(128))
    two = tensor_memory_places(type_of(tensor_memory("2x128x64", 128, 64)))
    assert np.array_equal(two[1][1], two[1][0] + 64)


def test_scales_in_tensor_memory() -> None:
    """32 lanes of 4 bytes per 32 rows; rows 32.. are in the next columns."""
    layout = "#ttng.tensor_memory_scales_encoding<>"
    type_ = f"!ttg.memdesc<128x4xi8, {layout}, #ttng.tensor_memory, mutable>"
    lanes, columns = tensor_memory_places(type_of(type_))
    row, k = np.indices((128, 4))
    assert np.array_equal(lanes, row % 32)
    assert np.array_equal(columns, row // 32 * 4 + k)


def test_elements_of_registers() -> None:
    layout = (
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [2, 1], "
        "order = [1, 0]}>"
    )
    type_ = type_of(f"tensor<32x32xf16, {layout}>")
    table = element_of(type_)
    assert table.shape == (16, 32, 2, 1, 2)
    r, lane, warp = np.indices((16, 32, 2))
    assert np.array_equal(table[..., 0, 0], lane // 4 + 8 * warp + 16 * (r // 8))
    assert np.array_equal(table[..., 0, 1], r % 4 + 4 * (lane % 4) + 16 * (r // 4 % 2))
    flat = flat_element_of(type_)
    assert np.array_equal(flat, table[..., 0] * 32 + table[..., 1])
    assert math.prod(flat.shape) == len(np.unique(flat))


@pytest.mark.parametrize(
    "text",
    [
        "tensor<33x32xf16, #ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 1, 1], "
        "threadsPerWarp = [1, 1, 32], warpsPerCTA = [1, 1, 1], order = [2, 1, 0]}>}>>",
        "tensor<32xf16>",
    ],
)
def test_no_layout(text: str) -> None:
    with pytest.raises(LayoutError):
        element_of(type_of(text))
