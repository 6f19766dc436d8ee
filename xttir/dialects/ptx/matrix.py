"""Matrix instructions of warps, warpgroups and tensor memory: PTX ISA 9.1, 9.7.14 to 9.7.16."""

from __future__ import annotations

import re

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import COLLECTIVE, FP8, GROUP, SHAPE, words

_ELEMENTS = words(FP8, "f16 bf16 tf32 f32 f64 u8 s8 u4 s4 s32 b1 b8 b16 b32 b64")
_SPACES = "global shared shared::cta shared::cluster"
_SCALES = words(
    "kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 kind::f8f6f4 block_scale scale_vec::1X "
    "scale_vec::2X scale_vec::4X"
)


@instruction(COLLECTIVE, _ELEMENTS, _SPACES, "row col a b c", shapes=SHAPE)
class WmmaLoadOp(Instruction):
    name = "ptx.wmma.load"


@instruction(COLLECTIVE, _ELEMENTS, _SPACES, "row col d", shapes=SHAPE, defines=0)
class WmmaStoreOp(Instruction):
    name = "ptx.wmma.store"


@instruction(COLLECTIVE, _ELEMENTS, "row col rn rz rm rp satfinite xor and popc", shapes=SHAPE)
class WmmaMmaOp(Instruction):
    name = "ptx.wmma.mma"


@instruction(
    COLLECTIVE,
    _ELEMENTS,
    _SCALES,
    "row col satfinite xor and popc sp sp::ordered_metadata rn rz rm rp",
    shapes=SHAPE,
)
class MmaOp(Instruction):
    name = "ptx.mma"


@instruction(
    COLLECTIVE,
    _ELEMENTS,
    _SPACES,
    "trans x1 x2 x4 b8x16 b6x16_p32 b4x16_p64",
    shapes=SHAPE,
)
class LdmatrixOp(Instruction):
    name = "ptx.ldmatrix"


@instruction(COLLECTIVE, _ELEMENTS, _SPACES, "trans x1 x2 x4", shapes=SHAPE, defines=0)
class StmatrixOp(Instruction):
    name = "ptx.stmatrix"


@instruction(COLLECTIVE, "trans b16", shapes=SHAPE)
class MovmatrixOp(Instruction):
    name = "ptx.movmatrix"


@instruction(COLLECTIVE, _ELEMENTS, "satfinite sp and popc", shapes=SHAPE, updates=True)
class WgmmaMmaAsyncOp(Instruction):
    """The accumulator is read and written: its old values are `old`."""

    name = "ptx.wgmma.mma_async"


@instruction(COLLECTIVE, defines=0)
class WgmmaFenceOp(Instruction):
    name = "ptx.wgmma.fence"


@instruction(COLLECTIVE, defines=0)
class WgmmaCommitGroupOp(Instruction):
    name = "ptx.wgmma.commit_group"


@instruction(COLLECTIVE, defines=0)
class WgmmaWaitGroupOp(Instruction):
    name = "ptx.wgmma.wait_group"


# Tensor memory ------------------------------------------------------------------------------------

_TMEM_SHAPE = re.compile(r"(?:16x(?:64|128|256)b|16x32bx2|32x32b)|x(?:1|2|4|8|16|32|64|128)")
_CP_SHAPE = re.compile(r"128x256b|4x256b|128x128b|64x128b|32x128b")
_KINDS = words(
    "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 "
    "block_scale scale_vec::1X scale_vec::2X scale_vec::4X block16 block32 ashift"
)
_COLLECTOR = words(
    *(
        f"collector::{buffer}::{use}"
        for buffer in ("a", "b0", "b1", "b2", "b3")
        for use in ("fill", "use", "lastuse", "discard")
    )
)


@instruction(COLLECTIVE, GROUP, "shared shared::cta b32", defines=0)
class Tcgen05AllocOp(Instruction):
    name = "ptx.tcgen05.alloc"


@instruction(COLLECTIVE, GROUP, "b32", defines=0)
class Tcgen05DeallocOp(Instruction):
    name = "ptx.tcgen05.dealloc"


@instruction(COLLECTIVE, GROUP, defines=0)
class Tcgen05RelinquishAllocPermitOp(Instruction):
    name = "ptx.tcgen05.relinquish_alloc_permit"


@instruction(COLLECTIVE, "pack::16b b32", shapes=_TMEM_SHAPE)
class Tcgen05LdOp(Instruction):
    name = "ptx.tcgen05.ld"


@instruction(COLLECTIVE, "min max abs NaN u32 s32 f32 b32", shapes=_TMEM_SHAPE, defines=2)
class Tcgen05LdRedOp(Instruction):
    name = "ptx.tcgen05.ld.red"


@instruction(COLLECTIVE, "unpack::16b b32", shapes=_TMEM_SHAPE, defines=0)
class Tcgen05StOp(Instruction):
    name = "ptx.tcgen05.st"


@instruction(COLLECTIVE, defines=0, family="tcgen05.wait::ld")
class Tcgen05WaitLdOp(Instruction):
    name = "ptx.tcgen05.wait_ld"


@instruction(COLLECTIVE, defines=0, family="tcgen05.wait::st")
class Tcgen05WaitStOp(Instruction):
    name = "ptx.tcgen05.wait_st"


@instruction(
    GROUP,
    "warpx2::02_13 warpx2::01_23 warpx4 b8x16 b6x16_p32 b4x16_p64",
    shapes=_CP_SHAPE,
    defines=0,
)
class Tcgen05CpOp(Instruction):
    name = "ptx.tcgen05.cp"


@instruction(GROUP, "down", defines=0)
class Tcgen05ShiftOp(Instruction):
    name = "ptx.tcgen05.shift"


@instruction(GROUP, _KINDS, _COLLECTOR, "sp ws", defines=0)
class Tcgen05MmaOp(Instruction):
    """Also `tcgen05.mma.sp`, `.ws` and `.ws.sp`."""

    name = "ptx.tcgen05.mma"


@instruction(
    GROUP,
    "mbarrier::arrive::one shared::cluster multicast::cluster b64",
    defines=0,
)
class Tcgen05CommitOp(Instruction):
    name = "ptx.tcgen05.commit"


@instruction(defines=0, family="tcgen05.fence::before_thread_sync")
class Tcgen05FenceBeforeOp(Instruction):
    name = "ptx.tcgen05.fence_before_thread_sync"


@instruction(defines=0, family="tcgen05.fence::after_thread_sync")
class Tcgen05FenceAfterOp(Instruction):
    name = "ptx.tcgen05.fence_after_thread_sync"


MATRIX = [
    WmmaLoadOp,
    WmmaStoreOp,
    WmmaMmaOp,
    MmaOp,
    LdmatrixOp,
    StmatrixOp,
    MovmatrixOp,
    WgmmaMmaAsyncOp,
    WgmmaFenceOp,
    WgmmaCommitGroupOp,
    WgmmaWaitGroupOp,
    Tcgen05AllocOp,
    Tcgen05DeallocOp,
    Tcgen05RelinquishAllocPermitOp,
    Tcgen05LdOp,
    Tcgen05LdRedOp,
    Tcgen05StOp,
    Tcgen05WaitLdOp,
    Tcgen05WaitStOp,
    Tcgen05CpOp,
    Tcgen05ShiftOp,
    Tcgen05MmaOp,
    Tcgen05CommitOp,
    Tcgen05FenceBeforeOp,
    Tcgen05FenceAfterOp,
]
