"""Events of `ttng` barriers and fences.

One thread initialises, invalidates, announces and arrives: the first of the agent, in every block
that holds the barrier's word or, to arrive, in every block. Who arrives or announces meets the
other threads of the agent first, so that it arrives for all of them; every thread waits. Rules:
what Triton 3.9 lowers these ops to (`BarrierOpToLLVM.cpp`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Proxy, Scope, Sem, Space
from xttir.diagnostics import Kind, Policy, Unsupported
from xttir.dialects import ttng
from xttir.dialects.locations import location_of
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import ONE, ZERO, Barrier, barrier_of, faults, live, update

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

SHARED = frozenset((Space.SHARED,))


@events(ttng.InitBarrierOp)
def init_barrier(a: Agent, op: ttng.InitBarrierOp, alloc: Any) -> None:
    b = barrier_of(a, op, alloc)
    lanes = b.held(a, a.leader())
    count = np.full(1, op.count.value.data * b.sharers, np.int64)
    a.tracer.mbarriers.init(b.index(a), count, faults(a, op))
    a.emit(ev.BarrierInit(a.ins(op), lanes, _addresses(b, lanes), count))


@events(ttng.InvalBarrierOp)
def inval_barrier(a: Agent, op: ttng.InvalBarrierOp, alloc: Any) -> None:
    b = barrier_of(a, op, alloc)
    lanes = b.held(a, a.leader())
    a.tracer.mbarriers.inval(b.index(a), faults(a, op))
    a.emit(ev.BarrierInval(a.ins(op), lanes, _addresses(b, lanes)))


def _addresses(b: Barrier, lanes: np.ndarray) -> np.ndarray:
    return np.full(lanes.size, b.offset, np.int64)


@events(ttng.BarrierExpectOp)
def barrier_expect(a: Agent, op: ttng.BarrierExpectOp, alloc: Any, pred: Any) -> None:
    expect = np.full(1, op.size.value.data, np.int64)
    _arrive(a, op, alloc, pred, ONE, expect)


@events(ttng.ArriveBarrierOp)
def arrive_barrier(a: Agent, op: ttng.ArriveBarrierOp, alloc: Any, pred: Any = None) -> None:
    if op.multicast_cta is not None and op.multicast_cta.value.data:
        raise Unsupported("ttng.arrive_barrier with multicastCTA", location_of(op))
    count = np.full(1, op.count.value.data, np.int64)
    _arrive(a, op, alloc, pred, count, ZERO)


def _arrive(
    a: Agent,
    op: ttng.ArriveBarrierOp | ttng.BarrierExpectOp,
    alloc: Any,
    pred: Any,
    count: np.ndarray,
    expect: np.ndarray,
) -> None:
    a.meet(op)
    if not a.held(op, pred):
        return  # The barrier may be one that does not exist.
    b = barrier_of(a, op, alloc)
    live(a, op, b)
    if op.from_cta is None:
        lanes = a.leader()
        address, cta = b.places(a, lanes)
    else:
        lanes, cta = _for_others(a, op.from_cta.value.data)
        address = np.full(cta.shape, b.offset, np.int64)
    update(a, op, b, cta, count, expect)
    a.emit(ev.Arrive(a.ins(op), lanes, address, cta, count, expect))


def _for_others(a: Agent, from_cta: int) -> tuple[np.ndarray, np.ndarray]:
    """`fromCTA`: the bits of a block's rank that stay; of the blocks that differ in the others the
    first arrives for each of them, with a thread of its own. (threads, block that each goes to)."""
    ranks = np.arange(a.blocks)
    others = (a.blocks - 1) & ~from_cta
    subsets = ranks[ranks & ~others == 0]
    issuers = ranks[ranks & others == 0]
    rank = np.repeat(issuers, subsets.size)
    threads = np.tile(np.arange(subsets.size), issuers.size)
    first = a.tracer.first_lanes[rank] + a.first_warp * 32
    cta = rank + np.tile(subsets, issuers.size) + a.tracer.first_block
    return (first + threads).astype(np.int32), cta.astype(np.int32)[:, None]


@events(ttng.WaitBarrierOp)
def wait_barrier(a: Agent, op: ttng.WaitBarrierOp, *_: Any) -> None:
    if op.pred is not None and not a.held(op, a.value(op.pred)):
        return
    b = barrier_of(a, op, a.value(op.alloc))
    phase = a.number(op, a.value(op.phase), "the phase of a barrier")
    if phase not in (0, 1):
        # Compilers widen a bit with its sign; the hardware looks at the lowest bit alone.
        a.fault(op, Kind.UNDEFINED, f"a wait for parity {phase}", policy=Policy.STRICT)
    wait_for(a, op, b, phase & 1, Scope.CTA)


def wait_for(a: Agent, op: Operation, b: Barrier, parity: int, scope: Scope) -> None:
    """Every thread of the blocks that hold the word waits for a phase of a parity."""
    m = a.tracer.mbarriers
    live(a, op, b)
    if (m.phase[b.index(a)] & 1 == parity).any():

        def passed() -> np.ndarray:
            return m.phase[b.index(a)] & 1 != parity

        a.wait_until(
            op,
            lambda: bool(passed().all()),
            lambda: _awaited(op, b, m.phase[b.index(a)], m.pending[b.index(a)], passed()),
        )
    lanes = b.held(a, a.lanes)
    known = a.tracer.state.setdefault("waits", {})
    key = (a, b, parity)
    arrays = known.get(key)
    if arrays is None:
        parities = np.full(lanes.size, parity, np.int64)
        arrays = known[key] = (_addresses(b, lanes), parities, np.full(1, -1, np.int64))
    address, parities, phase = arrays
    a.emit(ev.Wait(a.ins(op), lanes, address, parities, phase, Sem.ACQUIRE, scope))


def _awaited(
    op: Operation, b: Barrier, phase: np.ndarray, pending: np.ndarray, passed: np.ndarray
) -> str:
    """What a wait is for; not supported where some blocks could go on without the others."""
    if passed.any():
        raise Unsupported(
            "blocks of a cluster that come to a barrier's phases at different times",
            location_of(op),
        )
    one = int(np.argmin(passed))
    return (
        f"phase {int(phase[one])} of the barrier at {b.offset}, which needs "
        f"{int(pending[one])} more arrivals"
    )


@events(ttng.AsyncCopyMbarrierArriveOp)
def async_copy_mbarrier_arrive(a: Agent, op: ttng.AsyncCopyMbarrierArriveOp, barrier: Any) -> None:
    """Every thread arrives once its copies are done; without `noIncrement` it first adds itself to
    those that are waited for."""
    b = barrier_of(a, op, barrier)
    live(a, op, b)
    lanes = a.lanes
    address = np.full((lanes.size, 1), b.offset, np.int64)
    cta = a.block_of(lanes)[:, None]
    noinc = op.no_increment is not None
    if not noinc:
        index = b.index(a, cta[:, 0] - a.tracer.first_block)
        a.tracer.mbarriers.add_pending(index)
    update(a, op, b, cta, 1, 0)
    a.emit(ev.Arrive(a.ins(op), lanes, address, cta, ONE, ZERO, by="cp.async", noinc=noinc))


# Fences -------------------------------------------------------------------------------------------


@events(ttng.FenceAsyncSharedOp)
def fence_async_shared(a: Agent, op: ttng.FenceAsyncSharedOp) -> None:
    a.emit(ev.ProxyFence(a.ins(op), a.lanes, Proxy.ASYNC, SHARED))


@events(ttng.FenceMBarrierInitReleaseClusterOp)
def fence_init(a: Agent, op: ttng.FenceMBarrierInitReleaseClusterOp) -> None:
    a.emit(ev.Fence(a.ins(op), a.leader(), Sem.RELEASE, Scope.CLUSTER, "mbarrier_init"))
