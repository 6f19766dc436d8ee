"""Sizes replaced by what explains them.

A fact `per == cdiv(L, S)` that is stated leaves `per * S` and `cdiv(L, S) * S` two products. With
one put for the other, they are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from xttir.analyses.sizes.solver import SHAPED, Fact
from xttir.analyses.sizes.terms import (
    Atom,
    Cond,
    Opaque,
    Symbol,
    Term,
    Zero,
    at_most,
    condition_leaves,
    leaves,
    rename_condition,
    term_of,
)


class Replaced:
    """Conditions and facts with definitions put in. `definitions`: the facts that were, each the
    first of its symbol, none of a symbol that another needs."""

    def __init__(self, conditions: Sequence[Cond], facts: Sequence[Fact]):
        asked = set[object]().union(*map(condition_leaves, conditions))
        meaning: dict[Symbol, Term] = {}
        needed: set[object] = set()
        self.definitions: list[Fact] = []
        for fact in facts:
            found = _definition(fact) if fact.level == SHAPED else None
            if found is None:
                continue
            symbol, term = found
            inner = leaves(term)
            if symbol not in asked or symbol in meaning or symbol in needed:
                continue
            if meaning.keys().isdisjoint(inner):
                meaning[symbol] = term
                needed |= inner
                self.definitions.append(fact)

        def mark(atom: Symbol | Opaque) -> Atom | Term | None:
            return meaning.get(atom) if isinstance(atom, Symbol) else None

        seen: dict[object, object] = {}
        self.conditions = tuple(rename_condition(c, mark, seen) for c in conditions)
        self._sources: dict[Fact, Fact] = {}
        for fact in facts:
            condition = rename_condition(fact.condition, mark, seen)
            if fact not in self.definitions and condition is not True:
                self._sources[Fact(fact.text, condition, fact.level)] = fact
        # That a symbol was positive is true of what stands for it.
        for symbol, term in meaning.items():
            for bound in _bounds(symbol, term):
                self._sources[bound] = self.definitions[0]

    @property
    def facts(self) -> list[Fact]:
        return list(self._sources)

    def used(self, facts: Sequence[Fact]) -> list[Fact]:
        """The facts that an answer about what was replaced rests on."""
        return list(dict.fromkeys([*self.definitions, *(self._sources[f] for f in facts)]))


def _definition(fact: Fact) -> tuple[Symbol, Term] | None:
    """The symbol that a fact says the value of."""
    if not isinstance(fact.condition, Zero):
        return None
    term = fact.condition.term
    for monomial, c in term.parts.items():
        if len(monomial) == 1 and c in (1, -1) and isinstance(symbol := monomial[0], Symbol):
            rest = term - term_of(symbol) * c
            if symbol.shared and rest.constant is None and symbol not in leaves(rest):
                return symbol, -rest if c == 1 else rest
    return None


def _bounds(symbol: Symbol, term: Term) -> list[Fact]:
    out: list[Fact] = []
    if symbol.low is not None:
        out.append(Fact(f"{symbol.name} is in its range", at_most(symbol.low, term)))
    if symbol.high is not None:
        out.append(Fact(f"{symbol.name} is in its range", at_most(term, symbol.high)))
    return [f for f in out if f.condition is not True]
