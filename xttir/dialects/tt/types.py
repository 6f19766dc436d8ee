"""Triton's types, its one attribute, and the constraints its ops put on types (TritonTypes.td).

The constraints carry the names of the `.td` (`TT_PtrLike` is PTR_LIKE). Rules such as
`pointee_type_of` are those that `TypesMatchWith` refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ods import Check, element_type_of, with_element_type
from xttir.dialects.tt.enums import CacheModifier, EvictionPolicy, PtrAddrSpace


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<f32>`, or `!tt.ptr<f32, "constant">` in another address space than global memory."""

    name = "tt.ptr"

    pointee_type: Attribute
    address_space: IntAttr
    """A `PtrAddrSpace`."""

    def __init__(self, pointee_type: Attribute, address_space: int = PtrAddrSpace.GLOBAL):
        super().__init__(pointee_type, IntAttr(int(address_space)))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            space = PtrAddrSpace.GLOBAL
            if parser.parse_optional_punctuation(","):
                start = parser.pos
                number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
                word = str(number) if number is not None else parser.parse_str_literal()
                named = PtrAddrSpace.of_keyword(word)
                if number is not None:
                    from xttir.dialects.tt.versions import ADDRESS_SPACES

                    named = ADDRESS_SPACES.get(number)
                if named is None:
                    parser.raise_error(f"unknown address space '{word}'", start, parser.pos)
                space = named
        return [pointee, IntAttr(int(space))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee_type)
            if self.address_space.data != PtrAddrSpace.GLOBAL:
                printer.print_string(f', "{PtrAddrSpace(self.address_space.data).keyword}"')  # pyright: ignore

    def verify(self) -> None:
        if not isinstance(self.pointee_type, IntegerType | AnyFloat):
            raise VerifyException("pointer types must point to integer or floating-point types")


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """`!tt.tensordesc<64x32xf16>`: shape and element type of a block, shared-memory layout."""

    name = "tt.tensordesc"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    shared_layout: Attribute
    """`NoneAttr` where there is none."""

    def __init__(
        self,
        shape: Sequence[int],
        element_type: Attribute,
        shared_layout: Attribute | None = None,
    ):
        super().__init__(
            ArrayAttr([IntAttr(int(d)) for d in shape]), element_type, shared_layout or NoneAttr()
        )

    def get_shape(self) -> tuple[int, ...]:
        """The extents of a block."""
        return tuple(d.data for d in self.shape.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_ranked_shape()
            layout: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(","):
                layout = parser.parse_attribute()
        return [ArrayAttr([IntAttr(d) for d in shape]), element_type, layout]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{d}x" for d in self.get_shape()))
            printer.print_attribute(self.element_type)
            if not isinstance(self.shared_layout, NoneAttr):
                printer.print_string(", ")
                printer.print_attribute(self.shared_layout)

    @property
    def block_type(self) -> TensorType:
        """The tensor a block is loaded as: signed and unsigned integers become signless."""
        element = self.element_type
        if isinstance(element, IntegerType):
            element = IntegerType(element.width.data)
        return TensorType(element, self.get_shape())

    def verify(self) -> None:
        if isinstance(self.element_type, TensorType):
            raise VerifyException(
                "tensor descriptors must not wrap tensor types; "
                "use !tt.tensordesc<shape x element-type[, layout]> instead"
            )


@irdl_attr_definition
class CachePolicyAttr(ParametrizedAttribute):
    """`#tt.cache_policy<cache_modifier = ca, eviction_policy = evict_first>`."""

    name = "tt.cache_policy"

    cache_modifier: StringAttr
    eviction_policy: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found: dict[str, StringAttr] = {}
        cases = {"cache_modifier": CacheModifier, "eviction_policy": EvictionPolicy}

        def entry() -> None:
            key = parser.parse_keyword_in(tuple(cases))
            if key in found:
                parser.raise_error(f"'{key}' is given twice")
            parser.parse_punctuation("=")
            words = tuple(case.keyword for case in cases[key])
            found[key] = StringAttr(parser.parse_keyword_in(words))

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
        for key in cases:
            if key not in found:
                parser.raise_error(f"cache policy without '{key}'")
        return [found["cache_modifier"], found["eviction_policy"]]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(
            f"<cache_modifier = {self.cache_modifier.data}, "
            f"eviction_policy = {self.eviction_policy.data}>"
        )


FLOAT_TYPES = (
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2Type,
    Float8E5M2FNUZType,
    Float16Type,
    BFloat16Type,
    Float32Type,
    Float64Type,
)
OCP_FP8_TYPES = (Float8E4M3FNType, Float8E5M2Type)
FP8_TYPES = (*OCP_FP8_TYPES, Float8E4M3FNUZType, Float8E5M2FNUZType)
INT_WIDTHS = frozenset((1, 4, 8, 16, 32, 64))


def is_float(attr: Attribute) -> bool:
    return isinstance(attr, FLOAT_TYPES)


def is_int(attr: Attribute) -> bool:
    return (
        isinstance(attr, IntegerType)
        and attr.width.data in INT_WIDTHS
        and attr.signedness.data == Signedness.SIGNLESS
    )


def is_ptr(attr: Attribute) -> bool:
    return isinstance(attr, PointerType)


def is_fp_int(attr: Attribute) -> bool:
    return is_int(attr) or is_float(attr)


def is_scalar(attr: Attribute) -> bool:
    return is_ptr(attr) or is_fp_int(attr)


def tensor_of(element: Callable[[Attribute], bool]) -> Callable[[Attribute], bool]:
    return lambda attr: isinstance(attr, TensorType) and element(attr.element_type)


def like(element: Callable[[Attribute], bool]) -> Callable[[Attribute], bool]:
    return lambda attr: element(attr.element_type if isinstance(attr, TensorType) else attr)


def int_of(*widths: int) -> Callable[[Attribute], bool]:
    return lambda attr: is_int(attr) and attr.width.data in widths  # pyright: ignore


FLOAT_LIKE = Check("a float or a tensor of floats", like(is_float))
FLOAT_TENSOR = Check("a tensor of floats", tensor_of(is_float))
F32_LIKE = Check("f32 or a tensor of f32", like(lambda a: isinstance(a, Float32Type)))
INT_LIKE = Check("an integer or a tensor of integers", like(is_int))
INT_TENSOR = Check("a tensor of integers", tensor_of(is_int))
BOOL_LIKE = Check("i1 or a tensor of i1", like(int_of(1)))
I64_LIKE = Check("i64 or a tensor of i64", like(int_of(64)))
I16_I32_TENSOR = Check("a tensor of i16 or i32", tensor_of(int_of(16, 32)))
PTR = Check("a pointer", is_ptr)
PTR_LIKE = Check("a pointer or a tensor of pointers", like(is_ptr))
FP_INT_TENSOR = Check("a tensor of floats or integers", tensor_of(is_fp_int))
FLOAT_I8_TENSOR = Check(
    "a tensor of floats or i8", tensor_of(lambda a: is_float(a) or int_of(8)(a))
)
TENSOR = Check("a tensor of floats, integers or pointers", tensor_of(is_scalar))
ANY_TYPE = Check("a float, integer, pointer or tensor", like(is_scalar))
TENSOR_DESC = Check("a tensor descriptor", lambda a: isinstance(a, TensorDescType))


def pointee_type_of(type_: Attribute) -> Attribute:
    """What a pointer, or a tensor of pointers, points to (a tensor in the second case)."""
    pointer = element_type_of(type_)
    if not isinstance(pointer, PointerType):
        raise VerifyException(f"expected a pointer or a tensor of pointers, but got {type_}")
    return with_element_type(type_, pointer.pointee_type)


def bit_width(type_: Attribute) -> int:
    """Bits of an integer or float type."""
    if not isinstance(type_, IntegerType | AnyFloat):
        raise VerifyException(f"expected an integer or float type, but got {type_}")
    return type_.bitwidth


def pointer_to(type_: Attribute) -> Attribute:
    """A global pointer to each element of `type_`, in its shape and encoding."""
    return with_element_type(type_, PointerType(element_type_of(type_)))
