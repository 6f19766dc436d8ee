"""The `gluon` dialect: layouts to be inferred, and the op that fixes one."""

from __future__ import annotations

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from xttir.dialects.layouts.encodings import (
    GLUON_ENCODINGS,
    AutoEncodingAttr,
    CoalescedEncodingAttr,
)
from xttir.dialects.tt.traits import LayoutOp, SameElementType, SameShape, check
from xttir.dialects.tt.types import TENSOR


@irdl_op_definition
class SetAutoLayoutOp(LayoutOp):
    """Give a tensor of `auto_encoding` a concrete layout."""

    name = "gluon.set_auto_layout"
    src = operand_def(TENSOR)
    result = result_def(TENSOR)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(SameShape(), SameElementType())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        assert isinstance(source, TensorType)
        assert isinstance(result, TensorType)
        check(
            isinstance(source.encoding, AutoEncodingAttr),
            "input tensor must have an auto layout type",
        )
        check(not isinstance(result.encoding, NoneAttr), "result tensor must have a layout")
        check(
            not isinstance(result.encoding, AutoEncodingAttr),
            "result type must not be auto layout",
        )


GLUON = Dialect("gluon", [SetAutoLayoutOp], list(GLUON_ENCODINGS))

__all__ = ["GLUON", "AutoEncodingAttr", "CoalescedEncodingAttr", "SetAutoLayoutOp"]
