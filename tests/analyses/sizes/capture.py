"""Captures what Triton kernels launch, as contracts: shared by the tests of every size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from xttir.analyses.sizes.contract import Contract
from xttir.analyses.sizes.prove import EverySize, contract_of, prove
from xttir.diagnostics import Kind
from xttir.policy import RunPolicy
from xttir.tools.collect import open_session


@dataclass(frozen=True)
class Case:
    """A launch with the verdict for every size. `kinds`: faults of which one must be shown; none
    for a correct kernel. `assume`: words besides the launch. `unknown`: it may stay undecided,
    with this in the reason."""

    name: str
    launch: Callable[[], Any]
    kinds: frozenset[Kind] = frozenset()
    assume: str = ""
    unknown: str = ""


class Table:
    """Cases by name; `add` is a decorator of functions that launch."""

    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}

    def add(self, *kinds: Kind, assume: str = "", unknown: str = "") -> Callable[..., Any]:
        def register(launch: Callable[[], Any]) -> Callable[[], Any]:
            name = launch.__name__
            assert name not in self.cases, name
            self.cases[name] = Case(name, launch, frozenset(kinds), assume, unknown)
            return launch

        return register


class _Seen(Exception):
    """Ends a launch that has been read."""


def contract_for(launch: Callable[[], Any]) -> Contract:
    """The contract of the first launch that `launch` makes; nothing is run."""
    found: list[Contract] = []

    def look(made: Any) -> None:
        found.append(contract_of(made))
        raise _Seen

    with open_session(replace(RunPolicy(), cc=90).with_checks("none")) as session:
        session.before = look
        with suppress(_Seen):
            launch()
    (contract,) = found
    return contract


def decide(case: Case, seconds: float = 60) -> EverySize:
    """The verdict on the kernel of a case."""
    from xttir.analyses.sizes.assume import add_words

    contract = contract_for(case.launch)
    if case.assume:
        add_words(contract, case.assume)
    return prove(contract, seconds)
