"""cp.async: small copies from global to shared memory that a thread waits for in groups.

Whatever is not read is zero-filled, so the write always covers the whole size. The copy is a
generic access. PTX ISA 9.1, section 9.7.9.25.3; mbarrier form: 9.7.13.15.14.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from xttir.analyses.events import (
    Arrive,
    AsyncOp,
    ByGroup,
    Footprint,
    GroupCommit,
    GroupWait,
    Mode,
    Proxy,
    Scope,
    Sem,
    Space,
)
from xttir.diagnostics import Kind
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.groups import groups, in_flight
from xttir.interp.ptx.instruction import UNKNOWN, Operand, Reg, Value, meaning
from xttir.interp.ptx.load_store import print_of, somewhere
from xttir.interp.ptx.step import Memory, Step, Task
from xttir.interp.ptx.units import Skip, by_size, check_aligned, memory_operand, shared_window


@meaning("cp.async")
def cp_async(step: Step) -> None:
    ins = step.ins
    n = step.lanes.size
    try:
        size = int(step.integers(ins.src[2])[0])
        offset, block = step.shared(step.address(memory_operand(step, ins.src[0])))
        check_aligned(step, offset, size, "shared address")
        reads = _reads(step, size)
    except Skip:
        return
    write = _shared(offset, block, size, n)
    event = AsyncOp(ins.index, step.lanes, "cp.async", 1, (*reads.values(), write), ByGroup())
    memory = step.memory

    def perform() -> None:
        memory.store(write, _gather(memory, reads, n, size))

    task = Task(event, perform)
    if not step.tracing:
        groups(step, "cp.async").add(task, step.lanes)
        in_flight(step, "cp.async").add(task)
    step.submit(task)


def _reads(step: Step, size: int) -> dict[int, Footprint]:
    """What the lanes read, by length."""
    operand = memory_operand(step, step.ins.src[1])
    actual = cast(ActualStep, step)
    vague = actual.spread(operand.base)
    sizes = _source_sizes(step, size)
    if vague is not None:
        place = somewhere(actual, vague, operand.offset, "global", size)
        return {size: print_of(actual, place, Mode.READ, size)}
    source = step.address(operand)
    check_aligned(step, source, size, "global address")
    starts = np.broadcast_to(source, (step.lanes.size,))[:, None]
    if sizes is None:
        return {size: Footprint(Space.GLOBAL, Mode.READ, starts, size, may=True)}
    return dict(by_size(Space.GLOBAL, Mode.READ, starts, sizes, Proxy.GENERIC))


def _shared(offset: np.ndarray, block: np.ndarray, size: int, n: int) -> Footprint:
    where = np.broadcast_to(offset, (n,))[:, None]
    return Footprint(
        Space.SHARED, Mode.WRITE, where, size, cta=np.broadcast_to(block, (n,))[:, None]
    )


def _source_sizes(step: Step, size: int) -> np.ndarray | None:
    """int64 (n,) or (1,): bytes that each lane reads; None: that depends on data."""
    rest: tuple[Operand, ...] = step.ins.src[3:]
    if "L2::cache_hint" in step.ins.modifiers:
        rest = rest[:-1]
    if not rest:
        return np.array([size])
    if step.get(rest[0], "pred" if _is_flag(rest[0]) else "u32") is UNKNOWN:
        return None
    if _is_flag(rest[0]):
        return np.where(step.integers(rest[0], "pred") != 0, 0, size)
    sizes = step.integers(rest[0])
    if (sizes > size).any():
        raise Skip(step, Kind.UNDEFINED, f"src-size {int(sizes.max())} exceeds cp-size {size}")
    return sizes


def _is_flag(operand: Operand) -> bool:
    return isinstance(operand, Reg) and operand.type == "pred"


def _gather(memory: Memory, reads: dict[int, Footprint], n: int, size: int) -> Value:
    """uint8 (n, 1, size): what is read, zeros behind it."""
    out = np.zeros((n, 1, size), np.uint8)
    for length, footprint in reads.items():
        if footprint.may:
            return UNKNOWN
        data: Any = memory.load(footprint)
        if data is UNKNOWN:
            return UNKNOWN
        mine = footprint.starts[:, 0] >= 0
        out[mine, :, :length] = np.broadcast_to(data, (n, 1, length))[mine]
    return out


@meaning("cp.async.commit_group")
def commit_group(step: Step) -> None:
    step.emit(GroupCommit(step.ins.index, step.lanes, "cp.async"))
    if not step.tracing:
        groups(step, "cp.async").commit(step.lanes)


@meaning("cp.async.wait_group")
def wait_group(step: Step) -> None:
    pending = int(step.integers(step.ins.src[0])[0])
    step.emit(GroupWait(step.ins.index, step.lanes, "cp.async", pending))
    if not step.tracing:
        step.finish(groups(step, "cp.async").wait(step.lanes, pending))


@meaning("cp.async.wait_all")
def wait_all(step: Step) -> None:
    step.emit(GroupWait(step.ins.index, step.lanes, "cp.async", 0, everything=True))
    if not step.tracing:
        step.finish(groups(step, "cp.async").wait(step.lanes, 0, everything=True))


@meaning("cp.async.mbarrier.arrive")
def mbarrier_arrive(step: Step) -> None:
    ins = step.ins
    n = step.lanes.size
    where = step.address(memory_operand(step, ins.src[0]))
    offset, block = step.shared(where, shared_window(ins.modifiers))
    address = np.broadcast_to(offset, (n,))[:, None]
    cta = np.broadcast_to(block, (n,))[:, None]
    noinc = ins.has("noinc")
    if not noinc:
        step.add_pending(address, cta)
    event = Arrive(
        ins.index,
        step.lanes,
        address,
        cta,
        np.array([1]),
        np.array([0]),
        Sem.RELEASE,
        Scope.CTA,
        by="cp.async",
        noinc=noinc,
    )
    task = Task(event, lambda: step.arrive(address, cta))
    if not step.tracing:
        task.after = in_flight(step, "cp.async").before(step.lanes)
    step.submit(task)
