"""An instruction of PTX that PTX does not have: `tilekit.clear.shared.b32 [a];` stores zero.

The op says how it is written, its meaning what it does and the event that analyses see.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Access, Footprint, Mode, Space
from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.interp.ptx.instruction import meaning

SIZE = 4


@instruction("shared b32", family="tilekit.clear", defines=0)
class ClearOp(Instruction):
    name = "tilekit.clear"


@meaning("tilekit.clear")
def clear(step: Any) -> None:
    """`step`: see `xttir.interp.ptx.step.Step`."""
    offset, _ = step.shared(step.address(step.ins.src[0]))
    starts = np.broadcast_to(offset, step.lanes.shape)[:, None]
    written = Footprint(Space.SHARED, Mode.WRITE, starts, SIZE)
    step.memory.store(written, np.zeros((1, 1, SIZE), np.uint8))
    step.emit(Access(step.ins.index, step.lanes, (written,)))
