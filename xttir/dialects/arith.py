"""`arith` as Triton prints it: upstream's ops, and ours where upstream's are wrong or missing.

In xDSL 0.75 comparisons always give a scalar i1, `select`, integer casts and index casts take
scalars only, `truncf` knows no rounding mode, the flags `nneg`, `exact` and `overflow` of casts
and divisions are unknown, and `remf` and `index_castui` are missing. The definitions here follow
MLIR's ArithOps.td; operand names are upstream's (`cond`, `lhs`, `rhs`, `input`).
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith as upstream
from xdsl.dialects.arith import (
    AddfOp,
    AddiOp,
    AddUIExtendedOp,
    AndIOp,
    ArithConstantMaterializationInterface,
    BitcastOp,
    CeilDivSIOp,
    CeilDivUIOp,
    ConstantOp,
    DivfOp,
    FastMathFlagsAttr,
    FloatingPointLikeBinaryOperation,
    FloorDivSIOp,
    IntegerOverflowAttr,
    MaximumfOp,
    MaxnumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinnumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    MuliOp,
    MulSIExtendedOp,
    MulUIExtendedOp,
    NegfOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    SubfOp,
    SubiOp,
    XOrIOp,
)
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    ShapedType,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ods import (
    Check,
    Derived,
    OdsEnum,
    OdsEnum64,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.ods import element_type_of as _element

_NO_FASTMATH = FastMathFlagsAttr("none")


class CmpIPredicate(OdsEnum64):
    """Predicates of `arith.cmpi`."""

    EQ = 0, "eq"
    NE = 1, "ne"
    SLT = 2, "slt"
    SLE = 3, "sle"
    SGT = 4, "sgt"
    SGE = 5, "sge"
    ULT = 6, "ult"
    ULE = 7, "ule"
    UGT = 8, "ugt"
    UGE = 9, "uge"


class CmpFPredicate(OdsEnum64):
    """Predicates of `arith.cmpf`."""

    AlwaysFalse = 0, "false"
    OEQ = 1, "oeq"
    OGT = 2, "ogt"
    OGE = 3, "oge"
    OLT = 4, "olt"
    OLE = 5, "ole"
    ONE = 6, "one"
    ORD = 7, "ord"
    UEQ = 8, "ueq"
    UGT = 9, "ugt"
    UGE = 10, "uge"
    ULT = 11, "ult"
    ULE = 12, "ule"
    UNE = 13, "une"
    UNO = 14, "uno"
    AlwaysTrue = 15, "true"


class RoundingMode(OdsEnum):
    """Rounding of `arith.truncf`; without one it is to nearest, ties to even."""

    TO_NEAREST_EVEN = 0, "to_nearest_even"
    DOWNWARD = 1, "downward"
    UPWARD = 2, "upward"
    TOWARD_ZERO = 3, "toward_zero"
    TO_NEAREST_AWAY = 4, "to_nearest_away"


def _is_int(attr: Attribute) -> bool:
    return isinstance(_element(attr), IntegerType)


def _is_index(attr: Attribute) -> bool:
    return isinstance(_element(attr), IndexType)


INT_LIKE = Check("an integer, or a vector or tensor of integers", _is_int)
INT_OR_INDEX_LIKE = Check(
    "an integer or index, or a vector or tensor of them", lambda a: _is_int(a) or _is_index(a)
)
FLOAT_LIKE = Check(
    "a float, or a vector or tensor of floats", lambda a: isinstance(_element(a), AnyFloat)
)
BOOL_LIKE = Check(
    "i1, or a vector or tensor of i1",
    lambda a: isinstance(e := _element(a), IntegerType) and e.width.data == 1,
)


@irdl_op_definition
class CmpiOp(IRDLOperation):
    """Integer comparison, element by element; the result has the operands' shape."""

    name = "arith.cmpi"
    T: ClassVar = VarConstraint("T", INT_OR_INDEX_LIKE)
    predicate = prop_def(enum_attr(CmpIPredicate))
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(Derived("T", same_shape_i1, "result is not i1 in the operands' shape"))
    custom_directives = (keyword_directive(CmpIPredicate),)
    assembly_format = "custom<CmpIPredicate>($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)"
    traits = traits_def(Pure())

    def __init__(self, lhs: Operation | SSAValue, rhs: Operation | SSAValue, arg: int | str):
        lhs = SSAValue.get(lhs)
        case = CmpIPredicate.of_keyword(arg) if isinstance(arg, str) else CmpIPredicate(arg)  # pyright: ignore[reportCallIssue]
        if case is None:
            raise VerifyException(f"Unknown comparison mnemonic: {arg}")
        super().__init__(
            operands=[lhs, rhs],
            result_types=[same_shape_i1(lhs.type)],
            properties={"predicate": case.attr},
        )


@irdl_op_definition
class CmpfOp(IRDLOperation):
    """Float comparison, element by element; `o..` is false on a NaN, `u..` true."""

    name = "arith.cmpf"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    predicate = prop_def(enum_attr(CmpFPredicate))
    lhs = operand_def(T)
    rhs = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(Derived("T", same_shape_i1, "result is not i1 in the operands' shape"))
    custom_directives = (keyword_directive(CmpFPredicate),)
    assembly_format = (
        "custom<CmpFPredicate>($predicate) `,` $lhs `,` $rhs (`fastmath` `` $fastmath^)?"
        " attr-dict `:` type($lhs)"
    )
    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
        arg: int | str,
        fastmath: FastMathFlagsAttr = _NO_FASTMATH,
    ):
        lhs = SSAValue.get(lhs)
        case = CmpFPredicate.of_keyword(arg) if isinstance(arg, str) else CmpFPredicate(arg)  # pyright: ignore[reportCallIssue]
        if case is None:
            raise VerifyException(f"Unknown comparison mnemonic: {arg}")
        super().__init__(
            operands=[lhs, rhs],
            result_types=[same_shape_i1(lhs.type)],
            properties={"predicate": case.attr, "fastmath": fastmath},
        )


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`lhs` where `cond`, else `rhs`; `cond` is one i1, or an i1 for every element."""

    name = "arith.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def(BOOL_LIKE)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())

    def __init__(
        self,
        cond: Operation | SSAValue,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
    ):
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        cond, value = self.cond.type, self.result.type
        if isinstance(cond, ShapedType) and cond != same_shape_i1(value):
            raise VerifyException(
                f"expected condition type {same_shape_i1(value)} or i1, but got {cond}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        # The type of the condition is written only when it is not a scalar.
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        cond: Attribute = IntegerType(1)
        value = parser.parse_type()
        if parser.parse_optional_punctuation(","):
            cond, value = value, parser.parse_type()
        resolved = parser.resolve_operands(operands, (cond, value, value), parser.pos)
        return cls.create(operands=resolved, result_types=[value], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if isinstance(self.cond.type, ShapedType):
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


def _verify_cast(op: IRDLOperation, source: Attribute, result: Attribute) -> None:
    """Same shape (and encoding, scalable dimensions) on both sides of a cast."""
    if same_shape_i1(source) != same_shape_i1(result):
        raise VerifyException(f"operand {source} and result {result} differ in shape")


def _width(attr: Attribute) -> int:
    element = _element(attr)
    return element.bitwidth if isinstance(element, IntegerType | AnyFloat) else 64


class _Cast(IRDLOperation):
    """Base of casts: `input` to `result`, of the same shape. WIDENS is None where either goes."""

    WIDENS: ClassVar[bool | None] = None

    def __init__(self, op: SSAValue | Operation, target_type: Attribute):
        super().__init__(operands=[op], result_types=[target_type])

    def verify_(self) -> None:
        source, result = self.operands[0].type, self.results[0].type
        _verify_cast(self, source, result)
        if self.WIDENS is True and not _width(result) > _width(source):
            raise VerifyException(f"result {result} must be wider than operand {source}")
        if self.WIDENS is False and not _width(result) < _width(source):
            raise VerifyException(f"result {result} must be narrower than operand {source}")


_CAST = "attr-dict `:` type($input) `to` type($result)"


@irdl_op_definition
class ExtSIOp(_Cast):
    """Sign extension."""

    name = "arith.extsi"
    WIDENS: ClassVar = True
    input = operand_def(INT_LIKE)
    result = result_def(INT_LIKE)
    assembly_format = "$input " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class ExtUIOp(_Cast):
    """Zero extension; `nneg` promises a non-negative input."""

    name = "arith.extui"
    WIDENS: ClassVar = True
    input = operand_def(INT_LIKE)
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    result = result_def(INT_LIKE)
    assembly_format = "$input (`nneg` $nonNeg^)? " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class TruncIOp(_Cast):
    """The low bits of an integer."""

    name = "arith.trunci"
    WIDENS: ClassVar = False
    input = operand_def(INT_LIKE)
    overflow_flags = prop_def(
        IntegerOverflowAttr, default_value=IntegerOverflowAttr("none"), prop_name="overflowFlags"
    )
    result = result_def(INT_LIKE)
    assembly_format = "$input (`overflow` `` $overflowFlags^)? " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class ExtFOp(_Cast):
    """A float in a wider type, exactly."""

    name = "arith.extf"
    WIDENS: ClassVar = True
    input = operand_def(FLOAT_LIKE)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(FLOAT_LIKE)
    assembly_format = "$input (`fastmath` `` $fastmath^)? " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class TruncFOp(_Cast):
    """A float rounded to a narrower type."""

    name = "arith.truncf"
    WIDENS: ClassVar = False
    input = operand_def(FLOAT_LIKE)
    roundingmode = opt_prop_def(enum_attr(RoundingMode))
    fastmath = opt_prop_def(FastMathFlagsAttr)
    result = result_def(FLOAT_LIKE)
    custom_directives = (keyword_directive(RoundingMode, starts_group=True),)
    assembly_format = (
        "$input (custom<RoundingMode>($roundingmode)^)? (`fastmath` `` $fastmath^)? " + _CAST
    )
    traits = traits_def(Pure())


@irdl_op_definition
class SIToFPOp(_Cast):
    """A signed integer rounded to nearest, ties to even."""

    name = "arith.sitofp"
    input = operand_def(INT_LIKE)
    result = result_def(FLOAT_LIKE)
    assembly_format = "$input " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class UIToFPOp(_Cast):
    """An unsigned integer rounded to nearest, ties to even."""

    name = "arith.uitofp"
    input = operand_def(INT_LIKE)
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    result = result_def(FLOAT_LIKE)
    assembly_format = "$input (`nneg` $nonNeg^)? " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class FPToSIOp(_Cast):
    """Towards zero to a signed integer; out of range is undefined."""

    name = "arith.fptosi"
    input = operand_def(FLOAT_LIKE)
    result = result_def(INT_LIKE)
    assembly_format = "$input " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class FPToUIOp(_Cast):
    """Towards zero to an unsigned integer; out of range is undefined."""

    name = "arith.fptoui"
    input = operand_def(FLOAT_LIKE)
    result = result_def(INT_LIKE)
    assembly_format = "$input " + _CAST
    traits = traits_def(Pure())


class _IndexCast(_Cast):
    def verify_(self) -> None:
        super().verify_()
        if _is_index(self.operands[0].type) == _is_index(self.results[0].type):
            raise VerifyException("exactly one of operand and result must be of index type")


@irdl_op_definition
class IndexCastOp(_IndexCast):
    """Between index and an integer, sign-extending."""

    name = "arith.index_cast"
    input = operand_def(INT_OR_INDEX_LIKE)
    result = result_def(INT_OR_INDEX_LIKE)
    assembly_format = "$input " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastUIOp(_IndexCast):
    """Between index and an integer, zero-extending."""

    name = "arith.index_castui"
    input = operand_def(INT_OR_INDEX_LIKE)
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    result = result_def(INT_OR_INDEX_LIKE)
    assembly_format = "$input (`nneg` $nonNeg^)? " + _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class RemfOp(FloatingPointLikeBinaryOperation):
    """Remainder with the sign of `lhs` (C's fmod)."""

    name = "arith.remf"
    traits = traits_def(Pure())


class _ExactBinary(IRDLOperation):
    """Base of divisions and right shifts; `exact` promises that nothing is lost."""

    def __init__(
        self,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
        result_type: Attribute | None = None,
    ):
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[lhs, rhs], result_types=[result_type or lhs.type])


_EXACT = "$lhs `,` $rhs (`exact` $isExact^)? attr-dict `:` type($result)"


@irdl_op_definition
class DivSIOp(_ExactBinary):
    """Signed division towards zero; by zero, and INT_MIN / -1, undefined."""

    name = "arith.divsi"
    T: ClassVar = VarConstraint("T", INT_OR_INDEX_LIKE)
    lhs = operand_def(T)
    rhs = operand_def(T)
    is_exact = opt_prop_def(UnitAttr, prop_name="isExact")
    result = result_def(T)
    assembly_format = _EXACT
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class DivUIOp(_ExactBinary):
    """Unsigned division; by zero undefined."""

    name = "arith.divui"
    T: ClassVar = VarConstraint("T", INT_OR_INDEX_LIKE)
    lhs = operand_def(T)
    rhs = operand_def(T)
    is_exact = opt_prop_def(UnitAttr, prop_name="isExact")
    result = result_def(T)
    assembly_format = _EXACT
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class ShRSIOp(_ExactBinary):
    """Arithmetic shift right; poison from the bit width on."""

    name = "arith.shrsi"
    T: ClassVar = VarConstraint("T", INT_OR_INDEX_LIKE)
    lhs = operand_def(T)
    rhs = operand_def(T)
    is_exact = opt_prop_def(UnitAttr, prop_name="isExact")
    result = result_def(T)
    assembly_format = _EXACT
    traits = traits_def(Pure())


@irdl_op_definition
class ShRUIOp(_ExactBinary):
    """Logical shift right; poison from the bit width on."""

    name = "arith.shrui"
    T: ClassVar = VarConstraint("T", INT_OR_INDEX_LIKE)
    lhs = operand_def(T)
    rhs = operand_def(T)
    is_exact = opt_prop_def(UnitAttr, prop_name="isExact")
    result = result_def(T)
    assembly_format = _EXACT
    traits = traits_def(Pure())


_OURS: tuple[type[Operation], ...] = (
    CmpfOp,
    CmpiOp,
    DivSIOp,
    DivUIOp,
    ExtFOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    IndexCastUIOp,
    RemfOp,
    SIToFPOp,
    SelectOp,
    ShRSIOp,
    ShRUIOp,
    TruncFOp,
    TruncIOp,
    UIToFPOp,
)

Arith = Dialect(
    "arith",
    [
        *(op for op in upstream.Arith.operations if op.name not in {o.name for o in _OURS}),
        *_OURS,
    ],
    list(upstream.Arith.attributes),
    [ArithConstantMaterializationInterface()],
)

__all__ = [
    "AddUIExtendedOp",
    "AddfOp",
    "AddiOp",
    "AndIOp",
    "AnyAttr",
    "Arith",
    "BitcastOp",
    "CeilDivSIOp",
    "CeilDivUIOp",
    "CmpFPredicate",
    "CmpIPredicate",
    "CmpfOp",
    "CmpiOp",
    "ConstantOp",
    "DivSIOp",
    "DivUIOp",
    "DivfOp",
    "ExtFOp",
    "ExtSIOp",
    "ExtUIOp",
    "FPToSIOp",
    "FPToUIOp",
    "FastMathFlagsAttr",
    "FloorDivSIOp",
    "IndexCastOp",
    "IndexCastUIOp",
    "IntegerOverflowAttr",
    "MaxSIOp",
    "MaxUIOp",
    "MaximumfOp",
    "MaxnumfOp",
    "MinSIOp",
    "MinUIOp",
    "MinimumfOp",
    "MinnumfOp",
    "MulSIExtendedOp",
    "MulUIExtendedOp",
    "MulfOp",
    "MuliOp",
    "NegfOp",
    "OrIOp",
    "RemSIOp",
    "RemUIOp",
    "RemfOp",
    "RoundingMode",
    "SIToFPOp",
    "SelectOp",
    "ShLIOp",
    "ShRSIOp",
    "ShRUIOp",
    "SubfOp",
    "SubiOp",
    "TruncFOp",
    "TruncIOp",
    "UIToFPOp",
    "UnitAttr",
    "XOrIOp",
]
