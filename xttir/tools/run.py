"""What `xttir run` does: a kernel on numbers, along one schedule, against its reference."""

from __future__ import annotations

import time
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Fault, InputError, Kind, Location
from xttir.frontends.launch_description import (
    Difference,
    LaunchDescription,
    compare,
    load,
    materialise,
    reference,
)
from xttir.policy import RunPolicy
from xttir.tools.places import Places
from xttir.tools.static_report import Outcome, StaticReport
from xttir.tools.verify import guarded, read_ptx

SCHEDULES = ("first", "random:SEED", "adversarial", "FILE")


def run_ptx(path: str, launch: str, schedule: str, seed: int, strict: bool = False) -> StaticReport:
    """`xttir run K.ptx --launch L.json`. `seed`: of the random tensors."""
    from xttir.frontends.launch_description.match import match
    from xttir.frontends.ptx import parse_ptx

    began = time.monotonic()
    policy = replace(RunPolicy(), strict=strict, seed=seed).with_checks("none")
    report = StaticReport(command="run", policy=policy)
    with guarded(report):
        module = parse_ptx(read_ptx(path), path)
        description = match(load(launch), module)
        report.policy = replace(report.policy, cc=description.capability)
        _run(module, path, description, schedule, seed, report)
    report.wall = time.monotonic() - began
    return report


def _run(
    module: ModuleOp,
    path: str,
    launch: LaunchDescription,
    schedule: str,
    seed: int,
    report: StaticReport,
) -> None:
    from xttir.interp.ptx import run

    outcome = Outcome(
        kernel=launch.entry,
        file=path,
        launch=f"{launch}, schedule {schedule}",
        arch=launch.arch,
        blocks=launch.blocks,
        threads=launch.threads,
    )
    report.outcomes.append(outcome)
    report.launches, report.programs = 1, launch.blocks
    before = materialise(launch, seed)
    expected = reference(launch, before)
    began = time.perf_counter()
    after = run(module, launch, schedule, before)
    outcome.seconds = report.seconds = time.perf_counter() - began
    places = Places(path)
    for fault in after.faults:
        report.faults.append(replace(places.presented(fault), launch_text=outcome.launch))
    if after.blocked and expected:
        outcome.result.append("not compared with the reference: threads were stuck")
        expected = {}
    elif not expected:
        outcome.compared = False
        outcome.result.append("no reference ('ref') to compare with")
    for difference in compare(launch, after.tensors, expected):
        outcome.result.append(shown(difference, launch))
        if not difference.ok:
            report.faults.append(mismatch(difference, launch, path))
    report.assume(after.assumptions)
    outcome.faults = len(report.errors)
    outcome.warnings = len(report.faults) - outcome.faults
    outcome.finished = True
    report.assume([f"this one schedule ({schedule}) and these tensors (seed {seed})"])


def shown(difference: Difference, launch: LaunchDescription) -> str:
    """One line about an output."""
    d, t = difference, launch.tensors[difference.name]
    what = f"{d.name} ({t.dtype.name}{list(t.shape)})"
    if d.ok:
        if not d.max_error:
            return f"{what}: equal to the reference"
        return f"{what}: right, largest error {d.max_error:.3g} (relative {d.max_relative:.3g})"
    return f"{what}: {d.wrong:,} of {d.size:,} elements wrong"


def mismatch(difference: Difference, launch: LaunchDescription, path: str) -> Fault:
    """The fault that a wrong output is."""
    d, tolerance = difference, launch.tolerance
    at = ", ".join(map(str, d.index))
    return Fault(
        Kind.MISMATCH,
        f"`{d.name}` differs from its reference in {d.wrong:,} of {d.size:,} elements",
        kernel=launch.entry,
        locations=(Location(path, function=launch.entry),),
        notes=(
            f"{d.name}[{at}] is {d.value:.9g}, the reference {d.expected:.9g}",
            f"largest error {d.max_error:.3g}, allowed: {tolerance.atol:g} + "
            f"{tolerance.rtol:g} * |reference|",
        ),
        witness={"tensor": d.name, "index": list(d.index)},
        count=d.wrong,
        launch_text=str(launch),
    )


def check_schedule(text: str) -> str:
    """A `--schedule` value as it is, or `InputError` saying what there is."""
    from pathlib import Path

    word, colon, number = text.partition(":")
    if text in ("first", "adversarial") or (word == "random" and colon and number.isdigit()):
        return text
    if Path(text).is_file():
        return text
    raise InputError(f"no schedule and no file '{text}'", hint=f"known: {', '.join(SCHEDULES)}")
