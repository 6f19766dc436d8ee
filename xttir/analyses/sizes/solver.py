"""Decides conditions over terms with z3: all of its use is here.

Products of symbols are linearised step by step: a product is a new integer at first; where a model
has a wrong value for it, what that model violates is stated (monotony against another product of
the same factor, signs, tangents at the values of the model), and z3 is asked again. "unsat" holds
for the true products, and a model that is left has them right. Facts are tracked, so that an answer
names those that it needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import z3

from xttir.analyses.sizes.deadline import (
    OUT_OF_TIME,
    OutOfTime,
    check_now,
    left,
    now,
    solver_milliseconds,
    until,
)
from xttir.analyses.sizes.polynomials import is_size
from xttir.analyses.sizes.terms import (
    And,
    AtMost,
    Atom,
    Choice,
    Cond,
    Leaf,
    Mark,
    Monomial,
    Not,
    Opaque,
    Quotient,
    Remainder,
    Symbol,
    Term,
    Unknown,
    Zero,
    as_term,
    at_most,
    bounds_of,
    condition_leaves,
    order,
    rename,
    rename_condition,
    term_of,
)

SMALL = 300
"""Sizes up to which counter-examples are looked for first."""

MAX_COMPARISONS = 12
"""Other products that a wrong one is compared with in one round."""

QUICK_ROUNDS = 8
"""The same while divisions have only their bounds."""

ROUNDS = 60
"""How often products are made more precise before a question is given up."""

SHARE = 0.25
"""The part of the time left that a search gets before another begins."""

FIRST_SEED = 0
"""Of the solver. No answer shall depend on it."""

LAST_SECONDS = 0.2
"""Time left that is not worth dividing."""


GENERAL, SHAPED, COINCIDENT, ACCIDENT = 0, 1, 2, 3
"""Levels of facts: of every launch that the contract describes; what explains a number of one
launch, and multiples of blocks; the same where it is as often a coincidence (sums and ratios of
sizes, small numbers); the order of sizes, and numbers that nothing explains."""


@dataclass(frozen=True, eq=False)
class Fact:
    """Something that is known of the arguments. `level`: how far it narrows what is claimed."""

    text: str
    condition: Cond
    level: int = 0


Values = dict[Symbol | Opaque, int]


@dataclass(eq=False)
class Answer:
    """`impossible`: no values satisfy the conditions, given the facts `used`.

    Otherwise `model` maps symbols and opaque values to numbers that may satisfy them, or `why`
    says why there is no answer.
    """

    impossible: bool
    used: list[Fact] = field(default_factory=list)
    model: Values | None = None
    why: str = ""


@dataclass(frozen=True, eq=False)
class _Product:
    """factor * other == value, of which the solver knows only what has been stated."""

    factor: Any
    other: Any
    value: Any


class Budget:
    """Time for a whole check."""

    def __init__(self, seconds: float):
        self.end = now() + seconds

    def left(self) -> float:
        return max(0.0, self.end - now())


_context = z3.Context()


def new_context() -> None:
    """Begin anew: what the solver does next does not depend on what was asked before."""
    global _context
    _context = z3.Context()


class Translator:
    """Terms and conditions to z3. `axioms`: what must be stated along with them."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        """Whether divisions and choices have their meaning, rather than only their bounds."""
        self.context = _context
        self.axioms: list[Any] = []
        self.products: list[_Product] = []
        self._atoms: dict[Atom, Any] = {}
        self._terms: dict[Term, Any] = {}
        self._conditions: dict[Cond, Any] = {}
        self._unknowns: dict[tuple[object, ...], Any] = {}
        self._monomials: dict[Monomial, Any] = {}
        self._products: set[tuple[Atom, Term]] = set()
        self._divisions: list[tuple[Any, Any, Any, Any]] = []

    def term(self, value: Term) -> Any:
        found = self._terms.get(value)
        if found is None:
            # Every expression of the solver costs more than a look at the clock.
            check_now()
            found = self._terms[value] = self._polynomial(value)
        return found

    def _polynomial(self, value: Term) -> Any:
        parts: list[Any] = []
        rest: dict[Monomial, int] = {}
        for monomial, c in value.parts.items():
            if not monomial:
                parts.append(z3.IntVal(c, self.context))
            elif len(monomial) == 1:
                parts.append(c * self.atom(monomial[0]))
            else:
                rest[monomial] = c
        parts += [c * self.monomial(m) for m, c in rest.items()]
        while rest:
            factor = _factor(rest)
            quotient = {_without(m, factor): rest.pop(m) for m in [m for m in rest if factor in m]}
            # Comparisons are between products of one sign.
            other = Term(quotient)
            negative = sum(c < 0 for c in quotient.values()) * 2 > len(quotient)
            self._product(factor, -other if negative else other)
        if not parts:
            return z3.IntVal(0, self.context)
        return z3.Sum(parts) if len(parts) > 1 else parts[0]

    def monomial(self, atoms: Monomial) -> Any:
        """The variable of a product of atoms."""
        if len(atoms) == 1:
            return self.atom(atoms[0])
        found = self._monomials.get(atoms)
        if found is None:
            found = self._monomials[atoms] = z3.FreshInt("product", self.context)
            for factor in dict.fromkeys(atoms):
                self._product(factor, Term({_without(atoms, factor): 1}))
        return found

    def _product(self, factor: Atom, other: Term) -> None:
        """Have the product of an atom and a polynomial watched."""
        if (factor, other) in self._products:
            return
        self._products.add((factor, other))
        value = z3.Sum(
            [c * self.monomial(tuple(sorted((*m, factor), key=order)))
             for m, c in other.parts.items()]
        )  # fmt: skip
        self.products.append(_Product(self.atom(factor), self.term(other), value))

    def atom(self, atom: Atom) -> Any:
        found = self._atoms.get(atom)
        if found is not None:
            return found
        if isinstance(atom, Symbol | Opaque) or not self.exact:
            name = atom.name if isinstance(atom, Symbol) else "data"
            found = self._atoms[atom] = z3.FreshInt(name, self.context)
            low, high = bounds_of(atom)
            if low is not None:
                self.axioms.append(found >= low)
            if high is not None:
                self.axioms.append(found <= high)
        elif isinstance(atom, Choice):
            found = z3.FreshInt("choice", self.context)
            self._atoms[atom] = found
            condition = self.condition(atom.condition)
            self.axioms.append(z3.Implies(condition, found == self.term(atom.a)))
            self.axioms.append(z3.Implies(z3.Not(condition), found == self.term(atom.b)))
        else:
            self._division(atom)
            found = self._atoms[atom]
        return found

    def _division(self, atom: Quotient | Remainder) -> None:
        """a = b*q + r, for the quotient and the remainder of the same two terms at once."""
        a, b = atom.a, atom.b
        quotient, remainder = Quotient(a, b), Remainder(a, b)
        q = self._atoms[quotient] = z3.FreshInt("quotient", self.context)
        r = self._atoms[remainder] = z3.FreshInt("remainder", self.context)
        dividend, divisor = self.term(a), self.term(b)
        product = self.term(b * term_of(quotient))
        add = self.axioms.append
        positive = divisor >= 1
        add(z3.Implies(positive, z3.And(r >= 0, r < divisor, dividend == product + r)))
        if b.constant is not None:
            return
        add(z3.Implies(z3.And(positive, dividend >= 0), z3.And(q >= 0, q <= dividend)))
        for x, y, other, rest in self._divisions:
            same = z3.And(x == dividend, y == divisor)
            add(z3.Implies(same, z3.And(other == q, rest == r)))
        self._divisions.append((dividend, divisor, q, r))

    def condition(self, c: Cond) -> Any:
        if isinstance(c, bool):
            return z3.BoolVal(c, self.context)
        found = self._conditions.get(c)
        if found is None:
            found = self._conditions[c] = self._condition(c)
        return found

    def _condition(self, c: Cond) -> Any:
        if isinstance(c, AtMost):
            return self.term(c.term) <= 0
        if isinstance(c, Zero):
            return self.term(c.term) == 0
        if isinstance(c, Unknown):
            return self._unknowns.setdefault(c.key, z3.FreshBool("unknown", self.context))
        if isinstance(c, Not):
            return z3.Not(self.condition(c.inner))
        assert isinstance(c, And)
        return z3.And([self.condition(p) for p in c.parts])

    def values(self, model: Any) -> Values:
        """What a model says of symbols and opaque values."""
        out: Values = {}
        for atom, variable in self._atoms.items():
            if isinstance(atom, Symbol | Opaque):
                value = model.eval(variable, model_completion=True)
                out[atom] = value.as_long()
        return out


def _without(monomial: Monomial, factor: Atom) -> Monomial:
    rest = list(monomial)
    rest.remove(factor)
    return tuple(rest)


def _factor(rest: dict[Monomial, int]) -> Atom:
    """The atom to take out of products: one that all programs share, and that is in most."""
    counts: Counter[Atom] = Counter()
    for monomial in rest:
        counts.update(set(monomial))
    return max(
        counts, key=lambda a: (is_size(a), counts[a], repr(a) if isinstance(a, Symbol) else "")
    )


def decide(
    conditions: Sequence[Cond],
    facts: Sequence[Fact],
    budget: Budget,
    own: dict[Symbol, int],
    limit: float = 4.0,
) -> Answer:
    """Can all `conditions` hold, given `facts`? The answer uses general facts where they do.

    `own`: numbers of a launch that satisfies the facts.
    """
    found = glance(conditions, facts, facts, own, min(limit, budget.left()))
    return found or reason(conditions, facts, min(limit, budget.left()))


def glance(
    conditions: Sequence[Cond],
    facts: Sequence[Fact],
    all_facts: Sequence[Fact],
    own: dict[Symbol, int],
    limit: float,
) -> Answer | None:
    """The answer, if it is found at once: the bounds of what is asked forbid it, or the launch's
    own numbers allow it, and `all_facts` with them."""
    if any(c is False for c in conditions):
        return Answer(True)
    answer = _decide(conditions, facts, limit, False)
    if answer.impossible:
        return answer
    answer = decide_for(conditions, all_facts, own, limit)
    return answer if answer.model is not None else None


def prove(conditions: Sequence[Cond], facts: Sequence[Fact], seconds: float) -> Answer:
    """The answer for every size, if it is that nothing satisfies the conditions.

    First with general facts alone, then with more and more: facts narrow the claim, and are a
    burden to the solver.
    """
    end = now() + seconds
    tops = sorted({GENERAL, *(f.level for f in facts)})
    answer = Answer(False)
    for top in tops:
        share = 1 if top == tops[-1] else 0.5
        found = _decide(conditions, [f for f in facts if f.level <= top], share * (end - now()))
        if found.impossible or found.model is not None or top == GENERAL:
            answer = found
        if found.impossible:
            break
    return answer


def reason(conditions: Sequence[Cond], facts: Sequence[Fact], seconds: float) -> Answer:
    """The answer for every size."""
    end = now() + seconds
    answer = prove(conditions, facts, seconds * 0.8)
    if answer.impossible:
        return answer
    if answer.model is None:
        bounded = (*conditions, *small(conditions, facts))
        found = _decide(bounded, facts, end - now())
        if found.model is not None:
            return found
    return answer


def decide_for(
    conditions: Sequence[Cond], facts: Sequence[Fact], values: dict[Symbol, int], limit: float
) -> Answer:
    """The same with numbers for symbols, which leaves next to no products."""
    seen: dict[object, object] = {}
    mark = _placing(values)
    placed = [rename_condition(c, mark, seen) for c in conditions]
    if any(c is False for c in placed):
        return Answer(False, why="not for these sizes")
    rest = [Fact(f.text, rename_condition(f.condition, mark, seen), f.level) for f in facts]
    answer = _decide(placed, [f for f in rest if f.condition is not True], limit)
    if answer.model is not None:
        answer.model = {**answer.model, **values}
    answer.impossible = False
    return answer


def shared_symbols(conditions: Iterable[Cond]) -> list[Symbol]:
    """The symbols in `conditions` that all programs share, in order."""
    found = frozenset[Leaf]().union(*map(condition_leaves, conditions))
    return sorted((a for a in found if isinstance(a, Symbol) and a.shared), key=order)


def small(conditions: Sequence[Cond], facts: Sequence[Fact], limit: int = SMALL) -> list[Cond]:
    """That everything all programs share is small."""
    shared = shared_symbols((*conditions, *(f.condition for f in facts)))
    return [at_most(term_of(s), limit) for s in shared]


def _decide(
    conditions: Sequence[Cond], facts: Sequence[Fact], seconds: float, exact: bool = True
) -> Answer:
    try:
        with until(now() + seconds):
            return _search(conditions, facts, exact)
    except OutOfTime:
        return Answer(False, why=OUT_OF_TIME)


def _search(conditions: Sequence[Cond], facts: Sequence[Fact], exact: bool) -> Answer:
    translator = Translator(exact)
    asked = [translator.condition(c) for c in conditions]
    stated = [
        (z3.FreshBool("fact", translator.context), translator.condition(f.condition), f)
        for f in facts
    ]
    solver = _Restarted(translator.context)
    solver.add(translator.axioms)
    solver.add(asked)
    solver.add([z3.Implies(literal, condition) for literal, condition, _ in stated])
    solver.add(_first_lemmas(translator.products))
    literals = [literal for literal, _, _ in stated]
    for n in range(ROUNDS):
        check_now()
        result = solver.check(literals)
        if result == z3.unsat:
            core = {str(c) for c in solver.solver.unsat_core()}
            return Answer(True, [f for literal, _, f in stated if str(literal) in core])
        if result != z3.sat:
            check_now()
            return Answer(False, why="the solver gave up: " + solver.solver.reason_unknown())
        model = solver.solver.model()
        lemmas = _lemmas(translator.products, model)
        if not exact and (not lemmas or n > QUICK_ROUNDS):
            return Answer(False)
        if not lemmas:
            return Answer(False, model=translator.values(model))
        solver.add(lemmas)
    return Answer(False, why="products of sizes that linear arithmetic does not settle")


_TIMED_OUT = ("timeout", "canceled")


class _Restarted:
    """A solver that begins again, with another seed, when an answer takes a large part of the time
    left: what one search is lost in, another often has at once."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.stated: list[Any] = []
        self.seed = FIRST_SEED
        self._begin()

    def _begin(self) -> None:
        self.solver = z3.SolverFor("QF_LIA", ctx=self.context)
        self.solver.set("random_seed", self.seed)
        self.solver.set("core.minimize", True)
        self.solver.add(self.stated)
        self.seed += 1

    def add(self, statements: list[Any]) -> None:
        self.stated += statements
        self.solver.add(statements)

    def check(self, literals: list[Any]) -> Any:
        while True:
            last = left() < LAST_SECONDS
            self.solver.set("timeout", solver_milliseconds(1 if last else SHARE))
            result = self.solver.check(literals)
            if result != z3.unknown or last or self.solver.reason_unknown() not in _TIMED_OUT:
                return result
            check_now()
            self._begin()


def _first_lemmas(products: list[_Product]) -> list[Any]:
    """What is nearly always needed: products of one factor grow with the other."""
    out: list[Any] = []
    by_factor: dict[int, list[_Product]] = {}
    for p in products:
        check_now()
        by_factor.setdefault(p.factor.get_id(), []).append(p)
        x, y, z = p.factor, p.other, p.value
        out.append(z3.Implies(z3.And(x >= 0, y >= 1), z >= x))
        out.append(z3.Implies(z3.And(x >= 0, y <= 0), z <= 0))
        out.append(z3.Implies(z3.And(x >= 0, y >= 0), z >= 0))
    for group in by_factor.values():
        for p, q in combinations(group[:MAX_COMPARISONS], 2):
            check_now()
            for a, b in ((p, q), (q, p)):
                apart = z3.And(a.factor >= 0, a.other - b.other >= 1)
                out.append(z3.Implies(apart, a.value - b.value >= a.factor))
            out.append(z3.Implies(p.other == q.other, p.value == q.value))
    return out


def _lemmas(products: list[_Product], model: Any) -> list[Any]:
    """True statements on products that `model` violates; none if it has all of them right."""

    def number(e: Any) -> int:
        return model.eval(e, model_completion=True).as_long()

    known = [(number(p.factor), number(p.other), number(p.value), p) for p in products]
    lemmas: list[Any] = []
    for f, q, v, p in known:
        if v == f * q:
            continue
        check_now()
        lemmas += _comparisons(f, q, v, p, known)
        x, y, z = p.factor, p.other, p.value
        lemmas.append(z3.Implies(x == f, z == f * y))
        lemmas.append(z3.Implies(y == q, z == q * x))
        tangent = f * y + q * x - f * q
        if v < f * q:
            lemmas.append(z3.Implies(z3.And(x >= f, y >= q), z >= tangent))
            lemmas.append(z3.Implies(z3.And(x <= f, y <= q), z >= tangent))
        else:
            lemmas.append(z3.Implies(z3.And(x >= f, y <= q), z <= tangent))
            lemmas.append(z3.Implies(z3.And(x <= f, y >= q), z <= tangent))
    return lemmas


def _comparisons(
    f: int, q: int, v: int, p: _Product, known: list[tuple[int, int, int, _Product]]
) -> list[Any]:
    """How this product compares with nothing and with others of a factor of the same value."""
    x, y, z = p.factor, p.other, p.value
    out: list[Any] = []
    if f >= 0 and q >= 1 and v < f:
        out.append(z3.Implies(z3.And(x >= 0, y >= 1), z >= x))
    if f >= 0 and q <= -1 and v > -f:
        out.append(z3.Implies(z3.And(x >= 0, y <= -1), z <= -x))
    if f >= 1 and q >= 0 and v < q:
        out.append(z3.Implies(z3.And(x >= 1, y >= 0), z >= y))
    if q == 0 or f == 0:
        out.append(z3.Implies(z3.Or(x == 0, y == 0), z == 0))
    if f < 0:
        return out
    for g, r, w, other in known:
        if g != f or other is p or len(out) > MAX_COMPARISONS:
            continue
        same = z3.And(x >= 0, x == other.factor) if x is not other.factor else x >= 0
        if q > r and v - w < f:
            out.append(z3.Implies(z3.And(same, y - other.other >= 1), z - other.value >= x))
        elif q < r and w - v < f:
            out.append(z3.Implies(z3.And(same, other.other - y >= 1), other.value - z >= x))
        elif q == r and v != w:
            out.append(z3.Implies(z3.And(same, y == other.other), z == other.value))
    return out


def _placing(values: Mapping[Symbol, int]) -> Mark:
    """For `rename`: numbers for symbols."""

    def mark(atom: Symbol | Opaque) -> Term | None:
        number = values.get(atom) if isinstance(atom, Symbol) else None
        return None if number is None else as_term(number)

    return mark


def substitute(condition: Cond, values: Mapping[Symbol, int]) -> Cond:
    """A condition with numbers for symbols."""
    return rename_condition(condition, _placing(values), {})


def number_of(value: Term, values: Mapping[Symbol, int]) -> int | None:
    """A term with numbers for symbols; None if that leaves something else in it."""
    return rename(value, _placing(values), {}).constant
