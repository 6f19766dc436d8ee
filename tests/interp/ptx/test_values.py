"""Cutting and joining registers, lane by lane against a list of what each lane holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.spread import Spread
from xttir.interp.ptx.values import Partial, choose, either, join, take, widen_rows

Lanes = list[int | None]


def value(lanes: Lanes) -> Any:
    known = np.array([x is not None for x in lanes])
    data = np.array([0 if x is None else x for x in lanes], np.uint32)
    if known.all():
        return data[:1] if len(set(lanes)) == 1 else data
    return Partial(data, known) if known.any() else UNKNOWN


def lanes(value: Any, n: int) -> Lanes:
    if value is UNKNOWN:
        return [None] * n
    if isinstance(value, Spread):  # one of two: bounds of it are known
        assert not (value.low == value.high).any()
        return [None] * n
    data = value.data if isinstance(value, Partial) else value
    data = np.broadcast_to(data, (n,))
    known = value.known if isinstance(value, Partial) else np.ones(n, bool)
    return [int(x) if k else None for x, k in zip(data, known, strict=True)]


LANES = st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=6)


@given(LANES, st.data())
def test_take(a: Lanes, data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(a) - 1), min_size=1)))
    assert lanes(take(value(a), np.array(rows)), len(rows)) == [a[r] for r in rows]


@given(st.lists(LANES, min_size=2, max_size=3), st.randoms())
def test_join(parts: list[Lanes], random: Any) -> None:
    flat = [x for p in parts for x in p]
    order = list(range(len(flat)))
    random.shuffle(order)
    joined = join([value(p) for p in parts], [len(p) for p in parts], np.array(order))
    assert lanes(joined, len(flat)) == [flat[i] for i in order]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Lanes, Lanes, list[bool]]:
    a = draw(LANES)
    n = len(a)
    b = draw(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=n, max_size=n))
    return a, b, draw(st.lists(st.booleans(), min_size=n, max_size=n))


@given(pairs())
def test_choose_and_either(drawn: tuple[Lanes, Lanes, list[bool]]) -> None:
    a, b, mask = drawn
    n = len(a)
    chosen = choose(np.array(mask), value(a), value(b))
    assert lanes(chosen, n) == [x if m else y for m, x, y in zip(mask, a, b, strict=True)]
    both = either(value(a), value(b), n)
    assert lanes(both, n) == [x if x == y else None for x, y in zip(a, b, strict=True)]


@given(pairs())
def test_guarded_results_keep_the_other_lanes(drawn: tuple[Lanes, Lanes, list[bool]]) -> None:
    a, old, mask = drawn
    rows = np.flatnonzero(mask)
    if not rows.size:
        return
    new = value([a[r] for r in rows])
    out = widen_rows(new, rows, len(a), value(old))
    assert lanes(out, len(a)) == [x if m else y for m, x, y in zip(mask, a, old, strict=True)]
