"""tcgen05.mma: a product that one thread issues, with its accumulator in tensor memory.

With .cta_group::2 the pair of blocks works together: each supplies its rows of A and columns of B
at the same shared offsets, and holds its rows of D. PTX ISA 9.1, section 9.7.16.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from xttir.analyses.events import AsyncOp, ByCommit, Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.groups import in_flight
from xttir.interp.ptx.instruction import Ins, Mem, Operand, Vec, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.tcgen05_data import Work, run
from xttir.interp.ptx.tcgen05_memory import cta_group
from xttir.interp.ptx.tensor_state import rectangle, tensor_memory
from xttir.interp.ptx.units import Skip, footprint, variants, vector
from xttir.interp.tensorcore import descriptors
from xttir.interp.tensorcore import tensor_memory as layouts
from xttir.interp.tensorcore.descriptors import SCALED, Instruction

UNSIGNED32, UNSIGNED64 = (1 << 32) - 1, (1 << 64) - 1
_DEPTH = {
    "f16": 16,
    "tf32": 8,
    "f8f6f4": 32,
    "i8": 32,
    "mxf8f6f4": 32,
    "mxf4": 64,
    "mxf4nvf4": 64,
}
"""k of an instruction."""
_BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
"""Bits that an element takes in memory."""
_SCALES = {
    "scale_vec::1X": 1,
    "scale_vec::2X": 2,
    "scale_vec::4X": 4,
    "block32": 2,
    "block16": 4,
}


@dataclass(frozen=True, slots=True)
class Form:
    """What the modifiers and the kinds of operands say."""

    kind: str
    ws: bool
    scales: int
    """Scale factors along k; 0: no block scaling."""
    a_in_tensor: bool
    mask: Operand | None
    """disable-output-lane."""
    enable: Operand
    scale_d: Operand | None
    scale_a: Operand | None = None
    scale_b: Operand | None = None


def _decode(step: Step) -> Form:
    ins = step.ins
    words = ins.modifiers
    kind = next(w[6:] for w in words if w.startswith("kind::"))
    if "sp" in words:
        raise step.unsupported("tcgen05.mma of sparse matrices")
    if "ashift" in words:
        raise step.unsupported("tcgen05.mma.ashift")
    if kind not in _DEPTH:
        raise step.unsupported(f"tcgen05.mma.kind::{kind}")
    scales = 0
    if kind in SCALED:
        scales = next((n for w, n in _SCALES.items() if w in words), 1 if kind == "mxf8f6f4" else 2)
    rest = list(ins.src[4:])
    scale_a = scale_b = mask = None
    if scales:
        scale_a, scale_b = rest.pop(0), rest.pop(0)
    if isinstance(rest[0], Vec):
        mask = rest.pop(0)
    enable = rest.pop(0)
    ws = "ws" in words
    extra = rest.pop(0) if rest else None
    if ws and extra is not None and (step.integers(extra, "u64") != 0).any():
        raise step.unsupported("tcgen05.mma.ws with a zero-column mask")
    return Form(
        kind,
        ws,
        scales,
        isinstance(ins.src[1], Mem),
        mask,
        enable,
        None if ws else extra,
        scale_a,
        scale_b,
    )


@meaning("tcgen05.mma")
def mma(step: Step) -> None:
    ins = step.ins
    form: Form = ins.cache.get("form") or ins.cache.setdefault("form", _decode(step))
    number = cta_group(step)
    parameters = _parameters(step, form, ins)
    for values, which in variants(parameters, step.lanes.size):
        try:
            _issue(step, form, number, values, which)
        except Skip:
            continue


def _parameters(step: Step, form: Form, ins: Ins) -> list[np.ndarray]:
    """All operands as integers over the lanes, in the order that `_issue` takes them."""
    assert isinstance(ins.src[0], Mem)
    left = ins.src[1]
    scale_a, scale_b = form.scale_a, form.scale_b
    out = [
        step.address(ins.src[0]),
        step.address(left) if isinstance(left, Mem) else step.integers(left, "u64"),
        step.integers(ins.src[2], "u64"),
        step.integers(ins.src[3], "u32"),
        step.integers(form.enable, "pred"),
        np.array([0]) if form.scale_d is None else step.integers(form.scale_d, "u32"),
        np.array([0]) if scale_a is None else step.address(scale_a),
        np.array([0]) if scale_b is None else step.address(scale_b),
    ]
    if form.mask is not None:
        out += [step.integers(part, "u32") for part in vector(form.mask)]
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """Everything about an MMA but the blocks that execute it."""

    instruction: Instruction
    layout: layouts.Layout
    lanes: np.ndarray
    """int64 (split, rows): lanes of D."""
    enabled: tuple[int, ...]
    """Lanes of D that are written."""
    column: int
    columns: int
    a: tuple[np.ndarray, int] | None
    """Pieces of shared memory; None: A is in tensor memory."""
    b: tuple[np.ndarray, int]
    a_chunks: np.ndarray | None
    b_chunks: np.ndarray


class _Wrong(Exception):
    """An operand that no MMA may have."""


@lru_cache(2048)
def _tile(
    kind: str,
    ws: bool,
    number: int,
    arch: int,
    a_in_tensor: bool,
    d: int,
    a: int,
    b: int,
    idesc: int,
    mask: tuple[int, ...],
) -> _Tile:
    """Decode the descriptors of an MMA; _Wrong or NotImplementedError."""
    try:
        i = descriptors.instruction(idesc & UNSIGNED32, kind)
        left = None if a_in_tensor else descriptors.matrix(a & UNSIGNED64, arch)
        right = descriptors.matrix(b & UNSIGNED64, arch)
    except ValueError as error:
        raise _Wrong(str(error)) from None
    problem = descriptors.shape_fault(i, kind, number, ws)
    if problem:
        raise _Wrong(problem)
    if i.sparse or i.k96 or i.max_shift:
        raise NotImplementedError("tcgen05.mma with a sparse, shifted or K=96 instruction")
    layout = layouts.accumulator(i.m, number, ws)
    lane, column = d >> 16 & 0xFFFF, d & 0xFFFF
    if lane not in ((0, 16) if layout.spread else (0,)):
        raise _Wrong(
            f"the accumulator begins at lane {lane}; layout {layout.name} (M = {i.m}) begins at "
            + ("lane 0 or 16" if layout.spread else "lane 0")
        )
    if left is not None:
        _check_layout(left.mode, kind, i.transpose_a, "A")
    elif i.transpose_a:
        raise _Wrong("A is in tensor memory, which cannot be transposed")
    _check_layout(right.mode, kind, i.transpose_b, "B")
    bits, k = _BITS[kind], _DEPTH[kind]
    rows, n = i.m // number, i.n // number
    lanes = layout.lanes(lane)
    off = {b + 32 * w for w, word in enumerate(mask) for b in range(32) if word >> b & 1}
    return _Tile(
        instruction=i,
        layout=layout,
        lanes=lanes,
        enabled=tuple(int(x) for x in np.sort(lanes.reshape(-1)) if int(x) not in off),
        column=column,
        columns=layout.columns(i.n),
        a=None if left is None else descriptors.touched(left, i.transpose_a, bits, rows, k),
        b=descriptors.touched(right, i.transpose_b, bits, n, k),
        a_chunks=None if left is None else descriptors.chunks(left, i.transpose_a, bits, rows, k),
        b_chunks=descriptors.chunks(right, i.transpose_b, bits, n, k),
    )


def _check_layout(mode: str, kind: str, transposed: bool, which: str) -> None:
    """Transposed tf32 needs the 32-byte atom; nothing else that is transposed may have it."""
    atom = mode == "128B_atom32B"
    if transposed and atom != (kind == "tf32"):
        raise _Wrong(
            f"{which} is MN-major: kind::{kind} "
            + ("needs" if kind == "tf32" else "does not go with")
            + " the 128B swizzle with 32-byte atoms"
        )


def _issue(step: Step, form: Form, number: int, values: tuple[int, ...], which: np.ndarray) -> None:
    ins = step.ins
    d, a, b, idesc, enable, scale_d, sf_a, sf_b, *mask = values
    lanes = step.lanes if which.size == step.lanes.size else step.lanes[which]
    try:
        tile = _tile(form.kind, form.ws, number, 100, form.a_in_tensor, d, a, b, idesc, tuple(mask))
    except _Wrong as error:
        raise Skip(step, Kind.MISUSE, str(error), lanes) from None
    except NotImplementedError as error:
        raise step.unsupported(str(error)) from None
    blocks = blocks_of(step, number, step.cta[which])
    accumulate = bool(enable)
    footprints = [*_shared(tile, blocks), *_in_tensor(step, form, tile, blocks, a, sf_a, sf_b)]
    if accumulate:
        footprints.append(_result(step, tile, blocks, Mode.READ))
    footprints.append(_result(step, tile, blocks, Mode.WRITE))
    i = tile.instruction
    cell = (d >> 16) * layouts.COLUMNS + tile.column
    pipeline = ("tcgen05.mma", cell, i.m, i.n, form.kind, form.ws, number)
    event = AsyncOp(
        ins.index, lanes, "tcgen05.mma", 1, tuple(footprints), ByCommit(number), pipeline
    )
    task = Task(event, lambda: None)
    if step.tracing:
        _check_shared(step, tile, blocks, footprints)
    else:
        work = Work(
            form.kind,
            form.scales,
            _BITS[form.kind],
            _DEPTH[form.kind],
            i,
            tile.layout,
            tile.lanes,
            np.isin(tile.lanes, tile.enabled),
            tile.column,
            tile.a_chunks,
            tile.b_chunks,
            a & 0xFFFF,
            sf_a & 0xFFFF,
            sf_b & 0xFFFF,
            blocks,
            accumulate,
            scale_d,
            step.arch,
        )
        memory, cells = step.memory, tensor_memory(step)
        task.perform = lambda: run(work, memory, cells)
        flying = in_flight(step, "tcgen05")
        task.after = [t for t in flying.before(lanes) if _ordered(t, pipeline)]
        flying.add(task)
    step.submit(task)


def _check_shared(step: Step, tile: _Tile, blocks: np.ndarray, footprints: list[Footprint]) -> None:
    """Bounds of A and B, and whether they were written: once is enough, for nothing unwrites."""
    done: dict[Any, _Tile] = step.state.setdefault("checked tiles", {})
    key = (id(tile), blocks.tobytes())
    if key in done:
        return
    done[key] = tile  # kept alive, so that its id stays its own
    for place in footprints:
        if place.space == Space.SHARED:
            step.memory.check(place)


def _ordered(earlier: Task, pipeline: tuple[Any, ...]) -> bool:
    """Whether the hardware runs an MMA after an earlier operation of the same thread."""
    event = earlier.event
    assert isinstance(event, AsyncOp)
    return event.engine != "tcgen05.mma" or event.pipeline == pipeline


def blocks_of(step: Step, number: int, cta: np.ndarray) -> np.ndarray:
    """int32 (units, number): the blocks that work together, the lower rank first."""
    if number == 1:
        return cta[:, None]
    if step.ctas_per_cluster % 2:
        raise Skip(step, Kind.MISUSE, "cta_group::2 in a cluster that has no pairs of blocks")
    first = cta - (cta % step.ctas_per_cluster & 1)
    return np.stack([first, first + 1], axis=1).astype(np.int32)


def _shared(tile: _Tile, blocks: np.ndarray):
    for pieces in (tile.a, tile.b):
        if pieces is not None:
            starts, size = pieces
            row = np.tile(starts, blocks.shape[1])[None]
            cta = np.repeat(blocks, starts.size, axis=1) if blocks.shape[1] > 1 else blocks
            yield footprint(Space.SHARED, Mode.READ, row, size, cta, Proxy.ASYNC)


def _result(step: Step, tile: _Tile, blocks: np.ndarray, mode: Mode) -> Footprint:
    tensor_memory(step).check(
        step,
        blocks.reshape(-1),
        tile.enabled,
        tile.column,
        tile.columns,
        "the accumulator of tcgen05.mma",
        read=mode == Mode.READ,
        write=mode == Mode.WRITE,
    )
    return rectangle(mode, tile.enabled, tile.column, tile.columns, blocks)


def _in_tensor(
    step: Step, form: Form, tile: _Tile, blocks: np.ndarray, a: int, sf_a: int, sf_b: int
):
    """A and scale factors in tensor memory."""
    i = tile.instruction
    parts: list[tuple[int, int, tuple[int, ...], str]] = []
    if form.a_in_tensor:
        columns = _DEPTH[form.kind] * _BITS[form.kind] // 32
        lanes = tuple(int(x) for x in np.sort(tile.lanes.reshape(-1)))
        if a >> 16 != lanes[0]:
            raise Skip(
                step, Kind.MISUSE, f"A begins at lane {a >> 16}, the accumulator at {lanes[0]}"
            )
        parts.append((a & 0xFFFF, columns, lanes, "A of tcgen05.mma"))
    if form.scales:
        if i.m // blocks.shape[1] != 128:
            raise step.unsupported(f"scale factors of tcgen05.mma with M = {i.m} in two blocks")
        everywhere = tuple(range(layouts.LANES))
        size_a, size_b = layouts.scale_columns(128), layouts.scale_columns(i.n)
        # The two upper bits of an address say which byte is used; so does the descriptor.
        parts.append((sf_a & 0xFFFF, size_a, everywhere, "scale factors of A"))
        parts.append((sf_b & 0xFFFF, size_b, everywhere, "scale factors of B"))
    for column, columns, lanes, what in parts:
        tensor_memory(step).check(
            step, blocks.reshape(-1), lanes, column, columns, what, read=True, write=False
        )
        yield rectangle(Mode.READ, lanes, column, columns, blocks)
