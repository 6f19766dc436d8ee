"""One cluster of a trace, and which clusters are alike.

A launch repeats itself: most clusters do the same at other global addresses. `clusters` groups them
by their event sequences, compared exactly in everything but global addresses, so that order is
worked out once for each group. `project` gives the events of one cluster as views, no copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Event, Footprint, Space, Trace


@dataclass(slots=True)
class View:
    """An event as one set of blocks sees it.

    `lanes`: int32, counted from the first lane of the blocks. Rows of the event's arrays are
    [lo, hi); `key` names the set of lanes: equal keys are equal sets.
    """

    index: int
    event: Event
    lanes: np.ndarray
    lo: int
    hi: int
    key: int

    def rows(self, array: np.ndarray, unit: int = 1) -> np.ndarray:
        """The part of `array` (lanes or units first, or size 1) that belongs here."""
        if array.shape[0] == 1:
            return array
        return array[self.lo // unit : self.hi // unit]


@dataclass(slots=True)
class Blocks:
    """Neighbouring blocks of a trace and their events, in order."""

    trace: Trace
    first: int
    """Linear index of the first block."""
    count: int
    views: list[View] = field(default_factory=list)
    lane_sets: list[np.ndarray] = field(default_factory=list)
    """By `View.key`."""

    @property
    def threads(self) -> int:
        return self.trace.threads_per_cta

    @property
    def lanes(self) -> int:
        return self.count * self.trace.threads_per_cta

    @property
    def base(self) -> int:
        """Launch number of lane 0."""
        return self.first * self.trace.threads_per_cta

    def lanes_of(self, view: View) -> np.ndarray:
        """Launch numbers of the lanes."""
        return view.lanes + self.base


def project(trace: Trace, first: int, count: int) -> Blocks:
    """The events of blocks [first, first + count)."""
    blocks = Blocks(trace, first, count)
    low, high = blocks.base, blocks.base + blocks.lanes
    interned: dict[bytes, int] = {}
    by_identity: dict[int, tuple[np.ndarray, np.ndarray, int, int, int]] = {}
    for index, event in enumerate(trace.events):
        known = by_identity.get(id(event.lanes))
        if known is None:
            all_lanes = event.lanes
            lo, hi = (int(i) for i in np.searchsorted(all_lanes, (low, high)))
            lanes = (all_lanes[lo:hi] - low).astype(np.int32)
            key = -1
            if hi > lo:
                key = interned.setdefault(lanes.tobytes(), len(interned))
                if key == len(blocks.lane_sets):
                    blocks.lane_sets.append(lanes)
                lanes = blocks.lane_sets[key]
            known = by_identity[id(event.lanes)] = (all_lanes, lanes, lo, hi, key)
        _, lanes, lo, hi, key = known
        if key >= 0:
            blocks.views.append(View(index, event, lanes, lo, hi, key))
    return blocks


# Which clusters are alike -------------------------------------------------------------------------


@dataclass(slots=True)
class Alike:
    """Clusters with equal events, by number: the first block divided by the blocks of a cluster.

    `parts`: those of each part take part in the very same `Trace.events`.
    """

    parts: list[list[int]]

    @property
    def members(self) -> list[int]:
        return [m for part in self.parts for m in part]


def clusters(trace: Trace) -> list[Alike]:
    """All clusters, grouped; the first member of each group speaks for it."""
    size = trace.threads_per_cta * trace.ctas_per_cluster
    numbers = np.unique(trace.ctas // trace.ctas_per_cluster)
    if len(numbers) == 1:
        return [Alike([[int(numbers[0])]])]
    contents = _Intern()
    following = _Intern()
    top = int(numbers[-1]) + 1
    state = np.zeros(top, np.int64)
    place = np.zeros(top, np.int64)
    """Like `state`, with the event's own index in the key."""
    splits: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, bool]] = {}
    for index, event in enumerate(trace.events):
        known = splits.get(id(event.lanes))
        if known is None:
            known = splits[id(event.lanes)] = (event.lanes, *_split(event.lanes, size))
        _, who, ends, same = known
        labels = _contents(event, trace, who, ends, same, contents)
        _advance(state, who, labels, following)
        _advance(place, who, labels * len(trace.events) + index, following)
    groups: dict[int, dict[int, list[int]]] = {}
    for number in numbers.tolist():
        parts = groups.setdefault(int(state[number]), {})
        parts.setdefault(int(place[number]), []).append(number)
    return [Alike(list(parts.values())) for parts in groups.values()]


class _Intern:
    """Small numbers for hashable things, in order of appearance, from 1."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        return self.numbers.setdefault(thing, len(self.numbers) + 1)


def _advance(state: np.ndarray, who: np.ndarray, labels: np.ndarray, intern: _Intern) -> None:
    """The state of each cluster in `who` after an event with content `labels`."""
    old = state[who]
    if (old == old[0]).all() and (labels == labels[0]).all():
        state[who] = intern((int(old[0]), int(labels[0])))
        return
    pairs, where = np.unique(np.stack((old, labels)), axis=1, return_inverse=True)
    new = np.array([intern((int(a), int(b))) for a, b in pairs.T], np.int64)
    state[who] = new[where.reshape(-1)]


def _split(lanes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Clusters in `lanes`, row bounds of each, and whether all have the same lanes in them."""
    cluster = lanes // size
    who = np.unique(cluster)
    ends = np.append(np.searchsorted(cluster, who), len(lanes))
    width = len(lanes) // len(who)
    same = bool((np.diff(ends) == width).all())
    if same:
        inside = (lanes - cluster * size).reshape(len(who), width)
        same = bool((inside == inside[0]).all())
    return who, ends, same


def _contents(
    event: Event, trace: Trace, who: np.ndarray, ends: np.ndarray, same: bool, intern: _Intern
) -> np.ndarray:
    """A number for what the event says of each cluster: equal numbers, equal content."""
    head, arrays = describe(event, trace)
    size = trace.threads_per_cta * trace.ctas_per_cluster
    if same:
        varied = [a for a in arrays if a[1].shape[0] > 1]
        if all(_alike(a, len(who), size // trace.threads_per_cta, who) for a in varied):
            first = (who[0], 0, int(ends[1]))
            return np.full(len(who), intern(_key(event, head, arrays, size, trace, *first)))
    rows = zip(who.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return np.array([intern(_key(event, head, arrays, size, trace, *r)) for r in rows], np.int64)


_Array = tuple[bool, np.ndarray]
"""(holds block numbers, array with rows first)."""


def _alike(entry: _Array, count: int, ctas: int, who: np.ndarray) -> bool:
    """Whether the rows of every cluster are those of the first."""
    blocks, array = entry
    folded = array.reshape(count, -1)
    if blocks:
        folded = np.where(folded < 0, folded, folded - (who * ctas)[:, None])
    return bool((folded == folded[0]).all())


def _key(
    event: Event,
    head: tuple[Any, ...],
    arrays: list[_Array],
    size: int,
    trace: Trace,
    cluster: int,
    lo: int,
    hi: int,
) -> tuple[Any, ...]:
    n = len(event.lanes)
    parts: list[Any] = [head, (event.lanes[lo:hi] - cluster * size).tobytes()]
    for blocks, array in arrays:
        rows = array
        if array.shape[0] > 1:
            unit = n // array.shape[0]
            rows = array[lo // unit : hi // unit]
        if blocks:
            rows = np.where(rows < 0, rows, rows - cluster * trace.ctas_per_cluster)
        if rows.shape[0] > 1 and (rows == rows[0]).all():
            rows = rows[:1]
        parts.append((rows.shape[1:], rows.tobytes()))
    return tuple(parts)


def describe(event: Event, trace: Trace) -> tuple[tuple[Any, ...], list[_Array]]:
    """What is the same for all lanes, and the arrays over lanes or units (rows first)."""
    head: list[Any] = [type(event).__name__, event.ins]
    arrays: list[_Array] = []
    for entry in fields(event):
        if entry.name in ("ins", "lanes"):
            continue
        value = getattr(event, entry.name)
        if entry.name == "footprints":
            for footprint in value:
                _describe_footprint(footprint, head, arrays)
        elif entry.name == "completion":
            _describe_completion(value, head, arrays)
        elif entry.name == "leaves":
            arrays += [(False, a) for a in value.registers(event.lanes)] if value else []
        elif entry.name in ("operation", "operand", "value", "origin") and not trace.spins:
            continue
        elif isinstance(value, np.ndarray):
            if not (isinstance(event, ev.ProxyFence) and entry.name == "address"):
                arrays.append((entry.name == "cta", value))
        else:
            head.append(value)
    return tuple(head), arrays


def _describe_footprint(footprint: Footprint, head: list[Any], arrays: list[_Array]) -> None:
    f = footprint
    head += [f.space, f.mode, f.size, f.proxy, f.may]
    arrays.append((False, f.starts < 0 if f.space is Space.GLOBAL else f.starts))
    if f.cta is not None:
        arrays.append((True, f.cta))


def _describe_completion(value: ev.Completion, head: list[Any], arrays: list[_Array]) -> None:
    head.append(type(value).__name__)
    if isinstance(value, ev.ByBytes):
        arrays += [(False, value.address), (True, value.cta), (False, value.bytes)]
    elif isinstance(value, ev.ByCommit):
        head.append(value.cta_group)
    elif isinstance(value, ev.ByTensorWait):
        head.append(value.which)
