# ruff: noqa: F401
"""The `ttg` dialect: tiles with layouts, and shared memory (TTGIR).

Ops and types bear the names of Triton's `TritonGPUOps.td` and `TritonGPUTypes.td`. Syntax and types
are complete; layouts (`layouts/encodings.py`) are compared for equality only.
"""

from xdsl.ir import Dialect

from xttir.dialects.layouts.encodings import (
    TTG_ENCODINGS,
    AMDMfmaEncodingAttr,
    AMDRotatingSharedEncodingAttr,
    AMDWmmaEncodingAttr,
    BlockedEncodingAttr,
    DotOperandEncodingAttr,
    GenericLinearEncodingAttr,
    LinearEncodingAttr,
    NvidiaMmaEncodingAttr,
    NVMMASharedEncodingAttr,
    PaddedSharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    SharedMemorySpaceAttr,
    SliceEncodingAttr,
    SwizzledSharedEncodingAttr,
)
from xttir.dialects.ttg.compute import (
    ConvertLayoutOp,
    Fp4ToFpOp,
    InlineAsmOp,
)
from xttir.dialects.ttg.control import (
    MaskOp,
    MaskReturnOp,
    PredicateStageOp,
    WarpIdOp,
    WarpReturnOp,
    WarpSpecializeOp,
    WarpSpecializePartitionsOp,
    WarpYieldOp,
)
from xttir.dialects.ttg.memory import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    BarrierOp,
    GlobalScratchAllocOp,
    LocalAllocOp,
    LocalAtomicScatterRMWOp,
    LocalDeallocOp,
    LocalGatherOp,
    LocalLoadOp,
    LocalScatterOp,
    LocalStoreOp,
    MemDescIndexOp,
    MemDescReinterpretOp,
    MemDescReshapeOp,
    MemDescSubsliceOp,
    MemDescTransOp,
    Offsets,
)
from xttir.dialects.ttg.types import (
    I1_TENSOR,
    I8_TENSOR,
    I32_ARRAY,
    I32_TYPED,
    INDUCTION,
    MEMDESC,
    PTR_TENSOR,
    TENSOR_OR_MEMDESC,
    TYPE_OR_MEMDESC,
    VIEW,
    AddrSpace,
    AsyncTokenType,
    MemDescType,
)

TTG = Dialect(
    "ttg",
    [
        InlineAsmOp,
        ConvertLayoutOp,
        AsyncWaitOp,
        AsyncCommitGroupOp,
        AsyncCopyGlobalToLocalOp,
        LocalAllocOp,
        LocalDeallocOp,
        MemDescIndexOp,
        MemDescSubsliceOp,
        MemDescTransOp,
        MemDescReshapeOp,
        MemDescReinterpretOp,
        LocalLoadOp,
        LocalStoreOp,
        LocalGatherOp,
        LocalScatterOp,
        LocalAtomicScatterRMWOp,
        PredicateStageOp,
        MaskOp,
        MaskReturnOp,
        Fp4ToFpOp,
        GlobalScratchAllocOp,
        WarpSpecializeOp,
        WarpSpecializePartitionsOp,
        WarpYieldOp,
        WarpReturnOp,
        BarrierOp,
        WarpIdOp,
    ],
    [AsyncTokenType, MemDescType, *TTG_ENCODINGS],
)
