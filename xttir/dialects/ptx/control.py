"""Control flow: PTX ISA 9.1, section 9.7.12, and what ends a block.

Every block ends in a terminator. A guarded branch or return has the next block as last successor,
where lanes go whose guard is false; a block that ends at a label ends in `ptx.fallthrough`, a
function body whose last statement goes on in `ptx.end`. Neither of these two is in the text.
"""

from __future__ import annotations

from xdsl.irdl import traits_def, var_successor_def
from xdsl.traits import IsTerminator

from xttir.dialects.ptx.instruction import Instruction, instruction


class Terminator(Instruction):
    """An instruction that ends a block. `targets` are the values for its successors' arguments."""

    dests = var_successor_def()
    traits = traits_def(IsTerminator())


@instruction("uni", defines=0)
class BraOp(Terminator):
    """Successors: the target, and the next block if guarded."""

    name = "ptx.bra"


@instruction("uni", defines=0)
class BrxIdxOp(Terminator):
    """Successors: the branch targets in order, and the next block if guarded."""

    name = "ptx.brx.idx"


@instruction("uni", defines=0)
class RetOp(Terminator):
    """Successor: the next block if guarded."""

    name = "ptx.ret"


@instruction(defines=0)
class ExitOp(Terminator):
    """Successor: the next block if guarded."""

    name = "ptx.exit"


@instruction(defines=0)
class FallthroughOp(Terminator):
    """On to the next block; not in the text."""

    name = "ptx.fallthrough"


@instruction(defines=0)
class EndOp(Terminator):
    """The end of a function body that nothing returns from; not in the text."""

    name = "ptx.end"


@instruction("uni")
class CallOp(Instruction):
    """`dst`: the return parameters; `src`: the function, a vector of the arguments, and for an
    indirect call the name of its prototype or targets."""

    name = "ptx.call"


@instruction(defines=0)
class TrapOp(Instruction):
    name = "ptx.trap"


@instruction(defines=0)
class BrkptOp(Instruction):
    name = "ptx.brkpt"


@instruction("mask", defines=0)
class PmeventOp(Instruction):
    name = "ptx.pmevent"


IMPLICIT = (FallthroughOp, EndOp)

CONTROL = [
    BraOp,
    BrxIdxOp,
    RetOp,
    ExitOp,
    FallthroughOp,
    EndOp,
    CallOp,
    TrapOp,
    BrkptOp,
    PmeventOp,
]
