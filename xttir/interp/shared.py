"""Loads and stores of shared memory, and the checks that go with them.

Every access is recorded at its cell with a stamp (`interp.order`). One that conflicts with an
access before it that it is not ordered after is a race: of an agent with a copy in flight, or of
two agents. Elements that nobody has written are undefined values, reported where they matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location, Policy, Unsupported
from xttir.dialects.locations import location_of, locations_of
from xttir.interp import proxies
from xttir.interp.batch import merge, take
from xttir.interp.buffers import Buffer
from xttir.interp.cells import Access, AccessKind, Cell
from xttir.interp.machine import Machine
from xttir.interp.memdesc import Choice, MemDesc
from xttir.interp.memory_ops import RMW, rounds
from xttir.interp.order import Stamp, groups_of, in_order
from xttir.interp.positions import numbers_of_bits
from xttir.interp.taint import Origin, taint_with

Desc = MemDesc | Choice


def load(m: Machine, op: Operation, desc: Desc, stamp: Stamp | None = None) -> Any:
    """The elements of `desc` (1 or b, *s). `stamp`: when they are read, if not now."""
    record_access(m, desc, "read", op, stamp)
    parts = [(at, _read(m, op, view)) for at, view in desc.each()]
    if parts[0][0] is None:
        return parts[0][1]
    return merge([(at, value) for at, value in parts if at is not None], desc.programs)


def _read(m: Machine, op: Operation, view: MemDesc) -> Any:
    value, unwritten, tainted = view.read()
    if tainted is not None:
        # Another agent may have stored it, whose machine alone knows so far.
        m.tainted = True
    if view.path and view.replicas_differ():
        what = "memory of several CTAs that they do not see alike, read as if they did"
        raise Unsupported(what, location_of(op))
    if not m.policy.on("init"):
        return value if tainted is None else tainted
    m.counts.add("init")
    if unwritten is None:
        return value if tainted is None else tainted
    origin = _never_written(m, op, view, unwritten)
    if m.policy.strict:
        _report_now(m, op, origin, int(unwritten.sum()))
        return value if tainted is None else tainted
    if tainted is not None:
        unwritten = unwritten | tainted.bad
    return taint_with(m, value, unwritten, origin)


def _report_now(m: Machine, op: Operation, origin: Origin, count: int) -> None:
    m.log.report(
        op,
        origin.kind,
        origin.message,
        order=(origin.pid,),
        role="load",
        others=origin.others,
        notes=origin.notes,
        hint=origin.hint,
        witness=origin.witness,
        count=count,
    )


def store(
    m: Machine,
    op: Operation,
    desc: Desc,
    value: Any,
    where: np.ndarray | None = None,
    stamp: Stamp | None = None,
) -> None:
    """Store a value, perhaps tainted, in the lanes where `where` holds. `stamp`: when it is
    written, if not now."""
    record_access(m, desc, "write", op, stamp)
    for at, view in desc.each():
        if at is None:
            view.write(value, where)
        else:
            view.write(take(value, at), None if where is None else take(where, at))


def atomic_rmw(
    m: Machine, op: Operation, desc: Desc, kind: str, values: np.ndarray, where: np.ndarray | None
) -> np.ndarray:
    """Combine `values` into the elements of `desc`, of which several may be the same, lanes in
    order; gives the old values, 0 in lanes that are off. `kind`: a keyword of `memory_ops.RMW`."""
    record_access(m, desc, "atomic", op)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for at, view in desc.each():
        everyone = np.arange(desc.programs) if at is None else at
        part = values if at is None else take(values, at)
        held = where if at is None or where is None else take(where, at)
        parts.append((everyone, _atomic_view(m, op, view, kind, part, held)))
    return parts[0][1] if len(parts) == 1 else merge(parts, desc.programs)


def _atomic_view(
    m: Machine,
    op: Operation,
    view: MemDesc,
    kind: str,
    values: np.ndarray,
    where: np.ndarray | None,
) -> np.ndarray:
    _, unwritten, _ = view.read()
    if unwritten is not None and m.policy.on("init"):
        _report_now(m, op, _never_written(m, op, view, unwritten), int(unwritten.sum()))
    full = (view.programs, *view.shape)
    values = np.broadcast_to(values, full)
    held = np.ones(full, bool) if where is None else np.broadcast_to(where, full)
    out = np.zeros(full, view.dtype)
    combine = RMW[kind]
    for data, rows, offsets, at in view.elements():
        lanes = held if at is None else held[at]
        mine = (values if at is None else values[at])[lanes]
        places = (rows * data.shape[1] + offsets)[lanes]
        old = rounds(data.reshape(-1), places, lambda a, k, v=mine: combine(a, v[k]))
        if at is None:
            out[lanes] = old
        else:
            part = np.zeros(lanes.shape, view.dtype)
            part[lanes] = old
            out[at] = part
    return out


def record_access(
    m: Machine, desc: Desc, kind: AccessKind, op: Operation, stamp: Stamp | None = None
) -> None:
    """An access of `desc` by `op`: report what it conflicts with, and remember it.

    `stamp`: when it takes place, for what an engine does on its own; None for now. Either way it
    must be ordered after every conflicting access that the agent's clock has not seen.
    """
    if not m.policy.on("race"):
        return
    m.counts.add("race")
    stamp = stamp or m.clock.now(m.positions())
    for _, view in desc.each():
        buffer = view.buffer
        if buffer.freed is not None:
            _report_freed(m, op, kind, view)
        for cell, covered, who, slots in view.places():
            for group, when in _by_epoch(buffer, stamp, who):
                mine = Access(kind, op, when, covered, group, slots)
                if cell.accesses:
                    _against(m, view, cell, mine)
                _remember(buffer, cell, mine)


def _by_epoch(buffer: Buffer, stamp: Stamp, who: int) -> list[tuple[int, Stamp]]:
    """The slots `who` (bits) by when their programs do it."""
    component, epoch = stamp
    if isinstance(epoch, int):
        return [(who, stamp)]
    if buffer.positions is None:
        return [(group, Stamp(component, number)) for group, number in groups_of(epoch, who)]
    found = [(buffer.slots_of(group) & who, number) for group, number in epoch]
    return [(group, Stamp(component, number)) for group, number in found if group]


def _against(m: Machine, view: MemDesc, cell: Cell, mine: Access) -> None:
    kind, _, stamp, _, who, _ = mine
    proxied = kind == "read" and stamp.component is not m.clock.component
    proxied = proxied and m.policy.on("proxy") and is_shared(view.buffer)
    for other in cell.accesses:
        if other.kind == kind != "write":
            continue
        common = who & other.who
        if not common:
            continue
        races = 0
        if not in_order(stamp, other.stamp):
            races = _not_after(m, view.buffer, other.stamp, common)
        if races and _overlap(mine, other, races):
            _report_race(m, view, mine, other, numbers_of_bits(races))
        if races or not proxied:
            continue
        fenced = proxies.fenced_as(other)
        unseen = 0 if fenced is None else _not_after(m, view.buffer, fenced, common)
        if unseen and _overlap(mine, other, unseen):
            _report_proxy(m, view, mine, other, numbers_of_bits(unseen))


def _not_after(m: Machine, buffer: Buffer, stamp: Stamp, slots: int) -> int:
    """Those of the slots (bits) for whose programs what the agent does now is not ordered after
    `stamp`."""
    if buffer.positions is None:
        return m.clock.unordered(stamp, slots)
    return slots & buffer.slots_of(m.clock.unordered(stamp, m.clock.components.everyone))


def _overlap(mine: Access, other: Access, common: int) -> bool:
    """Whether the two touch a common element in one of the slots `common` (bits)."""
    a, b = mine.footprint, other.footprint
    if a is None or b is None:
        return True
    slots = numbers_of_bits(common)

    def rows(access: Access, covered: np.ndarray) -> np.ndarray:
        if covered.shape[0] == 1:
            return covered
        if access.slots is None:
            return covered[slots]
        order = np.argsort(access.slots)
        return covered[order[np.searchsorted(access.slots, slots, sorter=order)]]

    return bool((rows(mine, a) & rows(other, b)).any())


def _remember(buffer: Buffer, cell: Cell, mine: Access) -> None:
    """Keep `mine` for later accesses, and forget those that it stands for: it is ordered after
    them (or that was reported), so what is ordered after it is ordered after them."""
    if not cell.accesses or (
        mine.footprint is None and mine.kind == "write" and mine.who == buffer.everyone
    ):
        cell.accesses = [mine]
        return
    kept: list[Access] = []
    for other in cell.accesses:
        if not _stands_for(mine, other):
            kept.append(other)
        elif rest := other.who & ~mine.who:
            kept.append(other if rest == other.who else other._replace(who=rest))
    kept.append(mine)
    cell.accesses = kept


def _stands_for(mine: Access, other: Access) -> bool:
    """Whether, where slots agree, what conflicts with `other` later on conflicts with `mine`."""
    if mine.footprint is not None and mine.footprint is not other.footprint:
        return False
    same = mine.kind == other.kind and mine.stamp.component == other.stamp.component
    return same or mine.kind == "write"


def program_of(m: Machine, view: MemDesc, slot: int) -> int:
    """The linear id of the program that has `slot` of the buffer."""
    positions = view.buffer.positions
    return int(m.batch[slot if positions is None else positions[slot]])


def is_shared(buffer: Buffer) -> bool:
    """Whether a buffer lies in shared memory, not in tensor memory."""
    return buffer.op.name.startswith("ttg.")


def _space(view: MemDesc) -> str:
    return "shared memory" if is_shared(view.buffer) else "tensor memory"


def _report_proxy(
    m: Machine, view: MemDesc, mine: Access, other: Access, slots: np.ndarray
) -> None:
    """A fault where partitions share memory; elsewhere the compiler puts the fence that is missing,
    and it is only a warning."""
    pids = [program_of(m, view, int(slot)) for slot in slots]
    pid = min(pids)
    places = locations_of(other.op)
    others = (places[0].with_role("stored here"), *places[1:]) if places else ()
    faulty = proxies.side_by_side(m.clock.component, other.stamp.component)
    notes = [f"program {m.log.program(pid)}: {_buffer_text(view)}"]
    if not faulty:
        notes.append("Triton's compiler puts one there by itself; other compilers need not")
    m.log.report(
        mine.op,
        Kind.PROXY,
        f"{mine.op.name} may not see what was stored: no proxy fence lies between",
        key=(id(other.op),),
        order=(pid,),
        others=others,
        role="asynchronous read",
        notes=tuple(notes),
        hint="call fence_async_shared after the store, before others are told of it",
        witness={"program": list(m.log.program(pid))},
        count=len(pids),
        policy=Policy.ANY if faulty else Policy.STRICT,
    )


_DONE = {"read": "read", "write": "written", "atomic": "updated atomically"}


def _report_race(m: Machine, view: MemDesc, mine: Access, other: Access, slots: np.ndarray) -> None:
    pids = [program_of(m, view, int(slot)) for slot in slots]
    pid = min(pids)
    asynchronous = other.stamp.component != m.clock.component and _is_engine(other.stamp)
    what = "an asynchronous operation in flight" if asynchronous else "another access"
    places = locations_of(other.op)
    others: tuple[Location, ...] = ()
    if places:
        others = (places[0].with_role(f"{other.kind} that nothing orders before it"), *places[1:])
    m.log.report(
        mine.op,
        Kind.RACE,
        f"{mine.kind} of {_space(view)} races with {what}",
        key=(id(other.op),),
        order=(pid,),
        others=others,
        role=mine.kind,
        notes=(
            f"program {m.log.program(pid)}: {_buffer_text(view)} is {_DONE[other.kind]} by "
            f"{other.op.name} and {_DONE[mine.kind]} by {mine.op.name}",
        ),
        hint="wait for the copy before its memory is used again" if asynchronous else "",
        witness={
            "program": list(m.log.program(pid)),
            "accesses": [other.kind, mine.kind],
            "operations": [other.op.name, mine.op.name],
        },
        count=len(pids),
    )


def _is_engine(stamp: Stamp) -> bool:
    return not proxies.is_agent(stamp.component)


def _buffer_text(view: MemDesc) -> str:
    shape = "x".join(map(str, view.shape))
    text = f"a {shape} view" if view.path else f"a {shape} buffer"
    places = locations_of(view.buffer.op)
    if places and places[0].line:
        text += f" allocated at {places[0]}"
    if isinstance(view.cell, int):
        text += f" (stage {view.cell})"
    return text


def _never_written(m: Machine, op: Operation, view: MemDesc, unwritten: np.ndarray) -> Origin:
    """What to say of a read of the elements `unwritten` of `view`."""
    rows = np.flatnonzero(unwritten.reshape(unwritten.shape[0], -1).any(axis=1))
    numbers = view.slot_numbers()
    slots = numbers if unwritten.shape[0] == 1 else numbers[rows]
    pid = min(program_of(m, view, int(slot)) for slot in slots)
    places = locations_of(view.buffer.op)
    others = (places[0].with_role("allocated here"),) if places else ()
    return Origin(
        op,
        Kind.UNINITIALIZED,
        f"{_space(view)} that nobody has written",
        f"load from {_space(view)} that nobody has written",
        others,
        (f"program {m.log.program(pid)}: {_buffer_text(view)}",),
        "store to it, or wait for what does, before it is read",
        pid,
        {"program": list(m.log.program(pid))},
    )


def _report_freed(m: Machine, op: Operation, kind: AccessKind, view: MemDesc) -> None:
    freed = view.buffer.freed
    assert freed is not None
    places = locations_of(freed)
    others = (places[0].with_role("freed here"), *places[1:]) if places else ()
    pid = min(program_of(m, view, int(slot)) for slot in view.slot_numbers())
    m.log.report(
        op,
        Kind.LIFETIME,
        f"{kind} of {_space(view)} that has been freed",
        key=(id(freed),),
        order=(pid,),
        others=others,
        role=kind,
        notes=(f"program {m.log.program(pid)}: {_buffer_text(view)}",),
        witness={"program": list(m.log.program(pid))},
    )
