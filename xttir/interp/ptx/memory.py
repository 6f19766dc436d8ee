"""The memory of a launch: reads and writes of elements and of footprints, and who wrote last.

Values are raw bits, UNKNOWN, or known in part (`regions` says what is known of each byte). Out of
bounds, never written and ended memory is reported where it is accessed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind, Policy
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.regions import DEFAULT, KNOWN, PATTERNS, WRITTEN, Region, Regions
from xttir.interp.ptx.spans import MOST, Span
from xttir.interp.ptx.spread import Spread
from xttir.interp.ptx.values import partial


class LaunchMemory(Regions):
    """Regions that are read and written; who is told of errors is `report`."""

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

    def bounds(self, address: np.ndarray, size: int) -> Spread | None:
        """What a declared range says of integers of unknown data in global memory."""
        region, _ = self._global(address, size)
        if region is None or region.bounds is None or region.element != size:
            return None
        if region.state is not None:
            return None
        low, high = (np.array([b]) for b in region.bounds)
        return Spread(np.zeros(1, np.int64), low, high, 1, address)

    def check_somewhere(self, place: Span, lanes: int, spread: Spread | None, size: int) -> bool:
        """Of a read of `size` bytes somewhere in a span: a fault where none of its bytes was ever
        written, or not all of those that the first lane reads for data in the declared range.
        `lanes`: how many read. Returns whether all of them were, so that nothing is assumed."""
        region = place.region
        if region.first != DEFAULT or region is self.local:
            return True
        rows = np.zeros(1, np.int64) if place.rows is None else np.asarray(place.rows, np.int64)
        blocks, number = np.unique(rows, return_inverse=True)
        region.state_view(1)
        assert region.state is not None
        stretch = (blocks * region.row + place.start)[:, None] + np.arange(place.size)
        written = region.state[stretch] != DEFAULT
        nowhere = ~written.any(axis=1)
        if nowhere.any():
            which = np.flatnonzero(nowhere[number]) if rows.size == lanes > 1 else None
            message = (
                f"reads one of the bytes {place.start} to {place.end - 1} of {region.name}, of "
                "which nobody has written any"
            )
            self.report(Kind.UNINITIALIZED, message, which)
            return True
        reached = None if spread is None else spread.reached(MOST)
        if reached is not None:
            at = (reached - place.start)[:, None] + np.arange(size)
            missing = reached[~written[number[0], np.clip(at, 0, place.size - 1)].all(axis=1)]
            if missing.size:
                message = (
                    f"reads byte {missing[0]} of {region.name}, which nobody has written, for "
                    "data in the declared range"
                )
                self.report(Kind.UNINITIALIZED, message, np.zeros(1, np.int64))
                return True
        return bool(written.all())

    def forget(self, place: Span) -> None:
        """Something unknown may have been written somewhere in a span."""
        self.version += 1
        region = place.region
        if region.base:
            self.global_version += 1
        region.bounds = None
        region.state_view(1)
        assert region.state is not None
        starts = [0] if place.rows is None else (np.unique(place.rows) * region.row).tolist()
        for start in starts:
            region.state[start + place.start : start + place.end] = WRITTEN
            if self.fingerprints is not None:
                self.fingerprints.changed(region, np.arange(start + place.start, start + place.end))

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
        if (state == PATTERNS[KNOWN, total]).all():
            return region.view(size, parts)[index]
        if (state == PATTERNS[WRITTEN, total]).all():
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
        region.bounds = None
        if self.fingerprints is not None:
            self.fingerprints.changed(region, offset[..., None] + np.arange(total))
        if value is UNKNOWN:
            if not (region.first == WRITTEN and region.state is None):
                region.state_view(total)[index] = PATTERNS[WRITTEN, total]
            return
        data, known = (value, True) if value.__class__ is np.ndarray else (value.data, value.known)
        if index.shape[0] == 1 and data.shape[0] > 1:
            index = np.broadcast_to(index, data.shape[:1])
        region.view(size, parts)[index] = data.astype(f"u{size}", copy=False)
        if not self.tracing:
            if region.first != KNOWN:
                region.state_view(total)[index] = PATTERNS[KNOWN, total]
            return
        if known is True:
            region.state_view(total)[index] = PATTERNS[KNOWN, total]
        else:
            patterns = np.where(known, PATTERNS[KNOWN, total], PATTERNS[WRITTEN, total])
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
        return bool(((state == PATTERNS[WRITTEN, 16]) | (state == PATTERNS[KNOWN, 16])).all())

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
            if self.fingerprints is not None:
                first_byte = cta[:, k].astype(np.int64) * self.shared.row + start
                index = first_byte[:, None] + np.arange(size)
                self.fingerprints.changed(self.shared, index)
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

    def _has_writers(self, space: Space | str) -> bool:
        if space == Space.GLOBAL:
            return any(region.writer is not None for region in self.tensors)
        return self._row_region(space).writer is not None


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


def footprint(
    space: Space, mode: Mode, address: np.ndarray, size: int, n: int, cta: Any, may: bool
) -> Footprint:
    """One piece per lane."""
    starts = np.broadcast_to(address, (n,))[:, None] if address.shape[0] == 1 else address[:, None]
    if cta is not None:
        cta = cta[:, None]
    return Footprint(space, mode, starts, size, cta=cta, may=may)
