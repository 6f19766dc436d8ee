"""`ttg` ops on shared memory: allocation, views, loads and stores, asynchronous copies.

Each op is a step of its own (see `Implementations.control`): memory descriptors and tainted values
pass through untouched. An asynchronous copy moves its data when it is issued, which is a legal
order of events; that nobody looks at it too early is what `interp.shared` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from xttir.diagnostics import Kind
from xttir.dialects import ttg
from xttir.interp import shared
from xttir.interp.affine import dense
from xttir.interp.machine import Machine
from xttir.interp.memdesc import TOKEN, Choice, MemDesc, allocate
from xttir.interp.memory_ops import load
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.taint import Tainted, observe_access, observe_branch, plain
from xttir.interp.types import numpy_dtype, shape_of

Slots = tuple[int, ...]
Desc = MemDesc | Choice


def shape_of_memory(ty: Attribute) -> tuple[int, ...]:
    """The shape of a memory descriptor type."""
    assert isinstance(ty, ttg.MemDescType)
    return ty.get_shape()


def dtype_of_memory(ty: Attribute) -> np.dtype:
    """The numpy dtype of the elements of a memory descriptor type."""
    assert isinstance(ty, ttg.MemDescType)
    return numpy_dtype(ty.element_type)


def splits(result: SSAValue) -> bool:
    """Whether an allocation is used stage by stage, so that each should be a cell of its own."""
    if len(shape_of_memory(result.type)) < 2:
        return False
    users = [use.operation for use in result.uses]
    return any(isinstance(u, ttg.MemDescIndexOp) or u.regions for u in users)


def build_alloc(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_alloc, with a value to begin with or without."""
    assert isinstance(op, ttg.LocalAllocOp)
    (out,) = outs
    shape, dtype = shape_of_memory(op.result.type), dtype_of_memory(op.result.type)
    split = splits(op.result)
    constant = not op.result.type.mutable_memory.data  # pyright: ignore

    def run(m: Machine, frame: Frame) -> None:
        desc = allocate(m, op, dtype, shape, split)
        if ins:
            if constant:
                # Nobody can write it again: it needs no checks.
                desc.write(frame[ins[0]])
            else:
                shared.store(m, op, desc, frame[ins[0]])
        frame[out] = desc

    return run


def build_dealloc(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_dealloc."""

    def run(m: Machine, frame: Frame) -> None:
        for _, view in frame[ins[0]].each():
            if view.slots is None:
                shared.record_access(m, view, "write", op)
                view.buffer.freed = op

    return run


def build_index(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_index. An index that is out of bounds is reported, and wraps."""
    assert isinstance(op, ttg.MemDescIndexOp)
    (out,) = outs
    extent = shape_of_memory(op.src.type)[0]

    def run(m: Machine, frame: Frame) -> None:
        number: np.ndarray = dense(observe_branch(m, op, frame[ins[1]])).reshape(-1)
        if number.min() < 0 or number.max() >= extent:
            _report_index(m, op, number, extent)
            number = number % extent
        frame[out] = frame[ins[0]].index(number)

    return run


def _report_index(m: Machine, op: Operation, number: np.ndarray, extent: int) -> None:
    if not m.policy.on("bounds"):
        return
    outside = (number < 0) | (number >= extent)
    pids = m.pids if number.size == 1 else m.pids[outside]
    pid = int(pids.min())
    value = int(number[0] if number.size == 1 else number[outside][pids == pid][0])
    m.log.report(
        op,
        Kind.OUT_OF_BOUNDS,
        f"index into shared memory of {extent} stages is out of bounds",
        order=(pid,),
        notes=(f"program {m.log.program(pid)}: the index is {value}",),
        witness={"program": list(m.log.program(pid)), "index": value, "extent": extent},
        count=pids.size,
    )


def _view_step(change: Callable[[Desc], Desc], ins: Slots, outs: Slots) -> Step:
    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = change(frame[ins[0]])

    return run


def build_subslice(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_subslice. A box that sticks out is reported, and moved inside."""
    assert isinstance(op, ttg.MemDescSubsliceOp)
    offsets = [int(n) for n in op.offsets.get_values()]
    full, shape = shape_of_memory(op.src.type), shape_of_memory(op.result.type)
    lead = len(full) - len(shape)
    inside = [max(0, min(o, f - s)) for o, f, s in zip(offsets, full[lead:], shape, strict=True)]

    def run(m: Machine, frame: Frame) -> None:
        if inside != offsets and m.policy.on("bounds"):
            m.log.report(
                op,
                Kind.OUT_OF_BOUNDS,
                "view sticks out of the shared memory that it is a view of",
                notes=(f"offsets {offsets}, shape {list(shape)}, of {list(full)}",),
                witness={"offsets": offsets, "shape": list(shape), "of": list(full)},
            )
        frame[outs[0]] = frame[ins[0]].subslice(inside, shape)

    return run


def build_trans(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_trans."""
    assert isinstance(op, ttg.MemDescTransOp)
    order = [int(n) for n in op.order.get_values()]
    return _view_step(lambda desc: desc.trans(order), ins, outs)


def build_reshape(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_reshape."""
    assert isinstance(op, ttg.MemDescReshapeOp)
    shape = shape_of_memory(op.result.type)
    return _view_step(lambda desc: desc.reshape(shape), ins, outs)


def build_load(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_load."""

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = shared.load(m, op, frame[ins[0]])

    return run


def build_store(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_store."""

    def run(m: Machine, frame: Frame) -> None:
        shared.store(m, op, frame[ins[1]], frame[ins[0]])

    return run


COPIES = "cp.async"
"""The engine of `ttg.async_copy_global_to_local`."""


def build_async_copy(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.async_copy_global_to_local. Lanes that are masked off get `other`, or 0."""
    assert isinstance(op, ttg.AsyncCopyGlobalToLocalOp)
    shape, dtype = shape_of(op.src.type), dtype_of_memory(op.result.type)
    slot = {id(v): s for v, s in zip(op.operands, ins, strict=True)}
    pointer, target = ins[:2]
    mask_slot = None if op.mask is None else slot[id(op.mask)]
    other_slot = None if op.other is None else slot[id(op.other)]
    volatile = bool(op.is_volatile.value.data)

    def run(m: Machine, frame: Frame) -> None:
        mask = None if mask_slot is None else frame[mask_slot]
        other = None if other_slot is None else frame[other_slot]
        address = frame[pointer]
        if m.tainted and any(type(v) is Tainted for v in (mask, other, address)):
            value = _tainted_copy(m, op, address, mask, other, dtype, shape, volatile)
        else:
            filled = None if other is None else dense(other)
            value = load(m, op, address, mask, filled, dtype, shape, volatile)
        stamp = m.clock.engine(COPIES).stamp()
        shared.store(m, op, frame[target], value, stamp=stamp)
        frame[outs[0]] = TOKEN

    return run


def _tainted_copy(
    m: Machine,
    op: Operation,
    pointer: Any,
    mask: Any,
    other: Any,
    dtype: np.dtype,
    shape: tuple[int, ...],
    volatile: bool,
) -> Any:
    """A copy some operand of which is undefined: a bad address or mask shows at once, bad lanes of
    `other` go on into the memory."""
    observe_access(m, op, pointer, mask)
    held = None if mask is None else plain(mask)
    filled = None if other is None else dense(plain(other))
    value = load(m, op, plain(pointer), held, filled, dtype, shape, volatile)
    if type(other) is not Tainted or held is None:
        return value
    bad = other.bad & ~dense(held)
    if type(value) is Tainted:
        return Tainted(value.value, value.bad | bad, value.origin)
    return Tainted(value, bad, other.origin) if bad.any() else value


def build_commit(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.async_commit_group."""

    def run(m: Machine, frame: Frame) -> None:
        m.clock.engine(COPIES).commit(m.positions())
        frame[outs[0]] = TOKEN

    return run


def build_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.async_wait: all groups but the latest `num` are done. The tokens say nothing more."""
    assert isinstance(op, ttg.AsyncWaitOp)
    outstanding = op.num.value.data

    def run(m: Machine, frame: Frame) -> None:
        m.clock.engine(COPIES).wait(outstanding, m.positions())
        frame[outs[0]] = TOKEN

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttg.LocalAllocOp: build_alloc,
        ttg.LocalDeallocOp: build_dealloc,
        ttg.MemDescIndexOp: build_index,
        ttg.MemDescSubsliceOp: build_subslice,
        ttg.MemDescTransOp: build_trans,
        ttg.MemDescReshapeOp: build_reshape,
        ttg.LocalLoadOp: build_load,
        ttg.LocalStoreOp: build_store,
        ttg.AsyncCopyGlobalToLocalOp: build_async_copy,
        ttg.AsyncCommitGroupOp: build_commit,
        ttg.AsyncWaitOp: build_wait,
    }
