"""TMA loads in im2col mode: pixels of a window that walks over a tensor N, spatial axes, C.

The coordinates name a position of the window's bounding box; the copy takes `rows` positions in
row-major order from there, wrapping at the box's edge into the next row and image, and at each of
them the pixel at `offsets` from it (PTX ISA, tensor im2col mode). Positions of the box run from its
lower corner to the tensor's extent plus the upper corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.interp.affine import dense
from xttir.interp.descriptors import Descriptor
from xttir.interp.memory import Pointer


@dataclass(eq=False, kw_only=True)
class Im2Col(Descriptor):
    """An im2col descriptor of a tensor N, spatial axes, C, in blocks of (pixels, channels).

    `lower`, `upper`: corners of the bounding box, one number a spatial axis. `steps`: element
    strides of the spatial axes.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


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
