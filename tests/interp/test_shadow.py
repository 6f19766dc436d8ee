"""Race shadows against an oracle that compares every pair of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xttir.interp.access import Flat, Piece, Strided
from xttir.interp.launch import Storage
from xttir.interp.shadow import Shadow, Tags

ELEMENTS, PROGRAMS = 24, 4


@dataclass(frozen=True)
class Step:
    """One access by all programs of a batch at once: verb, byte offsets (b, lanes) and size."""

    verb: str
    offsets: tuple[tuple[int, ...], ...]
    itemsize: int
    strided: tuple[tuple[int, ...], int] | None


@st.composite
def steps(draw: st.DrawFn) -> Step:
    verb = draw(st.sampled_from(["read", "write", "atomic"]))
    itemsize = draw(st.sampled_from([2, 4, 4, 4, 8]))
    count = ELEMENTS * 4 // itemsize
    lanes = draw(st.integers(1, 4))
    if draw(st.booleans()):
        stride = draw(st.integers(0, 3))
        room = count - stride * (lanes - 1) - 1
        if draw(st.booleans()):
            first, step = draw(st.integers(0, room)), draw(st.integers(0, 5))
            bases = tuple(min(first + step * p, room) for p in range(PROGRAMS))
        else:
            bases = tuple(draw(st.integers(0, room)) for _ in range(PROGRAMS))
        rows = tuple(tuple((b + stride * k) * itemsize for k in range(lanes)) for b in bases)
        return Step(verb, rows, itemsize, (tuple(b * itemsize for b in bases), stride * itemsize))
    where = st.integers(0, count - 1)
    rows = tuple(tuple(draw(where) * itemsize for _ in range(lanes)) for _ in range(PROGRAMS))
    return Step(verb, rows, itemsize, None)


def piece_of(step: Step) -> Piece:
    lanes = len(step.offsets[0])
    if step.strided is not None:
        bases, stride = step.strided
        return Strided(np.array(bases, np.int64), (stride,), (lanes,), step.itemsize, None, (0,))
    at = np.array(step.offsets, np.int64)
    return Flat(at.reshape(-1), np.ones(at.shape, bool), step.itemsize)


def oracle(program: list[Step]) -> set[int]:
    """Granules (4 bytes) on which two programs conflict."""
    touched: list[tuple[int, int, str]] = []
    for step in program:
        for pid, row in enumerate(step.offsets):
            for offset in row:
                last = offset + step.itemsize - 1
                for byte in range(offset, last + 1):
                    touched.append((pid, byte, step.verb))
    bad: set[int] = set()
    by_byte: dict[int, set[tuple[int, str]]] = {}
    for pid, byte, verb in touched:
        by_byte.setdefault(byte, set()).add((pid, verb))
    for byte, users in by_byte.items():
        for p, a in users:
            for q, b in users:
                if p != q and _races(a, b):
                    bad.add(byte)
    return bad


def _races(a: str, b: str) -> bool:
    if a == "atomic" and b == "atomic":
        return False
    return "write" in (a, b) or ("atomic" in (a, b) and a != b)


@settings(max_examples=400, deadline=None)
@given(st.lists(steps(), min_size=1, max_size=5))
def test_finds_a_race_exactly_where_there_is_one(program: list[Step]) -> None:
    storage = Storage(np.zeros(ELEMENTS * 4, np.uint8), 0)
    shadow = Shadow(storage, 4, Tags(PROGRAMS, len(program), 0), None)
    pids = np.arange(PROGRAMS, dtype=np.int64)
    found: set[int] = set()

    def report(what, part, lanes, tags, where) -> None:
        size = shadow.tags.dtype.itemsize
        at = np.broadcast_to(part.offsets(), lanes.shape)[lanes] // size * shadow.granule
        for first in at.tolist():
            found.update(range(first, first + shadow.granule))
        theirs = shadow.tags.program(np.broadcast_to(tags, lanes.shape)[lanes])
        mine = np.broadcast_to(part.spread(pids), lanes.shape)[lanes]
        assert (theirs != mine).all()

    for site, step in enumerate(program):
        getattr(shadow, step.verb)(piece_of(step), pids, site, report)
    expected = oracle(program)
    # A granule is reported as a whole; it may be coarser than one conflicting byte.
    assert expected <= found or not expected
    assert bool(found) == bool(expected) or _coarse(program, found, expected)


def _coarse(program: list[Step], found: set[int], expected: set[int]) -> bool:
    """Whether accesses narrower than the first granule explain a report beyond the bytes."""
    return bool(found) and not expected and any(s.itemsize < 4 for s in program)


def test_tags_hold_program_epoch_and_site() -> None:
    tags = Tags(programs=70000, sites=9, epoch_bits=5)
    made = tags.make(np.array([0, 69999]), 8, np.array([31, 3]))
    assert made.min() > 0
    assert tags.program(made).tolist() == [0, 69999]
    assert tags.site(made).tolist() == [8, 8]
    assert tags.epoch(made).tolist() == [31, 3]
