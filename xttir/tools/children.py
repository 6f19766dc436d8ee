"""Processes that the script starts with `multiprocessing`: their launches are checked too.

A forked child has the session already; a spawned one gets it while it unpickles what its parent
sends it before the script's main module is imported. Each child writes what it found to a folder
that the parent reads at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import spawn, util
from pathlib import Path
from typing import Any

from xttir.policy import RunPolicy
from xttir.tools import json_report
from xttir.tools.collect import Collector, open_session
from xttir.tools.report import Report


class Folder:
    """Where children hand in their parts."""

    def __init__(self, path: str):
        self.path = Path(path)

    def hand_in(self, report: Report) -> None:
        """Called in a child. The file appears whole or not at all."""
        if not (report.launches or report.faults or report.unsupported):
            return
        handle, name = tempfile.mkstemp(dir=self.path, suffix=".part")
        with open(handle, "w") as stream:
            json.dump(json_report.part_to_json(report), stream)
        os.replace(name, Path(name).with_suffix(".json"))

    def parts(self) -> Iterator[Report]:
        """Called in the parent when its children have ended."""
        for file in sorted(self.path.glob("*.json")):
            yield json_report.part_from_json(json.loads(file.read_text()))
            file.unlink()


@contextlib.contextmanager
def collected(session: Any) -> Iterator[Folder]:
    """While the block runs, processes started by `multiprocessing` are checked as well."""
    with tempfile.TemporaryDirectory(prefix="xttir-") as path:
        folder = Folder(path)
        util.register_after_fork(session, lambda s: _Child(s, folder).begin())
        original = spawn.get_preparation_data

        def with_session(name: str) -> dict[str, Any]:
            return {"xttir": _Start(session.policy, path), **original(name)}

        spawn.get_preparation_data = with_session
        try:
            yield folder
        finally:
            spawn.get_preparation_data = original


class _Start:
    """Pickled in the parent; what unpickles in the child is the effect of `_started`."""

    def __init__(self, policy: RunPolicy, path: str):
        self.how = (policy, path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _started, self.how


_entered = contextlib.ExitStack()


def _started(policy: RunPolicy, path: str) -> None:
    """In a spawned child, before its main module is imported."""
    child = _Child(_entered.enter_context(open_session(policy)), Folder(path))
    child.begin()
    # A child of the fork server forgets its finalizers when it begins to run.
    util.register_after_fork(child, _Child.begin)


class _Child:
    """What a child process does at its end, whichever way it comes."""

    def __init__(self, session: Any, folder: Folder):
        self._collector = Collector(session)
        self._folder = folder
        self._ending = False

    def begin(self) -> None:
        """To be called in the child, before the function it was started for."""
        util.Finalize(None, self.end, exitpriority=100)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # A pool ends its workers with this signal, and no finalizer runs.
            signal.signal(signal.SIGTERM, self._terminated)

    def end(self) -> None:
        self._ending = True
        self._folder.hand_in(self._collector.take())

    def _terminated(self, *_: object) -> None:
        if self._ending:
            return  # It is on its way out; cutting it short would lose what it found.
        self.end()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
