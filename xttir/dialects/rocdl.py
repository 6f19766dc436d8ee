"""`rocdl`: the few ops of MLIR's ROCDL dialect that stand beside tiles, which xDSL does not have.

Indices, barriers and hints to the scheduler, after MLIR's ROCDLOps.td. What Triton makes when it
lowers tiles to LLVM is not read.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I16, I32, IntegerAttr, IntegerType, i16, i32
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure


class _Index(IRDLOperation):
    res = result_def(IntegerType)
    assembly_format = "attr-dict `:` type($res)"
    traits = traits_def(Pure())


def _index(what: str) -> type[IRDLOperation]:
    namespace = {
        "__doc__": f"The hardware's {what}.",
        "__module__": __name__,
        "name": f"rocdl.{what}",
    }
    name = "".join(part.capitalize() for part in what.split("."))
    return irdl_op_definition(type(name, (_Index,), namespace))


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """The threads of a workgroup meet, their memory accesses done."""

    name = "rocdl.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class SBarrierOp(IRDLOperation):
    """The threads of a workgroup meet."""

    name = "rocdl.s.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class SchedBarrierOp(IRDLOperation):
    """Instructions of kinds outside of `mask` may not be moved across."""

    name = "rocdl.sched.barrier"
    mask = prop_def(IntegerAttr[I32].constr(type=i32))
    assembly_format = "$mask attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class SetPrioOp(IRDLOperation):
    """Set the wave's priority."""

    name = "rocdl.s.setprio"
    priority = prop_def(IntegerAttr[I16].constr(type=i16))
    assembly_format = "$priority attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ReadFirstLaneOp(IRDLOperation):
    """The value of the first active lane."""

    name = "rocdl.readfirstlane"
    T: ClassVar = VarConstraint("T", AnyAttr())
    src = operand_def(T)
    res = result_def(T)
    assembly_format = "$src attr-dict `:` type($res)"
    traits = traits_def(Pure())


_INDICES = (
    *(f"{what}.id.{axis}" for what in ("workitem", "workgroup", "cluster") for axis in "xyz"),
    *(f"cluster.workgroup.id.{axis}" for axis in "xyz"),
    "wave.id",
    "wavefrontsize",
)

_OPS: tuple[type[Operation], ...] = (
    BarrierOp,
    ReadFirstLaneOp,
    SBarrierOp,
    SchedBarrierOp,
    SetPrioOp,
    *(_index(what) for what in _INDICES),
)

ROCDL = Dialect("rocdl", list(_OPS))
