"""The tokens of a file and where the reader stands."""

from __future__ import annotations

import struct

from xttir.diagnostics import InputError
from xttir.dialects.ptx.operands import number
from xttir.frontends.ptx.expressions import BadExpression, constant
from xttir.frontends.ptx.lexer import Source

END = "end of file"
_AFTER = frozenset(",;]})")


class Stream:
    """`texts[index]` is next; past the last token come tokens that nothing accepts."""

    def __init__(self, source: Source, texts: list[str], offsets: list[int]):
        self.source = source
        self.texts = [*texts, END, END, END]
        self.offsets = [*offsets, *[len(source.text)] * 3]
        self.index = 0
        self.last = len(texts)

    @property
    def at_end(self) -> bool:
        return self.index >= self.last

    def peek(self) -> str:
        return self.texts[self.index]

    def take(self) -> str:
        """The next token. Raises InputError at the end of the file."""
        text = self.texts[self.index]
        if self.index >= self.last:
            raise self.error("unexpected end of file")
        self.index += 1
        return text

    def accept(self, text: str) -> bool:
        if self.texts[self.index] == text:
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if self.texts[self.index] != text:
            raise self.error(f"expected `{text}`, found {self._shown()}")
        self.index += 1

    def word(self, what: str) -> str:
        """An identifier."""
        text = self.texts[self.index]
        if self.at_end or not (text[0].isalpha() or text[0] in "_$%") or text == "%":
            raise self.error(f"expected {what}, found {self._shown()}")
        self.index += 1
        return text

    def string(self) -> str:
        """A string literal, without the quotes."""
        text = self.texts[self.index]
        if text[0] != '"':
            raise self.error(f"expected a string, found {self._shown()}")
        self.index += 1
        return text[1:-1]

    def number(self) -> int | float:
        """The value of a constant expression."""
        text = self.texts[self.index]
        if text[0].isdigit() and self.texts[self.index + 1] in _AFTER:
            self.index += 1
            return number(text)
        try:
            value, self.index = constant(self.texts, self.index)
        except BadExpression as error:
            raise self.error(str(error), at=error.position) from error
        return value

    def integer(self) -> int:
        start = self.index
        value = self.number()
        if not isinstance(value, int):
            raise self.error("expected an integer", at=start)
        return value

    def _fits(self, value: int | float, start: int) -> None:
        """Integer constants have 64 bits (PTX ISA 4.5.1)."""
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise self.error(f"{value} does not fit in 64 bits", at=start)

    def constant(self) -> str:
        """A constant expression: as spelled where it is one literal, else its value."""
        start = self.index
        literal = self.texts[start]
        if literal[0].isdigit() and self.texts[start + 1] in _AFTER:
            self._fits(number(literal), start)
            self.index += 1
            return literal
        negative = literal == "-"
        literal = self.texts[start + negative]
        value = self.number()
        self._fits(value, start)
        if self.index == start + 1 + negative and literal[0].isdigit():
            return "-" + literal if negative else literal
        if isinstance(value, float):
            return "0d" + struct.pack(">d", value).hex().upper()
        return str(value)

    def statement_text(self) -> str:
        """The text up to the next `;`, that included, with single spaces."""
        start = self.index
        while self.texts[self.index] != ";":
            self.take()
        self.index += 1
        return self.text_between(start, self.index)

    def bracketed_text(self) -> str:
        """`( .. )`, without the parentheses."""
        self.expect("(")
        start, depth = self.index, 1
        while depth:
            text = self.take()
            depth += (text == "(") - (text == ")")
        return self.text_between(start, self.index - 1)

    def text_between(self, start: int, stop: int) -> str:
        """The source text of tokens, comments left out and white space made single spaces."""
        parts: list[str] = []
        end = -1
        for text, offset in zip(self.texts[start:stop], self.offsets[start:stop], strict=True):
            if parts and offset > end:
                parts.append(" ")
            parts.append(text)
            end = offset + len(text)
        return "".join(parts)

    def error(self, what: str, hint: str = "", back: int = 0, at: int = -1) -> InputError:
        """An error at the next token, `back` tokens before it, or at token `at`."""
        index = at if at >= 0 else self.index - back
        return self.source.error(what, self.offsets[min(index, len(self.offsets) - 1)], hint)

    def _shown(self) -> str:
        if self.at_end:
            return "the end of the file"
        text = self.texts[self.index]
        return f"`{text}`" if len(text) <= 40 else f"`{text[:37]}...`"
