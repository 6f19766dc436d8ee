"""What `xttir sanitize` runs: a script, a module, or pytest, inside one session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from xttir.diagnostics import Fault, InputError, Kind
from xttir.policy import RunPolicy
from xttir.tools import children, progress, script
from xttir.tools.collect import Collector, interruption, open_session
from xttir.tools.report import Problem, Report


def run_script(
    path: str, args: Sequence[str], policy: RunPolicy, *, progress: bool = False
) -> Report:
    """Run `python path args...` in a session. Raises nothing: all outcomes are in the report."""
    try:
        start = script.script_runner(path, args)
    except InputError as error:
        return _input_error(error, policy)
    return _run(start, policy, progress)


def run_module(
    name: str, args: Sequence[str], policy: RunPolicy, *, progress: bool = False
) -> Report:
    """Run `python -m name args...` in a session."""
    return _run(script.module_runner(name, args), policy, progress)


def run_pytest(args: Sequence[str], policy: RunPolicy) -> Report:
    """Run pytest with the plugin on. Tests may run in worker processes (xdist)."""
    import importlib.util

    if importlib.util.find_spec("pytest") is None:
        return _input_error(InputError("pytest is not installed"), policy)
    from xttir.tools import pytest_session

    return pytest_session.run(args, policy)


def _run(start: Callable[[], None], policy: RunPolicy, bar: bool) -> Report:
    began, process = time.monotonic(), os.getpid()
    report = Report(policy=policy)
    try:
        session = open_session(policy)
    except InputError as error:
        return _input_error(error, policy)
    try:
        with session, progress.shown(bar), children.collected(session) as found:
            collector = Collector(session)
            script.run(start, report)
            if report.interrupted:
                report.interrupted = interruption(session)
            report = _joined(collector.take(), report)
            if os.getpid() != process:
                # A fork of the script that ran on to the end: the parent reports.
                found.hand_in(report)
                os._exit(report.script_exit or 0)
            for part in found.parts():
                report.merge(part)
            _heed_status(report)
    except InputError as error:
        return _input_error(error, policy)
    report.wall = time.monotonic() - began
    return report


def _joined(taken: Report, ended: Report) -> Report:
    """What the session found, and how the script ended."""
    host = {Kind.MISUSE, Kind.RESOURCE}
    refused = any(f.kind in host for f in taken.faults)
    # What a launch was refused for has been reported by whoever refused it.
    taken.faults += [f for f in ended.faults if not (refused and f.kind in host)]
    known = set(taken.unsupported)
    taken.unsupported += [p for p in ended.unsupported if p not in known]
    taken.internal += ended.internal
    taken.input_error = ended.input_error
    if ended.script_error and not (refused and ended.script_error.refused):
        taken.script_error = ended.script_error
    taken.script_exit, taken.exit_place = ended.script_exit, ended.exit_place
    taken.interrupted = ended.interrupted
    return taken


def _heed_status(report: Report) -> None:
    """A script that ran launches, has no fault and ends with status 1 says: the result is wrong.

    Other statuses (usage errors, signals) stay what they are.
    """
    nothing_else = not (report.errors or report.unsupported or report.internal)
    if report.script_exit == 1 and report.launches and nothing_else:
        report.faults.append(
            Fault(
                Kind.MISMATCH,
                "the script ended itself with status 1, with no fault in its launches",
                locations=(report.exit_place,) if report.exit_place else (),
                witness={"status": 1},
            ),
        )


def _input_error(error: InputError, policy: RunPolicy) -> Report:
    report = Report(policy=policy)
    report.input_error = Problem(error.what, error.location, error.hint)
    return report
