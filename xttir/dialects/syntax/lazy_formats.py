"""Assembly formats read when first needed.

xDSL parses the declarative assembly format of every op when its class is made, which is half the
cost of importing a dialect; a kernel uses a tenth of the ops. Inside `lazy_formats` op classes are
made with a stand-in that parses its format when the op is first parsed or printed. An error in a
format then shows at first use; the tests use them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.irdl.declarative_assembly_format import FormatProgram

_from_str = FormatProgram.from_str


class _LazyProgram:
    """A `FormatProgram` that is made when it is first used."""

    __slots__ = ("_format", "_op_def", "_program")

    def __init__(self, text: str, op_def: Any):
        self._format = text
        self._op_def = op_def
        self._program: FormatProgram | None = None

    def _made(self) -> FormatProgram:
        if self._program is None:
            self._program = _from_str(self._format, self._op_def)
        return self._program

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        return self._made().parse(*args, **kwargs)

    def print(self, *args: Any, **kwargs: Any) -> Any:
        return self._made().print(*args, **kwargs)

    @property
    def stmts(self) -> Any:
        return self._made().stmts


@contextmanager
def lazy_formats() -> Iterator[None]:
    """Make op classes defined inside with lazy assembly formats."""
    before = FormatProgram.from_str
    FormatProgram.from_str = staticmethod(_LazyProgram)  # pyright: ignore
    try:
        yield
    finally:
        FormatProgram.from_str = before
