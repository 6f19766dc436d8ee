"""A parser that remembers types, numbers, constants and dictionaries by their text.

Modules repeat themselves: a kernel of a thousand ops has some twenty types, and its attribute
dictionaries say the same few things. One regular expression finds where such a text ends; if it has
been read before, the attribute made then is taken. What the expressions do not match is read token
by token. Texts that use dialects are remembered within one module only, except types and what
aliases stand for, which may be shared between the texts of one context: with its aliases
(`#blocked`) written out, a text means the same in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xttir.dialects.syntax.literals import LiteralParser

NEST = r'[^<>"\n]*'
for _ in range(3):
    NEST = rf'[^<>"\n]*(?:<{NEST}>[^<>"\n]*)*'
TYPE = rf"(?:tensor|![\w.$-]+)<{NEST}>"
DENSE = rf'dense<[^<>"\n]{{0,80}}> : (?:tensor|vector)<{NEST}>'
NUMBER = r"-?[0-9][0-9a-zA-Z.]*(?:[eE][-+][0-9]+)? : (?:i[0-9]+|index|b?f[0-9]+)(?![\w$.-])"
DICTIONARY = r'\{(?:[^{}"\n]++|"[^"\\\n]*+")*+\}'
"""Expressions for the texts that are remembered."""

_type_text = re.compile(TYPE).match
_dense_text = re.compile(DENSE).match
_number_text = re.compile(NUMBER).match
_dictionary_text = re.compile(DICTIONARY).match

_ALIAS_USE = re.compile(r"#[\w.$-]+|![\w$-]+(?![\w.$-])").search
"""Text of a type that means something only where its aliases are defined."""
_ALIAS_NAME = re.compile(r"[#!][\w$-]+(?![\w.$<-])")
_ALIAS_LINE = re.compile(r"#[\w$-]+ = (#[\w.$-]+<[^\n\"]*>)\n").match

_PLAIN: dict[str, Attribute] = {}
_PLAIN_DICTIONARIES: dict[str, dict[str, Attribute]] = {}
"""Attributes, and dictionaries of them, whose text means the same in every module."""
_MANY = 4096
"""How many of each are kept."""

_BARE = MLIRTokenKind.BARE_IDENT
_EXCLAMATION = MLIRTokenKind.EXCLAMATION_IDENT
_INTEGER = MLIRTokenKind.INTEGER_LIT
_MINUS = MLIRTokenKind.MINUS
_BRACE = MLIRTokenKind.L_BRACE

_T = TypeVar("_T")


class RememberingParser(LiteralParser):
    """See the module's docstring. `types` may be shared between parsers of one context."""

    def __init__(
        self,
        ctx: Context,
        input: str | bytes,
        name: str = "<unknown>",
        types: dict[str, TypeAttribute] | None = None,
    ) -> None:
        super().__init__(ctx, input, name)
        self.types: dict[str, TypeAttribute] = {} if types is None else types
        self.aliased_types: dict[str, TypeAttribute] = {}
        self._written_out: dict[str, str] = {}
        self._attributes: dict[str, Attribute] = {}
        self._dictionaries: dict[str, dict[str, Attribute]] = {}

    def _remembered(
        self, match: re.Match[str], memo: dict[str, _T], read: Callable[[], _T | None]
    ) -> _T | None:
        """What the matched text stands for: out of `memo`, or by `read` from its first token on."""
        text = match.group()
        found = memo.get(text)
        if found is not None:
            self._jump(match.end())
            return found
        found = read()
        end = match.end()
        if (
            found is not None
            and self.pos >= end
            and not self.text[end : self.pos].strip()
            and len(memo) < _MANY
        ):
            memo[text] = found
        return found

    # Aliases

    def _written(self, text: str) -> str | None:
        """`text` without aliases; None if some alias is not known by its text."""
        known = self._written_out
        names = _ALIAS_NAME.findall(text)
        if not all(name in known for name in names):
            return None
        return _ALIAS_NAME.sub(lambda match: known[match[0]], text) if names else text

    def _parse_alias_def(self) -> None:
        start: int = self._parser_state.current_token.start  # pyright: ignore
        name = self.token_text
        line = _ALIAS_LINE(self.text, start)
        written = None if line is None else self._written(line[1])
        if line is None or written is None or name in self.attribute_aliases:
            super()._parse_alias_def()
            return
        shared: dict[str, Any] = self.types
        found = shared.get(written)
        if found is not None:
            self.attribute_aliases[name] = found
            self._jump(line.end())
        else:
            super()._parse_alias_def()
            if self.text[line.end() : self.pos].strip() or self.pos < line.end():
                return
            shared[written] = self.attribute_aliases[name]
        self._written_out[name] = written

    # Types

    def parse_optional_type(self) -> TypeAttribute | None:
        token = self._parser_state.current_token
        kind = token.kind
        if kind is _BARE:
            text = token.text
            found = self.types.get(text)
            if found is not None:
                self.advance()
                return found
            if text != "tensor":
                found = super().parse_optional_type()
                if found is not None and self._previous_was(token):
                    self.types[text] = found
                return found
        elif kind is not _EXCLAMATION:
            return super().parse_optional_type()
        match = _type_text(self.text, token.start)  # pyright: ignore
        if match is None:
            return super().parse_optional_type()
        if not _ALIAS_USE(match.group()):
            return self._remembered(match, self.types, super().parse_optional_type)
        return self._remembered(match, self.aliased_types, lambda: self._aliased(match))

    def _aliased(self, match: re.Match[str]) -> TypeAttribute | None:
        """The type of the matched text, which has aliases and was not read in this module."""
        written = self._written(match.group())
        if written is None:
            return super().parse_optional_type()
        found = self.types.get(written)
        if found is not None:
            self._jump(match.end())
            return found
        found = super().parse_optional_type()
        if found is not None and not self.text[match.end() : self.pos].strip():
            self.types[written] = found
        return found

    def _previous_was(self, token: Any) -> bool:
        """Whether `token` was the last one read: only a type that is one word may be remembered."""
        between = self.text[token.start + len(token.text) : self.pos]
        return not between.strip() or between.lstrip().startswith("//")

    def parse_type(self) -> TypeAttribute:
        found = self.parse_optional_type()
        if found is None:
            self.raise_error("type expected")
        return found

    # Attributes

    def parse_optional_attribute(self) -> Attribute | None:
        token = self._parser_state.current_token
        kind = token.kind
        if kind is _INTEGER or kind is _MINUS:
            match = _number_text(self.text, token.start)  # pyright: ignore
        elif kind is _BARE and token.text == "dense":
            match = _dense_text(self.text, token.start)  # pyright: ignore
        else:
            match = None
        if match is None:
            return super().parse_optional_attribute()
        text = match.group()
        memo = self._attributes if "#" in text or "!" in text else _PLAIN
        return self._remembered(match, memo, super().parse_optional_attribute)

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        if self.token_kind is not _BRACE:
            return {}
        match = _dictionary_text(self.text, self.pos)
        read = super().parse_optional_dictionary_attr_dict
        if match is None:
            return read()
        text = match.group()
        plain = "#" not in text and "!" not in text
        memo = _PLAIN_DICTIONARIES if plain else self._dictionaries
        return dict(self._remembered(match, memo, read) or {})

    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        if self.token_kind is not MLIRTokenKind.LESS:
            return {}
        self.advance()
        if self.token_kind is not _BRACE:
            self.raise_error("Expected '{'")
        found = self.parse_optional_dictionary_attr_dict()
        self.skip(MLIRTokenKind.GREATER, "Expected '>'")
        return found

    # What stands at a place known to the caller, who puts the parser where it goes on

    def type_of(self, text: str) -> TypeAttribute | None:
        """The type that was read before as `text`."""
        return self.types.get(text) or self.aliased_types.get(text)

    def type_at(self, text: str, start: int) -> TypeAttribute | None:
        """The type whose text, from `start` on, is `text`; None if it ends elsewhere."""
        return self.type_of(text) or self._at(start, len(text), self.parse_optional_type)

    def attribute_at(self, text: str, start: int) -> Attribute | None:
        """The attribute whose text, from `start` on, is `text`; None if it ends elsewhere."""
        found = _PLAIN.get(text) or self._attributes.get(text)
        return found or self._at(start, len(text), self.parse_optional_attribute)

    def dictionary_at(self, text: str, start: int) -> dict[str, Attribute] | None:
        """The dictionary `text` that begins at `start`, which is not to be changed."""
        found = _PLAIN_DICTIONARIES.get(text) or self._dictionaries.get(text)
        return found or self._at(start, len(text), self.parse_optional_dictionary_attr_dict)

    def _at(self, start: int, length: int, read: Callable[[], _T | None]) -> _T | None:
        self._jump(start)
        found = read()
        end = start + length
        return found if self.pos >= end and not self.text[end : self.pos].strip() else None
