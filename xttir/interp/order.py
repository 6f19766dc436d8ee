"""What is ordered before what inside one program: vector clocks of agents and of async engines.

An agent is what executes ops one after the other: the whole program, or a partition of
`warp_specialize`. What an agent has asked an engine to do (copies of `cp.async`, TMA, tensor core
products) is done at some later time, and known to be done only through its mechanism: a wait for
groups, the phase of a barrier. Each is a component of the clocks; an access carries a stamp
(component, epoch), and is ordered before what an agent does now if the agent has seen that epoch of
the component. Cf. FastTrack (Flanagan and Freund 2009).

Programs of a batch run together, so an epoch is one number for all of them, or int64[batch] where
control flow made them differ. A clock is an array with a row for every component of the batch, so
that what one agent learns from another is the maximum of two arrays.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from xttir.interp.positions import others

Epoch = int | np.ndarray
"""A number for all programs of the batch, or int64[batch]."""

Positions = np.ndarray | None
"""Positions in the batch of the programs that are active; None for all of them."""

NEVER = -1
"""Less than every epoch, and all of its bits are set: `x | NEVER` is NEVER."""


class Stamp(NamedTuple):
    """When an access happens: in `epoch` of `component`."""

    component: Hashable
    epoch: Epoch


TCGEN05 = "tcgen05"
"""The engine of tcgen05: products, and copies to tensor memory."""

_IN_ORDER = frozenset({TCGEN05})
"""Engines that execute the ops of one agent one after the other."""


def in_order(stamp: Stamp, other: Stamp) -> bool:
    """Whether both are of one engine that executes them in order."""
    component = stamp.component
    if component != other.component or not isinstance(component, tuple):
        return False
    return component[1] in _IN_ORDER


def changed(old: Epoch, new: Epoch, at: Positions, batch: int) -> Epoch:
    """`old` with `new` (a number, or int64[active]) for the programs at `at`."""
    if at is None:
        if isinstance(new, np.ndarray) and (new == new[0]).all():
            return int(new[0])
        return new
    result = np.empty(batch, np.int64)
    result[...] = old
    result[at] = new
    return result


def chosen(epoch: Epoch, at: Positions) -> Epoch:
    """The epochs of the programs at `at`."""
    return epoch[at] if at is not None and isinstance(epoch, np.ndarray) else epoch


class Components:
    """The components of the clocks of one batch of programs, each with the number of its row."""

    def __init__(self, batch: int):
        self.batch = batch
        self.rows: dict[Hashable, int] = {}
        self.capacity = 32
        """Rows of a clock that is made now."""

    def row(self, component: Hashable) -> int:
        """The row of a component, a new one if need be."""
        found = self.rows.get(component)
        if found is None:
            found = self.rows[component] = len(self.rows)
            if found == self.capacity:
                self.capacity += 16
        return found


class Known:
    """Up to which epoch each component is known, NEVER for what is not known at all.

    `epochs`: int64[rows, 1] while all programs of the batch agree, int64[rows, batch] afterwards.
    Rows that a component has beyond those are NEVER.
    """

    __slots__ = ("components", "epochs")

    def __init__(self, components: Components, epochs: np.ndarray | None = None):
        self.components = components
        self.epochs = np.full((components.capacity, 1), NEVER) if epochs is None else epochs

    def copy(self) -> Known:
        return Known(self.components, self.epochs.copy())

    def get(self, component: Hashable) -> Epoch:
        """The last epoch of `component` that is known."""
        row = self.components.rows.get(component)
        epochs = self.epochs
        if row is None or row >= epochs.shape[0]:
            return NEVER
        return epochs.item(row, 0) if epochs.shape[1] == 1 else epochs[row]

    def put(self, component: Hashable, epoch: Epoch) -> None:
        """Exactly `epoch` of `component` is known, for all programs."""
        row = self._row(component)
        if isinstance(epoch, np.ndarray):
            self._spread()
        self.epochs[row] = epoch

    def see(self, component: Hashable, epoch: Epoch, at: Positions) -> None:
        """`component` is known up to `epoch` (a number, or int64[active]) for programs `at`."""
        row = self._row(component)
        if at is None and type(epoch) is int and self.epochs.shape[1] == 1:
            if self.epochs.item(row, 0) < epoch:
                self.epochs[row, 0] = epoch
            return
        self._spread()
        mine = self.epochs[row]
        if at is None:
            np.maximum(mine, epoch, out=mine)
        elif isinstance(epoch, np.ndarray):
            mine[at] = np.maximum(mine[at], epoch)
        else:
            np.maximum(mine, others(at, mine.size) | epoch, out=mine)

    def learn(self, other: Known, at: Positions) -> None:
        """Everything that `other` knows is known, for programs `at`."""
        if other.epochs.shape[0] != self.epochs.shape[0]:
            self._fit(other)
        theirs = other.epochs
        if at is None:
            alike = self.epochs.shape[1] >= theirs.shape[1]
            self.epochs = np.maximum(self.epochs, theirs, out=self.epochs if alike else None)
            return
        self._spread()
        mine = self.epochs
        np.maximum(mine, theirs | others(at, mine.shape[1]), out=mine)

    def joined(self, other: Known, at: Positions) -> Known:
        """What both know, for programs `at`: a snapshot of its own."""
        found = self.copy()
        found.learn(other, at)
        return found

    def holds(self, other: Known, at: Positions) -> bool:
        """Whether everything that `other` knows is known, for programs `at`."""
        if other.epochs.shape[0] != self.epochs.shape[0]:
            self._fit(other)
        theirs = other.epochs
        if at is not None and max(self.epochs.shape[1], theirs.shape[1]) > 1:
            theirs = theirs | others(at, self.components.batch)
        return bool((self.epochs >= theirs).all())

    def without(self, at: np.ndarray) -> Known:
        """The same, but nothing for programs `at`: a snapshot of its own."""
        found = self.copy()
        found.forget(at)
        return found

    def forget(self, at: np.ndarray) -> None:
        """Nothing is known for programs `at`."""
        self._spread()
        self.epochs |= ~others(at, self.epochs.shape[1])

    def _row(self, component: Hashable) -> int:
        row = self.components.row(component)
        if row >= self.epochs.shape[0]:
            self._grow()
        return row

    def _grow(self) -> None:
        missing = self.components.capacity - self.epochs.shape[0]
        if missing:
            room = np.full((missing, self.epochs.shape[1]), NEVER)
            self.epochs = np.concatenate((self.epochs, room))

    def _fit(self, other: Known) -> None:
        """As many rows in both."""
        self._grow()
        other._grow()

    def _spread(self) -> None:
        """A column for every program."""
        if self.epochs.shape[1] != self.components.batch:
            self.epochs = np.repeat(self.epochs, self.components.batch, axis=1)


class AgentClock:
    """What one agent has seen, for the programs of a batch.

    `component`: the agent's own, `epoch` its epoch. `batch`: number of programs. `known`: what the
    agent knows, its own epoch included; made from what it begins with.
    """

    def __init__(self, component: Hashable, batch: int, known: Known | None = None):
        self.component = component
        self.batch = batch
        self.known = Known(Components(batch)) if known is None else known.copy()
        self.epoch: Epoch = 0
        self.known.put(component, 0)
        self.groups: dict[str, Groups] = {}
        self.sure: dict[int, Stamp] = {}
        """Stamps that were found to be ordered before, for all programs of the batch. Clocks only
        grow, so they stay so."""

    @property
    def components(self) -> Components:
        return self.known.components

    def now(self) -> Stamp:
        """The stamp of what the agent does now."""
        return Stamp(self.component, self.epoch)

    def ordered(self, stamp: Stamp) -> bool | np.ndarray:
        """Whether an access is ordered before what the agent does now; bool[batch] where programs
        differ."""
        component, epoch = stamp
        if component is self.component:
            return True
        seen = self.known.get(component)
        if type(seen) is int and type(epoch) is int:
            return seen >= epoch
        flags = np.greater_equal(seen, epoch)
        return True if flags.all() else flags

    def comes_after(self, stamp: Stamp, at: Positions) -> bool:
        """Whether an access is ordered before what the agent does now for programs `at`. For one
        that is asked for again and again."""
        if id(stamp) in self.sure:
            return True
        ordered = self.ordered(stamp)
        if ordered is True:
            self.sure[id(stamp)] = stamp
            return True
        return bool(np.all(chosen(ordered, at)))

    def see(self, component: Hashable, epoch: Epoch, at: Positions) -> None:
        """From now on what `component` did up to `epoch` (a number or int64[active]) is ordered
        before what the agent does."""
        self.known.see(component, epoch, at)

    def publish(self, at: Positions) -> Known:
        """What another agent sees that is told of everything this one did so far (a release): a
        snapshot. What this agent does next is in a new epoch."""
        snapshot = self.known.copy()
        self.epoch = changed(self.epoch, chosen(self.epoch, at) + 1, at, self.batch)
        self.known.put(self.component, self.epoch)
        return snapshot

    def learn(self, snapshot: Known, at: Positions) -> None:
        """See everything of `snapshot` (an acquire)."""
        self.known.learn(snapshot, at)

    def engine(self, name: str) -> Groups:
        """The groups of asynchronous ops that this agent commits to the engine `name`."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = Groups(self, (self.component, name))
        return found


class Groups:
    """Asynchronous ops of one agent, waited for by groups: commit closes a group, a wait leaves
    the latest n outstanding (cp.async, bulk stores, wgmma)."""

    def __init__(self, clock: AgentClock, component: Hashable):
        self.clock = clock
        self.component = component
        self.committed: Epoch = 0

    def stamp(self) -> Stamp:
        """The stamp of an op issued now: it belongs to the group that is open."""
        return Stamp(self.component, self.committed)

    def commit(self, at: Positions) -> None:
        """Close the open group."""
        now = chosen(self.committed, at) + 1
        self.committed = changed(self.committed, now, at, self.clock.batch)

    def wait(self, outstanding: int, at: Positions) -> None:
        """Wait until at most `outstanding` groups are under way."""
        done = chosen(self.committed, at) - outstanding - 1
        self.clock.see(self.component, done, at)
