# ruff: noqa: E501
"""Shared memory and asynchronous copies of one agent: values through every kind of view, and the
faults of programs that do it wrong, each beside a program that does it right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.interp.launching import kinds, run

ATTRIBUTES = '"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"'

HEAD = f"""
#blocked = #ttg.blocked<{{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}}>
#flat = #ttg.slice<{{dim = 0, parent = #blocked}}>
#column = #ttg.slice<{{dim = 1, parent = #blocked}}>
#shared = #ttg.swizzled_shared<{{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}}>
#sharedT = #ttg.swizzled_shared<{{vec = 4, perPhase = 1, maxPhase = 4, order = [0, 1]}}>
#plain = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}}>
#plainT = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}}>
#line = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#smem = #ttg.shared_memory
module attributes {{{ATTRIBUTES}}} {{
"""

POINTERS = """
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #column>
    %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #flat>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #column> -> tensor<16x1xi32, #blocked>
    %c2 = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32, #flat> -> tensor<1x32xi32, #blocked>
    %w = arith.constant dense<32> : tensor<16x1xi32, #blocked>
    %row = arith.muli %r2, %w : tensor<16x1xi32, #blocked>
    %rb = tt.broadcast %row : tensor<16x1xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %cb = tt.broadcast %c2 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
    %local = arith.addi %rb, %cb : tensor<16x32xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %n = arith.constant 512 : i32
    %base = arith.muli %pid, %n : i32
    %baseT = tt.splat %base : i32 -> tensor<16x32xi32, #blocked>
    %offs = arith.addi %baseT, %local : tensor<16x32xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %px = tt.addptr %xs, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>, #blocked>
    %py = tt.addptr %ys, %offs : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2_ = arith.constant 2 : i32
"""

LOAD = "    %v = tt.load %px : tensor<16x32x!tt.ptr<f32>, #blocked>\n"
STORE = "    tt.store %py, %out : tensor<16x32x!tt.ptr<f32>, #blocked>\n"

TILE = "!ttg.memdesc<16x32xf32, #shared, #smem, mutable>"
STAGES = "!ttg.memdesc<2x16x32xf32, #shared, #smem, mutable>"


def kernel(body: str, more: str = "") -> str:
    """A kernel (x, y: f32 pointers, then `more`) on tiles of 16x32, a tile for each program."""
    return (
        f"{HEAD} tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>{more}) {{\n"
        f"{POINTERS}{body}    tt.return\n  }}\n}}\n"
    )


def tiles(programs: int) -> np.ndarray:
    return np.arange(programs * 512, dtype=np.float32).reshape(programs, 16, 32)


def outcome(text: str, programs: int = 3, **more: object):
    """The result, and what the kernel made of `tiles`."""
    x = tiles(programs)
    y = np.full_like(x, -1)
    result = run(text, (programs,), {"x": x, "y": y, **more})
    return result, y


@pytest.mark.parametrize("batch", [1, 2, 0])
def test_value_goes_through_memory(batch: int) -> None:
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> !ttg.memdesc<16x32xf32, #shared, #smem>
    %out = ttg.local_load %s : !ttg.memdesc<16x32xf32, #shared, #smem> -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    x = tiles(3)
    y = np.zeros_like(x)
    result = run(text, (3,), {"x": x, "y": y}, batch=batch)
    assert not result.faults
    np.testing.assert_array_equal(y, x)


def test_views_select_what_they_say() -> None:
    """Row 4..8 of the transposed stage 1, reshaped: through stores and through loads."""
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc : () -> {STAGES}
    %s0 = ttg.memdesc_index %s[%c0] : {STAGES} -> {TILE}
    %s1 = ttg.memdesc_index %s[%c1] : {STAGES} -> {TILE}
    ttg.local_store %v, %s0 : tensor<16x32xf32, #blocked> -> {TILE}
    ttg.local_store %v, %s1 : tensor<16x32xf32, #blocked> -> {TILE}
    %t = ttg.memdesc_trans %s1 {{order = array<i32: 1, 0>}} : {TILE} -> !ttg.memdesc<32x16xf32, #sharedT, #smem, mutable>
    %part = ttg.memdesc_subslice %t[4, 8] : !ttg.memdesc<32x16xf32, #sharedT, #smem, mutable> -> !ttg.memdesc<4x8xf32, #sharedT, #smem, mutable, 32x16>
    %nine = arith.constant dense<9.0> : tensor<4x8xf32, #blocked>
    ttg.local_store %nine, %part : tensor<4x8xf32, #blocked> -> !ttg.memdesc<4x8xf32, #sharedT, #smem, mutable, 32x16>
    %back = ttg.local_load %s1 : {TILE} -> tensor<16x32xf32, #blocked>
    %same = ttg.local_load %s0 : {TILE} -> tensor<16x32xf32, #blocked>
    %out = arith.subf %back, %same : tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    expected = tiles(3)
    expected[:, 8:16, 4:8] = 9
    np.testing.assert_array_equal(y, expected - tiles(3))


def test_part_of_the_columns() -> None:
    """Views of views of views."""
    wide = "!ttg.memdesc<16x32xf32, #plain, #smem, mutable>"
    half = "!ttg.memdesc<16x16xf32, #plain, #smem, mutable, 16x32>"
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> {wide}
    %h = ttg.memdesc_subslice %s[0, 16] : {wide} -> {half}
    %f = ttg.memdesc_trans %h {{order = array<i32: 1, 0>}} : {half} -> !ttg.memdesc<16x16xf32, #plainT, #smem, mutable, 32x16>
    %p = ttg.memdesc_subslice %f[4, 0] : !ttg.memdesc<16x16xf32, #plainT, #smem, mutable, 32x16> -> !ttg.memdesc<2x16xf32, #plainT, #smem, mutable, 32x16>
    %nine = arith.constant dense<9.0> : tensor<2x16xf32, #blocked>
    ttg.local_store %nine, %p : tensor<2x16xf32, #blocked> -> !ttg.memdesc<2x16xf32, #plainT, #smem, mutable, 32x16>
    %out = ttg.local_load %s : {wide} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    expected = tiles(3)
    expected[:, :, 20:22] = 9
    np.testing.assert_array_equal(y, expected)


def test_reinterpretation_sees_bytes_in_physical_order() -> None:
    """f32 under a swizzle read as i32 without one: the swizzle shows."""
    words = "!ttg.memdesc<16x32xi32, #plain, #smem, mutable>"
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> {TILE}
    %i = ttg.memdesc_reinterpret %s : {TILE} -> {words}
    %w2 = ttg.local_load %i : {words} -> tensor<16x32xi32, #blocked>
    %out = tt.bitcast %w2 : tensor<16x32xi32, #blocked> -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    rows, columns = np.mgrid[:16, :32]
    # vec 4, perPhase 1, maxPhase 4: groups of four columns change places by the row.
    swizzled = ((columns // 4) ^ (rows % 4)) * 4 + columns % 4
    expected = np.empty_like(y)
    expected[:, rows, swizzled] = tiles(3)
    np.testing.assert_array_equal(y, expected)


def test_small_floats_are_bytes_as_they_are() -> None:
    """f8 in memory that is seen as i8 too: the bits, not the nearest integers."""
    floats = "!ttg.memdesc<16x32xf8E5M2, #shared, #smem, mutable>"
    words = "!ttg.memdesc<16x32xi8, #shared, #smem, mutable>"
    text = kernel(
        f"""{LOAD}
    %f = tt.fp_to_fp %v, rounding = rtne : tensor<16x32xf32, #blocked> -> tensor<16x32xf8E5M2, #blocked>
    %s = ttg.local_alloc %f : (tensor<16x32xf8E5M2, #blocked>) -> {floats}
    %i = ttg.memdesc_reinterpret %s : {floats} -> {words}
    %w2 = ttg.local_load %i : {words} -> tensor<16x32xi8, #blocked>
    %out = arith.sitofp %w2 : tensor<16x32xi8, #blocked> to tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    bits = tiles(3).astype(ml_dtypes.float8_e5m2).view(np.int8)
    np.testing.assert_array_equal(y, bits.astype(np.float32))


def test_stage_chosen_by_the_program() -> None:
    """The index differs between programs of the batch, for stores and loads."""
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc : () -> {STAGES}
    %odd = arith.remsi %pid, %c2_ : i32
    %other = arith.subi %c1, %odd : i32
    %mine = ttg.memdesc_index %s[%odd] : {STAGES} -> {TILE}
    %theirs = ttg.memdesc_index %s[%other] : {STAGES} -> {TILE}
    %zero = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>
    ttg.local_store %zero, %theirs : tensor<16x32xf32, #blocked> -> {TILE}
    ttg.local_store %v, %mine : tensor<16x32xf32, #blocked> -> {TILE}
    %first = ttg.memdesc_index %s[%c0] : {STAGES} -> {TILE}
    %out = ttg.local_load %first : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    expected = tiles(3)
    expected[1] = 0
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("batch", [1, 0])
def test_branches_see_their_own_slots(batch: int) -> None:
    """Programs that take a branch write their slots only, and choose among buffers."""
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> {TILE}
    %zero = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>
    %q = ttg.local_alloc %zero : (tensor<16x32xf32, #blocked>) -> {TILE}
    %two = arith.cmpi slt, %pid, %c2_ : i32
    %odd = arith.remsi %pid, %c2_ : i32
    %is_odd = arith.cmpi eq, %odd, %c1 : i32
    %chosen = scf.if %is_odd -> ({TILE}) {{
      %neg = arith.negf %v : tensor<16x32xf32, #blocked>
      ttg.local_store %neg, %s : tensor<16x32xf32, #blocked> -> {TILE}
      scf.yield %s : {TILE}
    }} else {{
      scf.yield %q : {TILE}
    }}
    %got = ttg.local_load %chosen : {TILE} -> tensor<16x32xf32, #blocked>
    %one = arith.constant dense<1.0> : tensor<16x32xf32, #blocked>
    ttg.local_store %one, %chosen : tensor<16x32xf32, #blocked> -> {TILE}
    %a = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
    %out = arith.addf %a, %got : tensor<16x32xf32, #blocked>
{STORE}"""
    )
    x = tiles(4)
    y = np.zeros_like(x)
    result = run(text, (4,), {"x": x, "y": y}, batch=batch)
    assert not result.faults
    expected = tiles(4)
    expected[1::2] = 1 - expected[1::2]
    np.testing.assert_array_equal(y, expected)


GATHERS = """
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> TILE
    %seven = arith.constant dense<7> : tensor<16x32xi32, #blocked>
    %m = arith.muli %cb, %seven : tensor<16x32xi32, #blocked>
    %lim = arith.constant dense<32> : tensor<16x32xi32, #blocked>
    %at = arith.remsi %m, %lim : tensor<16x32xi32, #blocked>
""".replace("TILE", TILE)


def test_gather_and_scatter() -> None:
    text = kernel(
        f"""{LOAD}{GATHERS}
    %g = ttg.local_gather %s[%at] {{axis = 1 : i32}} : {TILE}, tensor<16x32xi32, #blocked> -> tensor<16x32xf32, #blocked>
    %d = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> {TILE}
    ttg.local_scatter %d[%at], %v {{axis = 1 : i32}} : {TILE}, tensor<16x32xi32, #blocked>, tensor<16x32xf32, #blocked>
    %back = ttg.local_load %d : {TILE} -> tensor<16x32xf32, #blocked>
    %k = arith.constant dense<1000.0> : tensor<16x32xf32, #blocked>
    %b2 = arith.mulf %back, %k : tensor<16x32xf32, #blocked>
    %out = arith.addf %g, %b2 : tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    at = np.arange(32) * 7 % 32
    x = tiles(3)
    scattered = np.empty_like(x)
    scattered[:, :, at] = x
    np.testing.assert_array_equal(y, x[:, :, at] + np.float32(1000) * scattered)


def test_gather_out_of_bounds() -> None:
    text = kernel(
        f"""{LOAD}{GATHERS}
    %g = ttg.local_gather %s[%m] {{axis = 1 : i32}} : {TILE}, tensor<16x32xi32, #blocked> -> tensor<16x32xf32, #blocked>
    tt.store %py, %g : tensor<16x32x!tt.ptr<f32>, #blocked>
"""
    )
    result, _ = outcome(text)
    assert kinds(result) == ["out-of-bounds"]
    assert "index is 35" in result.faults[0].notes[0]


def test_scatter_of_different_values_to_one_place() -> None:
    text = kernel(
        f"""{LOAD}{GATHERS}
    %zero = arith.constant dense<0> : tensor<16x32xi32, #blocked>
    ttg.local_scatter %s[%zero], %v {{axis = 1 : i32}} : {TILE}, tensor<16x32xi32, #blocked>, tensor<16x32xf32, #blocked>
"""
    )
    result, _ = outcome(text)
    assert kinds(result) == ["undefined"]


def test_atomics_in_shared_memory() -> None:
    text = kernel(
        f"""{LOAD}{GATHERS}
    %eight = arith.constant dense<8> : tensor<16x32xi32, #blocked>
    %bin = arith.divsi %cb, %eight : tensor<16x32xi32, #blocked>
    %even = arith.constant dense<16> : tensor<16x32xi32, #blocked>
    %mask = arith.cmpi slt, %cb, %even : tensor<16x32xi32, #blocked>
    %old = ttg.local_atomic_scatter_rmw fadd, %s[%bin], %v, %mask {{axis = 1 : i32}} : ({TILE}, tensor<16x32xf32, #blocked>, tensor<16x32xi32, #blocked>, tensor<16x32xi1, #blocked>) -> tensor<16x32xf32, #blocked>
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    x = tiles(3)
    expected = x.copy()
    for lane in range(16):
        expected[:, :, lane // 8] += x[:, :, lane]
    np.testing.assert_array_equal(y, expected)


def test_index_out_of_bounds() -> None:
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc : () -> {STAGES}
    %s1 = ttg.memdesc_index %s[%pid] : {STAGES} -> {TILE}
    ttg.local_store %v, %s1 : tensor<16x32xf32, #blocked> -> {TILE}
"""
    )
    result, _ = outcome(text, programs=3)
    assert kinds(result) == ["out-of-bounds"]
    assert "program (2, 0, 0): the index is 2" in result.faults[0].notes[0]
    assert not outcome(text, programs=2)[0].faults


def test_memory_that_nobody_wrote() -> None:
    text = kernel(
        f"""
    %s = ttg.local_alloc : () -> {TILE}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, _ = outcome(text)
    assert kinds(result) == ["uninitialized"]
    assert "shared memory that nobody has written" in result.faults[0].message


def test_part_that_nobody_wrote() -> None:
    """Only what reaches a store counts: half of the tile is written, half is stored."""
    body = f"""{LOAD}
    %s = ttg.local_alloc : () -> {TILE}
    %p = ttg.memdesc_subslice %s[8, 0] : {TILE} -> !ttg.memdesc<8x32xf32, #shared, #smem, mutable, 16x32>
    %one = arith.constant dense<1.0> : tensor<8x32xf32, #blocked>
    ttg.local_store %one, %p : tensor<8x32xf32, #blocked> -> !ttg.memdesc<8x32xf32, #shared, #smem, mutable, 16x32>
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
    %lim = arith.constant dense<LIMIT> : tensor<16x32xi32, #blocked>
    %mask = arith.cmpi sge, %rb, %lim : tensor<16x32xi32, #blocked>
    tt.store %py, %out, %mask : tensor<16x32x!tt.ptr<f32>, #blocked>
"""
    right, y = outcome(kernel(body.replace("LIMIT", "256")))
    assert not right.faults
    assert (y[:, 8:] == 1).all()
    assert (y[:, :8] == -1).all()
    wrong, _ = outcome(kernel(body.replace("LIMIT", "224")))
    assert kinds(wrong) == ["uninitialized"]


def test_memory_used_after_it_was_freed() -> None:
    text = kernel(
        f"""{LOAD}
    %s = ttg.local_alloc %v : (tensor<16x32xf32, #blocked>) -> {TILE}
    ttg.local_dealloc %s : {TILE}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    assert kinds(outcome(text)[0]) == ["lifetime"]


COPY = f"""
    %s = ttg.local_alloc : () -> {STAGES}
    %s0 = ttg.memdesc_index %s[%c0] : {STAGES} -> {TILE}
    %s1 = ttg.memdesc_index %s[%c1] : {STAGES} -> {TILE}
    %t0 = ttg.async_copy_global_to_local %px, %s0 : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %g0 = ttg.async_commit_group tokens %t0
    %t1 = ttg.async_copy_global_to_local %px, %s1 : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %g1 = ttg.async_commit_group tokens %t1
"""


def test_copy_is_waited_for() -> None:
    """The wait leaves one group outstanding: stage 0 may be read, stage 1 may not."""
    text = kernel(
        f"""{COPY}
    %k = ttg.async_wait %g0 {{num = 1 : i32}}
    %out = ttg.local_load %s0 token %k : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    np.testing.assert_array_equal(y, tiles(3))


@pytest.mark.parametrize("batch", [1, 0])
def test_copy_read_in_flight(batch: int) -> None:
    text = kernel(
        f"""{COPY}
    %k = ttg.async_wait %g0 {{num = 1 : i32}}
    %out = ttg.local_load %s1 token %k : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    x = tiles(3)
    result = run(text, (3,), {"x": x, "y": x.copy()}, batch=batch)
    assert kinds(result) == ["race"]
    fault = result.faults[0]
    assert "in flight" in fault.message
    assert "async_copy_global_to_local" in fault.notes[0]


@pytest.mark.parametrize(
    ("late", "found"),
    [
        (f"    ttg.local_store %v, %s1 : tensor<16x32xf32, #blocked> -> {TILE}\n", ["race"]),
        (f"    ttg.local_store %v, %s0 : tensor<16x32xf32, #blocked> -> {TILE}\n", []),
        (f"    ttg.local_dealloc %s : {STAGES}\n", ["race"]),
    ],
)
def test_copy_overwritten_in_flight(late: str, found: list[str]) -> None:
    text = kernel(f"{LOAD}{COPY}    %k = ttg.async_wait %g0 {{num = 1 : i32}}\n{late}")
    assert kinds(outcome(text)[0]) == found


def test_copy_that_belongs_to_no_group() -> None:
    """A wait for groups says nothing of copies after the last commit."""
    text = kernel(
        f"""
    %s = ttg.local_alloc : () -> {TILE}
    %t0 = ttg.async_copy_global_to_local %px, %s : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %k = ttg.async_wait %t0 {{num = 0 : i32}}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    assert kinds(outcome(text)[0]) == ["race"]


def test_masked_copy_fills_with_other() -> None:
    text = kernel(
        f"""
    %s = ttg.local_alloc : () -> {TILE}
    %lim = arith.constant dense<20> : tensor<16x32xi32, #blocked>
    %mask = arith.cmpi slt, %cb, %lim : tensor<16x32xi32, #blocked>
    %five = arith.constant dense<5.0> : tensor<16x32xf32, #blocked>
    %t0 = ttg.async_copy_global_to_local %px, %s mask %mask other %five : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %g0 = ttg.async_commit_group tokens %t0
    %k = ttg.async_wait %g0 {{num = 0 : i32}}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    )
    result, y = outcome(text)
    assert not result.faults
    expected = tiles(3)
    expected[:, :, 20:] = 5
    np.testing.assert_array_equal(y, expected)


def test_groups_of_programs_that_loop_for_longer() -> None:
    """Programs go round a loop 1, 2 and 3 times, committing a group each time; then a wait leaves
    as many outstanding as `num` says: the copy of the last iteration is in flight for it."""
    body = f"""
    %s = ttg.local_alloc : () -> {TILE}
    %trips = arith.addi %pid, %c1 : i32
    scf.for %i = %c0 to %trips step %c1 : i32 {{
      %old = ttg.async_wait {{num = 0 : i32}}
      %t0 = ttg.async_copy_global_to_local %px, %s : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
      %g0 = ttg.async_commit_group tokens %t0
    }}
    %k = ttg.async_wait {{num = NUM : i32}}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
{STORE}"""
    right, y = outcome(kernel(body.replace("NUM", "0")))
    assert not right.faults
    np.testing.assert_array_equal(y, tiles(3))
    wrong, _ = outcome(kernel(body.replace("NUM", "1")))
    assert kinds(wrong) == ["race"]


def test_undefined_values_stay_undefined_in_memory() -> None:
    """A value divided by zero goes through memory and is reported where it was made, if it
    matters."""
    body = f"""
    %q = arith.divsi %cb, %rb : tensor<16x32xi32, #blocked>
    %f = arith.sitofp %q : tensor<16x32xi32, #blocked> to tensor<16x32xf32, #blocked>
    %s = ttg.local_alloc %f : (tensor<16x32xf32, #blocked>) -> {TILE}
    %out = ttg.local_load %s : {TILE} -> tensor<16x32xf32, #blocked>
    %lim = arith.constant dense<LIMIT> : tensor<16x32xi32, #blocked>
    %mask = arith.cmpi sge, %rb, %lim : tensor<16x32xi32, #blocked>
    tt.store %py, %out, %mask : tensor<16x32x!tt.ptr<f32>, #blocked>
"""
    assert not outcome(kernel(body.replace("LIMIT", "32")))[0].faults
    assert kinds(outcome(kernel(body.replace("LIMIT", "0")))[0]) == ["undefined"]


@pytest.mark.parametrize("batch", [1, 0])
def test_a_program_chooses_among_descriptors_and_tokens(batch: int) -> None:
    """Odd programs copy into the second tile, even ones into the first: the tile and the token
    come out of a select whose condition is the program's own."""
    text = kernel(
        f"""
    %bit = arith.remsi %pid, %c2_ : i32
    %odd = arith.cmpi eq, %bit, %c1 : i32
    %zero = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>
    %a = ttg.local_alloc %zero : (tensor<16x32xf32, #blocked>) -> {TILE}
    %b = ttg.local_alloc %zero : (tensor<16x32xf32, #blocked>) -> {TILE}
    %tile = arith.select %odd, %b, %a : {TILE}
    %copy = ttg.async_copy_global_to_local %px, %tile : tensor<16x32x!tt.ptr<f32>, #blocked> -> <16x32xf32, #shared, #smem, mutable>
    %group = ttg.async_commit_group tokens %copy
    %token = arith.select %odd, %group, %copy : !ttg.async.token
    %done = ttg.async_wait %token {{num = 0 : i32}}
    %va = ttg.local_load %a token %done : {TILE} -> tensor<16x32xf32, #blocked>
    %vb = ttg.local_load %b token %done : {TILE} -> tensor<16x32xf32, #blocked>
    %out = arith.subf %va, %vb : tensor<16x32xf32, #blocked>
{STORE}"""
    )
    x = tiles(3)
    y = np.zeros_like(x)
    result = run(text, (3,), {"x": x, "y": y}, batch=batch)
    assert not result.faults
    np.testing.assert_array_equal(y, x * np.array([1, -1, 1], np.float32)[:, None, None])
