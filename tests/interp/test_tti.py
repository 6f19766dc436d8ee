# ruff: noqa: E501
"""`tti`: what Triton's sanitizers insert. Addresses, locks and assertions; the float sanitizer's
ring; and a whole kernel that Triton's concurrency sanitizer has instrumented."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.interp.launching import kinds, run
from xttir.diagnostics import Unsupported
from xttir.interp.numerics.fpsan import embed, unembed

HEAD = """
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#rows = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#tile = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 4, order = [1, 0]}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {"ttg.num-ctas" = CTAS : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%o: !tt.ptr<i32>, %x: !tt.ptr<f32>) -> RESULT {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %true = arith.constant true
    %false = arith.constant false
"""
RING = "!ttg.memdesc<3x32xi32, #shared, #smem, mutable>"
SLOT = "!ttg.memdesc<32xi32, #shared, #smem, mutable>"
TILE = "!ttg.memdesc<8x8xi32, #tile, #smem, mutable>"
BOX = "!ttg.memdesc<4x4xi32, #tile, #smem, mutable, 8x8>"
STAGES = "!ttg.memdesc<2x128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
STAGE = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"


def outcome(lines: str, result: str = "i32", ctas: int = 1):
    """The launch's outcome, and (b, ..) the value called %out."""
    text = HEAD.replace("CTAS", str(ctas)).replace("RESULT", result)
    found = run(
        f"{text}{lines}    tt.return %out : {result}\n  }}\n}}\n",
        (1,),
        {"o": np.zeros(32, np.int32), "x": np.ones(32, np.float32)},
    )
    return found, np.asarray(found.results[0]) if found.results else np.zeros(0)


ADDRESSES = {
    "a stage": (
        f"""    %m = ttg.local_alloc {{allocation.offset = 512 : i32}} : () -> {RING}
    %s = ttg.memdesc_index %m[%c2] : {RING} -> {SLOT}
    %out = tti.experimental_memdesc_to_i32 %s : {SLOT}
""",
        512 + 2 * 128,
    ),
    # Row 4, column 4 of rows of 8 words, whose phase (row 4 of 4) is 0.
    "a box": (
        f"""    %m = ttg.local_alloc {{allocation.offset = 256 : i32}} : () -> {TILE}
    %s = ttg.memdesc_subslice %m[4, 4] : {TILE} -> {BOX}
    %out = tti.experimental_memdesc_to_i32 %s : {BOX}
""",
        256 + 4 * (4 * 8 + 4),
    ),
    "columns of tensor memory": (
        f"""    %m = ttng.tmem_alloc {{tensor_memory_col_offset = 32 : i32, tensor_memory_row_offset = 0 : i32}} : () -> {STAGES}
    %s = ttg.memdesc_index %m[%c1] : {STAGES} -> {STAGE}
    %out = tti.experimental_memdesc_to_i32 %s : {STAGE}
""",
        32 + 64,
    ),
    "an offset": ("    %out = tti.experimental_memory_offset_to_i32 96, shared_mem\n", 96),
    "the CTA": ("    %out = tti.experimental_cluster_cta_id : i32\n", 0),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_address(case: str) -> None:
    lines, wanted = ADDRESSES[case]
    found, value = outcome(lines)
    assert kinds(found) == []
    assert value.tolist() == [wanted]


def test_address_of_memory_that_has_no_place() -> None:
    lines = ADDRESSES["a stage"][0].replace("{allocation.offset = 512 : i32} ", "")
    with pytest.raises(Unsupported, match="not allocated yet"):
        outcome(lines)


def test_cta_of_a_cluster_is_named() -> None:
    with pytest.raises(Unsupported, match="differs between the CTAs"):
        outcome(ADDRESSES["the CTA"][0], ctas=2)


def test_descriptors_hold_address_and_length() -> None:
    lines = "    %out = tti.experimental_buffer_descriptors [0, 16777344], [8, -1], shared_mem : tensor<2xi64, #line>\n"
    _, value = outcome(lines, "tensor<2xi64, #line>")
    # Addresses are cut to what the CTAs of a cluster have in common, lengths are unsigned.
    assert value.view(np.uint64).tolist() == [[8 << 32, 128 | 0xFFFFFFFF << 32]]


@pytest.mark.parametrize("condition", ["true", "false"])
def test_assertion(condition: str) -> None:
    lines = f"""    tti.experimental_assert_uniform %{condition}, "it holds"
    %out = arith.constant 0 : i32
"""
    found, _ = outcome(lines)
    assert kinds(found) == ([] if condition == "true" else ["assert"])


GATHER = f"""    %m = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {TILE}
    %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32, #ttg.slice<{{dim = 0, parent = #rows}}>>
    %q = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32, #ttg.slice<{{dim = 1, parent = #rows}}>>
    %a = tt.expand_dims %r {{axis = 0 : i32}} : tensor<8xi32, #ttg.slice<{{dim = 0, parent = #rows}}>> -> tensor<1x8xi32, #rows>
    %b = tt.expand_dims %q {{axis = 1 : i32}} : tensor<8xi32, #ttg.slice<{{dim = 1, parent = #rows}}>> -> tensor<8x1xi32, #rows>
    %c10 = arith.constant dense<10> : tensor<8x1xi32, #rows>
    %d = arith.muli %b, %c10 : tensor<8x1xi32, #rows>
    %e = tt.broadcast %d : tensor<8x1xi32, #rows> -> tensor<8x8xi32, #rows>
    %f = tt.broadcast %a : tensor<1x8xi32, #rows> -> tensor<8x8xi32, #rows>
    %v = arith.addi %e, %f : tensor<8x8xi32, #rows>
    ttg.local_store %v, %m : tensor<8x8xi32, #rows> -> {TILE}
    %i = arith.constant dense<3> : tensor<2x4xi32, #rows>
    %out = tti.experimental_local_gather %m[%i] offsets = [%c2, %SHIFT] {{axis = 0 : i32}} : {TILE}, tensor<2x4xi32, #rows> -> tensor<2x4xi32, #rows>
"""


def test_gather_from_a_place() -> None:
    found, value = outcome(GATHER.replace("SHIFT", "c1"), "tensor<2x4xi32, #rows>")
    assert kinds(found) == []
    assert value[0].tolist() == [[51, 52, 53, 54]] * 2


def test_gather_out_of_bounds_along_another_axis() -> None:
    lines = "    %c6 = arith.constant 6 : i32\n" + GATHER.replace("SHIFT", "c6")
    found, _ = outcome(lines, "tensor<2x4xi32, #rows>")
    assert kinds(found) == ["out-of-bounds"]


LOCK = """    %s = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>, #line>
    tti.experimental_lock_acquire %o : !tt.ptr<i32>
    %held = tt.load %o : !tt.ptr<i32>
    tti.experimental_lock_release %o, %PRED : !tt.ptr<i32>
    %after = tt.load %o : !tt.ptr<i32>
    %twice = arith.addi %after, %after : i32
    %out = arith.addi %held, %twice : i32
"""


@pytest.mark.parametrize("released", [True, False])
def test_lock(released: bool) -> None:
    found, value = outcome(LOCK.replace("PRED", "true" if released else "false"))
    assert kinds(found) == []
    assert value.tolist() == [1 if released else 3]


def test_lock_that_nobody_releases() -> None:
    found, _ = outcome(
        LOCK.replace("PRED", "false") + "    tti.experimental_lock_acquire %o : !tt.ptr<i32>\n"
    )
    assert kinds(found) == ["deadlock"]


@pytest.mark.parametrize("signed", [(True, True), (True, False), (False, False)])
def test_dot_of_bytes_wraps(signed: tuple[bool, bool]) -> None:
    flags = ["true" if s else "false" for s in signed]
    lines = f"""    %a = arith.constant dense<-100> : tensor<16x64xi8, #left>
    %b = arith.constant dense<-2> : tensor<64x8xi8, #right>
    %c = arith.constant dense<2147483647> : tensor<16x8xi32, #mma>
    %out = tti.dot_i8 %a, %b, %c, aSigned = {flags[0]}, bSigned = {flags[1]} : tensor<16x64xi8, #left> * tensor<64x8xi8, #right> -> tensor<16x8xi32, #mma>
"""
    found, value = outcome(lines, "tensor<16x8xi32, #mma>")
    a, b = -100 if signed[0] else 156, -2 if signed[1] else 254
    wanted = (2147483647 + 64 * a * b + 2**31) % 2**32 - 2**31
    assert kinds(found) == []
    assert (value == wanted).all()


def test_ring_of_f32_is_that_of_the_device() -> None:
    """By the instructions that Triton 3.9.0 makes of `experimental_fpsan_embed` for f32."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 1 << 32, 4096, np.uint64)
    half = (raw * 14940041) & 0xFFFFFFFF
    half ^= (half >> 23) & 0xFF
    factor = np.where(raw >> 31 == 0, 199934151, 1947549497).astype(np.uint64)
    wanted = (half * factor & 0x7FFFFFFF) | (raw & 0x80000000)
    got = embed(raw.astype(np.uint32).view(np.float32)).view(np.uint32)
    assert np.array_equal(got, wanted.astype(np.uint32))


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_ring(kind: type) -> None:
    dtype = np.dtype(kind)
    word = np.dtype(f"u{dtype.itemsize}")
    rng = np.random.default_rng(1)
    raw = rng.integers(0, np.iinfo(word).max, 4096, word, endpoint=True)
    assert np.array_equal(unembed(embed(raw.view(dtype)), dtype).view(word), raw)
    assert embed(np.array([1, -1, 0], dtype)).tolist() == [1, -1, 0]


def test_ring_in_a_kernel() -> None:
    lines = """    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #line>
    %f = arith.sitofp %r : tensor<32xi32, #line> to tensor<32xf32, #line>
    %e = tti.experimental_fpsan_embed %f : (tensor<32xf32, #line>) -> tensor<32xi32, #line>
    %g = arith.muli %e, %e : tensor<32xi32, #line>
    %u = tti.experimental_fpsan_unembed %g : (tensor<32xi32, #line>) -> tensor<32xf32, #line>
    %out = tti.experimental_fpsan_embed %u : (tensor<32xf32, #line>) -> tensor<32xi32, #line>
"""
    found, value = outcome(lines, "tensor<32xi32, #line>")
    elements = embed(np.arange(32, dtype=np.float32))
    assert kinds(found) == []
    assert np.array_equal(value[0], elements * elements)


def test_atomics_of_the_global_sanitizer() -> None:
    lines = """    tti.experimental_gsan_init
    %v = tti.experimental_gsan_atomic_rmw add, relaxed, gpu, %o, %c2, %true : (!tt.ptr<i32>, i32, i1) -> i32
    %w = tti.experimental_gsan_atomic_cas acq_rel, gpu, %o, %c2, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
    %r = tti.experimental_gsan_atomic_load acquire, gpu, %o : (!tt.ptr<i32>) -> i32
    tti.experimental_gsan_atomic_store release, gpu, %o, %c0 : !tt.ptr<i32>
    %c10 = arith.constant 10 : i32
    %s = arith.muli %w, %c10 : i32
    %t = arith.addi %r, %s : i32
    %out = arith.addi %t, %v : i32
"""
    found, value = outcome(lines)
    assert kinds(found) == []
    assert value.tolist() == [21]
    assert any("global sanitizer" in what for what in found.counts.left_out)
