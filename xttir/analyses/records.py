"""What the race sweep remembers of an access: who made it, when it is over, what it touches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xttir.analyses.events import Bounds, Mode, Proxy, Scope, Sem, Space
from xttir.analyses.ground import Print

TENSOR_ENGINES = frozenset({"tcgen05.mma", "tcgen05.cp", "tcgen05.shift"})
"""Asynchronous tcgen05 operations that one thread issues and a commit tracks."""


@dataclass(frozen=True, slots=True)
class Nature:
    """All that decides which rules a pair of accesses is under."""

    space: Space
    mode: Mode
    proxy: Proxy
    engine: str
    """"": synchronous."""
    sem: Sem
    scope: Scope
    role: str = ""
    """"init", "inval" (of an mbarrier), "alloc", "dealloc" (of tensor memory); "": an access."""

    @property
    def writes(self) -> bool:
        return self.mode is not Mode.READ

    @property
    def strong(self) -> bool:
        return self.sem is not Sem.WEAK or self.mode is Mode.RMW

    @property
    def tensor(self) -> bool:
        return self.engine.startswith("tcgen05")


@dataclass(slots=True, eq=False)
class Record:
    """One footprint of one event.

    Actors are the classes that make it, or the units of a collective operation. It is over for an
    event whose clock has `value[a]` on `chain[a]` (int32, by actor): the actor's epoch for a
    synchronous access, its engine's or barrier's count for an asynchronous one; with `more`, all
    of these must be reached too.
    """

    at: int
    ins: int
    nature: Nature
    print: Print
    lanes: np.ndarray
    """int32, by row: the lane (first lane of the unit)."""
    actor: np.ndarray
    """By row."""
    classes: np.ndarray
    """By actor: its class; -1: a unit of several lanes."""
    alone: np.ndarray
    """bool by actor: one lane, or one unit."""
    chain: np.ndarray
    value: np.ndarray
    more: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    issued: tuple[np.ndarray, np.ndarray] | None = None
    """(reps, epochs) by actor: the issue of an asynchronous operation."""
    pipeline: Any = None
    group: int = 0
    """cta_group of tcgen05."""
    may: bool = False
    equal: bool = False
    """Rows that write one place write one value."""
    copied: bool = False
    """Warps that write one place write the same values to it."""
    bounds: Bounds | None = None
    """By row: see `events.Footprint`."""
    ctas: frozenset[int] = frozenset()
    """Blocks of the lanes."""
    waits: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    """(chain, value) by actor: of a wgmma, for each of its warps, that it has waited itself."""
    seen: tuple[np.ndarray, np.ndarray] | None = None
    """(chain, value) by actor: it is also over for who knows that this strong write was seen."""
    over: set[int] = field(default_factory=set)
    """Of a read: the writes (by id) that all of it comes properly after."""
