"""Happens-before of one set of blocks: a pass over its events that keeps vector clocks.

The graph is the candidate of one schedule: program order, releases and acquires, phases of
mbarriers, generations of named barriers, groups. On the way every edge that the schedule chose is
certified to be there in all schedules (`phases`), and every access is checked against earlier ones
(`races`), since trace order is a linear extension. Rules: PTX ISA 9.1, 8.9, 9.7.9.25, 9.7.13.15 and
9.7.16.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.barriers import Barriers
from xttir.analyses.classes import Cast
from xttir.analyses.engines import End
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.analyses.layout import Layout
from xttir.analyses.named_barriers import WARP
from xttir.analyses.project import Blocks, View
from xttir.analyses.races import Rows
from xttir.analyses.records import Nature, Record
from xttir.analyses.spins import Doubts
from xttir.analyses.values import exchange

NEVER = 2**31 - 1
"""A value that no chain reaches."""


class Order(Barriers):
    """The pass. Call `run` once, then read `conflicts`, `certifier`, `lifetimes`, `meetings`."""

    def __init__(
        self, blocks: Blocks, layout: Callable[[Blocks], Layout], doubts: Doubts | None = None
    ):
        super().__init__(blocks, layout, doubts)
        self._began: dict[tuple[int, int], np.ndarray] = {}
        """By chain and value of an operation of several warps: its clock, in time."""
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
            self.before(view)
            handler = self._handlers.get(type(view.event))
            if handler is not None:
                self.at = at
                handler(view, view.event, self.classes.cast(view))
        self.lifetimes.finish(complete=not self.blocks.trace.blocked)
        self.certifier.finish()
        self.unattended()
        return self

    def before(self, view: View) -> None:
        """Called with each view before it is handled."""

    # Accesses ---------------------------------------------------------------------------------

    def access(self, view: View, event: ev.Access, cast: Cast) -> None:
        if self.values.any:
            self.values.receive(self, view, event, cast)
        rows = Rows(cast.first, cast.second)
        for i, f in enumerate(event.footprints):
            flag = not exchange(event) or view.index in self.values.writers
            sem = event.sem if flag else Sem.WEAK
            nature = Nature(f.space, f.mode, f.proxy, "", sem, event.scope)
            for spot in self.layout.find(self.at, i):
                self.synchronous(view, cast, rows, spot, nature, f.may, event, f.bounds)
        if self.values.any:
            self.values.send(self, view, event, cast)

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
            if event.unit > WARP and rows.tables is not None:
                began = rows.tables[self.clocks.levels.happens]
                for i, end in enumerate(zip(*(e.tolist() for e in ends["all"]), strict=True)):
                    self._began[end] = began[i]
        issued = (rep, self.clocks.epoch[rep])
        waits = ()
        if event.engine == "wgmma":
            waits = self.engines.own_waits(cast, event.unit, ends["all"][1])
        over = list(columns.values()) if columns else [ends["all"]]
        self.operations[self.at] = (lanes, actor, over)
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
                    waits=waits,
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
        known = list(self.engines.wait_group(event, cast))
        if event.engine == "wgmma":
            self.meet_in_time(cast)
            # What is complete has been issued by all warps of the warpgroup.
            now = self.clocks.table[self.clocks.levels.happens]
            for rep, chain, value in known:
                began = self._began.get((chain, value))
                if began is not None:
                    np.maximum(now[rep], began, out=now[rep])
        self.know(known)

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
            if levels.map_released != visible:
                if event.sem is not Sem.ACQUIRE:
                    clocks.fence_proxy(cast.pick, levels.map_released)
                if event.sem is not Sem.RELEASE:
                    for number, reps in self.maps.named(view, event, cast):
                        clocks.fence_map(reps, number)
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
