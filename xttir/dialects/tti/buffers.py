"""Ops of `tti` that the concurrency sanitizer inserts: addresses of buffers, locks, checks."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i1, i32
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.layouts.encodings import SHARED_ENCODINGS
from xttir.dialects.memory_access import GlobalAccess
from xttir.dialects.ods import I32_ATTR, bare_type, enum_attr, keyword_directive
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import INT_TENSOR, PTR_LIKE, TENSOR
from xttir.dialects.ttg.types import I32_ARRAY, I32_TYPED, MEMDESC, MemDescType
from xttir.dialects.tti.types import MemType

_KIND = keyword_directive(MemType)


@irdl_op_definition
class ExperimentalAssertUniformOp(IRDLOperation):
    """Stop with `message` unless `condition`, which all threads agree on."""

    name = "tti.experimental_assert_uniform"
    condition = operand_def(i1)
    message = prop_def(StringAttr)
    assembly_format = "$condition `,` $message attr-dict-with-keyword"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class ExperimentalBufferDescriptorsOp(IRDLOperation):
    """A tensor of buffers, each an i64 of a 32-bit offset and a 32-bit length."""

    name = "tti.experimental_buffer_descriptors"
    offsets = prop_def(I32_ARRAY)
    lengths = prop_def(I32_ARRAY)
    mem_type = prop_def(enum_attr(MemType), prop_name="memType")
    result = result_def(TENSOR)
    custom_directives = (_KIND,)
    assembly_format = (
        "$offsets `,` $lengths `,` custom<MemType>($memType) attr-dict `:` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class ExperimentalMemDescToI32Op(IRDLOperation):
    """The address of a memory descriptor."""

    name = "tti.experimental_memdesc_to_i32"
    memdesc = operand_def(MEMDESC)
    result = result_def(i32)
    custom_directives = (bare_type(MemDescType),)
    assembly_format = "$memdesc attr-dict `:` custom<BareMemDescType>(type($memdesc))"
    traits = traits_def(Pure())


@irdl_op_definition
class ExperimentalMemoryOffsetToI32Op(IRDLOperation):
    """The address `offset` after the base of a memory."""

    name = "tti.experimental_memory_offset_to_i32"
    offset = prop_def(I32_TYPED)
    mem_type = prop_def(enum_attr(MemType), prop_name="memType")
    result = result_def(i32)
    custom_directives = (_KIND,)
    assembly_format = "$offset `,` custom<MemType>($memType) attr-dict"
    traits = traits_def(Pure())


@irdl_op_definition
class ExperimentalClusterCTAIdOp(IRDLOperation):
    """The index of the CTA in its cluster."""

    name = "tti.experimental_cluster_cta_id"
    result = result_def(i32)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class ExperimentalLocalGatherOp(IRDLOperation):
    """`ttg.local_gather` from a place shifted by `offsets`, one for each dimension."""

    name = "tti.experimental_local_gather"
    src = operand_def(MEMDESC)
    indices = operand_def(INT_TENSOR)
    offsets = var_operand_def(i32)
    axis = prop_def(I32_ATTR)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$src `[` $indices `]` `offsets` `=` `[` $offsets `]` attr-dict"
        " `:` type($src) `,` type($indices) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        source, indices, result = self.src.type, self.indices.type, self.result.type
        assert isinstance(source, MemDescType)
        assert isinstance(indices, TensorType)
        assert isinstance(result, TensorType)
        rank, axis = len(source.get_shape()), self.axis.value.data
        check(
            isinstance(source.encoding, SHARED_ENCODINGS),
            "source must have shared memory encoding",
        )
        check(
            isinstance(indices.element_type, IntegerType),
            "indices must have integer element type",
        )
        check(indices.get_shape() == result.get_shape(), "result shape must match indices shape")
        check(rank == len(indices.get_shape()), "source and indices must have the same rank")
        check(0 <= axis < rank, f"axis {axis} is out of bounds for source rank {rank}")
        check(
            source.element_type == result.element_type,
            "result element type must match source element type",
        )
        check(indices.encoding == result.encoding, "indices and result must have the same layout")
        check(len(self.offsets) == rank, "offset count must match source rank")


@irdl_op_definition
class ExperimentalLockAcquireOp(IRDLOperation):
    """Enter a critical section, where `pred` holds."""

    name = "tti.experimental_lock_acquire"
    lock = operand_def(PTR_LIKE)
    pred = opt_operand_def(i1)
    assembly_format = "$lock (`,` $pred^)? attr-dict `:` type($lock)"
    traits = traits_def(MemoryWriteEffect(), GlobalAccess("atomic"))


@irdl_op_definition
class ExperimentalLockReleaseOp(IRDLOperation):
    """Leave a critical section, where `pred` holds."""

    name = "tti.experimental_lock_release"
    lock = operand_def(PTR_LIKE)
    pred = opt_operand_def(i1)
    assembly_format = "$lock (`,` $pred^)? attr-dict `:` type($lock)"
    traits = traits_def(MemoryWriteEffect(), GlobalAccess("atomic"))
