"""Reports of `verify` and `run`: findings that differ only in their places are told once, and the
closing lines say what was looked at, what holds, and what it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xttir.diagnostics import Fault, Location, Policy, Verdict
from xttir.tools import render
from xttir.tools.render import ERROR, HINT, OK, WARNING, Line
from xttir.tools.report import Group, grouped
from xttir.tools.static_report import Outcome, StaticReport

MAX_OUTCOMES = 50
MAX_FOLDS = 20
"""Findings shown, each with its places."""
MAX_PLACES = 8
"""Further places of one finding that are listed."""
_FINISHED = {
    "verify": "no schedule of these threads goes wrong",
    "run": "the result is right",
}


_NO_SIZE = "no two programs conflict and no access leaves its tensor"


def folded(faults: Iterable[Fault]) -> list[list[Group]]:
    """Groups that say the same about different places and numbers, in order of likely cause."""
    same: dict[tuple[object, ...], list[Group]] = {}
    for group in grouped(faults):
        fault = group.first
        words = re.sub(r"\d+", "#", fault.message)
        same.setdefault((fault.kind, fault.policy, fault.kernel, fault.launch, words), []).append(
            group
        )
    return list(same.values())


def fault_lines(report: StaticReport) -> Iterator[Line]:
    """All findings, a blank line after each."""
    folds = folded(report.faults)
    if not report.policy.strict:
        brief = [f for f in folds if f[0].first.policy is Policy.STRICT]
        folds = [f for f in folds if f[0].first.policy is not Policy.STRICT]
    else:
        brief = []
    for first, *others in folds[:MAX_FOLDS]:
        yield from render.group_lines(first, strict=report.policy.strict)
        for group in others[:MAX_PLACES]:
            yield [(HINT, "  also: "), ("", " and ".join(_sides(group.first)))]
        if len(others) > MAX_PLACES:
            yield [(HINT, f"  also: {len(others) - MAX_PLACES} more places")]
        yield []
    for group, *others in folds[MAX_FOLDS:]:
        more = f" and {len(others)} more places" if others else ""
        yield [(ERROR, f"[{group.first.kind}]"), ("", f" {group.first.message}{more}")]
    if folds[MAX_FOLDS:]:
        yield []
    yield from _brief_lines(brief)


def _brief_lines(folds: list[list[Group]]) -> Iterator[Line]:
    """What only the letter of the rules forbids, a line each: it shows nowhere in practice."""
    for group, *others in folds[:MAX_FOLDS]:
        fault = group.first
        more = f" and {render.counted(len(others), 'more place')}" if others else ""
        sides = " and ".join(_sides(fault)) or fault.kernel
        yield [(WARNING, f"warning[{fault.kind}]"), ("", f": {fault.message} ({sides}{more})")]
    if folds[MAX_FOLDS:]:
        yield [(WARNING, "warning"), ("", f": {len(folds) - MAX_FOLDS} more of other kinds")]
    if folds:
        yield [(HINT, " = "), ("", "--strict shows these in full, and counts them as faults")]
        yield []


def _sides(fault: Fault) -> list[str]:
    """The first place of every side of a fault."""
    places: list[str] = []
    begins, role = True, ""
    compiled = any(place.file.endswith(".ptx") for place in fault.locations)
    for place in fault.locations:
        if begins or (not compiled and place.role != role):
            places.append(render.shown_place(_brief(place)))
        # A side ends with its PTX line; the places of a side of TTGIR say the same of themselves.
        begins, role = place.file.endswith(".ptx"), place.role
    return places


def _brief(place: Location) -> Location:
    return Location(place.file.rpartition("/")[2], place.line)


def summary_lines(report: StaticReport) -> Iterator[Line]:
    """What `render.summary_lines` is for a report of launches that ran."""
    for outcome in report.outcomes[:MAX_OUTCOMES]:
        yield from _outcome_lines(outcome, report.command)
    if len(report.outcomes) > MAX_OUTCOMES:
        yield [("", f"... and {len(report.outcomes) - MAX_OUTCOMES} more")]
    if not report.outcomes and not report.faults:
        yield [*render.nothing_ran(report), ("", ": nothing was verified.")]
    found: Line = [_found(report.faults, report.policy.strict)]
    strict = [f for f in report.faults if f.policy is Policy.STRICT and not report.policy.strict]
    if strict:
        found += [("", ", "), (WARNING, _places(strict, "warning"))]
    # Several questions may have been asked of one launch.
    launches = {outcome.index or -n for n, outcome in enumerate(report.outcomes, 1)}
    text = f"{render.counted(len(launches), 'launch')} in {report.seconds:.2f} s: "
    yield [("", text), *found, ("", ".")]
    yield from render.closing_lines(report, report.assumed)
    if report.command == "run" and report.verdict is Verdict.VERIFIED:
        compared = all(outcome.compared for outcome in report.outcomes)
        word = "right" if compared else "no fault"
        yield [("", "Result: "), (OK, word), ("", " in this schedule.")]
    else:
        yield render.verdict_line(report)


def _outcome_lines(outcome: Outcome, command: str) -> Iterator[Line]:
    number = f"launch {outcome.index}: " if outcome.index else ""
    style, word = (OK, _NO_SIZE if outcome.every_size else _FINISHED[command])
    if not outcome.compared:
        word = "it ran to its end"
    if outcome.faults:
        style, word = ERROR, render.counted(outcome.faults, "finding")
    elif outcome.warnings:
        word += " in practice"
    elif not outcome.finished:
        style, word = WARNING, "not decided"
    file = render.shown_path(outcome.file)
    about = f"{number}{outcome.kernel} ({file}), {outcome.launch}: "
    yield [("", about), (style, word)]
    if outcome.done:
        done = ", ".join(f"{n:,} {what}" for what, n in outcome.done.items())
        yield [("", f"  {'asked about' if outcome.every_size else 'looked at'} {done}")]
    for line in outcome.result:
        yield [("", f"  {line}")]
    for text in outcome.details:
        for line in text.splitlines():
            yield [(HINT, f"  {line}")]


def _found(faults: list[Fault], strict: bool) -> tuple[str, str]:
    errors = [f for f in faults if strict or f.policy is not Policy.STRICT]
    return (ERROR, _places(errors, "fault")) if errors else (OK, "no fault")


def _places(faults: list[Fault], noun: str) -> str:
    """ "2 faults in 7 places" """
    folds = folded(faults)
    places = sum(map(len, folds))
    return render.counted(len(folds), noun) + (
        f" in {places} places" if places > len(folds) else ""
    )
