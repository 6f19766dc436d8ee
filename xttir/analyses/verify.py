"""Whether every schedule of a traced launch is free of faults.

Each class of clusters is passed over once (`happens_before`), global memory between clusters by
arrays (`grid`); where clusters pass values to each other the launch is passed over as one set of
blocks. The verdict speaks for all schedules at this launch: certified phases make the graph of the
traced schedule the happens-before graph of every execution, and it has no cycle, so none hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xttir.analyses import events as ev
from xttir.analyses.bounds import VAGUE
from xttir.analyses.events import Trace
from xttir.analyses.explain import Explanation, explained
from xttir.analyses.faults import Reporter, blocked_fault, far_fault
from xttir.analyses.grid import Grid, all_places, far_conflicts, near_places, survey, vague
from xttir.analyses.happens_before import Order
from xttir.analyses.layout import Layout, lay_out
from xttir.analyses.paths import Lines, explain_pair
from xttir.analyses.project import Blocks, clusters, project
from xttir.analyses.races import ITSELF, PASSED
from xttir.analyses.spins import Doubts
from xttir.analyses.unused import Used
from xttir.analyses.wording import Words
from xttir.diagnostics import Fault, Policy, Verdict

WHOLE = 1 << 16
"""Lanes of a launch up to which its clusters are ordered by the values they pass."""

LINES = 8
"""Lines of undecided pairs that a sentence names."""


@dataclass(slots=True)
class Report:
    """What holds in every schedule. `unknown`: why some question is open; `stats`: counts."""

    verdict: Verdict
    faults: list[Fault]
    assumptions: list[str]
    unknown: list[str]
    explanation: list[Explanation] = field(default_factory=list)
    tickets: list[int] = field(default_factory=list)
    """PTX lines of atomics whose results say who does what follows."""
    taken: dict[int, set[int]] = field(default_factory=dict)
    """Ways after loops that wait: see `spins.Doubts`."""
    copies: bool = False
    """Several lanes write one place by one instruction, and that may be one value."""
    paths: list[str] = field(default_factory=list)
    """What orders the pair of lines asked for."""
    stats: dict[str, Any] = field(default_factory=dict)
    open_pairs: dict[tuple[str, str], dict[tuple[int, int], None]] = field(default_factory=dict)
    """What of pairs of instructions is not decided, and what it depends on: the pairs."""

    def explain(self) -> Iterator[str]:
        """Paragraphs for a reader: roles, barriers and their phases, an ordered pair."""
        yield from self.paths
        for entry in self.explanation:
            yield from entry.paragraphs()


def verify_trace(
    trace: Trace,
    *,
    strict: bool = False,
    pair: Lines | None = None,
    taken: dict[int, set[int]] | None = None,
) -> Report:
    """The verdict on all schedules of the events of `trace`. `strict`: what only the letter of the
    rules forbids counts as a fault (it is listed in any case, with policy `strict`). `pair`: two
    lines, of PTX or source; `Report.paths` says what orders accesses made from them. `taken`: ways
    that other traces took after loops that wait."""
    words = Words(trace)
    faults: list[Fault] = list(trace.faults)
    assumptions, unknown = list(trace.assumptions), []
    faults += blocked_fault(words, trace)
    grid = survey(trace)
    stats: dict[str, Any] = {
        "events": len(trace.events),
        "clusters": 0,
        "classes": 0,
        "phases": 0,
        "chains": 0,
    }
    report = Report(Verdict.VERIFIED, faults, assumptions, unknown, stats=stats)
    report.taken = {} if taken is None else taken
    size = trace.threads_per_cta * trace.ctas_per_cluster
    for alike in clusters(trace):
        stats["classes"] += 1
        stats["clusters"] += len(alike.members)
        for number, part in enumerate(alike.parts):
            if number and not grid.any_near:
                break
            first = part[0] * trace.ctas_per_cluster
            blocks = project(trace, first, trace.ctas_per_cluster)
            members = [m * size for m in part]
            places = near_places(grid, members)
            layout = partial(lay_out, places=places, local=number == 0)
            order = _ordered(blocks, layout, report.taken)
            faults += Reporter(order, members).all()
            report.copies |= any(c.need.level == ITSELF for c in order.conflicts)
            _open_questions(order, report)
            _ways(order, report)
            stats["phases"] += order.certifier.certified
            stats["chains"] = max(stats["chains"], order.chains.count)
            if number == 0:
                report.explanation.append(explained(order, len(alike.members)))
            if pair is not None and not report.paths:
                report.paths += explain_pair(blocks, layout, pair)
    if pair is not None and not report.paths:
        report.paths.append(
            f"no two accesses of one cluster from lines {pair[0]} and {pair[1]} touch the same "
            "memory with one of them writing"
        )
    if grid.any_far:
        _between_clusters(trace, grid, report, words)
    unknown += _open_pairs(report, words)
    report.faults = distinct(faults)
    counted = [f for f in report.faults if strict or f.policy is not Policy.STRICT]
    if counted:
        report.verdict = Verdict.FAULT
    elif unknown:
        report.verdict = Verdict.UNKNOWN
    report.unknown = list(dict.fromkeys(unknown))
    report.assumptions = list(dict.fromkeys(assumptions))
    return report


def _ordered(
    blocks: Blocks, layout: Callable[[Blocks], Layout], taken: dict[int, set[int]]
) -> Order:
    """The pass over some blocks; once more where a loop that waits may end without what it seemed
    to wait for, or where a load of which nothing depends took part in a race, as it may have stood
    for other reads."""
    used = Used(blocks.trace, ((v.event.ins, v.lanes) for v in blocks.views), blocks.lanes)
    doubtful: frozenset[int] = frozenset()
    doubts = Doubts(taken=taken)
    while True:
        order = Order(blocks, layout, doubts)
        for sweep in order.sweeps.values():
            sweep.used, sweep.doubtful = used, doubtful
        order.run()
        unproved = order.values.spins.prove()
        if unproved.writes:
            doubts = doubts.with_(unproved)
            continue
        vain = frozenset().union(*(sweep.vain for sweep in order.sweeps.values()))
        if vain <= doubtful:
            return order
        doubtful |= vain


def _open_questions(order: Order, report: Report) -> None:
    """What this pass could not decide."""
    words, unknown = Words(order.blocks.trace), report.unknown
    unknown += order.certifier.unknown
    for trouble in order.replayed.troubles:
        if trouble.what == "returned":
            view = order.blocks.views[trouble.view]
            unknown.append(
                f"{words.placed(view.event.ins)} returned in the trace although the phase of "
                "its barrier is not complete there"
            )
    for conflict in order.conflicts:
        if conflict.undecided:
            what = "are ordered" if conflict.undecided == PASSED else "touch one place"
            pairs = report.open_pairs.setdefault((what, conflict.undecided), {})
            pairs[conflict.x.ins, conflict.y.ins] = None
    for (index, _), why in order.values.spins.doubts.why.items():
        if any(c.undecided == PASSED for c in order.conflicts):
            ins = order.blocks.trace.events[index].ins
            unknown.append(f"after which writes the loop of {words.placed(ins)} ends: {why}")


def _open_pairs(report: Report, words: Words) -> Iterator[str]:
    """One sentence for all pairs that depend on one thing: the first of them, and lines."""
    for (what, why), pairs in report.open_pairs.items():
        first, *more = pairs
        x, y = (words.placed(ins) for ins in first)
        others = ""
        if more:
            lines = sorted({words.trace.line(ins) for pair in more for ins in pair})
            shown = ", ".join(map(str, lines[:LINES])) + (", .." if len(lines) > LINES else "")
            others = f" (and {len(more)} more pairs, at lines {shown})"
        yield f"whether {x} and {y}{others} {what} depends on {why}"


def _ways(order: Order, report: Report) -> None:
    """Loops after which it depends on the value that ended them what is done."""
    trace = order.blocks.trace
    for ins in sorted(order.values.spins.divided):
        line = trace.line(ins)
        report.tickets.append(line)
        report.assumptions.append(
            f"what is done after the loop that waits at line {line} depends on the value that ends "
            "it: each of the ways was looked at, and that they may be taken in another order "
            "changes nothing else"
        )


def _between_clusters(trace: Trace, grid: Grid, report: Report, words: Words) -> None:
    """Conflicts between clusters: races, unless values that they pass order them."""
    conflicts = far_conflicts(grid)
    if not conflicts:
        return
    passes = any(
        isinstance(e, ev.Access) and e.observed is not None and bool((e.observed >= 0).any())
        for e in trace.events
    )
    if not passes:
        for c in conflicts:
            if vague(trace, c):
                pairs = report.open_pairs.setdefault(("touch one place", VAGUE), {})
                pairs[trace.events[c.x].ins, trace.events[c.y].ins] = None
            else:
                report.faults.append(far_fault(words, c))
        return
    first, count = int(trace.ctas.min()), len(trace.ctas)
    if count * trace.threads_per_cta > WHOLE:
        report.unknown.append(
            f"{count} blocks pass values through global memory: too many to order at once"
        )
        return
    blocks = project(trace, first, count)
    layout = partial(lay_out, places=all_places(grid), local=False)
    order = _ordered(blocks, layout, report.taken)
    size = trace.threads_per_cta * trace.ctas_per_cluster
    order.conflicts[:] = [c for c in order.conflicts if _far(c, size)]
    order.certifier.faults.clear()
    order.meetings.clear()
    order.lifetimes.faults.clear()
    order.replayed.troubles.clear()
    report.faults += Reporter(order, [blocks.base]).all()
    _open_questions(order, report)
    _ways(order, report)
    for at in sorted(order.values.tickets):
        view = blocks.views[at]
        line = trace.line(view.event.ins)
        report.tickets.append(line)
        report.assumptions.append(
            f"which thread draws the last ticket at line {line} changes nothing but which thread "
            "does what follows"
        )


def _far(conflict: Any, size: int) -> bool:
    a = int(conflict.x.lanes[conflict.x_row]) // size
    b = int(conflict.y.lanes[conflict.y_row]) // size
    return a != b


def distinct(faults: list[Fault]) -> list[Fault]:
    """Equal faults of several classes as one, counted; policy `any` first."""
    out: dict[Any, Fault] = {}
    for fault in faults:
        key = (fault.kind, fault.policy, _lines(fault))
        old = out.get(key)
        if old is None:
            out[key] = fault
    return sorted(out.values(), key=lambda f: f.policy is Policy.STRICT)


def _lines(fault: Fault) -> Any:
    """Places, in no order; `Fault`s without any are told apart by their text."""
    lines = frozenset((p.file, p.line) for p in fault.locations)
    return lines or fault.message
