"""PTX text to tokens, in one pass over the text: PTX ISA 9.1, chapter 4.

A token is its text and its offset; its first character says what it is. A word takes its dotted
parts along: `.reg`, `%tid.x`, `cp.async.bulk.tensor.2d.shared::cluster.global` are one token each.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from xttir.diagnostics import InputError, Location

_SKIP = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|^@@DWARF[^\n]*|/\*|"', re.DOTALL | re.MULTILINE
)
_TOKEN = re.compile(
    r"""
      \.?[%$_A-Za-z][\w$]*(?:(?:\.|::)[\w$]+)*
    | 0[fF][0-9a-fA-F]{8}(?!\w) | 0[dD][0-9a-fA-F]{16}(?!\w)
    | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
    | \d+\.\d*(?:[eE][-+]?\d+)? | \d+[eE][-+]?\d+ | \d+U?
    | "(?:[^"\\\n]|\\.)*"
    | << | >> | <= | >= | == | != | && | \|\|
    | [^\s]
    """,
    re.VERBOSE | re.ASCII,
)
INLINE_BEGIN = "// begin inline asm"
INLINE_END = "// end inline asm"


class Source:
    """A text with the places of its lines."""

    def __init__(self, text: str, filename: str):
        self.text = text
        self.filename = filename
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def line_column(self, offset: int) -> tuple[int, int]:
        """Both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def place(self, offset: int) -> Location:
        return Location(self.filename, *self.line_column(offset))

    def error(self, what: str, offset: int, hint: str = "") -> InputError:
        return InputError(what, self.place(offset), hint)


def tokens(source: Source) -> tuple[list[str], list[int], list[tuple[int, int]]]:
    """(texts, offsets, stretches of inline assembly as offsets), comments left out.

    Raises InputError for a comment or string without an end and for what is not text.
    """
    text = source.text
    bad = re.search(r"[\x00-\x08\x0e-\x1f\ufffd]", text)
    if bad:
        raise source.error("not a text file", bad.start())
    inline: list[tuple[int, int]] = []
    begin = -1

    def blank(match: re.Match[str]) -> str:
        nonlocal begin
        found = match.group()
        if found[0] == '"' and len(found) > 1:
            return found
        if found == '"':
            raise source.error("a string without an end", match.start())
        if found == "/*":
            raise source.error("a comment without an end", match.start())
        if found.startswith(INLINE_BEGIN):
            begin = match.start()
        elif found.startswith(INLINE_END) and begin >= 0:
            inline.append((begin, match.end()))
            begin = -1
        if "\n" in found:
            return re.sub(r"[^\n]", " ", found)
        return " " * len(found)

    text = _SKIP.sub(blank, text)
    texts: list[str] = []
    offsets: list[int] = []
    add_text, add_offset = texts.append, offsets.append
    for match in _TOKEN.finditer(text):
        add_text(match.group())
        add_offset(match.start())
    return texts, offsets, inline
