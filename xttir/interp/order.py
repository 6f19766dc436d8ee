"""What is ordered before what inside one program: vector clocks of agents and of async engines.

An agent is what executes ops one after the other: the whole program, or a partition of
`warp_specialize`. What an agent has asked an engine to do (copies of `cp.async`, TMA, tensor core
products) is done at some later time, and known to be done only through its mechanism: a wait for
groups, the phase of a barrier. Each is a component of the clocks; an access carries a stamp
(component, epoch), and is ordered before what an agent does now if the agent has seen that epoch of
the component. Cf. FastTrack (Flanagan and Freund 2009).

Programs of a batch run together, so an epoch is one number for all of them, or int64[batch] where
control flow made them differ.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

Epoch = int | np.ndarray
"""A number for all programs of the batch, or int64[batch]."""

Positions = np.ndarray | None
"""Positions in the batch of the programs that are active; None for all of them."""

NEVER = -1


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


class AgentClock:
    """What one agent has seen, for the programs of a batch.

    `component`: the agent's own. `batch`: number of programs.
    """

    def __init__(self, component: Hashable, batch: int, seen: dict[Hashable, Epoch] | None = None):
        self.component = component
        self.batch = batch
        self.seen: dict[Hashable, Epoch] = dict(seen or {})
        self.seen[component] = 0
        self.groups: dict[str, Groups] = {}

    def now(self) -> Stamp:
        """The stamp of what the agent does now."""
        return Stamp(self.component, self.seen[self.component])

    def ordered(self, stamp: Stamp) -> bool | np.ndarray:
        """Whether an access is ordered before what the agent does now; bool[batch] where programs
        differ."""
        if stamp.component == self.component:
            return True
        seen = self.seen.get(stamp.component, NEVER)
        if type(seen) is int and type(stamp.epoch) is int:
            return seen >= stamp.epoch
        return np.greater_equal(seen, stamp.epoch)

    def see(self, component: Hashable, epoch: Epoch, at: Positions) -> None:
        """From now on what `component` did up to `epoch` (a number or int64[active]) is ordered
        before what the agent does."""
        old = self.seen.get(component, NEVER)
        if at is None and type(old) is int and type(epoch) is int:
            self.seen[component] = max(old, epoch)
            return
        now = np.maximum(chosen(old, at), epoch)
        self.seen[component] = changed(old, now, at, self.batch)

    def publish(self, at: Positions) -> dict[Hashable, Epoch]:
        """What another agent sees that is told of everything this one did so far (a release): a
        snapshot. What this agent does next is in a new epoch."""
        snapshot = dict(self.seen)
        mine = self.seen[self.component]
        self.seen[self.component] = changed(mine, chosen(mine, at) + 1, at, self.batch)
        return snapshot

    def learn(self, snapshot: dict[Hashable, Epoch], at: Positions) -> None:
        """See everything of `snapshot` (an acquire)."""
        for component, epoch in snapshot.items():
            if component != self.component:
                self.see(component, chosen(epoch, at), at)

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
