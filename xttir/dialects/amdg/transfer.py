"""Ops of `amdg` that move tiles asynchronously (TDM, copies out of shared memory) and wait."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i1, i32
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    SameVariadicOperandSize,
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
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import BOOL_ATTR, I32_ATTR, Derived, same_shape_i1
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import I16_I32_TENSOR, TENSOR, TENSOR_DESC, TensorDescType
from xttir.dialects.ttg.types import I32_TYPED, MEMDESC, PTR_TENSOR, AsyncTokenType, MemDescType

_TOKEN = AsyncTokenType()
_BOTH = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AsyncCopyLocalToGlobalOp(IRDLOperation):
    """Copy shared to global memory asynchronously."""

    name = "amdg.async_copy_local_to_global"
    P: ClassVar = VarConstraint("P", PTR_TENSOR)
    src = operand_def(MEMDESC)
    dst = operand_def(P)
    mask = opt_operand_def(Derived("P", same_shape_i1, "mask type does not match dst"))
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    contiguity = prop_def(I32_ATTR, default_value=IntegerAttr(1, i32))
    token = result_def(_TOKEN)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$src `,` $dst (`mask` $mask^)? (`cachePolicy` `=` $cachePolicy^)? attr-dict"
        " `:` type($src) `->` type($dst)"
    )
    traits = _BOTH


@irdl_op_definition
class AsyncTDMCopyGlobalToLocalOp(IRDLOperation):
    """Copy the descriptor's block to shared memory; arrive at `barrier` when it is there."""

    name = "amdg.async_tdm_copy_global_to_local"
    desc = operand_def(TENSOR_DESC)
    result = operand_def(MEMDESC)
    barrier = opt_operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    warp_used_hint = opt_prop_def(I32_ATTR)
    token = result_def(_TOKEN)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `into` $result (`,` `barrier` `=` $barrier^)? attr-dict"
        " `:` type($desc) (`,` type($barrier)^)? `->` type($result)"
    )
    traits = _BOTH


@irdl_op_definition
class AsyncTDMFusedCopyGlobalToLocalOp(IRDLOperation):
    """Several copies in one, each by the warps of its hint."""

    name = "amdg.async_tdm_fused_copy_global_to_local"
    descs = var_operand_def(TENSOR_DESC)
    dests = var_operand_def(MEMDESC)
    warp_used_hints = prop_def(DenseArrayBase.constr(i32))
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    token = result_def(_TOKEN)
    irdl_options = (SameVariadicOperandSize(), ParsePropInAttrDict())
    assembly_format = "$descs `into` $dests attr-dict `:` type($descs) `->` type($dests)"
    traits = _BOTH

    def verify_(self) -> None:
        check(
            len(self.warp_used_hints.get_values()) == len(self.descs),
            "needs a hint for every copy",
        )


@irdl_op_definition
class AsyncTDMCopyLocalToGlobalOp(IRDLOperation):
    """Copy shared memory to the descriptor's block."""

    name = "amdg.async_tdm_copy_local_to_global"
    desc = operand_def(TENSOR_DESC)
    src = operand_def(MEMDESC)
    barrier = opt_operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    ret_token = result_def(_TOKEN)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `from` $src (`,` `barrier` `=` $barrier^)? attr-dict"
        " `:` type($src) (`,` type($barrier)^)? `->` type($desc)"
    )
    traits = _BOTH


@irdl_op_definition
class AsyncTDMScatterOp(IRDLOperation):
    """Copy shared memory to rows of the descriptor's tensor."""

    name = "amdg.async_tdm_scatter"
    desc = operand_def(TENSOR_DESC)
    dst_row_indices = operand_def(I16_I32_TENSOR)
    src = operand_def(MEMDESC)
    barrier = opt_operand_def(MEMDESC)
    ret_token = result_def(_TOKEN)
    assembly_format = (
        "$desc `[` $dst_row_indices `]` `from` $src (`,` `barrier` `=` $barrier^)? attr-dict"
        " `:` type($dst_row_indices) `,` type($src) (`,` type($barrier)^)? `->` type($desc)"
    )
    traits = _BOTH


@irdl_op_definition
class AsyncTDMGatherOp(IRDLOperation):
    """Copy rows of the descriptor's tensor to shared memory."""

    name = "amdg.async_tdm_gather"
    desc = operand_def(TENSOR_DESC)
    src_row_indices = operand_def(I16_I32_TENSOR)
    dst = operand_def(MEMDESC)
    barrier = opt_operand_def(MEMDESC)
    token = result_def(_TOKEN)
    assembly_format = (
        "$desc `[` $src_row_indices `]` `to` $dst (`,` `barrier` `=` $barrier^)? attr-dict"
        " `:` type($src_row_indices) `,` type($dst) (`,` type($barrier)^)? `->` type($desc)"
    )
    traits = _BOTH


class _WaitOp(IRDLOperation):
    async_token = var_operand_def(_TOKEN)
    ret_token = result_def(_TOKEN)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($async_token^)? attr-dict"


@irdl_op_definition
class AsyncTDMWait(_WaitOp):
    """Wait until at most `num` ops of TDM are outstanding."""

    name = "amdg.async_tdm_wait"
    num = prop_def(I32_ATTR)


@irdl_op_definition
class AsyncTDMIntrinsicWait(_WaitOp):
    """Wait until at most `count` instructions of TDM are outstanding."""

    name = "amdg.async_tdm_intrinsic_wait"
    count = prop_def(I32_ATTR)


@irdl_op_definition
class AsyncWaitOp(_WaitOp):
    """Wait until at most `num_inst` asynchronous instructions are outstanding."""

    name = "amdg.async_wait"
    num_inst = prop_def(I32_ATTR)


@irdl_op_definition
class TDMPrefetchOp(IRDLOperation):
    """Bring a block of the descriptor's tensor into the second-level cache."""

    name = "amdg.tdm_prefetch"
    desc = operand_def(TENSOR_DESC)
    indices = var_operand_def(i32)
    pred = operand_def(i1)
    speculative = prop_def(BOOL_ATTR)
    return_offsets = opt_prop_def(UnitAttr, prop_name="returnOffsets")
    maybe_offsets = opt_result_def(TENSOR)
    assembly_format = (
        "$desc `[` $indices `]` `,` $pred `,` `speculative` `=` $speculative"
        " (`returnOffsets` $returnOffsets^)? attr-dict `:` type($desc)"
        " (`->` type($maybe_offsets)^)?"
    )
    traits = _BOTH


@irdl_op_definition
class UpdateTensorDescriptorOp(IRDLOperation):
    """The descriptor moved by offsets, with other bounds, or with a predicate."""

    name = "amdg.update_tensor_descriptor"
    D: ClassVar = VarConstraint("D", TENSOR_DESC)
    desc = operand_def(D)
    add_offsets = var_operand_def(i32)
    set_bounds = var_operand_def(i32)
    pred = opt_operand_def(i32)
    clamp_bounds = opt_prop_def(UnitAttr)
    result = result_def(D)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$desc (`add_offsets` `=` `[` $add_offsets^ `]`)? (`set_bounds` `=` `[` $set_bounds^ `]`)?"
        " (`pred` `=` $pred^)? attr-dict `:` type($desc)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        assert isinstance(self.desc.type, TensorDescType)
        rank = len(self.desc.type.get_shape())
        for what, group in (("add_offsets", self.add_offsets), ("set_bounds", self.set_bounds)):
            check(
                len(group) in (0, rank),
                f"expected {rank} {what} to match descriptor rank, got {len(group)}",
            )
        check(
            bool(self.add_offsets or self.set_bounds) or self.pred is not None,
            "must provide at least one of add_offsets, set_bounds, or pred",
        )
        if self.clamp_bounds is not None:
            check(bool(self.add_offsets), "clamp_bounds requires add_offsets")
            check(not self.set_bounds, "clamp_bounds and set_bounds are mutually exclusive")


class _BarrierOp(IRDLOperation):
    traits = _BOTH

    def verify_(self) -> None:
        type_ = self.operands[0].type
        assert isinstance(type_, MemDescType)
        check(tuple(type_.get_shape())[-1:] == (1,), "a barrier is a descriptor of one i64")


@irdl_op_definition
class InitBarrierOp(_BarrierOp):
    """Initialise an mbarrier for `count` arrivals."""

    name = "amdg.init_barrier"
    alloc = operand_def(MEMDESC)
    count = prop_def(I32_TYPED)
    assembly_format = "$alloc `,` $count attr-dict `:` type($alloc)"


@irdl_op_definition
class WaitBarrierOp(_BarrierOp):
    """Wait until the barrier's phase is over."""

    name = "amdg.wait_barrier"
    alloc = operand_def(MEMDESC)
    phase = operand_def(i32)
    assembly_format = "$alloc `,` $phase attr-dict `:` type($alloc)"


@irdl_op_definition
class ArriveBarrierOp(_BarrierOp):
    """Arrive `count` times; gives the parity of the phase before."""

    name = "amdg.arrive_barrier"
    alloc = operand_def(MEMDESC)
    count = prop_def(I32_TYPED)
    result = result_def(i32)
    assembly_format = "$alloc `,` $count attr-dict `:` type($alloc) `->` type($result)"

    def verify_(self) -> None:
        super().verify_()
        check(self.count.value.data >= 1, "count must be at least 1")


@irdl_op_definition
class AsyncCopyMbarrierArriveOp(_BarrierOp):
    """Arrive when all earlier copies of this thread to shared memory are done."""

    name = "amdg.async_copy_mbarrier_arrive"
    barrier = operand_def(MEMDESC)
    assembly_format = "$barrier attr-dict `:` type($barrier)"


@irdl_op_definition
class ClusterBarrierArriveOp(IRDLOperation):
    """Arrive at the cluster's barrier."""

    name = "amdg.cluster_barrier_arrive"
    assembly_format = "attr-dict"
    traits = _BOTH


@irdl_op_definition
class ClusterBarrierWaitOp(IRDLOperation):
    """Wait until all blocks of the cluster have arrived."""

    name = "amdg.cluster_barrier_wait"
    assembly_format = "attr-dict"
    traits = _BOTH
