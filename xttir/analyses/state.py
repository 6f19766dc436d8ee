"""What a pass over the events of some blocks knows: clocks, memory, barriers; and its helpers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.bounds import selected
from xttir.analyses.classes import Cast, thread_classes
from xttir.analyses.clocks import Clocks, Fences, Levels
from xttir.analyses.engines import Chains, Engines
from xttir.analyses.events import Bounds, Proxy, Space
from xttir.analyses.layout import Layout, Spot
from xttir.analyses.lifetimes import Lifetimes
from xttir.analyses.maps import Maps
from xttir.analyses.named_barriers import Generation, Part, meetings
from xttir.analyses.phases import Certifier
from xttir.analyses.project import Blocks, View
from xttir.analyses.races import Conflict, Rows, Sweep
from xttir.analyses.records import Nature, Record
from xttir.analyses.replay import Barrier, replay
from xttir.analyses.spins import Doubts
from xttir.analyses.values import ValueEdges
from xttir.analyses.wording import Words


@dataclass(slots=True)
class Published:
    """What the updates of a barrier have published: to waits of any scope, and to those of
    cluster scope only (released by another block)."""

    near: np.ndarray
    far: np.ndarray


@dataclass(slots=True)
class MeetingFault:
    """A named barrier out of step. `what`: "early" (arrives before the generation before is
    over), "counts" (participants give different counts), "nobody" (all arrive, none waits)."""

    what: str
    generation: Generation
    part: Part
    other: Part | None
    clock: np.ndarray
    rep: int


Operation = tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]
"""Of an asynchronous operation: its lanes, their actors, and for each barrier (or other mechanism)
that tells when it is over, chains and values by actor: one of them is enough to know."""


class State:
    """See `happens_before.Order`."""

    def __init__(
        self, blocks: Blocks, layout: Callable[[Blocks], Layout], doubts: Doubts | None = None
    ):
        self.blocks = blocks
        self.replayed = replay(blocks)
        self.met = meetings(blocks)
        self.values = ValueEdges.find(blocks, doubts)
        self.classes = thread_classes(blocks, self.replayed, self.met, self.values)
        self.layout = layout(blocks)
        self.reps = self.classes.reps
        self.chains = Chains(self.reps, self.replayed.chains, self.met.chains, self.values.places)
        self.engines = Engines(blocks, self.classes, self.chains)
        self.maps = Maps(blocks)
        self.clocks = Clocks(self.reps, self.chains.count, _levels(blocks, self.values, self.maps))
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
        self.operations: dict[int, Operation] = {}
        """By position of an asynchronous operation, by unit."""
        self.at = 0
        self._published: dict[Barrier, Published] = {}
        self._complete: dict[tuple[Barrier, int], Published] = {}
        self._met: dict[Generation, np.ndarray] = {}
        self._fences: dict[Generation, Fences] = {}
        self._cluster: dict[int, np.ndarray] = {}
        self._arrivals = np.zeros(self.reps, np.int64)
        self._waits = np.zeros(self.reps, np.int64)
        self._gone: list[tuple[int, np.ndarray]] = []
        """Ended threads: how often they arrived at the cluster barrier, clock in time."""
        self._ctas: dict[int, frozenset[int]] = {}

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

    def know(self, known: Iterable[tuple[int, int, int]]) -> None:
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

    def synchronous(
        self,
        view: View,
        cast: Cast,
        rows: Rows,
        spot: Spot,
        nature: Nature,
        may: bool = False,
        event: ev.Access | None = None,
        bounds: Bounds | None = None,
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
            equal=event is not None and event.equal,
            copied=event is not None and event.copied,
            bounds=selected(bounds, spot.row, slice(view.lo, view.hi)),
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


def _levels(blocks: Blocks, values: ValueEdges, maps: Maps) -> Levels:
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
    levels = Levels.needed(
        remote=blocks.count > 1,
        cluster_barrier=ev.ClusterBarrier in kinds,
        proxies=Proxy.ASYNC in proxies,
        tensor_maps=maps.count if Proxy.TENSORMAP in proxies else -1,
        tensor_memory=tensor or ev.TensorAlloc in kinds,
        values=values.doubtful or bool(values.spins.doubts.writes),
        fences=values.any
        and ev.Fence in kinds
        and (ev.NamedBarrier in kinds or ev.WarpSync in kinds),
    )
    levels.map_numbers = maps.numbers
    return levels
