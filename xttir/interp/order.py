"""What is ordered before what inside one program: vector clocks of agents and of async engines.

An agent is what executes ops one after the other: the whole program, or a partition of
`warp_specialize`. What an agent has asked an engine to do (copies of `cp.async`, TMA, tensor core
products) is done at some later time, and known to be done only through its mechanism: a wait for
groups, the phase of a barrier. Each is a component of the clocks; an access carries a stamp
(component, epoch), and is ordered before what an agent does now if the agent has seen that epoch of
the component. Cf. FastTrack (Flanagan and Freund 2009).

Programs of a batch run together. Those that have taken the same path so far have the same clock: a
clock is one array, with a row for every component, for each such group of programs (as bits), so
that an op costs what it costs for one program, whatever control flow has done before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from xttir.interp.positions import numbers_of_bits, who_of

Epoch = int | tuple[tuple[int, int], ...]
"""A number for all programs, or (programs as bits, number) for groups of them."""

Positions = np.ndarray | None
"""Positions in the batch of the programs that are active; None for all of them."""

Released = list[tuple[int, np.ndarray]]
"""What was known when something was released: (programs as bits, int64[rows]), for groups."""

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


def groups_of(epoch: Epoch, who: int) -> Iterator[tuple[int, int]]:
    """(programs as bits, number) for the programs `who`."""
    if isinstance(epoch, int):
        yield who, epoch
        return
    for mine, number in epoch:
        if common := mine & who:
            yield common, number


def epoch_of(groups: Iterable[tuple[int, int]]) -> Epoch:
    """(programs as bits, number) of disjoint programs, as one epoch."""
    found: dict[int, int] = {}
    for who, number in groups:
        found[number] = found.get(number, 0) | who
    if len(found) == 1:
        return next(iter(found))
    return tuple((who, number) for number, who in found.items())


class Components:
    """The components of the clocks of one batch of programs, each with the number of its row."""

    def __init__(self, batch: int):
        self.batch = batch
        self.everyone = (1 << batch) - 1
        self.rows: dict[Hashable, int] = {}
        self.capacity = 32
        """Rows of a clock that is made now."""
        self._asked: tuple[Positions, int] = (None, self.everyone)

    def row(self, component: Hashable) -> int:
        """The row of a component, a new one if need be."""
        found = self.rows.get(component)
        if found is None:
            found = self.rows[component] = len(self.rows)
            if found == self.capacity:
                self.capacity += 16
        return found

    def who(self, at: Positions) -> int:
        """The programs at positions `at`, as bits."""
        if at is None:
            return self.everyone
        asked, who = self._asked
        if asked is not at:
            who = who_of(at)
            self._asked = (at, who)
        return who


class Known:
    """Up to which epoch each component is known, NEVER for what is not known at all.

    `parts`: (programs as bits, int64[rows]) for groups of programs, which together are all of the
    batch, in a list of its own. The arrays are never changed, so that a copy shares them. Rows that
    a component has beyond those are NEVER.
    """

    __slots__ = ("components", "parts")

    def __init__(self, components: Components, parts: list[tuple[int, np.ndarray]] | None = None):
        self.components = components
        if parts is None:
            parts = [(components.everyone, np.full(components.capacity, NEVER))]
        self.parts = parts

    def copy(self) -> Known:
        return Known(self.components, self.parts.copy())

    def within(self, who: int) -> Released:
        """The groups of the programs `who`."""
        parts = self.parts
        if len(parts) == 1:
            return [(who, parts[0][1])]
        for part in parts:
            if not who & ~part[0]:
                return [(who, part[1])]
        return [(common, known) for mine, known in parts if (common := mine & who)]

    def get(self, component: Hashable) -> int | np.ndarray:
        """The last epoch of `component` that is known; int64[batch] where programs differ."""
        if len(self.parts) == 1:
            return self._epoch(self.parts[0][1], component)
        found = np.empty(self.components.batch, np.int64)
        for who, known in self.parts:
            found[numbers_of_bits(who)] = self._epoch(known, component)
        return found

    def epochs(self, component: Hashable, at: Positions) -> list[tuple[int, int]]:
        """(programs as bits, the last epoch of `component` that they know) of those at `at`."""
        found = self.within(self.components.who(at))
        return [(who, self._epoch(known, component)) for who, known in found]

    def least(self, component: Hashable, who: int) -> int:
        """The epoch of `component` that is known for each of the programs `who`."""
        row = self.components.rows.get(component, NEVER)
        least: int | None = None
        for mine, known in self.parts:
            if mine & who:
                epoch = known.item(row) if -1 < row < known.size else NEVER
                if mine == who:
                    return epoch
                if least is None or epoch < least:
                    least = epoch
        return NEVER if least is None else least

    def lacks(self, component: Hashable, epoch: int, who: int) -> int:
        """Those of the programs `who` for which `epoch` of `component` is not known."""
        row = self.components.rows.get(component, NEVER)
        missing = 0
        for mine, known in self.parts:
            common = mine & who
            if common and (known.item(row) if -1 < row < known.size else NEVER) < epoch:
                missing |= common
        return missing

    def see(self, component: Hashable, epoch: Epoch, at: Positions) -> None:
        """`component` is known up to `epoch` for the programs at `at`."""
        for who, number in groups_of(epoch, self.components.who(at)):
            self.see_for(component, number, who)

    def see_for(self, component: Hashable, epoch: int, who: int) -> None:
        """`component` is known up to `epoch` for the programs `who` (bits)."""
        row = self.components.row(component)
        self._change(who, lambda known: self.raised(known, row, epoch))

    def acquire(self, other: np.ndarray | None, component: Hashable, epoch: int, who: int) -> None:
        """Everything in `other` and `epoch` of `component` are known, for the programs `who`."""
        row = self.components.row(component)

        def more(known: np.ndarray) -> np.ndarray:
            return self.raised(known if other is None else joined(known, other), row, epoch)

        self._change(who, more)

    def put(self, component: Hashable, epoch: int) -> None:
        """Exactly `epoch` of `component` is known, for all programs."""
        row = self.components.row(component)
        self._change(self.components.everyone, lambda known: self.raised(known, row, epoch, True))

    def advance(self, component: Hashable, who: int) -> None:
        """One more epoch of `component` is known, for the programs `who`."""
        row = self.components.row(component)

        def more(known: np.ndarray) -> np.ndarray:
            return self.raised(known, row, known.item(row) + 1)

        self._change(who, more)

    def learn(self, released: Released) -> None:
        """Everything that was released to programs is known for them."""
        for group, known in released:
            self.join(known, group)

    def join(self, other: np.ndarray, who: int) -> None:
        """Everything in `other` is known, for the programs `who`."""
        self._change(who, lambda known: joined(known, other))

    def holds(self, other: Known, at: Positions) -> bool:
        """Whether everything that `other` knows is known, for programs `at`."""
        who = self.components.who(at)
        return all(
            covers(mine, known)
            for group, known in other.within(who)
            for _, mine in self.within(group)
        )

    def forget(self, at: Positions) -> None:
        """Nothing is known for programs `at`."""
        nothing = np.full(self.components.capacity, NEVER)
        self._change(self.components.who(at), lambda _: nothing)

    def _change(self, who: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Other arrays for the programs `who`."""
        parts = self.parts
        for n, (mine, known) in enumerate(parts):
            if mine == who:
                parts[n] = (who, change(known))
                return
        found: list[tuple[int, np.ndarray]] = []
        for mine, known in parts:
            common = mine & who
            if not common:
                found.append((mine, known))
                continue
            found.append((common, change(known)))
            if rest := mine & ~who:
                found.append((rest, known))
        self.parts = found

    def _epoch(self, known: np.ndarray, component: Hashable) -> int:
        row = self.components.rows.get(component)
        return NEVER if row is None or row >= known.size else known.item(row)

    def raised(self, known: np.ndarray, row: int, epoch: int, exactly: bool = False) -> np.ndarray:
        """`known` with at least (or `exactly`) `epoch` in `row`."""
        if row >= known.size:
            known = _padded(known, self.components.capacity)
        elif not exactly and known.item(row) >= epoch:
            return known
        else:
            known = known.copy()
        known[row] = epoch
        return known


def _padded(known: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate((known, np.full(rows - known.size, NEVER)))


def joined(known: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What either knows."""
    if known is other:
        return known
    if known.size < other.size:
        known = _padded(known, other.size)
    elif known.size > other.size:
        other = _padded(other, known.size)
    return np.maximum(known, other)


def covers(known: np.ndarray, other: np.ndarray) -> bool:
    """Whether everything in `other` is known."""
    if known is other:
        return True
    if known.size < other.size:
        known = _padded(known, other.size)
    return bool((known[: other.size] >= other).all())


class AgentClock:
    """What one agent has seen, for the programs of a batch.

    `component`: the agent's own. `batch`: number of programs. `known`: what the agent knows, its
    own epoch included; made from what it begins with.
    """

    def __init__(self, component: Hashable, batch: int, known: Known | None = None):
        self.component = component
        self.batch = batch
        self.known = Known(Components(batch)) if known is None else known.copy()
        self.known.put(component, 0)
        self.groups: dict[str, Groups] = {}
        self.sure: dict[int, Stamp] = {}
        """Stamps that were found to be ordered before, for all programs of the batch. Clocks only
        grow, so they stay so."""

    @property
    def components(self) -> Components:
        return self.known.components

    def now(self, at: Positions = None) -> Stamp:
        """The stamp of what the agent does now for the programs at `at`."""
        row, parts = self.components.rows[self.component], self.known.parts
        if len(parts) == 1:
            return Stamp(self.component, parts[0][1].item(row))
        groups = self.known.within(self.components.who(at))
        if len(groups) == 1:
            return Stamp(self.component, groups[0][1].item(row))
        return Stamp(self.component, epoch_of((who, known.item(row)) for who, known in groups))

    def unordered(self, stamp: Stamp, who: int) -> int:
        """Those of the programs `who` (bits) for which an access is not ordered before what the
        agent does now."""
        component, epoch = stamp
        if component is self.component:
            return 0
        if isinstance(epoch, int):
            return self.known.lacks(component, epoch, who)
        missing = 0
        for mine, number in groups_of(epoch, who):
            missing |= self.known.lacks(component, number, mine)
        return missing

    def comes_after(self, stamp: Stamp, at: Positions) -> bool:
        """Whether an access is ordered before what the agent does now for programs `at`. For one
        that is asked for again and again."""
        if id(stamp) in self.sure:
            return True
        missing = self.unordered(stamp, self.components.everyone)
        if not missing:
            self.sure[id(stamp)] = stamp
        return not missing & self.components.who(at)

    def see(self, component: Hashable, epoch: Epoch, at: Positions) -> None:
        """From now on what `component` did up to `epoch` is ordered before what the agent does."""
        self.known.see(component, epoch, at)

    def publish(self, at: Positions) -> Released:
        """What another agent sees, for programs `at`, that is told of everything this one did so
        far (a release). What this agent does next is in a new epoch."""
        known, who = self.known, self.components.who(at)
        released = known.within(who)
        known.advance(self.component, who)
        return released

    def fork(self, component: Hashable, at: Positions) -> AgentClock:
        """The clock of an agent that begins with what this one has done, for programs `at`."""
        other = AgentClock(component, self.batch, self.known)
        self.publish(at)
        return other

    def learn(self, released: Released) -> None:
        """See what was released (an acquire)."""
        self.known.learn(released)

    def engine(self, name: str) -> Groups:
        """The groups of asynchronous ops that this agent commits to the engine `name`."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = Groups(self, (self.component, name))
        return found


class Groups:
    """Asynchronous ops of one agent, waited for by groups: commit closes a group, a wait leaves
    the latest n outstanding (cp.async, bulk stores, wgmma).

    `committed`: how many groups are closed.
    """

    def __init__(self, clock: AgentClock, component: Hashable):
        self.clock = clock
        self.component = component
        self.committed: Epoch = 0

    def stamp(self) -> Stamp:
        """The stamp of an op issued now: it belongs to the group that is open."""
        return Stamp(self.component, self.committed)

    def commit(self, at: Positions) -> None:
        """Close the open group."""
        committed = self.committed
        if at is None and isinstance(committed, int):
            self.committed = committed + 1
            return
        components = self.clock.components
        found: list[tuple[int, int]] = []
        who = components.who(at)
        for mine, number in groups_of(committed, components.everyone):
            if common := mine & who:
                found.append((common, number + 1))
            if rest := mine & ~who:
                found.append((rest, number))
        self.committed = epoch_of(found)

    def told(self, released: Released, running: int) -> Released:
        """`released`, when it also tells of all groups but the latest `running` ones, and of the
        open one if that is -1."""
        row, known = self.clock.components.row(self.component), self.clock.known
        return [
            (who, known.raised(array, row, number - running - 1))
            for group, array in released
            for who, number in groups_of(self.committed, group)
        ]

    def wait(self, outstanding: int, at: Positions) -> None:
        """Wait until at most `outstanding` groups are under way."""
        known = self.clock.known
        for who, number in groups_of(self.committed, self.clock.components.who(at)):
            known.see_for(self.component, number - outstanding - 1, who)
