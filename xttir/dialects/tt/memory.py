"""`tt` ops on global memory: loads, stores, atomics, tensor descriptors, grid dependencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute
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
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    Derived,
    bare_type,
    element_type_of,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.enums import (
    DescriptorReduceKind,
    MemSemantic,
    MemSyncScope,
    PaddingOption,
    RMWOp,
)
from xttir.dialects.tt.traits import TTOp, check
from xttir.dialects.tt.types import (
    BOOL_LIKE,
    I16_I32_TENSOR,
    INT_LIKE,
    PTR,
    PTR_LIKE,
    TENSOR,
    TENSOR_DESC,
    PointerType,
    TensorDescType,
    bit_width,
    pointee_type_of,
)
from xttir.dialects.tt.versions import CacheHints

_VALUE = Derived("P", pointee_type_of, "type does not match the pointer's pointee")
_MASK = Derived("P", same_shape_i1, "mask type does not match the pointer")
_PTR = VarConstraint("P", PTR_LIKE)
_ORDER = (keyword_directive(MemSemantic), keyword_directive(MemSyncScope))
_ORDER_FORMAT = "custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope) `,` "


_CACHE_POLICIES = ("tt.cache_policy", "ttng.cache_policy")


def check_cache_policy(policy: Attribute | None) -> None:
    """Cache hints are those of Triton or of a target."""
    check(
        policy is None or policy.name in _CACHE_POLICIES,
        f"unsupported cache policy attribute {policy}",
    )


def _check_semantics(sem: IntegerAttr, *allowed: MemSemantic) -> None:
    check(
        MemSemantic.of(sem) in allowed,
        f"only supports {' and '.join(case.keyword for case in allowed)} semantics",
    )


def check_block(desc: TensorDescType, element: Attribute, shape: Sequence[int]) -> None:
    """A block of `desc` and what holds it must agree in element type and number of elements."""
    block = desc.block_type
    check(
        block.element_type == element,
        lambda: (
            f"descriptor block and tensor must have the same element type, but got {block}"
            f" and {element}"
        ),
    )
    check(
        math.prod(block.get_shape()) == math.prod(shape),
        lambda: (
            f"descriptor block and tensor must have the same number of elements, but got {block}"
            f" and {list(shape)}"
        ),
    )


def _check_block(desc: Attribute, tensor: Attribute) -> None:
    assert isinstance(desc, TensorDescType)
    assert isinstance(tensor, TensorType)
    check_block(desc, tensor.element_type, tensor.get_shape())


def check_rows(
    desc: TensorDescType, element: Attribute, shape: Sequence[int], offsets: TensorType
) -> None:
    """What hardware asks of gathers and scatters of rows into (or from) what has `shape`."""
    block = desc.block_type
    extents = block.get_shape()
    check(len(extents) == 2, lambda: f"descriptor block must be a 2D tensor, but got {block}")
    check(extents[0] == 1, lambda: f"descriptor block must have exactly 1 row, but got {block}")
    check(offsets.get_num_dims() == 1, lambda: f"x offsets must be a 1D tensor, but got {offsets}")
    check(len(shape) == 2, f"result must be a 2D tensor, but got {list(shape)}")
    rows, columns = shape
    width = bit_width(element)
    check(rows >= 8, f"must have at least 8 rows, but got {rows}")
    check(width <= 32, "TMA dtype cannot be greater than 32 bits")
    least = 32 // width * 8
    check(
        columns >= least,
        lambda: f"must have at least {least} columns for {element}, but got {columns}",
    )
    check(
        rows == offsets.get_shape()[0],
        lambda: f"result tensor must have as many rows as indices, but got {rows} and {offsets}",
    )
    check(
        columns == extents[1],
        lambda: (
            f"result tensor must have as many columns as the block, but got {columns} and {block}"
        ),
    )
    check(
        element == block.element_type,
        lambda: f"result and block must have the same element type, but got {element} and {block}",
    )


def _check_rows(desc: Attribute, tensor: Attribute, offsets: Attribute) -> None:
    assert isinstance(desc, TensorDescType)
    assert isinstance(tensor, TensorType)
    assert isinstance(offsets, TensorType)
    check_rows(desc, tensor.element_type, tensor.get_shape(), offsets)


@irdl_op_definition
class LoadOp(TTOp):
    """Load through a pointer or a tensor of pointers; masked-off lanes give `other`."""

    name = "tt.load"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    mask = opt_operand_def(_MASK)
    other = opt_operand_def(_VALUE)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = prop_def(BOOL_ATTR, default_value=FALSE, prop_name="isVolatile")
    result = result_def(_VALUE)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$ptr (`,` $mask^)? (`,` $other^)? custom<CacheHints>() attr-dict `:` type($ptr)"
    )
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        check(self.other is None or self.mask is not None, "`other` is given without a mask")
        check_cache_policy(self.cache_policy)


@irdl_op_definition
class StoreOp(TTOp):
    """Store through a pointer or a tensor of pointers where `mask` holds."""

    name = "tt.store"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    value = operand_def(_VALUE)
    mask = opt_operand_def(_MASK)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    ignore_cta = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ptr `,` $value (`,` $mask^)? custom<CacheHints>() attr-dict `:` type($ptr)"
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        check_cache_policy(self.cache_policy)


class AtomicLoadForm(IRDLOperation):
    """The form of `tt.atomic_load`, and of `tti`'s record of it."""

    P: ClassVar = _PTR
    ptr = operand_def(P)
    mask = opt_operand_def(_MASK)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(_VALUE)
    custom_directives = _ORDER
    assembly_format = (
        _ORDER_FORMAT + "$ptr (`,` $mask^)? attr-dict `:` functional-type(operands, $result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AtomicLoadOp(AtomicLoadForm, TTOp):
    """Atomic load. An observable synchronisation, hence a write effect too."""

    name = "tt.atomic_load"

    def verify_(self) -> None:
        _check_semantics(self.sem, MemSemantic.ACQUIRE, MemSemantic.RELAXED)


class AtomicStoreForm(IRDLOperation):
    """The form of `tt.atomic_store`, and of `tti`'s record of it."""

    P: ClassVar = _PTR
    ptr = operand_def(P)
    value = operand_def(_VALUE)
    mask = opt_operand_def(_MASK)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    custom_directives = _ORDER
    assembly_format = _ORDER_FORMAT + "$ptr `,` $value (`,` $mask^)? attr-dict `:` type($ptr)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class AtomicStoreOp(AtomicStoreForm, TTOp):
    """Atomic store."""

    name = "tt.atomic_store"

    def verify_(self) -> None:
        _check_semantics(self.sem, MemSemantic.RELEASE, MemSemantic.RELAXED)


@irdl_op_definition
class AtomicPollOp(TTOp):
    """Load until the value equals `expected` or `timeout` (ns) expires; gives whether it did."""

    name = "tt.atomic_poll"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    expected = operand_def(_VALUE & INT_LIKE)
    timeout = opt_operand_def(i64)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(_MASK & BOOL_LIKE)
    custom_directives = _ORDER
    assembly_format = (
        _ORDER_FORMAT + "$ptr `,` $expected (`timeout` $timeout^)? attr-dict"
        " `:` type($ptr) `,` type($expected) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _check_semantics(self.sem, MemSemantic.ACQUIRE, MemSemantic.RELAXED)
        check(
            bit_width(element_type_of(self.expected.type)) in (16, 32, 64),
            "only supports integer elements with width {16, 32, 64}",
        )


class AtomicRMWForm(IRDLOperation):
    """The form of `tt.atomic_rmw`, and of `tti`'s record of it."""

    P: ClassVar = _PTR
    atomic_rmw_op = prop_def(enum_attr(RMWOp))
    ptr = operand_def(P)
    val = operand_def(_VALUE)
    mask = opt_operand_def(_MASK)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(_VALUE)
    custom_directives = (keyword_directive(RMWOp), *_ORDER)
    assembly_format = (
        "custom<RMWOp>($atomic_rmw_op) `,` " + _ORDER_FORMAT + "$ptr `,` $val (`,` $mask^)?"
        " attr-dict `:` functional-type(operands, $result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AtomicRMWOp(AtomicRMWForm, TTOp):
    """Atomic read-modify-write; gives the old value."""

    name = "tt.atomic_rmw"


class AtomicCASForm(IRDLOperation):
    """The form of `tt.atomic_cas`, and of `tti`'s record of it."""

    P: ClassVar = _PTR
    ptr = operand_def(P)
    cmp = operand_def(_VALUE)
    val = operand_def(_VALUE)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(_VALUE)
    custom_directives = _ORDER
    assembly_format = (
        _ORDER_FORMAT + "$ptr `,` $cmp `,` $val attr-dict `:` functional-type(operands, $result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AtomicCASOp(AtomicCASForm, TTOp):
    """Atomic compare-and-swap: store `val` if the old value equals `cmp`; gives the old value."""

    name = "tt.atomic_cas"


@irdl_op_definition
class MakeTensorDescOp(TTOp):
    """A descriptor of a tensor in global memory, read and written in blocks."""

    name = "tt.make_tensor_descriptor"
    base = operand_def(PTR)
    shape = var_operand_def(i32)
    strides = var_operand_def(i64)
    padding = prop_def(enum_attr(PaddingOption), default_value=PaddingOption.PAD_ZERO.attr)
    result = result_def(TENSOR_DESC)
    irdl_options = (SameVariadicOperandSize(), ParsePropInAttrDict())
    assembly_format = (
        "$base `,` `[` $shape `]` `,` `[` $strides `]` attr-dict `:`"
        " custom<BarePointerType>(type($base)) `,` custom<BareTensorDescType>(type($result))"
    )
    custom_directives = (bare_type(PointerType), bare_type(TensorDescType))
    traits = traits_def(Pure())


@irdl_op_definition
class DescriptorLoadOp(TTOp):
    """Load the block at `indices` (elements); out of bounds gives the descriptor's padding."""

    name = "tt.descriptor_load"
    desc = operand_def(TENSOR_DESC)
    indices = var_operand_def(i32)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$desc `[` $indices `]` custom<CacheHints>() attr-dict `:` type($desc) `->` type($result)"
    )
    custom_directives = (CacheHints,)
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        _check_block(self.desc.type, self.result.type)


@irdl_op_definition
class DescriptorStoreOp(TTOp):
    """Store the block at `indices`; elements out of bounds are dropped."""

    name = "tt.descriptor_store"
    desc = operand_def(TENSOR_DESC)
    src = operand_def(TENSOR)
    indices = var_operand_def(i32)
    assembly_format = "$desc `[` $indices `]` `,` $src attr-dict `:` type($desc) `,` type($src)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _check_block(self.desc.type, self.src.type)


@irdl_op_definition
class DescriptorReduceOp(TTOp):
    """Combine a block into memory with `kind`."""

    name = "tt.descriptor_reduce"
    kind = prop_def(enum_attr(DescriptorReduceKind))
    desc = operand_def(TENSOR_DESC)
    src = operand_def(TENSOR)
    indices = var_operand_def(i32)
    custom_directives = (keyword_directive(DescriptorReduceKind),)
    assembly_format = (
        "custom<DescriptorReduceKind>($kind) `,` $desc `[` $indices `]` `,` $src"
        " attr-dict `:` type($desc) `,` type($src)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _check_block(self.desc.type, self.src.type)


@irdl_op_definition
class DescriptorGatherOp(TTOp):
    """Rows `x_offsets` of a descriptor of one-row blocks, from column `y_offset`."""

    name = "tt.descriptor_gather"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I16_I32_TENSOR)
    y_offset = operand_def(i32)
    result = result_def(TENSOR)
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` attr-dict `:` functional-type(operands, results)"
    )
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        _check_rows(self.desc.type, self.result.type, self.x_offsets.type)


@irdl_op_definition
class DescriptorScatterOp(TTOp):
    """The store that mirrors `tt.descriptor_gather`."""

    name = "tt.descriptor_scatter"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I16_I32_TENSOR)
    y_offset = operand_def(i32)
    src = operand_def(TENSOR)
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _check_rows(self.desc.type, self.src.type, self.x_offsets.type)


@irdl_op_definition
class GridDependencyWaitOp(TTOp):
    """Wait for the grids this one depends on, and acquire what they wrote."""

    name = "tt.grid_dependency_wait"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class GridDependencyLaunchDependentsOp(TTOp):
    """Let grids that depend on this one start."""

    name = "tt.grid_dependency_launch_dependents"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryWriteEffect())
