"""Where matrices lie in tensor memory: 128 lanes of 512 columns of 32 bits a block.

An address is `lane << 16 | column`; as a cell it is `lane * 512 + column`. An accumulator covers a
rectangle: all lanes or 16 of every 32, and N, N / 2 or N / 4 columns. PTX ISA 9.1, section
9.7.16.10.5 (layouts A to G), scale factors as CUTLASS lays them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

LANES = 128
COLUMNS = 512


@dataclass(frozen=True)
class Layout:
    """Accumulator layout `name`. The tile's columns are cut into `split` parts, one under another.

    `rows` rows of a block lie in `rows` lanes of every part, from lane `rows * part` on; with
    `spread`, in the lower (or by the address the upper) 16 lanes of each of the four windows.
    """

    name: str
    rows: int
    split: int
    blocks: int
    spread: bool = False

    def lanes(self, offset: int = 0) -> np.ndarray:
        """int64 (split, rows): the lane of every row of a block, for a lane field `offset`."""
        rows = np.arange(self.rows)
        if self.spread:
            return (rows % 16 + 32 * (rows // 16) + offset)[None]
        return rows[None] + self.rows * np.arange(self.split)[:, None] + offset

    def columns(self, n: int) -> int:
        return n // self.split


LAYOUTS = {
    "A": Layout("A", 128, 1, 2),
    "B": Layout("B", 64, 2, 2),
    "C": Layout("C", 64, 1, 2, spread=True),
    "D": Layout("D", 128, 1, 1),
    "E": Layout("E", 64, 2, 1),
    "F": Layout("F", 64, 1, 1, spread=True),
    "G": Layout("G", 32, 4, 1),
}


def accumulator(m: int, cta_group: int, ws: bool, sparse: bool = False) -> Layout:
    """The layout of an M x N accumulator."""
    if cta_group == 2:
        return LAYOUTS["A" if m == 256 else "C" if sparse else "B"]
    if ws:
        return LAYOUTS[{32: "G", 64: "E", 128: "D"}[m]]
    return LAYOUTS["D" if m == 128 else "F"]


def cell(address: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lane, column) of tensor memory addresses."""
    return address >> 16 & 0xFFFF, address & 0xFFFF


@cache
def rows_of_cells(lanes: tuple[int, ...], column: int) -> np.ndarray:
    """int64 (1, lanes): cells at which rows of columns begin. Read-only."""
    out = (np.array(lanes, np.int64) * COLUMNS + column)[None]
    out.setflags(write=False)
    return out


def scale_columns(rows: int) -> int:
    """Columns that the scale factors of `rows` rows of A or B take: 32 rows each."""
    return -(-rows // 32)


def scale_words(block: np.ndarray, rows: int) -> np.ndarray:
    """uint8 (.., rows, 4): bytes of the scale factors of each row, from uint32 (.., 32, columns).

    Row r is at lane r % 32 (the four windows hold copies), column r / 32.
    """
    words = np.ascontiguousarray(block.swapaxes(-1, -2)).reshape(*block.shape[:-2], -1)
    return (
        np.ascontiguousarray(words[..., :rows]).view(np.uint8).reshape(*words.shape[:-1], rows, 4)
    )


COPIES = {
    "128x256b": (128, 8),
    "4x256b": (4, 8),
    "128x128b": (128, 4),
    "64x128b": (64, 4),
    "32x128b": (32, 4),
}
"""tcgen05.cp: rows that are read, and columns that are written."""


@cache
def copy_lanes(shape: str, multicast: str) -> np.ndarray:
    """int64 (copies, rows): the lanes that row r of the source is written to."""
    rows, _ = COPIES[shape]
    r = np.arange(rows)
    if shape == "32x128b":
        return r[None] + 32 * np.arange(4)[:, None]
    if shape == "64x128b":
        if multicast == "02_13":  # first 32 rows to windows 0 and 2, the others to 1 and 3
            return r[None] + np.array([[0], [64]])
        low = r % 32 + 64 * (r // 32)  # 01_23: first 32 rows to windows 0 and 1
        return np.stack([low, low + 32])
    if shape == "4x256b":
        return (32 * r)[None]
    return r[None]
