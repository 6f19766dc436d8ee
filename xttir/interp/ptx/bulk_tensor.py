"""cp.async.bulk.tensor: boxes of a tensor map between global and shared memory, and reductions.

A load writes and counts the whole box, out of bounds or not; a store leaves out what is out of
bounds. PTX ISA 9.1, section 9.7.9.27; traps (start of a row at a multiple of 16 bytes, destination
at one of 128) as seen on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses.events import AsyncOp, ByBytes, ByGroup, Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind, Policy
from xttir.interp.ptx.bulk import Target, combine, destination, operands_after, submit
from xttir.interp.ptx.instruction import UNKNOWN, Mem, Value, Vec, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.tensor_maps import read_maps
from xttir.interp.ptx.units import (
    Skip,
    by_size,
    check_aligned,
    footprint,
    memory_operand,
    rows,
    vector,
)
from xttir.interp.tensorcore import boxes
from xttir.interp.tensorcore.boxes import Box
from xttir.interp.tensorcore.pieces import stack
from xttir.interp.tensorcore.reductions import OPS
from xttir.interp.tensorcore.tensor_maps import TensorMap

_GATHERS = {"tile::gather4": "gather4", "tile::scatter4": "scatter4"}
_IM2COL = ("im2col", "im2col_no_offs")
_UNKNOWN_MODES = ("im2col::w", "im2col::w::128")


@dataclass(slots=True, eq=False)
class _Copy:
    """The copies of the lanes that use one map."""

    map: TensorMap
    which: np.ndarray
    """Lanes of the step."""
    box: Box
    mode: str
    map_read: tuple[Footprint, ...]


@meaning("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def cp_async_bulk_tensor(step: Step) -> None:
    try:
        if "bulk_group" in step.ins.modifiers:
            _store(step)
        else:
            _load(step)
    except Skip:
        return


def _copies(step: Step, operand: Mem, offsets: np.ndarray | None) -> list[_Copy]:
    ins, n = step.ins, step.lanes.size
    mode = next((g for w, g in _GATHERS.items() if w in ins.modifiers), "tile")
    if any(w in ins.modifiers for w in _UNKNOWN_MODES):
        raise step.unsupported("im2col::w tensor copies")
    im2col = any(w in ins.modifiers for w in _IM2COL)
    parts = [step.integers(c, "s32") for c in vector(operand.more[0])]
    coordinates = np.stack([np.broadcast_to(c, (n,)) for c in parts], axis=1)
    rank = next(int(w[0]) for w in ins.modifiers if len(w) == 2 and w[1] == "d")
    if len(parts) != (5 if mode != "tile" else rank):
        raise step.unsupported(f"{len(parts)} coordinates in a {rank}-dimensional copy")
    out = []
    for found, which, place in read_maps(step, operand):
        _check(step, found, rank, im2col, coordinates[which], step.lanes[which])
        box = boxes.box(
            found, coordinates[which], mode, None if offsets is None else offsets[which]
        )
        out.append(_Copy(found, which, box, mode, () if place is None else (place,)))
    return out


def _check(step, found: TensorMap, rank: int, im2col: bool, coordinates, lanes) -> None:
    if found.rank != rank:
        raise Skip(
            step, Kind.MISUSE, f"{rank}-dimensional copy with a map of rank {found.rank}", lanes
        )
    if im2col != (found.mode == "im2col"):
        has = "an im2col" if found.mode == "im2col" else "a tile"
        raise Skip(step, Kind.MISUSE, f"the map is {has} map, which the copy does not say", lanes)
    if found.interleave != "none":
        raise step.unsupported("tensor copies with interleaved layouts")
    if found.bits % 8 and found.element != "b4x16":
        raise step.unsupported(f"tensor copies of {found.element}")
    bad = boxes.unaligned(found, coordinates)
    if bad.any():
        at = int(coordinates[np.argmax(bad), 0])
        raise Skip(
            step,
            Kind.UNDEFINED,
            f"innermost coordinate {at}: {at * found.bits // 8} bytes is not a multiple of 16",
            lanes[bad],
        )


# Loads --------------------------------------------------------------------------------------------


def _load(step: Step) -> None:
    ins, n = step.ins, step.lanes.size
    window = "shared::cluster" if "shared::cluster" in ins.modifiers else "shared::cta"
    where = step.shared(step.address(memory_operand(step, ins.src[0])), window)
    bar = step.shared(step.address(memory_operand(step, ins.src[2])), window)
    rest = operands_after(ins, 3)
    offsets = None
    if rest and isinstance(rest[0], Vec):
        parts = [step.integers(o, "u16") for o in rest.pop(0).parts]
        offsets = np.stack([np.broadcast_to(o, (n,)) for o in parts], axis=1)
    mask = None
    if "multicast::cluster" in ins.modifiers:
        mask = step.integers(rest[0], "u16")
    pair = "cta_group::2" in ins.modifiers
    target = destination(step, where, bar, mask, pair)
    check_aligned(step, target.offset, 128, "shared destination")
    for copy in _copies(step, memory_operand(step, ins.src[1]), offsets):
        _load_some(step, copy, target)


def _load_some(step: Step, copy: _Copy, target: Target) -> None:
    which = copy.which
    offset, cta, bar, bar_cta = (
        x[which] for x in (target.offset, target.cta, target.barrier, target.barrier_cta)
    )
    shape = boxes.shape(copy.map, copy.mode)
    write = _shared(shape, offset, cta, Mode.WRITE)
    reads = list(_global(copy.box, Mode.READ))
    counted = np.full((1, 1), boxes.counted_bytes(copy.map, copy.mode))
    event = AsyncOp(
        step.ins.index,
        step.lanes[which],
        "bulk",
        1,
        (*copy.map_read, *(f for _, f in reads), write),
        ByBytes(bar, bar_cta, counted),
    )
    memory = step.memory

    def perform() -> None:
        data: Any = _fetch(memory, copy, reads)
        if data is UNKNOWN:
            memory.store(write, UNKNOWN)
        else:
            _put(memory, shape, offset, cta, data)
        step.complete_tx(bar, bar_cta, counted)

    step.submit(Task(event, perform))


def _shared(shape, offset: np.ndarray, cta: np.ndarray, mode: Mode) -> Footprint:
    """The bytes of boxes at `offset` (copies, targets) in the blocks `cta`."""
    copies, targets = offset.shape
    flat = offset.reshape(-1)
    if (flat == flat[0]).all():
        starts, size = boxes.covered(shape, int(flat[0]))
        if targets == 1:
            return footprint(Space.SHARED, mode, starts[None], size, cta, Proxy.ASYNC)
        table = np.broadcast_to(starts, (copies, targets, starts.size))
    else:
        distinct, index = np.unique(flat, return_inverse=True)
        parts = [
            (np.empty(0, np.int64), 16) if d < 0 else boxes.covered(shape, int(d)) for d in distinct
        ]
        if distinct[0] < 0:
            parts[0] = (np.array([-1]), parts[-1][1])
        table, size = stack(parts, index.reshape(-1))
        table = table.reshape(copies, targets, -1)
    pieces = table.shape[-1]
    return Footprint(
        Space.SHARED,
        mode,
        table.reshape(copies, -1),
        size,
        Proxy.ASYNC,
        np.repeat(cta, pieces, axis=1),
    )


def _global(box: Box, mode: Mode):
    """Footprints of what is in bounds: (bytes of a row, footprint)."""
    valid = box.valid if (box.valid != box.valid[0]).any() else box.valid[:1]
    for size, place in by_size(Space.GLOBAL, mode, box.starts, valid, Proxy.ASYNC):
        starts = place.starts
        together = starts.shape[1] > 1 and (starts >= 0).all()
        if together and (np.diff(starts, axis=1) == size).all():
            joined = size * starts.shape[1]
            yield size, Footprint(Space.GLOBAL, mode, starts[:, :1], joined, Proxy.ASYNC)
        else:
            yield size, place


def _fetch(memory, copy: _Copy, reads: list[tuple[int, Footprint]]) -> Value:
    """uint8 (copies, rows, row bytes): the boxes, filled where they are out of bounds."""
    box = copy.box
    copies, count = box.starts.shape
    data: list[Any] = [memory.load(place) for _, place in reads]
    if any(d is UNKNOWN for d in data):
        return UNKNOWN
    if len(reads) == 1 and reads[0][0] == box.row_bytes and (box.starts >= 0).all():
        return data[0].reshape(copies, count, box.row_bytes)
    out = _fill(copy.map, (copies, count, box.row_bytes))
    for (size, place), found in zip(reads, data, strict=True):
        found = found.reshape(found.shape[0], -1, size)
        inside = box.starts >= 0
        if place.starts.shape[1] == count:
            inside = place.starts >= 0
        at = box.skipped[:, None, None] + np.arange(size)
        lane, row = np.nonzero(inside)
        out[lane[:, None], row[:, None], at[lane, 0]] = found[lane, row]
    return out


def _fill(m: TensorMap, shape: tuple[int, int, int]) -> np.ndarray:
    out = np.zeros(shape, np.uint8)
    if m.fill == "nan":
        if m.bits == 16:
            out.view(np.uint16)[:] = 0x7FF7  # as recorded for bf16
        else:
            dtype = np.dtype(f"f{m.bits // 8}")
            out.view(dtype)[:] = np.nan
    return out


def _put(memory, shape, offset: np.ndarray, cta: np.ndarray, data: np.ndarray) -> None:
    """Write boxes, uint8 (copies, rows, row bytes), to every target."""
    copies = data.shape[0]
    size = boxes.cell_bytes(shape)
    raw = data.reshape(copies, -1, size)
    for k in range(offset.shape[1]):
        live = np.flatnonzero(offset[:, k] >= 0)
        if live.size:
            starts = _cells(shape, offset[live, k])
            place = Footprint(
                Space.SHARED, Mode.WRITE, starts, size, Proxy.ASYNC, cta[live, k : k + 1]
            )
            memory.store(place, rows(raw, live))


def _cells(shape, offset: np.ndarray) -> np.ndarray:
    """int64 (copies, cells) of boxes at `offset` (copies,)."""
    distinct, index = np.unique(offset, return_inverse=True)
    table = np.stack([boxes.cells(shape, int(d)).reshape(-1) for d in distinct])
    return table[index.reshape(-1)]


# Stores -------------------------------------------------------------------------------------------


def _store(step: Step) -> None:
    ins, n = step.ins, step.lanes.size
    offset, block = step.shared(step.address(memory_operand(step, ins.src[1])))
    check_aligned(step, offset, 128, "shared source")
    offset = np.broadcast_to(offset, (n,))[:, None]
    block = np.broadcast_to(block, (n,))[:, None]
    op = None
    if ins.name.startswith("cp.reduce"):
        op = next(w for w in ins.modifiers if w in OPS)
    for copy in _copies(step, memory_operand(step, ins.src[0]), None):
        _store_some(step, copy, offset[copy.which], block[copy.which], op)


def _store_some(step: Step, copy: _Copy, offset, block, op: str | None) -> None:
    if (copy.box.skipped > 0).any():
        negative = step.lanes[copy.which][copy.box.skipped > 0]
        step.fault(
            Kind.UNDEFINED,
            "a store to global memory has a negative coordinate",
            negative,
            Policy.STRICT,
        )
    shape = boxes.shape(copy.map, copy.mode)
    read = _shared(shape, offset, block, Mode.READ)
    mode = Mode.RMW if op else Mode.WRITE
    writes = list(_global(copy.box, mode))
    event = AsyncOp(
        step.ins.index,
        step.lanes[copy.which],
        "bulk",
        1,
        (*copy.map_read, read, *(f for _, f in writes)),
        ByGroup(),
    )
    memory = step.memory
    type_ = _reduced_type(step, copy.map) if op else ""

    def perform() -> None:
        if not writes:
            return
        data: Any = _collect(memory, shape, offset, block, copy.box)
        for size, place in writes:
            part: Value = UNKNOWN
            if data is not UNKNOWN:
                part = _rows_of(data, copy.box, size).reshape(*place.starts.shape, place.size)
            if op is None:
                memory.store(place, part)
            else:
                combine(memory, place, (op, type_), part)

    submit(step, Task(event, perform))


def _reduced_type(step: Step, m: TensorMap) -> str:
    name = m.element.removesuffix(".ftz")
    if name in ("tf32", "u8", "u16") or m.bits < 16:
        raise step.unsupported(f"a reduction of {m.element}")
    return name


def _collect(memory, shape, offset, block, box: Box) -> Value:
    """uint8 (copies, rows, row bytes) of boxes in shared memory."""
    size = boxes.cell_bytes(shape)
    starts = _cells(shape, offset[:, 0])
    data = memory.load(Footprint(Space.SHARED, Mode.READ, starts, size, Proxy.ASYNC, block))
    if data is UNKNOWN:
        return UNKNOWN
    return np.ascontiguousarray(data).reshape(len(starts), -1, box.row_bytes)


def _rows_of(data: np.ndarray, box: Box, size: int) -> np.ndarray:
    """uint8 (copies, rows, size): the bytes of each row that are in bounds."""
    if size == box.row_bytes:
        return data
    at = box.skipped[:, None, None] + np.arange(size)
    return np.take_along_axis(
        data, np.broadcast_to(np.minimum(at, box.row_bytes - 1), (*data.shape[:2], size)), axis=2
    )
