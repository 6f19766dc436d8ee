"""Schedules by the book: no reduction, no knowledge, bytes in pieces of 16, races as they happen.

A second explorer, slow and literal, to hold the first against: every move of every thread and of
every copy is a move of its own, and a race is two conflicting accesses that are both about to
happen or in flight in one state. It knows single blocks, mbarriers, bulk copies, groups and plain
barriers; memory ordering beyond interleaving it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xttir.analyses.events import Trace
from xttir.analyses.explore_program import Program
from xttir.analyses.explore_shared import compile_program
from xttir.analyses.explore_types import Do, Part, Step, bits

KNOWN = {
    Do.NOTHING,
    Do.TOUCH,
    Do.ISSUE,
    Do.COLLECT,
    Do.INIT,
    Do.ARRIVE,
    Do.TX,
    Do.WAIT,
    Do.MEET,
    Do.EXIT,
}


@dataclass(frozen=True)
class State:
    pcs: tuple[int, ...]
    bars: tuple[tuple[int, int, int, int] | None, ...]
    """phase, expected, pending, tx"""
    landed: tuple[int, ...]
    """Per signal: bytes (arrivals) that have come; -1: not issued."""
    over: int
    """Asynchronous accesses that are over."""
    begun: int
    came: tuple[tuple[int, ...], ...]
    """Per named barrier: who stands there."""


@dataclass
class Outcome:
    races: set[tuple[int, int]]
    """Pairs of events."""
    stuck: bool = False
    trapped: bool = False
    phases: dict[tuple[int, int], set[int]] | None = None
    states: int = 0
    exhausted: bool = True

    @property
    def two_phases(self) -> bool:
        assert self.phases is not None
        return any(len(p) > 1 for p in self.phases.values())


class Direct:
    def __init__(self, trace: Trace, agents: list[list[int]] | None = None):
        self.program: Program = compile_program(trace, agents)
        self.supported = all(s.do in KNOWN for steps in self.program.steps for s in steps) and all(
            s.do is not Do.ARRIVE or not s.kind for steps in self.program.steps for s in steps
        )
        self.of_signal = {
            s.index: sum(1 << p for p in bits(s.publishes & ((1 << self.program.n) - 1)))
            for s in self.program.signals
        }
        self.outcome = Outcome(set(), phases={})

    def run(self, bound: int) -> Outcome:
        p = self.program
        start = State(
            (0,) * len(p.steps),
            (None,) * len(p.things),
            (-1,) * len(p.signals),
            0,
            0,
            ((),) * len(p.things),
        )
        seen, stack = {start}, [start]
        while stack:
            state = stack.pop()
            self._races(state)
            moved = False
            for new in self._next(state):
                moved = True
                if new is not None and new not in seen:
                    if len(seen) >= bound:
                        self.outcome.exhausted = False
                        self.outcome.states = len(seen)
                        return self.outcome
                    seen.add(new)
                    stack.append(new)
            if not moved and any(pc < len(s) for pc, s in zip(state.pcs, p.steps, strict=True)):
                self.outcome.stuck = True
        self.outcome.states = len(seen)
        return self.outcome

    # Races: what is about to happen, and what is in flight
    def _races(self, state: State) -> None:
        p = self.program
        flying = [p.parts[i] for i in bits(state.begun & ~state.over)]
        about: list[tuple[int, Part]] = []
        for a, steps in enumerate(p.steps):
            if state.pcs[a] < len(steps) and self._enabled(state, a):
                about += [(a, part) for part in steps[state.pcs[a]].parts]
        for i, (a, part) in enumerate(about):
            for b, other in about[:i]:
                if a != b and self._clash(part, other):
                    self.outcome.races.add(_pair(part, other))
            for other in flying:
                if self._clash(part, other):
                    self.outcome.races.add(_pair(part, other))

    def _clash(self, x: Part, y: Part) -> bool:
        if x.event == y.event and x.agents == y.agents and x.asynchronous:
            return False
        return bool(x.granules & y.granules) and (x.writes or y.writes)

    # Moves
    def _enabled(self, state: State, agent: int) -> bool:
        step = self.program.steps[agent][state.pcs[agent]]
        if step.do is Do.WAIT:
            return all(
                state.bars[b] is None or state.bars[b][0] & 1 != parity
                for b, parity, _ in step.items
            )
        if step.do is Do.COLLECT:
            mask = step.mask & ((1 << self.program.n) - 1)
            return not mask & ~state.over
        if step.do is Do.MEET:
            return agent not in state.came[step.items[0][0]]
        return True

    def _next(self, state: State) -> Iterator[State | None]:
        p = self.program
        for a, steps in enumerate(p.steps):
            if state.pcs[a] < len(steps) and self._enabled(state, a):
                yield self._step(state, a)
        for s in p.signals:
            ready = s.bytes or not self.of_signal[s.index] & ~state.over
            if ready and 0 <= state.landed[s.index] < max(s.bytes, 1):
                yield self._land(state, s.index)
        in_groups = state.begun & ~state.over
        for s in p.signals:
            if s.bytes:
                in_groups &= ~self.of_signal[s.index]
        for i in bits(in_groups):
            yield _replace(state, over=state.over | 1 << i)

    def _land(self, state: State, signal: int) -> State | None:
        s = self.program.signals[signal]
        amount = min(16, s.bytes - state.landed[signal]) if s.bytes else 1
        landed = list(state.landed)
        landed[signal] += amount
        self._phase((-1, signal), state, s.barrier)
        phase, expected, pending, tx = state.bars[s.barrier]
        over = state.over
        if s.bytes and landed[signal] == s.bytes:
            over |= self.of_signal[signal]
        bar = (phase, expected, pending - (not s.bytes), tx - (amount if s.bytes else 0))
        return self._put(_replace(state, landed=tuple(landed), over=over), s.barrier, bar)

    def _phase(self, move: tuple[int, int], state: State, barrier: int, back: int = 0) -> None:
        assert self.outcome.phases is not None
        bar = state.bars[barrier]
        assert bar is not None
        self.outcome.phases.setdefault(move, set()).add(bar[0] - back)

    def _put(self, state: State, barrier: int, bar: tuple[int, int, int, int]) -> State | None:
        phase, expected, pending, tx = bar
        if pending < 0:
            self.outcome.trapped = True
            return None
        if pending == 0 and tx == 0:
            bar = (phase + 1, expected, expected, 0)
        bars = list(state.bars)
        bars[barrier] = bar
        return _replace(state, bars=tuple(bars))

    def _step(self, state: State, agent: int) -> State | None:
        step = self.program.steps[agent][state.pcs[agent]]
        move = (agent, state.pcs[agent])
        if step.do is Do.MEET:
            return self._meet(state, agent)
        pcs = list(state.pcs)
        pcs[agent] += 1
        new: State | None = _replace(state, pcs=tuple(pcs))
        assert new is not None
        if step.do is Do.EXIT:
            for thing, came in enumerate(new.came):
                if came:
                    first = self.program.steps[came[0]][new.pcs[came[0]]]
                    new = self._full(new, thing, first.items[0][1])
            return new
        if any(new.bars[self.program.signals[s].barrier] is None for s in bits(step.signals)):
            self.outcome.trapped = True
            return None
        if step.do is Do.ISSUE:
            return self._fly(_replace(new, begun=new.begun | step.bits), step.signals)
        if step.do is Do.INIT:
            bars = list(new.bars)
            for barrier, count, _ in step.items:
                bars[barrier] = (0, count, count, 0)
            return _replace(new, bars=tuple(bars))
        if step.do is Do.WAIT:
            for barrier, _, _ in step.items:
                if new.bars[barrier] is None:
                    self.outcome.trapped = True
                    return None
                self._phase(move, new, barrier, 1)
        if step.do in (Do.ARRIVE, Do.TX):
            return self._update(self._fly(new, step.signals), step, move)
        return new

    def _update(self, new: State | None, step: Step, move: tuple[int, int]) -> State | None:
        for item in step.items:
            if new is None or new.bars[item[0]] is None:
                self.outcome.trapped = True
                return None
            self._phase(move, new, item[0])
            phase, expected, pending, tx = new.bars[item[0]]
            count, size = item[1:3] if step.do is Do.ARRIVE else (0, item[1])
            new = self._put(new, item[0], (phase, expected, pending - count, tx + size))
        return new

    def _fly(self, state: State, signals: int) -> State:
        landed = list(state.landed)
        for s in bits(signals):
            landed[s] = 0
        return _replace(state, landed=tuple(landed))

    def _meet(self, state: State, agent: int) -> State | None:
        p = self.program
        step = p.steps[agent][state.pcs[agent]]
        thing, count, _ = step.items[0]
        came = list(state.came)
        came[thing] = tuple(sorted((*came[thing], agent)))
        return self._full(_replace(state, came=tuple(came)), thing, count)

    def _full(self, state: State, thing: int, count: int) -> State:
        """Let go who stands at a barrier where all have come that have not exited."""
        p = self.program
        came, pcs = list(state.came), list(state.pcs)
        if p.things[thing].kind == "warp":
            need = {a for a in bits(p.things[thing].agents) if pcs[a] < len(p.steps[a])}
        elif count:
            here = sum(len(p.lanes[a]) for a in came[thing])
            need = set() if here >= count else {-1}
        else:
            need = {a for a, pc in enumerate(pcs) if pc < len(p.steps[a])}
        if came[thing] and need <= set(came[thing]):
            for a in came[thing]:
                pcs[a] += 1
            came[thing] = ()
        return _replace(state, pcs=tuple(pcs), came=tuple(came))


def _replace(state: State, **changes) -> State:
    values = {**state.__dict__, **changes}
    return State(**values)


def _pair(x: Part, y: Part) -> tuple[int, int]:
    return min(x.event, y.event), max(x.event, y.event)
