"""Tensor memory of a launch: what is allocated, which cells were written, and (running) contents.

Per block 128 lanes of 512 columns. Whether cells were written is kept as two 64-bit lane masks a
column, so that a rectangle is one masked operation over all blocks. PTX ISA 9.1, section 9.7.16.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from xttir.analyses.events import Footprint, Mode, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.step import Step
from xttir.interp.ptx.units import Skip, footprint
from xttir.interp.tensorcore.tensor_memory import COLUMNS, LANES, rows_of_cells

FREED = -1


@cache
def lane_masks(lanes: tuple[int, ...]) -> np.ndarray:
    """uint64 (2,): the bits of lanes."""
    bits = np.zeros(LANES, bool)
    bits[list(lanes)] = True
    return np.packbits(bits, bitorder="little").view(np.uint64)


class TensorMemory:
    def __init__(self, ctas: int, running: bool):
        self.owner = np.zeros((ctas, COLUMNS), np.int16)
        """1 + first column of the allocation that a column belongs to; 0 never, FREED no more."""
        self.written = np.zeros((ctas, COLUMNS, 2), np.uint64)
        self.relinquished = np.zeros(ctas, bool)
        self.last_size = np.full(ctas, COLUMNS, np.int16)
        self.origin: dict[tuple[int, int], tuple[int, int]] = {}
        """By block and first column of what is allocated: (instruction, lane) of the allocation."""
        self.good: set[Any] = set()
        """Accesses that were found to be right; cells are not forgotten until memory is freed."""
        self.cells = np.zeros((ctas, LANES, COLUMNS), np.uint32) if running else None

    # Allocation -----------------------------------------------------------------------------------

    def free_column(self, cta: int, columns: int) -> int:
        """Where `columns` columns are free (at a multiple of their number), or -1."""
        taken = (self.owner[cta] > 0).reshape(-1, columns).any(axis=1)
        return -1 if taken.all() else int(np.argmin(taken)) * columns

    def allocate(self, ctas: np.ndarray, base: int, columns: int) -> None:
        self.owner[ctas, base : base + columns] = base + 1
        self.good.clear()
        self.written[ctas, base : base + columns] = 0
        self.last_size[ctas] = columns

    def release(self, ctas: np.ndarray, base: int, columns: int) -> None:
        self.owner[ctas, base : base + columns] = FREED
        for cta in ctas.tolist():
            self.origin.pop((cta, base), None)
        self.good.clear()

    # Accesses -------------------------------------------------------------------------------------

    def check(
        self,
        step: Step,
        ctas: np.ndarray,
        lanes: tuple[int, ...],
        column: int,
        columns: int,
        what: str,
        read: bool,
        write: bool,
    ) -> None:
        """Bounds and allocation of a rectangle in some blocks; `read` cells must be written.

        Skip where the access cannot be made at all; marks the cells as written for `write`.
        """
        if column + columns > COLUMNS or max(lanes) >= LANES:
            raise Skip(
                step,
                Kind.OUT_OF_BOUNDS,
                f"{what} covers lanes to {max(lanes)}, columns {column} to {column + columns - 1}; "
                f"tensor memory has {LANES} lanes of {COLUMNS} columns",
            )
        key = (ctas.tobytes(), lanes, column, columns, read, write)
        if key in self.good:
            return
        span = slice(column, column + columns)
        owner = self.owner[ctas, span]
        first = owner[:, :1]
        if not ((owner == first).all() and (first > 0).all()):
            self._lost(step, owner, column, columns, what)
            return
        mask = lane_masks(lanes)
        have = self.written[ctas, span] & mask
        full = bool((have == mask).all())
        if read and not full:
            missing = np.argwhere((have != mask).any(axis=(0, 2)))[0, 0]
            step.fault(
                Kind.UNINITIALIZED,
                f"{what} reads column {column + int(missing)} of tensor memory "
                "in lanes that nobody has written",
            )
        if write and not full:
            self.written[ctas, span] |= mask
        if full or write:
            self.good.add(key)

    def _lost(self, step: Step, owner: np.ndarray, column: int, columns: int, what: str) -> None:
        where = f"{what} covers columns {column} to {column + columns - 1}"
        if (owner == FREED).any():
            step.fault(Kind.LIFETIME, f"{where}, which have been deallocated")
        elif (owner == 0).any():
            step.fault(Kind.OUT_OF_BOUNDS, f"{where}, which are not all allocated")
        else:
            step.fault(Kind.OUT_OF_BOUNDS, f"{where}: they belong to several allocations")

    def load(self, ctas: np.ndarray, lanes: np.ndarray, column: int, columns: int) -> np.ndarray:
        """uint32 (blocks, lanes, columns)."""
        assert self.cells is not None
        return self.cells[ctas[:, None], lanes[None], column : column + columns]

    def store(self, ctas: np.ndarray, lanes: np.ndarray, column: int, values: np.ndarray) -> None:
        """Write uint32 (blocks, lanes, columns)."""
        assert self.cells is not None
        self.cells[ctas[:, None], lanes[None], column : column + values.shape[-1]] = values


def tensor_memory(step: Step) -> TensorMemory:
    found = step.state.get("tensor memory")
    if found is None:
        found = step.state["tensor memory"] = TensorMemory(step.ctas, not step.tracing)
    return found


def rectangle(
    mode: Mode, lanes: tuple[int, ...], column: int, columns: int, cta: np.ndarray
) -> Footprint:
    """A footprint with a piece a lane. `cta` int32 (units, 1), or (units, k): in k blocks each."""
    starts = rows_of_cells(lanes, column)
    if cta.shape[1] > 1:
        starts = np.tile(starts, (1, cta.shape[1]))
        cta = np.repeat(cta, len(lanes), axis=1)
    return footprint(Space.TENSOR, mode, starts, columns, cta)
