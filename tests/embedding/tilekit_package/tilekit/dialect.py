"""The ops: one that computes, one that accesses global memory, one that accesses shared memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloatConstr, TensorType
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xttir.dialects.memory_access import GlobalAccess
from xttir.dialects.tt import PointerType
from xttir.dialects.ttg import MemDescType


@irdl_op_definition
class SquareSumOp(IRDLOperation):
    """`a * a + b`."""

    name = "tilekit.square_sum"
    T: ClassVar = VarConstraint("T", base(TensorType) | AnyFloatConstr)
    a = operand_def(T)
    b = operand_def(T)
    result = result_def(T)
    assembly_format = "$a `,` $b attr-dict `:` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class BumpOp(IRDLOperation):
    """Adds to a number in global memory: a load and a store, not atomic."""

    name = "tilekit.bump"
    pointer = operand_def(PointerType)
    amount = operand_def()
    assembly_format = "$pointer `,` $amount attr-dict `:` type($pointer) `,` type($amount)"
    traits = traits_def(GlobalAccess("load"), GlobalAccess("store"))


@irdl_op_definition
class ReverseOp(IRDLOperation):
    """Turns a row in shared memory round, in place."""

    name = "tilekit.reverse"
    row = operand_def(MemDescType)
    assembly_format = "$row attr-dict `:` type($row)"


TILEKIT = Dialect("tilekit", [SquareSumOp, BumpOp, ReverseOp])
