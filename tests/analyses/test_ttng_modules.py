"""Whole programs of `ttng` ops through the verifier: each right, and with one thing wrong."""

from __future__ import annotations

import pytest

from xttir.analyses.modules import verify_module
from xttir.analyses.verify import Report
from xttir.diagnostics import Kind, Policy, Verdict
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch

TYPES = """
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#nv = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#nvt = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#lin = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!bar = !ttg.memdesc<1xi64, #bar, #smem, mutable>
!bars = !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
!buf = !ttg.memdesc<64x64xf16, #nv, #smem, mutable>
!bufs = !ttg.memdesc<2x64x64xf16, #nv, #smem, mutable>
!buft = !ttg.memdesc<64x64xf16, #nvt, #smem, mutable>
!tall = !ttg.memdesc<128x64xf16, #nv, #smem, mutable>
!acc = !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
!d = !tt.tensordesc<64x64xf16, #nv>
!dt = !tt.tensordesc<128x64xf16, #nv>
"""  # noqa: E501


def module_of(body: str, cc: int = 90, total: int = 4, extra: str = "") -> str:
    """A module of the kernel @k, after allocation and barrier insertion. `total`: warps."""
    return f"""{TYPES}
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, ttg.shared = 65536 : i32,
    ttg.target = "cuda:{cc}", "ttg.total-num-warps" = {total} : i32{extra}}} {{
tt.func public @k(%x: !d, %y: !dt, %n: i32) {{
  %true = arith.constant true
  %false = arith.constant false
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  {body}
  tt.return
}}
}}"""


def verify(body: str, cc: int = 90, total: int = 4, extra: str = "") -> Report:
    text = module_of(body, cc, total, extra)
    return verify_module(parse_module(text, "k.mlir"), Launch("k", (1, 1, 1), {2: 6}))


def kinds(report) -> set[Kind]:
    return {f.kind for f in report.faults if f.policy is not Policy.STRICT}


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


# A ring between a producer that loads and a consumer that multiplies ------------------------------

RING = """
  %a = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !bufs
  %b = ttg.local_alloc {allocation.offset = 16384 : i32} : () -> !bufs
  %full = ttg.local_alloc {allocation.offset = 32768 : i32} : () -> !bars
  %empty = ttg.local_alloc {allocation.offset = 32784 : i32} : () -> !bars
  %full0 = ttg.memdesc_index %full[%c0] : !bars -> !bar
  %full1 = ttg.memdesc_index %full[%c1] : !bars -> !bar
  %empty0 = ttg.memdesc_index %empty[%c0] : !bars -> !bar
  %empty1 = ttg.memdesc_index %empty[%c1] : !bars -> !bar
  ttng.init_barrier %full0, 1 : !bar
  ttng.init_barrier %full1, 1 : !bar
  ttng.init_barrier %empty0, 1 : !bar
  ttng.init_barrier %empty1, 1 : !bar
  ttg.warp_specialize(%a, %b, %full, %empty, %x, %n) attributes {allocation.offset = 40960 : i32, allocation.size = 64 : i32, warpGroupStartIds = array<i32: 4>}
  default {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #mma>
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32, #mma>) : i32 {
      %slot = arith.remsi %i, %c2 : i32
      %turn = arith.divsi %i, %c2 : i32
      %phase = arith.andi %turn, %c1 : i32
      %f = ttg.memdesc_index %full[%slot] : !bars -> !bar
      %e = ttg.memdesc_index %empty[%slot] : !bars -> !bar
      %u = ttg.memdesc_index %a[%slot] : !bufs -> !buf
      %v = ttg.memdesc_index %b[%slot] : !bufs -> !buf
      %w = ttg.memdesc_trans %v {order = array<i32: 1, 0>} : !buf -> !buft
      ttng.wait_barrier %f, %phase : !bar
      %p = ttng.warp_group_dot %u, %w, %acc {inputPrecision = 0 : i32, isAsync = true} : !buf * !buft -> tensor<64x64xf32, #mma>
      %q = ttng.warp_group_dot_wait %p {pendings = 0 : i32} : tensor<64x64xf32, #mma>
      ttng.arrive_barrier %e, 1 : !bar
      scf.yield %q : tensor<64x64xf32, #mma>
    }
    ttg.warp_yield
  }
  partition0(%pa: !bufs, %pb: !bufs, %pf: !bars, %pe: !bars, %px: !d, %pn: i32) num_warps(4) {
    %d0 = arith.constant 0 : i32
    %d1 = arith.constant 1 : i32
    %d2 = arith.constant 2 : i32
    %yes = arith.constant true
    scf.for %i = %d0 to %pn step %d1 : i32 {
      %slot = arith.remsi %i, %d2 : i32
      %turn = arith.divsi %i, %d2 : i32
      %bit = arith.andi %turn, %d1 : i32
      %phase = arith.xori %bit, %d1 : i32
      %f = ttg.memdesc_index %pf[%slot] : !bars -> !bar
      %e = ttg.memdesc_index %pe[%slot] : !bars -> !bar
      %u = ttg.memdesc_index %pa[%slot] : !bufs -> !buf
      %v = ttg.memdesc_index %pb[%slot] : !bufs -> !buf
      ttng.wait_barrier %e, %phase : !bar
      ttng.barrier_expect %f, 16384, %yes : !bar
      ttg.barrier local
      ttng.async_tma_copy_global_to_local %px[%i, %d0] %u, %f, %yes : !d, !bar -> !buf
      ttng.async_tma_copy_global_to_local %px[%i, %d0] %v, %f, %yes : !d, !bar -> !buf
    }
    ttg.warp_return
  } : (!bufs, !bufs, !bars, !bars, !d, i32) -> ()
"""  # noqa: E501


def test_ring():
    assert verify(RING, total=8).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ttng.barrier_expect %f, 16384", "ttng.barrier_expect %f, 8192", Kind.PHASE),
        ("ttng.barrier_expect %f, 16384", "ttng.barrier_expect %f, 24576", Kind.DEADLOCK),
        ("ttng.arrive_barrier %e, 1 : !bar", "", Kind.DEADLOCK),
        ("ttng.wait_barrier %f, %phase", "ttng.wait_barrier %f, %c0", Kind.PHASE),
        ("ttng.wait_barrier %f, %phase : !bar", "", Kind.DEADLOCK),
        ("ttng.wait_barrier %e, %phase : !bar", "", Kind.RACE),
        ("ttng.init_barrier %full1, 1", "ttng.init_barrier %full1, 2", Kind.DEADLOCK),
        ("%pf[%slot] : !bars", "%pf[%d0] : !bars", Kind.DEADLOCK),
        ("pendings = 0", "pendings = 1", Kind.RACE),
    ],
)
def test_ring_with_something_wrong(old, new, expected):
    report = verify(changed(RING, old, new), total=8)
    assert report.verdict is Verdict.FAULT
    assert expected in kinds(report)


def test_the_consumer_waits_behind_its_product():
    wait = "      ttng.wait_barrier %f, %phase : !bar\n"
    before = "      ttng.arrive_barrier %e"
    body = changed(changed(RING, wait, ""), before, wait + before)
    assert Kind.RACE in kinds(verify(body, total=8))


def test_a_product_is_used_before_its_wait():
    body = changed(RING, "scf.yield %q", "scf.yield %p")
    # The next product accumulates into the registers that the wait has passed on.
    assert Kind.RACE in kinds(verify(body, total=8))


# Stores -------------------------------------------------------------------------------------------

STORES = """
  %v = arith.constant dense<0.0> : tensor<64x64xf16, #blocked>
  %s = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !buf
  scf.for %i = %c0 to %n step %c1 : i32 {
    ttg.local_store %v, %s : tensor<64x64xf16, #blocked> -> !buf
    ttng.fence_async_shared {bCluster = false}
    ttg.barrier local
    ttng.async_tma_copy_local_to_global %x[%i, %c0] %s : !d, !buf
    ttng.async_tma_store_wait {pendings = 0 : i32, read_only}
    ttg.barrier local // after
  }
  ttng.async_tma_store_wait {pendings = 0 : i32}
"""


def test_stores():
    assert verify(STORES).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ttng.fence_async_shared {bCluster = false}\n", "\n", Kind.PROXY),
        ("ttng.async_tma_store_wait {pendings = 0 : i32, read_only}", "", Kind.RACE),
        ("pendings = 0 : i32, read_only", "pendings = 1 : i32, read_only", Kind.RACE),
        ("ttg.barrier local // after", "", Kind.RACE),
        ("ttg.barrier local\n", "\n", Kind.RACE),
    ],
)
def test_stores_with_something_wrong(old, new, expected):
    report = verify(changed(STORES, old, new))
    assert expected in kinds(report)


def test_the_kernel_ends_before_its_stores():
    waits = changed(STORES, "ttng.async_tma_store_wait {pendings = 0 : i32}\n", "")
    waits = changed(waits, "pendings = 0 : i32, read_only", "pendings = 0 : i32")
    assert verify(waits).verdict is Verdict.VERIFIED
    last = waits + "ttng.async_tma_copy_local_to_global %x[%n, %c0] %s : !d, !buf\n"
    assert kinds(verify(last)) == {Kind.LIFETIME}


# Tensor memory ------------------------------------------------------------------------------------

TENSOR = """
  %a = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !tall
  %b = ttg.local_alloc {allocation.offset = 16384 : i32} : () -> !buf
  %w = ttg.memdesc_trans %b {order = array<i32: 1, 0>} : !buf -> !buft
  %f = ttg.local_alloc {allocation.offset = 32768 : i32} : () -> !bar
  %m = ttg.local_alloc {allocation.offset = 32776 : i32} : () -> !bar
  ttng.init_barrier %f, 1 : !bar
  ttng.init_barrier %m, 1 : !bar
  %t = ttng.tmem_alloc {tensor_memory_col_offset = 64 : i32, tensor_memory_row_offset = 0 : i32} : () -> !acc
  %zero = arith.constant dense<0.0> : tensor<128x64xf32, #lin>
  ttng.tmem_store %zero, %t, %true : tensor<128x64xf32, #lin> -> !acc
  ttng.tmem_wait store
  ttg.barrier local
  scf.for %i = %c0 to %n step %c1 : i32 {
    %phase = arith.andi %i, %c1 : i32
    ttng.barrier_expect %f, 24576, %true : !bar
    ttg.barrier local
    ttng.async_tma_copy_global_to_local %y[%i, %c0] %a, %f, %true : !dt, !bar -> !tall
    ttng.async_tma_copy_global_to_local %x[%i, %c0] %b, %f, %true : !d, !bar -> !buf
    ttng.wait_barrier %f, %phase : !bar
    ttng.tc_gen5_mma %a, %w, %t, %true, %true, %m[%true] {is_async} : !tall, !buft, !acc, !bar
    ttng.wait_barrier %m, %phase : !bar
    %r = ttng.tmem_load %t : !acc -> tensor<128x64xf32, #lin>
    ttng.tmem_wait load
    ttg.barrier local // loaded
  }
"""  # noqa: E501

TENSOR_SIZE = ", ttg.tensor_memory_size = 128 : i32"


def tensor(body: str):
    return verify(body, cc=100, extra=TENSOR_SIZE)


def test_tensor_memory():
    assert tensor(TENSOR).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ttng.wait_barrier %m, %phase : !bar", "", Kind.RACE),
        ("ttng.wait_barrier %m, %phase", "ttng.wait_barrier %m, %c0", Kind.DEADLOCK),
        (", %m[%true] {is_async} : !tall, !buft, !acc, !bar", " {is_async} : !tall, !buft, !acc",
         Kind.DEADLOCK),
        ("ttng.wait_barrier %f, %phase : !bar", "", Kind.RACE),
        ("ttng.tmem_wait store", "", Kind.RACE),
        ("ttng.tmem_wait load\n", "\n", Kind.RACE),
        ("ttng.tmem_load %t", "ttng.tmem_load %late", Kind.RACE),
    ],
)  # fmt: skip
def test_tensor_memory_with_something_wrong(old, new, expected):
    body = changed(TENSOR, old, new)
    if "%late" in body:  # another accumulator that begins in the middle of the first
        place = "tensor_memory_col_offset = 96 : i32, tensor_memory_row_offset = 0 : i32"
        late = f"  %late = ttng.tmem_alloc {{{place}}} : () -> !acc\n"
        body = late + changed(body, "ttng.wait_barrier %m, %phase : !bar", "")
    assert expected in kinds(tensor(body))


def test_a_commit_in_place_of_a_products_barrier():
    body = changed(
        TENSOR,
        ", %m[%true] {is_async} : !tall, !buft, !acc, !bar",
        " {is_async} : !tall, !buft, !acc\n    ttng.tc_gen5_commit %m : !bar",
    )
    assert tensor(body).verdict is Verdict.VERIFIED
