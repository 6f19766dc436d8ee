"""Named barriers, cluster barriers, warp barriers: who is let go, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address, events, kinds
from xttir.analyses.events import NamedBarrier, WarpSync
from xttir.diagnostics import Unsupported


def test_threads_pass_when_all_have_come() -> None:
    body = (
        ".shared .align 4 .b8 tile[512]; shl.b32 %r1, %r0, 2; mov.u32 %r2, tile;"
        "add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0; bar.sync 0; xor.b32 %r4, %r1, 508;"
        f"add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4]; {address('%rd1')}"
        "st.global.u32 [%rd1], %r5; ret;"
    )
    for out in Kernel(body, {"out": ("u32", 128)}, threads=128).everywhere():
        assert out.tolist() == list(range(127, -1, -1))


def test_arrive_lets_the_producer_go_on() -> None:
    """Two warps hand a value over, through barriers 1 (full) and 2 (empty)."""
    body = (
        ".shared .align 4 .b8 box[128]; and.b32 %r1, %r0, 31; shl.b32 %r2, %r1, 2;"
        "mov.u32 %r3, box; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0; mov.u32 %r5, 0;"
        "setp.lt.u32 %p1, %r0, 32; @%p1 bra produce;"
        "consume: bar.sync 1, 64; ld.shared.u32 %r6, [%r2]; add.u32 %r5, %r5, %r6;"
        "bar.arrive 2, 64; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra consume;"
        f"bra end; end: {address('%rd1', '%r1')} st.global.u32 [%rd1], %r5; ret;"
        "produce: add.u32 %r7, %r1, %r4; st.shared.u32 [%r2], %r7; bar.arrive 1, 64;"
        "bar.sync 2, 64; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra produce; ret;"
    )
    kernel = Kernel(body, {"out": ("u32", 32)}, threads=64)
    for out in kernel.everywhere():
        assert out.tolist() == [3 * lane + 3 for lane in range(32)]
    found = events(kernel.trace(), NamedBarrier)
    assert {(e.kind, int(e.id[0]), int(e.count[0])) for e in found} == {
        ("sync", 1, 64), ("arrive", 1, 64), ("sync", 2, 64), ("arrive", 2, 64)
    }  # fmt: skip


def test_reductions() -> None:
    body = (
        "and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r2, 0, %p1;"
        "setp.lt.u32 %p2, %r0, 100; bar.red.and.pred %p3, 0, %p2; bar.red.or.pred %p4, 0, %p1;"
        "selp.u32 %r3, 100, 0, %p3; selp.u32 %r4, 1000, 0, %p4; add.u32 %r2, %r2, %r3;"
        f"add.u32 %r2, %r2, %r4; {address('%rd1')} st.global.u32 [%rd1], %r2; ret;"
    )
    for out in Kernel(body, {"out": ("u32", 64)}, threads=64).everywhere():
        assert set(out) == {16 + 100 + 1000}


def test_reductions_of_what_is_not_known_are_known_where_they_can_be() -> None:
    """One lane knows its predicate, the others got theirs from data."""
    for op, known, decides in (("and", 0, True), ("and", 1, False), ("or", 1, True)):
        body = (
            f"add.u64 %rd1, %a0, 0; ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p2, %r0, 3;"
            f"@%p2 mov.u32 %r1, {known}; setp.ne.u32 %p1, %r1, 0; bar.red.{op}.pred %p3, 0, %p1;"
            "@%p3 bra more; bar.sync 0; more: ret;"
        )
        kernel = Kernel(body, {"x": ("u32", 1)}, threads=64)
        if decides:
            assert len(events(kernel.trace(), NamedBarrier)) == (2 if known == 0 else 1)
        else:
            with pytest.raises(Unsupported, match="depends on data"):
                kernel.trace()
    body = (
        "add.u64 %rd1, %a0, 0; ld.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0;"
        "bar.red.popc.u32 %r2, 0, %p1; ret;"
    )
    assert len(events(Kernel(body, {"x": ("u32", 1)}, threads=64).trace(), NamedBarrier)) == 1


def test_threads_that_have_ended_count_where_no_count_is_given() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 40; @%p1 bra go; exit; go: bar.sync 0; st.global.u32 [%a0], 1;ret;"
    )
    assert Kernel(body, {"out": ("u32", 1)}, threads=96).values().tolist() == [1]


def test_an_incomplete_last_warp_counts_as_a_whole_one() -> None:
    body = "bar.sync 3, 64; st.global.u32 [%a0], 1; ret;"
    assert Kernel(body, {"out": ("u32", 1)}, threads=48).values().tolist() == [1]


def test_different_counts_and_a_barrier_that_lacks_threads() -> None:
    body = "setp.lt.u32 %p1, %r0, 32; @%p1 bra low; bar.sync 1, 96; ret; low: bar.sync 1, 64; ret;"
    assert "undefined" in kinds(Kernel(body, {}, threads=64).run())
    body = "setp.lt.u32 %p1, %r0, 32; @%p1 bra low; bar.sync 1, 64; low: ret;"
    found = Kernel(body, {}, threads=64).trace()
    assert found.blocked[0].what == "barrier 1: 32 of 64 threads have arrived"


def test_the_halves_of_a_warp_at_different_barriers_do_not_deadlock_unaligned() -> None:
    """barrier.sync without .aligned may be reached by two ways."""
    body = (
        "setp.lt.u32 %p1, %r0, 16; @%p1 bra low; barrier.sync 0; bra on; low: barrier.sync 0; on:"
        "st.global.u32 [%a0], 1; ret;"
    )
    assert Kernel(body, {"out": ("u32", 1)}, threads=64).values().tolist() == [1]
    aligned = body.replace("barrier.sync", "bar.sync")
    assert "divergence" in kinds(Kernel(aligned, {"out": ("u32", 1)}, threads=64).run())


def test_warps_sync_by_mask() -> None:
    body = "setp.lt.u32 %p1, %r0, 8; @!%p1 bra out; bar.warp.sync 0xff; out: ret;"
    (event,) = events(Kernel(body, {}).trace(), WarpSync)
    assert event.lanes.tolist() == list(range(8))
    assert set(event.mask) == {0xFF}
    body = "setp.lt.u32 %p1, %r0, 8; @!%p1 bra out; bar.warp.sync 0x0f; out: ret;"
    assert "undefined" in kinds(Kernel(body, {}).run())


def test_cluster_barriers_wait_for_all_blocks() -> None:
    body = (
        "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 1; @%p1 bra on; atom.global.add.u32 %r2,"
        "[%a0], 1; on: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        "ld.global.u32 %r3, [%a0]; mad.lo.u32 %r4, %r1, 32, %r0;"
        f"{address('%rd1', '%r4', base='%a1')} st.global.u32 [%rd1], %r3; ret;"
    )
    tensors = {"count": np.zeros(1, np.uint32), "out": ("u32", 64)}
    for out in Kernel(body, tensors, blocks=2, cluster=2).everywhere():
        assert set(out) == {32}
    body = "barrier.cluster.wait.aligned; ret;"
    assert "undefined" in kinds(Kernel(body, {}, blocks=2, cluster=2).run())
