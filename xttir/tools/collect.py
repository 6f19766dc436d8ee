"""From a running session to reports: what it found since the last time it was asked.

The commands, the pytest plugin and child processes all read a session through here, so that the
same launches are never counted twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from xttir.diagnostics import InputError, Unsupported
from xttir.policy import CheckCounts, RunPolicy
from xttir.tools.report import Problem, Report


def open_session(policy: RunPolicy) -> Any:
    """A session (a context manager) that runs launches under `policy`.

    Raises `InputError` when torch or Triton is not installed.
    """
    for name in ("torch", "triton"):
        import importlib.util

        if importlib.util.find_spec(name) is None:
            raise InputError(
                f"running Triton kernels needs {name}", hint="pip install 'xttir[triton]'"
            )
    from xttir.session import Session

    return Session(policy)


class Collector:
    """Reads `session` piece by piece: each `take` returns what is new since the one before."""

    def __init__(self, session: Any, command: str = "sanitize"):
        self.session = session
        self.command = command
        self._began = time.monotonic()
        self.skip()

    def skip(self) -> None:
        """Forget what has been found so far (a forked child inherits its parent's findings)."""
        session = self.session
        self._faults = len(session.faults)
        self._unsupported = len(session.unsupported)
        self._launches = len(session.launches)
        self._programs = session.programs
        self._seconds = session.seconds
        self._done = dict(session.counts.done)
        self._not_done = dict(session.counts.not_done)
        self._left_out = dict(session.counts.left_out)

    def take(self) -> Report:
        """What the session found since the last `take`."""
        session = self.session
        report = Report(
            command=self.command,
            policy=session.policy,
            faults=list(session.faults[self._faults :]),
            counts=CheckCounts(
                _less(session.counts.done, self._done),
                _less(session.counts.not_done, self._not_done),
                _less(session.counts.left_out, self._left_out),
            ),
            launches=len(session.launches) - self._launches,
            programs=session.programs - self._programs,
            seconds=session.seconds - self._seconds,
            unsupported=[problem(error) for error in session.unsupported[self._unsupported :]],
        )
        self.skip()
        return report


def interruption(session: Any) -> str:
    """What Ctrl-C cut short: the launch, and the tensors it may have left half written."""
    launch = session.interrupted
    if launch is None:
        return "by Ctrl-C, while no launch was running"
    site = f" ({launch.site})" if launch.site else ""
    text = f"by Ctrl-C in launch {launch.index} of {launch.kernel}{site}"
    names = _written(launch)
    return f"{text}; half written, perhaps: {', '.join(names) if names else 'no tensor'}"


def _written(launch: Any) -> list[str]:
    """Names and shapes of the tensors that the kernel may write."""
    from xttir.interp.executor import plan_of
    from xttir.interp.launch import DescriptorArg, ScalarArg

    written = plan_of(launch.module, launch.kernel).effects.written
    names = []
    for position, argument in enumerate(launch.arguments):
        if isinstance(argument, ScalarArg) or (written is not None and position not in written):
            continue
        tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
        names.append(f"`{argument.name}` ({tensor.dtype.name}{list(tensor.shape)})")
    return names


def problem(error: Unsupported) -> Problem:
    return Problem(error.what, error.location, error.hint)


def _less(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {k: n - before.get(k, 0) for k, n in now.items() if n != before.get(k, 0)}


def watch(
    start: Callable[[], None],
    report: Report,
    policy: RunPolicy,
    before: Callable[[Any], None],
    command: str,
    bar: bool,
) -> None:
    """Run a script, `before` seeing every launch it makes; what the run found, what it could not
    check and what ended it early go into `report`."""
    from xttir.tools import progress, script

    session = open_session(policy)
    session.before = before
    with session, progress.shown(bar):
        collector = Collector(session, command)
        script.run(start, report)
        if report.interrupted:
            report.interrupted = interruption(session)
        ran = collector.take()
    report.faults += ran.faults
    report.unsupported += [p for p in ran.unsupported if p not in report.unsupported]
    for reason, n in ran.counts.not_done.items():
        report.counts.skip(reason, n)
