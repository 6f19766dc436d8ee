"""`python -m tests.mutation [KERNEL ...]`: the score of the hand-written kernels, or of some."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import shared_root
from tests.mutation.score import score, table


def kernels(root: Path) -> list[Path]:
    """The hand-written kernels that are right."""
    found = sorted(p.parent for p in (root / "cases" / "ptx").glob("*/kernel.ptx"))
    return [p for p in found if "_bug_" not in p.name]


def main(names: list[str]) -> int:
    root = shared_root()
    if root is None:
        print("no folder of shared cases (set XTTIR_SHARED)", file=sys.stderr)
        return 2
    scores = []
    for folder in kernels(root):
        if names and folder.name not in names:
            continue
        try:
            scores.append(score(folder, say=True))
        except AssertionError as error:
            print(error)
            continue
        print(scores[-1], flush=True)
    print(table(scores))
    return int(any(s.counts["missed"] for s in scores))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
