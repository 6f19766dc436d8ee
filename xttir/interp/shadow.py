"""Race detection between program instances by shadow memory.

For every element of a storage that the launch may write, the shadow keeps the last plain writer,
two readers and two atomic accessors, as tags: (program, epoch, access site), 0 for none. Two plain
accesses of one element by different programs, one of them a write, are a race unless the first
happens before the second; so is a plain access beside an atomic one. Cost is linear in accesses,
through the same strided views and offset lists as the data (`xttir.interp.access`).

Happens-before between programs comes only from release/acquire atomics. Where a kernel has none
whose result is used, there is no order at all and the epoch takes no bits. Otherwise programs run
one at a time with vector clocks (`Clocks`): a program's epoch counts its releases, and an access of
program q in epoch e is ordered before the present one of p if p has acquired a release of q that
came after it (FastTrack, Flanagan and Freund 2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from xttir.interp.access import Piece
from xttir.interp.launch import Storage


class Tags:
    """How (program, epoch, site) is packed into one integer, 0 meaning nobody.

    `sites`: number of access sites. `epochs`: bits for the epoch (0 without clocks).
    """

    def __init__(self, programs: int, sites: int, epoch_bits: int):
        self.site_bits = max(1, int(sites).bit_length())
        self.low_bits = self.site_bits + epoch_bits
        wide = (programs + 1) << self.low_bits >= 1 << 31
        self.dtype = np.dtype(np.int64 if wide else np.int32)

    def make(self, pids: np.ndarray, site: int, epochs: np.ndarray | int = 0) -> np.ndarray:
        """Tags of accesses at `site` by `pids`."""
        tag = (pids << self.low_bits) + ((np.int64(epochs) << self.site_bits) + site + 1)
        return tag.astype(self.dtype)

    def program(self, tags: np.ndarray) -> np.ndarray:
        return (tags - 1) >> self.low_bits

    def site(self, tags: np.ndarray) -> np.ndarray:
        return (tags - 1) & ((1 << self.site_bits) - 1)

    def epoch(self, tags: np.ndarray) -> np.ndarray:
        return ((tags - 1) & ((1 << self.low_bits) - 1)) >> self.site_bits


class Clocks:
    """Vector clocks of the programs of one launch. Programs run one at a time."""

    EPOCH_BITS = 20

    def __init__(self, programs: int):
        self.programs = programs
        self.epoch: dict[int, int] = {}
        self.known: dict[int, np.ndarray] = {}
        self.released: dict[int, np.ndarray] = {}
        self.in_flight: set[int] = set()
        """Programs with stores that may not have reached memory yet."""
        self.ahead = 0
        """How many epochs later than its own the present access of a program may take place."""

    @contextmanager
    def landing(self, pid: int) -> Iterator[None]:
        """Stores made inside reach memory at some time of their own: the next release of `pid`
        does not cover them unless they have `landed` before."""
        self.in_flight.add(pid)
        self.ahead = 1
        try:
            yield
        finally:
            self.ahead = 0

    def landed(self, pid: int) -> None:
        """All stores of `pid` have reached memory."""
        if pid in self.in_flight:
            self.in_flight.discard(pid)
            self.epoch[pid] = self.now(pid) + 1

    def now(self, pid: int) -> int:
        return self.epoch.get(pid, 0)

    def ordered(self, pid: int, programs: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """Whether accesses of `programs` in `epochs` happen before the present one of `pid`."""
        known = self.known.get(pid)
        if known is None:
            return programs == pid
        return (programs == pid) | (known[programs] > epochs)

    def acquire(self, pid: int, addresses: np.ndarray) -> None:
        for address in np.unique(addresses).tolist():
            clock = self.released.get(address)
            if clock is not None:
                known = self.known.get(pid)
                self.known[pid] = clock.copy() if known is None else np.maximum(known, clock)

    def release(self, pid: int, addresses: np.ndarray, read_modify_write: bool) -> None:
        """A release at `addresses`. A read-modify-write continues the release sequence there."""
        epoch = self.epoch[pid] = self.now(pid) + 1
        clock = self.known.get(pid)
        clock = np.zeros(self.programs, np.int32) if clock is None else clock.copy()
        clock[pid] = epoch
        for address in np.unique(addresses).tolist():
            before = self.released.get(address) if read_modify_write else None
            self.released[address] = clock if before is None else np.maximum(before, clock)

    def relaxed_write(self, addresses: np.ndarray) -> None:
        """A relaxed store that is no read-modify-write ends the release sequence."""
        for address in np.unique(addresses).tolist():
            self.released.pop(address, None)


Report = Callable[[str, "Piece", np.ndarray, np.ndarray, Storage], None]
"""Called with (what, piece, conflicting lanes, the other side's tags, storage)."""


class Shadow:
    """Tags of one storage, one element for every `granule` bytes."""

    def __init__(self, storage: Storage, granule: int, tags: Tags, clocks: Clocks | None):
        self.storage = storage
        self.granule = granule
        self.tags = tags
        self.clocks = clocks
        self.writers = self._new()
        self.readers: tuple[np.ndarray, np.ndarray] | None = None
        self.atomics: tuple[np.ndarray, np.ndarray] | None = None

    def _new(self) -> np.ndarray:
        count = -(-self.storage.bytes.size // self.granule)
        return np.zeros(count, self.tags.dtype)

    def refine(self, granule: int) -> None:
        """Make the granule finer: every element's tags now stand for each of its parts."""
        times = self.granule // granule
        count = -(-self.storage.bytes.size // granule)

        def split(a: np.ndarray) -> np.ndarray:
            return np.repeat(a, times)[:count].copy()

        self.writers = split(self.writers)
        if self.readers is not None:
            self.readers = (split(self.readers[0]), split(self.readers[1]))
        if self.atomics is not None:
            self.atomics = (split(self.atomics[0]), split(self.atomics[1]))
        self.granule = granule

    def _pieces(self, piece: Piece) -> list[Piece]:
        """`piece` in units of the shadow, one for every granule of an element."""
        if piece.itemsize < self.granule:
            self.refine(piece.itemsize)
        size = self.tags.dtype.itemsize
        if piece.itemsize == self.granule:
            return [piece.scaled(size, self.granule)]
        parts: list[Piece] = []
        for k in range(piece.itemsize // self.granule):
            parts.append(piece.moved(k * self.granule).scaled(size, self.granule))
        return parts

    def read(self, piece: Piece, pids: np.ndarray, site: int, report: Report) -> None:
        """A plain read of `piece` by `pids` (int64[b], all active programs)."""
        mine = self._mine(piece, pids, site)
        for part in self._pieces(piece):
            self._against(part, self.writers, mine, "write", report)
            if self.atomics is not None:
                self._against_pair(part, self.atomics, mine, "atomic", report)
            if self.readers is None:
                self.readers = (self._new(), self._new())
            self._note(part, self.readers, mine)

    def write(self, piece: Piece, pids: np.ndarray, site: int, report: Report) -> None:
        """A plain write."""
        mine = self._mine(piece, pids, site)
        for part in self._pieces(piece):
            self._against(part, self.writers, mine, "write", report)
            if self.readers is not None:
                self._against_pair(part, self.readers, mine, "read", report)
            if self.atomics is not None:
                self._against_pair(part, self.atomics, mine, "atomic", report)
            part.write(self.writers, self.tags.dtype, mine)
            if part.injective() or pids.size == 1:
                continue
            # Programs of one batch collided: the element keeps one of them, the others see it.
            self._against(part, self.writers, mine, "write", report)

    def atomic(self, piece: Piece, pids: np.ndarray, site: int, report: Report) -> None:
        """An atomic access (read-modify-write, atomic load or store)."""
        mine = self._mine(piece, pids, site)
        for part in self._pieces(piece):
            self._against(part, self.writers, mine, "write", report)
            if self.readers is not None:
                self._against_pair(part, self.readers, mine, "read", report)
            if self.atomics is None:
                self.atomics = (self._new(), self._new())
            self._note(part, self.atomics, mine)

    def _mine(self, piece: Piece, pids: np.ndarray, site: int) -> np.ndarray:
        clocks = self.clocks
        epoch = 0 if clocks is None else clocks.now(int(pids[0])) + clocks.ahead
        return piece.spread(self.tags.make(pids, site, epoch))

    def _foreign(self, found: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """Where `found` is an access of another program that is not ordered before this one."""
        bits = self.tags.low_bits
        other = (found != 0) & ((found - 1) >> bits != (mine - 1) >> bits)
        if self.clocks is not None and other.any():
            pid = int(self.tags.program(mine.reshape(-1)[:1])[0])
            theirs = found[other]
            order = self.clocks.ordered(pid, self.tags.program(theirs), self.tags.epoch(theirs))
            other[other] = ~order
        return other

    def _against(
        self, part: Piece, shadow: np.ndarray, mine: np.ndarray, what: str, report: Report
    ) -> None:
        found = part.read(shadow, self.tags.dtype)
        if not found.any():
            return
        other = self._foreign(found, mine)
        if other.any():
            report(what, part, other, found, self.storage)

    def _against_pair(
        self,
        part: Piece,
        pair: tuple[np.ndarray, np.ndarray],
        mine: np.ndarray,
        what: str,
        report: Report,
    ) -> None:
        first = part.read(pair[0], self.tags.dtype)
        if not first.any():
            return
        second = part.read(pair[1], self.tags.dtype)
        bad_first = self._foreign(first, mine)
        bad_second = self._foreign(second, mine)
        bad = bad_first | bad_second
        if bad.any():
            report(what, part, bad, np.where(bad_first, first, second), self.storage)

    def _note(self, part: Piece, pair: tuple[np.ndarray, np.ndarray], mine: np.ndarray) -> None:
        """Record an access in a pair of slots: the first program in one, another in the other."""
        dtype = self.tags.dtype
        bits = self.tags.low_bits
        first = part.read(pair[0], dtype)
        alone = part.injective() or mine.shape[0] == 1
        if not first.any():
            part.write(pair[0], dtype, mine)
            if alone:
                return
            second = part.read(pair[0], dtype)
            lost = (second - 1) >> bits != (mine - 1) >> bits
            if lost.any():
                part.write_where(pair[1], dtype, mine, lost)
            return
        same = (first == 0) | ((first - 1) >> bits == (mine - 1) >> bits)
        part.write(pair[0], dtype, np.where(same, mine, first))
        if not alone:
            # Lanes that lost a collision for the first slot go to the second.
            same &= (part.read(pair[0], dtype) - 1) >> bits == (mine - 1) >> bits
        if not same.all():
            part.write_where(pair[1], dtype, mine, ~same)
