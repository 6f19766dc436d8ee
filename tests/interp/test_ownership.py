"""The cheap race check against the exact one: same verdict, whatever the accesses."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interp.test_shadow import ELEMENTS, PROGRAMS, Step, oracle, piece_of, steps
from xttir.interp.access import Strided
from xttir.interp.launch import Storage
from xttir.interp.ownership import Intervals, Ownership
from xttir.interp.shadow import Shadow, Tags


@settings(max_examples=400, deadline=None)
@given(st.lists(steps(), min_size=1, max_size=5), st.integers(1, PROGRAMS))
def test_same_verdict_as_the_exact_shadow(program: list[Step], size: int) -> None:
    storage = Storage(np.zeros(ELEMENTS * 4, np.uint8), 0)
    found: list[str] = []

    def report(what, part, lanes, tags, where) -> None:
        found.append(what)

    owner: Ownership | None = Ownership()
    shadow = Shadow(storage, 4, Tags(PROGRAMS, len(program), 0), None)
    for batch, start in enumerate(range(0, PROGRAMS, size)):
        pids = np.arange(start, min(start + size, PROGRAMS), dtype=np.int64)
        for site, step in enumerate(program):
            piece = piece_of(_part(step, start, pids.size))
            if owner is not None and owner.admit(step.verb, piece, pids, site, batch, pids):
                continue
            if owner is not None:
                owner.replay(shadow, report)
                owner = None
            getattr(shadow, step.verb)(piece, pids, site, report)
    if oracle(program):
        assert found
    elif all(s.itemsize >= 4 for s in program):
        assert not found


def _part(step: Step, start: int, count: int) -> Step:
    rows = step.offsets[start : start + count]
    strided = step.strided
    if strided is not None:
        strided = (strided[0][start : start + count], strided[1])
    return Step(step.verb, rows, step.itemsize, strided)


def test_rows_of_their_own_need_no_shadow() -> None:
    owner = Ownership()
    for batch in range(3):
        pids = np.arange(4, dtype=np.int64) + 4 * batch
        for column in (0, 8):
            piece = Strided(pids * 64 + column, (4,), (2,), 4, None, (0,))
            assert owner.admit("write", piece, pids, 0, batch, pids)
            assert owner.admit("read", piece, pids, 1, batch, pids)
    everywhere = Strided(np.zeros(4, np.int64), (4,), (2,), 4, None, (0,))
    assert not owner.admit("read", everywhere, pids, 2, 2, pids)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=12))
def test_dense_writes_make_memory_valid(writes: list[tuple[int, int]]) -> None:
    valid, expected = np.zeros(56, bool), np.zeros(56, bool)
    intervals = Intervals()
    for first, lanes in writes:
        base = np.array([first * 4], np.int64)
        assert intervals.add(Strided(base, (4,), (lanes,), 4, None, (0,)))
        expected[first * 4 : (first + lanes) * 4] = True
    after = intervals.settle(valid)
    if after is None:
        assert expected.all()
    else:
        assert (after == expected).all()


def test_gaps_are_not_dense() -> None:
    assert not Intervals().add(Strided(np.zeros(1, np.int64), (8,), (4,), 4, None, (0,)))
