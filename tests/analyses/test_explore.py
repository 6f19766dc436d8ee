"""The explorer on programs of a few instructions: each with its fault, and its twin without."""

from __future__ import annotations

import pytest

from xttir.analyses.build import Agent, Kernel
from xttir.analyses.events import Mode, Scope, Sem, Space
from xttir.analyses.explore import Exploration, explore
from xttir.analyses.schedules import confirms
from xttir.diagnostics import Kind


def check(kernel: Kernel, *kinds: Kind, **options) -> Exploration:
    """Exactly these kinds of fault, and every witness schedule shows its fault."""
    found = explore(kernel.trace(), **options)
    assert found.exhausted
    assert found.kinds == set(kinds), [f.message for f in found.findings]
    for finding in found.findings:
        assert confirms(found, finding), finding
    return found


def agents(kernel: Kernel) -> list[Agent]:
    return [kernel.agent(t, cta) for cta in range(kernel.ctas) for t in range(kernel.threads)]


def ring(
    tiles: int = 4,
    stages: int = 2,
    consumers: int = 1,
    wrong_parity: int = -1,
    count: int | None = None,
    announced: int = 64,
    release_early: bool = False,
    split: str = "",
    no_wait: int = -1,
) -> Kernel:
    """A producer fills a ring of stages by bulk copies for some consumers."""
    k = Kernel(threads=1 + consumers)
    full = [k.barrier(f"full{s}") for s in range(stages)]
    empty = [k.barrier(f"empty{s}") for s in range(stages)]
    data = [k.shared(f"data{s}", 64) for s in range(stages)]
    source = k.tensor("source", 64 * tiles)
    producer, *readers = agents(k)
    for s in range(stages):
        producer.init(full[s], 1)
        producer.init(empty[s], consumers if count is None else count)
    k.everybody().sync()
    for i in range(tiles):
        s, bit = i % stages, i // stages & 1
        producer.wait(empty[s], bit ^ 1)
        if split:
            halves = [data[s].part(0, 32), data[s].part(32, 32)]
            first, second = (32, 0) if split == "wrong" else (0, 32)
            for half, arrives in zip(halves, (first, second), strict=True):
                producer.copy(half, source.part(64 * i + half.start % 64, 32), full[s])
                if arrives:
                    producer.arrive(full[s], expect=32)
                else:
                    producer.expect_tx(full[s], 32)
        else:
            producer.copy(data[s], source.part(64 * i, 64), full[s])
            producer.arrive(full[s], expect=announced)
        for reader in readers:
            if i != no_wait:
                reader.wait(full[s], bit ^ (i == wrong_parity))
            if release_early:
                reader.arrive(empty[s])
            reader.read(data[s])
            if not release_early:
                reader.arrive(empty[s])
    return k


@pytest.mark.parametrize(("stages", "consumers"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_ring(stages, consumers):
    check(ring(2 * stages, stages, consumers))


def test_ring_with_the_stage_released_too_early():
    check(ring(release_early=True), Kind.RACE)


def test_ring_with_a_wait_left_out():
    found = explore(ring(no_wait=2).trace())
    assert Kind.RACE in found.kinds


def test_ring_with_a_wrong_parity():
    found = explore(ring(wrong_parity=2).trace())
    assert {Kind.PHASE, Kind.DEADLOCK} & found.kinds


def test_ring_with_too_few_arrivals():
    check(ring(count=2), Kind.DEADLOCK)


def test_ring_with_too_many_arrivals():
    found = explore(ring(consumers=2, count=1).trace())
    assert Kind.PHASE in found.kinds


def test_ring_with_too_many_bytes_announced():
    assert Kind.DEADLOCK in explore(ring(announced=80).trace()).kinds


def test_ring_with_too_few_bytes_announced():
    found = explore(ring(tiles=1, announced=48).trace())
    assert any("48 of the 64 bytes" in f.message for f in found.findings)


def test_announcements_before_the_arrival_may_be_split():
    check(ring(split="right"))


def test_announcement_after_the_arrival():
    found = explore(ring(tiles=1, split="wrong").trace())
    assert {Kind.PHASE, Kind.RACE} <= found.kinds


def test_bytes_may_land_in_pieces():
    """Two copies, the arrival announces one: any 32 of the 64 bytes complete the phase."""
    k = Kernel(threads=1)
    full, x, g = k.barrier("full"), k.shared("x", 64), k.tensor("g", 64)
    (p,) = agents(k)
    p.init(full, 1)
    p.copy(x.part(0, 32), g.part(0, 32), full)
    p.copy(x.part(32, 32), g.part(32, 32), full)
    p.arrive(full, expect=32)
    p.wait(full, 0)
    assert Kind.PHASE in explore(k.trace()).kinds


# mbarriers ----------------------------------------------------------------------------------------


def one_barrier(count: int = 1, threads: int = 2) -> tuple[Kernel, list[Agent], object]:
    k = Kernel(threads=threads)
    b = k.barrier("b")
    k.agent(0).init(b, count)
    k.everybody().sync()
    return k, agents(k), b


def test_a_fresh_barrier_passes_parity_one():
    k, (a, c), b = one_barrier()
    a.wait(b, 1)
    c.wait(b, 1)
    assert set(check(k).phases.values()) == {0, -1}  # 0: the generation of bar.sync


def test_a_wait_one_phase_early_passes_at_once():
    k, (a, c), b = one_barrier()
    a.arrive(b)
    a.arrive(b)
    c.wait(b, 1)
    check(k, Kind.PHASE)


def test_a_wait_two_phases_late_hangs():
    k, (a, c), b = one_barrier()
    c.wait(b, 0)
    for _ in range(2):
        a.arrive(b)
    check(k, Kind.DEADLOCK)


def test_an_announcement_alone_completes_a_phase():
    k, (a, c), b = one_barrier()
    a.complete_tx(b, 64)
    a.arrive(b)
    a.expect_tx(b, 64)
    c.wait(b, 0)
    check(k)


def test_use_before_init():
    k = Kernel(threads=2)
    b = k.barrier("b")
    k.agent(0).init(b, 1)
    k.agent(1).arrive(b)
    check(k, Kind.LIFETIME, Kind.RACE)


def test_init_twice():
    k, (a, _), b = one_barrier()
    a.init(b, 1)
    check(k, Kind.LIFETIME)


def test_reuse_of_the_word_needs_inval():
    for inval in (True, False):
        k, (a, c), b = one_barrier()
        a.arrive(b)
        c.wait(b, 0)
        k.everybody().sync()
        if inval:
            a.inval(b)
        a.write(k.shared("other", 16).part(b.address - k.shared_bytes + 16, 8))
        check(k, *([] if inval else [Kind.LIFETIME]))


def test_a_dropped_arrival_is_not_expected_any_more():
    for drop in (True, False):
        k, (a, c), b = one_barrier(count=2)
        a.arrive(b, drop=drop)
        c.arrive(b)
        c.wait(b, 0)
        c.arrive(b)
        c.wait(b, 1)
        check(k, *([] if drop else [Kind.DEADLOCK]))


def test_a_copy_publishes_only_itself():
    for via_arrival in (True, False):
        k, (a, c), b = one_barrier(count=1)
        x, y, g = k.shared("x", 16), k.shared("y", 16), k.tensor("g", 16)
        a.write(y)
        a.copy(x, g, b)
        (a if via_arrival else c).arrive(b, expect=16)
        c.wait(b, 0)
        c.read(x)
        c.read(y)
        a.wait(b, 0)
        check(k, *([] if via_arrival else [Kind.RACE]))


def test_a_peek_names_its_phase():
    k, (a, c), b = one_barrier()
    c.wait(b, 0, peek=True)
    c.wait(b, 0)
    a.arrive(b)
    check(k)
    k, (a, c), b = one_barrier()
    c.wait(b, 1, peek=True)
    c.wait(b, 0)
    a.arrive(b)
    a.arrive(b)
    assert Kind.PHASE in explore(k.trace()).kinds


# Groups, engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pending", [0, 1])
def test_cp_async_groups(pending):
    k = Kernel(threads=1)
    x, g = k.shared("x", 32), k.tensor("g", 32)
    (a,) = agents(k)
    a.cp_async(x.part(0, 16), g.part(0, 16))
    a.commit_group()
    a.cp_async(x.part(16, 16), g.part(16, 16))
    a.commit_group()
    a.wait_group(pending)
    a.read(x.part(0, 16))
    a.read(x.part(16, 16))
    a.wait_group(0)
    check(k, *([Kind.RACE] if pending else []))


def test_only_the_issuer_waits_for_its_groups():
    k = Kernel(threads=2)
    x, g = k.shared("x", 16), k.tensor("g", 16)
    a, c = agents(k)
    a.cp_async(x, g)
    a.commit_group()
    c.wait_group(0)
    k.everybody().sync()
    c.read(x)
    a.wait_group(0)
    check(k, Kind.RACE)


def test_cp_async_arrives_when_it_has_landed():
    for noinc, count in ((True, 1), (False, 1), (False, 2)):
        k, (a, c), b = one_barrier(count=count)
        x, g = k.shared("x", 16), k.tensor("g", 16)
        a.cp_async(x, g)
        a.arrive(b, by="cp.async", noinc=noinc)
        if count == 2:
            a.arrive(b)
            c.arrive(b)
        c.wait(b, 0)
        c.read(x)
        a.wait(b, 0)
        check(k, *([] if noinc or count == 2 else [Kind.DEADLOCK]))


def test_the_read_wait_of_bulk_groups_frees_the_source_only():
    for read, again in ((True, "source"), (True, "target"), (False, "target")):
        k = Kernel(threads=1)
        x, g = k.shared("x", 16), k.tensor("g", 16)
        (a,) = agents(k)
        a.write(x)
        a.proxy_fence()
        a.copy(g, x)
        a.commit_group("bulk")
        a.wait_group(0, "bulk", read=read)
        a.write(x) if again == "source" else a.read(g)
        check(k, *([Kind.RACE] if read and again == "target" else []))


def test_generic_writes_need_a_proxy_fence():
    for where in ("writer", "reader", "early", "none"):
        k = Kernel(threads=2)
        x, g = k.shared("x", 16), k.tensor("g", 16)
        a, c = agents(k)
        a.write(x)
        if where == "writer":
            a.proxy_fence()
        if where == "early":
            c.proxy_fence()
        k.everybody().sync()
        if where == "reader":
            c.proxy_fence()
        c.copy(g, x)
        c.commit_group("bulk")
        c.wait_group(0, "bulk")
        check(k, *([] if where in ("writer", "reader") else [Kind.PROXY]))


def test_wgmma_is_over_for_who_waits():
    for wait in (True, False):
        k = Kernel(threads=3)
        x = k.shared("x", 64)
        group, w = k.agent([0, 1]), k.agent(2)
        w.write(x)
        w.proxy_fence()
        k.everybody().sync()
        group.wgmma(x)
        group.commit_group("wgmma")
        if wait:
            group.wait_group(0, "wgmma")
        k.everybody().sync()
        w.write(x)
        if not wait:
            group.wait_group(0, "wgmma")
        check(k, *([] if wait else [Kind.RACE]))


def test_commit_tracks_the_thread_s_own_mmas():
    for same in (True, False):
        k = Kernel(threads=2, arch=100)
        b, d = k.barrier("b"), k.cells("d", 4)
        a, c = agents(k)
        a.init(b, 1)
        k.everybody().sync()
        a.mma(d)
        k.everybody().sync()
        (a if same else c).arrive(b, by="commit")
        for agent in (a, c):
            agent.wait(b, 0)
        c.tensor_load(d)
        c.tensor_wait("ld")
        assert (Kind.RACE in explore(k.trace()).kinds) is not same


def test_mmas_on_one_accumulator_run_in_order():
    for pipelined in (True, False):
        k = Kernel(threads=1, arch=100)
        b, d = k.barrier("b"), k.cells("d", 4)
        (a,) = agents(k)
        a.init(b, 1)
        a.mma(d, pipeline=1)
        a.mma(d, pipeline=1 if pipelined else 2)
        a.arrive(b, by="commit")
        a.wait(b, 0)
        check(k, *([] if pipelined else [Kind.RACE]))


def test_tensor_loads_are_over_at_their_wait():
    for wait in (True, False):
        k = Kernel(threads=1, arch=100)
        d = k.cells("d", 4)
        (a,) = agents(k)
        a.tensor_load(d)
        if wait:
            a.tensor_wait("ld")
        a.tensor_store(d)
        a.tensor_wait("st")
        a.tensor_wait("ld")
        check(k, *([] if wait else [Kind.RACE]))


# Named, warp and cluster barriers -----------------------------------------------------------------


def test_threads_that_arrive_get_nothing_back():
    for kind in ("sync", "arrive"):
        k = Kernel(threads=2)
        x, y = k.shared("x", 16), k.shared("y", 16)
        a, c = agents(k)
        a.write(x)
        a.sync(1, 2, kind)
        c.write(y)
        c.sync(1, 2)
        c.read(x)
        a.read(y)
        kinds = [] if kind == "sync" else [Kind.RACE]
        check(k, *kinds)


def test_named_barriers_in_opposite_order():
    k = Kernel(threads=2)
    a, c = agents(k)
    a.sync(1, 2)
    a.sync(2, 2)
    c.sync(2, 2)
    c.sync(1, 2)
    check(k, Kind.DEADLOCK)


def test_named_barrier_with_two_counts():
    k = Kernel(threads=3)
    a, b, c = agents(k)
    for agent, count in ((a, 2), (b, 3), (c, 3)):
        agent.sync(1, count)
    check(k, Kind.DEADLOCK)


def test_three_threads_at_a_barrier_for_two():
    k = Kernel(threads=3)
    x = k.shared("x", 16)
    a, b, c = agents(k)
    a.write(x)
    for agent in (a, b, c):
        agent.sync(1, 2)
    b.read(x)
    assert {Kind.DEADLOCK, Kind.RACE} <= explore(k.trace()).kinds


def test_warp_sync_orders_the_lanes_it_names():
    for mask in (0b11, 0b01):
        k = Kernel(threads=2)
        x = k.shared("x", 16)
        a, c = agents(k)
        a.write(x)
        a.warp_sync(mask)
        if mask == 0b11:
            c.warp_sync(mask)
        c.read(x)
        check(k, *([] if mask == 0b11 else [Kind.RACE]))


def cluster(arrive: Sem = Sem.RELEASE, fence: str | None = None) -> tuple[Kernel, Agent, Agent]:
    k = Kernel(threads=1, ctas=2, cluster=2)
    return k, k.agent(0, 0), k.agent(0, 1)


def meet(a: Agent, c: Agent, sem: Sem = Sem.RELEASE) -> None:
    for agent in (a, c):
        agent.cluster_arrive(sem)
    for agent in (a, c):
        agent.cluster_wait()


@pytest.mark.parametrize(
    ("sem", "fence", "good"),
    [
        (Sem.RELEASE, None, True),
        (Sem.RELAXED, None, False),
        (Sem.RELAXED, "mbarrier_init", True),
        (Sem.RELAXED, "", True),
    ],
)
def test_remote_arrivals_need_the_init(sem, fence, good):
    k, a, c = cluster()
    b = k.barrier("b")
    a.init(b, 1)
    if fence is not None:
        a.fence(only=fence)
    meet(a, c, sem)
    c.arrive(b.of(0))
    a.wait(b, 0)
    check(k, *([] if good else [Kind.RACE]))


@pytest.mark.parametrize(
    ("release", "acquire", "good"),
    [
        (Scope.CLUSTER, Scope.CLUSTER, True),
        (Scope.CTA, Scope.CLUSTER, False),
        (Scope.CLUSTER, Scope.CTA, False),
    ],
)
def test_remote_data_needs_cluster_scope(release, acquire, good):
    k, a, c = cluster()
    b, x = k.barrier("b"), k.shared("x", 16)
    a.init(b, 1)
    meet(a, c)
    c.write(x.of(0))
    c.arrive(b.of(0), scope=release)
    a.wait(b, 0, scope=acquire)
    a.read(x)
    check(k, *([] if good else [Kind.RACE]))


def test_a_block_must_not_exit_before_its_last_signal():
    for wait in (True, False):
        k, a, c = cluster()
        b = k.barrier("b")
        a.init(b, 1)
        meet(a, c)
        c.arrive(b.of(0))
        if wait:
            a.wait(b, 0)
        check(k, *([] if wait else [Kind.LIFETIME]))


def test_multicast_signals_every_block():
    for blocks in ([0, 1], [0]):
        k, a, c = cluster()
        b, x, g = k.barrier("b"), k.shared("x", 32), k.tensor("g", 32)
        for agent in (a, c):
            agent.init(b, 1)
        meet(a, c)
        for agent in (a, c):
            agent.arrive(b, expect=32)
        a.copy(x, g, b, multicast=blocks)
        for agent in (a, c):
            agent.wait(b, 0)
            agent.read(x)
        meet(a, c)
        check(k, *([] if blocks == [0, 1] else [Kind.DEADLOCK]))


# Order by values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sem", [Sem.RELEASE, Sem.RELAXED])
def test_a_spinning_read_orders_what_was_released(sem):
    k = Kernel(threads=1, ctas=2)
    flag, data = k.tensor("flag", 4), k.tensor("data", 4)
    a, c = k.agent(0, 0), k.agent(0, 1)
    a.write(data)
    a.access(flag, Mode.WRITE, sem, Scope.GPU)
    c.access(flag, Mode.READ, Sem.ACQUIRE, Scope.GPU, observed=1, spins=True)
    c.read(data)
    check(k, *([] if sem is Sem.RELEASE else [Kind.RACE]))


def test_atomics_do_not_race():
    for mode in (Mode.RMW, Mode.WRITE):
        k = Kernel(threads=2)
        x = k.tensor("x", 4)
        a, c = agents(k)
        a.access(x, mode, Sem.RELAXED if mode is Mode.RMW else Sem.WEAK, Scope.GPU)
        c.access(x, Mode.RMW, Sem.RELAXED, Scope.GPU)
        check(k, *([] if mode is Mode.RMW else [Kind.RACE]))


# Lifetimes ----------------------------------------------------------------------------------------


def test_a_block_must_not_exit_with_copies_in_flight():
    for wait in (True, False):
        k = Kernel(threads=1)
        x, g = k.shared("x", 16), k.tensor("g", 16)
        (a,) = agents(k)
        a.write(x)
        a.proxy_fence()
        a.copy(g, x)
        a.commit_group("bulk")
        if wait:
            a.wait_group(0, "bulk", read=True)
        check(k, *([] if wait else [Kind.LIFETIME]))


def test_tensor_memory_is_freed_after_its_last_use():
    for wait, free in ((True, True), (False, True), (True, False)):
        k = Kernel(threads=1, arch=100)
        d = k.cells("d", 4)
        (a,) = agents(k)
        a.alloc(0, 32)
        a.tensor_load(d)
        if wait:
            a.tensor_wait("ld")
        if free:
            a.dealloc(0, 32)
        a.tensor_wait("ld")
        check(k, *([] if wait and free else [Kind.RACE if free else Kind.RESOURCE]))


# The search itself --------------------------------------------------------------------------------


def test_the_bound_is_told():
    found = explore(ring(6, 3, 3).trace(), max_states=100)
    assert not found.exhausted
    assert not found.clean


@pytest.mark.parametrize("fault", [{}, {"release_early": True}, {"wrong_parity": 1}, {"count": 2}])
def test_reduction_finds_the_same(fault):
    trace = ring(**fault).trace()
    full, less = explore(trace, reduce=False), explore(trace)
    assert less.states <= full.states
    assert {(f.kind, f.places) for f in less.findings} == {
        (f.kind, f.places) for f in full.findings
    }


def test_lanes_can_step_together():
    trace = ring(4, 2, 4).trace()
    apart, together = explore(trace), explore(trace, agents=[[0], [1, 2, 3, 4]])
    assert apart.clean
    assert together.clean
    assert together.states < apart.states


def test_spaces_do_not_mix():
    k = Kernel(threads=2)
    a, c = agents(k)
    a.write(k.shared("x", 16))
    c.write(k.cells("d", 16))
    assert {p.space for p in explore(k.trace()).program.parts} == {Space.SHARED, Space.TENSOR}
    check(k)
