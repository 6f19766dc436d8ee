"""The verdict on small traces, each right one with its faulty twin, and on drawn programs.

Drawn programs are held against all of their schedules: certified means that the explorer finds
nothing, refuted that it finds something too, and a witness shows what it claims when replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from xttir.analyses import events as ev
from xttir.analyses.build import Kernel
from xttir.analyses.events import Mode, Scope, Sem, Space
from xttir.analyses.verify import Report, verify_trace
from xttir.diagnostics import Kind, Policy, Verdict

hypothesis = pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402

from tests.analyses.sketch import Sketch  # noqa: E402
from tests.analyses.strategies import programs  # noqa: E402
from xttir.analyses.explore import explore  # noqa: E402
from xttir.analyses.schedules import replay, settle  # noqa: E402


def hard(report: Report) -> list[tuple[Kind, set[int]]]:
    return [
        (f.kind, {p.line for p in f.locations}) for f in report.faults if f.policy is Policy.ANY
    ]


def check(build: Callable[[Kernel, bool], None], threads: int, kind: Kind, **more) -> None:
    """`build(kernel, right)`: verified when right, a fault of `kind` otherwise."""
    for right in (True, False):
        k = Kernel(threads=threads, **more)
        build(k, right)
        report = verify_trace(k.trace())
        if right:
            assert report.verdict is Verdict.VERIFIED, report.faults
        else:
            assert kind in {found for found, _ in hard(report)}, report.faults


# Phases -----------------------------------------------------------------------------------------


def ring(k: Kernel, stages: int, tiles: int, empty_wait: bool = True) -> None:
    full = [k.barrier(f"full{s}") for s in range(stages)]
    empty = [k.barrier(f"empty{s}") for s in range(stages)]
    x = [k.shared(f"x{s}", 64) for s in range(stages)]
    g = k.tensor("g", 64 * tiles)
    p, c = k.agent(0), k.agent(32)
    for b in (*full, *empty):
        p.init(b, 1)
    k.everybody().sync()
    for t in range(tiles):
        s, phase = t % stages, t // stages & 1
        if empty_wait:
            p.wait(empty[s], phase ^ 1)
        p.arrive(full[s], expect=64)
        p.copy(x[s], g.part(64 * t, 64), full[s])
        c.wait(full[s], phase)
        c.read(x[s])
        c.arrive(empty[s])


def test_ring():
    check(lambda k, right: ring(k, 2, 5, empty_wait=right), 64, Kind.PHASE)


@pytest.mark.parametrize("waited", [True, False])
def test_a_phase_that_nobody_waits_for(waited: bool):
    """The letter wants a wait in every phase before the arrivals of the next one."""
    k = Kernel(threads=64)
    bar = k.barrier("bar")
    a, b = k.agent(0), k.agent(32)
    a.init(bar, 1)
    k.everybody().sync()
    a.arrive(bar)
    if waited:
        a.wait(bar, 0)
    a.arrive(bar)
    k.everybody().sync()
    b.wait(bar, 1)
    report = verify_trace(k.trace())
    assert report.verdict is Verdict.VERIFIED
    assert [(f.kind, f.policy) for f in report.faults] == (
        [] if waited else [(Kind.PHASE, Policy.STRICT)]
    )
    assert (verify_trace(k.trace(), strict=True).verdict is Verdict.VERIFIED) is waited


@pytest.mark.parametrize("waited", ["one warp", "all", "all, unordered"])
def test_every_warp_of_a_warpgroup_waits_for_wgmma(waited: str):
    """One thread gives the buffer back: by the letter after the waits of all four warps."""
    k = Kernel(threads=160)
    x, g = k.shared("x", 64), k.tensor("g", 64)
    full, empty = k.barrier("full"), k.barrier("empty")
    p, group, one = k.agent(128), k.agent(range(128)), k.agent(0)
    p.init(full, 1)
    p.init(empty, 1)
    k.everybody().sync()
    p.copy(x, g, full)
    p.arrive(full, expect=64)
    group.wait(full, 0)
    group.wgmma(x)
    group.commit_group("wgmma")
    waiting = k.agent(range(32)) if waited == "one warp" else group
    waiting.wait_group(0, "wgmma")
    if waited == "all":
        group.sync(1, 128)
    one.arrive(empty)
    p.wait(empty, 0)
    p.copy(x, g, full)
    p.arrive(full, expect=64)
    p.wait(full, 1)
    report = verify_trace(k.trace())
    assert report.verdict is Verdict.VERIFIED
    strict = [f for f in report.faults if "warps" in f.message]
    assert bool(strict) is (waited != "all")


def test_a_named_barrier_that_nobody_waits_at():
    def build(k: Kernel, right: bool) -> None:
        k.agent(range(32)).sync(1, 64, kind="arrive")
        k.agent(range(32, 64)).sync(1, 64, kind="sync" if right else "arrive")

    check(build, 64, Kind.MISUSE)


def test_arrivals_that_are_left_over():
    """The last round of a ring: the consumer gives back a buffer that nobody asks for."""
    k = Kernel(threads=64)
    for _ in range(2):
        k.agent(range(32)).sync(1, 64, kind="arrive")
        k.agent(range(32, 64)).sync(1, 64)
        k.agent(range(32, 64)).sync(2, 64, kind="arrive")
        k.agent(range(32)).sync(2, 64)
    k.agent(range(32, 64)).sync(3, 64, kind="arrive")
    assert verify_trace(k.trace()).verdict is Verdict.VERIFIED


def test_announcement_after_the_last_arrival():
    def build(k: Kernel, right: bool) -> None:
        full, x, g = k.barrier("full"), k.shared("x", 64), k.tensor("g", 64)
        p, c = k.agent(0), k.agent(32)
        p.init(full, 1)
        k.everybody().sync()
        p.copy(x.part(0, 32), g.part(0, 32), full)
        p.copy(x.part(32, 32), g.part(32, 32), full)
        if right:
            p.expect_tx(full, 32)
            p.arrive(full, expect=32)
        else:
            p.arrive(full, expect=32)
            p.expect_tx(full, 32)
        if right:
            c.wait(full, 0)
            c.read(x)

    check(build, 64, Kind.PHASE)


def test_every_lane_that_waits_holds_the_next_phase_back():
    def build(k: Kernel, right: bool) -> None:
        full, empty = k.barrier("full"), k.barrier("empty")
        p, c, leader = k.agent(0), k.agent(range(32, 64)), k.agent(32)
        p.init(full, 1)
        p.init(empty, 1)
        k.everybody().sync()
        for t in range(3):
            p.wait(empty, t & 1 ^ 1)
            p.arrive(full)
            c.wait(full, t & 1)
            if right:
                c.warp_sync()
            leader.arrive(empty)

    check(build, 64, Kind.PHASE)


def test_use_before_init():
    def build(k: Kernel, right: bool) -> None:
        b = k.barrier("b")
        k.agent(0).init(b, 1)
        if right:
            k.everybody().sync()
        k.agent(32).arrive(b)

    check(build, 64, Kind.PHASE)


def test_second_life_needs_inval():
    def build(k: Kernel, right: bool) -> None:
        b = k.barrier("b")
        p = k.agent(0)
        p.init(b, 1)
        p.arrive(b)
        p.wait(b, 0)
        if right:
            p.inval(b)
        p.init(b, 1)
        p.arrive(b)

    check(build, 32, Kind.LIFETIME)


# Races, proxies ---------------------------------------------------------------------------------


def test_barrier_between_write_and_read():
    def build(k: Kernel, right: bool) -> None:
        x = k.shared("x", 256)
        everybody = k.everybody()
        everybody.write([x.part(4 * t, 4) for t in range(64)])
        if right:
            everybody.sync()
        everybody.read([x.part(4 * (63 - t), 4) for t in range(64)])

    check(build, 64, Kind.RACE)


def test_own_element_needs_no_barrier():
    k = Kernel(threads=64)
    x = k.shared("x", 256)
    for _ in range(3):
        k.everybody().write([x.part(4 * t, 4) for t in range(64)])
        k.everybody().read([x.part(4 * t, 4) for t in range(64)])
    assert verify_trace(k.trace()).verdict is Verdict.VERIFIED


def test_part_of_a_template_is_ordered():
    """Two warps in one event; only the first one's buffer is handed over."""

    def build(k: Kernel, right: bool) -> None:
        b, x = k.barrier("b"), k.shared("x", 256)
        both = k.agent(range(64))
        k.agent(64).init(b, 32)
        k.everybody().sync()
        both.read([x.part(4 * t, 4) for t in range(64)])
        k.agent(range(32)).arrive(b)
        k.agent(64).wait(b, 0)
        k.agent(64).write(x.part(0, 128) if right else x.part(0, 132))

    check(build, 96, Kind.RACE)


def test_proxy_fence_by_each_writer():
    def build(k: Kernel, right: bool) -> None:
        x, g = k.shared("x", 256), k.tensor("g", 256)
        everybody = k.everybody()
        everybody.write([x.part(4 * t, 4) for t in range(64)])
        (everybody if right else k.agent(0)).proxy_fence()
        everybody.sync()
        k.agent(0).copy(g, x)
        k.agent(0).commit_group("bulk")
        k.agent(0).wait_group(0, "bulk", read=True)

    check(build, 64, Kind.PROXY)


def test_fence_of_the_reader_is_strict():
    k = Kernel(threads=64)
    x, g = k.shared("x", 64), k.tensor("g", 64)
    k.agent(32).write(x)
    k.everybody().sync()
    p = k.agent(0)
    p.proxy_fence()
    p.copy(g, x)
    p.commit_group("bulk")
    p.wait_group(0, "bulk")
    report = verify_trace(k.trace())
    assert report.verdict is Verdict.VERIFIED
    assert {(f.kind, f.policy) for f in report.faults} == {(Kind.PROXY, Policy.STRICT)}
    assert verify_trace(k.trace(), strict=True).verdict is Verdict.FAULT


def test_fence_of_another_space_does_not_count():
    def build(k: Kernel, right: bool) -> None:
        x, g = k.shared("x", 64), k.tensor("g", 64)
        p = k.agent(0)
        p.write(x)
        p.proxy_fence([Space.SHARED if right else Space.GLOBAL])
        p.copy(g, x)
        p.commit_group("bulk")
        p.wait_group(0, "bulk", read=True)

    check(build, 32, Kind.PROXY)


def test_groups_are_counted_from_the_newest():
    def build(k: Kernel, right: bool) -> None:
        x, g = k.shared("x", 32), k.tensor("g", 32)
        p = k.agent(0)
        for half in (0, 16):
            p.cp_async(x.part(half, 16), g.part(half, 16))
            p.commit_group()
        p.wait_group(1)
        p.read(x.part(0 if right else 16, 16))
        p.wait_group(0)

    check(build, 32, Kind.RACE)


def test_read_wait_frees_the_source_only():
    def build(k: Kernel, right: bool) -> None:
        x, g = k.shared("x", 64), k.tensor("g", 64)
        p = k.agent(0)
        p.copy(g, x)
        p.commit_group("bulk")
        p.wait_group(0, "bulk", read=True)
        p.write(x) if right else p.read(g)

    check(build, 32, Kind.RACE)


def test_copy_is_no_release():
    """The completion of a copy publishes the copy, not what its issuer has written."""

    def build(k: Kernel, right: bool) -> None:
        b, x, y, g = k.barrier("b"), k.shared("x", 64), k.shared("y", 64), k.tensor("g", 64)
        p, c = k.agent(0), k.agent(32)
        p.init(b, 1)
        k.everybody().sync()
        c.arrive(b, expect=64)
        p.write(y)
        p.copy(x, g, b)
        c.wait(b, 0)
        c.read(x if right else y)

    check(build, 64, Kind.RACE)


def test_relaxed_arrival_needs_a_fence():
    def build(k: Kernel, right: bool) -> None:
        b, x = k.barrier("b"), k.shared("x", 64)
        p, c = k.agent(0), k.agent(32)
        p.init(b, 1)
        k.everybody().sync()
        p.write(x)
        if right:
            p.fence(scope=Scope.CTA)
        p.arrive(b, sem=Sem.RELAXED)
        c.wait(b, 0)
        c.read(x)

    check(build, 64, Kind.RACE)


def test_lanes_of_one_store():
    k = Kernel(threads=64)
    x = k.shared("x", 4)
    event = k.everybody().write(x)
    report = verify_trace(k.trace())
    assert hard(report) == [(Kind.RACE, {1})]
    assert isinstance(event, ev.Access)
    event.equal = True
    assert verify_trace(k.trace()).verdict is Verdict.VERIFIED


# Tensor memory ------------------------------------------------------------------------------------


def test_accumulator_is_read_after_its_commit():
    def build(k: Kernel, right: bool) -> None:
        done, d, x = k.barrier("done"), k.cells("d", 8), k.shared("x", 64)
        p, c = k.agent(0), k.agent(range(32, 64))
        p.init(done, 1)
        c.alloc(0, 32)
        k.everybody().sync()
        p.mma(d, x)
        p.mma(d, x)
        p.arrive(done, by="commit")
        if right:
            c.wait(done, 0)
        c.tensor_load(d)
        c.tensor_wait("ld")
        p.wait(done, 0)
        k.everybody().sync()
        c.dealloc(0, 32)

    check(build, 64, Kind.RACE)


def test_mmas_of_other_accumulators_are_unordered():
    k = Kernel(threads=32)
    a, b = k.cells("a", 8), k.cells("b", 8, column=8)
    p = k.agent(0)
    p.mma(a)
    p.mma(b, a)
    assert (Kind.RACE, {1, 2}) in hard(verify_trace(k.trace()))


def test_leak():
    def build(k: Kernel, right: bool) -> None:
        warp = k.agent(range(32))
        warp.alloc(0, 32)
        if right:
            warp.dealloc(0, 32)

    check(build, 32, Kind.LIFETIME)


# Named barriers, clusters -------------------------------------------------------------------------


def test_generations_of_a_named_barrier():
    def build(k: Kernel, right: bool) -> None:
        p, c, x = k.agent(range(32)), k.agent(range(32, 64)), k.shared("x", 4)
        for t in range(3):
            if t and right:
                p.sync(2, 64)
            k.agent(0).write(x)
            p.warp_sync()
            p.sync(1, 64, "arrive")
            c.sync(1, 64)
            c.read(x)
            if right and t < 2:
                c.sync(2, 64, "arrive")

    check(build, 64, Kind.PHASE)


def test_counts_of_a_named_barrier():
    def build(k: Kernel, right: bool) -> None:
        k.agent(range(32)).sync(1, 64, "arrive")
        k.agent(range(32, 64)).sync(1, 64 if right else 32)

    check(build, 64, Kind.DEADLOCK)


def test_remote_signal_and_the_end_of_a_block():
    def build(k: Kernel, right: bool) -> None:
        b = k.barrier("b")
        one, two = k.agent(0), k.agent(0, cta=1)
        one.init(b, 1)
        two.init(b, 1)
        k.everybody().cluster_arrive()
        k.everybody().cluster_wait()
        one.arrive(b.of(1), scope=Scope.CLUSTER)
        if right:
            two.wait(b, 0, scope=Scope.CLUSTER)

    check(build, 32, Kind.LIFETIME, ctas=2, cluster=2)


def test_remote_store_needs_cluster_scope():
    def build(k: Kernel, right: bool) -> None:
        b, x = k.barrier("b"), k.shared("x", 64)
        one, two = k.agent(0), k.agent(0, cta=1)
        two.init(b, 1)
        k.everybody().cluster_arrive()
        k.everybody().cluster_wait()
        scope = Scope.CLUSTER if right else Scope.CTA
        one.write(x.of(1))
        one.arrive(b.of(1), scope=scope)
        two.wait(b, 0, scope=scope)
        two.read(x)
        k.everybody().cluster_arrive()
        k.everybody().cluster_wait()

    check(build, 32, Kind.RACE, ctas=2, cluster=2)


def test_free_slot_needs_no_cluster_scope():
    k = Kernel(threads=32, ctas=2, cluster=2)
    b, x = k.barrier("b"), k.shared("x", 64)
    one, two = k.agent(0), k.agent(0, cta=1)
    two.init(b, 1)
    k.everybody().cluster_arrive()
    k.everybody().cluster_wait()
    one.read(x.of(1))
    one.arrive(b.of(1))
    two.wait(b, 0)
    two.write(x)
    k.everybody().cluster_arrive()
    k.everybody().cluster_wait()
    assert verify_trace(k.trace()).verdict is Verdict.VERIFIED


# Blocks of a grid ---------------------------------------------------------------------------------


def test_blocks_write_apart():
    def build(k: Kernel, right: bool) -> None:
        g = k.tensor("g", 64)
        step = 16 if right else 12
        k.everybody().write([g.part(step * (t // 4) + 4 * (t % 4), 4) for t in range(16)])

    check(build, 4, Kind.RACE, ctas=4)


def test_scope_of_atomics():
    for scope, good in ((Scope.GPU, True), (Scope.CTA, False)):
        k = Kernel(threads=1, ctas=2)
        g = k.tensor("g", 4)
        k.everybody().access(g, Mode.RMW, Sem.RELAXED, scope)
        found = hard(verify_trace(k.trace()))
        assert not found if good else found == [(Kind.SCOPE, {1})]


@pytest.mark.parametrize(
    ("sem", "verdict"), [(Sem.RELEASE, Verdict.UNKNOWN), (Sem.RELAXED, Verdict.FAULT)]
)
def test_flag_between_blocks_whose_values_are_not_known(sem: Sem, verdict: Verdict):
    """Whether the loop may end on another value cannot be said; no order at all is a race."""
    k = Kernel(threads=1, ctas=2)
    g, flag = k.tensor("g", 4), k.tensor("flag", 4)
    one, two = k.agent(0), k.agent(0, cta=1)
    one.write(g)
    one.access(flag, Mode.WRITE, sem, Scope.GPU)
    two.access(flag, Mode.READ, Sem.ACQUIRE, Scope.GPU, observed=1, spins=True)
    two.read(g)
    assert verify_trace(k.trace()).verdict is verdict


def test_a_value_that_need_not_come_is_left_open():
    k = Kernel(threads=1, ctas=2)
    g, flag = k.tensor("g", 4), k.tensor("flag", 4)
    one, two = k.agent(0), k.agent(0, cta=1)
    one.write(g)
    one.access(flag, Mode.WRITE, Sem.RELEASE, Scope.GPU)
    two.access(flag, Mode.READ, Sem.ACQUIRE, Scope.GPU, observed=1)
    two.read(g)
    assert verify_trace(k.trace()).verdict is Verdict.UNKNOWN


def test_classes_of_clusters_are_passed_over_once():
    k = Kernel(threads=32, ctas=64)
    g, x = k.tensor("g", 64 * 128), k.shared("x", 128)
    everybody = k.everybody()
    everybody.write([x.part(4 * (t % 32), 4) for t in range(64 * 32)])
    everybody.write([g.part(4 * t, 4) for t in range(64 * 32)])
    report = verify_trace(k.trace())
    assert report.verdict is Verdict.VERIFIED
    assert (report.stats["clusters"], report.stats["classes"]) == (64, 1)


def test_explanation_names_roles_and_phases():
    k = Kernel(threads=64)
    ring(k, 1, 2)
    text = "\n".join(verify_trace(k.trace()).explain())
    assert "thread 0:" in text
    assert "mbarrier at shared 0: 2 phases complete, 1 arrivals each" in text


# Drawn programs -----------------------------------------------------------------------------------


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
FAST = settings(max_examples=60, derandomize=True, database=None, **COMMON)
LONG = settings(max_examples=5000, **COMMON)


def _odd(sketch: Sketch) -> bool:
    """What PTX has no form for, or leaves undefined, and the explorer takes in another way."""
    text = str(sketch)
    return "count=2" in text or "cluster_" in text.partition("mutations:")[2]


def _against_the_explorer(options: settings, bound: int) -> None:
    counts: Counter[str] = Counter()

    @options
    @given(programs())
    def run(sketch: Sketch) -> None:
        trace = settle(sketch.build(), sketch.together)
        found = explore(trace, sketch.together, max_states=bound)
        report = verify_trace(trace)
        faults = [f for f in report.faults if f.policy is Policy.ANY]
        theirs = found.kinds - {Kind.UNINITIALIZED}
        if theirs:
            assert faults or report.unknown, f"{sketch}\n{found.findings[0]}"
        elif found.exhausted and not found.findings and not _odd(sketch):
            assert not faults, f"{sketch}\n{faults[0]}"
        counts["faulty" if faults else str(report.verdict)] += 1
        for fault in faults[:3]:
            if fault.kind is Kind.RACE and fault.witness.get("steps"):
                shown = replay(trace, fault.witness, sketch.together)
                assert shown.findings, f"{sketch}\n{fault}"

    run()
    what = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
    print(f"\nanalyses and explorer: {sum(counts.values())} programs checked ({what})")


def test_drawn_programs():
    _against_the_explorer(FAST, 3000)


@pytest.mark.fuzz
def test_drawn_programs_at_length():
    _against_the_explorer(LONG, 10_000)
