"""Addresses against their digits, by all values of small symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xttir.analyses.sizes.digits import Side, equal_by_digits
from xttir.analyses.sizes.solver import Fact
from xttir.analyses.sizes.terms import (
    And,
    AtMost,
    Cond,
    Symbol,
    Term,
    Zero,
    as_term,
    less,
    rename,
    term_of,
)

N, M = Symbol("n", 1, 4, True), Symbol("m", 1, 3, True)
ROW, COLUMN, LANE = Symbol("row", 0, 2), Symbol("column", 0, 3), Symbol("lane", 0, 1)
TWINS = {s: Symbol(s.name + "'", s.low, s.high) for s in (ROW, COLUMN, LANE)}
LAUNCH = {N: 4, M: 3}


ALL = (N, M, ROW, COLUMN, LANE, *TWINS.values())
GRID = dict(
    zip(ALL, np.meshgrid(*(np.arange(s.low, s.high + 1) for s in ALL), sparse=True), strict=True)  # pyright: ignore
)
"""All values of the symbols at once."""


def number(term: Term) -> Any:
    return sum(
        (c * math.prod((GRID[a] for a in m), start=np.int64(1)) for m, c in term.parts.items()),  # pyright: ignore
        np.int64(0),
    )


def holds(condition: Cond) -> Any:
    if isinstance(condition, bool):
        return np.bool_(condition)
    if isinstance(condition, AtMost):
        return number(condition.term) <= 0
    if isinstance(condition, Zero):
        return number(condition.term) == 0
    assert isinstance(condition, And)
    return reduce(np.logical_and, map(holds, condition.parts))


def together(conditions: Sequence[Cond]) -> Any:
    return reduce(np.logical_and, map(holds, conditions), np.bool_(True))


def by_trial(conditions: Sequence[Cond]) -> list[Fact] | None:
    """A prover that tries all values."""
    return None if np.any(together(conditions)) else []


def twin(term: Term) -> Term:
    return rename(term, lambda a: TWINS.get(a) if isinstance(a, Symbol) else None, {})


def sides(offset: Term, bounds: list[tuple[Term, Term]]) -> tuple[Side, Side]:
    here = tuple(less(a, b) for a, b in bounds)
    there = tuple(less(twin(a), b) for a, b in bounds)
    return Side(here, offset), Side(there, twin(offset))


def check(pair: tuple[Side, Side]) -> list[Cond]:
    """The digits of both sides; they are the same just where the addresses are."""
    same, used = equal_by_digits(pair, True, LAUNCH, by_trial)
    assert not used
    inside = together([c for s in pair for c in s.conditions])
    meet = number(pair[0].offset) == number(pair[1].offset)
    assert np.all((meet == together(same)) | ~inside)
    return same


row, column, lane, n = (term_of(s) for s in (ROW, COLUMN, LANE, N))


def test_a_row_and_a_column_that_is_in_it() -> None:
    assert len(check(sides(n * row + column, [(column, n)]))) == 2


def test_a_block_of_columns() -> None:
    at = column * 2 + lane
    assert len(check(sides(n * row + at, [(at, n)]))) == 3


def test_a_column_that_may_be_in_the_next_row() -> None:
    assert len(check(sides(n * row + column, [(column, n + 1)]))) == 1


@given(st.lists(st.integers(-3, 9), min_size=3, max_size=3), st.integers(0, 4), st.booleans())
def test_any_strides(strides: list[int], low: int, bounded: bool) -> None:
    offset = as_term(low)
    for stride, symbol in zip(strides, (row, column, lane), strict=True):
        offset = offset + symbol * stride
    check(sides(offset + (n * row if bounded else 0), [(column, n)] if bounded else []))


@pytest.mark.parametrize("alike", [True, False])
def test_two_accesses_are_both_looked_at(alike: bool) -> None:
    """The other side's columns go on past the row."""
    one, _ = sides(n * row + column, [(column, n)])
    other = Side((), twin(n * row + column))
    same, _ = equal_by_digits((one, other), alike, LAUNCH, by_trial)
    assert len(same) == (2 if alike else 1)
