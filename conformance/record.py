"""A pytest plugin (`-p conformance.record`): one line of JSON for every test as it ends.

`CONFORMANCE_RESULTS` names the file. A line "started" comes before each test, so that whoever
reads the file knows which test a crash belongs to.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

_began: dict[str, float] = {}


def _write(entry: dict[str, Any]) -> None:
    with open(os.environ["CONFORMANCE_RESULTS"], "a") as out:
        out.write(json.dumps(entry) + "\n")


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _began[nodeid] = time.perf_counter()
    _write({"test": nodeid, "status": "started"})


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "setup" and report.passed:
        return
    if report.when == "teardown" and report.passed:
        return
    entry: dict[str, Any] = {"test": report.nodeid, "status": report.outcome}
    if hasattr(report, "wasxfail"):
        entry["status"] = "skipped" if report.skipped else "passed"
    if report.failed:
        entry |= {"status": "failed" if report.when == "call" else "error"}
        entry["detail"] = _first_words(report)
        entry["text"] = report.longreprtext[-3000:]
    elif report.skipped and isinstance(report.longrepr, tuple):
        entry["detail"] = report.longrepr[2]
    entry["seconds"] = round(time.perf_counter() - _began.get(report.nodeid, 0.0), 2)
    _write(entry)


def _first_words(report: pytest.TestReport) -> str:
    """What the exception says first, and where it was raised."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        lines = [line for line in report.longreprtext.splitlines() if line.strip()]
        return lines[0] if lines else "no message"
    said = [line.strip() for line in crash.message.splitlines() if line.strip()] or [""]
    # A first line such as "AssertionError:" says nothing by itself.
    message = " ".join(said[:3]) if said[0].endswith(":") else said[0]
    return f"{message} [{os.path.basename(crash.path)}:{crash.lineno}]"
