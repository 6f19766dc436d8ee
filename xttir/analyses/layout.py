"""Where the footprints of a set of blocks lie: grounds cut into atoms, and the print of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Space
from xttir.analyses.ground import Ground, Print
from xttir.analyses.project import Blocks, View

CELLS = 128 * 512
"""Tensor memory of a block."""

BARRIER = 8
"""Bytes of an mbarrier."""


@dataclass(slots=True)
class Spot:
    """A print of a footprint, and the row of the event that each of its rows belongs to.

    `column`: of a multicast, the barrier operand that this part completes on; -1: not of one.
    """

    space: Space
    print: Print
    row: np.ndarray
    column: int = -1


@dataclass(slots=True)
class Layout:
    grounds: dict[Space, Ground] = field(default_factory=dict)
    spots: dict[tuple[int, int], list[Spot]] = field(default_factory=dict)
    """By position of the event and number of the footprint."""
    shared_stride: int = 0

    def find(self, at: int, index: int) -> list[Spot]:
        return self.spots.get((at, index), [])


GlobalPlaces = Callable[[View, Footprint], tuple[np.ndarray, np.ndarray] | None]
"""(places int64 (rows, pieces), rows of the event) of a global footprint that may conflict."""


def lay_out(blocks: Blocks, places: GlobalPlaces | None, local: bool = True) -> Layout:
    """Prints of all footprints. `local`: of shared and tensor memory too; `places` chooses those
    of global memory (None: none)."""
    out = Layout()
    for space in Space:
        out.grounds[space] = Ground("cell" if space is Space.TENSOR else "byte")
    out.shared_stride = _stride(blocks) if local else 0
    out.grounds[Space.SHARED].period = out.shared_stride or 1
    lane_rows: dict[int, np.ndarray] = {}
    for at, view in enumerate(blocks.views):
        event = view.event
        if isinstance(event, ev.Access | ev.AsyncOp):
            unit = event.unit if isinstance(event, ev.AsyncOp) else 1
            for index, f in enumerate(event.footprints):
                if f.space is Space.GLOBAL:
                    chosen = places(view, f) if places is not None else None
                    if chosen is not None:
                        print_ = out.grounds[f.space].add(chosen[0], f.size)
                        out.spots[at, index] = [Spot(f.space, print_, chosen[1])]
                elif local:
                    out.spots[at, index] = _spots(blocks, out, view, event, f, unit, lane_rows)
        elif local and isinstance(event, ev.BarrierInit | ev.BarrierInval):
            n = len(view.lanes)
            address = np.broadcast_to(view.rows(event.address), (n,))
            starts = (view.lanes // blocks.threads) * out.shared_stride + address
            print_ = out.grounds[Space.SHARED].add(starts[:, None], BARRIER)
            out.spots[at, 0] = [Spot(Space.SHARED, print_, np.arange(n))]
        elif local and isinstance(event, ev.TensorAlloc | ev.TensorDealloc):
            ctas = np.unique(view.lanes // blocks.threads)
            lane = np.arange(128) * 512 + event.base
            starts = (ctas[:, None] * CELLS + lane).astype(np.int64)
            print_ = out.grounds[Space.TENSOR].add(starts, event.columns)
            rows = np.searchsorted(view.lanes // blocks.threads, ctas)
            out.spots[at, 0] = [Spot(Space.TENSOR, print_, rows)]
    for space, ground in out.grounds.items():
        ground.cut(sparse=space is Space.GLOBAL)
    return out


def _stride(blocks: Blocks) -> int:
    """Room for the shared memory of a block in its ground: a multiple of 1024."""
    top = blocks.trace.shared_bytes
    for view in blocks.views:
        event = view.event
        if isinstance(event, ev.Access | ev.AsyncOp):
            for f in event.footprints:
                if f.space is Space.SHARED and f.starts.size:
                    top = max(top, int(f.starts.max()) + f.size)
        elif isinstance(event, ev.BarrierInit):
            top = max(top, int(event.address.max()) + BARRIER)
    return -(-top // 1024) * 1024


def _spots(
    blocks: Blocks,
    layout: Layout,
    view: View,
    event: ev.Access | ev.AsyncOp,
    f: Footprint,
    unit: int,
    lane_rows: dict[int, np.ndarray],
) -> list[Spot]:
    stride = layout.shared_stride if f.space is Space.SHARED else CELLS
    n = len(view.lanes) // unit
    starts = view.rows(f.starts, unit)
    if f.cta is None:
        cta = (view.lanes[::unit] // blocks.threads)[:, None]
        if (cta == cta[0]).all():
            cta = cta[:1]
    else:
        cta = np.asarray(f.cta)
        if cta.ndim == 2:
            cta = view.rows(cta, unit)
        cta = cta - blocks.first
    places = np.where(starts >= 0, starts + cta.astype(np.int64) * stride, -1)
    if places.shape[0] != n:
        places = np.broadcast_to(places, (n, places.shape[1]))
    ground = layout.grounds[f.space]
    rows = lane_rows.setdefault(n, np.arange(n))
    if isinstance(event, ev.AsyncOp) and isinstance(event.completion, ev.ByBytes):
        there = view.rows(event.completion.address, unit) >= 0
        if there.shape[-1] > 1 and f.mode is not ev.Mode.READ:
            return _multicast(f, ground, places, rows, stride, there)
    return [Spot(f.space, ground.add(np.ascontiguousarray(places), f.size), rows)]


def _multicast(
    f: Footprint,
    ground: Ground,
    places: np.ndarray,
    rows: np.ndarray,
    stride: int,
    there: np.ndarray,
) -> list[Spot]:
    """One spot for each destination block, in order of the barriers, which stand in order of the
    destinations. Where they do not match, every part waits for all barriers. `there`: bool by
    barrier; a mask may leave some of them out."""
    blocks = np.where(places >= 0, places // stride, -1)
    ordered = np.sort(blocks, axis=1)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    there = np.broadcast_to(there, (len(places), there.shape[-1]))
    if (fresh.sum(axis=1) != there.sum(axis=1)).any():
        return [Spot(f.space, ground.add(np.ascontiguousarray(places), f.size), rows)]
    destinations = np.full(there.shape, -1, ordered.dtype)
    destinations[there] = ordered[fresh]
    out = []
    for column in np.flatnonzero(there.any(axis=0)).tolist():
        to = destinations[:, column : column + 1]
        part = np.where((blocks == to) & (to >= 0), places, -1)
        keep = (part >= 0).any(axis=0)
        print_ = ground.add(np.ascontiguousarray(part[:, keep]), f.size)
        out.append(Spot(f.space, print_, rows, column))
    return out
