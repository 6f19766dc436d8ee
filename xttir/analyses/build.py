"""Traces by hand: what a small asynchronous program would emit, written one call an instruction.

    k = Kernel(threads=2)
    full, x, g = k.barrier("full"), k.shared("x", 64), k.tensor("g", 64)
    p, c = k.agent(0), k.agent(1)
    p.init(full, 1); k.everybody().sync()
    p.copy(x, g, full); p.arrive(full, expect=64)
    c.wait(full, 0); c.read(x)
    trace = k.trace()

Calls stand in the order of the schedule that the trace records. Tests and strategies use this; an
agent is a set of threads that execute each instruction together with the same operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Mode, Proxy, Scope, Sem, Space
from xttir.diagnostics import Location

_WRITTEN = "built.ptx"
"""File name of the places: line n is the n-th call."""


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes (cells, in tensor memory) [start, start + size) of a space.

    `cta`: the block whose memory it is, None for that of the thread that uses it.
    """

    name: str
    space: Space
    start: int
    size: int
    cta: int | None = None

    def part(self, start: int, size: int) -> Region:
        """The `size` bytes from `start` on."""
        return replace(self, start=self.start + start, size=size)

    def of(self, cta: int) -> Region:
        """The same offset in the shared (tensor) memory of block `cta`."""
        return replace(self, cta=cta)


@dataclass(frozen=True, slots=True)
class Barrier:
    """An mbarrier at a shared offset, of block `cta` or (None) of the block that uses it."""

    name: str
    address: int
    cta: int | None = None

    def of(self, cta: int) -> Barrier:
        return replace(self, cta=cta)


def _int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(slots=True)
class Kernel:
    """Collects events; `threads` per block, `ctas` blocks in clusters of `cluster`."""

    threads: int
    ctas: int = 1
    cluster: int = 1
    arch: int = 90
    name: str = "built"
    shared_bytes: int = 0
    buffers: list[tuple[str, int, int]] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)
    sources: list[ev.Source] = field(default_factory=list)
    blocked: list[ev.Blocked] = field(default_factory=list)
    exited: set[int] = field(default_factory=set)

    def _room(self, size: int, align: int) -> int:
        start = -(-self.shared_bytes // align) * align
        self.shared_bytes = start + size
        return start

    def barrier(self, name: str) -> Barrier:
        """Room for one mbarrier in every block."""
        return Barrier(name, self._room(8, 8))

    def shared(self, name: str, size: int) -> Region:
        return Region(name, Space.SHARED, self._room(size, 16), size)

    def tensor(self, name: str, size: int) -> Region:
        """A buffer in global memory."""
        start = (len(self.buffers) + 1) << 32
        self.buffers.append((name, start, size))
        return Region(name, Space.GLOBAL, start, size)

    def cells(self, name: str, columns: int, column: int = 0, lane: int = 0) -> Region:
        """Tensor memory: `columns` neighbouring cells of one lane."""
        return Region(name, Space.TENSOR, lane * 512 + column, columns)

    def agent(self, tids: int | Iterable[int], cta: int = 0) -> Agent:
        """Threads of block `cta` that execute together."""
        tids = [tids] if isinstance(tids, int) else sorted(tids)
        return Agent(self, np.array([cta * self.threads + t for t in tids], np.int32))

    def everybody(self) -> Agent:
        """All threads of all blocks."""
        return Agent(self, np.arange(self.ctas * self.threads, dtype=np.int32))

    def instruction(self, text: str) -> int:
        """A new instruction; its place is the line of its number, from 1."""
        self.sources.append(ev.Source(text, (Location(_WRITTEN, len(self.sources) + 1),)))
        return len(self.sources) - 1

    def trace(self, exits: bool = True) -> ev.Trace:
        """The trace; with `exits`, threads that have not exited do so at the end."""
        events = list(self.events)
        stuck = {int(lane) for entry in self.blocked for lane in entry.lanes}
        left = set(range(self.ctas * self.threads)) - self.exited - stuck
        sources = list(self.sources)
        if exits and left:
            sources.append(ev.Source("ret", (Location(_WRITTEN, len(sources) + 1),)))
            events.append(ev.Exit(len(sources) - 1, np.array(sorted(left), np.int32)))
        return ev.Trace(
            kernel=self.name,
            arch=self.arch,
            threads_per_cta=self.threads,
            ctas_per_cluster=self.cluster,
            ctas=np.arange(self.ctas, dtype=np.int32),
            instructions=sources,
            events=events,
            blocked=list(self.blocked),
            shared_bytes=self.shared_bytes,
            buffers=list(self.buffers),
        )


@dataclass(slots=True)
class Agent:
    """Threads that execute together. Every method is one instruction of each of them.

    `ins=` gives the instruction index of an earlier call, for what a loop executes again.
    """

    kernel: Kernel
    lanes: np.ndarray

    # Helpers
    def _emit(self, event: ev.Event) -> ev.Event:
        self.kernel.events.append(event)
        return event

    def _ins(self, text: str, ins: int | None) -> int:
        return self.kernel.instruction(text) if ins is None else ins

    def _own(self) -> np.ndarray:
        return (self.lanes // self.kernel.threads).astype(np.int32)

    def _at(self, barriers: Sequence[Barrier]) -> tuple[np.ndarray, np.ndarray]:
        """(n, k) addresses and blocks of `barriers`."""
        n = len(self.lanes)
        address = np.tile(_int64(*(b.address for b in barriers)), (n, 1))
        own = self._own()
        cta = np.stack([own if b.cta is None else np.full(n, b.cta) for b in barriers], axis=1)
        return address, cta.astype(np.int32)

    def footprint(
        self,
        regions: Region | Sequence[Region],
        mode: Mode,
        proxy: Proxy = Proxy.GENERIC,
        unit: int = 1,
        may: bool = False,
    ) -> ev.Footprint:
        """One region for all rows (lanes or units), or one region per row."""
        rows = len(self.lanes) // unit
        parts = [regions] * rows if isinstance(regions, Region) else list(regions)
        if len(parts) != rows or len({(r.space, r.size) for r in parts}) > 1:
            raise ValueError("one region for each row, of one space and size")
        own = self._own()[::unit]
        cta = [int(o) if r.cta is None else r.cta for o, r in zip(own, parts, strict=True)]
        return ev.Footprint(
            space=parts[0].space,
            mode=mode,
            starts=_int64(*(r.start for r in parts))[:, None],
            size=parts[0].size,
            proxy=proxy,
            cta=None if parts[0].space is Space.GLOBAL else np.array(cta, np.int32)[:, None],
            may=may,
        )

    # Accesses
    def access(
        self,
        regions: Region | Sequence[Region],
        mode: Mode,
        sem: Sem = Sem.WEAK,
        scope: Scope = Scope.CTA,
        observed: int | None = None,
        spins: bool = False,
        ins: int | None = None,
    ) -> ev.Event:
        """`observed`: index of the write event that is read (-1: the initial value)."""
        name = regions.name if isinstance(regions, Region) else regions[0].name
        print_ = self.footprint(regions, mode)
        seen = None if observed is None else np.full(len(self.lanes), observed, np.int32)
        i = self._ins(f"{mode.value} {name}", ins)
        return self._emit(ev.Access(i, self.lanes, (print_,), sem, scope, seen, spins))

    def read(self, regions: Region | Sequence[Region], ins: int | None = None) -> ev.Event:
        return self.access(regions, Mode.READ, ins=ins)

    def write(self, regions: Region | Sequence[Region], ins: int | None = None) -> ev.Event:
        return self.access(regions, Mode.WRITE, ins=ins)

    # Asynchronous operations
    def copy(
        self,
        to: Region,
        source: Region,
        *barriers: Barrier,
        size: int | None = None,
        multicast: Sequence[int] = (),
        ins: int | None = None,
    ) -> ev.Event:
        """A bulk copy that completes on `barriers` (by `size` bytes, default the region's), or
        through bulk groups where none is given; to the same place in all blocks of `multicast`."""
        wide = self.footprint(to, Mode.WRITE, Proxy.ASYNC)
        if multicast:
            barriers = tuple(b.of(c) for c in multicast for b in barriers)
            starts = np.tile(wide.starts, (1, len(multicast)))
            wide = replace(wide, starts=starts, cta=np.array([list(multicast)], np.int32))
        prints = (self.footprint(source, Mode.READ, Proxy.ASYNC), wide)
        done: ev.Completion = ev.ByGroup()
        if barriers:
            address, cta = self._at(barriers)
            done = ev.ByBytes(address, cta, _int64(to.size if size is None else size)[:, None])
        text = " ".join(["copy", to.name, source.name, *(b.name for b in barriers)])
        return self._emit(ev.AsyncOp(self._ins(text, ins), self.lanes, "bulk", 1, prints, done))

    def cp_async(self, to: Region, source: Region, ins: int | None = None) -> ev.Event:
        prints = (self.footprint(source, Mode.READ), self.footprint(to, Mode.WRITE))
        i = self._ins(f"cp.async {to.name} {source.name}", ins)
        return self._emit(ev.AsyncOp(i, self.lanes, "cp.async", 1, prints, ev.ByGroup()))

    def mma(
        self, d: Region, *sources: Region, pipeline: object = None, ins: int | None = None
    ) -> ev.Event:
        """tcgen05.mma of each lane: accumulates into `d`, reads `sources` (shared or tensor)."""
        prints = [self.footprint(d, Mode.READ), self.footprint(d, Mode.WRITE)]
        for s in sources:
            proxy = Proxy.ASYNC if s.space is Space.SHARED else Proxy.GENERIC
            prints.append(self.footprint(s, Mode.READ, proxy))
        i = self._ins(f"tcgen05.mma {d.name}", ins)
        done = ev.ByCommit(1)
        pipeline = (d.start, "kind") if pipeline is None else pipeline
        return self._emit(
            ev.AsyncOp(i, self.lanes, "tcgen05.mma", 1, tuple(prints), done, pipeline)
        )

    def wgmma(self, *sources: Region, ins: int | None = None) -> ev.Event:
        """One wgmma of all lanes together, reading `sources` from shared memory."""
        unit = len(self.lanes)
        prints = tuple(self.footprint(s, Mode.READ, Proxy.ASYNC, unit) for s in sources)
        i = self._ins("wgmma", ins)
        return self._emit(ev.AsyncOp(i, self.lanes, "wgmma", unit, prints, ev.ByGroup()))

    def tensor_load(self, source: Region, ins: int | None = None) -> ev.Event:
        """tcgen05.ld of all lanes together."""
        unit = len(self.lanes)
        prints = (self.footprint(source, Mode.READ, unit=unit),)
        i = self._ins(f"tcgen05.ld {source.name}", ins)
        done = ev.ByTensorWait("ld")
        return self._emit(ev.AsyncOp(i, self.lanes, "tcgen05.ld", unit, prints, done))

    def tensor_store(self, to: Region, ins: int | None = None) -> ev.Event:
        unit = len(self.lanes)
        prints = (self.footprint(to, Mode.WRITE, unit=unit),)
        i = self._ins(f"tcgen05.st {to.name}", ins)
        done = ev.ByTensorWait("st")
        return self._emit(ev.AsyncOp(i, self.lanes, "tcgen05.st", unit, prints, done))

    def tensor_wait(self, which: str, ins: int | None = None) -> ev.Event:
        return self._emit(ev.TensorWait(self._ins(f"tcgen05.wait {which}", ins), self.lanes, which))

    def tensor_fence(self, before: bool, ins: int | None = None) -> ev.Event:
        i = self._ins("tcgen05.fence " + ("before" if before else "after"), ins)
        return self._emit(ev.TensorFence(i, self.lanes, before))

    def alloc(self, base: int, columns: int, ins: int | None = None) -> ev.Event:
        return self._emit(ev.TensorAlloc(self._ins("alloc", ins), self.lanes, base, columns, 1))

    def dealloc(self, base: int, columns: int, ins: int | None = None) -> ev.Event:
        return self._emit(ev.TensorDealloc(self._ins("dealloc", ins), self.lanes, base, columns, 1))

    def commit_group(self, engine: str = "cp.async", ins: int | None = None) -> ev.Event:
        i = self._ins(f"commit_group {engine}", ins)
        return self._emit(ev.GroupCommit(i, self.lanes, engine))

    def wait_group(
        self,
        pending: int = 0,
        engine: str = "cp.async",
        read: bool = False,
        everything: bool = False,
        ins: int | None = None,
    ) -> ev.Event:
        i = self._ins(f"wait_group {engine} {pending}" + (" read" if read else ""), ins)
        return self._emit(ev.GroupWait(i, self.lanes, engine, pending, read, everything))

    # Barriers
    def init(self, barrier: Barrier, count: int, ins: int | None = None) -> ev.Event:
        i = self._ins(f"init {barrier.name} {count}", ins)
        n = len(self.lanes)
        address = np.full(n, barrier.address, np.int64)
        return self._emit(ev.BarrierInit(i, self.lanes, address, np.full(n, count, np.int64)))

    def inval(self, barrier: Barrier, ins: int | None = None) -> ev.Event:
        i = self._ins(f"inval {barrier.name}", ins)
        address = np.full(len(self.lanes), barrier.address, np.int64)
        return self._emit(ev.BarrierInval(i, self.lanes, address))

    def arrive(
        self,
        *barriers: Barrier,
        count: int = 1,
        expect: int = 0,
        sem: Sem = Sem.RELEASE,
        scope: Scope = Scope.CTA,
        drop: bool = False,
        no_complete: bool = False,
        by: str = "thread",
        noinc: bool = False,
        ins: int | None = None,
    ) -> ev.Event:
        """`by`: "thread", "cp.async" or "commit", as in `events.Arrive`."""
        address, cta = self._at(barriers)
        names = " ".join(b.name for b in barriers)
        text = f"arrive {names} {count}" + (f" expect {expect}" if expect else "")
        if by != "thread":
            text = f"{by} {text}"
        return self._emit(
            ev.Arrive(
                self._ins(text, ins),
                self.lanes,
                address,
                cta,
                _int64(count),
                _int64(expect),
                sem,
                scope,
                drop,
                no_complete,
                by,
                noinc,
                1 if by == "commit" else 0,
            )
        )

    def expect_tx(self, barrier: Barrier, bytes_: int, ins: int | None = None) -> ev.Event:
        address, cta = self._at([barrier])
        i = self._ins(f"expect_tx {barrier.name} {bytes_}", ins)
        return self._emit(ev.ExpectTx(i, self.lanes, address, cta, _int64(bytes_)))

    def complete_tx(self, barrier: Barrier, bytes_: int, ins: int | None = None) -> ev.Event:
        address, cta = self._at([barrier])
        i = self._ins(f"complete_tx {barrier.name} {bytes_}", ins)
        return self._emit(ev.CompleteTx(i, self.lanes, address, cta, _int64(bytes_)))

    def wait(
        self,
        barrier: Barrier,
        parity: int,
        phase: int = -1,
        sem: Sem = Sem.ACQUIRE,
        scope: Scope = Scope.CTA,
        peek: bool = False,
        ins: int | None = None,
    ) -> ev.Event:
        i = self._ins(("peek " if peek else "wait ") + f"{barrier.name} {parity}", ins)
        n = len(self.lanes)
        address = np.full(n, barrier.address, np.int64)
        bit, named = np.full(n, parity, np.int64), np.full(n, phase, np.int64)
        return self._emit(ev.Wait(i, self.lanes, address, bit, named, sem, scope, peek))

    def sync(
        self, id_: int = 0, count: int = 0, kind: str = "sync", ins: int | None = None
    ) -> ev.Event:
        """bar.sync; `kind` "arrive" or "red" for the others."""
        n = len(self.lanes)
        i = self._ins(f"bar.{kind} {id_} {count}", ins)
        ids, counts = np.full(n, id_, np.int32), np.full(n, count, np.int32)
        return self._emit(ev.NamedBarrier(i, self.lanes, ids, counts, kind))

    def warp_sync(self, mask: int = 0xFFFFFFFF, ins: int | None = None) -> ev.Event:
        masks = np.full(len(self.lanes), mask, np.uint32)
        return self._emit(ev.WarpSync(self._ins("warp.sync", ins), self.lanes, masks))

    def cluster_arrive(self, sem: Sem = Sem.RELEASE, ins: int | None = None) -> ev.Event:
        i = self._ins("barrier.cluster.arrive", ins)
        return self._emit(ev.ClusterBarrier(i, self.lanes, "arrive", sem))

    def cluster_wait(self, ins: int | None = None) -> ev.Event:
        i = self._ins("barrier.cluster.wait", ins)
        return self._emit(ev.ClusterBarrier(i, self.lanes, "wait", Sem.ACQUIRE))

    # Fences and the end
    def fence(
        self,
        sem: Sem = Sem.ACQ_REL,
        scope: Scope = Scope.GPU,
        only: str = "",
        ins: int | None = None,
    ) -> ev.Event:
        return self._emit(ev.Fence(self._ins("fence " + only, ins), self.lanes, sem, scope, only))

    def proxy_fence(
        self,
        spaces: Iterable[Space] = (Space.GLOBAL, Space.SHARED),
        proxy: Proxy = Proxy.ASYNC,
        ins: int | None = None,
    ) -> ev.Event:
        i = self._ins("fence.proxy.async", ins)
        return self._emit(ev.ProxyFence(i, self.lanes, proxy, frozenset(spaces)))

    def blocked(self, what: str, ins: int | None = None) -> None:
        """The threads cannot go on."""
        i = self._ins(what, ins)
        self.kernel.blocked.append(ev.Blocked(i, self.lanes, what))

    def exit(self, ins: int | None = None) -> ev.Event:
        self.kernel.exited |= {int(lane) for lane in self.lanes}
        return self._emit(ev.Exit(self._ins("ret", ins), self.lanes))
