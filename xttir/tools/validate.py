"""What `xttir validate` does: stages in, the first one that changes the meaning out.

Two files, a module and a pass pipeline, a module and Triton's own pipeline, dumps that the user
has made, or every kernel that a script launches. Nothing is raised: all outcomes are in the report.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xttir.diagnostics import Fault, Kind, Location
from xttir.frontends.module_launch.signature import find_function
from xttir.policy import RunPolicy
from xttir.refine import explain
from xttir.refine.pipeline import PassFailed
from xttir.refine.stages import Finding, Row, Stage, Validation, validate
from xttir.refine.world import Case
from xttir.tools.report import Problem
from xttir.tools.validate_report import Subject, ValidateReport
from xttir.tools.verify import guarded

MAX_FINDINGS = 4
"""Findings of one stage that are told."""


@dataclass(frozen=True)
class Settings:
    """What the options say. `inputs`: edge cases made at most. `end`: the last of Triton's stages.
    `arguments`, `launch`, `grid`: inputs of a module, as for `run`. `html`: a file to write."""

    passes: str = ""
    cc: int = 90
    kernel: str = ""
    inputs: int = 32
    seed: int = 0
    end: str = "ttgir"
    html: str = ""
    arguments: Sequence[str] = ()
    launch: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    per_kernel: int = 3

    def policy(self) -> RunPolicy:
        return replace(RunPolicy(), cc=self.cc, seed=self.seed).with_checks("none")


@dataclass
class Validator:
    """Validates one kernel after the other and adds what it finds to `report`."""

    settings: Settings
    report: ValidateReport
    command: str = ""
    known: set[Any] = field(default_factory=set)

    def subject(
        self,
        title: str,
        about: str,
        stages: list[Stage],
        cases: Sequence[Case] = (),
        *,
        site: Location | None = None,
        pairs: bool = False,
        index: int = 0,
        limit: int | None = None,
    ) -> Subject:
        """Compare the stages of one kernel."""
        settings, report = self.settings, self.report
        began = time.perf_counter()
        found = validate(
            stages,
            cases,
            kernel=settings.kernel,
            limit=settings.inputs if limit is None else limit,
            seed=settings.seed,
        )
        found.seconds = time.perf_counter() - began
        subject = Subject(title or found.kernel, about, found, site, pairs, index=index)
        report.subjects.append(subject)
        report.launches += 1
        report.seconds += found.seconds
        self._faults(subject, stages)
        self._gaps(subject)
        return subject

    def passes(
        self,
        title: str,
        about: str,
        make: Callable[[], list[Stage]],
        source: Stage,
        cases: Sequence[Case],
    ) -> None:
        """Compare the stages that `make` makes of the module `source`, of which the first is that
        module as the compiler prints it. A pass that fails is a finding."""
        try:
            made = make()
        except PassFailed as error:
            made = error.stages
            self.report.faults.append(pass_failed(error, (Location(source.file),)))
        if made:
            source.printed = made[0].text
        self.subject(title, about, [source, *made[1:]], cases)

    def _faults(self, subject: Subject, stages: list[Stage]) -> None:
        found = subject.validation
        for row in found.rows:
            self._invalid(subject, row, stages)
            self._layouts(subject, row, stages)
            told: set[tuple[Any, ...]] = set()
            for finding in row.findings:
                difference = finding.difference
                key = (difference.what, difference.kind, _words(difference.message))
                if not difference.is_fault:
                    self._rounding(subject, finding, stages)
                elif key not in told and len(told) < MAX_FINDINGS:
                    told.add(key)
                    self.report.faults.append(self._fault(subject, finding, stages))

    def _invalid(self, subject: Subject, row: Row, stages: list[Stage]) -> None:
        """Tell of a module that does not verify."""
        if row.invalid is None:
            return
        if not subject.diff:
            subject.diff = tuple(explain.diff_lines(stages[row.index - 1], row.stage))
        kernel = subject.validation.kernel
        self.report.faults.append(replace(row.invalid, kernel=kernel, launch=subject.index))

    def _layouts(self, subject: Subject, row: Row, stages: list[Stage]) -> None:
        """Tell of layouts that do not fit, which no input is needed to show."""
        stage = row.stage
        if row.layouts and not subject.diff and row.index:
            subject.diff = tuple(explain.diff_lines(stages[row.index - 1], stage))
        places: list[tuple[Location, ...]] = []
        if row.layouts and stage.located:
            places = explain.layout_places(stage)
        for fault in row.layouts[:MAX_FINDINGS]:
            if subject.pairs or not stage.name:
                message = f"wrong layout: {fault.message}"
            else:
                message = f"pass {stage.name} makes a wrong layout: {fault.message}"
            locations = places.pop(0) if places else fault.locations
            witness = {**fault.witness, "pass": stage.name, "pipeline": stage.pipeline}
            self.report.faults.append(
                replace(
                    fault,
                    message=message,
                    locations=locations or ((subject.site,) if subject.site else ()),
                    witness=witness,
                    kernel=subject.validation.kernel,
                    launch=subject.index,
                )
            )
        for reason, n in row.unjudged.items():
            self.report.counts.leave_out(f"layouts of ops with {reason}", n)

    def _fault(self, subject: Subject, finding: Finding, stages: list[Stage]) -> Fault:
        found, difference, case = subject.validation, finding.difference, finding.case
        stage, base = stages[finding.stage], stages[finding.base]
        explained = explain.explain(finding, stages, found.kernel)
        if not subject.diff:
            subject.diff = explained.diff
        places = explained.locations
        if subject.pairs:
            line = explain.first_change(base, stage)
            if line:
                role = "the first line that the source does not have"
                places = (*places, Location(stage.file, line, role=role))
            message = f"not a refinement of {base.file}: {difference.message}"
        else:
            message = f"pass {stage.name} {_what(finding)}: {difference.message}"
        notes = [*difference.notes]
        inner = found.rows[finding.stage].inner
        if inner is not None:
            notes.append(f"inside the pass: {inner.stage.name}{inner.about}")
        if case.tight and difference.fault is not None and difference.what in ("read", "write"):
            notes.append("the buffers of this input end where the accesses of the source end")
        if explained.program is not None and difference.what == "value":
            notes.append(f"stored by program {explained.program}")
        notes.append(f"inputs: {case.label}" + ("" if case.user else " (made by xttir)"))
        witness: dict[str, Any] = {
            "pass": stage.name,
            "pipeline": stage.pipeline,
            "stage": finding.stage,
            "compared_with": finding.base,
            "step": None if inner is None else inner.stage.name,
            "grid": list(case.grid),
            "scalars": case.scalars(),
            "values": [[v.name, v.source, v.target] for v in difference.values],
            **difference.witness,
        }
        return Fault(
            difference.kind,
            message,
            kernel=found.kernel,
            locations=places or ((subject.site,) if subject.site else (Location(stage.file),)),
            notes=tuple(notes),
            hint=self._hint(subject, finding, stages),
            witness=witness,
            count=difference.count,
            launch=subject.index,
            launch_text=case.describe(),
        )

    def _hint(self, subject: Subject, finding: Finding, stages: list[Stage]) -> str:
        if subject.pairs:
            return ""
        stage = stages[finding.stage]
        if not stage.name:
            return ""
        return f"the pass alone: xttir validate MODULE --passes '{short_pipeline(stage)}'"

    def _rounding(self, subject: Subject, finding: Finding, stages: list[Stage]) -> None:
        stage = stages[finding.stage]
        where = f"after {stage.name}" if stage.name else stage.file
        note = f"{subject.title}, {where}: {finding.difference.message}"
        note += f" ({'; '.join(finding.difference.notes)})"
        prefix = f"{subject.title}, {where}: "
        if not any(n.startswith(prefix) for n in self.report.notes):
            self.report.notes.append(note)

    def _gaps(self, subject: Subject) -> None:
        """What was not compared."""
        found: Validation = subject.validation
        self.report.notes += [f"{subject.title}: {note}" for note in found.notes]
        for row in found.unsupported:
            error = row.unsupported
            where = f"after {row.stage.name}" if row.stage.name else "the source"
            what = getattr(error, "what", str(error))
            problem = Problem(
                f"{subject.title}, {where}: {what}",
                getattr(error, "location", None),
                getattr(error, "hint", ""),
            )
            if problem not in self.report.unsupported:
                self.report.unsupported.append(problem)
        if not found.cases and not found.unsupported:
            reasons = "; ".join(found.skipped) or "none was made"
            self.report.counts.skip(f"{subject.title}: no input on which it is defined ({reasons})")


def _what(finding: Finding) -> str:
    return {
        "undefined": "introduces undefined behaviour",
        "read": "introduces reads",
        "write": "introduces writes",
        "end": "makes the kernel not end",
    }.get(finding.difference.what, "changes the meaning")


def _words(message: str) -> str:
    return "".join("#" if c.isdigit() else c for c in message)


def short_pipeline(stage: Stage) -> str:
    """The textual pipeline of a stage, as --passes takes it."""
    text = stage.pipeline.strip()
    if text.startswith("any(") and text.endswith(")"):
        text = text[4:-1]
    return text


_OWN_FILE = re.compile(r"/\S*/xttir-(?:module|pass)-[^/]*/module\.mlir")
"""The file that a module is handed to Triton in."""


def assumptions(report: ValidateReport) -> None:
    """What every verdict of `validate` rests on."""
    report.assume(
        "the inputs above: the user's, and edge cases made for the kernel, whose buffers do not "
        "overlap; others can differ"
    )
    report.assume("programs of a launch run in one order; races are looked for, whatever the order")
    report.assume("what the source leaves undefined, a pass may change")


def is_module(path: str) -> bool:
    """Whether a command-line word is a module or a dump rather than a script."""
    return path == "-" or not (path.endswith(".py") or path.startswith("-"))


def run(
    words: Sequence[str], files: Sequence[str], settings: Settings, *, bar: bool = False
) -> ValidateReport:
    """`xttir validate WORDS`; `files`: the modules among them, none for a script."""
    if len(files) == 2:
        return validate_files(files[0], files[1], settings)
    if files and settings.passes:
        return validate_passes(files[0], settings)
    if files:
        return validate_module(files[0], settings)
    from xttir.tools.validate_script import validate_script

    return validate_script(words, settings, bar=bar)


def validate_module(path: str, settings: Settings) -> ValidateReport:
    """`xttir validate MODULE`: through Triton's own pipeline from there on, or a dump."""
    from xttir.refine.capture import capture_module
    from xttir.refine.dumps import read_dump
    from xttir.tools.run_module import read_text

    def work(run: Validator) -> None:
        traces = read_dump(path)
        if traces is not None:
            for trace in traces:
                run.subject(trace.kernel, trace.about, trace.stages)
            return
        source = Stage("", read_text(path), file=_shown(path))
        find_function(source.module(verify=True), settings.kernel)
        run.passes(
            "",
            _shown(path),
            lambda: capture_module(source, settings.cc, end=settings.end),
            source,
            _given(source, settings),
        )

    return guarded_report(settings, work)


def validate_files(source: str, target: str, settings: Settings) -> ValidateReport:
    """`xttir validate A.mlir B.mlir`: whether B does what A does."""
    from xttir.tools.run_module import read_text

    def work(run: Validator) -> None:
        stages = [Stage("", read_text(f), file=_shown(f)) for f in (source, target)]
        about = f"{_shown(target)} against {_shown(source)}"
        run.subject("", about, stages, _given(stages[0], settings), pairs=True)

    return guarded_report(settings, work)


def validate_passes(path: str, settings: Settings) -> ValidateReport:
    """`xttir validate MODULE --passes P`."""
    from xttir.refine.pipeline import apply
    from xttir.tools.run_module import read_text

    def work(run: Validator) -> None:
        text = read_text(path)
        source = Stage("", text, file=_shown(path))
        run.passes(
            "",
            _shown(path),
            lambda: apply(text, settings.passes, _shown(path)).stages,
            source,
            _given(source, settings),
        )

    return guarded_report(settings, work)


def pass_failed(error: PassFailed, places: tuple[Location, ...]) -> Fault:
    """The finding that a pass which crashes or fails is."""
    kind = Kind.DEADLOCK if error.how == "timed out" else Kind.MISUSE
    lines = [x for x in error.log.splitlines() if x.strip()]
    # Before the error stands what Python has to say.
    first = next((n for n, x in enumerate(lines) if "error:" in x), 0)
    lines = [_OWN_FILE.sub(places[0].file if places else "module", x) for x in lines[first:]]
    stage = error.stages[-1] if error.stages else None
    return Fault(
        kind,
        f"pass {error.name} {error.how}" + (f": {error.why}" if error.why else ""),
        locations=places,
        notes=tuple(lines[:6]),
        witness={
            "pass": error.name,
            "pipeline": error.pipeline,
            "module": stage.text if stage else "",
        },
    )


def _shown(path: str) -> str:
    return "<stdin>" if path == "-" else path


def _given(source: Stage, settings: Settings) -> list[Case]:
    """The user's own inputs for a module, if there are any."""
    if not (settings.arguments or settings.launch or settings.grid != (1, 1, 1)):
        return []
    from xttir.frontends.module_launch import bind
    from xttir.refine.inputs import case_of
    from xttir.tools.run_module import Inputs, description_of

    module = source.module()
    inputs = Inputs(
        arguments=settings.arguments,
        launch=settings.launch,
        function=settings.kernel,
        grid=settings.grid,
        seed=settings.seed,
    )
    description = description_of(module, inputs, settings.policy())
    bound = bind(module, description, seed=settings.seed)
    return [case_of(bound.launch, "the arguments given")]


def guarded_report(settings: Settings, work: Callable[[Validator], None]) -> ValidateReport:
    """The report of what `work` does with a validator; what it raises is in the report."""
    began = time.monotonic()
    report = ValidateReport(policy=settings.policy())
    assumptions(report)
    with guarded(report):
        work(Validator(settings, report))
    report.wall = time.monotonic() - began
    if settings.html:
        from xttir.tools.validate_html import write

        with guarded(report):
            write(report, settings.html)
    return report


__all__ = ["Settings", "Validator", "validate_files", "validate_passes"]
