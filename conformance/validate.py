"""`xttir validate` on kernels whose compilation is believed right: every finding is looked at.

    python -m conformance.validate corpus  [--shared DIR] [--cc 80,90,100] [--only REGEX] [--jobs 1]
    python -m conformance.validate scripts FILE... [--cc 80,90,100]
    python -m conformance.validate reports [--shared DIR] [--also PYTHON_WITH_TRITON_3.8]

`corpus`: TTIR of kernels of packages (`DIR/corpus/triton/*/CC/ttir.loc.mlir`), each through
Triton's own pipeline for each capability, on inputs made by xttir. `reports`: known miscompiles
(`DIR/cases/reports`, `tests/data/refine`), which must be found and the pass named. Needs Triton.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHARED = Path(os.environ.get("XTTIR_SHARED", Path(__file__).parents[2] / "shared"))


@dataclass
class Run:
    """One command. `expected`: exit code; `passes`: what the first bad pass must be, if any."""

    name: str
    words: list[str]
    python: str = sys.executable
    expected: int = 0
    passes: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    code: int = -1
    seconds: float = 0.0
    text: str = ""

    @property
    def right(self) -> bool:
        named = [s["first_bad_pass"] for s in self.report.get("subjects", [])]
        return self.code == self.expected and (not self.passes or self.passes in named)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.validate", description=__doc__)
    parser.add_argument("what", choices=("corpus", "scripts", "reports"))
    parser.add_argument("files", nargs="*")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--cc", default="90")
    parser.add_argument("--only", default="")
    parser.add_argument("--also", default="", help="reports: a Python with Triton 3.8")
    parser.add_argument("--to", default="ttgir")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("-v", action="store_true", help="print what is right, too")
    args = parser.parse_args()
    todo = [r for r in _runs(args) if re.search(args.only, r.name)]
    with ThreadPoolExecutor(args.jobs) as pool:
        for run in pool.map(lambda r: execute(r, args.timeout), todo):
            if args.v or not run.right:
                print(_line(run), flush=True)
    return summary(todo)


def _runs(args: argparse.Namespace) -> Iterator[Run]:
    if args.what == "corpus":
        for folder in sorted((args.shared / "corpus" / "triton").iterdir()):
            for file in sorted(folder.glob("*/ttir.loc.mlir"))[:1]:
                for cc in args.cc.split(","):
                    words = ["--cc", cc, "--to", args.to, str(file)]
                    yield Run(f"{folder.name} {cc}", words)
    elif args.what == "scripts":
        for file in args.files:
            for cc in args.cc.split(","):
                yield Run(f"{Path(file).name} {cc}", ["--cc", cc, "--to", args.to, file])
    else:
        yield from _reports(args)


def _reports(args: argparse.Namespace) -> Iterator[Run]:
    """The reports: as modules and the pass on them, and as scripts, which say in their first lines
    which versions are bad ("bad: 3.8", "bad: all") and the pass ("pass: NAME")."""
    cases = args.shared / "cases" / "reports"
    name, passes = "tritongpu-fuse-nested-loops", "tritongpu-fuse-nested-loops,canonicalize"
    pythons = {"3.9": sys.executable, "3.8": args.also}
    for case, versions in (
        ("01-fuse-unsound-assume", ("3.8",)),
        ("02-hoisted-bound-load", pythons),
    ):
        for version, python in pythons.items():
            if python:
                bad = version in versions
                words = [str(cases / case / "source.mlir"), "--passes", passes]
                yield Run(f"{case} {version}", words, python, int(bad), name if bad else "")
    data = Path(__file__).parents[1] / "tests" / "data" / "refine"
    for script in sorted(data.glob("report_*.py")):
        for version, python in pythons.items():
            if python:
                text = script.read_text()
                bad = f"bad: {version}" in text or "bad: all" in text
                named = re.search(r"^pass: ([\w-]+)", text, re.MULTILINE)
                culprit = (named[1] if named else name) if bad else ""
                yield Run(f"{script.name} {version}", [str(script)], python, int(bad), culprit)


def execute(run: Run, timeout: float) -> Run:
    """Run the command of `run` and keep its report."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [run.python, "-m", "xttir", "validate", "--format", "json", "-o", str(out)]
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*command, "--no-progress", *run.words],
                capture_output=True,
                text=True,
                timeout=timeout,
            )
            run.code, run.text = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            run.code, run.text = 124, "timed out"
        run.seconds = time.monotonic() - began
        if out.exists() and out.stat().st_size:
            run.report = json.loads(out.read_text())
    return run


def _line(run: Run) -> str:
    verdict = run.report.get("verdict", f"exit {run.code}")
    head = f"{'ok ' if run.right else 'BAD'} {run.name}: {verdict} in {run.seconds:.0f} s"
    faults = [f"    {f['message'][:200]}" for f in run.report.get("faults", [])[:3]]
    gaps = [f"    unsupported: {u['what'][:200]}" for u in run.report.get("unsupported", [])[:3]]
    gaps += [f"    {x['what'][:200]}" for x in run.report.get("not_checked", [])[:3]]
    notes = [f"    note: {n[:200]}" for n in run.report.get("notes", [])[:2]]
    if not run.report or run.report.get("internal_errors"):
        notes += [f"    {x}" for x in run.text.strip().splitlines()[-3:]]
    return "\n".join([head, *faults, *gaps, *notes])


def summary(runs: list[Run]) -> int:
    """Print how many are right; the exit code."""
    verdicts: dict[str, int] = {}
    stages = distinct = cases = 0
    for run in runs:
        word = run.report.get("verdict", f"exit {run.code}")
        verdicts[word] = verdicts.get(word, 0) + 1
        for subject in run.report.get("subjects", []):
            stages += len(subject["stages"])
            distinct += sum(s["inputs"] > 0 for s in subject["stages"])
            cases += subject["inputs"]
    good = sum(run.right for run in runs)
    print(
        f"{good} of {len(runs)} right; {verdicts}; {stages} stages, {distinct} run, {cases} inputs"
    )
    return int(good < len(runs))


if __name__ == "__main__":
    sys.exit(main())
