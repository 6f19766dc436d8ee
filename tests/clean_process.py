"""Runs commands in child processes that have torch and Triton loaded already.

A fork server imports this module once; each command starts from a copy of that clean process, so
that tests of whole commands do not pay for the imports each time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.preloaded"])


@dataclass(frozen=True)
class Outcome:
    """What a command did. `code` is negative for a signal; None when its time was over."""

    code: int | None
    stdout: str
    stderr: str


class Command:
    """`python -m module args...`, started. `wait` for its outcome."""

    def __init__(
        self,
        module: str,
        args: Sequence[str],
        folder: str | Path,
        environment: Mapping[str, str | None] | None = None,
    ):
        self.folder = tempfile.TemporaryDirectory()
        self.files = [Path(self.folder.name, name) for name in ("out", "err")]
        for file in self.files:
            file.touch()
        own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        changes = {**own, "COLUMNS": "200", **(environment or {})}
        names = [str(file) for file in self.files]
        self.process: BaseProcess = _FORKS.Process(
            target=_child,
            args=(module, list(args), str(folder), changes, names),
        )
        self.process.start()

    def interrupt_when(self, text: str, timeout: float = 60) -> None:
        """Send Ctrl-C as soon as `text` has been written to standard output."""
        end = time.monotonic() + timeout
        while text not in self.files[0].read_text():
            assert time.monotonic() < end, f"{text!r} was never printed"
            assert self.process.is_alive(), self.files[1].read_text()
            time.sleep(0.05)
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGINT)

    def wait(self, timeout: float = 240) -> Outcome:
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            return Outcome(None, *(file.read_text() for file in self.files))
        return Outcome(self.process.exitcode, *(file.read_text() for file in self.files))


def run(
    module: str,
    *args: str,
    cwd: str | Path,
    environment: Mapping[str, str | None] | None = None,
    timeout: float = 240,
) -> Outcome:
    """Run `python -m module args...` in folder `cwd`; `environment` is added to the test's own."""
    return Command(module, args, cwd, environment).wait(timeout)


def xttir(*args: str, cwd: str | Path, **options: Mapping[str, str | None]) -> Outcome:
    """Run the `xttir` command."""
    return run("xttir", *args, cwd=cwd, **options)


def _child(
    module: str,
    args: list[str],
    folder: str,
    environment: Mapping[str, str | None],
    files: list[str],
) -> None:
    for number, name in zip((1, 2), files, strict=True):
        os.dup2(os.open(name, os.O_WRONLY), number)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.environ.clear()
    os.environ.update({name: value for name, value in environment.items() if value is not None})
    os.chdir(folder)
    sys.argv[:] = [module, *args]
    sys.path.insert(0, folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The fork server's own modules are no part of a fresh process.
    for name in [n for n in sys.modules if n == "tests" or n.startswith("tests.")]:
        del sys.modules[name]
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    sys.exit(status)
