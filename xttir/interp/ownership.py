"""Race freedom without a shadow: every program keeps to an interval of its own.

Most kernels give each program a contiguous stretch of every tensor they write. As long as the
hulls of what programs touch stay disjoint, no two programs can conflict, and all that need be
kept is an interval per program. The first access that breaks the pattern hands over to an exact
shadow (`interp.shadow`), which replays the accesses logged so far. The answer is the same; the cost
of the common case drops from a pass over memory to arithmetic on one number per program.
"""

from __future__ import annotations

import numpy as np

from xttir.interp.access import Flat, Piece, Strided
from xttir.interp.affine import reach
from xttir.interp.shadow import Report, Shadow

_MAX_RECORDS = 20_000
_MAX_FLAT = 1 << 20
_EMPTY = np.iinfo(np.int64).max


class Ownership:
    """Intervals of one storage, by program, and the log to replay.

    Accesses name the batch they belong to by a number; `all_pids` are the programs of that batch.
    """

    def __init__(self) -> None:
        self._records: list[tuple[str, Piece, np.ndarray, int]] = []
        self._flat = 0
        self._lows: dict[int, np.ndarray] = {}
        self._highs: dict[int, np.ndarray] = {}
        self._first = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._row: dict[int, int] = {}
        self._rows = 0
        self._top_before = 0

    def admit(
        self,
        verb: str,
        piece: Piece,
        pids: np.ndarray,
        site: int,
        batch: int,
        all_pids: np.ndarray,
    ) -> bool:
        """Record an access; False if two programs might now touch the same bytes (the access is
        then not recorded)."""
        if len(self._records) >= _MAX_RECORDS:
            return False
        hull = _hulls(piece, pids)
        if hull is None:
            return False
        chosen, low, high = hull
        if type(piece) is Flat:
            self._flat += piece.size
            if self._flat > _MAX_FLAT:
                return False
        lows = self._lows.get(batch)
        if lows is None:
            lows = np.full(all_pids.size, _EMPTY, np.int64)
            highs = np.full(all_pids.size, -1, np.int64)
        else:
            highs = self._highs[batch]
        if chosen.size == all_pids.size:
            new_lows, new_highs = np.minimum(lows, low), np.maximum(highs, high)
        else:
            at = _positions(all_pids, chosen)
            new_lows, new_highs = lows.copy(), highs.copy()
            new_lows[at] = np.minimum(lows[at], low)
            new_highs[at] = np.maximum(highs[at], high)
        if not _disjoint(new_lows, new_highs):
            return False
        first, last = int(new_lows.min()), int(new_highs.max())
        row = self._row.get(batch, self._rows)
        if self._meets_other(row, first, last):
            return False
        if row == self._rows:
            self._row[batch] = row
            self._grow()
        self._first[row], self._last[row] = first, last
        self._lows[batch], self._highs[batch] = new_lows, new_highs
        self._records.append((verb, piece, pids, site))
        return True

    def _meets_other(self, row: int, first: int, last: int) -> bool:
        """Whether [first, last) meets the hull of a batch other than that of `row`."""
        if row >= self._rows - 1:
            # The newest batch (or a new one): mostly it lies beyond all before.
            before = self._top_before if row == self._rows - 1 else self._top()
            if first >= before:
                return False
        count = self._rows
        clash = (self._first[:count] < last) & (self._last[:count] > first)
        if row < count:
            clash[row] = False
        return bool(clash.any())

    def _top(self) -> int:
        """The end of the last byte any batch has touched."""
        if not self._rows:
            return 0
        return max(self._top_before, int(self._last[self._rows - 1]))

    def _grow(self) -> None:
        self._top_before = self._top()
        if self._rows == self._first.size:
            room = np.zeros(max(16, self._rows), np.int64)
            self._first = np.concatenate((self._first, room))
            self._last = np.concatenate((self._last, room))
        self._rows += 1

    def replay(self, shadow: Shadow, report: Report) -> None:
        """Tell `shadow` what was admitted so far."""
        for verb, piece, pids, site in self._records:
            getattr(shadow, verb)(piece, pids, site, report)
        self._records.clear()


def _positions(all_pids: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Where the programs `chosen` are in `all_pids` (in any order)."""
    order = np.argsort(all_pids, kind="stable")
    return order[np.searchsorted(all_pids, chosen, sorter=order)]


def _disjoint(lows: np.ndarray, highs: np.ndarray) -> bool:
    """Whether the non-empty intervals [lows, highs) do not meet."""
    if lows.size == 1:
        return True
    if (highs[:-1] <= lows[1:]).all() and highs[-1] >= 0:
        return True
    used = highs >= 0
    lows, highs = lows[used], highs[used]
    order = np.argsort(lows, kind="stable")
    return bool((highs[order][:-1] <= lows[order][1:]).all())


def _hulls(piece: Piece, pids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Programs of `piece` and the byte interval each touches; None where that is not cheap."""
    if type(piece) is Strided:
        low, high = reach(piece.strides, piece.shape)
        chosen = pids if piece.programs is None or pids.size == 1 else pids[piece.programs]
        if chosen.size != piece.base.size:
            return None
        return chosen, piece.base + low, piece.base + (high + piece.itemsize)
    assert isinstance(piece, Flat)
    counts = piece.active.reshape(piece.active.shape[0], -1).sum(axis=1)
    if counts.size != pids.size:
        return None
    some = counts > 0
    starts = np.concatenate(([0], np.cumsum(counts[some])[:-1]))
    low = np.minimum.reduceat(piece.at, starts)
    high = np.maximum.reduceat(piece.at, starts) + piece.itemsize
    return pids[some], low, high


class Intervals:
    """Byte ranges that a launch has written densely, and that `Storage.valid` need not hold yet."""

    def __init__(self) -> None:
        self.ranges: list[list[int]] = []

    def add(self, piece: Piece) -> bool:
        """Note what `piece` writes, if it is a few dense ranges. False if it is not."""
        if type(piece) is not Strided:
            return False
        reach = piece.itemsize
        for stride, extent in sorted(
            (s, n) for s, n in zip(piece.strides, piece.shape, strict=True) if n > 1
        ):
            if stride != reach:
                return False
            reach *= extent
        base = piece.base
        if base.size > 1:
            step = base[1:] - base[:-1]
            if (step == reach).all():
                return self._extend(int(base[0]), int(base[-1]) + reach)
            if base.size > _MAX_DENSE:
                return False
        for low in base.tolist():
            self._extend(low, low + reach)
        return True

    def _extend(self, low: int, high: int) -> bool:
        if self.ranges and low <= self.ranges[-1][1] and low >= self.ranges[-1][0]:
            self.ranges[-1][1] = max(self.ranges[-1][1], high)
        else:
            self.ranges.append([low, high])
        return True

    def covers(self, size: int) -> bool:
        """Whether the ranges together are bytes [0, size)."""
        end = 0
        for low, high in sorted(self.ranges):
            if low > end:
                return False
            end = max(end, high)
        return end >= size

    def settle(self, valid: np.ndarray) -> np.ndarray | None:
        """`valid` with the ranges in it; None if everything is valid now."""
        if self.covers(valid.size):
            return None
        for low, high in self.ranges:
            valid[low:high] = True
        self.ranges.clear()
        return valid


_MAX_DENSE = 64
