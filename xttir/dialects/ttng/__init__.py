# ruff: noqa: F401
"""The `ttng` dialect: what NVIDIA's Hopper and Blackwell add (TMA, mbarriers, wgmma, tcgen05).

Ops and types bear the names of Triton's `TritonNvidiaGPUOps.td`. Syntax and types are complete;
shapes and layouts are not verified yet.
"""

from xdsl.ir import Dialect

from xttir.dialects.layouts.encodings import (
    TTNG_ENCODINGS,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
    TensorMemorySpaceAttr,
)
from xttir.dialects.ttng.mma import (
    PackedArithOp,
    TCGen5CommitOp,
    TCGen5MMAOp,
    TCGen5MMAScaledOp,
    TMEMAllocOp,
    TMEMCopyOp,
    TMEMLoadOp,
    TMEMStoreOp,
    TMEMSubSliceOp,
    TMEMWaitOp,
    Token,
    WarpGroupDotOp,
    WarpGroupDotWaitOp,
)
from xttir.dialects.ttng.sync import (
    ArriveBarrierOp,
    AsyncCopyMbarrierArriveOp,
    BarrierExpectOp,
    BarriersAndPreds,
    CLCGetProgramIdOp,
    CLCIsCanceledOp,
    CLCLoadResultOp,
    CLCTryCancelOp,
    CLCTryCancelSyncOp,
    ClusterArriveOp,
    ClusterBarrierOp,
    ClusterWaitOp,
    FenceAsyncSharedOp,
    FenceMBarrierInitReleaseClusterOp,
    InitBarrierOp,
    InvalBarrierOp,
    WaitBarrierOp,
)
from xttir.dialects.ttng.tma import (
    AsyncSharedStoreOp,
    AsyncTMACopyGlobalToLocalOp,
    AsyncTMACopyLocalToGlobalOp,
    AsyncTMAGatherOp,
    AsyncTMAReduceOp,
    AsyncTMAScatterOp,
    ReinterpretTensorDescOp,
    TensormapCreateOp,
    TensormapFenceproxyAcquireOp,
    TMAStoreWaitOp,
)
from xttir.dialects.ttng.types import (
    ANY_TENSOR_DESC,
    I128,
    PACKED_OPERAND,
    PACKED_RESULT,
    TOKEN,
    CachePolicyAttr,
    PackedArithOpKind,
    TensorDescIm2ColType,
    TMEMLoadReduceModifier,
    TMEMLoadReduceModifierAttr,
    TMEMWaitKind,
)

TTNG = Dialect(
    "ttng",
    [
        PackedArithOp,
        FenceAsyncSharedOp,
        FenceMBarrierInitReleaseClusterOp,
        ClusterBarrierOp,
        ClusterArriveOp,
        ClusterWaitOp,
        CLCTryCancelSyncOp,
        CLCTryCancelOp,
        CLCLoadResultOp,
        CLCIsCanceledOp,
        CLCGetProgramIdOp,
        WarpGroupDotOp,
        WarpGroupDotWaitOp,
        InitBarrierOp,
        InvalBarrierOp,
        BarrierExpectOp,
        WaitBarrierOp,
        ArriveBarrierOp,
        AsyncCopyMbarrierArriveOp,
        AsyncSharedStoreOp,
        AsyncTMACopyGlobalToLocalOp,
        AsyncTMACopyLocalToGlobalOp,
        AsyncTMAReduceOp,
        AsyncTMAGatherOp,
        AsyncTMAScatterOp,
        TMAStoreWaitOp,
        TCGen5MMAOp,
        TCGen5MMAScaledOp,
        TCGen5CommitOp,
        TMEMWaitOp,
        TMEMLoadOp,
        TMEMStoreOp,
        TMEMAllocOp,
        TMEMSubSliceOp,
        TMEMCopyOp,
        ReinterpretTensorDescOp,
        TensormapCreateOp,
        TensormapFenceproxyAcquireOp,
    ],
    [
        TensorDescIm2ColType,
        TMEMLoadReduceModifierAttr,
        CachePolicyAttr,
        *TTNG_ENCODINGS,
    ],
)
