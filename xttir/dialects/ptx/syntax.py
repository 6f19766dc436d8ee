"""How an instruction of the `ptx` dialect reads in MLIR text.

    %r4 = ptx.ld "shared.b32" ([%r1 + 8]) if not %p1 else %r4_1
        : b32 "%r1", pred "%p1", b32 "%r4" -> b32 "%r4"

The modifiers, the operands in the order of the PTX text with values in the place of registers, the
guard, the old values of what is defined, the successors and what they are passed, and the types of
the operands and results. `into` comes before the operands where a result is not one register.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from xttir.dialects.ptx.operands import (
    SINK,
    ImmAttr,
    MemAttr,
    RegAttr,
    RegType,
    SpecialAttr,
    SymbolAttr,
    VecAttr,
)

if TYPE_CHECKING:
    from xttir.dialects.ptx.instruction import Instruction

_PLAIN = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_NONE = StringAttr("")


def print_instruction(op: Instruction, printer: Printer) -> None:
    """Everything after the name."""
    if op.modifiers:
        printer.print_string(" ")
        printer.print_string_literal(".".join(op.modifiers))
    if op.spelled is not None:
        printer.print_string(" spelled ")
        printer.print_string_literal(op.spelled.data)
    if not _is_plain(op.dst.data):
        printer.print_string(" into (")
        _print_operands(printer, op.dst.data, None)
        printer.print_string(")")
    if op.src.data:
        printer.print_string(" (")
        _print_operands(printer, op.src.data, op.uses)
        printer.print_string(")")
    if op.guard is not None:
        printer.print_string(" if not " if op.negated is not None else " if ")
        printer.print_ssa_value(op.guard)
    if op.old:
        printer.print_string(" else ")
        printer.print_list(op.old, printer.print_ssa_value)
    if op.successors:
        printer.print_string(" to ")
        printer.print_list(op.successors, printer.print_block_name)
    if op.targets:
        printer.print_string(" with ")
        printer.print_list(op.targets, printer.print_ssa_value)
    if op.attributes:
        printer.print_op_attributes(op.attributes)
    if op.operands or op.results:
        printer.print_string(" : ")
        operands = [*op.uses, *op.old, *([op.guard] if op.guard else []), *op.targets]
        printer.print_list(operands, lambda value: _print_type(printer, value.type))
    if op.results:
        printer.print_string("-> " if not op.operands else " -> ")
        printer.print_list(op.results, lambda value: _print_type(printer, value.type))


def _print_type(printer: Printer, type_: Attribute) -> None:
    assert isinstance(type_, RegType)
    printer.print_string(f"{type_.kind.data} ")
    printer.print_string_literal(type_.register.data)


def _is_plain(dst: Sequence[Attribute]) -> bool:
    """One register per result, in order."""
    return all(isinstance(part, RegAttr) and not part.part.data for part in dst)


def _print_operands(
    printer: Printer, operands: Sequence[Attribute], values: Sequence[SSAValue] | None
) -> None:
    printer.print_list(operands, lambda operand: _print_operand(printer, operand, values))


def _print_operand(printer: Printer, operand: Attribute, values: Sequence[SSAValue] | None) -> None:
    match operand:
        case RegAttr():
            if operand.negated.data:
                printer.print_string("not ")
            if values is None:
                printer.print_string("r")
            else:
                printer.print_ssa_value(values[operand.index.data])
            if operand.part.data:
                printer.print_string(" part ")
                printer.print_string_literal(operand.part.data)
        case ImmAttr():
            if _PLAIN.fullmatch(operand.text.data):
                printer.print_string(operand.text.data)
            else:
                printer.print_string("imm ")
                printer.print_string_literal(operand.text.data)
        case SpecialAttr():
            printer.print_string("special ")
            printer.print_string_literal(operand.register.data)
        case SymbolAttr():
            printer.print_symbol_name(operand.symbol.data)
            if operand.offset.data:
                printer.print_string(f" plus {operand.offset.data}")
        case VecAttr():
            printer.print_string("{")
            _print_operands(printer, operand.parts.data, values)
            printer.print_string("}")
        case MemAttr():
            printer.print_string("[")
            _print_operand(printer, operand.base, values)
            if operand.offset.data:
                printer.print_string(f" + {operand.offset.data}")
            for part in operand.more:
                printer.print_string(", ")
                _print_operand(printer, part, values)
            printer.print_string("]")
        case _:
            printer.print_string("_")


class _Reader:
    """Reads what `print_instruction` writes."""

    def __init__(self, parser: Parser):
        self.parser = parser
        self.uses: list[UnresolvedOperand] = []
        self.defined = 0

    def operands(self, defining: bool = False) -> ArrayAttr:
        parser = self.parser
        first = self.operand(defining)
        found = [] if first is None else [first]
        while found and parser.parse_optional_punctuation(","):
            found.append(self._some_operand(defining))
        return ArrayAttr(found)

    def _some_operand(self, defining: bool) -> Attribute:
        found = self.operand(defining)
        if found is None:
            self.parser.raise_error("operand expected")
        return found

    def operand(self, defining: bool) -> Attribute | None:
        parser = self.parser
        if parser.parse_optional_keyword("_"):
            return SINK
        if defining and parser.parse_optional_keyword("r"):
            self.defined += 1
            return self._register(self.defined - 1, False)
        if parser.parse_optional_keyword("imm"):
            return ImmAttr(StringAttr(parser.parse_str_literal()))
        if parser.parse_optional_keyword("special"):
            return SpecialAttr(StringAttr(parser.parse_str_literal()))
        if parser.parse_optional_punctuation("{"):
            parts = self.operands(defining)
            parser.parse_punctuation("}")
            return VecAttr(parts)
        if parser.parse_optional_punctuation("["):
            return self._memory()
        symbol = parser.parse_optional_symbol_name()
        if symbol is not None:
            offset = self._integer() if parser.parse_optional_keyword("plus") else 0
            return SymbolAttr(StringAttr(symbol.data), IntAttr(offset), _NONE)
        value = parser.parse_optional_integer(allow_boolean=False)
        if value is not None:
            return ImmAttr(StringAttr(str(value)))
        return self._value(defining)

    def _value(self, defining: bool) -> Attribute | None:
        parser = self.parser
        negated = parser.parse_optional_keyword("not") is not None
        value = None if defining else parser.parse_optional_unresolved_operand()
        if value is None:
            if negated:
                parser.raise_error("operand expected")
            return None
        self.uses.append(value)
        return self._register(len(self.uses) - 1, negated)

    def _register(self, index: int, negated: bool) -> RegAttr:
        parser = self.parser
        part = parser.parse_str_literal() if parser.parse_optional_keyword("part") else ""
        return RegAttr(IntAttr(index), IntAttr(int(negated)), StringAttr(part))

    def _memory(self) -> MemAttr:
        parser = self.parser
        base = self._some_operand(False)
        if not isinstance(base, RegAttr | SymbolAttr | ImmAttr):
            parser.raise_error("a value, symbol or number expected")
        offset = self._integer() if parser.parse_optional_punctuation("+") else 0
        more: list[Attribute] = []
        while parser.parse_optional_punctuation(","):
            more.append(self._some_operand(False))
        parser.parse_punctuation("]")
        return MemAttr(base, IntAttr(offset), ArrayAttr(more))

    def _integer(self) -> int:
        return self.parser.parse_integer(allow_boolean=False)

    def values(self) -> list[UnresolvedOperand]:
        parser = self.parser
        return self.parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )


def parse_instruction(cls: Any, parser: Parser) -> Any:
    """Everything after the name."""
    reader = _Reader(parser)
    words = parser.parse_optional_str_literal()
    modifiers = ArrayAttr([StringAttr(word) for word in words.split(".")] if words else [])
    properties: dict[str, Attribute] = {"modifiers": modifiers}
    if parser.parse_optional_keyword("spelled"):
        properties["spelled"] = StringAttr(parser.parse_str_literal())
    into: ArrayAttr | None = None
    if parser.parse_optional_keyword("into"):
        parser.parse_punctuation("(")
        into = reader.operands(True)
        parser.parse_punctuation(")")
    properties["src"] = ArrayAttr([])
    if parser.parse_optional_punctuation("("):
        properties["src"] = reader.operands()
        parser.parse_punctuation(")")
    guard: list[UnresolvedOperand] = []
    if parser.parse_optional_keyword("if"):
        if parser.parse_optional_keyword("not"):
            properties["negated"] = UnitAttr()
        guard = [parser.parse_unresolved_operand()]
    old = reader.values() if parser.parse_optional_keyword("else") else []
    successors: list[Block] = []
    if parser.parse_optional_keyword("to"):
        successors = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_successor
        )
    targets = reader.values() if parser.parse_optional_keyword("with") else []
    attributes = parser.parse_optional_attr_dict()
    operands = [*reader.uses, *old, *guard, *targets]
    types, results = _types(parser, bool(operands))
    sizes = [len(reader.uses), len(old), len(guard), len(targets)]
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    properties["dst"] = into if into is not None else _plain(len(results))
    return cls.create(
        operands=parser.resolve_operands(operands, types, parser.pos),
        result_types=results,
        properties=properties,
        attributes=attributes,
        successors=successors,
    )


def _plain(count: int) -> ArrayAttr:
    return ArrayAttr([RegAttr(IntAttr(i), IntAttr(0), _NONE) for i in range(count)])


def _types(parser: Parser, operands: bool) -> tuple[list[RegType], list[RegType]]:
    """(types of the operands, types of the results)."""
    if not parser.parse_optional_punctuation(":"):
        return [], []
    item: Callable[[], RegType] = lambda: _type(parser)  # noqa: E731
    none = parser.Delimiter.NONE
    types = parser.parse_comma_separated_list(none, item) if operands else []
    if not parser.parse_optional_punctuation("->"):
        return types, []
    return types, parser.parse_comma_separated_list(none, item)


def _type(parser: Parser) -> RegType:
    kind = parser.parse_identifier()
    return RegType(StringAttr(kind), StringAttr(parser.parse_str_literal()))
