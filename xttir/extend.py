"""The public way in for dialects of other packages: ops are parsed, run and checked as our own are.

A package names functions in the entry point group `xttir.extensions`; each is called once, without
arguments, before the first module is read, and calls the functions below. Dialects that a package
names in `xdsl.universe` (for `xdsl-opt`) are known here as well, with nothing to call. Registering
by hand, in the same process, does the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import Dialect

if TYPE_CHECKING:
    from xttir.interp.plan import Implementations

EXTENSIONS = "xttir.extensions"
UNIVERSES = "xdsl.universe"

_loaded = False
_instructions: list[Callable[[], None]] = []


def register_dialect(name: str, factory: Callable[[], Dialect]) -> None:
    """Make a dialect known to everything that parses: `factory` is called when it is first used.
    Raises ValueError for a name that xttir or xDSL has."""
    from xttir.dialects import context

    context.register(name, factory)


def register_functions(add: Callable[[Implementations], None]) -> None:
    """Give ops their meaning: `add(table)` is called with the table of implementations, and calls
    `table.register(XFunctions())` (see `xttir.interp.machine`)."""
    from xttir.interp.registry import register_dialect

    register_dialect(add)


def register_instructions(add: Callable[[], None]) -> None:
    """Make PTX instructions known: `add()` is called before the first PTX is read, and defines ops
    with `xttir.dialects.ptx.instruction.instruction` and what they do, events included, with
    `xttir.interp.ptx.instruction.meaning`."""
    _instructions.append(add)


def load_instructions() -> None:
    """Define the instructions of other packages that are not yet."""
    load()
    while _instructions:
        _instructions.pop(0)()


def load() -> None:
    """Load what installed packages register. Again is nothing."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    groups = _groups_of_others()
    if EXTENSIONS in groups:
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=EXTENSIONS), key=lambda p: p.name):
            point.load()()
    if UNIVERSES in groups:
        _dialects_of_universes()


def _dialects_of_universes() -> None:
    from xdsl.universe import Universe

    from xttir.dialects import context

    known = context.known_dialects()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        if name not in known:
            context.register(name, factory)


def _groups_of_others() -> set[str]:
    """Which of the two groups packages other than xdsl and xttir name entry points in.

    Reads the files themselves: importing `importlib.metadata` takes longer than a small run.
    """
    found: set[str] = set()
    for folder in sys.path:
        try:
            entries = list(os.scandir(folder or "."))
        except OSError:
            continue
        for entry in entries:
            package = entry.name.partition("-")[0].lower()
            if not entry.name.endswith((".dist-info", ".egg-info")) or package in ("xdsl", "xttir"):
                continue
            try:
                with open(os.path.join(entry.path, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            found |= {group for group in (EXTENSIONS, UNIVERSES) if f"[{group}]" in text}
    return found
