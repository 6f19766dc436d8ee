"""Equal addresses, digit by digit.

Where an address is D*w + rest, and 0 <= rest < w whatever program and lane, two addresses are the
same only where their Ds and their rests are: the positions of a numeral. That a rest is less than
its weight is asked of one program alone; what remains has no products of strides in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xttir.analyses.sizes.polynomials import is_size, over_monomial
from xttir.analyses.sizes.solver import Fact
from xttir.analyses.sizes.terms import (
    Cond,
    Monomial,
    Symbol,
    Term,
    as_term,
    at_most,
    bounds_of,
    equal,
    less,
)

MOST_WEIGHTS = 4
"""Weights that are tried for one sum."""


@dataclass(frozen=True, eq=False)
class Side:
    """An access of one program: what holds where it is made, and its address."""

    conditions: tuple[Cond, ...]
    offset: Term


Prover = Callable[[Sequence[Cond]], "list[Fact] | None"]
"""The facts by which conditions cannot hold together; None if that is not shown."""


def equal_by_digits(
    sides: tuple[Side, Side], alike: bool, values: dict[Symbol, int], proved: Prover
) -> tuple[list[Cond], list[Fact]]:
    """Conditions that hold, given the facts, where the addresses of both sides are the same.

    `alike`: the sides are one access in two programs, and what holds for one does for the other.
    `values`: numbers of the launch, which tell weights apart.
    """
    used: list[Fact] = []
    out: list[Cond] = []

    def within(side: Side, rest: Term, weight: Term) -> bool:
        for outside in (less(rest, 0), at_most(weight, rest)):
            if outside is False:
                continue
            facts = None if outside is True else proved((*side.conditions, outside))
            if facts is None:
                return False
            used.extend(facts)
        return True

    def split(x: Term, y: Term) -> None:
        for weight in _weights(x, values):
            high, low = _divided(x, weight)
            top, rest = _divided(y, weight)
            if not (high.parts and low.parts):
                continue
            if within(sides[0], low, weight) and (alike or within(sides[1], rest, weight)):
                split(high, top)
                split(low, rest)
                return
        out.append(equal(x, y))

    x, y = (s.offset for s in sides)
    # What all programs share moves both addresses alike.
    shared = _shared(x)
    if shared == _shared(y):
        x, y = x - shared, y - shared
    split(x, y)
    return out, list(dict.fromkeys(used))


def _shared(term: Term) -> Term:
    return Term({m: c for m, c in term.parts.items() if all(map(is_size, m))})


def _weights(term: Term, values: dict[Symbol, int]) -> list[Term]:
    """What parts of a sum are multiplied with: those of most sizes first, then the largest."""
    found: dict[Term, int] = {}
    for monomial, c in term.parts.items():
        sizes: Monomial = tuple(a for a in monomial if is_size(a))
        size = _value(sizes, values)
        if size is not None and len(sizes) < len(monomial):
            found[Term({sizes: abs(c)})] = abs(c) * size
    least = min(found.values(), default=0)
    ordered = sorted(found, key=lambda w: (-max(map(len, w.parts)), -found[w]))
    return [w for w in ordered if found[w] > max(least, 1)][:MOST_WEIGHTS]


def _value(monomial: Monomial, values: dict[Symbol, int]) -> int | None:
    product = 1
    for atom in monomial:
        number = values.get(atom) if isinstance(atom, Symbol) else bounds_of(atom)[0]
        if number is None:
            return None
        product *= number
    return product


def _divided(term: Term, weight: Term) -> tuple[Term, Term]:
    """High and low, where term == high * weight + low."""
    high, low = as_term(0), as_term(0)
    for part in _parts(term):
        quotient = over_monomial(part, weight)
        if quotient is None:
            low += part
        else:
            high += quotient
    return high, low


def _parts(term: Term) -> Iterator[Term]:
    return (Term({m: c}) for m, c in term.parts.items())
