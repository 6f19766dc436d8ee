"""What loops of a traced module begin their iterations with: the ground of statements about every
number of iterations (`analyses.trips`).

A visit of a block is noted with the numbers that its arguments hold, where it falls among the
events of the trace, and the state of the whole program there: how far each agent has come, and
what the mbarriers count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Block, Operation

from xttir.dialects import arith
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent
    from xttir.interp.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Visit:
    """`values`: of the block's arguments: a number, or what else tells values apart. `at`: events
    emitted before. `steps`: ops that the agent executed before. `others`: by name of every agent
    that has begun, the ops it has executed. `barriers`: pending arrivals, bytes, phases of the
    mbarriers that are live."""

    values: tuple[Any, ...]
    at: int
    steps: int
    others: tuple[tuple[str, int], ...]
    barriers: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two numbers: when, in ops of its agent, and the difference left - right."""

    agent: str
    steps: int
    difference: int


@dataclass
class Visits:
    """Of one trace. `of`: by agent and block, in order. `compared`: by op."""

    tracer: Tracer
    of: dict[tuple[str, Block], list[Visit]] = field(default_factory=dict)
    compared: dict[Operation, list[Compared]] = field(default_factory=dict)

    def note(self, a: Agent, block: Block, args: list[Any]) -> None:
        """`a` goes to `block` with `args`."""
        m = self.tracer.mbarriers
        visit = Visit(
            tuple(self._told(v) for v in args),
            len(self.tracer.events),
            a.steps,
            tuple((one.name, one.steps) for one in self.tracer.everybody),
            (m.pending[m.live], m.tx[m.live], m.phase[m.live]),
        )
        self.of.setdefault((a.name, block), []).append(visit)

    def _told(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            flat = value.reshape(-1)
            one = flat[0] if flat.size == 1 else flat[self.tracer.active[0]]
            # A float is no count: what it is told by must not be cut to an integer.
            return int(one) if value.dtype.kind in "iub" else one.item()
        if isinstance(value, View):
            return ("view", id(value.pattern), value.shift)
        return type(value).__name__

    def compare(self, a: Agent, op: Operation, args: list[Any]) -> None:
        """`a` executes `op`."""
        if not isinstance(op, arith.CmpiOp):
            return
        left, right = args
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            difference = self._told(left) - self._told(right)
            one = Compared(a.name, a.steps, difference)
            self.compared.setdefault(op, []).append(one)
