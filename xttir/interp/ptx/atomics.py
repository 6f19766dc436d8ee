"""atom and red. Lanes of one instruction go one after the other, ascending. PTX ISA 9.1, 9.7.13.9.

A location whose contents or operand is unknown is unknown afterwards. An operation that leaves the
value as it was (a failed compare-and-swap) is no write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.analyses.events import Access, Mode, Scope, Sem, Space
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import UNKNOWN, Mem, Sink, meaning
from xttir.interp.ptx.load_store import (
    SCOPES,
    SEMS,
    Place,
    check_somewhere,
    number,
    places,
    print_of,
    waited,
)
from xttir.interp.ptx.overlay import forgotten, stored
from xttir.interp.ptx.values import Partial, partial, take
from xttir.interp.ptx_scalar import decode, encode, width_of

OPERATIONS = ("add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas")

Combine = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


def combine(operation: str, type_: str) -> Combine:
    """New contents of old ones and operands, on raw bits."""
    if operation == "exch":
        return lambda old, b, c: b
    if operation == "cas":
        return lambda old, b, c: np.where(_equal(old, b), c, old)  # type: ignore[arg-type]
    if operation == "inc":
        return lambda old, b, c: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return lambda old, b, c: np.where((old == 0) | (old > b), b, old - old.dtype.type(1))
    if type_[0] == "b" and not type_.startswith("bf"):
        function: Any = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
        return lambda old, b, c: function[operation](old, b)
    return lambda old, b, c: encode(_typed(operation, decode(old, type_), decode(b, type_)), type_)


def _equal(old: np.ndarray, b: np.ndarray) -> np.ndarray:
    same = old == b
    return same if same.ndim == 1 else same.all(axis=-1, keepdims=True)


def _typed(operation: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if operation == "add":
        if a.dtype.kind in "iu" or a.dtype in (np.float32, np.float64):
            return a + b
        return (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    if a.dtype.kind in "iu":
        return np.minimum(a, b) if operation == "min" else np.maximum(a, b)
    wide = a.astype(np.float32), b.astype(np.float32)
    out = np.fmin(*wide) if operation == "min" else np.fmax(*wide)
    return out.astype(a.dtype)


def in_turn(
    address: np.ndarray, old: np.ndarray, b: np.ndarray, c: np.ndarray | None, function: Combine
) -> tuple[np.ndarray, np.ndarray]:
    """Old contents that each lane sees, and what it leaves; lanes with the same address follow one
    another. `old`: contents before all of them, by lane."""
    n = address.size
    distinct, back, counts = np.unique(address, return_inverse=True, return_counts=True)
    if distinct.size == n:
        return old, function(old, b, c)
    rank = _ranks(back, counts)
    seen, left = old.copy(), old.copy()
    current = np.zeros((distinct.size, *old.shape[1:]), old.dtype)
    current[back] = old
    for k in range(int(counts.max())):
        mine = np.flatnonzero(rank == k)
        where = back[mine]
        before = current[where]
        after = function(before, b[mine], None if c is None else c[mine])
        seen[mine], left[mine] = before, after
        current[where] = after
    return seen, left


def _ranks(group: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How many earlier elements are in the same group."""
    order = np.argsort(group, kind="stable")
    starts = np.cumsum(counts) - counts
    out = np.empty(group.size, np.int64)
    out[order] = np.arange(group.size) - np.repeat(starts, counts)
    return out


def running_add(
    address: np.ndarray, old: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`in_turn` of an integer addition."""
    distinct, back, counts = np.unique(address, return_inverse=True, return_counts=True)
    if distinct.size == address.size:
        return old, old + b
    order = np.argsort(back, kind="stable")
    starts = np.cumsum(counts) - counts
    sums = np.cumsum(b[order], dtype=b.dtype)
    base = np.where(starts > 0, sums[starts - 1], b.dtype.type(0))
    before = np.empty_like(b)
    before[order] = sums - b[order] - np.repeat(base, counts)
    return old + before, old + before + b


# Instructions -------------------------------------------------------------------------------------


def _form(step: ActualStep) -> tuple[str, str, str, int, Sem, Scope]:
    """(operation, type, space, parts, sem, scope)."""
    ins = step.ins
    found = ins.cache.get("atomic")
    if found is None:
        operation = next(m for m in ins.modifiers if m in OPERATIONS)
        type_ = ins.modifiers[-1]
        space = ""
        for m in ins.modifiers:
            if m.startswith("shared"):
                space = "shared::cluster" if m == "shared::cluster" else "shared::cta"
            elif m == "global":
                space = m
        parts = next((int(m[1]) for m in ins.modifiers if m in ("v2", "v4", "v8")), 1)
        sem = next((SEMS[m] for m in ins.modifiers if m in SEMS), Sem.RELAXED)
        scope = next((SCOPES[m] for m in ins.modifiers if m in SCOPES), Scope.GPU)
        found = ins.cache["atomic"] = (operation, type_, space, parts, sem, scope)
    return found


@meaning("atom", "red")
def atomic(step: ActualStep) -> None:
    ins = step.ins
    operation, type_, space, parts, sem, scope = _form(step)
    operand = ins.src[0]
    assert isinstance(operand, Mem)
    size, elements = (8, 2) if type_ == "b128" else (width_of(type_) // 8, parts)
    values = [step.raw(s, type_) for s in ins.src[1 : 3 if operation == "cas" else 2]]
    found = places(step, operand, space, size * elements)
    results = []
    for place in found:
        mine = [v if place.rows is None else take(v, place.rows) for v in values]
        results.append(_at(step, place, mine, (operation, type_, size, elements, sem, scope)))
    if not ins.dst or isinstance(ins.dst[0], Sink):
        return
    if found[0].rows is None:
        step.put(ins.dst[0], results[0], type_.startswith("s"))
        return
    from xttir.interp.ptx.load_store import _together

    step.put(ins.dst[0], _together(step, found, results), type_.startswith("s"))


def _at(step: ActualStep, place: Place, values: list[Any], form: Any) -> Any:
    operation, type_, size, parts, sem, scope = form
    memory = step.executor.memory
    lanes = step.lanes if place.rows is None else step.lanes[place.rows]
    n = lanes.size
    if place.span is not None:
        check_somewhere(step, place, size * parts)
        forgotten(step, place)
        memory.forget(place.span)
        if isinstance(place.space, Space):
            print_ = print_of(step, place, Mode.RMW, size * parts)
            reduces = not step.ins.dst or isinstance(step.ins.dst[0], Sink)
            step.emit(Access(step.ins.index, lanes, (print_,), sem, scope, reduces=reduces))
        return UNKNOWN
    address = np.broadcast_to(place.address, (n,))
    block = None if place.block is None else np.broadcast_to(place.block, (n,))
    before = memory.read(place.space, address, size, parts, block)
    flat = address if block is None else address + block.astype(np.int64) * (1 << 32)
    unknown = before is UNKNOWN or any(v.__class__ is not np.ndarray for v in values)
    changed, more = None, {}
    if unknown or (step.maybe and step.tracing):
        stored(step, place, size, parts, UNKNOWN)
        memory.write(place.space, address, size, parts, UNKNOWN, block)
        result: Any = UNKNOWN
    else:
        old = before.data if isinstance(before, Partial) else before
        known = before.known if isinstance(before, Partial) else True
        arrays = [_wide(v, old) for v in values]
        seen, left = _run(operation, type_, flat, old, arrays)
        different = seen != left
        changed = different if different.ndim == 1 else different.any(axis=-1)
        if changed.any():
            memory.write(place.space, address, size, parts, partial(left, known), block)
        result = partial(seen, known)
        if step.tracing and step.executor.plan.waits_for_memory and parts == 1 and known is True:
            more = _change(operation, type_, arrays)
            more["value"] = number(np.broadcast_to(seen, (n,)))
    if step.tracing and parts == 1 and more.get("operation") in ("keep", "take", "set"):
        more |= waited(step, lanes)
    _emit(step, place, lanes, address, block, flat, changed, size * parts, sem, scope, more)
    return result


def _change(operation: str, type_: str, operands: list[np.ndarray]) -> dict[str, Any]:
    """What an atomic does to the number that is there."""
    operand = number(operands[0])
    if operand is None or operands[0].dtype.itemsize < 4:
        return {}
    if operation == "exch":
        return {"operation": "set", "operand": operand}
    if operation in ("add", "or", "xor") and not operand.any() and type_[0] != "f":
        return {"operation": "keep"}
    if operation == "cas":
        if (operands[0] == operands[1]).all():
            return {"operation": "keep"}
        return {"operation": "take", "operand": number(operands[1])}
    if operation == "add" and type_ in ("u32", "s32", "u64", "s64"):
        return {"operation": "add", "operand": operand}
    return {}


def _wide(value: np.ndarray, old: np.ndarray) -> np.ndarray:
    value = value.astype(old.dtype, copy=False)
    return np.broadcast_to(value, old.shape)


def _run(
    operation: str, type_: str, flat: np.ndarray, old: np.ndarray, values: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    b, c = values[0], values[1] if len(values) > 1 else None
    if operation == "add" and type_[0] in "us" and old.ndim == 1 and "x" not in type_:
        return running_add(flat, old, b)
    return in_turn(flat, old, b, c, combine(operation, type_))


def _emit(
    step: ActualStep,
    place: Place,
    lanes: np.ndarray,
    address: np.ndarray,
    block: np.ndarray | None,
    flat: np.ndarray,
    changed: np.ndarray | None,
    size: int,
    sem: Sem,
    scope: Scope,
    more: dict[str, Any],
) -> None:
    if not isinstance(place.space, Space):
        return
    observed = None
    if step.tracing:
        memory = step.executor.memory
        index = step.next_event()
        n = lanes.size
        observed = memory.observe(place.space, address, block, size, None, n)
        wrote = np.ones(n, bool) if changed is None else changed
        _, back, counts = np.unique(flat, return_inverse=True, return_counts=True)
        if counts.max() > 1:
            order = np.argsort(back, kind="stable")
            earlier = np.cumsum(wrote[order]) - wrote[order]
            starts = np.repeat(np.cumsum(counts) - counts, counts)
            after = np.empty(n, bool)
            after[order] = earlier > earlier[starts]
            observed = np.where(after, index, observed).astype(np.int32)
        if wrote.any():
            rows = None if block is None else block[wrote]
            memory.written(place.space, address[wrote], rows, size, index)
    step.emit(
        Access(
            step.ins.index,
            lanes,
            (print_of(step, place, Mode.RMW, size),),
            sem,
            scope,
            observed,
            step.do.wait == "spin",
            reduces=not step.ins.dst or isinstance(step.ins.dst[0], Sink),
            **more,
        )
    )
