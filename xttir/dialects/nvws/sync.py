"""Ops of `nvws` that move data between partitions: tokens, and loads into shared memory."""

from __future__ import annotations

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from xttir.dialects.nvws.types import TOKENS, TokenLoadType
from xttir.dialects.ods import I32_ATTR, enum_attr
from xttir.dialects.tt.types import TENSOR_DESC
from xttir.dialects.tt.versions import CacheHints
from xttir.dialects.ttg.types import I32_TENSOR, I32_TYPED, MEMDESC


@irdl_op_definition
class CreateTokenOp(IRDLOperation):
    """`numBuffers` tokens, which the producer may acquire first."""

    name = "nvws.create_token"
    num_buffers = prop_def(I32_ATTR, prop_name="numBuffers")
    load_type = prop_def(enum_attr(TokenLoadType), prop_name="loadType")
    result = result_def(TOKENS)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"


class _TokenWaitOp(IRDLOperation):
    token = operand_def(TOKENS)
    idx = operand_def(i32)
    phase = operand_def(i1)
    assembly_format = "$token `,` $idx `,` $phase attr-dict `:` type(operands)"


class _TokenHandOverOp(IRDLOperation):
    token = operand_def(TOKENS)
    idx = operand_def(i32)
    assembly_format = "$token `,` $idx attr-dict `:` type(operands)"


@irdl_op_definition
class ProducerAcquireOp(_TokenWaitOp):
    """Wait until buffer `idx` may be filled."""

    name = "nvws.producer_acquire"


@irdl_op_definition
class ProducerCommitOp(_TokenHandOverOp):
    """Hand buffer `idx`, now filled, to the consumer."""

    name = "nvws.producer_commit"


@irdl_op_definition
class ConsumerWaitOp(_TokenWaitOp):
    """Wait until buffer `idx` is filled."""

    name = "nvws.consumer_wait"


@irdl_op_definition
class ConsumerReleaseOp(_TokenHandOverOp):
    """Give buffer `idx` back to the producer."""

    name = "nvws.consumer_release"


@irdl_op_definition
class CLCTryCancelOp(IRDLOperation):
    """Ask for the work of a cluster not yet launched; the answer goes to shared memory."""

    name = "nvws.clc_try_cancel"
    result = operand_def(MEMDESC)
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """`tt.descriptor_load` into shared memory; `txCount` bytes come."""

    name = "nvws.descriptor_load"
    desc = operand_def(TENSOR_DESC)
    indices = var_operand_def(i32)
    tx_count = prop_def(I32_TYPED, prop_name="txCount")
    result = operand_def(MEMDESC)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `[` $indices `]` $txCount $result custom<CacheHints>() attr-dict `:` type(operands)"
    )
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class DescriptorGatherOp(IRDLOperation):
    """`tt.descriptor_gather` into shared memory; `txCount` bytes come."""

    name = "nvws.descriptor_gather"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I32_TENSOR)
    y_offset = operand_def(i32)
    tx_count = prop_def(I32_TYPED, prop_name="txCount")
    result = operand_def(MEMDESC)
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` $txCount $result attr-dict `:` type(operands)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
