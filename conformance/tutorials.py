"""Triton's tutorials 01 to 09 under the sanitizer, benchmarks left out.

python -m conformance.tutorials --source TRITON_CHECKOUT [--only 03,06] [--cc 90,100]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from conformance import results

ROOT = Path(__file__).parent.parent
DRIVER = Path(__file__).parent / "tutorial_driver.py"
NUMBERS = tuple(f"{n:02d}" for n in range(1, 10))
BOTH = ("06", "08", "09")
"""Tutorials that take other paths on Blackwell, run at every capability asked for."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.tutorials")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of Triton")
    parser.add_argument("--only", default=",".join(NUMBERS), help="numbers, separated by commas")
    parser.add_argument("--cc", default="90,100", help="compute capabilities (90,100)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds a tutorial (900)")
    parser.add_argument(
        "--configs", default="2", help="configurations that autotuning tries; 0 for all (2)"
    )
    parser.add_argument("--results", type=Path, default=results.default_path("tutorials"))
    args = parser.parse_args()
    folder = args.source.resolve() / "python" / "tutorials"
    first, *others = args.cc.split(",")
    for number in args.only.split(","):
        path = next(iter(sorted(folder.glob(f"{number}-*.py"))), None)
        if path is None:
            raise SystemExit(f"no tutorial {number} in {folder}")
        for cc in [first, *(others if number in BOTH else [])]:
            entry = run(path, cc, args)
            results.append(args.results, entry)
            print(show(entry), flush=True)
    known = list(results.read(args.results, ("tutorial", "cc")).values())
    good = sum(e["status"] == "agree" for e in known)
    print(f"\n{good} of {len(known)} runs agree: {results.counts(known)}")
    print(results.by_cause(known, "name"))
    return int(good < len(known))


def run(path: Path, cc: str, args: argparse.Namespace) -> results.Entry:
    """One tutorial in a process of its own: its checks, faults, and how it ended."""
    entry: results.Entry = {"tutorial": path.stem, "cc": cc, "name": f"{path.stem} cc {cc}"}
    with tempfile.TemporaryDirectory() as scratch:
        report_path = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "xttir", "sanitize", "--cc", cc, "--format", "json"]
        command += ["-o", str(report_path), str(DRIVER), str(path)]
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        settings = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        settings |= {"CONFORMANCE_CONFIGS": args.configs}
        try:
            ended = subprocess.run(
                command,
                env=settings,
                cwd=scratch,
                timeout=args.timeout,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b"").decode(errors="replace")
            return entry | {"status": "timeout", "detail": "too slow", "checks": _checks(text)}
        report = json.loads(report_path.read_text()) if report_path.exists() else {}
    return entry | judge(ended, report)


def _checks(output: str) -> list[str]:
    return [line[6:] for line in output.splitlines() if line.startswith("CHECK ")]


def judge(ended: subprocess.CompletedProcess, report: dict) -> results.Entry:
    checks = _checks(ended.stdout)
    wrong = [line for line in checks if not line.endswith(": ok")]
    found = report.get("faults", [])
    faults = [_fault(fault) for fault in found if fault["policy"] != "strict"]
    warnings = [_fault(fault) for fault in found if fault["policy"] == "strict"]
    entry: results.Entry = {"checks": checks, "faults": faults, "warnings": warnings}
    entry["exit"] = ended.returncode
    entry["stats"] = report.get("stats", {})
    error = report.get("script_error") or {}
    if report.get("unsupported"):
        return entry | {"status": "unsupported", "detail": report["unsupported"][0]["what"]}
    if report.get("internal_errors"):
        return entry | {"status": "crash", "detail": report["internal_errors"][0]["what"]}
    if error:
        return entry | {"status": "error", "detail": f"{error['type']}: {error['message']}"}
    if wrong:
        return entry | {"status": "differ", "detail": wrong[0]}
    if faults:
        return entry | {"status": "fault", "detail": faults[0]}
    if ended.returncode or not checks:
        lines = ended.stderr.strip().splitlines() or ["no output"]
        return entry | {"status": "error", "detail": f"exit {ended.returncode}: {lines[-1]}"}
    return entry | {"status": "agree", "detail": ""}


def _fault(fault: dict) -> str:
    place = fault["locations"][0] if fault["locations"] else {"file": "?", "line": 0}
    where = f"{os.path.basename(place['file'])}:{place['line']}"
    return f"{fault['kind']} in {fault['kernel']} at {where}: {fault['message']}"


def show(entry: results.Entry) -> str:
    checks = entry.get("checks", [])
    good = sum(line.endswith(": ok") for line in checks)
    stats = entry.get("stats", {})
    text = f"{entry['name']:<32} {entry['status']:<12} {good} of {len(checks)} checks"
    text += f", {stats.get('launches', '?')} launches, {stats.get('wall_seconds', 0):.0f} s"
    text += f", {len(entry['warnings'])} warnings" if entry.get("warnings") else ""
    return text + (f"\n    {entry['detail'][:200]}" if entry["detail"] else "")


if __name__ == "__main__":
    sys.exit(main())
