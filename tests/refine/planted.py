"""Planted faults: a module, a right result of a pass on it, and a wrong one, in one file.

The first lines of a file say what is wrong and where it is expected to show; the three modules
follow, each under a line `// source`, `// right` or `// wrong`, apart by `// -----`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "refine" / "planted"


@dataclass(frozen=True)
class Planted:
    """`expected`: how the wrong module's difference may be classified (`Difference.what`)."""

    name: str
    what: str
    expected: tuple[str, ...]
    source: str
    right: str
    wrong: str


def read(path: Path) -> Planted:
    """One planted fault."""
    head, *rest = path.read_text().split("// source\n", 1)
    lines = [x.removeprefix("// ") for x in head.splitlines()]
    expected = lines[-1].removeprefix("expected: ").split(", ")
    source, right, wrong = rest[0].split("// -----\n")
    return Planted(
        path.stem,
        " ".join(lines[:-1]),
        tuple(expected),
        source,
        right.removeprefix("// right\n"),
        wrong.removeprefix("// wrong\n"),
    )


def all_planted() -> list[Planted]:
    """Every planted fault, by name."""
    return [read(path) for path in sorted(DATA.glob("*.mlir"))]
