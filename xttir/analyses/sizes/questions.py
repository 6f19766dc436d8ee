"""The questions about every size: can an access leave its tensor, can two programs conflict, can an
offset wrap.

Each question is a condition that must be impossible. What is asked of one access: its obligations
(that the terms are the machine's values), its bounds; of two accesses to one tensor, one of them a
write and not both atomic: that no two different programs touch the same element.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from xttir.analyses.sizes.affine import impossible
from xttir.analyses.sizes.contract import ACCIDENT, Contract, data_facts
from xttir.analyses.sizes.deadline import OUT_OF_TIME, OutOfTime, check_now, left, now, until
from xttir.analyses.sizes.evaluate import Access
from xttir.analyses.sizes.solver import (
    Answer,
    Budget,
    Fact,
    glance,
    prove,
    reason,
)
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
    leaves,
    less,
    negation,
    rename,
    rename_condition,
    term_of,
)
from xttir.diagnostics import Kind


@dataclass(frozen=True, eq=False)
class Question:
    """`bad` must be impossible. `accesses`: one, or the two sides of a race."""

    kind: Kind
    accesses: tuple[Access, ...]
    bad: tuple[Cond, ...]
    what: str


@dataclass(eq=False)
class Finding:
    """A question that was not proved, with the facts that matter to it, and what is in the way."""

    question: Question
    facts: list[Fact]
    why: str = ""


@dataclass(eq=False)
class Findings:
    """All findings of a kernel. `asked` counts questions by kind."""

    open: list[Finding] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    used: list[Fact] = field(default_factory=list)
    missed: list[tuple[Access, str]] = field(default_factory=list)
    """Accesses of which not everything was asked, since the time was over."""


def in_range(grid: tuple[Term, Term, Term], pids: tuple[Symbol, ...]) -> list[Cond]:
    """Program ids inside of the grid."""
    return [less(term_of(p), g) for p, g in zip(pids, grid, strict=True)]


def questions(
    contract: Contract, accesses: list[Access], pids: tuple[Symbol, ...]
) -> Iterator[Question]:
    """All that must be impossible."""
    inside = in_range(contract.grid, pids)
    seen: set[tuple[Any, ...]] = set()
    for access in accesses:
        for guard, obligations in (
            (access.path, access.mask_obligations),
            (access.guard, access.obligations),
        ):
            for o in obligations:
                outside: list[Cond] = []
                if o.low is not None:
                    outside.append(less(o.term, o.low))
                if o.high is not None:
                    outside.append(less(o.high, o.term))
                key = (o, guard)
                if key not in seen:
                    seen.add(key)
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
            bad = (
                *inside,
                *also,
                a.guard,
                other.condition(b.guard),
                equal(a.offset, other.term(b.offset)),
                apart,
            )
            what = f"{a.kind} and {b.kind} of {a.base}"
            yield Question(Kind.RACE, (a, b), bad, what)


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


def ask(
    contract: Contract,
    accesses: list[Access],
    pids: tuple[Symbol, ...],
    loads: dict[tuple[object, ...], str],
    budget: Budget,
) -> Findings:
    """Ask all questions. What is proved leaves only the facts that it used.

    `loads`: the tensors that loaded values come from, by their keys.
    """
    findings = Findings()
    settled: set[tuple[Any, ...]] = set()
    hard: list[tuple[Question, list[Fact]]] = []
    written = {a.base for a in accesses if a.kind in ("write", "atomic")}
    # The launch's data is what a kernel reads only of tensors that it leaves alone.
    kept = {key: name for key, name in loads.items() if written.isdisjoint((name, ""))}

    def take(question: Question, facts: list[Fact], answer: Answer) -> None:
        if answer.impossible:
            answer = widened(question.bad, _lasting(facts), answer)
            findings.used += [f for f in answer.used if f not in findings.used]
        else:
            findings.open.append(Finding(question, facts, _why(question, answer)))

    asked = questions(contract, accesses, pids)
    for question in _in_time(asked, accesses, findings):
        kind = str(question.kind)
        findings.asked[kind] = findings.asked.get(kind, 0) + 1
        if question.bad in settled:
            continue
        settled.add(question.bad)
        facts: list[Fact] = []
        answer: Answer | None = Answer(False, why=OUT_OF_TIME)
        with suppress(OutOfTime):
            check_now()
            facts = [*contract.facts, *data_facts(contract, loaded(question.bad, kept))]
            facts = relevant(question.bad, facts)
            answer = added_up(question.bad, _lasting(facts), FIRST_SECONDS)
            if answer is None:
                limit = min(1.0, budget.left())
                answer = glance(question.bad, _lasting(facts), facts, contract.values, limit)
        if answer is not None:
            take(question, facts, answer)
        else:
            hard.append((question, facts))
    hard.sort(key=lambda h: _RANK[h[0].kind])
    for proof in (_soon, added_up):
        still: list[tuple[Question, list[Fact]]] = []
        for n, (question, facts) in enumerate(hard):
            answer = None
            with suppress(OutOfTime):
                share = 2 * budget.left() / (len(hard) - n)
                answer = proof(question.bad, _lasting(facts), share)
            if answer is not None:
                take(question, facts, answer)
            else:
                still.append((question, facts))
        hard = still
    # What is left shares the time: most questions need little, and leave it to the others.
    for n, (question, facts) in enumerate(hard):
        share = min(MOST_SECONDS, 3 * budget.left() / (len(hard) - n), budget.left())
        answer = Answer(False, why=OUT_OF_TIME)
        with suppress(OutOfTime):
            answer = reason(question.bad, _lasting(facts), share)
            if not answer.impossible:
                answer.why = _by_accident(question.bad, facts, budget.left()) or answer.why
        take(question, facts, answer)
    return findings


def _lasting(facts: list[Fact]) -> list[Fact]:
    """The facts that a proof may rest on."""
    return [f for f in facts if f.level < ACCIDENT]


def _by_accident(conditions: tuple[Cond, ...], facts: list[Fact], seconds: float) -> str:
    """What nobody would call a proof: that numbers of this launch happen to be in some order."""
    answer = prove(conditions, facts, min(SOON_SECONDS, seconds))
    if not answer.impossible:
        return ""
    accidents = [f.text for f in answer.used if f.level >= ACCIDENT]
    return f"shown only where, as in the launch, {', '.join(accidents)}"


def _soon(conditions: tuple[Cond, ...], facts: list[Fact], seconds: float) -> Answer | None:
    """A proof that the solver finds at once."""
    answer = prove(conditions, facts, min(SOON_SECONDS, seconds))
    return answer if answer.impossible else None


def added_up(conditions: tuple[Cond, ...], facts: list[Fact], seconds: float) -> Answer | None:
    """The answer that adding up inequalities gives."""
    with suppress(OutOfTime), until(now() + min(ADDING_SECONDS, seconds)):
        used = impossible(conditions, facts)
        if used is not None:
            return Answer(True, used)
    check_now()
    return None


def widened(conditions: tuple[Cond, ...], facts: list[Fact], answer: Answer) -> Answer:
    """A proof with as few facts of one launch as can be found soon."""
    level = max((f.level for f in answer.used), default=0)
    for top in range(level):
        some = [f for f in facts if f.level <= top]
        for proof in (_soon, added_up):
            with suppress(OutOfTime):
                found = proof(conditions, some, WIDER * left())
                if found is not None:
                    return found
    # One by one: what was used is not always needed.
    for fact in sorted((f for f in answer.used if f.level), key=lambda f: -f.level):
        if fact in answer.used:
            some = [f for f in answer.used if f is not fact]
            with suppress(OutOfTime):
                answer = _soon(conditions, some, WIDER * left()) or answer
    return answer


def _in_time(
    asked: Iterator[Question], accesses: list[Access], findings: Findings
) -> Iterator[Question]:
    """The questions, as long as there is time to make them."""
    try:
        yield from asked
    except OutOfTime:
        findings.missed += [(a, OUT_OF_TIME) for a in accesses if a.kind != "none"]


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


FIRST_SECONDS = 0.1
"""Time for adding up the inequalities of one question, before anything else is tried."""

ADDING_SECONDS = 3.0
"""The same after the solver has been asked for an answer at once."""

SOON_SECONDS = 1.0
"""What is at once for the solver."""

WIDER = 0.03
"""The part of the time left that looking for a wider proof may take."""

MOST_SECONDS = 8.0
"""Time for one question."""

_RANK = {Kind.OUT_OF_BOUNDS: 0, Kind.RACE: 1, Kind.INT_OVERFLOW: 2}


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


def _why(question: Question, answer: Answer) -> str:
    if answer.why:
        return answer.why
    found = frozenset[Leaf]().union(*(leaves(a.offset) for a in question.accesses))
    opaque = sorted({a.why for a in found if not isinstance(a, Symbol)})
    return "the address depends on " + ", ".join(opaque) if opaque else ""
