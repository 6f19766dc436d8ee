"""Events of single `ttng` ops: which threads, which bytes, which barriers."""

from __future__ import annotations

import numpy as np
import pytest

from xttir.analyses import events as ev
from xttir.analyses.modules import verify_module
from xttir.diagnostics import Unsupported, Verdict
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module

HEAD = """
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#bar2 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[1]]}>
#both = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[0]]}>
#nv = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#nv2 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16, CGALayout = [[0, 0]]}>
#nvt = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#mma8 = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [8, 1], instrShape = [16, 64, 16]}>
#parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [1, 0]}>
#rows = #ttg.slice<{dim = 0, parent = #parent}>
#nvr = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16, CGALayout = [[1, 0]]}>
#parent2 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [1, 0], CGALayout = [[0, 1]]}>
#rows2 = #ttg.slice<{dim = 0, parent = #parent2}>
#smem = #ttg.shared_memory
#scales = #ttng.tensor_memory_scales_encoding<>
#sreg = #ttg.linear<{register = [[0, 1], [0, 2], [32, 0], [64, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [0, 0]], block = []}>
!bar = !ttg.memdesc<1xi64, #bar, #smem, mutable>
"""  # noqa: E501


def traces(body: str, warps: int = 4, blocks: int = 1, cc: int = 90, programs: int = 1):
    text = f"""{HEAD}
module attributes {{"ttg.num-warps" = {warps} : i32, "ttg.num-ctas" = {blocks} : i32,
                   ttg.shared = 65536 : i32, ttg.target = "cuda:{cc}"}} {{
tt.func public @k(%x: !tt.tensordesc<1x128xf16, #nv>, %y: !tt.tensordesc<64x128xf16, #nv>,
                  %z: !tt.tensordesc<64x64xf16, #nv2>, %o: tensor<32xi32, #rows>) {{
  %true = arith.constant true
  %c0 = arith.constant 0 : i32
  {body}
  tt.return
}}
}}"""
    return trace_module(parse_module(text, "k.mlir", verify=False), Launch("k", (programs, 1, 1)))


def only(body: str, kind: type, **more) -> list:
    (found,) = traces(body, **more)
    return [e for e in found.events if isinstance(e, kind)]


def touched(f: ev.Footprint, row: int) -> set[int]:
    starts = f.starts[row if f.starts.shape[0] > 1 else 0]
    return set((starts[starts >= 0][:, None] + np.arange(f.size)).reshape(-1).tolist())


BARRIER = """
  %f = ttg.local_alloc {allocation.offset = 65000 : i32} : () -> !bar
  ttng.init_barrier %f, 1 : !bar
"""


def test_a_load_is_sent_in_boxes_by_the_warps_in_turn():
    body = f"""{BARRIER}
  %s = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> !ttg.memdesc<64x128xf16, #nv, #smem, mutable>
  ttng.async_tma_copy_global_to_local %y[%c0, %c0] %s, %f, %true : !tt.tensordesc<64x128xf16, #nv>, !bar -> !ttg.memdesc<64x128xf16, #nv, #smem, mutable>
"""  # noqa: E501
    (load,) = only(body, ev.AsyncOp)
    assert load.lanes.tolist() == [0, 32]
    (write,) = load.footprints
    assert [touched(write, r) for r in (0, 1)] == [set(range(8192)), set(range(8192, 16384))]
    assert load.completion.bytes.tolist() == [[8192]]
    assert load.completion.address.tolist() == [[65000], [65000]]


def test_rows_are_gathered_by_the_warps_that_hold_their_numbers():
    body = f"""{BARRIER}
  %s = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> !ttg.memdesc<32x128xf16, #nv, #smem, mutable>
  ttng.async_tma_gather %x[%o, %c0] %s, %f, %true : !tt.tensordesc<1x128xf16, #nv>, tensor<32xi32, #rows>, i32, !bar, !ttg.memdesc<32x128xf16, #nv, #smem, mutable>, i1
  ttng.async_tma_scatter %x[%o, %c0] %s : !tt.tensordesc<1x128xf16, #nv>, tensor<32xi32, #rows>, i32, !ttg.memdesc<32x128xf16, #nv, #smem, mutable>
"""  # noqa: E501
    found = only(body, ev.AsyncOp)
    loads = [e for e in found if isinstance(e.completion, ev.ByBytes)]
    # 32 rows: eight groups of four, two of them in each warp; two boxes of 64 columns.
    assert [e.lanes.tolist() for e in loads] == [[0, 32, 64, 96]] * 4
    assert all(e.completion.bytes.tolist() == [[4 * 128]] for e in loads)
    everything = [touched(e.footprints[0], r) for e in loads for r in range(4)]
    assert set().union(*everything) == set(range(8192))
    assert sum(map(len, everything)) == 8192
    stores = [e for e in found if isinstance(e.completion, ev.ByGroup)]
    assert [touched(e.footprints[0], r) for e in stores for r in range(4)] == everything
    (commit,) = only(body, ev.GroupCommit)
    assert commit.lanes.size == 128


def test_rows_are_gathered_into_the_block_that_holds_them():
    """The lower half of memory that is dealt to two blocks lies in the second one; each of them
    gathers half of it, at the numbers that it holds, and is told at its own barrier."""
    whole = "!ttg.memdesc<64x128xf16, #nvr, #smem, mutable>"
    half = "!ttg.memdesc<32x128xf16, #nvr, #smem, mutable, 64x128>"
    bar = "!ttg.memdesc<2xi64, #bar2, #smem, mutable>"
    body = f"""
  %f = ttg.local_alloc {{allocation.offset = 65000 : i32}} : () -> {bar}
  ttng.init_barrier %f, 1 : {bar}
  %n = arith.constant dense<0> : tensor<32xi32, #rows2>
  %s = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {whole}
  %t = ttg.memdesc_subslice %s[32, 0] : {whole} -> {half}
  ttng.async_tma_gather %x[%n, %c0] %t, %f, %true : !tt.tensordesc<1x128xf16, #nv>, tensor<32xi32, #rows2>, i32, {bar}, {half}, i1
"""  # noqa: E501
    loads = only(body, ev.AsyncOp, blocks=2)
    touching: dict[int, set[int]] = {0: set(), 1: set()}
    for load in loads:
        (write,) = load.footprints
        assert write.cta is not None
        assert set(np.unique(write.cta)) == {1}
        assert load.completion.cta.reshape(-1).tolist() == [r // 128 for r in load.lanes]
        for row, lane in enumerate(load.lanes.tolist()):
            touching[lane // 128] |= touched(write, row)
    assert touching[0] | touching[1] == set(range(8192))
    assert not touching[0] & touching[1]


def test_what_is_unsupported_has_a_place():
    whole = "!ttg.memdesc<64x64xf16, #nv, #smem, mutable>"
    half = "!ttg.memdesc<64x32xf16, #nv, #smem, mutable, 64x64>"
    flat = "!ttg.memdesc<2048xf16, #bar, #smem, mutable>"
    body = f"""
  %s = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {whole}
  %t = ttg.memdesc_subslice %s[0, 32] : {whole} -> {half}
  %u = ttg.memdesc_reinterpret %t : {half} -> {flat}
"""
    with pytest.raises(Unsupported, match="memdesc_reinterpret") as told:
        traces(body)
    assert told.value.location is not None
    assert told.value.location.line


def test_a_warpgroup_reads_its_rows():
    body = """
  %a = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<128x64xf16, #nv, #smem, mutable>
  %b = ttg.local_alloc {allocation.offset = 16384 : i32} : () -> !ttg.memdesc<64x64xf16, #nvt, #smem, mutable>
  %c = arith.constant dense<0.0> : tensor<128x64xf32, #mma8>
  %d = ttng.warp_group_dot %a, %b, %c {inputPrecision = 0 : i32} : !ttg.memdesc<128x64xf16, #nv, #smem, mutable> * !ttg.memdesc<64x64xf16, #nvt, #smem, mutable> -> tensor<128x64xf32, #mma8>
"""  # noqa: E501
    (dot,) = only(body, ev.AsyncOp, warps=8)
    a, b = dot.footprints
    assert [touched(a, r) for r in (0, 1)] == [set(range(8192)), set(range(8192, 16384))]
    assert [touched(b, r) for r in (0, 1)] == [set(range(16384, 24576))] * 2


def test_scale_factors_are_stored_in_every_quarter_of_the_rows():
    body = """
  %t = ttng.tmem_alloc {tensor_memory_col_offset = 8 : i32, tensor_memory_row_offset = 0 : i32} : () -> !ttg.memdesc<128x4xi8, #scales, #ttng.tensor_memory, mutable>
  %v = arith.constant dense<0> : tensor<128x4xi8, #sreg>
  ttng.tmem_store %v, %t, %true : tensor<128x4xi8, #sreg> -> !ttg.memdesc<128x4xi8, #scales, #ttng.tensor_memory, mutable>
"""  # noqa: E501
    (store,) = only(body, ev.AsyncOp, cc=100)
    rows = [sorted({c // 512 for c in touched(store.footprints[0], w)}) for w in range(4)]
    assert rows == [list(range(32 * w, 32 * w + 32)) for w in range(4)]


MULTICAST = """
  %f = ttg.local_alloc {allocation.offset = 65000 : i32} : () -> !ttg.memdesc<2xi64, #bar2, #smem, mutable>
  ttng.init_barrier %f, 1 : !ttg.memdesc<2xi64, #bar2, #smem, mutable>
  ttng.fence_mbarrier_init_release_cluster
  ttng.cluster_barrier {relaxed = true}
  %s = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<64x64xf16, #nv2, #smem, mutable>
  ttng.barrier_expect %f, 8192, %true : !ttg.memdesc<2xi64, #bar2, #smem, mutable>
  ttng.async_tma_copy_global_to_local %z[%c0, %c0] %s, %f, %true {multicast} : !tt.tensordesc<64x64xf16, #nv2>, !ttg.memdesc<2xi64, #bar2, #smem, mutable> -> !ttg.memdesc<64x64xf16, #nv2, #smem, mutable>
  ttng.wait_barrier %f, %c0 : !ttg.memdesc<2xi64, #bar2, #smem, mutable>
"""  # noqa: E501


def test_the_first_block_sends_to_all_that_hold_copies():
    (load,) = only(MULTICAST, ev.AsyncOp, blocks=2)
    assert load.lanes.tolist() == [0]
    assert load.completion.cta.tolist() == [[0, 1]]
    assert load.footprints[0].cta.tolist() == [[0, 1]]
    arrivals = only(MULTICAST, ev.Arrive, blocks=2)
    assert arrivals[0].lanes.tolist() == [0, 128]
    assert arrivals[0].cta.tolist() == [[0], [1]]


def test_a_barrier_of_two_blocks_is_held_by_the_first():
    kind = "!ttg.memdesc<1xi64, #both, #smem, mutable>"
    body = f"""
  %f = ttg.local_alloc {{allocation.offset = 64 : i32}} : () -> {kind}
  ttng.init_barrier %f, 1 : {kind}
  ttng.arrive_barrier %f, 1 : {kind}
  ttng.wait_barrier %f, %c0 : {kind}
"""
    (init,) = only(body, ev.BarrierInit, blocks=2)
    assert (init.lanes.tolist(), init.count.tolist()) == ([0], [2])
    (arrive,) = only(body, ev.Arrive, blocks=2)
    assert (arrive.lanes.tolist(), arrive.cta.tolist()) == ([0, 128], [[0], [0]])
    (wait,) = only(body, ev.Wait, blocks=2)
    assert wait.lanes.tolist() == list(range(128))


CANCEL = f"""{BARRIER}
  %r = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> !ttg.memdesc<2xi64, #bar, #smem, mutable>
  %last = scf.while (%phase = %c0) : (i32) -> i32 {{
    ttg.barrier local
    ttng.barrier_expect %f, 16, %true : !bar
    ttng.clc_try_cancel %r, %f : !ttg.memdesc<2xi64, #bar, #smem, mutable>, !bar
    ttng.wait_barrier %f, %phase : !bar
    %answer = ttng.clc_load_result %r : !ttg.memdesc<2xi64, #bar, #smem, mutable> -> i128
    %got = ttng.clc_is_canceled %answer : i128 -> i1
    scf.condition(%got) %phase : i32
  }} do {{
  ^bb0(%phase: i32):
    %one = arith.constant 1 : i32
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }}
"""  # noqa: E501


@pytest.mark.parametrize(("programs", "ways"), [(1, 1), (2, 2), (100, 4)])
def test_other_work_is_obtained_so_many_times(programs: int, ways: int):
    found = traces(CANCEL, cc=100, programs=programs)
    asked = sorted(sum(isinstance(e, ev.AsyncOp) for e in t.events) for t in found)
    assert asked == list(range(1, ways + 1))
    assert any(t.assumptions for t in found) is (programs == 100)


def test_a_parity_that_is_widened_with_its_sign():
    body = f"""{BARRIER}
  %odd = arith.constant -1 : i32
  ttng.wait_barrier %f, %odd : !bar
"""
    (wait,) = only(body, ev.Wait)
    assert set(wait.parity.tolist()) == {1}


def test_a_product_that_nobody_can_wait_for_is_not_supported():
    body = """
  %a = ttg.local_alloc : () -> !ttg.memdesc<128x64xf16, #nv, #smem, mutable>
  %b = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #nvt, #smem, mutable>
  %t = ttng.tmem_alloc : () -> !ttg.memdesc<128x64xf32, #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>, #ttng.tensor_memory, mutable>
  ttng.tc_gen5_mma %a, %b, %t, %true, %true : !ttg.memdesc<128x64xf16, #nv, #smem, mutable>, !ttg.memdesc<64x64xf16, #nvt, #smem, mutable>, !ttg.memdesc<128x64xf32, #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>, #ttng.tensor_memory, mutable>
"""  # noqa: E501
    text = f"""{HEAD}
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"}} {{
tt.func public @k() {{
  %true = arith.constant true
  {body}
  tt.return
}}
}}"""
    with pytest.raises(Unsupported, match="nobody can wait for"):
        verify_module(parse_module(text, "k.mlir", verify=False), Launch("k"))


def test_blocks_of_a_cluster_meet_before_a_barrier_is_used():
    text = MULTICAST.replace("ttng.cluster_barrier {relaxed = true}", "")
    right, wrong = (
        verify_module(parse_module(module(body), "k.mlir", verify=False), Launch("k"))
        for body in (MULTICAST, text)
    )
    assert right.verdict is Verdict.VERIFIED
    assert wrong.verdict is Verdict.FAULT


def module(body: str) -> str:
    return f"""{HEAD}
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 2 : i32, ttg.shared = 65536 : i32,
                   ttg.target = "cuda:90"}} {{
tt.func public @k(%z: !tt.tensordesc<64x64xf16, #nv2>) {{
  %true = arith.constant true
  %c0 = arith.constant 0 : i32
  {body}
  ttng.cluster_barrier
  tt.return
}}
}}"""
