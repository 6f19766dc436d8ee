"""multimem on one device: loads, stores, reductions and bulk copies do what the plain ones do."""

from __future__ import annotations

import numpy as np

from tests.interp.ptx.kernels import Kernel
from xttir.analyses.launches import verify_launch
from xttir.diagnostics import Kind, Verdict

PLACE = "mad.wide.u32 %rd1, %r0, 16, %a0; mad.wide.u32 %rd2, %r0, 16, %a1;"
SUMS = (
    f"{PLACE} multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd1];"
    "multimem.st.weak.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};"
    "multimem.red.relaxed.gpu.global.add.v4.f32 [%rd2], {%f1, %f2, %f3, %f4}; ret;"
)


def kernel(body: str, threads: int = 32) -> Kernel:
    data = np.arange(4 * threads, dtype=np.float32)
    tensors = {"x": data, "out": np.zeros(4 * threads, np.float32)}
    return Kernel(body, tensors, threads=threads, unknown=("x",))


def test_values_and_the_assumption() -> None:
    k = kernel(SUMS)
    assert k.values().tolist() == (2 * np.arange(128)).tolist()
    _, report = verify_launch(k.module, k.launch)
    assert report.verdict is Verdict.VERIFIED
    assert any("one copy" in text for text in report.assumptions)


def test_races_are_seen() -> None:
    """Every thread stores to the first place; reductions there are atomic."""
    store = SUMS.replace(
        "[%rd2], {%f1, %f2, %f3, %f4};multimem.red", "[%a1], {%f1, %f2, %f3, %f4};multimem.red"
    )
    assert store != SUMS
    k = kernel(store, 64)
    assert Kind.RACE in {f.kind for f in verify_launch(k.module, k.launch)[1].faults}
    k = kernel(f"{PLACE} multimem.red.relaxed.gpu.global.add.f32 [%a1], 0f3F800000; ret;", 64)
    assert verify_launch(k.module, k.launch)[1].verdict is Verdict.VERIFIED
    assert k.values()[0] == 64


COPY = """
    .shared .align 128 .b8 tile[512];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 4, %r1; cvt.rn.f32.u32 %f1, %r0;
    st.shared.f32 [%r2], %f1;
    {fence} bar.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 bra out;
    multimem.{copy}.global.shared::cta.bulk_group{how} [%a1], [%r1], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; out: ret;
"""


def test_bulk_copies() -> None:
    for copy, how in (("cp.async.bulk", ""), ("cp.reduce.async.bulk", ".add.f32")):
        k = kernel(COPY.format(fence="fence.proxy.async;", copy=copy, how=how))
        assert k.values()[:32].tolist() == list(range(32))
        assert verify_launch(k.module, k.launch)[1].verdict is Verdict.VERIFIED
        k = kernel(COPY.format(fence="", copy=copy, how=how))
        assert Kind.PROXY in {f.kind for f in verify_launch(k.module, k.launch)[1].faults}
