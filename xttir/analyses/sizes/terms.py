"""Integers and conditions over symbols: what the values of a kernel are before sizes are known.

A `Term` is a polynomial with integer coefficients over atoms: symbols, floor divisions, choices and
opaque values. It is a mathematical integer; that machine integers do not wrap is asked separately
(`tiles.Obligation`). What is made of equal parts is one object: terms are graphs with much in
common, and neither equality nor a walk may follow every path through them. Constant bounds of atoms
decide many conditions at once, and make `//` and `%` simple where signs are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Self
from weakref import WeakValueDictionary

from xttir.analyses.sizes.deadline import check

_made: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_terms: WeakValueDictionary[frozenset[Any], Term] = WeakValueDictionary()


_serials = count()


class Interned:
    """Equal parts make one object, so that equality is identity.

    `serial` grows with every object made: an order that is the same in every run, as that of a set
    is not.
    """

    serial: int

    def __new__(cls, *parts: object) -> Self:
        key = (cls, *parts)
        found = _made.get(key)
        if found is None:
            found = _made[key] = super().__new__(cls)
            object.__setattr__(found, "serial", next(_serials))
        return found


Bound = int | None


@dataclass(frozen=True, eq=False)
class Symbol(Interned):
    """A named integer with constant bounds (None: unbounded).

    `shared`: the same for all programs of a launch (an argument, a size), as opposed to program
    ids, lanes, iterations and data.
    """

    name: str
    low: Bound = None
    high: Bound = None
    shared: bool = False

    def __new__(
        cls, name: str, low: Bound = None, high: Bound = None, shared: bool = False
    ) -> Self:
        return super().__new__(cls, name, low, high, shared)


@dataclass(frozen=True, eq=False)
class Opaque(Interned):
    """A value nothing is known of but its bounds: data, or what has no form here.

    Equal keys are equal values. `why` says what it is, for people.
    """

    key: tuple[object, ...]
    why: str = ""
    low: Bound = None
    high: Bound = None

    def __new__(
        cls, key: tuple[object, ...], why: str = "", low: Bound = None, high: Bound = None
    ) -> Self:
        return super().__new__(cls, key, why, low, high)


@dataclass(frozen=True, eq=False)
class Quotient(Interned):
    """floor(a / b) for b >= 1."""

    a: Term
    b: Term


@dataclass(frozen=True, eq=False)
class Remainder(Interned):
    """a - b * floor(a / b) for b >= 1: at least 0 and less than `b`."""

    a: Term
    b: Term


@dataclass(frozen=True, eq=False)
class Choice(Interned):
    """`a` where `condition` holds, otherwise `b`."""

    condition: Cond
    a: Term
    b: Term


Atom = Symbol | Opaque | Quotient | Remainder | Choice
Monomial = tuple[Atom, ...]


class Term:
    """A polynomial: `parts` maps monomials (atoms in order) to coefficients that are not 0."""

    __slots__ = ("__weakref__", "_bounds", "_leaves", "parts")
    parts: dict[Monomial, int]
    _bounds: tuple[Bound, Bound] | None
    _leaves: frozenset[Leaf] | None

    def __new__(cls, parts: dict[Monomial, int]) -> Self:
        check()
        key = frozenset(parts.items())
        found = _terms.get(key)
        if found is None:
            found = _terms[key] = super().__new__(cls)
            found.parts, found._bounds, found._leaves = parts, None, None
        return found  # pyright: ignore[reportReturnType]

    @property
    def constant(self) -> int | None:
        """The value, if there is no atom in it."""
        if not self.parts:
            return 0
        if len(self.parts) == 1 and () in self.parts:
            return self.parts[()]
        return None

    def __add__(self, other: Term | int) -> Term:
        parts = dict(self.parts)
        for monomial, c in as_term(other).parts.items():
            total = parts.get(monomial, 0) + c
            if total:
                parts[monomial] = total
            else:
                parts.pop(monomial, None)
        return _joined(parts)

    def __neg__(self) -> Term:
        return Term({m: -c for m, c in self.parts.items()})

    def __sub__(self, other: Term | int) -> Term:
        parts = dict(self.parts)
        for monomial, c in as_term(other).parts.items():
            total = parts.get(monomial, 0) - c
            if total:
                parts[monomial] = total
            else:
                parts.pop(monomial, None)
        return _joined(parts)

    def __mul__(self, other: Term | int) -> Term:
        parts: dict[Monomial, int] = {}
        for m, c in self.parts.items():
            for n, d in as_term(other).parts.items():
                key = tuple(sorted((*m, *n), key=order)) if m and n else m or n
                total = parts.get(key, 0) + c * d
                if total:
                    parts[key] = total
                else:
                    parts.pop(key, None)
        return Term(parts)

    def bounds(self) -> tuple[Bound, Bound]:
        """Constant bounds that follow from those of the atoms, each None if there is none."""
        if self._bounds is None:
            low: Bound = 0
            high: Bound = 0
            for monomial, c in self.parts.items():
                lo, hi = _scaled(_product(monomial), c)
                low = None if low is None or lo is None else low + lo
                high = None if high is None or hi is None else high + hi
            self._bounds = (low, high)
        return self._bounds

    def atoms(self) -> Iterable[Atom]:
        for monomial in self.parts:
            yield from monomial

    def __repr__(self) -> str:
        return text_of(self)


def _joined(parts: dict[Monomial, int]) -> Term:
    """The sum of `parts`, in which b * (a // b) + a % b, also as a factor, is `a` again."""
    for monomial in parts:
        for atom in monomial:
            if type(atom) is Remainder:
                whole = _without_division(parts, monomial, atom)
                if whole is not None:
                    return whole
    return Term(parts)


def _without_division(
    parts: dict[Monomial, int], monomial: Monomial, remainder: Remainder
) -> Term | None:
    quotient = _made.get((Quotient, remainder.a, remainder.b))
    if quotient is None:
        return None
    factors = list(monomial)
    factors.remove(remainder)
    c = parts[monomial]
    product = Term({tuple(factors): c}) * remainder.b * term_of(quotient)
    if any(parts.get(m) != d for m, d in product.parts.items()):
        return None
    rest = {m: d for m, d in parts.items() if m != monomial and m not in product.parts}
    return Term(rest) + Term({tuple(factors): c}) * remainder.a


def as_term(value: Term | int) -> Term:
    if isinstance(value, Term):
        return value
    return Term({(): value} if value else {})


def term_of(atom: Atom) -> Term:
    return Term({(atom,): 1})


def order(made: Interned) -> int:
    """A key to sort by: the order in which atoms and conditions were made."""
    return made.serial


def _product(monomial: Monomial) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    i = 0
    while i < len(monomial):
        atom = monomial[i]
        power = 1
        while i + power < len(monomial) and monomial[i + power] == atom:
            power += 1
        lo, hi = _power(*bounds_of(atom), power)
        low, high = _times(low, high, lo, hi)
        i += power
    return low, high


def _power(low: Bound, high: Bound, power: int) -> tuple[Bound, Bound]:
    """Bounds of a number to a power of 1 or more."""
    lo, hi = low, high
    for _ in range(power - 1):
        lo, hi = _times(lo, hi, low, high)
    if power % 2 == 0 and (lo is None or lo < 0):
        lo = 0
    return lo, hi


def _times(a: Bound, b: Bound, c: Bound, d: Bound) -> tuple[Bound, Bound]:
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if a is None or b is None or c is None or d is None:
        return None, None
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def _scaled(bounds: tuple[Bound, Bound], c: int) -> tuple[Bound, Bound]:
    low, high = bounds
    if c < 0:
        low, high = high, low
    return None if low is None else low * c, None if high is None else high * c


@lru_cache(1 << 16)
def bounds_of(atom: Atom) -> tuple[Bound, Bound]:
    """Constant bounds of an atom."""
    if isinstance(atom, Symbol | Opaque):
        return atom.low, atom.high
    if isinstance(atom, Quotient):
        low, high = atom.a.bounds()
        least, most = atom.b.bounds()
        # Where a divisor is not positive, that is a finding of its own.
        least = max(1, least or 1)
        if most is not None and most < 1:
            return None, None
        # A larger divisor brings a quotient nearer to 0, or to -1.
        lo: Bound = low
        if low is not None:
            lo = low // least if low < 0 else low // most if most is not None else 0
        hi: Bound = high
        if high is not None:
            hi = high // least if high >= 0 else high // most if most is not None else -1
        return lo, hi
    if isinstance(atom, Remainder):
        low, high = atom.a.bounds()
        _, most = atom.b.bounds()
        hi = None if most is None else most - 1
        if low is not None and low >= 0 and high is not None:
            hi = high if hi is None else min(hi, high)
        return 0, hi
    (a, b), (c, d) = atom.a.bounds(), atom.b.bounds()
    return (
        None if a is None or c is None else min(a, c),
        None if b is None or d is None else max(b, d),
    )


# Conditions.


@dataclass(frozen=True, eq=False)
class AtMost(Interned):
    """term <= 0"""

    term: Term


@dataclass(frozen=True, eq=False)
class Zero(Interned):
    """term == 0"""

    term: Term


@dataclass(frozen=True, eq=False)
class Unknown(Interned):
    """A truth value nothing is known of. Equal keys are equal values."""

    key: tuple[object, ...]
    why: str = ""

    def __new__(cls, key: tuple[object, ...], why: str = "") -> Self:
        return super().__new__(cls, key, why)


@dataclass(frozen=True, eq=False)
class Not(Interned):
    inner: Cond


@dataclass(frozen=True, eq=False)
class And(Interned):
    """All of `parts`: two or more, in order, no constants."""

    parts: tuple[Simple, ...]


Simple = AtMost | Zero | Unknown | Not
Cond = bool | Simple | And
Leaf = Symbol | Opaque | Unknown


def at_most(a: Term | int, b: Term | int) -> Cond:
    """a <= b"""
    difference = as_term(a) - as_term(b)
    low, high = difference.bounds()
    if high is not None and high <= 0:
        return True
    if low is not None and low > 0:
        return False
    return AtMost(difference)


def less(a: Term | int, b: Term | int) -> Cond:
    return at_most(as_term(a) + 1, b)


def equal(a: Term | int, b: Term | int) -> Cond:
    difference = as_term(a) - as_term(b)
    low, high = difference.bounds()
    if low is not None and low == high:
        return low == 0
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    return Zero(difference)


def negation(c: Cond) -> Cond:
    if isinstance(c, bool):
        return not c
    if isinstance(c, Not):
        return c.inner
    if isinstance(c, AtMost):
        return at_most(1, c.term)
    return Not(c)


def both(*conditions: Cond) -> Cond:
    parts: set[Simple] = set()
    for c in conditions:
        if isinstance(c, And):
            parts.update(c.parts)
        elif not isinstance(c, bool):
            parts.add(c)
        elif not c:
            return False
    if any(negation(c) in parts for c in parts):
        return False
    if len(parts) == 1:
        return next(iter(parts))
    return And(tuple(sorted(parts, key=order))) if parts else True


def parts_of(c: Cond) -> tuple[Cond, ...]:
    """The conditions that are all true where `c` is."""
    if isinstance(c, And):
        return c.parts
    return () if c is True else (c,)


def either(*conditions: Cond) -> Cond:
    return negation(both(*(negation(c) for c in conditions)))


def choose(condition: Cond, a: Term, b: Term) -> Term:
    if condition is True or a == b:
        return a
    if condition is False:
        return b
    return term_of(Choice(condition, a, b))


def least(a: Term, b: Term) -> Term:
    return choose(at_most(a, b), a, b)


def most(a: Term, b: Term) -> Term:
    return choose(at_most(a, b), b, a)


def floor_div(a: Term, b: Term) -> Term:
    """floor(a / b); `b` must be at least 1."""
    x, y = a.constant, b.constant
    if y is not None and y < 1:
        return term_of(Quotient(a, b))
    if y == 1:
        return a
    if y is not None:
        if x is not None:
            return as_term(x // y)
        # What y divides comes out: (y*q + r) // y = q + r // y.
        whole = {m: c // y for m, c in a.parts.items() if c % y == 0}
        if whole:
            rest = Term({m: c for m, c in a.parts.items() if c % y})
            return Term(whole) + floor_div(rest, b)
        low, high = a.bounds()
        if low is not None and high is not None and low // y == high // y:
            return as_term(low // y)
    else:
        low, _ = b.bounds()
        a_low, a_high = a.bounds()
        known = low is not None and a_low is not None and a_high is not None
        if known and a_low >= 0 and a_high < low:  # pyright: ignore
            return as_term(0)
        if a == b:
            return as_term(1)
    return term_of(Quotient(a, b))


def modulo(a: Term, b: Term) -> Term:
    """a - b * floor(a / b): at least 0 and less than `b`, which must be at least 1."""
    x, y = a.constant, b.constant
    if y is not None and y < 1:
        return term_of(Remainder(a, b))
    if y is not None:
        if x is not None:
            return as_term(x % y)
        # As in `floor_div`, so that quotient and remainder stay those of one term.
        a = Term({m: c for m, c in a.parts.items() if c % y})
        if a.constant is not None:
            return as_term((a.constant or 0) % y)
    low, high = a.bounds()
    least_b, _ = b.bounds()
    known = low is not None and high is not None and least_b is not None
    if known and low >= 0 and high < least_b:  # pyright: ignore
        return a
    if a == b:
        return as_term(0)
    return term_of(Remainder(a, b))


Mark = Callable[["Symbol | Opaque"], "Atom | Term | None"]


def rename(value: Term, mark: Mark, seen: dict[object, object]) -> Term:
    """`value` with every symbol and opaque atom replaced for which `mark` gives something.

    `seen` keeps what has been made, for as long as `mark` stays the same.
    """
    found = seen.get(value)
    if isinstance(found, Term):
        return found
    result = as_term(0)
    for monomial, c in value.parts.items():
        product = as_term(c)
        for atom in monomial:
            product = product * _rename_atom(atom, mark, seen)
        result = result + product
    seen[value] = result
    return result


def _rename_atom(atom: Atom, mark: Mark, seen: dict[object, object]) -> Term:
    if isinstance(atom, Symbol | Opaque):
        other = mark(atom)
        return other if isinstance(other, Term) else term_of(other or atom)
    if isinstance(atom, Quotient):
        return floor_div(rename(atom.a, mark, seen), rename(atom.b, mark, seen))
    if isinstance(atom, Remainder):
        return modulo(rename(atom.a, mark, seen), rename(atom.b, mark, seen))
    return choose(
        rename_condition(atom.condition, mark, seen),
        rename(atom.a, mark, seen),
        rename(atom.b, mark, seen),
    )


def rename_condition(c: Cond, mark: Mark, seen: dict[object, object]) -> Cond:
    if isinstance(c, bool):
        return c
    found = seen.get(c)
    if found is not None:
        return found  # pyright: ignore[reportReturnType]
    result: Cond
    if isinstance(c, AtMost):
        result = at_most(rename(c.term, mark, seen), 0)
    elif isinstance(c, Zero):
        result = equal(rename(c.term, mark, seen), 0)
    elif isinstance(c, Unknown):
        atom = mark(Opaque(c.key))
        result = Unknown(atom.key if isinstance(atom, Opaque) else c.key, c.why)
    elif isinstance(c, Not):
        result = negation(rename_condition(c.inner, mark, seen))
    else:
        result = both(*(rename_condition(p, mark, seen) for p in c.parts))
    seen[c] = result
    return result


def leaves(value: Term) -> frozenset[Leaf]:
    """The symbols, opaque values and unknown conditions in `value`, however deep."""
    if value._leaves is None:
        found: set[Leaf] = set()
        for atom in value.atoms():
            if isinstance(atom, Symbol | Opaque):
                found.add(atom)
                continue
            found |= leaves(atom.a) | leaves(atom.b)
            if isinstance(atom, Choice):
                found |= condition_leaves(atom.condition)
        value._leaves = frozenset(found)
    return value._leaves


@lru_cache(1 << 16)
def condition_leaves(c: Cond) -> frozenset[Leaf]:
    """The same of a condition."""
    if isinstance(c, bool):
        return frozenset()
    if isinstance(c, Unknown):
        return frozenset((c,))
    if isinstance(c, AtMost | Zero):
        return leaves(c.term)
    if isinstance(c, Not):
        return condition_leaves(c.inner)
    return frozenset().union(*(condition_leaves(p) for p in c.parts))


def text_of(value: Term) -> str:
    """`value` as people write it."""
    if not value.parts:
        return "0"
    words: list[str] = []
    for monomial, c in sorted(value.parts.items(), key=lambda e: (-len(e[0]), str(e[0]))):
        factors = [_atom_text(a) for a in monomial]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        sign = "-" if c < 0 else "+"
        words.append(f"{sign} {'*'.join(factors)}")
    text = " ".join(words)
    return text[2:] if text.startswith("+ ") else "-" + text[2:]


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    if isinstance(atom, Opaque):
        return atom.why or "?"
    if isinstance(atom, Quotient):
        return f"(({text_of(atom.a)}) // ({text_of(atom.b)}))"
    if isinstance(atom, Remainder):
        return f"(({text_of(atom.a)}) % ({text_of(atom.b)}))"
    return f"select({text_of(atom.a)}, {text_of(atom.b)})"
