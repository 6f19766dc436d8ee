"""What MLIR's ODS can say of an op and xDSL's IRDL cannot: the pieces shared by all dialects here.

Enums kept as `i32` attributes but printed as keywords, types computed from other types
(`TypesMatchWith`), and constraints by predicate, cheaper to check than IRDL's generic ones.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, AttributeCovT, ParametrizedAttribute
from xdsl.irdl import AttrConstraint, IRDLOperation, OptPropertyDef, VerificationContext
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


class OdsEnum(enum.IntEnum):
    """An `I32EnumAttr`: members are the integers stored, `keyword` what the pretty form prints."""

    keyword: str

    def __new__(cls, value: int, keyword: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.keyword = keyword
        return member

    @classmethod
    def of_keyword(cls, keyword: str) -> Self | None:
        """The member printed as `keyword`, or None."""
        for member in cls:
            if member.keyword == keyword:
                return member
        return None

    @property
    def attr(self) -> IntegerAttr[IntegerType]:
        """The attribute that stores this member."""
        return IntegerAttr(int(self), self.storage())

    @classmethod
    def storage(cls) -> IntegerType:
        """The integer type that members are stored in."""
        return i32

    @classmethod
    def of(cls, attr: IntegerAttr) -> Self:
        """The member that `attr` stores."""
        return cls(attr.value.data)  # pyright: ignore[reportCallIssue]


class OdsEnum64(OdsEnum):
    """An `I64EnumAttr`."""

    @classmethod
    def storage(cls) -> IntegerType:
        return i64


@dataclass(frozen=True)
class Check(AttrConstraint[AttributeCovT], Generic[AttributeCovT]):
    """Attributes for which `holds` is true; `what` names them in the error."""

    what: str
    holds: Callable[[Attribute], bool]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not self.holds(attr):
            raise VerifyException(f"expected {self.what}, but got {attr}")

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> Check[AttributeCovT]:
        return self


@dataclass(frozen=True)
class Derived(AttrConstraint):
    """ODS's `TypesMatchWith`: the type that `rule` makes of constraint variable `source`."""

    source: str
    rule: Callable[[Attribute], Attribute]
    what: str

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        base = constraint_context.get_variable(self.source)
        if base is not None and attr != (expected := self.rule(base)):
            raise VerifyException(f"{self.what}: expected {expected}, but got {attr}")

    def can_infer(self, var_constraint_names: Any) -> bool:
        return self.source in var_constraint_names

    def infer(self, context: Any) -> Attribute:
        return self.rule(context.get_variable(self.source))

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> Derived:
        return self


def _integer_of(type_: IntegerType) -> Callable[[Attribute], bool]:
    return lambda attr: isinstance(attr, IntegerAttr) and attr.type == type_


I32_ATTR: Check[IntegerAttr[IntegerType]] = Check("a 32-bit integer attribute", _integer_of(i32))
I64_ATTR: Check[IntegerAttr[IntegerType]] = Check("a 64-bit integer attribute", _integer_of(i64))
BOOL_ATTR: Check[IntegerAttr[IntegerType]] = Check("a bool attribute", _integer_of(i1))
UNIT_ATTR: Check[UnitAttr] = Check("a unit attribute", lambda attr: isinstance(attr, UnitAttr))

TRUE = IntegerAttr(1, i1)
FALSE = IntegerAttr(0, i1)


def enum_attr(cases: type[OdsEnum]) -> Check[IntegerAttr[IntegerType]]:
    """The constraint of an `I32EnumAttr`."""
    values, storage = frozenset(int(case) for case in cases), cases.storage()
    words = ", ".join(f"{int(case)} {case.keyword}" for case in cases)
    return Check(
        f"a {cases.__name__} ({storage}, one of {words})",
        lambda attr: (
            isinstance(attr, IntegerAttr) and attr.type == storage and attr.value.data in values
        ),
    )


@dataclass(frozen=True)
class EnumKeyword(CustomDirective):
    """`custom<X>($attr)`: an enum attribute written as its keyword."""

    cases: ClassVar[type[OdsEnum]]
    starts_group: ClassVar[bool] = False
    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        # MLIR takes the keyword as a string too.
        word = parser.parse_optional_str_literal() or parser.parse_identifier()
        case = self.cases.of_keyword(word)
        if case is None:
            words = ", ".join(c.keyword for c in self.cases)
            parser.raise_error(f"expected one of {words}", start, start + len(word))
        self.value.set(state, case.attr)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        attr = self.value.get(op)
        if isinstance(attr, IntegerAttr):
            state.print_whitespace(printer)
            printer.print_string(self.cases.of(attr).keyword)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        return self.value.is_anchorable()

    def can_start_optional_group(self) -> bool:
        return self.starts_group

    def parse_optional(self, parser: Parser, state: ParsingState) -> None:
        word = parser.parse_optional_keyword_in([case.keyword for case in self.cases])
        if word is not None and (case := self.cases.of_keyword(word)) is not None:
            self.value.set(state, case.attr)


def keyword_directive(cases: type[OdsEnum], starts_group: bool = False) -> type[CustomDirective]:
    """The directive `custom<Name>($attr)` for the enum called Name, for `custom_directives`.

    With `starts_group` the keyword may be the first element of an optional group.
    """
    namespace = {
        "__annotations__": {"value": AttributeVariable},
        "__doc__": EnumKeyword.__doc__,
        "cases": cases,
        "starts_group": starts_group,
    }
    return irdl_custom_directive(type(cases.__name__, (EnumKeyword,), namespace))


@dataclass(frozen=True)
class BareType(CustomDirective):
    """`custom<BareX>(type($value))`: a type of class X without its name, as `<f32>`.

    ODS prints so what can only be of one class, unless the format says `qualified`. The full
    spelling parses too.
    """

    cls: ClassVar[type[ParametrizedAttribute]]
    inner: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        type_: Attribute | None = parser.parse_optional_type()
        if type_ is None:
            type_ = self.cls.new(self.cls.parse_parameters(parser))
        self.inner.set(state, (type_,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        for type_ in self.inner.get(op):
            if isinstance(type_, self.cls):
                type_.print_parameters(printer)
            else:
                printer.print_attribute(type_)


def bare_type(cls: type[ParametrizedAttribute]) -> type[CustomDirective]:
    """The directive `custom<BareX>(type($value))` for the type class X."""
    namespace = {
        "__annotations__": {"inner": TypeDirective},
        "__doc__": BareType.__doc__,
        "cls": cls,
    }
    return irdl_custom_directive(type(f"Bare{cls.__name__}", (BareType,), namespace))


def element_type_of(type_: Attribute) -> Attribute:
    """The element type of a tensor, vector or memref; any other type itself."""
    if isinstance(type_, TensorType | VectorType | MemRefType | UnrankedTensorType):
        return type_.element_type
    return type_


def with_element_type(type_: Attribute, element_type: Attribute) -> Attribute:
    """`type_` with the same shape and encoding, but another element type."""
    if isinstance(type_, TensorType):
        return TensorType(element_type, type_.shape.data, type_.encoding)
    if isinstance(type_, VectorType):
        return VectorType(element_type, type_.shape, type_.scalable_dims)
    if isinstance(type_, UnrankedTensorType):
        return UnrankedTensorType(element_type)
    return element_type


def same_shape_i1(type_: Attribute) -> Attribute:
    """i1, in the shape and encoding of `type_`."""
    return with_element_type(type_, i1)


class OptionalUnitProperty:
    """Descriptor of an optional unit property that a derived op class adds to its base."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, op: IRDLOperation | None, owner: type[IRDLOperation]) -> Any:
        return self if op is None else op.properties.get(self.name)


def with_unit_property(base: type[IRDLOperation], name: str) -> Any:
    """A `get_irdl_definition` that adds the optional unit property `name` to that of `base`."""
    inherited = base.get_irdl_definition()
    definition = dataclasses.replace(
        inherited, properties={**inherited.properties, name: OptPropertyDef(UNIT_ATTR)}
    )
    return classmethod(lambda cls: definition)


def segment_sizes(groups: Sequence[Sequence[object] | None]) -> DenseArrayBase:
    """The attribute that holds the sizes of `groups` (of operands, say), shared between ops."""
    sizes = tuple(len(group or ()) for group in groups)
    found = _SEGMENTS.get(sizes)
    if found is None:
        found = _SEGMENTS[sizes] = DenseArrayBase.from_list(i32, sizes)
    return found


_SEGMENTS: dict[tuple[int, ...], DenseArrayBase] = {}
