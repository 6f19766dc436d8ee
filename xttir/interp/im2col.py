"""TMA loads in im2col mode: pixels of a window that walks over a tensor N, spatial axes, C.

The coordinates name a position of the window's bounding box; the copy takes `rows` positions in
row-major order from there, wrapping at the box's edge into the next row and image, and at each of
them the pixel at `offsets` from it (PTX ISA, tensor im2col mode). Positions of the box run from its
lower corner to the tensor's extent plus the upper corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xttir.interp.affine import dense
from xttir.interp.batch import merge, take
from xttir.interp.memory import Pointer


class Im2Col:
    """An im2col descriptor. `shape`, `strides` (elements): int64[b] an axis, N, spatial, C.
    `lower`, `upper`: corners of the bounding box, one number a spatial axis. `steps`: element
    strides of the spatial axes. `block`: (pixels, channels)."""

    __slots__ = ("base", "block", "dtype", "lower", "nan", "shape", "steps", "strides", "upper")

    def __init__(
        self,
        base: Pointer,
        shape: Sequence[np.ndarray],
        strides: Sequence[np.ndarray],
        lower: Sequence[int],
        upper: Sequence[int],
        steps: Sequence[int],
        block: tuple[int, ...],
        dtype: np.dtype,
        nan: bool,
    ):
        self.base = base
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.lower = tuple(lower)
        self.upper = tuple(upper)
        self.steps = tuple(steps)
        self.block = block
        self.dtype = dtype
        self.nan = nan

    def take(self, programs: np.ndarray) -> Im2Col:
        """The descriptor for some programs of the batch."""
        return self._with(lambda value: take(value, programs))

    def merge(self, parts: Sequence[tuple[np.ndarray, Im2Col]], batch: int) -> Im2Col:
        """One descriptor for a whole batch."""
        rank = range(len(self.shape))
        merged = self._with(lambda value: value)
        merged.base = merge([(at, d.base) for at, d in parts], batch)
        merged.shape = tuple(merge([(at, d.shape[k]) for at, d in parts], batch) for k in rank)
        merged.strides = tuple(merge([(at, d.strides[k]) for at, d in parts], batch) for k in rank)
        return merged

    def _with(self, change: Any) -> Im2Col:
        return Im2Col(
            change(self.base),
            [change(a) for a in self.shape],
            [change(a) for a in self.strides],
            self.lower,
            self.upper,
            self.steps,
            self.block,
            self.dtype,
            self.nan,
        )

    @property
    def fill(self) -> np.ndarray | None:
        """What loads give outside the tensor, (1, 1, 1); None for zero."""
        return np.full((1, 1, 1), np.nan, np.float32).astype(self.dtype) if self.nan else None


def pixels(
    d: Im2Col, coordinates: Sequence[Any], offsets: Sequence[Any]
) -> tuple[Pointer, np.ndarray]:
    """Pointers (b, pixels, channels) of a block, and where they are inside the tensor.

    `coordinates`: image, spatial axes, channel. `offsets`: of the filter, one a spatial axis, the
    innermost first.
    """
    count, channels = d.block
    numbers = [dense(c).reshape(-1, 1).astype(np.int64) for c in coordinates]
    shape = [a.reshape(-1, 1) for a in d.shape]
    strides = [a.reshape(-1, 1) for a in d.strides]
    spatial = len(d.lower)
    low = d.lower
    extents = [
        (shape[1 + k] + d.upper[k] - low[k] + d.steps[k] - 1) // d.steps[k] for k in range(spatial)
    ]
    # The position of the first pixel, counted along the box in row-major order.
    first = np.zeros((1, 1), np.int64)
    for k in range(spatial):
        first = first * extents[k] + (numbers[1 + k] - low[k]) // d.steps[k]
    position = first + np.arange(count, dtype=np.int64)[None, :]
    where: list[np.ndarray] = [np.zeros((1, 1), np.int64)] * spatial
    for k in reversed(range(spatial)):
        where[k] = position % extents[k] * d.steps[k] + low[k]
        position = position // extents[k]
    image = numbers[0] + position
    moved = [dense(o).reshape(-1, 1).astype(np.int64) & 0xFFFF for o in offsets]
    where = [w + o for w, o in zip(where, moved, strict=True)]
    inside = (image >= 0) & (image < shape[0])
    at = image * strides[0]
    for k in range(spatial):
        inside = inside & (where[k] >= 0) & (where[k] < shape[1 + k])
        at = at + where[k] * strides[1 + k]
    channel = numbers[-1] + np.arange(channels, dtype=np.int64)[None, :]
    mask = inside[:, :, None] & ((channel >= 0) & (channel < shape[-1]))[:, None, :]
    at = at[:, :, None] + (channel * strides[-1])[:, None, :]
    base = d.base.dense_offset().reshape(-1, 1, 1)
    return Pointer(d.base.region, base + at * d.dtype.itemsize), mask
