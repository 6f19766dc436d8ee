"""Verify every mutant of a kernel, and say which are reported, redundant or missed.

A mutant is warned of where it is accepted in practice and the letter of the rules forbids what
the kernel itself does not do. Another that is verified is redundant if the explorer, with lanes
that are alike stepping together, finds no fault in any schedule, and missed if it finds one; where
it cannot go through all schedules the mutant is unjustified.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from xttir.analyses.explore import explore
from xttir.analyses.explore_classes import collapse
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import InputError, Unsupported, Verdict
from xttir.frontends.launch_description import LaunchDescription, load
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.trace import trace

STATES = 20_000


@dataclass
class Score:
    """`outcomes`: (mutant, word, why) with word "reported", "warned", "refused" (not verified:
    unknown or unsupported), "redundant", "missed" or "unjustified"."""

    kernel: str
    outcomes: list[tuple[Mutant, str, str]] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(word for _, word, _ in self.outcomes)

    def __str__(self) -> str:
        words = ", ".join(f"{n} {word}" for word, n in sorted(self.counts.items()))
        return f"{self.kernel}: {len(self.outcomes)} mutants, {words}"


@dataclass(frozen=True)
class HandWritten:
    """A kernel of the shared cases."""

    name: str
    ptx: Path
    launch: Path


def judge(
    text: str, name: str, launch: LaunchDescription, known: Collection[str] = ()
) -> tuple[str, str]:
    """(word, why) of one kernel. `known`: warnings that are not news."""
    try:
        events = trace(parse_ptx(text, name), launch)
        report = verify_trace(events)
    except (Unsupported, InputError) as error:
        return "refused", str(error)
    if report.verdict is Verdict.FAULT:
        return "reported", f"{report.faults[0].kind}: {report.faults[0].message}"
    if report.verdict is not Verdict.VERIFIED:
        return "refused", "; ".join(report.unknown)
    found = explore(events, collapse(events), max_states=STATES, first=True)
    news = [warning for warning in _warnings(report) if warning not in known]
    if news and not found.findings:
        return "warned", news[0]
    if found.findings:
        return "missed", f"{found.findings[0].kind}: {found.findings[0].message}"
    return ("redundant" if found.exhausted else "unjustified"), f"{found.states} states"


def _warnings(report: Report) -> list[str]:
    """What only the letter forbids, without the threads and addresses of the example."""
    return [f"{f.kind}: {re.sub(r'[0-9]+', 'N', f.message)}" for f in report.faults]


def score(
    kernel: HandWritten, chosen: Callable[[Mutant], bool] = lambda mutant: True, say: bool = False
) -> Score:
    """All (or the chosen) mutants of the kernel at instructions that the launch executes."""
    text, name = kernel.ptx.read_text(), str(kernel.ptx)
    launch = load(kernel.launch)
    result = Score(kernel.name)
    events = trace(parse_ptx(text, name), launch)
    report = verify_trace(events)
    word, why = judge(text, name, launch, _warnings(report))
    if word != "redundant":
        raise AssertionError(f"{kernel.name} itself is {word}: {why}")
    executed = {events.instructions[e.ins].locations[0].line for e in events.events}
    for mutant in filter(chosen, mutants(text)):
        if mutant.line not in executed:
            continue
        word, why = judge(mutant.text, name, launch, _warnings(report))
        result.outcomes.append((mutant, word, why))
        if say and word != "reported":
            print(f"  {word:12} {mutant}  ({why})", flush=True)
    return result


def table(scores: Iterable[Score]) -> str:
    words = ("reported", "warned", "redundant", "refused", "unjustified", "missed")
    lines = [f"{'kernel':32}" + "".join(f"{w:>13}" for w in ("mutants", *words))]
    total: Counter[str] = Counter()
    for one in scores:
        total += one.counts
        cells = [len(one.outcomes), *(one.counts[w] for w in words)]
        lines.append(f"{one.kernel:32}" + "".join(f"{c:13}" for c in cells))
    cells = [total.total(), *(total[w] for w in words)]
    lines.append(f"{'all':32}" + "".join(f"{c:13}" for c in cells))
    return "\n".join(lines)
