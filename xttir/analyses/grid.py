"""Global memory of a whole launch: which bytes can conflict at all, and between whom.

Most global memory is only read, or written once. One pass over all footprints, by arrays over all
blocks at once, finds the places that are touched twice with a write among them; only those go to
the sweeps that know order. Places that two clusters share are a matter of the whole launch: nothing
orders clusters but atomics (PTX ISA 9.1, 8.9), so a conflict there is a race unless a chain of
values orders it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.bounds import certain
from xttir.analyses.events import Event, Footprint, Mode, Scope, Sem, Space, Trace
from xttir.analyses.layout import GlobalPlaces
from xttir.analyses.project import View
from xttir.analyses.unused import Used

READ, WRITE, ATOMIC, SEVERAL = 1, 2, 4, 8
"""Bits of a place: what has touched it, and that two clusters have."""


@dataclass(slots=True)
class Region:
    """A stretch of global memory that is written; places are granules from `start`."""

    start: int
    end: int
    granule: int = 1
    bits: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    who: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """Cluster that touched a place first."""
    near: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    """Conflict within a cluster, perhaps."""
    far: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    """Conflict between clusters."""


@dataclass(slots=True)
class Grid:
    trace: Trace
    regions: list[Region]
    any_near: bool = False
    any_far: bool = False


def global_prints(trace: Trace) -> Iterator[tuple[int, Event, Footprint, int]]:
    """(index, event, footprint, lanes of a row) of the global footprints of a trace."""
    for index, event in enumerate(trace.events):
        if isinstance(event, ev.Access | ev.AsyncOp):
            for f in event.footprints:
                if f.space is Space.GLOBAL and f.starts.size:
                    unit = event.unit if isinstance(event, ev.AsyncOp) else 1
                    yield index, event, f, unit


def survey(trace: Trace) -> Grid:
    """The written regions of a trace, and the places of them that can conflict."""
    grid = Grid(trace, _written(trace))
    if not grid.regions:
        return grid
    size = trace.threads_per_cta * trace.ctas_per_cluster
    for _, event, f, unit in global_prints(trace):
        cluster = (event.lanes[::unit] // size).astype(np.int32)
        for region, starts, rows in inside(grid.regions, f.starts):
            first = (starts - region.start) // region.granule
            steps = np.arange(f.size // region.granule)
            spots = (first[:, None] + steps).reshape(-1)
            who = cluster[rows] if len(cluster) > 1 else np.broadcast_to(cluster, rows.shape)
            if f.starts.shape[0] == 1 and len(cluster) > 1:
                spots = np.tile(spots, len(cluster))
                who = np.repeat(cluster, len(first))
            _touch(region, f.mode, event, spots, np.repeat(who, len(steps)))
    for region in grid.regions:
        grid.any_near |= bool(region.near.any())
        grid.any_far |= bool(region.far.any())
    return grid


def inside(
    regions: list[Region], starts: np.ndarray
) -> Iterator[tuple[Region, np.ndarray, np.ndarray]]:
    """(region, starts (m,), rows (m,)) of the pieces that lie in each region."""
    low, high = int(starts.min()), int(starts.max())
    for region in regions:
        if high < region.start or low >= region.end:
            continue
        hit = (starts >= region.start) & (starts < region.end)
        if hit.any():
            yield region, starts[hit], np.nonzero(hit)[0]


def _written(trace: Trace) -> list[Region]:
    """Regions that hold all writes: the tensors, or stretches of written addresses elsewhere."""
    known = sorted((start, start + size) for _, start, size in trace.buffers)
    regions: dict[tuple[int, int], Region] = {}
    loose: list[tuple[int, int]] = []
    for _, _, f, _ in global_prints(trace):
        if f.mode is Mode.READ:
            continue
        valid = f.starts[f.starts >= 0]
        if not valid.size:
            continue
        for start, end in known:
            mine = (valid >= start) & (valid < end)
            if mine.any():
                regions.setdefault((start, end), Region(start, end))
                valid = valid[~mine]
                if not valid.size:
                    break
        if valid.size:
            loose.append((int(valid.min()), int(valid.max()) + f.size))
    for start, end in _merged(loose):
        regions[start, end] = Region(start, end)
    out = sorted(regions.values(), key=lambda r: r.start)
    common = [0] * len(out)
    top = [0] * len(out)
    bottom = [1 << 62] * len(out)
    number = {id(r): i for i, r in enumerate(out)}
    for _, _, f, _ in global_prints(trace):
        for region, starts, _ in inside(out, f.starts):
            i = number[id(region)]
            relative = starts - region.start
            common[i] = math.gcd(common[i], f.size, int(np.gcd.reduce(relative)))
            top[i] = max(top[i], int(relative.max()) + f.size)
            bottom[i] = min(bottom[i], int(relative.min()))
    for i, region in enumerate(out):
        region.granule = max(common[i], 1)
        region.start, region.end = region.start + bottom[i], region.start + top[i]
        count = -(-(top[i] - bottom[i]) // region.granule)
        region.bits = np.zeros(count, np.uint8)
        region.who = np.zeros(count, np.int32)
        region.near = np.zeros(count, bool)
        region.far = np.zeros(count, bool)
    return out


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _touch(region: Region, mode: Mode, event: Event, spots: np.ndarray, who: np.ndarray) -> None:
    """Note that clusters `who` touch `spots` and what conflicts with what was there."""
    before = region.bits[spots]
    strong = isinstance(event, ev.Access) and event.sem is not Sem.WEAK
    wide = isinstance(event, ev.AsyncOp) or (
        isinstance(event, ev.Access) and (event.scope >= Scope.GPU or event.sem is Sem.VOLATILE)
    )
    atomic = mode is Mode.RMW or strong
    if mode is Mode.READ:
        conflict = (before & (WRITE if atomic and wide else WRITE | ATOMIC)) != 0
    elif atomic:
        conflict = (before & (READ | WRITE if wide else READ | WRITE | ATOMIC)) != 0
    else:
        conflict = (before & (READ | WRITE | ATOMIC)) != 0
    if mode is Mode.READ:
        bit = ATOMIC if strong and wide else READ
    else:
        bit = ATOMIC if atomic else WRITE
    fresh = (before & (READ | WRITE | ATOMIC)) == 0
    region.who[spots[fresh]] = who[fresh]
    other = (region.who[spots] != who) | ((before & SEVERAL) != 0)
    region.near[spots[conflict]] = True
    region.far[spots[conflict & other]] = True
    region.bits[spots] = before | bit
    region.bits[spots[region.who[spots] != who]] |= SEVERAL
    if mode is not Mode.READ and len(spots) > 1:
        _doubles(region, spots, who, atomic and wide)


def _doubles(region: Region, spots: np.ndarray, who: np.ndarray, excused: bool) -> None:
    """Places that several rows of one event write."""
    low, high = int(spots.min()), int(spots.max())
    if high - low + 1 <= 4 * len(spots):
        mark = np.zeros(high - low + 1, np.int32)
        index = np.arange(len(spots), dtype=np.int32)
        mark[spots - low] = index
        last = mark[spots - low]
        double = last != index
    else:
        order = np.argsort(spots, kind="stable")
        s = spots[order]
        last = np.arange(len(spots))
        double = np.zeros(len(spots), bool)
        double[order[:-1]] = s[1:] == s[:-1]
        nxt = np.arange(len(spots))
        nxt[order[:-1]] = order[1:]
        last = nxt
    if double.any() and not excused:
        region.near[spots[double]] = True
        region.far[spots[double & (who[last] != who)]] = True


# What the sweeps look at --------------------------------------------------------------------------


MEMBER = 48
"""Places of the n-th member of a class start at n << MEMBER: addresses fit below."""


def near_places(grid: Grid, members: list[int]) -> GlobalPlaces | None:
    """Places, for `layout.lay_out`, of the global footprints of clusters `members` (by their first
    lanes; all in lockstep) that may conflict within a cluster."""
    regions = [r for r in grid.regions if r.near.any()]
    size = grid.trace.threads_per_cta * grid.trace.ctas_per_cluster
    if not regions:
        return None

    def places(view: View, f: Footprint) -> tuple[np.ndarray, np.ndarray] | None:
        if not _overlaps(regions, f.starts):
            return None
        unit = view.event.unit if isinstance(view.event, ev.AsyncOp) else 1
        n = len(view.lanes) // unit
        every, row = [], []
        for m, first in enumerate(members):
            lo, hi = np.searchsorted(view.event.lanes, (first, first + size)).tolist()
            starts = f.starts if f.starts.shape[0] == 1 else f.starts[lo // unit : hi // unit]
            kept = _flagged(regions, starts, f.size)
            if kept.any():
                mine = np.where(kept, starts + (m << MEMBER), -1)
                every.append(np.broadcast_to(mine, (n, starts.shape[1])))
                row.append(np.arange(n))
        if not every:
            return None
        return np.ascontiguousarray(np.concatenate(every)), np.concatenate(row)

    return places


def all_places(grid: Grid) -> GlobalPlaces:
    """Places of all footprints that may conflict, for the launch as one set of blocks."""
    regions = [r for r in grid.regions if r.near.any()]

    def places(view: View, f: Footprint) -> tuple[np.ndarray, np.ndarray] | None:
        if not regions or not _overlaps(regions, f.starts):
            return None
        unit = view.event.unit if isinstance(view.event, ev.AsyncOp) else 1
        n = len(view.lanes) // unit
        starts = view.rows(f.starts, unit)
        kept = _flagged(regions, starts, f.size)
        if not kept.any():
            return None
        mine = np.broadcast_to(np.where(kept, starts, -1), (n, starts.shape[1]))
        return np.ascontiguousarray(mine), np.arange(n)

    return places


def _overlaps(regions: list[Region], starts: np.ndarray) -> bool:
    low, high = int(starts.min()), int(starts.max())
    return any(high >= r.start and low < r.end for r in regions)


def _flagged(regions: list[Region], starts: np.ndarray, size: int) -> np.ndarray:
    """bool like `starts`: pieces that touch a place of a conflict."""
    out = np.zeros(starts.shape, bool)
    for region in regions:
        hit = (starts >= region.start) & (starts < region.end)
        if hit.any():
            first = (starts[hit] - region.start) // region.granule
            steps = np.arange(size // region.granule)
            out[hit] = region.near[first[:, None] + steps].any(axis=1)
    return out


# Conflicts between clusters -----------------------------------------------------------------------


@dataclass(slots=True)
class FarConflict:
    """Two accesses of one place by different clusters. Rows of the events' arrays."""

    x: int
    y: int
    x_print: Footprint
    y_print: Footprint
    x_lane: int
    y_lane: int
    """Launch numbers of lanes."""
    address: int
    scope: bool
    """Both are atomic, but not in a common scope."""
    unused: bool = False
    """One of them reads, and does nothing with the value; so do all pairs of these instructions."""


Touches = tuple[np.ndarray, np.ndarray, int, Footprint]
"""Addresses, lanes that touch them, event, footprint."""
Side = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""See `_side`."""


def far_conflicts(grid: Grid) -> list[FarConflict]:
    """One conflict for each pair of instructions that conflict between clusters."""
    trace = grid.trace
    size = trace.threads_per_cta * trace.ctas_per_cluster
    count = (int(trace.ctas.max()) + 1) * trace.threads_per_cta
    used = Used(trace, ((e.ins, e.lanes) for e in trace.events), count)
    regions = [r for r in grid.regions if r.far.any()]
    sides: dict[tuple[int, Mode], list[Touches]] = {}
    for index, event, f, unit in global_prints(trace):
        for region, starts, rows in inside(regions, f.starts):
            first = (starts - region.start) // region.granule
            steps = np.arange(f.size // region.granule)
            spots = first[:, None] + steps
            hit = region.far[spots]
            if not hit.any():
                continue
            lanes = np.broadcast_to(event.lanes[::unit], (max(len(event.lanes) // unit, 1),))
            lane = np.broadcast_to(lanes[rows][:, None], spots.shape)[hit]
            where = spots[hit] * region.granule + region.start
            sides.setdefault((event.ins, f.mode), []).append((where, lane, index, f))
    out = []
    keys = list(sides)
    merged = {key: _side(sides[key], size) for key in keys}
    for i, a in enumerate(keys):
        for b in keys[i:]:
            if a[1] is Mode.READ and b[1] is Mode.READ:
                continue
            found = _pair(trace, sides, merged, a, b, size)
            if found is not None and Mode.READ in (a[1], b[1]):
                read = a if a[1] is Mode.READ else b
                lanes = used.by_lane(read[0])
                if lanes is not None:
                    of_use = _used_pair(trace, sides, merged, a, b, size, read, lanes)
                    found = of_use or replace(found, unused=True)
            if found is not None:
                out.append(found)
    return out


def vague(trace: Trace, c: FarConflict) -> bool:
    """Whether that they touch one place is not certain: see `bounds`."""
    sides = ((c.x, c.x_print, c.x_lane), (c.y, c.y_print, c.y_lane))
    if all(f.bounds is None for _, f, _ in sides):
        return False
    rows = [int(np.searchsorted(trace.events[at].lanes, lane)) for at, _, lane in sides]
    return not certain(c.x_print.bounds, rows[0], c.y_print.bounds, rows[1], c.address, 1 << 62)


def _used_pair(
    trace: Trace,
    sides: dict[tuple[int, Mode], list[Touches]],
    merged: dict[tuple[int, Mode], Side],
    a: tuple[int, Mode],
    b: tuple[int, Mode],
    size: int,
    read: tuple[int, Mode],
    lanes: np.ndarray,
) -> FarConflict | None:
    """`_pair` with the lanes that use what they read."""
    kept = []
    for where, lane, index, f in sides[read]:
        mine = lanes[lane]
        if mine.any():
            kept.append((where[mine], lane[mine], index, f))
    if not kept:
        return None
    only = {a: sides[a], b: sides[b], read: kept}
    tidy = {a: merged[a], b: merged[b], read: _side(kept, size)}
    return _pair(trace, only, tidy, a, b, size)


def _side(entries: list[Touches], size: int) -> Side:
    """Distinct addresses, for each an entry of the first and of the last cluster; all clusters."""
    where = np.concatenate([e[0] for e in entries])
    cluster = np.concatenate([e[1] for e in entries]) // size
    order = np.lexsort((cluster, where))
    places, starts = np.unique(where[order], return_index=True)
    ends = np.append(starts[1:], len(where)) - 1
    return places, order[starts], order[ends], cluster


def _pair(
    trace: Trace,
    sides: dict[tuple[int, Mode], list[Touches]],
    merged: dict[tuple[int, Mode], Side],
    a: tuple[int, Mode],
    b: tuple[int, Mode],
    size: int,
) -> FarConflict | None:
    pa, first_a, last_a, cluster_a = merged[a]
    pb, first_b, last_b, cluster_b = merged[b]
    both, ia, ib = np.intersect1d(pa, pb, assume_unique=True, return_indices=True)
    for x, y in ((first_a, last_b), (last_a, first_b)):
        differ = cluster_a[x[ia]] != cluster_b[y[ib]]
        if not differ.any():
            continue
        k = int(np.argmax(differ))
        one = _entry(sides[a], int(x[ia[k]]))
        two = _entry(sides[b], int(y[ib[k]]))
        excused, scope = _strong(trace, one, two, a[1], b[1])
        if excused:
            return None
        if one[0] > two[0]:
            one, two = two, one
        return FarConflict(one[0], two[0], one[2], two[2], one[1], two[1], int(both[k]), scope)
    return None


def _entry(entries: list[Touches], at: int) -> tuple[int, int, Footprint]:
    """(event, lane, footprint) of the at-th touch of a side."""
    for where, lane, index, f in entries:
        if at < len(where):
            return index, int(lane[at]), f
        at -= len(where)
    raise IndexError(at)


def _strong(
    trace: Trace,
    one: tuple[int, int, Footprint],
    two: tuple[int, int, Footprint],
    a: Mode,
    b: Mode,
) -> tuple[bool, bool]:
    """(no race: both strong in a common scope; both strong, but the scope is too small)."""
    scopes = []
    for (index, _, _), mode in ((one, a), (two, b)):
        event = trace.events[index]
        if isinstance(event, ev.AsyncOp):
            scopes.append(Scope.GPU if mode is Mode.RMW else None)
        elif isinstance(event, ev.Access):
            strong = mode is Mode.RMW or event.sem is not Sem.WEAK
            wide = Scope.SYS if event.sem is Sem.VOLATILE else event.scope
            scopes.append(wide if strong else None)
    if None in scopes:
        return False, False
    wide = min(s for s in scopes if s is not None) >= Scope.GPU
    return wide, not wide
