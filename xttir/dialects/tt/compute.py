"""`tt` ops that make or combine tensors: ranges, program ids, dot, reduce, scan, histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsTerminator, Pure, ReturnLike
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.layouts import inference
from xttir.dialects.ods import (
    BOOL_ATTR,
    I32_ATTR,
    TRUE,
    Derived,
    element_type_of,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.dot_layouts import check_dot_layouts
from xttir.dialects.tt.enums import InputPrecision, ProgramIDDim, ScaleDotElemType
from xttir.dialects.tt.traits import (
    SameEncoding,
    SameOperandsShape,
    SameShape,
    TTOp,
    check,
    has_encoding,
    shape_of,
    shape_text,
)
from xttir.dialects.tt.types import (
    ANY_TYPE,
    FLOAT_I8_TENSOR,
    FLOAT_TENSOR,
    FP_INT_TENSOR,
    INT_TENSOR,
    TENSOR,
    bit_width,
)


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value."""
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def check_dot(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    """`DotOpInterface`: [batch x] M x K times [batch x] K x N gives [batch x] M x N."""
    check(len(a) in (2, 3), "expected operands to be 2d or 3d")
    check(len(a) == len(b) == len(c), "expected all operands to have the same rank")
    shapes = f"{shape_text(a)} * {shape_text(b)} -> {shape_text(c)}"
    check(
        a[-1] == b[-2],
        "expected the last dimension of the first operand to be equal to the second-to-last"
        f" dimension of the second operand: {shapes}",
    )
    check(
        a[:-2] == b[:-2] == c[:-2],
        "expected the first dimension of the operands to be equal to the first dimension of"
        f" the result: {shapes}",
    )
    check(
        c[-2:] == (a[-2], b[-1]),
        "expected the output shape to be the concatenation of the last dimension of the first"
        f" operand and the last dimension of the second: {shapes}",
    )


def check_fold(
    op: Operation,
    srcs: Sequence[SSAValue],
    results: Sequence[SSAValue],
    axis: IntegerAttr,
    region: Region,
    terminator: type[Operation],
) -> int:
    """What reductions and scans have in common. Returns the axis."""
    check(bool(srcs), "must have at least 1 operand")
    check(len(srcs) == len(results), "must have the same number of inputs as outputs")
    elements = [element_type_of(value.type) for value in srcs]
    for value in srcs:
        rank = len(_shape(value))
        check(0 <= axis.value.data < rank, f"axis out of bounds for operand rank {rank}")
    for element, result in zip(elements, results, strict=True):
        check(element == element_type_of(result.type), "operand types and result types must agree")
    block = region.block
    check(
        list(block.arg_types) == 2 * elements,
        f"nested block must take ({', '.join(map(str, 2 * elements))}),"
        f" but takes ({', '.join(map(str, block.arg_types))})",
    )
    last = block.last_op
    if not isinstance(last, terminator):
        raise VerifyException(f"combine operation must be terminated by {terminator.name}")
    check(
        list(last.operand_types) == elements,
        f"combine operation must return ({', '.join(map(str, elements))}),"
        f" but returns ({', '.join(map(str, last.operand_types))})",
    )
    return axis.value.data


_DIM = keyword_directive(ProgramIDDim)


@irdl_op_definition
class GetProgramIdOp(TTOp):
    """The program's index along a grid axis."""

    name = "tt.get_program_id"
    axis = prop_def(enum_attr(ProgramIDDim))
    result = result_def(i32)
    custom_directives = (_DIM,)
    assembly_format = "custom<ProgramIDDim>($axis) attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class GetNumProgramsOp(TTOp):
    """The extent of the grid along an axis."""

    name = "tt.get_num_programs"
    axis = prop_def(enum_attr(ProgramIDDim))
    result = result_def(i32)
    custom_directives = (_DIM,)
    assembly_format = "custom<ProgramIDDim>($axis) attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class MakeRangeOp(TTOp):
    """The integers `start` .. `end` - 1, as a 1-D tensor of i32."""

    name = "tt.make_range"
    start = prop_def(I32_ATTR)
    end = prop_def(I32_ATTR)
    result = result_def(INT_TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        start, end = self.start.value.data, self.end.value.data
        shape = _shape(self.result)
        check(start < end, f"start {start} must be less than end {end}")
        check(len(shape) == 1, "return type must be a 1D tensor")
        check(
            end - start == shape[0],
            f"number of elements in returned tensor, {shape[0]}, must match the size of the"
            f" range [{start}, {end}), which has {end - start} elements",
        )
        check(element_type_of(self.result.type) == i32, "returned tensor must have i32 elements")


@irdl_op_definition
class DotOp(TTOp):
    """`a @ b + c`. `input_precision` says how f32 operands go through tensor cores."""

    name = "tt.dot"
    D: ClassVar = VarConstraint("D", FP_INT_TENSOR)
    a = operand_def(FP_INT_TENSOR)
    b = operand_def(FP_INT_TENSOR)
    c = operand_def(D)
    input_precision = prop_def(
        enum_attr(InputPrecision),
        default_value=InputPrecision.IEEE.attr,
        prop_name="inputPrecision",
    )
    max_num_imprecise_acc = prop_def(
        I32_ATTR, default_value=IntegerAttr(0, i32), prop_name="maxNumImpreciseAcc"
    )
    d = result_def(D)
    custom_directives = (keyword_directive(InputPrecision),)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b `,` $c"
        " (`,` `inputPrecision` `=` custom<InputPrecision>($inputPrecision)^)?"
        " attr-dict `:` type($a) `*` type($b) `->` type($d)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        a, b = element_type_of(self.a.type), element_type_of(self.b.type)
        check(
            bit_width(a) == bit_width(b),
            lambda: f"operands A and B must have the same bit width, but are {a} and {b}",
        )
        check_dot(_shape(self.a), _shape(self.b), _shape(self.c))
        if has_encoding(self.a.type) or has_encoding(self.b.type):
            check_dot_layouts(self, self.a.type, self.b.type, self.d.type)


@irdl_op_definition
class DotScaledOp(TTOp):
    """`scale(a, a_scale) @ scale(b, b_scale) + c` in microscaling formats."""

    name = "tt.dot_scaled"
    D: ClassVar = VarConstraint("D", FLOAT_TENSOR)
    a = operand_def(FLOAT_I8_TENSOR)
    b = operand_def(FLOAT_I8_TENSOR)
    c = operand_def(D)
    a_scale = opt_operand_def(FLOAT_I8_TENSOR)
    b_scale = opt_operand_def(FLOAT_I8_TENSOR)
    a_elem_type = prop_def(enum_attr(ScaleDotElemType))
    b_elem_type = prop_def(enum_attr(ScaleDotElemType))
    fast_math = prop_def(BOOL_ATTR, prop_name="fastMath")
    lhs_k_pack = prop_def(BOOL_ATTR, default_value=TRUE)
    rhs_k_pack = prop_def(BOOL_ATTR, default_value=TRUE)
    d = result_def(D)
    custom_directives = (keyword_directive(ScaleDotElemType),)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$a (`scale` $a_scale^)? `,` $b (`scale` $b_scale^)? `,` $c"
        " `lhs` `=` custom<ScaleDotElemType>($a_elem_type)"
        " `rhs` `=` custom<ScaleDotElemType>($b_elem_type) attr-dict"
        " `:` type($a) (`,` type($a_scale)^)? `*` type($b) (`,` type($b_scale)^)? `->` type($d)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        a, b, c = list(_shape(self.a)), list(_shape(self.b)), _shape(self.c)
        check(len(a) >= 2 and len(b) >= 2, "operands must be at least 2D")
        # Two fp4 values share a byte, along K or along the other dimension.
        if ScaleDotElemType.of(self.a_elem_type) == ScaleDotElemType.E2M1:
            a[-1 if self.lhs_k_pack == TRUE else -2] *= 2
        if ScaleDotElemType.of(self.b_elem_type) == ScaleDotElemType.E2M1:
            b[-2 if self.rhs_k_pack == TRUE else -1] *= 2
        check_dot(tuple(a), tuple(b), c)
        k, factor = a[-1], self.scale_factor()
        for name, scale, extent in (("M", self.a_scale, c[-2]), ("N", self.b_scale, c[-1])):
            if scale is not None:
                shape = _shape(scale)
                check(len(shape) == len(c), "scales must have the rank of the operands")
                check(
                    shape[-2] == extent,
                    f"scales {name} dimension must match the operand {name} dimension",
                )
                check(
                    shape[-1] == k // factor,
                    "scales K dimension must match the operand K divided by the scale factor",
                )

    def scale_factor(self) -> int:
        """How many values along K share a scale: 16 or 32, read off the shapes."""
        found: set[int] = set()
        for value, axis, scale, elem, packed in (
            (self.a, -1, self.a_scale, self.a_elem_type, self.lhs_k_pack),
            (self.b, -2, self.b_scale, self.b_elem_type, self.rhs_k_pack),
        ):
            if scale is None or math.prod(_shape(scale)) == 1:
                continue
            fp4 = ScaleDotElemType.of(elem) == ScaleDotElemType.E2M1 and packed == TRUE
            factor = _shape(value)[axis] * (2 if fp4 else 1) // _shape(scale)[-1]
            check(factor in (16, 32), f"scale factor must be 16 or 32. Got {factor}")
            found.add(factor)
        check(len(found) <= 1, f"operands must have the same scale factor, but got {found}")
        return found.pop() if found else 32


@irdl_op_definition
class ReduceOp(TTOp):
    """Reduction along `axis` with the region `combine_op` (accumulators, then elements)."""

    name = "tt.reduce"
    srcs = var_operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    result = var_result_def(ANY_TYPE)
    combine_op: Region = region_def("single_block")
    traits = traits_def(Pure(), SameOperandsShape())

    def verify_(self) -> None:
        axis = check_fold(self, self.srcs, self.result, self.axis, self.combine_op, ReduceReturnOp)
        for source, result in zip(self.srcs, self.result, strict=True):
            shape = list(_shape(source))
            del shape[axis]
            check(
                (shape_of(result.type) or ()) == tuple(shape)
                and isinstance(result.type, TensorType) == bool(shape),
                lambda a=source.type, b=result.type: f"reducing {a} along {axis} cannot give {b}",
            )
            if isinstance(result.type, TensorType) and has_encoding(source.type):
                assert isinstance(source.type, TensorType)
                inference.check_reduce(source.type, axis, result.type)


@irdl_op_definition
class ReduceReturnOp(TTOp):
    """Terminator of `tt.reduce`."""

    name = "tt.reduce.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(ReduceOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class ScanOp(TTOp):
    """Associative scan along `axis` with the region `combine_op`."""

    name = "tt.scan"
    srcs = var_operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    reverse = prop_def(BOOL_ATTR)
    result = var_result_def(TENSOR)
    combine_op: Region = region_def("single_block")
    traits = traits_def(Pure(), SameShape(), SameEncoding())

    def verify_(self) -> None:
        check_fold(self, self.srcs, self.result, self.axis, self.combine_op, ScanReturnOp)


@irdl_op_definition
class ScanReturnOp(TTOp):
    """Terminator of `tt.scan`."""

    name = "tt.scan.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(ScanOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class HistogramOp(TTOp):
    """How often each of 0 .. n - 1 occurs in `src`, n being the extent of the result."""

    name = "tt.histogram"
    T: ClassVar = VarConstraint("T", INT_TENSOR)
    src = operand_def(T)
    mask = opt_operand_def(Derived("T", same_shape_i1, "mask type does not match src"))
    result = result_def(INT_TENSOR)
    assembly_format = "$src (`,` $mask^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())
