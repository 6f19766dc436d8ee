"""`tt` ops that rearrange tensors: splat, broadcast, reshape, trans, cat, join, split, gather."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect, Pure

from xttir.dialects.ods import I32_ATTR, Derived, element_type_of
from xttir.dialects.tt.types import ANY_TYPE, INT_TENSOR, TENSOR

_CAST = "$src attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A tensor whose elements are all `src`."""

    name = "tt.splat"
    src = operand_def(ANY_TYPE)
    result = result_def(TENSOR)
    assembly_format = _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The element of a tensor that has one."""

    name = "tt.unsplat"
    T: ClassVar = VarConstraint("T", TENSOR)
    src = operand_def(T)
    result = result_def(Derived("T", element_type_of, "result type is not the element type"))
    assembly_format = "$src attr-dict `:` type($src)"
    traits = traits_def(Pure())


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """A new dimension of extent 1 at `axis`."""

    name = "tt.expand_dims"
    src = operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Another shape of the same elements; `allow_reorder` lets the compiler permute them."""

    name = "tt.reshape"
    src = operand_def(TENSOR)
    allow_reorder = opt_prop_def(UnitAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TENSOR)
    assembly_format = (
        "$src (`allow_reorder` $allow_reorder^)? (`efficient_layout` $efficient_layout^)?"
        " attr-dict `:` type($src) `->` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Dimensions of extent 1 repeated."""

    name = "tt.broadcast"
    src = operand_def(TENSOR)
    result = result_def(TENSOR)
    assembly_format = _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class CatOp(IRDLOperation):
    """Concatenation of two tensors along dimension 0; the order of elements is not specified."""

    name = "tt.cat"
    T: ClassVar = VarConstraint("T", TENSOR)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TENSOR)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class JoinOp(IRDLOperation):
    """Two tensors side by side along a new last dimension of extent 2."""

    name = "tt.join"
    T: ClassVar = VarConstraint("T", TENSOR)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TENSOR)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class SplitOp(IRDLOperation):
    """`src[..., 0]` and `src[..., 1]`."""

    name = "tt.split"
    T: ClassVar = VarConstraint("T", TENSOR)
    src = operand_def(TENSOR)
    out_lhs = result_def(T)
    out_rhs = result_def(T)
    assembly_format = "$src attr-dict `:` type($src) `->` type($out_lhs)"
    traits = traits_def(Pure())


@irdl_op_definition
class TransOp(IRDLOperation):
    """Dimensions permuted: dimension i of the result is dimension `order[i]` of `src`."""

    name = "tt.trans"
    src = operand_def(TENSOR)
    order = prop_def(DenseArrayBase.constr(i32))
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _CAST
    traits = traits_def(Pure())


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`src` indexed by `indices` along `axis`."""

    name = "tt.gather"
    src = operand_def(TENSOR)
    indices = operand_def(INT_TENSOR)
    axis = prop_def(I32_ATTR)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src `[` $indices `]` attr-dict `:` functional-type(operands, results)"
    traits = traits_def(Pure())
