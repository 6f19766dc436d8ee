"""Data movement and conversion, address conversion, atomics: PTX ISA 9.1, 9.7.9 and 9.7.13."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import (
    ANY,
    CACHE,
    FLOAT,
    FP8,
    INT,
    ORDERS,
    PACKED_INT,
    ROUND,
    SCOPES,
    SPACES,
    VECTOR,
    words,
)

_ACCESS = words(ANY, SPACES, SCOPES, ORDERS, CACHE, VECTOR)
_REDUCE = words("add and or xor min max inc dec exch cas noftz")
_VECTOR_REDUCE = words(ANY, VECTOR, "noftz")


@instruction(ANY, "pred")
class MovOp(Instruction):
    name = "ptx.mov"


@instruction(
    INT,
    FLOAT,
    FP8,
    PACKED_INT,
    ROUND,
    "b8 b16 b32 ftz sat relu satfinite scaled::n2::ue8m0 rs",
)
class CvtOp(Instruction):
    name = "ptx.cvt"


@instruction(INT, "sat b32 u16 s16 u8 s8 u4 s4 u2 s2")
class CvtPackOp(Instruction):
    name = "ptx.cvt.pack"


@instruction("b32 f4e b4e rc8 ecl ecr rc16")
class PrmtOp(Instruction):
    name = "ptx.prmt"


@instruction(_ACCESS)
class LdOp(Instruction):
    name = "ptx.ld"


@instruction(ANY, VECTOR, "global")
class LduOp(Instruction):
    name = "ptx.ldu"


@instruction(_ACCESS, defines=0)
class StOp(Instruction):
    name = "ptx.st"


@instruction(
    ANY,
    VECTOR,
    SCOPES,
    "weak mmio release relaxed shared::cluster global mbarrier::complete_tx::bytes",
    defines=0,
)
class StAsyncOp(Instruction):
    name = "ptx.st.async"


@instruction("weak shared::cta shared", defines=0)
class StBulkOp(Instruction):
    name = "ptx.st.bulk"


@instruction(ANY, SPACES, SCOPES, ORDERS, VECTOR, _REDUCE, "L2::cache_hint", defines=1)
class AtomOp(Instruction):
    name = "ptx.atom"


@instruction(ANY, SPACES, SCOPES, ORDERS, VECTOR, _REDUCE, "L2::cache_hint", defines=0)
class RedOp(Instruction):
    name = "ptx.red"


@instruction(
    ANY,
    SCOPES,
    ORDERS,
    _REDUCE,
    "shared::cluster global mbarrier::complete_tx::bytes",
    defines=0,
)
class RedAsyncOp(Instruction):
    name = "ptx.red.async"


@instruction(SPACES, SCOPES, ORDERS, _VECTOR_REDUCE, _REDUCE, FP8, "acc::f32 acc::f16")
class MultimemLdReduceOp(Instruction):
    name = "ptx.multimem.ld_reduce"


@instruction(SPACES, SCOPES, ORDERS, _VECTOR_REDUCE, FP8, defines=0)
class MultimemStOp(Instruction):
    name = "ptx.multimem.st"


@instruction(SPACES, SCOPES, ORDERS, _VECTOR_REDUCE, _REDUCE, FP8, defines=0)
class MultimemRedOp(Instruction):
    name = "ptx.multimem.red"


@instruction(SPACES, "L1 L2 L2::evict_last L2::evict_normal tensormap", defines=0)
class PrefetchOp(Instruction):
    name = "ptx.prefetch"


@instruction("L1", defines=0)
class PrefetchuOp(Instruction):
    name = "ptx.prefetchu"


@instruction("global L2::evict_normal", defines=0)
class ApplypriorityOp(Instruction):
    name = "ptx.applypriority"


@instruction("global L2", defines=0)
class DiscardOp(Instruction):
    name = "ptx.discard"


@instruction(
    "fractional range global cvt L2 b64 L2::evict_last L2::evict_normal L2::evict_first "
    "L2::evict_unchanged"
)
class CreatepolicyOp(Instruction):
    name = "ptx.createpolicy"


@instruction(SPACES)
class IsspacepOp(Instruction):
    name = "ptx.isspacep"


@instruction(SPACES, "to u32 u64")
class CvtaOp(Instruction):
    name = "ptx.cvta"


@instruction("shared::cluster u32 u64")
class MapaOp(Instruction):
    name = "ptx.mapa"


@instruction("shared::cluster u32 u64")
class GetctarankOp(Instruction):
    name = "ptx.getctarank"


@instruction("u32 u64")
class AllocaOp(Instruction):
    name = "ptx.alloca"


@instruction("u32 u64")
class StacksaveOp(Instruction):
    name = "ptx.stacksave"


@instruction("u32 u64", defines=0)
class StackrestoreOp(Instruction):
    name = "ptx.stackrestore"


MEMORY = [
    MovOp,
    CvtOp,
    CvtPackOp,
    PrmtOp,
    LdOp,
    LduOp,
    StOp,
    StAsyncOp,
    StBulkOp,
    AtomOp,
    RedOp,
    RedAsyncOp,
    MultimemLdReduceOp,
    MultimemStOp,
    MultimemRedOp,
    PrefetchOp,
    PrefetchuOp,
    ApplypriorityOp,
    DiscardOp,
    CreatepolicyOp,
    IsspacepOp,
    CvtaOp,
    MapaOp,
    GetctarankOp,
    AllocaOp,
    StacksaveOp,
    StackrestoreOp,
]
