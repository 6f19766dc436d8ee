"""Shuffles, votes, match, redux and elect, lane by lane; partial masks; lanes that do not come."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.ptx.kernels import Kernel, address, kinds

RANDOM = np.random.default_rng(3)
A = RANDOM.integers(0, 4, 64).astype(np.uint32)


def _run(statement: str, a: np.ndarray = A, threads: int = 64) -> np.ndarray:
    body = (
        f"{address('%rd0')} ld.global.u32 %r1, [%rd0]; mov.u32 %r3, 0; {statement}"
        f"{address('%rd1', base='%a1')} st.global.u32 [%rd1], %r3; ret;"
    )
    return Kernel(body, {"a": a, "out": ("u32", threads)}, threads=threads).values()


def _source(kind: str, lane: int, b: int, width: int) -> int:
    """The CUDA guide's __shfl_*_sync with `width`."""
    base = lane - lane % width
    if kind == "idx":
        return base + b % width
    if kind == "up":
        return lane - b if lane - b >= base else lane
    if kind == "down":
        return lane + b if lane + b < base + width else lane
    return lane ^ b if (lane ^ b) < base + width else lane


@pytest.mark.parametrize("kind", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [8, 32])
@pytest.mark.parametrize("b", [0, 1, 5, 9])
def test_shuffles(kind: str, width: int, b: int) -> None:
    clamp = ((32 - width) << 8) | (0 if kind == "up" else 0x1F)
    out = _run(f"shfl.sync.{kind}.b32 %r3|%p1, %r0, {b}, {clamp}, 0xffffffff;")
    wanted = [w * 32 + _source(kind, lane, b, width) for w in range(2) for lane in range(32)]
    assert out.tolist() == wanted


def test_a_shuffle_says_whether_the_source_was_in_range() -> None:
    out = _run("shfl.sync.down.b32 %r4|%p1, %r0, 30, 0x1f, -1; selp.u32 %r3, 1, 0, %p1;")
    assert out.tolist() == ([1] * 2 + [0] * 30) * 2


def test_votes() -> None:
    flags = (A > 1).reshape(2, 32)
    prepare = "setp.gt.u32 %p1, %r1, 1;"
    out = _run(f"{prepare} vote.sync.ballot.b32 %r3, %p1, 0xffffffff;")
    wanted = [sum(int(f) << k for k, f in enumerate(row)) for row in flags for _ in range(32)]
    assert out.tolist() == wanted
    for name, function in {"any": np.any, "all": np.all}.items():
        out = _run(f"{prepare} vote.sync.{name}.pred %p2, %p1, -1; selp.u32 %r3, 1, 0, %p2;")
        assert out.tolist() == [int(function(row)) for row in flags for _ in range(32)]


def test_match_and_redux() -> None:
    rows = A.reshape(2, 32)
    out = _run("match.any.sync.b32 %r3, %r1, -1;")
    wanted = [
        sum(1 << k for k in range(32) if row[k] == row[lane]) for row in rows for lane in range(32)
    ]
    assert out.tolist() == wanted
    assert _run("redux.sync.add.u32 %r3, %r1, -1;").tolist() == [
        int(row.sum()) for row in rows for _ in range(32)
    ]
    assert set(_run("redux.sync.max.s32 %r3, %r1, -1;")) == {3}


def test_elect_takes_the_lowest_lane_of_the_mask() -> None:
    out = _run("elect.sync %r4|%p1, -1; selp.u32 %r3, 1, 0, %p1; mad.lo.u32 %r3, %r4, 10, %r3;")
    assert out.tolist() == ([1] + [0] * 31) * 2
    body = "setp.ge.u32 %p3, %r0, 4; @!%p3 bra done; elect.sync %r3|%p1, 0xfffffff0; done:"
    assert _run(body, threads=32)[4:].tolist() == [4] * 28


def test_part_of_a_warp_may_shuffle_by_itself() -> None:
    body = (
        "setp.lt.u32 %p3, %r0, 16; @%p3 bra low; shfl.sync.bfly.b32 %r3, %r0, 1, 0x1f, 0xffff0000;"
        "bra done; low: shfl.sync.bfly.b32 %r3, %r0, 2, 0x1f, 0xffff; done:"
    )
    wanted = [lane ^ 2 for lane in range(16)] + [lane ^ 1 for lane in range(16, 32)]
    assert _run(body, threads=32).tolist() == wanted


def test_lanes_wait_for_the_mates_that_their_mask_names() -> None:
    """Two ways to the same shuffle: the lanes of both meet there."""
    body = (
        "setp.lt.u32 %p3, %r0, 16; mov.u32 %r4, %r0; @%p3 bra on; add.u32 %r4, %r4, 100;"
        "mov.u32 %r5, 7; on: shfl.sync.bfly.b32 %r3, %r4, 16, 0x1f, -1;"
    )
    wanted = [lane + 116 for lane in range(16)] + list(range(16))
    assert _run(body, threads=32).tolist() == wanted


def test_lanes_that_never_come_are_divergence() -> None:
    body = (
        "setp.lt.u32 %p3, %r0, 16; @%p3 bra low; shfl.sync.bfly.b32 %r3, %r0, 1, 0x1f, -1;"
        "bra done; low: shfl.sync.bfly.b32 %r3, %r0, 2, 0x1f, -1; done: ret;"
    )
    assert "divergence" in kinds(Kernel(body, {"out": ("u32", 32)}).run())
    assert "divergence" in kinds(Kernel(body, {"out": ("u32", 32)}).trace())


def test_unknown_flags_decide_only_where_known_ones_do_not() -> None:
    from xttir.analyses.events import Access

    body = (
        "ld.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r0, 0;"
        "or.pred %p3, %p1, %p2; vote.sync.any.pred %p4, %p3, -1; @!%p4 bra done;"
        "st.global.u32 [%a1], %r0; done: ret;"
    )
    kernel = Kernel(body, {"a": A, "out": ("u32", 4)}, unknown=("a",))
    last = [e for e in kernel.trace().events if isinstance(e, Access)][-1]
    assert not last.footprints[0].may
