"""Ops of `ttng` on tensor cores and tensor memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.layouts.encodings import TensorMemoryEncodingAttr
from xttir.dialects.ods import BOOL_ATTR, FALSE, I32_ATTR, enum_attr, keyword_directive
from xttir.dialects.tt.enums import InputPrecision, ScaleDotElemType
from xttir.dialects.tt.traits import LayoutOp, check
from xttir.dialects.tt.types import FP_INT_TENSOR, TENSOR
from xttir.dialects.tt.versions import OldNames
from xttir.dialects.ttg import MEMDESC, TENSOR_OR_MEMDESC, AsyncTokenType
from xttir.dialects.ttg.memory_checks import check_alloc, check_extent, check_mutable
from xttir.dialects.ttg.types import MemDescType
from xttir.dialects.ttng.barrier_checks import check_completion, check_tcgen05
from xttir.dialects.ttng.mma_checks import (
    check_barriers,
    check_mma,
    check_mma_scaled,
    check_register_rank,
    check_tmem_copy,
    check_tmem_reduction,
    check_tmem_subslice,
    check_warp_group_dot,
    is_tensor_memory,
)
from xttir.dialects.ttng.packed import check_packed
from xttir.dialects.ttng.sync import BarriersAndPreds
from xttir.dialects.ttng.tmem_access import check_tmem_access
from xttir.dialects.ttng.types import (
    PACKED_OPERAND,
    PACKED_RESULT,
    TOKEN,
    PackedArithOpKind,
    TMEMLoadReduceModifierAttr,
    TMEMWaitKind,
)


@irdl_custom_directive
class Token(CustomDirective):
    """`custom<Token>($dep, type($token))`: `[%dep]`, `[]`, or nothing where no token comes out."""

    dep: OptionalOperandVariable
    token: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operand: UnresolvedOperand | None = None
        present = parser.parse_optional_punctuation("[") is not None
        if present:
            operand = parser.parse_optional_unresolved_operand()
            parser.parse_punctuation("]")
        self.dep.set(state, operand)
        self.dep.set_types(state, () if operand is None else (TOKEN,))
        self.token.set(state, (TOKEN,) if present else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if not self.token.get(op):
            return
        dep = self.dep.get(op)
        printer.print_string("[")
        if dep is not None:
            printer.print_ssa_value(dep)
        printer.print_string("]")
        state.last_was_punctuation = False
        state.should_emit_space = True


@irdl_op_definition
class PackedArithOp(LayoutOp):
    """Arithmetic on packed small floats. ODS calls the operands `operands`."""

    name = "ttng.packed_arith"
    op_kind = prop_def(enum_attr(PackedArithOpKind))
    args_ = var_operand_def(PACKED_OPERAND)
    result = result_def(PACKED_RESULT)
    custom_directives = (keyword_directive(PackedArithOpKind),)
    assembly_format = (
        "custom<PackedArithOpKind>($op_kind) $args_ attr-dict `:` functional-type($args_, $result)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        result = self.result.type
        assert isinstance(result, TensorType)
        operands = [v.type for v in self.args_ if isinstance(v.type, TensorType)]
        check_packed(PackedArithOpKind.of(self.op_kind), operands, result)


@irdl_op_definition
class WarpGroupDotOp(LayoutOp):
    """wgmma: `a @ b + c` with b, and maybe a, in shared memory."""

    name = "ttng.warp_group_dot"
    D: ClassVar = VarConstraint("D", FP_INT_TENSOR)
    a = operand_def(TENSOR_OR_MEMDESC)
    b = operand_def(MEMDESC)
    c = operand_def(D)
    use_c = opt_operand_def(i1)
    input_precision = prop_def(
        enum_attr(InputPrecision),
        default_value=InputPrecision.IEEE.attr,
        prop_name="inputPrecision",
    )
    max_num_imprecise_acc = prop_def(
        I32_ATTR, default_value=IntegerAttr(0, i32), prop_name="maxNumImpreciseAcc"
    )
    is_async = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="isAsync")
    d = result_def(D)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b `,` $c (`,` $use_c^)? attr-dict `:` type($a) `*` type($b) `->` type($d)"
    )
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        check_warp_group_dot(
            self,
            self.a.type,
            self.b.type,
            self.d.type,
            self.max_num_imprecise_acc.value.data,
        )


@irdl_op_definition
class WarpGroupDotWaitOp(LayoutOp):
    """Wait until at most `pendings` wgmma groups are outstanding; `inputs` pass through."""

    name = "ttng.warp_group_dot_wait"
    inputs = var_operand_def(TENSOR_OR_MEMDESC)
    pendings = prop_def(I32_ATTR)
    warp_group_local = opt_prop_def(UnitAttr, prop_name="warpGroupLocal")
    outputs = var_result_def(TENSOR_OR_MEMDESC)

    @classmethod
    def parse(cls, parser: Parser) -> WarpGroupDotWaitOp:
        start = parser.pos
        names = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        given = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_type, parser.parse_type
            )
            or []
        )
        known = cls.get_irdl_definition().properties
        return cls.create(
            operands=parser.resolve_operands(names, types, start),
            result_types=types,
            properties={name: attr for name, attr in given.items() if name in known},
            attributes={name: attr for name, attr in given.items() if name not in known},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_op_attributes(self.properties | self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    def verify_(self) -> None:
        check(bool(self.inputs), "expected to be waiting on at least one dependency")
        check(
            tuple(self.operand_types) == tuple(self.result_types),
            "the types of the results must be those of the operands",
        )


@irdl_op_definition
class TCGen5MMAOp(LayoutOp):
    """tcgen05.mma: `d = a @ b + d`, or without d where `use_d` is false."""

    name = "ttng.tc_gen5_mma"
    a = operand_def(MEMDESC)
    b = operand_def(MEMDESC)
    d = operand_def(MEMDESC)
    acc_dep = opt_operand_def(AsyncTokenType())
    use_d = operand_def(i1)
    pred = operand_def(i1)
    barriers = var_operand_def(MEMDESC)
    barrier_preds = var_operand_def(i1)
    is_async = opt_prop_def(UnitAttr)
    two_ctas = opt_prop_def(UnitAttr)
    multicast = opt_prop_def(UnitAttr)
    is_unsigned = opt_prop_def(UnitAttr)
    token = opt_result_def(AsyncTokenType())
    custom_directives = (Token, BarriersAndPreds)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$a `,` $b `,` $d `` custom<Token>($acc_dep, type($token)) `,` $use_d `,` $pred ``"
        " custom<BarriersAndPreds>($barriers, $barrier_preds) attr-dict"
        " `:` type($a) `,` type($b) `,` type($d) (`,` type($barriers)^)?"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        check_barriers(self, self.is_async is not None, [v.type for v in self.barriers])
        check_mma(self, self.a.type, self.b.type, self.d.type, self.two_ctas is not None)


@irdl_op_definition
class TCGen5MMAScaledOp(LayoutOp):
    """tcgen05.mma on block-scaled operands."""

    name = "ttng.tc_gen5_mma_scaled"
    a = operand_def(MEMDESC)
    b = operand_def(MEMDESC)
    d = operand_def(MEMDESC)
    acc_dep = opt_operand_def(AsyncTokenType())
    a_scale = operand_def(MEMDESC)
    b_scale = operand_def(MEMDESC)
    a_type = prop_def(enum_attr(ScaleDotElemType))
    b_type = prop_def(enum_attr(ScaleDotElemType))
    use_d = operand_def(i1)
    pred = operand_def(i1)
    barriers = var_operand_def(MEMDESC)
    barrier_preds = var_operand_def(i1)
    two_ctas = opt_prop_def(UnitAttr)
    multicast = opt_prop_def(UnitAttr)
    is_async = opt_prop_def(UnitAttr)
    token = opt_result_def(AsyncTokenType())
    custom_directives = (Token, BarriersAndPreds, keyword_directive(ScaleDotElemType))
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$a `,` $b `,` $d `` custom<Token>($acc_dep, type($token)) `,` $a_scale `,` $b_scale"
        " `,` $use_d `,` $pred `lhs` `=` custom<ScaleDotElemType>($a_type)"
        " `rhs` `=` custom<ScaleDotElemType>($b_type) ``"
        " custom<BarriersAndPreds>($barriers, $barrier_preds) attr-dict"
        " `:` type($a) `,` type($b) `,` type($d) `,` type($a_scale) `,` type($b_scale)"
        " (`,` type($barriers)^)?"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        check_barriers(self, self.is_async is not None, [v.type for v in self.barriers])
        check_mma_scaled(
            self,
            self.a.type,
            self.b.type,
            self.d.type,
            (self.a_scale.type, self.b_scale.type),
            (ScaleDotElemType.of(self.a_type), ScaleDotElemType.of(self.b_type)),
        )


@irdl_op_definition
class TCGen5CommitOp(LayoutOp):
    """Arrive at `barrier` when the tcgen05 ops issued so far are complete."""

    name = "ttng.tc_gen5_commit"
    barrier = operand_def(MEMDESC)
    pred = opt_operand_def(i1)
    descs = var_operand_def(MEMDESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$barrier (`,` $pred^)? (`descs` $descs^)? attr-dict"
        " `:` type($barrier) (`,` type($descs)^)?"
    )
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        check(len(self.descs) <= 4, f"expected 0 to 4 descriptors, got {len(self.descs)}")
        check_completion(self, self.barrier.type)


@irdl_op_definition
class TMEMWaitOp(LayoutOp):
    """Wait for loads or stores of tensor memory."""

    name = "ttng.tmem_wait"
    kind = prop_def(enum_attr(TMEMWaitKind))
    custom_directives = (keyword_directive(TMEMWaitKind),)
    assembly_format = "custom<TMEMWaitKind>($kind) attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)


@irdl_op_definition
class TMEMLoadOp(LayoutOp):
    """Load from tensor memory, with a reduction along rows if `red_op` is given."""

    name = "ttng.tmem_load"
    src = operand_def(MEMDESC)
    dep = opt_operand_def(AsyncTokenType())
    red_op = opt_prop_def(TMEMLoadReduceModifierAttr, prop_name="redOp")
    abs = opt_prop_def(BOOL_ATTR)
    nan = opt_prop_def(BOOL_ATTR, prop_name="NaN")
    result = result_def(TENSOR)
    token = opt_result_def(AsyncTokenType())
    red = opt_result_def(TENSOR)
    custom_directives = (Token,)
    irdl_options = (AttrSizedResultSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$src `` custom<Token>($dep, type($token)) attr-dict"
        " `:` type($src) `->` type($result) (`,` type($red)^)?"
    )
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        source = self.src.type
        assert isinstance(source, MemDescType)
        check(
            isinstance(source.encoding, TensorMemoryEncodingAttr),
            "source must be a tensor memory buffer with a tensor memory encoding",
        )
        check_register_rank(self.result.type)
        check_tmem_access(self.result.type, source, "result")
        check_tmem_reduction(
            self,
            source,
            self.result.type,
            self.red is not None,
            self.red_op,
            {"abs": self.abs, "NaN": self.nan},
        )
        check_extent(source, self.result.type)


@irdl_op_definition
class TMEMStoreOp(LayoutOp):
    """Store to tensor memory where `pred` holds."""

    name = "ttng.tmem_store"
    dst = operand_def(MEMDESC)
    dep = opt_operand_def(AsyncTokenType())
    src = operand_def(TENSOR)
    pred = operand_def(i1)
    token = opt_result_def(AsyncTokenType())
    custom_directives = (Token,)
    assembly_format = (
        "$src `,` $dst `` custom<Token>($dep, type($token)) `,` $pred attr-dict"
        " `:` type($src) `->` type($dst)"
    )
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        target = self.dst.type
        assert isinstance(target, MemDescType)
        check(is_tensor_memory(target.encoding), "should use tensor memory encoding")
        check_mutable(target)
        check_register_rank(self.src.type)
        check_tmem_access(self.src.type, target, "source")
        check_extent(self.src.type, target)


@irdl_op_definition
class TMEMAllocOp(LayoutOp):
    """Allocate tensor memory, holding `src` if it is given."""

    name = "ttng.tmem_alloc"
    src = opt_operand_def(TENSOR)
    result = result_def(MEMDESC)
    token = opt_result_def(AsyncTokenType())
    assembly_format = "($src^)? attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        check_tcgen05(self)
        type_ = self.result.type
        assert isinstance(type_, MemDescType)
        check(is_tensor_memory(type_.encoding), "should use tensor memory encoding")
        if self.src is not None:
            check_register_rank(self.src.type)
            check_tmem_access(self.src.type, type_, "source")
        check_alloc(None if self.src is None else self.src.type, type_)


@irdl_op_definition
class TMEMSubSliceOp(LayoutOp):
    """The view of the result's shape at `offset` along `dim`."""

    name = "ttng.tmem_subslice"
    src = operand_def(MEMDESC)
    offset = prop_def(I32_ATTR)
    dim = prop_def(I32_ATTR, default_value=IntegerAttr(1, i32))
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (OldNames,)
    assembly_format = "$src attr-dict custom<OldNames>() `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        check_tcgen05(self)
        check_tmem_subslice(
            self.src.type, self.result.type, self.offset.value.data, self.dim.value.data
        )


@irdl_op_definition
class TMEMCopyOp(LayoutOp):
    """Copy shared to tensor memory asynchronously."""

    name = "ttng.tmem_copy"
    src = operand_def(MEMDESC)
    dst = operand_def(MEMDESC)
    assembly_format = "$src `,` $dst attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_tcgen05(self)
        check_tmem_copy(self.src.type, self.dst.type)
