"""`.file` and `.loc`: PTX ISA 9.1, section 11.5. Every op's location is its place in the PTX; where
a `.loc` is in force it is fused with the place in the user's source, inlined calls as call sites.

Triton's `.loc` lines inside a block of inline assembly count the lines of that block, not of the
source file: there the one before the block stays in force.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NoneAttr,
    StringAttr,
)

from xttir.frontends.ptx.lexer import Source
from xttir.frontends.ptx.stream import Stream

_NONE = NoneAttr()


class Places:
    """Locations by offset."""

    def __init__(self, source: Source, inline: list[tuple[int, int]], texts: list[str]):
        self.source = source
        self.files = _files(texts)
        self.current: LocationAttr | None = None
        self._file = StringAttr(source.filename)
        self._inline = inline
        self._integers: dict[int, IntAttr] = {}
        self._names: dict[int, StringAttr] = {}
        self._seen: dict[tuple[int, int, int], LocationAttr] = {}

    def at(self, offset: int) -> LocationAttr:
        """The location of what stands at this offset."""
        line, column = self.source.line_column(offset)
        place = FileLineColLoc.__new__(FileLineColLoc)
        # One of these for every instruction: set the parameters without checking them.
        set_ = object.__setattr__
        set_(place, "filename", self._file)
        set_(place, "line", self._integer(line))
        set_(place, "column", self._integer(column))
        if self.current is None:
            return place
        fused = FusedLoc.__new__(FusedLoc)
        places = ArrayAttr.__new__(ArrayAttr)
        set_(places, "data", (place, self.current))
        set_(fused, "locations", places)
        set_(fused, "metadata", _NONE)
        return fused

    def leave_function(self) -> None:
        self.current = None

    def directive(self, stream: Stream) -> None:
        """Read `.file` or `.loc`."""
        at = stream.offsets[stream.index]
        if stream.take() == ".file":
            stream.integer()
            stream.string()
            while stream.accept(","):
                stream.integer()
            return
        key = self._place(stream)
        location: LocationAttr = self._location(key)
        while stream.accept(","):
            word = stream.take()
            if word == "function_name":
                stream.word("a label")
                if stream.accept("+"):
                    stream.integer()
            elif word == "inlined_at":
                outer = self._place(stream)
                location = CallSiteLoc(location, self._seen.get(outer) or self._location(outer))
            else:
                raise stream.error("expected function_name or inlined_at", back=1)
        self._seen[key] = location
        if not self._in_inline_assembly(at):
            self.current = location

    def _place(self, stream: Stream) -> tuple[int, int, int]:
        return stream.integer(), stream.integer(), stream.integer()

    def _location(self, key: tuple[int, int, int]) -> FileLineColLoc:
        number, line, column = key
        if number not in self._names:
            self._names[number] = StringAttr(self.files.get(number, f"<file {number}>"))
        return FileLineColLoc(self._names[number], self._integer(line), self._integer(column))

    def _integer(self, value: int) -> IntAttr:
        found = self._integers.get(value)
        if found is None:
            found = self._integers[value] = IntAttr(value)
        return found

    def _in_inline_assembly(self, offset: int) -> bool:
        index = bisect_right(self._inline, (offset, 1 << 62)) - 1
        return index >= 0 and offset < self._inline[index][1]


def _files(texts: list[str]) -> dict[int, str]:
    """The `.file` directives; they may stand after the code that refers to them."""
    found: dict[int, str] = {}
    for index, text in enumerate(texts):
        if text == ".file" and index + 2 < len(texts):
            number, path = texts[index + 1 : index + 3]
            if number.isdecimal() and path[0] == '"':
                found[int(number)] = _unescaped(path[1:-1])
    return found


def _unescaped(path: str) -> str:
    """A path as LLVM writes it: bytes beyond ASCII in octal, quotes and backslashes escaped."""
    if "\\" not in path:
        return path
    data = re.sub(
        rb'\\(?:([0-7]{3})|(["\\]))',
        lambda m: bytes([int(m[1], 8) & 255]) if m[1] else m[2],
        path.encode(),
    )
    return data.decode(errors="replace")
