"""Stretches of memory of which an access touches some place: its address depends on data.

They are as long as the bounds of the address say. Where these are not known, or reach out of the
tensor although that may be excluded by what is not known, the access is assumed to stay in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses.events import Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.regions import GLOBAL_BASE, GLOBAL_BITS, Region
from xttir.interp.ptx.spread import Spread

if TYPE_CHECKING:
    from xttir.interp.ptx.actual_step import ActualStep

MOST = 1 << 22
"""Elements that the lanes of one access may touch, all together."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Bytes [start, end) of a region, of the rows of blocks (or lanes) `rows`."""

    region: Region
    start: int
    end: int
    rows: np.ndarray | None

    @property
    def size(self) -> int:
        return self.end - self.start


def span(
    step: ActualStep,
    space: Space | str,
    address: Spread,
    total: int,
    rows: np.ndarray | None,
) -> Span:
    """Where an access of `total` bytes leads. `address`: in the space. Raises Unsupported."""
    memory = step.executor.memory
    if space == Space.GLOBAL:
        region = _tensor(step, address)
        first, last = 0, region.size
        base, name = region.base, f"`{region.name}`"
    else:
        region = memory.shared if space == Space.SHARED else memory.local
        limit = memory.shared_bytes if space == Space.SHARED else memory.local_bytes
        base, name = 0, region.name
        first, last = 0, limit
        if not address.finite and space == Space.SHARED:
            first, last, name = _variable(step, address, limit)
    start, end = first, last
    if address.finite:
        low = int((address.known + address.low).min()) - base
        high = int((address.known + address.high).max()) - base + total
        if low < first or high > last:
            _beyond(step, address, base, first, last, total, name)
        start, end = max(low, first), min(high, last)
        if start >= end:
            start, end = first, last
    else:
        step.assume(f"addresses that depend on data at {step.place()} are in {name}")
    start, end = start // total * total, min(-(-end // total) * total, last)
    return Span(region, start, end, rows)


def _tensor(step: ActualStep, address: Spread) -> Region:
    memory = step.executor.memory
    near = address.known if not address.finite else address.known + address.low
    numbers = (near - GLOBAL_BASE + (1 << GLOBAL_BITS - 1)) >> GLOBAL_BITS
    number = int(numbers[0])
    if (numbers != number).any() or not 0 <= number < len(memory.tensors):
        raise step.unsupported(
            "an address that is read from memory or computed from data",
            "give the tensors that it is read from an `init`",
        )
    return memory.tensors[number]


def _variable(step: ActualStep, address: Spread, limit: int) -> tuple[int, int, str]:
    """The variable of shared memory that the known part of an address lies in."""
    layout, kernel = step.executor.layout, step.executor.plan.kernel
    at = int(address.known.min())
    found = (0, limit, "shared memory")
    for name, (space, start) in layout.places.items():
        variable = kernel.variables.get(name)
        if space != "shared" or variable is None:
            continue
        end = start + variable.size if variable.size else limit
        if start <= at < end:
            found = (start, end, f"`{name}`")
    return found


def _beyond(
    step: ActualStep, address: Spread, base: int, first: int, last: int, total: int, name: str
) -> None:
    """Bounds reach out of the memory that is meant."""
    low, high = address.first - base, address.last - base + total
    out = (low < first) | (high > last)
    if address.datum is not None and not step.maybe:
        out = np.broadcast_to(out & (address.datum > 0), (step.n,))
        if out.any():
            at = int(np.argmax(out))
            where = int(np.broadcast_to(high, (step.n,))[at])
            step.fault(
                Kind.OUT_OF_BOUNDS,
                f"{step.ins.name} at an address that depends on data reaches byte {where - 1} of "
                f"{name}, which has {last} bytes, for values in the declared range",
                step.lanes[out],
            )
            return
    step.assume(f"addresses that depend on data at {step.place()} are in {name}")
