"""The state op implementations see: an xDSL `Interpreter` that runs a batch of program instances.

Implementations follow xDSL's conventions: `@register_impls class XFunctions(InterpreterFunctions)`
with `@impl(Op)` methods `(self, interp, op, args) -> results`, where `interp` is a `Machine` and
values are as `xttir.interp.types` says. They never loop over programs, lanes or elements.

What an implementation may use:

* `interp.pids`: int64[b] linear ids of the active programs; `interp.program_id(axis)`: int32[b].
* `interp.grid`: the launch's grid; `interp.memory`, `interp.policy`, `interp.counts`.
* `interp.undefined(op, value, lanes, why)`: to say that `value` is undefined in the lanes where
  `lanes` (bool, broadcastable to value) is true. Returns the value to use as the result. A fault is
  reported only where such a lane becomes observable (reaches a store, an address, a branch).
* `interp.fault(op, kind, message, ...)`: to report at once.
* `raise Unsupported(what, location_of(op))`: for what has no meaning here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.interp.order import AgentClock
from xttir.interp.positions import positions_in
from xttir.policy import CheckCounts, RunPolicy

if TYPE_CHECKING:
    from xttir.interp.launch import Observer
    from xttir.interp.mbarriers import MBarriers
    from xttir.interp.memory import Memory
    from xttir.interp.report import FaultLog
    from xttir.interp.sanitizer import Sanitizer


class StepLimit(Exception):
    """A loop went round more often than the policy allows."""

    def __init__(self, op: Operation, machine: Machine):
        super().__init__(f"more than {machine.policy.max_steps} loop iterations")
        self.op = op
        self.machine = machine


class Repeats(StepLimit):
    """A loop is where it was before, and nothing can make it go elsewhere (`recurrence`)."""

    def __init__(self, op: Operation, machine: Machine, iteration: int):
        super().__init__(op, machine)
        self.iteration = iteration


class Wait(NamedTuple):
    """What an agent waits for: `ready()` says whether it can go on, `text()` what is missing.

    `within`: the waits it stands for, of agents that this one started."""

    op: Operation
    machine: Machine
    ready: Callable[[], bool]
    text: Callable[[], str]
    within: tuple[Any, ...] = ()


class Stuck(StepLimit):
    """Every agent of a program waits, and nothing can end any of the `waits`."""

    def __init__(self, machine: Machine, waits: list[Wait]):
        super().__init__(waits[0].op, machine)
        self.waits = waits


class Machine(Interpreter):
    """A batch of program instances of one launch. See the module's docstring."""

    grid: tuple[int, int, int]
    pids: np.ndarray
    batch: np.ndarray
    """int64: the programs that started together, those that are not active included."""
    memory: Memory
    policy: RunPolicy
    counts: CheckCounts
    log: FaultLog
    sanitizer: Sanitizer
    tainted: bool
    """Whether a value of the batch may be `taint.Tainted`."""
    _clock: AgentClock | None
    _barriers: MBarriers | None
    agents: Any
    """The `agents.Agents` that run this machine among others; None for the program itself."""
    watching: bool
    """Whether stores must notice that they change nothing (programs may spin)."""

    def __init__(
        self,
        module: ModuleOp,
        grid: tuple[int, int, int],
        policy: RunPolicy,
        memory: Memory,
        log: FaultLog,
    ):
        super().__init__(module)
        self.grid = grid
        self.policy = policy
        self.memory = memory
        self.log = log
        self.counts = log.counts
        self.begin(np.zeros(1, np.int64))
        self.tainted = False
        self.watching = False
        self.scheduler: Any = None
        self.checked: set[int] = set()
        self.observer: Observer | None = None
        self._prints: list[tuple[int, str]] = []

    def begin(self, pids: np.ndarray) -> None:
        """Programs `pids` (int64[b]) start as one batch."""
        self.pids = self.batch = pids
        self._clock = None
        self._barriers = None
        self.agents = None
        self.tensor_maps: list[Any] = []
        """`tensor_maps.TensorMap`s that the programs have written into memory."""
        self.landing: dict[int, Any] = {}
        """`landing.Landing` by the id of its storage: stores that may not have reached it."""

    def positions(self) -> np.ndarray | None:
        """Positions of the active programs in the batch, None for all of it."""
        if self.pids.size == self.batch.size:
            return None
        return positions_in(self.batch, self.pids)

    @property
    def clock(self) -> AgentClock:
        """What the agent that this machine runs has seen of others and of its async engines."""
        if self._clock is None:
            self._clock = AgentClock("agent", self.batch.size)
        return self._clock

    @clock.setter
    def clock(self, clock: AgentClock) -> None:
        self._clock = clock

    @property
    def barriers(self) -> MBarriers:
        """The mbarriers of the batch."""
        if self._barriers is None:
            from xttir.interp.mbarriers import MBarriers

            self._barriers = MBarriers(self.clock.components)
        return self._barriers

    def program_id(self, axis: int) -> np.ndarray:
        """int32[b]: the program id along `axis` (0 x, 1 y, 2 z) of every active program."""
        gx, gy, _ = self.grid
        if axis == 0:
            return (self.pids % gx).astype(np.int32)
        if axis == 1:
            return (self.pids // gx % gy).astype(np.int32)
        return (self.pids // (gx * gy)).astype(np.int32)

    def count_trips(self, op: Operation, trips: int) -> None:
        """Called before a counted loop runs `trips` iterations. Ends the launch at the limit."""
        self.counts.trips += trips
        if self.policy.max_trips and self.counts.trips > self.policy.max_trips:
            raise StepLimit(op, self)

    def step(self, op: Operation, values: list[Any], iteration: int) -> None:
        """Called at the end of every iteration of a loop that may not end by itself, with the
        values carried into the next one and the number of iterations of this execution of the
        loop. Gives other programs their turn, and ends the loop at the limit."""
        if iteration > self.policy.max_steps:
            raise StepLimit(op, self)
        if self.scheduler is not None:
            self.scheduler.step(self, op, values)

    def wait(self, op: Operation, patient: bool) -> bool:
        """A poll at `op` found nothing yet: let other programs run. False if it shall time out,
        which only one that is not patient ever does."""
        if self.scheduler is None:
            return False
        return self.scheduler.wait(self, op, patient)

    def show(self, pid: int, prefix: str, values: np.ndarray | None, in_hex: bool) -> None:
        """Print values of one program (its block, no program axis) as the device would."""
        name = "pid " + str(tuple(self.log.program(pid)))
        if values is None:
            self._prints.append((pid, f"{name}{prefix}"))
            return
        for index in np.ndindex(values.shape):
            value: Any = values[index]
            at = f" idx ({', '.join(map(str, index))})" if index else " idx ()"
            self._prints.append((pid, f"{name}{at}{prefix}{_shown(value, in_hex)}"))

    def flush(self) -> None:
        """Write what the batch printed, program by program."""
        if self._prints:
            self._prints.sort(key=lambda entry: entry[0])
            print("\n".join(text for _, text in self._prints), flush=True)
            self._prints.clear()

    def undefined(self, op: Operation, value: np.ndarray, lanes: np.ndarray, why: str) -> Any:
        """Mark `value` undefined where `lanes` holds. `why` reads like "division by zero"."""
        from xttir.interp.taint import taint

        if not self.policy.on("undefined"):
            return value
        self.counts.add("undefined")
        if not lanes.any():
            return value
        return taint(self, op, value, lanes, Kind.UNDEFINED, why)

    def fault(self, op: Operation, kind: Kind, message: str, **details: Any) -> None:
        """Report a fault at `op` at once. `details` as in `FaultLog.report`."""
        self.log.report(op, kind, message, **details)


def _shown(value: Any, in_hex: bool) -> str:
    if in_hex:
        bits = int.from_bytes(value.tobytes(), "little")
        return f"0x{bits:0{2 * value.dtype.itemsize}x}"
    if value.dtype == np.bool_ or value.dtype.kind in "iu":
        return str(int(value))
    return f"{float(value):f}"
