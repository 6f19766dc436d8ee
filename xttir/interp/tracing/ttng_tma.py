"""Events of TMA copies, and of stores into the memory of other blocks of a cluster.

A block of a descriptor is copied in boxes: each is a message that one thread of a warp sends, the
warps in turn. Loads write shared memory and complete their bytes on an mbarrier, stores read it
and are groups of their issuers; every thread of the agent commits and waits. What they do to global
memory is left out. Rules: `LoadStoreOpToLLVM.cpp`, `MemoryOpToLLVM.cpp` and `TMAToLLVM.cpp` of
Triton 3.9.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Unsupported
from xttir.dialects import ttng
from xttir.dialects.layouts.encodings import NVMMASharedEncodingAttr
from xttir.dialects.layouts.parameters import cga_of, shape_per_block
from xttir.dialects.layouts.to_linear import element_of, layout_of, memory_shape
from xttir.dialects.locations import location_of
from xttir.dialects.ttng.types import TensorDescIm2ColType
from xttir.interp.tracing import kernel
from xttir.interp.tracing.footprints import copies, footprint
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import Barrier, barrier_of, known_view, live, update
from xttir.interp.tracing.parts import built, dealt
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

BULK = "bulk"
WARP = 32
LONGEST = 256
"""Elements of a box along a dimension, at most."""

PIXELS = 1024
"""Of a box of an im2col descriptor, at most."""

Messages = list[tuple[tuple[slice, ...], int]]
"""For each message of a block: the elements of its box, and the warp that sends it."""


# Boxes --------------------------------------------------------------------------------------------


def box_shape(op: Operation, view: View, im2col: bool = False) -> tuple[int, ...]:
    """The shape of a message's box."""
    encoding = view.ty.encoding
    if not isinstance(encoding, NVMMASharedEncodingAttr):
        raise Unsupported(f"{op.name} of memory laid out as {encoding}", location_of(op))
    shape = list(_part(view))
    padded = 2 if encoding.number("fp4Padded", 0) else 1
    shape[-1] *= padded
    limits = [LONGEST] * len(shape)
    if im2col:
        limits[:-1] = [PIXELS] * (len(shape) - 1)
    shape = [min(size, limit) for size, limit in zip(shape, limits, strict=True)]
    span = encoding.number("swizzlingByteWidth", 0)
    if span:
        width = 8 * span // encoding.number("elementBitWidth")
        if shape[-1] < width:
            raise Unsupported(f"{op.name} of rows of less than {span} bytes", location_of(op))
        shape[-1] = width
    shape[-1] //= padded
    return tuple(shape)


def _part(view: View) -> tuple[int, ...]:
    """The shape of what one block holds."""
    return shape_per_block(cga_of(view.ty.encoding), view.ty.get_shape())


def _rounds(
    a: Agent, op: Operation, view: View, im2col: bool = False
) -> tuple[list[Messages], int]:
    """The messages that are sent at a time, a warp each, and the bytes of one."""
    box, whole = box_shape(op, view, im2col), _part(view)
    if len(box) > len(memory_shape(view.ty.encoding, whole)):
        raise Unsupported(f"{op.name} of several buffers", location_of(op))
    counts = [size // part for size, part in zip(whole, box, strict=True)]
    # The first dimension is the fastest.
    order = (tuple(reversed(at)) for at in product(*(range(n) for n in reversed(counts))))
    boxes = [tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, box, strict=True)) for at in order]
    size = prod(box) * view.itemsize
    return [
        [(one, warp) for warp, one in enumerate(boxes[first : first + a.warps])]
        for first in range(0, len(boxes), a.warps)
    ], size


def _senders(a: Agent, ranks: np.ndarray, warps: list[int]) -> np.ndarray:
    """int32 (ranks * warps,): the first threads of `warps` in the blocks of some ranks."""
    inside = (np.asarray(warps) + a.first_warp) * WARP
    return (a.tracer.first_lanes[ranks][:, None] + inside).reshape(-1).astype(np.int32)


def _boxes(
    a: Agent, view: View, mode: Mode, messages: Messages, ranks: np.ndarray, targets: np.ndarray
) -> Footprint:
    """What messages of the blocks `ranks` touch, in the memory of their `targets` (ranks, k)."""

    def build() -> tuple[np.ndarray, np.ndarray]:
        rows, owners = [], []
        for rank, goal in zip(ranks.tolist(), targets, strict=True):
            at, home = dealt(view, rank)
            for box, _ in messages:
                rows.append(np.tile(at[box].reshape(-1), goal.size))
                owners.append((home[box].reshape(-1) ^ goal[:, None] ^ rank).reshape(-1))
        return np.stack(rows), np.stack(owners)

    key = tuple((*((s.start, s.stop) for s in box), warp) for box, warp in messages)
    step = ("boxes", key, ranks.tobytes(), targets.tobytes())
    return built(a, view, mode, Proxy.ASYNC, step, build)


# Loads --------------------------------------------------------------------------------------------


@events(ttng.AsyncTMACopyGlobalToLocalOp)
def copy_in(a: Agent, op: ttng.AsyncTMACopyGlobalToLocalOp, *_: Any) -> None:
    if not a.held(op, a.value(op.pred)):
        return
    view = known_view(op, a.value(op.result))
    barrier = barrier_of(a, op, a.value(op.barrier))
    live(a, op, barrier)
    im2col = isinstance(op.desc.type, TensorDescIm2ColType)
    ranks, targets = _targets(a, view, op.multicast is not None)
    rounds, size = _rounds(a, op, view, im2col)
    for messages in rounds:
        write = _boxes(a, view, Mode.WRITE, messages, ranks, targets)
        lanes = _senders(a, ranks, [warp for _, warp in messages])
        _load(a, op, barrier, lanes, write, np.repeat(targets, len(messages), axis=0), size)


def _targets(a: Agent, view: View, multicast: bool) -> tuple[np.ndarray, np.ndarray]:
    """The blocks that send, and those that get what each sends: (n,), (n, k), ranks."""
    ranks = np.arange(a.blocks)
    if not multicast:
        return ranks, ranks[:, None]
    bits = copies(view.ty)
    first = ranks[ranks & bits == 0]
    return first, first[:, None] | ranks[ranks & ~bits == 0][None, :]


def _load(
    a: Agent,
    op: Operation,
    barrier: Barrier,
    lanes: np.ndarray,
    write: Footprint,
    targets: np.ndarray,
    size: int,
) -> None:
    """Messages of `lanes` that write, and complete `size` bytes in each of their targets."""
    address = np.full(targets.shape, barrier.offset, np.int64)
    signalled = targets
    if targets.shape[1] == 1:
        signalled = barrier.holder[targets]
    elif barrier.sharers > 1 and kernel.cta_group(a) == 2:
        # cta_group::2: in each target's pair the block that has the parity of the barrier's.
        sender = a.block_of(lanes) - a.tracer.first_block
        signalled = targets & ~1 | barrier.holder[sender][:, None] & 1
    cta = (signalled + a.tracer.first_block).astype(np.int32)
    update(a, op, barrier, cta, 0, -size)
    done = ev.ByBytes(address, cta, np.full((1, 1), size))
    a.emit(ev.AsyncOp(a.ins(op), lanes, BULK, 1, (write,), done))


# Stores -------------------------------------------------------------------------------------------


@events(ttng.AsyncTMACopyLocalToGlobalOp, ttng.AsyncTMAReduceOp)
def copy_out(
    a: Agent, op: ttng.AsyncTMACopyLocalToGlobalOp | ttng.AsyncTMAReduceOp, *_: Any
) -> None:
    view = known_view(op, a.value(op.src))
    ranks = _holders(a, view)
    for messages in _rounds(a, op, view)[0]:
        read = _boxes(a, view, Mode.READ, messages, ranks, ranks[:, None])
        lanes = _senders(a, ranks, [warp for _, warp in messages])
        a.emit(ev.AsyncOp(a.ins(op), lanes, BULK, 1, (read,), ev.ByGroup()))
    a.emit(ev.GroupCommit(a.ins(op), a.lanes, BULK))


def _holders(a: Agent, view: View) -> np.ndarray:
    """Of blocks that hold the same, the first."""
    ranks = np.arange(a.blocks)
    return ranks[ranks & copies(view.ty) == 0]


@events(ttng.TMAStoreWaitOp)
def store_wait(a: Agent, op: ttng.TMAStoreWaitOp) -> None:
    pending, read = op.pendings.value.data, op.read_only is not None
    a.emit(ev.GroupWait(a.ins(op), a.lanes, BULK, pending, read=read))


# Rows ---------------------------------------------------------------------------------------------


@events(ttng.AsyncTMAGatherOp)
def gather(a: Agent, op: ttng.AsyncTMAGatherOp, *_: Any) -> None:
    if not a.held(op, a.value(op.pred)):
        return
    view = known_view(op, a.value(op.result))
    barrier = barrier_of(a, op, a.value(op.barrier))
    live(a, op, barrier)
    ranks, targets = _targets(a, view, op.multicast is not None)
    assert isinstance(op.x_offsets.type, TensorType)
    for lanes, place, reached, size in _row_messages(
        a, op, op.x_offsets.type, view, Mode.WRITE, ranks, targets
    ):
        _load(a, op, barrier, lanes, place, reached, size)


@events(ttng.AsyncTMAScatterOp)
def scatter(a: Agent, op: ttng.AsyncTMAScatterOp, *_: Any) -> None:
    view = known_view(op, a.value(op.src))
    ranks = _holders(a, view)
    assert isinstance(op.x_offsets.type, TensorType)
    for lanes, place, *_rest in _row_messages(
        a, op, op.x_offsets.type, view, Mode.READ, ranks, ranks[:, None]
    ):
        a.emit(ev.AsyncOp(a.ins(op), lanes, BULK, 1, (place,), ev.ByGroup()))
    a.emit(ev.GroupCommit(a.ins(op), a.lanes, BULK))


def _row_messages(
    a: Agent,
    op: Operation,
    rows: TensorType,
    view: View,
    mode: Mode,
    ranks: np.ndarray,
    targets: np.ndarray,
):
    """Messages of four rows, by (threads, footprint, targets of each thread, bytes): a warp sends
    those of the row numbers that it holds, one for every box along the columns."""
    table = np.take(element_of(rows)[:, 0], 0, axis=-1)
    _, distinct = np.unique(table[:, 0, 0], return_index=True)
    held = table[np.sort(distinct)]
    copied = [not any(basis) for basis in layout_of(rows).bases("warp")]
    spare = sum(1 << i for i, free in enumerate(copied) if free)
    warps = [w for w in range(a.warps) if not w & spare]
    width = box_shape(op, view)[-1]
    columns = _part(view)[-1]
    size = 4 * width * view.itemsize
    lanes = _senders(a, ranks, warps)
    reached = np.repeat(targets, len(warps), axis=0)
    for group, first in product(range(0, held.shape[0], 4), range(0, columns, width)):

        def build(group: int = group, first: int = first) -> tuple[np.ndarray, np.ndarray]:
            parts, owners = [], []
            for rank, goal in zip(ranks.tolist(), targets, strict=True):
                at, home = (x[:, first : first + width] for x in dealt(view, rank))
                for warp in warps:
                    rows = held[group : group + 4, warp, rank] % at.shape[0]
                    parts.append(np.tile(at[rows].reshape(-1), goal.size))
                    owners.append((home[rows].reshape(-1) ^ goal[:, None] ^ rank).reshape(-1))
            return np.stack(parts), np.stack(owners)

        step = ("rows", rows, group, first, a.warps, ranks.tobytes(), targets.tobytes())
        yield lanes, built(a, view, mode, Proxy.ASYNC, step, build), reached, size


# Stores into other blocks -------------------------------------------------------------------------


@events(ttng.AsyncSharedStoreOp)
def async_shared_store(a: Agent, op: ttng.AsyncSharedStoreOp, *_: Any) -> None:
    """Every thread stores what it holds, and counts its bytes where they go."""
    view = known_view(op, a.value(op.dst))
    barrier = barrier_of(a, op, a.value(op.mbarrier))
    live(a, op, barrier)
    assert isinstance(op.src.type, TensorType)
    place = footprint(a, op.src.type, view, Mode.WRITE, once=True)
    starts = np.broadcast_to(place.starts, (a.lanes.size, place.starts.shape[1]))
    owner = a.block_of(a.lanes)[:, None] if place.cta is None else place.cta
    owner = np.broadcast_to(owner, starts.shape)
    for block in np.unique(owner[starts >= 0]).tolist():
        mine = (owner == block) & (starts >= 0)
        some = mine.any(axis=1)
        lanes, cta = a.lanes[some], np.full((int(some.sum()), 1), block, np.int32)
        part = Footprint(
            Space.SHARED, Mode.WRITE, np.where(mine, starts, -1)[some], place.size, cta=cta
        )
        count = mine.sum(axis=1)[some][:, None].astype(np.int64) * place.size
        address = np.full(cta.shape, barrier.offset, np.int64)
        holder = barrier.holder[cta - a.tracer.first_block] + np.int32(a.tracer.first_block)
        update(a, op, barrier, holder, 0, -count)
        done = ev.ByBytes(address, holder, count)
        a.emit(ev.AsyncOp(a.ins(op), lanes, "st.async", 1, (part,), done))


# Tensor maps --------------------------------------------------------------------------------------

MAP = 128
"""Bytes of a tensor map."""


@events(ttng.TensormapCreateOp)
def tensormap_create(a: Agent, op: ttng.TensormapCreateOp, *_: Any) -> None:
    """The first warp clears scratch memory, its first thread fills it in, the warp copies it to
    global memory."""
    offset = op.attributes.get("allocation.offset")
    if not isinstance(offset, IntegerAttr):
        return
    at = a.base + offset.value.data
    ins, warp, first = a.ins(op), a.threads_of(np.arange(WARP)), a.leader()
    words = np.tile(at + 4 * np.arange(WARP, dtype=np.int64), a.blocks)[:, None]
    everything = np.full((1, 1), at, np.int64)
    together = ev.WarpSync(ins, warp, np.full(1, 0xFFFFFFFF, np.uint32))
    a.emit(ev.Access(ins, warp, (Footprint(Space.SHARED, Mode.WRITE, words, 4),)))
    a.emit(together)
    a.emit(ev.Access(ins, first, (Footprint(Space.SHARED, Mode.WRITE, everything, MAP),)))
    a.emit(together)
    a.emit(ev.Access(ins, first, (Footprint(Space.SHARED, Mode.READ, everything, MAP),)))


@events(ttng.TensormapFenceproxyAcquireOp)
def tensormap_acquire(a: Agent, op: ttng.TensormapFenceproxyAcquireOp, *_: Any) -> None:
    """The first warp's fence comes with an empty bulk group that it waits for."""
    ins, warp = a.ins(op), a.threads_of(np.arange(WARP))
    a.emit(ev.GroupCommit(ins, warp, BULK))
    a.emit(ev.GroupWait(ins, warp, BULK, 0, read=True))
    a.meet(op)


@events(ttng.ReinterpretTensorDescOp, quiet=True)
def reinterpret_tensor_desc(a: Agent, op: ttng.ReinterpretTensorDescOp, *_: Any) -> None:
    return None
