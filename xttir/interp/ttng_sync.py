"""`ttng` ops that order things: mbarriers, fences, clusters.

An op acts for all programs of the batch at once; `mbarriers.select` says which barrier it means for
which of them. For programs of several CTAs see `interp.clusters`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import ttg, ttng
from xttir.dialects.layouts.placement import blocks_at
from xttir.dialects.locations import location_of
from xttir.interp import phases
from xttir.interp.affine import dense
from xttir.interp.agents import wait_until
from xttir.interp.clusters import left_out, sharing
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier, Selected, select
from xttir.interp.order import Positions
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.positions import choose, same
from xttir.interp.predicates import held
from xttir.interp.proxies import fence
from xttir.interp.taint import observe_branch
from xttir.interp.ttg_memory import COPIES

Slots = tuple[int, ...]


def operand_slots(c: Compiler, op: Operation) -> dict[str, Any]:
    """Slots of the operands of `op` by their ODS names: a slot, None, or a list of slots."""
    found: dict[str, Any] = {}
    for name, _ in op.get_irdl_definition().operands:  # pyright: ignore
        value: Any = getattr(op, name)
        if value is None:
            found[name] = None
        elif isinstance(value, list | tuple):
            found[name] = [c.slot(v) for v in value]
        else:
            found[name] = c.slot(value)
    return found


def build_init(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.init_barrier."""
    assert isinstance(op, ttng.InitBarrierOp)
    ctas = blocks_at(op)
    count = op.count.value.data * sharing(op, op.alloc.type)

    def run(m: Machine, frame: Frame) -> None:
        left_out(m, ctas)
        for barrier, at, _ in select(m.barriers, frame[ins[0]], m.positions()):
            if not barrier.init(count, m.clock.now(at), at):
                phases.report_live(m, op, barrier)

    return run


def build_inval(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.inval_barrier."""

    def run(m: Machine, frame: Frame) -> None:
        for barrier, at, _ in select(m.barriers, frame[ins[0]], m.positions()):
            if phases.usable(m, op, barrier, at):
                barrier.inval(at)

    return run


def arrive(m: Machine, op: Operation, chosen: Selected, count: int, expect: int = 0) -> None:
    """The agent announces bytes at the barriers chosen, arrives, and releases what it has done."""
    for barrier, at, _ in chosen:
        if phases.usable(m, op, barrier, at):
            phases.update(m, op, barrier, count, expect, m.clock.publish(at))


def build_expect(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.barrier_expect: announces bytes, and arrives once."""
    assert isinstance(op, ttng.BarrierExpectOp)
    times = 1 if op.from_cta is not None else sharing(op, op.alloc.type)
    size = op.size.value.data * times
    slots = operand_slots(c, op)
    alloc, pred = slots["alloc"], slots["pred"]

    def run(m: Machine, frame: Frame) -> None:
        holds = held(m, op, frame[pred])
        arrive(m, op, select(m.barriers, frame[alloc], m.positions(), holds), times, size)

    return run


def build_arrive(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.arrive_barrier."""
    assert isinstance(op, ttng.ArriveBarrierOp)
    count = op.count.value.data
    if op.multicast_cta is not None and op.multicast_cta.value.data:
        count <<= op.multicast_cta.value.data.bit_count()
    elif op.from_cta is None:
        count *= sharing(op, op.alloc.type)
    slots = operand_slots(c, op)
    alloc, pred = slots["alloc"], slots["pred"]

    def run(m: Machine, frame: Frame) -> None:
        holds = held(m, op, None if pred is None else frame[pred])
        arrive(m, op, select(m.barriers, frame[alloc], m.positions(), holds), count)

    return run


def build_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.wait_barrier: other agents run until the phase is complete for every program."""
    assert isinstance(op, ttng.WaitBarrierOp)
    slots = operand_slots(c, op)

    alloc, pred, parity_slot = slots["alloc"], slots["pred"], slots["phase"]

    def run(m: Machine, frame: Frame) -> None:
        holds = held(m, op, None if pred is None else frame[pred])
        chosen = select(m.barriers, frame[alloc], m.positions(), holds)
        chosen = [one for one in chosen if phases.usable(m, op, one[0], one[1])]
        phase: np.ndarray = dense(observe_branch(m, op, frame[parity_slot]))
        wanted = wanted_of(chosen, phase)
        wait_until(m, op, lambda: passed(wanted), lambda: missing(wanted))
        for barrier, at, _ in wanted:
            phases.waited(m, op, barrier, at)

    return run


Wanted = list[tuple[MBarrier, Positions, int]]
"""Barriers, for which programs, and the parity of the phase that a wait is for."""


def wanted_of(chosen: Selected, phase: np.ndarray) -> Wanted:
    """What a wait is for that has `phase` (int[1 or b]) as its operand."""
    if phase.size == 1:
        parity = phase.item() & 1
        return [(barrier, at, parity) for barrier, at, _ in chosen]
    phase = phase.reshape(-1)
    if (phase == phase[0]).all():
        return [(barrier, at, int(phase[0]) & 1) for barrier, at, _ in chosen]
    found: Wanted = []
    for barrier, at, rows in chosen:
        mine = phase if rows is None else phase[rows]
        for parity in (0, 1):
            those = same(np.flatnonzero(mine & 1 == parity))
            if those.size:
                found.append((barrier, those if at is None else choose(at, those), parity))
    return found


def passed(wanted: Wanted) -> bool:
    """Whether the wait returns for all programs."""
    if len(wanted) == 1:
        barrier, at, parity = wanted[0]
        return barrier.passed(parity, at)
    return all(barrier.passed(parity, at) for barrier, at, parity in wanted)


def missing(wanted: Wanted) -> str:
    """What the wait is for."""
    barrier, at, parity = next((w for w in wanted if not w[0].passed(w[2], w[1])), wanted[0])
    return f"the phase of parity {parity} of {barrier.name}: {barrier.missing(at)}"


def build_copy_arrive(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_copy_mbarrier_arrive: every thread of the agent arrives once its copies are done;
    unless `noIncrement`, the phase waits for that many arrivals more."""
    assert isinstance(op, ttng.AsyncCopyMbarrierArriveOp)
    arrivals = 32 * warps_of(op) if op.no_increment is not None else 0
    arrivals *= sharing(op, op.barrier.type)

    def run(m: Machine, frame: Frame) -> None:
        positions = m.positions()
        copies = m.clock.engine(COPIES)
        for barrier, at, _ in select(m.barriers, frame[ins[0]], positions):
            if not phases.usable(m, op, barrier, at):
                continue
            released = copies.told(m.clock.publish(at), -1)
            phases.update(m, op, barrier, arrivals, 0, released, True)
        # What is copied from now on is no part of that.
        copies.commit(positions)

    return run


def warps_of(op: Operation) -> int:
    """The number of warps that run `op`."""
    child: Operation = op
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ttg.WarpSpecializePartitionsOp):
            number = parent.partition_regions.index(_region_of(child, parent))
            holder = parent.parent_op()
            assert isinstance(holder, ttg.WarpSpecializeOp)
            return holder.partition_num_warps.get_values()[number]
        if "ttg.num-warps" in parent.attributes:
            return parent.attributes["ttg.num-warps"].value.data  # pyright: ignore
        child, parent = parent, parent.parent_op()
    raise Unsupported("a module without ttg.num-warps", location_of(op))


def _region_of(op: Operation, ancestor: Operation) -> Any:
    block = op.parent_block()
    while block is not None:
        region = block.parent
        assert region is not None
        if region.parent is ancestor:
            return region
        above = region.parent
        block = None if above is None else above.parent_block()
    raise ValueError("not inside")


def build_fence(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.fence_async_shared."""

    def run(m: Machine, frame: Frame) -> None:
        fence(m)

    return run


def build_nothing(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """Ops that order what one CTA, or one thread, has ordered already."""

    def run(m: Machine, frame: Frame) -> None:
        return

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttng.InitBarrierOp: build_init,
        ttng.InvalBarrierOp: build_inval,
        ttng.BarrierExpectOp: build_expect,
        ttng.ArriveBarrierOp: build_arrive,
        ttng.WaitBarrierOp: build_wait,
        ttng.AsyncCopyMbarrierArriveOp: build_copy_arrive,
        ttng.FenceAsyncSharedOp: build_fence,
        ttng.FenceMBarrierInitReleaseClusterOp: build_nothing,
        ttng.ClusterBarrierOp: build_nothing,
        ttng.ClusterArriveOp: build_nothing,
        ttng.ClusterWaitOp: build_nothing,
        ttng.TensormapFenceproxyAcquireOp: build_nothing,
    }
