"""Events of `ttg` ops on shared memory.

Loads and stores are made by every thread for the elements that it holds; threads with copies of an
element store it all, which is one value (stores are not predicated). Of copies that cp.async makes
only the first thread of a block starts one, and each thread waits for its own. Rules: what Triton
3.9 lowers these ops to (`MemoryOpToLLVM.cpp`, `LoadStoreOpToLLVM.cpp`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Scope, Sem
from xttir.diagnostics import Unsupported
from xttir.dialects import arith, ttg
from xttir.dialects.locations import location_of
from xttir.dialects.ttg import MemDescType
from xttir.interp.physical import bytes_of_memory
from xttir.interp.tracing.alignment import check_alignment
from xttir.interp.tracing.footprints import along, footprint, touched
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import known_view
from xttir.interp.tracing.scratch import pass_to_copies
from xttir.interp.tracing.values import View, pattern_of

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

ALIGNMENT = 1024
"""Of buffers in modules before the allocation of shared memory."""

LDMATRIX, STMATRIX = 75, 90
"""The capabilities from which on there are these instructions."""
SCATTERED = "indices of a scatter into shared memory name no place twice"


# Buffers ------------------------------------------------------------------------------------------


@events(ttg.LocalAllocOp)
def local_alloc(a: Agent, op: ttg.LocalAllocOp, src: Any = None) -> View:
    ty = op.result.type
    assert isinstance(ty, MemDescType)
    view = View(ty, pattern_of(ty), _offset(a, op, ty), op)
    if op.src is not None:
        _store(a, op, op.src.type, view)
    return view


def _offset(a: Agent, op: Operation, ty: MemDescType) -> int:
    """Where the buffer begins in the shared memory of each block."""
    attr = op.attributes.get("allocation.offset")
    if isinstance(attr, IntegerAttr):
        return a.base + attr.value.data
    if attr is not None:
        raise Unsupported("shared memory in several partitions", location_of(op))
    if a.tracer.placed:
        raise Unsupported("a buffer without an offset in a module with offsets", location_of(op))
    offsets: dict[Any, int] = a.tracer.state.setdefault("shared offsets", {})
    key = (op, a.frame)
    if key not in offsets:
        offset = a.tracer.state.get("shared end", 0)
        end = offset + bytes_of_memory(ty)
        offsets[key] = offset
        a.tracer.state["shared end"] = -(-end // ALIGNMENT) * ALIGNMENT
    return offsets[key]


@events(ttg.LocalDeallocOp)
def local_dealloc(a: Agent, op: ttg.LocalDeallocOp, src: Any) -> None:
    """What takes the memory next conflicts with what is still going on there."""


# Descriptors --------------------------------------------------------------------------------------


@events(ttg.MemDescIndexOp, quiet=True)
def memdesc_index(a: Agent, op: ttg.MemDescIndexOp, src: Any, index: Any) -> View:
    view = known_view(op, src)
    ty = _type(op)
    number = a.number(op, index, "the number of a buffer")
    count = view.pattern.at.shape[0]
    if 0 <= number < count:
        return view.index(number, ty)
    return replace(view.index(number % count, ty), outside=op)


@events(ttg.MemDescSubsliceOp, quiet=True)
def memdesc_subslice(a: Agent, op: ttg.MemDescSubsliceOp, src: Any) -> View:
    return known_view(op, src).subslice([int(i) for i in op.offsets.get_values()], _type(op))


@events(ttg.MemDescTransOp, quiet=True)
def memdesc_trans(a: Agent, op: ttg.MemDescTransOp, src: Any) -> View:
    return known_view(op, src).trans(tuple(int(i) for i in op.order.get_values()), _type(op))


@events(ttg.MemDescReshapeOp, quiet=True)
def memdesc_reshape(a: Agent, op: ttg.MemDescReshapeOp, src: Any) -> View:
    return known_view(op, src).reshape(_type(op))


@events(ttg.MemDescReinterpretOp, quiet=True)
def memdesc_reinterpret(a: Agent, op: ttg.MemDescReinterpretOp, src: Any) -> View:
    return known_view(op, src).reinterpret(_type(op))


@events(arith.SelectOp, quiet=True)
def select(a: Agent, op: arith.SelectOp, condition: Any, first: Any, second: Any) -> Any:
    """Of descriptors: which one. Others are computed as always."""
    if not isinstance(op.result.type, MemDescType):
        return tuple(a.tracer.evaluator.results(op, [condition, first, second]))
    if first is second:
        return first
    return first if a.number(op, condition, "a choice of memory") else second


def _type(op: Operation) -> MemDescType:
    ty = op.results[0].type
    assert isinstance(ty, MemDescType)
    return ty


# Loads and stores ---------------------------------------------------------------------------------


@events(ttg.LocalLoadOp)
def local_load(a: Agent, op: ttg.LocalLoadOp, src: Any, token: Any = None) -> None:
    view = known_view(op, src)
    made = touched(a, _tensor(op.result.type), view, Mode.READ, since=LDMATRIX)
    check_alignment(a, op, _tensor(op.result.type), view)
    a.emit(ev.Access(a.ins(op), a.lanes, (made,)))


@events(ttg.LocalStoreOp)
def local_store(a: Agent, op: ttg.LocalStoreOp, src: Any, dst: Any) -> None:
    _store(a, op, op.src.type, known_view(op, dst))


def _store(a: Agent, op: Operation, ty: Any, view: View) -> None:
    made = touched(a, _tensor(ty), view, Mode.WRITE, since=STMATRIX)
    check_alignment(a, op, _tensor(ty), view)
    a.emit(ev.Access(a.ins(op), a.lanes, (made,), equal=True))


@events(ttg.LocalGatherOp)
def local_gather(
    a: Agent, op: ttg.LocalGatherOp, src: Any, indices: Any, token: Any = None
) -> None:
    axis = op.axis.value.data
    made = along(a, _tensor(op.indices.type), known_view(op, src), axis, Mode.READ)
    a.emit(ev.Access(a.ins(op), a.lanes, (made,)))


@events(ttg.LocalScatterOp)
def local_scatter(
    a: Agent, op: ttg.LocalScatterOp, dst: Any, values: Any, indices: Any, token: Any = None
) -> None:
    axis = op.axis.value.data
    made = along(a, _tensor(op.indices.type), known_view(op, dst), axis, Mode.WRITE)
    if SCATTERED not in a.tracer.assumptions:
        a.tracer.assumptions.append(SCATTERED)
    a.emit(ev.Access(a.ins(op), a.lanes, (made,), equal=True))


@events(ttg.LocalAtomicScatterRMWOp)
def local_atomic(
    a: Agent,
    op: ttg.LocalAtomicScatterRMWOp,
    dst: Any,
    values: Any,
    indices: Any,
    mask: Any = None,
) -> None:
    axis = op.axis.value.data
    made = along(a, _tensor(op.indices.type), known_view(op, dst), axis, Mode.RMW)
    a.emit(ev.Access(a.ins(op), a.lanes, (made,), sem=Sem.RELAXED, scope=Scope.CTA))
    pass_to_copies(a, op)


def _tensor(ty: Any) -> TensorType:
    assert isinstance(ty, TensorType)
    return ty


# Asynchronous copies ------------------------------------------------------------------------------

CP_ASYNC = "cp.async"


@events(ttg.AsyncCopyGlobalToLocalOp)
def async_copy(
    a: Agent,
    op: ttg.AsyncCopyGlobalToLocalOp,
    src: Any,
    result: Any,
    mask: Any = None,
    other: Any = None,
) -> None:
    view = known_view(op, result)
    made: Footprint = footprint(a, _tensor(op.src.type), view, Mode.WRITE, once=True)
    lanes = a.lanes
    busy = np.asarray((made.starts >= 0).any(axis=1))
    if not busy.all():
        made, lanes = _only(made, busy), lanes[busy]
    a.emit(ev.AsyncOp(a.ins(op), lanes, CP_ASYNC, 1, (made,), ev.ByGroup()))


def _only(f: Footprint, rows: np.ndarray) -> Footprint:
    cta = f.cta if f.cta is None or f.cta.shape[0] == 1 else f.cta[rows]
    return replace(f, starts=f.starts[rows], cta=cta)


@events(ttg.AsyncCommitGroupOp)
def async_commit_group(a: Agent, op: ttg.AsyncCommitGroupOp, *tokens: Any) -> None:
    a.emit(ev.GroupCommit(a.ins(op), a.lanes, CP_ASYNC))


@events(ttg.AsyncWaitOp)
def async_wait(a: Agent, op: ttg.AsyncWaitOp, *tokens: Any) -> None:
    a.emit(ev.GroupWait(a.ins(op), a.lanes, CP_ASYNC, op.num.value.data))
