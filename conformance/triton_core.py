"""Upstream's language tests under `xttir sanitize pytest`: pass rate, and failures by cause.

    python -m conformance.triton_core --source TRITON_CHECKOUT [--sample N --seed S] [--ttgir]

A test inspects assembly when its function (or a helper of the same file that it calls) reads an
attribute named `asm`; those are run as well, and counted apart. Results go to a file of JSON lines;
a later run only takes up what is missing or has failed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from conformance import results

ROOT = Path(__file__).parent.parent
CORE = "python/test/unit/language/test_core.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.triton_core")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of Triton")
    parser.add_argument("--file", default=CORE, help=f"test file inside it ({CORE})")
    parser.add_argument("--sample", type=int, default=0, help="a random choice of so many tests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-k", default="", metavar="WORD", help="only tests whose name contains it")
    parser.add_argument("--rerun", choices=("missing", "failed", "all"), default="failed")
    parser.add_argument("--assembly", action="store_true", help="also those that inspect assembly")
    parser.add_argument("--results", type=Path, default=results.default_path("triton_core"))
    parser.add_argument("--cc", default="90", help="compute capability (90)")
    parser.add_argument("--shard", type=int, default=100, help="tests a process (100)")
    parser.add_argument("--timeout", type=int, default=60, help="seconds a test (60)")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--ttgir", action="store_true", help="compare each launch with its TTGIR")
    args = parser.parse_args()
    if args.ttgir:
        args.plugins = ("conformance.compare_ttgir",)

    path = args.source.resolve() / args.file
    inspecting = reads_assembly(path)
    if not args.report:
        items = [i for i in collected(path, args) if args.k in i]
        if not args.assembly:
            items = [i for i in items if function_of(i) not in inspecting]
        if args.sample:
            items = sorted(random.Random(args.seed).sample(items, min(args.sample, len(items))))
        run(items, path, args)
    known = results.read(args.results, ("test",))
    print(summary(list(known.values()), inspecting))
    return 0


def reads_assembly(path: Path) -> set[str]:
    """Names of the test functions that read an attribute `asm`, themselves or through a helper."""
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = {
        name
        for name, node in functions.items()
        if any(isinstance(part, ast.Attribute) and part.attr == "asm" for part in ast.walk(node))
    }
    while True:
        more = {name for name, node in functions.items() if _called(node) & found} - found
        if not more:
            return {name for name in found if name.startswith("test")}
        found |= more


def _called(node: ast.FunctionDef) -> set[str]:
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def function_of(item: str) -> str:
    return item.split("::")[-1].split("[")[0]


def command(path: Path, args: argparse.Namespace, *more: str) -> list[str]:
    # The fixtures are in `python/conftest.py`; above that folder lies nothing of the tests'.
    tests = args.source.resolve() / "python"
    python = [sys.executable, "-m", "xttir", "sanitize", "--quiet", "--cc", args.cc, "pytest"]
    plain = ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tests}"]
    # The default way to import would put the checkout's own `triton` before the installed one.
    plain += [f"--confcutdir={tests}", "--import-mode=importlib"]
    plain += [word for plugin in getattr(args, "plugins", ()) for word in ("-p", plugin)]
    return [*python, *plain, *more]


def environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"} | more


def collected(path: Path, args: argparse.Namespace) -> list[str]:
    """All test ids of the file, kept beside the results since collecting takes a minute."""
    kept = args.results.with_suffix(f".{path.stem}.cc{args.cc}.items")
    if not kept.exists():
        listing = subprocess.run(
            command(path, args, "--collect-only", "-q", str(path)),
            env=environment(),
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
        )
        # Warnings at the end name tests too, indented.
        lines = listing.stdout.splitlines()
        items = [line for line in lines if "::" in line and not line.startswith(" ")]
        if not items:
            raise SystemExit(
                f"nothing collected:\n{listing.stdout[-2000:]}{listing.stderr[-2000:]}"
            )
        kept.write_text("\n".join(items))
    return kept.read_text().splitlines()


def run(items: list[str], path: Path, args: argparse.Namespace) -> None:
    """Run what is due, in shards; a test that kills its process is noted and the rest goes on."""
    known = results.read(args.results, ("test",))
    due = [item for item in items if _due(known.get((item,)), args.rerun)]
    while due:
        shard, due = due[: args.shard], due[args.shard :]
        print(f"{len(shard)} tests, {len(due)} after them", file=sys.stderr, flush=True)
        before = _count(args.results)
        ended = _run_shard(shard, path, args)
        lines = results.read_lines(args.results)[before:]
        finished = {entry["test"] for entry in lines if entry["status"] != "started"}
        left = [item for item in shard if item not in finished]
        if not left:
            continue
        started = [entry["test"] for entry in lines if entry["status"] == "started"]
        if not started:
            raise SystemExit(f"no test was started: {ended}")
        guilty = started[-1] if started[-1] in left else left[0]
        results.append(args.results, {"test": guilty, "status": "crash", "detail": ended})
        due = [item for item in left if item != guilty] + due


def _run_shard(shard: list[str], path: Path, args: argparse.Namespace) -> str:
    """Run some tests in one process. Returns how it ended when it did not run them all."""
    python = args.source.resolve() / "python"
    with tempfile.TemporaryDirectory() as scratch:
        ids = Path(scratch) / "tests.txt"
        ids.write_text("\n".join(f"{python}/{item}" for item in shard))
        limit = ["-p", "conformance.record", "-q", f"--timeout={args.timeout}"]
        ended = subprocess.run(
            command(path, args, *limit, f"@{ids}"),
            env=environment(CONFORMANCE_RESULTS=str(args.results.resolve())),
            cwd=scratch,
            capture_output=True,
            text=True,
        )
    lines = (ended.stdout + ended.stderr).strip().splitlines()
    return f"exit {ended.returncode}: {lines[-1] if lines else ''}"


def _due(entry: results.Entry | None, rerun: str) -> bool:
    if entry is None or rerun == "all":
        return True
    return rerun == "failed" and entry["status"] not in results.GOOD


def _count(path: Path) -> int:
    return len(results.read_lines(path))


def summary(entries: list[results.Entry], inspecting: set[str]) -> str:
    lines = []
    for title, wanted in (("that do not inspect assembly", False), ("that do", True)):
        part = [e for e in entries if (function_of(e["test"]) in inspecting) == wanted]
        if not part:
            continue
        passed = sum(e["status"] == "passed" for e in part)
        counted = sum(e["status"] != "skipped" for e in part)
        rate = f"{100 * passed / counted:.1f}%" if counted else "none"
        lines.append(
            f"\ntests {title}: {passed} of {counted} pass ({rate}); {results.counts(part)}"
        )
        lines.append(results.by_cause(part, "test"))
    names = ", ".join(sorted(inspecting))
    return "\n".join([*lines, f"\nfunctions that inspect assembly: {names}"])


if __name__ == "__main__":
    sys.exit(main())
