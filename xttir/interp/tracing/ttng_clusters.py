"""Events of `ttng` ops on clusters: barriers of all their blocks, and cluster launch control.

A cluster barrier outside of partitions is the hardware's, for the warps of every partition too.
Within a partition it is made of two mbarriers in turns (`ClusterOpsToLLVM.cpp` of Triton 3.9): a
thread arrives at each peer, all wait for the peers, a counter in shared memory says whose turn it
is. Which work `clc_try_cancel` obtains depends on the machine, and is traced in several ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Proxy, Scope, Sem, Space
from xttir.diagnostics import Unsupported
from xttir.dialects import ttng
from xttir.dialects.locations import location_of
from xttir.interp.tracing import kernel
from xttir.interp.tracing.footprints import whole
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import (
    ONE,
    ZERO,
    barrier_of,
    known_view,
    live,
    made,
    update,
)
from xttir.interp.tracing.ttng_sync import wait_for
from xttir.interp.tracing.values import UNKNOWN

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

MOST_CANCELED = 3
"""How many other programs' work a program is traced to obtain, at most."""


# Barriers -----------------------------------------------------------------------------------------


@events(ttng.ClusterArriveOp)
def cluster_arrive(a: Agent, op: ttng.ClusterArriveOp) -> None:
    sem = Sem.RELAXED if op.relaxed.value.data else Sem.RELEASE
    a.emit(ev.ClusterBarrier(a.ins(op), a.everyone, "arrive", sem))


@events(ttng.ClusterWaitOp)
def cluster_wait(a: Agent, op: ttng.ClusterWaitOp) -> None:
    a.emit(ev.ClusterBarrier(a.ins(op), a.everyone, "wait", Sem.ACQUIRE))


@events(ttng.ClusterBarrierOp)
def cluster_barrier(a: Agent, op: ttng.ClusterBarrierOp) -> None:
    meet_blocks(a, op, Sem.RELAXED if op.relaxed.value.data else Sem.RELEASE)


def meet_blocks(a: Agent, op: Operation, sem: Sem = Sem.RELEASE) -> None:
    """A cluster barrier, of its own or within the lowering of `op`."""
    place = op.attributes.get("ttg.mbar_offset")
    if isinstance(place, IntegerAttr):
        _by_mbarriers(a, op, place.value.data, sem)
        return
    if len(a.tracer.agents) > 1:
        raise Unsupported("a cluster barrier within ttg.warp_specialize", location_of(op))
    workers = a.tracer.threads > a.count
    if workers:
        a.meet_all(op)
    kernel.meet_cluster(a, a.ins(op), sem)
    if workers:
        a.meet_all(op)


def _by_mbarriers(a: Agent, op: Operation, offset: int, sem: Sem) -> None:
    ins, t = a.ins(op), a.tracer
    used = t.state.get(("cluster barrier", offset), 0)
    t.state["cluster barrier", offset] = used + 1
    counter = offset + 8
    a.emit(ev.Access(ins, a.lanes, (kernel.word(a, counter, Mode.READ),)))
    a.meet(op)
    ranks = np.arange(a.blocks, dtype=np.int32)
    barrier = made(a, op, offset + kernel.SLOT * (used & 1), ranks)
    peers = np.arange(1, a.blocks)
    lanes = a.threads_of(peers - 1)
    cta = (ranks[:, None] ^ peers[None, :]).reshape(-1, 1) + t.first_block
    address = np.full(cta.shape, barrier.offset, np.int64)
    update(a, op, barrier, cta, 1, 0)
    a.emit(ev.Arrive(ins, lanes, address, cta.astype(np.int32), ONE, ZERO, sem, Scope.CLUSTER))
    wait_for(a, op, barrier, used >> 1 & 1, Scope.CLUSTER)
    a.emit(ev.Access(ins, a.leader(), (kernel.word(a, counter, Mode.WRITE),)))
    a.meet(op)


# Cluster launch control ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answer:
    """To a request for another program's work."""

    canceled: bool


@events(ttng.CLCTryCancelOp)
def try_cancel(a: Agent, op: ttng.CLCTryCancelOp, result: Any, mbarrier: Any) -> None:
    """One thread of the cluster asks; the answer goes to every block, and counts there."""
    view = known_view(op, result)
    barrier = barrier_of(a, op, mbarrier)
    live(a, op, barrier)
    t = a.tracer
    t.state["answer", view.start] = _answer(a)
    lane = a.leader()[:1]
    cta = (np.arange(a.blocks, dtype=np.int32) + np.int32(t.first_block))[None]
    where = np.full(cta.shape, view.start, np.int64)
    address = np.full(cta.shape, barrier.offset, np.int64)
    place = Footprint(Space.SHARED, Mode.WRITE, where, 16, Proxy.ASYNC, cta)
    done = ev.ByBytes(address, cta, np.full((1, 1), 16))
    update(a, op, barrier, cta, 0, -16)
    a.emit(ev.AsyncOp(a.ins(op), lane, "clc", 1, (place,), done))


def _answer(a: Agent) -> Answer:
    t = a.tracer
    got: int = t.state.get("canceled", 0)
    others = max(t.launch.programs - 1, 0)
    if others > MOST_CANCELED:
        t.assumptions.append(
            f"clusterlaunchcontrol gives a program the work of at most {MOST_CANCELED} others"
        )
    if t.state.get("no more") or got >= min(others, MOST_CANCELED) or not t.choose():
        t.state["no more"] = True
        return Answer(False)
    t.state["canceled"] = got + 1
    return Answer(True)


@events(ttng.CLCLoadResultOp)
def load_result(a: Agent, op: ttng.CLCLoadResultOp, src: Any) -> Any:
    view = known_view(op, src)
    a.emit(ev.Access(a.ins(op), a.lanes, (whole(a, view, Mode.READ),)))
    return a.tracer.state.get(("answer", view.start), UNKNOWN)


@events(ttng.CLCIsCanceledOp, quiet=True)
def is_canceled(a: Agent, op: ttng.CLCIsCanceledOp, answer: Any) -> Any:
    return np.array([answer.canceled]) if isinstance(answer, Answer) else UNKNOWN


@events(ttng.CLCGetProgramIdOp, quiet=True)
def get_program_id(a: Agent, op: ttng.CLCGetProgramIdOp, answer: Any) -> Any:
    return UNKNOWN
