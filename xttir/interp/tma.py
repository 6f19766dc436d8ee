"""`ttng` ops that copy through tensor descriptors: TMA loads, stores, reductions, gathers.

What is outside the tensor reads as zero or NaN and is not written, as for the descriptors of `tt`.
A load moves its data when it is issued, which is a legal order, and completes its bytes at a
barrier; what it writes is stamped with the phase that it completes there. Stores are groups of the
agent's bulk engine. A tensor map in memory is known by its address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from xttir.dialects import tt, ttng
from xttir.interp import phases, shared
from xttir.interp.affine import dense
from xttir.interp.clusters import part_bytes, sharing
from xttir.interp.descriptors import (
    Descriptor,
    block_access,
    observe_block,
    reduction,
    undefined_with,
)
from xttir.interp.im2col import Im2Col, pixels
from xttir.interp.landing import landed
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier, select
from xttir.interp.memory import Pointer
from xttir.interp.memory_ops import atomic_rmw, store
from xttir.interp.order import Positions
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.predicates import for_programs, held, where_held
from xttir.interp.taint import Tainted, observe_branch, plain
from xttir.interp.tensor_maps import find_map, keep_map
from xttir.interp.tt_memory import shape_of_descriptor
from xttir.interp.ttg_memory import shape_of_memory
from xttir.interp.ttng_sync import operand_slots
from xttir.interp.types import numpy_dtype

Slots = tuple[int, ...]

BULK_STORES = "bulk stores"
"""The engine of TMA stores."""

Fetch = Callable[[Machine, Sequence[Any]], Any]
"""(machine, operands) -> the block that a load brings."""


def _load_into(c: Compiler, op: Any, names: Sequence[str], fetch: Fetch, target: Attribute) -> Step:
    """A load into `op.result` that completes at `op.barrier`; `names`: operands of `fetch`."""
    slots = operand_slots(c, op)
    operands: list[int] = []
    for name in names:
        found = slots[name]
        operands += found if isinstance(found, list) else [found]
    operands += [slots["result"], slots["barrier"]]
    shape = shape_of_memory(target)
    size = part_bytes(target) * sharing(op, op.barrier.type)

    def run(m: Machine, frame: Frame) -> None:
        def issue(args: Sequence[Any]) -> None:
            positions = m.positions()
            for barrier, at, rows in select(m.barriers, args[-1], positions):
                for_programs(m, rows, args, lambda a, b=barrier, p=at: copy(m, a, b, p))

        def copy(m: Machine, args: Sequence[Any], barrier: MBarrier, at: Positions) -> None:
            if not phases.usable(m, op, barrier, at):
                return
            value = with_shape(fetch(m, args[:-2]), shape)
            shared.store(m, op, args[-2], value, stamp=barrier.stamp())
            phases.complete_bytes(m, op, barrier, size, at)

        where_held(m, held(m, op, frame[slots["pred"]]), [frame[slot] for slot in operands], issue)

    return run


def with_shape(value: Any, shape: tuple[int, ...]) -> Any:
    """A block without (or with) the unit axes that `shape` lacks (or has)."""
    if type(value) is Tainted:
        bad = with_shape(value.bad, shape)
        return Tainted(with_shape(value.value, shape), bad, value.origin)
    if value.ndim - 1 == len(shape):
        return value
    if value.size == value.shape[0]:
        return value.reshape(-1, *(1 for _ in shape))
    kept = [n for n in value.shape[1:] if n != 1]
    if kept != [n for n in shape if n != 1]:
        raise ValueError(f"a block of {value.shape[1:]} for memory of {shape}")
    return value.reshape(value.shape[0], *shape)


def build_load(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_copy_global_to_local."""
    assert isinstance(op, ttng.AsyncTMACopyGlobalToLocalOp)
    rank = len(op.coord)

    def fetch(m: Machine, args: Sequence[Any]) -> Any:
        d, coordinates, offsets = args[0], args[1 : 1 + rank], args[1 + rank :]
        if isinstance(d, Im2Col):
            pointer, mask = pixels(d, coordinates, offsets)
            return d.fetch(m, op, pointer, mask)
        pointer, mask = block_access(d, [plain(a) for a in coordinates])
        return undefined_with(d.fetch(m, op, pointer, mask), coordinates)

    return _load_into(c, op, ("desc", "coord", "offsets"), fetch, op.result.type)


def build_gather(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_gather: rows `x_offsets`, from column `y_offset` on."""
    assert isinstance(op, ttng.AsyncTMAGatherOp)
    shape = shape_of_memory(op.result.type)

    def fetch(m: Machine, args: Sequence[Any]) -> Any:
        d, indices = _rows(args, shape)
        pointer, mask = block_access(d, [plain(a) for a in indices])
        return undefined_with(d.fetch(m, op, pointer, mask), indices)

    return _load_into(c, op, ("desc", "x_offsets", "y_offset"), fetch, op.result.type)


def _rows(args: Sequence[Any], shape: tuple[int, ...]) -> tuple[Descriptor, list[Any]]:
    """(descriptor, rows, first column) as a block of `shape` and its indices."""
    rows = args[1]
    if type(rows) is Tainted:
        rows = Tainted(dense(rows.value)[:, :, None], rows.bad[:, :, None], rows.origin)
    else:
        rows = dense(rows)[:, :, None]
    return args[0].with_block(shape), [rows, args[2]]


def _stored(
    m: Machine, op: Any, d: Descriptor, source: Any, indices: Sequence[Any]
) -> tuple[Pointer, Any, np.ndarray]:
    """Where a store or reduction of `source` goes (pointers, mask), and what it reads from shared
    memory, as a block of the descriptor."""
    engine = m.clock.engine(BULK_STORES)
    value = shared.load(m, op, source, engine.stamp())
    engine.commit(m.positions())
    shape = shape_of_memory(op.src.type)

    def as_block(array: np.ndarray) -> np.ndarray:
        return _full(array, shape).reshape(array.shape[0], *d.block)

    if type(value) is Tainted:
        value = Tainted(as_block(dense(value.value)), as_block(value.bad), value.origin)
    else:
        value = as_block(dense(value))
    bare, value = observe_block(m, op, d, indices, value)
    return (*block_access(d, bare), value)


def _full(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(value, (value.shape[0], *shape))


def _landing(m: Machine) -> AbstractContextManager[None]:
    """What other programs see of a store made inside waits until it has reached memory."""
    clocks = m.sanitizer.clocks
    return nullcontext() if clocks is None else clocks.landing(int(m.pids[0]))


def build_store(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_copy_local_to_global."""
    assert isinstance(op, ttng.AsyncTMACopyLocalToGlobalOp)
    slots = operand_slots(c, op)

    def run(m: Machine, frame: Frame) -> None:
        d = frame[slots["desc"]]
        coordinates = [frame[slot] for slot in slots["coord"]]
        pointer, mask, values = _stored(m, op, d, frame[slots["src"]], coordinates)
        with _landing(m):
            store(m, op, pointer, mask, values, d.dtype, d.block, lands=True)

    return run


def build_reduce(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_reduce."""
    assert isinstance(op, ttng.AsyncTMAReduceOp)
    slots = operand_slots(c, op)
    kind = reduction(op, tt.DescriptorReduceKind(op.kind.value.data), op.desc.type)  # pyright: ignore

    def run(m: Machine, frame: Frame) -> None:
        d = frame[slots["desc"]]
        coordinates = [frame[slot] for slot in slots["coord"]]
        pointer, mask, values = _stored(m, op, d, frame[slots["src"]], coordinates)
        with _landing(m):
            atomic_rmw(m, op, pointer, mask, values, kind, d.dtype, d.block, used=False)

    return run


def build_scatter(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_scatter: rows `x_offsets`, from column `y_offset` on."""
    assert isinstance(op, ttng.AsyncTMAScatterOp)
    slots = operand_slots(c, op)
    shape = shape_of_memory(op.src.type)

    def run(m: Machine, frame: Frame) -> None:
        names = ("desc", "x_offsets", "y_offset")
        d, indices = _rows([frame[slots[name]] for name in names], shape)
        pointer, mask, values = _stored(m, op, d, frame[slots["src"]], indices)
        with _landing(m):
            store(m, op, pointer, mask, values, d.dtype, shape, lands=True)

    return run


def build_store_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_tma_store_wait: all stores but the latest `pendings` have read what they store,
    and have stored it unless `read_only`."""
    assert isinstance(op, ttng.TMAStoreWaitOp)
    outstanding, read_only = op.pendings.value.data, op.read_only is not None

    def run(m: Machine, frame: Frame) -> None:
        m.clock.engine(BULK_STORES).wait(outstanding, m.positions())
        if read_only:
            return
        if m.landing:
            landed(m)
        if m.sanitizer.clocks is not None:
            m.sanitizer.clocks.landed(int(m.pids[0]))

    return run


def build_shared_store(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.async_shared_store: registers to shared memory, completing its bytes at a barrier."""
    assert isinstance(op, ttng.AsyncSharedStoreOp)
    slots = operand_slots(c, op)
    names = ("src", "dst", "mbarrier")
    size = part_bytes(op.dst.type) * sharing(op, op.mbarrier.type)

    def run(m: Machine, frame: Frame) -> None:
        def put(args: Sequence[Any], barrier: MBarrier, at: Positions) -> None:
            if phases.usable(m, op, barrier, at):
                shared.store(m, op, args[1], args[0], stamp=barrier.stamp())
                phases.complete_bytes(m, op, barrier, size, at)

        args = [frame[slots[name]] for name in names]
        for barrier, at, rows in select(m.barriers, args[2], m.positions()):
            for_programs(m, rows, args, lambda a, b=barrier, p=at: put(a, b, p))

    return run


# --- tensor maps in memory ------------------------------------------------------------------------


def build_create(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tensormap_create. Dimensions come innermost first, strides in bytes, the innermost one
    left out."""
    assert isinstance(op, ttng.TensormapCreateOp)
    slots = operand_slots(c, op)
    nan = op.fill_mode.value.data == 1

    def run(m: Machine, frame: Frame) -> None:
        def numbers(name: str) -> list[np.ndarray]:
            values = [dense(observe_branch(m, op, frame[slot])) for slot in slots[name]]
            return [v.reshape(-1).astype(np.int64) for v in reversed(values)]

        base: Pointer = observe_branch(m, op, frame[slots["global_address"]])
        keep_map(
            m, frame[slots["desc_ptr"]], base, numbers("global_dim"), numbers("global_stride"), nan
        )

    return run


def build_reinterpret(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.reinterpret_tensor_descriptor: the tensor map at an address."""
    assert isinstance(op, ttng.ReinterpretTensorDescOp)
    ty = op.result.type
    assert isinstance(ty, tt.TensorDescType)
    block, dtype = shape_of_descriptor(ty), numpy_dtype(ty.element_type)

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = find_map(m, op, frame[ins[0]], block, dtype)

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttng.AsyncTMACopyGlobalToLocalOp: build_load,
        ttng.AsyncTMACopyLocalToGlobalOp: build_store,
        ttng.AsyncTMAReduceOp: build_reduce,
        ttng.AsyncTMAGatherOp: build_gather,
        ttng.AsyncTMAScatterOp: build_scatter,
        ttng.TMAStoreWaitOp: build_store_wait,
        ttng.AsyncSharedStoreOp: build_shared_store,
        ttng.TensormapCreateOp: build_create,
        ttng.ReinterpretTensorDescOp: build_reinterpret,
    }
