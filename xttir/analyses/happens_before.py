"""Happens-before of one set of blocks: a pass over its events that keeps vector clocks.

The graph is the candidate of one schedule: program order, releases and acquires, phases of
mbarriers, generations of named barriers, groups. On the way every edge that the schedule chose is
certified to be there in all schedules (`phases`), and every access is checked against earlier ones
(`races`), since trace order is a linear extension. Rules: PTX ISA 9.1, 8.9, 9.7.9.25, 9.7.13.15 and
9.7.16.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast, thread_classes
from xttir.analyses.clocks import Clocks, Levels
from xttir.analyses.engines import Chains, End, Engines
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.analyses.layout import Layout, Spot
from xttir.analyses.lifetimes import Lasting, LifetimeFault, Lifetimes
from xttir.analyses.named_barriers import Generation, Part, meetings
from xttir.analyses.phases import Certifier, Update
from xttir.analyses.project import Blocks, View
from xttir.analyses.races import Conflict, Rows, Sweep
from xttir.analyses.records import Nature, Record
from xttir.analyses.replay import Barrier, Touch, replay
from xttir.analyses.values import ACQUIRES, RELEASES, ValueEdges
from xttir.analyses.wording import Words

NEVER = 2**31 - 1
"""A value that no chain reaches."""


@dataclass(slots=True)
class Published:
    """What the updates of a barrier have published: to waits of any scope, and to those of
    cluster scope only (released by another block)."""

    near: np.ndarray
    far: np.ndarray


@dataclass(slots=True)
class MeetingFault:
    """A named barrier out of step. `what`: "early" (arrives before the generation before is
    over), "counts" (participants give different counts), "over"."""

    what: str
    generation: Generation
    part: Part
    other: Part | None
    clock: np.ndarray
    rep: int


class Order:
    """The pass. Call `run` once, then read `conflicts`, `certifier`, `lifetimes`, `meetings`."""

    def __init__(self, blocks: Blocks, layout: Callable[[Blocks], Layout]):
        self.blocks = blocks
        self.replayed = replay(blocks)
        self.met = meetings(blocks)
        self.values = ValueEdges.find(blocks)
        self.classes = thread_classes(blocks, self.replayed, self.met, self.values)
        self.layout = layout(blocks)
        self.reps = self.classes.reps
        self.chains = Chains(self.reps, self.replayed.chains, self.met.chains, self.values.places)
        self.engines = Engines(blocks, self.classes, self.chains)
        self.clocks = Clocks(self.reps, self.chains.count, _levels(blocks, self.values))
        self.conflicts: list[Conflict] = []
        cluster = blocks.trace.ctas_per_cluster * blocks.threads
        numbers: dict[str, int] = {}
        words = Words(blocks.trace)
        names = [
            numbers.setdefault(words.operation(i), len(numbers))
            for i in range(len(blocks.trace.instructions))
        ]
        self.sweeps = {
            space: Sweep(ground, self.clocks, blocks.threads, cluster, names, self.conflicts.append)
            for space, ground in self.layout.grounds.items()
        }
        self.certifier = Certifier(self.reps)
        self.lifetimes = Lifetimes(blocks.threads)
        self.meetings: list[MeetingFault] = []
        self.operations: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        """By position of an asynchronous operation: (first lane, actor) by unit, and its end as
        (chain, value) by actor."""
        self.at = 0
        self._published: dict[Barrier, Published] = {}
        self._complete: dict[tuple[Barrier, int], Published] = {}
        self._met: dict[Generation, np.ndarray] = {}
        self._cluster: dict[int, np.ndarray] = {}
        self._arrivals = np.zeros(self.reps, np.int64)
        self._waits = np.zeros(self.reps, np.int64)
        self._gone: list[tuple[int, np.ndarray]] = []
        """Ended threads: how often they arrived at the cluster barrier, clock in time."""
        self._ctas: dict[int, frozenset[int]] = {}
        self._handlers: dict[type, Callable[[View, Any, Cast], None]] = {
            ev.Access: self.access,
            ev.AsyncOp: self.asynchronous,
            ev.GroupCommit: self.group_commit,
            ev.GroupWait: self.group_wait,
            ev.BarrierInit: self.init,
            ev.BarrierInval: self.inval,
            ev.Arrive: self.arrive,
            ev.ExpectTx: self.transfer,
            ev.CompleteTx: self.transfer,
            ev.Wait: self.wait,
            ev.NamedBarrier: self.named,
            ev.WarpSync: self.warp_sync,
            ev.Together: self.together,
            ev.ClusterBarrier: self.cluster_barrier,
            ev.Fence: self.fence,
            ev.ProxyFence: self.proxy_fence,
            ev.TensorFence: self.tensor_fence,
            ev.TensorWait: self.tensor_wait,
            ev.TensorAlloc: self.tensor_alloc,
            ev.TensorDealloc: self.tensor_alloc,
            ev.Exit: self.exit,
        }

    def run(self) -> Order:
        for at, view in enumerate(self.blocks.views):
            handler = self._handlers.get(type(view.event))
            if handler is not None:
                self.at = at
                handler(view, view.event, self.classes.cast(view))
        self.lifetimes.finish(complete=not self.blocks.trace.blocked)
        self.certifier.finish()
        return self

    # Helpers ----------------------------------------------------------------------------------

    def distance(self, lane: int, other: int) -> int:
        """0: one block, 1: one cluster, 2: neither."""
        a, b = lane // self.blocks.threads, other // self.blocks.threads
        if a == b:
            return 0
        per = self.blocks.trace.ctas_per_cluster
        return 1 if a // per == b // per else 2

    def ctas_of(self, key: int) -> frozenset[int]:
        """Blocks that a set of lanes is in."""
        known = self._ctas.get(key)
        if known is None:
            lanes = self.blocks.lane_sets[key]
            known = self._ctas[key] = frozenset(np.unique(lanes // self.blocks.threads).tolist())
        return known

    def happens(self, reps: np.ndarray) -> np.ndarray:
        """Joined clock of reps, in time."""
        return self.clocks.table[self.clocks.levels.happens, reps].max(axis=0)

    def know(self, known: Any) -> None:
        """Reps learn (rep, chain, value): completions that they have waited for."""
        table = self.clocks.table
        for rep, chain, value in known:
            if table[0, rep, chain] < value:
                fenced = self._fenced
                kept = table[fenced, rep, chain]
                table[:, rep, chain] = np.maximum(table[:, rep, chain], value)
                table[fenced, rep, chain] = kept

    @property
    def _fenced(self) -> np.ndarray:
        own = self.clocks.own
        return np.setdiff1d(np.arange(self.clocks.levels.count), own)

    # Accesses ---------------------------------------------------------------------------------

    def access(self, view: View, event: ev.Access, cast: Cast) -> None:
        if self.values.any:
            self.values.receive(self, view, event, cast)
        rows = Rows(cast.first, cast.second)
        for i, f in enumerate(event.footprints):
            nature = Nature(f.space, f.mode, f.proxy, "", event.sem, event.scope)
            for spot in self.layout.find(self.at, i):
                self.synchronous(view, cast, rows, spot, nature, f.may, event.equal)
        if self.values.any:
            self.values.send(self, view, event, cast)

    def synchronous(
        self,
        view: View,
        cast: Cast,
        rows: Rows,
        spot: Spot,
        nature: Nature,
        may: bool = False,
        equal: bool = False,
    ) -> None:
        """An access that is made where it stands."""
        record = Record(
            self.at,
            view.event.ins,
            nature,
            spot.print,
            cast.lanes[spot.row],
            cast.actor[spot.row],
            cast.classes,
            cast.alone,
            cast.first,
            self.clocks.epoch[cast.first],
            may=may,
            equal=equal,
            ctas=self.ctas_of(view.key),
            seen=self.values.seen_by(self, view) if nature.strong and self.values.any else None,
        )
        self.sweeps[spot.space].touch(record, rows)
        if spot.space is not Space.GLOBAL and self.blocks.count > 1:
            self.lifetimes.touch(record, self.reached(record))

    def reached(self, record: Record) -> list[tuple[int, int]]:
        """(actor, block whose memory it touches) pairs."""
        if self.blocks.count == 1:
            return [(a, 0) for a in range(len(record.chain))]
        shared = record.nature.space is Space.SHARED
        stride = self.layout.shared_stride if shared else 128 * 512
        starts = record.print.starts
        pairs = record.actor[:, None] * self.blocks.count + starts // stride
        found = np.unique(pairs[starts >= 0]).tolist()
        return [divmod(code, self.blocks.count) for code in found]

    def asynchronous(self, view: View, event: ev.AsyncOp, cast: Cast) -> None:
        if event.unit == 1:
            rep, lanes, actor = cast.first, cast.lanes, cast.actor
            classes, alone = cast.classes, cast.alone
            rows = Rows(cast.first, cast.second)
        else:
            self.meet_in_time(cast)
            units = self.classes.units(cast, event.unit)
            rep, lanes, actor = units.rep, units.lanes, np.arange(len(units.lanes))
            classes, alone = np.full(len(lanes), -1), np.ones(len(lanes), bool)
            rows = Rows(rep, rep, np.stack([self._joined(r) for r in units.reps], axis=1))
        done = event.completion
        if isinstance(done, ev.ByBytes):
            columns = self.byte_ends(actor, len(classes))
        else:
            columns = {}
            ends = self.engines.issue(event, cast, rep)
        issued = (rep, self.clocks.epoch[rep])
        over = columns[min(columns)] if columns else ends["all"]
        self.operations[self.at] = (lanes, actor, over[0], over[1])
        for i, f in enumerate(event.footprints):
            sem = Sem.RELAXED if f.mode is Mode.RMW else Sem.WEAK
            nature = Nature(f.space, f.mode, f.proxy, event.engine, sem, Scope.GPU)
            for spot in self.layout.find(self.at, i):
                if not columns:
                    end, more = ends["read" if f.mode is Mode.READ else "all"], ()
                elif spot.column in columns:
                    end, more = columns[spot.column], ()
                else:
                    every = [columns[c] for c in sorted(columns)]
                    end, more = every[0], () if f.mode is Mode.READ else tuple(every[1:])
                record = Record(
                    self.at,
                    event.ins,
                    nature,
                    spot.print,
                    lanes[spot.row],
                    actor[spot.row],
                    classes,
                    alone,
                    end[0],
                    end[1],
                    more,
                    issued,
                    event.pipeline,
                    done.cta_group if isinstance(done, ev.ByCommit) else 0,
                    f.may,
                    ctas=self.ctas_of(view.key),
                )
                self.sweeps[spot.space].touch(record, rows)
                if spot.space is not Space.GLOBAL:
                    self.lifetimes.touch(record, self.reached(record))
        if columns:
            self.updates(view, event.unit)
        # The issue of an MMA orders pipelined ones after it, also in other threads.
        self.clocks.bump(cast.reps, self.at)

    def _joined(self, reps: np.ndarray) -> np.ndarray:
        """Clock of an operation that lanes issue together: it starts after all of them. By the
        letter, a writer's proxy fence must be known to each."""
        table = self.clocks.table[:, reps]
        out = table.max(axis=1)
        level = self.clocks.levels.writer_fenced
        if level != self.clocks.levels.visible:
            out[level] = table[level].min(axis=0)
        return out

    def byte_ends(self, actor: np.ndarray, actors: int) -> dict[int, End]:
        """By column of the barriers: the phases that get the bytes."""
        columns: dict[int, End] = {}
        for touch in self.replayed.touches.get(self.at, ()):
            chain, value = columns.setdefault(
                touch.column, (np.zeros(actors, np.int64), np.full(actors, NEVER, np.int64))
            )
            mine = actor if touch.rows is None else actor[touch.rows]
            chain[mine] = self.chains.barrier(touch.barrier.chain)
            value[mine] = touch.barrier.mark(touch.phase)
        return columns or {0: (np.zeros(actors, np.int64), np.full(actors, NEVER, np.int64))}

    # Groups, waits of engines -----------------------------------------------------------------

    def group_commit(self, view: View, event: ev.GroupCommit, cast: Cast) -> None:
        if event.engine == "wgmma":
            self.meet_in_time(cast)
        self.engines.commit_group(event, cast)

    def group_wait(self, view: View, event: ev.GroupWait, cast: Cast) -> None:
        if event.engine == "wgmma":
            self.meet_in_time(cast)
        self.know(self.engines.wait_group(event, cast))

    def tensor_wait(self, view: View, event: ev.TensorWait, cast: Cast) -> None:
        self.meet_in_time(cast)
        self.know(self.engines.wait_tensor(event.which, cast))

    def tensor_alloc(
        self, view: View, event: ev.TensorAlloc | ev.TensorDealloc, cast: Cast
    ) -> None:
        self.meet_in_time(cast)
        free = isinstance(event, ev.TensorDealloc)
        role = "dealloc" if free else "alloc"
        nature = Nature(Space.TENSOR, Mode.WRITE, Proxy.GENERIC, "", Sem.WEAK, Scope.CTA, role=role)
        rows = Rows(cast.first, cast.second)
        for spot in self.layout.find(self.at, 0):
            self.synchronous(view, cast, rows, spot, nature)
        call = self.lifetimes.free if free else self.lifetimes.allocate
        call(self.at, sorted(self.ctas_of(view.key)), event.base, event.columns)

    # mbarriers --------------------------------------------------------------------------------

    def init(self, view: View, event: ev.BarrierInit, cast: Cast) -> None:
        self._end(view, cast)
        self._word(view, cast, "init")
        for barrier in self.replayed.born.get(self.at, ()):
            chain = self.chains.barrier(barrier.chain)
            near = self.clocks.message()
            near[:, chain] = barrier.mark(-1)
            self._published[barrier] = Published(near, self.clocks.message())
            rep = 2 * int(self.classes.of[view.lanes[barrier.row]])
            self._born[barrier] = (rep, int(self.clocks.epoch[rep]))
        self.clocks.bump(cast.reps, self.at)

    def inval(self, view: View, event: ev.BarrierInval, cast: Cast) -> None:
        self._end(view, cast)
        self._word(view, cast, "inval")

    def _word(self, view: View, cast: Cast, role: str) -> None:
        nature = Nature(Space.SHARED, Mode.WRITE, Proxy.GENERIC, "", Sem.WEAK, Scope.CTA, role=role)
        rows = Rows(cast.first, cast.second)
        for spot in self.layout.find(self.at, 0):
            self.synchronous(view, cast, rows, spot, nature)

    def _end(self, view: View, cast: Cast) -> None:
        for barrier, how in self.replayed.ended.get(self.at, ()):
            chain = self.chains.barrier(barrier.chain)
            self.lifetimes.end(barrier, self.at, how, self.happens(cast.reps), chain)
            self._published.pop(barrier, None)

    @property
    def _born(self) -> dict[Barrier, tuple[int, int]]:
        return self.certifier.born

    def arrive(self, view: View, event: ev.Arrive, cast: Cast) -> None:
        commits: dict[int, tuple[int, int]] = {}
        if event.by == "commit":
            for rep in cast.reps.tolist():
                commits[rep] = self.engines.commit(rep, event.cta_group)
        for touch in self.replayed.touches.get(self.at, ()):
            mine = self.classes.cast(view, touch.rows)
            for part, remote in self._sides(mine, touch.barrier.cta):
                near, far = self._signal(event, part, remote, commits)
                self._publish(touch.barrier, near, far)
            self._update(view, touch, mine, 1)
        self.clocks.bump(cast.reps, self.at)

    def transfer(self, view: View, event: ev.ExpectTx | ev.CompleteTx, cast: Cast) -> None:
        self.updates(view, 1)
        self.clocks.bump(cast.reps, self.at)

    def updates(self, view: View, unit: int) -> None:
        """Signals that order nothing but themselves: announcements, bytes of copies."""
        for touch in self.replayed.touches.get(self.at, ()):
            rows = touch.rows
            if rows is not None and unit > 1:
                rows = (rows[:, None] * unit + np.arange(unit)).reshape(-1)
            self._update(view, touch, self.classes.cast(view, rows), unit)

    def _sides(self, cast: Cast, cta: int) -> list[tuple[Cast, bool]]:
        """The participants in block `cta`, and the remote ones."""
        if self.blocks.count == 1:
            return [(cast, False)]
        far = cast.lanes // self.blocks.threads != cta
        if not far.any() or far.all():
            return [(cast, bool(far.any()))]
        return [
            (self.classes.make(cast.lanes[~far]), False),
            (self.classes.make(cast.lanes[far]), True),
        ]

    def _signal(
        self, event: ev.Arrive, cast: Cast, remote: bool, commits: dict[int, tuple[int, int]]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """What an arrival publishes: to all waits, and to waits of cluster scope."""
        clocks = self.clocks
        if event.by == "thread":
            wide = event.scope >= Scope.CLUSTER
            if event.sem not in RELEASES:
                message = clocks.relaxed(cast.pick, 1 if remote else 0)
            elif not remote:
                return clocks.full(cast.pick), None
            elif wide:
                return clocks.weak(cast.pick), clocks.full(cast.pick)
            else:
                message = clocks.relaxed(cast.pick, 1)
                return clocks.weak(cast.pick), message
            return (clocks.weak_part(message), message) if remote else (message, None)
        message = clocks.message()
        clocks.in_time(message, cast.pick)
        for rep in cast.reps.tolist():
            if event.by == "commit":
                chain, value = commits[rep]
            else:
                chain, value = self.engines.copied(rep)
            if chain >= 0:
                levels = clocks.own
                message[levels, chain] = np.maximum(message[levels, chain], value)
                if clocks.strict >= 0:
                    message[clocks.strict, chain] = np.maximum(message[clocks.strict, chain], value)
        return message, None

    def _publish(self, barrier: Barrier, near: np.ndarray, far: np.ndarray | None) -> None:
        known = self._published.get(barrier)
        if known is not None:
            np.maximum(known.near, near, out=known.near)
            if far is not None:
                np.maximum(known.far, far, out=known.far)

    def _update(self, view: View, touch: Touch, cast: Cast, unit: int) -> None:
        """An update of a phase, after what it publishes is known."""
        barrier, clocks = touch.barrier, self.clocks
        published = self._published.get(barrier)
        if published is None:
            return
        happens = clocks.levels.happens
        chain = self.chains.barrier(barrier.chain)
        reps = cast.reps
        clock = self.happens(reps)
        np.maximum(published.near[happens], clock, out=published.near[happens])
        self._use(touch, cast)
        update = Update(
            touch,
            reps,
            clocks.epoch[reps],
            len(cast.lanes) // unit,
            len(cast.lanes) == unit,
            clock,
            pieces=isinstance(view.event, ev.AsyncOp) and view.event.engine == "bulk",
            late=getattr(view.event, "by", "") == "commit",
            over=self._over(view.event, cast),
        )
        self.certifier.update(update, clocks.table[happens, reps], chain)
        late = touch.landed or getattr(view.event, "by", "thread") != "thread"
        self._outlive(view, touch, cast, chain, bool(late))
        if touch.completes:
            for part in (published.near, published.far):
                part[:, chain] = barrier.mark(touch.phase)
            self.certifier.complete(touch, published.near[happens])
            waits = touch.current.waits
            if waits:
                copy = Published(published.near.copy(), published.far.copy())
                self._complete[barrier, touch.phase] = copy

    def _over(self, event: ev.Event, cast: Cast) -> tuple[np.ndarray, np.ndarray] | None:
        """Chains and values that show that an update has been made."""
        reps = cast.reps
        if isinstance(event, ev.AsyncOp):
            return None
        if not isinstance(event, ev.Arrive) or event.by == "thread":
            return reps, self.clocks.epoch[reps]
        if event.by == "commit":
            group = event.cta_group
            ends = [
                (self.chains.engines.get((f"commit{group}", r), -1), self.engines.commits[r, group])
                for r in reps.tolist()
            ]
        else:
            ends = [self.engines.copied(r) for r in reps.tolist()]
        if any(chain < 0 for chain, _ in ends):
            return None
        return np.array([c for c, _ in ends]), np.array([v for _, v in ends])

    def _outlive(self, view: View, touch: Touch, cast: Cast, chain: int, late: bool) -> None:
        """A signal to another block's barrier must land before that block ends."""
        barrier = touch.barrier
        if self.blocks.count == 1:
            return
        if (cast.lanes // self.blocks.threads == barrier.cta).all():
            return
        lane = (int(cast.lanes[0]),)
        rep = int(cast.reps[0])
        if late:
            value = barrier.mark(touch.phase)
            entry = Lasting(self.at, value, lane, True)
            event = view.event
            if isinstance(event, ev.Arrive) and event.by == "commit":
                tensor = self.chains.engines.get((f"commit{event.cta_group}", rep), -1)
                if tensor >= 0:
                    entry.other = (tensor, self.engines.commits[rep, event.cta_group])
            self.lifetimes.last(barrier.cta, view.event.ins, chain, entry)
        else:
            for r, e in zip(cast.reps.tolist(), self.clocks.epoch[cast.reps].tolist(), strict=True):
                entry = Lasting(self.at, e, lane, True)
                self.lifetimes.last(barrier.cta, view.event.ins, r, entry)

    def _use(self, touch: Touch, cast: Cast) -> None:
        """A use of a barrier must come after its init."""
        ready = self.clocks.table[self.clocks.levels.ready]
        rep, epoch = self._born[touch.barrier]
        missing = ready[cast.reps, rep] < epoch
        if missing.any():
            late = int(cast.reps[int(np.argmax(missing))])
            clock = self.clocks.table[self.clocks.levels.happens, late].copy()
            self.certifier.fault("no init", touch, clock=clock, rep=late)
        self.lifetimes.use(touch.barrier, cast.reps, self.clocks.epoch[cast.reps], self.reps)

    def wait(self, view: View, event: ev.Wait, cast: Cast) -> None:
        clocks = self.clocks
        for touch in self.replayed.touches.get(self.at, ()):
            mine = self.classes.cast(view, touch.rows)
            self._use(touch, mine)
            chain = self.chains.barrier(touch.barrier.chain)
            rows = clocks.table[clocks.levels.happens, mine.reps]
            self.certifier.wait(touch, mine.reps, clocks.epoch[mine.reps], rows, chain)
            if touch.peek or touch.phase < 0:
                continue
            published = self._complete.get((touch.barrier, touch.phase))
            if published is None:
                continue
            message = published.near
            if event.scope >= Scope.CLUSTER:
                message = np.maximum(message, published.far)
            if event.sem in ACQUIRES:
                clocks.acquire(mine.pick, message)
            else:
                scope = 1 if self.blocks.count > 1 and event.scope >= Scope.CLUSTER else 0
                clocks.acquire_relaxed(mine.pick, message, scope)
            if touch is touch.current.waits[-1]:
                del self._complete[touch.barrier, touch.phase]

    # Named, warp and cluster barriers -----------------------------------------------------------

    def named(self, view: View, event: ev.NamedBarrier, cast: Cast) -> None:
        for generation, part in self.met.of.get(self.at, ()):
            mine = self.classes.make(part.lanes) if len(part.lanes) < len(view.lanes) else cast
            if not part.waits:
                self._join(generation, part, mine)
                continue
            if not generation.met:
                generation.met = True
                for other in generation.parts:
                    if other.waits:
                        self._join(generation, other, self.classes.make(other.lanes))
                chain = self.chains.named(generation.chain)
                self._met[generation][:, chain] = generation.index + 1
            self.clocks.acquire(mine.pick, self._met[generation])

    def _join(self, generation: Generation, part: Part, cast: Cast) -> None:
        """Some participants of a generation arrive."""
        clocks = self.clocks
        chain = self.chains.named(generation.chain)
        message = clocks.full(cast.pick)
        known = clocks.table[clocks.levels.happens, cast.reps, chain]
        early = known < generation.index
        first = generation.parts[0]
        if early.any():
            rep = int(cast.reps[int(np.argmax(early))])
            self._meeting("early", generation, part, None, rep)
        if part.count != first.count:
            self._meeting("counts", generation, part, first, int(cast.reps[0]))
        old = self._met.get(generation)
        self._met[generation] = message if old is None else np.maximum(old, message)
        clocks.bump(cast.reps, part.view)

    def _meeting(
        self, what: str, generation: Generation, part: Part, other: Part | None, rep: int
    ) -> None:
        clock = self.clocks.table[self.clocks.levels.happens, rep].copy()
        self.meetings.append(MeetingFault(what, generation, part, other, clock, rep))

    def warp_sync(self, view: View, event: ev.WarpSync, cast: Cast) -> None:
        mask = np.broadcast_to(view.rows(event.mask), view.lanes.shape)
        cta = view.lanes // self.blocks.threads
        warp = cta * 4096 + (view.lanes - cta * self.blocks.threads) // 32
        code = (warp.astype(np.int64) << 32) | mask.astype(np.int64)
        if (code == code[0]).all():
            groups = [cast]
        else:
            groups = [self.classes.make(view.lanes[code == c]) for c in np.unique(code)]
        for group in groups:
            message = self.clocks.full(group.pick)
            self.clocks.acquire(group.pick, message)
        self.clocks.bump(cast.reps, self.at)

    def together(self, view: View, event: ev.Together, cast: Cast) -> None:
        mask = view.rows(event.mask)
        if mask.size == 1 or (mask == mask[0]).all():
            self.meet_in_time(cast)
            return
        for value in np.unique(mask):
            self.meet_in_time(self.classes.make(view.lanes[mask == value]))

    def meet_in_time(self, cast: Cast) -> None:
        """Lanes of each warp execute an instruction together: later ones know of earlier ones,
        in time alone."""
        warps = self.classes.warps(cast)
        if warps is None:
            return
        happens = self.clocks.levels.happens
        order, starts, sizes = warps
        rows = self.clocks.table[happens, order]
        joined = np.maximum.reduceat(rows, starts, axis=0)
        self.clocks.table[happens, order] = np.repeat(joined, sizes, axis=0)
        self.clocks.bump(cast.reps, self.at)

    def cluster_barrier(self, view: View, event: ev.ClusterBarrier, cast: Cast) -> None:
        clocks = self.clocks
        if event.kind == "arrive":
            self._alternate(
                cast, self._arrivals[cast.reps] > self._waits[cast.reps], "arrives twice"
            )
            index = int(self._arrivals[cast.reps].max())
            self._arrivals[cast.reps] += 1
            if event.sem in RELEASES:
                message = clocks.full(cast.pick)
            else:
                message = clocks.relaxed(cast.pick, 1)
                if clocks.inits is not None:
                    ready = clocks.levels.ready
                    np.maximum(
                        message[ready], clocks.inits[cast.pick].max(axis=0), out=message[ready]
                    )
            old = self._cluster.get(index)
            self._cluster[index] = message if old is None else np.maximum(old, message)
            clocks.bump(cast.reps, self.at)
            return
        self._alternate(
            cast, self._arrivals[cast.reps] <= self._waits[cast.reps], "waits without arriving"
        )
        index = int(self._waits[cast.reps].max())
        self._waits[cast.reps] += 1
        message = self._cluster.get(index)
        if message is not None:
            gone = [clock for count, clock in self._gone if count <= index]
            if gone:
                # Threads that have ended count as arrived.
                message = message.copy()
                happens = clocks.levels.happens
                np.maximum(message[happens], np.maximum.reduce(gone), out=message[happens])
            clocks.acquire(cast.pick, message)

    def _alternate(self, cast: Cast, wrong: np.ndarray, what: str) -> None:
        """Threads must arrive at the cluster barrier and wait for it in turn."""
        if wrong.any():
            lane = int(self.classes.lane[int(cast.reps[int(np.argmax(wrong))])])
            self.lifetimes.faults.append(LifetimeFault(what, self.at, 0, lanes=(lane,)))

    # Fences and the end -----------------------------------------------------------------------

    def fence(self, view: View, event: ev.Fence, cast: Cast) -> None:
        clocks = self.clocks
        if event.only == "mbarrier_init":
            clocks.fence_inits(cast.pick)
        else:
            scope = min(int(event.scope), int(Scope.GPU))
            if event.sem is not Sem.RELEASE:
                clocks.fence_acquire(cast.pick, scope)
            if event.sem is not Sem.ACQUIRE:
                clocks.fence_release(cast.pick, scope)
        clocks.bump(cast.reps, self.at)

    def proxy_fence(self, view: View, event: ev.ProxyFence, cast: Cast) -> None:
        clocks, levels = self.clocks, self.clocks.levels
        visible = levels.visible
        if event.proxy is Proxy.TENSORMAP:
            if levels.map_fenced != visible:
                if event.sem is not Sem.ACQUIRE:
                    clocks.fence_proxy(cast.pick, levels.map_released)
                if event.sem is not Sem.RELEASE:
                    clocks.fence_map(cast.pick)
        elif levels.shared_fenced != visible:
            if Space.SHARED in event.spaces or not event.spaces:
                clocks.fence_proxy(cast.pick, levels.shared_fenced)
                reps = cast.reps
                clocks.fence_own(reps, reps)
                for rep in reps.tolist():
                    chain, _ = self.engines.copied(rep)
                    if chain >= 0:
                        clocks.fence_own(np.array([rep]), np.array([chain]))
            if Space.GLOBAL in event.spaces or not event.spaces:
                clocks.fence_proxy(cast.pick, levels.global_fenced)
        clocks.bump(cast.reps, self.at)

    def tensor_fence(self, view: View, event: ev.TensorFence, cast: Cast) -> None:
        self.clocks.fence_tensor(cast.pick, event.before)
        self.clocks.bump(cast.reps, self.at)

    def exit(self, view: View, event: ev.Exit, cast: Cast) -> None:
        if self.blocks.count > 1 and self._arrivals.any():
            for count in np.unique(self._arrivals[cast.reps]).tolist():
                reps = cast.reps[self._arrivals[cast.reps] == count]
                self._gone.append((count, self.happens(reps)))
        ctas = view.lanes // self.blocks.threads
        for cta in self.ctas_of(view.key):
            lanes = view.lanes[ctas == cta]
            mine = self.classes.make(lanes) if len(lanes) < len(view.lanes) else cast
            self.lifetimes.exit(cta, len(lanes), self.happens(mine.reps))


def _levels(blocks: Blocks, values: ValueEdges) -> Levels:
    """The notions of order that the events can tell apart."""
    kinds: set[type] = set()
    proxies: set[Proxy] = set()
    tensor = False
    for view in blocks.views:
        event = view.event
        kinds.add(type(event))
        if isinstance(event, ev.Access | ev.AsyncOp):
            proxies |= {f.proxy for f in event.footprints}
            tensor |= isinstance(event, ev.AsyncOp) and event.engine.startswith("tcgen05")
    return Levels.needed(
        remote=blocks.count > 1,
        cluster_barrier=ev.ClusterBarrier in kinds,
        proxies=Proxy.ASYNC in proxies,
        tensor_maps=Proxy.TENSORMAP in proxies,
        tensor_memory=tensor or ev.TensorAlloc in kinds,
        values=values.doubtful,
    )
