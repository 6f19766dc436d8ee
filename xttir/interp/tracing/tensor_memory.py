"""Events of `ttng` ops on tensor memory that threads execute: allocations, views, loads, stores.

A warp loads and stores the cells of the elements that its threads hold; the operations run on their
own until the warp's next wait for them. Waits are ops of their own once the compiler has put them
in, together with barriers (a module whose shared memory is allocated); before that every load and
store is waited for where it stands. Rules: `TensorMemoryToLLVM.cpp` of Triton 3.9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode
from xttir.diagnostics import Kind, Policy
from xttir.dialects import ttng
from xttir.dialects.ttg import MemDescType
from xttir.dialects.ttng.types import TMEMWaitKind
from xttir.interp.physical import ROW_BYTES, ROWS
from xttir.interp.tracing.footprints import footprint
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import known_view
from xttir.interp.tracing.values import UNKNOWN, Pending, View, pattern_of

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

WARP = 32
LOAD, STORE = "tcgen05.ld", "tcgen05.st"


# Places -------------------------------------------------------------------------------------------


@events(ttng.TMEMAllocOp)
def tmem_alloc(a: Agent, op: ttng.TMEMAllocOp, src: Any = None) -> Any:
    ty = op.result.type
    assert isinstance(ty, MemDescType)
    view = View(ty, pattern_of(ty), _place(a, op), op)
    if op.src is not None:
        _store(a, op, op.src.type, view)
    return _results(op, view)


def _place(a: Agent, op: ttng.TMEMAllocOp) -> int:
    """Where an allocation begins (see `Pattern`): as its attributes say, else beyond all that is
    there, every allocation in a place of its own."""
    column = op.attributes.get("tensor_memory_col_offset")
    row = op.attributes.get("tensor_memory_row_offset")
    if isinstance(column, IntegerAttr) and isinstance(row, IntegerAttr):
        return row.value.data * ROW_BYTES + column.value.data * 4
    places = a.tracer.state.setdefault("tensor memory", {})
    return places.setdefault(op, (len(places) + 1) * ROWS * ROW_BYTES)


@events(ttng.TMEMSubSliceOp, quiet=True)
def tmem_subslice(a: Agent, op: ttng.TMEMSubSliceOp, src: Any) -> Any:
    view = known_view(op, src)
    ty = op.result.type
    assert isinstance(ty, MemDescType)
    offsets = [0] * len(ty.get_shape())
    offsets[op.dim.value.data] = op.offset.value.data
    return replace(view.subslice(offsets, ty), partial=True)


# Loads and stores ---------------------------------------------------------------------------------


@events(ttng.TMEMLoadOp)
def tmem_load(a: Agent, op: ttng.TMEMLoadOp, src: Any, dep: Any = None) -> Any:
    view = known_view(op, src)
    assert isinstance(op.result.type, TensorType)
    place = _by_warp(a, op.result.type, view, Mode.READ)
    a.emit(ev.AsyncOp(a.ins(op), a.lanes, LOAD, WARP, (place,), ev.ByTensorWait("ld")))
    if not a.tracer.placed:
        _wait(a, op, "ld")
        return _results(op, UNKNOWN)
    number = a.groups.get(LOAD, 0)
    a.groups[LOAD] = number + 1
    return _results(op, Pending(op, number, LOAD))


@events(ttng.TMEMStoreOp)
def tmem_store(a: Agent, op: ttng.TMEMStoreOp, dst: Any, *_: Any) -> Any:
    view = known_view(op, dst)
    if a.held(op, a.value(op.pred)):
        _store(a, op, op.src.type, view)
    elif not a.tracer.placed:
        _wait(a, op, "st")
    return _results(op, UNKNOWN)


def _store(a: Agent, op: Operation, ty: Any, view: View) -> None:
    place = _by_warp(a, ty, view, Mode.WRITE)
    a.emit(ev.AsyncOp(a.ins(op), a.lanes, STORE, WARP, (place,), ev.ByTensorWait("st")))
    if not a.tracer.placed:
        _wait(a, op, "st")


@events(ttng.TMEMWaitOp)
def tmem_wait(a: Agent, op: ttng.TMEMWaitOp) -> None:
    _wait(a, op, "ld" if TMEMWaitKind.of(op.kind) is TMEMWaitKind.LOAD else "st")


def _wait(a: Agent, op: Operation, which: str) -> None:
    a.emit(ev.TensorWait(a.ins(op), a.lanes, which))
    if which == "ld":
        a.done[LOAD] = a.groups.get(LOAD, 0)


def loaded_early(a: Agent, op: Operation, value: Pending) -> None:
    """`op` uses what a load brings before the wait for it; the hardware waits all the same."""
    if value.group >= a.done.get(LOAD, 0):
        a.fault(
            op,
            Kind.RACE,
            "uses what ttng.tmem_load brings before ttng.tmem_wait",
            policy=Policy.STRICT,
        )


def _results(op: Operation, first: Any) -> Any:
    """`first`, and nothing known of a token or of what a load reduces."""
    return (first, *(UNKNOWN for _ in op.results[1:])) if op.results else ()


def _by_warp(a: Agent, ty: TensorType, view: View, mode: Mode) -> Footprint:
    """The cells that each warp of `a` touches for the elements that its threads hold."""
    by_thread = footprint(a, ty, view, mode)
    known = a.tracer.state.setdefault("cells by warp", {})
    found = known.get(id(by_thread))
    if found is None:
        cells = by_thread.starts.reshape(a.lanes.size // WARP, -1)
        starts, size = _joined(_in_windows(a, cells), by_thread.size)
        made = Footprint(by_thread.space, mode, starts, size)
        found = known[id(by_thread)] = (by_thread, made)
    return found[1]


def _in_windows(a: Agent, cells: np.ndarray) -> np.ndarray:
    """Cells (warps, k) where each warp has them: it reaches the quarter of the rows that is its
    own, and of what is there in every quarter (scale factors) the copy in it."""
    row, column = np.divmod(cells, ROW_BYTES // 4)
    quarter = (np.arange(cells.shape[0]) % a.warps % 4)[:, None]
    row = row - row % ROWS + quarter * WARP + row % WARP
    return np.where(cells >= 0, row * (ROW_BYTES // 4) + column, -1)


def _joined(starts: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Pieces of every row (warps, k) in order, neighbours joined where that leaves as many pieces
    of one size in each row."""
    starts = np.sort(starts, axis=1)
    runs = np.ones(starts.shape, bool)
    runs[:, 1:] = np.diff(starts, axis=1) != size
    heads = np.flatnonzero(runs.reshape(-1))
    lengths = np.diff(np.append(heads, starts.size))
    if starts.min() < 0 or (lengths != lengths[0]).any():
        return starts, size
    return starts[runs].reshape(starts.shape[0], -1), size * int(lengths[0])
