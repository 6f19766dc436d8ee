"""mbarriers of the programs of a batch: counts, phases, what a completed phase lets waiters see.

A phase is complete when no arrival is pending and the byte count is zero, whichever of arrive,
expect and the end of a copy brings that about (PTX ISA, mbarrier). An arrival releases what its
agent, or the engine that makes it, has done; a wait acquires what the completed phases released. A
barrier is a component of the clocks itself (`interp.order`): epoch n is its phase n, so that what a
copy writes is stamped with the phase that it completes, and whether an agent knows of a phase is a
comparison of numbers.

Programs that have used a barrier alike share its state: an op costs what it costs for one of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import CallSiteLoc, NameLoc
from xdsl.ir import Attribute, Operation

from xttir.interp.buffers import Buffer
from xttir.interp.memdesc import Choice, MemDesc
from xttir.interp.order import Components, Positions, Stamp, covers, epoch_of, joined
from xttir.interp.positions import choose, where
from xttir.interp.views import offsets_of


class State:
    """The mbarrier of programs that have used it alike so far.

    `count`: arrivals of a phase; `pending`: those still missing; `tx`: bytes announced and not yet
    there; `phase`: phases completed. `live`: initialised and not invalidated. `made`: the stamp of
    `init_barrier`. `asynchronous`: whether copies take part in the running phase, and
    `last_asynchronous` in the last. `arriving`: what the arrivals of the running phase released,
    `last` those of the last, `done` those of all complete ones. `closed_by`: what was released by
    an arrival that closed a phase after all of its other updates. `waits`: waits that returned: the
    op, when, and how many phases were complete.
    """

    __slots__ = (
        "arriving",
        "asynchronous",
        "closed_by",
        "count",
        "done",
        "last",
        "last_asynchronous",
        "live",
        "made",
        "pending",
        "phase",
        "tx",
        "waits",
    )

    def __init__(self) -> None:
        self.live = False
        self.made: Stamp | None = None
        self.begin(0)

    def begin(self, count: int) -> None:
        """Phase 0 of a barrier for `count` arrivals."""
        self.count = self.pending = count
        self.tx = self.phase = 0
        self.asynchronous = self.last_asynchronous = False
        self.arriving: np.ndarray | None = None
        self.last: np.ndarray | None = None
        self.done: np.ndarray | None = None
        self.closed_by: np.ndarray | None = None
        self.waits: tuple[tuple[Operation, Hashable, int, int], ...] = ()

    def twin(self) -> State:
        """A state of its own for some of the programs. Nothing in it is changed in place."""
        other = State.__new__(State)
        for name in State.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def update(self, arrivals: int, expect: int, snapshot: np.ndarray | None) -> int:
        """Announce `expect` bytes (negative: they have come), then arrive. Gives the number of
        arrivals that were too many."""
        self.tx += expect
        over = max(0, arrivals - self.pending)
        self.pending = max(0, self.pending - arrivals)
        if snapshot is not None:
            self.arriving = snapshot if self.arriving is None else joined(self.arriving, snapshot)
        if self.pending == 0 and self.tx == 0:
            self._complete()
        return over

    def _complete(self) -> None:
        self.last_asynchronous = self.asynchronous
        self.asynchronous, self.closed_by = False, None
        self.last, self.arriving = self.arriving, None
        if self.last is not None:
            self.done = self.last if self.done is None else joined(self.done, self.last)
        self.phase += 1
        self.pending = self.count

    def alone(self, snapshot: np.ndarray) -> bool:
        """Whether `snapshot`, released by the update that completed the last phase, holds all that
        the phase's updates released: they came before it."""
        if self.last_asynchronous:
            return False
        return self.last is None or covers(snapshot, self.last)

    def closed_before(self, snapshot: np.ndarray) -> bool:
        """Whether an update that releases `snapshot` comes after the one that closed the phase
        before."""
        return self.closed_by is not None and covers(snapshot, self.closed_by)


class MBarrier:
    """One mbarrier of every program of the batch.

    `states`: (programs as bits, state) for groups of programs, which together are all. `name`: what
    reports call it; `op`: what allocated it.
    """

    def __init__(self, name: str, op: Operation, components: Components):
        self.name = name
        self.op = op
        self.components = components
        self.states: list[tuple[int, State]] = [(components.everyone, State())]

    def seen(self, who: int) -> list[tuple[int, State]]:
        """The states of the programs `who`, to look at."""
        states = self.states
        if len(states) == 1:
            return [(who, states[0][1])]
        return [(common, state) for mine, state in states if (common := mine & who)]

    def changed(self, who: int) -> list[tuple[int, State]]:
        """The states of the programs `who`, of theirs alone, to change."""
        states = self.states
        for one in states:
            if one[0] == who:
                return [one]
        rest: list[tuple[int, State]] = []
        found: list[tuple[int, State]] = []
        for mine, state in states:
            common = mine & who
            if common == mine:
                found.append((mine, state))
                continue
            rest.append((mine & ~who, state))
            if common:
                found.append((common, state.twin()))
        self.states = [*found, *rest]
        return found

    # --- life ------------------------------------------------------------------------------------

    def init(self, count: int, stamp: Stamp, at: Positions) -> bool:
        """Begin with phase 0. False if it is live already."""
        again = False
        for _, state in self.changed(self.components.who(at)):
            again |= state.live
            state.begin(count)
            state.live, state.made = True, stamp
        return not again

    def inval(self, at: Positions) -> None:
        for _, state in self.changed(self.components.who(at)):
            state.live = False

    # --- waits -----------------------------------------------------------------------------------

    def passed(self, parity: int, at: Positions) -> bool:
        """Whether a wait for `parity` returns, for all programs."""
        who, early = self.components.who(at), parity & 1
        # It does not where a phase of that parity is running.
        states = self.states
        if len(states) == 1:
            return states[0][1].phase & 1 != early
        return not any(mine & who and state.phase & 1 == early for mine, state in states)

    def stamp(self) -> Stamp:
        """The stamp of what completes with the running phase."""
        states = self.states
        if len(states) == 1:
            return Stamp(self, states[0][1].phase)
        return Stamp(self, epoch_of((who, state.phase) for who, state in states))

    def covers(self, state: State, component: Hashable, epoch: int) -> bool:
        """Whether an update of the last phase of `state` came after `epoch` of `component`."""
        row = self.components.rows.get(component)
        last = state.last
        return last is not None and row is not None and row < last.size and last[row] >= epoch

    def missing(self, at: Positions) -> str:
        """What the running phase waits for: "1 of 2 arrivals and 4096 bytes are missing"."""
        state = self.seen(self.components.who(at))[0][1]
        pending, count, tx = state.pending, state.count, state.tx
        parts = [f"{pending} of {count} arrival{'s' if count > 1 else ''}"] if pending else []
        if tx > 0:
            parts.append(f"{tx} bytes")
        text = " and ".join(parts) + (" missing" if parts else "")
        if tx < 0:
            text += ("; " if parts else "") + f"{-tx} bytes more than announced have come"
        return text


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
    for one in sorted(set(number.tolist())):
        rows = np.flatnonzero(number == one)
        found.append((barriers.at(desc.buffer, one), _at(rows, positions), rows))
    return found


def _at(rows: np.ndarray, positions: Positions) -> np.ndarray:
    """Positions in the batch of the active programs `rows`."""
    return rows if positions is None else choose(positions, rows)


def _among(rows: np.ndarray, selected: Selected) -> Selected:
    """What was selected for the programs `rows`, seen from all active ones."""
    return [(b, at, rows if inner is None else choose(rows, inner)) for b, at, inner in selected]
