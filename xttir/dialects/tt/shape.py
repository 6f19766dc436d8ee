"""`tt` ops that rearrange tensors: splat, broadcast, reshape, trans, cat, join, split, gather."""

from __future__ import annotations

import math
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, TensorType, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
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

from xttir.dialects.layouts import inference
from xttir.dialects.ods import I32_ATTR, Derived, element_type_of, with_element_type
from xttir.dialects.tt.traits import (
    SameElementType,
    SameEncoding,
    TTOp,
    check,
    has_encoding,
    shape_text,
)
from xttir.dialects.tt.types import ANY_TYPE, INT_TENSOR, TENSOR


def _tensor(value: SSAValue) -> TensorType:
    """The type of a tensor value."""
    assert isinstance(value.type, TensorType)
    return value.type


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value."""
    return _tensor(value).get_shape()


_CAST = "$src attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class SplatOp(TTOp):
    """A tensor whose elements are all `src`."""

    name = "tt.splat"
    src = operand_def(ANY_TYPE)
    result = result_def(TENSOR)
    assembly_format = _CAST
    traits = traits_def(Pure(), SameElementType(), SameEncoding())


@irdl_op_definition
class UnsplatOp(TTOp):
    """The element of a tensor that has one."""

    name = "tt.unsplat"
    T: ClassVar = VarConstraint("T", TENSOR)
    src = operand_def(T)
    result = result_def(Derived("T", element_type_of, "result type is not the element type"))
    assembly_format = "$src attr-dict `:` type($src)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        check(math.prod(_shape(self.src)) == 1, "source tensor must have exactly one element")


@irdl_op_definition
class ExpandDimsOp(TTOp):
    """A new dimension of extent 1 at `axis`."""

    name = "tt.expand_dims"
    src = operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _CAST
    traits = traits_def(Pure(), SameElementType())

    def verify_(self) -> None:
        source, result, axis = _shape(self.src), _shape(self.result), self.axis.value.data
        check(0 <= axis <= len(source), f"axis {axis} is out of bounds for rank {len(source)}")
        check(
            result == (*source[:axis], 1, *source[axis:]),
            f"result shape {shape_text(result)} is not {shape_text(source)} with a 1 at {axis}",
        )
        if has_encoding(self.src.type) or has_encoding(self.result.type):
            inference.check_expand_dims(_tensor(self.src), axis, _tensor(self.result))


@irdl_op_definition
class ReshapeOp(TTOp):
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
    traits = traits_def(Pure(), SameElementType())

    def verify_(self) -> None:
        check(
            math.prod(_shape(self.src)) == math.prod(_shape(self.result)),
            "number of src and dst elements of reshape must be the same",
        )
        if has_encoding(self.src.type) or has_encoding(self.result.type):
            inference.check_reshape(
                _tensor(self.src), _tensor(self.result), self.allow_reorder is not None
            )


@irdl_op_definition
class BroadcastOp(TTOp):
    """Dimensions of extent 1 repeated."""

    name = "tt.broadcast"
    src = operand_def(TENSOR)
    result = result_def(TENSOR)
    assembly_format = _CAST
    traits = traits_def(Pure(), SameElementType())

    def verify_(self) -> None:
        source, result = _shape(self.src), _shape(self.result)
        check(len(source) == len(result), "rank of source must be same as rank of result")
        for i, (a, b) in enumerate(zip(source, result, strict=True)):
            check(
                a in (1, b),
                f"different dimensions at index {i} between source and result: "
                "broadcast requires the source dimension to be 1",
            )
        if has_encoding(self.src.type) or has_encoding(self.result.type):
            inference.check_broadcast(_tensor(self.src), _tensor(self.result))


@irdl_op_definition
class CatOp(TTOp):
    """Concatenation of two tensors along dimension 0; the order of elements is not specified."""

    name = "tt.cat"
    T: ClassVar = VarConstraint("T", TENSOR)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TENSOR)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
    traits = traits_def(NoMemoryEffect(), SameElementType())

    def verify_(self) -> None:
        check(
            math.prod(_shape(self.result)) == 2 * math.prod(_shape(self.lhs)),
            "result must have as many elements as both operands",
        )
        if has_encoding(self.lhs.type) or has_encoding(self.result.type):
            inference.check_cat(_tensor(self.lhs), _tensor(self.result))


@irdl_op_definition
class JoinOp(TTOp):
    """Two tensors side by side along a new last dimension of extent 2."""

    name = "tt.join"
    T: ClassVar = VarConstraint("T", TENSOR)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TENSOR)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = _shape(self.lhs), _shape(self.result)
        check(
            result == (*source, 2),
            f"result shape must be {shape_text((*source, 2))}, but got {shape_text(result)}",
        )
        check(
            element_type_of(self.lhs.type) == element_type_of(self.result.type),
            "result element type must match the input element type",
        )
        if has_encoding(self.lhs.type) or has_encoding(self.result.type):
            inference.check_join(_tensor(self.lhs), _tensor(self.result))


@irdl_op_definition
class SplitOp(TTOp):
    """`src[..., 0]` and `src[..., 1]`."""

    name = "tt.split"
    T: ClassVar = VarConstraint("T", TENSOR)
    src = operand_def(TENSOR)
    out_lhs = result_def(T)
    out_rhs = result_def(T)
    assembly_format = "$src attr-dict `:` type($src) `->` type($out_lhs)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = _shape(self.src), _shape(self.out_lhs)
        check(bool(source) and source[-1] == 2, "last dimension of input tensor must be 2")
        check(
            result == source[:-1]
            and element_type_of(self.src.type) == element_type_of(self.out_lhs.type),
            lambda: f"results of splitting {self.src.type} cannot be {self.out_lhs.type}",
        )
        if has_encoding(self.src.type) or has_encoding(self.out_lhs.type):
            inference.check_split(_tensor(self.src), _tensor(self.out_lhs))


@irdl_op_definition
class TransOp(TTOp):
    """Dimensions permuted: dimension i of the result is dimension `order[i]` of `src`."""

    name = "tt.trans"
    src = operand_def(TENSOR)
    order = prop_def(DenseArrayBase.constr(i32))
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = _CAST
    traits = traits_def(Pure(), SameElementType())

    def verify_(self) -> None:
        source, order = _shape(self.src), self.order.get_values()
        check(len(order) == len(source), "order must have the same size as the source tensor")
        check(sorted(order) == list(range(len(order))), "order must be a permutation of 0..n-1")
        check(
            _shape(self.result) == tuple(source[int(i)] for i in order),
            "result shape must match the permutation of the source shape",
        )
        if has_encoding(self.src.type) or has_encoding(self.result.type):
            numbers = [int(i) for i in order]
            inference.check_trans(_tensor(self.src), numbers, _tensor(self.result))


@irdl_op_definition
class GatherOp(TTOp):
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

    def verify_(self) -> None:
        source, indices, axis = _shape(self.src), _shape(self.indices), self.axis.value.data
        check(indices == _shape(self.result), "indices and output shapes must match")
        check(
            with_element_type(self.indices.type, element_type_of(self.src.type))
            == self.result.type,
            "the result must have the element type of the input and the encoding of the indices",
        )
        check(len(source) == len(indices), "input and indices ranks must match")
        check(0 <= axis < len(source), "gather dimension must be less than the input rank")
        for i, (a, b) in enumerate(zip(source, indices, strict=True)):
            check(
                i == axis or a == b,
                f"indices dimension {i} must match the corresponding input dimension",
            )
