"""The questions about every size: can an access leave its tensor, can two programs conflict, can an
offset wrap.

Each question is a condition that must be impossible. What is asked of one access: its obligations
(that the terms are the machine's values), its bounds; of two accesses to one tensor, one of them a
write and not both atomic: that no two different programs touch the same element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xttir.analyses.sizes.contract import Contract
from xttir.analyses.sizes.digits import Side
from xttir.analyses.sizes.evaluate import Access
from xttir.analyses.sizes.solver import Fact
from xttir.analyses.sizes.terms import (
    Atom,
    Cond,
    Leaf,
    Opaque,
    Symbol,
    Term,
    at_most,
    condition_leaves,
    either,
    equal,
    less,
    negation,
    parts_of,
    rename,
    rename_condition,
    term_of,
)
from xttir.diagnostics import Kind


@dataclass(frozen=True, eq=False)
class Question:
    """`bad` must be impossible. `accesses`: one, or the two sides of a race, and `sides` what holds
    of each in its program."""

    kind: Kind
    accesses: tuple[Access, ...]
    bad: tuple[Cond, ...]
    what: str
    sides: tuple[Side, Side] | None = None


def in_range(grid: tuple[Term, Term, Term], pids: tuple[Symbol, ...]) -> list[Cond]:
    """Program ids inside of the grid."""
    return [less(term_of(p), g) for p, g in zip(pids, grid, strict=True)]


def questions(
    contract: Contract, accesses: list[Access], pids: tuple[Symbol, ...]
) -> Iterator[Question]:
    """All that must be impossible."""
    inside = in_range(contract.grid, pids)
    seen: set[tuple[Any, ...]] = set()
    asked: list[tuple[Access, Cond, Any]] = []
    for access in accesses:
        for guard, obligations in (
            (access.path, access.mask_obligations),
            (access.guard, access.obligations),
        ):
            asked += [(access, guard, o) for o in obligations]
    # What holds under few conditions holds under more of them.
    asked.sort(key=lambda e: len(parts_of(e[1])))
    for access, guard, o in asked:
        outside: list[Cond] = []
        if o.low is not None:
            outside.append(less(o.term, o.low))
        if o.high is not None:
            outside.append(less(o.high, o.term))
        if (o, guard) not in seen:
            seen.add((o, guard))
            bad = (*inside, guard, either(*outside))
            yield Question(Kind.INT_OVERFLOW, (access,), bad, _obligation_text(o))
    for access in accesses:
        tensor = contract.tensors.get(access.base)
        if access.kind == "none" or tensor is None or not tensor.bounded:
            continue
        out = either(less(access.offset, 0), at_most(tensor.length, access.offset))
        bad = (*inside, access.guard, out)
        yield Question(Kind.OUT_OF_BOUNDS, (access,), bad, f"{access.kind} of {access.base}")
    other = Renaming()
    also = [other.condition(c) for c in inside]
    apart = either(*(negation(equal(term_of(p), other.term(term_of(p)))) for p in pids))
    real = [a for a in accesses if a.kind != "none"]
    for n, a in enumerate(real):
        for b in real[n:]:
            if not _conflict(a, b):
                continue
            one = Side((*inside, a.guard), a.offset)
            two = Side((*also, other.condition(b.guard)), other.term(b.offset))
            bad = (*one.conditions, *two.conditions, equal(one.offset, two.offset), apart)
            what = f"{a.kind} and {b.kind} of {a.base}"
            yield Question(Kind.RACE, (a, b), bad, what, (one, two))


def _obligation_text(o: Any) -> str:
    if o.low == 0 and o.high is None:
        return f"an operand of {o.op.name} is negative"
    if o.low == 1 and o.high is None:
        return f"the divisor of {o.op.name} is not positive"
    return f"the result of {o.op.name} does not fit its type"


def _conflict(a: Access, b: Access) -> bool:
    if a.base != b.base:
        return False
    kinds = {a.kind, b.kind}
    return not (kinds == {"read"} or kinds == {"atomic"})


class Renaming:
    """The same terms for another program: everything that programs do not share gets a prime."""

    def __init__(self) -> None:
        self._seen: dict[object, object] = {}

    def term(self, value: Term) -> Term:
        return rename(value, self._mark, self._seen)

    def condition(self, value: Cond) -> Cond:
        return rename_condition(value, self._mark, self._seen)

    def _mark(self, atom: Atom) -> Atom | None:
        if isinstance(atom, Symbol):
            if atom.shared:
                return None
            return Symbol(atom.name + "'", atom.low, atom.high)
        if isinstance(atom, Opaque):
            return Opaque((*atom.key, "'"), atom.why, atom.low, atom.high)
        return None


def not_modelled(contract: Contract, accesses: list[Access]) -> Iterator[tuple[Access, str]]:
    """Accesses about which no question can be asked, with the reason."""
    real = [a for a in accesses if a.kind != "none"]
    for a in real:
        if a.base not in contract.tensors:
            yield a, "it is not known which tensor the pointer points into"
    written = {a.base for a in real if a.kind in ("write", "atomic")}
    for pair in contract.overlapping:
        if pair & written:
            one, two = sorted(pair)
            for a in real:
                if a.base in pair and a.base in written:
                    yield a, f"{one} and {two} share memory, in a way that is not modelled"
                    break


def relevant(conditions: tuple[Cond, ...], facts: list[Fact]) -> list[Fact]:
    """The facts that may matter: connected to the conditions through shared symbols."""
    names: set[str] = set()
    for c in conditions:
        names |= _symbols(c)
    chosen: list[Fact] = []
    rest = [(f, _symbols(f.condition)) for f in facts]
    grown = True
    while grown:
        grown = False
        left: list[tuple[Fact, set[str]]] = []
        for fact, symbols in rest:
            if symbols & names or not symbols:
                chosen.append(fact)
                if not symbols <= names:
                    names |= symbols
                    grown = True
            else:
                left.append((fact, symbols))
        rest = left
    return chosen


def _symbols(condition: Cond) -> set[str]:
    return {a.name for a in condition_leaves(condition) if isinstance(a, Symbol)}


def loaded(conditions: tuple[Cond, ...], loads: dict[tuple[object, ...], str]) -> dict[Opaque, str]:
    """The opaque values among `conditions` that were loaded, with the tensor they come from."""
    out: dict[Opaque, str] = {}
    for atom in frozenset[Leaf]().union(*map(condition_leaves, conditions)):
        if isinstance(atom, Opaque):
            key = atom.key
            while key and key[-1] == "'":
                key = key[:-1]
            if key in loads:
                out[atom] = loads[key]
    return out
