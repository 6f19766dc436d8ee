"""What a tcgen05.mma computes: operands out of shared and tensor memory, the product, D.

PTX ISA 9.1, section 9.7.16.10; arithmetic: `tensorcore.products` (its recipes for 10.x are
published models of the card, not recorded here).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.tensor_state import TensorMemory
from xttir.interp.tensorcore import descriptors, formats, products, tensor_memory
from xttir.interp.tensorcore.descriptors import Instruction
from xttir.interp.tensorcore.tensor_memory import Layout

_PACKED = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Formats that lie in 8-bit containers: 16 elements packed in front of padding."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    kind: str
    scales: int
    bits: int
    k: int
    instruction: Instruction
    layout: Layout
    lanes: np.ndarray
    """int64 (split, rows)."""
    enabled: np.ndarray
    """bool (split, rows)."""
    column: int
    a_chunks: np.ndarray | None
    b_chunks: np.ndarray
    a_column: int
    scale_a_column: int
    scale_b_column: int
    blocks: np.ndarray
    """int32 (units, blocks)."""
    accumulate: bool
    scale_d: int
    arch: int


def run(w: Work, memory: Any, cells: TensorMemory) -> None:
    """Perform the products of all units; where several threads of a block have issued it, one after
    the other. Unknown operands leave the accumulator as it is."""
    first = w.blocks[:, 0]
    if np.unique(first).size == first.size:
        _product(w, memory, cells)
        return
    for unit in range(first.size):
        _product(replace(w, blocks=w.blocks[unit : unit + 1]), memory, cells)


def _product(w: Work, memory: Any, cells: TensorMemory) -> None:
    i = w.instruction
    b = _shared(w, memory, w.b_chunks, i.transpose_b, i.b, i.n)
    if b is UNKNOWN:
        return
    b = b.reshape(len(b), -1, b.shape[-1])  # all blocks' columns together
    a = None
    if w.a_chunks is not None:
        a = _shared(w, memory, w.a_chunks, i.transpose_a, i.a, i.m)
        if a is UNKNOWN:
            return
    scale = _scales(w, cells) if w.scales else None
    columns = w.layout.columns(i.n)
    units, count = w.blocks.shape
    for part in range(w.layout.split):
        n = slice(part * columns, (part + 1) * columns)
        lanes = w.lanes[part]
        left = _from_tensor(w, cells, lanes) if a is None else a
        assert left is not None
        old = None
        if w.accumulate:
            flat = cells.load(w.blocks.reshape(-1), lanes, w.column, columns)
            old = flat.reshape(units, count, len(lanes), columns)
        some = None if scale is None else (scale[0], scale[1][:, :, n])
        new = _multiply(w, left, b[:, None, n], old, some)
        new = new.reshape(units * count, len(lanes), columns)
        keep = w.enabled[part]
        cells.store(w.blocks.reshape(-1), lanes[keep], w.column, new[:, keep])


def _shared(w: Work, memory, chunks: np.ndarray, mn_major: bool, type_: str, rows: int) -> Any:
    """Element codes (units, blocks, rows, k) out of the shared memory of every block."""
    units, count = w.blocks.shape
    starts = np.broadcast_to(chunks.reshape(1, -1), (units * count, chunks.size))
    place = Footprint(Space.SHARED, Mode.READ, starts, 16, Proxy.ASYNC, w.blocks.reshape(-1, 1))
    data = memory.load(place)
    if data is UNKNOWN:
        return UNKNOWN
    data = np.asarray(data).reshape(units, count, *chunks.shape, 16)
    packed = _PACKED.get(type_, 0) if w.bits == 8 else 0
    return descriptors.unpack(data, mn_major, w.bits, packed, rows // count)


def _from_tensor(w: Work, cells: TensorMemory, lanes: np.ndarray) -> np.ndarray:
    """Element codes (units, blocks, rows, k) of A in tensor memory."""
    units, count = w.blocks.shape
    words = cells.load(w.blocks.reshape(-1), lanes, w.a_column, w.k * w.bits // 32)
    words = np.ascontiguousarray(words).reshape(units, count, len(lanes), -1)
    if w.bits == 4:
        data = words.view(np.uint8)
        return np.stack([data & 15, data >> 4], axis=-1).reshape(units, count, len(lanes), -1)
    return words.view(np.dtype(f"<u{w.bits // 8}"))


def _scales(w: Work, cells: TensorMemory) -> tuple[np.ndarray, np.ndarray]:
    """float64 (units, blocks, rows, k): the scale of every element of A, and of B."""
    i = w.instruction
    out = []
    for column, rows, first in (
        (w.scale_a_column, 128, i.scale_a),
        (w.scale_b_column, i.n, i.scale_b),
    ):
        words = cells.load(
            w.blocks.reshape(-1), np.arange(32), column, tensor_memory.scale_columns(rows)
        )
        codes = tensor_memory.scale_words(words, rows)
        used = codes[..., first : first + w.scales]
        values = formats.scales(i.scale_type, used).reshape(*w.blocks.shape, rows, -1)
        out.append(np.repeat(values, w.k // w.scales, axis=-1))
    return out[0], out[1]


def _multiply(w: Work, a: np.ndarray, b: np.ndarray, old: np.ndarray | None, scale: Any):
    """uint32 cells of D for codes `a` (.., m, k), `b` (.., n, k)."""
    i = w.instruction
    if i.d == "s32":
        c = None if old is None else old.view(np.int32)
        return products.multiply_integers(i.a, a, i.b, b, c, i.saturate).view(np.uint32)
    if i.negate_a:
        a = products.negated(a, formats.FORMATS[i.a].bits)
    if i.negate_b:
        b = products.negated(b, formats.FORMATS[i.b].bits)
    c = None
    if old is not None:
        c = old.view(np.float32)
        if i.d == "f16":
            c = (old & 0xFFFF).astype(np.uint16).view(np.float16)
        if w.scale_d:
            c = c * c.dtype.type(2.0**-w.scale_d)
    how = products.recipe(w.arch, "tcgen05", i.a, i.d, w.k)
    if w.scales:
        how = replace(how, group=w.k)
    d = products.multiply(how, i.a, a, i.b, b, c, scale)
    if i.d == "f16":
        return d.view(np.uint16).astype(np.uint32)
    return d.view(np.uint32)
