"""All schedules of a small asynchronous program, one by one: the oracle of the other analyses.

States are positions of the agents, counters of the barriers and copies in flight; from each, every
agent that can go and every signal that can land is tried. Steps that share nothing with others run
at once, and a step whose objects nobody else will use any more is tried alone (a persistent set of
one); equal states are met once. Nothing here knows of happens-before graphs or phase certificates.

Bytes of a copy may land in any multiples of 16. As a phase that completes on part of a copy is a
fault by itself, a copy lands as a whole, and in every state it is asked whether some part of what
is in flight would complete a phase.

Left to the other analyses: tensor-map fences, scopes of fences, registers of operations in flight,
the direction of one-sided proxy fences, tcgen05 fences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xttir.analyses.events import Trace
from xttir.analyses.explore_machine import World
from xttir.analyses.explore_program import Program
from xttir.analyses.explore_shared import compile_program
from xttir.analyses.explore_state import Finding, Move, State
from xttir.analyses.explore_types import bits
from xttir.diagnostics import Kind


@dataclass(slots=True)
class Exploration:
    """What was found. `exhausted`: every schedule was covered; otherwise the bound was met."""

    findings: list[Finding]
    exhausted: bool
    states: int
    phases: dict[Move, int]
    """The phase of each update and wait in the schedule of the trace."""
    program: Program = field(repr=False)

    @property
    def clean(self) -> bool:
        """No schedule has a fault."""
        return self.exhausted and not self.findings

    @property
    def kinds(self) -> set[Kind]:
        return {f.kind for f in self.findings}


def explore(
    trace: Trace,
    agents: Sequence[Sequence[int]] | None = None,
    max_states: int = 50_000,
    first: bool = False,
    reduce: bool = True,
) -> Exploration:
    """Try all schedules of `trace`'s events, of which only the order within a lane counts.

    `agents`: sets of lanes that step together (default: every lane alone). `first` stops at the
    first fault; `reduce` False expands every state fully. Raises `Unsupported`.
    """
    search = _Search(compile_program(trace, agents), max_states, first, reduce)
    search.run()
    return Exploration(
        search.findings, search.exhausted, len(search.seen), search.phases, search.program
    )


class _Search:
    def __init__(self, program: Program, max_states: int, first: bool, reduce: bool):
        self.program = program
        self.max_states = max_states
        self.first = first
        self.reduce = reduce
        self.findings: list[Finding] = []
        self.keys: set[tuple[Any, ...]] = set()
        self.seen: dict[State, int] = {}
        self.parents: list[tuple[int, list[Move]]] = []
        self.exhausted = True
        self.phases: dict[Move, int] = {}
        self.recording = True
        self.world = World(program, self._note)

    def _note(self, move: Move, phase: int, firm: bool) -> str | None:
        # What the traced schedule has not come to is compared with nothing: that one ends in a
        # fault of its own, and a schedule alone would not show the difference.
        if self.recording:
            self.phases[move] = phase
            return None
        known = self.phases.get(move, phase)
        if firm and known != phase:
            return f"takes part in phase {phase} here, in phase {known} in another schedule"
        return None

    def run(self) -> None:
        in_order(self.program, self.world)
        self.recording = False
        world = self.world
        start = World(self.program, self._note)
        world.thaw(start.freeze())
        world.local()
        stack = [self._push(world, -1)] if self._keep(world, -1) else []
        while stack:
            state, number = stack.pop()
            moves = self._moves(world, state, self.reduce)
            for move in moves:
                world.thaw(state)
                if move[0] < 0:
                    world.land(move[1])
                else:
                    world.go(move[0])
                if not world.trapped:
                    world.local()
                if not self._keep(world, number):
                    if self.first:
                        self.exhausted = False
                        return
                    if self.reduce and len(moves) == 1:
                        # The end of everything is no move that the others have nothing to do with.
                        moves += [m for m in self._moves(world, state, False) if m != move]
                    continue
                new = world.freeze()
                if new not in self.seen:
                    if len(self.seen) >= self.max_states:
                        self.exhausted = False
                        return
                    stack.append(self._push(world, number, new))

    def _push(self, world: World, parent: int, state: State | None = None) -> tuple[State, int]:
        state = world.freeze() if state is None else state
        number = self.seen[state] = len(self.parents)
        self.parents.append((parent, world.log))
        return state, number

    def _keep(self, world: World, parent: int) -> bool:
        """Record what was found; False when there is nothing to go on from."""
        for finding in world.found:
            self._found(finding, parent, world.log)
        return not (world.trapped or (self.first and self.findings))

    def _found(self, finding: Finding, parent: int, log: list[Move]) -> None:
        key = (finding.kind, finding.places, finding.message if not finding.places else "")
        if key not in self.keys:
            self.keys.add(key)
            self.findings.append(replace(finding, moves=tuple(self._path(parent) + log)))

    def _path(self, number: int) -> list[Move]:
        logs = []
        while number >= 0:
            number, log = self.parents[number]
            logs.append(log)
        return [move for log in reversed(logs) for move in log]

    def _moves(self, world: World, state: State, reduce: bool) -> list[Move]:
        """The moves to try; none at the end. A deadlock is recorded here."""
        world.thaw(state)
        agents = [a for a in range(len(world.pcs)) if world.enabled(a)]
        landable = world.landable()
        if not agents and not landable:
            left = [a for a in range(len(world.pcs)) if not world.gone(a)]
            if left:
                self._deadlock(world, left, self.seen[state])
            return []
        moves = [(a, world.pcs[a]) for a in agents] + [(-1, s) for s in landable]
        if reduce and len(moves) > 1:
            moves = self._persistent(world, agents, landable) or moves
        return moves

    def _persistent(self, world: World, agents: list[int], landable: list[int]) -> list[Move]:
        """One move that nothing else, now or later, has to do with."""
        program = self.program
        tails = [program.suffix[a][pc] for a, pc in enumerate(world.pcs)]
        flying = {s: program.signal_objects[s] for s in bits(world.flying)}
        every = 0
        twice = 0
        for mask in (*tails, *flying.values()):
            twice |= every & mask
            every |= mask
        for a in agents:
            pc = world.pcs[a]
            objects = program.steps[a][pc].objects
            if not objects & twice:
                return [(a, pc)]
        for s in landable:
            if not flying[s] & twice:
                return [(-1, s)]
        return []

    def _deadlock(self, world: World, left: list[int], number: int) -> None:
        places = []
        for a in left:
            step = world.step_of(a)
            lane = self.program.lanes[a][0]
            places.append((lane, -1 if step is None else step.event))
        finding = Finding(Kind.DEADLOCK, "threads wait for what never comes", tuple(places))
        self._found(finding, number, [])


def in_order(program: Program, world: World) -> None:
    """Run the schedule of the trace: its order, as far as the steps allow; signals at once."""
    waiting = list(program.order)
    while waiting and not world.trapped:
        for i, (agent, pc) in enumerate(waiting):
            if world.pcs[agent] > pc:
                del waiting[i]
                break
            if world.pcs[agent] == pc and world.enabled(agent):
                world.go(agent)
                while not world.trapped and (ready := world.landable()):
                    world.land(ready[0])
                break
        else:
            return
