"""mbarriers: the state machine as an H200 was seen to behave, tokens, traps, shapes of waits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, events, kinds
from xttir.analyses.events import Arrive, ExpectTx, Scope, Sem, Wait
from xttir.diagnostics import Policy
from xttir.interp.ptx.mbarrier_state import MBarriers

BAR = ".shared .align 8 .b64 bar; .shared .align 8 .b64 other;"
TEST = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], {p}; selp.u32 %r3, 1, 0, %p1;"


def state(count: int) -> MBarriers:
    m = MBarriers(1, 64, lambda: None)
    index = m.place(np.array([8]), np.array([0]), _raise)
    m.init(index, np.array([count]), _raise)
    return m


def _raise(kind: object, message: str) -> None:
    raise ValueError(f"{kind}: {message}")


class Barrier:
    def __init__(self, count: int):
        self.m = state(count)
        self.index = np.zeros(1, np.int64)

    def arrive(self, n: int = 1, expect: int = 0, drop: bool = False) -> None:
        self.m.update(self.index, n, expect, _raise, drop)

    def tx(self, n: int) -> None:
        self.m.update(self.index, 0, n, _raise)

    def passed(self, parity: int) -> bool:
        return bool(self.m.passed(self.index, np.array([parity]))[0])

    @property
    def phase(self) -> int:
        return int(self.m.phase[0])


def test_a_fresh_barrier_passes_parity_one() -> None:
    b = Barrier(1)
    assert b.passed(1)
    assert not b.passed(0)


def test_blocks_that_a_mask_leaves_out_have_no_barrier() -> None:
    found = state(1).place(np.array([[-1, 8]]), np.array([[0, 0]]), _raise)
    assert found.tolist() == [[-1, 0]]
    with pytest.raises(ValueError, match="not a multiple of 8"):
        state(1).place(np.array([12]), np.array([0]), _raise)


def test_a_phase_needs_arrivals_and_bytes() -> None:
    b = Barrier(2)
    b.arrive(expect=64)
    b.arrive()
    assert b.phase == 0
    b.tx(-48)
    assert b.phase == 0
    b.tx(-16)
    assert b.phase == 1


def test_bytes_may_come_before_they_are_announced() -> None:
    b = Barrier(1)
    b.tx(-64)
    b.arrive(expect=64)
    assert b.phase == 1


def test_an_announcement_that_settles_the_count_completes() -> None:
    b = Barrier(1)
    b.tx(-64)
    b.arrive()
    assert b.phase == 0
    b.tx(64)
    assert b.phase == 1


def test_too_many_arrivals_and_bytes_out_of_range_trap() -> None:
    with pytest.raises(ValueError, match="phase: 3 arrivals on a barrier that waits for 2"):
        Barrier(2).arrive(3)
    b = Barrier(1)
    b.arrive(expect=64)
    with pytest.raises(ValueError, match="phase"):
        b.arrive()
    with pytest.raises(ValueError, match="out of range"):
        Barrier(1).tx(1 << 20)


def test_a_drop_lowers_this_phase_and_later_ones() -> None:
    b = Barrier(2)
    b.arrive(drop=True)
    b.arrive()
    assert b.phase == 1
    b.arrive()
    assert b.phase == 2


def test_many_lanes_at_once_are_as_one_after_another() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        counts = random.integers(1, 5, 3)
        arrivals = random.integers(0, 3, 10)
        expects = random.integers(0, 2, 10) * 16 - random.integers(0, 2, 10) * 16
        index = random.integers(0, 3, 10)
        results = []
        for together in (True, False):
            m = MBarriers(1, 64, lambda: None)
            found: list[str] = []

            def report(kind: object, message: str, found: list[str] = found) -> None:
                found.append(str(kind))

            where = m.place(np.array([0, 8, 16]), np.zeros(3, np.int64), report)
            m.init(where, counts, report)
            if together:
                m.update(index, arrivals, expects, report)
            else:
                for k in range(10):
                    m.update(index[k : k + 1], arrivals[k : k + 1], expects[k : k + 1], report)
            state = (m.phase[:3].tolist(), m.pending[:3].tolist(), m.tx[:3].tolist(), bool(found))
            results.append(state)
        assert results[0] == results[1]


# Instructions -------------------------------------------------------------------------------------


def _out(body: str, threads: int = 32, **more: object) -> list[int]:
    store = "mad.wide.u32 %rd1, %r0, 4, %a0; st.global.u32 [%rd1], %r3; ret;"
    kernel = Kernel(f"{BAR} {body} {store}", {"out": ("u32", threads)}, threads=threads)
    outs = kernel.everywhere()
    assert all(np.array_equal(outs[0], o) for o in outs[1:])
    return outs[0].tolist()


INIT = (
    "setp.ne.u32 %p8, %r0, 0; @%p8 bra ready; mbarrier.init.shared::cta.b64 [bar], {n}; ready:"
    "bar.sync 0;"
)
SHAPES = {
    "two labels": (
        "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @%p1 bra done; bra again;"
        "done:"
    ),
    "straight": "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra again;",
    "selected": (
        "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; selp.u32 %r9, 1, 0, %p1;"
        "setp.eq.u32 %p2, %r9, 0; @%p2 bra again;"
    ),
    "unrolled": (
        "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @%p1 bra done;"
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @%p1 bra done;"
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, 1000; @!%p1 bra again; done:"
    ),
    "sleeping": (
        "again: mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0; @%p1 bra done;"
        "nanosleep.u32 20; bra again; done:"
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_loop_round_a_wait_is_one_wait(shape: str) -> None:
    body = (
        f"{BAR} {INIT.format(n=1)} setp.eq.u32 %p3, %r0, 33; @!%p3 bra waits;"
        f"mbarrier.arrive.shared::cta.b64 _, [bar]; waits: {SHAPES[shape]} ret;"
    )
    kernel = Kernel(body, {}, threads=64)
    found = kernel.trace()
    assert not found.blocked
    waits = events(found, Wait)
    assert sum(w.lanes.size for w in waits) == 64
    assert not any(w.peek for w in waits)
    assert not kernel.run("random:3").faults


def test_a_wait_that_is_tried_once_is_a_peek() -> None:
    body = f"{BAR} {INIT.format(n=1)} {TEST.format(p=1)} ret;"
    (wait,) = events(Kernel(body, {}).trace(), Wait)
    assert wait.peek
    assert _out(INIT.format(n=1) + TEST.format(p=1)) == [1] * 32
    assert _out(INIT.format(n=1) + TEST.format(p=0)) == [0] * 32


def test_a_loop_that_does_something_is_no_wait() -> None:
    body = (
        f"{BAR} {INIT.format(n=1)} setp.ne.u32 %p7, %r0, 0; @%p7 bra out;"
        "mbarrier.arrive.shared::cta.b64 _, [bar];"
        "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @%p1 bra out;"
        "st.shared.u32 [other], %r0; bra again; out: ret;"
    )
    waits = events(Kernel(body.replace("bra again; out", "out"), {}).trace(), Wait)
    assert waits[0].peek


def test_tokens() -> None:
    body = (
        f"{INIT.format(n=32)} mbarrier.arrive.shared::cta.b64 %rd1, [bar];"
        "mbarrier.pending_count.b64 %r3, %rd1;"
        "again: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1; @!%p1 bra again;"
    )
    store = "mad.wide.u32 %rd1, %r0, 4, %a0; st.global.u32 [%rd1], %r3; ret;"
    kernel = Kernel(f"{BAR} {body} {store}", {"out": ("u32", 32)})
    assert kernel.values().tolist() == list(range(32, 0, -1))
    (wait,) = events(kernel.trace(), Wait)
    assert wait.phase.tolist() == [0] * 32


def test_events_carry_counts_bytes_and_scopes() -> None:
    body = (
        f"{BAR} {INIT.format(n=3)} setp.ne.u32 %p7, %r0, 0; @%p7 bra out;"
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 32;"
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;"
        "mbarrier.arrive.release.cluster.shared::cta.b64 _, [bar], 2;"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; out: ret;"
    )
    found = Kernel(body, {}).trace()
    first, second = events(found, Arrive)
    assert (first.sem, first.scope, int(first.count[0])) == (Sem.RELEASE, Scope.CLUSTER, 2)
    assert (int(second.expect[0]), second.scope) == (16, Scope.CTA)
    (expect,) = events(found, ExpectTx)
    assert int(expect.bytes[0]) == 32
    assert expect.address.shape == (1, 1)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [other];", "lifetime"),
        ("mbarrier.arrive.shared::cta.b64 _, [bar], 9;", "phase"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;", "lifetime"),
        ("mbarrier.arrive.shared::cta.b64 _, [bar+4];", "out-of-bounds"),
        ("mbarrier.init.shared::cta.b64 [other], 0;", "undefined"),
        ("mbarrier.inval.shared::cta.b64 [bar]; mbarrier.arrive.shared::cta.b64 _, [bar];",
         "lifetime"),
    ],
)  # fmt: skip
def test_misuse(statement: str, kind: str) -> None:
    body = f"{BAR} {INIT.format(n=1)} setp.ne.u32 %p7, %r0, 0; @%p7 bra out; {statement} out: ret;"
    assert kind in kinds(Kernel(body, {}).run())


@pytest.mark.parametrize("parity", [1, 3, -1])
def test_the_lowest_bit_of_a_parity_is_looked_at(parity: int) -> None:
    """As on an H200; compilers widen a bit with its sign."""
    found = Kernel(f"{BAR} {INIT.format(n=1)} {TEST.format(p=parity)} ret;", {}).trace()
    (wait,) = events(found, Wait)
    assert set(wait.parity.tolist()) == {1}
    assert [f.policy for f in found.faults] == [Policy.STRICT] * (parity != 1)


def test_a_wait_that_never_returns_is_a_deadlock_that_says_what_is_missing() -> None:
    body = f"{BAR} {INIT.format(n=3)} {SHAPES['straight']} ret;"
    found = Kernel(body, {}).trace()
    (blocked,) = found.blocked
    assert blocked.lanes.size == 32
    assert "lacks 3 arrivals" in blocked.what
    assert kinds(Kernel(body, {}).run()) == ["deadlock"]


def test_remote_arrivals() -> None:
    body = (
        f"{BAR} mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; {INIT.format(n=32)}"
        "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned;"
        "barrier.cluster.wait.aligned; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r5, %r4, %r2;"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];"
        f"{SHAPES['straight']} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"
    )
    kernel = Kernel(body, {}, blocks=4, cluster=2)
    for schedule in ("first", "adversarial", "random:1"):
        assert not kernel.run(schedule).faults
    (arrive,) = events(kernel.trace(), Arrive)
    assert arrive.cta[[0, 32, 64, 96], 0].tolist() == [1, 0, 3, 2]
