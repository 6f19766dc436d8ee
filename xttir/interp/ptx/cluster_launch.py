"""clusterlaunchcontrol: asking for the work of a block that has not been launched yet.

All blocks of the grid run here, so no block is left to be cancelled: every request is answered with
"nothing cancelled", one of the answers that a card may give. PTX ISA 9.1, section 9.7.13.17.
"""

from __future__ import annotations

import numpy as np

from xttir.analyses.events import AsyncOp, ByBytes, Footprint, Mode, Proxy, Space
from xttir.interp.ptx.instruction import UNKNOWN, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.units import Skip, check_aligned, memory_operand

_ASSUMED = "clusterlaunchcontrol.try_cancel finds no block to cancel: the whole grid runs"


@meaning("clusterlaunchcontrol.try_cancel")
def try_cancel(step: Step) -> None:
    ins, n = step.ins, step.lanes.size
    try:
        offset, block = step.shared(step.address(memory_operand(step, ins.src[0])))
        bar, _ = step.shared(step.address(memory_operand(step, ins.src[1])))
        check_aligned(step, offset, 16, "shared address")
    except Skip:
        return
    step.assume(_ASSUMED)
    where = np.broadcast_to(offset, (n,))[:, None]
    cta = np.broadcast_to(block, (n,))[:, None]
    barrier = np.broadcast_to(bar, (n,))[:, None]
    if "multicast::cluster::all" in ins.modifiers:
        ranks = np.arange(step.ctas_per_cluster, dtype=np.int32)
        cta = (cta - cta % step.ctas_per_cluster + ranks).astype(np.int32)
        where, barrier = (np.broadcast_to(x, cta.shape) for x in (where, barrier))
    place = Footprint(Space.SHARED, Mode.WRITE, where, 16, Proxy.ASYNC, cta)
    counted = np.full((1, 1), 16)
    event = AsyncOp(ins.index, step.lanes, "clc", 1, (place,), ByBytes(barrier, cta, counted))
    memory = step.memory

    def perform() -> None:
        memory.store(place, np.zeros((1, 1, 16), np.uint8))
        step.complete_tx(barrier, cta, counted)

    step.submit(Task(event, perform))


@meaning("clusterlaunchcontrol.query_cancel")
def query_cancel(step: Step) -> None:
    """An answer is 16 bytes, all zero where nothing was cancelled (the only answer there is)."""
    ins = step.ins
    answer = step.get(ins.src[0], "b128")
    if answer is UNKNOWN:
        raise step.unsupported("query_cancel of an answer that is not known")
    if (np.asarray(answer) != 0).any():
        raise step.unsupported("query_cancel of something that try_cancel has not written")
    if "is_canceled" in ins.modifiers:
        step.put(ins.dst[0], np.zeros(1, bool))
    else:  # only to be used where something was cancelled
        step.put(ins.dst[0], UNKNOWN)
