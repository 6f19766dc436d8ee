"""Triton's Gluon tutorials, examples and tests under `xttir sanitize pytest`: which run and agree.

    python -m conformance.gluon --source TRITON_CHECKOUT [--cc 100] [--sample N] [--file WORD]

The tests compare every kernel's result with torch's, so a test that passes is a kernel that runs
and agrees with its reference. `--sample` takes that many parameter sets of each test function.
`TRITON_CHECKOUT` has `python/tutorials/gluon`, `python/examples/gluon` and `python/test/gluon`.
Results go to a file of JSON lines for each compute capability; a later run only takes up what is
missing or has failed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from conformance import results, triton_core

FOLDERS = ("python/tutorials/gluon", "python/examples/gluon", "python/test/gluon")
TESTS = ("test_core.py", "test_lowerings.py", "test_consan.py")
"""Those of `python/test/gluon` that launch kernels."""


def files(source: Path) -> list[Path]:
    """The files with tests, in order."""
    found: list[Path] = []
    for folder in FOLDERS:
        for path in sorted((source / folder).glob("*.py")):
            if path.name[0].isdigit() or path.name in TESTS:
                found.append(path)
    return found


def sampled(items: list[str], count: int, seed: int) -> list[str]:
    """Up to `count` parameter sets of each test function."""
    by_function: dict[str, list[str]] = {}
    for item in items:
        by_function.setdefault(triton_core.function_of(item), []).append(item)
    rng = random.Random(seed)
    chosen: set[str] = set()
    for group in by_function.values():
        chosen.update(rng.sample(group, min(count, len(group))))
    return [item for item in items if item in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.gluon")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of Triton")
    parser.add_argument("--file", default="", help="only files whose name contains it")
    parser.add_argument("-k", default="", metavar="WORD", help="only tests whose name contains it")
    parser.add_argument("--cc", default="100", help="compute capability (100)")
    parser.add_argument("--sample", type=int, default=0, help="parameter sets of a test (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rerun", choices=("missing", "failed", "all"), default="failed")
    parser.add_argument("--shard", type=int, default=20, help="tests a process (20)")
    parser.add_argument("--timeout", type=int, default=60, help="seconds a test (60)")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    args = parser.parse_args()
    # Tutorials and examples import one another by name.
    folders = [str(args.source.resolve() / folder) for folder in FOLDERS[:2]]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    args.plugins = ("conformance.no_cublas",)
    args.results = results.default_path(f"gluon.cc{args.cc}")
    for path in files(args.source.resolve()):
        if args.file not in path.name or args.report:
            continue
        try:
            items = triton_core.collected(path, args)
        except SystemExit as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        items = [item for item in items if args.k in item]
        if args.sample:
            items = sampled(items, args.sample, args.seed)
        print(f"{path.name}: {len(items)} tests", file=sys.stderr, flush=True)
        triton_core.run(items, path, args)
    print(summary(list(results.read(args.results, ("test",)).values())))
    return 0


def summary(entries: list[results.Entry]) -> str:
    """Passed of counted by file, then failures by cause."""
    by_file: dict[str, list[results.Entry]] = {}
    for entry in entries:
        by_file.setdefault(entry["test"].split("::")[0], []).append(entry)
    lines: list[str] = []
    for name, part in sorted(by_file.items()):
        counted = [e for e in part if e["status"] != "skipped"]
        passed = sum(e["status"] == "passed" for e in counted)
        lines.append(f"{name}: {passed} of {len(counted)}; {results.counts(part)}")
    lines.append(results.by_cause(entries, "test"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
