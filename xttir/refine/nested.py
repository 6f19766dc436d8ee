"""Inside a pass that changes the meaning: which of the steps it consists of does.

Some of Triton's passes run a pipeline of their own (warp specialisation) or print what they have
made in between (the pipeliner). They are one stage each, since what they pass through need not be a
program that runs; but where one is found at fault it is run once more with MLIR's dump on, and the
modules in between are run on the case that showed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xttir.diagnostics import XttirError
from xttir.frontends.module_launch.signature import find_function
from xttir.refine.compare import Difference, compare
from xttir.refine.dumps import module_lines
from xttir.refine.outcome import MAX_TRIPS, Outcome, run_case
from xttir.refine.pipeline import apply, pass_name
from xttir.refine.stages import Finding, Inner, Stage, plain_text

_BEFORE = re.compile(r"^// -----// IR Dump Before [^:]*(?:::[^:]*)*: (?P<pipeline>.*?) \('")
_AFTER = re.compile(r"^// -----// .* internal IR Dump After: (?P<step>\S+)")
_SILENT, _SPEAKING = "dump-intermediate-steps=false", "dump-intermediate-steps=true"


@dataclass(frozen=True)
class _Entry:
    """A module of a dump: made by the step `after`, or what the pass `before` is given."""

    before: str
    after: str
    text: str


def inner_stages(base: Stage, stage: Stage) -> list[Stage]:
    """The modules between `base` and `stage`, which one pass made of it, each named after the step
    that made it; the last one is `stage` again. Empty if the pass tells of no steps.

    Raises `InputError` and `PassFailed`."""
    pipeline = stage.pipeline.replace(_SILENT, _SPEAKING)
    applied = apply(base.text, pipeline, nested=True)
    if not applied.stages or plain_text(applied.stages[-1].text) != plain_text(stage.text):
        # Not the same pass on the same module, such as one whose options are not in its text.
        return []
    entries = list(_entries(applied.dump))[1:]
    found: list[Stage] = []
    made_by = ""
    for entry in entries:
        step = entry.after or made_by
        if step and not step.startswith("unknown<"):
            found.append(Stage(pass_name(step), entry.text, step, stage.part))
        made_by = entry.before
    if not entries:
        return []
    name = pass_name(made_by) if made_by else "what comes last"
    found.append(Stage(name, stage.text, made_by, stage.part, located=stage.located))
    return found


def _entries(dump: str) -> Iterator[_Entry]:
    banner, lines = "", []
    for line in [*dump.splitlines(), "// -----//"]:
        if not line.startswith("// -----//"):
            lines.append(line)
            continue
        before, after = _BEFORE.match(banner), _AFTER.match(banner)
        if before or after:
            pipeline = before["pipeline"] if before else ""
            yield _Entry(pipeline, after["step"] if after else "", module_lines(lines))
        banner, lines = line, []


def look_inside(base: Stage, stage: Stage, finding: Finding, kernel: str) -> Inner | None:
    """The first step of the pass that made `stage` whose result does not do what `base` does, on
    the case of `finding`; None if the pass has no steps or none of them can be told to be it."""
    try:
        steps = inner_stages(base, stage)
        if len(steps) < 2:
            return None
        source = _outcome(base, finding, kernel, 0)
    except XttirError:
        return None
    unsure: list[str] = []
    right = base
    for step in steps:
        if plain_text(step.text) == plain_text(right.text):
            continue
        try:
            target = _outcome(step, finding, kernel, source.trips)
        except XttirError:
            unsure.append(step.name)
            continue
        differences: list[Difference] = []
        if target.unsupported is None:
            differences = [d for d in compare(finding.case, source, target) if d.is_fault]
            if not differences:
                unsure, right = [], step
                continue
        else:
            unsure.append(step.name)
            continue
        return Inner(step, right, tuple(unsure))
    return None


def _outcome(stage: Stage, finding: Finding, kernel: str, trips: int) -> Outcome:
    module = stage.module()
    limit = max(10 * trips, MAX_TRIPS)
    return run_case(finding.case, module, find_function(module, kernel), trips=limit)
