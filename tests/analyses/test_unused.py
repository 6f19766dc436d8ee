"""Races with loads whose value reaches no effect: by the letter only; with any effect, faults."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import Policy, Verdict

PLACE = """
    and.b32 %r1, %r0, 63;
    mov.u32 %r9, %ctaid.x;
    mad.lo.u32 %r1, %r9, 64, %r1;
    mad.wide.u32 %rd1, %r1, 4, %a0;
    setp.lt.u32 %p1, %r0, 64;
    setp.eq.u32 %p2, %r0, 64;
    mov.u32 %r20, 0;
"""
"""Threads 64 and up have the places of threads 0 and up; %p1: the first 64; %p2: thread 64."""
LOAD = "ld.global.u32 %r2, [%rd1];"
STORE = "add.u32 %r3, %r2, 1; @%p1 st.global.u32 [%rd1], %r3;"


def verdict(body: str, blocks: int = 1) -> Report:
    tensors = {"a": np.zeros(64 * blocks + 64, np.uint32), "out": ("u32", 4096)}
    kernel = Kernel(f"{PLACE}{body} ret;", tensors, threads=128, blocks=blocks, unknown=("a",))
    return verify_trace(kernel.trace())


def test_a_redundant_load_is_a_warning() -> None:
    report = verdict(LOAD + STORE, blocks=3)
    assert report.verdict is Verdict.VERIFIED
    (fault,) = report.faults
    assert fault.policy is Policy.STRICT
    assert "the value that it reads is not used" in fault.message


USES = {
    "stored": "@%p2 st.global.u32 [%a1], %r3;",
    "stored in a select": "selp.b32 %r4, %r3, 0, %p1; @%p2 st.global.u32 [%a1], %r4;",
    "updated": "@%p2 red.global.add.u32 [%a1], %r2;",
    "shared": ".shared .b32 w; @%p2 st.shared.u32 [w], %r2;",
    "local": ".local .b32 w; @%p2 st.local.u32 [w], %r2;",
    "kept by a guarded move": "@%p1 mov.u32 %r2, 0; @%p2 st.global.u32 [%a1], %r2;",
    "guard": "setp.eq.u32 %p3, %r2, 0; @%p3 st.global.u32 [%a1], %r20;",
    "branch": "setp.eq.u32 %p3, %r2, 0; @%p3 bra L; st.global.u32 [%a1], %r20; L:",
    "exchanged": "shfl.sync.idx.b32 %r4, %r2, 0, 31, 0xffffffff;",
    "address": "and.b32 %r4, %r2, 0; mad.wide.u32 %rd2, %r4, 4, %a1; @%p2 st.global.u32 [%rd2], 1;",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_used_value_is_a_fault(use: str) -> None:
    report = verdict(LOAD + STORE + use)
    assert report.verdict is Verdict.FAULT
    assert any(f.policy is Policy.ANY and "reads" in f.message for f in report.faults)


def test_round_a_loop() -> None:
    """What is stored comes from the turn before."""
    loop = (
        f"mov.u32 %r2, 0; L: add.u32 %r3, %r2, 1; {LOAD} add.u32 %r20, %r20, 1;"
        "setp.lt.u32 %p4, %r20, 3; @%p4 bra L; @%p1 st.global.u32 [%rd1], %r3;"
    )
    assert verdict(loop).verdict is Verdict.VERIFIED
    used = f"{loop} @%p2 st.global.u32 [%a1], %r3;"
    assert verdict(used).verdict is Verdict.FAULT


def test_what_is_overwritten_is_not_used() -> None:
    body = f"{LOAD}{STORE} mov.u32 %r2, 5; mov.u32 %r3, 5; @%p2 st.global.u32 [%a1], %r2;"
    assert verdict(body).verdict is Verdict.VERIFIED


def test_an_unused_load_does_not_stand_for_a_used_one() -> None:
    """Thread 64 uses what it loads first; the later load, of which nothing comes, covers that."""
    used = f"{LOAD} @%p2 st.global.u32 [%a1], %r2;"
    later = "ld.global.u32 %r5, [%rd1]; add.u32 %r3, %r5, 1; @%p1 st.global.u32 [%rd1], %r3;"
    assert verdict(used + later).verdict is Verdict.FAULT


def test_between_blocks() -> None:
    """Every block loads the places of the next one."""
    body = f"{LOAD}\n ld.global.u32 %r6, [%rd1+256];\n {STORE}"
    unused = verdict(body, blocks=2)
    assert unused.verdict is Verdict.VERIFIED
    assert any("nothing orders the blocks" in f.message for f in unused.faults)
    own = "mad.wide.u32 %rd4, %r9, 4, %a1; setp.eq.u32 %p5, %r0, 63;"
    used = verdict(f"{body} {own} @%p5 st.global.u32 [%rd4], %r6;", blocks=2)
    assert used.verdict is Verdict.FAULT
    assert any(f.policy is Policy.ANY and "nothing orders" in f.message for f in used.faults)
