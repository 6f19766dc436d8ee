"""The memory of a launch: bytes, what is known of each, and where every tensor ends.

Every tensor has a region of 2**40 addresses to itself, so that an address says which tensor it was
meant for. Shared, local and tensor memory are one array over all blocks (lanes), with a row each.
A byte is known, unknown (written with data that a trace does not have) or never written; that is a
second array of the same size, all zeros (and so not backed by memory) until somebody writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind, Policy
from xttir.interp.ptx.delays import Delays
from xttir.interp.ptx.geometry import SHARED_BITS
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.values import partial

GLOBAL_BITS = 40
GLOBAL_BASE = 1 << 44
SHARED_WINDOW = 1 << 42
LOCAL_WINDOW = 1 << 41
PARAM_WINDOW = 3 << 41
"""Where the windows of generic addresses begin; below all of them lies nothing."""
WINDOW_SIZE = 1 << 41

DEFAULT, WRITTEN, KNOWN = 0, 1, 2
"""State of a byte: as the region was at first; written, not known; known."""

Report = Callable[..., Any]
"""(kind, message, rows or None): a fault of the instruction that is being executed."""


@dataclass(slots=True, eq=False)
class Region:
    """Contiguous bytes. `first` is what bytes nobody has written are: KNOWN (they hold `data`),
    WRITTEN (unknown data) or DEFAULT (nothing)."""

    name: str
    base: int
    size: int
    first: int
    bytes: np.ndarray | None = None
    state: np.ndarray | None = None
    writer: np.ndarray | None = None
    """int32 per 4 bytes: 1 + the index of the strong write whose value stands there."""
    row: int = 0
    """Size of the row of one block, of regions with rows."""
    views: dict[Any, np.ndarray] = field(default_factory=dict)

    @property
    def allocated(self) -> int:
        return -(-self.size // 16) * 16

    def data(self) -> np.ndarray:
        if self.bytes is None:
            self.bytes = np.zeros(self.allocated, np.uint8)
        return self.bytes

    def view(self, size: int, parts: int) -> np.ndarray:
        """The bytes as elements of `size` bytes, (.., parts) of them in a row if parts > 1."""
        found = self.views.get((size, parts))
        if found is None:
            found = self.data().view(f"u{size}")
            if parts > 1:
                found = found.reshape(-1, parts)
            self.views[size, parts] = found
        return found

    def state_view(self, size: int) -> np.ndarray:
        """The state as one element for `size` bytes (complex for 16)."""
        found = self.views.get(-size)
        if found is None:
            if self.state is None:
                self.state = np.zeros(self.allocated, np.uint8)
            found = self.state.view(np.complex128 if size == 16 else f"u{size}")
            self.views[-size] = found
        return found


def _pattern(state: int, size: int) -> np.generic:
    raw = np.full(size, state, np.uint8)
    return raw.view(np.complex128 if size == 16 else f"u{size}")[0]


_PATTERNS = {(s, n): _pattern(s, n) for s in (WRITTEN, KNOWN) for n in (1, 2, 4, 8, 16)}


class LaunchMemory:
    """All memory of a launch. Addresses are int64 arrays; errors go to `report`."""

    def __init__(
        self,
        ctas: int,
        lanes: int,
        shared_bytes: int,
        local_bytes: int,
        tracing: bool,
    ):
        self.tracing = tracing
        self.report: Report = _raise
        self.tensors: list[Region] = []
        self.shared = self._rows("shared memory", ctas, shared_bytes)
        self.local = self._rows("local memory", lanes, local_bytes)
        self.tensor = self._rows("tensor memory", ctas, 4 * 512 * 128)
        self.param = Region("parameters", PARAM_WINDOW, 0, KNOWN)
        self.shared_bytes = shared_bytes
        self.local_bytes = local_bytes
        self.delays: Delays | None = None
        """Stores that are not seen everywhere yet, in schedules that have such."""
        self.lanes = np.zeros(1, np.int32)
        """Of the instruction that is being executed."""
        self.ended = np.zeros(ctas, bool)
        """Blocks whose threads have all ended, and their shared memory with them."""
        self.any_ended = False
        self.outlives = False
        """What is being executed may still be under way when its block ends."""
        self.version = 0
        self.global_version = 0
        """Stores and atomics so far: what somebody may wait for (anywhere; in global memory)."""

    @staticmethod
    def _rows(name: str, rows: int, size: int) -> Region:
        row = -(-size // 16) * 16
        return Region(name, 0, rows * row, DEFAULT, row=row)

    def add_tensor(self, name: str, size: int, first: int, data: np.ndarray | None = None) -> int:
        """A region of `size` bytes with `data` (uint8, copied); its first address."""
        base = GLOBAL_BASE + (len(self.tensors) << GLOBAL_BITS)
        region = Region(name, base, size, first)
        if data is not None:
            region.data()[:size] = data
        self.tensors.append(region)
        return base

    def region_at(self, address: int) -> Region:
        """The tensor or variable that begins at an address."""
        return self.tensors[(address - GLOBAL_BASE) >> GLOBAL_BITS]

    # Regions --------------------------------------------------------------------------------------

    def _global(self, address: np.ndarray, size: int) -> tuple[Region | None, np.ndarray]:
        """The region of `address` if it is one for all of them, and the offsets in it."""
        first = int(address.flat[0])
        number = (first - GLOBAL_BASE) >> GLOBAL_BITS
        if not 0 <= number < len(self.tensors):
            return None, address
        region = self.tensors[number]
        offset = address - region.base
        if offset.size == 1:
            inside = 0 <= first - region.base <= region.size - size
        else:
            inside = offset.min() >= 0 and offset.max() <= region.size - size
        return (region if inside else None), offset

    def locate(
        self, space: Space | str, address: np.ndarray, size: int, cta: np.ndarray | None
    ) -> list[tuple[Region, np.ndarray, np.ndarray | None]]:
        """(region, offsets, which) for flat addresses: `which` (bool, as `address`) are the ones in
        that region, None for all. Those in no region are reported and left out."""
        if space == Space.GLOBAL:
            region, offset = self._global(address, size)
            if region is not None:
                return [(region, offset, None)]
            return self._scattered(address, size)
        region = self._row_region(space)
        limit = self._limit(space, region)
        if address.size == 1:
            first = int(address.flat[0])
            good = 0 <= first <= limit - size
        else:
            good = address.min() >= 0 and address.max() <= limit - size
        offset = address if cta is None else address + cta.astype(np.int64) * region.row
        if self.any_ended and cta is not None and region is self.shared:
            self.check_ended(np.where(address >= 0, cta, -1), self.report)
        if good:
            return [(region, offset, None)]
        which = (address >= 0) & (address <= limit - size)
        self._outside(region.name, address, which, size, limit)
        which = np.broadcast_to(which, offset.shape)
        return [(region, np.where(which, offset, 0), which)] if which.any() else []

    def check_ended(self, cta: np.ndarray, report: Report) -> None:
        """Report what goes to memory of blocks that have ended. Negative blocks are none."""
        if self.outlives:
            return
        late = cta[(cta >= 0) & self.ended[cta]]
        if late.size:
            report(Kind.LIFETIME, f"to shared memory of block {int(late.flat[0])}, which has ended")

    def _limit(self, space: Space | str, region: Region) -> int:
        """Bytes of a row that may be accessed."""
        sizes = {Space.SHARED: self.shared_bytes, "local": self.local_bytes}
        return sizes.get(space, region.row)

    def _row_region(self, space: Space | str) -> Region:
        if space == Space.SHARED:
            return self.shared
        if space == Space.TENSOR:
            return self.tensor
        return self.local

    def _scattered(
        self, address: np.ndarray, size: int
    ) -> list[tuple[Region, np.ndarray, np.ndarray | None]]:
        number = (address - GLOBAL_BASE) >> GLOBAL_BITS
        found = []
        lost = np.ones(address.shape, bool)
        for n in np.unique(number):
            if not 0 <= n < len(self.tensors):
                continue
            region = self.tensors[n]
            offset = address - region.base
            which = (number == n) & (offset >= 0) & (offset <= region.size - size)
            if which.any():
                found.append((region, np.where(which, offset, 0), which))
                lost &= ~which
        if lost.any():
            self._outside_global(address, lost, size)
        return found

    def _outside_global(self, address: np.ndarray, lost: np.ndarray, size: int) -> None:
        at = int(np.argmax(lost))
        where = int(address.flat[at])
        rows = np.flatnonzero(lost.reshape(lost.shape[0], -1).any(axis=1))
        self.report(
            Kind.OUT_OF_BOUNDS,
            f"of {size} bytes at {self.describe(where)}",
            rows if address.shape[0] > 1 else None,
            count=int(lost.sum()),
        )

    def _outside(
        self, name: str, address: np.ndarray, which: np.ndarray, size: int, limit: int
    ) -> None:
        bad = ~which
        at = int(address.flat[int(np.argmax(bad))])
        rows = np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))
        self.report(
            Kind.OUT_OF_BOUNDS,
            f"of {size} bytes at {at:#x} of {name}, which has {limit} bytes",
            rows if address.shape[0] > 1 else None,
            count=int(bad.sum()),
        )

    def describe(self, address: int) -> str:
        """A global address in words: the tensor it belongs to, or the one it went past."""
        number = (address - GLOBAL_BASE) >> GLOBAL_BITS
        if number == -1 and self.tensors:
            number = 0
        if 0 <= number < len(self.tensors):
            region = self.tensors[number]
            offset = address - region.base
            above = number + 1 < len(self.tensors)
            if above and offset > 1 << (GLOBAL_BITS - 1):
                region = self.tensors[number + 1]
                offset = address - region.base
            if offset < 0:
                return f"{-offset} bytes before `{region.name}` ({region.size} bytes)"
            if offset >= region.size:
                past = offset - region.size
                return f"{past} bytes past the end of `{region.name}` ({region.size} bytes)"
            return f"byte {offset} of `{region.name}` ({region.size} bytes)"
        if 0 <= address < 1 << 20:
            return f"address {address:#x} (a null pointer)"
        return f"address {address:#x}, where no tensor is"

    # Elements -------------------------------------------------------------------------------------

    def read(
        self,
        space: Space | str,
        address: np.ndarray,
        size: int,
        parts: int = 1,
        cta: np.ndarray | None = None,
        proxy: Proxy = Proxy.GENERIC,
    ) -> Any:
        """Values of `parts` elements of `size` bytes each at aligned addresses (n,) or (1,).

        Raw bits (n,) or (n, parts) uint8..uint64, UNKNOWN or Partial. Out of bounds reads 0.
        """
        total = size * parts
        places = self.locate(space, address, total, cta)
        if len(places) == 1 and places[0][2] is None:
            region, offset, _ = places[0]
            value = self._read(region, offset, size, parts, total)
            return self._as_seen(region, offset, total, value, proxy)
        shape = np.broadcast_shapes(address.shape, (1,) if cta is None else cta.shape)
        data = np.zeros(shape if parts == 1 else (*shape, parts), f"u{size}")
        known = np.ones(shape, bool)
        for region, offset, which in places:
            assert which is not None
            value = self._read(region, offset[which], size, parts, total)
            value = self._as_seen(region, offset[which], total, value, proxy)
            if value is UNKNOWN:
                known[which] = False
            elif isinstance(value, np.ndarray):
                data[which] = value
            else:
                data[which], known[which] = value.data, value.known
        return partial(data, known)

    def _as_seen(
        self, region: Region, offset: np.ndarray, total: int, value: Any, proxy: Proxy
    ) -> Any:
        if self.delays is None or region is self.local or not isinstance(value, np.ndarray):
            return value
        return self.delays.loaded(region, offset, total, value, proxy, self.lanes)

    def _read(self, region: Region, offset: np.ndarray, size: int, parts: int, total: int) -> Any:
        index = offset // total if total > 1 else offset
        if region.state is None:
            if region.first == KNOWN:
                return region.view(size, parts)[index]
            if region.first == WRITTEN:
                return UNKNOWN
            self._never_written(region, None, offset)
            return UNKNOWN if self.tracing else region.view(size, parts)[index]
        if region.first == KNOWN and not self.tracing:
            return region.view(size, parts)[index]
        state = region.state_view(total)[index]
        if (state == _PATTERNS[KNOWN, total]).all():
            return region.view(size, parts)[index]
        if (state == _PATTERNS[WRITTEN, total]).all():
            return UNKNOWN
        return self._mixed(region, offset, size, parts, total)

    def _mixed(self, region: Region, offset: np.ndarray, size: int, parts: int, total: int) -> Any:
        assert region.state is not None
        state = region.state[offset[..., None] + np.arange(total)]
        if region.first == DEFAULT and (state == DEFAULT).any():
            self._never_written(region, (state == DEFAULT).any(axis=-1), offset)
        if not self.tracing:
            return region.view(size, parts)[offset // total]
        known = (state == KNOWN) | ((state == DEFAULT) & (region.first == KNOWN))
        whole = known.all(axis=-1)
        if not whole.any():
            return UNKNOWN
        return partial(region.view(size, parts)[offset // total], whole)

    def _never_written(self, region: Region, which: np.ndarray | None, offset: np.ndarray) -> None:
        at = int(offset.flat[0 if which is None else int(np.argmax(which))])
        name = f"`{region.name}`" if region.base else region.name
        rows = None
        if which is not None:
            rows = np.flatnonzero(which.reshape(which.shape[0], -1).any(axis=1))
            if which.shape[0] == 1:
                rows = None
        if region.row:
            at %= region.row
        # Compilers copy parts of local arrays that are never used; only the letter forbids it.
        policy = Policy.STRICT if region.name == "local memory" else Policy.ANY
        message = f"reads byte {at} of {name}, which nobody has written"
        self.report(Kind.UNINITIALIZED, message, rows, policy=policy)

    def write(
        self,
        space: Space | str,
        address: np.ndarray,
        size: int,
        parts: int,
        value: Any,
        cta: np.ndarray | None = None,
        proxy: Proxy = Proxy.GENERIC,
        weak: bool = False,
    ) -> None:
        """Put raw bits (as `read` gives them) at aligned addresses; later lanes win. `weak`: a
        store that other blocks need not see before a release."""
        total = size * parts
        self.version += 1
        if space == Space.GLOBAL:
            self.global_version += 1
        for region, offset, which in self.locate(space, address, total, cta):
            if which is not None:
                offset, value_ = offset[which], _select(value, which)
            else:
                value_ = value
            if self.delays is not None and region is not self.local and offset.size:
                self.delays.storing(region, offset, total, proxy, weak, self.lanes)
            self._write(region, offset, size, parts, total, value_)

    def _write(
        self, region: Region, offset: np.ndarray, size: int, parts: int, total: int, value: Any
    ) -> None:
        index = offset // total if total > 1 else offset
        if value is UNKNOWN:
            if not (region.first == WRITTEN and region.state is None):
                region.state_view(total)[index] = _PATTERNS[WRITTEN, total]
            return
        data, known = (value, True) if value.__class__ is np.ndarray else (value.data, value.known)
        if index.shape[0] == 1 and data.shape[0] > 1:
            index = np.broadcast_to(index, data.shape[:1])
        region.view(size, parts)[index] = data.astype(f"u{size}", copy=False)
        if not self.tracing:
            if region.first != KNOWN:
                region.state_view(total)[index] = _PATTERNS[KNOWN, total]
            return
        if known is True:
            region.state_view(total)[index] = _PATTERNS[KNOWN, total]
        else:
            patterns = np.where(known, _PATTERNS[KNOWN, total], _PATTERNS[WRITTEN, total])
            region.state_view(total)[index] = patterns

    # Footprints -----------------------------------------------------------------------------------

    def load(self, footprint: Footprint) -> Any:
        """uint8 (rows, pieces, size) (tensor memory: 4 * size), or UNKNOWN if any byte is."""
        starts, size = self._bytes(footprint)
        live = starts >= 0
        whole = bool(live.all())
        where = starts.reshape(-1) if whole else starts[live]
        cta = None
        if footprint.cta is not None:
            cta = np.broadcast_to(footprint.cta, starts.shape)
            cta = cta.reshape(-1) if whole else cta[live]
        if self._unknown(footprint.space, where, size, cta):
            return UNKNOWN
        grain = _grain(where, size)
        address = (where[:, None] + np.arange(0, size, grain)).reshape(-1)
        parts = grain // 8 if grain == 16 else 1
        width = 8 if grain == 16 else grain
        rows = None if cta is None else np.repeat(cta, size // grain)
        value: Any = address
        if where.size:
            value = self.read(footprint.space, address, width, parts, rows, footprint.proxy)
        if not isinstance(value, np.ndarray):
            return UNKNOWN
        data = np.ascontiguousarray(value).view(np.uint8).reshape(-1)[: where.size * size]
        if whole:
            return data.reshape(*starts.shape, size)
        out = np.zeros((*starts.shape, size), np.uint8)
        out[live] = data.reshape(-1, size)
        return out

    def _unknown(self, space: Space, where: np.ndarray, size: int, cta: np.ndarray | None) -> bool:
        """Whether the pieces lie in one region of unknown data: only bounds are to be checked."""
        if not self.tracing or space != Space.GLOBAL or not where.size:
            return False
        places = self.locate(space, where, size, cta)
        if len(places) != 1 or places[0][2] is not None:
            return False
        region = places[0][0]
        return region.first == WRITTEN and region.state is None

    def check(self, footprint: Footprint) -> None:
        """What `load` reports, without the data."""
        if not self._all_written(footprint):
            self.load(footprint)

    def _all_written(self, footprint: Footprint) -> bool:
        """Whether all bytes lie in one region and were written, as far as a quick look shows."""
        starts, size = self._bytes(footprint)
        if starts.size == 0 or starts.min() < 0 or _grain(starts, size) != 16:
            return False
        cta = None
        if footprint.cta is not None:
            cta = np.broadcast_to(footprint.cta, starts.shape).reshape(-1)
        region = self._row_region(footprint.space) if footprint.space != Space.GLOBAL else None
        if region is None or region.state is None or cta is None:
            return False
        if starts.max() > self._limit(footprint.space, region) - size:
            return False
        first = (starts.reshape(-1) + cta.astype(np.int64) * region.row) >> 4
        state = region.state_view(16)[(first[:, None] + np.arange(size >> 4)).reshape(-1)]
        return bool(((state == _PATTERNS[WRITTEN, 16]) | (state == _PATTERNS[KNOWN, 16])).all())

    def store(self, footprint: Footprint, data: Any) -> None:
        """`data` uint8 broadcastable to (rows, pieces, size); UNKNOWN makes the bytes unknown.

        A `may` footprint makes them unknown whatever the data is.
        """
        starts, size = self._bytes(footprint)
        live = starts >= 0
        if not live.any():
            return
        if data is UNKNOWN and self._blur(footprint, starts, size):
            return
        grain = _grain(starts[live], size)
        parts = grain // 8 if grain == 16 else 1
        width = 8 if grain == 16 else grain
        address = starts[..., None] + np.arange(0, size, grain)
        cta = None
        if footprint.cta is not None:
            cta = np.broadcast_to(footprint.cta, starts.shape)
            cta = np.broadcast_to(cta[..., None], address.shape)[live].reshape(-1)
        if data is UNKNOWN or (footprint.may and self.tracing):
            raw: Any = UNKNOWN
        else:
            full = np.ascontiguousarray(np.broadcast_to(data, (*starts.shape, size)))
            raw = full[live].reshape(-1).view(f"u{width}")
            if parts > 1:
                raw = raw.reshape(-1, parts)
        where = address[live].reshape(-1)
        self.write(footprint.space, where, width, parts, raw, cta, footprint.proxy)

    def _blur(self, footprint: Footprint, starts: np.ndarray, size: int) -> bool:
        """Make the bytes of shared memory unknown, if they are long pieces, alike in all blocks."""
        if footprint.space != Space.SHARED or footprint.cta is None or size < 256:
            return False
        first = starts[0]
        if (starts != first).any() or first.min() < 0:
            return False
        if first.max() > self._limit(footprint.space, self.shared) - size:
            return False
        self.version += 1
        self.shared.state_view(1)
        assert self.shared.state is not None
        state = self.shared.state[: self.shared.size].reshape(-1, self.shared.row)
        cta = np.broadcast_to(footprint.cta, starts.shape)
        for k, start in enumerate(first):
            state[cta[:, k], start : start + size] = WRITTEN
        return True

    @staticmethod
    def _bytes(footprint: Footprint) -> tuple[np.ndarray, int]:
        """Starts and size in bytes; a cell of tensor memory has four."""
        if footprint.space != Space.TENSOR:
            return footprint.starts, footprint.size
        return np.where(footprint.starts < 0, -1, footprint.starts * 4), footprint.size * 4

    # Strong accesses ------------------------------------------------------------------------------

    def observe(
        self,
        space: Space | str,
        address: np.ndarray,
        cta: np.ndarray | None,
        size: int,
        index: int | None,
        n: int,
    ) -> np.ndarray:
        """The strong write that each of n lanes reads from (-1: none). `index`: the event that
        writes there itself, lane after lane."""
        address = np.broadcast_to(address, (n,))
        rows = None if cta is None else np.broadcast_to(cta, (n,))
        out = np.full(n, -1, np.int32)
        with self.silent():
            places = self.locate(space, address, size, rows)
        for region, offset, which in places:
            word = offset >> 2
            if which is not None:
                word = word[which]
            if region.writer is None:
                if index is None:
                    continue
                region.writer = np.zeros(region.allocated // 4, np.int32)
            seen = region.writer[word] - 1
            if index is not None:
                first = np.zeros(word.size, bool)
                first[np.unique(word, return_index=True)[1]] = True
                seen = np.where(first, seen, index)
                region.writer[word] = index + 1
            out[slice(None) if which is None else which] = seen
        return out

    def written(
        self,
        space: Space | str,
        address: np.ndarray,
        cta: np.ndarray | None,
        size: int,
        index: int | None,
    ) -> None:
        """A write of `size` bytes stands there now: strong and event `index`, or weak (None)."""
        if index is None and not self._has_writers(space):
            return
        with self.silent():
            places = self.locate(space, address, size, cta)
        for region, offset, which in places:
            if region.writer is None:
                if index is None:
                    continue
                region.writer = np.zeros(region.allocated // 4, np.int32)
            word = (offset if which is None else offset[which]) >> 2
            for k in range(max(1, size // 4)):
                region.writer[word + k] = 0 if index is None else index + 1

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """No reports: the access itself makes them."""
        report = self.report
        self.report = lambda *args, **more: None
        try:
            yield
        finally:
            self.report = report

    def _has_writers(self, space: Space | str) -> bool:
        if space == Space.GLOBAL:
            return any(region.writer is not None for region in self.tensors)
        return self._row_region(space).writer is not None


def _raise(kind: Kind, message: str, *args: Any, **more: Any) -> None:
    raise AssertionError(f"{kind}: {message}")


def _select(value: Any, which: np.ndarray) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    if value.__class__ is np.ndarray:
        return value if value.shape[0] == 1 else value[which]
    return partial(
        value.data if value.data.shape[0] == 1 else value.data[which], value.known[which]
    )


def _grain(starts: np.ndarray, size: int) -> int:
    """The largest of 16, 8, 4, 2, 1 that divides all starts and the size."""
    bits = size | int(np.bitwise_or.reduce(starts, axis=None)) if starts.size else size
    for grain in (16, 8, 4, 2):
        if bits % grain == 0:
            return grain
    return 1


# Addresses ----------------------------------------------------------------------------------------


def shared_place(
    address: np.ndarray, cta: np.ndarray, ranks: int, window: str
) -> tuple[np.ndarray, np.ndarray]:
    """(offset, block) of shared addresses of the lanes in blocks `cta`.

    Own addresses carry the own rank in the upper bits, as on the hardware, so that code may turn
    them into a neighbour's by changing those bits. A block that is not in the cluster gets the
    offset -1.
    """
    if ranks == 1:
        return address, cta
    offset = address & ((1 << SHARED_BITS) - 1)
    rank = address >> SHARED_BITS
    own = cta % ranks
    if window == "shared::cluster":
        inside = (rank >= 0) & (rank < ranks)
        block = (cta - own + np.where(inside, rank, 0)).astype(np.int32)
    else:
        inside, block = (rank == own), cta
    return (offset if inside.all() else np.where(inside, offset, -1)), block


def footprint(
    space: Space, mode: Mode, address: np.ndarray, size: int, n: int, cta: Any, may: bool
) -> Footprint:
    """One piece per lane."""
    starts = np.broadcast_to(address, (n,))[:, None] if address.shape[0] == 1 else address[:, None]
    if cta is not None:
        cta = cta[:, None]
    return Footprint(space, mode, starts, size, cta=cta, may=may)
