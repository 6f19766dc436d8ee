"""Stores of TMA that may not have reached global memory yet, and who reads that memory too early.

A wait for stores that is `read_only` says only that shared memory has been read (PTX ISA,
cp.async.bulk.wait_group). What a program reads of its own stores before a wait for the stores
themselves is a race. Stores are remembered by storage, and looked at when somebody reads that
storage, which few kernels do.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.dialects.locations import locations_of
from xttir.interp.access import Piece
from xttir.interp.launch import Storage
from xttir.interp.machine import Machine


@dataclass
class Landing:
    """The stores to one storage: (who waits for it, the op, what it covers). `covered`: uint8 for
    each byte, not 0 where the first `marked` of them are."""

    storage: Storage
    stores: list[tuple[Hashable, Operation, Piece]] = field(default_factory=list)
    covered: np.ndarray | None = None
    marked: int = 0

    def touched(self, piece: Piece) -> bool:
        """Whether `piece` has a byte in common with a store."""
        if self.covered is None:
            self.covered = np.zeros(self.storage.bytes.size, np.uint8)
        for _, _, stored in self.stores[self.marked :]:
            word = np.dtype(f"u{stored.itemsize}")
            stored.write(self.covered, word, np.iinfo(word).max)
        self.marked = len(self.stores)
        return bool(piece.read(self.covered, np.dtype(f"u{piece.itemsize}")).any())


def launched(m: Machine, op: Operation, storage: Storage, piece: Piece) -> None:
    """`op` stores to `piece`, some time before its agent has waited for it."""
    found = m.landing.setdefault(id(storage), Landing(storage))
    found.stores.append((m.clock.component, op, piece))


def landed(m: Machine) -> None:
    """The agent has waited for its stores."""
    for key, found in list(m.landing.items()):
        kept = [store for store in found.stores if store[0] != m.clock.component]
        if kept:
            m.landing[key] = Landing(found.storage, kept)
        else:
            del m.landing[key]


def check_load(m: Machine, op: Operation, storage: Storage, piece: Piece) -> None:
    """Report a load of what a store may not have brought yet."""
    found = m.landing.get(id(storage))
    if found is None or not found.touched(piece):
        return
    stored = next(
        o for _, o, p in reversed(found.stores) if Landing(storage, [("", o, p)]).touched(piece)
    )
    places = locations_of(stored)
    others = (places[0].with_role("stored here"), *places[1:]) if places else ()
    m.log.report(
        op,
        Kind.RACE,
        "read of global memory that a TMA store of the same program may not have reached yet",
        key=(id(stored),),
        order=(int(m.pids.min()),),
        others=others,
        role="load",
        hint="wait for the store itself (async_tma_store_wait without read_only) before the load",
    )
