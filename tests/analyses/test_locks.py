"""Locks and flags with several meanings: who takes a lock comes after all who gave it back, in any
order of threads; what a loop that waits ends on says which of several things is done next."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address
from xttir.analyses.launches import verify_launch
from xttir.analyses.verify import Report
from xttir.diagnostics import Kind, Unsupported, Verdict


def report(body: str, blocks: int, threads: int = 1) -> Report:
    tensors = {
        "data": np.zeros(64, np.uint32),
        "flag": np.zeros(16, np.uint32),
        "out": ("u32", 64),
    }
    kernel = Kernel(body, tensors, threads=threads, blocks=blocks, unknown=("data",))
    return verify_launch(kernel.module, kernel.launch)[1]


def kinds(found: Report) -> tuple[Verdict, set[Kind]]:
    return found.verdict, {f.kind for f in found.faults}


FINE = (Verdict.VERIFIED, set())
RACES = (Verdict.FAULT, {Kind.RACE})
CHANGE = "ld.global.u32 %r6, [%a0]; add.u32 %r6, %r6, 1; st.global.u32 [%a0], %r6;"
CAS = "atom.acquire.gpu.cas.b32 %r5, [%a1], 0, 1;"
EXCHANGE = "atom.exch.acquire.gpu.b32 %r5, [%a1], 1;"
FREE = "st.release.gpu.b32 [%a1], 0;"


def section(take: str, give: str, inside: str = CHANGE, leave: str = "ne", after: str = "") -> str:
    return (
        f"again: {take} setp.{leave}.u32 %p1, %r5, 0; @%p1 bra again; {inside} {give} {after} ret;"
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (section(CAS, FREE), FINE),
        (section(EXCHANGE, FREE), FINE),
        (section(CAS, "atom.exch.release.gpu.b32 %r7, [%a1], 0;"), FINE),
        (section(CAS, "membar.gl; atom.exch.b32 %r7, [%a1], 0;"), FINE),
        (section(CAS.replace("acquire", "relaxed"), FREE), RACES),
        (section(CAS, FREE.replace("release", "relaxed")), RACES),
        (section(CAS, "", inside=FREE + CHANGE), RACES),
        (section(CAS, FREE, after=CHANGE), RACES),
        # The value that ends the loop is another one than that of a free lock.
        (section(EXCHANGE, FREE, leave="gt").replace("gt.u32 %p1, %r5, 0", "gt.u32 %p1, %r5, 1"),
         RACES),
    ],
)  # fmt: skip
def test_a_lock_keeps_sections_apart(body: str, expected: tuple[Verdict, set[Kind]]) -> None:
    assert kinds(report(body, 3)) == expected


def test_that_another_thread_goes_first_is_looked_at() -> None:
    """What stands before the section of block 0 has nothing to do with that of block 1, unless
    block 0 comes first."""
    body = (
        "mov.u32 %r8, %ctaid.x; setp.ne.u32 %p2, %r8, 0;"
        "@!%p2 st.global.u32 [%a0+16], 7;"
        + section(CAS, FREE, after="@%p2 ld.global.u32 %r9, [%a0+16]; st.global.u32 [%a2], %r9;")
    )
    body = body.replace("st.global.u32 [%a2], %r9;", "@%p2 st.global.u32 [%a2], %r9;")
    assert kinds(report(body, 2)) == RACES


def test_that_all_threads_of_a_block_share_a_section() -> None:
    inside = (
        "here: bar.sync 0;"
        + address("%rd1")
        + CHANGE.replace("[%a0]", "[%rd1]")
        + "bar.sync 0; @%p3 bra end;"
    )
    body = "setp.ne.u32 %p3, %r0, 0; @%p3 bra here;" + section(
        CAS, "membar.gl; " + FREE, inside=inside
    )
    body = body.replace("ret;", "end: ret;")
    assert kinds(report(body, 3, 64)) == FINE
    assert kinds(report(body.replace("bar.sync 0; @%p3", "@%p3"), 3, 64)) == RACES


LOOK_BACK = (
    "mov.u32 %r8, %ctaid.x;"
    + address("%rd1", "%r8", base="%a0")  # what the block has: its own sum, in data[0..15]
    + address("%rd2", "%r8", base="%a1")
    + "mov.u32 %r3, 0; setp.eq.u32 %p1, %r8, 0; @%p1 bra total;"
    "st.global.u32 [%rd1+64], %r8; st.SUM.gpu.u32 [%rd2], 1; mov.u32 %r9, %r8;"
    "back: sub.u32 %r9, %r9, 1;"
    + address("%rd3", "%r9", base="%a0")
    + address("%rd4", "%r9", base="%a1")
    + "again: ld.LOOK.gpu.u32 %r5, [%rd4]; setp.eq.u32 %p2, %r5, 0; @%p2 bra again;"
    "setp.eq.u32 %p3, %r5, TOTAL; @%p3 bra found;"
    "ld.global.u32 %r6, [%rd3+64]; add.u32 %r3, %r3, %r6; bra back;"
    "found: ld.global.u32 %r6, [%rd3]; add.u32 %r3, %r3, %r6;"
    "total: add.u32 %r3, %r3, %r8; st.global.u32 [%rd1], %r3; st.ALL.gpu.u32 [%rd2], 2; ret;"
)
"""Each block adds up what the blocks before it have: their sums (flag 1) until one of them has the
total (flag 2). Decoupled look-back, as in scans of one pass."""


@pytest.mark.parametrize(
    ("sums", "look", "all_", "total", "expected"),
    [
        ("release", "acquire", "release", 2, FINE),
        ("relaxed", "acquire", "release", 2, RACES),
        ("release", "acquire", "relaxed", 2, RACES),
        ("release", "relaxed", "release", 2, RACES),
    ],
)
def test_look_back(
    sums: str, look: str, all_: str, total: int, expected: tuple[Verdict, set[Kind]]
) -> None:
    body = LOOK_BACK.replace("SUM", sums).replace("LOOK", look).replace("ALL", all_)
    assert kinds(report(body.replace("TOTAL", str(total)), 5)) == expected


def test_look_back_that_takes_a_sum_for_the_total() -> None:
    body = LOOK_BACK.replace("SUM", "release").replace("LOOK", "acquire").replace("ALL", "release")
    assert Kind.RACE in kinds(report(body.replace("TOTAL", "1"), 5))[1]


def test_a_way_that_nobody_took_is_left_open() -> None:
    """Block 1 may see 1 or 2, and reads another word after 2; it sees only one of them."""
    body = (
        "mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r8, 1; @%p1 bra again;"
        "st.global.u32 [%a0], 1; st.release.gpu.u32 [%a1], 1; st.global.u32 [%a0+4], 1;"
        "st.release.gpu.u32 [%a1], 2; ret;"
        "again: ld.acquire.gpu.u32 %r5, [%a1]; setp.eq.u32 %p2, %r5, 0; @%p2 bra again;"
        "setp.eq.u32 %p3, %r5, 2; @%p3 bra two; ld.global.u32 %r6, [%a0]; bra end;"
        "two: ld.global.u32 %r6, [%a0+4];"
        "end: st.global.u32 [%a2], %r6; ret;"
    )
    found = report(body, 2)
    assert found.verdict is Verdict.UNKNOWN
    assert any("something else is done" in why for why in found.unknown)


def test_modifiers_of_a_ticket_may_stand_in_any_order() -> None:
    """`atom.add.acquire` as in libcu++: the last one to come has seen all others."""
    body = (
        "mov.u32 %r8, %ctaid.x;"
        + address("%rd1", "%r8")
        + "st.global.u32 [%rd1], %r8; fence.sc.gpu; atom.add.acquire.gpu.u32 %r5, [%a1], 1;"
        "setp.ne.u32 %p1, %r5, LAST; @%p1 bra end; ld.global.u32 %r6, [%a0+4];"
        "st.global.u32 [%a2], %r6; end: ret;"
    )
    assert kinds(report(body.replace("LAST", "3"), 4)) == FINE
    assert kinds(report(body.replace("LAST", "2"), 4)) == RACES


PASSED_ON = (
    ".shared .align 4 .b8 told[4]; setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, told;"
    + address("%rd1", "%r0")
    + "again: bar.sync 0; mov.u32 %r5, 0; @%p1 atom.global.ACQUIRE.gpu.cas.b32 %r5, [%a1], 0, 1;"
    "@%p1 st.shared.b32 [%r1], %r5; bar.sync 0; ld.shared.b32 %r6, [told];"
    "setp.eq.u32 %p2, %r6, 1; @%p2 bra again; ld.global.u32 %r7, [%rd1]; add.u32 %r7, %r7, 1;"
    "st.global.u32 [%rd1], %r7; SYNC @%p1 atom.global.RELEASE.gpu.exch.b32 %r8, [%a1], 0; ret;"
)
"""One thread takes the lock and tells its block by shared memory, as Triton's atomics do."""


@pytest.mark.parametrize(
    ("acquire", "release", "sync", "right"),
    [
        ("acq_rel", "acq_rel", "bar.sync 0;", True),
        ("acquire", "release", "bar.sync 0;", True),
        ("relaxed", "acq_rel", "bar.sync 0;", False),
        ("acq_rel", "relaxed", "bar.sync 0;", False),
        ("acq_rel", "acq_rel", "", False),
    ],
)
def test_a_lock_that_one_thread_takes_for_its_block(
    acquire: str, release: str, sync: str, right: bool
) -> None:
    body = PASSED_ON.replace("ACQUIRE", acquire).replace("RELEASE", release).replace("SYNC", sync)
    tensors = {"data": np.zeros(64, np.uint32), "lock": np.zeros(1, np.uint32)}
    kernel = Kernel(body, tensors, threads=64, blocks=3, unknown=("data",))
    found = verify_launch(kernel.module, kernel.launch)[1]
    assert (found.verdict is Verdict.VERIFIED) is right, (found.faults, found.unknown)


def test_a_block_that_is_told_without_a_barrier_between_rounds_is_not_waiting() -> None:
    """Who reads late would see what the next round tells: one round alone shows nothing."""
    body = PASSED_ON.replace("again: bar.sync 0;", "again:").replace("SYNC", "bar.sync 0;")
    body = body.replace("ACQUIRE", "acq_rel").replace("RELEASE", "acq_rel")
    tensors = {"data": np.zeros(64, np.uint32), "lock": np.zeros(1, np.uint32)}
    kernel = Kernel(body, tensors, threads=64, blocks=2, unknown=("data",))
    with pytest.raises(Unsupported, match="steps"):
        verify_launch(kernel.module, kernel.launch, most_steps=2000)
