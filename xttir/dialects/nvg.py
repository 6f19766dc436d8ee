"""The `nvg` dialect of Triton: what its NVIDIA backend lowers to just before LLVM.

After NVGPUOps.td of Triton's NVIDIA backend. Values are LLVM's structs and pointers.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerType, i1, i32
from xdsl.dialects.llvm import LLVMPointerType, LLVMStructType
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from xttir.dialects.ods import I32_ATTR, Check, OdsEnum, enum_attr, keyword_directive
from xttir.dialects.tt.enums import MemSemantic, MemSyncScope
from xttir.dialects.tt.types import is_fp_int


class WGMMALayout(OdsEnum):
    """Order of an operand of `nvg.wgmma` in shared memory."""

    ROW = 0, "row"
    COL = 1, "col"


class WGMMAEltType(OdsEnum):
    """Element type of an operand of `nvg.wgmma`."""

    S8 = 0, "s8"
    S32 = 1, "s32"
    E4M3 = 2, "e4m3"
    E5M2 = 3, "e5m2"
    F16 = 4, "f16"
    BF16 = 5, "bf16"
    TF32 = 6, "tf32"
    F32 = 7, "f32"


_STRUCT = Check("an LLVM struct", lambda a: isinstance(a, LLVMStructType))
_OPERAND = Check(
    "an LLVM struct or i64",
    lambda a: isinstance(a, LLVMStructType) or (isinstance(a, IntegerType) and a.width.data == 64),
)


@irdl_op_definition
class WGMMAWaitGroupOp(IRDLOperation):
    """Wait until at most `pendings` groups of wgmma are in flight."""

    name = "nvg.wgmma_wait_group"
    T: ClassVar = VarConstraint("T", _STRUCT)
    input = operand_def(T)
    pendings = prop_def(I32_ATTR)
    output = result_def(T)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$input attr-dict `:` type($input)"


@irdl_op_definition
class WGMMAOp(IRDLOperation):
    """One wgmma instruction: operands in registers (a struct) or shared memory (a descriptor)."""

    name = "nvg.wgmma"
    op_a = operand_def(_OPERAND)
    op_b = operand_def(_OPERAND)
    use_c = operand_def(i1)
    op_c = opt_operand_def(_STRUCT)
    m = prop_def(I32_ATTR)
    n = prop_def(I32_ATTR)
    k = prop_def(I32_ATTR)
    elt_type_c = prop_def(enum_attr(WGMMAEltType), prop_name="eltTypeC")
    elt_type_a = prop_def(enum_attr(WGMMAEltType), prop_name="eltTypeA")
    elt_type_b = prop_def(enum_attr(WGMMAEltType), prop_name="eltTypeB")
    layout_a = prop_def(enum_attr(WGMMALayout), prop_name="layoutA")
    layout_b = prop_def(enum_attr(WGMMALayout), prop_name="layoutB")
    res = result_def(_STRUCT)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$op_a `,` $op_b `,` $use_c (`,` $op_c^)? attr-dict `:` functional-type(operands, $res)"
    )


@irdl_op_definition
class ClusterCTAIdOp(IRDLOperation):
    """The number of the block in its cluster."""

    name = "nvg.cluster_id"
    result = result_def(i32)
    assembly_format = "attr-dict"
    traits = traits_def(Pure())


@irdl_op_definition
class LoadAcquireOp(IRDLOperation):
    """`ld.acquire` of a scalar in global memory."""

    name = "nvg.ld_acquire"
    addr = operand_def(LLVMPointerType(IntAttr(1)))
    mask = opt_operand_def(i1)
    sem = prop_def(enum_attr(MemSemantic))
    scope = prop_def(enum_attr(MemSyncScope))
    result = result_def(Check("an integer or float", is_fp_int))
    custom_directives = (keyword_directive(MemSemantic), keyword_directive(MemSyncScope))
    assembly_format = (
        "custom<MemSemantic>($sem) `,` custom<MemSyncScope>($scope) `,` $addr (`,` $mask^)?"
        " attr-dict `:` functional-type($addr, $result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class TensorMemoryBaseAddress(IRDLOperation):
    """Where the kernel's tensor memory begins."""

    name = "nvg.tensor_memory_base"
    result = result_def(LLVMPointerType(IntAttr(6)))
    assembly_format = "attr-dict"
    traits = traits_def(Pure())


NVG = Dialect(
    "nvg",
    [WGMMAWaitGroupOp, WGMMAOp, ClusterCTAIdOp, LoadAcquireOp, TensorMemoryBaseAddress],
)
