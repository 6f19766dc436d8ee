"""Runs a kernel on numbers along a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.events import Blocked
from xttir.diagnostics import Fault, Kind
from xttir.frontends.launch_description import LaunchDescription, materialise
from xttir.interp.ptx.executor import Executor
from xttir.interp.ptx.plan import plan_of
from xttir.interp.ptx.schedules import Schedule, schedule_of


@dataclass(slots=True)
class Result:
    """`tensors`: the allocations after the launch, as `materialise` gives them before. `blocked`
    is not empty when threads were stuck, which is also a `deadlock` fault."""

    tensors: dict[str, np.ndarray]
    faults: list[Fault]
    blocked: list[Blocked] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)


def run(
    module: ModuleOp,
    launch: LaunchDescription,
    schedule: str | dict[str, Any] | Schedule = "first",
    data: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> Result:
    """Run a kernel. `schedule`: "first", "random:SEED", "adversarial", a witness (a dict) or the
    name of its file. `data`: the tensors before the launch, by default `materialise(launch, seed)`;
    they are not changed. Raises InputError and Unsupported."""
    before = materialise(launch, seed) if data is None else data
    order = schedule if isinstance(schedule, Schedule) else schedule_of(schedule)
    executor = Executor(plan_of(module, launch.entry), launch, before, order)
    executor.run()
    if not executor.blocked:
        report_leaks(executor)
    faults = [*executor.faults.values(), *deadlocks(executor)]
    return Result(_tensors(executor), faults, executor.blocked, list(executor.assumptions))


def _tensors(executor: Executor) -> dict[str, np.ndarray]:
    out = {}
    for name, spec in executor.launch.tensors.items():
        region = executor.memory.region_at(executor.contents.tensors[name])
        out[name] = region.data()[: spec.size].copy().view(spec.dtype.numpy)
    return out


def report_leaks(executor: Executor) -> None:
    """A fault for tensor memory that nobody has freed."""
    memory = executor.state.get("tensor memory")
    found: dict[tuple[int, int], list[int]] = {}
    for (_, base), (ins, lane) in ({} if memory is None else memory.origin).items():
        found.setdefault((ins, base), []).append(lane)
    for (ins, base), lanes in found.items():
        message = f"tensor memory from column {base} is never freed"
        executor.fault(Kind.LIFETIME, message, ins, np.sort(lanes))


def deadlocks(executor: Executor) -> list[Fault]:
    """A fault for threads that are stuck, the first place first."""
    if not executor.blocked:
        return []
    places, notes = [], []
    for blocked in executor.blocked:
        source = executor.plan.sources[blocked.ins]
        places += [at.with_role(f"waits for {blocked.what}") for at in source.locations[:1]]
        notes.append(f"{source.text}: {executor.who(blocked.lanes)} wait for {blocked.what}")
    return [
        Fault(
            Kind.DEADLOCK,
            "threads wait for what never comes",
            kernel=executor.plan.name,
            locations=tuple(places),
            notes=tuple(notes),
        )
    ]
