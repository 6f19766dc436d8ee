"""`tt` ops on global memory: loads, stores, atomics, tensor descriptors, grid dependencies."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr, i32, i64
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
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import (
    BOOL_ATTR,
    FALSE,
    Derived,
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
    pointee_type_of,
)

_VALUE = Derived("P", pointee_type_of, "type does not match the pointer's pointee")
_MASK = Derived("P", same_shape_i1, "mask type does not match the pointer")
_PTR = VarConstraint("P", PTR_LIKE)
_ORDER = (keyword_directive(MemSemantic), keyword_directive(MemSyncScope))
_ORDER_FORMAT = "custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope) `,` "


@irdl_op_definition
class LoadOp(IRDLOperation):
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
    assembly_format = "$ptr (`,` $mask^)? (`,` $other^)? attr-dict `:` type($ptr)"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Store through a pointer or a tensor of pointers where `mask` holds."""

    name = "tt.store"
    P: ClassVar = _PTR
    ptr = operand_def(P)
    value = operand_def(_VALUE)
    mask = opt_operand_def(_MASK)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    ignore_cta = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ptr `,` $value (`,` $mask^)? attr-dict `:` type($ptr)"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class AtomicLoadOp(IRDLOperation):
    """Atomic load. An observable synchronisation, hence a write effect too."""

    name = "tt.atomic_load"
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
class AtomicStoreOp(IRDLOperation):
    """Atomic store."""

    name = "tt.atomic_store"
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
class AtomicPollOp(IRDLOperation):
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


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """Atomic read-modify-write; gives the old value."""

    name = "tt.atomic_rmw"
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
class AtomicCASOp(IRDLOperation):
    """Atomic compare-and-swap: store `val` if the old value equals `cmp`; gives the old value."""

    name = "tt.atomic_cas"
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


@irdl_custom_directive
class BareTypes(CustomDirective):
    """A pointer type and a descriptor type without their names, `<f32>, <64x32xf32>`, as ODS prints
    `type(...)` of an operand that can only have one type class. The full spelling parses too."""

    base: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        for directive, cls in ((self.base, PointerType), (self.result, TensorDescType)):
            if directive is self.result:
                parser.parse_punctuation(",")
            full = parser.parse_optional_type()
            directive.set(state, (full or cls.new(cls.parse_parameters(parser)),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        for directive in (self.base, self.result):
            if directive is self.result:
                printer.print_string(", ")
            (type_,) = directive.get(op)
            assert isinstance(type_, PointerType | TensorDescType)
            type_.print_parameters(printer)


@irdl_op_definition
class MakeTensorDescOp(IRDLOperation):
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
        " custom<BareTypes>(type($base), type($result))"
    )
    custom_directives = (BareTypes,)
    traits = traits_def(Pure())


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """Load the block at `indices` (elements); out of bounds gives the descriptor's padding."""

    name = "tt.descriptor_load"
    desc = operand_def(TENSOR_DESC)
    indices = var_operand_def(i32)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `[` $indices `]` attr-dict `:` type($desc) `->` type($result)"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class DescriptorStoreOp(IRDLOperation):
    """Store the block at `indices`; elements out of bounds are dropped."""

    name = "tt.descriptor_store"
    desc = operand_def(TENSOR_DESC)
    src = operand_def(TENSOR)
    indices = var_operand_def(i32)
    assembly_format = "$desc `[` $indices `]` `,` $src attr-dict `:` type($desc) `,` type($src)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class DescriptorReduceOp(IRDLOperation):
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


@irdl_op_definition
class DescriptorGatherOp(IRDLOperation):
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


@irdl_op_definition
class DescriptorScatterOp(IRDLOperation):
    """The store that mirrors `tt.descriptor_gather`."""

    name = "tt.descriptor_scatter"
    desc = operand_def(TENSOR_DESC)
    x_offsets = operand_def(I16_I32_TENSOR)
    y_offset = operand_def(i32)
    src = operand_def(TENSOR)
    assembly_format = "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type(operands)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class GridDependencyWaitOp(IRDLOperation):
    """Wait for the grids this one depends on, and acquire what they wrote."""

    name = "tt.grid_dependency_wait"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class GridDependencyLaunchDependentsOp(IRDLOperation):
    """Let grids that depend on this one start."""

    name = "tt.grid_dependency_launch_dependents"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryWriteEffect())
