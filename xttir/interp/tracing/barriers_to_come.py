"""Modules before barrier insertion: where threads of an agent will meet.

The compiler inserts a barrier before an op that accesses memory which an earlier one accessed, if
one of them writes, unless the agent met in between; and after a wait for its copies, before memory
is accessed again. Only then are such modules asked for faults: between agents, and against engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Mode, Space

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

TAKEN = (
    "the module is before barrier insertion: barriers are taken to come where threads of one "
    "partition access the same memory"
)

Range = tuple[str, int, int, bool]
"""Space ("": any), first place, one more than the last, and whether it is written."""

EVERYTHING: Range = ("", 0, 1 << 62, True)
BARRIER = 8
"""Bytes of an mbarrier."""


def before(a: Agent, event: ev.Event) -> None:
    """Called before `event` joins the trace."""
    if isinstance(event, ev.GroupWait) and event.engine in ("cp.async", "bulk"):
        # Each thread has waited for its own copies.
        if EVERYTHING not in a.pending:
            a.pending.append(EVERYTHING)
        return
    mine = _ranges(event)
    if any(_conflict(x, y) for x in a.pending for y in mine):
        if TAKEN not in a.tracer.assumptions:
            a.tracer.assumptions.append(TAKEN)
        a.meet_at(event.ins)
    a.pending += mine


def _ranges(event: ev.Event) -> list[Range]:
    if isinstance(event, ev.BarrierInit | ev.BarrierInval):
        return [_range(Space.SHARED, event.address, BARRIER, True)]
    if isinstance(event, ev.Wait):
        return [_range(Space.SHARED, event.address, BARRIER, False)]
    if isinstance(event, ev.Access | ev.AsyncOp):
        return [
            _range(f.space, f.starts, f.size, f.mode is not Mode.READ)
            for f in event.footprints
            if f.space is not Space.GLOBAL
        ]
    return []


def _range(space: Space, starts: np.ndarray, size: int, writes: bool) -> Range:
    valid = starts[starts >= 0]
    if not valid.size:
        return space.value, 0, 0, False
    return space.value, int(valid.min()), int(valid.max()) + size, writes


def _conflict(x: Range, y: Range) -> bool:
    same = x[0] == y[0] or not x[0]
    return same and (x[3] or y[3]) and x[1] < y[2] and y[1] < x[2]
