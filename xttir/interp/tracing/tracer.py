"""Runs a module with data unknown, and keeps the events: one trace for every way its programs go.

A trace speaks for all programs that make the same decisions (trip counts, branches, buffers,
parities): where programs differ in a number that decides something, those that agree with the first
go on and the others are traced on their own. A branch on data that all threads of a program take
alike is traced both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import greenlet
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from xttir.analyses import events as ev
from xttir.analyses.events import Blocked, Source, Trace
from xttir.diagnostics import Fault, InputError, Unsupported
from xttir.dialects import tt, ttg
from xttir.dialects.layouts.placement import capability_at, integer_attribute
from xttir.dialects.locations import location_of, locations_of
from xttir.interp.ptx.mbarrier_state import MBarriers
from xttir.interp.tracing import control, handlers, kernel
from xttir.interp.tracing.agents import WARP, Agent
from xttir.interp.tracing.evaluate import Evaluator
from xttir.interp.tracing.launch import Launch
from xttir.interp.tracing.visits import Visits

MOST_TRACES = 256
"""Traces of one launch; a launch whose programs go more ways is not supported."""


def trace_module(
    module: ModuleOp, launch: Launch, visits: list[Visits] | None = None
) -> list[Trace]:
    """The traces of a launch of a kernel of `module`. `visits`: gets what the loops of each trace
    begin their iterations with. Raises `InputError` and `Unsupported`."""
    handlers.load_all()
    function = tt.function_named(module, launch.kernel)
    if function is None:
        raise InputError(f"no function @{launch.kernel} in the module")
    if not function.body.blocks:
        raise InputError(f"function @{launch.kernel} has no body", location_of(function))
    work = [_Work(np.arange(max(launch.programs, 1)), ())]
    traces: list[Trace] = []
    while work:
        if len(traces) == MOST_TRACES:
            raise Unsupported(f"a launch whose programs go more than {MOST_TRACES} ways")
        one = work.pop()
        tracer = Tracer(module, function, launch, one)
        if visits is not None:
            tracer.visits = Visits(tracer)
            visits.append(tracer.visits)
        tracer.run()
        traces.append(tracer.trace())
        work += tracer.others
    return traces


@dataclass(frozen=True, eq=False)
class _Work:
    """Programs still to be traced, and the ways that branches on data go."""

    programs: np.ndarray
    choices: tuple[bool, ...]


@dataclass(eq=False)
class Tracer:
    """One run. `work`: for which programs."""

    module: ModuleOp
    function: tt.FuncOp
    launch: Launch
    work: _Work
    events: list[ev.Event] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    others: list[_Work] = field(default_factory=list)
    """What this run leaves to be traced."""
    state: dict[Any, Any] = field(default_factory=dict)
    """What handlers keep between ops."""
    visits: Visits | None = None
    """Keeps what loops begin their iterations with, if asked to."""

    def __post_init__(self) -> None:
        self.warps = self.attribute("ttg.num-warps", 4)
        self.blocks = self.attribute("ttg.num-ctas", 1)
        total = max(self.attribute("ttg.total-num-warps"), self.warps, self._end_warp())
        self.threads = total * WARP
        self.active = self.work.programs
        self.first_block = int(self.active[0]) * self.blocks
        self.first_lanes = (self.first_block + np.arange(self.blocks)) * self.threads
        self.shared_bytes = max(self.attribute("ttg.shared"), _SHARED)
        self.mbarriers = MBarriers(self.blocks, self.shared_bytes, lambda: None)
        self.choices = list(self.work.choices)
        self.chosen = 0
        self.agents: list[Agent] = []
        self.everybody: list[Agent] = []
        """Those that have ended, too."""
        self._numbers: dict[Operation, int] = {}
        self._sources: list[Source] = []
        self.evaluator = Evaluator(self.module, self.launch)
        self.arch = capability_at(self.module) or 90
        self.placed = is_allocated(self.module)
        """Whether shared memory has been allocated; barriers have then been inserted too."""
        self.scheduler = greenlet.getcurrent()

    def attribute(self, name: str, default: int = 0) -> int:
        """An integer attribute of the module."""
        held = integer_attribute(self.module, name)
        return default if held is None else held

    def _end_warp(self) -> int:
        """One more than the last warp that a partition has."""
        end = self.warps
        for op in self.function.walk():
            if isinstance(op, ttg.WarpSpecializeOp):
                starts = control.first_warps(op, self.warps)
                counts = op.partition_num_warps.get_values()
                end = max([end, *(s + n for s, n in zip(starts, counts, strict=True))])
        return end

    # Decisions ------------------------------------------------------------------------------------

    def agreed(self, value: np.ndarray) -> int:
        """The number that goes for this run: programs for which it is another are left."""
        if value.size == 1:
            return int(value[0])
        mine = value[self.active]
        same = mine == mine[0]
        if not same.all():
            self.others.append(_Work(self.active[~same], tuple(self.choices[: self.chosen])))
            self.active = self.active[same]
        return int(mine[0])

    def choose(self) -> bool:
        """Which way a branch on data goes in this run."""
        if self.chosen == len(self.choices):
            self.others.append(_Work(self.active, (*self.choices, False)))
            self.choices.append(True)
        self.chosen += 1
        return self.choices[self.chosen - 1]

    def how_to_know(self, op: Operation) -> str:
        """What to do about a number that is not known."""
        names = []
        for number, argument in enumerate(self.function.body.blocks[0].args):
            if number not in self.launch.arguments and control.is_scalar(argument.type):
                names.append(f"#{number}" + (f" ({n})" if (n := argument.name_hint) else ""))
        if not names:
            return ""
        return "give the values of the scalar arguments that it may depend on: " + ", ".join(names)

    # Instructions ---------------------------------------------------------------------------------

    def instruction(self, op: Operation) -> int:
        number = self._numbers.get(op)
        if number is None:
            number = self._numbers[op] = len(self._sources)
            self._sources.append(Source(_text(op), locations_of(op)))
        return number

    # Running --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all agents to their end, or until all wait."""
        main = Agent(self, "the default warps", 0, self.warps, 0)
        entry = self.function.body.blocks[0]
        for number, argument in enumerate(entry.args):
            main.env[argument] = self.evaluator.argument(number, argument)

        def body() -> None:
            kernel.begin(main)
            control.run_region(main, self.function.body, None)
            kernel.end(main)
            self.events.append(ev.Exit(main.ins(self.function), main.everyone))

        self.start(main, body)
        try:
            while self.agents:
                if not self._turn():
                    self._stuck()
                    break
        finally:
            for agent in self.agents:
                if not agent.thread.dead:
                    agent.thread.throw(greenlet.GreenletExit)

    def _turn(self) -> bool:
        """Let every agent run that can; whether one could."""
        moved = False
        for agent in list(self.agents):
            if agent.ready is None or agent.ready():
                moved = True
                agent.thread.switch()
                if agent.thread.dead:
                    self.agents.remove(agent)
        return moved

    def start(self, agent: Agent, body: Callable[[], None]) -> None:
        """Let `agent` run `body()` among the others."""
        agent.thread = greenlet.greenlet(body, parent=self.scheduler)
        self.agents.append(agent)
        self.everybody.append(agent)

    def _stuck(self) -> None:
        for agent in self.agents:
            op, text = agent.waits_at, agent.waits_for
            assert op is not None
            assert text is not None
            self.blocked.append(
                Blocked(self.instruction(op), agent.lanes, f"{agent.name} waits for {text()}")
            )

    def trace(self) -> Trace:
        """What this run has left."""
        return Trace(
            kernel=self.launch.kernel,
            arch=self.arch,
            threads_per_cta=self.threads,
            ctas_per_cluster=self.blocks,
            ctas=np.arange(self.first_block, self.first_block + self.blocks),
            instructions=self._sources,
            events=self.events,
            blocked=self.blocked,
            shared_bytes=self.shared_bytes,
            assumptions=[*self.assumptions, *self.evaluator.assumptions],
            faults=self.faults,
        )


_SHARED = 1 << 18
"""Room for shared memory when the module does not say how much it has: no bounds are checked
against this, they are against the buffers."""


def is_allocated(module: ModuleOp) -> bool:
    """Whether shared memory has been given its places."""
    return "ttg.shared" in module.attributes or any(
        "allocation.offset" in op.attributes for op in module.walk()
    )


def _text(op: Operation) -> str:
    """An op in a few words: its name, and the type of what it works on."""
    if op.regions:
        return op.name
    stream = StringIO()
    Printer(stream).print_op(op)
    text = " ".join(stream.getvalue().split())
    if text.startswith("%"):
        text = text.partition(" = ")[2]
    return text if len(text) <= 160 else text[:157] + "..."
