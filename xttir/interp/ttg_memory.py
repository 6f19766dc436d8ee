"""`ttg` ops on shared memory: allocation, views, loads and stores, asynchronous copies.

Each op is a step of its own (see `Implementations.control`): memory descriptors and tainted values
pass through untouched. An asynchronous copy moves its data when it is issued, which is a legal
order of events; that nobody looks at it too early is what `interp.shared` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue, Use

from xttir.diagnostics import Kind
from xttir.dialects import tt, ttg
from xttir.interp import physical, shared
from xttir.interp.affine import dense
from xttir.interp.batch import take
from xttir.interp.machine import Machine
from xttir.interp.memdesc import TOKEN, Choice, MemDesc, allocate, allocate_bytes
from xttir.interp.memory_ops import load
from xttir.interp.outside import Outside
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
    return any(_by_stage(use) for use in result.uses)


def _by_stage(use: Use) -> bool:
    """Whether what uses a memory takes one stage of it, as far as is seen here."""
    user = use.operation
    if isinstance(user, ttg.WarpSpecializePartitionsOp):
        captured = [region.blocks[0].args[use.index] for region in user.partition_regions]
        return any(_by_stage(inner) for argument in captured for inner in argument.uses)
    return isinstance(user, ttg.MemDescIndexOp) or bool(user.regions)


def allocator(c: Compiler, result: SSAValue) -> Callable[[Machine], MemDesc]:
    """What allocates the memory that `result` describes."""
    ty, op = result.type, result.owner
    assert isinstance(op, Operation)
    shape, dtype = shape_of_memory(ty), dtype_of_memory(ty)
    if physical.seen_as_bytes(result, c.module):
        count, layout = physical.bytes_of_memory(ty), physical.layout_of_memory(ty)
        return lambda m: allocate_bytes(m, op, count, layout, shape)
    split = splits(result)
    return lambda m: allocate(m, op, dtype, shape, split)


def build_alloc(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_alloc, with a value to begin with or without."""
    assert isinstance(op, ttg.LocalAllocOp)
    (out,) = outs
    make = allocator(c, op.result)

    def run(m: Machine, frame: Frame) -> None:
        desc = make(m)
        if ins:
            shared.store(m, op, desc, frame[ins[0]])
        frame[out] = desc

    return run


def build_dealloc(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_dealloc. Once more is nothing: no instruction is made of it, and Triton's pipeliner
    leaves one for every store that uses the memory."""

    def run(m: Machine, frame: Frame) -> None:
        for _, view in frame[ins[0]].each():
            if view.slots is None and view.buffer.freed is None:
                shared.record_access(m, view, "write", op)
                view.buffer.freed = op

    return run


def build_index(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_index. An index that is out of bounds is reported when the view is used, and
    wraps."""
    assert isinstance(op, ttg.MemDescIndexOp)
    (out,) = outs
    extent = shape_of_memory(op.src.type)[0]

    source, place = ins

    def run(m: Machine, frame: Frame) -> None:
        number: Any = frame[place]
        if type(number) is np.ndarray and (number.size == 1 or (number == number[0]).all()):
            one, desc = number.item(0), frame[source]
            if type(desc) is MemDesc and 0 <= one < extent:
                frame[out] = desc.stage(one)
                return
        number = dense(observe_branch(m, op, number)).reshape(-1)
        if number.size == 1 and 0 <= number.item() < extent:
            frame[out] = frame[ins[0]].index(number)
            return
        if number.min() < 0 or number.max() >= extent:
            bad = (number < 0) | (number >= extent)
            value = int(number[bad][0])
            desc = frame[ins[0]].index(number % extent)
            frame[out] = Outside(desc, bad, partial(_report_index, m, op, value, extent))
            return
        frame[out] = frame[ins[0]].index(number)

    return run


def _report_index(m: Machine, op: Operation, value: int, extent: int, bad: np.ndarray) -> None:
    if not m.policy.on("bounds"):
        return
    pids = m.pids[bad] if bad.size == m.pids.size else m.pids
    pid = int(pids.min())
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


def build_reinterpret(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.memdesc_reinterpret: other elements in the same bytes."""
    assert isinstance(op, ttg.MemDescReinterpretOp)
    shape = shape_of_memory(op.result.type)
    if not physical.seen_as_bytes(op.src, c.module):
        return _view_step(lambda desc: desc.reshape(shape), ins, outs)
    layout = physical.layout_of_memory(op.result.type)

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = frame[ins[0]].reinterpret(layout, shape)

    return run


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


def gathered(
    m: Machine,
    op: Operation,
    desc: Desc,
    ty: Attribute,
    axis: int,
    index: Any,
    shifts: Sequence[np.ndarray] = (),
) -> Desc:
    """The elements of `desc` at `index` (a tensor of type `ty`) along `axis`, elsewhere at their
    own place; `shifts` (int[1 or b] for each axis) are added to all of that. Indices that are out
    of bounds are reported, and wrap."""
    shape = shape_of(ty)
    observe_access(m, op, index, None)
    array = dense(plain(index))
    numbers = np.zeros((1,) * (len(shape) + 1), np.int64)
    stride = 1
    for k in reversed(range(len(shape))):
        if k == axis:
            where = np.broadcast_to(array, (array.shape[0], *shape)).astype(np.int64)
        else:
            form = (1,) * (k + 1) + (-1,) + (1,) * (len(shape) - k - 1)
            where = np.arange(shape[k], dtype=np.int64).reshape(form)
        if shifts:
            where = where + shifts[k].reshape((-1,) + (1,) * len(shape)).astype(np.int64)
        extent = desc.shape[k]
        outside = (where < 0) | (where >= extent)
        if outside.any():
            if m.policy.on("bounds"):
                _report_gather(m, op, where, outside, extent)
            where = where % extent
        numbers = numbers + where * stride
        stride *= extent
    return desc.gather(numbers, shape)


def _report_gather(
    m: Machine, op: Operation, index: np.ndarray, outside: np.ndarray, extent: int
) -> None:
    rows = np.argwhere(outside)
    pids = m.pids[rows[:, 0]] if index.shape[0] > 1 else np.repeat(m.pids[:1], len(rows))
    pid = int(pids.min())
    value = int(index[tuple(rows[pids == pid][0])])
    m.log.report(
        op,
        Kind.OUT_OF_BOUNDS,
        f"index along an axis of shared memory of extent {extent} is out of bounds",
        order=(pid,),
        notes=(f"program {m.log.program(pid)}: the index is {value}",),
        witness={"program": list(m.log.program(pid)), "index": value, "extent": extent},
        count=len(rows),
    )


def build_gather(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_gather."""
    assert isinstance(op, ttg.LocalGatherOp)
    axis, ty = op.axis.value.data, op.indices.type

    def run(m: Machine, frame: Frame) -> None:
        view = gathered(m, op, frame[ins[0]], ty, axis, frame[ins[1]])
        frame[outs[0]] = shared.load(m, op, view)

    return run


def build_scatter(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_scatter. Of lanes that store to one place, the last wins, and different values
    there are undefined."""
    assert isinstance(op, ttg.LocalScatterOp)
    axis, ty = op.axis.value.data, op.indices.type

    def run(m: Machine, frame: Frame) -> None:
        view = gathered(m, op, frame[ins[0]], ty, axis, frame[ins[2]])
        value = frame[ins[1]]
        shared.store(m, op, view, value)
        if m.policy.on("lanes"):
            m.counts.add("lanes")
            _lanes_conflict(m, op, view, dense(plain(value)))

    return run


def _lanes_conflict(m: Machine, op: Operation, view: Desc, value: np.ndarray) -> None:
    """Report lanes that another lane of the same program has overwritten with something else."""
    for at, part in view.each():
        now, _, _ = part.read()
        mine = value if at is None else take(value, at)
        word = np.dtype(f"u{now.dtype.itemsize}")
        a, b = np.broadcast_arrays(now, mine)
        lost = np.ascontiguousarray(a).view(word) != np.ascontiguousarray(b).view(word)
        if lost.any():
            rows = np.flatnonzero(lost.reshape(lost.shape[0], -1).any(axis=1))
            pids = [shared.program_of(m, part, int(s)) for s in part.slot_numbers()[rows]]
            m.log.report(
                op,
                Kind.UNDEFINED,
                "lanes of one store write different values to the same element of shared memory",
                order=(min(pids),),
                role="store",
                notes=(f"program {m.log.program(min(pids))}",),
                witness={"program": list(m.log.program(min(pids)))},
                count=int(lost.sum()),
            )


def build_atomic_scatter(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttg.local_atomic_scatter_rmw: lanes that are off give 0."""
    assert isinstance(op, ttg.LocalAtomicScatterRMWOp)
    axis, ty = op.axis.value.data, op.indices.type
    kind = tt.RMWOp(op.atomic_rmw_op.value.data).keyword  # pyright: ignore

    def run(m: Machine, frame: Frame) -> None:
        view = gathered(m, op, frame[ins[0]], ty, axis, frame[ins[2]])
        value, mask = frame[ins[1]], frame[ins[3]] if len(ins) > 3 else None
        observe_access(m, op, value, mask)
        where = None if mask is None else dense(plain(mask))
        frame[outs[0]] = shared.atomic_rmw(m, op, view, kind, dense(plain(value)), where)

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
        ttg.MemDescReinterpretOp: build_reinterpret,
        ttg.LocalLoadOp: build_load,
        ttg.LocalStoreOp: build_store,
        ttg.LocalGatherOp: build_gather,
        ttg.LocalScatterOp: build_scatter,
        ttg.LocalAtomicScatterRMWOp: build_atomic_scatter,
        ttg.AsyncCopyGlobalToLocalOp: build_async_copy,
        ttg.AsyncCommitGroupOp: build_commit,
        ttg.AsyncWaitOp: build_wait,
    }
