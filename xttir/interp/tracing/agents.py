"""An agent: the warps that execute ops together, the default ones or those of a partition.

Handlers of ops see nothing else. An agent knows its threads, keeps the values of its region, emits
events for its threads, and waits until something that other agents do has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xttir.analyses import events as ev
from xttir.diagnostics import Fault, Kind, Policy, Unsupported
from xttir.dialects.locations import location_of, locations_of
from xttir.interp.tracing import barriers_to_come
from xttir.interp.tracing.values import UNKNOWN, VARYING, Unknown

if TYPE_CHECKING:
    from xttir.interp.tracing.tracer import Tracer

WARP = 32


@dataclass(eq=False)
class Agent:
    """`warps`: how many, in each block of the program; the first is warp `first_warp` of the block.
    `barrier`: the hardware barrier that `ttg.barrier` is for them (0: that of all warps of a block
    where there are no partitions; `count` threads)."""

    tracer: Tracer
    name: str
    first_warp: int
    warps: int
    barrier: int
    env: dict[SSAValue, Any] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """Groups committed to each engine ("wgmma", ...)."""
    done: dict[str, int] = field(default_factory=dict)
    """Of these, how many are complete: the first ones."""
    frame: tuple[Operation, ...] = ()
    """The calls it is in."""
    base: int = 0
    """Where shared memory of the function begins that it is in."""
    pending: list[Any] = field(default_factory=list)
    """See `barriers_to_come`."""
    open_loops: dict[Any, Any] = field(default_factory=dict)
    """See `open_loops`."""
    steps: int = 0
    """Ops executed."""
    thread: Any = None
    ready: Callable[[], bool] | None = None
    waits_at: Operation | None = None
    waits_for: Callable[[], str] | None = None

    def __post_init__(self) -> None:
        self.count = self.warps * WARP
        self.lanes = self.threads_of(np.arange(self.count))
        """int32: all its threads, in every block of the program, in the launch's numbering."""

    # Threads --------------------------------------------------------------------------------------

    def threads_of(self, threads: np.ndarray) -> np.ndarray:
        """int32 (blocks * n,): threads of the agent, numbered from its first, in every block."""
        t = self.tracer
        inside = np.asarray(threads, np.int64) + self.first_warp * WARP
        return (t.first_lanes[:, None] + inside[None, :]).reshape(-1).astype(np.int32)

    def leader(self) -> np.ndarray:
        """int32 (blocks,): the agent's first thread in every block."""
        return self.threads_of(np.zeros(1, np.int64))

    @property
    def everyone(self) -> np.ndarray:
        """int32: all threads of the program, of every agent."""
        t = self.tracer
        first = int(t.first_lanes[0])
        return np.arange(first, first + t.threads * t.blocks, dtype=np.int32)

    @property
    def blocks(self) -> int:
        """Blocks of a program."""
        return self.tracer.blocks

    def block_of(self, lanes: np.ndarray) -> np.ndarray:
        """int32: the launch's number of the block that each thread is in."""
        return (lanes // self.tracer.threads).astype(np.int32)

    def only_blocks(self, lanes: np.ndarray, held: np.ndarray) -> np.ndarray:
        """The threads among `lanes` whose block (its rank in the program) `held`[rank] names."""
        return lanes[held[self.block_of(lanes) - self.tracer.first_block]]

    # Values ---------------------------------------------------------------------------------------

    def number(self, op: Operation, value: Any, what: str) -> int:
        """A number that decides what happens: where programs differ in it, those that agree with
        the one at hand go on, and the others are traced on their own. Raises `Unsupported` if it
        depends on data or on an argument that was not given."""
        if value is VARYING:
            raise Unsupported(
                f"{what} that is not the same in all threads of a partition", location_of(op)
            )
        if isinstance(value, Unknown):
            raise Unsupported(
                f"{what} that depends on data or on an argument that is not given",
                location_of(op),
                self.tracer.how_to_know(op),
            )
        return self.tracer.agreed(np.asarray(value).reshape(-1))

    def held(self, op: Operation, predicate: Any) -> bool:
        """A predicate; None is one that holds."""
        return predicate is None or bool(self.number(op, predicate, "a predicate"))

    # Events ---------------------------------------------------------------------------------------

    def ins(self, op: Operation) -> int:
        """The index of `op` among the instructions of the trace."""
        return self.tracer.instruction(op)

    def emit(self, event: ev.Event) -> None:
        if event.lanes.size:
            if not self.tracer.placed:
                barriers_to_come.before(self, event)
            self.tracer.events.append(event)

    def meet(self, op: Operation) -> None:
        """All threads of the agent meet at their hardware barrier."""
        self.meet_at(self.ins(op))

    def meet_at(self, ins: int) -> None:
        """The same, within instruction `ins`. One warp needs no barrier to meet."""
        self.pending.clear()
        lanes = self.lanes
        if self.warps == 1:
            mask = np.full(1, 0xFFFFFFFF, np.uint32)
            self.tracer.events.append(ev.WarpSync(ins, lanes, mask))
            return
        id_, count = np.full(1, self.barrier, np.int32), np.full(1, self.count, np.int32)
        self.tracer.events.append(ev.NamedBarrier(ins, lanes, id_, count))

    def meet_all(self, op: Operation, barrier: int = 1) -> None:
        """All threads of each block meet, workers too (at a place that all of them come to)."""
        id_ = np.full(1, barrier, np.int32)
        count = np.full(1, self.tracer.threads, np.int32)
        self.emit(ev.NamedBarrier(self.ins(op), self.everyone, id_, count))

    def fault(
        self,
        op: Operation,
        kind: Kind,
        message: str,
        hint: str = "",
        policy: Policy = Policy.ANY,
        others: tuple[Any, ...] = (),
    ) -> None:
        """What is wrong in every schedule, whatever the other agents do."""
        self.tracer.faults.append(
            Fault(
                kind,
                message,
                self.tracer.launch.kernel,
                (*locations_of(op), *others),
                policy,
                (f"executed by {self.name}",),
                hint,
            )
        )

    # Waiting --------------------------------------------------------------------------------------

    def wait_until(self, op: Operation, ready: Callable[[], bool], text: Callable[[], str]) -> None:
        """Let other agents run until `ready()`. `text`: what it waits for, for reports."""
        while not ready():
            self.ready, self.waits_at, self.waits_for = ready, op, text
            self.tracer.scheduler.switch()
        self.ready = self.waits_at = self.waits_for = None

    def value(self, ssa: SSAValue) -> Any:
        return self.env.get(ssa, UNKNOWN)
