"""Schedules of small traces: written down, replayed, and found for programs that have none yet.

A witness is JSON, `{"steps": [...]}`, each step either `{"lanes": [first, last], "events": n}`
(these lanes may do n more of their events, and run until they have or cannot go on: what is left
of n they may do later) or `{"complete": {"lane": l, "op": k}}` (the k-th asynchronous operation of
the lane, from 0, is performed: its bytes or arrivals reach their barriers). What is not listed
runs afterwards. Events and operations are counted per lane as the trace lists them. `"stale": true`
beside `steps` is for runs on numbers: stores are seen as late as can be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.explore import Exploration, in_order
from xttir.analyses.explore_machine import World
from xttir.analyses.explore_program import Program
from xttir.analyses.explore_shared import compile_program
from xttir.analyses.explore_state import Finding, Move
from xttir.diagnostics import InputError, Kind


def to_json(program: Program, moves: Sequence[Move]) -> dict[str, Any]:
    """The schedule of a finding."""
    steps: list[dict[str, Any]] = []
    done: set[tuple[int, int]] = set()
    for agent, number in moves:
        if agent < 0:
            signal = program.signals[number]
            if (signal.lane, signal.op) not in done:
                done.add((signal.lane, signal.op))
                steps.append({"complete": {"lane": signal.lane, "op": signal.op}})
            continue
        step = program.steps[agent][number]
        if step.event < 0:
            continue
        for first, last in _ranges(step.lanes):
            if steps and steps[-1].get("lanes") == [first, last]:
                steps[-1]["events"] += 1
            else:
                steps.append({"lanes": [first, last], "events": 1})
    return {"steps": steps}


def _ranges(lanes: Sequence[int]) -> list[tuple[int, int]]:
    cuts = [i for i in range(1, len(lanes)) if lanes[i] != lanes[i - 1] + 1]
    return [(lanes[a], lanes[b - 1]) for a, b in zip([0, *cuts], [*cuts, len(lanes)], strict=True)]


@dataclass(slots=True)
class Replay:
    """What one schedule does. `unreached`: lanes that did not do all that was listed for them;
    `finished`: all threads exited; `moves`: the order in which things happened."""

    findings: list[Finding]
    unreached: set[int]
    finished: bool
    moves: list[Move]
    program: Program = field(repr=False)

    @property
    def kinds(self) -> set[Kind]:
        return {f.kind for f in self.findings}


def replay(
    trace: ev.Trace, schedule: dict[str, Any], agents: Sequence[Sequence[int]] | None = None
) -> Replay:
    """Run `trace` along `schedule`, and afterwards the threads before what is in flight.

    Phases are compared with those of the trace's own order. Raises `InputError` on a schedule
    that does not have the format.
    """
    return _Replayer(compile_program(trace, agents)).run(schedule)


class _Replayer:
    def __init__(self, program: Program):
        self.program = program
        self.phases: dict[Move, int] = {}
        self.world = World(program, self._record)
        in_order(program, self.world)
        self.world = World(program, self._compare)
        self.quota: dict[int, int] = defaultdict(int)
        self.waiting: set[tuple[int, int]] = set()

    def _record(self, move: Move, phase: int, firm: bool) -> str | None:
        self.phases[move] = phase
        return None

    def _compare(self, move: Move, phase: int, firm: bool) -> str | None:
        known = self.phases.get(move, phase)
        if firm and known != phase:
            return f"takes part in phase {phase} here, in phase {known} in another schedule"
        return None

    def run(self, schedule: dict[str, Any]) -> Replay:
        world = self.world
        for step in checked_steps(schedule):
            if "complete" in step:
                self.waiting.add((step["complete"]["lane"], step["complete"]["op"]))
            else:
                first, last = step["lanes"]
                for lane in range(first, last + 1):
                    self.quota[lane] += step["events"]
            self._advance()
        unreached = {lane for lane, n in self.quota.items() if n > 0}
        for lane in self.program.agent_of:
            self.quota[lane] = 1 << 30
        while not world.trapped:
            self._advance()
            ready = world.landable()
            if not ready or world.trapped:
                break
            world.land(ready[0])
        finished = all(world.gone(a) for a in range(len(world.pcs)))
        if not finished and not world.trapped:
            self._stuck()
        return Replay(world.found, unreached, finished, world.log, self.program)

    def _advance(self) -> None:
        """Let lanes go as far as they may, and land what is to land."""
        world, again = self.world, True
        while again and not world.trapped:
            again = False
            for s in world.landable():
                signal = self.program.signals[s]
                if (signal.lane, signal.op) in self.waiting:
                    world.land(s)
                    again = True
                    break
            for agent in range(len(world.pcs)):
                if world.trapped:
                    return
                step = world.step_of(agent)
                if step is None or not world.enabled(agent):
                    continue
                if step.event >= 0:
                    if any(self.quota[lane] <= 0 for lane in step.lanes):
                        continue
                    for lane in step.lanes:
                        self.quota[lane] -= 1
                elif any(self.quota[lane] < 1 << 20 for lane in step.lanes):
                    continue
                world.go(agent)
                again = True

    def _stuck(self) -> None:
        world = self.world
        places = []
        for agent in range(len(world.pcs)):
            if not world.gone(agent):
                step = world.step_of(agent)
                lane = self.program.lanes[agent][0]
                places.append((lane, -1 if step is None else step.event))
        world.find(Kind.DEADLOCK, "threads wait for what never comes", *places)


def checked_steps(schedule: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a schedule. Raises `InputError` where they do not have the format."""
    steps = schedule.get("steps") if isinstance(schedule, dict) else None
    if not isinstance(steps, list):
        raise InputError("a schedule is an object with a list `steps`")
    for step in steps:
        lanes = step.get("lanes") if isinstance(step, dict) else None
        if lanes is not None:
            good = (
                isinstance(lanes, list)
                and len(lanes) == 2
                and all(isinstance(x, int) for x in [*lanes, step.get("events")])
            )
        else:
            what = step.get("complete") if isinstance(step, dict) else None
            good = isinstance(what, dict) and all(
                isinstance(what.get(key), int) for key in ("lane", "op")
            )
        if not good:
            raise InputError(f"not a step of a schedule: {step}")
    return steps


def confirms(exploration: Exploration, finding: Finding) -> bool:
    """The schedule of a finding, written down and replayed, shows the same fault."""
    program = exploration.program
    again = replay(program.trace, to_json(program, finding.moves), program.lanes)
    return any(f.kind is finding.kind and f.places == finding.places for f in again.findings)


def settle(trace: ev.Trace, agents: Sequence[Sequence[int]]) -> ev.Trace:
    """`trace`, whose events stand in any order that respects each lane's, in one that can run.

    Where the program gets stuck, the rest is left out and `blocked` says who waits. Barriers stand
    where their threads have returned, an event of several `agents` where the last one has.
    """
    program = compile_program(trace, agents)
    world = World(program, lambda move, phase, firm: None)
    in_order(program, world)
    missing: dict[int, int] = defaultdict(int)
    for steps in program.steps:
        for step in steps:
            missing[step.event] += 1
    new_index: dict[int, int] = {}
    for agent, number in world.done:
        event = program.steps[agent][number].event
        missing[event] -= 1
        if event >= 0 and not missing[event]:
            new_index[event] = len(new_index)
    events = []
    for old in new_index:
        event = trace.events[old]
        if isinstance(event, ev.Access) and event.observed is not None:
            seen = [new_index.get(int(w), -1) for w in event.observed]
            event = _with(event, observed=np.array(seen, np.int32))
        events.append(event)
    blocked = list(trace.blocked)
    for agent in range(len(world.pcs)):
        step = world.step_of(agent)
        if step is not None and step.event >= 0:
            source = trace.events[step.event].ins
            lanes = np.array(step.lanes, np.int32)
            blocked.append(ev.Blocked(source, lanes, trace.instructions[source].text))
    return replace(trace, events=events, blocked=blocked)


def _with(event: Any, **changes: Any) -> Any:
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    return type(event)(**{**values, **changes})
