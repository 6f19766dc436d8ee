"""Stores that a reader does not see yet: what a missing fence or release lets happen.

A generic store leaves the old bytes to the async proxy until a proxy fence, and a weak store leaves
them to other blocks until a release. A fence of a lane covers its own stores and those from before
it last synchronised, whoever made them: so the fence may stand on either side of a barrier. A
generic read brings a store to the async proxy as well. PTX ISA 9.1, 8.9.5 and 9.7.13; that
hardware shows the old bytes, and does not after such a read, was measured on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Proxy, Scope, Sem, Space

if TYPE_CHECKING:
    from xttir.interp.ptx.regions import Region

_RELEASES = frozenset({Sem.RELEASE, Sem.ACQ_REL, Sem.SC})
_ACQUIRES = frozenset({Sem.ACQUIRE, Sem.ACQ_REL, Sem.SC})
_LONG = 1024
"""Stores in a log from which on the dead ones among them are dropped."""


@dataclass(slots=True, eq=False)
class _Shadow:
    """Of a region, by words of 4 bytes: contents before the delayed stores, the time of the last
    of these (0: none), and the block that made it."""

    region: Region
    old: np.ndarray
    time: np.ndarray
    block: np.ndarray
    copied: np.ndarray
    """bool: cp.async made it."""


@dataclass(slots=True, eq=False)
class _Store:
    shadow: _Shadow
    words: np.ndarray
    lanes: np.ndarray
    """By word, or one for all."""
    time: int

    def alive(self) -> bool:
        return bool((self.shadow.time[self.words] == self.time).any())


def _words(offset: np.ndarray, total: int) -> np.ndarray:
    """(n, words) that pieces of `total` bytes touch; they are aligned."""
    first = offset.reshape(-1, 1) >> 2
    return first if total <= 4 else first + np.arange(total >> 2)


class Delayed:
    """The stores that one sort of reader does not see yet."""

    def __init__(self) -> None:
        self.shadows: dict[int, _Shadow] = {}
        self.logs: dict[int, list[_Store]] = {}
        """By cluster whose shared memory was written; -1: global memory."""

    def _shadow(self, region: Region) -> _Shadow:
        found = self.shadows.get(id(region))
        if found is None:
            n = region.allocated // 4
            kinds = (np.uint32, np.int32, np.int32, np.bool_)
            found = _Shadow(region, *(np.zeros(n, t) for t in kinds))
            self.shadows[id(region)] = found
        return found

    def note(
        self,
        region: Region,
        offset: np.ndarray,
        total: int,
        who: tuple[Any, int, int],
        time: int,
        copied: bool = False,
    ) -> None:
        """A store is going to be made. `who`: lanes (by piece, or one), block, log. `copied`: by
        cp.async."""
        shadow, (lanes, block, log) = self._shadow(region), who
        words = _words(offset, total)
        lanes = np.broadcast_to(lanes.reshape(-1, 1), words.shape).reshape(-1)
        words = words.reshape(-1)
        hidden = shadow.time[words] > 0
        shared = hidden & (shadow.block[words] != block)
        if shared.any():  # two blocks in one word: no bytes of it are anybody's alone
            shadow.time[words[shared]] = 0
            words, lanes, hidden = words[~shared], lanes[~shared], hidden[~shared]
        fresh = words[~hidden]
        shadow.old[fresh] = region.view(4, 1)[fresh]
        shadow.time[words] = time
        shadow.block[words] = block
        shadow.copied[words] = copied
        entries = self.logs.setdefault(log, [])
        entries.append(_Store(shadow, words, lanes, time))
        if len(entries) >= _LONG and len(entries) % _LONG == 0:
            self.logs[log] = [e for e in entries if e.alive()]

    def forget(self, region: Region, offset: np.ndarray, total: int) -> None:
        """Everybody sees these bytes as they are."""
        shadow = self.shadows.get(id(region))
        if shadow is not None:
            shadow.time[_words(offset, total)] = 0

    def seen(
        self,
        region: Region,
        offset: np.ndarray,
        total: int,
        value: np.ndarray,
        but: int = -1,
        until: int | None = None,
        copied: bool = False,
    ) -> np.ndarray:
        """`value` with the old bytes where stores are delayed, but for those of block `but`, those
        after time `until`, and (`copied`) those that cp.async has made."""
        shadow = self.shadows.get(id(region))
        if shadow is None:
            return value
        words = _words(offset, total)
        hidden = shadow.time[words] > 0
        if but >= 0:
            hidden &= shadow.block[words] != but
        if until is not None:
            hidden &= shadow.time[words] <= until
        if copied:
            hidden &= ~shadow.copied[words]
        if not hidden.any():
            return value
        if total < 4:
            old = shadow.old.view(f"u{total}")[offset.reshape(-1) // total]
            return np.where(hidden[:, 0], old.reshape(value.shape), value)
        raw = np.ascontiguousarray(value).view(np.uint32).reshape(words.shape)
        mixed = np.where(hidden, shadow.old[words], raw)
        return mixed.view(value.dtype).reshape(value.shape)

    def fence(self, log: int, lanes: np.ndarray, since: int) -> None:
        """The stores of these lanes, and all up to time `since`, become visible."""
        entries = self.logs.get(log)
        if not entries:
            return
        kept = []
        for entry in entries:
            if entry.time <= since:
                words = entry.words
            else:
                mine = np.isin(entry.lanes, lanes)
                words = entry.words[mine]
                if not mine.all():
                    kept.append(entry)
            entry.shadow.time[words[entry.shadow.time[words] <= entry.time]] = 0
        self.logs[log] = kept

    def flush(self) -> bool:
        """Make all stores visible; whether there were any."""
        any_ = False
        for shadow in self.shadows.values():
            any_ = any_ or bool(shadow.time.any())
            shadow.time[:] = 0
        self.logs.clear()
        return any_


class Delays:
    """`proxy`: stores that the async proxy does not see yet; `blocks`: that other blocks do not."""

    def __init__(self, lanes: int, threads: int, ranks: int, shared: Region, late_copies: bool):
        """`late_copies`: tensor cores see what cp.async has copied as late as anything else."""
        self.proxy = Delayed()
        self.blocks = Delayed()
        self.threads = threads
        self.ranks = ranks
        self.shared = shared
        self.clock = 1
        self.issued: dict[int, int] = {}
        """By operation in flight: when it was issued."""
        self.until = 0
        """When the operation that is being performed was: later stores do not escape it."""
        self.engine = ""
        """That performs it; "": an instruction is being executed."""
        self.late_copies = late_copies
        self.synchronised = np.zeros(lanes, np.int64)
        """By lane: when it last waited for others."""

    # Memory ---------------------------------------------------------------------------------------

    def storing(
        self,
        region: Region,
        offset: np.ndarray,
        total: int,
        proxy: Proxy,
        weak: bool,
        lanes: np.ndarray,
    ) -> None:
        """Bytes of shared or global memory are going to be written by lanes of one block."""
        if proxy is not Proxy.GENERIC:
            self.proxy.forget(region, offset, total)
            self.blocks.forget(region, offset, total)
            return
        self.clock += 1
        block = int(lanes[0]) // self.threads
        log = block // self.ranks if region is self.shared else -1
        who = (_by_piece(lanes, offset.size), block, log)
        self.proxy.note(region, offset, total, who, self.clock, self.engine == "cp.async")
        own = region is self.shared and (self.ranks == 1 or self._own(offset, block))
        if weak and not own:
            self.blocks.note(region, offset, total, who, self.clock)
        else:
            self.blocks.forget(region, offset, total)

    def _own(self, offset: np.ndarray, block: int) -> bool:
        return bool((offset // self.shared.row == block).all())

    def loaded(
        self,
        region: Region,
        offset: np.ndarray,
        total: int,
        value: np.ndarray,
        proxy: Proxy,
        lanes: np.ndarray,
    ) -> np.ndarray:
        """What lanes of one block read of memory that holds `value`."""
        value = self.blocks.seen(region, offset, total, value, int(lanes[0]) // self.threads)
        if proxy is Proxy.ASYNC:
            tensor = self.engine.startswith(("wgmma", "tcgen05")) and not self.late_copies
            return self.proxy.seen(region, offset, total, value, -1, self.until, tensor)
        self.proxy.forget(region, offset, total)
        return value

    # Synchronisation ------------------------------------------------------------------------------

    def happened(self, event: ev.Event) -> None:
        """An event of lanes of one block."""
        lanes = event.lanes
        if not lanes.size:
            return
        if isinstance(event, ev.ProxyFence):
            if event.proxy is Proxy.ASYNC:
                self._fence(self.proxy, lanes, event.spaces)
        elif _releases(event):
            self._fence(self.blocks, lanes, frozenset((Space.GLOBAL, Space.SHARED)))
        if _synchronises(event):
            self.synchronised[lanes] = self.clock

    def _fence(self, delayed: Delayed, lanes: np.ndarray, spaces: frozenset[Space]) -> None:
        since = int(self.synchronised[lanes].max())
        if Space.SHARED in spaces:
            delayed.fence(int(lanes[0]) // (self.threads * self.ranks), lanes, since)
        if Space.GLOBAL in spaces:
            delayed.fence(-1, lanes, since)


def _by_piece(lanes: np.ndarray, pieces: int) -> np.ndarray:
    """Which lane stores each of the pieces of a warp's store, as far as their numbers say."""
    n = lanes.size
    if pieces % n == 0:
        return np.repeat(lanes, pieces // n)
    return lanes[:: n // pieces] if n % pieces == 0 else lanes[:1]


def _releases(event: ev.Event) -> bool:
    """Whether other blocks see what the lanes have stored before."""
    match event:
        case ev.Fence():
            wide = event.scope > Scope.CTA and event.only != "mbarrier_init"
            return wide and event.sem in _RELEASES
        case ev.Access():
            return event.scope > Scope.CTA and event.sem in _RELEASES
        case ev.ClusterBarrier():
            return event.kind == "arrive" and event.sem is not Sem.RELAXED
        case ev.Arrive():
            return event.sem is not Sem.RELAXED
        case ev.Exit():
            return True
    return False


def _synchronises(event: ev.Event) -> bool:
    """Whether what others have stored before may come before what the lanes do now."""
    match event:
        case ev.Access() | ev.Fence():
            return event.sem in _ACQUIRES
        case ev.NamedBarrier() | ev.ClusterBarrier():
            return event.kind != "arrive"
        case ev.Wait() | ev.WarpSync():
            return True
    return False
