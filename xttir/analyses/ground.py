"""Memory cut into atoms: the coarsest pieces that every footprint covers wholly or not at all.

A race check then costs a few atoms an access, however many bytes it touches. Cutting is exact
partition refinement, once for each distinct footprint (rings of buffers repeat theirs). Which lane
touches which byte is looked up only when the order of two events differs between lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True, eq=False)
class Print:
    """A distinct footprint. `starts`: int64 (rows, pieces) places in the ground, negative: none;
    `size` places each. `atoms`: int32, distinct."""

    starts: np.ndarray
    size: int
    atoms: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    doubled: int = -1
    """Whether two rows cover one granule: -1 not known yet."""
    uniform: bool = field(init=False)
    """Whether all rows cover the same places."""

    def __post_init__(self) -> None:
        self.uniform = bool((self.starts == self.starts[:1]).all())


class Ground:
    """One address space of some blocks: places [0, size), cut after all prints are known."""

    def __init__(self, unit: str):
        self.unit = unit
        self.period = 1 << 48
        """Places of one block, or of one member of a class, before those of the next."""
        self.prints: list[Print] = []
        self.granule = 1
        self.atom_of = np.zeros(0, np.int32)
        """By granule; 0: touched by nothing."""
        self.atoms = 1
        self.first = np.zeros(1, np.int64)
        """By atom: the first of its granules."""
        self.state = np.zeros(0, np.int32)
        """By atom, for the sweep."""
        self._known: dict[tuple[bytes, tuple[int, ...], int], Print] = {}
        self.places = np.zeros(0, np.int64)
        """Compressed grounds: sorted granule numbers that are in it."""

    def add(self, starts: np.ndarray, size: int) -> Print:
        key = (starts.tobytes(), starts.shape, size)
        print_ = self._known.get(key)
        if print_ is None:
            print_ = self._known[key] = Print(starts, size)
            self.prints.append(print_)
        return print_

    def cut(self, sparse: bool = False) -> None:
        """Find the atoms of the prints added so far."""
        common = 0
        top = 0
        for p in self.prints:
            valid = p.starts[p.starts >= 0] if (p.starts < 0).any() else p.starts
            if valid.size:
                common = math.gcd(common, p.size, int(np.gcd.reduce(valid, axis=None)))
                top = max(top, int(valid.max()) + p.size)
        self.granule = max(common, 1)
        if sparse:
            every = [self.numbers(p)[0] for p in self.prints]
            self.places = np.unique(np.concatenate(every)) if every else self.places
            count = len(self.places)
        else:
            count = -(-top // self.granule)
        self.atom_of = np.zeros(count, np.int32)
        for p in self.prints:
            self._refine(self.granules(p)[0])
        self._renumber()
        self.first = np.zeros(self.atoms, np.int64)
        self.first[self.atom_of[::-1]] = np.arange(count)[::-1]
        mark = np.zeros(self.atoms, bool)
        for p in self.prints:
            touched = self.atom_of[self.granules(p)[0]]
            mark[touched] = True
            p.atoms = np.flatnonzero(mark).astype(np.int32)
            mark[touched] = False
        self.state = np.zeros(self.atoms, np.int32)

    def _refine(self, granules: np.ndarray) -> None:
        old = self.atom_of[granules]
        mark = np.zeros(self.atoms, bool)
        mark[old] = True
        split = np.flatnonzero(mark)
        new = np.zeros(self.atoms, np.int32)
        new[split] = self.atoms + np.arange(len(split))
        self.atom_of[granules] = new[old]
        self.atoms += len(split)
        if self.atoms > 4096 and self.atoms > 2 * len(self.atom_of):
            self._renumber()

    def _renumber(self) -> None:
        mark = np.zeros(self.atoms, bool)
        mark[self.atom_of] = True
        mark[0] = True
        kept = np.flatnonzero(mark)
        new = np.zeros(self.atoms, np.int32)
        new[kept] = np.arange(len(kept))
        self.atom_of = new[self.atom_of]
        self.atoms = len(kept)

    def numbers(self, p: Print) -> tuple[np.ndarray, np.ndarray]:
        """(granule numbers, rows) of all the granules a print covers, flat."""
        steps = np.arange(p.size // self.granule)
        first = p.starts // self.granule
        spread = (first[..., None] + steps).reshape(-1)
        rows = np.repeat(np.arange(p.starts.shape[0]), p.starts.shape[1] * len(steps))
        if (p.starts < 0).any():
            kept = np.repeat((p.starts >= 0).reshape(-1), len(steps))
            return spread[kept], rows[kept]
        return spread, rows

    def granules(self, p: Print) -> tuple[np.ndarray, np.ndarray]:
        """Like `numbers`, as indices into `atom_of`."""
        spread, rows = self.numbers(p)
        if len(self.places):
            return np.searchsorted(self.places, spread), rows
        return spread, rows

    def within(self, p: Print, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The granules of a print that lie in `atoms`, and their rows."""
        spread, rows = self.granules(p)
        mark = np.zeros(self.atoms, bool)
        mark[atoms] = True
        kept = mark[self.atom_of[spread]]
        return spread[kept], rows[kept]

    def examples(
        self, gx: np.ndarray, rx: np.ndarray, gy: np.ndarray, ry: np.ndarray
    ) -> np.ndarray:
        """Of granules that are covered by rows of two prints, one for each atom and sets of rows.
        Granules (`gx`, `gy`: the same ones in both) and their rows, flat."""
        x, y = _kinds(gx, rx), _kinds(gy, ry)
        granules = np.unique(gx)
        _, first = np.unique([self.atom_of[granules], x, y], axis=1, return_index=True)
        return granules[first]

    def place(self, granule: int) -> int:
        """First address (place) of a granule index."""
        number = int(self.places[granule]) if len(self.places) else granule
        return number * self.granule

    def twice(self, p: Print) -> np.ndarray:
        """Granules that two rows of a print cover."""
        if p.doubled == 0:
            return np.zeros(0, np.int64)
        spread, rows = self.granules(p)
        if p.starts.shape[0] < 2:
            p.doubled = 0
            return spread[:0]
        order = np.argsort(spread, kind="stable")
        s, r = spread[order], rows[order]
        double = np.unique(s[1:][(s[1:] == s[:-1]) & (r[1:] != r[:-1])])
        p.doubled = int(len(double) > 0)
        return double


def _kinds(granules: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """By distinct granule, in order: a number for the set of rows that cover it."""
    order = np.lexsort((rows, granules))
    granules, rows = granules[order], rows[order]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (granules[1:] != granules[:-1]) | (rows[1:] != rows[:-1])
    granules, rows = granules[fresh], rows[fresh]
    _, first, counts = np.unique(granules, return_index=True, return_counts=True)
    kinds, known = np.zeros(len(first), np.int64), 0
    for count in np.unique(counts).tolist():
        some = counts == count
        table = rows[first[some][:, None] + np.arange(count)]
        _, kind = np.unique(table, axis=0, return_inverse=True)
        kinds[some] = known + kind.reshape(-1)
        known += int(kind.max()) + 1
    return kinds
