"""`python -m tests.mutation [KERNEL ...]`: the score of the hand-written kernels, or of some."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import shared_root
from tests.mutation.score import HandWritten, score, table


def kernels(root: Path) -> list[HandWritten]:
    """The hand-written kernels that are right: of `ptx/`, and those with a source in `reports/`."""
    found = []
    for expected in sorted((root / "cases").glob("*/*/expected.json")):
        told, here = json.loads(expected.read_text()), expected.parent
        if (here / "kernel.ptx").exists() and told["verdict"] == "verified":
            found.append(HandWritten(here.name, here / "kernel.ptx", here / "launch.json"))
        for variant, what in told.items():
            source, ptx = here / f"{variant}.cu", here / f"{variant}.ptx"
            if source.exists() and what["verdict"] == "verified":
                name = f"{here.name}/{variant}"
                found.append(HandWritten(name, ptx, here / f"{variant}.launch.json"))
    return found


def main(names: list[str]) -> int:
    root = shared_root()
    if root is None:
        print("no folder of shared cases (set XTTIR_SHARED)", file=sys.stderr)
        return 2
    scores = []
    for kernel in kernels(root):
        if names and kernel.name not in names:
            continue
        try:
            scores.append(score(kernel, say=True))
        except AssertionError as error:
            print(error)
            continue
        print(scores[-1], flush=True)
    print(table(scores))
    return int(any(s.counts["missed"] for s in scores))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
