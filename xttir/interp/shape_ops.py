"""`tt` ops that rearrange elements, on arrays and on tensors of pointers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.diagnostics import Kind, Policy
from xttir.dialects import tt
from xttir.interp.attributes import integer
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.numerics import rearrange
from xttir.interp.types import numpy_dtype, shape_of

Args = tuple[Any, ...]


def _moved(f: Callable[..., Any], *values: Any) -> Any:
    """`f` on arrays, or on the offsets of pointers: into one region if they agree, else absolute.

    `f` may return a tuple; then so does this.
    """
    if not isinstance(values[0], Pointer):
        return f(*values)
    region = values[0].region
    if any(v.region is not region for v in values):
        region = None
        offsets = [v.addresses() for v in values]
    else:
        offsets = [v.dense_offset() for v in values]
    moved = f(*offsets)
    if isinstance(moved, tuple):
        return tuple(Pointer(region, m) for m in moved)
    return Pointer(region, moved)


@register_impls
class ShapeFunctions(InterpreterFunctions):
    """Implementations of reshape, trans, cat, join, split, gather and histogram."""

    @impl(tt.ReshapeOp)
    def run_reshape(self, interp: Any, op: tt.ReshapeOp, args: Args) -> Args:
        # allow_reorder permits any order; this one is row-major too.
        old, new = shape_of(op.src.type), shape_of(op.result.type)
        return (_moved(lambda a: rearrange.reshape(a, old, new), args[0]),)

    @impl(tt.TransOp)
    def run_trans(self, interp: Any, op: tt.TransOp, args: Args) -> Args:
        order = [int(n) for n in op.order.get_values()]
        return (_moved(lambda a: rearrange.transpose(a, order), args[0]),)

    @impl(tt.CatOp)
    def run_cat(self, interp: Any, op: tt.CatOp, args: Args) -> Args:
        shape = shape_of(op.lhs.type)
        return (_moved(lambda a, b: rearrange.cat(a, b, shape), *args),)

    @impl(tt.JoinOp)
    def run_join(self, interp: Any, op: tt.JoinOp, args: Args) -> Args:
        return (_moved(rearrange.join, *args),)

    @impl(tt.SplitOp)
    def run_split(self, interp: Any, op: tt.SplitOp, args: Args) -> Args:
        return _moved(rearrange.split, args[0])

    @impl(tt.GatherOp)
    def run_gather(self, interp: Any, op: tt.GatherOp, args: Args) -> Args:
        source, indices = args
        shape, index_shape = shape_of(op.src.type), shape_of(op.indices.type)
        axis = integer(op.axis)
        bad: np.ndarray | None = None

        def gather(a: np.ndarray) -> np.ndarray:
            nonlocal bad
            value, bad = rearrange.gather(a, indices, axis, shape, index_shape)
            return value

        value = _moved(gather, source)
        if bad is None:
            return (value,)
        return (interp.undefined(op, value, bad, "index outside of the gathered axis"),)

    @impl(tt.HistogramOp)
    def run_histogram(self, interp: Any, op: tt.HistogramOp, args: Args) -> Args:
        mask = None if op.mask is None else args[1]
        extent = math.prod(shape_of(op.src.type))
        (bins,) = shape_of(op.result.type)
        value, lost = rearrange.histogram(args[0], mask, extent, bins, numpy_dtype(op.result.type))
        if not interp.policy.on("undefined"):
            return (value,)
        interp.counts.add("undefined")
        if lost is not None:
            _report_lost(interp, op, np.broadcast_to(args[0], lost.shape), lost)
        return (value,)


def _report_lost(m: Machine, op: tt.HistogramOp, values: np.ndarray, lost: np.ndarray) -> None:
    """Values without a bin: NVIDIA's back end drops them, AMD's counts their low bits."""
    if lost.shape[0] == 1:
        lost = np.broadcast_to(lost, (m.pids.size, lost.shape[1]))
    rows = np.argwhere(lost)
    pids = m.pids[rows[:, 0]]
    pid = int(pids.min())
    row, lane = rows[pids == pid][0]
    value = int(values[row % values.shape[0], lane])
    m.fault(
        op,
        Kind.UNDEFINED,
        "tl.histogram of a value without a bin",
        order=(pid,),
        notes=(f"program {m.log.program(pid)}, lane {lane}: the value is {value}; not counted",),
        hint="other targets count it in some bin: leave it out with `mask=`",
        witness={"program": list(m.log.program(pid)), "value": value},
        count=len(rows),
        policy=Policy.STRICT,
    )
