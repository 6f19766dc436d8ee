"""Reports of `validate` as text: the findings, a table by pass, and what the verdict rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xttir.refine.status import MISMATCH, ROUNDING, UNSUPPORTED
from xttir.tools import render
from xttir.tools.render import BOLD, ERROR, HINT, OK, WARNING, Line
from xttir.tools.validate_report import Subject, ValidateReport, runs

if TYPE_CHECKING:
    from xttir.refine.stages import Row

MAX_SUBJECTS = 40
MAX_DIFF = 24
"""Lines of the diff of the first bad pass."""


def summary_lines(report: ValidateReport) -> Iterator[Line]:
    """Everything after the findings."""
    for subject in report.subjects[:MAX_SUBJECTS]:
        yield from subject_lines(subject)
    if len(report.subjects) > MAX_SUBJECTS:
        yield [("", f"... and {len(report.subjects) - MAX_SUBJECTS} more kernels")]
    if not report.subjects and not report.faults and not report.input_error:
        yield [*render.nothing_ran(report), ("", ": nothing was validated.")]
    yield from ([(WARNING, "note"), ("", f": {text}")] for text in report.notes)
    yield from render.closing_lines(report, report.assumed if report.subjects else ())
    yield render.verdict_line(report, f" in {report.wall:.1f} s")


def subject_lines(subject: Subject) -> Iterator[Line]:
    """The table of one kernel."""
    found = subject.validation
    cases = f"{len(found.cases)} input{'s' if len(found.cases) != 1 else ''}"
    yield [(BOLD, subject.title), ("", f" ({subject.about}), {cases}{_left_out(subject)}:")]
    width = max((len(_span(a, b)) for a, b in runs(found.rows)), default=0)
    for first, last in runs(found.rows):
        style, word = _status(subject, first, last)
        number = f"{first.index}" if first is last else f"{first.index}-{last.index}"
        yield [("", f"  {number:>7}  {_span(first, last):<{width}}  "), (style, word)]
    if subject.first is not None and not subject.pairs:
        yield [
            ("", "first pass that changes the meaning: "),
            (ERROR, subject.first.stage.name),
            ("", f" ({subject.first.stage.pipeline or 'the front end'})"),
        ]
        inner = subject.first.inner
        if inner is not None:
            yield [("", "  inside of it: "), (ERROR, inner.stage.name), ("", inner.about)]
    shown = [x for x in subject.diff if not x.startswith(("---", "+++"))]
    for line in shown[:MAX_DIFF]:
        style = {"+": OK, "-": ERROR, "@": HINT}.get(line[:1], "")
        yield [("", "    "), (style, line[:120])]
    if len(shown) > MAX_DIFF:
        yield [(HINT, f"    ... {len(shown) - MAX_DIFF} more lines (--html shows them)")]
    yield []


def _left_out(subject: Subject) -> str:
    skipped = subject.validation.skipped
    if not skipped:
        return ""
    return f" ({'; '.join(f'{n} left out: {why}' for why, n in skipped.items())})"


def _name(row: Row) -> str:
    return row.stage.name or ("source" if row.index == 0 else row.stage.file or "?")


def _span(first: Row, last: Row) -> str:
    return _name(first) if first is last else f"{_name(first)} .. {_name(last)}"


def _status(subject: Subject, first: Row, last: Row) -> tuple[str, str]:
    if first.layouts:
        return ERROR, f"wrong layout: {first.layouts[0].message}"
    if first.invalid is not None:
        return ERROR, first.invalid.message
    if first.status == MISMATCH:
        finding = next(f for f in first.findings if f.difference.is_fault)
        what = "not a refinement" if subject.pairs else "changes the meaning"
        return ERROR, f"{what} ({finding.case.label}: {finding.difference.message})"
    if first.status == UNSUPPORTED:
        return WARNING, f"not run: {first.unsupported}"
    rows = subject.validation.rows[first.index : last.index + 1]
    ran = sum(r.cases > 0 for r in rows)
    bad = subject.first
    same = "same" if bad is None or first.index < bad.index else f"as after {bad.index}"
    if any(r.status == ROUNDING for r in rows):
        same += ", but for rounding"
    if not ran:
        return "", "unchanged"
    return OK, f"{same} ({ran} of {len(rows)} differ in text)" if len(rows) > 1 else same
