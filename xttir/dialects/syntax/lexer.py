"""xDSL's MLIR lexer with one regular expression for the common tokens, which makes it 4x faster.

Whatever that expression does not take (strings with escapes, rare punctuation, the end of the
file, errors) goes to xDSL's own lexer, so the tokens are the same, but for texts beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRTokenKind,
    StringLiteral,
)

_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_TOKEN: Callable[[str, int], re.Match[str] | None] = re.compile(
    r"(?:[ \t\n\r\f\v]+|//[^\n]*)*+"  # whitespace and comments, never given back
    rf"(?:(%{_SUFFIX})"  # 1
    r"|([a-zA-Z_][a-zA-Z0-9_$.]*)"  # 2
    r"|([:,()}\[\]=><]|\{(?!-\#)|->)"  # 3
    rf"|(\#(?!-\}}){_SUFFIX})"  # 4
    rf"|(!{_SUFFIX})"  # 5
    rf"|(\^{_SUFFIX})"  # 6
    r"|(0x[0-9a-fA-F]+|[0-9]+(?![0-9.]))"  # 7
    r'|("[^"\\\n\v\f]*")'  # 8
    r"|(@[a-zA-Z_][a-zA-Z0-9_$.]*))"  # 9
).match

_KINDS: list[MLIRTokenKind | None] = [
    None,
    MLIRTokenKind.PERCENT_IDENT,
    MLIRTokenKind.BARE_IDENT,
    None,
    MLIRTokenKind.HASH_IDENT,
    MLIRTokenKind.EXCLAMATION_IDENT,
    MLIRTokenKind.CARET_IDENT,
    MLIRTokenKind.INTEGER_LIT,
    MLIRTokenKind.STRING_LIT,
    MLIRTokenKind.AT_IDENT,
]
_PUNCTUATION: dict[str, MLIRTokenKind] = dict(KIND_BY_PUNCTUATION_SPELLING.items())


class FastToken(Token[MLIRTokenKind, str]):
    """A token that knows its text and makes its span only when asked."""

    __slots__ = ("_text", "input", "kind", "start")

    def __init__(self, kind: MLIRTokenKind, start: int, text: str, input: Input[str]):
        self.kind = kind
        self.start = start
        self._text = text
        self.input = input

    @property
    def text(self) -> str:
        return self._text

    @property
    def span(self) -> Span[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Span(self.start, self.start + len(self._text), self.input)


@dataclass
class FastLexer(MLIRLexer):
    """See the module's docstring."""

    # xDSL's, but never giving back: on a string without end its own takes exponential time.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> Any:
        # xDSL takes a string with escapes beyond ASCII for bytes; MLIR prints every such text so,
        # the names of files not least.
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            literal = StringLiteral.from_span(token.span)
            try:
                literal.bytes_contents.decode()
            except UnicodeDecodeError:
                return token
            return Token(MLIRTokenKind.STRING_LIT, literal)
        return token

    def lex(self) -> Any:
        match = _TOKEN(self.input.content, self.pos)
        if match is None:
            token = super().lex()
            return FastToken(token.kind, token.span.start, token.text, self.input)
        index = match.lastindex
        assert index is not None
        text = match[index]
        self.pos = end = match.end()
        kind = _KINDS[index] or _PUNCTUATION[text]
        return FastToken(kind, end - len(text), text, self.input)
