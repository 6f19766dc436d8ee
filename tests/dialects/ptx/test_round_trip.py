"""MLIR text of the `ptx` dialect, pretty and generic, is read back as the same module."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.frontends.ptx.conftest import SHARED, shared_files
from xttir.dialects.context import make_context
from xttir.dialects.syntax.printer import TTPrinter
from xttir.frontends.mlir import read_module
from xttir.frontends.ptx import parse_ptx, print_ptx

FAST = ("cases/ptx/ws_sm90/kernel.ptx", "cases/ptx/p_in_tmem_sm100/kernel.ptx")


def text_of(module: ModuleOp, generic: bool) -> str:
    stream = StringIO()
    TTPrinter(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def _sorted(module: ModuleOp) -> ModuleOp:
    """With properties in the order in which a parser meets them: MLIR sorts them when printing."""
    for op in module.walk():
        op.properties = dict(sorted(op.properties.items()))
    return module


def check(path: Path) -> None:
    module = parse_ptx(path.read_text(), path.name)
    for generic in (False, True):
        text = text_of(module, generic)
        again = read_module(make_context(), text, path.name)
        again.verify()
        assert text_of(again, True) == text_of(_sorted(module), True)
        assert print_ptx(again) == print_ptx(module)


@pytest.mark.parametrize("name", FAST)
def test_round_trip(name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    check(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", shared_files(), ids=lambda path: "/".join(path.parts[-3:]))
def test_round_trip_everywhere(path: Path) -> None:
    check(path)
