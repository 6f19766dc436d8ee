"""What the explorer's programs are made of: accesses, signals, steps, and things that agents share.

Sets of accesses, signals, agents and things are Python integers, one bit for each.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space

STRONG = frozenset(Sem) - {Sem.WEAK}
RELEASING = frozenset({Sem.RELEASE, Sem.ACQ_REL, Sem.SC})
ACQUIRING = frozenset({Sem.ACQUIRE, Sem.ACQ_REL, Sem.SC})


class Do(enum.IntEnum):
    """What a step does."""

    NOTHING = 0
    TOUCH = 1
    STRONG = 2
    ISSUE = 3
    COLLECT = 4
    PROXY = 5
    FENCE = 6
    INIT = 7
    INVAL = 8
    ARRIVE = 9
    TX = 10
    WAIT = 11
    MEET = 12
    CLUSTER_ARRIVE = 13
    CLUSTER_WAIT = 14
    ALLOC = 15
    DEALLOC = 16
    EXIT = 17


@dataclass(slots=True)
class Part:
    """Accesses of one event by one set of agents, alike in mode, space, proxy and block."""

    index: int
    event: int
    agents: int
    mode: Mode
    space: Space
    cta: int
    proxy: Proxy
    asynchronous: bool
    sem: Sem
    scope: Scope
    equal: bool = False
    engine: str = ""
    """Of an asynchronous operation."""
    granules: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def writes(self) -> bool:
        return self.mode is not Mode.READ

    @property
    def outlives(self) -> bool:
        """May be under way when the thread has exited (cp.async is the thread's own)."""
        return self.asynchronous and self.engine != "cp.async"


@dataclass(slots=True)
class Signal:
    """What reaches an mbarrier later: bytes of a copy (`bytes` > 0), or one arrival."""

    index: int
    barrier: int
    bytes: int
    publishes: int
    """Accesses that are over for who waits on the phase (both bits)."""
    after: int
    """Signals that come first, as a set."""
    agent: int
    lane: int
    op: int
    """The op-th asynchronous operation of the lane, from 0."""
    event: int
    far: bool


@dataclass(slots=True)
class Step:
    """One event of one agent. `objects`: what it shares with others, as a set; 0: local."""

    do: Do
    event: int
    lanes: tuple[int, ...]
    objects: int = 0
    need: int = 0
    """Accesses that must be known, if they have been made."""
    bits: int = 0
    """Accesses made."""
    parts: tuple[Part, ...] = ()
    mask: int = 0
    sees: int = 0
    """Ordinary writes of what is read."""
    signals: int = 0
    unit: int = -1
    """Object that gathers the agents of a collective operation; -1: this agent alone."""
    items: tuple[tuple[int, ...], ...] = ()
    sem: Sem = Sem.WEAK
    scope: Scope = Scope.CTA
    flag: bool = False
    observed: int = 0
    kind: str = ""
    barriers: tuple[int, ...] = ()
    """mbarriers whose word a data access overlaps."""


@dataclass(slots=True)
class Thing:
    """A shared object: "mbarrier", "named", "warp" or "cluster" barrier, "place" of strong
    accesses, "alive" (a block that others use), "tensor" memory, "unit" of a collective."""

    kind: str
    cta: int
    address: int
    agents: int = 0
    """Who takes part (named, warp, cluster, unit)."""
    local: bool = False
    """The order in which agents come to it makes no difference."""


def row_of(array: np.ndarray, row: int) -> int:
    return int(array[row if len(array) > 1 else 0])


def bits(mask: int) -> list[int]:
    """The members of a set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
