"""`llvm`: upstream's ops, with the whole syntax of inline_asm, and five ops that xDSL 0.75 lacks.

Tile IR holds few ops of this dialect; code after the lowering to LLVM is not read at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from xdsl.dialects import llvm as upstream
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    VectorType,
    i32,
)
from xdsl.dialects.llvm import (  # noqa: F401
    AddOp,
    AddressOfOp,
    AllocaOp,
    AndOp,
    AShrOp,
    BitcastOp,
    BrOp,
    CallingConventionAttr,
    CallIntrinsicOp,
    CallOp,
    CondBrOp,
    ConstantOp,
    ExtractValueOp,
    FAbsOp,
    FAddOp,
    FastMathAttr,
    FCeilOp,
    FCmpOp,
    FCopySignOp,
    FCosOp,
    FDivOp,
    FExp2Op,
    FExpOp,
    FFloorOp,
    FLog2Op,
    FLogOp,
    FMAOp,
    FMulOp,
    FNegOp,
    FPExtOp,
    FPowOp,
    FPTruncOp,
    FramePointerKindAttr,
    FRemOp,
    FSinOp,
    FSqrtOp,
    FSubOp,
    FuncOp,
    GEPOp,
    GlobalOp,
    ICmpOp,
    InsertElementOp,
    InsertValueOp,
    IntToPtrOp,
    LinkageAttr,
    LLVMArrayType,
    LLVMFunctionType,
    LLVMPointerType,
    LLVMStructType,
    LLVMVoidType,
    LoadOp,
    LShrOp,
    MaskedStoreOp,
    MulOp,
    OrOp,
    OverflowAttr,
    PtrToIntOp,
    ReturnOp,
    SDivOp,
    SelectOp,
    SExtOp,
    ShlOp,
    ShuffleVectorOp,
    SIToFPOp,
    SRemOp,
    StackRestoreOp,
    StackSaveOp,
    StoreOp,
    SubOp,
    TailCallKind,
    TailCallKindAttr,
    TargetFeaturesAttr,
    TruncOp,
    UDivOp,
    UndefOp,
    UnreachableOp,
    URemOp,
    VectorFMaxOp,
    VectorFMinOp,
    VectorReduceFAddOp,
    VectorReduceFMulOp,
    XOrOp,
    ZeroOp,
    ZExtOp,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, NoMemoryEffect

from xttir.dialects.ods import Check, Derived, OdsEnum64, element_type_of, enum_attr


class AsmDialect(OdsEnum64):
    """The assembly dialect of `llvm.inline_asm`."""

    ATT = 0, "att"
    INTEL = 1, "intel"


@irdl_op_definition
class InlineAsmOp(IRDLOperation):
    """Inline assembly with LLVM's constraint strings."""

    name = "llvm.inline_asm"
    operands_ = var_operand_def()
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    has_side_effects = opt_prop_def(UnitAttr)
    is_align_stack = opt_prop_def(UnitAttr)
    tail_call_kind = prop_def(TailCallKindAttr, default_value=TailCallKindAttr(TailCallKind.NONE))
    asm_dialect = opt_prop_def(enum_attr(AsmDialect))
    operand_attrs = opt_prop_def(ArrayAttr)
    res = opt_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> InlineAsmOp:
        properties: dict[str, Attribute] = {}
        for flag in ("has_side_effects", "is_align_stack"):
            if parser.parse_optional_keyword(flag):
                properties[flag] = UnitAttr()
        options: dict[str, Callable[[], Attribute]] = {
            "tail_call_kind": lambda: TailCallKindAttr(TailCallKindAttr.parse_parameter(parser)),
            "asm_dialect": lambda: cls._asm_dialect(parser),
            "operand_attrs": parser.parse_attribute,
        }
        for name, parse in options.items():
            if parser.parse_optional_keyword(name):
                parser.parse_punctuation("=")
                properties[name] = parse()
        attributes = parser.parse_optional_attr_dict()
        properties["asm_string"] = StringAttr(parser.parse_str_literal())
        parser.parse_punctuation(",")
        properties["constraints"] = StringAttr(parser.parse_str_literal())
        start = parser.pos
        operands = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        attributes |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(operands, signature.inputs.data, start),
            result_types=signature.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    @staticmethod
    def _asm_dialect(parser: Parser) -> IntegerAttr:
        word = parser.parse_keyword_in([case.keyword for case in AsmDialect])
        case = AsmDialect.of_keyword(word)
        assert case is not None
        return case.attr

    def print(self, printer: Printer) -> None:
        for flag in ("has_side_effects", "is_align_stack"):
            if flag in self.properties:
                printer.print_string(f" {flag}")
        if self.tail_call_kind.data != TailCallKind.NONE:
            printer.print_string(f" tail_call_kind = <{self.tail_call_kind.data.value}>")
        if self.asm_dialect is not None:
            printer.print_string(f" asm_dialect = {AsmDialect.of(self.asm_dialect).keyword}")
        if self.operand_attrs is not None:
            printer.print_string(" operand_attrs = ")
            printer.print_attribute(self.operand_attrs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.asm_string)
        printer.print_string(", ")
        printer.print_attribute(self.constraints)
        if self.operands_:
            printer.print_string(" ")
            printer.print_list(self.operands_, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """The element of a vector at an index."""

    name = "llvm.extractelement"
    T: ClassVar = VarConstraint("T", Check("a vector", lambda a: isinstance(a, VectorType)))
    vector = operand_def(T)
    position = operand_def(IntegerType)
    res = result_def(Derived("T", element_type_of, "result type is not the element type"))
    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """A poison value."""

    name = "llvm.mlir.poison"
    res = result_def()
    assembly_format = "attr-dict `:` type($res)"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class AddrSpaceCastOp(IRDLOperation):
    """A pointer in another address space."""

    name = "llvm.addrspacecast"
    arg = operand_def()
    res = result_def()
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($res)"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """A promise that `cond` holds (`tl.assume`). Operand bundles only have a generic form here."""

    name = "llvm.intr.assume"
    cond = operand_def(IntegerType(1))
    op_bundle_operands = var_operand_def()
    op_bundle_sizes = opt_prop_def(DenseArrayBase.constr(i32))
    op_bundle_tags = opt_prop_def(ArrayAttr)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> AssumeOp:
        cond = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(cond, parser.parse_type())
        attributes = parser.parse_optional_attr_dict()
        return AssumeOp.create(
            operands=[value],
            attributes=attributes,
            properties={"op_bundle_sizes": DenseArrayBase.from_list(i32, [])},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.cond)
        printer.print_string(" : ")
        printer.print_attribute(self.cond.type)
        printer.print_op_attributes(self.attributes)


_OURS: tuple[type[Operation], ...] = (
    AddrSpaceCastOp,
    AssumeOp,
    ExtractElementOp,
    InlineAsmOp,
    PoisonOp,
)

LLVM = Dialect(
    "llvm",
    [
        *(op for op in upstream.LLVM.operations if op.name not in {o.name for o in _OURS}),
        *_OURS,
    ],
    list(upstream.LLVM.attributes),
)
