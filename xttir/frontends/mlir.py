"""MLIR text to xDSL modules: everything that Triton prints, pretty or generic, with locations."""

from __future__ import annotations

import hashlib
import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xttir.diagnostics import InputError, Location
from xttir.dialects.context import make_context
from xttir.dialects.locations import location_of, locations_of

__all__ = ["location_of", "locations_of", "parse_module"]

_ALIAS = re.compile(r"^#loc\w* = ", re.MULTILINE)


class TTParser(Parser):
    """xDSL's parser, taught what Triton prints: location aliases after their use."""

    def _hoist_aliases(self) -> None:
        """Read the location aliases, which stand mostly at the end, before all else."""
        text = self.lexer.input.content
        for match in _ALIAS.finditer(text):
            self._resume_from(match.start())
            if self._current_token.text not in self.attribute_aliases:
                self._parse_alias_def()
        self._resume_from(0)

    def _parse_alias_def(self) -> None:
        if self._current_token.text in self.attribute_aliases:
            name = self._current_token.text
            saved = self.attribute_aliases.pop(name)
            super()._parse_alias_def()
            if self.attribute_aliases[name] != saved:
                self.raise_error(f"re-declaration of alias '{name}'")
            return
        super()._parse_alias_def()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        self._hoist_aliases()
        return super().parse_module(allow_implicit_module)


_CACHE: dict[tuple[str, str], ModuleOp] = {}


def parse_module(text: str, name: str = "<module>") -> ModuleOp:
    """The module that `text` holds, verified. `name` is the file name shown in errors.

    The same text gives the same (shared) module: clone it before changing it.
    Raises InputError with line and column.
    """
    key = (hashlib.sha256(text.encode()).hexdigest(), name)
    if key not in _CACHE:
        _CACHE[key] = _parse(text, name)
    return _CACHE[key]


def _parse(text: str, name: str) -> ModuleOp:
    try:
        module = TTParser(make_context(), text, name).parse_module()
        module.verify()
    except ParseError as error:
        at = error.span.get_location()
        raise InputError(error.msg, Location(name, at.line, at.col)) from error
    except VerifyException as error:
        raise InputError(str(error), Location(name)) from error
    return module
