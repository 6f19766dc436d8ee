"""Comparison, selection, logic and shifts: PTX ISA 9.1, sections 9.7.6 to 9.7.8."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import ANY, BITS, COMPARE, FLOAT, INT, LOGIC


@instruction(ANY, COMPARE, LOGIC, "ftz")
class SetOp(Instruction):
    name = "ptx.set"


@instruction(ANY, COMPARE, LOGIC, "ftz", pair=True)
class SetpOp(Instruction):
    name = "ptx.setp"


@instruction(BITS, INT, FLOAT)
class SelpOp(Instruction):
    name = "ptx.selp"


@instruction(BITS, INT, FLOAT, "ftz")
class SlctOp(Instruction):
    name = "ptx.slct"


@instruction(BITS, "pred")
class AndOp(Instruction):
    name = "ptx.and"


@instruction(BITS, "pred")
class OrOp(Instruction):
    name = "ptx.or"


@instruction(BITS, "pred")
class XorOp(Instruction):
    name = "ptx.xor"


@instruction(BITS, "pred")
class NotOp(Instruction):
    name = "ptx.not"


@instruction(BITS)
class CnotOp(Instruction):
    name = "ptx.cnot"


@instruction("b32 or and xor", pair=True)
class Lop3Op(Instruction):
    name = "ptx.lop3"


@instruction("l r clamp wrap b32")
class ShfOp(Instruction):
    name = "ptx.shf"


@instruction(BITS)
class ShlOp(Instruction):
    name = "ptx.shl"


@instruction(BITS, INT)
class ShrOp(Instruction):
    name = "ptx.shr"


LOGIC_OPS = [
    SetOp,
    SetpOp,
    SelpOp,
    SlctOp,
    AndOp,
    OrOp,
    XorOp,
    NotOp,
    CnotOp,
    Lop3Op,
    ShfOp,
    ShlOp,
    ShrOp,
]
