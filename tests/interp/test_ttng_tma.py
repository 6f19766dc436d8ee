# ruff: noqa: E501
"""TMA between tensors and shared memory: what is moved, what is outside, and the faults of programs
that do not wait, announce too few bytes or leave out a fence."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.interp.launching import kinds, run, tensor
from xttir.diagnostics import Policy
from xttir.interp.launch import DescriptorArg

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#four = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [1, 0]}>
#rows = #ttg.slice<{dim = 0, parent = #four}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%a: !tt.tensordesc<16x32xf32, #shared>, %b: !tt.tensordesc<16x32xf32, #shared>) {
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %c8 = arith.constant 8 : i32
    %pid = tt.get_program_id x : i32
    %c16 = arith.constant 16 : i32
    %row = arith.muli %pid, %c16 : i32
    %m = ttg.local_alloc : () -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
    %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
"""
FOOT = "    tt.return\n  }\n}\n"
EXPECT = "    ttng.barrier_expect %f, 2048, %true : !ttg.memdesc<1xi64, #bar, #smem, mutable>\n"
FETCH = "    ttng.async_tma_copy_global_to_local %a[%row, %c8] %m, %f, %true : !tt.tensordesc<16x32xf32, #shared>, !ttg.memdesc<1xi64, #bar, #smem, mutable> -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>\n"
WAIT = "    ttng.wait_barrier %f, %c0 : !ttg.memdesc<1xi64, #bar, #smem, mutable>\n"
LOAD = "    %v = ttg.local_load %m : !ttg.memdesc<16x32xf32, #shared, #smem, mutable> -> tensor<16x32xf32, #blocked>\n"
TWICE = "    %w = arith.addf %v, %v : tensor<16x32xf32, #blocked>\n"
PUT = "    ttg.local_store %w, %m : tensor<16x32xf32, #blocked> -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>\n"
FENCE = "    ttng.fence_async_shared {bCluster = false}\n"
STORE = "    ttng.async_tma_copy_local_to_global %b[%row, %c8] %m : !tt.tensordesc<16x32xf32, #shared>, !ttg.memdesc<16x32xf32, #shared, #smem, mutable>\n"
DONE = "    ttng.async_tma_store_wait {pendings = 0 : i32}\n"
RIGHT = [EXPECT, FETCH, WAIT, LOAD, TWICE, PUT, FENCE, STORE, DONE]


def descriptor(name: str, array: np.ndarray, padding: str = "zero") -> DescriptorArg:
    strides = tuple(s // array.itemsize for s in array.strides)
    return DescriptorArg(name, tensor(array, name), array.shape, strides, (16, 32), padding)


def outcome(lines: list[str], padding: str = "zero", programs: int = 3, **policy: object):
    """Of 40 rows and 36 columns, blocks at column 8 and rows 0, 16, 32."""
    a = np.arange(40 * 36, dtype=np.float32).reshape(40, 36)
    b = np.full_like(a, -1)
    arguments: dict[str, object] = {"a": descriptor("a", a, padding), "b": descriptor("b", b)}
    return run(HEAD + "".join(lines) + FOOT, (programs,), arguments, **policy), a, b


def without(*lines: str) -> list[str]:
    return [line for line in RIGHT if line not in lines]


@pytest.mark.parametrize("batch", [1, 2, 0])
def test_blocks_are_clipped_to_the_tensor(batch: int) -> None:
    result, a, b = outcome(RIGHT, batch=batch)
    assert kinds(result) == []
    assert (b[:, 8:] == 2 * a[:, 8:]).all()
    assert (b[:, :8] == -1).all()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding_is_read_outside(padding: str) -> None:
    # Rows are summed into a tensor as wide as the block, so that the padding shows.
    lines = [EXPECT, FETCH, WAIT, STORE.replace("[%row, %c8]", "[%row, %c0]"), DONE]
    result, a, b = outcome(lines, padding)
    assert kinds(result) == []
    wanted = np.full((40, 32), np.nan if padding == "nan" else 0, np.float32)
    wanted[:, :28] = a[:, 8:]
    np.testing.assert_array_equal(b[:, :32], wanted)


def test_read_before_the_wait_races() -> None:
    lines = [EXPECT, FETCH, LOAD, WAIT, TWICE, PUT, FENCE, STORE, DONE]
    assert kinds(outcome(lines)[0]) == ["race"]


def test_no_wait_races() -> None:
    assert "race" in kinds(outcome(without(WAIT))[0])


@pytest.mark.parametrize("size", [1024, 4096])
def test_wrong_number_of_bytes_is_waited_for_for_ever(size: int) -> None:
    lines = [EXPECT.replace("2048", str(size)), *RIGHT[1:]]
    result = outcome(lines)[0]
    assert kinds(result) == ["deadlock"]
    text = "\n".join(result.faults[0].notes)
    assert ("2048 bytes missing" if size == 4096 else "1024 bytes more than announced") in text


def test_store_without_a_fence_is_a_warning_within_an_agent() -> None:
    """Triton's compiler puts the fence there on the way to LLVM."""
    result = outcome(without(FENCE))[0]
    assert [(f.kind.value, f.policy) for f in result.faults] == [("proxy", Policy.STRICT)]


PARTITIONS = """
    ttg.warp_specialize(%m, %f, %b, %row)
    default {
{inner}      ttng.arrive_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      ttg.warp_yield
    }
    partition0(%pm: !ttg.memdesc<16x32xf32, #shared, #smem, mutable>, %pf: !ttg.memdesc<1xi64, #bar, #smem, mutable>, %pb: !tt.tensordesc<16x32xf32, #shared>, %r: i32) num_warps(4) {
      %z = arith.constant 0 : i32
      %e = arith.constant 8 : i32
      ttng.wait_barrier %pf, %z : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      ttng.async_tma_copy_local_to_global %pb[%r, %e] %pm : !tt.tensordesc<16x32xf32, #shared>, !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
      ttng.async_tma_store_wait {pendings = 0 : i32}
      ttg.warp_return
    } : (!ttg.memdesc<16x32xf32, #shared, #smem, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>, !tt.tensordesc<16x32xf32, #shared>, i32) -> ()
"""
ONES = "    %w = arith.constant dense<1.0> : tensor<16x32xf32, #blocked>\n"


@pytest.mark.parametrize("fenced", [True, False])
def test_fence_between_partitions(fenced: bool) -> None:
    result, _, b = outcome([ONES, PARTITIONS.replace("{inner}", PUT + FENCE * fenced)])
    found = [(f.kind.value, f.policy) for f in result.faults]
    assert found == ([] if fenced else [("proxy", Policy.ANY)])
    assert (b[:, 8:] == 1).all()


def test_what_tma_brought_needs_no_fence() -> None:
    assert kinds(outcome([EXPECT, FETCH, WAIT, STORE, DONE])[0]) == []


def test_memory_of_a_store_under_way_is_written() -> None:
    lines = [*without(DONE), PUT, DONE]
    assert kinds(outcome(lines)[0]) == ["race"]
    assert kinds(outcome([*RIGHT, PUT])[0]) == []


def test_predicate_that_does_not_hold() -> None:
    off = [line.replace("%true", "%off") for line in (EXPECT, FETCH)]
    flag = "    %off = arith.constant false\n"
    result = outcome([flag, *off, LOAD, TWICE, PUT, FENCE, STORE, DONE])[0]
    assert kinds(result) == ["uninitialized"]


def test_predicate_that_programs_differ_in() -> None:
    flag = "    %one = arith.constant 1 : i32\n    %some = arith.cmpi ne, %pid, %one : i32\n"
    some = [line.replace("%true", "%some") for line in (EXPECT, FETCH)]
    wait = WAIT.replace("%c0 :", "%c0, %some :")
    start = "    %zero = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>\n"
    clear = PUT.replace("%w", "%zero")
    result, a, b = outcome([flag, start, clear, *some, wait, LOAD, TWICE, PUT, FENCE, STORE, DONE])
    assert kinds(result) == []
    wanted = 2 * a
    wanted[16:32] = 0
    assert (b[:, 8:] == wanted[:, 8:]).all()


def test_reduction_adds_to_the_tensor() -> None:
    add = STORE.replace("async_tma_copy_local_to_global %b", "async_tma_reduce add, %b")
    result, a, b = outcome([EXPECT, FETCH, WAIT, add, DONE])
    assert kinds(result) == []
    assert (b[:, 8:] == a[:, 8:] - 1).all()


GATHER_HEAD = HEAD.replace("tt.tensordesc<16x32", "tt.tensordesc<1x32")
INDICES = """    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>
    %three = arith.constant dense<3> : tensor<16xi32, #rows>
    %at = arith.muli %r, %three : tensor<16xi32, #rows>
"""
GATHER = "    ttng.async_tma_gather %a[%at, %c0] %m, %f, %true : !tt.tensordesc<1x32xf32, #shared>, tensor<16xi32, #rows>, i32, !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<16x32xf32, #shared, #smem, mutable>, i1\n"
SCATTER = "    ttng.async_tma_scatter %b[%at, %c0] %m : !tt.tensordesc<1x32xf32, #shared>, tensor<16xi32, #rows>, i32, !ttg.memdesc<16x32xf32, #shared, #smem, mutable>\n"


def test_rows_are_gathered_and_scattered() -> None:
    a = np.arange(40 * 36, dtype=np.float32).reshape(40, 36)
    b = np.full_like(a, -1)
    arguments: dict[str, object] = {"a": descriptor("a", a), "b": descriptor("b", b)}
    text = GATHER_HEAD + INDICES + EXPECT + GATHER + WAIT + SCATTER + DONE + FOOT
    result = run(text, (1,), arguments)
    assert kinds(result) == []
    wanted = np.full_like(a, -1)
    wanted[:40:3, :32] = a[:40:3, :32]
    assert (b == wanted).all()


MAP = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i32
    %c36 = arith.constant 36 : i32
    %c40 = arith.constant 40 : i32
    %bytes = arith.constant 144 : i64
    %pid = tt.get_program_id x : i32
    %row = arith.muli %pid, %c16 : i32
    %d = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 256 : i32} : !tt.ptr<i8>
    %d2 = tt.addptr %d, %k128 : !tt.ptr<i8>, i32
    CREATE
    ttng.tensormap_create %d2, %o, [%c32, %c16], [%c36, %c40], [%bytes], [%c1, %c1] {elem_type = 7 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32} : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()
    ttng.tensormap_fenceproxy_acquire %d : !tt.ptr<i8>
    %a = ttng.reinterpret_tensor_descriptor %d : !tt.ptr<i8> to !tt.tensordesc<16x32xf32, #shared>
    %b = ttng.reinterpret_tensor_descriptor %d2 : !tt.ptr<i8> to !tt.tensordesc<16x32xf32, #shared>
    %m = ttg.local_alloc : () -> !ttg.memdesc<16x32xf32, #shared, #smem, mutable>
    %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
""".replace("    %d2 =", "    %k128 = arith.constant 128 : i32\n    %d2 =")
CREATE = "ttng.tensormap_create %d, %x, [%c32, %c16], [%c36, %c40], [%bytes], [%c1, %c1] {elem_type = 7 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32} : (!tt.ptr<i8>, !tt.ptr<f32>, i32, i32, i32, i32, i64, i32, i32) -> ()"


@pytest.mark.parametrize("batch", [1, 0])
def test_tensor_maps_that_the_kernel_writes(batch: int) -> None:
    x = np.arange(40 * 36, dtype=np.float32).reshape(40, 36)
    o = np.full_like(x, -1)
    body = "".join([EXPECT, FETCH, WAIT, STORE, DONE]).replace("%c8", "%c0")
    text = MAP.replace("CREATE", CREATE) + body + FOOT
    result = run(text, (3,), {"x": x, "o": o}, batch=batch)
    assert kinds(result) == []
    assert (o[:, :32] == x[:, :32]).all()
    assert (o[:, 32:] == -1).all()


def test_tensor_map_that_nobody_wrote() -> None:
    x = np.zeros((40, 36), np.float32)
    body = "".join([EXPECT, FETCH, WAIT, STORE, DONE]).replace("%c8", "%c0")
    result = run(MAP.replace("CREATE", "") + body + FOOT, (3,), {"x": x, "o": x.copy()})
    assert "uninitialized" in kinds(result)


def test_loads_that_round_to_tf32() -> None:
    a = np.linspace(1, 2, 40 * 36, dtype=np.float32).reshape(40, 36)
    a[0, 8:12] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, np.inf, np.float32(np.nan)]
    b = np.full_like(a, -1)
    source = dataclasses.replace(descriptor("a", a), round_f32_to_tf32=True)
    result = run(
        HEAD + "".join([EXPECT, FETCH, WAIT, STORE, DONE]) + FOOT,
        (3,),
        {"a": source, "b": descriptor("b", b)},
    )
    assert kinds(result) == []
    assert (b[:, 8:].view(np.int32)[1:] & 0x1FFF == 0).all()
    assert np.abs(b[1:, 8:] - a[1:, 8:]).max() <= 2.0**-11
    # Ties to even; what is not finite stays.
    assert b[0, 8:11].tolist() == [1, 1 + 2.0**-9, np.inf]
    assert np.isnan(b[0, 11])


def test_freed_twice_is_no_fault_and_used_after_that_is() -> None:
    """Triton's pipeliner leaves a dealloc for every store that uses one memory."""
    ty = "!ttg.memdesc<16x32xf32, #shared, #smem, mutable>"
    free = f"    ttg.local_dealloc %m : {ty}\n"
    use = f"    %v = ttg.local_load %m : {ty} -> tensor<16x32xf32, #blocked>\n"
    head = HEAD.split("    %f = ")[0]
    write = "    %z = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>\n"
    write += f"    ttg.local_store %z, %m : tensor<16x32xf32, #blocked> -> {ty}\n"
    a = np.zeros((40, 36), np.float32)
    arguments: dict[str, object] = {"a": descriptor("a", a), "b": descriptor("b", a)}
    for body, expected in ((use + free + free, []), (free + use, ["lifetime"])):
        assert kinds(run(head + write + body + FOOT, (1,), arguments)) == expected
