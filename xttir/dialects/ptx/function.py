"""Functions, parameters, variables and other directives: PTX ISA 9.1, chapters 5, 7 and 11."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface

from xttir.dialects.ptx.operands import RegType

WIDTHS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16}
WIDTHS |= {"bf16": 16, "f16x2": 32, "bf16x2": 32, "b32": 32, "u32": 32, "s32": 32, "f32": 32}
WIDTHS |= {"b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128}
WIDTHS |= {"texref": 64, "samplerref": 64, "surfref": 64}
"""Bits of a value of each type."""


@irdl_attr_definition
class DeclAttr(ParametrizedAttribute):
    """How a variable or parameter is declared: `#ptx.decl<param b8 "x" [128] align 64>`."""

    name = "ptx.decl"
    symbol: StringAttr
    space: StringAttr
    """param, reg, shared, global, local, const."""
    kind: StringAttr
    """The element type without the dot."""
    vector: IntAttr
    """Elements of a `.v2` or `.v4`, else 1."""
    align: IntAttr
    """Bytes; 0: not given."""
    dims: ArrayAttr[IntAttr]
    """IntAttr per dimension, 0 where left open; empty for a scalar."""
    pointer: StringAttr
    """What follows `.ptr`: `global align 16`, or `.` for nothing; empty: no `.ptr`."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            space = StringAttr(parser.parse_identifier())
            vector = parser.parse_integer() if parser.parse_optional_keyword("vector") else 1
            kind = StringAttr(parser.parse_identifier())
            name = StringAttr(parser.parse_str_literal())
            dims = parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: IntAttr(parser.parse_integer())
            )
            align = parser.parse_integer() if parser.parse_optional_keyword("align") else 0
            pointer = parser.parse_str_literal() if parser.parse_optional_keyword("ptr") else ""
        sizes = IntAttr(vector), IntAttr(align)
        return [name, space, kind, *sizes, ArrayAttr(dims or []), StringAttr(pointer)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.space.data} ")
            if self.vector.data > 1:
                printer.print_string(f"vector {self.vector.data} ")
            printer.print_string(f"{self.kind.data} ")
            printer.print_string_literal(self.symbol.data)
            if self.dims.data:
                printer.print_string(f" [{', '.join(str(length) for length in self.lengths)}]")
            if self.align.data:
                printer.print_string(f" align {self.align.data}")
            if self.pointer.data:
                printer.print_string(" ptr ")
                printer.print_string_literal(self.pointer.data)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(dim.data for dim in self.dims)

    @property
    def is_open(self) -> bool:
        """Its size is given elsewhere: `x[]`."""
        return 0 in self.lengths

    @property
    def bytes(self) -> int:
        """Its size; 0 when left open."""
        count = self.vector.data
        for length in self.lengths:
            count *= length
        return count * max(WIDTHS[self.kind.data] // 8, 1)

    @property
    def alignment(self) -> int:
        """Bytes: as declared, else that of the (vector) element."""
        natural = max(WIDTHS[self.kind.data] // 8, 1) * self.vector.data
        return self.align.data or natural


@irdl_op_definition
class FuncOp(IRDLOperation):
    """`.entry` or `.func`. Without a body it is a declaration, and the region is empty."""

    name = "ptx.func"
    sym_name = prop_def(StringAttr)
    entry = opt_prop_def(UnitAttr)
    linking = prop_def(StringAttr)
    """visible, weak, extern, common, or empty."""
    results_attr = prop_def(ArrayAttr[DeclAttr], prop_name="return_params")
    params = prop_def(ArrayAttr[DeclAttr])
    directives = prop_def(DictionaryAttr)
    """Performance directives: `{maxntid = [128, 1, 1], noreturn = []}` as arrays of IntAttr (or of
    StringAttr)."""
    body = region_def()
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove())

    @property
    def is_entry(self) -> bool:
        return self.entry is not None

    def directive(self, name: str) -> tuple[int | str, ...] | None:
        """The arguments of `.name` (dots left out), or None where it is not given."""
        found = self.directives.data.get(name)
        if not isinstance(found, ArrayAttr):
            return None
        return tuple(item.data for item in found)


@irdl_op_definition
class VariableOp(IRDLOperation):
    """A variable of the module, or at the start of a function's body one of its own.

    `init` nests as the braces do, of `#ptx.imm` and `#ptx.symbol`.
    """

    name = "ptx.variable"
    sym_name = prop_def(StringAttr)
    decl = prop_def(DeclAttr)
    linking = prop_def(StringAttr)
    init = opt_prop_def(Attribute)
    managed = opt_prop_def(StringAttr)
    """Attributes in the text of `.attribute(..)`."""
    traits = traits_def(SymbolOpInterface())


@irdl_op_definition
class UndefOp(IRDLOperation):
    """A register that nothing on some path has defined; not in the text."""

    name = "ptx.undef"
    res = result_def(RegType)


@irdl_op_definition
class DirectiveOp(IRDLOperation):
    """What is kept as text: `.pragma "nounroll";`, `.alias`, a call prototype, a label that nothing
    branches to (ptxas ends a block there)."""

    name = "ptx.directive"
    text = prop_def(StringAttr)


STRUCTURE = [FuncOp, VariableOp, UndefOp, DirectiveOp]
