"""pytest with every launch checked: a fault fails the test it happened in.

One session lives as long as the pytest process. After each phase of a test (setup, call,
teardown) what the session found since is taken and travels with the phase's report, so that under
xdist the controller gets it from its workers like any other outcome.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from xttir.diagnostics import InputError
from xttir.policy import RunPolicy
from xttir.tools import json_report, options, render, script
from xttir.tools.collect import Collector, interruption, open_session
from xttir.tools.options import RUN_OPTIONS
from xttir.tools.output import Output
from xttir.tools.pytest_plugin import OPTIONS, SWITCH
from xttir.tools.report import Problem, Report

NAME = "xttir-session"
_PART = pytest.StashKey[Report]()
_OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def start(config: pytest.Config) -> None:
    """Open the session and register the plugin. Raises `pytest.UsageError`."""
    try:
        values = values_of(config)
        plugin = SessionPlugin(options.policy_of(values), values["format"], values["output"])
    except (options.UsageError, InputError) as error:
        raise pytest.UsageError(f"xttir: {error}") from None
    config.pluginmanager.register(plugin, NAME)
    config.add_cleanup(plugin.close)


def values_of(config: pytest.Config) -> dict[str, Any]:
    """Option values by key: from the command line, else the environment, else the ini file."""
    from_ini: Mapping[str, str] = {
        option.env: text
        for option in OPTIONS
        if (text := str(config.getini(f"xttir_{option.key}") or ""))
    }
    values = options.defaults(OPTIONS, {**from_ini, **os.environ})
    for option in OPTIONS:
        text = getattr(config.known_args_namespace, f"xttir_{option.key}", None)
        if text is not None:
            values[option.key] = options.checked(option, text, f"--xttir-{option.name}")
    return values


class SessionPlugin:
    """The hooks of one pytest process, controller or worker."""

    def __init__(self, policy: RunPolicy, format: str = "text", output: str = ""):
        self.policy, self.format, self.output = policy, format, output
        self.report = Report(command="pytest", policy=policy)
        self.faulty: list[str] = []
        self.worker = False
        self._began = time.monotonic()
        self._open = contextlib.ExitStack()
        self.session = self._open.enter_context(open_session(policy))
        self._collector = Collector(self.session, "pytest")
        # Workers start as new processes: this is how they hear of the options.
        self._open.enter_context(_environment({SWITCH: "1", **options.to_environment(policy)}))

    def close(self) -> None:
        self._open.close()

    def pytest_configure(self, config: pytest.Config) -> None:
        self.worker = hasattr(config, "workerinput")

    # What each test finds.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        previous = self.session.policy
        self.session.policy = self._policy_for(item)
        try:
            return (yield)
        finally:
            self.session.policy = previous

    def _policy_for(self, item: pytest.Item) -> RunPolicy:
        policy = self.policy
        for mark in item.iter_markers("xttir"):
            checks = mark.kwargs.get("checks", mark.args[0] if mark.args else None)
            if checks is not None:
                try:
                    return replace(policy, checks=RunPolicy().with_checks(str(checks)).checks)
                except ValueError as error:
                    raise pytest.UsageError(f"{item.nodeid}: mark xttir: {error}") from None
        return policy

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._phase(item))

    def _phase(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run a phase; fail it when its launches had faults and nothing else failed it."""
        try:
            result = yield
        except BaseException:
            item.stash[_PART] = self._collector.take()
            raise
        part = item.stash[_PART] = self._collector.take()
        # A launch was refused by an exception, and yet the test goes on: it expects that.
        part.faults = [f for f in part.faults if "raises" not in f.witness]
        if part.errors:
            first = next(render.fault_lines(part.errors, strict=self.policy.strict))
            more = len(part.errors) - 1
            pytest.fail(
                render.to_plain([first]).strip() + (f" (and {more} more)" if more else ""),
                pytrace=False,
            )
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        part = item.stash.get(_PART, None)
        item.stash[_PART] = Report()
        if part is None:
            return report
        if part.faults:
            lines = render.fault_lines(part.faults, strict=self.policy.strict)
            report.sections.append((f"xttir, {call.when}", render.to_plain(lines)))
        if hasattr(report, "wasxfail"):
            # The test says that it fails; its faults are what it expects.
            part.faults = []
        elif report.failed and call.excinfo is not None and not part.errors:
            self._classify(call.excinfo, part, report)
        if part.launches or part.faults or part.unsupported or part.internal:
            report.xttir = json_report.part_to_json(part)  # type: ignore[attr-defined]
        return report

    def _classify(
        self, error: pytest.ExceptionInfo[BaseException], part: Report, report: pytest.TestReport
    ) -> None:
        """A failed assertion is a finding; other exceptions of a test are pytest's to show."""
        ended = Report()
        script.classify(error.value, ended)
        part.faults += ended.faults
        part.unsupported += [p for p in ended.unsupported if p not in part.unsupported]
        part.internal += ended.internal
        if ended.unsupported and not os.environ.get("XTTIR_DEBUG"):
            # The way through our frames tells the user nothing; the place in the kernel does.
            report.longrepr = error.getrepr(style="value")
            for problem in ended.unsupported:
                lines = render.problem_lines("unsupported", problem)
                report.sections.append((f"xttir, {report.when}", render.to_plain(lines)))

    # What the controller (or the only process) makes of it.

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = getattr(report, "xttir", None)
        if data is None or self.worker:
            return
        part = json_report.part_from_json(data)
        self.report.merge(part)
        if any(fault.kernel for fault in part.faults) and report.nodeid not in self.faulty:
            self.faulty.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """A worker has ended: what it found outside tests, while importing them."""
        data = getattr(node, "workeroutput", {}).get("xttir")
        if data is not None:
            self.report.merge(json_report.part_from_json(data))
        elif error:
            self.report.counts.skip("what a crashed test worker ran")

    def pytest_keyboard_interrupt(self) -> None:
        self.report.interrupted = interruption(self.session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        rest = self._collector.take()
        if self.worker:
            session.config.workeroutput["xttir"] = json_report.part_to_json(rest)  # type: ignore[attr-defined]
        else:
            self.report.merge(rest)

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        if self.worker:
            return
        report = self.report
        stats = {name: len(terminalreporter.stats.get(name, ())) for name in _OUTCOMES}
        report.tests = {name: n for name, n in stats.items() if n}
        report.wall = time.monotonic() - self._began
        self._ended(int(exitstatus))
        self._write()
        terminalreporter.section("xttir")
        if self.faulty:
            n = len(self.faulty)
            terminalreporter.write_line(f"{n} test{'s' if n > 1 else ''} with faulty launches:")
            for nodeid in self.faulty:
                terminalreporter.write_line(f"  {nodeid}")
        color = render.wants_color(None, "always" if terminalreporter.hasmarkup else "never")
        text = render.styled(render.summary_lines(report), color)
        for line in text.splitlines():
            terminalreporter.write_line(line)

    def _ended(self, status: int) -> None:
        """pytest's exit status, unless what was found already explains it."""
        report = self.report
        explained = report.errors or report.unsupported or report.internal
        if status and not (status == pytest.ExitCode.TESTS_FAILED and explained):
            report.script_exit = status

    def _write(self) -> None:
        if self.output:
            with Output(self.format, self.output, quiet=True) as output:
                output.write(self.report)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None, None, None]:
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, text in previous.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


class _Receiver:
    """Gets the report out of a pytest run that `xttir sanitize` starts."""

    report: Report | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        plugin = config.pluginmanager.get_plugin(NAME)
        if isinstance(plugin, SessionPlugin) and not plugin.worker:
            self.report = plugin.report


def run(args: Sequence[str], policy: RunPolicy) -> Report:
    """Run pytest with `args` and the plugin on, in this process (xdist starts its own)."""
    began = time.monotonic()
    receiver = _Receiver()
    # Our package is imported by now, and has no assertions that pytest would rewrite.
    own = ["-p", _plugin(), "-W", "ignore:Module already imported so cannot be rewritten; xttir"]
    own += ["--xttir", "--xttir-output=", *_as_arguments(policy)]
    status = int(pytest.main([*own, *args], plugins=[receiver]))
    report = receiver.report or Report(command="pytest", policy=policy)
    if receiver.report is None or status in (3, 4):
        report.input_error = Problem(f"pytest did not run (its exit status is {status})")
    elif status and not report.script_exit and not report.errors:
        report.script_exit = None if report.unsupported or report.internal else status
    report.wall = time.monotonic() - began
    return report


def _as_arguments(policy: RunPolicy) -> list[str]:
    variables = options.to_environment(policy)
    arguments = [f"--xttir-{o.name}={variables[o.env]}" for o in RUN_OPTIONS if not o.flag]
    return arguments + (["--xttir-strict"] if policy.strict else [])


def _plugin() -> str:
    """The name under which pytest finds the plugin: its entry point, else the module."""
    from importlib.metadata import entry_points

    found = any(entry.name == "xttir" for entry in entry_points(group="pytest11"))
    return "xttir" if found else "xttir.tools.pytest_plugin"
