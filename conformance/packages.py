"""Run the case tables of a package operation by operation, each in a process of its own."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from conformance import results

ROOT = Path(__file__).parent.parent


def main(package: str, tables: tuple[str, ...], arguments: list[str] | None = None) -> int:
    """Exit code 0 when every case agrees, 1 when not."""
    parser = argparse.ArgumentParser(prog=f"python -m conformance.{package}")
    parser.add_argument("--op", default="", help="only these operations, separated by commas")
    parser.add_argument("--case", default="", help="only this case")
    parser.add_argument("--rerun", choices=("missing", "failed", "all"), default="failed")
    parser.add_argument("--results", type=Path, default=results.default_path(package))
    parser.add_argument("--cc", default="90", help="compute capability (90)")
    parser.add_argument(
        "--configs", default="2", help="configurations that autotuning tries; 0 for all (2)"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds an operation (600)")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    args = parser.parse_args(arguments)
    if not args.report:
        wanted = [op for op in args.op.split(",") if op]
        for table in tables:
            for op, names in operations(table).items():
                if not wanted or op in wanted:
                    run(table, op, names, args)
    known = results.read(args.results, ("op", "case"))
    print(summary(list(known.values())))
    return int(any(entry["status"] not in results.GOOD for entry in known.values()))


def operations(table: str) -> dict[str, list[str]]:
    """The names of a table's cases by operation."""
    from conformance import compare

    before = set(compare.TABLE)
    importlib.import_module(f"conformance.{table}")
    return {op: [c.name for c in compare.TABLE[op]()] for op in compare.TABLE if op not in before}


def run(table: str, op: str, names: list[str], args: argparse.Namespace) -> None:
    """Run one operation's cases that have no good result yet, and note a crash or a time-out."""
    known = results.read(args.results, ("op", "case"))
    due = [n for n in names if _due(known.get((op, n)), args.rerun) and args.case in ("", n)]
    if not due:
        return
    # All cases in one process where all are due: start-up costs more than most cases.
    for only in [""] if len(due) == len(names) else due:
        before = len(results.read_lines(args.results))
        command = [sys.executable, "-m", "conformance.worker", table, op, str(args.results), only]
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        settings = os.environ | {"PYTHONPATH": paths, "CONFORMANCE_CC": args.cc}
        settings |= {"CONFORMANCE_CONFIGS": args.configs}
        print(f"{op}{' / ' + only if only else ''}", file=sys.stderr, flush=True)
        try:
            ended = subprocess.run(
                command, env=settings, timeout=args.timeout, capture_output=True, text=True
            )
            problem = "" if ended.returncode == 0 else _last_line(ended.stderr)
        except subprocess.TimeoutExpired:
            problem = f"more than {args.timeout:g} seconds"
        if problem:
            written = (
                args.results.read_text().splitlines()[before:] if args.results.exists() else []
            )
            ran = len(written)
            name = only or (names[ran] if ran < len(names) else names[-1])
            status = "timeout" if problem.startswith("more than") else "crash"
            results.append(
                args.results, {"op": op, "case": name, "status": status, "detail": problem}
            )


def _due(entry: results.Entry | None, rerun: str) -> bool:
    if entry is None or rerun == "all":
        return True
    return rerun == "failed" and entry["status"] not in results.GOOD


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def summary(entries: list[results.Entry]) -> str:
    """One line an operation, then the causes of failures."""
    per_op: dict[str, list[results.Entry]] = defaultdict(list)
    for entry in entries:
        per_op[entry["op"]].append(entry)
    lines = [f"{'operation':<34} {'cases':>5} {'agree':>5} {'launches':>8}  rest"]
    for op, cases in per_op.items():
        agree = [c for c in cases if c["status"] == "agree"]
        rest = [c for c in cases if c["status"] != "agree"]
        launches = sum(c.get("launches", 0) for c in cases)
        what = results.counts(rest) if rest else ""
        lines.append(f"{op:<34} {len(cases):>5} {len(agree):>5} {launches:>8}  {what}".rstrip())
    whole = sum(all(c["status"] == "agree" for c in cases) for cases in per_op.values())
    lines.append(f"\n{len(entries)} cases: {results.counts(entries)}")
    lines.append(f"{len(per_op)} operations, {whole} of them agree in every case")
    causes = results.by_cause([e | {"name": f"{e['op']}/{e['case']}"} for e in entries], "name")
    return "\n".join([*lines, "", causes]).rstrip()
