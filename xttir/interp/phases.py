"""The checks of mbarriers: life, arrivals, and whether every schedule has the phases of this run.

A run shows one order of events. That the phases are the same in every other one is known if each
update of a phase happens after the phase before has completed, and each wait for a phase after the
one before it has completed and before the next one can (the rules of `analyses.phases`, applied to
the clocks of the run).
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location
from xttir.dialects.locations import locations_of
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier
from xttir.interp.order import Known, Positions, chosen


def _report(m: Machine, op: Operation, kind: Kind, message: str, barrier: MBarrier) -> None:
    pid = int(m.pids.min())
    places = locations_of(barrier.op) if barrier.op is not None else ()
    others: tuple[Location, ...] = ()
    if places:
        others = (places[0].with_role("initialised here"), *places[1:])
    m.log.report(
        op,
        kind,
        message,
        key=(message, barrier.name),
        order=(pid,),
        others=others,
        notes=(f"program {m.log.program(pid)}",),
        witness={"program": list(m.log.program(pid)), "barrier": barrier.name},
        count=m.pids.size,
    )


def report_live(m: Machine, op: Operation, barrier: MBarrier) -> None:
    """`init_barrier` of a barrier that is in use."""
    message = f"{barrier.name} is initialised again while it is in use: invalidate it first"
    _report(m, op, Kind.LIFETIME, message, barrier)


def usable(m: Machine, op: Operation, barrier: MBarrier, at: Positions) -> bool:
    """Whether the barrier is initialised; reports it otherwise, and an initialisation that is not
    ordered before this use."""
    if not barrier.is_live(at):
        _report(m, op, Kind.LIFETIME, f"{barrier.name} is used but not initialised", barrier)
        return False
    made = barrier.made
    if made is not None and m.policy.on("race") and not m.clock.comes_after(made, at):
        message = f"{barrier.name} is used by an agent that nothing orders after its init"
        _report(m, op, Kind.RACE, message, barrier)
    return True


def knows(m: Machine, barrier: MBarrier, phase: int | np.ndarray, at: Positions) -> bool:
    """Whether the agent has seen that `phase` is complete."""
    seen = chosen(m.clock.known.get(barrier), at)
    if type(seen) is int and type(phase) is int:
        return seen >= phase
    return bool(np.all(seen >= np.asarray(phase)))


def update(
    m: Machine,
    op: Operation,
    barrier: MBarrier,
    arrivals: int,
    expect: int,
    snapshot: Known,
    at: Positions,
) -> None:
    """`arrivals` at the barrier, which release `snapshot`, after `expect` bytes are announced."""
    m.counts.add("phase")
    phase = chosen(barrier.phase, at)
    if m.policy.on("phase") and not _follows(m, barrier, phase, snapshot, at):
        message = (
            f"an arrival at {barrier.name} can count in an earlier phase than meant: nothing "
            "orders it after the end of the phase before"
        )
        _report(m, op, Kind.PHASE, message, barrier)
    over = barrier.update(arrivals, expect, snapshot, at)
    if over:
        message = f"{over} arrival{'s' if over > 1 else ''} too many in a phase of {barrier.name}"
        _report(m, op, Kind.PHASE, message, barrier)
    if not _complete(barrier, phase, at):
        return
    _check_waits(m, barrier, phase, at)
    if arrivals and barrier.alone(snapshot, at):
        # All updates of the phase happened before this one, so it is known to be complete.
        m.clock.see(barrier, phase, at)
        barrier.closed_by = snapshot


def _complete(barrier: MBarrier, phase: int | np.ndarray, at: Positions) -> bool:
    now = chosen(barrier.phase, at)
    if type(now) is int and type(phase) is int:
        return now > phase
    return bool(np.all(now > phase))


def _follows(
    m: Machine,
    barrier: MBarrier,
    phase: int | np.ndarray,
    snapshot: Known,
    at: Positions,
) -> bool:
    """Whether an update that releases `snapshot` comes after the end of the phase before."""
    if knows(m, barrier, phase - 1, at):
        return True
    return barrier.closed_before(snapshot, at)


def complete_bytes(m: Machine, op: Operation, barrier: MBarrier, size: int, at: Positions) -> None:
    """`size` bytes that an asynchronous operation brings have come."""
    phase = chosen(barrier.phase, at)
    barrier.asynchronous = True
    barrier.update(0, -size, None, at)
    if _complete(barrier, phase, at):
        _check_waits(m, barrier, phase, at)


def _check_waits(m: Machine, barrier: MBarrier, phase: int | np.ndarray, at: Positions) -> None:
    """Now that `phase` is complete: whether each wait for the one before was over by then in every
    schedule. One that is late would find this phase complete too, and wait for the next."""
    if not m.policy.on("phase"):
        return
    late = barrier.overtaken(phase) if at is None and type(phase) is int else barrier.forget_waits()
    if late is not None:
        message = (
            f"a wait for {barrier.name} can miss its phase: nothing orders it before the end of "
            "the next one"
        )
        _report(m, late, Kind.PHASE, message, barrier)


def waited(m: Machine, op: Operation, barrier: MBarrier, at: Positions) -> None:
    """The agent's wait has returned: it sees what the completed phases released."""
    m.counts.add("phase")
    phase = chosen(barrier.phase, at)
    if m.policy.on("phase") and not knows(m, barrier, phase - 2, at):
        message = (
            f"a wait for {barrier.name} can return a phase early: nothing orders it after the end "
            "of the phase before the one it waits for"
        )
        _report(m, op, Kind.PHASE, message, barrier)
    m.clock.learn(barrier.done, at)
    barrier.waited(op, m.clock.now(), at)
