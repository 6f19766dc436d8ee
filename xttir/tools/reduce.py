"""What `xttir reduce` does: a module in, the smallest one that shows the same out, with the command
that shows it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xttir.diagnostics import InputError, Kind, Location, XttirError
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
)
from xttir.tools.options import UsageError
from xttir.tools.run_module import read_text


@dataclass(frozen=True)
class Settings:
    """What the options say. One of `passes`, `check` and `command` is given. `keep`: a regular
    expression that the text must go on matching. `timeout`: seconds for one run of a pass or of
    the command, `time` for the whole."""

    passes: str = ""
    check: str = ""
    command: str = ""
    keep: str = ""
    output: str = ""
    arguments: Sequence[str] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
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
    launches, and a module that shows it."""
    return _guarded(lambda: _reduced(*_from_script(words, settings), words[0], settings))


def _from_script(words: Sequence[str], settings: Settings) -> tuple[Predicate, str]:
    from xttir.refine.reduce.predicates import single_pass
    from xttir.tools import validate
    from xttir.tools.validate_script import validate_script

    report = validate_script(words, validate.Settings(seed=settings.seed))
    if report.input_error is not None:
        raise InputError(report.input_error.what, report.input_error.location)
    for subject in report.subjects:
        row = subject.first
        if row is None:
            continue
        pipeline = single_pass(row.stage.pipeline)
        given = subject.validation.rows[row.index - 1].stage
        _say(settings, f"pass `{pipeline}` changes the meaning of {subject.title}")
        transform = pipeline_transform(pipeline, settings.timeout)
        function = Arguments(function=settings.function)
        return MeaningChanges(transform, pipeline, function), given.located or given.text
    raise InputError("no pass changes the meaning of a kernel that the script launches")


def _guarded(work: Callable[[], None]) -> int:
    """The exit code of `work`, errors told."""
    try:
        work()
    except XttirError as error:
        print(error, file=sys.stderr)
        return error.exit_code if error.exit_code != PassFailed.exit_code else 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    return 0


def _reduced(predicate: Predicate, text: str, path: str, settings: Settings) -> None:
    shown = predicate.examine(text)
    _say(settings, f"shows: {shown}")
    result = reduce_text(
        text,
        _keeping(predicate, settings.keep, text),
        seconds=settings.time,
        progress=_progress(settings),
        name=path,
    )
    if isinstance(predicate, MeaningChanges | CheckFails):
        shrink_arguments(predicate, result.text)
    _write(result, shown, predicate, settings)


def _predicate(text: str, path: str, settings: Settings) -> tuple[Predicate, str]:
    """What is kept, and the module to begin with: the one that the pass at fault was given."""
    arguments = Arguments(
        dict(split_argument(word) for word in settings.arguments),
        settings.grid,
        settings.seed,
        settings.function,
    )
    if settings.command:
        return CommandSucceeds(shlex.split(settings.command), settings.timeout), text
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
    text = f"// {_line(shown)}\n// {command}\n{result.text}"
    if file == "FILE":
        print(text, end="")
    else:
        try:
            Path(file).write_text(text)
        except OSError as error:
            what = f"cannot write: {error.strerror or error}"
            raise InputError(what, Location(file)) from error
    if not settings.quiet and sys.stderr.isatty():
        print(file=sys.stderr)
    more = "" if result.complete else " (out of time: --time SECONDS gives it more)"
    _say(
        settings,
        f"{result.before} ops -> {result.ops} in {result.seconds:.1f} s, "
        f"{result.tried} candidates{more}",
    )
    _say(settings, f"reproduce: {command}")


def _line(text: str) -> str:
    return " ".join(text.split())
