"""The token level of the parser: xDSL's helpers without their checks and copies."""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.parser import Parser, ParserState
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRTokenKind

from xttir.dialects.syntax.lexer import FastLexer


class TokenParser(Parser):
    """A parser that reads `text` with the fast lexer."""

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>") -> None:
        super().__init__(ctx, "", name)
        text = input.decode("utf-8") if isinstance(input, bytes) else input
        self._parser_state = ParserState(FastLexer(Input(text, name)))  # pyright: ignore
        self.text = text

    @property
    def token_kind(self) -> MLIRTokenKind:
        """The kind of the token to be read next."""
        return self._parser_state.current_token.kind

    @property
    def token_text(self) -> str:
        """The text of the token to be read next."""
        return self._parser_state.current_token.text

    @property
    def pos(self) -> int:
        return self._parser_state.current_token.start  # pyright: ignore

    def advance(self) -> None:
        """Drop the current token."""
        state = self._parser_state
        state.current_token = state.lexer.lex()

    def skip(self, kind: MLIRTokenKind, message: str) -> None:
        """Drop a token that must be of `kind`."""
        state = self._parser_state
        if state.current_token.kind is not kind:
            self.raise_error(message)
        state.current_token = state.lexer.lex()

    def _consume_token(self, expected_kind: Any = None) -> Any:
        state = self._parser_state
        token = state.current_token
        assert expected_kind is None or token.kind is expected_kind
        state.current_token = state.lexer.lex()
        return token

    def _parse_optional_token(self, expected_kind: Any) -> Any:
        state = self._parser_state
        token = state.current_token
        if token.kind is expected_kind:
            state.current_token = state.lexer.lex()
            return token
        return None

    def parse_optional_punctuation(self, punctuation: Any) -> Any:
        state = self._parser_state
        if state.current_token.kind is KIND_BY_PUNCTUATION_SPELLING[punctuation]:
            state.current_token = state.lexer.lex()
            return punctuation
        return None

    def parse_punctuation(self, punctuation: Any, context_msg: str = "") -> Any:
        state = self._parser_state
        if state.current_token.kind is not KIND_BY_PUNCTUATION_SPELLING[punctuation]:
            self.raise_error(f"Expected '{punctuation}'{context_msg}")
        state.current_token = state.lexer.lex()
        return punctuation

    def parse_optional_characters(self, text: str) -> str | None:
        state = self._parser_state
        if state.current_token.text == text:
            state.current_token = state.lexer.lex()
            return text
        return None

    def _jump(self, position: int) -> None:
        """Go on reading at `position`."""
        state = self._parser_state
        state.lexer.pos = position
        state.current_token = state.lexer.lex()
