"""The reader and writer of Triton's IR for xDSL's drivers: `xdsl-opt file.ttir`, `-t ttir`.

The reader parses with our own context, in which our `arith`, `gpu`, `math`, `scf` and `llvm` stand
in for xDSL's (a universe may not define a dialect that another one has).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.syntax_printer import SyntaxPrinter
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from xttir.dialects.context import make_context
from xttir.dialects.syntax.parser import TTParser
from xttir.dialects.syntax.printer import TTPrinter


class ColoredPrinter(TTPrinter, SyntaxPrinter):
    """TTPrinter with xDSL's syntax highlighting."""


@dataclass(frozen=True)
class TritonFrontend(Frontend):
    """Files with the suffix `.ttir` or `.ttgir`."""

    name = "ttir"

    no_implicit_module: bool = False

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        own = make_context(ctx.allow_unregistered)
        parser = TTParser(own, input.read(), input_name)
        return parser.parse_module(not self.no_implicit_module)


@dataclass(frozen=True)
class TritonTarget(Target):
    """MLIR text in which every constant has its exact bits, as Triton's parser takes it."""

    name = "ttir"

    print_generic_format: bool = False
    print_properties_as_attributes: bool = False
    print_debuginfo: bool = False
    syntax_highlight: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        cls = ColoredPrinter if self.syntax_highlight else TTPrinter
        printer = cls(
            stream=output,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            print_debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        output.write("\n")


@dataclass(frozen=True)
class MlirTarget(TritonTarget):
    """The same under the name of xDSL's default target."""

    name = "mlir"
