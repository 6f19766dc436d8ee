"""Help for instructions of many lanes: units of lanes, operands that agree, footprints by size.

A unit is the lanes that issue one operation: one, a warp, or a warpgroup. Values that all units
share stay size 1, so that work does not grow with the number of blocks that do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.instruction import UNKNOWN, Mem, Operand, Vec
from xttir.interp.ptx.step import Step


@dataclass(slots=True, eq=False)
class Units:
    """The units of a step: `count` of `size` lanes; `cta`, `tid` (int32) of their first lanes."""

    size: int
    count: int
    cta: np.ndarray
    tid: np.ndarray
    lanes: np.ndarray


def units(step: Step, size: int) -> Units:
    """The units of `size` lanes of this step; a `divergence` fault where lanes are missing."""
    n = step.lanes.size
    if size == 1:
        return Units(1, n, step.cta, step.tid, step.lanes)
    whole = n % size == 0
    if whole:
        first = step.lanes[::size]
        whole = bool((step.tid[::size] % size == 0).all())
        whole = whole and bool((step.lanes[size - 1 :: size] - first == size - 1).all())
    if not whole:
        what = "warp" if size == 32 else "warpgroup"
        raise Skip(
            step,
            Kind.DIVERGENCE,
            f"executed by only some of the {size} threads of a {what}",
        )
    return Units(size, n // size, step.cta[::size], step.tid[::size], step.lanes[::size])


class Skip(Exception):
    """The instruction is at fault and does nothing; the fault was reported."""

    def __init__(self, step: Step, kind: Kind, message: str, lanes: np.ndarray | None = None):
        super().__init__(message)
        step.fault(kind, message, lanes)


def give_up(step: Step) -> None:
    """After a fault: the registers that the instruction defines hold nothing of use."""
    for operand in step.ins.dst:
        if step.tracing:
            step.put(operand, UNKNOWN)
        elif isinstance(operand, Vec):
            step.put(operand, np.zeros((1, len(operand.parts)), np.uint32))
        else:
            step.put(operand, np.zeros(1, np.uint32))


def per_unit(step: Step, value: np.ndarray, group: Units, what: str) -> np.ndarray:
    """A value of the lanes as one of the units, (count,) or (1,): lanes of a unit must agree."""
    if value.shape[0] == 1:
        return value
    if group.size == 1:
        return value
    table = value.reshape(group.count, group.size)
    if not (table == table[:, :1]).all():
        raise Skip(step, Kind.MISUSE, f"{what} differs between the threads of a unit")
    return narrow(table[:, 0])


def narrow(value: np.ndarray) -> np.ndarray:
    """(n,) as (1,) where all agree."""
    if value.shape[0] > 1 and (value == value[0]).all():
        return value[:1]
    return value


def variants(columns: Sequence[np.ndarray], n: int) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Distinct combinations of integer values: (values, which of the n units have them)."""
    if all(c.shape[0] == 1 for c in columns):
        return [(tuple(int(c[0]) for c in columns), np.arange(n))]
    table = np.stack([np.broadcast_to(c, (n,)) for c in columns], axis=1)
    distinct, index = np.unique(table, axis=0, return_inverse=True)
    index = index.reshape(-1)
    return [
        (tuple(int(v) for v in row), np.flatnonzero(index == i)) for i, row in enumerate(distinct)
    ]


def rows(value: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rows `index` of an array over units, which may have size 1."""
    return value if value.shape[0] == 1 else value[index]


def by_size(
    space: Space,
    mode: Mode,
    starts: np.ndarray,
    sizes: np.ndarray,
    proxy: Proxy,
    cta: np.ndarray | None = None,
) -> Iterator[tuple[int, Footprint]]:
    """Footprints of rows with several sizes: (size, footprint) for each size above zero.

    `starts` int64 (rows, pieces), `sizes` int64 (rows,) or (1,): bytes of each piece of a row.
    """
    if sizes.shape[0] == 1:
        if sizes[0] > 0:
            yield int(sizes[0]), Footprint(space, mode, starts, int(sizes[0]), proxy, cta)
        return
    for size in np.unique(sizes):
        if size > 0:
            wanted = np.asarray(sizes) == size
            mine = np.where(np.reshape(wanted, (-1, 1)), starts, -1)
            yield int(size), Footprint(space, mode, mine, int(size), proxy, cta)


def footprint(
    space: Space,
    mode: Mode,
    starts: np.ndarray,
    size: int,
    cta: np.ndarray,
    proxy: Proxy = Proxy.GENERIC,
) -> Footprint:
    """A footprint with a row for each row of `cta`; the same pieces in all of them are a view."""
    rows = cta.shape[0]
    if starts.shape[0] != rows:
        starts = np.broadcast_to(starts, (rows, starts.shape[1]))
    return Footprint(space, mode, starts, size, proxy, cta)


def check_aligned(step: Step, address: np.ndarray, alignment: int, what: str) -> None:
    """A fault (and the end of the instruction) where an address is not aligned."""
    bad = (address % alignment != 0) & (address >= 0)
    if bad.any():
        value = int(np.broadcast_to(address, bad.shape)[bad].flat[0])
        raise Skip(
            step,
            Kind.UNDEFINED,
            f"{what} {value:#x} is not a multiple of {alignment}",
            lanes_of(step, bad),
        )


def lanes_of(step: Step, which: np.ndarray) -> np.ndarray | None:
    """Lanes of a bool array over the lanes or units of a step (None: all)."""
    which = np.asarray(which.reshape(which.shape[0], -1).any(axis=1))
    if which.shape[0] == 1:
        return None
    size = step.lanes.size // which.shape[0]
    return step.lanes[np.repeat(which, size)]


def shared_window(modifiers: Iterable[str]) -> str:
    """Which window shared addresses of an instruction are in."""
    return "shared::cluster" if "shared::cluster" in modifiers else "shared::cta"


def cluster_targets(step: Step, cta: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """int32 (units, blocks of a cluster): the blocks that a 16-bit mask names, -1 for none.

    `cta` (units,): a block of the cluster.
    """
    ranks = np.arange(step.ctas_per_cluster)
    base = (cta - cta % step.ctas_per_cluster)[:, None]
    named = (mask[:, None] >> ranks) & 1
    if (mask >> step.ctas_per_cluster).any():
        raise Skip(step, Kind.MISUSE, "the mask names blocks that the cluster does not have")
    return np.where(named == 1, base + ranks, -1).astype(np.int32)


def vector(operand: Operand) -> tuple[Operand, ...]:
    """The parts of a vector operand (one: itself)."""
    return operand.parts if isinstance(operand, Vec) else (operand,)


def memory_operand(step: Step, operand: Operand) -> Mem:
    if not isinstance(operand, Mem):
        raise step.unsupported("an address that is not in brackets")
    return operand
