"""Asynchronous copies and tensor maps: PTX ISA 9.1, sections 9.7.9.25 to 9.7.9.29."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import GROUP, TX, words

_SPACES = "global shared::cta shared::cluster shared"
_DIMENSIONS = "1d 2d 3d 4d 5d"
_LOAD_MODES = words(
    "tile tile::gather4 tile::scatter4 im2col im2col::w im2col::w::128 im2col_no_offs"
)
_REDUCE = words("add min max inc dec and or xor noftz f16 bf16 f32 f64 b32 b64 u32 s32 u64 s64")
_LEVEL = "L2::cache_hint L2::64B L2::128B L2::256B"


@instruction(_SPACES, _LEVEL, "ca cg", defines=0)
class CpAsyncOp(Instruction):
    name = "ptx.cp.async"


@instruction(defines=0)
class CpAsyncCommitGroupOp(Instruction):
    name = "ptx.cp.async.commit_group"


@instruction(defines=0)
class CpAsyncWaitGroupOp(Instruction):
    name = "ptx.cp.async.wait_group"


@instruction(defines=0)
class CpAsyncWaitAllOp(Instruction):
    name = "ptx.cp.async.wait_all"


@instruction("noinc shared shared::cta b64", defines=0)
class CpAsyncMbarrierArriveOp(Instruction):
    name = "ptx.cp.async.mbarrier.arrive"


@instruction(_SPACES, _LEVEL, TX, "bulk_group cp_mask ignore_oob", defines=0)
class CpAsyncBulkOp(Instruction):
    name = "ptx.cp.async.bulk"


@instruction(_SPACES, _LEVEL, TX, _REDUCE, "bulk_group", defines=0)
class CpReduceAsyncBulkOp(Instruction):
    name = "ptx.cp.reduce.async.bulk"


@instruction("L2 global", _LEVEL, defines=0)
class CpAsyncBulkPrefetchOp(Instruction):
    name = "ptx.cp.async.bulk.prefetch"


@instruction(_DIMENSIONS, _SPACES, _LOAD_MODES, _LEVEL, TX, GROUP, "bulk_group", defines=0)
class CpAsyncBulkTensorOp(Instruction):
    name = "ptx.cp.async.bulk.tensor"


@instruction(_DIMENSIONS, _SPACES, _LOAD_MODES, _LEVEL, _REDUCE, "bulk_group", defines=0)
class CpReduceAsyncBulkTensorOp(Instruction):
    name = "ptx.cp.reduce.async.bulk.tensor"


@instruction(_DIMENSIONS, "L2 global", _LOAD_MODES, _LEVEL, defines=0)
class CpAsyncBulkPrefetchTensorOp(Instruction):
    name = "ptx.cp.async.bulk.prefetch.tensor"


@instruction(defines=0)
class CpAsyncBulkCommitGroupOp(Instruction):
    name = "ptx.cp.async.bulk.commit_group"


@instruction("read", defines=0)
class CpAsyncBulkWaitGroupOp(Instruction):
    name = "ptx.cp.async.bulk.wait_group"


@instruction("global shared::cta bulk_group cp_mask", defines=0)
class MultimemCpAsyncBulkOp(Instruction):
    name = "ptx.multimem.cp.async.bulk"


@instruction("global shared::cta bulk_group", _REDUCE, defines=0)
class MultimemCpReduceAsyncBulkOp(Instruction):
    name = "ptx.multimem.cp.reduce.async.bulk"


@instruction(
    "tile global shared shared::cta b1024 b32 b64 global_address rank box_dim global_dim "
    "global_stride element_stride elemtype interleave_layout swizzle_mode fill_mode "
    "swizzle_atomicity",
    defines=0,
)
class TensormapReplaceOp(Instruction):
    name = "ptx.tensormap.replace"


@instruction(
    "global shared::cta tensormap::generic release cta cluster gpu sys sync aligned", defines=0
)
class TensormapCpFenceproxyOp(Instruction):
    name = "ptx.tensormap.cp_fenceproxy"


@instruction("global bulk_group L2::evict_normal", defines=0)
class ApplypriorityAsyncBulkOp(Instruction):
    name = "ptx.applypriority.async.bulk"


@instruction(_DIMENSIONS, _LOAD_MODES, "global bulk_group L2::evict_normal override", defines=0)
class ApplypriorityAsyncBulkTensorOp(Instruction):
    name = "ptx.applypriority.async.bulk.tensor"


# Copies between devices (PTX ISA 9.3) -------------------------------------------------------------

_FABRIC = words(
    "async multimem shared::cta mbarrier::complete_tx::bytes mbarrier::complete_tx::16B "
    "mbarrier::report::fabric counted::bytes relaxed sys sync sync_restrict::reads "
    "sync_restrict::read commit_group"
)


@instruction(_FABRIC, "b128", defines=0)
class FabricTryPutOp(Instruction):
    name = "ptx.fabric.try_put"


@instruction(_FABRIC, "b128", defines=0)
class FabricTryGetOp(Instruction):
    name = "ptx.fabric.try_get"


@instruction(_FABRIC, _REDUCE, "f16x2 bf16x2", defines=0)
class FabricTryRedOp(Instruction):
    name = "ptx.fabric.try_red"


@instruction(_FABRIC, _REDUCE, "f16x2 bf16x2", defines=0)
class FabricTryPullredOp(Instruction):
    name = "ptx.fabric.try_pullred"


@instruction(_FABRIC, defines=0)
class FabricSubmitOp(Instruction):
    name = "ptx.fabric.submit"


@instruction(_FABRIC, defines=0)
class FabricWaitOp(Instruction):
    name = "ptx.fabric.wait"


COPIES = [
    ApplypriorityAsyncBulkOp,
    ApplypriorityAsyncBulkTensorOp,
    FabricTryPutOp,
    FabricTryGetOp,
    FabricTryRedOp,
    FabricTryPullredOp,
    FabricSubmitOp,
    FabricWaitOp,
    CpAsyncOp,
    CpAsyncCommitGroupOp,
    CpAsyncWaitGroupOp,
    CpAsyncWaitAllOp,
    CpAsyncMbarrierArriveOp,
    CpAsyncBulkOp,
    CpReduceAsyncBulkOp,
    CpAsyncBulkPrefetchOp,
    CpAsyncBulkTensorOp,
    CpReduceAsyncBulkTensorOp,
    CpAsyncBulkPrefetchTensorOp,
    CpAsyncBulkCommitGroupOp,
    CpAsyncBulkWaitGroupOp,
    MultimemCpAsyncBulkOp,
    MultimemCpReduceAsyncBulkOp,
    TensormapReplaceOp,
    TensormapCpFenceproxyOp,
]
