"""Modules that Triton's passes make, and changes to them: what a wrong pass would have left, and
what a right one might.

`tests/data/refine/mutated/NAME.mlir` is a module, `NAME.changes` holds changes to it: a line
`wrong: WHAT` or `right: WHAT`, then texts to replace, old ones under `- ` and new ones under `+ `
(lines that follow each other are one text; without a new one, whole lines are left out).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "refine" / "mutated"


@dataclass(frozen=True)
class Change:
    """A change to the module `source` that gives `target`. `right`: whether it may be made."""

    module: str
    what: str
    right: bool
    source: str
    target: str


def all_changes() -> Iterator[Change]:
    """Every change, by module."""
    for path in sorted(DATA.glob("*.changes")):
        source = path.with_suffix(".mlir").read_text()
        for block in path.read_text().strip().split("\n\n"):
            head, *lines = block.split("\n")
            verdict, what = head.split(": ", 1)
            target = source
            for old, new in _replacements(lines):
                assert old in target, (path.stem, what, old)
                target = target.replace(old, new)
            yield Change(path.stem, what, verdict == "right", source, target)


def _replacements(lines: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(lines):
        old, at = _run(lines, at, "- ")
        new, at = _run(lines, at, "+ ")
        yield ("\n".join(old), "\n".join(new)) if new else ("\n".join(old) + "\n", "")


def _run(lines: list[str], at: int, mark: str) -> tuple[list[str], int]:
    """The lines from `at` on that begin with `mark`, and where they end."""
    found: list[str] = []
    while at < len(lines) and lines[at].startswith(mark):
        found.append(lines[at].removeprefix(mark))
        at += 1
    return found, at
