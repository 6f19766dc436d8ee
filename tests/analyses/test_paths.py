"""The path that orders two accesses, on small kernels; without it, that there is none."""

from collections.abc import Callable

import pytest

from xttir.analyses import events as ev
from xttir.analyses.build import Kernel
from xttir.analyses.events import Scope, Sem, Space
from xttir.analyses.verify import verify_trace


def paths(k: Kernel, first: ev.Event, second: ev.Event) -> list[str]:
    """What is said of the lines of two events (an instruction's line is its number plus one)."""
    report = verify_trace(k.trace(), pair=(first.ins + 1, second.ins + 1))
    assert report.paths == list(report.explain())[: len(report.paths)]
    return report.paths


def hops(text: str) -> list[str]:
    return [line.strip() for line in text.split(":\n", 1)[1].splitlines()]


def ring() -> tuple[Kernel, ev.Event, ev.Event]:
    """A producer refills a buffer that a consumer gives back; copy and read."""
    k = Kernel(threads=64)
    full, empty = k.barrier("full"), k.barrier("empty")
    x, g = k.shared("x", 64), k.tensor("g", 256)
    p, c = k.agent(0), k.agent(32)
    for b in (full, empty):
        p.init(b, 1)
    k.everybody().sync()
    made: dict[str, int] = {}

    def once(name: str, call: Callable[..., ev.Event], *args, **more) -> ev.Event:
        event = call(*args, **more, ins=made.get(name))
        made[name] = event.ins
        return event

    copy = read = ev.Event(0, p.lanes)
    for t in range(3):
        once("pw", p.wait, empty, t & 1 ^ 1)
        once("pa", p.arrive, full, expect=64)
        copy = once("copy", p.copy, x, g.part(64 * t, 64), full)
        once("cw", c.wait, full, t & 1)
        read = once("read", c.read, x)
        once("ca", c.arrive, empty)
    return k, copy, read


def test_completion_and_release_of_a_buffer():
    k, copy, read = ring()
    filled, emptied = paths(k, copy, read)
    counts, waits = hops(filled)
    assert counts == "its completion counts on the mbarrier at shared 0, phase 0"
    assert waits.startswith("thread 32: ")
    assert "waits for phase 0 of the mbarrier at shared 0" in waits
    arrives, waits = hops(emptied)
    assert arrives.startswith("thread 32: ")
    assert arrives.endswith("arrives on the mbarrier at shared 8, phase 0")
    assert waits.startswith("thread 0: ")


def test_nothing_orders_them():
    k = Kernel(threads=64)
    x = k.shared("x", 16)
    write, read = k.agent(0).write(x), k.agent(32).read(x)
    (text,) = paths(k, write, read)
    assert hops(text) == ["nothing orders them"]


def test_lines_that_do_not_conflict():
    k = Kernel(threads=64)
    x, y = k.shared("x", 16), k.shared("y", 16)
    write, read = k.agent(0).write(x), k.agent(32).read(y)
    (text,) = paths(k, write, read)
    assert text.startswith("no two accesses")


@pytest.mark.parametrize("how", ["sync", "arrive", "cluster", "warp"])
def test_barriers(how: str):
    k = Kernel(threads=64, ctas=2, cluster=2) if how == "cluster" else Kernel(threads=64)
    x = k.shared("x", 16)
    a, b = k.agent(0), k.agent(1 if how == "warp" else 32)
    write = a.write(x)
    if how == "sync":
        k.everybody().sync()
    elif how == "arrive":
        k.agent(range(32)).sync(3, 64, kind="arrive")
        k.agent(range(32, 64)).sync(3, 64)
    elif how == "cluster":
        k.everybody().cluster_arrive()
        k.everybody().cluster_wait()
    else:
        k.agent(range(32)).warp_sync()
    (text,) = paths(k, write, b.read(x))
    found = hops(text)
    assert len(found) == (2 if how in ("arrive", "cluster") else 1)
    word = {"sync": "at barrier 0", "arrive": "at barrier 3", "cluster": "all", "warp": "together"}
    assert word[how] in found[-1]


def test_groups_and_a_chain_of_threads():
    k = Kernel(threads=96)
    x, g = k.shared("x", 16), k.tensor("g", 16)
    one, two = k.barrier("one"), k.barrier("two")
    a, b, c = k.agent(0), k.agent(32), k.agent(64)
    for barrier in (one, two):
        a.init(barrier, 1)
    k.everybody().sync()
    copy = a.cp_async(x, g)
    a.commit_group()
    a.wait_group()
    a.arrive(one)
    b.wait(one, 0)
    b.arrive(two)
    c.wait(two, 0)
    (text,) = paths(k, copy, c.read(x))
    assert [h.split(":")[0] for h in hops(text)] == ["thread 0"] * 2 + ["thread 32"] * 2 + [
        "thread 64"
    ]
    assert hops(text)[0].endswith("waits until it is complete")


@pytest.mark.parametrize("fenced", [True, False])
def test_proxy_fence(fenced: bool):
    k = Kernel(threads=64)
    x, g = k.shared("x", 64), k.tensor("g", 64)
    a, b = k.agent(0), k.agent(32)
    write = a.write(x)
    if fenced:
        a.proxy_fence([Space.SHARED])
    k.everybody().sync()
    copy = b.copy(g, x)
    (text,) = paths(k, write, copy)
    found = hops(text)
    if fenced:
        assert "fence.proxy.async" in found[0]
        assert "barrier 0" in found[1]
    else:
        assert "barrier 0" in found[0]
        assert found[1].startswith("lacking: no proxy fence")


def test_commit():
    k = Kernel(threads=64, arch=100)
    done, x = k.barrier("done"), k.shared("x", 64)
    d = k.cells("d", 16)
    a, b = k.agent(0), k.agent(32)
    a.init(done, 1)
    k.everybody().sync()
    mma = a.mma(d, x)
    a.arrive(done, by="commit")
    b.wait(done, 0)
    (text,) = paths(k, mma, b.write(x))
    assert hops(text)[0].endswith("once it is complete")
    assert hops(text)[1].startswith("thread 32: ")


def test_relaxed_signals_with_fences():
    k = Kernel(threads=64)
    bar, x = k.barrier("bar"), k.shared("x", 64)
    a, b = k.agent(0), k.agent(32)
    a.init(bar, 1)
    k.everybody().sync()
    write = a.write(x)
    a.fence(scope=Scope.CTA)
    a.arrive(bar, sem=Sem.RELAXED)
    b.wait(bar, 0, sem=Sem.RELAXED)
    b.fence(scope=Scope.CTA)
    (text,) = paths(k, write, b.read(x))
    found = hops(text)
    assert "arrives on" in found[0]
    assert "waits for" in found[1]
    assert "fence" in found[2]
