"""Fair scheduling of programs that wait for one another.

Every program is a greenlet of its own. At the end of each iteration of a loop that may wait, a
program whose iteration changed nothing (neither its loop-carried values nor memory) is spinning and
lets the others run. When every live program spins and memory stays as it is, no schedule can help:
that is a deadlock, reported at the loops that spin.

A program that is about to release what it did (a signal, an unlock) lets the others run first. Who
waits for its previous release then acquires that one and not a later one, which would order more
than the program asked for and hide races. A budget bounds what this costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlet
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.interp.machine import Machine, Repeats, StepLimit
from xttir.interp.memory import Memory
from xttir.interp.recurrence import deciding, same_values
from xttir.interp.report import FaultLog, ranges_text
from xttir.policy import RunPolicy

TURN = 32
"""Iterations after which a program that makes progress lets others run."""

LIVE = 64
"""Programs under way up to which one that is about to release lets others run."""

OFFERS = 4096
"""How many turns of others a launch spends on that."""


class _Program:
    __slots__ = ("last", "machine", "offering", "polls", "resumed", "spins_at", "thread", "turn")

    def __init__(self, machine: Machine):
        self.machine = machine
        self.thread: Any = None
        self.spins_at: Operation | None = None
        self.last: dict[int, tuple[int, list[Any]]] = {}
        self.turn = 0
        self.polls = 0
        self.resumed = 0
        self.offering = False


class Scheduler:
    """Runs `pids` in turns. `start(pid)` gives the machine of a program and what runs it."""

    def __init__(
        self,
        pids: list[int],
        start: Callable[[int], tuple[Machine, Callable[[], None]]],
        memory: Memory,
        policy: RunPolicy,
        log: FaultLog,
        done: Callable[[int], None],
    ):
        self.pids = pids
        self.start = start
        self.memory = memory
        self.policy = policy
        self.log = log
        self.done = done
        self._of: dict[int, _Program] = {}
        self._timeouts = False
        self._live = 0
        self._offering = 0
        self._budget = OFFERS

    def run(self) -> bool:
        """Run all programs. False if they cannot all end (reported to the log)."""
        waiting: list[_Program] = []
        following = iter(self.pids)
        finished = 0
        quiet = 0
        version = self.memory.version
        exhausted = False
        try:
            while True:
                program = None
                if not exhausted and not (self._offering and len(waiting) >= LIVE):
                    program = self._next(following)
                    exhausted = program is None
                if program is None:
                    if not waiting:
                        return True
                    program = waiting.pop(0)
                if program.offering:
                    program.offering = False
                    self._offering -= 1
                program.resumed = self.memory.version
                self._live = len(waiting)
                program.thread.switch()
                if program.thread.dead:
                    finished += 1
                    self.done(finished)
                    quiet = 0
                    continue
                waiting.append(program)
                changed = self.memory.version != version
                version = self.memory.version
                quiet = 0 if changed or program.spins_at is None else quiet + 1
                if exhausted and quiet > 2 * len(waiting):
                    if not self._timeouts and any(self._impatient(p) for p in waiting):
                        self._timeouts = True
                        quiet = 0
                        continue
                    self._deadlock(waiting)
                    return False
                self._timeouts = self._timeouts and quiet > 0
        finally:
            for program in waiting:
                if not program.thread.dead:
                    program.thread.throw(greenlet.GreenletExit)

    def _next(self, following: Any) -> _Program | None:
        pid = next(following, None)
        if pid is None:
            return None
        machine, body = self.start(pid)
        machine.scheduler = self
        program = _Program(machine)
        program.thread = greenlet.greenlet(body)
        self._of[id(machine)] = program
        return program

    def step(self, m: Machine, op: Operation, values: list[Any]) -> None:
        """The end of an iteration of loop `op` (see `Machine.step`)."""
        program = self._of[id(m)]
        before = program.last.get(id(op))
        program.last[id(op)] = (self.memory.version, values)
        if (
            before is not None
            and before[0] == self.memory.version
            and same_values(before[1], values)
        ):
            self._yield(program, op)
            return
        program.turn += 1
        if program.turn >= TURN:
            program.turn = 0
            self._yield(program, None)

    def wait(self, m: Machine, op: Operation, patient: bool) -> bool:
        """A poll found nothing: let others run. False once an impatient one shall time out."""
        program = self._of[id(m)]
        program.polls += 1
        if program.polls > self.policy.max_steps:
            raise StepLimit(op, m)
        self._yield(program, op)
        return patient or not self._timeouts

    def before_release(self, m: Machine) -> None:
        """`m` is about to release. If it changed memory in this turn, others go first."""
        program = self._of[id(m)]
        if program.resumed == self.memory.version or self._live >= LIVE or self._budget <= 0:
            return
        self._budget -= 1 + self._live
        self._offering += 1
        program.offering = True
        self._yield(program, None)

    @staticmethod
    def _impatient(program: _Program) -> bool:
        return getattr(program.spins_at, "timeout", None) is not None

    @staticmethod
    def _yield(program: _Program, spins_at: Operation | None) -> None:
        program.spins_at = spins_at
        program.thread.parent.switch()

    def _deadlock(self, waiting: list[_Program]) -> None:
        by_loop: dict[int, list[_Program]] = {}
        for program in waiting:
            by_loop.setdefault(id(program.spins_at), []).append(program)
        for group in by_loop.values():
            op = group[0].spins_at
            if op is None:
                continue
            pids = sorted(int(p.machine.pids[0]) for p in group)
            report_deadlock(self.log, op, pids, len(waiting), len(self.pids))


def report_deadlock(
    log: FaultLog, op: Operation, pids: list[int], live: int, programs: int
) -> None:
    """Programs `pids` wait at `op` for ever."""
    first = log.program(pids[0])
    names = f"program {first}" if len(pids) == 1 else f"programs {ranges_text(pids)} (linear ids)"
    log.report(
        spin_place(op),
        Kind.DEADLOCK,
        "programs wait for ever: no program that is left can change what this loop waits for",
        order=(pids[0],),
        role="spins here",
        notes=(
            f"{names} spin{'s' if len(pids) == 1 else ''} here; "
            f"{programs - live} of {programs} programs have ended",
        ),
        witness={"programs": [list(log.program(p)) for p in pids[:8]]},
        count=len(pids),
    )


def report_endless(log: FaultLog, stop: StepLimit) -> None:
    """A loop went on past the step limit, or repeats."""
    pid = int(stop.machine.pids.min())
    if isinstance(stop, Repeats):
        message = "loop never ends: what its condition depends on repeats"
        hint = f"after {stop.iteration} iterations all of it is as it was in an earlier one"
    else:
        message = f"loop did not end within {stop.machine.policy.max_steps} iterations"
        hint = "raise the limit with --max-steps if the loop is meant to run that long"
    log.report(
        spin_place(stop.op),
        Kind.DEADLOCK,
        message,
        order=(pid,),
        role="loops here",
        notes=(f"program {log.program(pid)}",),
        hint=hint,
        witness={"program": list(log.program(pid))},
    )


def spin_place(op: Operation) -> Operation:
    """The op that best shows where a loop spins: its first atomic or load, else the loop. The loop
    too if it does not wait for memory."""
    decides = deciding(op)
    if decides is not None and not decides[1]:
        return op
    for inner in op.walk():
        if inner.name in ("tt.atomic_cas", "tt.atomic_rmw", "tt.atomic_poll", "tt.atomic_load"):
            return inner
    for inner in op.walk():
        if inner.name == "tt.load":
            return inner
    return op
