"""Modules of Triton's GPU dialects after barrier insertion, kept in a folder with their launches.

`index.jsonl` has a line for every module: where it comes from, the kernel, grid and scalar
arguments of the launch that it was first seen with; `KEY.mlir` is its text, `KEY.npz` the contents
of integer tensors. Modules with equal texts are one.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conformance import results


@dataclass
class Kept:
    """A module and its launch. `arguments`: numbers by index of the parameter; `tensors`: indices
    of parameters whose integer contents are kept; `stage`: the pass that made the text. `origin`
    says where it comes from, `group` which public code that is. `launch`: whether a program
    launched it, rather than numbers that somebody made up."""

    key: str
    group: str
    origin: str
    cc: int
    kernel: str
    grid: tuple[int, int, int]
    arguments: dict[int, int | float]
    stage: str
    tensors: list[int] = field(default_factory=list)
    launch: bool = True


class Store:
    """The folder. Appending is safe while others read, and from several processes in turn."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.index = folder / "index.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def all(self) -> list[Kept]:
        """Every module, in order of arrival."""
        found: dict[str, Kept] = {}
        for entry in results.read_lines(self.index):
            if "key" not in entry:
                continue
            entry["arguments"] = {int(k): v for k, v in entry["arguments"].items()}
            entry["grid"] = tuple(entry["grid"])
            found[entry["key"]] = Kept(**entry)
        return list(found.values())

    def text(self, kept: Kept) -> str:
        return (self.folder / f"{kept.key}.mlir").read_text()

    def path(self, kept: Kept) -> Path:
        return self.folder / f"{kept.key}.mlir"

    def contents(self, kept: Kept) -> dict[int, np.ndarray]:
        """Contents of integer tensors by index of the parameter."""
        path = self.folder / f"{kept.key}.npz"
        if not path.exists():
            return {}
        with np.load(path) as data:
            return {int(name): data[name] for name in data.files}

    def add(self, kept: Kept, text: str, contents: dict[int, np.ndarray]) -> None:
        """Keep a module. One with the same key is replaced."""
        (self.folder / f"{kept.key}.mlir").write_text(text)
        if contents:
            named: dict[str, Any] = {str(k): v for k, v in contents.items()}
            np.savez(self.folder / f"{kept.key}.npz", **named)
        self._append(asdict(kept))

    def done(self) -> set[str]:
        """Sources that have been collected to their end."""
        return {e["done"] for e in results.read_lines(self.index) if "done" in e}

    def mark(self, source: str, seconds: float) -> None:
        self._append({"done": source, "seconds": round(seconds, 1)})

    def _append(self, entry: dict[str, Any]) -> None:
        results.append(self.index, entry)


def key_of_text(plain: str, cc: int) -> str:
    """The key of a module by its text without locations."""
    return hashlib.sha1(f"{cc}\n{plain}".encode()).hexdigest()[:16]


def smaller(grid: tuple[int, int, int], programs: int) -> tuple[int, int, int]:
    """The grid with its longest axes halved until it has at most so many programs."""
    extents = list(grid)
    while math.prod(extents) > programs:
        longest = extents.index(max(extents))
        extents[longest] = -(-extents[longest] // 2)
    x, y, z = extents
    return x, y, z
