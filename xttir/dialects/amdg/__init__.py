"""The `amdg` dialect: what Triton's AMD backend adds to tiles with layouts.

Ops bear the names of `TritonAMDGPUOps.td` of Triton's AMD backend, in the form that Triton 3.9
reads and prints. Their own verifiers are few: types, and what a wrong count or shape would break.
"""

from xdsl.ir import Dialect

from xttir.dialects.amdg.buffer import (
    BufferAtomicCASOp,
    BufferAtomicRMWOp,
    BufferLoadOp,
    BufferLoadToLocalOp,
    BufferStoreOp,
    MaskedLoadOp,
    MaskedStoreOp,
)
from xttir.dialects.amdg.compute import (
    ConcatOp,
    CondBarrierOp,
    ExtractSliceOp,
    InThreadTransposeOp,
    LocalLoadPackedTransposedOp,
    ScaledDowncastFp4Op,
    ScaledDowncastFp8Op,
    ScaledUpcastFp4Op,
    ScaledUpcastFp8Op,
)
from xttir.dialects.amdg.transfer import (
    ArriveBarrierOp,
    AsyncCopyLocalToGlobalOp,
    AsyncCopyMbarrierArriveOp,
    AsyncTDMCopyGlobalToLocalOp,
    AsyncTDMCopyLocalToGlobalOp,
    AsyncTDMFusedCopyGlobalToLocalOp,
    AsyncTDMGatherOp,
    AsyncTDMIntrinsicWait,
    AsyncTDMScatterOp,
    AsyncTDMWait,
    AsyncWaitOp,
    ClusterBarrierArriveOp,
    ClusterBarrierWaitOp,
    InitBarrierOp,
    TDMPrefetchOp,
    UpdateTensorDescriptorOp,
    WaitBarrierOp,
)

AMDG = Dialect(
    "amdg",
    [
        ArriveBarrierOp,
        AsyncCopyLocalToGlobalOp,
        AsyncCopyMbarrierArriveOp,
        AsyncTDMCopyGlobalToLocalOp,
        AsyncTDMCopyLocalToGlobalOp,
        AsyncTDMFusedCopyGlobalToLocalOp,
        AsyncTDMGatherOp,
        AsyncTDMIntrinsicWait,
        AsyncTDMScatterOp,
        AsyncTDMWait,
        AsyncWaitOp,
        BufferAtomicCASOp,
        BufferAtomicRMWOp,
        BufferLoadOp,
        BufferLoadToLocalOp,
        BufferStoreOp,
        ClusterBarrierArriveOp,
        ClusterBarrierWaitOp,
        ConcatOp,
        CondBarrierOp,
        ExtractSliceOp,
        InThreadTransposeOp,
        InitBarrierOp,
        LocalLoadPackedTransposedOp,
        MaskedLoadOp,
        MaskedStoreOp,
        ScaledDowncastFp4Op,
        ScaledDowncastFp8Op,
        ScaledUpcastFp4Op,
        ScaledUpcastFp8Op,
        TDMPrefetchOp,
        UpdateTensorDescriptorOp,
        WaitBarrierOp,
    ],
)
