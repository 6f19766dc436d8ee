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


def make_context(allow_unregistered: bool = False) -> Context:
    """A context that knows all dialects of xDSL and ours, none of them loaded yet but builtin."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in {**get_all_dialects(), **MENDED, **NEW}.items():
        context.register_dialect(name, factory)
    context.load_registered_dialect("builtin")
    return context
