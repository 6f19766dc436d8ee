"""What xttir calls once, before it reads the first module."""

from __future__ import annotations

from xttir import extend


def register() -> None:
    """Give the ops their meaning. Nothing heavy is imported until a module is run."""
    extend.register_functions(_add)
    extend.register_instructions(_device)


def _add(table) -> None:
    from tilekit.functions import TilekitFunctions

    table.register(TilekitFunctions())


def _device() -> None:
    import tilekit.device  # noqa: F401
