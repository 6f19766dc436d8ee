"""Sets of equally long pieces of memory, as footprints hold them: few and long ones.

What an instruction touches is known as short pieces of one length (16 bytes, say). Neighbours are
joined, then cut to the greatest common length, so that a full tile is one piece and a slice of a
swizzled tile one piece a row.
"""

from __future__ import annotations

from math import gcd

import numpy as np

Pieces = tuple[np.ndarray, int]
"""(int64 starts, in ascending order; length of each)."""


def join(starts: np.ndarray, size: int) -> Pieces:
    """The set of the pieces [start, start + size), all of which lie apart or are equal."""
    starts = np.unique(starts.reshape(-1))
    if starts.size == 0:
        return starts.astype(np.int64), size
    first = np.flatnonzero(np.diff(starts, prepend=starts[0] - size - 1) != size)
    counts = np.diff(first, append=starts.size)
    together = int(np.gcd.reduce(counts))
    if together == 1:
        return starts, size
    place = np.arange(starts.size) - np.repeat(first, counts)  # in its run
    return starts[place % together == 0], size * together


def stack(parts: list[Pieces], index: np.ndarray) -> Pieces:
    """Rows `parts[index[i]]` as (int64 (rows, pieces), length); short rows end in -1.

    Rows have one length, so longer pieces are cut to the greatest common one.
    """
    if len(parts) == 1:
        starts, size = parts[0]
        return starts[None], size
    size = gcd(*(s for _, s in parts))
    cut = [
        (starts[:, None] + np.arange(0, own, size)).reshape(-1) if own != size else starts
        for starts, own in parts
    ]
    width = max(len(c) for c in cut)
    table = np.full((len(cut), width), -1, np.int64)
    for row, c in enumerate(cut):
        table[row, : len(c)] = c
    return table[index], size
