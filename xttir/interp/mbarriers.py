"""mbarriers of the programs of a batch: counts, phases, what a completed phase lets waiters see.

A phase is complete when no arrival is pending and the byte count is zero, whichever of arrive,
expect and the end of a copy brings that about (PTX ISA, mbarrier). An arrival releases what its
agent, or the engine that makes it, has done; a wait acquires what the completed phases released. A
barrier is a component of the clocks itself (`interp.order`): epoch n is its phase n, so that what a
copy writes is stamped with the phase that it completes, and whether an agent knows of a phase is a
comparison of numbers.

Numbers are ints while all programs of the batch agree, int64[batch] afterwards.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import CallSiteLoc, NameLoc
from xdsl.ir import Attribute, Operation

from xttir.interp.memdesc import Buffer, Choice, MemDesc
from xttir.interp.order import NEVER, Components, Epoch, Known, Positions, Stamp, changed, chosen
from xttir.interp.positions import choose, where
from xttir.interp.views import offsets_of


class MBarrier:
    """One mbarrier of every program of the batch.

    `count`: arrivals of a phase; `pending`: those still missing; `tx`: bytes announced and not yet
    there; `phase`: phases completed. `live`: initialised and not invalidated. `made`: the stamp of
    `init_barrier`. `name`: what reports call it; `op`: what allocated it. `asynchronous`: whether
    copies take part in the running phase. `closed_by`: what was released by an arrival that closed
    a phase after all of its other updates.
    """

    def __init__(self, name: str, op: Operation, components: Components):
        self.name = name
        self.op = op
        self.components = components
        self.batch = components.batch
        self.count: Epoch = 0
        self.pending: Epoch = 0
        self.tx: Epoch = 0
        self.phase: Epoch = 0
        self.live: Epoch = 0
        self.made: Stamp | None = None
        self.asynchronous = False
        self.closed_by: Known | None = None
        self.last_asynchronous = False
        self.last: Known | None = None
        self.waits: list[tuple[Operation, Stamp, int]] = []
        """Waits that returned: the op, when, and how many phases were complete."""
        self.arriving: Known | None = None
        """What the arrivals of the running phase released; a snapshot that others may hold."""
        self.done = Known(components)

    # --- life ------------------------------------------------------------------------------------

    def init(self, count: int, stamp: Stamp, at: Positions) -> bool:
        """Begin with phase 0. False if it is live already."""
        again = bool(np.any(chosen(self.live, at)))
        self.made = stamp
        for name, value in (("count", count), ("pending", count), ("tx", 0), ("phase", 0)):
            setattr(self, name, changed(getattr(self, name), value, at, self.batch))
        self.live = changed(self.live, 1, at, self.batch)
        self.waits = []
        if at is None:
            self.arriving, self.done = None, Known(self.components)
        else:
            self.arriving = None if self.arriving is None else self.arriving.without(at)
            self.done.forget(at)
        return not again

    def inval(self, at: Positions) -> None:
        self.live = changed(self.live, 0, at, self.batch)

    def is_live(self, at: Positions) -> bool:
        live = chosen(self.live, at)
        return live == 1 if type(live) is int else bool(np.all(live))

    # --- updates ---------------------------------------------------------------------------------

    def update(self, arrivals: int, expect: int, snapshot: Known | None, at: Positions) -> int:
        """Announce `expect` bytes (negative: they have come), then arrive. Gives the number of
        arrivals that were one too many for a program."""
        if at is None and type(self.tx) is int and type(self.pending) is int:
            return self._update_alike(arrivals, expect, snapshot)
        tx = chosen(self.tx, at) + expect
        pending = chosen(self.pending, at) - arrivals
        over = max(0, -int(np.min(pending)))
        if over:
            pending = np.maximum(pending, 0) if isinstance(pending, np.ndarray) else 0
        self.tx = changed(self.tx, tx, at, self.batch)
        self.pending = changed(self.pending, pending, at, self.batch)
        if snapshot is not None:
            arriving = Known(self.components) if self.arriving is None else self.arriving
            self.arriving = arriving.joined(snapshot, at)
        complete = (np.asarray(pending) == 0) & (np.asarray(tx) == 0)
        if complete.all():
            self._complete(at)
        elif complete.any():
            positions = np.arange(self.batch) if at is None else at
            self._complete(positions[np.broadcast_to(complete, positions.shape)])
        return over

    def _update_alike(self, arrivals: int, expect: int, snapshot: Known | None) -> int:
        """`update` while all programs agree."""
        assert isinstance(self.tx, int)
        assert isinstance(self.pending, int)
        self.tx += expect
        over = max(0, arrivals - self.pending)
        self.pending = max(0, self.pending - arrivals)
        if snapshot is not None:
            arriving = self.arriving
            self.arriving = snapshot if arriving is None else arriving.joined(snapshot, None)
        if self.pending == 0 and self.tx == 0:
            self._complete(None)
        return over

    def _complete(self, at: Positions) -> None:
        self.last_asynchronous = self.asynchronous
        self.asynchronous, self.closed_by = False, None
        arriving, phase = self.arriving, chosen(self.phase, at)
        if arriving is not None:
            self.done.learn(arriving, at)
            self.arriving = None if at is None else arriving.without(at)
        self.last = arriving
        self.done.see(self, phase, at)
        self.phase = changed(self.phase, phase + 1, at, self.batch)
        self.pending = changed(self.pending, chosen(self.count, at), at, self.batch)

    def alone(self, snapshot: Known, at: Positions) -> bool:
        """Whether `snapshot`, released by the update that completed the last phase, holds all that
        the phase's updates released: they came before it."""
        if self.last_asynchronous:
            return False
        last = self.last
        return last is None or last is snapshot or snapshot.holds(last, at)

    def waited(self, op: Operation, stamp: Stamp, at: Positions) -> None:
        """A wait has returned. Kept only while the programs of the batch agree."""
        if at is None and type(self.phase) is int:
            self.waits.append((op, stamp, self.phase))
        else:
            self.forget_waits()

    def forget_waits(self) -> None:
        """Programs of the batch differ: their waits are not compared."""
        self.waits = []

    def overtaken(self, phase: int) -> Operation | None:
        """A wait that returned while `phase` was running, and that none of its updates came after,
        now that it is complete; so the wait may find it complete as well. Waits before are done
        with."""
        found: Operation | None = None
        left: list[tuple[Operation, Stamp, int]] = []
        for op, stamp, seen in self.waits:
            if seen > phase:
                left.append((op, stamp, seen))
            elif seen == phase and not self._covers(stamp):
                found = op
        self.waits = left
        return found

    def _covers(self, stamp: Stamp) -> bool:
        """Whether an update of the last phase came after what `stamp` says."""
        known = NEVER if self.last is None else self.last.get(stamp.component)
        return _reaches(known, stamp.epoch)

    def closed_before(self, snapshot: Known, at: Positions) -> bool:
        """Whether an update that releases `snapshot` comes after the one that closed the phase
        before, for programs `at`."""
        return self.closed_by is not None and snapshot.holds(self.closed_by, at)

    # --- waits -----------------------------------------------------------------------------------

    def passed(self, parity: Epoch, at: Positions) -> bool:
        """Whether a wait for `parity` (a number, or int64[active]) returns, for all programs."""
        phase = chosen(self.phase, at)
        if type(phase) is int and type(parity) is int:
            return (phase ^ parity) & 1 == 1
        return bool(np.all((phase ^ parity) & 1 == 1))

    def stamp(self) -> Stamp:
        """The stamp of what completes with the running phase."""
        return Stamp(self, self.phase)

    def missing(self, at: Positions) -> str:
        """What the running phase waits for: "1 of 2 arrivals and 4096 bytes are missing"."""

        def first(value: Epoch) -> int:
            return int(np.asarray(chosen(value, at)).reshape(-1)[0])

        pending, count, tx = first(self.pending), first(self.count), first(self.tx)
        parts = [f"{pending} of {count} arrival{'s' if count > 1 else ''}"] if pending else []
        if tx > 0:
            parts.append(f"{tx} bytes")
        text = " and ".join(parts) + (" missing" if parts else "")
        if tx < 0:
            text += ("; " if parts else "") + f"{-tx} bytes more than announced have come"
        return text


def _reaches(known: Epoch, epoch: Epoch) -> bool:
    """Whether `known` is `epoch` or later, for all programs."""
    if type(known) is int and type(epoch) is int:
        return known >= epoch
    return bool(np.all(np.asarray(known) >= epoch))


class MBarriers:
    """The mbarriers of a batch of programs, by buffer and number of the element in it."""

    def __init__(self, components: Components):
        self.components = components
        self._of: dict[int, tuple[Buffer, dict[int, MBarrier]]] = {}

    def at(self, buffer: Buffer, number: int) -> MBarrier:
        """The barrier in element `number` of `buffer`, made (not yet initialised) if need be."""
        entry = self._of.get(id(buffer))
        if entry is None:
            entry = self._of[id(buffer)] = (buffer, {})
        known = entry[1]
        found = known.get(number)
        if found is None:
            several = len(buffer.cells) > 1
            name = buffer_name(buffer) + (f"[{number}]" if several else "")
            found = known[number] = MBarrier(name, buffer.op, self.components)
        return found


def buffer_name(buffer: Buffer) -> str:
    """The kernel's name for what a buffer was allocated as: "`full`"."""
    name = name_of(buffer.op.location)
    return f"`{name}`" if name else "the barrier"


def name_of(location: Attribute) -> str:
    """The kernel's variable that a location names, of the outermost call; "" if it names none."""
    if isinstance(location, CallSiteLoc):
        return name_of(location.caller) or name_of(location.callee)
    return location.desc.data if isinstance(location, NameLoc) else ""


def numbers_of(desc: MemDesc) -> int | np.ndarray:
    """The number of the first element that a view covers in its buffer; int64[b] where programs
    differ."""
    size = prod(desc.buffer.shape[1:])
    if isinstance(desc.cell, int) and not desc.path:
        return desc.cell * size
    base: Any = 0 if desc.cell is None else desc.cell * size
    if desc.path:
        shape = desc.buffer.shape if desc.cell is None else desc.buffer.shape[1:]
        offsets = offsets_of(desc.path, shape)
        first = offsets.reshape(offsets.shape[0], -1)[:, 0]
        base = base + (int(first[0]) if first.size == 1 else first)
    if isinstance(base, np.ndarray) and (base == base[0]).all():
        return int(base[0])
    return base


Selected = list[tuple[MBarrier, Positions, np.ndarray | None]]
"""(barrier, positions in the batch, positions among the active programs); None for all of them."""


def select(
    barriers: MBarriers, desc: Any, positions: Positions, held: bool | np.ndarray = True
) -> Selected:
    """The barriers that `desc` names for the active programs for which `held` (bool[b]) holds."""
    if held is False:
        return []
    if held is not True:
        rows = where(held)
        return _among(rows, select(barriers, desc.take(rows), _at(rows, positions)))
    if type(desc) is MemDesc and desc.barrier is not None:
        return [(desc.barrier, positions, None)]
    found: Selected = []
    if type(desc) is Choice:
        for rows, part in desc.parts:
            found += _among(rows, select(barriers, part, _at(rows, positions)))
        return found
    number = numbers_of(desc)
    if isinstance(number, int):
        barrier = barriers.at(desc.buffer, number)
        if type(desc) is MemDesc:
            desc.barrier = barrier
        return [(barrier, positions, None)]
    for one in np.unique(number).tolist():
        rows = np.flatnonzero(number == one)
        found.append((barriers.at(desc.buffer, one), _at(rows, positions), rows))
    return found


def _at(rows: np.ndarray, positions: Positions) -> np.ndarray:
    """Positions in the batch of the active programs `rows`."""
    return rows if positions is None else choose(positions, rows)


def _among(rows: np.ndarray, selected: Selected) -> Selected:
    """What was selected for the programs `rows`, seen from all active ones."""
    return [(b, at, rows if inner is None else choose(rows, inner)) for b, at, inner in selected]
