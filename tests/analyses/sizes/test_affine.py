"""Adding up inequalities: what is called impossible has no values, and what should be found is."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xttir.analyses.sizes.affine import impossible
from xttir.analyses.sizes.solver import Fact, substitute
from xttir.analyses.sizes.terms import (
    Cond,
    Symbol,
    Term,
    as_term,
    at_most,
    choose,
    either,
    equal,
    floor_div,
    less,
    modulo,
    negation,
    rename,
    term_of,
)

SYMBOLS = (
    Symbol("p", 0, 3),
    Symbol("p'", 0, 3),
    Symbol("lane0", 0, 2),
    Symbol("lane0'", 0, 2),
    Symbol("n", 1, 3, True),
)
A, B, LANE, OTHER, N = map(term_of, SYMBOLS)


@st.composite
def terms(draw: Any, depth: int = 2) -> Term:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([A, B, LANE, OTHER, N, as_term(draw(st.integers(-4, 4)))]))
    x, y = draw(terms(depth - 1)), draw(terms(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "choose"]))
    if kind == "+":
        return x + y
    if kind == "-":
        return x - y
    if kind == "*":
        return x * y
    if kind == "choose":
        return choose(at_most(x, y), x, y)
    divisor = draw(st.sampled_from([N, as_term(2), as_term(3)]))
    return floor_div(x, divisor) if kind == "//" else modulo(x, divisor)


@st.composite
def conditions(draw: Any) -> Cond:
    x, y = draw(terms()), draw(terms())
    made = draw(st.sampled_from([at_most, less, equal]))(x, y)
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return negation(made)
    if kind == 1:
        return either(made, draw(st.sampled_from([less, equal]))(draw(terms(1)), draw(terms(1))))
    return made


def happens(asked: list[Cond]) -> bool:
    """Whether some values make all conditions true."""
    ranges = [range(s.low or 0, (s.high or 0) + 1) for s in SYMBOLS]
    return any(
        all(substitute(c, dict(zip(SYMBOLS, values, strict=True))) is True for c in asked)
        for values in product(*ranges)
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(conditions(), min_size=1, max_size=4), st.integers(0, 2))
def test_what_is_impossible_never_happens(asked: list[Cond], given_facts: int) -> None:
    facts = [Fact(f"fact {n}", c) for n, c in enumerate(asked[:given_facts])]
    found = impossible(asked[given_facts:], facts)
    if found is not None:
        used = [f.condition for f in found]
        assert not happens([*used, *asked[given_facts:]]), (found, asked)


TWINS = dict(zip(SYMBOLS[::2], SYMBOLS[1::2], strict=False))


@st.composite
def addresses(draw: Any, depth: int = 3) -> Term:
    """Of a program and a lane, with quotients of quotients."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        number = as_term(draw(st.integers(1, 4)))
        return draw(st.sampled_from([A, LANE, N, number, A * 3 + LANE, A * N + LANE]))
    x, y = draw(addresses(depth - 1)), draw(addresses(depth - 1))
    kind = draw(st.sampled_from(["+", "+", "*", "//", "%"]))
    if kind in "+*":
        return x + y if kind == "+" else x * y
    divisor = draw(st.sampled_from([N, as_term(2), as_term(3), N * 2]))
    return floor_div(x, divisor) if kind == "//" else modulo(x, divisor)


@settings(max_examples=60, deadline=None)
@given(addresses(), st.lists(conditions(), max_size=2))
def test_programs_that_are_told_apart_never_meet(address: Term, more: list[Cond]) -> None:
    twin = rename(address, lambda a: TWINS.get(a) if isinstance(a, Symbol) else None, {})
    asked = [*more, equal(address, twin), negation(equal(A, B))]
    if impossible(asked, []) is not None:
        assert not happens(asked), asked


@pytest.mark.parametrize("mixed", [False, True])
def test_an_id_of_three_digits(mixed: bool) -> None:
    """((p // (M*K)) * M + (p // K) % M) * K + p % K is p; with `% M` in the end it is not."""
    digits = [
        (floor_div(p, M * K) * M + modulo(floor_div(p, K), M)) * K + modulo(p, M if mixed else K)
        for p in (PID, TWIN)
    ]
    assert (impossible([equal(*digits), APART], []) is None) == mixed


def test_what_is_equal_stays_in_its_bounds() -> None:
    """32 * p + lane tells programs apart, also where only the sum is known to be equal."""
    lanes = [term_of(Symbol(n, 0, 31)) for n in ("lane0", "lane0'")]
    at = [PID * 32 + lanes[0], TWIN * 32 + lanes[1]]
    rows = [less(at[0], M), less(at[1], M)]
    assert impossible([*rows, equal(at[0], at[1]), APART], []) is not None


def symbol(name: str, low: int | None = 1, shared: bool = True) -> Term:
    return term_of(Symbol(name, low, (1 << 31) - 1, shared))


M, K, STRIDE = symbol("M"), symbol("K"), symbol("stride")
PID, TWIN = symbol("pid", 0, False), symbol("pid'", 0, False)
LANE_A, LANE_B = symbol("lane0", 0, False), symbol("lane0'", 0, False)
ROWS = [less(LANE_A, K), less(LANE_B, K), equal(PID * STRIDE + LANE_A, TWIN * STRIDE + LANE_B)]
APART = negation(equal(PID, TWIN))


@pytest.mark.parametrize("wide", [True, False])
def test_rows_are_told_apart_by_their_stride(wide: bool) -> None:
    facts = [Fact("rows do not overlap", at_most(K, STRIDE))] if wide else []
    found = impossible([*ROWS, APART], facts)
    assert (found == facts) if wide else found is None


@pytest.mark.parametrize("less_by", [0, 1])
def test_two_digits_of_a_program_id(less_by: int) -> None:
    """(pid // K) * S + (pid % K): one element for each program if S >= K."""
    address = [floor_div(p, K) * STRIDE + modulo(p, K) for p in (PID, TWIN)]
    facts = [Fact("wide", at_most(K, STRIDE + less_by))]
    found = impossible([equal(*address), APART], facts)
    assert (found is not None) == (less_by == 0)


@pytest.mark.parametrize("bound", [0, 1])
def test_offsets_stay_inside(bound: int) -> None:
    rows = [less(PID, M), at_most(LANE_A, K - 1 + bound)]
    asked = [*rows, at_most(M * K, PID * K + LANE_A)]
    assert (impossible(asked, []) is not None) == (bound == 0)


@pytest.mark.parametrize("slack", [0, 1])
def test_a_quotient_is_below_the_quotient_of_its_bound(slack: int) -> None:
    """4 * (pid // (4 * K)) < M where pid < M * K."""
    group = floor_div(PID, K * 4)
    asked = [less(PID, M * K + slack), at_most(M, group * 4)]
    assert (impossible(asked, []) is not None) == (slack == 0)


def test_facts_that_are_not_needed_are_not_named() -> None:
    facts = [Fact("used", at_most(M, 10)), Fact("not used", at_most(K, 10))]
    found = impossible([at_most(11, M)], facts)
    assert found is not None
    assert [f.text for f in found] == ["used"]
