"""Ops of `tti` on values: the float sanitizer's integer ring, and its dot."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xttir.dialects.layouts.encodings import DotOperandEncodingAttr, NvidiaMmaEncodingAttr
from xttir.dialects.tt.compute import check_dot
from xttir.dialects.tt.traits import Elementwise, SameEncoding, SameShape, check
from xttir.dialects.tt.types import FLOAT_LIKE, INT_LIKE
from xttir.dialects.ttg.types import I8_TENSOR, I32_TENSOR

BOOL_TYPED = IntegerAttr.constr(i1)


@irdl_op_definition
class DotI8Op(IRDLOperation):
    """`a @ b + c` of i8 in i32, wrapping around."""

    name = "tti.dot_i8"
    D: ClassVar = VarConstraint("D", I32_TENSOR)
    a = operand_def(I8_TENSOR)
    b = operand_def(I8_TENSOR)
    c = operand_def(D)
    a_signed = prop_def(BOOL_TYPED, prop_name="aSigned")
    b_signed = prop_def(BOOL_TYPED, prop_name="bSigned")
    d = result_def(D)
    assembly_format = (
        "$a `,` $b `,` $c `,` `aSigned` `=` $aSigned `,` `bSigned` `=` $bSigned"
        " attr-dict `:` type($a) `*` type($b) `->` type($d)"
    )
    traits = traits_def(Pure())

    def verify_(self) -> None:
        a, b, d = self.a.type, self.b.type, self.d.type
        assert isinstance(a, TensorType)
        assert isinstance(b, TensorType)
        assert isinstance(d, TensorType)
        check_dot(a.get_shape(), b.get_shape(), d.get_shape())
        check(
            isinstance(a.encoding, DotOperandEncodingAttr)
            and isinstance(b.encoding, DotOperandEncodingAttr),
            "requires dot operand encodings for A and B",
        )
        assert isinstance(a.encoding, DotOperandEncodingAttr)
        assert isinstance(b.encoding, DotOperandEncodingAttr)
        layouts = (a.encoding.get("parent"), b.encoding.get("parent"), d.encoding)
        check(
            all(
                isinstance(layout, NvidiaMmaEncodingAttr) and layout.number("versionMajor") == 2
                for layout in layouts
            ),
            "requires NVIDIA MMAv2 operand and result layouts",
        )
        check(len(set(layouts)) == 1, "requires matching NVIDIA MMAv2 layouts")


@irdl_op_definition
class ExperimentalFPSanEmbedOp(IRDLOperation):
    """A float as an element of the sanitizer's integer ring."""

    name = "tti.experimental_fpsan_embed"
    val = operand_def(FLOAT_LIKE)
    result = result_def(INT_LIKE)
    assembly_format = "$val attr-dict `:` functional-type(operands, $result)"
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())


@irdl_op_definition
class ExperimentalFPSanUnembedOp(IRDLOperation):
    """The inverse of `tti.experimental_fpsan_embed`."""

    name = "tti.experimental_fpsan_unembed"
    val = operand_def(INT_LIKE)
    result = result_def(FLOAT_LIKE)
    assembly_format = "$val attr-dict `:` functional-type(operands, $result)"
    traits = traits_def(Pure(), Elementwise(), SameShape(), SameEncoding())
