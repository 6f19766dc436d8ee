"""Places in compiled kernels, as people want to see them: their own source line, then the PTX line.

The analyses give for every instruction its PTX line and then the source lines from inside out,
where the PTX has line information. The sides of a fault follow one another, each from its PTX line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from xttir.diagnostics import Fault, Location
from xttir.tools import source

PTX_SUFFIX = ".ptx"


class Places:
    """Knows one PTX file: where its sources lie, and the text of its instructions.

    `texts`: instruction by PTX line.
    """

    def __init__(self, ptx: str, texts: Mapping[int, str] | None = None):
        self.ptx = ptx
        self.texts = texts or {}
        self._folder = Path(ptx).resolve().parent
        self._found: dict[str, str] = {}

    def presented(self, fault: Fault) -> Fault:
        """The fault with every side's places in the order in which they are shown."""
        places: list[Location] = []
        for side in self._sides(fault.locations):
            places += self._ordered(side)
        return replace(fault, locations=tuple(places))

    def located(self, place: Location) -> Location:
        """The place with a file that can be opened, where there is one."""
        if place.file == self.ptx or not place.file:
            return place
        return replace(place, file=self._file(place.file))

    def _file(self, name: str) -> str:
        found = self._found.get(name)
        if found is None:
            tries = [Path(name), self._folder / name, self._folder / os.path.basename(name)]
            found = next((str(p) for p in tries if p.is_file()), name)
            self._found[name] = found
        return found

    def _sides(self, places: Iterable[Location]) -> list[list[Location]]:
        sides: list[list[Location]] = []
        for place in places:
            if not sides or place.file == self.ptx:
                sides.append([])
            sides[-1].append(place)
        return sides

    def _ordered(self, side: list[Location]) -> list[Location]:
        if side[0].file != self.ptx:
            return [self.located(place) for place in side]
        instruction, sources = side[0], [self.located(place) for place in side[1:]]
        sources = [place for place in sources if place.line]
        if not sources:
            return [instruction]
        first = main_place(sources)
        rest = [replace(p, role="inside") for p in sources if p is not first]
        text = self.texts.get(instruction.line, "")
        return [first, *rest, replace(instruction, role=text)]


_ASSEMBLY = re.compile(r"\b(__)?asm\b|^(\"|:)")
"""A line of an inline assembly statement."""


def main_place(sources: list[Location]) -> Location:
    """Of the lines from inside out, the innermost one in the file of the kernel itself.

    Wrappers of single instructions, in headers or beside the kernel, and library functions come
    after it.
    """
    own = [place for place in sources if place.file == sources[-1].file]
    plain = (place for place in own if not _ASSEMBLY.search(source.line_text(place)))
    return next(plain, own[0])
