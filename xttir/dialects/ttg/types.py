"""Types of `ttg`, and what its operands may be."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntAttr,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xttir.dialects.ods import Check
from xttir.dialects.tt.types import int_of, is_ptr, is_scalar, like, tensor_of


class AddrSpace(enum.IntFlag):
    """The memories that a barrier orders."""

    NONE = 0
    LOCAL = 1
    GLOBAL_READ = 2
    GLOBAL_WRITE = 4
    TENSOR_READ = 8
    TENSOR_WRITE = 16
    ALL = 31


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """Ties an asynchronous op to those that wait for it."""

    name = "ttg.async.token"


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.memdesc<2x64x32xf16, #shared, #smem, mutable>`: a view of shared or tensor memory."""

    name = "ttg.memdesc"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    encoding: Attribute
    memory_space: Attribute
    mutable_memory: IntAttr
    """1 for memory that may be stored to."""
    alloc_shape: ArrayAttr[IntAttr]
    """Shape of the allocation that this is a view of."""

    def get_shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.shape.data)

    def get_alloc_shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.alloc_shape.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_ranked_shape()
            parser.parse_punctuation(",")
            encoding = parser.parse_attribute()
            parser.parse_punctuation(",")
            space = parser.parse_attribute()
            mutable, alloc = False, shape
            if parser.parse_optional_punctuation(","):
                mutable = parser.parse_optional_keyword("mutable") is not None
                if not mutable or parser.parse_optional_punctuation(","):
                    alloc = parser.parse_dimension_list()
        return [
            ArrayAttr([IntAttr(d) for d in shape]),
            element_type,
            encoding,
            space,
            IntAttr(int(mutable)),
            ArrayAttr([IntAttr(d) for d in alloc]),
        ]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{d}x" for d in self.get_shape()))
            printer.print_attribute(self.element_type)
            for attr in (self.encoding, self.memory_space):
                printer.print_string(", ")
                printer.print_attribute(attr)
            if self.mutable_memory.data:
                printer.print_string(", mutable")
            if self.alloc_shape != self.shape:
                printer.print_string(", " + "x".join(map(str, self.get_alloc_shape())))

    def verify(self) -> None:
        # The rules know layouts, which few of those who only name the type need.
        from xttir.dialects.ttg.memdesc_rules import check_memdesc

        check_memdesc(
            self.get_shape(),
            self.element_type,
            self.encoding,
            self.memory_space,
            self.get_alloc_shape(),
        )


MEMDESC = Check("a memory descriptor", lambda a: isinstance(a, MemDescType))
TENSOR_OR_MEMDESC = Check(
    "a tensor or memory descriptor", lambda a: isinstance(a, TensorType | MemDescType)
)
TYPE_OR_MEMDESC = Check(
    "a Triton type or memory descriptor",
    lambda a: isinstance(a, MemDescType) or like(is_scalar)(a),
)
PTR_TENSOR = Check("a tensor of pointers", tensor_of(is_ptr))
I1_TENSOR = Check("a tensor of i1", tensor_of(int_of(1)))
I8_TENSOR = Check("a tensor of i8", tensor_of(int_of(8)))
I32_TENSOR = Check("a tensor of i32", tensor_of(int_of(32)))
INDUCTION = Check("an integer or index", lambda a: isinstance(a, IndexType) or int_of(32, 64)(a))
I32_TYPED = IntegerAttr.constr(i32)
I32_ARRAY = DenseArrayBase.constr(i32)
VIEW = "$src attr-dict `:` type($src) `->` type($result)"
