"""Operands of PTX instructions as attributes, and the type of a register.

An instruction's `dst` and `src` are arrays of these attributes, in source order; a register in them
is an index into the op's results (in `dst`) or into its `uses` (in `src`). A value's type carries
the register's name and declared type, so that a module prints as the PTX it was read from, with no
moves, and that a block argument can only be fed by values of its own register.
Rules: PTX ISA 9.1, chapters 4 to 6.
"""

from __future__ import annotations

import struct

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class RegType(ParametrizedAttribute, TypeAttribute):
    """A register: `!ptx.reg<b32 "%r12">`. `kind` is the declared type without the dot."""

    name = "ptx.reg"
    kind: StringAttr
    register: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[StringAttr]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            register = parser.parse_str_literal()
            return [StringAttr(kind), StringAttr(register)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.kind.data + " ")
            printer.print_string_literal(self.register.data)


@irdl_attr_definition
class RegAttr(ParametrizedAttribute):
    """Register `index`: of the results in `dst`, of the `uses` in `src`.

    `negated` is the `!` before a predicate, `part` a selector such as `b0` or `h1` of the video
    instructions.
    """

    name = "ptx.r"
    index: IntAttr
    negated: IntAttr
    part: StringAttr


@irdl_attr_definition
class ImmAttr(ParametrizedAttribute):
    """An immediate as it is spelled: `0x10`, `-1`, `0f3F800000`, `1.5`."""

    name = "ptx.imm"
    text: StringAttr

    @property
    def value(self) -> int | float:
        """The number: a float for `0f..`, `0d..` and decimal fractions, else an int."""
        return number(self.text.data)


@irdl_attr_definition
class SpecialAttr(ParametrizedAttribute):
    """A special register, without the percent sign: `tid.x`."""

    name = "ptx.special"
    register: StringAttr


@irdl_attr_definition
class SymbolAttr(ParametrizedAttribute):
    """The address of a variable, parameter or function, plus bytes. In initialisers `wrapper` may
    be `generic` (its generic address) or a `mask(0xff..)` in hexadecimal."""

    name = "ptx.symbol"
    symbol: StringAttr
    offset: IntAttr
    wrapper: StringAttr


@irdl_attr_definition
class VecAttr(ParametrizedAttribute):
    """`{a, b, ..}`."""

    name = "ptx.vec"
    parts: ArrayAttr


@irdl_attr_definition
class MemAttr(ParametrizedAttribute):
    """`[base + offset]`; in `more` what follows after a comma (coordinates, a sampler)."""

    name = "ptx.mem"
    base: RegAttr | SymbolAttr | ImmAttr
    offset: IntAttr
    more: ArrayAttr


@irdl_attr_definition
class SinkAttr(ParametrizedAttribute):
    """`_`: the result is not wanted."""

    name = "ptx.sink"


OPERANDS = [RegAttr, ImmAttr, SpecialAttr, SymbolAttr, VecAttr, MemAttr, SinkAttr]
OperandAttr = RegAttr | ImmAttr | SpecialAttr | SymbolAttr | VecAttr | MemAttr | SinkAttr

SINK = SinkAttr()


def number(text: str) -> int | float:
    """The value of a PTX literal, sign included. Raises ValueError for anything else."""
    negative = text.startswith("-")
    body = text[1:] if negative else text
    lower = body.lower()
    value: int | float
    if lower.startswith("0f"):
        value = struct.unpack(">f", bytes.fromhex(lower[2:]))[0]
    elif lower.startswith("0d"):
        value = struct.unpack(">d", bytes.fromhex(lower[2:]))[0]
    elif lower.startswith("0x"):
        value = int(lower[2:].rstrip("u"), 16)
    elif lower.startswith("0b"):
        value = int(lower[2:].rstrip("u"), 2)
    elif "." in lower or "e" in lower:
        value = float(lower)
    else:
        lower = lower.rstrip("u")
        value = int(lower, 8) if lower[0] == "0" and len(lower) > 1 else int(lower)
    return -value if negative else value
