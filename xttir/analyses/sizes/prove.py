"""Verdicts about every size of a kernel: what is proved, what a launch refutes, what stays open."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from xttir.analyses.sizes.asking import Finding, ask
from xttir.analyses.sizes.confirm import Witness, confirm
from xttir.analyses.sizes.contract import GENERAL, Contract, from_launch
from xttir.analyses.sizes.deadline import OUT_OF_TIME, OutOfTime, now, until
from xttir.analyses.sizes.evaluate import Access, Evaluator
from xttir.analyses.sizes.questions import not_modelled
from xttir.analyses.sizes.solver import Budget, new_context
from xttir.diagnostics import Fault, Kind, Location, Unsupported, Verdict
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.launch import Launch

ASKING = 0.8
"""The part of the time for proofs; the rest is for running what was refuted."""


@dataclass(eq=False)
class EverySize:
    """What is known of one kernel for every size.

    `contract`: what was assumed of the arguments, a line each; `only`: what holds of the launch
    besides, perhaps by accident, and without which there is no proof; `asked`: questions by kind;
    `open`: what could not be decided, with the access and the reason.
    """

    kernel: str
    verdict: Verdict
    contract: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    open: list[tuple[Location, str]] = field(default_factory=list)
    seconds: float = 0.0


def function_of(launch: Launch) -> tt.FuncOp:
    """The kernel of a launch."""
    function = tt.function_named(launch.module, launch.kernel)
    if function is None:
        raise Unsupported(f"a launch of {launch.kernel}, which is not in its module")
    return function


def contract_of(launch: Launch) -> Contract:
    """The contract of a launch; reads the launch's integer data, so before it runs."""
    return from_launch(launch, function_of(launch))


FIRST_SHARE = 0.65
"""The part of the time that the likeliest reading of a launch gets."""


def prove(contract: Contract, seconds: float = 20.0) -> EverySize:
    """Decide about every size of the kernel of `contract`. Nothing is raised but Unsupported.

    Where its launch can be read in several ways, a proof under any of them will do: it says which.
    """
    end = now() + seconds
    share = FIRST_SHARE * seconds if contract.others else seconds
    result = _prove(contract, share)
    for n, other in enumerate(contract.others):
        left = end - now()
        if result.verdict is not Verdict.UNKNOWN or left < seconds / 50:
            break
        again = _prove(other, left if n == len(contract.others) - 1 else left / 2)
        if again.verdict is Verdict.VERIFIED:
            again.seconds += result.seconds
            return again
    return result


def _prove(contract: Contract, seconds: float) -> EverySize:
    began = now()
    launch = contract.launch
    assert launch is not None
    result = EverySize(launch.kernel, Verdict.VERIFIED)
    new_context()
    try:
        with until(began + seconds):
            _look(contract, launch, Budget(seconds), result)
    except OutOfTime:
        result.open.append((location_of(function_of(launch)), OUT_OF_TIME))
    result.open = list(dict.fromkeys(result.open))
    result.faults = list({f.key: f for f in result.faults}.values())
    if result.faults:
        result.verdict = Verdict.FAULT
    elif result.open:
        result.verdict = Verdict.UNKNOWN
    result.seconds = now() - began
    return result


def _look(contract: Contract, launch: Launch, budget: Budget, result: EverySize) -> None:
    """Make the terms of the kernel, ask, and run what was refuted; the outcome goes into `result`.

    Raises OutOfTime before all questions were asked; what was found stays.
    """
    evaluator = Evaluator(launch.module, contract.grid)
    evaluator.kernel(function_of(launch), contract.parameters)
    accesses = evaluator.accesses
    asking = Budget(ASKING * budget.left())
    found = ask(contract, accesses, evaluator.pids, evaluator.loads, asking)
    result.asked = found.asked
    used = [f.text for f in found.used if f.level == GENERAL]
    result.contract = list(dict.fromkeys([*contract.text, *used]))
    accidents = [f.text for f in found.used if f.level > GENERAL]
    result.only = list(dict.fromkeys(accidents))
    waits = any(a.ordered for a in accesses)
    for access, why in (*not_modelled(contract, accesses), *found.missed):
        result.open.append((_place(access), f"{access.kind}: {why}"))
    for finding in found.open:
        witness = None
        if not (waits and finding.question.kind is Kind.RACE):
            with suppress(OutOfTime):
                witness = confirm(
                    contract, finding.question, finding.facts, evaluator.pids, evaluator.loads,
                    budget,
                )  # fmt: skip
        if witness is not None:
            result.faults += [_fault(f, witness) for f in witness.faults]
        else:
            result.open.append(_open(finding, waits))


def _fault(fault: Fault, witness: Witness) -> Fault:
    sizes = ", ".join(f"{k} = {v}" for k, v in sorted(witness.sizes.items()))
    note = f"a launch that shows it: grid {witness.grid}, {sizes}"
    return replace(
        fault,
        notes=(*fault.notes, note),
        witness={**fault.witness, "launch": {"grid": list(witness.grid), **witness.sizes}},
    )


def _open(finding: Finding, waits: bool) -> tuple[Location, str]:
    question = finding.question
    why = finding.why or "a counter-example was found that no run shows"
    if waits and question.kind is Kind.RACE:
        why = "the kernel orders its programs by atomics, which is not followed for every size"
    return _place(question.accesses[0]), f"{question.kind}: {question.what}: {why}"


def _place(access: Access) -> Location:
    return location_of(access.op)
