"""How small `xttir reduce` makes known faults of the installed Triton, and how long it takes.

    python -m conformance.reduce_cases [SHARED]

SHARED: the folder of shared cases (default `$XTTIR_SHARED`, else ../shared). With Triton 3.8 there
are triton#11519, #11656, #11601 and #11612, with 3.9 only #11601; each from a small program and
buried in a matrix multiplication.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
from pathlib import Path

from xttir.refine.reduce import reduce_text
from xttir.refine.reduce.predicates import (
    MeaningChanges,
    PassFails,
    Predicate,
    pipeline_transform,
)

FUSE = "tritongpu-fuse-nested-loops"
MOST = 25
DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "reduce"


def cases(shared: Path) -> list[tuple[str, Path, bool]]:
    """(report, file, whether the pass crashes) for the installed release."""
    reports = shared / "cases" / "reports"
    found = [
        ("triton#11601", reports / "02-hoisted-bound-load" / "source.mlir", False),
        ("triton#11601", DATA / "grouped_matmul.ttgir", False),
    ]
    if importlib.metadata.version("triton").startswith("3.8"):
        found += [
            ("triton#11519", reports / "01-fuse-unsound-assume" / "source.mlir", False),
            ("triton#11519", DATA / "matmul_assume.ttgir", False),
            ("triton#11656", DATA / "matmul_inverted.ttgir", False),
            ("triton#11612", DATA / "flattened_while.ttir", True),
        ]
    return found


def main() -> int:
    """Print a line per case; the exit code says whether all hold."""
    default = os.environ.get("XTTIR_SHARED", "../shared")
    shared = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    held, chosen = 0, cases(shared)
    for report, path, crashes in chosen:
        text = path.read_text()
        predicate: Predicate = PassFails(FUSE)
        if not crashes:
            predicate = MeaningChanges(pipeline_transform(FUSE), FUSE)
        began = time.monotonic()
        predicate.examine(text)
        result = reduce_text(text, predicate.holds)
        seconds = time.monotonic() - began
        held += result.ops <= MOST and predicate.holds(result.text)
        print(
            f"{report} {path.parent.name}/{path.name}: {result.before} ops -> {result.ops}, "
            f"{result.tried} candidates, {seconds:.1f} s"
        )
    print(f"{held} of {len(chosen)} are at most {MOST} ops")
    return 0 if held == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
