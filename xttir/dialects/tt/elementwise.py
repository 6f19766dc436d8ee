"""`tt` ops that work element by element: casts, math, pointer arithmetic, extern calls, asm."""

from __future__ import annotations

import math
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region
from xdsl.irdl import (
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    HasParent,
    IsTerminator,
    MemoryEffectKind,
    Pure,
    RecursiveMemoryEffect,
    ReturnLike,
    has_effects,
)
from xdsl.utils.exceptions import VerifyException

from xttir.dialects.ods import BOOL_ATTR, I32_ATTR, element_type_of, enum_attr, keyword_directive
from xttir.dialects.tt.enums import PropagateNan, RoundingMode
from xttir.dialects.tt.traits import Elementwise, SameEncoding, SameShape, TTOp, check, shape_of
from xttir.dialects.tt.types import (
    ANY_TYPE,
    F32_LIKE,
    FLOAT_LIKE,
    I64_LIKE,
    INT_LIKE,
    PTR_LIKE,
    TENSOR,
    PointerType,
    bit_width,
)

_CAST = "$src attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class IntToPtrOp(TTOp):
    """Cast i64 to a pointer."""

    name = "tt.int_to_ptr"
    src = operand_def(I64_LIKE)
    result = result_def(PTR_LIKE)
    assembly_format = _CAST
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())


@irdl_op_definition
class PtrToIntOp(TTOp):
    """Cast a pointer to i64."""

    name = "tt.ptr_to_int"
    src = operand_def(PTR_LIKE)
    result = result_def(I64_LIKE)
    assembly_format = _CAST
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())


@irdl_op_definition
class BitcastOp(TTOp):
    """Cast between types of the same bit width (pointers too, unlike arith.bitcast)."""

    name = "tt.bitcast"
    src = operand_def(ANY_TYPE)
    result = result_def(ANY_TYPE)
    assembly_format = _CAST
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())

    def verify_(self) -> None:
        source, result = element_type_of(self.src.type), element_type_of(self.result.type)
        if isinstance(source, PointerType) and isinstance(result, PointerType):
            check(
                source.address_space == result.address_space,
                "cannot bitcast a pointer between different address spaces",
            )
            return
        check(
            not isinstance(source, PointerType) and not isinstance(result, PointerType),
            "cannot bitcast a pointer to a non-pointer type",
        )
        check(
            bit_width(source) == bit_width(result),
            lambda: f"cannot bitcast {source} to {result}: they differ in size",
        )


@irdl_op_definition
class FpToFpOp(TTOp):
    """Cast between float types where one is an fp8 or the rounding is not the default."""

    name = "tt.fp_to_fp"
    src = operand_def(FLOAT_LIKE)
    rounding = opt_prop_def(enum_attr(RoundingMode))
    result = result_def(FLOAT_LIKE)
    custom_directives = (keyword_directive(RoundingMode),)
    assembly_format = (
        "$src attr-dict (`,` `rounding` `=` custom<RoundingMode>($rounding)^)?"
        " `:` type($src) `->` type($result)"
    )
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())

    def verify_(self) -> None:
        source, result = element_type_of(self.src.type), element_type_of(self.result.type)
        check(
            bit_width(result) >= bit_width(source) or self.rounding is not None,
            "rounding mode is required for a downcast",
        )


@irdl_op_definition
class ClampFOp(TTOp):
    """min(max(x, min), max), with `propagateNan` for NaNs."""

    name = "tt.clampf"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    x = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    propagate_nan = prop_def(enum_attr(PropagateNan), prop_name="propagateNan")
    result = result_def(T)
    custom_directives = (keyword_directive(PropagateNan),)
    assembly_format = (
        "$x `,` $min `,` $max `,` `propagateNan` `=` custom<PropagateNan>($propagateNan)"
        " attr-dict `:` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class PreciseSqrtOp(TTOp):
    """Square root rounded to nearest."""

    name = "tt.precise_sqrt"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    x = operand_def(T)
    result = result_def(T)
    assembly_format = "$x attr-dict `:` type($x)"
    traits = traits_def(Pure())


@irdl_op_definition
class PreciseDivFOp(TTOp):
    """Quotient rounded to nearest."""

    name = "tt.precise_divf"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $y attr-dict `:` type($x)"
    traits = traits_def(Pure())


@irdl_op_definition
class ApproxDivFOp(TTOp):
    """Approximate f32 quotient (div.approx.f32 on NVIDIA: 2 ULP where 2^-126 <= |y| <= 2^126)."""

    name = "tt.approx_divf"
    T: ClassVar = VarConstraint("T", F32_LIKE)
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $y attr-dict `:` type($x)"
    traits = traits_def(Pure())


@irdl_op_definition
class MulhiUIOp(TTOp):
    """The upper N bits of the 2N-bit unsigned product."""

    name = "tt.mulhiui"
    T: ClassVar = VarConstraint("T", INT_LIKE)
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $y attr-dict `:` type($x)"
    traits = traits_def(Pure())


@irdl_op_definition
class AddPtrOp(TTOp):
    """`ptr + offset` in elements of the pointee type."""

    name = "tt.addptr"
    T: ClassVar = VarConstraint("T", PTR_LIKE)
    ptr = operand_def(T)
    offset = operand_def(INT_LIKE)
    result = result_def(T)
    assembly_format = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)"
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())


@irdl_op_definition
class ExternElementwiseOp(TTOp):
    """Call of `symbol` in `libpath`/`libname` (libdevice and the like) on each element."""

    name = "tt.extern_elementwise"
    srcs = var_operand_def(ANY_TYPE)
    libname = prop_def(StringAttr)
    libpath = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    pure = prop_def(BOOL_ATTR)
    result = result_def(ANY_TYPE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "operands attr-dict `:` functional-type(operands, $result)"
    traits = traits_def(Elementwise(), SameEncoding())


@irdl_op_definition
class ElementwiseInlineAsmOp(TTOp):
    """Inline PTX (or AMD) assembly on packs of `packed_element` elements."""

    name = "tt.elementwise_inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BOOL_ATTR)
    packed_element = prop_def(I32_ATTR)
    args = var_operand_def()
    result = var_result_def(ANY_TYPE)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$asm_string attr-dict ($args^ `:` type($args))? `->` type($result)"
    traits = traits_def(Elementwise(), SameEncoding())

    def verify_(self) -> None:
        if self.args:
            count = math.prod(shape_of(self.args[0].type) or (0,))
            packed = self.packed_element.value.data
            check(
                packed > 0 and count % packed == 0,
                f"number of input elements {count} must be a multiple of packed_element {packed}",
            )


@irdl_op_definition
class MapElementwiseOp(TTOp):
    """A region of scalars applied to packs of `pack` consecutive elements of every source."""

    name = "tt.map_elementwise"
    srcs = var_operand_def(TENSOR)
    pack = prop_def(I32_ATTR)
    result = var_result_def(TENSOR)
    scalar_op: Region = region_def()
    traits = traits_def(RecursiveMemoryEffect(), SameShape(), SameEncoding())

    def verify_(self) -> None:
        pack = self.pack.value.data
        check(bool(self.srcs), "must have at least 1 operand")
        check(pack > 0 and pack & (pack - 1) == 0, f"pack must be a power of 2, but is {pack}")
        block = self.scalar_op.blocks.first
        check(block is not None, "the region is empty")
        assert block is not None
        want = [element_type_of(v.type) for v in self.srcs for _ in range(pack)]
        check(list(block.arg_types) == want, "region arguments do not match the operands")
        out = [element_type_of(v.type) for v in self.result for _ in range(pack)]
        for op in self.scalar_op.walk():
            if isinstance(op, MapElementwiseReturnOp):
                check(list(op.operand_types) == out, "region return does not match the results")
            elif has_effects(op, MemoryEffectKind.WRITE):
                raise VerifyException(f"{op.name} writes memory inside map_elementwise")


@irdl_op_definition
class MapElementwiseReturnOp(TTOp):
    """Terminator of `tt.map_elementwise`."""

    name = "tt.map_elementwise.return"
    result = var_operand_def()
    assembly_format = "attr-dict ($result^ `:` type($result))?"
    traits = traits_def(HasParent(MapElementwiseOp), Pure(), IsTerminator(), ReturnLike())
