"""What a reduction keeps: a pass still changes the meaning, still fails, a check still fails, a
command still succeeds.

Each predicate looks at the original module once (`examine`) and then asks of every candidate
whether it shows the same thing. A candidate that Triton's own parser rejects shows nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Fault, InputError, Kind, Unsupported
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module
from xttir.frontends.module_launch import (
    bind,
    describe,
    find_function,
    find_sizes,
    parameters,
)
from xttir.interp.launch import Launch
from xttir.policy import RunPolicy
from xttir.refine import inputs
from xttir.refine.compare import compare
from xttir.refine.outcome import run_case
from xttir.refine.pipeline import TIMEOUT, PassFailed, apply, split_pipeline
from xttir.refine.stages import Stage, Validation, plain_text, validate
from xttir.refine.world import Case

MAX_STEPS = 20_000
"""Iterations of loops after which a candidate counts as not ending."""


CASES = (inputs.LIMIT, 8 * inputs.LIMIT, 32 * inputs.LIMIT)
"""How many inputs are drawn, one number after the other, until a difference shows."""


class Predicate(Protocol):
    """`examine` says what the module shows (raises `InputError` if nothing); `holds` whether a
    candidate shows the same; `command` how a person sees it in `file`, which holds `text`."""

    def examine(self, text: str) -> str: ...

    def holds(self, text: str) -> bool: ...

    def command(self, file: str, text: str) -> str: ...


@dataclass(frozen=True)
class Arguments:
    """Arguments of the user's, by parameter name (see `module_launch.describe`). Candidates get
    those whose parameter they still have."""

    given: Mapping[str, str] = field(default_factory=dict)
    grid: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
    function: str = ""

    def of(self, module: ModuleOp) -> dict[str, str]:
        """Those that a module has parameters for."""
        names = {p.name for p in parameters(find_function(module, self.function))}
        return {k: v for k, v in self.given.items() if k in names}

    def kept(self, text: str) -> Arguments:
        """Those that the module `text` has parameters for."""
        return replace(self, given=self.of(parse_module(text)))

    def smaller(self) -> Iterator[Arguments]:
        """Fewer programs, or one number closer to zero."""
        for axis, count in enumerate(self.grid):
            for fewer in dict.fromkeys(n for n in (1, 2, count // 2, count - 1) if 0 < n < count):
                grid = tuple(fewer if k == axis else n for k, n in enumerate(self.grid))
                yield replace(self, grid=grid)
        for name, text in self.given.items():
            if re.fullmatch(r"-?\d+", text):
                value = int(text)
                for n in dict.fromkeys((0, 1, 2, value // 2)):
                    if abs(n) < abs(value):
                        yield replace(self, given={**self.given, name: str(n)})

    def words(self) -> str:
        """As on the command line."""
        words = [f"--arg {shlex.quote(f'{k}={v}')}" for k, v in self.given.items()]
        if self.grid != (1, 1, 1):
            x, y, z = self.grid
            words.append(f"--grid {x}" if y == z == 1 else f"--grid {x},{y},{z}")
        if self.seed:
            words.append(f"--seed {self.seed}")
        return " ".join(words)


def shrink_arguments(predicate: MeaningChanges | CheckFails, text: str) -> None:
    """Make the user's arguments and the grid smaller, as long as the predicate holds for `text`."""
    predicate.arguments = predicate.arguments.kept(text)
    shrunk = True
    while shrunk:
        shrunk = False
        before = predicate.arguments
        for smaller in before.smaller():
            predicate.arguments = smaller
            if predicate.holds(text):
                shrunk = True
                break
            predicate.arguments = before


Transform = Callable[[str], Sequence[Stage]]
"""Module text to the stages of a pass: what it was given, and what it made."""


def pipeline_transform(pipeline: str, timeout: float = TIMEOUT) -> Transform:
    """Triton's passes."""

    def run(text: str) -> Sequence[Stage]:
        made = apply(text, pipeline, timeout=timeout).stages
        # The text itself, for the names of its values.
        return [Stage("", text, printed=made[0].text), *made[1:]]

    return run


@dataclass
class MeaningChanges:
    """A pass changes what the module means.

    `what`: how it shows (see `compare.Difference`), found by `examine`. `cases`: inputs of the
    user's; without any they are generated.
    """

    transform: Transform
    pipeline: str
    arguments: Arguments = field(default_factory=Arguments)
    what: str = ""
    values: dict[str, int | float] = field(default_factory=dict)
    """Values of scalars on which the difference shows, by parameter."""
    number: int = 0
    """What the rest of these inputs is drawn with."""
    grid: tuple[int, int, int] = (1, 1, 1)

    def examine(self, text: str) -> str:
        found, result = [], None
        for limit in CASES:
            result = self._validated(text, limit)
            found = result.findings
            if found or self.arguments.given:
                break
        assert result is not None
        if not found:
            _judged(result, self.pipeline)
            reasons = [f"{n} inputs: {why}" for why, n in result.skipped.items()]
            raise InputError(
                f"`{self.pipeline}` does not change the meaning, as far as "
                f"{len(result.cases)} inputs show",
                hint="; ".join(reasons),
            )
        self.what = found[0].difference.what
        case = found[0].case
        self.values, self.number, self.grid = case.scalars(), case.number, (1, 1, 1)
        if not self.arguments.given and case.grid != self.grid and not self.holds(text):
            self.grid = case.grid
        message = found[0].difference.message
        return f"`{self.pipeline}` changes the meaning: {message} ({found[0].case.describe()})"

    def holds(self, text: str) -> bool:
        try:
            stages = self.transform(text)
            first, last = stages[0], stages[-1]
            if plain_text(first.printed or first.text) == plain_text(last.text):
                return False
            return self._shows(first.module(), last.module())
        except (InputError, Unsupported, PassFailed):
            return False

    def command(self, file: str, text: str) -> str:
        words = ["xttir", "validate", shlex.quote(file), "--passes", f"'{self.pipeline}'"]
        if self.arguments.given:
            words.append(self.arguments.words())
        else:
            needed = next((n for n in CASES if self._validated(text, n).findings), CASES[-1])
            words += [f"--inputs {needed}"] if needed != CASES[0] else []
        return " ".join(words)

    def _validated(self, text: str, limit: int) -> Validation:
        stages = self.transform(text)
        given = self.user_case(stages[0])
        cases = None if given is None else [given]
        kernel = self.arguments.function
        return validate(stages, cases, kernel=kernel, limit=limit, stop_at_first=True)

    def _shows(self, source: ModuleOp, target: ModuleOp) -> bool:
        """Whether the difference shows on the inputs on which it was seen first. Others could show
        another fault of the pass."""
        kernel = find_function(source, self.arguments.function)
        case = self._case(source, kernel)
        before = run_case(case, source, kernel, trips=MAX_STEPS)
        if not before.defined:
            return False
        tight = inputs.cut(case, before)
        before = inputs.trimmed(before, case, tight)
        made = find_function(target, kernel.sym_name.data)
        after = run_case(tight, target, made, trips=2 * MAX_STEPS)
        if after.unsupported is not None:
            return False
        found = compare(tight, before, after)
        return any(d.is_fault and d.what == self.what for d in found)

    def _case(self, module: ModuleOp, kernel: tt.FuncOp) -> Case:
        """The inputs for a candidate."""
        if self.arguments.given:
            return given_case(module, self.arguments)
        generator = inputs.Generator(module, kernel)
        names = {p.name for p in generator.parameters}
        values = {k: v for k, v in self.values.items() if k in names}
        return replace(generator.case(values, self.number), grid=self.grid)

    def user_case(self, stage: Stage) -> Case | None:
        """The inputs of the user's, None if there are none."""
        if not self.arguments.given:
            return None
        return given_case(stage.module(), self.arguments)


def _launch_of(module: ModuleOp, arguments: Arguments, policy: RunPolicy) -> Launch:
    """A launch of `module` with the arguments that the user gives; the rest is made for it."""
    described = describe(
        module,
        arguments.of(module),
        function=arguments.function,
        grid=arguments.grid,
        seed=arguments.seed,
    )
    found = find_sizes(
        module, described.description, described.open, seed=arguments.seed, policy=policy
    )
    return bind(module, found, seed=arguments.seed).launch


def given_case(module: ModuleOp, arguments: Arguments) -> Case:
    """The inputs that the user asks for, as far as the module has parameters for them."""
    policy = replace(RunPolicy(), max_steps=MAX_STEPS, max_trips=MAX_STEPS)
    launch = _launch_of(module, arguments, policy)
    return replace(inputs.case_of(launch, "arguments given"), user=False)


@dataclass
class PassFails:
    """A pass crashes, signals failure, or does not end."""

    pipeline: str
    timeout: float = TIMEOUT
    how: tuple[str, ...] = ()

    def examine(self, text: str) -> str:
        found = self._failure(text)
        if found is None:
            raise InputError(f"`{self.pipeline}` does not fail")
        self.how = _signature(found)
        return str(found)

    def holds(self, text: str) -> bool:
        try:
            found = self._failure(text)
        except InputError:
            return False
        return found is not None and _signature(found) == self.how

    def command(self, file: str, text: str) -> str:
        return f"xttir validate {shlex.quote(file)} --passes '{self.pipeline}'"

    def _failure(self, text: str) -> PassFailed | None:
        try:
            apply(text, self.pipeline, timeout=self.timeout)
        except PassFailed as error:
            return error
        return None


def _signature(error: PassFailed) -> tuple[str, ...]:
    """What stays the same when a failing module shrinks: names and numbers of values do not."""
    words = re.sub(r"'[^']*'|%\S+|\d+", "_", error.why)
    asserted = re.search(r"Assertion `(.*?)' failed", error.log)
    return (error.name, error.how, words, asserted[1] if asserted else "")


@dataclass
class CheckFails:
    """Running the module reports a fault of one of `kinds`."""

    kinds: frozenset[Kind]
    arguments: Arguments = field(default_factory=Arguments)
    policy: RunPolicy = field(default_factory=RunPolicy)

    def examine(self, text: str) -> str:
        faults = self._faults(text)
        wanted = [f for f in faults if f.kind in self.kinds]
        if not wanted:
            names = ", ".join(sorted(self.kinds))
            found = ", ".join(sorted({f.kind for f in faults})) or "no fault"
            raise InputError(f"running the module gives no {names}, but {found}")
        self.kinds = frozenset({wanted[0].kind})
        return f"{wanted[0].kind}: {wanted[0].message}"

    def holds(self, text: str) -> bool:
        try:
            return any(f.kind in self.kinds for f in self._faults(text))
        except (InputError, Unsupported):
            return False

    def command(self, file: str, text: str) -> str:
        return f"xttir run {shlex.quote(file)} {self.arguments.words()}".strip()

    def _faults(self, text: str) -> list[Fault]:
        from xttir.interp.executor import run_launch

        module = parse_module(text)
        policy = replace(self.policy, max_steps=MAX_STEPS, max_trips=MAX_STEPS)
        return run_launch(_launch_of(module, self.arguments, policy), policy).faults


@dataclass
class CommandSucceeds:
    """A command, given the file as its last argument, ends with status 0."""

    words: Sequence[str]
    timeout: float = TIMEOUT

    def examine(self, text: str) -> str:
        if not self.holds(text):
            raise InputError(
                f"`{shlex.join(self.words)} FILE` does not end with status 0 on the module",
                hint="0 means: interesting, keep it",
            )
        return f"`{shlex.join(self.words)} FILE` ends with status 0"

    def holds(self, text: str) -> bool:
        with tempfile.TemporaryDirectory(prefix="xttir-reduce-") as folder:
            path = Path(folder) / "module.mlir"
            path.write_text(text)
            try:
                process = subprocess.Popen(
                    [*self.words, str(path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                what = f"cannot run `{self.words[0]}`: {error.strerror or error}"
                raise InputError(what) from error
            try:
                return process.wait(self.timeout) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                # Also what it has left behind, and after Ctrl-C.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def command(self, file: str, text: str) -> str:
        return shlex.join((*self.words, file))


def failing_pass(
    text: str, pipeline: str, file: str = "", timeout: float = TIMEOUT
) -> tuple[str, str] | None:
    """(module, pipeline of one pass): the pass of `pipeline` that fails, and the module that it was
    given; None if all of them run. Raises `InputError` where Triton rejects the module."""
    try:
        apply(text, pipeline, file, timeout=timeout)
    except PassFailed as error:
        passes, done = split_pipeline(pipeline), len(error.stages) - 1
        return (error.stages[-1].located if done else text), passes[done]
    return None


def first_bad_pass(text: str, pipeline: str, predicate: MeaningChanges) -> tuple[str, str]:
    """(module, pipeline of one pass): the first pass of `pipeline` that changes the meaning, and
    the module that it was given. Raises `InputError` when none does."""
    stages = predicate.transform(text)
    given = predicate.user_case(stages[0])
    cases = None if given is None else [given]
    for limit in CASES:
        result = validate(stages, cases, kernel=predicate.arguments.function, limit=limit)
        row = result.first
        if row is not None:
            before_it = stages[row.index - 1].located if row.index > 1 else text
            return before_it, single_pass(stages[row.index].pipeline)
        _judged(result, pipeline)
        if given is not None:
            break
    raise InputError(f"no pass of `{pipeline}` changes the meaning, as far as inputs show")


def _judged(result: Validation, pipeline: str) -> None:
    """Raise `Unsupported` where a stage could not be run, and so may well mean something else."""
    for row in result.unsupported:
        error = row.unsupported
        what = f"cannot tell what `{pipeline}` changes: {getattr(error, 'what', error)}"
        raise Unsupported(what, getattr(error, "location", None), getattr(error, "hint", ""))


def single_pass(pipeline: str) -> str:
    """`any(name{options})` without what is around it."""
    whole = re.fullmatch(r"(?:builtin\.module|any)\((.*)\)", pipeline.strip(), re.DOTALL)
    return whole[1] if whole else pipeline
