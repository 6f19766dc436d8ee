"""PTX for xDSL's drivers: `xdsl-opt kernel.ptx` reads it, `-t ptx` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from xttir.diagnostics import InputError, Location
from xttir.frontends.ptx.parser import parse_ptx
from xttir.frontends.ptx.printer import print_ptx


@dataclass(frozen=True)
class PtxFrontend(Frontend):
    """Files with the suffix `.ptx`."""

    name = "ptx"

    no_implicit_module: bool = False

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        return parse_ptx(decode(input.read(), input_name), input_name)


@dataclass(frozen=True)
class PtxTarget(Target):
    """PTX text, which ptxas assembles to the machine code of the text that was read."""

    name = "ptx"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_ptx(module))


def decode(data: bytes, name: str) -> str:
    """The text of a PTX file. Raises InputError where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError("not a text file (invalid UTF-8)", Location(name, line, column)) from error
