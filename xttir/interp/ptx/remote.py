"""st.async and red.async: stores and reductions in a neighbour's shared memory that count bytes.

Nothing says that they use the async proxy, so they are generic accesses. PTX ISA 9.1, sections
9.7.9.12 and 9.7.13.7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import AsyncOp, ByBytes, Footprint, Mode, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.bulk import combine
from xttir.interp.ptx.instruction import UNKNOWN, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.units import Skip, check_aligned, lanes_of, memory_operand, vector
from xttir.interp.tensorcore.reductions import OPS

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def _type(step: Step) -> tuple[str, int]:
    """(type, bytes) of an element."""
    for word in step.ins.modifiers:
        if word[0] in "busf" and word[1:] in _SIZES:
            return word, _SIZES[word[1:]]
    raise step.unsupported(f"{step.ins.name} without a type")


@meaning("st.async", "red.async")
def asynchronous(step: Step) -> None:
    ins, n = step.ins, step.lanes.size
    if "global" in ins.modifiers or len(ins.src) < 3:
        raise step.unsupported(f"{ins.name} to global memory")
    type_, size = _type(step)
    parts = vector(ins.src[1])
    total = size * len(parts)
    try:
        offset, block = step.shared(
            step.address(memory_operand(step, ins.src[0])), "shared::cluster"
        )
        bar, bar_block = step.shared(
            step.address(memory_operand(step, ins.src[2])), "shared::cluster"
        )
        check_aligned(step, offset, total, "shared address")
        apart = np.broadcast_to(np.asarray(block != bar_block), (n,))
        if apart.any():
            raise Skip(
                step,
                Kind.MISUSE,
                "the mbarrier is not in the block that the data goes to",
                lanes_of(step, apart),
            )
    except Skip:
        return
    op = next((w for w in ins.modifiers if w in OPS), None)
    where = np.broadcast_to(offset, (n,))[:, None]
    cta = np.broadcast_to(block, (n,))[:, None]
    place = Footprint(Space.SHARED, Mode.RMW if op else Mode.WRITE, where, total, cta=cta)
    barrier = np.broadcast_to(bar, (n,))[:, None]
    counted = np.full((1, 1), total)
    event = AsyncOp(ins.index, step.lanes, ins.name, 1, (place,), ByBytes(barrier, cta, counted))
    data = _bytes([step.get(p, type_) for p in parts], n)
    memory = step.memory

    def perform() -> None:
        if op is None:
            memory.store(place, data)
        else:
            combine(memory, place, (op, type_), data)
        step.complete_tx(barrier, cta, counted)

    step.submit(Task(event, perform))


def _bytes(values: list[Any], n: int) -> Any:
    """uint8 (n, 1, size) of registers side by side."""
    if any(v is UNKNOWN for v in values):
        return UNKNOWN
    raw = np.stack([np.broadcast_to(v, (n,)) for v in values], axis=1)
    return np.ascontiguousarray(raw).view(np.uint8).reshape(n, 1, -1)
