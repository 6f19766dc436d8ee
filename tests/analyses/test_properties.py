"""What the analyses say of drawn programs, held against all their schedules.

Certified: the explorer finds no second phase, no race, no deadlock, no use after free. Refuted:
it finds a fault too, and the witness replays. The explorer itself is held against its own search
without reduction. Every test prints how many programs it checked.
"""

from __future__ import annotations

from collections import Counter

import pytest

hypothesis = pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402

from tests.analyses.direct import Direct  # noqa: E402
from tests.analyses.sketch import Sketch  # noqa: E402
from tests.analyses.strategies import FAMILIES, programs  # noqa: E402
from xttir.analyses.build import Kernel  # noqa: E402
from xttir.analyses.events import NamedBarrier, Trace  # noqa: E402
from xttir.analyses.explore import Exploration, explore  # noqa: E402
from xttir.analyses.schedules import confirms, replay  # noqa: E402
from xttir.analyses.verify import verify_trace  # noqa: E402
from xttir.diagnostics import Kind, Policy, Verdict  # noqa: E402

COMMON = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
}
FAST = settings(max_examples=60, derandomize=True, database=None, **COMMON)
LONG = settings(max_examples=5000, **COMMON)


def _report(name: str, counts: Counter[str]) -> None:
    what = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
    print(f"\n{name}: {sum(counts.values())} programs checked ({what})")


def _word(found: Exploration) -> str:
    if found.findings:
        return "faulty"
    return "clean" if found.exhausted else "too large"


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "free"])
def test_families_are_right(family):
    counts: Counter[str] = Counter()

    @settings(FAST, max_examples=15)
    @given(FAMILIES[family])
    def check(sketch: Sketch) -> None:
        found = explore(sketch.build(), sketch.together, max_states=20_000)
        assert not found.findings, f"{sketch}\n{found.findings[0].message}"
        counts[_word(found)] += 1

    check()
    _report(family, counts)


def _explorer(options: settings, bound: int) -> None:
    counts: Counter[str] = Counter()

    @options
    @given(programs())
    def check(sketch: Sketch) -> None:
        trace = sketch.build()
        less = explore(trace, sketch.together, max_states=bound)
        counts[_word(less)] += 1
        for finding in less.findings[:5]:
            assert confirms(less, finding), f"{sketch}\n{finding}"
        full = explore(trace, sketch.together, max_states=bound, reduce=False)
        if full.exhausted and less.exhausted:
            assert less.kinds == full.kinds, str(sketch)

    check()
    _report("explorer", counts)


BEYOND = {Kind.UNINITIALIZED}
"""What the explorer sees and `verify_trace` leaves to the run that made the trace."""


def _meet_apart(trace: Trace) -> bool:
    """Whether lanes of one warp come to named barriers a different number of times. How many
    threads the rest of such a warp counts for, PTX does not say: the explorer counts those that
    have ended, `verify_trace` nobody."""
    times = Counter(
        lane for e in trace.events if isinstance(e, NamedBarrier) for lane in e.lanes.tolist()
    )
    warps: dict[int, set[int]] = {}
    for lane in range(len(trace.ctas) * trace.threads_per_cta):
        warps.setdefault(lane // 32, set()).add(times[lane])
    return any(len(numbers) > 1 for numbers in warps.values())


def _verified(options: settings, bound: int) -> None:
    """Certified: no schedule has a fault. Refuted: some schedule has one, and of the witness
    schedules that faults come with, all but a few show a fault when they are replayed."""
    counts: Counter[str] = Counter()

    @options
    @given(programs())
    def check(sketch: Sketch) -> None:
        trace = sketch.build()
        found = explore(trace, sketch.together, max_states=bound)
        report = verify_trace(sketch.settled())
        faults = found.kinds - BEYOND
        text = "\n".join([str(sketch), *(f.message for f in (*found.findings, *report.faults))])
        if report.verdict is Verdict.VERIFIED:
            assert not faults, text
            counts["certified" if found.exhausted else "certified, too large"] += 1
        elif report.verdict is Verdict.FAULT and not found.findings and _meet_apart(trace):
            counts["refuted, lanes of a warp meet apart"] += 1
        elif report.verdict is Verdict.FAULT:
            assert found.findings or not found.exhausted, text
            counts["refuted" if found.findings else "refuted, too large"] += 1
            for fault in report.faults:
                if fault.witness.get("steps") and fault.policy is Policy.ANY:
                    again = replay(trace, fault.witness, sketch.together)
                    counts["witnesses that show nothing"] += not again.findings
                    counts["witnesses"] += 1
        else:
            counts["undecided"] += 1

    check()
    quiet, witnesses = counts.pop("witnesses that show nothing"), counts.pop("witnesses")
    _report("verify_trace and explorer", counts)
    print(f"witnesses replayed: {witnesses}, of which {quiet} show no fault")
    assert quiet * 50 <= witnesses


def test_a_wait_that_stands_after_the_phase_it_names():
    """Drawn once: the arrival that completes phase 0 is the waiter's own, so it is not early; in
    the trace phase 1 is complete before the wait returns."""
    k = Kernel(threads=2)
    b = k.barrier("b")
    first, second = k.agent(0), k.agent(1)
    first.init(b, 1)
    k.everybody().sync()
    first.arrive(b)
    second.wait(b, 0)
    second.arrive(b)
    first.wait(b, 1)
    assert explore(k.trace()).clean
    assert verify_trace(k.trace()).verdict is Verdict.VERIFIED


def test_phases_after_a_trapped_trace():
    """The second update of thread 1 has another phase in each of two schedules, and none in the
    traced one, which ends before it: every finding replays by itself."""
    k = Kernel(threads=2)
    first, second = k.agent(0), k.agent(1)
    b = k.barrier("b")
    first.init(b, 1)
    first.sync()
    second.sync()
    first.arrive(b)
    first.arrive(b, expect=16)
    second.arrive(b)
    second.arrive(b)
    trace = k.trace()
    for reduce in (True, False):
        found = explore(trace, reduce=reduce)
        assert found.findings
        assert all(confirms(found, finding) for finding in found.findings)
    assert verify_trace(trace).verdict is Verdict.FAULT


def test_a_trap_hides_nothing_from_the_reduced_search():
    """Thread 0 traps at a barrier that nobody initialised; thread 1 reads what nobody wrote."""
    k = Kernel(threads=2)
    first, second = k.agent(0), k.agent(1)
    b, other, x = k.barrier("b"), k.barrier("other"), k.shared("x", 16)
    first.init(other, 1)
    first.sync()
    second.sync()
    first.arrive(b)
    second.arrive(other)
    second.read(x)
    trace = k.trace()
    kinds = explore(trace).kinds
    assert kinds == explore(trace, reduce=False).kinds
    assert {Kind.LIFETIME, Kind.UNINITIALIZED} <= kinds


def test_verdicts():
    _verified(settings(FAST, max_examples=200), 5000)


@pytest.mark.fuzz
def test_verdicts_at_length():
    _verified(LONG, 20_000)


def _direct(options: settings, bound: int) -> None:
    """Against the literal explorer: the same deadlocks, all of its races, no fault missed."""
    counts: Counter[str] = Counter()

    @options
    @given(programs(("rings", "cp_async", "stores", "free", "free", "free")))
    def check(sketch: Sketch) -> None:
        trace = sketch.build()
        direct = Direct(trace, sketch.together)
        if not direct.supported:
            return
        book, found = direct.run(bound), explore(trace, sketch.together, max_states=bound)
        if not (book.exhausted and found.exhausted):
            counts["too large"] += 1
            return
        counts[_word(found)] += 1
        strange = book.trapped or book.two_phases
        if strange or book.stuck or book.races:
            assert found.findings, f"{sketch}\n{book}"
        if not strange:
            assert book.stuck == (Kind.DEADLOCK in found.kinds), str(sketch)
            races = {
                tuple(sorted(event for _, event in f.places))
                for f in found.findings
                if f.kind is Kind.RACE
            }
            assert book.races <= races, f"{sketch}\n{book.races - races}"

    check()
    _report("explorer and direct schedules", counts)


def test_direct_schedules():
    _direct(FAST, 3000)


@pytest.mark.fuzz
def test_direct_schedules_at_length():
    _direct(LONG, 20_000)


def test_reduction_and_replay():
    _explorer(FAST, 3000)


@pytest.mark.fuzz
def test_reduction_and_replay_at_length():
    _explorer(LONG, 20_000)
