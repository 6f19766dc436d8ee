"""Polynomials taken apart: what a term is in one of its atoms, whether it divides, its sign.

Used by `affine`, which adds up inequalities. Signs are those that show once every atom is counted
from its constant bound.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from xttir.analyses.sizes.terms import (
    Atom,
    Choice,
    Monomial,
    Quotient,
    Remainder,
    Symbol,
    Term,
    as_term,
    bounds_of,
    leaves,
    order,
    term_of,
)


@lru_cache(1 << 14)
def is_size(atom: Atom) -> bool:
    """Whether an atom is a number that all programs share."""
    return all(isinstance(a, Symbol) and a.shared for a in leaves(term_of(atom)))


def coefficient_of(term: Term, atom: Atom) -> Term | None:
    """What `atom` is multiplied with in `term`; None if it is squared."""
    parts: dict[Monomial, int] = {}
    for monomial, c in term.parts.items():
        if atom in monomial:
            rest = list(monomial)
            rest.remove(atom)
            if atom in rest:
                return None
            parts[tuple(rest)] = c
    return Term(parts) if parts else None


def over_monomial(a: Term, b: Term) -> Term | None:
    """a / b where b is one monomial that divides every part of `a` without a rest."""
    if len(b.parts) != 1:
        return as_term(1) if a == b else None
    ((divisor, d),) = b.parts.items()
    parts: dict[Monomial, int] = {}
    for monomial, c in a.parts.items():
        if c % d:
            return None
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        parts[tuple(rest)] = c // d
    return Term(parts)


def find_quotients(term: Term, found: dict[Quotient, None]) -> None:
    """The quotients in a term without remainders, also inside of one another."""
    for atom in term.atoms():
        if isinstance(atom, Quotient) and atom not in found:
            found[atom] = None
            find_quotients(atom.a, found)
            find_quotients(atom.b, found)


def first_choice(term: Term, seen: set[Term]) -> Choice | None:
    """A choice in a term, also inside of quotients."""
    if term in seen:
        return None
    seen.add(term)
    for atom in term.atoms():
        if isinstance(atom, Choice):
            return atom
        if isinstance(atom, Quotient | Remainder):
            found = first_choice(atom.a, seen) or first_choice(atom.b, seen)
            if found is not None:
                return found
    return None


def common_factor(a: Term, b: Term) -> Term | None:
    """A monomial that divides every part of both, other than 1."""
    monomials = [*a.parts, *b.parts]
    if not monomials:
        return None
    factors: list[Atom] = []
    for atom in dict.fromkeys(monomials[0]):
        factors += [atom] * min(m.count(atom) for m in monomials)
    number = gcd(*a.parts.values(), *b.parts.values())
    if not factors and number == 1:
        return None
    return Term({tuple(factors): number})


def divided_by(a: Term, b: Term) -> Term | None:
    """a / b, if nothing is left over."""

    def rank(monomial: Monomial) -> tuple[int, list[int]]:
        return len(monomial), sorted(map(order, monomial))

    if not b.parts:
        return None
    lead = max(b.parts, key=rank)
    result = as_term(0)
    while a.parts:
        top = max(a.parts, key=rank)
        step = over_monomial(Term({top: a.parts[top]}), Term({lead: b.parts[lead]}))
        if step is None:
            return None
        result = result + step
        a = a - step * b
    return result


def depth_of(atom: Quotient) -> int:
    """Quotients inside of quotients."""
    inner = [a for t in (atom.a, atom.b) for a in t.atoms() if isinstance(a, Quotient)]
    return 1 + max(map(depth_of, inner), default=0)


def is_positive(term: Term) -> bool:
    """Whether no coefficient of `term` is negative once every atom is counted from its bound."""
    low, _ = term.bounds()
    if low is not None:
        return low >= 0
    total: dict[Monomial, int] = {}
    for monomial, c in term.parts.items():
        expanded: dict[Monomial, int] = {(): c}
        for atom in monomial:
            least, most = bounds_of(atom)
            if least is None:
                if most is None:
                    return False
                # atom = most - excess
                expanded = _times(expanded, atom, -1, most)
            else:
                expanded = _times(expanded, atom, 1, least)
        for m, k in expanded.items():
            total[m] = total.get(m, 0) + k
    return all(k >= 0 for k in total.values())


def _times(parts: dict[Monomial, int], atom: Atom, c: int, k: int) -> dict[Monomial, int]:
    """parts * (c * atom + k)"""
    out: dict[Monomial, int] = {}
    for m, n in parts.items():
        key = tuple(sorted((*m, atom), key=order))
        out[key] = out.get(key, 0) + n * c
        if k:
            out[m] = out.get(m, 0) + n * k
    return out


def _flat(a: Term, b: Term) -> Term:
    """a // b, where (x // y) // b is x // (y*b): what is split twice comes together again."""
    if len(a.parts) == 1:
        ((monomial, c),) = a.parts.items()
        if c == 1 and len(monomial) == 1 and isinstance(monomial[0], Quotient):
            return _flat(monomial[0].a, monomial[0].b * b)
    return term_of(Quotient(a, b))


def without_remainders(term: Term, seen: dict[object, object]) -> Term:
    """a % b as a - b * (a // b), so that what is split by a quotient comes together again."""
    found = seen.get(term)
    if isinstance(found, Term):
        return found
    result = as_term(0)
    for monomial, c in term.parts.items():
        part = as_term(c)
        for atom in monomial:
            if isinstance(atom, Remainder):
                a = without_remainders(atom.a, seen)
                b = without_remainders(atom.b, seen)
                part = part * (a - b * _flat(a, b))
            elif isinstance(atom, Quotient):
                a = without_remainders(atom.a, seen)
                b = without_remainders(atom.b, seen)
                part = part * _flat(a, b)
            else:
                part = part * term_of(atom)
        result = result + part
    seen[term] = result
    return result
