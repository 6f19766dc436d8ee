"""The reader and writer of PTX for xDSL's drivers: `xdsl-opt file.ptx`, `-t ptx`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from xttir.frontends.ptx import parse_ptx, print_ptx


@dataclass(frozen=True)
class PtxFrontend(Frontend):
    """Files with the suffix `.ptx`."""

    name = "ptx"

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        return parse_ptx(input.read().decode(), input_name)


@dataclass(frozen=True)
class PtxTarget(Target):
    """PTX text."""

    name = "ptx"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_ptx(module))
