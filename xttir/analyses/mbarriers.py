"""mbarriers in happens-before: what arrivals publish, what waits learn, what must be certified.

PTX ISA 9.1, 9.7.13.15 and 8.9: an arrival releases what its thread did before, a copy's bytes and a
commit only what they complete, an announcement nothing; phases add up, since all operations on one
object are atomic and observed in order.
"""

from __future__ import annotations

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.analyses.lifetimes import Deferred, Lasting
from xttir.analyses.phases import Update
from xttir.analyses.project import View
from xttir.analyses.races import Rows
from xttir.analyses.records import Nature
from xttir.analyses.replay import Barrier, Touch
from xttir.analyses.state import Published, State
from xttir.analyses.values import ACQUIRES, RELEASES


class Mbarriers(State):
    """Handlers of mbarrier events."""

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
        if late:
            signals = self.lifetimes.deferred.setdefault(barrier, {})
            signals[view.event.ins, int(cast.lanes[0])] = Deferred(
                touch.phase, self._over(view.event, cast)
            )
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
