"""The last thread to take a ticket has everything that the others wrote before theirs."""

from __future__ import annotations

import pytest

from tests.interp.ptx.kernels import Kernel
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Verdict

BODY = (
    ".shared .align 4 .b8 tile[256]; .shared .align 4 .b8 count[4];"
    "shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r3, %r1, %r2; mov.u32 %r4, count;"
    "setp.ne.u32 %p1, %r0, 0; @%p1 bra ready; st.shared.u32 [%r4], 0; ready: bar.sync 0;"
    "st.shared.u32 [%r3], %r0; atom.ORDER.cta.shared.OP.u32 %r5, [%r4], VALUE;"
    "setp.ne.u32 %p2, %r5, LAST; @%p2 bra end; ld.shared.u32 %r6, [tile+4];"
    "st.global.u32 [%a0], %r6; end: ret;"
)


@pytest.mark.parametrize(
    ("op", "value", "last", "order", "right"),
    [
        ("add", 1, 63, "acq_rel", True),
        ("inc", 63, 63, "acq_rel", True),
        ("add", 1, 62, "acq_rel", False),
        ("inc", 31, 31, "acq_rel", False),
        ("add", 1, 63, "relaxed", False),
    ],
)
def test_a_counter_that_a_plain_store_sets(op: str, value: int, last: int, order: str, right: bool):
    body = BODY.replace("OP", op).replace("VALUE", str(value)).replace("LAST", str(last))
    kernel = Kernel(body.replace("ORDER", order), {"out": ("u32", 1)}, threads=64)
    assert (verify_trace(kernel.trace()).verdict is Verdict.VERIFIED) is right


AGAIN = (
    "bar.sync 0; atom.relaxed.cta.shared.add.u32 %r5, [%r4], 1; FIRST setp.ne.u32 %p1, %r0, 0;"
    "@%p1 bra set; STORE [%r4], 64; set: SECOND"
)


@pytest.mark.parametrize("store", ["st.shared.u32", "st.relaxed.cta.shared.u32"])
@pytest.mark.parametrize(
    ("first", "second", "right"),
    [("bar.sync 0;", "bar.sync 0;", True), ("", "bar.sync 0;", False), ("bar.sync 0;", "", False)],
    ids=["in order", "not after the first round", "not before the second"],
)
def test_a_counter_that_is_set_back_between_two_rounds(
    store: str, first: str, second: str, right: bool
):
    again = AGAIN.replace("FIRST", first).replace("SECOND", second).replace("STORE", store)
    body = BODY.replace("ready: bar.sync 0;", "ready: " + again)
    body = body.replace("OP", "add").replace("VALUE", "-1").replace("LAST", "1")
    kernel = Kernel(body.replace("ORDER", "acq_rel"), {"out": ("u32", 1)}, threads=64)
    assert (verify_trace(kernel.trace()).verdict is Verdict.VERIFIED) is right
