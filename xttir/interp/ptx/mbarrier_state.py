"""The state of all mbarriers of a launch, as arrays over (block, barrier).

A phase is complete when no arrival is pending and the byte count is zero, whichever of arrive,
expect_tx and complete_tx brings that about. Rules: PTX ISA 9.1, section 9.7.13.15, and what an H200
does where the text is silent: it traps on more arrivals than pending and on counts out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.diagnostics import Kind

MAX_COUNT = (1 << 20) - 1

Fault = Callable[..., Any]
"""(kind, message): reports a fault of the instruction at work."""


class MBarriers:
    """Flat indices are `block * capacity + slot`; a slot is an offset in shared memory."""

    def __init__(self, ctas: int, shared_bytes: int, progress: Callable[[], None]):
        self.ctas = ctas
        self.progress = progress
        self.slot_of = np.full(max(shared_bytes // 8, 1), -1, np.int64)
        self.offsets: list[int] = []
        self.capacity = 8
        size = ctas * self.capacity
        self.live = np.zeros(size, bool)
        self.phase = np.zeros(size, np.int64)
        self.expected = np.zeros(size, np.int64)
        self.pending = np.zeros(size, np.int64)
        self.tx = np.zeros(size, np.int64)

    # Indices --------------------------------------------------------------------------------------

    def place(self, offset: np.ndarray, cta: np.ndarray, fault: Fault) -> np.ndarray:
        """Flat indices of barriers at shared offsets (broadcast with `cta`), new ones added; -1
        for negative offsets and for addresses that cannot hold a barrier."""
        bad = (offset >= 0) & ((offset & 7 != 0) | (offset >= 8 * self.slot_of.size))
        if bad.any():
            where = int(np.broadcast_to(offset, bad.shape)[bad].flat[0])
            reason = "not a multiple of 8" if where & 7 else "outside the block's shared memory"
            fault(Kind.OUT_OF_BOUNDS, f"an mbarrier at {where:#x}, which is {reason}")
            offset = np.where(bad, -1, offset)
        none = offset < 0
        slots = self.slot_of[offset >> 3]
        new = (slots < 0) & ~none
        if new.any():
            for where in np.unique(offset[new]):
                self._add(int(where))
            slots = self.slot_of[offset >> 3]
        index = cta.astype(np.int64) * self.capacity + slots
        return np.where(none, -1, index) if none.any() else index

    def _add(self, offset: int) -> None:
        self.slot_of[offset >> 3] = len(self.offsets)
        self.offsets.append(offset)
        if len(self.offsets) > self.capacity:
            for name in ("live", "phase", "expected", "pending", "tx"):
                old = getattr(self, name).reshape(self.ctas, self.capacity)
                new = np.zeros((self.ctas, 2 * self.capacity), old.dtype)
                new[:, : self.capacity] = old
                setattr(self, name, new.reshape(-1))
            self.capacity *= 2

    # Operations -----------------------------------------------------------------------------------

    def init(self, index: np.ndarray, count: np.ndarray, fault: Fault) -> None:
        count = np.broadcast_to(count, index.shape)
        bad = (count < 1) | (count > MAX_COUNT)
        if bad.any():
            fault(Kind.UNDEFINED, f"mbarrier.init with count {int(count[bad].flat[0])}")
            count = np.clip(count, 1, MAX_COUNT)
        if self.live[index].any():
            fault(Kind.LIFETIME, "mbarrier.init of a barrier that is in use (inval it first)")
        self.live[index] = True
        self.phase[index] = 0
        self.expected[index] = self.pending[index] = count
        self.tx[index] = 0
        self.progress()

    def inval(self, index: np.ndarray, fault: Fault) -> None:
        self.check_live(index, fault)
        self.live[index] = False

    def check_live(self, index: np.ndarray, fault: Fault) -> None:
        if not self.live[index].all():
            fault(Kind.LIFETIME, "use of an mbarrier that is not initialised")

    def update(
        self,
        index: np.ndarray,
        arrivals: np.ndarray | int,
        expect: np.ndarray | int,
        fault: Fault,
        drop: bool = False,
    ) -> np.ndarray:
        """Announce `expect` bytes (negative: complete them), then arrive, lane after lane.

        Flat indices (n,), none negative; the rest broadcasts. Returns the tokens (uint64, n) that
        the arrivals give.
        """
        n = index.size
        many = n > 1 and np.unique(index).size < n
        if not many:
            return self._apply(index, arrivals, expect, fault, drop)
        tokens = np.zeros(n, np.uint64)
        arrivals = np.broadcast_to(np.asarray(arrivals, np.int64), (n,))
        expect = np.broadcast_to(np.asarray(expect, np.int64), (n,))
        distinct, back = np.unique(index, return_inverse=True)
        total = np.bincount(back, arrivals).astype(np.int64)
        bytes_ = np.bincount(back, expect).astype(np.int64)
        left = self.pending[distinct]
        if drop:
            together = False
        elif (expect >= 0).all():
            # No phase completes before the last of them, whatever the order.
            together = bool((left >= total).all())
        else:
            # Bytes only: the count cannot come to zero on the way, or it does not matter.
            together = not arrivals.any() and bool(
                ((left > 0) | (self.tx[distinct] + bytes_ >= 0)).all()
            )
        if together:
            tokens = self._token(index, _running(back, arrivals))
            self._apply(distinct, total, bytes_, fault, drop)
            return tokens
        for k in range(n):
            one = slice(k, k + 1)
            tokens[one] = self._apply(index[one], arrivals[one], expect[one], fault, drop)
        return tokens

    def _apply(
        self, index: np.ndarray, arrivals: Any, expect: Any, fault: Fault, drop: bool
    ) -> np.ndarray:
        """`update` for distinct barriers."""
        self.check_live(index, fault)
        tokens = self._token(index, 0)
        tx = self.tx[index] + expect
        if (np.abs(tx) > MAX_COUNT).any():
            fault(Kind.PHASE, f"byte count {int(tx[np.argmax(np.abs(tx))])} out of range")
            tx = np.clip(tx, -MAX_COUNT, MAX_COUNT)
        self.tx[index] = tx
        # A byte count that comes to zero completes the phase before the arrival is counted.
        if np.any(expect):
            self._complete(index)
        if drop:
            self.expected[index] -= arrivals
        pending = self.pending[index] - arrivals
        over = pending < 0
        if np.any(over):
            left = int(self.pending[index][over].flat[0])
            count = int(np.broadcast_to(arrivals, pending.shape)[over].flat[0])
            fault(
                Kind.PHASE,
                f"{count} arrival{'s' if count > 1 else ''} on a barrier that waits for {left}",
            )
            pending = np.maximum(pending, 0)
        self.pending[index] = pending
        self._complete(index)
        return tokens

    def _complete(self, index: np.ndarray) -> None:
        done = (self.pending[index] == 0) & (self.tx[index] == 0) & self.live[index]
        if not done.any():
            return
        which = index[done] if index.size > 1 else index
        self.phase[which] += 1
        self.pending[which] = self.expected[which]
        self.progress()

    def add_pending(self, index: np.ndarray) -> None:
        """One more arrival is pending (each; indices may repeat)."""
        np.add.at(self.pending, index, 1)

    # Tokens and tests -----------------------------------------------------------------------------

    def _token(self, index: np.ndarray, earlier: Any) -> np.ndarray:
        """Phase parity in bit 63, pending count before the arrival below it, then the phase."""
        phase = self.phase[index].astype(np.uint64)
        pending = (self.pending[index] - earlier).astype(np.uint64) & np.uint64(MAX_COUNT)
        low = (phase & np.uint64((1 << 42) - 1)) << np.uint64(1)
        return ((phase & np.uint64(1)) << np.uint64(63)) | (pending << np.uint64(43)) | low

    def passed(self, index: np.ndarray, parity: np.ndarray) -> np.ndarray:
        """Whether a wait for this parity returns True."""
        return (self.phase[index] & 1) != parity


def token_phase(token: np.ndarray) -> np.ndarray:
    """The phase that a token names, int64."""
    return ((token >> np.uint64(1)) & np.uint64((1 << 42) - 1)).astype(np.int64)


def token_pending(token: np.ndarray) -> np.ndarray:
    """mbarrier.pending_count of a token."""
    return ((token >> np.uint64(43)) & np.uint64(MAX_COUNT)).astype(np.uint32)


def _running(group: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Per element the sum of the counts of earlier elements of its group."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(counts[order]) - counts[order]
    starts = np.concatenate([[True], group[order][1:] != group[order][:-1]])
    base = np.maximum.accumulate(np.where(starts, np.arange(group.size), 0))
    out = np.empty(group.size, np.int64)
    out[order] = sums - sums[base]
    return out
