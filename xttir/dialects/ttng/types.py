"""Types, enums and attributes of `ttng`, and what its operands may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr, Float8E8M0FNUType, IntegerType, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts.structs import StructAttr
from xttir.dialects.ods import Check, OdsEnum
from xttir.dialects.tt.types import TensorDescType, int_of, is_float, tensor_of
from xttir.dialects.ttg import AsyncTokenType


class TMEMWaitKind(OdsEnum):
    LOAD = 0, "load"
    STORE = 1, "store"


class TMEMLoadReduceModifier(OdsEnum):
    MIN = 1, "min"
    MAX = 2, "max"


class PackedArithOpKind(OdsEnum):
    ADD = 0, "add"
    SUB = 1, "sub"
    MUL = 2, "mul"
    FMA = 3, "fma"
    MIN = 4, "min"
    MAX = 5, "max"


@irdl_attr_definition
class TensorDescIm2ColType(ParametrizedAttribute, TypeAttribute):
    """`!ttng.tensordesc_im2col<64x128xf16, #shared>`: a descriptor for im2col access."""

    name = "ttng.tensordesc_im2col"

    block: TensorDescType
    """The same description as a tiled descriptor."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return [TensorDescType.new(TensorDescType.parse_parameters(parser))]

    def print_parameters(self, printer: Printer) -> None:
        self.block.print_parameters(printer)

    def verify(self) -> None:
        rank = len(self.block.get_shape())
        if rank != 2:
            raise VerifyException(f"im2col descriptors need a shape of rank 2, got rank {rank}")


@irdl_attr_definition
class TMEMLoadReduceModifierAttr(ParametrizedAttribute):
    """`#ttng.redOp<min>`: the reduction that comes with a tensor-memory load."""

    name = "ttng.redOp"

    kind: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [
                StringAttr(
                    parser.parse_keyword_in([case.keyword for case in TMEMLoadReduceModifier])
                )
            ]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.kind.data}>")


@irdl_attr_definition
class CachePolicyAttr(StructAttr):
    """cache_modifier, l1, l2_primary, l2_secondary, l2_fraction, l2_prefetch_size; all optional."""

    name = "ttng.cache_policy"
    BRACES: ClassVar[bool] = False
    parameters_: DictionaryAttr


ANY_TENSOR_DESC = Check(
    "a tensor descriptor", lambda a: isinstance(a, TensorDescType | TensorDescIm2ColType)
)
PACKED_OPERAND = Check(
    "a tensor of i8 or floats",
    tensor_of(lambda a: is_float(a) or int_of(8)(a) or isinstance(a, Float8E8M0FNUType)),
)
PACKED_RESULT = Check("a tensor of floats", tensor_of(is_float))
TOKEN = AsyncTokenType()
I128 = IntegerType(128)
