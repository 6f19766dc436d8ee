"""Asks the questions about a kernel, by means that cost more and more.

Every question gets a moment of adding up inequalities, and of z3 with the launch's own numbers.
Those that are left get more of both; races are asked digit by digit then. The rest shares the time.
What is proved leaves only the facts that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from xttir.analyses.sizes.affine import impossible
from xttir.analyses.sizes.contract import Contract, data_facts
from xttir.analyses.sizes.deadline import OUT_OF_TIME, OutOfTime, check_now, left, now, until
from xttir.analyses.sizes.definitions import Replaced
from xttir.analyses.sizes.digits import equal_by_digits
from xttir.analyses.sizes.evaluate import Access
from xttir.analyses.sizes.questions import Question, loaded, questions, relevant
from xttir.analyses.sizes.solver import (
    ACCIDENT,
    COINCIDENT,
    Answer,
    Budget,
    Fact,
    glance,
    prove,
    reason,
)
from xttir.analyses.sizes.terms import Cond, Leaf, Symbol, leaves, parts_of
from xttir.diagnostics import Kind

FIRST_SECONDS = 0.1
"""Time for adding up the inequalities of one question, before anything else is tried."""

ADDING_SECONDS = 3.0
"""The same after the solver has been asked for an answer at once."""

DIGIT_SECONDS = 0.4
"""Time to show that a digit is less than its base, by either means."""

DIGITS_SHARE = 0.3
"""The part of the time left that the digits of one pair of addresses may take."""

DEFINED_SECONDS = 0.5
"""Time for adding up inequalities where definitions have been put in."""

SOON_SECONDS = 1.0
"""What is at once for the solver."""

WIDER = 0.03
"""The part of the time left that looking for a wider proof may take."""

MOST_SECONDS = 8.0
"""Time for one question."""

_RANK = {Kind.OUT_OF_BOUNDS: 0, Kind.RACE: 1, Kind.INT_OVERFLOW: 2}


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


def ask(
    contract: Contract,
    accesses: list[Access],
    pids: tuple[Symbol, ...],
    loads: dict[tuple[object, ...], str],
    budget: Budget,
) -> Findings:
    """Ask all questions. `loads`: the tensors that loaded values come from, by their keys."""
    written = {a.base for a in accesses if a.kind in ("write", "atomic")}
    # The launch's data is what a kernel reads only of tensors that it leaves alone.
    kept = {key: name for key, name in loads.items() if written.isdisjoint((name, ""))}
    asking = _Asking(contract, kept, budget)
    for question in _in_time(questions(contract, accesses, pids), accesses, asking.findings):
        asking.first(question)
    asking.hard.sort(key=lambda h: _RANK[h[0].kind])
    asking.settle(_soon)
    if asking.digits():
        asking.settle(_soon)
    asking.settle(added_up)
    asking.settle(_by_definition)
    asking.insist()
    return asking.findings


class _Asking:
    """The questions about one kernel. `hard`: those without an answer, and what matters to them."""

    def __init__(
        self, contract: Contract, loads: dict[tuple[object, ...], str], budget: Budget
    ) -> None:
        self.contract = contract
        self.loads = loads
        self.budget = budget
        self.findings = Findings()
        self.hard: list[tuple[Question, list[Fact]]] = []
        self.settled: set[tuple[Cond, ...]] = set()
        self.proved: list[frozenset[Cond]] = []
        """Conditions that cannot hold together."""

    def take(self, question: Question, facts: list[Fact], answer: Answer) -> None:
        if answer.impossible:
            self.proved.append(_all_of(question.bad))
            answer = widened(question.bad, _lasting(facts), answer)
            self.use(answer.used)
        else:
            self.findings.open.append(Finding(question, facts, _why(question, answer)))

    def use(self, facts: list[Fact]) -> None:
        self.findings.used += [f for f in facts if f not in self.findings.used]

    def follows(self, question: Question) -> bool:
        """Whether fewer conditions have been shown to be impossible together."""
        every = _all_of(question.bad)
        return any(known <= every for known in self.proved)

    def first(self, question: Question) -> None:
        kind = str(question.kind)
        self.findings.asked[kind] = self.findings.asked.get(kind, 0) + 1
        if question.bad in self.settled or self.follows(question):
            return
        self.settled.add(question.bad)
        facts: list[Fact] = []
        answer: Answer | None = Answer(False, why=OUT_OF_TIME)
        with suppress(OutOfTime):
            check_now()
            facts = [
                *self.contract.facts,
                *data_facts(self.contract, loaded(question.bad, self.loads)),
            ]
            facts = relevant(question.bad, facts)
            answer = added_up(question.bad, _lasting(facts), FIRST_SECONDS)
            if answer is None:
                limit = min(1.0, self.budget.left())
                answer = glance(question.bad, _lasting(facts), facts, self.contract.values, limit)
        if answer is not None:
            self.take(question, facts, answer)
        else:
            self.hard.append((question, facts))

    def settle(self, proof: Callable[[tuple[Cond, ...], list[Fact], float], Answer | None]) -> None:
        """Try one means on everything that is hard."""
        still: list[tuple[Question, list[Fact]]] = []
        for n, (question, facts) in enumerate(self.hard):
            if self.follows(question):
                continue
            answer = None
            with suppress(OutOfTime):
                share = 2 * self.budget.left() / (len(self.hard) - n)
                answer = proof(question.bad, _lasting(facts), share)
            if answer is not None:
                self.take(question, facts, answer)
            else:
                still.append((question, facts))
        self.hard = still

    def digits(self) -> bool:
        """Ask races whose addresses have digits as those where all digits are the same. Whether
        there are any."""
        before = self.hard
        self.hard = [(self._by_digits(q, f), f) for q, f in before]
        return any(q is not p for (q, _), (p, _) in zip(self.hard, before, strict=True))

    def _by_digits(self, question: Question, facts: list[Fact]) -> Question:
        if question.sides is None:
            return question
        facts = _lasting(facts)

        def proved(conditions: Sequence[Cond]) -> list[Fact] | None:
            some = tuple(conditions)
            answer = added_up(some, facts, DIGIT_SECONDS) or _soon(some, facts, DIGIT_SECONDS)
            return answer.used if answer else None

        with suppress(OutOfTime), until(now() + DIGITS_SHARE * self.budget.left()):
            one, two = question.accesses
            same, used = equal_by_digits(question.sides, one is two, self.contract.values, proved)
            if len(same) > 1:
                self.use(used)
                a, b = question.sides
                bad = (*a.conditions, *b.conditions, *same, question.bad[-1])
                return replace(question, bad=bad)
        return question

    def insist(self) -> None:
        """What is left shares the time: most questions need little, and leave it to the others."""
        for n, (question, facts) in enumerate(self.hard):
            if self.follows(question):
                continue
            rest = self.budget.left()
            share = min(MOST_SECONDS, 3 * rest / (len(self.hard) - n), rest)
            answer = Answer(False, why=OUT_OF_TIME)
            with suppress(OutOfTime):
                answer = reason(question.bad, _lasting(facts), share)
                if not answer.impossible:
                    accident = _by_accident(question.bad, facts, self.budget.left())
                    answer.why = accident or answer.why
            self.take(question, facts, answer)


def _all_of(conditions: tuple[Cond, ...]) -> frozenset[Cond]:
    return frozenset(p for c in conditions for p in parts_of(c))


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


def _by_definition(
    conditions: tuple[Cond, ...], facts: list[Fact], seconds: float
) -> Answer | None:
    """A proof with sizes replaced by what explains them."""
    replaced = Replaced(conditions, facts)
    if not replaced.definitions:
        return None
    answer = added_up(replaced.conditions, replaced.facts, min(DEFINED_SECONDS, seconds / 2))
    answer = answer or _soon(replaced.conditions, replaced.facts, seconds)
    return Answer(True, replaced.used(answer.used)) if answer else None


def added_up(conditions: tuple[Cond, ...], facts: list[Fact], seconds: float) -> Answer | None:
    """The answer that adding up inequalities gives."""
    seconds = min(ADDING_SECONDS, seconds)
    likely = [f for f in facts if f.level < COINCIDENT]
    for some in [likely, facts] if len(likely) < len(facts) else [facts]:
        with suppress(OutOfTime), until(now() + seconds):
            used = impossible(conditions, some)
            if used is not None:
                return Answer(True, used)
        check_now()
        seconds /= 2
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


def _why(question: Question, answer: Answer) -> str:
    if answer.why:
        return answer.why
    found = frozenset[Leaf]().union(*(leaves(a.offset) for a in question.accesses))
    opaque = sorted({a.why for a in found if not isinstance(a, Symbol)})
    return "the address depends on " + ", ".join(opaque) if opaque else ""
