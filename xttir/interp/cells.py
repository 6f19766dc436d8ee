"""Cells: the parts of a memory buffer that are stored as one array, and the accesses they remember.

A cell keeps the array that was stored to all of it; partial stores make it one of its own. What
some programs have stored while others were elsewhere lies over it until someone needs both: loops
that programs leave one after the other store for fewer and fewer of them.
"""

from __future__ import annotations

from math import prod
from typing import Literal, NamedTuple

import numpy as np
from xdsl.ir import Operation

from xttir.interp.order import Stamp
from xttir.interp.taint import Origin

AccessKind = Literal["read", "write", "atomic"]


class Access(NamedTuple):
    """An access that later ones may conflict with.

    `footprint`: bool (1 or b, n) elements of the cell, None for all. `who`: slots of the buffer, as
    bits. `slots`: the slot of each row of the footprint, None for all in order.
    """

    kind: AccessKind
    op: Operation
    stamp: Stamp
    footprint: np.ndarray | None
    who: int
    slots: np.ndarray | None


class Part(NamedTuple):
    """A value (1 or b, *s) of a whole cell for the programs in `slots` (`who` as bits) only."""

    slots: np.ndarray
    who: int
    value: np.ndarray
    bad: np.ndarray | None
    origin: Origin | None


class Cell:
    """Part of a buffer that is stored as one array.

    `value`: (1 or slots, *s), None while nobody has written any of it. `owned`: whether `value` is
    an array of the cell's own with full extents. `unwritten`, `bad`: bool arrays that broadcast to
    the value: elements nobody has written, and undefined ones (because of `origin`); None: none.
    `over`: what some programs have stored since, while others were elsewhere, the latest last.
    `rows`: the rows of
    `value` that some slots took last. `accesses`: those that are not ordered before everything.
    """

    __slots__ = (
        "accesses",
        "bad",
        "origin",
        "over",
        "owned",
        "rows",
        "shape",
        "unwritten",
        "value",
    )

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.value: np.ndarray | None = None
        self.owned = False
        self.unwritten: np.ndarray | None = np.ones((1,) * (len(shape) + 1), bool)
        self.bad: np.ndarray | None = None
        self.origin: Origin | None = None
        self.over: list[Part] = []
        self.rows: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self.accesses: list[Access] = []

    def taken(self, slots: np.ndarray, value: np.ndarray) -> np.ndarray:
        """value[slots] for the cell's value, which nobody may change."""
        if self.owned:
            return value[slots]
        if self.rows is None or self.rows[0] is not slots or self.rows[1] is not value:
            self.rows = (slots, value, value[slots])
        return self.rows[2]

    def own(self, slots: int, dtype: np.dtype) -> np.ndarray:
        """The value as an array of the cell's own (slots, *shape), and marks likewise."""
        full = (slots, *self.shape)
        if not self.owned:
            if self.value is None:
                # All bits set is NaN in every float type.
                self.value = np.full((*full, dtype.itemsize), 0xFF, np.uint8).view(dtype)[..., 0]
            else:
                self.value = np.array(np.broadcast_to(self.value, full), order="C")
            self.owned = True
            if self.unwritten is not None:
                self.unwritten = np.array(np.broadcast_to(self.unwritten, full), order="C")
            if self.bad is not None:
                self.bad = np.array(np.broadcast_to(self.bad, full), order="C")
        assert self.value is not None
        self._settle()
        return self.value

    def lay_over(self, part: Part, slots: int, dtype: np.dtype) -> None:
        """Some programs have stored all of the cell."""
        self.over = [old for old in self.over if old.who & ~part.who]
        if len(self.over) == _DEEP:
            self.settle(slots, dtype)
        self.over.append(part)

    def part_of(self, who: int, slots: int, dtype: np.dtype) -> Part | None:
        """The part in which all of the programs `who` see the cell, None if that is its value."""
        for part in reversed(self.over):
            if not who & ~part.who:
                return part
            if who & part.who:
                self.settle(slots, dtype)
                return None
        return None

    def settle(self, slots: int, dtype: np.dtype) -> None:
        """Move what lies over it into the value."""
        if self.over:
            self.own(slots, dtype)

    def _settle(self) -> None:
        if self.value is None:
            return
        parts, self.over = self.over, []
        for over in parts:
            self.value[over.slots] = over.value
            if self.unwritten is not None:
                self.unwritten[over.slots] = False
            if over.bad is not None and self.bad is None:
                self.bad = np.zeros(self.value.shape, bool)
            if self.bad is not None:
                self.bad[over.slots] = False if over.bad is None else over.bad
                self.origin = over.origin or self.origin


_DEEP = 4
"""Parts over a value: each holds on to an array."""


def within(access: Access, number: int, cells: int, cell: Cell) -> Access:
    """An access of cell `number` as one of a cell that holds all of them."""
    rows = 1 if access.footprint is None else access.footprint.shape[0]
    covered = np.zeros((rows, cells, prod(cell.shape)), bool)
    covered[:, number] = True if access.footprint is None else access.footprint
    return access._replace(footprint=covered.reshape(rows, -1))
