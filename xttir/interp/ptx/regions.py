"""Where an address lies: the regions of a launch's memory and the windows of generic addresses.

Every tensor has a region of 2**40 addresses to itself, so that an address says which tensor it was
meant for. Shared, local and tensor memory are one array over all blocks (lanes), with a row each.
A byte is known, unknown (written with data that a trace does not have) or never written; that is a
second array of the same size, all zeros (and so not backed by memory) until somebody writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.analyses.events import Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.geometry import SHARED_BITS

if TYPE_CHECKING:
    from xttir.interp.ptx.delays import Delays
    from xttir.interp.ptx.fingerprints import Fingerprints

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
    bounds: tuple[int, int] | None = None
    """Least and greatest value of each element as long as nobody has written there."""
    element: int = 0
    """Bytes of an element."""

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


PATTERNS = {(s, n): _pattern(s, n) for s in (WRITTEN, KNOWN) for n in (1, 2, 4, 8, 16)}


class Regions:
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
        self.fingerprints: Fingerprints | None = None
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

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """No reports: the access itself makes them."""
        report = self.report
        self.report = lambda *args, **more: None
        try:
            yield
        finally:
            self.report = report


def _raise(kind: Kind, message: str, *args: Any, **more: Any) -> None:
    raise AssertionError(f"{kind}: {message}")


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
