"""Named barriers, cluster barriers and warp barriers. Rules: PTX ISA 9.1, 9.7.13.1 to 9.7.13.4."""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import ClusterBarrier, NamedBarrier, Sem, WarpSync
from xttir.diagnostics import Kind
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import UNKNOWN, Operand, Reg, meaning
from xttir.interp.ptx.named_state import NAMED, NamedBarriers
from xttir.interp.ptx.values import Partial, partial


def _operands(step: ActualStep) -> tuple[np.ndarray, np.ndarray]:
    """(id, thread count or 0), int64 (n,) or (1,); both checked."""
    src: tuple[Operand, ...] = step.ins.src
    id_ = step.integers(src[0])
    second = next(iter(src[1:]), None)
    has_count = second is not None and not (isinstance(second, Reg) and second.type == "pred")
    count = np.zeros(1, np.int64) if second is None or not has_count else step.integers(second)
    if (id_ >= NAMED).any():
        step.fault(Kind.UNDEFINED, f"barrier number {int(id_.max())}: there are {NAMED}")
        id_ = id_ % NAMED
    bad = (count % 32 != 0) if has_count else np.zeros(1, bool)
    if bad.any():
        step.fault(
            Kind.UNDEFINED, f"thread count {int(count[bad][0])} is not a multiple of the warp size"
        )
    return id_, count


def _index(step: ActualStep, id_: np.ndarray) -> np.ndarray:
    """Flat (block, id) of every lane."""
    return step.rows_cta.astype(np.int64) * NAMED + id_


def _faults(step: ActualStep):
    def fault(kind: Kind, message: str, lanes: np.ndarray | None = None) -> None:
        step.fault(kind, message, lanes)

    return fault


def _named(step: ActualStep) -> NamedBarriers:
    return step.executor.barriers.named


@meaning("barrier.sync", "barrier.red")
def sync(step: ActualStep) -> None:
    ins = step.ins
    id_, count = _operands(step)
    state = _named(step)
    lanes = step.lanes
    new = state.waits[lanes] < 0
    red = ins.name == "barrier.red"
    if new.any():
        everyone = bool(new.all())
        who = lanes if everyone else lanes[new]
        index = _index(step, id_)
        if not everyone:
            index = index if index.size == 1 else index[new]
            count_ = count if count.size == 1 else count[new]
        else:
            count_ = count
        flags = known = None
        if red:
            flags, known = _predicates(step)
            if not everyone:
                flags, known = flags[new], known[new]
        state.arrive(who, index, count_, True, _faults(step), flags, known)
    if not step.block(state.passed(lanes), "a named barrier", "named"):
        return
    results = _results(step, state) if red else None
    state.waits[lanes] = -1
    step.emit(_event(step, id_, count, "red" if red else "sync"))
    if results is not None:
        step.put(ins.dst[0], results)


def _predicates(step: ActualStep) -> tuple[np.ndarray, np.ndarray]:
    """What each lane brings to barrier.red and whether it is known, bool (n,)."""
    value = step.raw(step.ins.src[-1], "pred")
    if isinstance(value, Partial):
        return np.broadcast_to(value.data, (step.n,)) != 0, value.known
    if value is UNKNOWN:
        return np.zeros(step.n, bool), np.zeros(step.n, bool)
    value = step.integers(step.ins.src[-1], "pred")
    return np.broadcast_to(value != 0, (step.n,)), np.ones(step.n, bool)


def _results(step: ActualStep, state: NamedBarriers) -> Any:
    """Known where the known predicates decide."""
    true, false, unknown = state.results(step.lanes)
    ins = step.ins
    if ins.has("popc"):
        value, known = true.astype(np.uint32), unknown == 0
    elif ins.has("and"):
        value, known = false == 0, (unknown == 0) | (false > 0)
    else:
        value, known = true > 0, (unknown == 0) | (true > 0)
    return value if known.all() else partial(value, known)


@meaning("barrier.arrive")
def arrive(step: ActualStep) -> None:
    id_, count = _operands(step)
    _named(step).arrive(step.lanes, _index(step, id_), count, False, _faults(step))
    step.emit(_event(step, id_, count, "arrive"))


def _event(step: ActualStep, id_: np.ndarray, count: np.ndarray, kind: str) -> NamedBarrier:
    n = step.n
    return NamedBarrier(
        step.ins.index,
        step.lanes,
        np.broadcast_to(id_, (n,)).astype(np.int32),
        np.broadcast_to(count, (n,)).astype(np.int32),
        kind,
        step.ins.has("aligned"),
    )


@meaning("bar.warp.sync")
def warp_sync(step: ActualStep) -> None:
    mask = np.broadcast_to(step.integers(step.ins.src[0]), (step.n,)).astype(np.uint32)
    lane = (step.tid % 32).astype(np.uint32)
    outside = ((mask >> lane) & 1) == 0
    if outside.any():
        step.fault(
            Kind.UNDEFINED, "bar.warp.sync of a lane its mask does not name", step.lanes[outside]
        )
    step.emit(WarpSync(step.ins.index, step.lanes, mask))


@meaning("barrier.cluster.arrive")
def cluster_arrive(step: ActualStep) -> None:
    step.executor.barriers.cluster.arrive(step.lanes, _faults(step))
    sem = Sem.RELAXED if step.ins.has("relaxed") else Sem.RELEASE
    step.emit(ClusterBarrier(step.ins.index, step.lanes, "arrive", sem))


@meaning("barrier.cluster.wait")
def cluster_wait(step: ActualStep) -> None:
    state = step.executor.barriers.cluster
    ready = state.ready(step.lanes, _faults(step))
    if not step.block(ready, "the cluster barrier", "cluster"):
        return
    state.leave(step.lanes)
    step.emit(ClusterBarrier(step.ins.index, step.lanes, "wait", Sem.ACQUIRE))
