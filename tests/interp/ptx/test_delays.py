"""Runs show what a missing fence, release or wait lets happen, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, kinds
from xttir.analyses.events import Proxy
from xttir.interp.ptx.delays import Delays
from xttir.interp.ptx.regions import Region

LATE = ["adversarial", {"steps": [], "stale": True}]
"""Schedules in which stores are seen late."""
IN_ORDER = ["first", "random:0", {"steps": []}]

COPY_OUT = """
    mov.u32 %r31, tile; mad.lo.u32 %r32, %r0, 4, %r31; add.u32 %r33, %r0, 7;
    st.shared.u32 [%r32], %r33;
    {own}
    bar.sync 0;
    {mine}
    setp.ne.u32 %p1, %r0, 0; @%p1 bra out;
    {one}
    cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r31], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    out: ret;
"""
FENCE = "fence.proxy.async;"


def copy_out(own: str = "", mine: str = "", one: str = "") -> Kernel:
    body = ".shared .align 128 .b8 tile[256];" + COPY_OUT.format(own=own, mine=mine, one=one)
    return Kernel(body, {"out": ("u32", 64)}, threads=64)


@pytest.mark.parametrize("schedule", LATE)
def test_the_async_proxy_reads_old_bytes_without_a_fence(schedule: Any) -> None:
    assert copy_out().values(schedule=schedule).tolist() == [0] * 64


@pytest.mark.parametrize("schedule", IN_ORDER)
def test_other_schedules_have_no_late_stores(schedule: Any) -> None:
    assert copy_out().values(schedule=schedule).tolist() == list(range(7, 71))


@pytest.mark.parametrize("where", ["own", "mine", "one"])
def test_a_proxy_fence_on_either_side_of_the_barrier(where: str) -> None:
    kernel = copy_out(**{where: FENCE})
    for schedule in [*LATE, *IN_ORDER, "random:1", "random:3"]:
        assert kernel.values(schedule=schedule).tolist() == list(range(7, 71))


def test_a_fence_covers_what_its_thread_has_stored_or_waited_for() -> None:
    """Thread 0 fences before the barrier: that is good for its own store alone."""
    one = "setp.ne.u32 %p2, %r0, 0; @%p2 bra fenced; fence.proxy.async; fenced:"
    for schedule in LATE:
        out = copy_out(own=one).values(schedule=schedule)
        assert out[0] == 7
        assert not out[1:].any()


def test_a_generic_read_brings_stores_to_the_async_proxy() -> None:
    kernel = copy_out(mine="ld.shared.u32 %r5, [%r32]; bar.sync 0;")
    assert kernel.values(schedule="adversarial").tolist() == list(range(7, 71))


NARROW = """
    .shared .align 128 .b8 tile[64];
    mov.u32 %r31, tile; mad.lo.u32 %r32, %r0, 2, %r31; cvt.u16.u32 %h1, %r0;
    st.shared.u16 [%r32], %h1; fence.proxy.async; bar.sync 0;
    st.shared.u16 [%r32], 9;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra out;
    cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r31], 64;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    out: ret;
"""


def test_old_bytes_are_those_of_the_last_fence() -> None:
    kernel = Kernel(NARROW, {"out": ("u16", 32)}, threads=32)
    assert kernel.values(schedule="adversarial").tolist() == list(range(32))
    assert kernel.values(schedule="first").tolist() == [9] * 32


REMOTE = """
    .shared .align 128 .b8 tile[256];
    mov.u32 %r31, tile; mad.lo.u32 %r32, %r0, 4, %r31; st.shared.u32 [%r32], 0;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
    mapa.shared::cluster.u32 %r3, %r32, %r2;
    st.shared::cluster.u32 [%r3], 5;
    barrier.cluster.arrive{sem}; barrier.cluster.wait;
    ld.shared.u32 %r4, [%r32];
    mad.lo.u32 %r5, %r1, 64, %r0; mul.wide.u32 %rd1, %r5, 4; add.s64 %rd1, %rd1, %a0;
    st.global.u32 [%rd1], %r4;
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
"""


@pytest.mark.parametrize(("sem", "value"), [("", 5), (".release", 5), (".relaxed", 0)])
def test_another_block_sees_a_weak_store_after_a_release(sem: str, value: int) -> None:
    body = REMOTE.format(sem=sem)
    kernel = Kernel(body, {"out": ("u32", 128)}, threads=64, blocks=2, cluster=2)
    for schedule in LATE:
        # Who reads last may come after the other block's release at the end.
        assert (kernel.values(schedule=schedule) == value).sum() >= (128 if value else 32)
    assert kernel.values(schedule="first").tolist() == [5] * 128


FLAG = """
    mov.u32 %r9, %ctaid.x; setp.eq.u32 %p9, %r9, 1; @%p9 bra writer;
    again: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;
    ld.global.u32 %r2, [%a1+4]; st.global.u32 [%a1], %r2; ret;
    writer: st.global.u32 [%a1+4], 3; {fence} st.{sem}.gpu.global.u32 [%a0], 1;
    bar.sync 0; bar.sync 1; ret;
"""


@pytest.mark.parametrize(
    ("fence", "sem", "value"),
    [
        ("", "release", 3),
        ("membar.gl;", "relaxed", 3),
        ("fence.acq_rel.gpu;", "relaxed", 3),
        ("fence.acq_rel.cta;", "relaxed", 0),
        ("", "relaxed", 0),
    ],
)
def test_messages_through_global_memory(fence: str, sem: str, value: int) -> None:
    tensors = {"flag": np.zeros(1, np.uint32), "out": ("u32", 2)}
    kernel = Kernel(FLAG.format(fence=fence, sem=sem), tensors, threads=1, blocks=2)
    # The writer stops after the flag, so that its end does not release the value.
    schedule = {"steps": [{"lanes": [1, 1], "events": 2 + bool(fence)}], "stale": True}
    steps = [*schedule["steps"], {"lanes": [0, 0], "events": 3}]
    assert kernel.values(schedule={"steps": steps, "stale": True})[0] == value
    assert kernel.values(schedule={"steps": steps})[0] == 3


def test_late_stores_are_seen_before_threads_are_stuck() -> None:
    """A weak store without a release is seen some time."""
    body = (
        "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p9, %r9, 1; @%p9 bra writer;"
        "again: ld.relaxed.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"
        "st.relaxed.gpu.global.u32 [%a1], 1; ret;"
        "writer: st.global.u32 [%a0], 1;"
        "more: ld.relaxed.gpu.global.u32 %r1, [%a1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra more; ret;"
    )
    tensors = {"flag": np.zeros(1, np.uint32), "out": np.zeros(1, np.uint32)}
    kernel = Kernel(body, tensors, threads=1, blocks=2)
    assert kernel.values(schedule="adversarial").tolist() == [1]


EARLY = """
    .shared .align 16 .b8 box[16];
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 1; @%p1 bra out;
    mov.u32 %r31, box; mapa.shared::cluster.u32 %r3, %r31, 1;
    st.shared::cluster.u32 [%r3], 5;
    out: {end} ret;
"""


def test_memory_of_a_block_ends_with_it() -> None:
    end = "barrier.cluster.arrive; barrier.cluster.wait;"
    for text, found in (("", ["lifetime"]), (end, [])):
        kernel = Kernel(EARLY.format(end=text), {"out": ("u32", 1)}, 32, blocks=2, cluster=2)
        assert kinds(kernel.run("adversarial")) == found
        assert kinds(kernel.run("first")) == []


@pytest.mark.parametrize("writer", ["", "cp.async"])
@pytest.mark.parametrize("reader", ["wgmma", "tcgen05.mma", "bulk"])
@pytest.mark.parametrize("letter", [False, True])
def test_tensor_cores_see_what_cp_async_has_copied(writer: str, reader: str, letter: bool) -> None:
    region = Region("shared memory", 0, 64, 0, row=64)
    delays = Delays(32, 32, 1, region, letter)
    lanes, offset = np.arange(4), 4 * np.arange(4)
    delays.engine = writer
    delays.storing(region, offset, 4, Proxy.GENERIC, True, lanes)
    region.view(4, 1)[:4] = 7
    delays.engine, delays.until = reader, delays.clock
    seen = delays.loaded(region, offset, 4, region.view(4, 1)[:4].copy(), Proxy.ASYNC, lanes)
    fed = writer == "cp.async" and reader != "bulk" and not letter
    assert seen.tolist() == [7 * fed] * 4
