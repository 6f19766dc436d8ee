"""Buffers of shared and tensor memory: one allocation for the programs that were active at it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation

from xttir.interp.cells import Cell, within


class Place(NamedTuple):
    """Part of a cell: `footprint`, bool (1 or b, n) elements of it (None for all), for the programs
    in `slots` (None: all; `who` as bits)."""

    cell: Cell
    footprint: np.ndarray | None
    who: int
    slots: np.ndarray | None


class Buffer:
    """One allocation.

    `shape`: of all of it; cells are along its first axis if `split`. `slots`: programs, `everyone`
    as bits. `positions`: their positions in the batch, None for all of it. `op`: what allocated it.
    `freed`: what freed it.
    """

    def __init__(
        self,
        op: Operation,
        dtype: np.dtype,
        shape: tuple[int, ...],
        split: bool,
        slots: int,
        positions: np.ndarray | None,
    ):
        self.op = op
        self.dtype = dtype
        self.split = split
        self.slots = slots
        self.everyone = (1 << slots) - 1
        self.positions = positions
        self.freed: Operation | None = None
        self.shape = shape
        self.cells = [Cell(shape[1:]) for _ in range(shape[0])] if split else [Cell(shape)]

    def slots_of(self, who: int) -> int:
        """The slots, as bits, of programs given as bits of their positions in the batch."""
        if self.positions is None:
            return who
        return sum(1 << slot for slot, at in enumerate(self.positions.tolist()) if who >> at & 1)

    def fuse(self) -> None:
        """Make all cells one, for views across them."""
        if not self.split:
            return
        parts = self.cells
        for cell in parts:
            cell.settle(self.slots, self.dtype)
        whole = Cell(self.shape)
        self.split = False
        self.cells = [whole]
        for n, cell in enumerate(parts):
            whole.accesses += [within(access, n, len(parts), cell) for access in cell.accesses]
        if all(cell.value is None for cell in parts):
            return
        data = whole.own(self.slots, self.dtype)
        unwritten = np.ones(data.shape, bool)
        bad = np.zeros(data.shape, bool)
        for n, cell in enumerate(parts):
            if cell.value is not None:
                data[:, n] = cell.value
            unwritten[:, n] = False if cell.unwritten is None else cell.unwritten
            bad[:, n] = False if cell.bad is None else cell.bad
            whole.origin = whole.origin or cell.origin
        whole.unwritten = unwritten if unwritten.any() else None
        whole.bad = bad if bad.any() else None
