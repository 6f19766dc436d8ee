"""The `ttng` dialect: what NVIDIA's Hopper and Blackwell add (TMA, mbarriers, wgmma, tcgen05).

Ops and types bear the names of Triton's `TritonNvidiaGPUOps.td`. Syntax and types are complete;
shapes and layouts are not verified yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DictionaryAttr,
    Float8E8M0FNUType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_attr_definition,
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
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.layouts.encodings import (
    TTNG_ENCODINGS,
)
from xttir.dialects.layouts.encodings import (
    TensorMemoryEncodingAttr as TensorMemoryEncodingAttr,
)
from xttir.dialects.layouts.encodings import (
    TensorMemoryScalesEncodingAttr as TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.encodings import (
    TensorMemorySpaceAttr as TensorMemorySpaceAttr,
)
from xttir.dialects.layouts.structs import StructAttr
from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    Check,
    OdsEnum,
    enum_attr,
    keyword_directive,
    segment_sizes,
)
from xttir.dialects.tt.enums import (
    DescriptorReduceKind,
    InputPrecision,
    ProgramIDDim,
    ScaleDotElemType,
)
from xttir.dialects.tt.types import (
    FP_INT_TENSOR,
    PTR,
    TENSOR,
    TENSOR_DESC,
    TensorDescType,
    int_of,
    is_float,
    tensor_of,
)
from xttir.dialects.tt.versions import CacheHints
from xttir.dialects.ttg import I32_TYPED, MEMDESC, TENSOR_OR_MEMDESC, AsyncTokenType


class TMEMWaitKind(OdsEnum):
    LOAD = 0, "load"
    STORE = 1, "store"


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


@irdl_attr_definition
class TMEMLoadReduceModifierAttr(ParametrizedAttribute):
    """`#ttng.redOp<min>`: the reduction that comes with a tensor-memory load."""

    name = "ttng.redOp"

    kind: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_keyword_in(("min", "max")))]

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
I32_TENSOR = Check("a tensor of i32", tensor_of(int_of(32)))
PACKED_OPERAND = Check(
    "a tensor of i8 or floats",
    tensor_of(lambda a: is_float(a) or int_of(8)(a) or isinstance(a, Float8E8M0FNUType)),
)
PACKED_RESULT = Check("a tensor of floats", tensor_of(is_float))
TOKEN = AsyncTokenType()
I128 = IntegerType(128)


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


@irdl_custom_directive
class BarriersAndPreds(CustomDirective):
    """`custom<BarriersAndPreds>($barriers, $preds)`: `, %barrier[%pred]` for every barrier."""

    barriers: VariadicOperandVariable
    preds: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        barriers: list[UnresolvedOperand] = []
        preds: list[UnresolvedOperand] = []
        while parser.parse_optional_punctuation(","):
            barriers.append(parser.parse_unresolved_operand())
            parser.parse_punctuation("[")
            preds.append(parser.parse_unresolved_operand())
            parser.parse_punctuation("]")
        self.barriers.set(state, barriers)
        self.preds.set(state, preds)
        self.preds.set_types(state, (i1,) * len(preds))
        if not barriers:
            self.barriers.set_types(state, ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for barrier, pred in zip(self.barriers.get(op), self.preds.get(op), strict=True):
            printer.print_string(", ")
            printer.print_ssa_value(barrier)
            printer.print_string("[")
            printer.print_ssa_value(pred)
            printer.print_string("]")
        state.last_was_punctuation = False
        state.should_emit_space = True


@irdl_op_definition
class PackedArithOp(IRDLOperation):
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


@irdl_op_definition
class FenceAsyncSharedOp(IRDLOperation):
    """Make generic writes to shared memory visible to the async proxy."""

    name = "ttng.fence_async_shared"
    b_cluster = prop_def(BOOL_ATTR, prop_name="bCluster")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class FenceMBarrierInitReleaseClusterOp(IRDLOperation):
    """Make barrier initialisation visible to the cluster."""

    name = "ttng.fence_mbarrier_init_release_cluster"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ClusterBarrierOp(IRDLOperation):
    """All threads of the cluster meet."""

    name = "ttng.cluster_barrier"
    relaxed = prop_def(BOOL_ATTR, default_value=FALSE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class CLCTryCancelSyncOp(IRDLOperation):
    """Cluster launch control: ask for another program's work, and wait for the answer."""

    name = "ttng.clc_try_cancel_sync"
    response = result_def(TENSOR)
    assembly_format = "attr-dict `:` type($response)"


@irdl_op_definition
class CLCTryCancelOp(IRDLOperation):
    """Cluster launch control: ask for another program's work."""

    name = "ttng.clc_try_cancel"
    result = operand_def(MEMDESC)
    mbarrier = operand_def(MEMDESC)
    assembly_format = "$result `,` $mbarrier attr-dict `:` type($result) `,` type($mbarrier)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class CLCLoadResultOp(IRDLOperation):
    """The answer to `clc_try_cancel`."""

    name = "ttng.clc_load_result"
    src = operand_def(MEMDESC)
    clc_result = result_def(I128)
    assembly_format = "$src attr-dict `:` type($src) `->` type($clc_result)"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class CLCIsCanceledOp(IRDLOperation):
    """Whether another program's work was obtained."""

    name = "ttng.clc_is_canceled"
    clc_result = operand_def(I128)
    is_canceled = result_def(i1)
    assembly_format = "$clc_result attr-dict `:` type($clc_result) `->` type($is_canceled)"
    traits = traits_def(Pure())


@irdl_op_definition
class CLCGetProgramIdOp(IRDLOperation):
    """The program id along `dim` of the work obtained."""

    name = "ttng.clc_get_program_id"
    clc_result = operand_def(I128)
    dim = prop_def(enum_attr(ProgramIDDim))
    result = result_def(i32)
    custom_directives = (keyword_directive(ProgramIDDim),)
    assembly_format = (
        "$clc_result `,` custom<ProgramIDDim>($dim) attr-dict"
        " `:` type($clc_result) `->` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class WarpGroupDotOp(IRDLOperation):
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


@irdl_op_definition
class WarpGroupDotWaitOp(IRDLOperation):
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


@irdl_op_definition
class InitBarrierOp(IRDLOperation):
    """Initialise an mbarrier for `count` arrivals."""

    name = "ttng.init_barrier"
    alloc = operand_def(MEMDESC)
    count = prop_def(I32_TYPED)
    assembly_format = "$alloc `,` $count attr-dict `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class InvalBarrierOp(IRDLOperation):
    """Invalidate an mbarrier."""

    name = "ttng.inval_barrier"
    alloc = operand_def(MEMDESC)
    assembly_format = "$alloc attr-dict `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class BarrierExpectOp(IRDLOperation):
    """Announce `size` bytes to an mbarrier, and arrive."""

    name = "ttng.barrier_expect"
    alloc = operand_def(MEMDESC)
    size = prop_def(I32_TYPED)
    pred = operand_def(i1)
    from_cta = opt_prop_def(I32_ATTR, prop_name="fromCTA")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$alloc `,` $size attr-dict `,` $pred `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class WaitBarrierOp(IRDLOperation):
    """Wait until the phase of parity `phase` of an mbarrier has completed."""

    name = "ttng.wait_barrier"
    alloc = operand_def(MEMDESC)
    phase = operand_def(i32)
    pred = opt_operand_def(i1)
    deps = var_operand_def(MEMDESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$alloc `,` $phase (`,` $pred^)? (`deps` $deps^)? attr-dict"
        " `:` type($alloc) (`,` type($deps)^)?"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ArriveBarrierOp(IRDLOperation):
    """Arrive `count` times at an mbarrier."""

    name = "ttng.arrive_barrier"
    alloc = operand_def(MEMDESC)
    count = prop_def(I32_TYPED)
    pred = opt_operand_def(i1)
    from_cta = opt_prop_def(I32_ATTR, prop_name="fromCTA")
    multicast_cta = opt_prop_def(
        I32_ATTR, default_value=IntegerAttr(0, i32), prop_name="multicastCTA"
    )
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$alloc `,` $count (`,` $pred^)? attr-dict `:` type($alloc)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncCopyMbarrierArriveOp(IRDLOperation):
    """Arrive when the copies issued so far by this thread are complete."""

    name = "ttng.async_copy_mbarrier_arrive"
    barrier = operand_def(MEMDESC)
    no_increment = opt_prop_def(UnitAttr, prop_name="noIncrement")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$barrier attr-dict `:` type($barrier)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class AsyncSharedStoreOp(IRDLOperation):
    """Store to shared memory of the cluster; completes on an mbarrier."""

    name = "ttng.async_shared_store"
    src = operand_def(TENSOR)
    dst = operand_def(MEMDESC)
    mbarrier = operand_def(MEMDESC)
    assembly_format = (
        "$src `,` $dst `,` $mbarrier attr-dict `:` type($src) `->` type($dst) `,` type($mbarrier)"
    )
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class AsyncTMACopyGlobalToLocalOp(IRDLOperation):
    """TMA load of a block; completes on `barrier`."""

    name = "ttng.async_tma_copy_global_to_local"
    desc = operand_def(ANY_TENSOR_DESC)
    coord = var_operand_def(i32)
    offsets = var_operand_def(i16)
    barrier = operand_def(MEMDESC)
    result = operand_def(MEMDESC)
    pred = operand_def(i1)
    multicast = opt_prop_def(UnitAttr)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="isVolatile")
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$desc `[` $coord `]` (`offsets` `=` `[` $offsets^ `]`)? $result `,` $barrier `,` $pred"
        " custom<CacheHints>() attr-dict `:` type($desc) `,` type($barrier) `->` type($result)"
    )
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncTMACopyLocalToGlobalOp(IRDLOperation):
    """TMA store of a block."""

    name = "ttng.async_tma_copy_local_to_global"
    desc = operand_def(TENSOR_DESC)
    coord = var_operand_def(i32)
    src = operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `[` $coord `]` $src attr-dict `:` type($desc) `,` type($src)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncTMAReduceOp(IRDLOperation):
    """TMA reduction of a block into global memory."""

    name = "ttng.async_tma_reduce"
    kind = prop_def(enum_attr(DescriptorReduceKind))
    desc = operand_def(TENSOR_DESC)
    coord = var_operand_def(i32)
    src = operand_def(MEMDESC)
    custom_directives = (keyword_directive(DescriptorReduceKind),)
    assembly_format = (
        "custom<DescriptorReduceKind>($kind) `,` $desc `[` $coord `]` $src"
        " attr-dict `:` type($desc) `,` type($src)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncTMAGatherOp(IRDLOperation):
    """TMA load of rows."""

    name = "ttng.async_tma_gather"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I32_TENSOR)
    y_offset = operand_def(i32)
    barrier = operand_def(MEMDESC)
    result = operand_def(MEMDESC)
    pred = operand_def(i1)
    multicast = opt_prop_def(UnitAttr)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` $result `,` $barrier `,` $pred"
        " attr-dict `:` type(operands)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncTMAScatterOp(IRDLOperation):
    """TMA store of rows."""

    name = "ttng.async_tma_scatter"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I32_TENSOR)
    y_offset = operand_def(i32)
    src = operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` $src attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class TMAStoreWaitOp(IRDLOperation):
    """Wait until at most `pendings` TMA stores are outstanding."""

    name = "ttng.async_tma_store_wait"
    pendings = prop_def(I32_ATTR)
    read_only = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class TCGen5MMAOp(IRDLOperation):
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


@irdl_op_definition
class TCGen5MMAScaledOp(IRDLOperation):
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


@irdl_op_definition
class TCGen5CommitOp(IRDLOperation):
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


@irdl_op_definition
class TMEMWaitOp(IRDLOperation):
    """Wait for loads or stores of tensor memory."""

    name = "ttng.tmem_wait"
    kind = prop_def(enum_attr(TMEMWaitKind))
    custom_directives = (keyword_directive(TMEMWaitKind),)
    assembly_format = "custom<TMEMWaitKind>($kind) attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class TMEMLoadOp(IRDLOperation):
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


@irdl_op_definition
class TMEMStoreOp(IRDLOperation):
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


@irdl_op_definition
class TMEMAllocOp(IRDLOperation):
    """Allocate tensor memory, holding `src` if it is given."""

    name = "ttng.tmem_alloc"
    src = opt_operand_def(TENSOR)
    result = result_def(MEMDESC)
    token = opt_result_def(AsyncTokenType())
    assembly_format = "($src^)? attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class TMEMSubSliceOp(IRDLOperation):
    """The view of the result's shape at `offset` along `dim`."""

    name = "ttng.tmem_subslice"
    src = operand_def(MEMDESC)
    offset = prop_def(I32_ATTR)
    dim = prop_def(I32_ATTR, default_value=IntegerAttr(1, i32))
    result = result_def(MEMDESC)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class TMEMCopyOp(IRDLOperation):
    """Copy shared to tensor memory asynchronously."""

    name = "ttng.tmem_copy"
    src = operand_def(MEMDESC)
    dst = operand_def(MEMDESC)
    assembly_format = "$src `,` $dst attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ReinterpretTensorDescOp(IRDLOperation):
    """A pointer to a tensor map as a descriptor."""

    name = "ttng.reinterpret_tensor_descriptor"
    raw_desc = operand_def(PTR)
    result = result_def(TENSOR_DESC)
    assembly_format = "$raw_desc attr-dict `:` type($raw_desc) `to` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class TensormapCreateOp(IRDLOperation):
    """Write a tensor map into memory."""

    name = "ttng.tensormap_create"
    desc_ptr = operand_def(PTR)
    global_address = operand_def(PTR)
    box_dim = var_operand_def(i32)
    global_dim = var_operand_def(i32)
    global_stride = var_operand_def(i64)
    element_stride = var_operand_def(i32)
    elem_type = prop_def(I32_ATTR)
    interleave_layout = prop_def(I32_ATTR)
    swizzle_mode = prop_def(I32_ATTR)
    fill_mode = prop_def(I32_ATTR)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> TensormapCreateOp:
        # Several variadic groups share one functional type, which IRDL's formats cannot say.
        start = parser.pos
        groups: list[list[UnresolvedOperand]] = [[parser.parse_unresolved_operand()]]
        parser.parse_punctuation(",")
        groups.append([parser.parse_unresolved_operand()])
        for _ in range(4):
            parser.parse_punctuation(",")
            groups.append(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_unresolved_operand
                )
            )
        given = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        signature = parser.parse_function_type()
        names = [name for group in groups for name in group]
        known = cls.get_irdl_definition().properties
        op = cls.create(
            operands=parser.resolve_operands(names, signature.inputs.data, start),
            properties={name: attr for name, attr in given.items() if name in known},
            attributes={name: attr for name, attr in given.items() if name not in known},
        )
        op.properties["operandSegmentSizes"] = segment_sizes(groups)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.desc_ptr, self.global_address), printer.print_ssa_value)
        for group in (self.box_dim, self.global_dim, self.global_stride, self.element_stride):
            printer.print_string(", ")
            with printer.in_square_brackets():
                printer.print_list(group, printer.print_ssa_value)
        shown = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        printer.print_op_attributes(shown | self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


@irdl_op_definition
class TensormapFenceproxyAcquireOp(IRDLOperation):
    """Make a tensor map written by this program usable."""

    name = "ttng.tensormap_fenceproxy_acquire"
    desc_ptr = operand_def(PTR)
    assembly_format = "$desc_ptr attr-dict `:` type($desc_ptr)"
    traits = traits_def(MemoryWriteEffect())


TTNG = Dialect(
    "ttng",
    [
        PackedArithOp,
        FenceAsyncSharedOp,
        FenceMBarrierInitReleaseClusterOp,
        ClusterBarrierOp,
        CLCTryCancelSyncOp,
        CLCTryCancelOp,
        CLCLoadResultOp,
        CLCIsCanceledOp,
        CLCGetProgramIdOp,
        WarpGroupDotOp,
        WarpGroupDotWaitOp,
        InitBarrierOp,
        InvalBarrierOp,
        BarrierExpectOp,
        WaitBarrierOp,
        ArriveBarrierOp,
        AsyncCopyMbarrierArriveOp,
        AsyncSharedStoreOp,
        AsyncTMACopyGlobalToLocalOp,
        AsyncTMACopyLocalToGlobalOp,
        AsyncTMAReduceOp,
        AsyncTMAGatherOp,
        AsyncTMAScatterOp,
        TMAStoreWaitOp,
        TCGen5MMAOp,
        TCGen5MMAScaledOp,
        TCGen5CommitOp,
        TMEMWaitOp,
        TMEMLoadOp,
        TMEMStoreOp,
        TMEMAllocOp,
        TMEMSubSliceOp,
        TMEMCopyOp,
        ReinterpretTensorDescOp,
        TensormapCreateOp,
        TensormapFenceproxyAcquireOp,
    ],
    [
        TensorDescIm2ColType,
        TMEMLoadReduceModifierAttr,
        CachePolicyAttr,
        *TTNG_ENCODINGS,
    ],
)
