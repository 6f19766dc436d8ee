"""Kernels proved or refuted for every size: pairs of a right one and one with a slip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xttir.analyses.sizes.assume import from_words
from xttir.analyses.sizes.prove import EverySize, prove
from xttir.diagnostics import InputError, Kind, Unsupported, Verdict
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module


def decide(body: str, assume: str, parameters: str = "%x: !tt.ptr<f32>, %n: i32") -> EverySize:
    """The verdict on a kernel of this body."""
    module = parse_module(f"module {{ tt.func public @k({parameters}) {{\n{body}\n tt.return }} }}")
    (function,) = [op for op in module.body.block.ops if isinstance(op, tt.FuncOp)]
    return prove(from_words(module, function, assume), 60)


def tiled(unit: int, block: int, bound: str = "%n", mask: bool = True) -> str:
    """Every program stores `block` elements from `unit * program_id`."""
    return f"""
  %u = arith.constant {unit} : i32
  %two = arith.constant 2 : i32
  %m = arith.muli %n, %two : i32
  %pid = tt.get_program_id x : i32
  %0 = arith.muli %pid, %u : i32
  %1 = tt.make_range {{end = {block} : i32, start = 0 : i32}} : tensor<{block}xi32>
  %2 = tt.splat %0 : i32 -> tensor<{block}xi32>
  %3 = arith.addi %2, %1 : tensor<{block}xi32>
  %4 = tt.splat {bound} : i32 -> tensor<{block}xi32>
  %5 = arith.cmpi slt, %3, %4 : tensor<{block}xi32>
  %8 = tt.splat %x : !tt.ptr<f32> -> tensor<{block}x!tt.ptr<f32>>
  %9 = tt.addptr %8, %3 : tensor<{block}x!tt.ptr<f32>>, tensor<{block}xi32>
  %v = arith.constant dense<0.0> : tensor<{block}xf32>
  tt.store %9, %v{", %5" if mask else ""} : tensor<{block}x!tt.ptr<f32>>"""


CONTRACT = "len(x) == n; grid[0] == cdiv(n, 64); n >= 1; n <= 1000000000"


def test_tiles_side_by_side_are_proved() -> None:
    result = decide(tiled(64, 64), CONTRACT)
    assert result.verdict is Verdict.VERIFIED, result.open
    assert result.asked["race"] == 1
    assert result.asked["out-of-bounds"] == 1


def test_tiles_that_overlap_race() -> None:
    result = decide(tiled(64, 128), CONTRACT)
    assert result.verdict is Verdict.FAULT
    assert {f.kind for f in result.faults} == {Kind.RACE}
    assert "a launch that shows it" in result.faults[0].notes[-1]


def test_a_store_without_a_mask_leaves_the_tensor() -> None:
    result = decide(tiled(64, 64, mask=False), CONTRACT)
    assert Kind.OUT_OF_BOUNDS in {f.kind for f in result.faults}


def test_the_same_store_is_right_where_sizes_are_multiples() -> None:
    result = decide(tiled(64, 64, mask=False), CONTRACT + "; n % 64 == 0")
    assert result.verdict is Verdict.VERIFIED, result.open
    assert "n % 64 == 0" in result.contract


def test_a_wrong_bound_leaves_the_tensor() -> None:
    result = decide(tiled(64, 64, "%m"), CONTRACT)
    assert Kind.OUT_OF_BOUNDS in {f.kind for f in result.faults}


def test_large_offsets_wrap() -> None:
    words = "len(x) == n; grid[0] == cdiv(n, 48); n >= 1"
    result = decide(tiled(48, 64), words)
    kinds = {f.kind for f in result.faults}
    assert kinds >= {Kind.RACE}
    wide = decide(tiled(64, 64), "len(x) == n; n >= 1")
    assert Kind.INT_OVERFLOW in {f.kind for f in wide.faults}, "the grid is not bounded"


ROWS = """
  %pid = tt.get_program_id x : i32
  %0 = arith.muli %pid, %stride : i32
  %1 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %2 = tt.splat %0 : i32 -> tensor<128xi32>
  %3 = arith.addi %2, %1 : tensor<128xi32>
  %4 = tt.splat %n : i32 -> tensor<128xi32>
  %5 = arith.cmpi slt, %1, %4 : tensor<128xi32>
  %8 = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %9 = tt.addptr %8, %3 : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %v = arith.constant dense<0.0> : tensor<128xf32>
  tt.store %9, %v, %5 : tensor<128x!tt.ptr<f32>>"""
ROW_ARGUMENTS = "%x: !tt.ptr<f32>, %n: i32, %stride: i32"
ROW_CONTRACT = (
    "len(x) == (grid[0] - 1) * stride + n; 1 <= n; n <= 128; grid[0] * stride <= 2 ** 31 - 1"
)


def test_rows_with_a_symbolic_stride_are_proved() -> None:
    result = decide(ROWS, ROW_CONTRACT + "; stride >= n", ROW_ARGUMENTS)
    assert result.verdict is Verdict.VERIFIED, result.open


def test_rows_that_may_overlap_are_not() -> None:
    result = decide(ROWS, ROW_CONTRACT + "; stride >= 1", ROW_ARGUMENTS)
    assert Kind.RACE in {f.kind for f in result.faults}
    sizes = result.faults[0].witness["launch"]
    assert sizes["stride"] < sizes["n"]


LOOP = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %pid = tt.get_program_id x : i32
  %g = tt.get_num_programs x : i32
  %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %ns = tt.splat %n : i32 -> tensor<64xi32>
  %v = arith.constant dense<0.0> : tensor<64xf32>
  scf.for %t = %pid to %tiles step STEP : i32 {
    %0 = arith.muli %t, %c64 : i32
    %1 = tt.splat %0 : i32 -> tensor<64xi32>
    %2 = arith.addi %1, %lane : tensor<64xi32>
    %3 = arith.cmpi slt, %2, %ns : tensor<64xi32>
    %4 = tt.addptr %xs, %2 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %4, %v, %3 : tensor<64x!tt.ptr<f32>>
  }"""
LOOP_ARGUMENTS = "%x: !tt.ptr<f32>, %n: i32, %tiles: i32"
LOOP_CONTRACT = "len(x) == n; tiles == cdiv(n, 64); n >= 1; n <= 2 ** 30"


def test_a_persistent_loop_is_proved() -> None:
    result = decide(LOOP.replace("STEP", "%g"), LOOP_CONTRACT, LOOP_ARGUMENTS)
    assert result.verdict is Verdict.VERIFIED, result.open


def test_a_persistent_loop_with_a_wrong_step_races() -> None:
    result = decide(LOOP.replace("STEP", "%c1"), LOOP_CONTRACT, LOOP_ARGUMENTS)
    assert Kind.RACE in {f.kind for f in result.faults}


GATHER = """
  %pid = tt.get_program_id x : i32
  %p = tt.addptr %idx, %pid : !tt.ptr<i32>, i32
  %i = tt.load %p : !tt.ptr<i32>
  %q = tt.addptr %x, %i : !tt.ptr<f32>, i32
  %v = tt.load %q : !tt.ptr<f32>
  %r = tt.addptr %o, %pid : !tt.ptr<f32>, i32
  tt.store %r, %v : !tt.ptr<f32>"""
GATHER_ARGUMENTS = "%x: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %o: !tt.ptr<f32>, %n: i32"
GATHER_CONTRACT = "len(x) == n; len(idx) == grid[0]; len(o) == grid[0]"


def test_data_in_a_declared_range_is_proved() -> None:
    words = GATHER_CONTRACT + "; 0 <= values(idx) < n"
    result = decide(GATHER, words, GATHER_ARGUMENTS)
    assert result.verdict is Verdict.VERIFIED, result.open


def test_data_without_a_range_is_unknown_and_says_so() -> None:
    result = decide(GATHER, GATHER_CONTRACT, GATHER_ARGUMENTS)
    assert result.verdict is Verdict.UNKNOWN
    assert any("data of idx" in why for _, why in result.open)


@pytest.mark.parametrize(
    "words",
    ["n", "n >=", "foo == 1", "values(n) == 3", "n in 3", "import os", "1 <= f(n)", "x.y < 1"],
)
def test_words_that_cannot_be_read(words: str) -> None:
    with pytest.raises(InputError):
        decide(tiled(64, 64), words)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    unit=st.integers(1, 9),
    block=st.sampled_from([1, 2, 4, 8]),
    pad=st.integers(-3, 8),
    scale=st.integers(1, 2),
    cover=st.integers(1, 9),
    more=st.integers(0, 1),
    masked=st.booleans(),
)
def test_what_is_proved_holds_for_small_sizes(
    unit: int, block: int, pad: int, scale: int, cover: int, more: int, masked: bool
) -> None:
    """Against enumeration: nothing that goes wrong for some size up to 24 is proved."""
    words = (
        f"len(x) == {scale} * n + {pad}; grid[0] == cdiv(n, {cover}) + {more}; n >= 4; n <= 10000"
    )
    result = decide(tiled(unit, block, mask=masked), words)
    wrong = any(_goes_wrong(n, unit, block, scale * n + pad, -(-n // cover) + more, masked)
                for n in range(4, 25))  # fmt: skip
    if wrong:
        assert result.verdict is Verdict.FAULT, (words, result.open)
    else:
        assert result.verdict is not Verdict.UNKNOWN, result.open


def _goes_wrong(n: int, unit: int, block: int, length: int, grid: int, masked: bool) -> bool:
    offsets = unit * np.arange(grid)[:, None] + np.arange(block)
    active = offsets < n if masked else np.ones_like(offsets, bool)
    if (active & (offsets >= length)).any():
        return True
    programs = np.broadcast_to(np.arange(grid)[:, None], offsets.shape)
    pairs = {(o, p) for o, p in zip(offsets[active], programs[active], strict=True)}
    return len({o for o, _ in pairs}) < len(pairs)


def kernel(text: str, assume: str) -> EverySize:
    """The verdict on the kernel `k` of a whole module."""
    module = parse_module(text)
    function = tt.function_named(module, "k")
    assert function is not None
    return prove(from_words(module, function, assume), 60)


BRANCH = """
  %c64 = arith.constant 64 : i32
  %pid = tt.get_program_id x : i32
  %0 = arith.muli %pid, %c64 : i32
  %c = arith.cmpi slt, %0, %n : i32
  scf.if %c {
    %q = tt.addptr %x, %pid : !tt.ptr<f32>, i32
    %v = arith.constant 0.0 : f32
    tt.store %q, %v : !tt.ptr<f32>
  }"""


def test_what_decides_a_branch_must_not_wrap() -> None:
    """64 * pid < n guards the store, but not once the product wraps."""
    result = decide(BRANCH, "n >= 1; len(x) == n")
    assert result.verdict is not Verdict.VERIFIED
    bounded = decide(BRANCH, "n >= 1; len(x) == n; grid[0] <= 2 ** 24")
    assert bounded.verdict is Verdict.VERIFIED, bounded.open


CALLEE = """
module {{
  tt.func private @get(%p: !tt.ptr<i32>) -> i32 attributes {{noinline = true}} {{
    %v = tt.load %p : !tt.ptr<i32>
    tt.return %v : i32
  }}
  tt.func public @k(%x: !tt.ptr<f32>, %idx: !tt.ptr<i32>, %n: i32) {{
    %c1 = arith.constant 1 : i32
    %next = tt.addptr %idx, %c1 : !tt.ptr<i32>, i32
    %a = tt.call @get(%idx) : (!tt.ptr<i32>) -> i32
    %b = tt.call @get({second}) : (!tt.ptr<i32>) -> i32
    %pid = tt.get_program_id x : i32
    %d = arith.subi %a, %b : i32
    %i = arith.addi %pid, %d : i32
    %q = tt.addptr %x, %i : !tt.ptr<f32>, i32
    %v = tt.load %q : !tt.ptr<f32>
    tt.return
  }}
}}"""


def test_two_calls_of_a_function_load_two_values() -> None:
    words = "len(idx) == 2; len(x) == grid[0]; 0 <= values(idx) < n; n <= 100; n >= 1"
    words += "; grid[0] <= 1000000"
    assert kernel(CALLEE.format(second="%next"), words).verdict is not Verdict.VERIFIED


def test_an_unknown_pointer_is_left_open() -> None:
    body = """
  %a = tt.load %p : !tt.ptr<i64>
  %q = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>
  %v = tt.load %q : !tt.ptr<f32>"""
    result = decide(body, "len(p) == 1", "%p: !tt.ptr<i64>")
    assert result.verdict is Verdict.UNKNOWN
    assert any("not known which tensor" in why for _, why in result.open)


def test_data_that_the_kernel_writes_is_in_no_declared_range() -> None:
    words = GATHER_CONTRACT + "; 0 <= values(idx) < n; grid[0] <= 1000000"
    write = """
  %big = arith.constant 1000000000 : i32
  %pp = tt.get_program_id x : i32
  %w = tt.addptr %idx, %pp : !tt.ptr<i32>, i32
  tt.store %w, %big : !tt.ptr<i32>"""
    assert decide(GATHER, words, GATHER_ARGUMENTS).verdict is Verdict.VERIFIED
    assert decide(write + GATHER, words, GATHER_ARGUMENTS).verdict is not Verdict.VERIFIED


def test_an_op_with_effects_that_nobody_knows_stops() -> None:
    body = """
  %v = tt.elementwise_inline_asm "st.global.u32 [$1], 0;"
    {constraints = "=r,l", packed_element = 1 : i32, pure = false}
    %x : !tt.ptr<f32> -> i32"""
    with pytest.raises(Unsupported, match="inline_asm"):
        decide(body, "")
