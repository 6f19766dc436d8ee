"""`validate --html`: one self-contained page with the stages, the diff of the first bad pass, and
the values that differ. No script, no style from elsewhere: it can be attached to a bug report."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import xttir
from xttir.diagnostics import InputError, Location, Verdict
from xttir.refine import explain
from xttir.refine.status import MISMATCH, ROUNDING, SAME, UNSUPPORTED
from xttir.tools import render
from xttir.tools.validate_report import Subject, ValidateReport

if TYPE_CHECKING:
    from xttir.refine.stages import Finding, Row

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --add: #2da44e33; --cut: #cf222e33; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 0.6em 0; }
td, th { padding: 0.15em 0.8em; text-align: left; border-bottom: 1px solid var(--line); }
td.n { text-align: right; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: 0.6em; line-height: 1.35; }
code, pre { font: 13px ui-monospace, monospace; }
.bad { color: #cf222e; font-weight: 600; } .good { color: #1a7f37; } .dim { opacity: 0.65; }
.warn { color: #9a6700; font-weight: 600; }
.add { background: var(--add); display: block; } .cut { background: var(--cut); display: block; }
.at { opacity: 0.6; display: block; } .same { display: block; }
summary { cursor: pointer; } h2 { margin-top: 2em; }
"""


def write(report: ValidateReport, path: str) -> None:
    """Write the page. Raises `InputError` where that is not possible."""
    try:
        Path(path).write_text(page(report), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", Location(path)) from error


def page(report: ValidateReport) -> str:
    """The whole page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: ValidateReport) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>xttir validate: {report.verdict}</title><style>{_STYLE}</style></head><body>"
    good = report.verdict is Verdict.VERIFIED
    style = "good" if good else "bad" if report.verdict is Verdict.FAULT else "warn"
    yield f'<h1>xttir validate: <span class="{style}">{report.verdict}</span></h1>'
    if report.input_error is not None:
        yield f"<p>{_e(str(report.input_error.what))}</p>"
    for subject in report.subjects:
        yield from _subject(subject)
    yield from _findings(report)
    if report.notes:
        yield "<h2>Differences within rounding</h2><ul>"
        yield from (f"<li>{_e(note)}</li>" for note in report.notes)
        yield "</ul>"
    yield "<h2>What the verdict rests on</h2><ul>"
    yield from (f"<li>{_e(text)}</li>" for text in report.assumptions())
    yield "</ul>"
    left = render.not_checked_text(report)
    yield f"<p>Not checked: {_e(left)}.</p>"
    yield f'<p class="dim">xttir {xttir.__version__}, {report.wall:.1f} s</p></body></html>'


def _subject(subject: Subject) -> Iterator[str]:
    found = subject.validation
    yield f"<h2>{_e(subject.title)}</h2><p>{_e(subject.about)}, {len(found.cases)} inputs</p>"
    if found.skipped:
        reasons = "; ".join(f"{n} left out: {why}" for why, n in found.skipped.items())
        yield f'<p class="dim">{_e(reasons)}</p>'
    first = subject.first
    if first is not None:
        what = "is not a refinement" if subject.pairs else "is the first that changes the meaning"
        name = first.stage.name or first.stage.file
        yield f'<p><span class="bad">{_e(name)}</span> {what}.</p>'
        if first.stage.pipeline:
            yield f"<p><code>{_e(first.stage.pipeline)}</code></p>"
        if first.inner is not None:
            step = first.inner.stage.name
            yield f'<p>Inside of it: <span class="bad">{_e(step)}</span>'
            yield f"{_e(first.inner.about)}.</p>"
            yield f"<details><summary>Module after {_e(step)}</summary>"
            yield f"<pre>{_e(first.inner.stage.text)}</pre></details>"
        yield from _values(first.findings)
        yield from _diff(subject, first)
    yield "<details open><summary>Stages</summary><table>"
    yield "<tr><th></th><th>pass</th><th>part</th><th>meaning</th><th>inputs</th></tr>"
    yield from (_row(row) for row in found.rows)
    yield "</table></details>"
    for row in found.rows:
        if row.status != SAME:
            title = f"Module after {row.index}: {row.stage.name or row.stage.file or 'source'}"
            yield f"<details><summary>{_e(title)}</summary>"
            yield f"<pre>{_e(row.stage.text)}</pre></details>"


def _row(row: Row) -> str:
    style = {MISMATCH: "bad", UNSUPPORTED: "warn", ROUNDING: "warn", SAME: "dim"}.get(row.status)
    word = row.status
    if row.unsupported is not None:
        word += f": {row.unsupported}"
    name = row.stage.name or row.stage.file or "source"
    return (
        f'<tr><td class="n">{row.index}</td><td title="{_e(row.stage.pipeline)}">{_e(name)}</td>'
        f'<td>{_e(row.stage.part)}</td><td class="{style or "good"}">{_e(word)}</td>'
        f'<td class="n">{row.cases or ""}</td></tr>'
    )


def _values(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        if not finding.difference.is_fault:
            continue
        difference = finding.difference
        yield f"<p>On <code>{_e(finding.case.describe())}</code>: {_e(difference.message)}</p>"
        if difference.values:
            yield "<table><tr><th>element</th><th>source</th><th>target</th></tr>"
            for value in difference.values:
                yield (
                    f"<tr><td><code>{_e(value.name)}</code></td><td>{_e(value.source)}</td>"
                    f'<td class="bad">{_e(value.target)}</td></tr>'
                )
            yield "</table>"
        break


def _diff(subject: Subject, first: Row) -> Iterator[str]:
    faults = [f for f in first.findings if f.difference.is_fault]
    # What is wrong of a module by itself, such as a layout, was compared with nothing.
    base = subject.validation.rows[faults[0].base if faults else max(first.index - 1, 0)].stage
    yield "<details open><summary>What it changed</summary><pre>"
    styles = {"+": "add", "-": "cut", "@": "at"}
    yield "".join(
        f'<span class="{styles.get(line[:1], "same")}">{_e(line) or " "}</span>'
        for line in explain.diff_lines(base, first.stage, context=3)
    )
    yield "</pre></details>"


def _findings(report: ValidateReport) -> Iterator[str]:
    if not report.faults:
        return
    yield "<h2>Findings</h2>"
    text = render.to_plain(render.fault_lines(report.faults, strict=report.policy.strict))
    yield f"<pre>{_e(text)}</pre>"


def _e(text: str) -> str:
    return html.escape(text, quote=True)
