"""Shared PTX files, and a module around a few statements."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xttir.dialects.ptx.function import FuncOp
from xttir.frontends.ptx import parse_ptx

SHARED = Path(os.environ.get("XTTIR_SHARED", Path(__file__).parents[3] / ".." / "shared"))

HEADER = """.version 8.7
.target sm_100a
.address_size 64
"""
REGISTERS = """.reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<300>; .reg .b64 d<20>;
.reg .f32 f<300>; .reg .f64 g<8>; .reg .b128 q<4>; .shared .align 1024 .b8 sm[4096];
"""


def kernel(body: str, params: str = ".param .u64 out", directives: str = "") -> str:
    """A module with one kernel `k`; line 7 is the first of `body`."""
    return f"{HEADER}.visible .entry k({params}) {directives} {{\n{REGISTERS}{body}\n}}\n"


def function(module: ModuleOp, name: str = "k") -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)


@pytest.fixture(scope="session")
def parse_body() -> Callable[[str], FuncOp]:
    """The kernel that has these statements."""
    return lambda body: function(parse_ptx(kernel(body), "k.ptx"))


def shared_files() -> list[Path]:
    """Every PTX file of the corpus and the cases; empty where they are absent."""
    return sorted([*SHARED.glob("corpus/ptx/*/*.ptx"), *SHARED.glob("cases/*/*/*.ptx")])
