"""mbarriers of a traced module: which words a descriptor names, and who works on which.

Every block holds the word of a barrier at the same offset. Where the descriptor's layout repeats an
element over blocks these share one barrier: the first of them holds it, arrivals of the others go
there, and only its own threads wait. The state is that of PTX (`interp.ptx.mbarrier_state`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Unsupported
from xttir.dialects.locations import location_of
from xttir.interp.tracing.footprints import copies, used
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

ONE = np.ones(1, np.int64)
ZERO = np.zeros(1, np.int64)


def known_view(op: Operation, value: Any) -> View:
    """A descriptor. Raises `Unsupported` where it is not known which."""
    if isinstance(value, View):
        return value
    raise Unsupported("a memory descriptor that is not known", location_of(op))


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """`offset`: of the word, in shared memory. `holder`: int32 by rank of a block of the program,
    the rank of the block whose word it uses. `holders`: int32, ranks of the blocks that hold it."""

    offset: int
    holder: np.ndarray
    holders: np.ndarray

    @property
    def sharers(self) -> int:
        """How many blocks use one word."""
        return self.holder.size // self.holders.size

    def held(self, a: Agent, lanes: np.ndarray) -> np.ndarray:
        """The threads among `lanes` whose block holds a word."""
        if self.sharers == 1:
            return lanes
        mine = np.zeros(a.blocks, bool)
        mine[self.holders] = True
        return a.only_blocks(lanes, mine)

    def places(self, a: Agent, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(address int64, block int32), (n, 1): the word that each thread's block uses."""
        block = a.block_of(lanes)
        if self.sharers > 1:
            first = a.tracer.first_block
            block = self.holder[block - first] + np.int32(first)
        return np.full((lanes.size, 1), self.offset, np.int64), block[:, None]

    def index(self, a: Agent, ranks: np.ndarray | None = None) -> np.ndarray:
        """int64: where `MBarriers` keeps the words in the blocks of some ranks (of all holders)."""
        m = a.tracer.mbarriers
        return (self.holders if ranks is None else ranks) * m.capacity + m.slot_of[self.offset >> 3]


def barrier_of(a: Agent, op: Operation, value: Any) -> Barrier:
    """The barrier that a descriptor names, of several in a block the first (as lowered)."""
    view = known_view(op, value)
    used(a, view)
    known = a.tracer.state.setdefault("barriers", {})
    key = (view.pattern, view.shift, id(view.ty))
    found = known.get(key)
    if found is None:
        ranks = np.arange(a.blocks, dtype=np.int32)
        holder = ranks & ~np.int32(copies(view.ty)) if a.blocks > 1 else ranks
        found = known[key] = made(a, op, view.start, holder)
    return found


def made(a: Agent, op: Operation, offset: int, holder: np.ndarray) -> Barrier:
    """The barrier at an offset (see `Barrier`)."""
    a.tracer.mbarriers.place(np.full(1, offset), np.zeros(1, np.int64), faults(a, op))
    return Barrier(offset, holder, np.unique(holder))


def faults(a: Agent, op: Operation) -> Callable[..., None]:
    """Where `MBarriers` reports what is wrong."""

    def fault(kind: Kind, message: str) -> None:
        a.fault(op, kind, message)

    return fault


def live(a: Agent, op: Operation, b: Barrier) -> None:
    """Wait until the words of `b` are initialised: in this schedule that comes before their use."""
    m = a.tracer.mbarriers
    if not m.live[b.index(a)].all():
        a.wait_until(
            op,
            lambda: bool(m.live[b.index(a)].all()),
            lambda: "an mbarrier that is not initialised",
        )


def update(
    a: Agent,
    op: Operation,
    b: Barrier,
    cta: np.ndarray,
    arrivals: np.ndarray | int,
    expect: np.ndarray | int,
) -> None:
    """Announce `expect` bytes (negative: they are there) and arrive, at the words of `b` in the
    blocks `cta`, an array of any shape. Counts are one number or an array of that shape."""
    index = b.index(a, (cta - a.tracer.first_block).reshape(-1))
    if isinstance(arrivals, np.ndarray):
        arrivals = np.broadcast_to(arrivals, cta.shape).reshape(-1)
    if isinstance(expect, np.ndarray):
        expect = np.broadcast_to(expect, cta.shape).reshape(-1)
    a.tracer.mbarriers.update(index, arrivals, expect, faults(a, op))
