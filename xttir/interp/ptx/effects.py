"""What executing an instruction leaves behind: events, operations in flight, and faults.

An asynchronous operation is performed at its issue in a trace; in a run the schedule says when, and
what waits for it makes it be performed. Registers that it writes or reads until then are watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xttir.analyses.events import AsyncOp, ByBytes, Event
from xttir.diagnostics import Fault, Kind, Policy
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.barriers import Barriers
from xttir.interp.ptx.group import Group
from xttir.interp.ptx.instruction import Ins
from xttir.interp.ptx.names import Names, ranges
from xttir.interp.ptx.plan import Plan
from xttir.interp.ptx.schedules import Schedule
from xttir.interp.ptx.step import Task
from xttir.interp.ptx.values import Pending, chain, settle

OUTLIVES = frozenset({"cp.async"})
"""Engines whose operations may be under way when their block ends."""


class Effects(Names):
    """The part of an executor that keeps what has happened."""

    plan: Plan
    barriers: Barriers
    schedule: Schedule
    versions: dict[str, int]

    def __init__(self) -> None:
        self.events: list[Event | None] = []
        self.next_event = 0
        self.faults: dict[Any, Fault] = {}
        self.tasks: list[tuple[Task, ActualStep]] = []
        self.counted: dict[int, np.ndarray] = {}
        """Bytes of operations in flight that were counted before they landed, by task."""
        self.already: np.ndarray | None = None
        """Those of the operation that is being performed."""

    def bump(self, kind: str) -> None:
        """What waits for this kind of thing may go on."""
        self.versions[kind] += 1
        self.versions[""] += 1

    def emit(self, event: Event) -> int:
        index = self.next_event
        self.next_event += 1
        if self.tracing:
            self.events.append(event)
        else:
            self.schedule.happened(event)
            if self.memory.delays is not None:
                self.memory.delays.happened(event)
        return index

    def submit(self, task: Task, step: ActualStep) -> None:
        if self.tracing or self.schedule.submitted(task):
            self.perform(task, step)
        else:
            self.tasks.append((task, step))
            if self.memory.delays is not None:
                self.memory.delays.issued[id(task)] = self.memory.delays.clock
            self.schedule.in_flight(task, step)

    def count_early(self, task: Task, step: ActualStep) -> None:
        """Count half of the bytes of a copy on its barriers before any of them is there: hardware
        counts pieces of 16 bytes in any order, so a phase must not end on part of the bytes."""
        done = task.event.completion if isinstance(task.event, AsyncOp) else None
        if not isinstance(done, ByBytes) or id(task) in self.counted:
            return
        part = np.asarray(done.bytes) // 32 * 16
        self.counted[id(task)] = part
        if part.any():
            self.barriers.complete_tx(step, done.address, done.cta, part)

    def perform(self, task: Task, step: ActualStep | None = None) -> None:
        """Perform an operation, and before it what it comes after."""
        if task.done:
            return
        task.done = True
        for before in task.after:
            if not before.done:
                self.perform(before)
        if step is None:
            step = next((s for t, s in self.tasks if t is task), None)
        if step is not None:
            self.tasks = [pair for pair in self.tasks if pair[0] is not task]
            report, lanes = self.memory.report, self.memory.lanes
            self.memory.report, self.memory.lanes = step.report, step.lanes
            self.already = self.counted.pop(id(task), None)
            self.memory.outlives = getattr(task.event, "engine", "") in OUTLIVES
            delays = self.memory.delays
            if delays is not None:
                delays.until = delays.issued.pop(id(task), delays.clock)
                delays.engine = getattr(task.event, "engine", "")
            task.perform()
            self.already, self.memory.outlives = None, False
            if delays is not None:
                delays.engine = ""
            self.memory.report, self.memory.lanes = report, lanes
        else:
            task.perform()
        self.bump("")

    def finish(self, group: Group, tasks: Iterable[Task]) -> None:
        mine = {id(task) for task in tasks}
        if not mine:
            return
        for task in tasks:
            self.perform(task)
        env, fenced = group.env, group.fenced
        for slot, value in env.items():
            if value.__class__ is Pending:
                settled = env[slot] = settle(value, mine)
                if settled is not value and slot in fenced:
                    fenced[slot] = settled
        if group.held:
            group.held = {s: t for s, t in group.held.items() if id(t) not in mine}

    def used_early(self, group: Group, value: Pending, ins: Ins) -> Any:
        """A register is used while an operation is still going to write it."""
        links = chain(value)
        event = links[0].task.event
        engine = getattr(event, "engine", "asynchronous operation")
        self.fault(
            Kind.RACE,
            f"a register that {engine} writes is used before it was waited for",
            ins,
            group.lanes,
            value.policy,
            other=event.ins,
            other_role=f"{engine} writes it",
        )
        for link in links:
            self.perform(link.task)
        return value.value()

    def overwritten(self, group: Group, slot: int, ins: Ins) -> None:
        """A register is written while an operation still reads it."""
        event = group.held.pop(slot).event
        engine = getattr(event, "engine", "asynchronous operation")
        self.fault(
            Kind.RACE,
            f"a register that {engine} reads is written before it was waited for",
            ins,
            group.lanes,
            other=event.ins,
            other_role=f"{engine} reads it",
        )

    def fault(
        self,
        kind: Kind,
        message: str,
        ins: Ins | int,
        lanes: np.ndarray,
        policy: Policy = Policy.ANY,
        other: int = -1,
        other_role: str = "",
        **more: Any,
    ) -> Fault:
        index = ins if isinstance(ins, int) else ins.index
        key = (kind, policy, index if other < 0 else -1, other)
        known = self.faults.get(key)
        if known is not None:
            return known
        places = self.plan.sources[index].locations
        if other >= 0:
            theirs = self.plan.sources[other].locations
            places += tuple(p.with_role(other_role) for p in theirs)
        witness = {"lanes": ranges(lanes), **more.pop("witness", {})}
        found = Fault(
            kind,
            message,
            kernel=self.plan.name,
            locations=places,
            policy=policy,
            notes=(self.who(lanes), *more.pop("notes", ())),
            witness=witness,
            **more,
        )
        self.faults[key] = found
        return found

    def _place(self, index: int) -> Any:
        if index < 0:
            return None
        places = self.plan.sources[index].locations
        return places[0] if places else None
