"""Modules before barrier insertion: where threads of an agent will meet.

The compiler inserts a barrier before an op that accesses memory which an earlier one accessed, if
one of them writes, unless the agent met in between; and after a wait for its copies, before memory
is accessed again. Only then are such modules asked for faults: between agents, and against engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from xttir.analyses.events import Footprint, Mode

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

TAKEN = (
    "the module is before barrier insertion: barriers are taken to come where threads of one "
    "partition access the same memory"
)

EVERYTHING = ("", 0, 1 << 62, True)


def before(a: Agent, op: Operation, *footprints: Footprint) -> None:
    """Called before `op` accesses memory, by its threads or by an engine that they start."""
    if a.tracer.placed or not footprints:
        return
    mine = [_range(f) for f in footprints if (f.starts >= 0).any()]
    if any(_conflict(x, y) for x in a.pending for y in mine):
        if TAKEN not in a.tracer.assumptions:
            a.tracer.assumptions.append(TAKEN)
        a.meet(op)
    a.pending += mine


def waited(a: Agent) -> None:
    """Called after threads have waited for copies: each for its own."""
    if not a.tracer.placed and EVERYTHING not in a.pending:
        a.pending.append(EVERYTHING)


def _range(f: Footprint) -> tuple[str, int, int, bool]:
    starts = f.starts[f.starts >= 0]
    return f.space.value, int(starts.min()), int(starts.max()) + f.size, f.mode is not Mode.READ


def _conflict(x: tuple[str, int, int, bool], y: tuple[str, int, int, bool]) -> bool:
    same = x[0] == y[0] or not x[0]
    return same and (x[3] or y[3]) and x[1] < y[2] and y[1] < x[2]
