"""`python -m conformance.every_size_cases`: the shared scripts, asked about every size.

Runs `xttir verify --every-size` on each script of `cases/triton` and on the scripts of
`cases/reports` that are named, and compares with what they are known to be: races, accesses outside
of tensors and offsets that wrap must be refuted by a launch; whatever else is right must never be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(os.environ.get("XTTIR_SHARED", Path(__file__).parents[2] / "shared"))
REPORTS = ("04", "05", "06", "07")
"""Reports that are about races, bounds and offsets of one kernel."""

KINDS = {"race", "out-of-bounds", "int-overflow"}
"""What is asked for every size."""

VERDICTS = {0: "verified", 1: "fault", 3: "unknown"}


@dataclass(frozen=True)
class Case:
    """A script with what it is known to be. `must`: a fault that has to be found."""

    name: str
    path: Path
    must: bool
    may: bool


@dataclass(frozen=True)
class Outcome:
    verdict: str
    right: bool
    seconds: float
    notes: list[str]


def cases(wanted: str) -> Iterator[Case]:
    """The scripts whose name matches."""
    files = [SHARED / "cases/triton/expected.json"]
    files += sorted(SHARED.glob("cases/reports/*/expected.json"))
    for file in files:
        report = file.parent.parent.name == "reports"
        if report and not file.parent.name.startswith(REPORTS):
            continue
        for key, expected in json.loads(file.read_text()).items():
            path = file.parent / (f"{key}.py" if report else key)
            if not isinstance(expected, dict) or not path.exists():
                continue
            name = f"{file.parent.name}/{path.name}"
            found = KINDS & set(expected.get("accept", ()))
            fault = expected["verdict"] == "fault" and bool(found)
            lenient = bool(expected.get("arguable"))
            if re.search(wanted, name):
                yield Case(name, path, fault and not lenient, bool(found))


def judge(case: Case, seconds: float) -> Outcome:
    """Run one script and compare."""
    began = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, "-m", "xttir", "verify", "--every-size", "--no-progress",
                   "--timeout", str(int(seconds)), "--format", "json", "-o", out.name,
                   str(case.path)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        try:
            report: dict[str, Any] = json.loads(Path(out.name).read_text())
        except ValueError:
            report = {}
    taken = time.monotonic() - began
    faults = [f for f in report.get("faults", []) if "launch" in (f.get("witness") or {})]
    others = [f for f in report.get("faults", []) if f not in faults]
    notes = [f"{f['kind']}: {f['message']}; {f['notes'][-1]}" for f in faults]
    notes += [f"{f['kind']}, but not by a launch: {f['message']}" for f in others]
    notes += [str(n.get("what", n)) for n in report.get("not_checked", [])]
    verdict = VERDICTS.get(done.returncode, f"exit code {done.returncode}")
    if "Traceback" in done.stderr and "xttir/" in done.stderr.rpartition("Traceback")[2]:
        return Outcome("crash", False, taken, [done.stderr[-2000:]])
    if case.must:
        right = any(f["confirmed"] for f in faults)
    else:
        right = not faults or case.may
    return Outcome("fault" if faults else verdict, right, taken, notes)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when every verdict is right, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m conformance.every_size_cases")
    parser.add_argument("--match", default="", help="only scripts whose name matches")
    parser.add_argument("--seconds", type=float, default=20, help="time for a kernel (20)")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(arguments)
    todo = list(cases(args.match))
    if not todo:
        print(f"no cases under {SHARED}", file=sys.stderr)
        return 2
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = pool.map(lambda case: judge(case, args.seconds), todo)
        for case, outcome in zip(todo, outcomes, strict=True):
            verdicts[outcome.verdict] += 1
            word = "right" if outcome.right else "WRONG"
            print(f"{word}  {outcome.verdict:12} {outcome.seconds:6.1f} s  {case.name}", flush=True)
            for note in outcome.notes:
                print(f"         {note}")
            if not outcome.right:
                wrong.append(case.name)
    print(f"{len(todo) - len(wrong)} of {len(todo)} right; {dict(verdicts)}; wrong: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
