"""The closing lines of `verify` and `run`: what was looked at, what holds, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from xttir.diagnostics import Policy, Verdict
from xttir.tools import render
from xttir.tools.render import ERROR, HINT, OK, WARNING, Line
from xttir.tools.report import grouped
from xttir.tools.static_report import Outcome, StaticReport

MAX_OUTCOMES = 50
_FINISHED = {
    "verify": "no schedule of these threads goes wrong",
    "run": "the result is right",
}


def summary_lines(report: StaticReport) -> Iterator[Line]:
    """What `render.summary_lines` is for a report of launches that ran."""
    for outcome in report.outcomes[:MAX_OUTCOMES]:
        yield from _outcome_lines(outcome, report.command)
    if len(report.outcomes) > MAX_OUTCOMES:
        yield [("", f"... and {len(report.outcomes) - MAX_OUTCOMES} more")]
    if not report.outcomes and not report.faults:
        yield [(WARNING, "No kernel was launched"), ("", ": nothing was verified.")]
    groups = grouped(report.faults)
    warnings = sum(g.first.policy is Policy.STRICT and not report.policy.strict for g in groups)
    faults = len(groups) - warnings
    found: Line = [(ERROR, _count(faults, "fault")) if faults else (OK, "no fault")]
    if warnings:
        found += [("", ", "), (WARNING, _count(warnings, "warning"))]
    text = f"{_count(len(report.outcomes), 'launch')} in {report.seconds:.2f} s: "
    yield [("", text), *found, ("", ".")]
    if report.assumed:
        yield [("", "Assumed:")]
        yield from ([("", f"  - {text}")] for text in report.assumed)
    left = render.not_checked_text(report)
    if left != "nothing":
        yield [("", f"Not checked: {left}.")]
    if report.command == "run" and report.verdict is Verdict.VERIFIED:
        yield [("", "Result: "), (OK, "right"), ("", " in this schedule.")]
    else:
        yield [("", "Verdict: "), (_style(report.verdict), str(report.verdict)), ("", ".")]


def _outcome_lines(outcome: Outcome, command: str) -> Iterator[Line]:
    number = f"launch {outcome.index}: " if outcome.index else ""
    style, word = (OK, _FINISHED[command])
    if outcome.faults:
        style, word = ERROR, _count(outcome.faults, "finding")
    elif not outcome.finished:
        style, word = WARNING, "not decided"
    file = render.shown_path(outcome.file)
    about = f"{number}{outcome.kernel} ({file}), {outcome.launch}: "
    yield [("", about), (style, word)]
    if outcome.done:
        done = ", ".join(f"{n:,} {what}" for what, n in outcome.done.items())
        yield [("", f"  looked at {done}")]
    for line in outcome.result:
        yield [("", f"  {line}")]
    for text in outcome.details:
        for line in text.splitlines():
            yield [(HINT, f"  {line}")]


def _style(verdict: Verdict) -> str:
    if verdict is Verdict.VERIFIED:
        return OK
    return ERROR if verdict in (Verdict.FAULT, Verdict.ERROR) else WARNING


def _count(n: int, noun: str) -> str:
    plural = noun if n == 1 else noun + ("es" if noun.endswith("ch") else "s")
    return f"{n:,} {plural}"
