"""Lanes that write one place by one instruction: no fault where they are sure to write one value, a
warning where warps are copies of each other and only the lane of a warp that stays is open.

`winning_lanes.json` is what an H200 did: which lane stays depends on the pattern of places alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel
from xttir.analyses.launches import verify_launch
from xttir.analyses.verify import Report
from xttir.diagnostics import Policy, Verdict

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data/ptx_measured/winning_lanes.json").read_text()
)["configurations"]

BEFORE = """
    .shared .align 16 .b8 tile[2048];
    and.b32 %r1, %r0, 31;
    mad.wide.u32 %rd1, %r1, 4, %a0;
    mad.wide.u32 %rd2, %r0, 4, %a0;
    mad.wide.u32 %rd3, %r0, 4, %a1;
    mov.u32 %r9, tile;
    mad.lo.u32 %r10, %r1, 4, %r9;
    mad.lo.u32 %r11, %r0, 4, %r9;
    ld.global.b32 %r2, [%rd1];
    ld.global.b32 %r3, [%rd2];
"""
"""%r1: the lane; %rd1: its word of the input, the same in all warps; %rd2: the thread's word;
%rd3: its word of the output; %r10, %r11: the same two in shared memory; %r2 is a replica, %r3 not.
"""
BUTTERFLY = "".join(
    f"shfl.sync.bfly.b32 %r5, {{0}}, {d}, 31, -1; add.f32 {{0}}, {{0}}, %r5;"
    for d in (16, 8, 4, 2, 1)
)


def verdict(body: str, **more: object) -> Report:
    tensors = {"a": np.zeros(512, np.uint32), "out": ("u32", 512)}
    kernel = Kernel(f"{BEFORE}{body} ret;", tensors, threads=128, unknown=("a",), **more)
    return verify_launch(kernel.module, kernel.launch)[1]


REPLICAS = {
    "loaded": "st.shared.b32 [%r10], %r2;",
    "computed": "mul.f32 %r4, %r2, %r2; ex2.approx.f32 %r4, %r4; st.shared.b32 [%r10], %r4;",
    "butterfly": BUTTERFLY.format("%r2") + "st.shared.b32 [tile], %r2;",
    "reduced": "redux.sync.max.s32 %r4, %r2, -1; st.shared.b32 [tile], %r4;",
    "voted": "setp.lt.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r4, %p1, -1;"
    "st.shared.b32 [tile], %r4;",
    "selected": "setp.lt.s32 %p1, %r2, 0; selp.b32 %r4, %r2, 7, %p1; st.shared.b32 [%r10], %r4;",
    "guarded": "setp.lt.s32 %p1, %r2, 0; mov.u32 %r4, 3; @%p1 mov.u32 %r4, %r2;"
    "st.shared.b32 [%r10], %r4;",
    "packed": "mov.b64 %rd4, {%r2, %r1}; mov.b64 {%r4, %r5}, %rd4; st.shared.b32 [%r10], %r4;",
    "through shared memory": "st.shared.b32 [%r11], %r2; bar.sync 0; ld.shared.b32 %r4, [%r10];"
    "bar.sync 0; st.shared.b32 [%r10+1024], %r4;",
    "one word of shared memory": "st.shared.b32 [%r11], %r3; bar.sync 0; ld.shared.b32 %r4, [tile];"
    "st.shared.b32 [%r10+1024], %r4;",
    "round a loop": "mov.u32 %r6, 0; L: add.f32 %r2, %r2, %r2; add.u32 %r6, %r6, 1;"
    "setp.lt.u32 %p1, %r6, 3; @%p1 bra L; st.shared.b32 [%r10], %r2;",
    "by ldmatrix": "st.shared.b32 [%r11], %r3; bar.sync 0; mad.lo.u32 %r6, %r1, 16, %r9;"
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r7, %r8}, [%r6];"
    "st.shared.b32 [%r10+1024], %r7;",
    "of mma": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7},"
    "{%r2, %r2, %r2, %r2}, {%r2, %r2}, {%r2, %r2, %r2, %r2}; st.shared.b32 [%r10], %r6;",
    "by stmatrix": "mad.lo.u32 %r6, %r1, 16, %r9;"
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {%r2, %r2, %r2, %r2};",
    "to global memory": "mad.wide.u32 %rd4, %r1, 4, %a1; st.global.b32 [%rd4], %r2;",
}


@pytest.mark.parametrize("body", REPLICAS.values(), ids=REPLICAS)
def test_one_value(body: str) -> None:
    report = verdict(body)
    assert report.verdict is Verdict.VERIFIED, report.faults
    assert not report.faults


OTHERS = {
    "loaded": "st.shared.b32 [%r10], %r3;",
    "of the thread": "add.u32 %r4, %r2, %r0; st.shared.b32 [%r10], %r4;",
    "butterfly": BUTTERFLY.format("%r3") + "st.shared.b32 [tile], %r3;",
    "not commutative": "shfl.sync.bfly.b32 %r5, %r3, 16, 31, -1; sub.f32 %r4, %r3, %r5;"
    "st.shared.b32 [tile], %r4;",
    "voted": "setp.lt.s32 %p1, %r3, 0; vote.sync.ballot.b32 %r4, %p1, -1;"
    "st.shared.b32 [tile], %r4;",
    "guarded": "setp.lt.s32 %p1, %r3, 0; mov.u32 %r4, 3; @%p1 mov.u32 %r4, %r2;"
    "st.shared.b32 [%r10], %r4;",
    "not on all ways": "setp.lt.s32 %p1, %r3, 0; mov.u32 %r4, %r2; @%p1 bra L; mov.u32 %r4, 3;"
    "L: st.shared.b32 [%r10], %r4;",
    "known on both ways": "setp.lt.s32 %p1, %r3, 0; mov.u32 %r4, 4; @%p1 bra L; mov.u32 %r4, 3;"
    "L: st.shared.b32 [%r10], %r4;",
    "as often as data says": "L: add.u32 %r2, %r2, 1; add.u32 %r3, %r3, 1;"
    "setp.lt.s32 %p1, %r3, 0; @%p1 bra L; st.shared.b32 [%r10], %r2;",
    "through shared memory": "st.shared.b32 [%r11], %r2; bar.sync 0; ld.shared.b32 %r4, [%r11];"
    "bar.sync 0; add.u32 %r4, %r4, %r3; st.shared.b32 [%r10+1024], %r4;",
    "of another time": "st.shared.b32 [%r11], %r3; bar.sync 0; mov.u32 %r6, 0;"
    "setp.lt.u32 %p1, %r0, 32; @%p1 ld.shared.b32 %r6, [%r10]; bar.sync 0;"
    "@!%p1 st.shared.b32 [%r11+-128], %r3; bar.sync 0; @!%p1 ld.shared.b32 %r6, [%r10];"
    "st.shared.b32 [%r10+1024], %r6;",
    "written to": "st.global.b32 [%rd2], %r3; mad.wide.u32 %rd4, %r1, 4, %a1;"
    "ld.global.b32 %r4, [%rd2]; st.shared.b32 [%r10], %r4;",
    "of a clock": "mov.u32 %r4, %clock; st.shared.b32 [%r10], %r4;",
    "of an atomic": "atom.global.add.u32 %r4, [%a1], 1; st.shared.b32 [%r10], %r4;",
    "read strongly": "ld.relaxed.gpu.global.b32 %r4, [%rd1]; st.shared.b32 [%r10], %r4;",
    "by ldmatrix": "st.shared.b32 [%r11], %r3; bar.sync 0; mad.lo.u32 %r6, %r1, 16, %r9;"
    "shr.u32 %r8, %r0, 5; mad.lo.u32 %r6, %r8, 16, %r6;"
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r6]; st.shared.b32 [%r10+1024], %r4;",
    "by stmatrix": "mad.lo.u32 %r6, %r1, 16, %r9;"
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {%r2, %r2, %r2, %r3};",
    "half a place away": "and.b32 %r6, %r0, 32; shr.u32 %r6, %r6, 4; add.u32 %r6, %r6, %r9;"
    "st.shared.b16 [%r6], %r2; mad.lo.u32 %r6, %r1, 0, %r9; and.b32 %r7, %r0, 32;"
    "shr.u32 %r7, %r7, 5; add.u32 %r6, %r6, %r7; st.shared.b8 [%r6], %r3;",
    "to global memory": "mad.wide.u32 %rd4, %r1, 4, %a1; st.global.b32 [%rd4], %r3;",
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_several_values(body: str) -> None:
    report = verdict(body)
    assert report.verdict is Verdict.FAULT
    assert any("with several threads" in f.message for f in report.faults), report.faults


def test_warps_that_are_copies() -> None:
    """Of a warp's lanes some one stays, whichever warp comes last."""
    report = verdict("st.shared.b32 [tile], %r2;")
    assert report.verdict is Verdict.VERIFIED
    (fault,) = report.faults
    assert fault.policy is Policy.STRICT
    assert verdict("st.shared.b32 [tile], %r3;").verdict is Verdict.FAULT


def test_lanes_that_change_places() -> None:
    """All warps write the same values to one place, but from other lanes."""
    turned = "shr.u32 %r6, %r0, 5; add.u32 %r6, %r6, %r1; and.b32 %r6, %r6, 31;"
    moved = "shfl.sync.idx.b32 %r4, %r2, %r6, 31, -1; st.shared.b32 [tile], %r4;"
    assert verdict(turned + moved).verdict is Verdict.FAULT


def test_one_lane_of_a_pattern_stays_whichever_warp_is_last() -> None:
    assert any("shared" in name for name in RECORDED)
    for found in RECORDED.values():
        assert all(len(lanes) == 1 for lanes in found["lanes"].values())
        assert found["warps"] > 1
        assert not found["torn"]
