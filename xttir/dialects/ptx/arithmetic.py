"""Integer, floating-point and carry arithmetic: PTX ISA 9.1, sections 9.7.1 to 9.7.5."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import FLOAT, HALF, INT, PACKED_INT, ROUND, words

_NUMBERS = words(INT, FLOAT, PACKED_INT)


@instruction(_NUMBERS, ROUND, "ftz sat cc")
class AddOp(Instruction):
    name = "ptx.add"


@instruction("cc s32 u32 s64 u64", reads_carry=True)
class AddcOp(Instruction):
    name = "ptx.addc"


@instruction(_NUMBERS, ROUND, "ftz sat cc")
class SubOp(Instruction):
    name = "ptx.sub"


@instruction("cc s32 u32 s64 u64", reads_carry=True)
class SubcOp(Instruction):
    name = "ptx.subc"


@instruction(_NUMBERS, ROUND, "ftz sat lo hi wide")
class MulOp(Instruction):
    name = "ptx.mul"


@instruction(_NUMBERS, ROUND, "ftz sat lo hi wide cc")
class MadOp(Instruction):
    name = "ptx.mad"


@instruction("cc lo hi s32 u32 s64 u64", reads_carry=True)
class MadcOp(Instruction):
    name = "ptx.madc"


@instruction("lo hi s32 u32")
class Mul24Op(Instruction):
    name = "ptx.mul24"


@instruction("lo hi sat s32 u32")
class Mad24Op(Instruction):
    name = "ptx.mad24"


@instruction(FLOAT, ROUND, "ftz sat relu oob")
class FmaOp(Instruction):
    name = "ptx.fma"


@instruction(INT)
class SadOp(Instruction):
    name = "ptx.sad"


@instruction(INT, FLOAT, ROUND, "ftz approx full")
class DivOp(Instruction):
    name = "ptx.div"


@instruction(INT)
class RemOp(Instruction):
    name = "ptx.rem"


@instruction(INT, FLOAT, "ftz")
class AbsOp(Instruction):
    name = "ptx.abs"


@instruction(INT, FLOAT, "ftz")
class NegOp(Instruction):
    name = "ptx.neg"


@instruction(_NUMBERS, "ftz NaN xorsign abs relu")
class MinOp(Instruction):
    name = "ptx.min"


@instruction(_NUMBERS, "ftz NaN xorsign abs relu")
class MaxOp(Instruction):
    name = "ptx.max"


@instruction("b32 b64")
class PopcOp(Instruction):
    name = "ptx.popc"


@instruction("b32 b64")
class ClzOp(Instruction):
    name = "ptx.clz"


@instruction("shiftamt u32 u64 s32 s64")
class BfindOp(Instruction):
    name = "ptx.bfind"


@instruction("b32")
class FnsOp(Instruction):
    name = "ptx.fns"


@instruction("b32 b64")
class BrevOp(Instruction):
    name = "ptx.brev"


@instruction("u32 u64 s32 s64")
class BfeOp(Instruction):
    name = "ptx.bfe"


@instruction("b32 b64")
class BfiOp(Instruction):
    name = "ptx.bfi"


@instruction("clamp wrap u32 s32")
class SzextOp(Instruction):
    name = "ptx.szext"


@instruction("clamp wrap b32")
class BmskOp(Instruction):
    name = "ptx.bmsk"


@instruction("u32 s32")
class Dp4aOp(Instruction):
    name = "ptx.dp4a"


@instruction("lo hi u32 s32")
class Dp2aOp(Instruction):
    name = "ptx.dp2a"


@instruction("lo hi b64 b32")
class ClmulOp(Instruction):
    name = "ptx.clmul"


@instruction("finite infinite number notanumber normal subnormal f32 f64")
class TestpOp(Instruction):
    name = "ptx.testp"


@instruction("f32 f64")
class CopysignOp(Instruction):
    name = "ptx.copysign"


@instruction(ROUND, "approx ftz f32 f64")
class RcpOp(Instruction):
    name = "ptx.rcp"


@instruction(ROUND, "approx ftz f32 f64")
class SqrtOp(Instruction):
    name = "ptx.sqrt"


@instruction("approx ftz f32 f64")
class RsqrtOp(Instruction):
    name = "ptx.rsqrt"


@instruction("approx ftz f32")
class SinOp(Instruction):
    name = "ptx.sin"


@instruction("approx ftz f32")
class CosOp(Instruction):
    name = "ptx.cos"


@instruction("approx ftz f32")
class Lg2Op(Instruction):
    name = "ptx.lg2"


@instruction(HALF, "approx ftz f32")
class Ex2Op(Instruction):
    name = "ptx.ex2"


@instruction(HALF, "approx f32")
class TanhOp(Instruction):
    name = "ptx.tanh"


ARITHMETIC = [
    AddOp,
    AddcOp,
    SubOp,
    SubcOp,
    MulOp,
    MadOp,
    MadcOp,
    Mul24Op,
    Mad24Op,
    FmaOp,
    SadOp,
    DivOp,
    RemOp,
    AbsOp,
    NegOp,
    MinOp,
    MaxOp,
    PopcOp,
    ClzOp,
    BfindOp,
    FnsOp,
    BrevOp,
    BfeOp,
    BfiOp,
    SzextOp,
    BmskOp,
    Dp4aOp,
    Dp2aOp,
    ClmulOp,
    TestpOp,
    CopysignOp,
    RcpOp,
    SqrtOp,
    RsqrtOp,
    SinOp,
    CosOp,
    Lg2Op,
    Ex2Op,
    TanhOp,
]
