"""Fragments, descriptors and tensor-memory layouts against their formulas, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xttir.interp.tensorcore import descriptors, fragments, tensor_memory
from xttir.interp.tensorcore.descriptors import Matrix, chunks, instruction, matrix, touched
from xttir.interp.tensorcore.pieces import join, stack
from xttir.interp.tensorcore.swizzle import MODES, swizzle

MMA = [(16, 16, 16), (16, 8, 16), (16, 8, 32), (16, 4, 32), (16, 32, 8), (16, 16, 8), (16, 64, 4)]


@pytest.mark.parametrize(("m", "k", "bits"), [*MMA, (8, 4, 64), (8, 32, 4), (16, 256, 1)])
def test_mma_fragments_hold_every_element_once(m: int, k: int, bits: int):
    for f, rows in ((fragments.mma_a(m, k, bits), m), (fragments.mma_b(k, bits), 8)):
        places = f.rows * k + f.columns
        assert (np.sort(places.reshape(-1)) == np.arange(rows * k)).all()


def test_mma_fragments_as_in_the_tables():
    a, b, c = fragments.mma_a(16, 16, 16), fragments.mma_b(16, 16), fragments.mma_c(16)
    for lane, i in itertools.product(range(32), range(8)):
        g, t = lane >> 2, lane & 3
        assert a.rows[lane, i] == g + 8 * (i >> 1 & 1)
        assert a.columns[lane, i] == 2 * t + (i & 1) + 8 * (i >> 2)
        if i < 4:
            assert (b.rows[lane, i], b.columns[lane, i]) == (g, 2 * t + (i & 1) + 8 * (i >> 1))
            assert (c.rows[lane, i], c.columns[lane, i]) == (g + 8 * (i >> 1), 2 * t + (i & 1))


@pytest.mark.parametrize("n", [8, 24, 256])
def test_wgmma_accumulator(n: int):
    f = fragments.wgmma_d(n)
    assert (np.sort((f.rows * n + f.columns).reshape(-1)) == np.arange(64 * n)).all()
    assert (f.rows[33, 2], f.columns[33, 2]) == (16 + 8, 2)
    matrices = np.arange(64 * n).reshape(64, n)
    assert (f.gather(f.scatter(matrices)) == matrices).all()


def test_ldmatrix_feeds_mma():
    """x4 gives the A fragment of m16n8k16, x2.trans the B fragment out of rows of k."""
    a, four = fragments.mma_a(16, 16, 16), fragments.b16_matrices(4, False)
    for lane, i in itertools.product(range(32), range(8)):
        row, byte = four.row[lane, 2 * i], four.byte[lane, 2 * i]
        block = row // 8  # the rows of blocks 0..3 are those of (0, 0), (8, 0), (0, 8), (8, 8)
        assert a.rows[lane, i] == row % 8 + 8 * (block & 1)
        assert a.columns[lane, i] == byte // 2 + 8 * (block >> 1)
    b, two = fragments.mma_b(16, 16), fragments.b16_matrices(2, True)
    for lane, i in itertools.product(range(32), range(4)):
        assert (b.columns[lane, i], b.rows[lane, i]) == (
            two.row[lane, 2 * i],
            two.byte[lane, 2 * i] // 2,
        )


@pytest.mark.parametrize("shape", fragments.LOAD_REGISTERS)
@pytest.mark.parametrize("num", [1, 4, 16])
def test_tensor_loads_cover_a_rectangle(shape: str, num: int):
    row, column = fragments.tensor_access(shape, num, num)
    rows = 32 if shape == "32x32b" else 16
    columns = fragments.LOAD_REGISTERS[shape] * num * 32 // rows
    assert (np.sort((row * columns + column).reshape(-1)) == np.arange(rows * columns)).all()


def test_tensor_load_of_256_bits_is_the_mma_accumulator():
    row, column = fragments.tensor_access("16x256b", 1)
    f = fragments.mma_c(16)
    assert (row == f.rows).all()
    assert (column == f.columns).all()


@pytest.mark.parametrize("name", tensor_memory.LAYOUTS)
def test_accumulators_lie_apart(name: str):
    layout = tensor_memory.LAYOUTS[name]
    lanes = layout.lanes()
    assert lanes.shape == (layout.split, layout.rows)
    assert np.unique(lanes).size == layout.split * layout.rows
    if layout.spread:
        assert set(layout.lanes(16).reshape(-1)) == {
            32 * w + 16 + r for w in range(4) for r in range(16)
        }


def test_which_accumulator_is_used():
    names = [
        tensor_memory.accumulator(m, group, ws).name
        for m, group, ws in (
            (256, 2, False),
            (128, 2, False),
            (128, 1, False),
            (64, 1, True),
            (64, 1, False),
            (32, 1, True),
        )
    ]
    assert names == ["A", "B", "D", "E", "F", "G"]


def test_scale_words():
    block = np.arange(32 * 4, dtype=np.uint32).reshape(1, 32, 4)
    codes = tensor_memory.scale_words(block, 128)
    for r in (0, 31, 32, 127):
        assert codes[0, r, 0] == block[0, r % 32, r // 32]


# Shared memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_swizzles_permute_lines(mode: str):
    a = np.arange(4096)
    s = swizzle(a, mode)
    assert (swizzle(s, mode) == a).all()
    assert (s // 128 == a // 128).all()
    assert (s[MODES[mode].period :] == s[: -MODES[mode].period] + MODES[mode].period).all()


def encode(start: int, leading: int, stride: int, mode: int, arch: int) -> int:
    value = start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32
    return value | (mode << 62 if arch == 90 else 1 << 46 | mode << 61)


def element(d: Matrix, mn_major: bool, bits: int, mn: int, k: int) -> int:
    """The address of an element, by the text of the manual."""
    t, size = 128 // bits, bits // 8
    width = {"none": 1, "32B": 2, "64B": 4, "128B": 8, "128B_atom32B": 8}[d.mode]
    if not mn_major:
        step = d.leading if d.mode == "none" else 16
        at = mn % 8 * 16 * width + mn // 8 * d.stride + k // t * step + k % t * size
    else:
        depth = 4 if d.mode == "128B_atom32B" else 8
        chunk = mn // t
        at = mn % t * size + k % depth * 16 * width
        if d.mode == "none":
            at += chunk * d.stride + k // depth * d.leading
        else:
            at += chunk % width * 16 + chunk // width * d.leading + k // depth * d.stride
    return int(swizzle(np.array(d.start + at), d.mode))


@pytest.mark.parametrize(
    ("arch", "mode"), [*((90, m) for m in (0, 1, 2, 3)), *((100, m) for m in (0, 1, 2, 4, 6))]
)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("mn_major", [False, True])
def test_descriptors_name_elements(arch: int, mode: int, bits: int, mn_major: bool):
    d = matrix(encode(4096 + 32, 2048, 1024, mode, arch), arch)
    k = 256 // bits
    where = chunks(d, mn_major, bits, 64, k)
    per = 128 // bits
    for mn, kk in itertools.product(range(0, 64, 3), range(k)):
        row, chunk, rest = (kk, mn // per, mn % per) if mn_major else (mn, kk // per, kk % per)
        assert where[row, chunk] + rest * bits // 8 == element(d, mn_major, bits, mn, kk)
    starts, size = touched(d, mn_major, bits, 64, k)
    covered = (starts[:, None] + np.arange(size)).reshape(-1)
    wanted = np.unique(where.reshape(-1)[:, None] + np.arange(16))
    assert (np.unique(covered) == wanted).all()
    assert np.unique(covered).size == covered.size


def test_ragged_rows_touch_only_what_they_use():
    d = matrix(encode(0, 128, 256, 0, 100), 100)
    starts, size = touched(d, True, 8, 8, 32)
    assert starts.size * size == 8 * 32


def test_descriptor_constants_are_checked():
    good = encode(0, 16, 1024, 2, 100)
    assert matrix(good, 100).mode == "128B"
    with pytest.raises(ValueError, match="0b000"):
        matrix(good & ~(7 << 46), 100)
    with pytest.raises(ValueError, match="layout 3"):
        matrix(encode(0, 16, 1024, 3, 100), 100)
    with pytest.raises(NotImplementedError):
        matrix(good | 1 << 52, 100)


def test_instruction_descriptor():
    i = instruction(0x08400490, "f16")
    assert (i.m, i.n, i.a, i.b, i.d) == (128, 256, "bf16", "bf16", "f32")
    assert instruction(0x08210010, "f16").transpose_b
    scaled = instruction(0x48C004A0, "mxf4")
    assert (scaled.m, scaled.n, scaled.scale_a, scaled.scale_b) == (128, 256, 2, 2)
    with pytest.raises(ValueError, match="no f32"):
        instruction(0x08400490, "i8")


def test_shapes():
    good = instruction(0x08400490, "f16")
    assert not descriptors.shape_fault(good, "f16", 1, False)
    assert descriptors.shape_fault(good, "f16", 1, False) == ""
    odd = instruction(0x08400490 & ~(63 << 17) | 3 << 17, "f16")
    assert "128 x 24" in descriptors.shape_fault(odd, "f16", 1, False)


def test_narrow_elements_are_unpacked():
    data = np.zeros((1, 1, 16), np.uint8)
    codes = np.arange(16)
    bits = ((codes[:, None] >> np.arange(6)) & 1).reshape(-1)
    data[0, 0, :12] = np.packbits(bits.astype(np.uint8), bitorder="little")
    got = descriptors.unpack(data, False, 8, 6, 1)
    assert (got[0] == codes).all()


# Pieces -------------------------------------------------------------------------------------------


def test_join():
    starts, size = join(np.array([48, 0, 16, 32, 64]), 16)
    assert (starts.tolist(), size) == ([0], 80)
    starts, size = join(np.array([0, 16, 64, 80]), 16)
    assert (starts.tolist(), size) == ([0, 64], 32)
    starts, size = join(np.array([0, 16, 64]), 16)
    assert (starts.tolist(), size) == ([0, 16, 64], 16)


def test_stack_cuts_to_a_common_size():
    table, size = stack([(np.array([0]), 64), (np.array([32, 96]), 32)], np.array([1, 0, 1]))
    assert size == 32
    assert table.tolist() == [[32, 96], [0, 32], [32, 96]]
