"""Barriers, fences, votes and shuffles: PTX ISA 9.1, section 9.7.13; cluster launch control."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import BITS, COLLECTIVE, LOGIC, ORDERS, SCOPES, SPACES, words

_BARRIER = words(SPACES, SCOPES, "b64 relaxed acquire release")
_BAR_WORDS = "aligned cta"


@instruction(
    _BAR_WORDS,
    defines=0,
    aliases={"bar.sync": "aligned", "bar.cta.sync": "aligned", "barrier.cta.sync": ""},
)
class BarrierSyncOp(Instruction):
    """`bar.sync` is `barrier.sync.aligned`."""

    name = "ptx.barrier.sync"


@instruction(
    _BAR_WORDS,
    defines=0,
    aliases={"bar.arrive": "aligned", "bar.cta.arrive": "aligned", "barrier.cta.arrive": ""},
)
class BarrierArriveOp(Instruction):
    name = "ptx.barrier.arrive"


@instruction(
    _BAR_WORDS,
    LOGIC,
    "popc u32 pred",
    aliases={"bar.red": "aligned", "bar.cta.red": "aligned", "barrier.cta.red": ""},
)
class BarrierRedOp(Instruction):
    name = "ptx.barrier.red"


@instruction(defines=0)
class BarWarpSyncOp(Instruction):
    name = "ptx.bar.warp.sync"


@instruction("release relaxed acquire aligned", defines=0)
class BarrierClusterArriveOp(Instruction):
    name = "ptx.barrier.cluster.arrive"


@instruction("acquire aligned", defines=0)
class BarrierClusterWaitOp(Instruction):
    name = "ptx.barrier.cluster.wait"


@instruction("cta gl sys", defines=0)
class MembarOp(Instruction):
    name = "ptx.membar"


@instruction(
    ORDERS,
    SCOPES,
    "sync_restrict::shared::cta sync_restrict::shared::cluster",
    defines=0,
)
class FenceOp(Instruction):
    name = "ptx.fence"


@instruction(
    SPACES,
    SCOPES,
    "alias async async::generic tensormap::generic generic::fabric fabric::generic fabric::fabric "
    "acquire release "
    "sync_restrict::shared::cta sync_restrict::shared::cluster",
    defines=0,
    aliases={"membar.proxy": ""},
)
class FenceProxyOp(Instruction):
    name = "ptx.fence.proxy"


@instruction("release cluster", defines=0)
class FenceMbarrierInitOp(Instruction):
    name = "ptx.fence.mbarrier_init"


@instruction(_BARRIER, "layout::v0 layout::v1", defines=0)
class MbarrierInitOp(Instruction):
    name = "ptx.mbarrier.init"


@instruction(_BARRIER, defines=0)
class MbarrierInvalOp(Instruction):
    name = "ptx.mbarrier.inval"


@instruction(_BARRIER, defines=0)
class MbarrierExpectTxOp(Instruction):
    name = "ptx.mbarrier.expect_tx"


@instruction(_BARRIER, defines=0)
class MbarrierCompleteTxOp(Instruction):
    name = "ptx.mbarrier.complete_tx"


@instruction(_BARRIER, "noComplete expect_tx")
class MbarrierArriveOp(Instruction):
    name = "ptx.mbarrier.arrive"


@instruction(_BARRIER, "noComplete expect_tx")
class MbarrierArriveDropOp(Instruction):
    name = "ptx.mbarrier.arrive_drop"


@instruction(_BARRIER, "parity")
class MbarrierTestWaitOp(Instruction):
    name = "ptx.mbarrier.test_wait"


@instruction(_BARRIER, "parity")
class MbarrierTryWaitOp(Instruction):
    name = "ptx.mbarrier.try_wait"


@instruction(_BARRIER, "layout::v0 layout::v1")
class MbarrierCheckLayoutOp(Instruction):
    name = "ptx.mbarrier.check_layout"


@instruction("b64")
class MbarrierPendingCountOp(Instruction):
    name = "ptx.mbarrier.pending_count"


@instruction("sync up down bfly idx b32", pair=True)
class ShflOp(Instruction):
    name = "ptx.shfl"


@instruction("sync all any uni ballot pred b32")
class VoteOp(Instruction):
    name = "ptx.vote"


@instruction("any all sync b32 b64", pair=True)
class MatchOp(Instruction):
    name = "ptx.match"


@instruction("b32")
class ActivemaskOp(Instruction):
    name = "ptx.activemask"


@instruction("sync add min max u32 s32 and or xor b32 f32 abs NaN")
class ReduxOp(Instruction):
    name = "ptx.redux"


@instruction("sync", pair=True)
class ElectOp(Instruction):
    name = "ptx.elect"


@instruction(defines=0)
class GriddepcontrolWaitOp(Instruction):
    name = "ptx.griddepcontrol.wait"


@instruction(defines=0)
class GriddepcontrolLaunchDependentsOp(Instruction):
    name = "ptx.griddepcontrol.launch_dependents"


@instruction(
    "async shared::cta mbarrier::complete_tx::bytes multicast::cluster::all b128", defines=0
)
class ClusterlaunchcontrolTryCancelOp(Instruction):
    name = "ptx.clusterlaunchcontrol.try_cancel"


@instruction(
    BITS,
    "is_canceled get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z pred v4",
)
class ClusterlaunchcontrolQueryCancelOp(Instruction):
    name = "ptx.clusterlaunchcontrol.query_cancel"


@instruction(COLLECTIVE, "inc dec u32", defines=0)
class SetmaxnregOp(Instruction):
    name = "ptx.setmaxnreg"


@instruction("u32", defines=0)
class NanosleepOp(Instruction):
    name = "ptx.nanosleep"


SYNC = [
    BarrierSyncOp,
    BarrierArriveOp,
    BarrierRedOp,
    BarWarpSyncOp,
    BarrierClusterArriveOp,
    BarrierClusterWaitOp,
    MembarOp,
    FenceOp,
    FenceProxyOp,
    FenceMbarrierInitOp,
    MbarrierInitOp,
    MbarrierInvalOp,
    MbarrierExpectTxOp,
    MbarrierCompleteTxOp,
    MbarrierArriveOp,
    MbarrierArriveDropOp,
    MbarrierTestWaitOp,
    MbarrierTryWaitOp,
    MbarrierCheckLayoutOp,
    MbarrierPendingCountOp,
    ShflOp,
    VoteOp,
    MatchOp,
    ActivemaskOp,
    ReduxOp,
    ElectOp,
    GriddepcontrolWaitOp,
    GriddepcontrolLaunchDependentsOp,
    ClusterlaunchcontrolTryCancelOp,
    ClusterlaunchcontrolQueryCancelOp,
    SetmaxnregOp,
    NanosleepOp,
]
