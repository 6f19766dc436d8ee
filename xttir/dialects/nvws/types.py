"""Types, enums and attributes of `nvws` (NVWSTypes.td, NVWSAttrDefs.td)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xttir.dialects.ods import Check, OdsEnum


class TokenLoadType(OdsEnum):
    """What fills the buffers that a token guards."""

    NONE = 0, "none"
    ASYNC_LOAD_OP = 1, "asyncLoadOp"
    TMA_LOAD_OP = 2, "tmaLoadOp"
    LOCAL_STORE_OP = 3, "localStoreOp"
    TMEM_LOAD_OP = 4, "TmemLoadOp"


class AsyncOp(OdsEnum):
    """The asynchronous operations that read or fill an aref's buffers."""

    NONE = 0, "none"
    TMA_LOAD = 1, "tma_load"
    TC5_MMA = 2, "tc5mma"
    TMEM_COPY = 3, "tmem_copy"
    CP_ASYNC = 4, "cp_async"
    WGMMA = 5, "wgmma"
    CLC = 6, "clc"


@irdl_attr_definition
class AsyncOpAttr(ParametrizedAttribute):
    """`#nvws.async_op<tma_load>`: a member of `AsyncOp`."""

    name = "nvws.async_op"

    kind: StringAttr
    """The keyword of the member."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_keyword_in([case.keyword for case in AsyncOp]))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.kind.data}>")


@irdl_attr_definition
class TypeArrayAttr(ParametrizedAttribute):
    """`#nvws.type_array<[i32, f32]>`: a list of types."""

    name = "nvws.type_array"

    types: ArrayAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [parse_types(parser)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_types(printer, self.types)


@irdl_attr_definition
class IntArrayAttr(ParametrizedAttribute):
    """`#nvws.int_array<[1, 2]>`: a list of integers."""

    name = "nvws.int_array"

    values: ArrayAttr
    """Strings of digits: the attribute holds plain integers, not attributes."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def number() -> StringAttr:
            return StringAttr(str(parser.parse_integer(allow_boolean=False)))

        with parser.in_angle_brackets():
            return [ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, number))]

    def print_parameters(self, printer: Printer) -> None:
        digits = ", ".join(value.data for value in self.values if isinstance(value, StringAttr))
        printer.print_string(f"<[{digits}]>")


@irdl_attr_definition
class ArefType(ParametrizedAttribute, TypeAttribute):
    """`!nvws.aref<[!ttg.memdesc<...>]>`: buffers handed from one partition to another."""

    name = "nvws.aref"

    base_type: ArrayAttr
    """The types of the buffers, with the number of stages in front of each shape."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [parse_types(parser)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_types(printer, self.base_type)


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """Guards a buffer; tokens come in tensors, one for each stage."""

    name = "nvws.token"


def parse_types(parser: AttrParser) -> ArrayAttr:
    """Types in square brackets."""
    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_type))


def print_types(printer: Printer, types: ArrayAttr) -> None:
    """The inverse of `parse_types`."""
    with printer.in_square_brackets():
        printer.print_list(types.data, printer.print_attribute)


AREF = Check("an aref", lambda a: isinstance(a, ArefType))
TOKENS = Check(
    "a tensor of tokens", lambda a: isinstance(a, TensorType) and a.element_type == TokenType()
)
ASYNC_OPS = Check(
    "an array of async_op attributes",
    lambda a: isinstance(a, ArrayAttr) and all(isinstance(x, AsyncOpAttr) for x in a),
)
