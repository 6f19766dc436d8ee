"""The checks of mbarriers: life, arrivals, and whether every schedule has the phases of this run.

A run shows one order of events. That the phases are the same in every other one is known if each
update of a phase happens after the phase before has completed, and each wait for a phase after the
one before it has completed and before the next one can (the rules of `analyses.phases`, applied to
the clocks of the run).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location
from xttir.dialects.locations import locations_of
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier, State
from xttir.interp.order import AgentClock, Positions, Released


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


_NOT_AFTER_INIT = "is used by an agent that nothing orders after its init"


def usable(m: Machine, op: Operation, barrier: MBarrier, at: Positions) -> bool:
    """Whether the barrier is initialised; reports it otherwise, and an initialisation that is not
    ordered before this use."""
    who, clock = barrier.components.who(at), m.clock
    for mine, state in barrier.states:
        if mine & who:
            if not state.live:
                _report(
                    m, op, Kind.LIFETIME, f"{barrier.name} is used but not initialised", barrier
                )
                return False
            if id(state.made) not in clock.sure:
                made = state.made
                if made is not None and m.policy.on("race") and not clock.comes_after(made, at):
                    _report(m, op, Kind.RACE, f"{barrier.name} {_NOT_AFTER_INIT}", barrier)
    return True


def update(
    m: Machine,
    op: Operation,
    barrier: MBarrier,
    arrivals: int,
    expect: int,
    released: Released,
    later: bool = False,
) -> None:
    """`arrivals` at the barrier, which release `released`, after `expect` bytes are announced, for
    the programs of `released`. `later`: an engine makes them, some time after the agent has asked
    for them."""
    m.counts.add("phase")
    over = 0
    for group, known in released:
        for who, state in barrier.changed(group):
            many = _update(m, op, barrier, state, who, arrivals, expect, known, later)
            over = max(over, many)
    if over:
        message = f"{over} arrival{'s' if over > 1 else ''} too many in a phase of {barrier.name}"
        _report(m, op, Kind.PHASE, message, barrier)


def _update(
    m: Machine,
    op: Operation,
    barrier: MBarrier,
    state: State,
    who: int,
    arrivals: int,
    expect: int,
    released: np.ndarray,
    later: bool,
) -> int:
    """The same for programs that are alike; gives how many arrivals were too many."""
    phase, checked = state.phase, m.policy.on("phase")
    if checked and not _follows(m, barrier, state, who, released):
        message = (
            f"an arrival at {barrier.name} can count in an earlier phase than meant: nothing "
            "orders it after the end of the phase before"
        )
        _report(m, op, Kind.PHASE, message, barrier)
    over = state.update(arrivals, expect, released)
    if state.phase > phase:
        if checked:
            _check_waits(m, barrier, state, phase)
        if arrivals and state.alone(released):
            # All updates of the phase happened before this one, which completes it.
            state.closed_by = released
            if not later:
                m.clock.known.see_for(barrier, phase, who)
    return over


def _follows(m: Machine, barrier: MBarrier, state: State, who: int, released: np.ndarray) -> bool:
    """Whether an update that releases `released` comes after the end of the phase before."""
    if m.clock.known.least(barrier, who) >= state.phase - 1:
        return True
    return state.closed_before(released)


def complete_bytes(m: Machine, op: Operation, barrier: MBarrier, size: int, at: Positions) -> None:
    """`size` bytes that an asynchronous operation brings have come."""
    for _, state in barrier.changed(barrier.components.who(at)):
        phase = state.phase
        state.asynchronous = True
        state.update(0, -size, None)
        if state.phase > phase and m.policy.on("phase"):
            _check_waits(m, barrier, state, phase)


def _check_waits(m: Machine, barrier: MBarrier, state: State, phase: int) -> None:
    """Now that `phase` is complete: whether each wait that returned while it was running was over
    by then in every schedule. One that is late, which none of the phase's updates came after, would
    find this phase complete too, and wait for the next. Waits before are done with."""
    left: list[tuple[Operation, Hashable, int, int]] = []
    for wait in state.waits:
        late, component, epoch, seen = wait
        if seen > phase:
            left.append(wait)
        elif seen == phase and not barrier.covers(state, component, epoch):
            message = (
                f"a wait for {barrier.name} can miss its phase: nothing orders it before the end "
                "of the next one"
            )
            _report(m, late, Kind.PHASE, message, barrier)
    state.waits = tuple(left)


def waited(m: Machine, op: Operation, barrier: MBarrier, at: Positions) -> None:
    """The agent's wait has returned: it sees what the completed phases released."""
    m.counts.add("phase")
    clock, checked = m.clock, m.policy.on("phase")
    known = clock.known
    for epoch, who in _by_epoch(clock, barrier.components.who(at)):
        for group, state in barrier.changed(who):
            if checked and known.least(barrier, group) < state.phase - 2:
                message = (
                    f"a wait for {barrier.name} can return a phase early: nothing orders it after "
                    "the end of the phase before the one it waits for"
                )
                _report(m, op, Kind.PHASE, message, barrier)
            known.acquire(state.done, barrier, state.phase - 1, group)
            state.waits = (*state.waits, (op, clock.component, epoch, state.phase))


def _by_epoch(clock: AgentClock, who: int) -> Iterable[tuple[int, int]]:
    """The programs `who` (bits) by the epoch in which the agent is for them. A wait is late for
    each of them by itself."""
    row, groups = clock.components.rows[clock.component], clock.known.within(who)
    if len(groups) == 1:
        return ((groups[0][1].item(row), who),)
    found: dict[int, int] = {}
    for group, known in groups:
        epoch = known.item(row)
        found[epoch] = found.get(epoch, 0) | group
    return found.items()
