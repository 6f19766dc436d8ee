"""Ops that apply a region to elements: `tt.reduce`, `tt.scan`, `tt.map_elementwise`.

The region is compiled like any other, and run on whole arrays: its block arguments are scalars in
the IR, arrays of any shape here. The usual combines (a sum, a maximum, an arg-max) are recognised
and done by numpy functions with the same results (`interp.reduce`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from xttir.dialects import tt
from xttir.interp.affine import dense
from xttir.interp.batch import take
from xttir.interp.control import run_single_exit
from xttir.interp.machine import Machine
from xttir.interp.plan import Compiler, Frame, Implementations, RegionPlan, Step
from xttir.interp.reduce import match_combine, reduce_values
from xttir.interp.scan import scan_values
from xttir.interp.taint import Tainted, run_tainted
from xttir.interp.types import shape_of

Arrays = Sequence[np.ndarray]
Combine = Callable[[Arrays, Arrays], list[np.ndarray]]


def _apply(
    m: Machine, region: RegionPlan, frame: Frame, arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Run `region` with its block arguments bound to arrays (b, ...) of equal rank."""
    if region.branches or _has_tiles(region):
        return _apply_by_element(m, region, frame, arguments)
    inner = list(frame)
    rank = arguments[0].ndim
    for slot, array in _captured(region, frame):
        inner[slot] = array.reshape((-1,) + (1,) * (rank - 1))
    for slot, value in zip(region.entry.arguments, arguments, strict=True):
        inner[slot] = value
    return [dense(v) for v in run_single_exit(m, region, inner)]


def _has_tiles(region: RegionPlan) -> bool:
    """Whether the region makes tiles of its scalars."""
    values = (v for op in region.entry.ops for v in (*op.operands, *op.results))
    return any(isinstance(v.type, TensorType) for v in values)


def _apply_by_element(
    m: Machine, region: RegionPlan, frame: Frame, arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The same for regions that branch, or that compute with tiles: every element is a program of
    its own, so that elements which go different ways are told apart as programs are."""
    shape = np.broadcast_shapes(*(a.shape for a in arguments))
    each = int(np.prod(shape[1:]))
    inner = list(frame)
    rows = np.repeat(np.arange(shape[0]), each)
    for slot in region.captured:
        inner[slot] = take(frame[slot], rows)
    for slot, value in zip(region.entry.arguments, arguments, strict=True):
        inner[slot] = np.broadcast_to(value, shape).reshape(-1)
    before = m.pids
    m.pids = np.repeat(before[: shape[0]], each)
    try:
        results = [dense(v) for v in run_single_exit(m, region, inner)]
    finally:
        m.pids = before
    return [np.broadcast_to(r, (shape[0] * each,)).reshape(shape) for r in results]


def _captured(region: RegionPlan, frame: Frame) -> Iterator[tuple[int, np.ndarray]]:
    """Outer scalars that `region` uses."""
    for slot in region.captured:
        value = frame[slot]
        if value is not None and not isinstance(value, Tainted):
            array = dense(value)
            if isinstance(array, np.ndarray) and array.ndim == 1:
                yield slot, array


def _combine_with(m: Machine, region: RegionPlan, frame: Frame) -> Combine:
    def combine(left: Arrays, right: Arrays) -> list[np.ndarray]:
        return _apply(m, region, frame, [*left, *right])

    return combine


def _full(
    m: Machine, op: Operation, region: RegionPlan, frame: Frame, args: Sequence[Any]
) -> list[np.ndarray]:
    """Operands with their lane axes at full extent; one for each program where `region` uses
    something from outside that may differ between programs."""
    arrays: list[np.ndarray] = []
    for value, operand in zip(args, op.operands, strict=True):
        array = dense(value)
        arrays.append(np.broadcast_to(array, (array.shape[0], *shape_of(operand.type))))
    if any(_differs(frame[slot]) for slot in region.captured):
        batch = m.pids.size
        arrays = [np.repeat(a, batch, axis=0) if a.shape[0] < batch else a for a in arrays]
    return arrays


def _differs(value: Any) -> bool:
    """Whether a value may not be the same for all programs."""
    return value is not None and not (type(value) is np.ndarray and value.shape[0] == 1)


def _step(
    op: Operation,
    ins: tuple[int, ...],
    outs: tuple[int, ...],
    run: Callable[[Machine, Frame, Sequence[Any]], Sequence[Any]],
) -> Step:
    def step(m: Machine, frame: Frame) -> None:
        args = [frame[i] for i in ins]
        if m.tainted and any(type(a) is Tainted for a in args):
            results = run_tainted(m, op, tuple(args), lambda a: tuple(run(m, frame, a)))
        else:
            results = run(m, frame, args)
        for slot, value in zip(outs, results, strict=True):
            frame[slot] = value

    return step


def build_reduce(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """tt.reduce along `axis`."""
    assert isinstance(op, tt.ReduceOp)
    region = c.region(op.combine_op)
    axis = op.axis.value.data
    known = match_combine(op.combine_op)

    def run(m: Machine, frame: Frame, args: Sequence[Any]) -> Sequence[Any]:
        arrays = _full(m, op, region, frame, args)
        return reduce_values(arrays, axis + 1, _combine_with(m, region, frame), known)

    return _step(op, ins, outs, run)


def build_scan(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """tt.scan along `axis`, from the end where `reverse` is set."""
    assert isinstance(op, tt.ScanOp)
    region = c.region(op.combine_op)
    axis, reverse = op.axis.value.data, bool(op.reverse.value.data)
    known = match_combine(op.combine_op)

    def run(m: Machine, frame: Frame, args: Sequence[Any]) -> Sequence[Any]:
        arrays = _full(m, op, region, frame, args)
        combine = _combine_with(m, region, frame)
        return scan_values(arrays, axis + 1, combine, reverse, known)

    return _step(op, ins, outs, run)


def build_map(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """tt.map_elementwise: the region gets `pack` neighbouring elements of every operand, operand by
    operand, and gives as many of every result."""
    assert isinstance(op, tt.MapElementwiseOp)
    region = c.region(op.regions[0])
    pack = op.pack.value.data

    def run(m: Machine, frame: Frame, args: Sequence[Any]) -> Sequence[Any]:
        arrays = _full(m, op, region, frame, args)
        batch = max(a.shape[0] for a in arrays)
        shape = arrays[0].shape[1:]
        split = [np.broadcast_to(a, (batch, *shape)).reshape(batch, -1, pack) for a in arrays]
        parts = [a[..., k] for a in split for k in range(pack)]
        results = _apply(m, region, frame, parts)
        found: list[np.ndarray] = []
        for first in range(0, len(results), pack):
            group = [np.broadcast_to(r, parts[0].shape) for r in results[first : first + pack]]
            found.append(np.stack(group, axis=-1).reshape(batch, *shape))
        return found

    return _step(op, ins, outs, run)


def register(implementations: Implementations) -> None:
    """Add these ops."""
    implementations.control |= {
        tt.ReduceOp: build_reduce,
        tt.ScanOp: build_scan,
        tt.MapElementwiseOp: build_map,
    }
