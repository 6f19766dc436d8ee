"""Ops of `ttng` that order things: fences, mbarriers, clusters, cluster launch control."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i1, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import BOOL_ATTR, FALSE, I32_ATTR, enum_attr, keyword_directive
from xttir.dialects.tt.enums import ProgramIDDim
from xttir.dialects.tt.traits import LayoutOp, check
from xttir.dialects.tt.types import TENSOR
from xttir.dialects.ttg import I32_TYPED, MEMDESC
from xttir.dialects.ttng.barrier_checks import (
    check_barrier,
    check_clc_result,
    check_cluster,
    check_completion,
    check_count,
    check_from_cta,
    check_in_kernel,
    check_multicast,
    check_not_specialized,
)
from xttir.dialects.ttng.types import I128


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
class FenceAsyncSharedOp(LayoutOp):
    """Make generic writes to shared memory visible to the async proxy."""

    name = "ttng.fence_async_shared"
    b_cluster = prop_def(BOOL_ATTR, prop_name="bCluster")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class FenceMBarrierInitReleaseClusterOp(LayoutOp):
    """Make barrier initialisation visible to the cluster."""

    name = "ttng.fence_mbarrier_init_release_cluster"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_cluster(self)


@irdl_op_definition
class ClusterBarrierOp(LayoutOp):
    """All threads of the cluster meet."""

    name = "ttng.cluster_barrier"
    relaxed = prop_def(BOOL_ATTR, default_value=FALSE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_cluster(self)
        check_in_kernel(self)


@irdl_op_definition
class ClusterArriveOp(LayoutOp):
    """Triton 3.8 only: the first half of a cluster barrier."""

    name = "ttng.cluster_arrive"
    relaxed = prop_def(BOOL_ATTR, default_value=FALSE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_cluster(self)


@irdl_op_definition
class ClusterWaitOp(LayoutOp):
    """Triton 3.8 only: the second half of a cluster barrier."""

    name = "ttng.cluster_wait"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        check_cluster(self)


@irdl_op_definition
class CLCTryCancelSyncOp(LayoutOp):
    """Cluster launch control: ask for another program's work, and wait for the answer."""

    name = "ttng.clc_try_cancel_sync"
    response = result_def(TENSOR)
    assembly_format = "attr-dict `:` type($response)"

    def verify_(self) -> None:
        type_ = self.response.type
        check(
            isinstance(type_, TensorType)
            and type_.get_shape() == (2,)
            and type_.element_type == i64,
            "response must be a tensor of 2 i64",
        )


@irdl_op_definition
class CLCTryCancelOp(LayoutOp):
    """Cluster launch control: ask for another program's work."""

    name = "ttng.clc_try_cancel"
    result = operand_def(MEMDESC)
    mbarrier = operand_def(MEMDESC)
    assembly_format = "$result `,` $mbarrier attr-dict `:` type($result) `,` type($mbarrier)"
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_clc_result(self.result.type)
        check_completion(self, self.mbarrier.type)


@irdl_op_definition
class CLCLoadResultOp(LayoutOp):
    """The answer to `clc_try_cancel`."""

    name = "ttng.clc_load_result"
    src = operand_def(MEMDESC)
    clc_result = result_def(I128)
    assembly_format = "$src attr-dict `:` type($src) `->` type($clc_result)"
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        check_clc_result(self.src.type)


@irdl_op_definition
class CLCIsCanceledOp(LayoutOp):
    """Whether another program's work was obtained."""

    name = "ttng.clc_is_canceled"
    clc_result = operand_def(I128)
    is_canceled = result_def(i1)
    assembly_format = "$clc_result attr-dict `:` type($clc_result) `->` type($is_canceled)"
    traits = traits_def(Pure())


@irdl_op_definition
class CLCGetProgramIdOp(LayoutOp):
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
class InitBarrierOp(LayoutOp):
    """Initialise an mbarrier for `count` arrivals."""

    name = "ttng.init_barrier"
    alloc = operand_def(MEMDESC)
    count = prop_def(I32_TYPED)
    assembly_format = "$alloc `,` $count attr-dict `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_barrier(self, self.alloc.type)
        check_count(self.count)
        check_not_specialized(self, self.alloc.type)


@irdl_op_definition
class InvalBarrierOp(LayoutOp):
    """Invalidate an mbarrier."""

    name = "ttng.inval_barrier"
    alloc = operand_def(MEMDESC)
    assembly_format = "$alloc attr-dict `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_barrier(self, self.alloc.type)


@irdl_op_definition
class BarrierExpectOp(LayoutOp):
    """Announce `size` bytes to an mbarrier, and arrive."""

    name = "ttng.barrier_expect"
    alloc = operand_def(MEMDESC)
    size = prop_def(I32_TYPED)
    pred = operand_def(i1)
    from_cta = opt_prop_def(I32_ATTR, prop_name="fromCTA")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$alloc `,` $size attr-dict `,` $pred `:` type($alloc)"
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_barrier(self, self.alloc.type)
        check_from_cta(self, self.alloc.type, self.from_cta)


@irdl_op_definition
class WaitBarrierOp(LayoutOp):
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

    def verify_(self) -> None:
        check_barrier(self, self.alloc.type)


@irdl_op_definition
class ArriveBarrierOp(LayoutOp):
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

    def verify_(self) -> None:
        check_barrier(self, self.alloc.type)
        check_count(self.count)
        multicast = 0 if self.multicast_cta is None else self.multicast_cta.value.data
        if multicast:
            check_multicast(self, self.alloc.type, multicast, self.from_cta)
        check_from_cta(self, self.alloc.type, self.from_cta)


@irdl_op_definition
class AsyncCopyMbarrierArriveOp(LayoutOp):
    """Arrive when the copies issued so far by this thread are complete."""

    name = "ttng.async_copy_mbarrier_arrive"
    barrier = operand_def(MEMDESC)
    no_increment = opt_prop_def(UnitAttr, prop_name="noIncrement")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$barrier attr-dict `:` type($barrier)"
    traits = traits_def(MemoryWriteEffect())
