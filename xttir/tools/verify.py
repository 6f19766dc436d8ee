"""What `xttir verify` does: kernels and launches in, verdicts of every schedule out.

A PTX file is verified at the launch that a description gives, a script at every distinct launch it
makes. Nothing is raised: all outcomes are in the report.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Fault, InputError, Location, Policy, Unsupported
from xttir.frontends.launch_description import LaunchDescription, load
from xttir.policy import RunPolicy
from xttir.tools.confirm import Confirmation
from xttir.tools.places import Places
from xttir.tools.report import Problem, Report
from xttir.tools.static_report import Outcome, StaticReport

DEFECT = "this is a defect of xttir, not of the kernel; XTTIR_DEBUG=1 shows where"


@dataclass(frozen=True)
class Settings:
    """What the options say. `witness`, `dump`: folders to write to, "" for none."""

    strict: bool = False
    explain: bool | tuple[int, int] = False
    """Two lines: what orders accesses from them, too."""
    confirm: bool = False
    witness: str = ""
    dump: str = ""
    cc: int = 90
    every_size: bool = True
    """Scripts: every size of each kernel, with what `assume` says, `timeout` seconds each."""
    every_schedule: bool = True
    """Scripts: every schedule of the PTX of each launch."""
    every_trip: bool = False
    """TTGIR: every number of iterations, too."""
    assume: str = ""
    timeout: int = 20
    level: str = "ptx"
    """Scripts: what every schedule is asked of, "ptx", "ttgir" or "both"."""
    most_steps: int = 0
    """Of a trace; 0: the executor's choice."""

    def policy(self) -> RunPolicy:
        return replace(RunPolicy(), strict=self.strict, cc=self.cc).with_checks("none")


def read_ptx(path: str) -> str:
    """The text of a PTX file. Raises `InputError`."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", Location(path)) from error
    if data.startswith(b"\x7fELF"):
        hint = "a cubin or host binary; `cuobjdump -ptx` may find PTX in it"
        raise InputError("not PTX", Location(path), hint)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not a text file (invalid UTF-8)", Location(path, line)) from error
    if "\0" in text:
        raise InputError(
            "not a text file", Location(path, text.count("\n", 0, text.index("\0")) + 1)
        )
    return text


@contextlib.contextmanager
def guarded(report: Report) -> Iterator[None]:
    """Write what is raised into the report: a verdict is never lost, and never made up."""
    try:
        yield
    except InputError as error:
        report.input_error = report.input_error or problem(error)
    except Unsupported as error:
        report.unsupported.append(problem(error))
    except KeyboardInterrupt:
        report.interrupted = "by Ctrl-C"
    except MemoryError:
        report.unsupported.append(Problem("a launch that needs more memory than there is"))
    except Exception as error:
        if os.environ.get("XTTIR_DEBUG", "0") not in ("", "0"):
            raise
        text = " ".join(str(error).split())[:300]
        report.internal.append(Problem(f"{type(error).__name__}: {text}", None, DEFECT))


def problem(error: InputError | Unsupported) -> Problem:
    return Problem(error.what, error.location, error.hint)


def verify_ptx(path: str, launch: str, settings: Settings) -> StaticReport:
    """`xttir verify K.ptx --launch L.json`."""
    from xttir.frontends.launch_description.match import match
    from xttir.frontends.ptx import parse_ptx

    began = time.monotonic()
    report = StaticReport(policy=settings.policy())
    with guarded(report):
        text = read_ptx(path)
        module = parse_ptx(text, path)
        description = match(load(launch), module)
        report.policy = replace(report.policy, cc=description.capability)
        command = f"xttir run {path} --launch {launch}"
        Verifier(settings, report).kernel(module, path, description, command)
    report.wall = time.monotonic() - began
    return report


def blank_launch(path: str, entry: str = "") -> str:
    """A launch description for the kernel of a PTX file, to be filled in. Raises `InputError`."""
    from xttir.frontends.launch_description.match import template
    from xttir.frontends.launch_description.write import text
    from xttir.frontends.ptx import parse_ptx

    return text(template(parse_ptx(read_ptx(path), path), entry))


def how_to_launch(path: str, command: str = "verify") -> str:
    """What to say when there is no launch description."""
    lines = [
        f"xttir: error: {command} needs a launch description: grid, block, shared memory, tensors "
        "and parameters of the kernel",
    ]
    try:
        blank = blank_launch(path)
    except InputError as error:
        return f"{lines[0]}\n{error}"
    return "\n".join(
        [
            *lines,
            f"Fill this in and pass it with --launch FILE "
            f"(xttir verify {path} --init-launch > FILE writes it):",
            "",
            blank,
        ]
    )


def scope(launch: LaunchDescription) -> list[str]:
    """What the verdict speaks for, as far as the launch says it."""
    out = [
        "grid, block, cluster, shared memory and parameters are those of the launch; tensor data "
        "without an `init` may be anything",
        "the launch is looked at alone: no other one touches its tensors while it runs",
    ]
    if launch.dynamic_smem:
        out.append(f"dynamic shared memory starts at a multiple of {launch.smem_base} bytes")
    for spec in launch.tensors.values():
        if spec.range is not None:
            low, high = spec.range
            out.append(f"values of `{spec.name}` are in {low}..{high}")
    return out


class Verifier:
    """Verifies launches one after the other and adds what it finds to `report`."""

    def __init__(self, settings: Settings, report: StaticReport):
        self.settings = settings
        self.report = report
        self._witnesses = 0

    def kernel(
        self, module: ModuleOp, file: str, launch: LaunchDescription, command: str, index: int = 0
    ) -> None:
        """One kernel at one launch. `command` runs it; a witness is added to that."""
        from xttir.analyses.assumptions import choices
        from xttir.analyses.launches import verify_launch

        report, began = self.report, time.perf_counter()
        outcome = Outcome(
            kernel=launch.entry,
            file=file,
            launch=str(launch),
            arch=launch.arch,
            index=index,
            blocks=launch.blocks,
            threads=launch.threads,
        )
        report.outcomes.append(outcome)
        report.launches += 1
        places = Places(file)
        try:
            explain = self.settings.explain
            pair = explain if isinstance(explain, tuple) else None
            strict = self.settings.strict
            found, result = verify_launch(
                module, launch, strict=strict, pair=pair, most_steps=self.settings.most_steps
            )
            places.texts = {s.locations[0].line: s.text for s in found.instructions if s.locations}
            report.assume(scope(launch))
            report.assume(result.assumptions)
            report.assume(choices(found.instructions, strict=self.settings.strict))
            confirmation = Confirmation(module, launch)
            for fault in result.faults:
                fault = replace(places.presented(fault), launch=index, launch_text=str(launch))
                report.faults.append(self._with_witness(fault, outcome, command, confirmation))
            letter = [f for f in result.faults if f.policy is Policy.STRICT]
            outcome.warnings = 0 if strict else len(letter)
            outcome.faults = len(result.faults) - outcome.warnings
            for reason in result.unknown:
                report.counts.skip(reason)
            outcome.finished = not result.unknown
            counts = {name: n for name, n in result.stats.items() if isinstance(n, int)}
            outcome.done = {"instructions": len(found.instructions), **counts}
            if self.settings.explain:
                outcome.details = list(result.explain())
        except (InputError, Unsupported) as error:
            if error.location is not None:
                error.location = places.located(error.location)
            raise
        finally:
            outcome.seconds = time.perf_counter() - began
            report.seconds += outcome.seconds
            report.programs += outcome.blocks

    def _with_witness(
        self, fault: Fault, outcome: Outcome, command: str, confirmation: Confirmation
    ) -> Fault:
        """The fault, with its schedule in a file and the command that replays it."""
        from xttir.analyses.witness import schedule_in

        schedule = schedule_in(fault.witness)
        if not schedule:
            return fault
        if self.settings.confirm and not fault.confirmed and confirmation.shows(schedule):
            notes = (*fault.notes, "seen when run along the schedule of the witness")
            fault = replace(fault, confirmed=True, notes=notes)
        if not self.settings.witness or not command:
            return fault
        self._witnesses += 1
        name = f"{outcome.kernel[:60]}.{self._witnesses}.{fault.kind}.json"
        path = Path(self.settings.witness) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(schedule) + "\n")
        except OSError as error:
            what = f"cannot write the witness: {error.strerror or error}"
            raise InputError(what, Location(str(path))) from error
        note = f"replay: {command} --schedule {path}"
        return replace(fault, notes=(*fault.notes, note))
