"""Ops of `tti` that the global-memory sanitizer inserts beside accesses and synchronisation."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import (
    BOOL_ATTR,
    I32_ATTR,
    TRUE,
    Derived,
    bare_type,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.enums import MemSemantic, MemSyncScope
from xttir.dialects.tt.memory import (
    AtomicCASForm,
    AtomicLoadForm,
    AtomicRMWForm,
    AtomicStoreForm,
)
from xttir.dialects.tt.traits import SameEncoding
from xttir.dialects.tt.types import BOOL_LIKE, PTR, PTR_LIKE, PointerType, pointee_type_of
from xttir.dialects.ttg.types import I32_ARRAY, I32_TENSOR, I32_TYPED, MEMDESC
from xttir.dialects.tti.values import BOOL_TYPED
from xttir.dialects.ttng.types import ANY_TENSOR_DESC

_PTR = VarConstraint("P", PTR_LIKE)
_VALUE = Derived("P", pointee_type_of, "type does not match the pointer's pointee")
_MASK = Derived("P", same_shape_i1, "mask type does not match the pointer")
_ORDER = (keyword_directive(MemSemantic), keyword_directive(MemSyncScope))
_PTR_TYPE = (bare_type(PointerType),)
_ORDER_FORMAT = "custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope) `,` "


@irdl_op_definition
class ExperimentalGSanInitOp(IRDLOperation):
    """Start the clock of a thread."""

    name = "tti.experimental_gsan_init"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExperimentalGSanKernelExitOp(IRDLOperation):
    """Publish the clock of a thread that is done."""

    name = "tti.experimental_gsan_kernel_exit"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanGridDependencyWaitOp(IRDLOperation):
    """Acquire the clocks of the grids waited for."""

    name = "tti.experimental_gsan_grid_dependency_wait"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanClusterBarrierInitOp(IRDLOperation):
    """Make the meeting place of a cluster barrier."""

    name = "tti.experimental_gsan_cluster_barrier_init"
    scratch = operand_def(PTR)
    custom_directives = _PTR_TYPE
    assembly_format = "$scratch attr-dict `:` custom<BarePointerType>(type($scratch))"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanClusterBarrierSyncOp(IRDLOperation):
    """Join the clocks of the CTAs of a cluster."""

    name = "tti.experimental_gsan_cluster_barrier_sync"
    scratch = operand_def(PTR)
    custom_directives = _PTR_TYPE
    assembly_format = "$scratch attr-dict `:` custom<BarePointerType>(type($scratch))"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanMBarrierTableInitOp(IRDLOperation):
    """Make the table of mbarriers."""

    name = "tti.experimental_gsan_mbarrier_table_init"
    scratch = operand_def(PTR)
    capacity = prop_def(I32_TYPED)
    custom_directives = _PTR_TYPE
    assembly_format = "$scratch `,` $capacity attr-dict `:` custom<BarePointerType>(type($scratch))"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanMBarrierInitOp(IRDLOperation):
    """Record that an mbarrier expects `expectedCount` arrivals."""

    name = "tti.experimental_gsan_mbarrier_init"
    scratch = operand_def(PTR)
    barrier = operand_def(MEMDESC)
    expected_count = prop_def(I32_TYPED, prop_name="expectedCount")
    custom_directives = _PTR_TYPE
    assembly_format = (
        "$scratch `,` $barrier `,` $expectedCount attr-dict"
        " `:` custom<BarePointerType>(type($scratch)) `,` type($barrier)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanMBarrierArriveOp(IRDLOperation):
    """Record an arrival at an mbarrier."""

    name = "tti.experimental_gsan_mbarrier_arrive"
    scratch = operand_def(PTR)
    barrier = operand_def(MEMDESC)
    pred = operand_def(i1)
    count = prop_def(I32_TYPED)
    multicast_masks = prop_def(I32_ARRAY, prop_name="multicastMasks")
    multicast = prop_def(BOOL_ATTR)
    source_broadcast_mask = prop_def(I32_ATTR, prop_name="sourceBroadcastMask")
    publish_clock = prop_def(BOOL_ATTR, default_value=TRUE, prop_name="publishClock")
    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = _PTR_TYPE
    assembly_format = (
        "$scratch `,` $barrier `,` $pred `,` $count attr-dict"
        " `:` custom<BarePointerType>(type($scratch)) `,` type($barrier)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanMBarrierWaitOp(IRDLOperation):
    """Acquire the clocks of a completed phase."""

    name = "tti.experimental_gsan_mbarrier_wait"
    scratch = operand_def(PTR)
    barrier = operand_def(MEMDESC)
    phase = operand_def(i32)
    pred = operand_def(i1)
    custom_directives = _PTR_TYPE
    assembly_format = (
        "$scratch `,` $barrier `,` $phase `,` $pred attr-dict"
        " `:` custom<BarePointerType>(type($scratch)) `,` type($barrier)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanTensorDescAccessOp(IRDLOperation):
    """Record a TMA access to a block."""

    name = "tti.experimental_gsan_tensordesc_access"
    desc = operand_def(ANY_TENSOR_DESC)
    coords = var_operand_def(i32)
    pred = opt_operand_def(i1)
    is_store = prop_def(BOOL_TYPED, prop_name="isStore")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$desc `[` $coords `]` `,` $isStore (`,` $pred^)? attr-dict `:` type($desc)"


@irdl_op_definition
class ExperimentalGSanIndexedTensorDescAccessOp(IRDLOperation):
    """Record a TMA gather or scatter of rows."""

    name = "tti.experimental_gsan_indexed_tensordesc_access"
    desc = operand_def(ANY_TENSOR_DESC)
    indices = operand_def(I32_TENSOR)
    offset = operand_def(i32)
    pred = opt_operand_def(i1)
    is_store = prop_def(BOOL_TYPED, prop_name="isStore")
    assembly_format = (
        "$desc `[` $indices `,` $offset `]` `,` $isStore (`,` $pred^)? attr-dict"
        " `:` type($desc) `,` type($indices)"
    )


@irdl_op_definition
class ExperimentalGSanAtomicTensorDescAccessOp(IRDLOperation):
    """Record an atomic TMA access to a block."""

    name = "tti.experimental_gsan_atomic_tensordesc_access"
    desc = operand_def(ANY_TENSOR_DESC)
    coords = var_operand_def(i32)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    custom_directives = _ORDER
    assembly_format = (
        "$desc `[` $coords `]` `,` custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope)"
        " attr-dict `:` type($desc)"
    )


@irdl_op_definition
class ExperimentalGSanTensorAccessOp(IRDLOperation):
    """Record an access through pointers."""

    name = "tti.experimental_gsan_tensor_access"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    mask = opt_operand_def(_MASK)
    is_store = prop_def(BOOL_TYPED, prop_name="isStore")
    assembly_format = "$ptr `,` $isStore (`,` $mask^)? attr-dict `:` type($ptr)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanAtomicLoadOp(AtomicLoadForm):
    """`tt.atomic_load`, recorded."""

    name = "tti.experimental_gsan_atomic_load"


@irdl_op_definition
class ExperimentalGSanAtomicStoreOp(AtomicStoreForm):
    """`tt.atomic_store`, recorded."""

    name = "tti.experimental_gsan_atomic_store"


@irdl_op_definition
class ExperimentalGSanAtomicPollOp(IRDLOperation):
    """Record the read of a `tt.atomic_poll` that is done."""

    name = "tti.experimental_gsan_atomic_poll"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    matched = operand_def(_MASK & BOOL_LIKE)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    custom_directives = _ORDER
    assembly_format = _ORDER_FORMAT + "$ptr `,` $matched attr-dict `:` type($ptr)"
    traits = traits_def(SameEncoding(), MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExperimentalGSanAtomicRMWOp(AtomicRMWForm):
    """`tt.atomic_rmw`, recorded."""

    name = "tti.experimental_gsan_atomic_rmw"


@irdl_op_definition
class ExperimentalGSanAtomicCASOp(AtomicCASForm):
    """`tt.atomic_cas`, recorded."""

    name = "tti.experimental_gsan_atomic_cas"


@irdl_op_definition
class ExperimentalGSanTensorDescInfoOp(IRDLOperation):
    """Triton 3.8 only: pointer, shape and strides of a descriptor."""

    name = "tti.experimental_gsan_tensordesc_info"
    desc = operand_def(ANY_TENSOR_DESC)
    result = var_result_def()
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class ExperimentalGSanAtomicTensorAccessOp(IRDLOperation):
    """Triton 3.8 only: record an atomic access through pointers."""

    name = "tti.experimental_gsan_atomic_tensor_access"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    mask = opt_operand_def(_MASK)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    custom_directives = _ORDER
    assembly_format = _ORDER_FORMAT + "$ptr (`,` $mask^)? attr-dict `:` type($ptr)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
