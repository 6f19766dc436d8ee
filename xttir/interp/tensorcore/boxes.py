"""Boxes of tensor maps: which bytes of shared memory belong to which bytes of the tensor.

A box is rows of contiguous bytes: row r lies in shared memory `pitch` bytes after row r - 1 (rows
narrower than the swizzle's span are padded to it), and is swizzled by absolute address. In global
memory its elements from `first` to `last` lie inside the tensor; the others are fill. PTX ISA 9.1,
sections 5.5.3 to 5.5.5; padding, alignment and whole-box counting as seen on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from xttir.interp.tensorcore.pieces import Pieces, join
from xttir.interp.tensorcore.swizzle import MODES, PERIOD, swizzle
from xttir.interp.tensorcore.tensor_maps import TensorMap

ROWS = 4
"""Rows of a gather4 or scatter4."""


@dataclass(frozen=True, eq=False)
class Box:
    """The boxes of some copies. Rows are those of shared memory, in order."""

    row_bytes: int
    starts: np.ndarray
    """int64 (copies, rows): global address of the first byte of the row that is in bounds, -1 where
    none is."""
    skipped: np.ndarray
    """int64 (copies,): bytes at the front of every row that are out of bounds."""
    valid: np.ndarray
    """int64 (copies,): bytes of every row that are in bounds."""

    @property
    def rows(self) -> int:
        return self.starts.shape[1]


def counted_bytes(m: TensorMap, mode: str = "tile") -> int:
    """Bytes that one load announces to its barrier: the whole box, in bounds or not."""
    rows, row_bytes = _extent(m, mode)
    return rows * row_bytes


def _extent(m: TensorMap, mode: str) -> tuple[int, int]:
    """(rows, bytes of a row) of a box."""
    if m.mode != "tile":
        return m.pixels, m.channels * m.bits // 8
    inner = m.box[0] * m.bits // 8
    if mode in ("gather4", "scatter4"):
        return ROWS, inner
    # The innermost element stride is not used; the others thin the box out.
    return prod(-(-b // s) for b, s in zip(m.box[1:], m.element_strides[1:], strict=True)), inner


def unaligned(m: TensorMap, coordinates: np.ndarray) -> np.ndarray:
    """bool (copies,): the innermost coordinate is not at a multiple of 16 bytes (a trap)."""
    return coordinates[:, 0] * m.bits % 128 != 0


def box(
    m: TensorMap, coordinates: np.ndarray, mode: str = "tile", offsets: np.ndarray | None = None
) -> Box:
    """The boxes at `coordinates`, int64 (copies, rank) (gather4 and scatter4: column, four rows).

    im2col: `offsets` int64 (copies, spatial dimensions), innermost first.
    """
    rows, row_bytes = _extent(m, mode)
    element = m.bits / 8
    lead = coordinates[:, 0]
    first = np.maximum(lead, 0)
    last = np.minimum(lead + int(row_bytes * 8 // m.bits), m.dims[0])
    skipped = np.minimum((first - lead) * element, row_bytes).astype(np.int64)
    valid = (np.maximum(last - first, 0) * element).astype(np.int64)
    if mode in ("gather4", "scatter4"):
        outer = [coordinates[:, 1:]]
    elif m.mode != "tile":
        outer = _pixels(m, coordinates, offsets)
    else:
        outer = []
        extents = [-(-b // s) for b, s in zip(m.box[1:], m.element_strides[1:], strict=True)]
        number = np.arange(rows)
        for axis, extent in enumerate(extents, 1):
            step = number % extent * m.element_strides[axis]
            outer.append(coordinates[:, axis, None] + step)
            number = number // extent
    address = np.broadcast_to(
        (m.address + first * element).astype(np.int64)[:, None], (len(lead), rows)
    )
    inside = np.broadcast_to((valid > 0)[:, None], address.shape)
    for index, size, stride in zip(outer, m.dims[1:], m.strides, strict=True):
        address = address + index * stride
        inside = inside & (index >= 0) & (index < size)
    return Box(row_bytes, np.where(inside, address, -1), skipped, valid)


def _pixels(m: TensorMap, coordinates: np.ndarray, offsets: np.ndarray | None) -> list[np.ndarray]:
    """Indices (copies, pixels) of the outer dimensions for im2col.

    From the start on, pixels follow each other inside the bounding box, by the element strides,
    the innermost spatial dimension first, then the images. The offsets shift each pixel.
    """
    spatial = m.rank - 2
    number = np.arange(m.pixels)[None]
    linear = np.zeros((len(coordinates), 1), np.int64)
    scale = 1
    extents = []
    for axis in range(spatial):
        stride = m.element_strides[axis + 1]
        span = m.dims[axis + 1] + m.upper[axis] - m.lower[axis]
        extents.append(max(1, -(-span // stride)))
        place = (coordinates[:, axis + 1, None] - m.lower[axis]) // stride
        linear = linear + place * scale
        scale *= extents[-1]
    linear = linear + coordinates[:, -1, None] * scale + number
    out = []
    for axis in range(spatial):
        index = linear % extents[axis] * m.element_strides[axis + 1] + m.lower[axis]
        if offsets is not None:
            index = index + offsets[:, axis, None]
        out.append(index)
        linear = linear // extents[axis]
    return [*out, linear]


# Shared memory ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    rows: int
    row_bytes: int
    swizzle: str


def shape(m: TensorMap, mode: str = "tile") -> _Shape:
    """What decides where the bytes of a box lie in shared memory."""
    rows, row_bytes = _extent(m, mode)
    return _Shape(rows, row_bytes, m.swizzle)


@lru_cache(256)
def _pattern(s: _Shape, phase: int) -> np.ndarray:
    """int64 (rows, cells): where each cell of `cell_bytes` goes, from an address of that phase."""
    pitch = max(s.row_bytes, MODES[s.swizzle].span)
    size = cell_bytes(s)
    row = np.arange(s.rows, dtype=np.int64)[:, None]
    cell = np.arange(0, s.row_bytes, size, dtype=np.int64)[None]
    out = swizzle(phase + row * pitch + cell, s.swizzle) - phase
    out.setflags(write=False)
    return out


@lru_cache(256)
def _pieces(s: _Shape, phase: int) -> Pieces:
    starts, size = join(_pattern(s, phase), cell_bytes(s))
    starts.setflags(write=False)
    return starts, size


def cell_bytes(s: _Shape) -> int:
    """Bytes that a swizzle keeps together."""
    return 8 if MODES[s.swizzle].flip else 16


def cells(s: _Shape, start: int) -> np.ndarray:
    """int64 (rows, cells): shared addresses of the cells of a box that begins at `start`."""
    phase = start % PERIOD
    return _pattern(s, phase) + start


def covered(s: _Shape, start: int) -> Pieces:
    """The bytes of shared memory that a box at `start` has (padding is not touched)."""
    starts, size = _pieces(s, start % PERIOD)
    return starts + start, size
