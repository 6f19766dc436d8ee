"""Copies to some blocks of a cluster: who waits for the bytes in his own block has those, whatever
other blocks get."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.async_kernels import AsyncKernel, wait
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Policy

BODY = """
    mov.u32 %r30, dyn+4096;
    setp.ne.u32 %p1, %r0, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [%r30], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r31, dyn;
    mov.u32 %r32, %cluster_ctarank;
    and.b32 %r33, %r32, 1;
    setp.ne.or.u32 %p2, %r33, 0, %p1;
    mov.u32 %r34, 3;
    shl.b32 %r34, %r34, %r32;
    cvt.u16.u32 %h0, %r34;
    @!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r31], [%a0], 128, [%r30], %h0;
"""
READ = """
    mad.lo.u32 %r20, %r0, 4, %r31;
    ld.shared.u32 %r21, [%r20];
    mul.wide.u32 %rd20, %r0, 4;
    mul.wide.u32 %rd21, %r32, 128;
    add.s64 %rd20, %rd20, %rd21;
    add.s64 %rd20, %rd20, %a1;
    st.global.u32 [%rd20], %r21;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("waits", [True, False])
def test_pairs_of_a_cluster_of_four(waits: bool):
    """Every other block copies to itself and its neighbour."""
    kernel = AsyncKernel(
        BODY + (wait("%r30") if waits else "") + READ,
        {"in": np.arange(32, dtype=np.uint32), "out": ("u32", (4, 32))},
        threads=32,
        blocks=4,
        cluster=4,
        dynamic=8192,
    )
    faults = verify_trace(kernel.trace()).faults
    kinds = {f.kind for f in faults if f.policy is not Policy.STRICT}
    assert (Kind.RACE in kinds) is not waits
    assert not (waits and kinds)
