"""wmma: matrix instructions whose fragments only they can read. PTX ISA 9.1, section 9.7.14.4.

Which lane holds which element is unspecified, so any layout will do that all of them share: here a
lane holds neighbouring elements of the tile, again and again where it has room for more. For the
same reason each lane may read all of what is loaded. The arithmetic is that of mma.sync.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Access, Footprint, Mode, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.instruction import UNKNOWN, Ins, Operand, meaning
from xttir.interp.ptx.matrix import shape_of
from xttir.interp.ptx.regions import GLOBAL_BASE, SHARED_WINDOW
from xttir.interp.ptx.step import Step
from xttir.interp.ptx.units import Skip, Units, give_up, memory_operand, per_unit, units
from xttir.interp.tensorcore import fragments, products

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "f64": 64}
_NUMBERS = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}
LANES = 32


def _element(step: Step, word: str) -> int:
    if word not in _BITS:
        raise step.unsupported(f"{step.ins.name} with .{word}")
    return _BITS[word]


def _tile(ins: Ins) -> tuple[int, int]:
    """Rows and columns of the operand that is loaded or stored."""
    m, n, k = shape_of(ins)
    which = next(w for w in ins.modifiers if w in ("a", "b", "c", "d"))
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _lines(step: Step, group: Units, operand: Operand, stride: Operand | None, mode: Mode) -> Any:
    """The lines of the tile in memory, a row for each warp: a footprint."""
    ins = step.ins
    rows, columns = _tile(ins)
    count, length = (rows, columns) if ins.has("row") else (columns, rows)
    size = _element(step, ins.modifiers[-1]) // 8
    address = per_unit(step, step.address(memory_operand(step, operand)), group, "an address")
    ahead = np.array([length])
    if stride is not None:
        ahead = per_unit(step, step.integers(stride), group, "a stride")
    space, cta = _space(step, address)
    if space is Space.SHARED:
        address = address - (SHARED_WINDOW if int(address[0]) >= SHARED_WINDOW else 0)
        cta = group.cta[:, None]
    if (address % size != 0).any():
        raise Skip(step, Kind.UNDEFINED, f"an address that is not a multiple of {size}")
    starts = address[:, None] + size * ahead[:, None] * np.arange(count)
    starts = np.broadcast_to(starts, (group.count, count))
    return Footprint(space, mode, starts, size * length, cta=cta)


def _space(step: Step, address: np.ndarray) -> tuple[Space, np.ndarray | None]:
    words = step.ins.modifiers
    if any(w.startswith("shared") for w in words):
        return Space.SHARED, None
    if "global" in words or (address >= GLOBAL_BASE).all():
        return Space.GLOBAL, None
    if (address >= SHARED_WINDOW).all():
        return Space.SHARED, None
    raise step.unsupported(f"{step.ins.name} at addresses of this kind")


def _of_lanes(lines: Footprint) -> Footprint:
    """Each lane reads all of it."""
    starts = np.repeat(lines.starts, LANES, axis=0)
    cta = None if lines.cta is None else np.repeat(lines.cta, LANES, axis=0)
    return Footprint(lines.space, lines.mode, starts, lines.size, cta=cta)


def _by_lanes(lines: Footprint) -> Footprint:
    """Each lane writes a part of its own."""
    warps, count = lines.starts.shape
    size = lines.size * count // LANES
    inside = np.arange(0, lines.size, size)
    starts = (lines.starts[:, :, None] + inside).reshape(warps, LANES)[:, ::-1]
    cta = None if lines.cta is None else np.repeat(lines.cta, LANES, axis=0)
    return Footprint(lines.space, lines.mode, starts.reshape(-1, 1), size, cta=cta)


@meaning("wmma.load")
def load(step: Step) -> None:
    ins = step.ins
    try:
        group = units(step, LANES)
        stride = next(iter(ins.src[1:]), None)
        lines = _lines(step, group, ins.src[0], stride, Mode.READ)
    except Skip:
        give_up(step)
        return
    step.emit(Access(ins.index, step.lanes, (_of_lanes(lines),)))
    data: Any = step.memory.load(lines)
    if data is UNKNOWN:
        step.put(ins.dst[0], UNKNOWN)
        return
    bits = _element(step, ins.modifiers[-1])
    codes = np.ascontiguousarray(data).view(f"u{bits // 8}")
    tile = codes.swapaxes(1, 2) if ins.has("col") else codes
    if "b" in ins.modifiers:  # kept as N x K
        tile = tile.swapaxes(1, 2)
    step.put(ins.dst[0], _held(tile, _count(ins.dst[0]), bits))


def _count(operand: Any) -> int:
    return len(getattr(operand, "parts", (operand,)))


def _held(tile: np.ndarray, registers: int, bits: int) -> np.ndarray:
    """A tile (warps, ., .) as registers (lanes, registers)."""
    own = np.ascontiguousarray(tile).reshape(tile.shape[0] * LANES, -1)
    room = registers * max(32, bits) // bits
    wide = np.tile(own, (1, room // own.shape[1]))
    return np.ascontiguousarray(wide).view("u8" if bits == 64 else "u4")


def _taken(step: Step, operand: Operand, bits: int, shape: tuple[int, int], warps: int) -> Any:
    """The tile (warps, *shape) of codes in registers, or UNKNOWN."""
    value: Any = step.get(operand, "b64" if bits == 64 else "b32")
    if value is UNKNOWN:
        return UNKNOWN
    if value.ndim == 1:
        value = value[:, None]
    value = np.broadcast_to(value, (step.lanes.size, value.shape[-1]))
    codes = fragments.registers_to_elements(np.ascontiguousarray(value), bits)
    each = shape[0] * shape[1] // LANES
    return np.ascontiguousarray(codes[:, :each]).reshape(warps, *shape)


@meaning("wmma.store")
def store(step: Step) -> None:
    ins = step.ins
    try:
        group = units(step, LANES)
        stride = next(iter(ins.src[2:]), None)
        lines = _lines(step, group, ins.src[0], stride, Mode.WRITE)
    except Skip:
        return
    step.emit(Access(ins.index, step.lanes, (_by_lanes(lines),)))
    bits = _element(step, ins.modifiers[-1])
    tile = _taken(step, ins.src[1], bits, _tile(ins), group.count)
    if tile is UNKNOWN:
        step.memory.store(lines, UNKNOWN)
        return
    if ins.has("col"):
        tile = tile.swapaxes(1, 2)
    data = np.ascontiguousarray(tile).view(np.uint8)
    step.memory.store(lines, data.reshape(*lines.starts.shape, lines.size))


@meaning("wmma.mma")
def mma(step: Step) -> None:
    ins = step.ins
    if step.tracing:
        for operand in ins.src[:3]:
            step.get(operand)
        step.put(ins.dst[0], UNKNOWN)
        return
    m, n, k = shape_of(ins)
    types = [w for w in ins.modifiers if w in _BITS]
    d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
    try:
        warps = units(step, LANES).count
    except Skip:
        give_up(step)
        return
    left = _taken(step, ins.src[0], _element(step, a), (m, k), warps)
    right = _taken(step, ins.src[1], _element(step, b), (n, k), warps)
    start = _taken(step, ins.src[2], _element(step, c), (m, n), warps)
    if any(x is UNKNOWN for x in (left, right, start)):
        step.put(ins.dst[0], UNKNOWN)
        return
    start = start.view(_NUMBERS[c])
    if d == "s32":
        out = products.multiply_integers(a, left, b, right, start, ins.has("satfinite"))
    elif d == "f64":
        out = products.multiply_doubles(left.view(np.float64), right.view(np.float64), start)
    else:
        how = products.recipe(step.arch, "mma", a, d, k)
        out = products.multiply(how, a, left, b, right, start)
    bits = _element(step, d)
    codes = np.ascontiguousarray(out).view(f"u{bits // 8}")
    step.put(ins.dst[0], _held(codes, _count(ins.dst[0]), bits))
