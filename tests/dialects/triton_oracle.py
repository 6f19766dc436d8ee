"""Triton's own parser and printer, as the judge of ours."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

SINCE_3_9 = re.compile(
    r"cachePolicy|tt\.(cache_policy|atomic_load|atomic_store|atomic_poll|approx_divf|grid_dependency)"
)
"""What Triton 3.8 does not read: see `xttir/dialects/tt/versions.py`."""


class Oracle:
    """Parses MLIR text with the installed Triton."""

    def __init__(self) -> None:
        libtriton = pytest.importorskip("triton._C.libtriton", reason="Triton is not installed")
        self._ir = libtriton.ir
        self._nvidia = getattr(libtriton, "nvidia", None)
        self._release = _release()

    @property
    def is_3_9(self) -> bool:
        """Whether the installed release is 3.9 or newer."""
        return self._release >= (3, 9)

    def knows(self, text: str) -> bool:
        """Whether the installed release has all that `text` uses; if not it can be no judge."""
        return self._release >= (3, 9) or not SINCE_3_9.search(text)

    def need(self, text: str) -> None:
        """Skip the test where the installed release cannot judge `text`."""
        if not self.knows(text):
            release = ".".join(map(str, self._release))
            pytest.skip(f"Triton {release} does not read what 3.9 added")

    def _context(self) -> Any:
        context = self._ir.context()
        self._ir.load_dialects(context)
        if self._nvidia is not None:
            self._nvidia.load_dialects(context)
        return context

    def parse(self, text: str) -> str | None:
        """The module as Triton prints it without locations, or None if it rejects it."""
        return self._with(text, lambda module: module.str_nodebug())

    def parse_with_locations(self, text: str) -> str | None:
        """The same with locations."""
        return self._with(text, str)

    def _with(self, text: str, show: Callable[[Any], str]) -> str | None:
        with tempfile.NamedTemporaryFile("w", suffix=".mlir", delete=False) as file:
            file.write(text)
        # Triton writes its complaints to the C library's stderr.
        saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        try:
            context = self._context()
            module = self._ir.parse_mlir_module(file.name, context)
            return show(module).replace(file.name, "<file>")
        except Exception:
            return None
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(sink)
            os.unlink(file.name)


def _release() -> tuple[int, int]:
    import triton

    major, minor, *_ = triton.__version__.split(".")
    return int(major), int(minor)


def normal(text: str | None) -> str | None:
    """`text` with the SSA values of every function numbered in the order of their appearance."""
    if text is None:
        return None
    names: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        if "tt.func" in line:
            names.clear()
        numbered = lambda m: names.setdefault(m.group(), f"%v{len(names)}")  # noqa: E731
        lines.append(re.sub(r"%[\w$.-]+", numbered, line))
    return "\n".join(lines)


def normal_locations(text: str | None) -> str | None:
    """As `normal`, and with every location alias replaced by what it stands for."""
    if text is None:
        return None
    aliases = dict(re.findall(r"^(#loc\d*) = (loc\(.*\))$", text, re.MULTILINE))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#loc"))

    def expand(match: re.Match[str]) -> str:
        inner = aliases[match.group()].removeprefix("loc(").removesuffix(")")
        return re.sub(r"#loc\d*\b", expand, inner)

    return normal(re.sub(r"#loc\d*\b", expand, body))
