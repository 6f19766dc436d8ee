"""Loops that wait for memory: verified when they must see what they wait for, refuted when another
value would do as well. Barriers of a grid, used once and more often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import Kind, Unsupported, Verdict
from xttir.interp.ptx.trace import trace


def report(
    body: str, blocks: int, threads: int = 1, unknown: tuple[str, ...] = ("data",)
) -> Report:
    tensors = {
        "data": np.zeros(blocks * threads, np.uint32),
        "flag": np.zeros(4, np.uint32),
        "out": ("u32", blocks * threads),
    }
    kernel = Kernel(body, tensors, threads=threads, blocks=blocks, unknown=unknown)
    return verify_trace(kernel.trace())


def races(found: Report) -> bool:
    return found.verdict is Verdict.FAULT and {f.kind for f in found.faults} == {Kind.RACE}


WRITE = "mov.u32 %r8, %ctaid.x;" + address("%rd1", "%r8") + "st.global.u32 [%rd1], %r8;"
READ = "ld.global.u32 %r6, [%a0+{0}]; st.global.u32 [%a2], %r6; ret;"


def counter(limit: int, compare: str = "lt", add: str = "1") -> str:
    return (
        "mov.u32 %r8, %ctaid.x; setp.eq.u32 %p3, %r8, 0; @%p3 bra again;"
        + WRITE
        + f"red.release.gpu.global.add.u32 [%a1], {add}; ret;"
        + "again: ld.acquire.gpu.global.u32 %r5, [%a1];"
        + f"setp.{compare}.u32 %p4, %r5, {limit}; @%p4 bra again;"
        + READ.format(4)
    )


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (counter(3), True),
        (counter(2), False),
        (counter(3, "ne"), True),
        (counter(6, add="2"), True),
        (counter(5, add="2"), True),
        (counter(4, add="2"), False),
        (counter(6, add="%r8"), True),
        (counter(5, add="%r8"), False),  # blocks 2 and 3 will do
        (counter(4, add="4"), False),
    ],
)
def test_a_counter_is_waited_for_until_all_have_come(body: str, right: bool) -> None:
    found = report(body, 4)
    assert found.verdict is Verdict.VERIFIED if right else races(found), (
        found.faults,
        found.unknown,
    )


def chain(compare: str = "ne", release: str = "release", skip: str = "") -> str:
    """Each block waits for its turn, and gives it to the next one: the semaphore of split-K."""
    return (
        "mov.u32 %r8, %ctaid.x; add.u32 %r9, %r8, 1;"
        + f"again: ld.acquire.gpu.global.u32 %r5, [%a1]; setp.{compare}.u32 %p4, %r5, %r8;"
        + "@%p4 bra again; ld.global.u32 %r6, [%a0]; add.u32 %r6, %r6, 1; st.global.u32 [%a0], %r6;"
        + f"{skip} st.{release}.gpu.global.u32 [%a1], %r9; ret;"
    )


@pytest.mark.parametrize(
    ("body", "right"),
    [(chain(), True), (chain("lt"), True), (chain("gt"), False), (chain(release="relaxed"), False)],
)
def test_turns(body: str, right: bool) -> None:
    found = report(body, 4)
    assert found.verdict is Verdict.VERIFIED if right else races(found), (
        found.faults,
        found.unknown,
    )


def test_one_of_two_flags_is_not_both() -> None:
    """Two blocks set one flag; who sees one of them has not seen the other."""
    body = (
        "mov.u32 %r8, %ctaid.x; setp.eq.u32 %p3, %r8, 0; @%p3 bra again;"
        + WRITE
        + "st.release.gpu.global.u32 [%a1], %r8; ret;"
        + "again: ld.acquire.gpu.global.u32 %r5, [%a1]; setp.eq.u32 %p4, %r5, 0; @%p4 bra again;"
    )
    assert races(report(body + READ.format(4), 3))
    assert report(body + "st.global.u32 [%a2], 1; ret;", 3).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(("release", "right"), [("release", True), ("relaxed", False)])
def test_a_flag_in_shared_memory_whose_address_each_round_computes(release: str, right: bool):
    body = (
        ".shared .align 4 .b8 box[4]; .shared .align 4 .b8 flag[4];"
        "mov.u32 %r1, flag; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r1], 0; bar.sync 0;"
        "setp.gt.u32 %p2, %r0, 31; @%p2 bra again; @!%p1 bra end; st.shared.u32 [box], 7;"
        f"st.{release}.cta.shared.u32 [%r1], 1; bra end;"
        "again: cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd2, %rd1; ld.acquire.cta.u32 %r5, [%rd2];"
        "setp.eq.u32 %p4, %r5, 0; @%p4 bra again; ld.shared.u32 %r6, [box];"
        + address("%rd3", "%r0", base="%a2")
        + "st.global.u32 [%rd3], %r6; end: ret;"
    )
    kernel = Kernel(
        body,
        {"data": np.zeros(1, np.uint32), "flag": np.zeros(1, np.uint32), "out": ("u32", 64)},
        threads=64,
    )
    found = verify_trace(kernel.trace())
    assert found.verdict is Verdict.VERIFIED if right else races(found), found.faults


BARRIER = """
    bar.sync 0;
    @%p1 bra passed{n};
    atom.{release}.gpu.global.add.u32 %r2{n}, [{place}], %r19;
    again{n}: ld.{acquire}.gpu.global.u32 %r3{n}, [{place}];
    xor.b32 %r4{n}, %r2{n}, %r3{n}; setp.ge.s32 %p2, %r4{n}, 0; @%p2 bra again{n};
    passed{n}: bar.sync 0;
"""
"""The barrier of cooperative groups: the last arrival flips the highest bit."""


LOAD = "ld.global.u32 %r17, [%rd2]; add.u32 %r7, %r7, %r17;"


def grid(
    uses: int = 3,
    release: str = "release",
    acquire: str = "acquire",
    place: str = "%a1",
    missing: int = -1,
    count: int = 0,
) -> str:
    """Blocks read what their neighbours wrote, `uses` barriers between; `missing`: one of them."""
    barrier = BARRIER.replace("{release}", release).replace("{acquire}", acquire)
    body = (
        "mov.u32 %r7, 0; mov.u32 %r8, %ctaid.x; mov.u32 %r9, %nctaid.x; setp.ne.u32 %p1, %r0, 0;"
        f"sub.u32 %r18, 0x80000001, %r9; add.u32 %r18, %r18, {count};"
        "setp.eq.u32 %p5, %r8, 0; selp.b32 %r19, %r18, 1, %p5;"
        "mad.lo.u32 %r10, %r8, 32, %r0; add.u32 %r11, %r8, 1; rem.u32 %r11, %r11, %r9;"
        "mad.lo.u32 %r11, %r11, 32, %r0;" + address("%rd1", "%r10") + address("%rd2", "%r11")
    )
    for n in range(uses):
        body += "st.global.u32 [%rd1], %r0;" if n % 2 == 0 else LOAD
        if n != missing:
            body += barrier.replace("{n}", str(n)).replace("{place}", place)
    if uses % 2:
        body += LOAD
    use = address("%rd3", "%r10", base="%a2")
    return body + use + "st.global.u32 [%rd3], %r7; ret;"


@pytest.mark.parametrize("uses", [1, 2, 3, 4])
def test_a_barrier_of_the_grid(uses: int) -> None:
    found = report(grid(uses), 3, threads=32)
    assert found.verdict is Verdict.VERIFIED, (found.faults, found.unknown)
    assert not found.tickets


@pytest.mark.parametrize(
    ("how", "uses"),
    [
        ({"release": "relaxed"}, 2),
        ({"acquire": "relaxed"}, 2),
        ({"missing": 1}, 3),
        ({"missing": 2}, 3),
    ],
)
def test_a_barrier_of_the_grid_that_does_not_hold(how: dict, uses: int) -> None:
    found = report(grid(uses, **how), 3, threads=32)
    assert races(found), (found.faults, found.unknown)


def test_a_count_that_is_wrong() -> None:
    """The bit flips one arrival early, so that the last block waits for ever."""
    found = report(grid(1, count=1), 3, threads=32)
    assert found.verdict is Verdict.FAULT
    assert Kind.DEADLOCK in {f.kind for f in found.faults}


def test_a_block_that_leaves_the_grid_waiting() -> None:
    body = grid(1).replace("bar.sync 0;", "setp.eq.u32 %p6, %r8, 1; @%p6 ret; bar.sync 0;", 1)
    found = report(body, 3, threads=32)
    assert found.verdict is Verdict.FAULT
    assert Kind.DEADLOCK in {f.kind for f in found.faults}


def test_the_barrier_that_cooperative_groups_use() -> None:
    """Its address comes in %envreg1 and %envreg2, if the launch is cooperative."""
    place = "mov.u32 %r60, %envreg1; mov.u32 %r61, %envreg2; mov.b64 %a7, {%r61, %r60};"
    body = place + grid(2, place="%a7+4")
    tensors = {"data": np.zeros(96, np.uint32), "flag": np.zeros(4, np.uint32), "out": ("u32", 96)}
    kernel = Kernel(body, tensors, threads=32, blocks=3, unknown=("data",))
    found = verify_trace(trace(kernel.module, replace(kernel.launch, cooperative=True)))
    assert found.verdict is Verdict.VERIFIED, (found.faults, found.unknown)
    with pytest.raises(Unsupported, match="cooperative"):
        kernel.trace()
