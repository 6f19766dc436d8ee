# ruff: noqa: E501
"""`ttg` ops on tiles: masked regions, stages, scratch memory, fp4, assembly run once a thread."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.launching import kinds, run
from xttir.diagnostics import Unsupported

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [WARPS], order = [0]}>
#wide = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [WARPS], order = [0]}>
#two = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
module attributes {"ttg.num-warps" = WARPS : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %n = arith.constant 128 : i32
    %base = arith.muli %pid, %n : i32
    %bs = tt.splat %base : i32 -> tensor<128xi32, #blocked>
    %o = arith.addi %bs, %r : tensor<128xi32, #blocked>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
    %px = tt.addptr %xs, %o : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
    %py = tt.addptr %ys, %o : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
    %v = tt.load %px : tensor<128x!tt.ptr<i32>, #blocked>
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c10 = arith.constant 10 : i32
"""

STORE = "    tt.store %py, %out : tensor<128x!tt.ptr<i32>, #blocked>\n"


def outcome(body: str, programs: int = 3, warps: int = 2, batch: int = 0):
    """The result, and what the kernel made of 0, 1, 2, ..."""
    x = np.arange(programs * 128, dtype=np.int32).reshape(programs, 128)
    y = np.full_like(x, -1)
    text = f"{HEAD}{body}    tt.return\n  }}\n}}\n".replace("WARPS", str(warps))
    result = run(text, (programs,), {"x": x, "y": y}, batch=batch)
    return result, x, y


MASK = """
    %on = arith.cmpi sge, %pid, %c1 : i32
    %out = "ttg.mask"(%on) ({
      %s = arith.addi %v, %v : tensor<128xi32, #blocked>
      ttg.mask.return %s : tensor<128xi32, #blocked>
    }) : (i1) -> tensor<128xi32, #blocked>
    %ons = tt.splat %on : i1 -> tensor<128xi1, #blocked>
"""


@pytest.mark.parametrize("batch", [1, 0])
def test_masked_region_runs_where_the_predicate_holds(batch: int) -> None:
    masked = MASK + "    tt.store %py, %out, %ons : tensor<128x!tt.ptr<i32>, #blocked>\n"
    result, x, y = outcome(masked, batch=batch)
    assert not result.faults
    np.testing.assert_array_equal(y[1:], 2 * x[1:])
    assert (y[0] == -1).all()


def test_result_of_a_masked_region_is_undefined_elsewhere() -> None:
    result, _, _ = outcome(MASK + STORE)
    assert kinds(result) == ["undefined"]


def test_stage_predicate() -> None:
    """iv < ub - (maxStage - stage) * step: 8 steps of 2 up to 20, stage 1 of 3."""
    result, _, y = outcome(
        """
    %ub = arith.constant 7 : i32
    %p = ttg.predicate_stage %pid, %ub, %c2 maxStage 3 stage 1 : i32 -> i1
    %e = arith.extui %p : i1 to i32
    %out = tt.splat %e : i32 -> tensor<128xi32, #blocked>
"""
        + STORE,
        programs=5,
    )
    assert not result.faults
    np.testing.assert_array_equal(y[:, 0], [1, 1, 1, 0, 0])


SCRATCH = """
    %s = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 512 : i32} : !tt.ptr<i32>
    %ss = tt.splat %s : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #blocked>
    %ps = tt.addptr %ss, %r : tensor<128x!tt.ptr<i32>, #blocked>, tensor<128xi32, #blocked>
"""


@pytest.mark.parametrize("batch", [1, 0])
def test_scratch_memory_is_each_program_s_own(batch: int) -> None:
    body = f"""{SCRATCH}
    tt.store %ps, %v : tensor<128x!tt.ptr<i32>, #blocked>
    %out = tt.load %ps : tensor<128x!tt.ptr<i32>, #blocked>
{STORE}"""
    result, x, y = outcome(body, batch=batch)
    assert not result.faults
    np.testing.assert_array_equal(y, x)


def test_scratch_memory_begins_unwritten() -> None:
    body = f"{SCRATCH}    %out = tt.load %ps : tensor<128x!tt.ptr<i32>, #blocked>\n{STORE}"
    assert kinds(outcome(body)[0]) == ["uninitialized"]


def test_poison_matters_only_where_it_is_used() -> None:
    poison = "    %p = ub.poison : tensor<128xi32, #blocked>\n"
    unused = f"{poison}    %out = arith.addi %v, %v : tensor<128xi32, #blocked>\n{STORE}"
    assert not outcome(unused)[0].faults
    used = f"{poison}    %out = arith.addi %v, %p : tensor<128xi32, #blocked>\n{STORE}"
    assert kinds(outcome(used)[0]) == ["undefined"]


def test_assembly_runs_once_a_thread_on_its_registers() -> None:
    """Each thread holds two neighbours: they change places, and get the lane's number."""
    asm = "mov.b32 $0, $3; add.s32 $1, $2, %laneid;"
    body = f"""
    %out = ttg.inline_asm "{asm}" {{constraints = "=r,=r,r,r", pure = true}} %v : (tensor<128xi32, #blocked>) -> tensor<128xi32, #blocked>
{STORE}"""
    result, x, y = outcome(body)
    assert not result.faults
    np.testing.assert_array_equal(y[:, 0::2], x[:, 1::2])
    np.testing.assert_array_equal(y[:, 1::2], x[:, 0::2] + np.arange(64) % 32)


def test_assembly_in_a_partition_sees_the_threads_of_the_program() -> None:
    """The partition's two warps come after the four of the default one."""
    body = """
    ttg.warp_specialize(%y)
    default {
      ttg.warp_yield
    }
    partition0(%q: !tt.ptr<i32>) num_warps(2) {
      %t = ttg.inline_asm "mov.u32 $0, %tid.x; mov.u32 $1, %tid.x;" {constraints = "=r,=r", pure = true} : () -> tensor<128xi32, #two>
      %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #two>
      %qs = tt.splat %q : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #two>
      %qi = tt.addptr %qs, %i : tensor<128x!tt.ptr<i32>, #two>, tensor<128xi32, #two>
      tt.store %qi, %t : tensor<128x!tt.ptr<i32>, #two>
      ttg.warp_return
    } : (!tt.ptr<i32>) -> ()
"""
    result, _, y = outcome(body, programs=1, warps=4)
    assert not result.faults
    assert (y.reshape(64, 2) == np.arange(128, 192)[:, None]).all()


@pytest.mark.parametrize(("register", "right"), [("%ctaid.x", True), ("%laneid", False)])
def test_assembly_whose_scalar_differs_between_threads(register: str, right: bool) -> None:
    body = f"""
    %w = ttg.inline_asm "mov.u32 $0, {register};" {{constraints = "=r", pure = true}} : () -> i32
    %out = tt.splat %w : i32 -> tensor<128xi32, #blocked>
{STORE}"""
    if right:
        assert not outcome(body)[0].faults
        return
    with pytest.raises(Unsupported, match="different values"):
        outcome(body)


@pytest.mark.parametrize(
    ("register", "value"), [("%cluster_ctarank", 0), ("%cluster_nctaid.x", 1), ("%nclusterid.x", 3)]
)
def test_assembly_in_a_cluster_of_one_block(register: str, value: int) -> None:
    body = f"""
    %w = ttg.inline_asm "mov.u32 $0, {register};" {{constraints = "=r", pure = true}} : () -> i32
    %out = tt.splat %w : i32 -> tensor<128xi32, #blocked>
{STORE}"""
    result, _, y = outcome(body)
    assert not result.faults
    assert (y == value).all()


def test_assembly_on_shared_memory_is_named() -> None:
    memory = "!ttg.memdesc<128xi32, #line, #ttg.shared_memory, mutable>"
    body = f"""
    %m = ttg.local_alloc : () -> {memory}
    %w = ttg.inline_asm "mov.u32 $0, $1;" {{constraints = "=r,r", pure = false}} %m : ({memory}) -> i32
"""
    with pytest.raises(Unsupported, match="addresses of shared memory"):
        outcome(body)


def test_warp_of_a_program_of_one_warp() -> None:
    body = f"""
    %w = ttg.warp_id
    %out = tt.splat %w : i32 -> tensor<128xi32, #blocked>
{STORE}"""
    result, _, y = outcome(body, warps=1)
    assert not result.faults
    assert (y == 0).all()
    with pytest.raises(Unsupported, match="differs between warps"):
        outcome(body, warps=2)


E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize("axis", [0, 1])
def test_fp4(axis: int) -> None:
    """Two values of four bits in a byte, the low half first, along either axis."""
    shape = (16, 8) if axis == 0 else (8, 16)
    rows, columns = shape
    result_type = f"tensor<{rows}x{columns}xbf16>"
    text = f"""
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%x: !tt.ptr<i8>, %y: !tt.ptr<bf16>) {{
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>
    %px = tt.addptr %xs, %r : tensor<64x!tt.ptr<i8>>, tensor<64xi32>
    %v = tt.load %px : tensor<64x!tt.ptr<i8>>
    %t = tt.reshape %v : tensor<64xi8> -> tensor<8x8xi8>
    %f = ttg.fp4_to_fp %t {{axis = {axis} : i32}} : tensor<8x8xi8> -> {result_type}
    %flat = tt.reshape %f : {result_type} -> tensor<128xbf16>
    %q = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
    %ys = tt.splat %y : !tt.ptr<bf16> -> tensor<128x!tt.ptr<bf16>>
    %py = tt.addptr %ys, %q : tensor<128x!tt.ptr<bf16>>, tensor<128xi32>
    tt.store %py, %flat : tensor<128x!tt.ptr<bf16>>
    tt.return
  }}
}}
"""
    import ml_dtypes

    x = np.random.default_rng(1).integers(-128, 128, 64).astype(np.int8)
    y = np.zeros(shape, ml_dtypes.bfloat16)
    result = run(text, (1,), {"x": x, "y": y})
    assert not result.faults
    pairs = np.stack([x.view(np.uint8) & 15, x.view(np.uint8) >> 4], -1).reshape(8, 8, 2)
    codes = pairs.reshape(8, 16) if axis == 1 else pairs.transpose(0, 2, 1).reshape(16, 8)
    np.testing.assert_array_equal(y.astype(np.float32), np.array(E2M1, np.float32)[codes])
