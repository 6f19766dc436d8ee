"""The `nvws` dialect: NVIDIA's warp specialization before it is lowered (arefs, tokens, groups).

Names are those of `NVWSOps.td` in Triton's `third_party/nvidia/include/Dialect/NVWS/IR`, which its
wheel does not install.
"""

from xdsl.ir import Dialect

from xttir.dialects.nvws.aref import (
    ArefBufferOp,
    ArefCreateOp,
    ArefGetEnterOp,
    ArefGetExitOp,
    ArefPhiOp,
    ArefPutEnterOp,
    ArefPutExitOp,
)
from xttir.dialects.nvws.groups import WarpGroupOp, WarpGroupReturnOp, WarpGroupYieldOp
from xttir.dialects.nvws.sync import (
    CLCTryCancelOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateTokenOp,
    DescriptorGatherOp,
    DescriptorLoadOp,
    ProducerAcquireOp,
    ProducerCommitOp,
)
from xttir.dialects.nvws.types import (
    ArefType,
    AsyncOp,
    AsyncOpAttr,
    IntArrayAttr,
    TokenLoadType,
    TokenType,
    TypeArrayAttr,
)

NVWS = Dialect(
    "nvws",
    [
        ArefCreateOp,
        ArefPhiOp,
        ArefBufferOp,
        ArefGetEnterOp,
        ArefGetExitOp,
        ArefPutEnterOp,
        ArefPutExitOp,
        WarpGroupOp,
        WarpGroupYieldOp,
        WarpGroupReturnOp,
        CreateTokenOp,
        ProducerAcquireOp,
        ProducerCommitOp,
        ConsumerWaitOp,
        ConsumerReleaseOp,
        CLCTryCancelOp,
        DescriptorLoadOp,
        DescriptorGatherOp,
    ],
    [ArefType, TokenType, AsyncOpAttr, TypeArrayAttr, IntArrayAttr],
)

__all__ = [
    "NVWS",
    "ArefBufferOp",
    "ArefCreateOp",
    "ArefGetEnterOp",
    "ArefGetExitOp",
    "ArefPhiOp",
    "ArefPutEnterOp",
    "ArefPutExitOp",
    "ArefType",
    "AsyncOp",
    "AsyncOpAttr",
    "CLCTryCancelOp",
    "ConsumerReleaseOp",
    "ConsumerWaitOp",
    "CreateTokenOp",
    "DescriptorGatherOp",
    "DescriptorLoadOp",
    "IntArrayAttr",
    "ProducerAcquireOp",
    "ProducerCommitOp",
    "TokenLoadType",
    "TokenType",
    "TypeArrayAttr",
    "WarpGroupOp",
    "WarpGroupReturnOp",
    "WarpGroupYieldOp",
]
