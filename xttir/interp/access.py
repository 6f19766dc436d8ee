"""What bytes one load or store touches: bounds checked, lanes outside dropped.

An access is resolved into pieces. A `Strided` piece is a box of lanes of some programs whose
offsets are affine: it reads and writes through strided views, whatever its size. A `Flat` piece is
a list of byte offsets. Both work on any array that is indexed like the storage's bytes: data,
validity and (scaled) race shadows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xttir.interp.affine import Box, Index, as_box, dense, reach
from xttir.interp.launch import Storage
from xttir.interp.memory import Memory, Pointer, Region


class Strided:
    """Lanes lo[k] <= i_k < lo[k] + shape[k] of some programs, at affine byte offsets.

    `base`: int64[n] byte offset in the storage of the first lane of each program.
    `strides`: bytes per lane axis. `programs`: positions in the batch, None for all of it.
    """

    __slots__ = ("_step", "base", "itemsize", "lo", "programs", "shape", "strides")

    def __init__(
        self,
        base: np.ndarray,
        strides: tuple[int, ...],
        shape: tuple[int, ...],
        itemsize: int,
        programs: np.ndarray | None,
        lo: tuple[int, ...],
        step: int | None = -1,
    ):
        self.base = base
        self.strides = strides
        self.shape = shape
        self.itemsize = itemsize
        self.programs = programs
        self.lo = lo
        self._step = _common_step(base) if step == -1 else step

    @property
    def size(self) -> int:
        n = self.base.size
        for extent in self.shape:
            n *= extent
        return n

    def read(self, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The elements, (n, *shape): a view of `data` (uint8[...]) if programs are evenly spaced,
        else a copy."""
        if self._step is not None:
            return self._view(data, dtype)
        windows, where = self._windows(data, dtype)
        return windows[where]

    def write(self, data: np.ndarray, dtype: np.dtype, values: np.ndarray | int) -> None:
        """Store `values`, broadcast to (n, *shape); of programs that collide the last one wins."""
        if self._step is not None:
            self._view(data, dtype)[...] = values
            return
        windows, where = self._windows(data, dtype)
        windows[where] = values

    def write_where(
        self, data: np.ndarray, dtype: np.dtype, values: np.ndarray, where: np.ndarray
    ) -> None:
        """Store `values` in the lanes where `where` holds."""
        if self._step is not None:
            np.copyto(self._view(data, dtype), values, where=where)
            return
        at = self.offsets()[where] // self.itemsize
        _elements(data, dtype)[at] = np.broadcast_to(values, where.shape)[where]

    def _view(self, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return np.ndarray(
            (self.base.size, *self.shape),
            dtype,
            buffer=data,
            offset=int(self.base[0]),
            strides=(self._step or 0, *self.strides),
        )

    def _windows(self, data: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """The box at every element offset from the first program's to the last one's, and which of
        these windows each program takes."""
        first = int(self.base.min())
        where = (self.base - first) // self.itemsize
        windows = np.ndarray(
            (int(where.max()) + 1, *self.shape),
            dtype,
            buffer=data,
            offset=first,
            strides=(self.itemsize, *self.strides),
        )
        return windows, where

    def moved(self, by: int) -> Strided:
        """The same lanes, `by` bytes further on."""
        return Strided(
            self.base + by,
            self.strides,
            self.shape,
            self.itemsize,
            self.programs,
            self.lo,
            self._step,
        )

    def scaled(self, numerator: int, denominator: int) -> Strided:
        """The same elements in an array with `numerator` bytes for every `denominator` here."""
        step = self._step
        return Strided(
            self.base * numerator // denominator,
            tuple(s * numerator // denominator for s in self.strides),
            self.shape,
            numerator,
            self.programs,
            self.lo,
            step if step is None else step * numerator // denominator,
        )

    def first(self) -> Strided:
        """The first program's part, for accesses that are the same for all programs."""
        return Strided(self.base[:1], self.strides, self.shape, self.itemsize, None, self.lo, 0)

    def lanes_injective(self) -> bool:
        """Whether two lanes of one program are never at the same bytes (False: perhaps)."""
        return _injective(list(zip(self.strides, self.shape, strict=True)), self.itemsize)

    def injective(self) -> bool:
        """Whether no two (program, lane) pairs are at the same bytes (False: perhaps)."""
        if self._step is None:
            return False
        axes = [(self._step, self.base.size), *zip(self.strides, self.shape, strict=True)]
        return _injective(axes, self.itemsize)

    def spread(self, per_program: np.ndarray) -> np.ndarray:
        """A number per program of the batch, shaped to broadcast against the elements."""
        if self.programs is not None and per_program.size > 1:
            per_program = per_program[self.programs]
        return per_program.reshape((-1,) + (1,) * len(self.shape))

    def offsets(self) -> np.ndarray:
        """int64 (n, *shape): byte offset in the storage of every element."""
        value = self.base.reshape((-1,) + (1,) * len(self.shape))
        for axis, (stride, extent) in enumerate(zip(self.strides, self.shape, strict=True)):
            form = (1,) * (axis + 1) + (-1,) + (1,) * (len(self.shape) - axis - 1)
            value = value + (np.arange(extent, dtype=np.int64) * stride).reshape(form)
        return np.broadcast_to(value, (self.base.size, *self.shape))

    def pick(self, values: np.ndarray) -> np.ndarray:
        """This piece's part of a value (b, *s) of the whole access."""
        if self.programs is not None and values.shape[0] > 1:
            values = values[self.programs]
        cut = [slice(None)]
        for axis, (low, extent) in enumerate(zip(self.lo, self.shape, strict=True)):
            whole = values.shape[axis + 1] == 1
            cut.append(slice(None) if whole else slice(low, low + extent))
        return values[tuple(cut)]

    def place(self, out: np.ndarray, values: np.ndarray) -> None:
        """Write this piece's elements into the result (b, *S) of the whole access."""
        cut = tuple(slice(low, low + n) for low, n in zip(self.lo, self.shape, strict=True))
        if self.programs is None:
            out[(slice(None), *cut)] = values
        elif all(n == m for n, m in zip(self.shape, out.shape[1:], strict=True)):
            out[self.programs] = values
        else:
            part = out[self.programs]
            part[(slice(None), *cut)] = values
            out[self.programs] = part


class Flat:
    """Lanes given one by one: `at` int64[n] byte offsets in the storage; `active` bool (b, *S)
    says which lanes of the access they are, in order."""

    __slots__ = ("active", "at", "itemsize")

    def __init__(self, at: np.ndarray, active: np.ndarray, itemsize: int):
        self.at = at
        self.active = active
        self.itemsize = itemsize

    @property
    def size(self) -> int:
        return self.at.size

    def read(self, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The elements, [n]."""
        return _elements(data, dtype)[self.at // self.itemsize]

    def write(self, data: np.ndarray, dtype: np.dtype, values: np.ndarray | int) -> None:
        _elements(data, dtype)[self.at // self.itemsize] = values

    def write_where(
        self, data: np.ndarray, dtype: np.dtype, values: np.ndarray, where: np.ndarray
    ) -> None:
        at = self.at[where] // self.itemsize
        _elements(data, dtype)[at] = np.broadcast_to(values, where.shape)[where]

    def moved(self, by: int) -> Flat:
        return Flat(self.at + by, self.active, self.itemsize)

    def scaled(self, numerator: int, denominator: int) -> Flat:
        return Flat(self.at // denominator * numerator, self.active, numerator)

    def first(self) -> Flat:
        count = int(self.active[0].sum())
        return Flat(self.at[:count], self.active[:1], self.itemsize)

    def lanes_injective(self) -> bool:
        return False

    def injective(self) -> bool:
        return self.at.size < 2

    def spread(self, per_program: np.ndarray) -> np.ndarray:
        form = per_program.reshape((-1,) + (1,) * (self.active.ndim - 1))
        return np.broadcast_to(form, self.active.shape)[self.active]

    def offsets(self) -> np.ndarray:
        return self.at

    def pick(self, values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values, self.active.shape)[self.active]

    def place(self, out: np.ndarray, values: np.ndarray) -> None:
        out[self.active] = values


Piece = Strided | Flat


@dataclass
class Access:
    """A resolved access: pieces by storage, and lanes that left their tensor.

    `bad`: for each region the active lanes out of bounds, as (region or None, mask (b, *S),
    offsets (b, *S), reason "bounds" | "null" | "unmapped" | "gap" | "misaligned").
    """

    pieces: list[tuple[Region, Piece]]
    bad: list[tuple[Region | None, np.ndarray, np.ndarray, str]]
    batch: int


def resolve(
    memory: Memory,
    pointer: Pointer,
    mask: Box | np.ndarray | None,
    shape: tuple[int, ...],
    itemsize: int,
    batch: int,
    check: bool = True,
) -> Access:
    """The pieces of an access of `itemsize` bytes a lane. `batch`: active programs.

    With `check` off, lanes outside the view but inside its storage are let through; lanes outside
    every storage are dropped all the same.
    """
    region, offset = pointer.region, pointer.offset
    if mask is not None and type(offset) is Index:
        # A mask that does not vary between lanes has a box too.
        mask = as_box(mask, shape) or mask
    if region is not None and type(offset) is Index and not isinstance(mask, np.ndarray):
        pieces = _strided(region, offset, mask, shape, itemsize, batch, check)
        if pieces is not None:
            return Access([(region, p) for p in pieces], [], batch)
    return _flat(memory, pointer, mask, shape, itemsize, batch, check)


def _strided(
    region: Region,
    offset: Index,
    mask: Box | None,
    shape: tuple[int, ...],
    itemsize: int,
    batch: int,
    check: bool,
) -> list[Strided] | None:
    """Strided pieces, or None if a lane is out of bounds or the form does not hold."""
    strides = offset.strides
    uniform = offset.base.size == 1
    groups: list[tuple[np.ndarray | None, list[int], list[int]]]
    if mask is None:
        groups = [(None, [0] * len(shape), list(shape))]
    else:
        found = mask.groups(batch)
        if found is None:
            return None
        groups = found
    pieces: list[Strided] = []
    for programs, lo, hi in groups:
        base = offset.base if programs is None or uniform else offset.base[programs]
        extents = tuple(b - a for a, b in zip(lo, hi, strict=True))
        shift = sum(s * a for s, a in zip(strides, lo, strict=True))
        low, high = (shift + r for r in reach(strides, extents))
        if base is offset.base:
            first, last = offset.bounds_of_base()
        else:
            first, last = int(base.min()), int(base.max())
        bounds = (region.low, region.high)
        if not check:
            bounds = (-region.base, region.storage.bytes.size - region.base)
        if first + low < bounds[0] or last + high + itemsize > bounds[1]:
            return None
        start = base + (region.base + shift)
        if itemsize > 1 and (
            any(s % itemsize for s, n in zip(strides, extents, strict=True) if n > 1)
            or (start % itemsize).any()
        ):
            return None
        count = batch if programs is None else programs.size
        if uniform and count > 1:
            start = np.broadcast_to(start, (count,))
        fixed = tuple(s if n > 1 else 0 for s, n in zip(strides, extents, strict=True))
        piece = Strided(start, fixed, extents, itemsize, programs, tuple(lo))
        if check and region.gaps and not _all_owned(region, piece):
            return None
        pieces.append(piece)
    return pieces


def _all_owned(region: Region, piece: Strided) -> bool:
    owned = region.owned
    if owned is None:
        return True
    return _all_bytes(piece.moved(-(region.base + region.low)), owned)


def _all_bytes(piece: Piece, flags: np.ndarray) -> bool:
    """Whether a bool-per-byte array is true for all bytes of the elements of `piece`."""
    word, ones = WORDS[piece.itemsize]
    return bool((piece.read(flags, word) == ones).all())


WORDS: dict[int, tuple[np.dtype, int]] = {
    n: (np.dtype(f"u{n}"), int.from_bytes(b"\x01" * n, "little")) for n in (1, 2, 4, 8)
}
"""For an element of n bytes: the word that reads n bool bytes at once, and its all-true value."""


def _flat(
    memory: Memory,
    pointer: Pointer,
    mask: Box | np.ndarray | None,
    shape: tuple[int, ...],
    itemsize: int,
    batch: int,
    check: bool,
) -> Access:
    full = (batch, *shape)
    offsets = np.broadcast_to(pointer.dense_offset(), full)
    active = np.ones(full, bool) if mask is None else np.broadcast_to(dense(mask), full)
    bad: list[tuple[Region | None, np.ndarray, np.ndarray, str]] = []
    pieces: list[tuple[Region, Piece]] = []
    if pointer.region is not None:
        _flat_region(pointer.region, offsets, active, itemsize, check, pieces, bad)
        return Access(pieces, bad, batch)
    where, storages = memory.segment(offsets)
    lost = active & (where < 0)
    if lost.any():
        null = lost & (np.abs(offsets) < _NULL_PAGE)
        if null.any():
            bad.append((None, null, offsets, "null"))
        if (lost & ~null).any():
            bad.append((None, lost & ~null, offsets, "unmapped"))
    for number in np.unique(where[active & (where >= 0)]).tolist():
        storage: Storage = storages[number]
        region = memory.whole_region(storage)
        lanes = active & (where == number)
        inside = offsets - np.int64(region.address)
        _flat_region(region, inside, lanes, itemsize, check, pieces, bad)
    return Access(pieces, bad, batch)


_NULL_PAGE = 4096


def _flat_region(
    region: Region,
    offsets: np.ndarray,
    active: np.ndarray,
    itemsize: int,
    check: bool,
    pieces: list[tuple[Region, Piece]],
    bad: list[tuple[Region | None, np.ndarray, np.ndarray, str]],
) -> None:
    """Split the active lanes into those that may be accessed and the rest."""
    low, high = region.low, region.high
    if not check:
        low, high = -region.base, region.storage.bytes.size - region.base
    every = active.all()
    chosen = offsets.reshape(-1) if every else offsets[active]
    outside = (chosen < low) | (chosen > high - itemsize)
    reason = np.zeros(chosen.shape, np.int8)
    reason[outside] = 1
    if itemsize > 1:
        odd = ((chosen + np.int64(region.base)) % itemsize != 0) & ~outside
        reason[odd] = 3
    if check and region.gaps and region.owned is not None:
        owned = np.zeros(chosen.shape, bool)
        fine = reason == 0
        owned[fine] = region.owned[chosen[fine] - low]
        reason[fine & ~owned] = 2
    if not reason.any():
        at = chosen + np.int64(region.base)
        if at.size:
            pieces.append((region, Flat(at, active, itemsize)))
        return
    codes = np.zeros(active.shape, np.int8)
    codes[active] = reason
    for code, name in ((1, "bounds"), (2, "gap"), (3, "misaligned")):
        lanes = codes == code
        if lanes.any():
            bad.append((region, lanes, offsets, name))
    good = active & (codes == 0)
    at = offsets[good] + np.int64(region.base)
    if at.size:
        pieces.append((region, Flat(at, good, itemsize)))


def _elements(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`data` (any 1-d array) seen as elements of `dtype`, a ragged tail cut off."""
    count = data.nbytes // dtype.itemsize
    return np.ndarray((count,), dtype, buffer=data)


def _common_step(base: np.ndarray) -> int | None:
    """The distance between consecutive programs' offsets if it is always the same."""
    if base.size < 2:
        return 0
    step = int(base[1] - base[0])
    if base.size == 2 or (base[1:] - base[:-1] == step).all():
        return step
    return None


def _injective(axes: list[tuple[int, int]], itemsize: int) -> bool:
    reach = itemsize
    for stride, extent in sorted((abs(s), n) for s, n in axes if n > 1):
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True
