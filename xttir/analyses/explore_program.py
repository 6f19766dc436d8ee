"""What the explorer runs: per agent the steps of a small trace.

An agent is a set of lanes that step together (by default one lane each). Control flow is fixed in
a trace, so which groups a wait covers and what a commit tracks is static. Sets of accesses are
Python integers: bit i says "access i", bit n + i "access i, through a proxy fence as well", bit
2 n + i "access i, a write, has been seen by a read that is over".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.analyses.explore_types import STRONG, Do, Part, Signal, Step, Thing, row_of
from xttir.diagnostics import Unsupported


class Program:
    """A trace compiled for the explorer; `explore_shared.compile_program` makes it."""

    def __init__(self, trace: ev.Trace, agents: Sequence[Sequence[int]] | None = None):
        self.trace = trace
        self.threads = trace.threads_per_cta
        lanes = [int(c) * self.threads + t for c in trace.ctas for t in range(self.threads)]
        groups = [[lane] for lane in lanes] if agents is None else [sorted(g) for g in agents]
        self.lanes: list[list[int]] = groups
        self.agent_of = {lane: a for a, group in enumerate(groups) for lane in group}
        self.cta_of_agent = [group[0] // self.threads for group in groups]
        self.things: list[Thing] = []
        self.thing_index: dict[tuple[str, int, int], int] = {}
        self.parts: list[Part] = []
        self.signals: list[Signal] = []
        self.steps: list[list[Step]] = [[] for _ in groups]
        self.order: list[tuple[int, int]] = []
        """(agent, step) in the order of the trace."""
        self.relaxed = any(
            getattr(e, "sem", Sem.ACQ_REL) is Sem.RELAXED
            or (isinstance(e, ev.Access) and e.sem is not Sem.WEAK)
            for e in trace.events
        )
        self._uncommitted: dict[tuple[int, str], list[Part]] = defaultdict(list)
        self._groups: dict[tuple[int, str], list[list[Part]]] = defaultdict(list)
        self._tracked: dict[tuple[int, str], list[Part]] = defaultdict(list)
        self._ops: dict[int, int] = defaultdict(int)
        self._last_commit: dict[tuple[int, int], int] = {}
        self._arrivals: dict[int, int] = defaultdict(int)
        self._arrived: dict[int, bool] = defaultdict(bool)
        self.accesses: list[tuple[Step, list[Part]]] = []
        self.pipelines: list[tuple[Part, ev.AsyncOp]] = []
        for index, event in enumerate(trace.events):
            self._compile(index, event)
        for a, steps in enumerate(self.steps):
            if not steps or steps[-1].do is not Do.EXIT:
                if any(lane in self._stuck() for lane in self.lanes[a]):
                    continue
                self._add(a, Step(Do.EXIT, -1, tuple(self.lanes[a])))
        self.n = len(self.parts)
        """Accesses."""
        self.needs = [0] * self.n
        """Per access: what it must know of the others, if it comes after them."""
        self.writers: dict[int, tuple[int, ...]] = {}
        """Per shared-memory read: the sets of writes of which one must have been made."""
        self.generic_writes = self.inits = self.copied = 0
        self.remote: set[int] = set()
        """Blocks whose memory or barriers others use."""
        self.signal_objects: list[int] = []
        self.flights: dict[int, int] = {}
        """Per mbarrier: the signals that bring it bytes."""
        self.suffix: list[list[int]] = []
        """Per agent and step: the objects of that step and those after it."""

    def _stuck(self) -> set[int]:
        return {int(lane) for b in self.trace.blocked for lane in b.lanes}

    # Names of things ------------------------------------------------------------------------------

    def thing(self, kind: str, cta: int, address: int) -> int:
        key = (kind, cta, address)
        if key not in self.thing_index:
            self.thing_index[key] = len(self.things)
            self.things.append(Thing(kind, cta, address))
        return self.thing_index[key]

    def cta(self, lane: int) -> int:
        return lane // self.threads

    def wholly(self, bits: int) -> int:
        """Accesses that are over for everybody who knows of them: through both proxies, but for
        what cp.async has written, as a thread writes."""
        return bits | (bits & ~self.copied) << self.n | bits << 2 * self.n

    # Compiling events -----------------------------------------------------------------------------

    def _add(self, agent: int, step: Step) -> None:
        self.order.append((agent, len(self.steps[agent])))
        self.steps[agent].append(step)

    def _compile(self, index: int, event: ev.Event) -> None:
        rows: dict[int, list[int]] = defaultdict(list)
        for row, lane in enumerate(event.lanes.tolist()):
            if lane in self.agent_of:
                rows[self.agent_of[lane]].append(row)
        if isinstance(event, ev.AsyncOp):
            self._async(index, event, rows)
            return
        method = getattr(self, "_" + type(event).__name__, None)
        if method is None:
            raise Unsupported(f"the explorer has no rule for {type(event).__name__}")
        for agent, mine in rows.items():
            lanes = tuple(int(event.lanes[r]) for r in mine)
            method(event, agent, mine, Step(Do.NOTHING, index, lanes))

    def _part(
        self, index: int, agents: int, print_: ev.Footprint, cta: int, event: ev.Event
    ) -> Part:
        part = Part(
            len(self.parts),
            index,
            agents,
            print_.mode,
            print_.space,
            cta,
            print_.proxy,
            isinstance(event, ev.AsyncOp),
            event.sem if isinstance(event, ev.Access) else Sem.WEAK,
            event.scope if isinstance(event, ev.Access) else Scope.GPU,
            isinstance(event, ev.Access) and event.equal,
            event.engine if isinstance(event, ev.AsyncOp) else "",
        )
        self.parts.append(part)
        return part

    def _prints(
        self,
        index: int,
        event: ev.Event,
        prints: Sequence[ev.Footprint],
        rows: Sequence[int],
        agents: int,
        first_lane: Sequence[int],
    ) -> list[Part]:
        """The parts of `rows` of footprints; `first_lane[i]` is a lane of row `rows[i]`."""
        made: dict[tuple, Part] = {}
        for number, print_ in enumerate(prints):
            if print_.proxy is Proxy.TENSORMAP:
                continue
            pieces = print_.starts.shape[1]
            starts = np.broadcast_to(
                print_.starts, (max(len(print_.starts), max(rows) + 1), pieces)
            )
            ctas = None if print_.cta is None else np.broadcast_to(print_.cta, starts.shape)
            for row, lane in zip(rows, first_lane, strict=True):
                for k in range(pieces):
                    start = int(starts[row, k])
                    if start < 0:
                        continue
                    if print_.space is Space.GLOBAL:
                        cta = -1
                    else:
                        cta = self.cta(lane) if ctas is None else int(ctas[row, k])
                    key = (print_.mode, print_.space, cta, print_.proxy)
                    if key not in made:
                        made[key] = self._part(index, agents, prints[number], cta, event)
                    made[key].runs.append((start, start + print_.size))
        return list(made.values())

    def _Access(self, event: ev.Access, agent: int, rows: list[int], step: Step) -> None:
        parts = self._prints(step.event, event, event.footprints, rows, 1 << agent, step.lanes)
        step.parts, step.do = tuple(parts), Do.TOUCH
        if event.sem in STRONG:
            step.do, step.sem, step.scope = Do.STRONG, event.sem, event.scope
            step.flag = event.spins
            step.observed = -1
            if event.spins and event.observed is not None:
                step.observed = int(event.observed[rows[0]])
        self.accesses.append((step, parts))
        self._add(agent, step)

    def _async(self, index: int, event: ev.AsyncOp, rows: dict[int, list[int]]) -> None:
        units: dict[tuple[int, ...], list[int]] = defaultdict(list)
        agent_of_row = {r: a for a, mine in rows.items() for r in mine}
        for u in range(len(event.lanes) // event.unit):
            span = range(u * event.unit, (u + 1) * event.unit)
            members = tuple(sorted({agent_of_row[r] for r in span if r in agent_of_row}))
            if members:
                units[members].append(u)
        steps: dict[int, Step] = {}
        for members, mine in units.items():
            first = [int(event.lanes[u * event.unit]) for u in mine]
            agents = sum(1 << a for a in members)
            parts = self._prints(index, event, event.footprints, mine, agents, first)
            lanes = {
                a: tuple(
                    int(event.lanes[r])
                    for u in mine
                    for r in range(u * event.unit, (u + 1) * event.unit)
                    if agent_of_row.get(r) == a
                )
                for a in members
            }
            gather = -1
            if len(members) > 1:
                gather = self.thing("unit", index, mine[0])
                self.things[gather].agents, self.things[gather].local = agents, True
            for a in members:
                if a in steps:
                    raise Unsupported("an agent in part of two units of one operation")
                steps[a] = Step(Do.ISSUE, index, lanes[a], parts=tuple(parts), unit=gather)
                steps[a].flag = isinstance(event.completion, ev.ByCommit) or (
                    event.engine == "cp.async"
                )
                self.accesses.append((steps[a], parts))
            signals = 0
            if isinstance(event.completion, ev.ByBytes):
                signals = self._byte_signals(event, index, min(members), mine, first, parts)
            for a in members:
                steps[a].signals = signals
                for lane in lanes[a]:
                    self._remember(event, lane, parts)
            for part in parts:
                self.pipelines.append((part, event))
        for a, step in steps.items():
            self._add(a, step)

    def _remember(self, event: ev.AsyncOp, lane: int, parts: list[Part]) -> None:
        done = event.completion
        if isinstance(done, ev.ByGroup):
            self._uncommitted[lane, event.engine].extend(parts)
            if event.engine == "cp.async":
                self._tracked[lane, "cp.async"].extend(parts)
        elif isinstance(done, ev.ByCommit):
            self._tracked[lane, f"commit{done.cta_group}"].extend(parts)
        elif isinstance(done, ev.ByTensorWait):
            self._tracked[lane, done.which].extend(parts)
        self._ops[lane] += 1

    def _byte_signals(
        self,
        event: ev.AsyncOp,
        index: int,
        agent: int,
        units: list[int],
        lanes: list[int],
        parts: list[Part],
    ) -> int:
        """Signals of the copies: the bytes of each unit at each barrier. Units of one agent that
        go to one barrier are signals of their own (their bytes come independently)."""
        done = event.completion
        assert isinstance(done, ev.ByBytes)
        address = done.address
        cta = np.broadcast_to(done.cta, address.shape)
        size = np.broadcast_to(done.bytes, address.shape)
        made = 0
        for u, lane in zip(units, lanes, strict=True):
            row = u if len(address) > 1 else 0
            live = [k for k in range(address.shape[1]) if address[row, k] >= 0]
            homes = [int(cta[row, k]) for k in live]
            for k, home in zip(live, homes, strict=True):
                mine = [p for p in parts if not p.writes or _home(p.cta, homes) in (home, None)]
                signal = Signal(
                    len(self.signals),
                    self.thing("mbarrier", home, int(address[row, k])),
                    int(size[row, k]),
                    sum(1 << p.index for p in mine),
                    0,
                    agent,
                    lane,
                    self._ops[lane],
                    index,
                    home != self.cta(lane),
                )
                self.signals.append(signal)
                made |= 1 << signal.index
        return made

    def _GroupCommit(self, event: ev.GroupCommit, agent: int, rows: list[int], step: Step) -> None:
        for lane in step.lanes:
            key = (lane, event.engine)
            self._groups[key].append(self._uncommitted.pop(key, []))
        self._add(agent, step)

    def _GroupWait(self, event: ev.GroupWait, agent: int, rows: list[int], step: Step) -> None:
        step.do = Do.COLLECT
        for lane in step.lanes:
            key = (lane, event.engine)
            if event.everything:
                self._groups[key].append(self._uncommitted.pop(key, []))
            groups = self._groups[key]
            for group in groups[: max(0, len(groups) - event.pending)]:
                for part in group:
                    if not (event.read and part.writes):
                        step.mask |= 1 << part.index
        self._add(agent, step)

    def _TensorWait(self, event: ev.TensorWait, agent: int, rows: list[int], step: Step) -> None:
        step.do = Do.COLLECT
        for lane in step.lanes:
            for part in self._tracked[lane, event.which]:
                step.mask |= 1 << part.index
        self._add(agent, step)

    def _BarrierInit(self, event: ev.BarrierInit, agent: int, rows: list[int], step: Step) -> None:
        self._lifetime(Do.INIT, event.address, event.count, event, agent, rows, step)

    def _BarrierInval(
        self, event: ev.BarrierInval, agent: int, rows: list[int], step: Step
    ) -> None:
        self._lifetime(Do.INVAL, event.address, np.zeros(1, np.int64), event, agent, rows, step)

    def _lifetime(
        self,
        do: Do,
        address: np.ndarray,
        count: np.ndarray,
        event: ev.Event,
        agent: int,
        rows: list[int],
        step: Step,
    ) -> None:
        step.do = do
        items, parts = [], []
        for row, lane in zip(rows, step.lanes, strict=True):
            at, cta = int(row_of(address, row)), self.cta(lane)
            print_ = ev.Footprint(Space.SHARED, Mode.WRITE, np.array([[at]]), 8)
            part = self._part(step.event, 1 << agent, print_, cta, event)
            part.runs.append((at, at + 8))
            parts.append(part)
            items.append((self.thing("mbarrier", cta, at), int(row_of(count, row)), part.index))
        step.items, step.parts = tuple(items), tuple(parts)
        self.accesses.append((step, parts))
        self._add(agent, step)

    def _targets(
        self, address: np.ndarray, cta: np.ndarray, row: int, lane: int
    ) -> Iterable[tuple[int, int]]:
        """(barrier, 1 if in another block) of a row."""
        cta = np.broadcast_to(cta, np.broadcast_shapes(cta.shape, address.shape))
        address = np.broadcast_to(address, cta.shape)
        r = row if len(address) > 1 else 0
        for k in range(address.shape[1]):
            if address[r, k] >= 0:
                home = int(cta[r, k])
                yield self.thing("mbarrier", home, int(address[r, k])), int(home != self.cta(lane))

    def _Arrive(self, event: ev.Arrive, agent: int, rows: list[int], step: Step) -> None:
        step.do, step.sem, step.scope = Do.ARRIVE, event.sem, event.scope
        step.flag = event.no_complete
        step.kind = "drop" if event.drop else ""
        items: list[tuple[int, ...]] = []
        for row, lane in zip(rows, step.lanes, strict=True):
            count, expect = int(row_of(event.count, row)), int(row_of(event.expect, row))
            for barrier, far in self._targets(event.address, event.cta, row, lane):
                if event.by == "thread":
                    items.append((barrier, count, expect, far))
                    continue
                step.signals |= 1 << self._deferred(event, step.event, agent, lane, barrier, far)
                if event.by == "cp.async" and not event.noinc:
                    items.append((barrier, -1, 0, far))
            if event.by != "thread":
                self._ops[lane] += 1
        step.items = tuple(items)
        self._add(agent, step)

    def _deferred(
        self, event: ev.Arrive, index: int, agent: int, lane: int, barrier: int, far: int
    ) -> int:
        key = "cp.async" if event.by == "cp.async" else f"commit{event.cta_group}"
        after = 0
        if event.by == "commit":
            after = self._last_commit.get((lane, event.cta_group), 0)
        publishes = sum(1 << i for i in {p.index for p in self._tracked[lane, key]})
        signal = Signal(
            len(self.signals),
            barrier,
            0,
            publishes,
            after & ~self._of_event(index),
            agent,
            lane,
            self._ops[lane],
            index,
            bool(far),
        )
        self.signals.append(signal)
        if event.by == "commit":
            self._last_commit[lane, event.cta_group] = after | 1 << signal.index
        return signal.index

    def _of_event(self, index: int) -> int:
        return sum(1 << s.index for s in self.signals if s.event == index)

    def _tx(
        self,
        event: ev.ExpectTx | ev.CompleteTx,
        sign: int,
        agent: int,
        rows: list[int],
        step: Step,
    ) -> None:
        step.do = Do.TX
        step.items = tuple(
            (barrier, sign * int(row_of(event.bytes, row)), far)
            for row, lane in zip(rows, step.lanes, strict=True)
            for barrier, far in self._targets(event.address, event.cta, row, lane)
        )
        self._add(agent, step)

    def _ExpectTx(self, event: ev.ExpectTx, agent: int, rows: list[int], step: Step) -> None:
        self._tx(event, 1, agent, rows, step)

    def _CompleteTx(self, event: ev.CompleteTx, agent: int, rows: list[int], step: Step) -> None:
        self._tx(event, -1, agent, rows, step)

    def _Wait(self, event: ev.Wait, agent: int, rows: list[int], step: Step) -> None:
        step.do, step.sem, step.scope, step.flag = Do.WAIT, event.sem, event.scope, event.peek
        items = []
        for row, lane in zip(rows, step.lanes, strict=True):
            phase = int(row_of(event.phase, row))
            parity = int(row_of(event.parity, row)) if phase < 0 else phase & 1
            barrier = self.thing("mbarrier", self.cta(lane), int(row_of(event.address, row)))
            items.append((barrier, parity & 1, phase))
        step.items = tuple(dict.fromkeys(items))
        self._add(agent, step)

    def _NamedBarrier(
        self, event: ev.NamedBarrier, agent: int, rows: list[int], step: Step
    ) -> None:
        ids = {(int(row_of(event.id, r)), int(row_of(event.count, r))) for r in rows}
        if len(ids) > 1:
            raise Unsupported("lanes of one agent at different named barriers")
        id_, count = ids.pop()
        thing = self.thing("named", self.cta(step.lanes[0]), id_)
        self.things[thing].agents |= 1 << agent
        step.do, step.kind = Do.MEET, event.kind
        step.items = ((thing, count, len(step.lanes)),)
        self._add(agent, step)

    def _Together(self, event: ev.Together, agent: int, rows: list[int], step: Step) -> None:
        self._warp(event, "together", agent, rows, step)

    def _WarpSync(self, event: ev.WarpSync, agent: int, rows: list[int], step: Step) -> None:
        self._warp(event, "warp", agent, rows, step)

    def _warp(
        self,
        event: ev.WarpSync | ev.Together,
        kind: str,
        agent: int,
        rows: list[int],
        step: Step,
    ) -> None:
        masks = {int(row_of(event.mask, r)) for r in rows}
        if len(masks) > 1:
            raise Unsupported("lanes of one agent in different warp masks")
        mask = masks.pop()
        cta, tid = divmod(step.lanes[0], self.threads)
        warp = tid // 32
        named = [
            cta * self.threads + warp * 32 + i
            for i in range(32)
            if mask >> i & 1 and warp * 32 + i < self.threads
        ]
        thing = self.thing(kind, cta, warp << 32 | mask)
        self.things[thing].local = True
        for lane in named:
            if lane in self.agent_of:
                self.things[thing].agents |= 1 << self.agent_of[lane]
        step.do, step.kind = Do.MEET, kind
        step.items = ((thing, 0, len(step.lanes)),)
        self._add(agent, step)

    def _ClusterBarrier(
        self, event: ev.ClusterBarrier, agent: int, rows: list[int], step: Step
    ) -> None:
        cluster = self.cta(step.lanes[0]) // self.trace.ctas_per_cluster
        thing = self.thing("cluster", cluster * self.trace.ctas_per_cluster, 0)
        self.things[thing].local = True
        step.sem = event.sem
        waits = event.kind == "wait"
        step.do = Do.CLUSTER_WAIT if waits else Do.CLUSTER_ARRIVE
        step.flag = self._arrived[agent] is not waits
        self._arrived[agent] = not waits
        self._arrivals[agent] += not waits
        step.items = ((thing, self._arrivals[agent]),)
        self._add(agent, step)

    def _Fence(self, event: ev.Fence, agent: int, rows: list[int], step: Step) -> None:
        step.do, step.sem, step.kind = Do.FENCE, event.sem, event.only
        self._add(agent, step)

    def _ProxyFence(self, event: ev.ProxyFence, agent: int, rows: list[int], step: Step) -> None:
        step.do = Do.PROXY if event.proxy is Proxy.ASYNC else Do.NOTHING
        step.kind = ",".join(sorted(event.spaces))
        self._add(agent, step)

    def _skip(self, event: ev.Event, agent: int, rows: list[int], step: Step) -> None:
        self._add(agent, step)

    _TensorFence = _TensorRelinquish = _GridDependency = _skip

    def _tensor_memory(
        self,
        do: Do,
        event: ev.TensorAlloc | ev.TensorDealloc,
        agent: int,
        rows: list[int],
        step: Step,
    ) -> None:
        warps = {lane // 32 for lane in step.lanes}
        leaders = {int(lane) // 32: int(lane) for lane in event.lanes[::-1]}
        if any(leaders[w] in step.lanes for w in warps):
            step.do = do
            cta = self.cta(step.lanes[0])
            cells = np.arange(128, dtype=np.int64)[None] * 512 + event.base
            print_ = ev.Footprint(Space.TENSOR, Mode.WRITE, cells, event.columns)
            step.parts = tuple(
                self._prints(step.event, event, [print_], [0], 1 << agent, [step.lanes[0]])
            )
            step.items = ((self.thing("tensor", cta, 0), event.base, event.columns),)
            self.accesses.append((step, list(step.parts)))
        self._add(agent, step)

    def _TensorAlloc(self, event: ev.TensorAlloc, agent: int, rows: list[int], step: Step) -> None:
        self._tensor_memory(Do.ALLOC, event, agent, rows, step)

    def _TensorDealloc(
        self, event: ev.TensorDealloc, agent: int, rows: list[int], step: Step
    ) -> None:
        self._tensor_memory(Do.DEALLOC, event, agent, rows, step)

    def _Exit(self, event: ev.Exit, agent: int, rows: list[int], step: Step) -> None:
        if len(step.lanes) != len(self.lanes[agent]):
            raise Unsupported("lanes of one agent that exit apart")
        step.do = Do.EXIT
        self._add(agent, step)


def _home(cta: int, homes: list[int]) -> int | None:
    """The block on whose barrier the bytes for `cta` are counted: its own, its pair's, or all."""
    if cta in homes:
        return cta
    pair = [h for h in homes if h // 2 == cta // 2]
    return pair[0] if pair else None
