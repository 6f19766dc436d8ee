"""Hypothesis strategies for small asynchronous programs, right and wrong.

Each family draws a program that is right by construction, out of few roles, barriers and copies;
`programs` then changes it in up to two places. `free` draws instructions at random.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.analyses.sketch import Pen, Sketch
from xttir.analyses.build import Barrier, Kernel, Region
from xttir.analyses.events import Mode, Scope, Sem

SIZES = (16, 32, 48)


def _fill(producer: Pen, full: Barrier, pieces: list[tuple[Region, Region]], announce: str) -> None:
    """Copy pieces to a stage, with all bytes announced before the arrival completes."""
    total = sum(to.size for to, _ in pieces)
    if announce == "before":
        producer.arrive(full, expect=total)
    if announce == "tx first":
        for to, _ in pieces:
            producer.expect_tx(full, to.size)
    for to, source in pieces:
        producer.copy(to, source, full)
    if announce == "tx after copies":
        producer.expect_tx(full, total)
    if announce.startswith("tx"):
        producer.arrive(full)
    if announce == "sum":
        producer.arrive(full, expect=total)


@st.composite
def rings(draw: st.DrawFn) -> Sketch:
    """A producer fills stages by bulk copies; consumers of one or two threads read them."""
    stages = draw(st.integers(1, 2))
    tiles = draw(st.integers(1, 2 * stages + 1))
    widths = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=2))
    announce = draw(st.sampled_from(["sum", "before", "tx first", "tx after copies"]))
    how = draw(st.sampled_from(["read", "wgmma", "elect"]))
    k = Kernel(threads=1 + sum(widths))
    sketch = Sketch(k, warps=how != "elect" and draw(st.booleans()))
    full = [k.barrier(f"full{s}") for s in range(stages)]
    empty = [k.barrier(f"empty{s}") for s in range(stages)]
    data = [[k.shared(f"x{s}.{j}", size) for j, size in enumerate(sizes)] for s in range(stages)]
    source = k.tensor("source", sum(sizes) * tiles)
    producer = sketch.agent(0)
    consumers, leaders, at = [], [], 1
    for width in widths:
        threads = range(at, at + width)
        consumers.append(sketch.agents(threads) if how == "elect" else sketch.agent(threads))
        leaders.append(sketch.agent(at) if how == "elect" else None)
        at += width
    for s in range(stages):
        producer.init(full[s], 1)
        producer.init(empty[s], len(widths) if how == "elect" else sum(widths))
    sketch.everybody().sync()
    for i in range(tiles):
        s, bit = i % stages, i // stages & 1
        producer.wait(empty[s], bit ^ 1)
        pieces = []
        for j, size in enumerate(sizes):
            start = sum(sizes) * i + sum(sizes[:j])
            pieces.append((data[s][j], source.part(start, size)))
        _fill(producer, full[s], pieces, announce)
        for consumer, leader in zip(consumers, leaders, strict=True):
            consumer.wait(full[s], bit)
            if how == "wgmma":
                consumer.wgmma(*data[s])
                consumer.commit_group("wgmma")
                consumer.wait_group(0, "wgmma")
            else:
                for part in data[s]:
                    consumer.read(part)
            if leader is None:
                consumer.arrive(empty[s])
            else:
                consumer.warp_sync(consumer.mask)
                leader.arrive(empty[s])
    return sketch


@st.composite
def named(draw: st.DrawFn) -> Sketch:
    """Buffers handed over by named barriers: sync on one side, arrive on the other."""
    stages = draw(st.integers(1, 2))
    tiles = draw(st.integers(1, 4))
    producers, consumers = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    threads = producers + consumers
    k = Kernel(threads=threads)
    sketch = Sketch(k, warps=True)
    data = [k.shared(f"x{s}", 16) for s in range(stages)]
    p = sketch.agent(0 if producers == 1 else range(producers))
    c = sketch.agent(range(producers, threads))
    for i in range(tiles):
        s = i % stages
        full, empty = 1 + s, 1 + stages + s
        if i >= stages:
            p.sync(empty, threads)
        if producers == 1:
            p.write(data[s])
        else:
            p.access([data[s].part(8 * t, 8) for t in range(producers)], Mode.WRITE)
        p.sync(full, threads, "arrive")
        c.sync(full, threads)
        c.read(data[s])
        if i + stages < tiles:
            c.sync(empty, threads, "arrive")
    return sketch


@st.composite
def cp_async(draw: st.DrawFn) -> Sketch:
    """Threads copy their pieces ahead in groups and read everybody's, or through an mbarrier."""
    threads, stages = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    tiles = draw(st.integers(1, 4))
    how = draw(st.sampled_from(["groups", "noinc", "inc"]))
    k = Kernel(threads=threads, arch=80)
    sketch = Sketch(k)
    data = [k.shared(f"x{s}", 16 * threads) for s in range(stages)]
    source = k.tensor("source", 16 * threads * tiles)
    full = [k.barrier(f"full{s}") for s in range(stages)]
    lanes = [sketch.agent(t) for t in range(threads)]

    def fetch(i: int) -> None:
        for t, lane in enumerate(lanes):
            if i < tiles:
                piece = source.part(16 * (threads * i + t), 16)
                lane.cp_async(data[i % stages].part(16 * t, 16), piece)
            if how == "groups":
                lane.commit_group()
            elif i < tiles:
                lane.arrive(full[i % stages], by="cp.async", noinc=how == "noinc")
                if how == "inc":
                    lane.arrive(full[i % stages])

    if how != "groups":
        for s in range(stages):
            lanes[0].init(full[s], threads)
        sketch.everybody().sync()
    for i in range(stages - 1):
        fetch(i)
    everybody = sketch.everybody()
    for i in range(tiles):
        if how == "groups":
            everybody.wait_group(stages - 2)
        else:
            everybody.wait(full[i % stages], i // stages & 1)
        if threads > 1 or how != "groups":
            everybody.sync()
        fetch(i + stages - 1)
        everybody.read(data[i % stages])
    return sketch


@st.composite
def stores(draw: st.DrawFn) -> Sketch:
    """Threads write a buffer, one of them stores it by bulk copies, and it is used again."""
    threads, buffers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    tiles = draw(st.integers(1, 3))
    fence = draw(st.sampled_from(["writers", "reader"]))
    k = Kernel(threads=threads)
    sketch = Sketch(k, warps=draw(st.booleans()))
    data = [k.shared(f"x{b}", 16 * threads) for b in range(buffers)]
    target = k.tensor("target", 16 * threads * tiles)
    lanes = [sketch.agent(t) for t in range(threads)]
    for i in range(tiles):
        b = i % buffers
        if i >= buffers:
            lanes[0].wait_group(buffers - 1, "bulk", read=True)
            sketch.everybody().sync()
        for t, lane in enumerate(lanes):
            lane.write(data[b].part(16 * t, 16))
            if fence == "writers":
                lane.proxy_fence()
        sketch.everybody().sync()
        if fence == "reader":
            lanes[0].proxy_fence()
        lanes[0].copy(target.part(16 * threads * i, 16 * threads), data[b])
        lanes[0].commit_group("bulk")
    lanes[0].wait_group(0, "bulk", read=True)
    return sketch


@st.composite
def clusters(draw: st.DrawFn) -> Sketch:
    """Both blocks multicast their half to both; consumers release the stages of both."""
    stages, tiles = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    scope = draw(st.sampled_from([Scope.CTA, Scope.CLUSTER]))
    blocks = (0, 1)
    k = Kernel(threads=2, ctas=2, cluster=2)
    sketch = Sketch(k)
    full = [k.barrier(f"full{s}") for s in range(stages)]
    empty = [k.barrier(f"empty{s}") for s in range(stages)]
    data = [k.shared(f"x{s}", 32) for s in range(stages)]
    source = k.tensor("source", 32 * tiles)
    producers = [sketch.agent(0, cta) for cta in blocks]
    consumers = [sketch.agent(1, cta) for cta in blocks]
    for producer in producers:
        for s in range(stages):
            producer.init(full[s], 1)
            producer.init(empty[s], 2)
    everybody = sketch.everybody()
    if draw(st.booleans()):
        everybody.cluster_arrive()
    else:
        for producer in producers:
            producer.fence(only="mbarrier_init", scope=Scope.CLUSTER)
        everybody.cluster_arrive(Sem.RELAXED)
    everybody.cluster_wait()
    for i in range(tiles):
        s, bit = i % stages, i // stages & 1
        for block, producer in enumerate(producers):
            producer.wait(empty[s], bit ^ 1, scope=scope)
            producer.arrive(full[s], expect=32)
            half = data[s].part(16 * block, 16)
            producer.copy(half, source.part(32 * i + 16 * block, 16), full[s], multicast=blocks)
        for block, consumer in enumerate(consumers):
            consumer.wait(full[s], bit, scope=scope)
            consumer.read(data[s])
            consumer.arrive(empty[s])
            consumer.arrive(empty[s].of(1 - block), scope=scope)
    everybody.cluster_arrive()
    everybody.cluster_wait()
    return sketch


@st.composite
def tensor_cores(draw: st.DrawFn) -> Sketch:
    """Copies feed tcgen05.mma, whose accumulators an epilogue reads."""
    stages, slots = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    tiles, steps = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    k = Kernel(threads=3, arch=100)
    sketch = Sketch(k, warps=draw(st.booleans()))
    full = [k.barrier(f"full{s}") for s in range(stages)]
    empty = [k.barrier(f"empty{s}") for s in range(stages)]
    ready = [k.barrier(f"ready{s}") for s in range(slots)]
    free = [k.barrier(f"free{s}") for s in range(slots)]
    data = [k.shared(f"x{s}", 32) for s in range(stages)]
    source = k.tensor("source", 32 * tiles * steps)
    d = [k.cells(f"d{s}", 4, 4 * s) for s in range(slots)]
    load, mma, out = (sketch.agent(t) for t in range(3))
    for b in (*full, *empty, *ready, *free):
        load.init(b, 1)
    out.alloc(0, 32)
    sketch.everybody().sync()
    for tile in range(tiles):
        slot, turn = tile % slots, tile // slots & 1
        mma.wait(free[slot], turn ^ 1)
        for step in range(steps):
            i = tile * steps + step
            s, bit = i % stages, i // stages & 1
            load.wait(empty[s], bit ^ 1)
            load.arrive(full[s], expect=32)
            load.copy(data[s], source.part(32 * i, 32), full[s])
            mma.wait(full[s], bit)
            mma.mma(d[slot], data[s])
            mma.arrive(empty[s], by="commit")
        mma.arrive(ready[slot], by="commit")
        out.wait(ready[slot], turn)
        out.tensor_load(d[slot])
        out.tensor_wait("ld")
        out.arrive(free[slot])
    out.dealloc(0, 32)
    sketch.everybody().sync()
    return sketch


@st.composite
def flags(draw: st.DrawFn) -> Sketch:
    """Blocks hand data on by a flag in global memory."""
    k = Kernel(threads=1, ctas=2)
    sketch = Sketch(k)
    data, flag = k.tensor("data", 16), k.tensor("flag", 4)
    a, c = sketch.agent(0, 0), sketch.agent(0, 1)
    a.write(data)
    fences = draw(st.booleans())
    if fences:
        a.fence()
    sem = Sem.RELAXED if fences else Sem.RELEASE
    a.access(flag, Mode.WRITE, sem, Scope.GPU)
    sem = Sem.RELAXED if fences else Sem.ACQUIRE
    c.access(flag, Mode.READ, sem, Scope.GPU, observed="flag", spins=True)
    if fences:
        c.fence()
    c.read(data)
    return sketch


@st.composite
def free(draw: st.DrawFn) -> Sketch:
    """Two or three threads, one or two barriers, instructions at random."""
    threads, barriers = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    k = Kernel(threads=threads)
    sketch = Sketch(k, warps=draw(st.booleans()))
    bars = [k.barrier(f"b{i}") for i in range(barriers)]
    data = k.shared("x", 32)
    source = k.tensor("source", 32)
    lanes = [sketch.agent(t) for t in range(threads)]
    for bar in bars:
        lanes[0].init(bar, draw(st.integers(1, 2)))
    sketch.everybody().sync()
    for lane in lanes:
        for _ in range(draw(st.integers(0, 4))):
            bar = draw(st.sampled_from(bars))
            what = draw(
                st.sampled_from(["arrive", "expect", "wait", "copy", "tx", "read", "write"])
            )
            if what == "arrive":
                lane.arrive(bar)
            elif what == "expect":
                lane.arrive(bar, expect=draw(st.sampled_from([16, 32])))
            elif what == "wait":
                lane.wait(bar, draw(st.integers(0, 1)))
            elif what == "copy":
                size = draw(st.sampled_from([16, 32]))
                lane.copy(data.part(0, size), source.part(0, size), bar)
            elif what == "tx":
                lane.expect_tx(bar, 16)
            elif what == "read":
                lane.read(data)
            else:
                lane.write(data.part(0, 16))
    return sketch


FAMILIES = {
    "rings": rings(),
    "named": named(),
    "cp_async": cp_async(),
    "stores": stores(),
    "clusters": clusters(),
    "tensor_cores": tensor_cores(),
    "flags": flags(),
    "free": free(),
}


@st.composite
def programs(draw: st.DrawFn, families: tuple[str, ...] = tuple(FAMILIES)) -> Sketch:
    """A program of one of the families, changed in up to two places."""
    family = draw(st.sampled_from(families))
    sketch = draw(FAMILIES[family])
    for _ in range(draw(st.integers(0, 2))):
        if not sketch.calls:
            break
        index = draw(st.integers(0, len(sketch.calls) - 1))
        how = draw(st.sampled_from(["delete", "change", "swap", "repeat"]))
        if how == "change":
            sketch.change(index, draw(st.sampled_from([1, -1])))
        else:
            getattr(sketch, how)(index)
    return sketch
