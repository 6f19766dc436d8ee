"""wgmma: products of a warpgroup that run on their own, with operands in shared memory.

The accumulator stays in flight until its group was waited for; only products of the same shape on
the same registers may follow each other before that. PTX ISA 9.1, section 9.7.15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses.events import (
    AsyncOp,
    ByGroup,
    Footprint,
    GroupCommit,
    GroupWait,
    Mode,
    Proxy,
    Space,
)
from xttir.diagnostics import Kind
from xttir.interp.ptx.groups import groups
from xttir.interp.ptx.instruction import UNKNOWN, Reg, Vec, meaning
from xttir.interp.ptx.matrix import shape_of
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.units import Skip, Units, footprint, per_unit, units, vector
from xttir.interp.tensorcore import descriptors, fragments, products
from xttir.interp.tensorcore.fragments import Fragment
from xttir.interp.tensorcore.pieces import stack

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_RESULTS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
UNSIGNED64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Form:
    """A decoded wgmma.mma_async."""

    n: int
    k: int
    d: str
    a: str
    b: str
    bits: int
    saturate: bool
    from_registers: bool
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool
    pipeline: tuple[Any, ...]
    fragment: Fragment


def _decode(step: Step) -> _Form:
    ins = step.ins
    if "sp" in ins.modifiers:
        raise step.unsupported("wgmma of sparse matrices")
    _, n, k = shape_of(ins)
    types = [w for w in ins.modifiers if w in _BITS or w in _RESULTS]
    d, a, b = types[:3]
    if a == "b1":
        raise step.unsupported("wgmma of single bits")
    immediates = [int(step.integers(o, "s32")[0]) for o in ins.src[3:]]
    negate = [False, False]
    major = [False, False]
    registers = isinstance(ins.src[0], Vec)
    if d != "s32":
        if any(s not in (1, -1) for s in immediates[:2]):
            raise step.unsupported("wgmma with a scale of A or B that is not 1 or -1")
        negate = [s < 0 for s in immediates[:2]]
        turned = [bool(t) for t in immediates[2:]]
        major = [False, *turned] if registers else turned
        major = [*major, False, False][:2]
    slots = tuple(r.slot for r in vector(ins.dst[0]) if isinstance(r, Reg))
    return _Form(
        n,
        k,
        d,
        a,
        b,
        _BITS[a],
        "satfinite" in ins.modifiers,
        registers,
        negate[0],
        negate[1],
        major[0],
        major[1],
        ("wgmma", slots, n, d),
        fragments.wgmma_d(n),
    )


@meaning("wgmma.fence")
def fence(step: Step) -> None:
    step.fence_registers()


@meaning("wgmma.commit_group")
def commit_group(step: Step) -> None:
    step.emit(GroupCommit(step.ins.index, step.lanes, "wgmma"))
    groups(step, "wgmma").commit(step.lanes)


@meaning("wgmma.wait_group")
def wait_group(step: Step) -> None:
    pending = int(step.integers(step.ins.src[0])[0])
    step.emit(GroupWait(step.ins.index, step.lanes, "wgmma", pending))
    step.finish(groups(step, "wgmma").wait(step.lanes, pending))


@meaning("wgmma.mma_async")
def mma_async(step: Step) -> None:
    ins = step.ins
    f: _Form = ins.cache.get("form") or ins.cache.setdefault("form", _decode(step))
    try:
        _issue(step, f, units(step, 128))
    except Skip:
        return


def _issue(step: Step, f: _Form, group: Units) -> None:
    ins = step.ins
    prior = step.pending(ins.dst[0])
    _check_registers(step, f, prior)
    accumulate = per_unit(step, step.integers(ins.src[2], "pred"), group, "scale-d") != 0
    cta = group.cta[:, None]
    places = []
    a: Any = None
    if f.from_registers:
        a = step.get(ins.src[0])  # read at once: nobody may write them before the wait
    else:
        places.append(_operand(step, f, group, 0, cta))
    places.append(_operand(step, f, group, 1, cta))
    event = AsyncOp(
        ins.index,
        step.lanes,
        "wgmma",
        128,
        tuple(p for p, _ in places),
        ByGroup(),
        f.pipeline,
    )
    task = Task(event, lambda: None, after=list(prior))
    old = UNKNOWN
    if step.tracing:
        _check_shared(step, group, places)
    elif accumulate.any() and not prior:
        old = step.get(ins.dst[0])
    write = step.put_pending(ins.dst[0], task)
    if f.from_registers:
        step.hold(ins.src[0], task)
    if not step.tracing:
        lanes, memory, arch = step.lanes, step.memory, step.arch

        def perform() -> None:
            c = _accumulators(f, prior, lanes, old) if accumulate.any() else None
            if c is not UNKNOWN:
                task.result = _multiply(memory, arch, f, group.count, a, places, c, accumulate)
            write(UNKNOWN if c is UNKNOWN else task.result)

        task.perform = perform
        task.result = UNKNOWN
    groups(step, "wgmma").add(task, step.lanes)
    step.submit(task)


def _check_shared(step: Step, group: Units, places: list[tuple[Footprint, Footprint]]) -> None:
    """Bounds of A and B, and whether they were written: once is enough, for nothing unwrites."""
    done: set[Any] = step.state.setdefault("checked matrices", set())
    for place, _ in places:
        key = (place.size, place.starts[:1].tobytes(), place.starts.strides, group.lanes.tobytes())
        if place.starts.strides[0] != 0 or key not in done:
            done.add(key)
            step.memory.check(place)


def _check_registers(step: Step, f: _Form, prior: list[Task]) -> None:
    ins = step.ins
    for task in prior:
        event = task.event
        if not isinstance(event, AsyncOp) or event.pipeline != f.pipeline:
            step.fault(
                Kind.RACE,
                "the accumulator is in flight of an operation of another shape or kind, "
                "which was not waited for",
            )
    if step.unfenced(ins.dst[0]):
        step.fault(
            Kind.RACE, "accumulator registers were written since the last wgmma.fence", hint=_HINT
        )
    if f.from_registers and step.unfenced(ins.src[0]):
        step.fault(Kind.RACE, "registers of A were written since the last wgmma.fence", hint=_HINT)


_HINT = "wgmma.fence.sync.aligned orders register accesses before the wgmma that uses them"


def _operand(
    step: Step, f: _Form, group: Units, which: int, cta: np.ndarray
) -> tuple[Footprint, Footprint]:
    """Matrix A (0) or B (1): the footprint of the event, and the chunks to load."""
    value = per_unit(step, step.integers(step.ins.src[which], "u64"), group, "a matrix descriptor")
    mn_major = f.mn_major_b if which else f.mn_major_a
    rows = f.n if which else 64
    distinct, index = np.unique(value, return_inverse=True)
    decoded = [descriptors.matrix(int(v) & UNSIGNED64, 90) for v in distinct]
    starts, size = stack(
        [descriptors.touched(d, mn_major, f.bits, rows, f.k) for d in decoded], index.reshape(-1)
    )
    chunks = np.stack([descriptors.chunks(d, mn_major, f.bits, rows, f.k) for d in decoded])
    chunks = chunks[index.reshape(-1)].reshape(value.shape[0], -1)
    return (
        footprint(Space.SHARED, Mode.READ, starts, size, cta, Proxy.ASYNC),
        footprint(Space.SHARED, Mode.READ, chunks, 16, cta, Proxy.ASYNC),
    )


def _accumulators(f: _Form, prior: list[Task], lanes: np.ndarray, old: Any) -> Any:
    """D's registers (lanes, registers) before the operation: results in flight, or `old`."""
    if not prior:
        return old
    parts = []
    for task in prior:
        at = np.searchsorted(task.event.lanes, lanes)
        at = np.minimum(at, task.event.lanes.size - 1)
        parts.append((task.event.lanes[at] == lanes, at, task.result))
    if any(r is UNKNOWN for _, _, r in parts):
        return UNKNOWN
    out = np.zeros((lanes.size, parts[0][2].shape[1]), np.uint32)
    found = np.zeros(lanes.size, bool)
    for mine, at, result in parts:
        out[mine] = result[at[mine]]
        found |= mine
    return out if found.all() else UNKNOWN


def _multiply(
    memory,
    arch: int,
    f: _Form,
    count: int,
    a: Any,
    places: list[tuple[Footprint, Footprint]],
    c: Any,
    accumulate: np.ndarray,
) -> Any:
    """uint32 registers (lanes, registers) of D."""
    if f.from_registers:
        if a is UNKNOWN:
            return UNKNOWN
        raw = np.broadcast_to(a, (count * 128, a.shape[-1])).reshape(count, 128, -1)
        codes = fragments.registers_to_elements(raw, f.bits)
        left: Any = fragments.wgmma_a(f.k, f.bits).gather(codes)
    else:
        left = _load(memory, f, places[0][1], count, f.mn_major_a, 64)
    right = _load(memory, f, places[-1][1], count, f.mn_major_b, f.n)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if f.negate_a:
        left = products.negated(left, f.bits)
    if f.negate_b:
        right = products.negated(right, f.bits)
    total = None
    if c is not None:
        elements = np.ascontiguousarray(np.broadcast_to(c, (count * 128, c.shape[-1])))
        total = f.fragment.gather(elements.view(_RESULTS[f.d]).reshape(count, 128, -1))
        if not accumulate.all():
            total = np.where(accumulate[:, None, None], total, total.dtype.type(0))
    if f.d == "s32":
        d = products.multiply_integers(f.a, left, f.b, right, total, f.saturate)
    else:
        how = products.recipe(arch, "wgmma", f.a, f.d, f.k)
        d = products.multiply(how, f.a, left, f.b, right, total)
    return fragments.elements_to_registers(f.fragment.scatter(d)).reshape(count * 128, -1)


def _load(memory, f: _Form, place: Footprint, count: int, mn_major: bool, rows: int) -> Any:
    """Element codes (count, rows, k) of a matrix in shared memory."""
    data = memory.load(place)
    if data is UNKNOWN:
        return UNKNOWN
    lines = f.k if mn_major else rows
    data = np.asarray(data).reshape(count, lines, -1, 16)
    return descriptors.unpack(data, mn_major, f.bits, 0, rows)
