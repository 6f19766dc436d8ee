"""Matrix instructions of a warp: mma.sync, ldmatrix, stmatrix, movmatrix.

They are synchronous and touch memory through the generic proxy. When tracing, products are not
computed. PTX ISA 9.1, section 9.7.14; arithmetic: `tensorcore.products`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses.events import Access, Footprint, Mode, Space
from xttir.interp.ptx import replicas
from xttir.interp.ptx.instruction import UNKNOWN, Ins, meaning
from xttir.interp.ptx.step import Step
from xttir.interp.ptx.units import Skip, check_aligned, give_up, memory_operand, units
from xttir.interp.tensorcore import fragments, products
from xttir.interp.tensorcore.fragments import Fragment, MatrixAccess

_SHAPE = re.compile(r"m(\d+)n(\d+)(?:k(\d+))?$")
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f64": 64,
}
_UNSUPPORTED = ("sp", "sp::ordered_metadata", "block_scale", "kind::f8f6f4")


@dataclass(frozen=True, slots=True)
class _Product:
    """A decoded mma.sync: element types, and the fragments of its operands."""

    d: str
    a: str
    b: str
    c: str
    bits: int
    k: int
    frag_a: Fragment
    frag_b: Fragment
    frag_c: Fragment
    op: str
    saturate: bool


def _decode(step: Step) -> _Product:
    ins = step.ins
    for word in ins.modifiers:
        if word in _UNSUPPORTED or word.startswith("kind::"):
            raise step.unsupported(f"mma with .{word}")
    m, n, k = shape_of(ins)
    types = [w for w in ins.modifiers if w in _BITS or w in ("f32", "s32")]
    if len(types) == 3:  # m8n8k4 with f64: all four are named; a missing C type is D's
        types.append(types[0])
    d, a, b, c = types[:4]
    if n != 8 or m not in (8, 16) or (m == 8 and a == "f16"):
        raise step.unsupported(f"mma.m{m}n{n}k{k} of {a}")
    if "row" not in ins.modifiers or "col" not in ins.modifiers:
        raise step.unsupported("mma with operands that are not row times col")
    bits = _BITS[a]
    op = "xor" if "xor" in ins.modifiers else "and"
    return _Product(
        d,
        a,
        b,
        c,
        bits,
        k,
        fragments.mma_a(m, k, bits),
        fragments.mma_b(k, bits),
        fragments.mma_c(m),
        op,
        "satfinite" in ins.modifiers,
    )


def shape_of(ins: Ins) -> tuple[int, int, int]:
    """(m, n, k) of the modifier mMnNkK; k 0 where it has none."""
    for word in ins.modifiers:
        found = _SHAPE.match(word)
        if found:
            return int(found[1]), int(found[2]), int(found[3] or 0)
    raise KeyError("shape")


@meaning("mma")
def mma(step: Step) -> None:
    ins = step.ins
    if step.tracing:
        # The operands are looked at all the same: they may be registers still in flight. Sparse and
        # block-scaled forms have more of them.
        for operand in ins.src:
            step.get(operand)
        step.put(ins.dst[0], UNKNOWN)
        return
    p: _Product = ins.cache.get("mma") or ins.cache.setdefault("mma", _decode(step))
    try:
        group = units(step, 32)
    except Skip:
        give_up(step)
        return
    wide = "b64" if p.bits == 64 else "b32"
    raw = [_registers(step, operand, wide, group.count) for operand in ins.src[:3]]
    if any(r is UNKNOWN for r in raw):
        step.put(ins.dst[0], UNKNOWN)
        return
    a = p.frag_a.gather(fragments.registers_to_elements(raw[0], p.bits))
    b = p.frag_b.gather(fragments.registers_to_elements(raw[1], p.bits))
    c = p.frag_c.gather(_accumulators(raw[2], p.c))
    out = p.frag_c.scatter(_multiply(step, p, a, b, c))
    if out.dtype.itemsize == 2:
        out = fragments.elements_to_registers(out)
    step.put(
        ins.dst[0],
        np.ascontiguousarray(out).view(f"u{out.dtype.itemsize}").reshape(step.lanes.size, -1),
    )


def _registers(step: Step, operand: Any, type_: str, count: int) -> Any:
    """Registers of a vector operand by warps: (count, 32, registers), or UNKNOWN."""
    value: Any = step.get(operand, type_)
    if value is UNKNOWN:
        return UNKNOWN
    if value.ndim == 1:
        value = value[:, None]
    return np.broadcast_to(value, (step.lanes.size, value.shape[-1])).reshape(count, 32, -1)


_ACCUMULATORS = {"f32": np.float32, "s32": np.int32, "f64": np.float64, "f16": np.float16}


def _accumulators(registers: np.ndarray, type_: str) -> np.ndarray:
    return np.ascontiguousarray(registers).view(_ACCUMULATORS[type_])


def _multiply(step: Step, p: _Product, a, b, c) -> np.ndarray:
    if p.d == "s32":
        if p.a == "b1":
            return products.multiply_bits(p.op, a, b, c)
        return products.multiply_integers(p.a, a, p.b, b, c, p.saturate)
    if p.d == "f64":
        return products.multiply_doubles(a.view(np.float64), b.view(np.float64), c)
    how = products.recipe(step.arch, "mma", p.a, p.d, p.k)
    return products.multiply(how, p.a, a, p.b, b, c)


# ldmatrix, stmatrix, movmatrix --------------------------------------------------------------------


def _access(step: Step) -> MatrixAccess:
    ins = step.ins
    m, n, _ = shape_of(ins)
    count = next((int(w[1:]) for w in ins.modifiers if w in ("x1", "x2", "x4")), 1)
    trans = "trans" in ins.modifiers
    if any(w in ins.modifiers for w in ("b8x16", "b6x16_p32", "b4x16_p64")):
        raise step.unsupported(f"{ins.name} that unpacks elements")
    if (m, n) == (8, 8):
        return fragments.b16_matrices(count, trans)
    if (m, n) == (16, 16) and ins.name == "ldmatrix":
        return fragments.b8_matrices(count)
    if (m, n) == (16, 8) and ins.name == "stmatrix":
        return fragments.b8_store_matrices(count)
    raise step.unsupported(f"{ins.name}.m{m}n{n}")


def _rows(step: Step, how: MatrixAccess, operand, mode: Mode) -> tuple[Footprint, int]:
    """The rows that the lanes name, a row of the footprint per lane; and the number of warps.

    Lanes whose addresses are not used have -1.
    """
    group = units(step, 32)
    offset, block = step.shared(step.address(memory_operand(step, operand)))
    n = step.lanes.size
    used = np.arange(n) % 32 < how.rows
    offset = np.where(used, np.broadcast_to(offset, (n,)), -1)
    if (offset[used] % how.row_bytes != 0).any():
        check_aligned(step, offset, how.row_bytes, "row address")
    cta = np.broadcast_to(block, (n,))[:, None]
    return Footprint(Space.SHARED, mode, offset[:, None], how.row_bytes, cta=cta), group.count


@meaning("ldmatrix")
def ldmatrix(step: Step) -> None:
    ins = step.ins
    how: MatrixAccess = ins.cache.get("rows") or ins.cache.setdefault("rows", _access(step))
    try:
        place, count = _rows(step, how, ins.src[0], Mode.READ)
    except Skip:
        give_up(step)
        return
    step.emit(Access(ins.index, step.lanes, (place,)))
    step.name_contents(ins.dst[0], place)
    data: Any = step.memory.load(place)
    if data is UNKNOWN:
        step.put(ins.dst[0], UNKNOWN)
        return
    matrix = data.reshape(count, 32, how.row_bytes)
    out = np.ascontiguousarray(matrix[:, how.row, how.byte]).view(np.uint32)
    step.put(ins.dst[0], out.reshape(step.lanes.size, -1))


@meaning("stmatrix")
def stmatrix(step: Step) -> None:
    ins = step.ins
    how: MatrixAccess = ins.cache.get("rows") or ins.cache.setdefault("rows", _access(step))
    try:
        place, count = _rows(step, how, ins.src[0], Mode.WRITE)
    except Skip:
        return
    value = _registers(step, ins.src[1], "b32", count)
    data: Any = UNKNOWN
    if value is not UNKNOWN:
        data = np.zeros((count, 32, how.row_bytes), np.uint8)
        data[:, how.row, how.byte] = np.ascontiguousarray(value).view(np.uint8)
        data = data.reshape(step.lanes.size, 1, how.row_bytes)
    step.memory.store(place, data)
    # What a lane's row gets is made of the registers of all lanes.
    numbers = step.fingerprints(ins.src[1], together=True)
    more = {} if numbers is None else replicas.repeated(place, numbers, step.cta, step.tid)
    step.emit(Access(ins.index, step.lanes, (place,), **more))


@meaning("movmatrix")
def movmatrix(step: Step) -> None:
    """An 8x8 matrix of 16-bit elements over the registers of a warp, transposed."""
    ins = step.ins
    try:
        group = units(step, 32)
    except Skip:
        give_up(step)
        return
    value = _registers(step, ins.src[0], "b32", group.count)
    if value is UNKNOWN:
        step.put(ins.dst[0], UNKNOWN)
        return
    plain, turned = fragments.b16_matrices(1, False), fragments.b16_matrices(1, True)
    data = np.zeros((group.count, 32, 16), np.uint8)
    data[:, plain.row, plain.byte] = np.ascontiguousarray(value).view(np.uint8)
    out = np.ascontiguousarray(data[:, turned.row, turned.byte]).view(np.uint32)
    step.put(ins.dst[0], out.reshape(step.lanes.size))
