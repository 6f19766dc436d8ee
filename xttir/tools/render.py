"""The one place that turns a report into text for people.

A fault reads like a compiler diagnostic: the place in the user's source first, then what happened
in numbers that can be checked, then what to try. Lines are lists of (style, text) segments, so
that the same lines serve pipes (plain) and terminals (styled by rich).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from xttir.diagnostics import Fault, Location, Policy, Verdict
from xttir.policy import CHECKS
from xttir.tools import source
from xttir.tools.report import Group, Problem, Report, ScriptError, grouped
from xttir.tools.static_report import StaticReport
from xttir.tools.validate_report import ValidateReport

Line = list[tuple[str, str]]

ERROR, WARNING, NOTE, HINT, GUTTER, CARET, BOLD, OK = (
    "bold red",
    "bold yellow",
    "",
    "cyan",
    "bold blue",
    "bold red",
    "bold",
    "bold green",
)

MAX_GROUPS = 20
"""Places shown in full; the rest get one line each."""

MAX_WIDTH = 160
"""Characters of a line of source that are shown."""

MAX_OTHERS = 3
"""Further messages at one place that are shown."""


def to_plain(lines: Iterable[Line]) -> str:
    """`lines` as text that ends in a newline ("" for none)."""
    return "".join("".join(text for _, text in line).rstrip() + "\n" for line in lines)


def to_ansi(lines: Iterable[Line]) -> str:
    """`lines` with colours."""
    import io

    from rich.console import Console
    from rich.text import Text

    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", soft_wrap=True)
    for line in lines:
        text = Text.assemble(*((part, style) for style, part in line))
        console.print(text, highlight=False, overflow="ignore", crop=False)
    return stream.getvalue()


def wants_color(stream: object, choice: str = "auto") -> bool:
    """Whether to style what goes to `stream`. `choice`: auto, always or never."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def styled(lines: Iterable[Line], color: bool) -> str:
    return to_ansi(lines) if color else to_plain(lines)


def report_lines(report: Report) -> Iterator[Line]:
    """The whole report: faults, what else went wrong, and the summary."""
    if isinstance(report, StaticReport):
        from xttir.tools import render_static

        yield from render_static.fault_lines(report)
    else:
        yield from fault_lines(report.faults, strict=report.policy.strict)
    for problem in report.unsupported:
        yield from problem_lines("unsupported", problem)
        yield []
    for problem in report.internal:
        yield from problem_lines("internal error", problem)
        yield []
    if report.input_error:
        yield from problem_lines("error", report.input_error)
    if report.script_error:
        yield from script_error_lines(report.script_error)
        yield []
    if report.interrupted:
        yield [(ERROR, "interrupted"), ("", f" {report.interrupted}")]
    if isinstance(report, ValidateReport):
        from xttir.tools import render_validate

        yield from render_validate.summary_lines(report)
    elif isinstance(report, StaticReport):
        from xttir.tools import render_static

        if not report.input_error:
            yield from render_static.summary_lines(report)
    elif report.launches or not report.input_error:
        yield from summary_lines(report)


def fault_lines(faults: Iterable[Fault], *, strict: bool = False) -> Iterator[Line]:
    """All `faults`, grouped, the likely cause first, a blank line after each."""
    groups = grouped(faults)
    for group in groups[:MAX_GROUPS]:
        yield from group_lines(group, strict=strict)
        yield []
    rest = groups[MAX_GROUPS:]
    for group in rest:
        yield [*_headline(group.first, strict), ("", f"  {_place(group.first)}")]
    if rest:
        yield []


def group_lines(group: Group, *, strict: bool = False) -> Iterator[Line]:
    """One fault in full, with what was seen of it elsewhere."""
    fault = group.first
    yield _headline(fault, strict)
    places = fault.locations or (Location("", function=fault.kernel),)
    width = max(len(str(place.line or "")) for place in places)
    pad = " " * width
    notes = [*fault.notes, *_occurrences(group)]
    above = None
    for index, place in enumerate(places):
        place = source.corrected(place)
        about = _where(fault, place) if index == 0 else _role(place)
        yield [(GUTTER, f"{pad}--> "), (BOLD, shown_place(place)), ("", about)]
        below = index > 0 and _is_ptx(place) and not _is_ptx(places[index - 1])
        if shown_place(place) != above and not below:
            yield from _excerpt_lines(place, width)
        above = shown_place(place)
        if index == 0:
            yield from ([(GUTTER, f"{pad} | "), (NOTE, text)] for text in _split(notes))
    if not fault.confirmed:
        yield [(GUTTER, f"{pad} | "), (NOTE, "derived from the program, not seen in a run")]
    yield from ([(GUTTER, f"{pad} = "), (HINT, text)] for text in _split([fault.hint]))


def _is_ptx(place: Location) -> bool:
    """PTX lines stand below the source lines they were made from, and are not shown again."""
    return place.file.endswith(".ptx")


def _split(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from text.splitlines()


def _headline(fault: Fault, strict: bool) -> Line:
    warning = fault.policy is Policy.STRICT and not strict
    style, word = (WARNING, "warning") if warning else (ERROR, "error")
    return [(style, f"{word}[{fault.kind}]"), (BOLD, f": {fault.message}")]


def _place(fault: Fault) -> str:
    return shown_place(fault.locations[0]) if fault.locations else fault.kernel


def shown_place(location: Location) -> str:
    """The location with a path that is short where the file is below the current directory."""
    if not location.file:
        return str(location)
    return str(Location(shown_path(location.file), location.line, location.column))


def shown_path(path: str) -> str:
    """`path`, relative to the current directory where it is below it."""
    if not os.path.isabs(path):
        return path
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def _where(fault: Fault, place: Location) -> str:
    """What follows the first location: function, launch, grid and scalar arguments."""
    parts = []
    function = "" if place.function == "<module>" else place.function
    if place.role == "launch":
        parts.append(f" launch of {fault.kernel}" + (f" in {function}" if function else ""))
    elif function or fault.kernel:
        parts.append(f" in {function or fault.kernel}")
    if fault.launch:
        parts.append(f" launch {fault.launch}")
    if fault.launch_text:
        parts.append(f" {fault.launch_text}")
    return ",".join(parts)


def _role(place: Location) -> str:
    about = f" {_cut(place.role)}" if place.role else ""
    return about + (f" in {place.function}" if place.function else "")


def _excerpt_lines(place: Location, width: int) -> Iterator[Line]:
    shown = source.excerpt(place)
    if shown is None:
        return
    pad = " " * width
    head, *tail = _dedented(shown.lines)
    cut = len(shown.lines[0]) - len(head)
    # At most four columns of indentation are kept: enough to look like code.
    yield [(GUTTER, f"{pad} |")]
    yield [(GUTTER, f"{shown.first:>{width}} | "), ("", _cut(head))]
    carets = _cut(" " * (shown.start - cut) + "^" * (shown.end - shown.start), "")
    yield [(GUTTER, f"{pad} | "), (CARET, carets)]
    for line in tail:
        yield [(GUTTER, f"{pad} | "), ("", line)]
    if shown.cut:
        yield [(GUTTER, f"{pad} | "), ("", "    ...")]


def _cut(line: str, end: str = "...") -> str:
    """Machine-made lines can have thousands of characters."""
    return line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + end


def _dedented(lines: tuple[str, ...]) -> list[str]:
    indents = [len(x) - len(x.lstrip()) for x in lines if x.strip()]
    drop = max(0, min(indents, default=0) - 4)
    return [line[drop:] for line in lines]


def _occurrences(group: Group) -> list[str]:
    """Notes on how often the same was seen."""
    out = [f"also here: {other.message}" for other in group.others[:MAX_OTHERS]]
    left = len(group.others) - MAX_OTHERS
    if left > 0:
        out.append(f"also here: {left} more")
    if len(group.launches) > 1:
        out.append(f"seen in {len(group.launches)} launches: {_numbers(group.launches)}")
    return out


def _numbers(values: tuple[int, ...], limit: int = 6) -> str:
    """ "1..4, 7, 9" and so on, cut after `limit` runs."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    words = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}..{b}" for a, b in runs]
    return ", ".join(words[:limit]) + (", ..." if len(words) > limit else "")


def problem_lines(word: str, problem: Problem) -> Iterator[Line]:
    """Something that is not a fault: a word, what, where, and what to try."""
    yield [(ERROR, word), (BOLD, f": {problem.what}")]
    place = problem.location
    if place is not None and place.file:
        place = source.corrected(place)
        width = len(str(place.line or ""))
        inside = f" in {place.function}" if place.function else ""
        yield [(GUTTER, f"{' ' * width}--> "), (BOLD, shown_place(place)), ("", inside)]
        yield from _excerpt_lines(place, width)
        if problem.hint:
            yield [(GUTTER, f"{' ' * width} = "), (HINT, problem.hint)]
    elif problem.hint:
        yield [(GUTTER, " = "), (HINT, problem.hint)]


def script_error_lines(error: ScriptError) -> Iterator[Line]:
    """The user's own exception, as Python would show it, with the user's frames only."""
    yield [(ERROR, "script error"), (BOLD, ": the script raised an exception of its own")]
    yield from ([("", line)] for line in error.traceback.rstrip("\n").split("\n"))


def summary_lines(report: Report) -> Iterator[Line]:
    """The closing lines: what ran, what was checked and what was not, and how long it took."""
    yield from ([("", line)] for line in report.results)
    groups = grouped(report.faults)
    warnings = sum(g.first.policy is Policy.STRICT and not report.policy.strict for g in groups)
    faults = len(groups) - warnings
    verdict: Line = [(ERROR if faults else OK, counted(faults, "fault") if faults else "no fault")]
    if warnings:
        verdict += [("", ", "), (WARNING, counted(warnings, "warning"))]
    if report.tests:
        tests = ", ".join(f"{n} {outcome}" for outcome, n in report.tests.items() if n)
        yield [("", f"{counted(sum(report.tests.values()), 'test')}: {tests}.")]
    if report.launches:
        ran = f"{counted(report.programs, 'program')} of {counted(report.launches, 'launch')}"
        yield [("", f"{ran} checked in {report.seconds:.2f} s: "), *verdict, ("", ".")]
    else:
        yield [*nothing_ran(report), ("", ": "), *verdict, ("", ".")]
    done = [f"{check} ({n:,})" for check in CHECKS if (n := report.counts.done.get(check, 0))]
    done += [f"{c} ({n:,})" for c, n in report.counts.done.items() if c not in CHECKS]
    yield [("", f"Checked: {', '.join(done) if done else 'nothing'}.")]
    yield [("", f"Not checked: {not_checked_text(report)}.")]
    if report.verdict in (Verdict.UNKNOWN, Verdict.UNSUPPORTED):
        yield [(WARNING, f"Verdict: {report.verdict}"), ("", ", since not all could be checked.")]
    if report.script_exit:
        yield [("", f"The script ended itself with status {report.script_exit}.")]


def nothing_ran(report: Report) -> Line:
    """The beginning of a line that says why there is nothing to tell of any launch."""
    failed = report.internal or report.unsupported or report.interrupted
    failed = failed or report.input_error or report.script_error
    return [(WARNING, "No launch was finished" if failed else "No kernel was launched")]


def closing_lines(report: Report, assumed: Iterable[str]) -> Iterator[Line]:
    """What a verdict rests on and what was not looked at, before the verdict itself."""
    assumed = list(assumed)
    if assumed:
        yield [("", "Assumed:")]
        yield from ([("", f"  - {text}")] for text in assumed)
    left = not_checked_text(report)
    if left != "nothing":
        yield [("", f"Not checked: {left}.")]


def verdict_line(report: Report, end: str = "") -> Line:
    """ "Verdict: fault", and `end`."""
    verdict = report.verdict
    style = OK if verdict is Verdict.VERIFIED else WARNING
    style = ERROR if verdict in (Verdict.FAULT, Verdict.ERROR) else style
    return [("", "Verdict: "), (style, str(verdict)), ("", f"{end}.")]


def not_checked_text(report: Report) -> str:
    """What was not checked and why, as one line; "nothing" when all was."""
    off = [x["what"] for x in report.not_checked() if x["reason"] == "switched off"]
    parts = [f"{', '.join(off)} (switched off)"] if off else []
    for entry in report.not_checked():
        if entry["reason"] != "switched off":
            times = f", {entry['count']:,} times" if entry["count"] > 1 else ""
            parts.append(f"{entry['what']} ({entry['reason']}{times})")
    return "; ".join(parts) if parts else "nothing"


def counted(n: int, noun: str) -> str:
    """ "1 fault", "1,000 launches"."""
    plural = noun if n == 1 else noun + ("es" if noun.endswith("ch") else "s")
    return f"{n:,} {plural}"
