"""What the agents of an explorer's program share: conflicting accesses, and objects.

A step without objects is local: it can run as soon as it is enabled, whatever the others do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from xttir.analyses import events as ev
from xttir.analyses.events import Mode, Proxy, Scope, Space
from xttir.analyses.explore_program import Program
from xttir.analyses.explore_types import STRONG, Do, Part, Step, bits


def compile_program(trace: ev.Trace, agents: Sequence[Sequence[int]] | None = None) -> Program:
    """`trace` as the explorer runs it; `agents`: lanes that step together (default: each alone).

    Raises `Unsupported` on events that the explorer has no rule for.
    """
    program = Program(trace, agents)
    _conflicts(program)
    _objects(program)
    return program


# Conflicts ----------------------------------------------------------------------------------------


def _conflicts(program: Program) -> None:
    places: dict[tuple[Space, int], list[Part]] = defaultdict(list)
    for part in program.parts:
        places[part.space, part.cta].append(part)
    _granules(places.values())
    _needs(program, places.values())
    for step, parts in program.accesses:
        for p in parts:
            step.need |= program.needs[p.index]
            step.bits |= 1 << p.index
            if p.mode is Mode.READ:
                for q in places[p.space, p.cta]:
                    if _ordinary(q) and q.granules & p.granules:
                        step.sees |= 1 << q.index
    ordinary = sum(1 << p.index for p in program.parts if _ordinary(p))
    program.generic_writes = ordinary | ordinary << program.n
    program.copied = sum(1 << p.index for p in program.parts if p.engine == "cp.async" and p.writes)
    of_space = {s: sum(1 << p.index for p in program.parts if p.space is s) for s in Space}
    for signal in program.signals:
        signal.publishes = program.wholly(signal.publishes)
    for s in (s for steps in program.steps for s in steps):
        if s.do is Do.COLLECT:
            s.mask = program.wholly(s.mask)
        elif s.do is Do.PROXY:
            s.mask = sum(of_space[Space(x)] for x in s.kind.split(",") if x)
        elif s.do is Do.INIT:
            program.inits |= program.wholly(s.bits)
    _initial(program, places)


def _needs(program: Program, places: Iterable[list[Part]]) -> None:
    """Per access: what it must know of the others, if it comes after them."""
    exempt = _exempt(program)
    for parts in places:
        for i, p in enumerate(parts):
            for q in parts[:i]:
                if p.granules & q.granules and _conflict(program, p, q):
                    if not exempt[p.index] >> q.index & 1:
                        program.needs[p.index] |= _bit(program, q, p)
                    if not exempt[q.index] >> p.index & 1:
                        program.needs[q.index] |= _bit(program, p, q)


def _ordinary(part: Part) -> bool:
    """A write by a thread itself, through the generic proxy."""
    return part.writes and not part.asynchronous and part.space is not Space.TENSOR


def _conflict(program: Program, p: Part, q: Part) -> bool:
    if p.event == q.event and p.equal:
        return False
    if p.event == q.event and p.asynchronous and p.agents == q.agents:
        return False
    if not (p.writes or q.writes):
        return False
    if p.mode is Mode.RMW and q.mode is Mode.RMW:
        return False
    if p.sem in STRONG and q.sem in STRONG:
        return min(p.scope, q.scope) < _distance(program, p, q)
    return True


def _distance(program: Program, p: Part, q: Part) -> Scope:
    """The scope that two synchronous accesses must have to see each other."""
    a, b = (program.cta_of_agent[(x.agents & -x.agents).bit_length() - 1] for x in (p, q))
    if a == b:
        return Scope.CTA
    size = program.trace.ctas_per_cluster
    return Scope.CLUSTER if a // size == b // size else Scope.GPU


def _bit(program: Program, first: Part, then: Part) -> int:
    """What `then` must know of `first` when it comes after it. In practice tensor cores see what
    cp.async has copied."""
    copied = first.engine == "cp.async" and then.engine.startswith(("wgmma", "tcgen05"))
    crosses = (
        not copied
        and then.proxy is Proxy.ASYNC
        and first.proxy is Proxy.GENERIC
        and first.writes
        and first.space is not Space.TENSOR
    )
    return 1 << first.index + (program.n if crosses else 0)


def _exempt(program: Program) -> list[int]:
    """Per access the earlier ones of its thread that the hardware runs before it."""
    exempt = [0] * program.n
    earlier: dict[int, list[tuple[Part, ev.AsyncOp]]] = defaultdict(list)
    for part, op in program.pipelines:
        if not op.engine.startswith(("tcgen05", "wgmma")):
            continue
        for other, before in earlier[part.agents]:
            if other.event != part.event and _pipelined(before, op):
                exempt[part.index] |= 1 << other.index
        earlier[part.agents].append((part, op))
    return exempt


def _initial(program: Program, places: dict[tuple[Space, int], list[Part]]) -> None:
    """Per shared-memory read: the sets of writes of which one must have been made."""
    for (space, _), parts in places.items():
        if space is not Space.SHARED:
            continue
        by_granule: dict[int, int] = defaultdict(int)
        for p in parts:
            if p.writes:
                for g in bits(p.granules):
                    by_granule[g] |= 1 << p.index
        for p in parts:
            if p.mode is not Mode.WRITE:
                sets = {by_granule.get(g, 0) & ~(1 << p.index) for g in bits(p.granules)}
                program.writers[p.index] = tuple(sets)


# Shared objects -----------------------------------------------------------------------------------


def _objects(program: Program) -> None:
    _named_barriers(program)
    remote = program.remote = _remote(program)
    words: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i, thing in enumerate(program.things):
        if thing.kind == "mbarrier":
            words[thing.cta].append((thing.address, i))
    for a, steps in enumerate(program.steps):
        for step in steps:
            step.objects |= _shared(program, a, step, remote, words)
    for thing in program.things:
        if thing.kind == "cluster":
            size = program.trace.ctas_per_cluster
            for a, cta in enumerate(program.cta_of_agent):
                if cta // size == thing.cta // size:
                    thing.agents |= 1 << a
    program.signal_objects = [
        1 << s.barrier
        | (1 << program.thing("alive", program.things[s.barrier].cta, 0) if s.far else 0)
        for s in program.signals
    ]
    for steps in program.steps:
        tail = [0] * (len(steps) + 1)
        for i in range(len(steps) - 1, -1, -1):
            tail[i] = tail[i + 1] | steps[i].objects
            for s in bits(steps[i].signals):
                tail[i] |= program.signal_objects[s]
        program.suffix.append(tail)
    for s in program.signals:
        if s.bytes:
            program.flights[s.barrier] = program.flights.get(s.barrier, 0) | 1 << s.index


def _named_barriers(program: Program) -> None:
    """A named barrier whose every generation takes each of its agents once is order-free."""
    uses: dict[int, set[tuple[str, int]]] = defaultdict(set)
    weights: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for a, steps in enumerate(program.steps):
        for s in steps:
            if s.do is Do.MEET and program.things[s.items[0][0]].kind == "named":
                thing, count, weight = s.items[0]
                uses[thing].add((s.kind, count or program.threads))
                weights[thing][a].add(weight)
    for thing, kinds in uses.items():
        ((kind, count), *others) = kinds
        each = weights[thing].values()
        total = sum(max(w) for w in each)
        same = not others and kind != "arrive" and all(len(w) == 1 for w in each)
        program.things[thing].local = same and total == count


def _remote(program: Program) -> set[int]:
    """Blocks whose memory or barriers others use."""
    found = set()
    for a, steps in enumerate(program.steps):
        for s in steps:
            found |= _away(program, a, s)
    return found | {program.things[s.barrier].cta for s in program.signals if s.far}


def _away(program: Program, agent: int, step: Step) -> set[int]:
    """Other blocks that a step touches."""
    own = program.cta_of_agent[agent]
    found = {p.cta for p in step.parts if p.cta >= 0}
    if step.do in (Do.ARRIVE, Do.TX):
        found |= {program.things[i[0]].cta for i in step.items}
    for s in bits(step.signals):
        found.add(program.things[program.signals[s].barrier].cta)
    return found - {own}


def _shared(
    program: Program,
    agent: int,
    step: Step,
    remote: set[int],
    words: dict[int, list[tuple[int, int]]],
) -> int:
    own = program.cta_of_agent[agent]
    found = 0
    for cta in _away(program, agent, step):
        found |= 1 << program.thing("alive", cta, 0)
    if step.do is Do.EXIT:
        if own in remote:
            found |= 1 << program.thing("alive", own, 0)
        for i, thing in enumerate(program.things):
            if thing.kind == "named" and thing.cta == own and not thing.local:
                found |= 1 << i
        return found
    if step.do in (Do.INIT, Do.INVAL, Do.ARRIVE, Do.TX, Do.WAIT, Do.ALLOC, Do.DEALLOC, Do.MEET):
        for item in step.items:
            if not program.things[item[0]].local:
                found |= 1 << item[0]
    for s in bits(step.signals):
        found |= 1 << program.signals[s].barrier
    if step.do is Do.STRONG:
        for p in step.parts:
            for start in {run[0] for run in p.runs}:
                found |= 1 << program.thing("place", p.cta, start)
    if step.do in (Do.TOUCH, Do.STRONG, Do.ISSUE):
        hit = {
            i
            for p in step.parts
            if p.space is Space.SHARED
            for address, i in words[p.cta]
            if any(start < address + 8 and address < stop for start, stop in p.runs)
        }
        step.barriers = tuple(sorted(hit))
        found |= sum(1 << i for i in hit)
    return found


def _granules(places: Iterable[list[Part]]) -> None:
    """Cut each space at the ends of all runs."""
    shift = 0
    for parts in places:
        cuts = sorted({edge for p in parts for run in p.runs for edge in run})
        for p in parts:
            for start, stop in set(p.runs):
                low, high = bisect_left(cuts, start), bisect_left(cuts, stop)
                p.granules |= ((1 << (high - low)) - 1) << (low + shift)
        shift += len(cuts)


_ORDERED = {
    ("tcgen05.cp", "tcgen05.mma"),
    ("tcgen05.shift", "tcgen05.mma"),
    ("tcgen05.mma", "tcgen05.shift"),
    ("tcgen05.mma", "tcgen05.cp"),
}
"""Pairs of one thread that run in issue order (PTX ISA 9.1, 9.7.16.6.2; mma -> cp
as shipped kernels need)."""


def _pipelined(first: ev.AsyncOp, then: ev.AsyncOp) -> bool:
    if first.engine == then.engine == "tcgen05.mma":
        return first.pipeline is not None and first.pipeline == then.pipeline
    if first.engine == "tcgen05.shift" and then.engine == "tcgen05.cp":
        return True
    return (first.engine, then.engine) in _ORDERED
