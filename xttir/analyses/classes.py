"""Thread classes: lanes of one warp that take part in what orders events in the same way.

Lanes of a class can be exchanged without changing anything that orders events: the same ordering
instructions together, the same barriers in the same phases, the same masks. So an ordered pair of
events of two distinct lanes of a class is ordered by the same path for every such pair, and two
representatives ("reps") of each class say all there is to say. What is not symmetric splits the
class: barrier operands, phases, masks, and the single lanes of value-passing accesses. Other
accesses order nothing: lanes of a class may differ in them, and a rep lends its clock to a lane
whose access it has no part in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.named_barriers import WARP, Meetings
from xttir.analyses.project import Blocks, View
from xttir.analyses.replay import Replay
from xttir.analyses.values import ValueEdges


@dataclass(slots=True)
class Cast:
    """The reps that take part in an event: of lanes `lanes`, classes `classes`.

    `first`, `second`: reps of each class (second = first where the class has one lane). `reps`:
    all of them, ascending, `pick` the same as a slice where they are neighbours.
    """

    lanes: np.ndarray
    classes: np.ndarray
    first: np.ndarray
    second: np.ndarray
    reps: np.ndarray
    pick: np.ndarray | slice
    actor: np.ndarray
    """Position of each lane's class in `classes`."""
    alone: np.ndarray
    """bool by class: it has one lane."""
    units: dict[int, Units] = field(default_factory=dict)
    """By number of lanes."""
    warps: tuple[np.ndarray, np.ndarray, np.ndarray] | bool | None = False
    """See `Classes.warps`; False: not known yet."""


@dataclass(slots=True)
class Units:
    """Lanes that issue one operation together: by unit its first lane and its reps; the first
    rep stands for it."""

    lanes: np.ndarray
    rep: np.ndarray
    reps: list[np.ndarray]


@dataclass(slots=True)
class Classes:
    """`of`: class of each lane (-1: a lane with no event). Rep 2c is the first lane of class c,
    2c + 1 the second one (unused where there is none)."""

    of: np.ndarray
    members: list[np.ndarray]
    lane: np.ndarray
    """int32, by rep; -1: unused."""
    threads: int
    """Of a block."""
    casts: dict[int, Cast] = field(default_factory=dict)
    """By `View.key`."""

    @property
    def reps(self) -> int:
        return len(self.lane)

    def cast(self, view: View, rows: np.ndarray | None = None) -> Cast:
        """Who takes part in (rows of) a view."""
        if rows is not None and len(rows) != len(view.lanes):
            return self.make(view.lanes[rows])
        cast = self.casts.get(view.key)
        if cast is None:
            cast = self.casts[view.key] = self.make(view.lanes)
        return cast

    def make(self, lanes: np.ndarray) -> Cast:
        classes = np.unique(self.of[lanes])
        first = 2 * classes
        single = self.lane[first + 1] < 0
        second = np.where(single, first, first + 1)
        reps = np.unique(np.concatenate((first, second)))
        pick: np.ndarray | slice = reps
        if len(reps) and reps[-1] - reps[0] + 1 == len(reps):
            pick = slice(int(reps[0]), int(reps[-1]) + 1)
        actor = np.searchsorted(classes, self.of[lanes])
        return Cast(lanes, classes, first, second, reps, pick, actor, single)

    def warps(self, cast: Cast) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Reps by warp, where each warp begins and how many it has; None: one rep in every warp."""
        if cast.warps is False:
            lane = self.lane[cast.reps]
            cta = lane // self.threads
            warp = cta * 4096 + (lane - cta * self.threads) // WARP
            order = np.argsort(warp, kind="stable")
            _, starts, sizes = np.unique(warp[order], return_index=True, return_counts=True)
            cast.warps = (cast.reps[order], starts, sizes) if (sizes > 1).any() else None
        assert not isinstance(cast.warps, bool)
        return cast.warps

    def units(self, cast: Cast, unit: int) -> Units:
        """The units of a collective operation."""
        known = cast.units.get(unit)
        if known is None:
            groups = self.of[cast.lanes].reshape(-1, unit)
            reps = []
            for group in groups:
                classes = np.unique(group)
                both = np.concatenate((2 * classes, 2 * classes + 1))
                reps.append(np.sort(both[self.lane[both] >= 0]))
            rep = 2 * groups[:, 0]
            known = cast.units[unit] = Units(cast.lanes.reshape(-1, unit)[:, 0], rep, reps)
        return known


def thread_classes(blocks: Blocks, replayed: Replay, met: Meetings, values: ValueEdges) -> Classes:
    """The coarsest classes under which all events are symmetric."""
    part = _Partition(blocks)
    ordering = {v.key for v in blocks.views if not isinstance(v.event, ev.Access)}
    for key, lanes in enumerate(blocks.lane_sets):
        if key in ordering or values.any:
            part.split(lanes, None)
        else:
            part.used[lanes] = True
    for at, touches in replayed.touches.items():
        view = blocks.views[at]
        if len(touches) > 1 or touches[0].rows is not None:
            unit = view.event.unit if isinstance(view.event, ev.AsyncOp) else 1
            for touch in touches:
                if touch.rows is not None and len(touch.rows) * unit != len(view.lanes):
                    rows = touch.rows
                    if unit > 1:
                        rows = (rows[:, None] * unit + np.arange(unit)).reshape(-1)
                    part.split(view.lanes[rows], None)
    for at, parts in met.of.items():
        if len(parts) > 1:
            for _, share in parts:
                part.split(blocks.views[at].lanes[share.rows], None)
    readers = {index for index, _ in values.edges}
    for view in blocks.views:
        event = view.event
        if isinstance(event, ev.WarpSync | ev.Together):
            part.split(view.lanes, view.rows(event.mask))
        elif view.index in readers or view.index in values.writers:
            part.split(view.lanes, np.arange(len(view.lanes)))
    return part.done()


class _Partition:
    def __init__(self, blocks: Blocks):
        lane = np.arange(blocks.lanes)
        cta = lane // blocks.threads
        self.of = cta * -(-blocks.threads // WARP) + (lane - cta * blocks.threads) // WARP
        self.used = np.zeros(blocks.lanes, bool)
        self.seen: set[bytes] = set()
        self.threads = blocks.threads

    def split(self, lanes: np.ndarray, labels: np.ndarray | None) -> None:
        """Tell `lanes` from the others, and by their `labels` (n or 1) from each other."""
        varied = labels is not None and labels.size > 1 and bool((labels != labels[0]).any())
        code = lanes.tobytes() + (labels.tobytes() if labels is not None and varied else b"")
        if code in self.seen:
            return
        self.seen.add(code)
        self.used[lanes] = True
        mark = np.zeros(len(self.of), np.int64)
        mark[lanes] = 1
        if labels is not None and varied:
            _, where = np.unique(labels, return_inverse=True)
            mark[lanes] = where.reshape(-1) + 1
        _, where = np.unique(self.of * (int(mark.max()) + 1) + mark, return_inverse=True)
        self.of = where.reshape(-1)

    def done(self) -> Classes:
        of = np.where(self.used, self.of, -1)
        kept, starts = np.unique(of, return_index=True)
        order = [c for _, c in sorted(zip(starts.tolist(), kept.tolist(), strict=True)) if c >= 0]
        final = np.full(len(of), -1, np.int32)
        members = []
        lane = np.full(2 * len(order), -1, np.int32)
        for number, name in enumerate(order):
            lanes = np.flatnonzero(of == name).astype(np.int32)
            final[lanes] = number
            members.append(lanes)
            lane[2 * number : 2 * number + 2][: len(lanes)] = lanes[:2]
        return Classes(final, members, lane, self.threads)
