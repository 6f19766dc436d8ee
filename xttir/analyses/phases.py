"""Certification that every schedule gives an mbarrier's updates and waits the same phases.

Four questions, asked of the candidate graph while it is built: does every update come after the
phase before (else it may be charged to that one); can a phase complete before all of its updates
(else the rest goes to the next); does a wait run while its phase is the current one or the one
before (else parity names another); is the object alive. Digest sections 10.4 and 11; a copy's bytes
count in pieces of any multiple of 16, as an H200 showed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import gcd, prod

import numpy as np

from xttir.analyses.replay import LIMIT, Barrier, Touch, Trouble

STATES = 100_000
"""Sets of announcements looked at for one phase before the answer is `unknown`."""

PIECE = 16
"""Bytes of a copy are counted in multiples of this."""


@dataclass(slots=True, eq=False)
class Update:
    """An update of a phase in the making: who issued it when, and what came before that."""

    touch: Touch
    reps: np.ndarray
    epochs: np.ndarray
    lanes: int
    """How many lanes (units) made it."""
    alone: bool
    """One lane made it."""
    clock: np.ndarray
    """What happens before the issue, in time."""
    pieces: bool = False
    """Bytes of a copy, which land bit by bit; else all at once."""
    late: bool = False
    """A tcgen05.commit."""
    over: tuple[np.ndarray, np.ndarray] | None = None
    """(chains, values): who knows these knows that the update has been made. None: only the
    completion of the phase shows it (bytes of a copy)."""


@dataclass(slots=True)
class PhaseFault:
    """`what` is a word, `verify` makes the text: "early update", "early completion", "early wait",
    "late wait", "no wait", "no init", "limit", or one of `Trouble`. `clock`: before the event, in
    time."""

    what: str
    barrier: Barrier
    phase: int
    touch: Touch | None
    others: tuple[Touch, ...] = ()
    numbers: tuple[int, ...] = ()
    clock: np.ndarray | None = None
    rep: int = -1


@dataclass(slots=True)
class Open:
    """Bookkeeping of a barrier's current phase."""

    updates: list[Update] = field(default_factory=list)
    arrived: np.ndarray | None = None
    """Joined clocks of the arrivals, in time, themselves included."""


class Certifier:
    """Collects what fails. Clocks are rows of the `happens` level; `mark` values of barriers."""

    def __init__(self, reps: int):
        self.reps = reps
        self.faults: list[PhaseFault] = []
        self.troubles: list[Trouble] = []
        self.unknown: list[str] = []
        self.open: dict[Barrier, Open] = {}
        self.waits: dict[tuple[Barrier, int], list[tuple[Touch, np.ndarray, np.ndarray]]] = {}
        """By barrier and phase named: the waits, their reps and epochs."""
        self.certified = 0
        self.shown: dict[tuple[Barrier, int], tuple[np.ndarray, np.ndarray]] = {}
        """By barrier and phase, of the two completed last: (chains, values) that show that all its
        updates have been made."""
        self.born: dict[Barrier, tuple[int, int]] = {}
        """By barrier: rep and epoch of its init."""

    def fault(self, what: str, touch: Touch, **more: object) -> None:
        self.faults.append(
            PhaseFault(what, touch.barrier, touch.phase, touch, **more)  # type: ignore[arg-type]
        )

    def short(self, touch: Touch, rows: np.ndarray, chain: int) -> np.ndarray:
        """bool by rep: it need not know that the phase before is complete. `rows`: clocks in time,
        `chain` of the barrier."""
        barrier = touch.barrier
        short = rows[:, chain] < barrier.mark(touch.phase - 1)
        if short.any():
            shown = self.shown.get((barrier, touch.phase - 1))
            if shown is not None:
                chains, values = shown
                short &= (rows[:, chains] < values).any(axis=1)
        return short

    def update(self, update: Update, rows: np.ndarray, chain: int) -> None:
        """An update of the current phase; `rows`: clocks of its reps, in time."""
        touch = update.touch
        barrier = touch.barrier
        if touch.phase > 0:
            short = self.short(touch, rows, chain)
            if short.any() and not self.follows(update):
                rep = int(update.reps[int(np.argmax(short))])
                before = barrier.phases[touch.phase - 1].touches
                others = tuple(before[-3:])
                self.fault("early update", touch, others=others, clock=update.clock, rep=rep)
            elif touch.arrivals:
                self.unwaited(update, rows)
        state = self.open.setdefault(barrier, Open())
        state.updates.append(update)
        if touch.arrivals and not touch.raised:
            mine = update.clock.copy()
            mine[update.reps] = np.maximum(mine[update.reps], update.epochs)
            joined = state.arrived
            state.arrived = mine if joined is None else np.maximum(joined, mine)

    def unwaited(self, update: Update, rows: np.ndarray) -> None:
        """PTX ISA 9.1, 9.7.13.15.4: in every phase a wait must return True before anybody arrives
        for the next one. Only the letter asks for it: the object counts without."""
        touch = update.touch
        before = touch.phase - 1
        seen = np.zeros(len(rows), bool)
        for _, reps, epochs in self.waits.get((touch.barrier, before), ()):
            seen |= (rows[:, reps] >= epochs).any(axis=1)
        if not seen.all():
            rep = int(update.reps[int(np.argmin(seen))])
            others = tuple(w for w, _, _ in self.waits.get((touch.barrier, before), ()))[:1]
            self.fault("no wait", touch, others=others, rep=rep)

    def follows(self, update: Update) -> bool:
        """Whether it is a tcgen05.commit of the thread whose commits made up the phase before:
        they arrive in order."""
        shown = self.shown.get((update.touch.barrier, update.touch.phase - 1))
        if update.over is None or shown is None:
            return False
        chains, values = update.over
        if not update.late or len(chains) != 1:
            return False
        return bool((shown[0] == chains[0]).all() and (shown[1] < values[0]).all())

    def wait(
        self,
        touch: Touch,
        reps: np.ndarray,
        epochs: np.ndarray,
        rows: np.ndarray,
        chain: int,
    ) -> None:
        """A wait or a peek. `rows`: clocks of its reps, in time."""
        if touch.phase > 0:
            short = self.short(touch, rows, chain)
            if short.any():
                rep = int(reps[int(np.argmax(short))])
                before = touch.barrier.phases[touch.phase - 1].touches
                clock = rows.max(axis=0)
                self.fault("early wait", touch, others=tuple(before[-3:]), clock=clock, rep=rep)
        if not touch.peek:
            self.waits.setdefault((touch.barrier, touch.phase), []).append((touch, reps, epochs))

    def complete(self, touch: Touch, clock: np.ndarray) -> None:
        """The phase is complete in this schedule; `clock`: joined over it, in time."""
        barrier, phase = touch.barrier, touch.phase
        state = self.open.pop(barrier, None) or Open()
        self.certified += 1
        for wait, reps, epochs in self.waits.pop((barrier, phase - 1), ()):
            late = clock[reps] < epochs
            if late.any():
                rep = int(reps[int(np.argmax(late))])
                others = tuple(u.touch for u in state.updates[-3:])
                self.fault("late wait", wait, others=others, clock=clock, rep=rep)
        self.early(barrier, phase, state)
        shown = [u.over for u in state.updates if u.over is not None]
        self.shown.pop((barrier, phase - 2), None)
        if shown and len(shown) == len(state.updates):
            chains = np.concatenate([c for c, _ in shown])
            self.shown[barrier, phase] = (chains, np.concatenate([v for _, v in shown]))

    def finish(self) -> None:
        """Phases that never complete: what is left must not be able to complete either."""
        for barrier, state in self.open.items():
            if barrier.pending == 0 and barrier.bytes != 0 and state.updates:
                self.early(barrier, barrier.phase, state, whole=False)

    # Early completion -------------------------------------------------------------------------

    def early(self, barrier: Barrier, phase: int, state: Open, whole: bool = True) -> None:
        """Whether all arrivals can be in, and no byte be pending, before all updates are in.

        `whole` False: with all updates in, the phase is not complete either.
        """
        if state.arrived is None:
            return
        announced = sum(u.touch.expect for u in state.updates)
        if announced > LIMIT:
            touch = max(state.updates, key=lambda u: u.touch.expect).touch
            self.fault("limit", touch, numbers=(announced,))
        free = [u for u in state.updates if self.free(u, state.arrived)]
        raised = [u for u in free if u.touch.raised]
        if raised:
            others = _arrivals(state)
            self.fault("early completion", raised[0].touch, others=others, clock=raised[0].clock)
            return
        if not free and whole:
            return
        lines = self.prefixes(free)
        if prod(len(line) + 1 for line in lines) > STATES:
            place = f"phase {phase} of the barrier at {barrier.address}"
            self.unknown.append(f"too many orders of the announcements for {place}")
            return
        for counts in product(*(range(len(line) + 1) for line in lines)):
            missing = [u for n, line in zip(counts, lines, strict=True) for u in line[n:]]
            if not missing and whole:
                continue
            short = sum(u.touch.expect for u in missing)
            copies = [u for u in state.updates if u.touch.landed and not _after(u, missing)]
            if self.reachable(announced - short, copies):
                first = (missing or copies or state.updates)[0]
                numbers = (announced - short, sum(u.touch.landed for u in copies))
                others = _arrivals(state) + tuple(u.touch for u in copies[:2])
                self.fault(
                    "early completion",
                    first.touch,
                    others=others,
                    numbers=numbers,
                    clock=first.clock,
                    rep=int(first.reps[0]),
                )
                return

    def free(self, update: Update, arrived: np.ndarray) -> bool:
        """An announcement (or raised count) that no arrival of the phase comes after."""
        touch = update.touch
        if not touch.raised and (touch.arrivals or not touch.expect):
            return False
        return bool((arrived[update.reps] < update.epochs).any())

    def prefixes(self, free: list[Update]) -> list[list[Update]]:
        """Free announcements in lines of program order; each line is made from its front."""
        lines: dict[int, list[Update]] = {}
        for update in free:
            lines.setdefault(int(update.reps[0]) if update.alone else -id(update), []).append(
                update
            )
        return list(lines.values())

    def reachable(self, wanted: int, copies: list[Update]) -> bool:
        """Whether exactly `wanted` bytes can have landed."""
        if wanted == 0:
            return True
        total = sum(u.touch.landed for u in copies)
        if total < wanted:
            return False
        lumps = [u.touch.landed for u in copies if not u.pieces or u.touch.landed % PIECE]
        if not lumps:
            return wanted % PIECE == 0
        # Lumps land whole: an over-approximation by their common divisor errs towards a fault.
        return wanted % gcd(*lumps, *([PIECE] if len(lumps) < len(copies) else [])) == 0


def _arrivals(state: Open) -> tuple[Touch, ...]:
    return tuple(u.touch for u in state.updates if u.touch.arrivals and not u.touch.raised)[-3:]


def _after(copy: Update, missing: list[Update]) -> bool:
    """Whether a copy cannot have been issued while some announcement is missing."""
    return any((copy.clock[u.reps] >= u.epochs).any() for u in missing)
