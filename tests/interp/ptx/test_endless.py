"""Runs without an end stop with the place of the loop; waits that are given up after a while do
not run away."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Unsupported, Verdict
from xttir.interp.ptx.trace import trace


def test_a_loop_without_end_is_named() -> None:
    kernel = Kernel("again: st.global.u32 [%a0], %r0; bra again;", {"out": ("u32", 1)}, threads=1)
    with pytest.raises(Unsupported, match="more than 1,000 steps") as caught:
        trace(kernel.module, kernel.launch, most_steps=1000)
    assert caught.value.location is not None
    assert "--max-steps" in caught.value.hint


WAITS = {
    "sleeps longer": "mov.u32 %r8, 8; again: LOAD @%p1 bra done; nanosleep.u32 %r8;"
    "setp.gt.u32 %p2, %r8, 256; @%p2 bra again; shl.b32 %r8, %r8, 1; bra again; done:",
    "gives up by the clock": "mov.u64 %rd1, %clock64; again: LOAD @%p1 bra done;"
    "mov.u64 %rd2, %clock64; sub.s64 %rd3, %rd2, %rd1; setp.lt.s64 %p2, %rd3, 1000000;"
    "@%p2 bra again; trap; done:",
    "gives up after tries": "mov.u32 %r8, 0; again: LOAD @%p1 bra done; add.u32 %r8, %r8, 1;"
    "setp.lt.u32 %p2, %r8, 1000000; @%p2 bra again; trap; done:",
    "counts its tries": "mov.u32 %r8, 0; again: LOAD @%p1 bra done; add.u32 %r8, %r8, 1; bra again;"
    "done: st.global.u32 [%a1+4], %r8;",
}
LOAD = "ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 5;"


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("release", ["release", "relaxed"])
def test_rounds_of_a_wait_do_not_matter(wait: str, release: str) -> None:
    body = (
        "mov.u32 %r9, %ctaid.x; setp.ne.u32 %p9, %r9, 0; @%p9 bra writer;"
        + WAITS[wait].replace("LOAD", LOAD)
        + "ld.global.u32 %r3, [%a0+4]; st.global.u32 [%a1], %r3; ret;"
        + f"writer: st.global.u32 [%a0+4], 7; st.{release}.gpu.global.u32 [%a0], 5; ret;"
    )
    tensors = {"flag": np.zeros(2, np.uint32), "out": ("u32", 2)}
    found = verify_trace(Kernel(body, tensors, threads=1, blocks=2).trace())
    right = release == "release"
    assert found.verdict is (Verdict.VERIFIED if right else Verdict.FAULT), found.faults


def test_a_wait_that_goes_on_without_what_it_waited_for() -> None:
    body = (
        "mov.u32 %r9, %ctaid.x; setp.ne.u32 %p9, %r9, 0; @%p9 bra writer; mov.u32 %r8, 0;"
        f"again: {LOAD} @%p1 bra done; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 100;"
        "@%p2 bra again; done: ld.global.u32 %r3, [%a0+4]; st.global.u32 [%a1], %r3; ret;"
        "writer: st.global.u32 [%a0+4], 7; st.release.gpu.global.u32 [%a0], 5; ret;"
    )
    tensors = {"flag": np.zeros(2, np.uint32), "out": ("u32", 2)}
    found = verify_trace(Kernel(body, tensors, threads=1, blocks=2).trace())
    assert found.verdict is Verdict.FAULT
