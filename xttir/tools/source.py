"""The user's source text around a location: which characters of which lines to show.

A diagnostic names a line and a column; a person wants to see the whole expression that begins
there. The file is parsed with `ast` and the expression at that place gives the extent. What
cannot be parsed (CUDA, a file that changed) is shown as the single line.
"""

from __future__ import annotations

import ast
import functools
import linecache
from dataclasses import dataclass

from xttir.diagnostics import Location

MAX_LINES = 8
"""A statement longer than this is cut in the middle of a report."""


@dataclass(frozen=True)
class Excerpt:
    """Lines to show. `lines` begin at source line `first`; carets go under characters
    [start, end) of the first one (0-based, after tabs became spaces)."""

    first: int
    lines: tuple[str, ...]
    start: int
    end: int
    cut: bool = False


@dataclass(frozen=True)
class _Span:
    line: int
    column: int
    end_line: int
    end_column: int
    callee: str


@functools.lru_cache(maxsize=64)
def _lines(file: str) -> tuple[str, ...]:
    """Lines of `file`, also of code that lives only in `linecache` (notebooks, exec)."""
    return tuple(line.rstrip("\r\n") for line in linecache.getlines(file))


@functools.lru_cache(maxsize=64)
def _index(file: str) -> tuple[dict[int, list[_Span]], list[tuple[int, int, int]]]:
    """(spans of expressions by first line, (first line, last line, indent) of functions)."""
    spans: dict[int, list[_Span]] = {}
    functions: list[tuple[int, int, int]] = []
    lines = _lines(file)
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return spans, functions
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            functions.append((first, node.end_lineno or node.lineno, node.col_offset))
        if not isinstance(node, ast.expr | ast.stmt) or node.end_lineno is None:
            continue
        if isinstance(node, ast.stmt) and hasattr(node, "body"):
            continue
        callee = ""
        if isinstance(node, ast.Call):
            callee = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        span = _Span(
            node.lineno,
            _characters(lines[node.lineno - 1], node.col_offset),
            node.end_lineno,
            _characters(lines[node.end_lineno - 1], node.end_col_offset or 0),
            callee,
        )
        spans.setdefault(span.line, []).append(span)
    return spans, functions


def _characters(line: str, utf8_bytes: int) -> int:
    """`ast` counts columns in UTF-8 bytes; reports count characters."""
    return utf8_bytes if line.isascii() else len(line.encode()[:utf8_bytes].decode(errors="ignore"))


def _pick(file: str, location: Location) -> _Span | None:
    """The expression that begins at `location`, or the statement when no column is known."""
    spans, functions = _index(file)
    here = spans.get(location.line, [])
    if not location.column:
        # A statement of several lines is shown whole, any other as its line.
        long = [s for s in here if s.end_line > s.line]
        return max(long, key=lambda s: (s.end_line, s.end_column), default=None)
    column = location.column - 1
    word = location.role.split(" ", 1)[0].replace("-", "_")
    # Triton compiles a nested kernel from dedented text, which shifts its columns.
    inside = [f for f in functions if f[0] <= location.line <= f[1]]
    indent = max(inside, key=lambda f: f[0])[2] if inside else 0
    places = [[s for s in here if s.column == c] for c in (column, column + indent)]
    named = [[s for s in at if word and word in s.callee] for at in places]
    chosen = next((at for at in (*named, *places) if at), [])
    return max(chosen, key=lambda s: (s.end_line, s.end_column), default=None)


def corrected(location: Location) -> Location:
    """`location` with the column of the file, where the compiler counted in dedented text."""
    span = _pick(location.file, location) if location.line and location.column else None
    if span is None or span.column + 1 == location.column:
        return location
    return Location(location.file, location.line, span.column + 1, location.role, location.function)


def excerpt(location: Location) -> Excerpt | None:
    """What to show of the source at `location`; None when the text is not to be had."""
    lines = _lines(location.file) if location.file else ()
    if not 1 <= location.line <= len(lines):
        return None
    span = _pick(location.file, location)
    first = lines[location.line - 1]
    if span is None:
        start = max(location.column - 1, len(first) - len(first.lstrip()))
        whole = not location.column or location.file.endswith(".ptx")
        end = len(first.rstrip()) if whole else start + 1
        return _clean(location.line, (first,), start, min(end, max(len(first), start + 1)))
    end = span.end_column if span.end_line == span.line else len(first)
    shown = lines[span.line - 1 : span.end_line]
    return _clean(location.line, shown[:MAX_LINES], span.column, end, len(shown) > MAX_LINES)


def _clean(first: int, lines: tuple[str, ...], start: int, end: int, cut: bool = False) -> Excerpt:
    """Tabs become spaces, and carets move with them."""
    head = lines[0]
    start, end = len(head[:start].expandtabs(4)), len(head[:end].expandtabs(4))
    return Excerpt(first, tuple(x.expandtabs(4) for x in lines), start, max(end, start + 1), cut)


def line_text(location: Location) -> str:
    """The stripped text of the line, "" when it is not to be had. For stable fingerprints."""
    lines = _lines(location.file) if location.file else ()
    return lines[location.line - 1].strip() if 1 <= location.line <= len(lines) else ""


def forget() -> None:
    """Drop what is cached about files (they may have been edited)."""
    _lines.cache_clear()
    _index.cache_clear()
    linecache.checkcache()
