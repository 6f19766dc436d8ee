"""Terms against plain integers: what simplification makes of an expression has its value."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from xttir.analyses.sizes.solver import number_of, substitute
from xttir.analyses.sizes.terms import (
    Symbol,
    Term,
    as_term,
    at_most,
    both,
    choose,
    either,
    equal,
    floor_div,
    least,
    leaves,
    less,
    modulo,
    most,
    negation,
    rename,
    term_of,
)

SYMBOLS = (Symbol("a", -5, 9), Symbol("b", 0, 12), Symbol("n", 1, 7, True))


@st.composite
def expressions(draw, depth: int = 3) -> Any:
    """A term and a function from values of the symbols to what it should be."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if draw(st.booleans()):
            c = draw(st.integers(-6, 6))
            return as_term(c), lambda v: c
        s = draw(st.sampled_from(SYMBOLS))
        return term_of(s), lambda v: v[s]
    (x, f), (y, g) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "min", "max", "choose"]))
    if kind == "+":
        return x + y, lambda v: f(v) + g(v)
    if kind == "-":
        return x - y, lambda v: f(v) - g(v)
    if kind == "*":
        return x * y, lambda v: f(v) * g(v)
    if kind == "min":
        return least(x, y), lambda v: min(f(v), g(v))
    if kind == "max":
        return most(x, y), lambda v: max(f(v), g(v))
    if kind == "choose":
        (c, h) = draw(conditions(depth - 1))
        return choose(c, x, y), lambda v: f(v) if h(v) else g(v)
    d = draw(st.integers(1, 5))
    divisor, size = (as_term(d), lambda v: d)
    if draw(st.booleans()):
        divisor, size = term_of(SYMBOLS[2]), lambda v: v[SYMBOLS[2]]
    if kind == "//":
        return floor_div(x, divisor), lambda v: f(v) // size(v)
    return modulo(x, divisor), lambda v: f(v) % size(v)


@st.composite
def conditions(draw, depth: int = 2) -> Any:
    (x, f), (y, g) = draw(expressions(depth)), draw(expressions(depth))
    kind = draw(st.sampled_from(["<=", "<", "==", "not", "and", "or"]))
    if kind == "<=":
        return at_most(x, y), lambda v: f(v) <= g(v)
    if kind == "<":
        return less(x, y), lambda v: f(v) < g(v)
    if kind == "==" or depth == 0:
        return equal(x, y), lambda v: f(v) == g(v)
    (a, h), (b, k) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    if kind == "not":
        return negation(a), lambda v: not h(v)
    if kind == "and":
        return both(a, b), lambda v: h(v) and k(v)
    return either(a, b), lambda v: h(v) or k(v)


VALUES = st.fixed_dictionaries({s: st.integers(s.low or 0, s.high) for s in SYMBOLS})


@given(expressions(), VALUES)
def test_terms_have_the_value_of_their_expression(made, values) -> None:
    term, value = made
    assert number_of(term, values) == value(values)
    low, high = term.bounds()
    assert low is None or low <= value(values)
    assert high is None or value(values) <= high


@given(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=6), VALUES)
def test_bounds_of_products(factors: list[Symbol], values: dict[Symbol, int]) -> None:
    """An even power is no less than 0, whatever stands beside it."""
    term, value = as_term(1), 1
    for symbol in factors:
        term, value = term * term_of(symbol), value * values[symbol]
    low, high = term.bounds()
    assert low is not None
    assert high is not None
    assert low <= value <= high


@given(conditions(), VALUES)
def test_conditions_hold_where_their_expression_does(made, values) -> None:
    condition, holds = made
    assert substitute(condition, values) == holds(values)


def test_terms_with_much_in_common_cost_what_they_hold() -> None:
    """A chain of choices has exponentially many paths, made twice over and compared."""

    def chain() -> Term:
        term = term_of(SYMBOLS[0])
        for k in range(300):
            term = choose(at_most(term, k), term + 1, term * 2 - k)
        return term

    one, two = chain(), chain()
    assert one is two
    assert leaves(one) == {SYMBOLS[0]}
    other = Symbol("c", -5, 9)
    moved = rename(one, lambda atom: other if atom == SYMBOLS[0] else None, {})
    assert leaves(moved) == {other}
    assert number_of(one, {SYMBOLS[0]: 3}) == number_of(moved, {other: 3})


@given(expressions(), VALUES, VALUES)
def test_renaming_gives_the_other_program_s_value(made, one, two) -> None:
    term, value = made
    marked = {s: Symbol(s.name + "'", s.low, s.high, s.shared) for s in SYMBOLS}
    other = rename(term, lambda atom: marked.get(atom), {})  # pyright: ignore
    renamed = {marked[s]: two[s] for s in SYMBOLS}
    assert isinstance(other, Term)
    assert number_of(other, {**one, **renamed}) == value(two)


def test_what_is_divided_comes_together_again() -> None:
    a, n = term_of(SYMBOLS[0]), term_of(SYMBOLS[2])
    q, r = floor_div(a, n), modulo(a, n)
    assert q * n + r is a
    assert r * n + q * n * n - a * n is as_term(0)
    assert floor_div(a, as_term(8)) * 16 + modulo(a, as_term(8)) * 2 + 1 is a * 2 + 1
    assert q * n * 2 + r is not a * 2
