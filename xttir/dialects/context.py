"""The xDSL context that all of xttir parses with: every dialect by name, loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect


def _named(module: str, name: str) -> Callable[[], Dialect]:
    """Import the dialect `name` of `xttir.dialects.<module>` when it is first used."""

    def load() -> Dialect:
        return getattr(import_module(f"xttir.dialects.{module}"), name)

    return load


NEW: dict[str, Callable[[], Dialect]] = {
    "tt": _named("tt", "TT"),
    "ttg": _named("ttg", "TTG"),
    "ttng": _named("ttng", "TTNG"),
    "gluon": _named("gluon", "GLUON"),
    "nvws": _named("nvws", "NVWS"),
    "tti": _named("tti", "TTI"),
    "amdg": _named("amdg", "AMDG"),
    "nvg": _named("nvg", "NVG"),
    "nvvm": _named("nvvm", "NVVM"),
    "rocdl": _named("rocdl", "ROCDL"),
    "ptx": _named("ptx", "PTX"),
}
"""Dialects that xDSL does not have, by name."""

MENDED: dict[str, Callable[[], Dialect]] = {
    "arith": _named("arith", "Arith"),
    "gpu": _named("gpu", "GPU"),
    "llvm": _named("llvm", "LLVM"),
    "math": _named("math", "Math"),
    "scf": _named("scf", "Scf"),
}
"""Dialects of ours that stand in for xDSL's."""


OTHERS: dict[str, Callable[[], Dialect]] = {}
"""Dialects of other packages (see `xttir.extend`)."""


def known_dialects() -> dict[str, Callable[[], Dialect]]:
    """Every dialect by name: xDSL's, ours, and those of other packages."""
    return {**OTHERS, **get_all_dialects(), **MENDED, **NEW}


def register(name: str, factory: Callable[[], Dialect]) -> None:
    """Make a dialect of another package known. Raises ValueError for a name that is taken."""
    if name in known_dialects():
        raise ValueError(f"there is a dialect '{name}' already")
    OTHERS[name] = factory


def make_context(allow_unregistered: bool = False) -> Context:
    """A context that knows all dialects, none of them loaded yet but builtin."""
    from xttir import extend

    extend.load()
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in known_dialects().items():
        context.register_dialect(name, factory)
    context.load_registered_dialect("builtin")
    return context
