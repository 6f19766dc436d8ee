"""`ttng` ops on tensor memory: allocation, views, loads, stores, and copies from shared memory.

Loads and stores are what the agent does itself (Triton waits for them where they stand); copies go
through the engine of the tensor core, in order with its products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import ttg, ttng
from xttir.dialects.locations import location_of
from xttir.interp import shared
from xttir.interp.affine import dense
from xttir.interp.machine import Machine
from xttir.interp.memdesc import TOKEN
from xttir.interp.order import TCGEN05
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.predicates import held, where_held
from xttir.interp.taint import Tainted
from xttir.interp.ttg_memory import allocator, shape_of_memory
from xttir.interp.ttng_sync import operand_slots

Slots = tuple[int, ...]


def build_alloc(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_alloc, with a value to begin with or without."""
    assert isinstance(op, ttng.TMEMAllocOp)
    make = allocator(c, op.result)

    def run(m: Machine, frame: Frame) -> None:
        desc = make(m)
        if ins:
            shared.store(m, op, desc, frame[ins[0]])
        frame[outs[0]] = desc
        for slot in outs[1:]:
            frame[slot] = TOKEN

    return run


def build_subslice(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_subslice."""
    assert isinstance(op, ttng.TMEMSubSliceOp)
    shape = shape_of_memory(op.result.type)
    offsets = [0] * len(shape)
    offsets[op.dim.value.data] = op.offset.value.data

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = frame[ins[0]].subslice(offsets, shape)

    return run


def build_load(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_load, with a reduction of the rows if asked for."""
    assert isinstance(op, ttng.TMEMLoadOp)
    source = c.slot(op.src)
    token = None if op.token is None else c.slot(op.token)
    red = None if op.red is None else c.slot(op.red)
    result = c.slot(op.result)

    def run(m: Machine, frame: Frame) -> None:
        value = shared.load(m, op, frame[source])
        frame[result] = value
        if token is not None:
            frame[token] = TOKEN
        if red is not None:
            frame[red] = _reduced(op, value)

    return run


def _reduced(op: ttng.TMEMLoadOp, value: Any) -> Any:
    """The minimum or maximum of each row, of absolute values if asked for."""
    shape = shape_of_memory(op.src.type)
    bare = value.value if type(value) is Tainted else dense(value)
    rows = np.broadcast_to(bare, (bare.shape[0], *shape))
    if op.abs is not None and op.abs.value.data:
        rows = np.abs(rows)
    keeps_nan = op.nan is not None and bool(op.nan.value.data)
    assert op.red_op is not None
    smallest = op.red_op.kind.data == "min"
    if keeps_nan:
        reduced = rows.min(axis=-1) if smallest else rows.max(axis=-1)
    else:
        reduced = np.fmin.reduce(rows, axis=-1) if smallest else np.fmax.reduce(rows, axis=-1)
    if type(value) is Tainted:
        return Tainted(reduced, np.asarray(value.bad.any(axis=-1)), value.origin)
    return reduced


def build_store(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_store."""
    assert isinstance(op, ttng.TMEMStoreOp)
    slots = operand_slots(c, op)

    def run(m: Machine, frame: Frame) -> None:
        def store(args: Sequence[Any]) -> None:
            shared.store(m, op, args[0], args[1])

        where_held(
            m, held(m, op, frame[slots["pred"]]), [frame[slots["dst"]], frame[slots["src"]]], store
        )
        for slot in outs:
            frame[slot] = TOKEN

    return run


def build_copy(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_copy. A source of the target's shape holds the same elements. Other scales come in
    blocks of 32 rows by 4 columns of 4 bytes; what their chunks mean is part of the op (see its
    description in `TritonNvidiaGPUOps.td`)."""
    assert isinstance(op, ttng.TMEMCopyOp)
    source, target = shape_of_memory(op.src.type), shape_of_memory(op.dst.type)
    ty = op.dst.type
    assert isinstance(ty, ttg.MemDescType)
    scales = isinstance(ty.encoding, ttng.TensorMemoryScalesEncodingAttr)
    if prod(source) != prod(target):
        raise Unsupported("ttng.tmem_copy that duplicates its source", location_of(op))

    def arranged(array: np.ndarray) -> np.ndarray:
        if not scales or source == target:
            return array.reshape(array.shape[0], *target)
        rows, columns = target
        blocks = array.reshape(array.shape[0], rows // 128, columns // 4, 32, 4, 4)
        return blocks.transpose(0, 1, 4, 3, 2, 5).reshape(array.shape[0], *target)

    def run(m: Machine, frame: Frame) -> None:
        engine = m.clock.engine(TCGEN05)
        stamp = engine.stamp()
        value = shared.load(m, op, frame[ins[0]], stamp)
        bare = value.value if type(value) is Tainted else dense(value)
        moved = arranged(np.broadcast_to(bare, (bare.shape[0], *source)))
        if type(value) is Tainted:
            bad = np.broadcast_to(value.bad, (value.bad.shape[0], *source))
            moved = Tainted(moved, arranged(bad), value.origin)
        shared.store(m, op, frame[ins[1]], moved, stamp=stamp)
        engine.commit(m.positions())

    return run


def build_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tmem_wait: loads and stores are over when they return here."""

    def run(m: Machine, frame: Frame) -> None:
        return

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttng.TMEMAllocOp: build_alloc,
        ttng.TMEMSubSliceOp: build_subslice,
        ttng.TMEMLoadOp: build_load,
        ttng.TMEMStoreOp: build_store,
        ttng.TMEMCopyOp: build_copy,
        ttng.TMEMWaitOp: build_wait,
    }
