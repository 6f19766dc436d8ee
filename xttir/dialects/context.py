"""The xDSL context that all of xttir parses with: every dialect by name, loaded on first use."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect


def _tt() -> Dialect:
    from xttir.dialects.tt import TT

    return TT


def _arith() -> Dialect:
    from xttir.dialects.arith import Arith

    return Arith


def _math() -> Dialect:
    from xttir.dialects.math import Math

    return Math


def _scf() -> Dialect:
    from xttir.dialects.scf import Scf

    return Scf


OURS: dict[str, Callable[[], Dialect]] = {
    "arith": _arith,
    "math": _math,
    "scf": _scf,
    "tt": _tt,
}
"""Our dialects by name. Those that xDSL has too (arith, ...) stand in for xDSL's."""


def make_context(allow_unregistered: bool = False) -> Context:
    """A context that knows all dialects of xDSL and ours, none of them loaded yet but builtin."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in {**get_all_dialects(), **OURS}.items():
        context.register_dialect(name, factory)
    context.load_registered_dialect("builtin")
    return context
