"""Agents: the partitions of `ttg.warp_specialize` and its default region, run side by side.

Each is a greenlet with a machine of its own, for all programs of the batch together. An agent runs
until it waits for a barrier whose phase is not complete; then another goes on. Which one goes on is
the schedule: taking turns, the first or the last that can, or drawn at random. When every agent
waits and nothing completes, no schedule can help from there, and each wait is reported.
"""

from __future__ import annotations

import contextvars
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import greenlet
import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location
from xttir.dialects import ttg
from xttir.dialects.locations import locations_of
from xttir.interp.control import run_single_exit
from xttir.interp.machine import Machine, Stuck, Wait
from xttir.interp.plan import Compiler, Frame, Implementations, RegionPlan, Step
from xttir.interp.recurrence import same_values
from xttir.interp.report import FaultLog

_serial = itertools.count()


@dataclass(frozen=True, eq=False)
class AgentId:
    """The component of an agent in the clocks. `serial` is the same for those of one execution of
    one op."""

    name: str
    serial: int

    def __str__(self) -> str:
        return self.name


class Agent:
    """One agent under way: its machine, what runs it, and what it waits for."""

    __slots__ = ("machine", "spins_at", "thread", "wait")

    def __init__(self, machine: Machine, body: Callable[[], None]):
        self.machine = machine
        self.wait: Wait | None = None
        self.spins_at: Operation | None = None
        """The loop in which it waits for other programs."""
        self.thread: Any = greenlet.greenlet(body)
        # numpy keeps what to do about overflow in the context.
        self.thread.gr_context = contextvars.copy_context()

    def can_run(self) -> bool:
        return self.wait is None or self.wait.ready()


class Agents:
    """Runs agents until all have ended. `machine`: that of the agent which started them."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.order = machine.policy.agent_order
        # The module is imported only by who needs it: it takes longer than a small launch.
        self.random = np.random.default_rng(machine.policy.seed) if self.order == "random" else None
        self.live: list[Agent] = []
        self.current: Agent | None = None

    def add(self, machine: Machine, body: Callable[[], None]) -> None:
        machine.agents = self
        self.live.append(Agent(machine, body))

    def run(self) -> None:
        """Run all agents to their end; raises `Stuck` if they wait for ever."""
        try:
            while self.live:
                moved = False
                for agent in self._turns():
                    if not agent.can_run():
                        continue
                    moved = True
                    agent.wait = agent.spins_at = None
                    self.current = agent
                    agent.thread.switch()
                    if agent.thread.dead:
                        self.live.remove(agent)
                    if self.order != "fair" and agent.spins_at is None:
                        break
                if not moved:
                    self._stuck()
                elif all(a.spins_at is not None or not a.can_run() for a in self.live):
                    self._let_programs_run()
        finally:
            for agent in self.live:
                if not agent.thread.dead:
                    agent.thread.throw(greenlet.GreenletExit)

    def _turns(self) -> Iterator[Agent]:
        agents = list(self.live)
        if self.order == "last":
            agents.reverse()
        elif self.random is not None:
            agents = [agents[n] for n in self.random.permutation(len(agents))]
        return iter(agents)

    def _stuck(self) -> None:
        """Nobody can go on here. Agents outside may still help one that started these."""
        waits = [agent.wait for agent in self.live if agent.wait is not None]

        def ready() -> bool:
            return any(wait.ready() for wait in waits)

        outer = self.machine.agents
        if outer is None:
            raise Stuck(self.machine, waits)
        outer.pause(Wait(waits[0].op, self.machine, ready, waits[0].text, tuple(waits)))

    def _let_programs_run(self) -> None:
        """All agents wait for something, some of them for other programs."""
        scheduler = self.machine.scheduler
        for agent in self.live:
            if agent.spins_at is not None and scheduler is not None:
                scheduler.wait(self.machine, agent.spins_at, True)
                return

    def pause(self, wait: Wait | None = None, spins_at: Operation | None = None) -> None:
        """The running agent waits, or only lets others go on."""
        agent = self.current
        assert agent is not None
        agent.wait, agent.spins_at = wait, spins_at
        agent.thread.parent.switch()


def wait_until(
    m: Machine, op: Operation, ready: Callable[[], bool], text: Callable[[], str]
) -> None:
    """Let other agents run until `ready()`. `text`: what the wait is for, for reports."""
    agents = m.agents
    if agents is not None and agents.order == "random":
        agents.pause()
    while not ready():
        wait = Wait(op, m, ready, text)
        if agents is None:
            raise Stuck(m, [wait])
        agents.pause(wait)


def report_stuck(log: FaultLog, stop: Stuck) -> None:
    """A deadlock: the agents wait at `stop.waits`."""
    waits = [inner for wait in stop.waits for inner in (wait.within or (wait,))]
    first, *rest = waits
    pid = int(first.machine.pids.min())
    others: list[Location] = []
    for wait in rest:
        places = locations_of(wait.op)
        if places:
            others.append(places[0].with_role(f"{agent_name(wait.machine)} waits"))
    notes = [f"program {log.program(pid)}"]
    notes += [f"{agent_name(wait.machine)} waits for {wait.text()}" for wait in waits]
    log.report(
        first.op,
        Kind.DEADLOCK,
        "every agent of a program waits for ever" if rest else "the program waits for ever",
        key=tuple(id(wait.op) for wait in rest),
        order=(pid,),
        others=tuple(others),
        role=f"{agent_name(first.machine)} waits",
        notes=tuple(notes),
        witness={"program": list(log.program(pid))},
    )


def agent_name(m: Machine) -> str:
    """ "partition 0", "the default partition", or "the program" where there is one agent."""
    component = m.clock.component
    return str(component) if isinstance(component, AgentId) else "the program"


def build_warp_specialize(
    c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]
) -> Step:
    """ttg.warp_specialize: the default region and every partition as an agent."""
    assert isinstance(op, ttg.WarpSpecializeOp)
    default = c.region(op.default_region)
    holder = op.partitions
    captures = tuple(c.slot(v) for v in holder.operands)
    partitions = [c.region(region) for region in holder.partition_regions]

    def run(m: Machine, frame: Frame) -> None:
        bodies: list[Body] = [("the default partition", default, list(frame))]
        for number, region in enumerate(partitions):
            inner: Frame = [None] * len(frame)
            for slot, source in zip(region.entry.arguments, captures, strict=True):
                inner[slot] = frame[source]
            bodies.append((f"partition {number}", region, inner))
        for slot, value in zip(outs, run_agents(m, bodies), strict=True):
            frame[slot] = value

    return run


Body = tuple[str, RegionPlan, Frame]
"""An agent's name, what it runs, and the frame it runs that in."""


def run_agents(m: Machine, bodies: Sequence[Body]) -> list[Any]:
    """Run agents side by side to their end; gives what the first yields."""
    agents = Agents(m)
    serial = next(_serial)
    at = m.positions()
    assert m.barriers is not None
    results: list[list[Any]] = [[] for _ in bodies]
    machines: list[Machine] = []
    for number, (name, region, frame) in enumerate(bodies):
        machine = _fork(m, AgentId(name, serial))
        machines.append(machine)

        def body(k: int = number, n: Machine = machine, r: RegionPlan = region, f: Frame = frame):
            results[k] = run_single_exit(n, r, f)

        agents.add(machine, body)
    agents.run()
    for machine in machines:
        m.clock.learn(machine.clock.publish(at))
        m.tainted |= machine.tainted
    return results[0]


def _fork(m: Machine, name: AgentId) -> Machine:
    """A machine for an agent that begins with what `m` has done."""
    machine = copy.copy(m)
    machine.clock = m.clock.fork(name, m.positions())
    if m.scheduler is not None:
        machine.scheduler = _Turns(machine)
    return machine


class _Turns:
    """What an agent sees of the scheduler of programs: while it waits for another program, the
    other agents of its own go on first."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.last: dict[int, tuple[int, list[Any]]] = {}

    def step(self, m: Machine, op: Operation, values: list[Any]) -> None:
        """The end of an iteration of loop `op` (see `Machine.step`)."""
        before = self.last.get(id(op))
        self.last[id(op)] = (m.memory.version, values)
        if before is None or before[0] != m.memory.version:
            return
        if same_values(before[1], values):
            m.agents.pause(spins_at=op)

    def wait(self, m: Machine, op: Operation, patient: bool) -> bool:
        """A poll found nothing."""
        m.agents.pause(spins_at=op)
        return True

    def before_release(self, m: Machine) -> None:
        """Other programs get their turn when this one waits."""


def register(implementations: Implementations) -> None:
    """Add `ttg.warp_specialize`."""
    implementations.control[ttg.WarpSpecializeOp] = build_warp_specialize
