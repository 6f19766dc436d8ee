"""Events of wgmma: products of warpgroups that run on their own.

A warpgroup reads its rows of A and columns of B from shared memory, and is done with a product when
it has waited for the product's group; every op commits a group of its own. The result may be used
only behind that wait, but by the next product that accumulates into it. Rules: `WGMMA.cpp`,
`DotOpToLLVM.cpp` of Triton 3.9; PTX ISA 9.1, section 9.7.15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Proxy
from xttir.diagnostics import Kind, Unsupported
from xttir.dialects import ttng
from xttir.dialects.layouts.to_linear import element_of
from xttir.dialects.locations import location_of, locations_of
from xttir.dialects.ttg import MemDescType
from xttir.interp.tracing.footprints import Pieces, merged, placed, used
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import known_view
from xttir.interp.tracing.tensor_memory import LOAD, loaded_early
from xttir.interp.tracing.values import UNKNOWN, Pending, View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

WARPGROUP = 128
WGMMA = "wgmma"


def used_in_flight(a: Agent, op: Operation, value: Pending) -> None:
    """`op` uses a tensor that an operation is writing, or has been."""
    if value.engine == LOAD:
        loaded_early(a, op, value)
    elif _in_flight(a, value):
        a.fault(
            op,
            Kind.RACE,
            "uses the result of a product that was not waited for",
            "use the result of the ttng.warp_group_dot_wait that waits for it",
            others=locations_of(value.op),
        )


def _in_flight(a: Agent, value: Pending) -> bool:
    return value.moved or value.group >= a.done.get(value.engine, 0)


@events(ttng.WarpGroupDotOp, in_flight=True)
def warp_group_dot(a: Agent, op: ttng.WarpGroupDotOp, *_: Any) -> Any:
    left, right, total = (a.value(v) for v in (op.a, op.b, op.c))
    if isinstance(left, Pending):
        used_in_flight(a, op, left)
    if isinstance(total, Pending):
        _accumulated(a, op, total)
    places = []
    if isinstance(op.a.type, MemDescType):
        places.append(_operand(a, op, op.a, left, 0))
    places.append(_operand(a, op, op.b, right, 1))
    ins = a.ins(op)
    kind = (WGMMA, op.c.type)
    a.emit(ev.AsyncOp(ins, a.lanes, WGMMA, WARPGROUP, tuple(places), ev.ByGroup(), kind))
    a.emit(ev.GroupCommit(ins, a.lanes, WGMMA))
    number = a.groups.get(WGMMA, 0)
    a.groups[WGMMA] = number + 1
    if op.is_async.value.data:
        return Pending(op, number, WGMMA)
    _wait(a, op, 0)
    return UNKNOWN


def _accumulated(a: Agent, op: ttng.WarpGroupDotOp, total: Pending) -> None:
    """Products of one shape on the same registers follow each other without a wait."""
    if total.engine == WGMMA and not total.moved and _shape(total.op) == _shape(op):
        return
    used_in_flight(a, op, total)


def _shape(op: Operation) -> Any:
    assert isinstance(op, ttng.WarpGroupDotOp)
    return op.d.type


@events(ttng.WarpGroupDotWaitOp, in_flight=True)
def warp_group_dot_wait(a: Agent, op: ttng.WarpGroupDotWaitOp, *inputs: Any) -> Any:
    """Without `warpGroupLocal` the warpgroups of an agent wait for each other, too."""
    _wait(a, op, op.pendings.value.data)
    if op.warp_group_local is None and a.warps > 4:
        a.meet(op)
    return tuple(_passed(a, op, value) for value in inputs)


def _wait(a: Agent, op: Operation, pending: int) -> None:
    a.emit(ev.GroupWait(a.ins(op), a.lanes, WGMMA, pending))
    a.done[WGMMA] = max(a.done.get(WGMMA, 0), a.groups.get(WGMMA, 0) - pending)


def _passed(a: Agent, op: Operation, value: Any) -> Any:
    """What becomes of an input of a wait."""
    if not isinstance(value, Pending):
        return value
    if value.engine != WGMMA:
        used_in_flight(a, op, value)
        return UNKNOWN
    flying = value.group >= a.done[WGMMA]
    value.moved = True
    return Pending(value.op, value.group, WGMMA) if flying else UNKNOWN


# Operands -----------------------------------------------------------------------------------------


def _operand(
    a: Agent, op: ttng.WarpGroupDotOp, operand: SSAValue, value: Any, axis: int
) -> Footprint:
    """What each warpgroup reads of A (`axis` 0) or B (1): all that meets, in the product, elements
    of the result that it holds."""
    view = known_view(op, value)
    used(a, view)
    assert isinstance(op.d.type, TensorType)
    if element_of(op.d.type).shape[2] != a.warps or a.warps % 4:
        raise Unsupported(f"{op.name} by {a.warps} warps", location_of(op))
    memo = view.pattern.memo
    key = ("operand", op.d.type, view.ty.encoding, axis, a.warps, a.blocks)
    found: Pieces | None = memo.get(key)
    if found is None:
        found = memo[key] = _by_warpgroup(view, op.d.type, axis)
    return placed(a, view, found, Mode.READ, Proxy.ASYNC)


def _by_warpgroup(view: View, result: TensorType, axis: int) -> Pieces:
    # int64[registers, lanes, warps, blocks] to rows of warpgroups, blocks outside.
    held = element_of(result)[..., axis]
    groups = held.transpose(3, 2, 1, 0).reshape(held.shape[3] * held.shape[2] // 4, -1)
    at = view.pattern.at if axis == 0 else view.pattern.at.T
    met = [np.unique(g) for g in groups]
    wide = max(m.size for m in met)
    table = np.stack([np.pad(m, (0, wide - m.size), mode="edge") for m in met])
    return merged(at[table].reshape(len(met), -1), None, view)
