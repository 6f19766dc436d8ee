"""Runs a kernel once with tensor data unknown, and keeps the events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.events import Access, AsyncOp, Footprint, Space, Trace
from xttir.frontends.launch_description import LaunchDescription
from xttir.interp.ptx.executor import Executor
from xttir.interp.ptx.plan import Plan, plan_of
from xttir.interp.ptx.schedules import Backward
from xttir.interp.ptx.uses import Uses


def trace(
    module: ModuleOp,
    launch: LaunchDescription,
    *,
    backward: bool = False,
    most_steps: int = 0,
    fingerprints: bool = False,
) -> Trace:
    """The events of one schedule of a launch; `backward`: one in which the last blocks come first;
    `most_steps`, `fingerprints`: as `Executor` takes them. Raises InputError and Unsupported."""
    plan = plan_of(module, launch.entry)
    return trace_plan(
        plan, launch, backward=backward, most_steps=most_steps, fingerprints=fingerprints
    )


def trace_plan(
    plan: Plan,
    launch: LaunchDescription,
    *,
    backward: bool = False,
    most_steps: int = 0,
    fingerprints: bool = False,
) -> Trace:
    schedule = Backward() if backward else None
    executor = Executor(plan, launch, None, schedule, most_steps, fingerprints)
    executor.run()
    return _trace(executor)


def _trace(executor: Executor) -> Trace:
    plan, geometry = executor.plan, executor.geometry
    return Trace(
        kernel=plan.name,
        arch=executor.arch,
        threads_per_cta=geometry.threads,
        ctas_per_cluster=geometry.ranks,
        ctas=np.arange(geometry.ctas),
        instructions=plan.sources,
        events=_inside(_compact(executor.events), executor.layout.shared_bytes),
        blocked=executor.blocked,
        shared_bytes=executor.layout.shared_bytes,
        buffers=[(r.name, r.base, r.size) for r in executor.memory.tensors],
        assumptions=list(executor.assumptions),
        faults=list(executor.faults.values()),
        spins=plan.waits_for_memory,
        stores_of=Uses(plan),
    )


def _compact(events: list[Any]) -> list[Any]:
    """Without the events that turned out not to have happened; `observed` follows."""
    if all(event is not None for event in events):
        return events
    place = np.full(len(events) + 1, -1, np.int32)
    kept = [n for n, event in enumerate(events) if event is not None]
    place[kept] = np.arange(len(kept))
    out = [events[n] for n in kept]
    for event in out:
        if isinstance(event, Access) and event.observed is not None:
            event.observed = place[event.observed]
            if event.origin is not None:
                event.origin = place[event.origin]
    return out


def _inside(events: list[Any], shared_bytes: int) -> list[Any]:
    """Without the pieces outside of shared memory: they have been reported, and touch nothing."""
    for event in events:
        if isinstance(event, Access | AsyncOp):
            event.footprints = tuple(_clipped(f, shared_bytes) for f in event.footprints)
    return events


def _clipped(footprint: Footprint, shared_bytes: int) -> Footprint:
    starts = footprint.starts
    if footprint.space is not Space.SHARED or not starts.size:
        return footprint
    if int(starts.max()) + footprint.size <= shared_bytes:
        return footprint
    return replace(footprint, starts=np.where(starts + footprint.size > shared_bytes, -1, starts))
