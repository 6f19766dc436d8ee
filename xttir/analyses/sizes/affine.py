"""Decides conditions over terms by adding up inequalities, without a solver.

Everything that must hold is a polynomial that is at least 0. A contradiction is looked for: one
that is negative whatever the values. Variables of programs and lanes are eliminated one after the
other, each by an inequality in which it has the same sign; what is left are sizes, and a polynomial
in them whose coefficients are not negative, once every size is counted from its least value, is at
least 0. Two elements of an address are told apart by which program id, iteration or quotient is the
greater one: the larger stride then outweighs what the smaller ones can add up to (mixed radix).
What is not settled here is left to z3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import permutations, product

from xttir.analyses.sizes.deadline import check
from xttir.analyses.sizes.polynomials import (
    coefficient_of,
    common_factor,
    depth_of,
    divided_by,
    find_quotients,
    first_choice,
    is_positive,
    is_size,
    over_monomial,
    without_remainders,
)
from xttir.analyses.sizes.solver import Fact
from xttir.analyses.sizes.terms import (
    And,
    AtMost,
    Atom,
    Choice,
    Cond,
    Opaque,
    Quotient,
    Remainder,
    Symbol,
    Term,
    Unknown,
    Zero,
    as_term,
    bounds_of,
    choose,
    floor_div,
    less,
    modulo,
    negation,
    rename,
    term_of,
)

MOST_STEPS = 120
"""Eliminations that are tried for one inequality."""

FEW_STEPS = 24
"""The same where a contradiction would be by chance."""

MOST_BRANCHES = 48
"""Ways to make all disjunctions true that are gone through."""

MOST_SPLITS = 160
"""Orders of program ids, iterations and quotients that are gone through."""

FEW_ROWS = 12
"""Inequalities that are looked at when two values have been taken to be equal."""

BREADTH = 5
"""Inequalities that are tried for one elimination."""

LARGE, LATE = 1 << 20, 8
"""Bounds above this are tried late: as if they left so many more parts."""

DEPTH = 12
"""Eliminations after one another."""


def impossible(conditions: Sequence[Cond], facts: Sequence[Fact]) -> list[Fact] | None:
    """The facts without which all `conditions` might hold; None if nothing was found.

    The last conditions are taken to be what is asked, the others circumstances.

    Raises OutOfTime.
    """
    search = _Search()
    base = _Case()
    for fact in facts:
        base.state(fact.condition, fact)
    if not base.add(conditions):
        return []
    used: list[Fact] = []
    for count, case in enumerate(base.cases()):
        if count >= MOST_BRANCHES:
            return None
        found = search.contradiction(case)
        if found is None:
            return None
        used += found
    return list(dict.fromkeys(used))


@dataclass(frozen=True, eq=False)
class _Row:
    """`term` >= 0, for the reason `fact` (None: part of what is asked)."""

    term: Term
    fact: Fact | None = None

    @cached_property
    def sized(self) -> bool:
        """Whether there are only sizes in it."""
        return all(map(is_size, self.term.atoms()))


_NOTHING = _Row(as_term(0))


@dataclass(eq=False)
class _Case:
    """A conjunction. `rows`: at least 0; `zeros`: equal to 0; `choices`: disjunctions."""

    rows: list[_Row] = field(default_factory=list)
    zeros: list[_Row] = field(default_factory=list)
    choices: list[frozenset[Cond]] = field(default_factory=list)
    truths: dict[tuple[object, ...], bool] = field(default_factory=dict)
    goals: list[Term] = field(default_factory=list)
    """The rows of what is asked, the last ones first."""

    def copy(self) -> _Case:
        return _Case([*self.rows], [*self.zeros], [*self.choices], {**self.truths}, [*self.goals])

    def add(self, conditions: Sequence[Cond]) -> bool:
        """State what is asked. False if that is a contradiction already."""
        return all(self.state(c, None) for c in conditions)

    def state(self, c: Cond, fact: Fact | None) -> bool:
        """Take a condition apart. False if it contradicts what is there."""
        if isinstance(c, bool):
            return c or fact is not None
        if isinstance(c, AtMost):
            self._row(-c.term, fact)
        elif isinstance(c, Zero):
            self.zeros.append(_Row(c.term, fact))
        elif isinstance(c, And):
            return all(self.state(p, fact) for p in c.parts)
        elif isinstance(c, Unknown):
            return self.truths.setdefault(c.key, True)
        elif isinstance(c.inner, Unknown):
            return not self.truths.setdefault(c.inner.key, False)
        elif isinstance(c.inner, Zero):
            if fact is None:
                low, high = c.inner.term, -c.inner.term
                self.choices.append(frozenset((less(low, 0), less(high, 0))))
        elif isinstance(c.inner, And):
            if fact is None:
                self.choices.append(frozenset(negation(p) for p in c.inner.parts))
        elif isinstance(c.inner, AtMost):
            self._row(c.inner.term - 1, fact)
        return True

    def _row(self, term: Term, fact: Fact | None) -> None:
        self.rows.append(_Row(term, fact))
        if fact is None:
            self.goals.append(term)

    def cases(self) -> Iterator[_Case]:
        """The conjunctions that together are this one: a part of each disjunction made true, and
        each choice between terms made."""
        for parts in product(*(sorted(c, key=str) for c in self.choices)):
            case = self.copy()
            case.choices = []
            if not all(case.state(p, None) for p in parts):
                continue
            if case.choices:
                yield from case.cases()
            else:
                yield from case.chosen()

    def chosen(self, depth: int = 6) -> Iterator[_Case]:
        """The cases of every `Choice` between terms."""
        seen: set[Term] = set()
        found = (first_choice(row.term, seen) for row in (*self.rows, *self.zeros))
        atom = next((a for a in found if a is not None), None)
        if atom is None or not depth:
            yield self
            return
        for condition, value in ((atom.condition, atom.a), (negation(atom.condition), atom.b)):
            case = self.replaced(atom, value)
            count = len(case.choices)
            if not case.state(condition, None):
                continue
            if len(case.choices) > count:
                # A condition of several parts decides nothing here that bounds could use.
                del case.choices[count:]
            yield from case.chosen(depth - 1)

    def replaced(self, atom: Atom, value: Term) -> _Case:
        """The case with a term in place of an atom, also inside of quotients."""
        seen: dict[Term, Term] = {}

        def put(row: _Row) -> _Row:
            return _Row(_put(row.term, atom, value, seen), row.fact)

        goals = [_put(g, atom, value, seen) for g in self.goals]
        return _Case(
            [put(r) for r in self.rows],
            [put(r) for r in self.zeros],
            [],
            {**self.truths},
            goals,
        )


def _put(term: Term, atom: Atom, value: Term, seen: dict[Term, Term]) -> Term:
    """`term` with `value` in place of `atom`, also inside of quotients and choices."""
    found = seen.get(term)
    if found is None:
        found = as_term(0)
        for monomial, c in term.parts.items():
            part = as_term(c)
            for a in monomial:
                part = part * (value if a is atom or a == atom else _inside(a, atom, value, seen))
            found = found + part
        seen[term] = found
    return found


def _inside(a: Atom, atom: Atom, value: Term, seen: dict[Term, Term]) -> Term:
    if isinstance(a, Quotient):
        return floor_div(_put(a.a, atom, value, seen), _put(a.b, atom, value, seen))
    if isinstance(a, Remainder):
        return modulo(_put(a.a, atom, value, seen), _put(a.b, atom, value, seen))
    if isinstance(a, Choice):
        then, otherwise = (_put(t, atom, value, seen) for t in (a.a, a.b))
        return choose(a.condition, then, otherwise)
    return term_of(a)


class _Search:
    """Looks for contradictions."""

    def __init__(self) -> None:
        self.signs: dict[Term, int] = {}
        self.remainders: list[Term] = []
        """a - b * (a // b) of the remainders that were taken apart."""

    def contradiction(self, case: _Case) -> list[Fact] | None:
        """The facts that a contradiction needs, or None."""
        case = self._divided(case)
        rows = [*case.rows]
        for zero in case.zeros:
            rows += [zero, _Row(-zero.term, zero.fact)]
        rows = list({r.term: r for r in reversed(rows)}.values())[::-1]
        for zero in case.zeros:
            if zero.fact is None:
                found = self._apart(zero.term, case, rows)
                if found is not None:
                    return found
        table = _Table(self, rows)
        # What was stated last is what is asked; the rest are circumstances.
        for n, goal in enumerate(dict.fromkeys(reversed(case.goals))):
            found = table.negative(goal, MOST_STEPS if n < 2 else FEW_STEPS)
            if found is not None:
                return found
        return None

    def _divided(self, case: _Case) -> _Case:
        """The case without remainders, and with what is known of its quotients."""
        seen: dict[object, object] = {}
        out = _Case(
            [_Row(without_remainders(r.term, seen), r.fact) for r in case.rows],
            [_Row(without_remainders(r.term, seen), r.fact) for r in case.zeros],
            [],
            case.truths,
            [without_remainders(g, seen) for g in case.goals],
        )
        quotients: dict[Quotient, None] = {}
        for row in (*out.rows, *out.zeros):
            find_quotients(row.term, quotients)
        self.remainders = []
        for atom in sorted(quotients, key=depth_of):
            a, b = (without_remainders(t, seen) for t in (atom.a, atom.b))
            if self._at_least(b, 1, out.rows):
                q, rest = term_of(atom), a - b * term_of(atom)
                self.remainders.append(rest)
                out.rows += [_Row(rest), _Row(b - 1 - rest)]
                if self._at_least(a, 0, out.rows):
                    out.rows.append(_Row(q))
                out.rows += self._below(q, a, b, out.rows)
        out.rows += self._nested(list(quotients))
        return out

    def _nested(self, quotients: Sequence[Quotient]) -> list[_Row]:
        """That a // b is a // (b*c) times c, and a rest that is less than c."""
        out: list[_Row] = []
        for outer, inner in permutations(quotients, 2):
            ratio = divided_by(outer.b, inner.b) if outer.a == inner.a else None
            if ratio is not None and self.sign(ratio - 1) == 1:
                rest = term_of(inner) - ratio * term_of(outer)
                self.remainders.append(rest)
                out += [_Row(rest), _Row(ratio - 1 - rest)]
        return out

    def _at_least(self, term: Term, number: int, rows: list[_Row]) -> bool:
        """Whether a term has this least value, without further facts."""
        term = term - number
        return self.sign(term) == 1 or _Table(self, rows).positive(term, FEW_STEPS) == []

    def _below(self, q: Term, a: Term, b: Term, rows: list[_Row]) -> list[_Row]:
        """Bounds of a // b that follow from a < u where u is a multiple of b, or has a factor in
        common with it: what rounds down gives more than a - b*q >= 0 does."""
        parts = set(a.parts)
        out: list[_Row] = []
        for row in rows:
            if parts.isdisjoint(row.term.parts):
                continue
            u = row.term + a + 1
            if not parts.isdisjoint(u.parts) and len(u.parts) >= len(row.term.parts):
                continue
            whole = divided_by(u, b)
            if whole is not None:
                out.append(_Row(whole - 1 - q, row.fact))
                continue
            common = common_factor(u, b)
            if common is not None and self.sign(common - 1) == 1:
                over, below = over_monomial(u, common), over_monomial(b, common)
                if over is not None and below is not None:
                    out.append(_Row(over - 1 - below * q, row.fact))
        return out

    def _apart(self, difference: Term, case: _Case, rows: list[_Row]) -> list[Fact] | None:
        """That `difference` is not 0, by which of two programs is ahead in what."""
        pairs = _pairs(case, self.remainders)
        self.splits = 0
        return self._split(difference, pairs, rows)

    def _split(
        self, difference: Term, pairs: list[tuple[Term, Term]], rows: list[_Row]
    ) -> list[Fact] | None:
        self.splits += 1
        if self.splits > MOST_SPLITS:
            return None
        table = _Table(self, [r for r in rows if r.term not in (difference, -difference)])
        for row in rows:
            constant = row.term.constant
            if constant is not None and constant < 0:
                return [row.fact] if row.fact else []
        if rows and (found := table.negative(rows[-1].term, FEW_STEPS)) is not None:
            return found
        for side in (difference, -difference):
            found = table.negative(side, MOST_STEPS)
            if found is not None:
                return found
        if not pairs:
            return None
        (a, b), rest = pairs[0], pairs[1:]
        used: list[Fact] = []
        for ahead in (b - a - 1, a - b - 1):
            found = self._split(difference, rest, [*rows, _Row(ahead)])
            if found is None:
                return None
            used += found
        same = _solved(b, a)
        if same is None:
            return None
        equal = [_Row(_swap(r.term, *same), r.fact) for r in rows]
        changed = [e for e, r in zip(equal, rows, strict=True) if e.term is not r.term]
        # The bounds of what is gone hold for what stands for it.
        low, high = bounds_of(same[0])
        within = [_Row(same[1] - low)] if low is not None else []
        within += [_Row(as_term(high) - same[1])] if high is not None else []
        equal += within
        changed += within
        table = _Table(self, equal)
        for row in changed[-FEW_ROWS:]:
            found = table.negative(row.term, FEW_STEPS)
            if found is not None:
                return used + found
        others = [(_swap(x, *same), _swap(y, *same)) for x, y in rest]
        others = [(x, y) for x, y in others if x != y]
        found = self._split(_swap(difference, *same), others, equal)
        return None if found is None else used + found

    def sign(self, term: Term) -> int:
        """1 if `term` is at least 0, -1 if it is at most 0, 0 if that is not seen."""
        found = self.signs.get(term)
        if found is None:
            found = 1 if is_positive(term) else -1 if is_positive(-term) else 0
            self.signs[term] = found
        return found


def _solved(a: Term, b: Term) -> tuple[Atom, Term] | None:
    """An atom, and what it is when `a` and `b` are equal."""
    difference = a - b
    for monomial, c in difference.parts.items():
        if len(monomial) == 1 and c in (1, -1) and not is_size(monomial[0]):
            atom = monomial[0]
            rest = difference - term_of(atom) * c
            if coefficient_of(difference, atom) == as_term(c):
                return atom, -rest if c == 1 else rest
    return None


def _swap(term: Term, atom: Atom, value: Term) -> Term:
    """`term` with `value` in place of `atom`. Quotients stay: what is known of them is stated."""
    coefficient = coefficient_of(term, atom)
    if coefficient is None:
        return term
    return term + coefficient * (value - term_of(atom))


@dataclass(frozen=True, order=True)
class _Step:
    """What is left to show, after the inequalities `used`. Cheap ones come first."""

    cost: int
    number: int
    term: Term = field(compare=False)
    used: tuple[_Row, ...] = field(compare=False, default=())


class _Table:
    """Inequalities by the atoms in them."""

    def __init__(self, search: _Search, rows: list[_Row]):
        self.search = search
        self.rows = rows
        self.by_atom: dict[Atom, list[tuple[Term, _Row]]] = {}
        for row in rows:
            for atom in dict.fromkeys(row.term.atoms()):
                coefficient = coefficient_of(row.term, atom)
                if coefficient is not None:
                    self.by_atom.setdefault(atom, []).append((coefficient, row))

    def negative(self, goal: Term, steps: int) -> list[Fact] | None:
        """The facts by which `goal` is less than 0, whatever the values."""
        return self.positive(-goal - 1, steps)

    def positive(self, term: Term, steps: int) -> list[Fact] | None:
        """The facts by which `term` is at least 0. What has the fewest parts is looked at first."""
        heap: list[_Step] = [_Step(len(term.parts), 0, term)]
        tried: set[Term] = {term}
        while heap and steps > 0:
            check()
            step = heappop(heap)
            if self.search.sign(step.term) == 1:
                return list(dict.fromkeys(r.fact for r in step.used if r.fact is not None))
            if step.term.constant is not None or len(step.used) > DEPTH:
                continue
            steps -= 1
            for cost, reduced, row in self._options(step.term, step.used):
                if reduced not in tried:
                    tried.add(reduced)
                    used = (*step.used, row)
                    heappush(heap, _Step(cost + len(used), len(tried), reduced, used))
        return None

    def _options(self, term: Term, taken: tuple[_Row, ...]) -> list[tuple[int, Term, _Row]]:
        """What is left of `term` after an inequality has been taken from it, with its cost."""
        sign = self.search.sign
        out: list[tuple[int, Term, _Row]] = []
        atoms = dict.fromkeys(term.atoms())
        local = [a for a in atoms if not is_size(a)]
        # What is added of programs and lanes is counted from its least value in the end.
        if all((c := coefficient_of(term, a)) is not None and sign(c) == 1 for a in local):
            local.clear()
        wanted = local or atoms
        for atom in wanted:
            c = coefficient_of(term, atom)
            if c is None:
                continue
            positive = sign(c)
            if not positive:
                continue
            size = c if positive == 1 else -c
            best: list[tuple[int, Term, _Row]] = []
            for a, row in self.by_atom.get(atom, ()):
                if sign(a) != positive or not (local or row.sized):
                    continue
                amount = a if positive == 1 else -a
                ratio = over_monomial(size, amount)
                if ratio is not None and sign(ratio) == 1:
                    reduced = term - ratio * row.term
                else:
                    if positive == -1 and sign(amount - size) == 1:
                        # More than is needed: the rest is not negative.
                        reduced = term - row.term
                        best.append((len(reduced.parts), reduced, row))
                    if sign(amount - 1) != 1:
                        continue
                    reduced = amount * term - size * row.term
                best.append((len(reduced.parts), reduced, row))
            # From least values everything is counted in the end.
            most = bounds_of(atom)[1]
            if positive == -1 and most is not None:
                reduced = term - c * (term_of(atom) - most)
                late = LATE if most > LARGE else 0
                best.append((len(reduced.parts) + late, reduced, _NOTHING))
            best.sort(key=lambda e: e[0])
            out += best[:BREADTH]
        if not local:
            for row in self.rows:
                if row.sized and row not in taken and atoms.keys() & set(row.term.atoms()):
                    reduced = term - row.term
                    out.append((len(reduced.parts) + LATE, reduced, row))
        return out


def _positions(case: _Case) -> Iterator[Term]:
    """What masks compare with sizes: a block's start and a lane, say."""
    seen: set[Term] = set()
    for row in case.rows:
        local = {m: -c for m, c in row.term.parts.items() if m and not all(map(is_size, m))}
        term = Term(local)
        plain = all(len(m) == 1 and isinstance(m[0], Symbol) for m in local)
        if len(local) > 1 and plain and term not in seen and row.term != -term:
            seen.add(term)
            yield term


def _pairs(case: _Case, remainders: Sequence[Term]) -> list[tuple[Term, Term]]:
    """The same value in two programs: quotients and remainders first, the inner ones before the
    outer ones, then positions that masks speak of, iterations and program ids, lanes."""
    atoms: dict[Atom, None] = {}
    for row in (*case.zeros, *case.rows):
        atoms.update(dict.fromkeys(row.term.atoms()))

    def other(atom: Symbol | Opaque) -> Atom | None:
        if isinstance(atom, Symbol):
            return None if atom.shared else Symbol(atom.name + "'", atom.low, atom.high)
        return Opaque((*atom.key, "'"), atom.why, atom.low, atom.high)

    seen: dict[object, object] = {}
    out: list[tuple[tuple[int, int], Term, Term]] = []
    for term in (*map(term_of, atoms), *remainders, *_positions(case)):
        twin = without_remainders(rename(term, other, seen), {})
        known = atoms.keys() >= set(twin.atoms()) and atoms.keys() >= set(term.atoms())
        if twin == term or not known:
            continue
        atom = next(iter(term.atoms()))
        inner = [a for a in term.atoms() if isinstance(a, Quotient)]
        if len(term.parts) > 1 and not inner:
            out.append(((1, 0), term, twin))
        elif len(term.parts) > 1:
            out.append(((0, 2 * max(map(depth_of, inner), default=0)), term, twin))
        elif isinstance(atom, Quotient):
            out.append(((0, 2 * depth_of(atom) - 1 + 2), term, twin))
        else:
            lane = isinstance(atom, Symbol) and atom.name.startswith("lane")
            out.append(((3 if lane else 2, 0), term, twin))
    out.sort(key=lambda e: e[0])
    return [(a, b) for _, a, b in out]
