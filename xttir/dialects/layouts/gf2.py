"""Linear algebra over GF(2) on columns that are Python integers, bit i of one being its row i.

What linear layouts need: which columns are independent, how a column is a sum of others, and all
sums of a few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Elimination:
    """Columns over GF(2) reduced in their order.

    `pivots` maps the highest bit of each reduced column to the column and the set (as a mask) of
    the given columns that it is the sum of; `dependent` are the columns that earlier ones give.
    """

    pivots: dict[int, tuple[int, int]]
    dependent: frozenset[int]

    @staticmethod
    def of(columns: Sequence[int]) -> Elimination:
        pivots: dict[int, tuple[int, int]] = {}
        dependent: set[int] = set()
        for i, column in enumerate(columns):
            rest, used = _reduce(pivots, column)
            if rest:
                pivots[rest.bit_length()] = (rest, used ^ (1 << i))
            else:
                dependent.add(i)
        return Elimination(pivots, frozenset(dependent))

    def solve(self, column: int) -> int | None:
        """The mask of independent columns whose sum is `column`, or None."""
        rest, used = _reduce(self.pivots, column)
        return None if rest else used


def _reduce(pivots: Mapping[int, tuple[int, int]], column: int) -> tuple[int, int]:
    used = 0
    rest = 0
    while column:
        top = column.bit_length()
        pivot = pivots.get(top)
        if pivot is None:
            rest |= 1 << (top - 1)
            column ^= 1 << (top - 1)
        else:
            column ^= pivot[0]
            used ^= pivot[1]
    return rest, used


def combine(columns: Sequence[int], mask: int) -> int:
    """The xor of the columns whose bits `mask` has."""
    result = 0
    while mask:
        low = mask & -mask
        result ^= columns[low.bit_length() - 1]
        mask ^= low
    return result


def span(columns: Sequence[int]) -> NDArray[np.int64]:
    """int64[2**len(columns)]: at each mask the xor of the columns it has."""
    values = np.zeros(1, dtype=np.int64)
    for column in columns:
        values = np.concatenate((values, values ^ column))
    return values
