"""Tensor memory behind a vote on data: a softmax that rescales what it has only when some row needs
it. Both ways are looked at; what is not the same for a warp, or not waited for, is named."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.async_kernels import AsyncKernel
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Unsupported, Verdict

BODY = """
    .shared .align 16 .b8 at[16];
    mov.u32 %r7, at;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;
    allocated: bar.sync 0;
    ld.shared.u32 %r9, [%r7];
    shr.u32 %r10, %r0, 5; shl.b32 %r10, %r10, 21; add.u32 %r11, %r9, %r10;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r0};
    INFLIGHT
    mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd1, %a0; ld.global.u32 %r20, [%rd1];
    setp.gt.u32 %p2, %r20, 3;
    VOTE
    @!%p3 bra same;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r11];
    tcgen05.wait::ld.sync.aligned;
    add.u32 %r21, %r21, 1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11+OTHER], {%r21};
    LAST
    same:
    AFTER
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}, [%r11];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd2, %a1; st.global.u32 [%rd2], %r22;
    bar.sync 0;
    @%p1 bra end;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
    end: ret;
"""
WAIT = "tcgen05.wait::st.sync.aligned;"
USUAL = {"INFLIGHT": WAIT, "VOTE": "vote.sync.any.pred %p3, %p2, -1;", "OTHER": "0", "LAST": WAIT}


def body(**changes: str) -> str:
    out = BODY
    for name, text in {**USUAL, "AFTER": "", **changes}.items():
        out = out.replace(name, text)
    return out


def kernel(text: str) -> AsyncKernel:
    data = np.arange(128, dtype=np.uint32)
    return AsyncKernel(text, {"data": data, "out": ("u32", (128,))}, arch="sm_100a")


VOTES = [
    USUAL["VOTE"],
    "vote.sync.ballot.b32 %r30, %p2, -1; setp.ne.u32 %p3, %r30, 0;",
    "redux.sync.max.u32 %r30, %r20, -1; setp.gt.u32 %p3, %r30, 3;",
    "barrier.cta.red.or.pred %p3, 0, %p2;",
]


@pytest.mark.parametrize("vote", VOTES)
def test_a_vote_may_decide(vote: str) -> None:
    found = kernel(body(VOTE=vote))
    assert verify_trace(found.trace()).verdict is Verdict.VERIFIED
    expected = [t + 1 for t in range(128)]
    for schedule in ("first", "adversarial"):
        assert found.values(schedule=schedule).tolist() == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"VOTE": "mov.pred %p3, %p2;"}, "not seen to be the same for all lanes"),
        ({"VOTE": "vote.sync.ballot.b32 %r30, %p2, -1; shr.u32 %r30, %r30, %r10;"
          "setp.ne.u32 %p3, %r30, %laneid;"}, "not seen to be the same for all lanes"),
        ({"LAST": ""}, "is not followed by tcgen05.wait::st"),
        ({"INFLIGHT": ""}, "have not been waited for"),
        ({"LAST": WAIT + "bar.sync 1;"}, "barrier.sync"),
    ],
)  # fmt: skip
def test_what_else_is_behind_it_is_named(change: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match="depends on data") as caught:
        kernel(body(**change)).trace()
    assert reason in caught.value.hint


def test_what_one_way_does_must_be_over_before_the_memory_is_freed() -> None:
    """Nothing but the way itself is between the vote and the end of the allocation."""
    text = body()
    last = text[text.index("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}") :]
    text = text.replace(last, last[last.index("bar.sync 0;") :])
    assert verify_trace(kernel(text).trace()).verdict is Verdict.VERIFIED
    text = text.replace("bar.sync 0;\n    @%p1 bra end;", "@%p1 bra end;")
    found = verify_trace(kernel(text).trace())
    assert Kind.LIFETIME in {f.kind for f in found.faults}
