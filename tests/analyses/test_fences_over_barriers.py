"""Fences of all threads, a barrier, and one thread's relaxed atomic: the block reductions of
PyTorch and of the CUDA samples, and the same the other way round. Practice accepts it, the letter
of PTX wants the fence in the thread of the atomic."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import Kind, Policy, Verdict

FENCE = "fence.acq_rel.gpu;"
MINE = "mov.u32 %r8, %ctaid.x; mad.lo.u32 %r9, %r8, 64, %r0;"
OTHER = "xor.b32 %r10, %r9, 33;"

TICKET = (
    MINE
    + address("%rd1", "%r9")
    + "st.global.u32 [%rd1], %r0; {release} {sync} mov.u32 %r4, flag;"
    + "setp.ne.u32 %p1, %r0, 0; @%p1 bra skip;"
    + "atom.relaxed.gpu.global.add.u32 %r5, [%a1], 1; st.shared.u32 [%r4], %r5;"
    + "skip: {sync} ld.shared.u32 %r6, [%r4]; setp.ne.u32 %p2, %r6, 1; @%p2 bra end;"
    + "{acquire} xor.b32 %r10, %r9, 97;"
    + address("%rd2", "%r10")
    + "ld.global.u32 %r7, [%rd2]; {use} end: ret;"
)
"""The last block to come reads what all blocks have written."""

SPIN = (
    MINE
    + "setp.ne.u32 %p3, %r8, 0; @%p3 bra reader;"
    + address("%rd1")
    + "st.global.u32 [%rd1], %r0; {release} {sync} setp.ne.u32 %p1, %r0, 0; @%p1 bra end;"
    + "st.relaxed.gpu.global.u32 [%a1], 1; bra end;"
    + "reader: setp.ne.u32 %p2, %r0, 0; @%p2 bra go;"
    + "again: ld.relaxed.gpu.global.u32 %r5, [%a1]; setp.eq.u32 %p4, %r5, 0; @%p4 bra again;"
    + "go: {sync} {acquire} xor.b32 %r10, %r0, 33;"
    + address("%rd2", "%r10")
    + "ld.global.u32 %r7, [%rd2]; {use} end: ret;"
)
"""One block's flag, for all threads of another one."""

USE = address("%rd3", "%r0", base="%a2") + "st.global.u32 [%rd3], %r7;"


def report(shape: str, release: str, acquire: str, sync: str, *, strict: bool = False) -> Report:
    body = shape.format(release=release, acquire=acquire, sync=sync, use=USE)
    tensors = {
        "data": np.zeros(128, np.uint32),
        "flag": np.zeros(1, np.uint32),
        "out": ("u32", 64),
    }
    before = ".shared .align 4 .b8 flag[4];"
    kernel = Kernel(body, tensors, threads=64, blocks=2, before=before, unknown=("data",))
    return verify_trace(kernel.trace(), strict=strict)


@pytest.mark.parametrize("sync", ["bar.sync 0;", "barrier.sync 3, 64;"])
@pytest.mark.parametrize("shape", [TICKET, SPIN], ids=["ticket", "spin"])
def test_fences_count_over_barriers_in_practice(shape: str, sync: str) -> None:
    found = report(shape, FENCE, FENCE, sync)
    assert found.verdict is Verdict.VERIFIED, (found.faults, found.unknown)
    assert {f.policy for f in found.faults} == {Policy.STRICT}
    assert "fence" in found.faults[0].message


@pytest.mark.parametrize("shape", [TICKET, SPIN], ids=["ticket", "spin"])
def test_the_letter_wants_them_in_the_thread_of_the_atomic(shape: str) -> None:
    found = report(shape, FENCE, FENCE, "bar.sync 0;", strict=True)
    assert found.verdict is Verdict.FAULT
    assert {f.kind for f in found.faults} == {Kind.RACE}


@pytest.mark.parametrize("shape", [TICKET, SPIN], ids=["ticket", "spin"])
@pytest.mark.parametrize(
    ("release", "acquire"),
    [
        ("", ""),
        ("", FENCE),
        (FENCE, ""),
        ("fence.acq_rel.cta;", FENCE),
        (FENCE, "fence.acq_rel.cta;"),
        ("setp.eq.u32 %p9, %r0, 0; @%p9 fence.acq_rel.gpu;", FENCE),
    ],
    ids=["none", "no release", "no acquire", "cta release", "cta acquire", "one thread's"],
)
def test_fences_that_are_lacking(shape: str, release: str, acquire: str) -> None:
    found = report(shape, release, acquire, "bar.sync 0;")
    assert found.verdict is Verdict.FAULT
    assert Kind.RACE in {f.kind for f in found.faults if f.policy is Policy.ANY}


def test_a_fence_after_the_barrier_is_by_the_letter() -> None:
    """Barriers pass on what others wrote: the fence of the atomic's thread covers it."""
    release = "bar.sync 0; fence.acq_rel.gpu;"
    acquire = FENCE
    body = SPIN.replace("{acquire}", "").replace("go: {sync}", "{acquire} go: {sync}")
    found = report(body, release, acquire, "bar.sync 0;", strict=True)
    assert found.verdict is Verdict.VERIFIED, found.faults
