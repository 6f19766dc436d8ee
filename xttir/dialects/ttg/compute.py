"""Ops of `ttg` on tiles in registers."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, StringAttr, TensorType, UnitAttr
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from xttir.dialects.layouts.inference import check_fp4
from xttir.dialects.ods import BOOL_ATTR, I32_ATTR
from xttir.dialects.tt.traits import LayoutOp, SameElementType, SameShape, check
from xttir.dialects.tt.types import ANY_TYPE, FLOAT_TENSOR, TENSOR
from xttir.dialects.ttg.types import I8_TENSOR, TYPE_OR_MEMDESC, VIEW, MemDescType


@irdl_op_definition
class InlineAsmOp(LayoutOp):
    """Inline assembly run once per thread, on all the registers of its operands."""

    name = "ttg.inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BOOL_ATTR)
    args = var_operand_def(TYPE_OR_MEMDESC)
    result = var_result_def(ANY_TYPE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$asm_string attr-dict ($args^)? `:` functional-type($args, $result)"

    def verify_(self) -> None:
        check(
            not self.pure.value.data or not any(isinstance(v.type, MemDescType) for v in self.args),
            "assembly with memory descriptor operands must be impure",
        )


@irdl_op_definition
class ConvertLayoutOp(LayoutOp):
    """The same tensor in another layout."""

    name = "ttg.convert_layout"
    src = operand_def(TENSOR)
    force_warp_shuffle = opt_prop_def(UnitAttr)
    result = result_def(TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = VIEW
    traits = traits_def(SameShape(), SameElementType(), Pure())


@irdl_op_definition
class Fp4ToFpOp(LayoutOp):
    """fp4 (e2m1) packed in pairs along `axis`, low half first, as a wider float."""

    name = "ttg.fp4_to_fp"
    src = operand_def(I8_TENSOR)
    axis = prop_def(I32_ATTR)
    result = result_def(FLOAT_TENSOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = VIEW
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result, axis = self.src.type, self.result.type, self.axis.value.data
        assert isinstance(source, TensorType)
        assert isinstance(result, TensorType)
        check(
            isinstance(result.element_type, Float16Type | BFloat16Type),
            lambda: f"only bf16 or f16 is supported for now, got {result.element_type}",
        )
        rank = source.get_num_dims()
        check(0 <= axis < rank, f"axis {axis} out of range for rank {rank}")
        want = tuple(size * 2 if i == axis else size for i, size in enumerate(source.get_shape()))
        check(tuple(result.get_shape()) == want, f"result must have shape {list(want)}")
        check_fp4(source, axis, result)
