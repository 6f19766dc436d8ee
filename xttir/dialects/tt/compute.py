"""`tt` ops that make or combine tensors: ranges, program ids, dot, reduce, scan, histogram."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
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

from xttir.dialects.ods import (
    BOOL_ATTR,
    I32_ATTR,
    TRUE,
    Derived,
    enum_attr,
    keyword_directive,
    same_shape_i1,
)
from xttir.dialects.tt.enums import InputPrecision, ProgramIDDim, ScaleDotElemType
from xttir.dialects.tt.types import (
    ANY_TYPE,
    FLOAT_I8_TENSOR,
    FLOAT_TENSOR,
    FP_INT_TENSOR,
    INT_TENSOR,
    TENSOR,
)

_DIM = keyword_directive(ProgramIDDim)


@irdl_op_definition
class GetProgramIdOp(IRDLOperation):
    """The program's index along a grid axis."""

    name = "tt.get_program_id"
    axis = prop_def(enum_attr(ProgramIDDim))
    result = result_def(i32)
    custom_directives = (_DIM,)
    assembly_format = "custom<ProgramIDDim>($axis) attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class GetNumProgramsOp(IRDLOperation):
    """The extent of the grid along an axis."""

    name = "tt.get_num_programs"
    axis = prop_def(enum_attr(ProgramIDDim))
    result = result_def(i32)
    custom_directives = (_DIM,)
    assembly_format = "custom<ProgramIDDim>($axis) attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """The integers `start` .. `end` - 1, as a 1-D tensor of i32."""

    name = "tt.make_range"
    start = prop_def(I32_ATTR)
    end = prop_def(I32_ATTR)
    result = result_def(INT_TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class DotOp(IRDLOperation):
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


@irdl_op_definition
class DotScaledOp(IRDLOperation):
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


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduction along `axis` with the region `combine_op` (accumulators, then elements)."""

    name = "tt.reduce"
    srcs = var_operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    result = var_result_def(ANY_TYPE)
    combine_op: Region = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class ReduceReturnOp(IRDLOperation):
    """Terminator of `tt.reduce`."""

    name = "tt.reduce.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(ReduceOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Associative scan along `axis` with the region `combine_op`."""

    name = "tt.scan"
    srcs = var_operand_def(TENSOR)
    axis = prop_def(I32_ATTR)
    reverse = prop_def(BOOL_ATTR)
    result = var_result_def(TENSOR)
    combine_op: Region = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class ScanReturnOp(IRDLOperation):
    """Terminator of `tt.scan`."""

    name = "tt.scan.return"
    result = var_operand_def()
    assembly_format = "$result attr-dict `:` type($result)"
    traits = traits_def(HasParent(ScanOp), Pure(), IsTerminator(), ReturnLike())


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """How often each of 0 .. n - 1 occurs in `src`, n being the extent of the result."""

    name = "tt.histogram"
    T: ClassVar = VarConstraint("T", INT_TENSOR)
    src = operand_def(T)
    mask = opt_operand_def(Derived("T", same_shape_i1, "mask type does not match src"))
    result = result_def(INT_TENSOR)
    assembly_format = "$src (`,` $mask^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())
