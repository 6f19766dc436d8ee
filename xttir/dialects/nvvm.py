"""`nvvm`: the few ops of MLIR's NVVM dialect that stand beside tiles, which xDSL does not have.

Barriers, clusters and special registers, after MLIR's NVVMOps.td. What Triton makes when it lowers
tiles to LLVM is not read.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, UnitAttr, i32
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """`bar.sync`: threads of a block meet at a named barrier (0 when it has no number)."""

    name = "nvvm.barrier"
    barrier_id = opt_operand_def(i32)
    number_of_threads = opt_operand_def(i32)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`id` `=` $barrier_id^)? (`number_of_threads` `=` $number_of_threads^)? attr-dict"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


class _ClusterOp(IRDLOperation):
    aligned = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ClusterArriveOp(_ClusterOp):
    """`barrier.cluster.arrive`."""

    name = "nvvm.cluster.arrive"


@irdl_op_definition
class ClusterArriveRelaxedOp(_ClusterOp):
    """`barrier.cluster.arrive.relaxed`."""

    name = "nvvm.cluster.arrive.relaxed"


@irdl_op_definition
class ClusterWaitOp(_ClusterOp):
    """`barrier.cluster.wait`."""

    name = "nvvm.cluster.wait"


class _SpecialRegister(IRDLOperation):
    res = result_def(IntegerType)
    assembly_format = "attr-dict `:` type($res)"
    traits = traits_def(Pure())


def _special_register(register: str) -> type[IRDLOperation]:
    """The op that reads the special register `%<register>`."""
    namespace = {
        "__doc__": f"The special register `%{register}`.",
        "__module__": __name__,
        "name": f"nvvm.read.ptx.sreg.{register}",
    }
    name = "Read" + "".join(part.capitalize() for part in register.split("."))
    return irdl_op_definition(type(name, (_SpecialRegister,), namespace))


_REGISTERS = (
    *(f"{what}.{axis}" for what in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *(f"cluster.{what}.{axis}" for what in ("ctaid", "nctaid") for axis in "xyz"),
    *(f"{what}.{axis}" for what in ("clusterid", "nclusterid") for axis in "xyz"),
    "cluster.ctarank",
    "cluster.nctarank",
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "clock",
    "clock64",
    "globaltimer",
)

_OPS: tuple[type[Operation], ...] = (
    BarrierOp,
    ClusterArriveOp,
    ClusterArriveRelaxedOp,
    ClusterWaitOp,
    *(_special_register(register) for register in _REGISTERS),
)

NVVM = Dialect("nvvm", list(_OPS))
