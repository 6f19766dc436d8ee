"""What orders two accesses: a chain of events, from one access to the other, for a reader.

The pass over the events is made again with an eye on one access: when each thread, by each notion
of order, has come to know that it is over. Walked backwards from the second access, every thread
got its knowledge at one event (a wait, a barrier, a fence), and there from a thread that knew
before, or from the completion of the access itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast
from xttir.analyses.events import Mode
from xttir.analyses.happens_before import Order
from xttir.analyses.layout import Layout, Spot
from xttir.analyses.project import Blocks, View
from xttir.analyses.proxies import MAP, needs, table
from xttir.analyses.races import Rows
from xttir.analyses.records import Record
from xttir.analyses.replay import Touch
from xttir.analyses.wording import Words
from xttir.diagnostics import Policy

Lines = tuple[int, int]

Found = tuple[list[str], tuple[int, int, int] | None]
"""Hops, and whose knowledge it was before them: (level, rep, until which event); None: it was the
completion of the access."""


@dataclass(slots=True)
class Side:
    """One access of a pair: event, footprint, part of it, row."""

    at: int
    index: int
    spot: Spot
    row: int = -1


@dataclass(slots=True)
class Pair:
    """`x` comes first in the trace; `place` is touched by both."""

    x: Side
    y: Side
    place: int


@dataclass(slots=True)
class Target:
    """What shows that the access is over: `chain` at `value`. `learned`: int64 (levels, reps), the
    event at which a rep came to know it, -1: not yet."""

    chain: int
    value: int
    learned: np.ndarray
    issue: bool = False
    """That it has been issued, which is enough where the hardware keeps the order of issue."""


def lines_of(blocks: Blocks, line: int) -> set[int]:
    """The instructions at a line: of the PTX text, or else made from that line of the source."""
    sources = blocks.trace.instructions
    own = {i for i, s in enumerate(sources) if s.locations and s.locations[0].line == line}
    if any(
        v.event.ins in own and isinstance(v.event, ev.Access | ev.AsyncOp) for v in blocks.views
    ):
        return own
    return {i for i, s in enumerate(sources) if any(p.line == line for p in s.locations[1:])}


def explain_pair(blocks: Blocks, layout: Callable[[Blocks], Layout], lines: Lines) -> Iterator[str]:
    """Paragraphs: for accesses from both lines that conflict, in each direction in which the trace
    has some, the path that orders them, or that there is none. Nothing when none conflict."""
    first, second = (lines_of(blocks, line) for line in lines)
    both = [(first, second)] if first == second else [(first, second), (second, first)]
    for before, after in both:
        pair = find_pair(blocks, layout(blocks), before, after)
        if pair is not None:
            yield Search(blocks, layout, pair).text()


# The pair -----------------------------------------------------------------------------------------


def find_pair(blocks: Blocks, layout: Layout, before: set[int], after: set[int]) -> Pair | None:
    """The first access by `after` to what one by `before` touched last, one of them a write;
    of different threads where there are such."""
    last = {
        (space, writes): np.full(ground.atoms, -1, np.int64)
        for space, ground in layout.grounds.items()
        for writes in (False, True)
    }
    sides: list[Side] = []
    spare: Pair | None = None
    for at, view in enumerate(blocks.views):
        event = view.event
        if not isinstance(event, ev.Access | ev.AsyncOp):
            continue
        spots = [
            (f, Side(at, i, spot))
            for i, f in enumerate(event.footprints)
            for spot in layout.find(at, i)
            if not f.may
        ]
        for f, side in spots if event.ins in after else ():
            seen = last[f.space, f.mode is Mode.READ][side.spot.print.atoms]
            for number in np.unique(seen[seen >= 0])[::-1].tolist():
                pair = _meet(blocks, layout, sides[number], side)
                if pair is not None and not _one_thread(blocks, pair):
                    return pair
                spare = spare or pair
        for f, side in spots if event.ins in before else ():
            for writes in (False, True):
                if f.mode is not Mode.READ or not writes:
                    last[f.space, writes][side.spot.print.atoms] = len(sides)
            sides.append(side)
    return spare


def _meet(blocks: Blocks, layout: Layout, x: Side, y: Side) -> Pair | None:
    """Rows of both that touch one place, of different lanes if possible."""
    if x.at == y.at:
        return None
    ground = layout.grounds[x.spot.space]
    gx, rx = ground.granules(x.spot.print)
    gy, ry = ground.granules(y.spot.print)
    order = np.argsort(gx, kind="stable")
    low = np.searchsorted(gx[order], gy, "left")
    hit = low < len(gx)
    hit[hit] = gx[order][low[hit]] == gy[hit]
    if not hit.any():
        return None
    mine, theirs = rx[order][low[hit]], ry[hit]
    apart = _lane(blocks, x, mine) != _lane(blocks, y, theirs)
    one = int(np.argmax(apart))
    left = Side(x.at, x.index, x.spot, int(mine[one]))
    right = Side(y.at, y.index, y.spot, int(theirs[one]))
    return Pair(left, right, ground.place(int(gy[hit][one])))


def _lane(blocks: Blocks, side: Side, rows: np.ndarray | int) -> Any:
    """Lanes (first ones of units) of rows of a print."""
    view = blocks.views[side.at]
    unit = view.event.unit if isinstance(view.event, ev.AsyncOp) else 1
    return view.lanes[::unit][side.spot.row[rows]]


def _one_thread(blocks: Blocks, pair: Pair) -> bool:
    x, y = pair.x, pair.y
    return bool(_lane(blocks, x, x.row) == _lane(blocks, y, y.row)) and not isinstance(
        blocks.views[x.at].event, ev.AsyncOp
    )


# The pass -----------------------------------------------------------------------------------------


class Search(Order):
    """The pass up to the second access, with an eye on the first one."""

    def __init__(self, blocks: Blocks, layout: Callable[[Blocks], Layout], pair: Pair):
        super().__init__(blocks, layout)
        self.pair = pair
        self.words = Words(blocks.trace)
        self.x: Record | None = None
        self.y: Record | None = None
        self.x_actor = self.y_actor = 0
        self.targets: list[Target] = []
        self.known: list[str] = []
        """Levels by which the first is before the second one."""
        self.cluster_arrivals: list[tuple[int, np.ndarray]] = []
        """(event, reps)."""
        for sweep in self.sweeps.values():
            sweep.touch = self._look  # type: ignore[method-assign]

    def _look(self, record: Record, rows: Rows) -> None:
        """In place of the search for races."""
        pair = self.pair
        for side, first in ((pair.x, True), (pair.y, False)):
            event = self.blocks.views[record.at].event
            if record.at != side.at or record.print is not self._spot(side).print:
                continue
            f = event.footprints[side.index]  # type: ignore[attr-defined]
            if (f.mode, f.proxy) != (record.nature.mode, record.nature.proxy):
                continue
            actor = int(record.actor[side.row])
            if first:
                self.x, self.x_actor = record, actor
                self._aim(record, actor)
            elif self.x is not None and self.y is None:
                self.y, self.y_actor = record, actor
                self._compare(self.x, record, rows)

    def _spot(self, side: Side) -> Spot:
        return next(
            s
            for s in self.layout.find(side.at, side.index)
            if s.column == side.spot.column
            and np.array_equal(s.print.starts, side.spot.print.starts)
        )

    def _aim(self, x: Record, actor: int) -> None:
        shape = (self.clocks.levels.count, self.reps)
        found = [(x.chain, x.value, False)]
        if x.seen is not None:
            found.append((*x.seen, False))
        if x.issued is not None:
            found.append((*x.issued, True))
        self.targets = [
            Target(int(c[actor]), int(v[actor]), np.full(shape, -1, np.int64), issue)
            for c, v, issue in found
        ]

    def _compare(self, x: Record, y: Record, rows: Rows) -> None:
        """By which levels the pair is ordered; the second access counts as a thread of its own
        where lanes act together."""
        sweep = self.sweeps[x.nature.space]
        sweep.rows = rows
        for need in self.wanted():
            same, other = sweep.compute(x, y, need.level)
            order = other if self._apart(x, y) else same
            if order[self.x_actor, self.y_actor]:
                self.known.append(need.level)

    def _apart(self, x: Record, y: Record) -> bool:
        """Different lanes of one class."""
        a, b = x.classes[self.x_actor], y.classes[self.y_actor]
        return a >= 0 and a == b and x.lanes[self.pair.x.row] != y.lanes[self.pair.y.row]

    @property
    def both(self) -> tuple[Record, Record]:
        """The two accesses, once they have been met."""
        assert self.x is not None
        assert self.y is not None
        return self.x, self.y

    def wanted(self) -> list[Any]:
        x, y = self.both
        found = needs(x.nature, y.nature, len(x.ctas | y.ctas) > 1)
        return [n for n in found if n.policy is Policy.ANY]

    def run(self) -> Order:
        for at, view in enumerate(self.blocks.views[: self.pair.y.at + 1]):
            handler = self._handlers.get(type(view.event))
            if handler is None:
                continue
            self.at = at
            cast = self.classes.cast(view)
            if isinstance(view.event, ev.ClusterBarrier) and view.event.kind == "arrive":
                self.cluster_arrivals.append((at, cast.reps))
            if at < self.pair.y.at:
                handler(view, view.event, cast)
                self._note(at)
                continue
            # What the second access does itself must not count.
            self._note(at - 1)
            handler(view, view.event, cast)
            self._note(at)
        return self

    def _note(self, at: int) -> None:
        for target in self.targets:
            known = self.clocks.table[:, :, target.chain] >= target.value
            known &= target.learned < 0
            target.learned[known] = at

    # Walking back -----------------------------------------------------------------------------

    def text(self) -> str:
        """The paragraph."""
        self.run()
        x, y = self.both
        head = f"{self._access(x, self.pair.x)}\nand {self._access(y, self.pair.y)}"
        stride = self.layout.shared_stride
        if x.nature.space is not ev.Space.SHARED:
            stride = 128 * 512
        place = self.words.memory(x.nature.space, self.pair.place, 1, self.blocks.count, stride)
        head = f"{head}\n(both touch {place})"
        wanted = self.wanted()
        if wanted[0].level not in self.known:
            return f"{head}:\n  nothing orders them"
        lacking = [n.why for n in wanted if n.level not in self.known]
        if _one_thread(self.blocks, self.pair):
            return f"{head}:\n  one after the other in one thread"
        met = [n.level for n in wanted if n.level in self.known and n.level != MAP]
        level = table(self.clocks.levels, met[-1])
        hops = self._path(level)
        lines = [f"  {hop}" for hop in hops] if hops else ["  ordered in every schedule"]
        lines += [f"  lacking: {why}" for why in lacking]
        return "\n".join([f"{head}:", *lines])

    def _access(self, record: Record, side: Side) -> str:
        lane = int(record.lanes[side.row]) + self.blocks.base
        return f"{self._at(record.at)} by {self.words.who(lane)} {self.words.verb(record)}"

    def _at(self, at: int) -> str:
        ins = self.blocks.views[at].event.ins
        places = self.blocks.trace.instructions[ins].locations
        own = f"{self.words.operation(ins)} at line {places[0].line}" if places else "?"
        if len(places) > 1:
            name = places[1].file.rpartition("/")[2]
            own += f" ({name}:{places[1].line})"
        return own

    def _who(self, rep: int) -> str:
        x, y = self.both
        for record, side, actor in ((x, self.pair.x, self.x_actor), (y, self.pair.y, self.y_actor)):
            number = int(record.classes[actor])
            apart = record is y and self._apart(x, y)
            if number >= 0 and rep == 2 * number + apart:
                return self.words.who(int(record.lanes[side.row]) + self.blocks.base)
        return self.words.group(self.classes.members[rep // 2] + self.blocks.base)

    def _path(self, level: int) -> list[str]:
        """The hops from the first access to the second one."""
        y = self.pair.y.at
        view = self.blocks.views[y]
        number = int(self.both[1].classes[self.y_actor])
        if number >= 0:
            reps = np.array([2 * number + self._apart(*self.both)])
        else:
            unit = view.event.unit  # type: ignore[attr-defined]
            reps = self.classes.units(self.classes.cast(view), unit).reps[self.y_actor]
        levels = list(dict.fromkeys((level, self.clocks.levels.tensor, self.clocks.levels.happens)))
        for target in self.targets:
            for lv in levels:
                for rep in reps.tolist():
                    if 0 <= target.learned[lv, rep] < y or rep == target.chain:
                        hops = self._walk(target, lv, rep, y)
                        if hops is not None:
                            return hops
        return []

    def _walk(self, target: Target, level: int, rep: int, before: int) -> list[str] | None:
        """Backwards from a rep that knows at position `before`; the hops in order. None: the way
        cannot be told."""
        hops: list[str] = []
        for _ in range(4 * len(self.blocks.views)):
            own = rep == target.chain
            if own and (level in self.clocks.own or target.issue):
                if target.issue:
                    hops.append("the hardware keeps the order of issue")
                return hops[::-1]
            at = int(target.learned[level, rep])
            if not 0 <= at <= before:
                return None
            source = self._source(target, level, rep, at)
            if source is None:
                return None
            text, came = source
            hops.extend(reversed(text))
            if came is None:
                return hops[::-1]
            level, rep, before = came
        return None

    def _knew(self, target: Target, level: int, reps: Iterable[int], at: int) -> int | None:
        """A rep that knew before the event at `at`: the access's own first."""
        found = [r for r in reps if 0 <= target.learned[level, r] < at]
        found.sort(key=lambda r: (r != target.chain, r))
        return found[0] if found else None

    def _source(self, target: Target, level: int, rep: int, at: int) -> Found | None:
        """How `rep` came to know at event `at`."""
        view = self.blocks.views[at]
        event = view.event
        here = f"{self._who(rep)}: {self._at(at)}"
        happens, visible = self.clocks.levels.happens, self.clocks.levels.visible
        cast = self.classes.cast(view)
        match event:
            case ev.Wait():
                for lv in dict.fromkeys((level, self.clocks.levels.tensor, happens)):
                    found = self._from_update(target, lv, rep, at, view)
                    if found is not None:
                        return found
                return None
            case ev.GroupWait() | ev.TensorWait() if target.chain >= self.reps:
                name = event.engine if isinstance(event, ev.GroupWait) else event.which
                engines = self.chains.engines.items()
                if any(c == target.chain and n.split(".read")[0] == name for (n, _), c in engines):
                    return [f"{here} waits until it is complete"], None
            case ev.NamedBarrier():
                return self._met_at(target, level, rep, at, here)
            case ev.ClusterBarrier():
                return self._arrived(target, level, at, here)
            case ev.ProxyFence():
                return [here], (visible, rep, at)
            case ev.Fence() | ev.TensorFence():
                return [here], (happens, rep, at)
            case ev.Access() if self.values.any:
                return self._value(target, level, rep, at, here)
        knew = self._knew(target, level, cast.reps.tolist(), at)
        if knew is None:
            return None
        return [f"{here} together with {self._who(knew)}"], (level, knew, at)

    def _arrived(self, target: Target, level: int, at: int, here: str) -> Found | None:
        """Whose arrival at the cluster barrier carries the knowledge."""
        for lv in (level, self.clocks.levels.happens):
            for sent, reps in reversed(self.cluster_arrivals):
                knew = self._knew(target, lv, reps.tolist(), sent)
                if sent < at and knew is not None:
                    text = f"{self._who(knew)}: {self._at(sent)}"
                    return [text, f"{here}, after all have arrived"], (lv, knew, sent)
        return None

    def _from_update(
        self, target: Target, level: int, rep: int, at: int, view: View
    ) -> Found | None:
        """Which update of which phase a wait learned it from."""
        for touch in self.replayed.touches.get(at, ()):
            if touch.phase < 0 or rep not in self.classes.cast(view, touch.rows).reps:
                continue
            barrier = touch.barrier
            name = f"mbarrier at shared {barrier.address}"
            if self.blocks.count > 1:
                name += f" of block {barrier.cta}"
            here = f"{self._who(rep)}: {self._at(at)} waits for phase {touch.phase} of the {name}"
            if target.chain == self.chains.barrier(barrier.chain):
                phase = self._phase_of(barrier)
                text = f"its completion counts on the {name}, phase {phase}"
                return [text, here], None
            for phase in reversed(barrier.phases[: touch.phase + 1]):
                for sent in reversed(phase.touches):
                    found = self._sent(target, level, sent, at, name)
                    if found is not None:
                        return [*found[0], here], found[1]
        return None

    def _phase_of(self, barrier: Any) -> int:
        for touch in self.replayed.touches.get(self.pair.x.at, ()):
            if touch.barrier is barrier:
                return touch.phase
        return -1

    def _sent(self, target: Target, level: int, sent: Touch, at: int, name: str) -> Found | None:
        """Whether an update carries the knowledge."""
        view = self.blocks.views[sent.view]
        event = view.event
        if sent.view >= at or not isinstance(event, ev.Arrive):
            return None
        cast = self.classes.cast(view, sent.rows)
        op = self._at(sent.view)
        if event.by != "thread":
            engine = "cp.async" if event.by == "cp.async" else f"commit{event.cta_group}"
            chains = {self.chains.engines.get((engine, r), -1) for r in cast.reps.tolist()}
            if target.chain in chains and sent.view > self.pair.x.at:
                who = self._who(int(cast.reps[0]))
                text = f"{who}: {op} arrives on the {name}, phase {sent.phase}, once it is complete"
                return [text], None
        knew = self._knew(target, level, cast.reps.tolist(), sent.view)
        if knew is None:
            return None
        text = f"{self._who(knew)}: {op} arrives on the {name}, phase {sent.phase}"
        return [text], (level, knew, sent.view)

    def _met_at(self, target: Target, level: int, rep: int, at: int, here: str) -> Found | None:
        """Who brought the knowledge to a named barrier."""
        lane = int(self.classes.lane[rep])
        for generation, part in self.met.of.get(at, ()):
            if lane not in part.lanes:
                continue
            for lv in (level, self.clocks.levels.happens):
                for other in generation.parts:
                    cast: Cast = self.classes.make(other.lanes)
                    knew = self._knew(target, lv, cast.reps.tolist(), min(at, other.view))
                    if knew is None:
                        continue
                    text = f"{here} meets {self._who(knew)} at barrier {generation.id}"
                    hops = [text]
                    if other.view != at:
                        hops.insert(0, f"{self._who(knew)}: {self._at(other.view)}")
                    return hops, (lv, knew, min(at, other.view))
        return None

    def _value(self, target: Target, level: int, rep: int, at: int, here: str) -> Found | None:
        """A value that was read carries what its writer knew, or the writer what it had read."""
        index, hops = self.blocks.views[at].index, [f"{here} reads it"]
        spot = (index, int(self.classes.lane[rep]))
        views = {v.index: number for number, v in enumerate(self.blocks.views)}
        x = self.blocks.views[self.pair.x.at].index
        for _ in range(len(self.values.edges)):
            edge = self.values.edges.get(spot)
            if edge is None:
                return None
            spot = edge[0]
            writer, number = 2 * int(self.classes.of[spot[1]]), views[spot[0]]
            if spot[0] == x:
                return hops, None
            hops.insert(0, f"{self._who(writer)}: {self._at(number)} writes a value")
            for lv in (level, self.clocks.levels.happens):
                knew = self._knew(target, lv, [writer], number)
                if knew is not None:
                    return hops, (lv, knew, number)
        return None
