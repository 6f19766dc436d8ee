"""What `xttir reduce` does: a module in, the smallest one that shows the same out, with the command
that shows it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xttir.diagnostics import InputError, Kind, Location, Unsupported, XttirError
from xttir.dialects.syntax.printer import short_text
from xttir.frontends.mlir import parse_module
from xttir.frontends.module_launch import split_argument
from xttir.frontends.module_launch.signature import find_function
from xttir.policy import RunPolicy
from xttir.refine.pipeline import PassFailed, split_pipeline
from xttir.refine.reduce import Reduction, reduce_text
from xttir.refine.reduce.predicates import (
    Arguments,
    CheckFails,
    CommandSucceeds,
    MeaningChanges,
    PassFails,
    Predicate,
    failing_pass,
    first_bad_pass,
    pipeline_transform,
    shrink_arguments,
    single_pass,
)
from xttir.tools import render
from xttir.tools.options import UsageError
from xttir.tools.report import Problem
from xttir.tools.run_module import read_text
from xttir.tools.verify import problem

if TYPE_CHECKING:
    from xttir.refine.stages import Row
    from xttir.tools.validate_report import Subject, ValidateReport


@dataclass(frozen=True)
class Settings:
    """What the options say. One of `passes`, `check` and `command` is given. `keep`: a regular
    expression that the text must go on matching. `timeout`: seconds for one run of a pass or of
    the command, `time` for the whole. `cc`, `end`: of scripts, what they compile for, and the
    last of Triton's stages that is looked at."""

    passes: str = ""
    check: str = ""
    command: str = ""
    keep: str = ""
    output: str = ""
    arguments: Sequence[str] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
    cc: int = 90
    end: str = "ttgir"
    function: str = ""
    time: float = 300
    timeout: float = 60
    quiet: bool = False


def reduce_file(path: str, settings: Settings) -> int:
    """`xttir reduce MODULE`: the exit code. Writes the module to `settings.output`, or to standard
    output; what is going on to standard error."""
    return _guarded(lambda: _reduced(*_predicate(read_text(path), path, settings), path, settings))


def reduce_script(words: Sequence[str], settings: Settings) -> int:
    """`xttir reduce script.py`: the first pass that changes the meaning of a kernel that the script
    launches or fails on it, and a module that shows it."""
    return _guarded(lambda: _reduced(*_from_script(words, settings), words[0], settings))


def _from_script(words: Sequence[str], settings: Settings) -> tuple[Predicate, str]:
    from xttir.tools import validate
    from xttir.tools.validate_script import validate_script

    asked = validate.Settings(seed=settings.seed, cc=settings.cc, end=settings.end)
    report = validate_script(words, asked)
    for subject in report.subjects:
        row = subject.first
        if row is not None:
            return _changing(subject, row, settings)
    for fault in report.faults:
        pipeline = single_pass(fault.witness.get("pipeline", ""))
        if pipeline and "module" in fault.witness:
            _say(settings, f"pass `{pipeline}` fails on {fault.kernel}")
            return PassFails(pipeline, settings.timeout), fault.witness["module"]
    raise _nothing_found(report)


def _changing(subject: Subject, row: Row, settings: Settings) -> tuple[MeaningChanges, str]:
    """The pass of `row` and the module that it was given. Inputs are made for the module; where
    those show nothing, scalars and grid are those on which the difference was seen."""
    pipeline = single_pass(row.stage.pipeline)
    stage = subject.validation.rows[row.index - 1].stage
    given = stage.located or stage.text
    _say(settings, f"pass `{pipeline}` changes the meaning of {subject.title}")
    function = Arguments(function=settings.function, seed=settings.seed)
    transform = pipeline_transform(pipeline, settings.timeout)
    predicate = MeaningChanges(transform, pipeline, function)
    if not row.findings:
        return predicate, given
    try:
        predicate.examine(given)
    except InputError as error:
        case = row.findings[0].case
        values = {name: str(value) for name, value in case.scalars().items()}
        seen = replace(function, given=values, grid=case.grid).kept(given)
        predicate = MeaningChanges(transform, pipeline, seen)
        try:
            predicate.examine(given)
        except InputError:
            hint = "the script's own data are needed; reduce the module with --arg NAME=FILE.npy"
            raise InputError(error.what, error.location, hint) from error
    return predicate, given


def _nothing_found(report: ValidateReport) -> XttirError:
    """Why there is nothing to reduce in what a script launches. What the script raised is shown."""
    if report.input_error is not None:
        return _as_error(InputError, report.input_error)
    if report.script_error is not None:
        print(render.to_plain(render.script_error_lines(report.script_error)), file=sys.stderr)
        return InputError("the script failed before a pass was found that changes a meaning")
    if report.interrupted:
        raise KeyboardInterrupt
    if report.unsupported:
        return _as_error(Unsupported, report.unsupported[0])
    if report.internal:
        return _as_error(InputError, report.internal[0])
    if not report.subjects:
        return InputError("the script launches no kernel")
    names = ", ".join(dict.fromkeys(subject.title for subject in report.subjects))
    return InputError(f"no pass changes the meaning of a kernel that the script launches ({names})")


def _as_error(kind: type[InputError] | type[Unsupported], problem: Problem) -> XttirError:
    return kind(problem.what, problem.location, problem.hint)


class _Interrupted(Exception):
    """Ctrl-C ended the search, and what it had reached was written."""


def _guarded(work: Callable[[], None]) -> int:
    """The exit code of `work`, errors told."""
    try:
        work()
    except (InputError, Unsupported) as error:
        word = "error" if isinstance(error, InputError) else "unsupported"
        lines = render.problem_lines(word, problem(error))
        print(render.styled(lines, render.wants_color(sys.stderr)), end="", file=sys.stderr)
        return error.exit_code
    except PassFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except _Interrupted:
        return 130
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    return 0


def _reduced(predicate: Predicate, text: str, path: str, settings: Settings) -> None:
    _check_writable(settings.output)
    shown = predicate.examine(text)
    _say(settings, f"shows: {shown}")
    result = reduce_text(
        text,
        _keeping(predicate, settings.keep, text),
        seconds=settings.time,
        progress=_progress(settings),
        name=path,
    )
    changes = isinstance(predicate, MeaningChanges | CheckFails)
    if changes and not result.interrupted:
        shrink_arguments(predicate, result.text)
    _write(result, shown, predicate, settings)
    if result.interrupted:
        raise _Interrupted


def _check_writable(file: str) -> None:
    """Raise before the work begins, if what it makes could not be written."""
    if file in ("", "-"):
        return
    path = Path(file)
    fresh = not path.exists()
    try:
        with path.open("a"):
            pass
        if fresh:
            path.unlink()
    except OSError as error:
        raise _cannot_write(file, error) from error


def _cannot_write(file: str, error: OSError) -> InputError:
    return InputError(f"cannot write: {error.strerror or error}", Location(file))


def _predicate(text: str, path: str, settings: Settings) -> tuple[Predicate, str]:
    """What is kept, and the module to begin with: the one that the pass at fault was given."""
    arguments = Arguments(
        dict(split_argument(word) for word in settings.arguments),
        settings.grid,
        settings.seed,
        settings.function,
    )
    if settings.command:
        return CommandSucceeds(_words(settings.command), settings.timeout), text
    if settings.check:
        find_function(parse_module(text, path), settings.function)
        policy = replace(RunPolicy(), seed=settings.seed)
        return CheckFails(_kinds(settings.check), arguments, policy), text
    split_pipeline(settings.passes)
    failed = failing_pass(text, settings.passes, path, settings.timeout)
    if failed is not None:
        given, single = failed
        _say(settings, f"pass `{single}` fails on what it is given")
        return PassFails(single, settings.timeout), given

    find_function(parse_module(text, path), settings.function)

    def changes(pipeline: str) -> MeaningChanges:
        transform = pipeline_transform(pipeline, settings.timeout)
        return MeaningChanges(transform, pipeline, arguments)

    if len(split_pipeline(settings.passes)) == 1:
        return changes(settings.passes), text
    given, single = first_bad_pass(text, settings.passes, changes(settings.passes))
    _say(settings, f"pass `{single}` changes the meaning of what it is given")
    return changes(single), given


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command: {error} in '{command}'") from None
    if not words:
        raise UsageError("--command names no command")
    return words


def _kinds(text: str) -> frozenset[Kind]:
    known = {str(kind): kind for kind in Kind}
    found = set()
    for word in text.split(","):
        if word.strip() == "any":
            return frozenset(Kind)
        if word.strip() not in known:
            raise UsageError(f"--check: '{word}' is none of {', '.join(known)}, any")
        found.add(known[word.strip()])
    return frozenset(found)


def _keeping(predicate: Predicate, pattern: str, text: str):
    if not pattern:
        return predicate.holds
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--keep: {error}") from None
    if not expression.search(text):
        raise InputError(f"the module has nothing that matches '{pattern}'")
    return lambda candidate: bool(expression.search(candidate)) and predicate.holds(candidate)


def _progress(settings: Settings):
    if settings.quiet or not sys.stderr.isatty():
        return None

    def show(state: Reduction) -> None:
        line = f"{state.before} ops -> {state.ops}, {state.tried} candidates, {state.seconds:.0f} s"
        print(f"\r{line}", end="", file=sys.stderr, flush=True)

    return show


def _say(settings: Settings, text: str) -> None:
    if not settings.quiet:
        print(text, file=sys.stderr, flush=True)


def _write(result: Reduction, shown: str, predicate: Predicate, settings: Settings) -> None:
    file = settings.output if settings.output not in ("", "-") else "FILE"
    command = predicate.command(file, result.text)
    text = f"// {_line(shown)}\n// {command}\n{_short(result.text)}"
    if file == "FILE":
        print(text, end="")
    else:
        try:
            Path(file).write_text(text, encoding="utf-8")
        except OSError as error:
            # Not lost, for all that.
            print(text, end="")
            raise _cannot_write(file, error) from error
    if not settings.quiet and sys.stderr.isatty():
        print(file=sys.stderr)
    more = "" if result.complete else " (out of time: --time SECONDS gives it more)"
    if result.interrupted:
        more = " (interrupted: it may get smaller)"
    _say(
        settings,
        f"{result.before} ops -> {result.ops} in {result.seconds:.1f} s, "
        f"{result.tried} candidates{more}",
    )
    _say(settings, f"reproduce: {command}")


def _short(text: str) -> str:
    """The module with names for its layouts."""
    module = parse_module(text)
    short = short_text(module)
    return short if parse_module(short).is_structurally_equivalent(module) else text


def _line(text: str) -> str:
    return " ".join(text.split())
