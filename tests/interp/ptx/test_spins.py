"""Loops that wait for memory: what they did before they saw the value has not happened."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, events, kinds
from xttir.analyses.events import Access, NamedBarrier, Sem

FLAG = {"flag": np.zeros(2, np.uint32), "out": ("u32", 1)}
SPIN = {
    "load": "again: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.ne.u32 %p1, %r1, 5; @%p1 bra again;",
    "volatile": (
        "again: ld.volatile.global.u32 %r1, [%a0]; setp.ne.u32 %p1, %r1, 5; @%p1 bra again;"
        "membar.gl;"
    ),
    "sleeping": (
        "again: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 5; @%p1 bra done;"
        "nanosleep.u32 40; bra again; done:"
    ),
    "swap": "again: atom.acquire.gpu.global.cas.b32 %r1, [%a0], 5, 5; setp.ne.u32 %p1, %r1, 5;"
    "@%p1 bra again;",
    "rotated": (
        "ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 5; @%p1 bra done;"
        "again: ld.acquire.gpu.global.u32 %r2, [%a0]; setp.ne.u32 %p2, %r2, 5; @%p2 bra again;"
        "done:"
    ),
}
WRITER = "mov.u32 %r5, 7; st.global.u32 [%a0+4], %r5; st.release.gpu.global.u32 [%a0], 5; ret;"


@pytest.mark.parametrize("shape", SPIN)
@pytest.mark.parametrize("first", ["reader", "writer"])
def test_a_spin_sees_the_release(shape: str, first: str) -> None:
    reads = f"{SPIN[shape]} ld.global.u32 %r3, [%a0+4]; st.global.u32 [%a1], %r3; ret;"
    choose = "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p9, %r9, 0; @%p9 bra other;"
    if first == "reader":
        body = f"{choose.replace('eq', 'ne')} {reads} other: {WRITER}"
    else:
        body = f"{choose.replace('eq', 'ne')} {WRITER} other: {reads}"
    kernel = Kernel(body, FLAG, threads=1, blocks=2)
    for out in kernel.everywhere():
        assert out.tolist() == [7]
    found = kernel.trace()
    assert not found.blocked
    spins = [e for e in events(found, Access) if e.spins]
    assert len(spins) == 1
    (read,) = spins
    (release,) = (e for e in events(found, Access) if e.sem is Sem.RELEASE)
    assert found.events[int(read.observed[0])] is release


def test_a_spin_that_never_ends_is_a_deadlock() -> None:
    kernel = Kernel(f"{SPIN['load']} ret;", FLAG)
    (blocked,) = kernel.trace().blocked
    assert "memory" in blocked.what
    assert found_text(kernel, blocked.ins).startswith("ld.acquire")
    assert kinds(kernel.run("random:1")) == ["deadlock"]


def found_text(kernel: Kernel, index: int) -> str:
    return kernel.trace().instructions[index].text


@pytest.mark.parametrize("first", [0, 1])
def test_what_one_thread_sees_and_passes_on_in_shared_memory(first: int) -> None:
    """As compilers write it: one thread polls, a block loops on what it found."""
    reader = (
        "setp.eq.u32 %p3, %r0, 0; again: bar.sync 0; mov.u32 %r6, word; mov.u32 %r1, 0;"
        "@%p3 atom.acquire.gpu.global.cas.b32 %r1, [%a0], 5, 5; @%p3 st.shared.u32 [%r6], %r1;"
        "bar.sync 0; ld.shared.u32 %r2, [word]; setp.ne.u32 %p1, %r2, 5; @%p1 bra again;"
        "ld.global.u32 %r3, [%a0+4]; st.global.u32 [%a1], %r3; ret;"
    )
    choose = f"mov.u32 %r9, %ctaid.x; setp.eq.u32 %p9, %r9, {first}; @%p9 bra other;"
    body = f".shared .align 4 .b32 word; {choose} {reader} other: {WRITER}"
    kernel = Kernel(body, FLAG, threads=64, blocks=2)
    for out in kernel.everywhere():
        assert out.tolist() == [7]
    found = kernel.trace()
    assert not found.blocked
    assert sum(e.spins for e in events(found, Access)) == 1
    rounds = [e for e in events(found, NamedBarrier)]
    assert len(rounds) == 2


def test_a_lock_is_taken_by_one_after_the_other() -> None:
    body = (
        "again: atom.acquire.gpu.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p1, %r1, 0;"
        "@%p1 bra again; ld.global.u32 %r2, [%a0+4]; add.u32 %r2, %r2, 1;"
        "st.global.u32 [%a0+4], %r2; st.release.gpu.global.u32 [%a0], 0; ret;"
    )
    kernel = Kernel(body, {"flag": np.zeros(2, np.uint32)}, threads=1, blocks=4)
    for schedule in ("first", "adversarial", "random:0", "random:1"):
        result = kernel.run(schedule)
        assert not result.faults
        assert result.tensors["flag"].tolist() == [0, 4]


def test_a_loop_that_counts_is_no_spin() -> None:
    body = (
        "mov.u32 %r2, 0; again: ld.volatile.global.u32 %r1, [%a0]; add.u32 %r2, %r2, 1;"
        "setp.lt.u32 %p1, %r2, 4; @%p1 bra again; st.global.u32 [%a1], %r2; ret;"
    )
    found = Kernel(body, FLAG, threads=1).trace()
    reads = [e for e in events(found, Access) if e.sem is Sem.VOLATILE]
    assert len(reads) == 4
    assert not any(e.spins for e in reads)
