"""tcgen05 instructions that a warp executes: alloc, dealloc, ld, st, their waits; and the fences.

ld and st run on their own until the matching wait; a warp reaches only the 32 lanes of its window,
which follows from its rank in the block modulo 4. PTX ISA 9.1, section 9.7.16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xttir.analyses.events import (
    Access,
    AsyncOp,
    ByTensorWait,
    Footprint,
    Mode,
    Space,
    TensorAlloc,
    TensorDealloc,
    TensorFence,
    TensorRelinquish,
    TensorWait,
)
from xttir.diagnostics import Kind, Policy
from xttir.interp.ptx.groups import groups
from xttir.interp.ptx.instruction import UNKNOWN, Ins, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.tensor_state import TensorMemory, tensor_memory
from xttir.interp.ptx.units import (
    Skip,
    Units,
    footprint,
    give_up,
    memory_operand,
    per_unit,
    units,
    variants,
)
from xttir.interp.tensorcore import fragments
from xttir.interp.tensorcore.tensor_memory import rows_of_cells

SIZES = (32, 64, 128, 256, 512)


def cta_group(step: Step) -> int:
    """The number in .cta_group; all instructions of a kernel must have the same one."""
    number = 2 if "cta_group::2" in step.ins.modifiers else 1
    if step.state.setdefault("cta_group", number) != number:
        step.fault(
            Kind.MISUSE, "tcgen05 instructions of one kernel use .cta_group::1 and .cta_group::2"
        )
    return number


# Allocation ---------------------------------------------------------------------------------------


@meaning("tcgen05.alloc")
def alloc(step: Step) -> None:
    ins = step.ins
    memory = tensor_memory(step)
    try:
        group = units(step, 32)
        columns = int(_columns(step, group, ins.src[1]))
        where = per_unit(step, step.address(memory_operand(step, ins.src[0])), group, "an address")
        bases = np.array([memory.free_column(int(c), columns) for c in group.cta])
        if not step.block(
            np.repeat(bases >= 0, 32), f"tcgen05.alloc of {columns} columns: not so many are free"
        ):
            return
        _check_permit(step, memory, group, columns)
    except Skip:
        return
    number = cta_group(step)
    offset, _ = step.shared(where if where.shape[0] == 1 else np.repeat(where, 32))
    for (base,), which in variants([bases], group.count):
        memory.allocate(group.cta[which], base, columns)
        lanes = _lanes(step, group, which)
        for cta, lane in zip(group.cta[which].tolist(), lanes[::32].tolist(), strict=True):
            memory.origin[cta, int(base)] = (ins.index, lane)
        step.emit(TensorAlloc(ins.index, lanes, base, columns, number))
        first = np.arange(lanes.size) % 32 == 0
        starts = np.where(first, offset if offset.shape[0] == 1 else offset[_rows(which)], -1)
        place = Footprint(
            Space.SHARED, Mode.WRITE, starts[:, None], 4, cta=step.cta[_rows(which)][:, None]
        )
        step.memory.store(place, np.array([base], "<u4").view(np.uint8).reshape(1, 1, 4))
        step.emit(Access(ins.index, lanes, (place,)))


def _rows(which: np.ndarray) -> np.ndarray:
    """Rows in the step of the lanes of warps."""
    return (which[:, None] * 32 + np.arange(32)).reshape(-1)


def _lanes(step: Step, group: Units, which: np.ndarray) -> np.ndarray:
    return step.lanes if which.size == group.count else step.lanes[_rows(which)]


def _columns(step: Step, group: Units, operand: Any) -> int:
    value = per_unit(step, step.integers(operand), group, "the number of columns")
    if value.shape[0] > 1:
        raise step.unsupported("tcgen05 allocations of different sizes at one time")
    if int(value[0]) not in SIZES:
        raise Skip(
            step,
            Kind.MISUSE,
            f"{int(value[0])} columns: an allocation is a power of two from 32 to 512",
        )
    return int(value[0])


def _check_permit(step: Step, memory: TensorMemory, group: Units, columns: int) -> None:
    if memory.relinquished[group.cta].any():
        step.fault(Kind.MISUSE, "tcgen05.alloc after tcgen05.relinquish_alloc_permit of the block")
    if (memory.last_size[group.cta] < columns).any():
        step.fault(
            Kind.MISUSE,
            f"{columns} columns: more than the allocation before",
            policy=Policy.STRICT,
        )


@meaning("tcgen05.dealloc")
def dealloc(step: Step) -> None:
    ins = step.ins
    memory = tensor_memory(step)
    number = cta_group(step)
    try:
        group = units(step, 32)
        columns = _columns(step, group, ins.src[1])
        address = per_unit(step, step.integers(ins.src[0]), group, "a tensor memory address")
    except Skip:
        return
    for (value,), which in variants([address], group.count):
        ctas = group.cta[which]
        lanes = _lanes(step, group, which)
        base = value & 0xFFFF
        span = slice(base, base + columns)
        owner = memory.owner[ctas, span]
        whole = (memory.owner[ctas] == base + 1).sum(axis=1) == columns
        if (
            value >> 16
            or owner.shape[1] != columns
            or not ((owner == base + 1).all() and whole.all())
        ):
            freed = owner.size and (owner == -1).all()
            step.fault(
                Kind.LIFETIME if freed else Kind.MISUSE,
                f"{columns} columns at {value:#x} were deallocated before"
                if freed
                else f"{columns} columns at {value:#x} are no allocation",
                lanes,
            )
            continue
        memory.release(ctas, base, columns)
        step.emit(TensorDealloc(ins.index, lanes, base, columns, number))


@meaning("tcgen05.relinquish_alloc_permit")
def relinquish(step: Step) -> None:
    tensor_memory(step).relinquished[step.cta] = True
    step.emit(TensorRelinquish(step.ins.index, step.lanes, cta_group(step)))


# Loads and stores ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """A decoded tcgen05.ld or st: cells of register r of lane l are row[l, r], column[l, r]."""

    name: str
    row: np.ndarray
    column: np.ndarray
    rows: int
    spans: tuple[int, ...]
    """First columns of the contiguous spans, `columns` wide, relative to the address."""
    columns: int
    packed: bool
    """Two 16-bit columns a register."""


def _decode(step: Step) -> _Shape:
    ins = step.ins
    name = next(w for w in ins.modifiers if w in fragments.LOAD_REGISTERS)
    num = next(int(w[1:]) for w in ins.modifiers if w[0] == "x" and w[1:].isdigit())
    split = 0
    if name == "16x32bx2":
        at = 1
        split = int(step.integers(ins.src[at], "s32")[0])
    packed = "pack::16b" in ins.modifiers or "unpack::16b" in ins.modifiers
    row, column = fragments.tensor_access(name, num, split)
    rows = 32 if name == "32x32b" else 16
    width = int(num * fragments.LOAD_REGISTERS[name] * 32 // rows)
    spans: tuple[int, ...] = (0,)
    if name == "16x32bx2":
        width = num
        spans = (0, split)
        if split == num:
            spans, width = (0,), 2 * num
    if packed:
        column = 2 * column
        spans, width = tuple(2 * s for s in spans), 2 * width
    return _Shape(name, row, column, rows, spans, width, packed)


@dataclass(slots=True, eq=False)
class _Warps:
    """The warps of a load or store that use one address."""

    which: np.ndarray
    lanes: np.ndarray
    cta: np.ndarray
    lane: int
    column: int
    footprints: tuple[Footprint, ...]


def _warps(step: Step, shape: _Shape, mode: Mode) -> list[_Warps]:
    """Check the address of every warp against its window; Skip where it is wrong."""
    ins = step.ins
    group = units(step, 32)
    address = per_unit(
        step, step.address(memory_operand(step, ins.src[0])), group, "a tensor memory address"
    )
    memory = tensor_memory(step)
    out = []
    for (value, window), which in variants([address, group.tid // 32 % 4], group.count):
        column = value & 0xFFFF
        lanes = _lanes(step, group, which)
        lane = _first_lane(step, shape, value >> 16 & 0xFFFF, window, lanes)
        rows = tuple(range(lane, lane + shape.rows))
        cta = group.cta[which]
        footprints = []
        for span in shape.spans:
            memory.check(
                step,
                cta,
                rows,
                column + span,
                shape.columns,
                ins.name,
                read=mode == Mode.READ,
                write=mode == Mode.WRITE,
            )
            footprints.append(
                footprint(
                    Space.TENSOR,
                    mode,
                    rows_of_cells(rows, column + span),
                    shape.columns,
                    cta[:, None],
                )
            )
        out.append(_Warps(which, lanes, cta, lane, column, tuple(footprints)))
    return out


def _first_lane(step: Step, shape: _Shape, lane: int, window: int, lanes: np.ndarray) -> int:
    """The first lane that a warp of a window reaches with an address of `lane`.

    The address must name the window of the warp. Shipped code also leaves the window out (lane 0
    in all four warps) and gets its own one all the same: strictly a fault.
    """
    allowed = (32 * window,) if shape.rows == 32 else (32 * window, 32 * window + 16)
    if lane in allowed:
        return lane
    message = (
        f"lane {lane} of the address: this warp (rank modulo 4 is {window}) reaches lanes "
        f"{32 * window} to {32 * window + 31}, {shape.name} begins at "
        f"{' or '.join(map(str, allowed))}"
    )
    if lane + 32 * window in allowed:
        step.fault(Kind.MISUSE, message, lanes, Policy.STRICT)
        return lane + 32 * window
    raise Skip(step, Kind.MISUSE, message, lanes)


def _shape(ins: Ins, step: Step) -> _Shape:
    found: _Shape = ins.cache.get("shape") or ins.cache.setdefault("shape", _decode(step))
    return found


def _merged(step: Step, parts: list[_Warps], count: int) -> tuple[Footprint, ...]:
    """One set of footprints with a row for each warp."""
    if step.maybe:
        return tuple(replace(f, may=True) for f in _rows_of(parts, count))
    return _rows_of(parts, count)


def _rows_of(parts: list[_Warps], count: int) -> tuple[Footprint, ...]:
    if len(parts) == 1:
        return parts[0].footprints
    out = []
    for pieces in zip(*(p.footprints for p in parts), strict=True):
        starts = np.empty((count, pieces[0].starts.shape[1]), np.int64)
        cta = np.empty((count, 1), np.int32)
        for part, piece in zip(parts, pieces, strict=True):
            starts[part.which], cta[part.which] = piece.starts, piece.cta
        out.append(Footprint(Space.TENSOR, pieces[0].mode, starts, pieces[0].size, cta=cta))
    return tuple(out)


@meaning("tcgen05.ld", "tcgen05.ld.red")
def load(step: Step) -> None:
    """Early use of the registers is honoured by the hardware, so only strictly a fault."""
    ins = step.ins
    shape = _shape(ins, step)
    try:
        parts = _warps(step, shape, Mode.READ)
    except Skip:
        give_up(step)
        return
    count = step.lanes.size // 32
    event = AsyncOp(
        ins.index, step.lanes, "tcgen05.ld", 32, _merged(step, parts, count), ByTensorWait("ld")
    )
    task = Task(event, lambda: None)
    writes = [step.put_pending(operand, task, Policy.STRICT) for operand in ins.dst]
    if not step.tracing:
        memory = tensor_memory(step)

        def perform() -> None:
            values = _gather(memory, shape, parts, count)
            writes[0](values)
            if len(writes) > 1:
                writes[1](_reduce(ins, values))

        task.perform = perform
    groups(step, "tcgen05.ld").add(task, step.lanes)
    step.submit(task)


def _gather(memory: TensorMemory, shape: _Shape, parts: list[_Warps], count: int) -> np.ndarray:
    """uint32 (lanes, registers)."""
    assert memory.cells is not None
    out = np.empty((count, *shape.row.shape), np.uint32)
    for part in parts:
        row, column = part.lane + shape.row, part.column + shape.column
        cta = part.cta[:, None, None]
        value = memory.cells[cta, row, column]
        if shape.packed:
            value = value & 0xFFFF | memory.cells[cta, row, column + 1] << 16
        out[part.which] = value
    return out.reshape(count * 32, -1)


def _reduce(ins: Ins, values: np.ndarray) -> np.ndarray:
    """uint32 (lanes,): the minimum or maximum of a thread's registers (tcgen05.ld.red)."""
    dtype = next((d for w, d in _REDUCED.items() if w in ins.modifiers), np.float32)
    numbers = values.view(dtype)
    if "abs" in ins.modifiers:
        numbers = np.abs(numbers)
    if dtype is np.float32 and "NaN" not in ins.modifiers:
        reduce = np.fmin if "min" in ins.modifiers else np.fmax
    else:
        reduce = np.minimum if "min" in ins.modifiers else np.maximum
    return np.ascontiguousarray(reduce.reduce(numbers, axis=1)).view(np.uint32)


_REDUCED = {"u32": np.uint32, "s32": np.int32, "f32": np.float32}


@meaning("tcgen05.st")
def store(step: Step) -> None:
    ins = step.ins
    shape = _shape(ins, step)
    try:
        parts = _warps(step, shape, Mode.WRITE)
    except Skip:
        return
    value: Any = step.get(ins.src[-1])
    count = step.lanes.size // 32
    event = AsyncOp(
        ins.index, step.lanes, "tcgen05.st", 32, _merged(step, parts, count), ByTensorWait("st")
    )
    task = Task(event, lambda: None)
    if not step.tracing and value is not UNKNOWN:
        memory = tensor_memory(step)
        if value.ndim == 1:
            value = value[:, None]
        registers = np.broadcast_to(value, (count * 32, value.shape[-1])).reshape(count, 32, -1)
        task.perform = lambda: _scatter(memory, shape, parts, registers)
    groups(step, "tcgen05.st").add(task, step.lanes)
    step.submit(task)


def _scatter(
    memory: TensorMemory, shape: _Shape, parts: list[_Warps], registers: np.ndarray
) -> None:
    assert memory.cells is not None
    for part in parts:
        row, column = part.lane + shape.row, part.column + shape.column
        cta = part.cta[:, None, None]
        value = registers[part.which]
        if shape.packed:
            memory.cells[cta, row, column] = value & 0xFFFF
            memory.cells[cta, row, column + 1] = value >> 16
        else:
            memory.cells[cta, row, column] = value


@meaning("tcgen05.wait::ld")
def wait_load(step: Step) -> None:
    step.emit(TensorWait(step.ins.index, step.lanes, "ld"))
    step.finish(_all_open(step, "tcgen05.ld"))


@meaning("tcgen05.wait::st")
def wait_store(step: Step) -> None:
    step.emit(TensorWait(step.ins.index, step.lanes, "st"))
    step.finish(_all_open(step, "tcgen05.st"))


def _all_open(step: Step, engine: str) -> list[Task]:
    return groups(step, engine).wait(step.lanes, 0, everything=True)


@meaning("tcgen05.fence::before_thread_sync")
def fence_before(step: Step) -> None:
    step.emit(TensorFence(step.ins.index, step.lanes, True))


@meaning("tcgen05.fence::after_thread_sync")
def fence_after(step: Step) -> None:
    step.emit(TensorFence(step.ins.index, step.lanes, False))
