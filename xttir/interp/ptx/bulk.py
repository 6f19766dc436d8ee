"""cp.async.bulk: copies and reductions of contiguous bytes by the copy engine, and bulk groups.

Data goes through the async proxy. Copies into shared memory count their bytes on an mbarrier of the
destination's block, copies to global memory complete by group. PTX ISA 9.1, sections 9.7.9.25.4,
9.7.9.25.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses.events import (
    AsyncOp,
    ByBytes,
    ByGroup,
    Completion,
    Footprint,
    GroupCommit,
    GroupWait,
    Mode,
    Proxy,
    Space,
)
from xttir.diagnostics import Kind
from xttir.interp.ptx.groups import groups
from xttir.interp.ptx.instruction import UNKNOWN, Ins, meaning
from xttir.interp.ptx.step import Memory, Step, Task
from xttir.interp.ptx.units import (
    Skip,
    by_size,
    check_aligned,
    cluster_targets,
    lanes_of,
    memory_operand,
)
from xttir.interp.tensorcore.reductions import OPS, element_size, reduce


@dataclass(slots=True, eq=False)
class Target:
    """Shared destinations and their barriers: arrays (units, k), k > 1 with multicast; -1: none."""

    offset: np.ndarray
    cta: np.ndarray
    barrier: np.ndarray
    barrier_cta: np.ndarray


def direction(ins: Ins) -> str:
    """Which way the data goes: "load" (global to shared), "store", "peer" (to another block)."""
    if "bulk_group" in ins.modifiers:
        return "store"
    return "load" if "global" in ins.modifiers else "peer"


def operands_after(ins: Ins, count: int) -> list:
    """What follows the first `count` operands, without a cache policy."""
    rest = list(ins.src[count:])
    return rest[:-1] if "L2::cache_hint" in ins.modifiers else rest


def destination(
    step: Step, where: tuple, barrier: tuple, mask: np.ndarray | None, pair: bool = False
) -> Target:
    """Targets of copies into shared memory.

    `where`, `barrier`: (offset, block) as `Step.shared` gives them. `mask`: blocks of a multicast.
    `pair` (cta_group::2): the barrier may be in the other block of the pair; for a multicast it is
    in the block of the destination's pair whose rank has the parity of the barrier's block.
    """
    n = step.lanes.size
    offset, cta, bar, bar_cta = (np.broadcast_to(x, (n,))[:, None] for x in (*where, *barrier))
    if mask is None:
        apart = cta != bar_cta
        if pair:
            apart &= cta ^ 1 != bar_cta
        if apart.any():
            raise Skip(
                step,
                Kind.MISUSE,
                "the mbarrier is not in the block that the data goes to",
                lanes_of(step, apart),
            )
        return Target(offset, cta, bar, bar_cta)
    blocks = cluster_targets(step, step.cta, np.broadcast_to(mask, (n,)))
    none = blocks < 0
    signal = np.where(none, 0, blocks & ~1 | bar_cta & 1) if pair else blocks
    return Target(
        np.where(none, -1, offset),
        np.where(none, 0, blocks),
        np.where(none, -1, bar),
        np.where(none, 0, signal).astype(np.int32),
    )


@meaning("cp.async.bulk", "cp.reduce.async.bulk")
def cp_async_bulk(step: Step) -> None:
    try:
        _copy(step)
    except Skip:
        return


def _copy(step: Step) -> None:
    ins = step.ins
    way = direction(ins)
    sizes = step.integers(ins.src[2])
    if (sizes % 16 != 0).any():
        wrong = int(sizes[np.argmax(sizes % 16 != 0)])
        raise Skip(step, Kind.UNDEFINED, f"{wrong} bytes: the size is a multiple of 16")
    first = step.address(memory_operand(step, ins.src[0]))
    second = step.address(memory_operand(step, ins.src[1]))
    if "ignore_oob" in ins.modifiers:
        raise step.unsupported("cp.async.bulk with .ignore_oob")
    if way == "store":
        _store(step, first, second, sizes)
        return
    bar = step.address(memory_operand(step, ins.src[3]))
    window = "shared::cluster" if "shared::cluster" in ins.modifiers else "shared::cta"
    mask = None
    if "multicast::cluster" in ins.modifiers:
        mask = step.integers(operands_after(ins, 4)[0], "u16")
    target = destination(step, step.shared(first, window), step.shared(bar, window), mask)
    check_aligned(step, target.offset, 16, "shared address")
    _fill(step, target, way, second, sizes)


def _fill(step: Step, target: Target, way: str, source: np.ndarray, sizes: np.ndarray) -> None:
    """Copies (or reductions) into shared memory."""
    n = step.lanes.size
    if way == "load":
        check_aligned(step, source, 16, "global address")
        starts = np.broadcast_to(source, (n,))[:, None]
        reads = dict(by_size(Space.GLOBAL, Mode.READ, starts, sizes, Proxy.ASYNC))
    else:
        offset, block = step.shared(source)
        check_aligned(step, offset, 16, "shared address")
        starts = np.broadcast_to(offset, (n,))[:, None]
        own = np.broadcast_to(block, (n,))[:, None]
        reads = dict(by_size(Space.SHARED, Mode.READ, starts, sizes, Proxy.ASYNC, own))
    how = _reduction(step)
    mode = Mode.RMW if how else Mode.WRITE
    writes = dict(by_size(Space.SHARED, mode, target.offset, sizes, Proxy.ASYNC, target.cta))
    counted = np.broadcast_to(sizes, (n,))[:, None]
    done = ByBytes(target.barrier, target.barrier_cta, counted)

    def signal() -> None:
        step.complete_tx(target.barrier, target.barrier_cta, counted)

    _submit(step, reads, writes, how, done, signal)


def _store(step: Step, target: np.ndarray, source: np.ndarray, sizes: np.ndarray) -> None:
    """Copies (or reductions) into global memory."""
    ins, n = step.ins, step.lanes.size
    offset, block = step.shared(source)
    check_aligned(step, offset, 16, "shared address")
    check_aligned(step, target, 16, "global address")
    own = np.broadcast_to(block, (n,))[:, None]
    starts = np.broadcast_to(offset, (n,))[:, None]
    reads = dict(by_size(Space.SHARED, Mode.READ, starts, sizes, Proxy.ASYNC, own))
    where = np.broadcast_to(target, (n,))[:, None]
    how = _reduction(step)
    mode = Mode.RMW if how else Mode.WRITE
    writes = dict(by_size(Space.GLOBAL, mode, where, sizes, Proxy.ASYNC))
    if "cp_mask" in ins.modifiers:
        mask = step.integers(operands_after(ins, 3)[0], "u16")
        if (mask != 0xFFFF).any():
            raise step.unsupported("cp.async.bulk with a byte mask that leaves bytes out")
    _submit(step, reads, writes, how, ByGroup(), None)


def _reduction(step: Step) -> tuple[str, str] | None:
    """(operation, element type) of a reduction."""
    if "cp.reduce" not in step.ins.name:
        return None
    words = step.ins.modifiers
    op = next(w for w in words if w in OPS)
    for word in words:
        try:
            element_size(word)
        except KeyError:
            continue
        return op, word
    raise step.unsupported("a reduction without element type")


def _submit(
    step: Step,
    reads: dict[int, Footprint],
    writes: dict[int, Footprint],
    how: tuple[str, str] | None,
    completion: Completion,
    signal: Callable[[], None] | None,
) -> None:
    footprints = (*reads.values(), *writes.values())
    event = AsyncOp(step.ins.index, step.lanes, "bulk", 1, footprints, completion)
    memory = step.memory

    def perform() -> None:
        for size, read in reads.items():
            write = writes[size]
            data = memory.load(read)
            if how is None:
                memory.store(write, data)
            else:
                combine(memory, write, how, data)
        if signal is not None:
            signal()

    submit(step, Task(event, perform))


def submit(step: Step, task: Task) -> None:
    """Hand over a bulk operation; without barrier it joins the lanes' next bulk group."""
    event = task.event
    assert isinstance(event, AsyncOp)
    if isinstance(event.completion, ByGroup) and not step.tracing:
        groups(step, "bulk").add(task, step.lanes)
    step.submit(task)


def combine(memory: Memory, place: Footprint, how: tuple[str, str], data: Any) -> None:
    """Reduce `data`, uint8 (rows, pieces, size), into memory; rows may overlap each other."""
    op, type_ = how
    if data is UNKNOWN:
        memory.check(place)  # a reduction reads what is there
        memory.store(place, UNKNOWN)
        return
    shape = place.starts.shape
    data = np.broadcast_to(data, (*shape, place.size))
    live = place.starts[place.starts >= 0]
    alone = np.unique(live).size == live.size and (
        live.size < 2 or int(np.diff(np.sort(live)).min()) >= place.size
    )
    if alone:
        _combine(memory, place, op, type_, data)
        return
    for row in range(shape[0]):  # one after the other where they meet
        cta = place.cta
        one = Footprint(
            place.space,
            place.mode,
            place.starts[row : row + 1],
            place.size,
            place.proxy,
            cta if cta is None or cta.shape[0] == 1 else cta[row : row + 1],
        )
        _combine(memory, one, op, type_, data[row : row + 1])


def _combine(memory: Memory, place: Footprint, op: str, type_: str, data: Any) -> None:
    old: Any = memory.load(place)
    memory.store(place, UNKNOWN if old is UNKNOWN else reduce(op, type_, old, data))


@meaning("cp.async.bulk.commit_group")
def commit_group(step: Step) -> None:
    step.emit(GroupCommit(step.ins.index, step.lanes, "bulk"))
    if not step.tracing:
        groups(step, "bulk").commit(step.lanes)


@meaning("cp.async.bulk.wait_group")
def wait_group(step: Step) -> None:
    """A wait for the reads alone performs whole operations: one of the orders that are allowed."""
    pending = int(step.integers(step.ins.src[0])[0])
    read = step.ins.has("read")
    step.emit(GroupWait(step.ins.index, step.lanes, "bulk", pending, read=read))
    if not step.tracing:
        step.finish(groups(step, "bulk").wait(step.lanes, pending))


@meaning("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor")
def prefetch(step: Step) -> None:
    """A hint: nothing is read as far as anybody can tell."""
