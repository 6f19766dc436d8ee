"""What a lane reads back in an arm of an unknown branch: its own stores, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address, events
from xttir.analyses.events import Access, Footprint, Mode, Trace
from xttir.interp.ptx import overlay

BRANCH = (
    "ld.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0;"
    ".local .align 8 .b8 mine[16]; .shared .align 8 .b8 tile[512];"
    "mov.u32 %r10, mine; mov.u32 %r11, tile; shl.b32 %r12, %r0, 2; add.u32 %r12, %r12, %r11;"
    "and.b32 %r13, %r0, 7; st.local.u32 [%r10], %r1; st.shared.u32 [%r12], %r1;"
)
USE = "mad.wide.u32 %rd1, %r20, 4, %a1; st.global.u32 [%rd1], 1;"


def stores(body: str, threads: int = 32) -> tuple[Trace, list[Footprint]]:
    """The stores to the output."""
    tensors = {"a": np.ones(4, np.uint32), "out": ("u32", 64)}
    kernel = Kernel(f"{BRANCH} {body} ret;", tensors, threads=threads, unknown=("a",))
    found = kernel.trace()
    prints = [f for e in events(found, Access) for f in e.footprints]
    assert not found.faults
    return found, [f for f in prints if f.mode is Mode.WRITE and f.space == "global"]


def vague(body: str) -> bool:
    """Whether the element that is stored to is not known."""
    _, (written,) = stores(body)
    return written.bounds is not None


def trace(body: str, threads: int = 32) -> list[np.ndarray]:
    """The addresses, in elements, of the stores to the output."""
    found, written = stores(body, threads)
    assert all(f.bounds is None for f in written)
    return [np.unique((f.starts[:, 0] - found.buffers[1][1]) // 4) for f in written]


INSIDE = {
    "local": "@%p1 bra L; st.local.u32 [%r10], %r13; ld.local.u32 %r20, [%r10]; {use} L:",
    "shared": "@%p1 bra L; st.shared.u32 [%r12], %r13; ld.shared.u32 %r20, [%r12]; {use} L:",
    "the last one counts": "@%p1 bra L; st.local.u32 [%r10], %r1; st.local.u32 [%r10], %r13;"
    "ld.local.u32 %r20, [%r10]; {use} L:",
    "in vectors": "@%p1 bra L; st.local.v2.u32 [%r10], {{%r0, %r13}};"
    "ld.local.v2.u32 {{%r21, %r20}}, [%r10]; {use} L:",
    "from the arm around": "@%p1 bra L; st.local.u32 [%r10], %r13; setp.gt.u32 %p2, %r1, 5;"
    "@%p2 bra M; ld.local.u32 %r20, [%r10]; {use} M: L:",
}


@pytest.mark.parametrize("body", INSIDE.values(), ids=INSIDE)
def test_own_stores_are_read_back(body: str) -> None:
    (written,) = trace(body.format(use=USE))
    np.testing.assert_array_equal(written, np.arange(8))


OUTSIDE = {
    "after the arm": "@%p1 bra L; st.local.u32 [%r10], %r13; L: ld.local.u32 %r20, [%r10]; {use}",
    "in the other arm": "@%p1 bra L; st.local.u32 [%r10], %r13; bra M;"
    "L: ld.local.u32 %r20, [%r10]; {use} M:",
    "part of it": "@%p1 bra L; st.local.u32 [%r10], %r13; st.local.u8 [%r10], %r1;"
    "ld.local.u32 %r20, [%r10]; {use} L:",
    "unknown": "@%p1 bra L; st.local.u32 [%r10], %r1; ld.local.u32 %r20, [%r10]; {use} L:",
    "of other lanes": "@%p1 bra L; st.shared.u32 [%r12], %r13; xor.b32 %r12, %r12, 4;"
    "ld.shared.u32 %r20, [%r12]; {use} L:",
    "overwritten by another lane": "@%p1 bra L; st.shared.u32 [%r12], %r13; xor.b32 %r14, %r12, 4;"
    "st.shared.u32 [%r14], %r13; ld.shared.u32 %r20, [%r12]; {use} L:",
    "guarded by data": "setp.gt.u32 %p2, %r1, 5; @%p1 bra L; @%p2 st.local.u32 [%r10], %r13;"
    "ld.local.u32 %r20, [%r10]; {use} L:",
    "an atomic since": "@%p1 bra L; st.shared.u32 [%r12], %r13; red.shared.add.u32 [%r12], 1;"
    "ld.shared.u32 %r20, [%r12]; {use} L:",
    "in an inner arm": "@%p1 bra L; st.local.u32 [%r10], %r13; setp.gt.u32 %p2, %r1, 5;"
    "@%p2 bra M; st.local.u32 [%r10], %r0; M: ld.local.u32 %r20, [%r10]; {use} L:",
}


@pytest.mark.parametrize("body", OUTSIDE.values(), ids=OUTSIDE)
def test_nothing_else_is_known(body: str) -> None:
    assert vague(body.format(use=USE))


def test_old_stores_are_forgotten() -> None:
    more = "".join(f"st.shared.u32 [%r12], {n};" for n in range(overlay.KEPT))
    body = f"@%p1 bra L; st.local.u32 [%r10], %r13; {more} ld.local.u32 %r20, [%r10]; {USE} L:"
    assert vague(body)


def test_a_run_agrees() -> None:
    body = (
        f"{BRANCH} @%p1 bra L; st.local.u32 [%r10], %r13; ld.local.u32 %r20, [%r10];"
        f"{address('%rd4', base='%a1')} st.global.u32 [%rd4], %r20; L: ret;"
    )
    out = Kernel(body, {"a": np.ones(4, np.uint32), "out": ("u32", 32)}).values()
    np.testing.assert_array_equal(out, np.arange(32) & 7)
