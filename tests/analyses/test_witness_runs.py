"""Witnesses that show a fault in a run on numbers: a wrong value, a fault of the run, or a hang."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel
from tests.interp.ptx.test_delays import EARLY, REMOTE, copy_out
from xttir.analyses.verify import verify_trace
from xttir.analyses.witness import schedule_in
from xttir.diagnostics import Kind

WORDS = np.arange(1, 33, dtype=np.uint32)

LATE_ANNOUNCEMENT = """
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b8 bar[8];
    setp.ne.u32 %p1, %r0, 0; @%p1 bra ready;
    mbarrier.init.shared::cta.b64 [bar], 1;
    ready: bar.sync 0;
    setp.eq.u32 %p2, %r0, 32; @%p2 bra arrives;
    setp.eq.u32 %p3, %r0, 64; @%p3 bra waits;
    setp.ne.u32 %p4, %r0, 0; @%p4 bra out;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 128;
    mov.u32 %r5, tile; mov.u32 %r6, bar;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%a0], 128, [%r6];
    bra waits;
    arrives: mbarrier.arrive.shared::cta.b64 _, [bar];
    waits: mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 0; @!%p5 bra waits;
    @%p2 bra out;
    ld.shared.u32 %r7, [tile];
    mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd1, %a1; st.global.u32 [%rd1], %r7;
    out: bar.sync 1; ret;
"""

HANG = """
    .shared .align 8 .b8 bar[8];
    setp.ne.u32 %p1, %r0, 0; @%p1 bra out;
    mbarrier.init.shared::cta.b64 [bar], 1;
    waits: mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 0; @!%p5 bra waits;
    out: ret;
"""

KERNELS = {
    "proxy": (copy_out(), Kind.PROXY),
    "relaxed": (
        Kernel(REMOTE.format(sem=".relaxed"), {"out": ("u32", 128)}, 64, blocks=2, cluster=2),
        Kind.RACE,
    ),
    "exit": (
        Kernel(EARLY.format(end=""), {"out": ("u32", 1)}, 32, blocks=2, cluster=2),
        Kind.LIFETIME,
    ),
    "announcement": (
        Kernel(LATE_ANNOUNCEMENT, {"a": WORDS, "out": np.zeros(128, np.uint32)}, threads=128),
        Kind.PHASE,
    ),
    "hang": (
        Kernel(HANG, {}, 32),
        Kind.DEADLOCK,
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_witness_shows_its_fault(name: str) -> None:
    kernel, kind = KERNELS[name]
    faults = [f for f in verify_trace(kernel.trace()).faults if f.kind is kind]
    assert faults
    plain = kernel.run("first")
    for fault in faults:
        schedule = schedule_in(fault.witness)
        assert schedule, fault.message
        ended = kernel.run(schedule)
        same = all((ended.tensors[n] == plain.tensors[n]).all() for n in plain.tensors)
        assert ended.faults or ended.blocked or not same, (fault.message, schedule)
