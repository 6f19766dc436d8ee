"""Barriers that threads meet at, in happens-before: named ones, those of a warp, of a cluster.

PTX ISA 9.1, 9.7.13.1 to 9.7.13.4. A named barrier has the same generations in every schedule if
each is over before anybody arrives for the next one; that is checked here. Instructions that lanes
execute together order nothing in memory, but in time.
"""

from __future__ import annotations

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast
from xttir.analyses.lifetimes import LifetimeFault
from xttir.analyses.mbarriers import Mbarriers
from xttir.analyses.named_barriers import Generation, Part
from xttir.analyses.project import View
from xttir.analyses.state import MeetingFault
from xttir.analyses.values import RELEASES


class Barriers(Mbarriers):
    """Handlers of barrier events."""

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
            self.clocks.pass_on(mine.pick, self._fences.get(generation, []))

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
        self._fences.setdefault(generation, []).extend(clocks.fences(cast.pick))
        clocks.bump(cast.reps, part.view)

    def unattended(self) -> None:
        """Generations that are over though nobody waits for them: a wait is lacking, or the
        arrivals are; whoever waits next is one generation late."""
        for generation in self.met.generations:
            if generation.full and not any(part.waits for part in generation.parts):
                rep = int(self.classes.make(generation.parts[-1].lanes).first[0])
                parts = generation.parts
                other = parts[0] if len(parts) > 1 else None
                self._meeting("nobody", generation, parts[-1], other, rep)

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
            message, fences = self.clocks.full(group.pick), self.clocks.fences(group.pick)
            self.clocks.acquire(group.pick, message)
            self.clocks.pass_on(group.pick, fences)
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
