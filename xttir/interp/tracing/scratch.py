"""Ops that pass data between threads through scratch memory of their own.

Scratch is written, threads meet, and it is read; where that is repeated, what comes first is a
write and what comes last a read, so that others see one round. Which thread uses which byte is the
lowering's affair: every thread is taken to use all of it, and to write what the others write there.
In a conversion that moves nothing between warps each warp meets alone, between a write and a read
of bytes that are its own: to others its beginning, a write, stands for both.
Rules: Triton's `Allocation.cpp`, `Membar.cpp` and lowerings, and the PTX that they give.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Sem, Space
from xttir.diagnostics import Unsupported
from xttir.dialects import tt, ttg
from xttir.dialects.layouts.to_linear import flat_element_of, layout_of
from xttir.dialects.locations import location_of
from xttir.interp.tracing.handlers import events

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

FULL = 0xFFFFFFFF


def through_scratch(a: Agent, op: Operation) -> None:
    """The events of `op`, which has scratch memory (`allocation.offset`, `allocation.size`)."""
    if isinstance(op, ttg.ConvertLayoutOp):
        _convert(a, op)
    elif isinstance(op, tt.ReduceOp):
        _pass(a, op, across=_splits(op.srcs[0].type, op.axis.value.data))
    elif isinstance(op, tt.ScanOp | tt.GatherOp):
        _pass(a, op)
    elif isinstance(op, tt.HistogramOp):
        _access(a, op, Mode.WRITE)
        a.meet(op)
        _access(a, op, Mode.RMW)
        a.meet(op)
        _access(a, op, Mode.READ)
    else:
        raise Unsupported(f"the scratch memory of {op.name}", location_of(op))


def _pass(a: Agent, op: Operation, across: bool = False) -> None:
    """What some threads write others read; `across`: those of all blocks."""
    _access(a, op, Mode.WRITE)
    if across:
        _meet_blocks(a, op)
    else:
        a.meet(op)
    _access(a, op, Mode.READ, across=across)


def _meet_blocks(a: Agent, op: Operation) -> None:
    from xttir.interp.tracing.ttng_clusters import meet_blocks

    meet_blocks(a, op)


def _access(
    a: Agent, op: Operation, mode: Mode, lanes: np.ndarray | None = None, across: bool = False
) -> None:
    """All of the scratch memory of `op`, by all threads or by `lanes`, which write one value to one
    place; `across`: that of all blocks."""
    offset, size = _place(a, op)
    cta = None
    starts = np.full((1, 1), offset, np.int64)
    if across and a.blocks > 1:
        cta = (np.arange(a.blocks) + a.tracer.first_block).astype(np.int32)[None]
        starts = np.repeat(starts, a.blocks, axis=1)
    made = Footprint(Space.SHARED, mode, starts, size, cta=cta)
    sem = Sem.RELAXED if mode is Mode.RMW else Sem.WEAK
    a.emit(ev.Access(a.ins(op), a.lanes if lanes is None else lanes, (made,), sem, equal=True))


def _place(a: Agent, op: Operation) -> tuple[int, int]:
    """Where the scratch memory of `op` is in that of its block, and its size."""
    offset, size = (op.attributes.get(f"allocation.{what}") for what in ("offset", "size"))
    if not isinstance(offset, IntegerAttr) or not isinstance(size, IntegerAttr):
        raise Unsupported(f"{op.name} with scratch memory of unknown size", location_of(op))
    return a.base + offset.value.data, size.value.data


# Conversions --------------------------------------------------------------------------------------


def _convert(a: Agent, op: ttg.ConvertLayoutOp) -> None:
    source, target = op.src.type, op.result.type
    assert isinstance(source, TensorType)
    assert isinstance(target, TensorType)
    if not _stays(source, target, "warp"):
        _pass(a, op, across=not _stays(source, target, "block"))
        return
    _access(a, op, Mode.WRITE)
    a.emit(ev.WarpSync(a.ins(op), a.lanes, np.full(1, FULL, np.uint32)))
    if a.warps == 1:
        _access(a, op, Mode.READ)


@lru_cache(maxsize=1024)
def _stays(source: TensorType, target: TensorType, level: str) -> bool:
    """Whether a conversion moves nothing between blocks (`level` "block"), or neither between
    blocks nor between warps of one ("warp"), where no warp holds copies of another one's."""
    a, b = flat_element_of(source), flat_element_of(target)
    if level == "warp":
        first, second = _only_holder(a), _only_holder(b)
        return first is not None and second is not None and np.array_equal(first, second)
    n = int(a.max(initial=0)) + 1
    for block in range(a.shape[3]):
        have = np.zeros(n, bool)
        have[a[..., block]] = True
        if not have[b[..., block]].all():
            return False
    return True


def _only_holder(held: np.ndarray) -> np.ndarray | None:
    """int64 (blocks, elements): the warp that holds each element, -1: none in this block. None if
    several do."""
    n = int(held.max(initial=0)) + 1
    out = np.full((held.shape[3], n), -1, np.int64)
    for block in range(held.shape[3]):
        for warp in range(held.shape[2]):
            mine = np.unique(held[:, :, warp, block])
            if (out[block, mine] >= 0).any():
                return None
            out[block, mine] = warp
    return out


@lru_cache(maxsize=1024)
def _splits(ty: Attribute, axis: int) -> bool:
    """Whether elements along `axis` are in several blocks."""
    assert isinstance(ty, TensorType)
    return any(basis[axis] for basis in layout_of(ty).bases("block"))


# Atomics ------------------------------------------------------------------------------------------


@events(tt.AtomicRMWOp, tt.AtomicCASOp)
def atomic(a: Agent, op: tt.AtomicRMWOp | tt.AtomicCASOp, *args: Any) -> None:
    """Threads meet before what releases, and after what acquires: there, or where its result passes
    to those that hold copies of it. (On global memory itself: see the questions of every size.)"""
    sem = tt.MemSemantic.of(op.sem)
    scratch = "allocation.offset" in op.attributes
    if sem in (tt.MemSemantic.RELEASE, tt.MemSemantic.ACQUIRE_RELEASE):
        _meet_all_blocks(a, op)
    if scratch:
        pass_to_copies(a, op)
    elif sem in (tt.MemSemantic.ACQUIRE, tt.MemSemantic.ACQUIRE_RELEASE):
        _meet_all_blocks(a, op)


@events(tt.AtomicPollOp)
def atomic_poll(a: Agent, op: tt.AtomicPollOp, *args: Any) -> None:
    if "allocation.offset" in op.attributes:
        pass_to_copies(a, op)
    else:
        _meet_all_blocks(a, op)


def _meet_all_blocks(a: Agent, op: Operation) -> None:
    if a.blocks > 1:
        _meet_blocks(a, op)
    else:
        a.meet(op)


def pass_to_copies(a: Agent, op: Operation) -> None:
    """The result of an atomic goes through scratch memory, if it has one, from the threads that
    have it to those with copies."""
    if "allocation.offset" not in op.attributes:
        return
    ty = op.results[0].type
    if isinstance(ty, TensorType):
        _pass(a, op, across=any(not any(b) for b in layout_of(ty).bases("block")))
        return
    _access(a, op, Mode.WRITE, a.leader()[:1])
    _meet_all_blocks(a, op)
    _access(a, op, Mode.READ)
