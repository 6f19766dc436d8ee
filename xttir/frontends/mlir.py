"""MLIR text to xDSL modules: everything that Triton prints, pretty or generic, with locations."""

from __future__ import annotations

import hashlib

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import TypeAttribute
from xdsl.utils.exceptions import ParseError, VerifyException

from xttir.diagnostics import InputError, Location
from xttir.dialects.context import make_context
from xttir.dialects.locations import location_of, locations_of
from xttir.dialects.syntax import verifier
from xttir.dialects.syntax.parser import TTParser

__all__ = ["location_of", "locations_of", "parse_module", "read_module"]

_CACHE: dict[tuple[str, str], ModuleOp] = {}
_context: Context | None = None
_TYPES: dict[str, TypeAttribute] = {}


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
    return read_module(_shared_context(), text, name, _TYPES)


def _shared_context() -> Context:
    global _context
    if _context is None:
        _context = make_context()
    return _context


def preload() -> None:
    """Load the dialects that every kernel uses, ahead of the first `parse_module`."""
    context = _shared_context()
    loaded = {dialect.name for dialect in context.loaded_dialects}
    for name in ("tt", "arith", "math", "scf", "cf"):
        if name not in loaded:
            context.load_registered_dialect(name)


def read_module(
    context: Context,
    text: str,
    name: str,
    types: dict[str, TypeAttribute] | None = None,
    verify: bool = True,
    implicit_module: bool = True,
) -> ModuleOp:
    """Parse `text` with `context`, uncached. Raises InputError with line and column.

    `types` may be shared between texts read with one context. With `implicit_module` ops that
    stand outside of a module get one.
    """
    try:
        parser = TTParser(context, text, name, types)
        module = parser.parse_module(implicit_module)
        if verify:
            verifier.verify(module)
            verifier.check_dominance(module, parser.forward_values)
    except ParseError as error:
        at = error.span.get_location()
        raise InputError(" ".join(error.msg.split()), Location(name, at.line, at.col)) from error
    except verifier.InvalidOp as error:
        raise InputError(str(error), parser.place_of(error.op)) from error
    except RecursionError as error:
        raise InputError("nested too deeply", Location(name)) from error
    except (VerifyException, ValueError, TypeError, LookupError, AssertionError) as error:
        # Attributes check themselves when they are made, wherever the parser stands.
        at = parser.place(parser.pos)
        what = " ".join(str(error).split()) or type(error).__name__
        raise InputError(what, at) from error
    return module
