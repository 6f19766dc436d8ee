"""What a kernel does before its first op and after its last.

All of its tensor memory is allocated once, by the first warp, which passes the address to everybody
through the first word of shared memory; and the barriers that stand for cluster barriers inside of
partitions are initialised. Rules: `NVGPUToLLVMPass.cpp`, `ClusterOpsToLLVM.cpp` of Triton 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Scope, Sem, Space

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

SLOT = 16
"""Bytes from one of the two mbarriers of a cluster barrier to the other; the counter of uses
follows the first of them."""


def cta_group(a: Agent) -> int:
    """How many blocks work on one tensor core product."""
    return 2 if a.tracer.attribute("ttng.two-ctas") else 1


def begin(a: Agent) -> None:
    columns = a.tracer.attribute("ttg.tensor_memory_size")
    if columns:
        _allocate(a, columns)
    count = a.tracer.attribute("ttg.ws_cluster_barrier_count")
    if count:
        _cluster_barriers(a, count)


def end(a: Agent) -> None:
    columns = a.tracer.attribute("ttg.tensor_memory_size")
    op = a.tracer.function
    if a.tracer.threads > a.count:
        a.meet_all(op)  # the workers are told that there is no more work
    if columns:
        group = cta_group(a)
        if group == 1:
            a.meet_all(op, 0)
        a.emit(ev.TensorDealloc(a.ins(op), _first_warp(a), 0, columns, group))


def _first_warp(a: Agent) -> np.ndarray:
    return a.threads_of(np.arange(32))


def word(a: Agent, offset: int, mode: Mode) -> Footprint:
    """A 4-byte word of each thread's own shared memory."""
    return Footprint(Space.SHARED, mode, np.full((1, 1), offset, np.int64), 4)


def _allocate(a: Agent, columns: int) -> None:
    op = a.tracer.function
    ins, group, warp = a.ins(op), cta_group(a), _first_warp(a)
    if group == 2:
        meet_cluster(a, ins, Sem.RELEASE)
    a.emit(ev.TensorAlloc(ins, warp, 0, columns, group))
    # Block by block: what comes later goes by who has read what was written.
    for lanes in np.split(a.leader(), a.blocks):
        a.emit(ev.Access(ins, lanes, (word(a, 0, Mode.WRITE),)))
    a.meet_all(op, 0)
    for lanes in np.split(a.everyone, a.blocks):
        a.emit(ev.Access(ins, lanes, (word(a, 0, Mode.READ),)))
    a.meet_all(op, 0)
    a.emit(ev.TensorRelinquish(ins, warp, group))


def _cluster_barriers(a: Agent, count: int) -> None:
    op, t = a.tracer.function, a.tracer
    ins, lanes = a.ins(op), a.leader()
    ranks = np.arange(a.blocks, dtype=np.int32)
    arrivals = np.full(1, a.blocks - 1, np.int64)
    first = a.tracer.attribute("ttg.shared") - count * 2 * SLOT
    for offset in range(first, first + count * 2 * SLOT, 2 * SLOT):
        for at in (offset, offset + SLOT):
            index = t.mbarriers.place(np.full(a.blocks, at), ranks, _no_fault)
            t.mbarriers.init(index, arrivals, _no_fault)
            a.emit(ev.BarrierInit(ins, lanes, np.full(lanes.size, at, np.int64), arrivals))
        a.emit(ev.Access(ins, lanes, (word(a, offset + 8, Mode.WRITE),)))
    a.emit(ev.Fence(ins, lanes, Sem.RELEASE, Scope.CLUSTER, "mbarrier_init"))
    meet_cluster(a, ins, Sem.RELAXED)


def _no_fault(*_: object) -> None:
    """The compiler's own barriers are right."""


def meet_cluster(a: Agent, ins: int, sem: Sem) -> None:
    """All threads of the cluster meet."""
    a.emit(ev.ClusterBarrier(ins, a.everyone, "arrive", sem))
    a.emit(ev.ClusterBarrier(ins, a.everyone, "wait", Sem.ACQUIRE))
