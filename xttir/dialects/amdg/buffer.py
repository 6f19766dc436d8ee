"""Ops of `amdg` that access global memory by a scalar pointer and a tensor of offsets."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I32, IntegerAttr, i1, i32
from xdsl.ir import Attribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    Check,
    Derived,
    bare_type,
    element_type_of,
    enum_attr,
    keyword_directive,
    same_shape_i1,
    with_element_type,
)
from xttir.dialects.tt.enums import CacheModifier, MemSemantic, MemSyncScope, RMWOp
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import PTR, TENSOR, int_of, pointee_type_of, tensor_of
from xttir.dialects.ttg.types import MEMDESC, AsyncTokenType, MemDescType

ONE = IntegerAttr(1, i32)
OFFSETS = Check("a tensor of i32", tensor_of(int_of(32)))


def same_shape_i32(type_: Attribute) -> Attribute:
    """i32, in the shape and encoding of `type_`."""
    return with_element_type(type_, i32)


_MASK = Derived("T", same_shape_i1, "mask is not i1 in the shape of the value")
_OFFSETS = Derived("T", same_shape_i32, "offsets are not i32 in the shape of the value")


class _BufferOp(IRDLOperation):
    """Base of the ops whose values have the pointer's element type."""

    def verify_(self) -> None:
        pointer, value = self.ptr.type, self.value_type()  # pyright: ignore
        check(
            pointee_type_of(pointer) == element_type_of(value),
            f"element type of {value} does not match the pointed type of {pointer}",
        )

    def value_type(self) -> Attribute:
        """The type of what is loaded or stored."""
        return self.results[0].type


@irdl_op_definition
class BufferLoadOp(_BufferOp):
    """Load at `ptr + offsets`; `other` where the mask is false."""

    name = "amdg.buffer_load"
    T: ClassVar = VarConstraint("T", TENSOR)
    ptr = operand_def(PTR)
    offsets = operand_def(_OFFSETS)
    stride = opt_operand_def(i32)
    mask = opt_operand_def(_MASK)
    other = opt_operand_def(T)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    contiguity = prop_def(I32_ATTR, default_value=ONE)
    result = result_def(T)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$ptr `[` $offsets `]` (`,` $mask^)? (`,` $other^)? (`stride` `=` $stride^)? attr-dict"
        " `:` type($ptr) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class BufferStoreOp(_BufferOp):
    """Store `value` at `ptr + offsets` where the mask is true."""

    name = "amdg.buffer_store"
    T: ClassVar = VarConstraint("T", TENSOR)
    value = operand_def(T)
    ptr = operand_def(PTR)
    offsets = operand_def(_OFFSETS)
    stride = opt_operand_def(i32)
    mask = opt_operand_def(_MASK)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    contiguity = prop_def(I32_ATTR, default_value=ONE)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$value `,` $ptr `[` $offsets `]` (`,` $mask^)? (`stride` `=` $stride^)? attr-dict"
        " `:` type($ptr) `->` type($value)"
    )
    traits = traits_def(MemoryWriteEffect())

    def value_type(self) -> Attribute:
        return self.value.type


@irdl_op_definition
class BufferAtomicRMWOp(_BufferOp):
    """Atomic read-modify-write at `ptr + offsets`; gives the old values."""

    name = "amdg.buffer_atomic_rmw"
    T: ClassVar = VarConstraint("T", TENSOR)
    atomic_rmw_op = prop_def(enum_attr(RMWOp))
    ptr = operand_def(PTR)
    offsets = operand_def(_OFFSETS)
    value = operand_def(T)
    stride = opt_operand_def(i32)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    mask = opt_operand_def(_MASK)
    result = result_def(T)
    custom_directives = tuple(map(keyword_directive, (RMWOp, MemSemantic, MemSyncScope)))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "custom<RMWOp>($atomic_rmw_op) `,` custom<MemSemantic>($sem) `,`"
        " custom<MemSyncScope>($scope) `,` $value `,` $ptr `[` $offsets `]` (`,` $mask^)?"
        " (`stride` `=` $stride^)? attr-dict `:` type($ptr) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class BufferAtomicCASOp(_BufferOp):
    """Atomic compare-and-swap at `ptr + offsets`; gives the old values."""

    name = "amdg.buffer_atomic_cas"
    T: ClassVar = VarConstraint("T", TENSOR)
    ptr = operand_def(PTR)
    offsets = operand_def(_OFFSETS)
    cmp = operand_def(T)
    val = operand_def(T)
    stride = opt_operand_def(i32)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(T)
    custom_directives = tuple(map(keyword_directive, (MemSemantic, MemSyncScope)))
    assembly_format = (
        "custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope) `,` $cmp `,` $val `,`"
        " $ptr `[` $offsets `]` (`stride` `=` $stride^)? attr-dict"
        " `:` type($ptr) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class BufferLoadToLocalOp(IRDLOperation):
    """Copy from `ptr + offsets` to shared memory, asynchronously."""

    name = "amdg.buffer_load_to_local"
    T: ClassVar = VarConstraint("T", OFFSETS)
    dest = operand_def(MEMDESC)
    ptr = operand_def(PTR)
    offsets = operand_def(T)
    mask = opt_operand_def(Derived("T", same_shape_i1, "mask is not i1 in the offsets' shape"))
    other = opt_operand_def(TENSOR)
    stride = opt_operand_def(i32)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    contiguity = prop_def(I32_ATTR, default_value=ONE)
    token = result_def(AsyncTokenType())
    custom_directives = (bare_type(MemDescType),)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$ptr `[` $offsets `]` (`mask` `=` $mask^)? (`other` `=` $other^)?"
        " (`stride` `=` $stride^)? (`cachePolicy` `=` $cachePolicy^)? `into` $dest attr-dict"
        " `:` type($ptr) `[` type($offsets) `]` (type($other)^)? `->`"
        " custom<BareMemDescType>(type($dest))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        pointer, dest = self.ptr.type, self.dest.type
        assert isinstance(dest, MemDescType)
        check(
            pointee_type_of(pointer) == dest.element_type,
            f"element type of {dest} does not match the pointed type of {pointer}",
        )
        if self.other is not None:
            check(
                self.other.type == with_element_type(self.offsets.type, dest.element_type),
                f"type of other {self.other.type} does not match offsets and pointer",
            )


_CACHE = IntegerAttr[I32](CacheModifier.NONE, i32)


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """A load of LLVM's: `falseVal` where the mask is false."""

    name = "amdg.masked_load"
    ptr = operand_def()
    mask = operand_def(i1)
    false_val = operand_def()
    multicast_mask = opt_operand_def(i32)
    cache = prop_def(enum_attr(CacheModifier), default_value=_CACHE)
    force_no_alias = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="forceNoAlias")
    result = result_def()
    custom_directives = (keyword_directive(CacheModifier),)
    assembly_format = (
        "$ptr `,` $mask `,` $false_val (`,` $multicast_mask^)?"
        " (`cacheModifier` `=` custom<CacheModifier>($cache)^)?"
        " (`forceNoAlias` $forceNoAlias^)? attr-dict `:` functional-type(operands, results)"
    )
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class MaskedStoreOp(IRDLOperation):
    """A store of LLVM's where the mask is true."""

    name = "amdg.masked_store"
    ptr = operand_def()
    value = operand_def()
    mask = operand_def(i1)
    cache = prop_def(enum_attr(CacheModifier), default_value=_CACHE)
    force_no_alias = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="forceNoAlias")
    custom_directives = (keyword_directive(CacheModifier),)
    assembly_format = (
        "$ptr `,` $value `,` $mask (`cacheModifier` `=` custom<CacheModifier>($cache)^)?"
        " (`forceNoAlias` $forceNoAlias^)? attr-dict `:` type(operands)"
    )
    traits = traits_def(MemoryWriteEffect())
