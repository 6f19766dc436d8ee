"""Where a small asynchronous program stands: positions, counters, what is in flight and known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xttir.analyses.explore_program import Program
from xttir.analyses.explore_types import Do, Step, bits
from xttir.diagnostics import Kind

Bar = tuple[int, int, int, int, int, int, int, int, int]
"""phase, expected, pending, tx, knowledge of the phase (and of far arrivals), of those before."""
State = tuple
Move = tuple[int, int]
"""(agent, step), or (-1, signal): the bytes or the arrival land."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of one schedule. `places`: (lane, index of the event in the trace), the later first;
    `moves` lead to it from the start."""

    kind: Kind
    message: str
    places: tuple[tuple[int, int], ...]
    moves: tuple[Move, ...] = ()


class Position:
    """One state. `freeze` gives it as a hashable value, `thaw` takes it back."""

    __slots__ = (
        "acquired",
        "behind",
        "carried",
        "done",
        "flying",
        "found",
        "known",
        "log",
        "made",
        "note",
        "objs",
        "pcs",
        "program",
        "released",
        "trapped",
    )

    def __init__(self, program: Program, note: Callable[[Move, int, bool], str | None]):
        """`note(move, phase, firm)` hears in which phase an update or wait takes part (or, not
        firm, a test that failed would have); it answers with what is wrong with that."""
        self.program = program
        self.note = note
        agents = len(program.steps)
        self.pcs = [0] * agents
        self.known = [0] * agents
        self.released = [0] * agents
        self.acquired = [0] * agents
        self.behind = [0] * agents
        self.carried = [0] * len(program.signals)
        self.flying = 0
        self.made = 0
        self.objs: list = [_START.get(t.kind) for t in program.things]
        self.found: list[Finding] = []
        self.log: list[Move] = []
        """Moves in the order they were begun; `done`: steps in the order they returned."""
        self.done: list[Move] = []
        self.trapped = False

    def freeze(self) -> State:
        state = (
            tuple(self.pcs),
            tuple(self.known),
            self.flying,
            self.made,
            tuple(self.objs),
            tuple(self.behind),
            tuple(self.carried),
        )
        if self.program.relaxed:
            return (*state, tuple(self.released), tuple(self.acquired))
        return state

    def thaw(self, state: State) -> None:
        self.pcs, self.known = list(state[0]), list(state[1])
        self.flying, self.made, self.objs = state[2], state[3], list(state[4])
        self.behind, self.carried = list(state[5]), list(state[6])
        if self.program.relaxed:
            self.released, self.acquired = list(state[7]), list(state[8])
        self.found, self.log, self.done, self.trapped = [], [], [], False

    # Who can go -----------------------------------------------------------------------------------

    def step_of(self, agent: int) -> Step | None:
        steps, pc = self.program.steps[agent], self.pcs[agent]
        return steps[pc] if pc < len(steps) else None

    def gone(self, agent: int) -> bool:
        """The agent has exited."""
        steps = self.program.steps[agent]
        return self.pcs[agent] == len(steps) and bool(steps) and steps[-1].do is Do.EXIT

    def dead(self, cta: int) -> bool:
        """All threads of the block have exited: its shared memory is no more."""
        mine = [a for a, c in enumerate(self.program.cta_of_agent) if c == cta]
        return bool(mine) and all(self.gone(a) for a in mine)

    def enabled(self, agent: int) -> bool:
        step = self.step_of(agent)
        if step is None:
            return False
        do = step.do
        if do is Do.WAIT:
            return step.flag or all(self._passes(b, p) for b, p, _ in step.items)
        if do is Do.COLLECT:
            return not step.mask & ((1 << self.program.n) - 1) & ~self.made
        if do is Do.MEET:
            return not self.objs[step.items[0][0]][4] >> agent & 1
        if do is Do.CLUSTER_WAIT:
            thing, number = step.items[0]
            return self.objs[thing][0] >= number
        if do is Do.STRONG and step.flag:
            return step.observed < 0 or self._written(step)
        if do is Do.ALLOC:
            thing, base, columns = step.items[0]
            return all(b >= base + columns or base >= b + c for b, c in self.objs[thing])
        return True

    def landable(self) -> list[int]:
        return [s for s in bits(self.flying) if not self.program.signals[s].after & self.flying]

    def _passes(self, barrier: int, parity: int) -> bool:
        bar = self.objs[barrier]
        return bar is None or bar[0] & 1 != parity

    def _written(self, step: Step) -> bool:
        """The write that a spinning read waits for has been made."""
        overlap = 0
        for p in step.parts:
            overlap |= p.granules
        return any(
            p.event == step.observed
            and p.writes
            and p.granules & overlap
            and self.made >> p.index & 1
            for p in self.program.parts
        )

    def find(self, kind: Kind, message: str, *places: tuple[int, int]) -> None:
        self.found.append(Finding(kind, message, places))

    def _name(self, thing: int) -> str:
        t = self.program.things[thing]
        return f"{t.kind} {t.address} of block {t.cta}"


_START = {
    "named": (0, 0, 0, 0, 0, 0),
    "warp": (0, 0, 0, 0, 0, 0),
    "together": (0, 0, 0, 0, 0, 0),
    "cluster": (0, 0, 0, 0),
    "place": 0,
    "tensor": (),
    "unit": (0, 0),
    "alive": 0,
}
"""generation, count, threads, agents come, agents waiting, knowledge; cluster: generation, come,
knowledge of this generation and of those before."""
