"""What the meaning of a PTX instruction sees: its operands, memory, barriers, and where events go.

The executor owns groups, memory and the schedule; this is the whole of what a meaning may touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from xttir.analyses.events import Event, Footprint
from xttir.diagnostics import Fault, Kind, Policy, Unsupported
from xttir.interp.ptx.instruction import Ins, Operand, Value


@dataclass(slots=True)
class Task:
    """An asynchronous operation that was issued. The schedule says when `perform` is called.

    `perform` does the reads, the writes and the signals; when tracing it is called at issue. It
    must be all array code over the units of the event. The tasks in `after` are performed before
    it (pipelines, what a commit covers); they may hold further ones. `result` is what `perform`
    leaves for later tasks of the pipeline.
    """

    event: Event
    perform: Callable[[], None]
    done: bool = False
    after: list[Task] = field(default_factory=list)
    result: Any = None


class Memory(Protocol):
    """Byte-addressed memory of the launch, by arrays of addresses, with bounds and knownness.

    All addresses broadcast together to (rows, pieces); `cta` as in `Footprint`.
    """

    def load(self, footprint: Footprint) -> Value:
        """uint8 (rows, pieces, size), or UNKNOWN if any byte is. Out of bounds is reported once
        a step, and reads as zero."""
        ...

    def store(self, footprint: Footprint, data: Value) -> None:
        """`data` uint8 broadcastable to (rows, pieces, size); UNKNOWN makes the bytes unknown."""
        ...

    def check(self, footprint: Footprint) -> None:
        """What `load` reports (bounds, bytes never written), without the data."""
        ...


class Step(Protocol):
    """One instruction executed by one group of lanes (guarded-off lanes are already gone)."""

    ins: Ins
    arch: int
    lanes: np.ndarray
    """int32 (n,), launch numbering, ascending."""
    cta: np.ndarray
    """int32 (n,): linear block of each lane."""
    tid: np.ndarray
    """int32 (n,): linear thread in the block."""
    tracing: bool
    """Unknown data: values of tensors need not be computed."""
    memory: Memory
    ctas: int
    """Blocks of the launch; `cta` is below."""
    threads_per_cta: int
    ctas_per_cluster: int
    """The rank of a block in its cluster is `cta % ctas_per_cluster`."""
    maybe: bool
    """It may or may not be executed: that depends on unknown data."""
    state: dict[str, Any]
    """Of the launch: what families keep between instructions (tensor memory, groups)."""

    # Operands
    def get(self, operand: Operand, type_: str = "b32") -> Value:
        """Raw bits of a source (an `Imm` by `type_`, a `Symbol` as address in its own space)."""
        ...

    def integers(self, operand: Operand, type_: str = "u32") -> np.ndarray:
        """`get` as int64, sign- or zero-extended by `type_`; unknown stops with `Unsupported`."""
        ...

    def address(self, operand: Operand) -> np.ndarray:
        """int64 (n,) or (1,) of a `Mem`: base + offset. Unknown stops the trace, saying why."""
        ...

    def put(self, operand: Operand, value: Value) -> None:
        """Define a register (`Vec`: last axis is the parts; `Sink`: nothing)."""
        ...

    def put_pending(
        self, operand: Operand, task: Task, policy: Policy = Policy.ANY
    ) -> Callable[[Value], None]:
        """Define registers that an asynchronous operation will write; returns what `perform` calls
        with their values. Using them before `finish` was called for the task is a fault of that
        policy (a `race`)."""
        ...

    def pending(self, operand: Operand) -> list[Task]:
        """The unfinished operations that write registers of `operand`, in order of issue. Unlike
        `get` this is no use of them."""
        ...

    def hold(self, operand: Operand, task: Task) -> None:
        """The operation reads these registers later: until `finish`, writing them is a fault."""
        ...

    def finish(self, tasks: Iterable[Task]) -> None:
        """These lanes have waited for the completion of `tasks`: perform what is not done yet; the
        registers that they write or hold are ordinary ones from here on, for these lanes."""
        ...

    def fence_registers(self) -> None:
        """wgmma.fence: what these lanes have written so far may be used by wgmma."""
        ...

    def unfenced(self, operand: Operand) -> bool:
        """Whether a register of `operand` was written by anything but a pending operation since
        the last `fence_registers` of these lanes (or there was none)."""
        ...

    def shared(self, address: np.ndarray, window: str = "shared::cta") -> tuple[Any, Any]:
        """(offset int64, block int32) of shared addresses; `shared::cluster` ones name a block."""
        ...

    def fingerprints(self, operand: Operand, together: bool = False) -> np.ndarray | None:
        """uint64 (n, parts), equal where lanes have equal values; `together`: (n, 1), where warps
        have, and lanes the same place in them. None: nobody keeps them, or in doubt."""
        ...

    def name_contents(self, operand: Operand, footprint: Footprint) -> None:
        """The registers of a lane depend on the piece that each lane of its warp has in the
        footprint (n, 1), and on its place in the warp."""
        ...

    # Effects
    def emit(self, event: Event) -> int:
        """Append to the trace; returns its index."""
        ...

    def submit(self, task: Task) -> None:
        """Emit `task.event` and hand the operation to the schedule."""
        ...

    def complete_tx(self, address: np.ndarray, cta: np.ndarray, bytes_: np.ndarray) -> None:
        """For `perform`: count bytes on mbarriers (broadcast together; negative addresses: none).
        No event: the `ByBytes` of the operation says it."""
        ...

    def arrive(self, address: np.ndarray, cta: np.ndarray) -> None:
        """For `perform`: the arrivals (one each) of an `Arrive` that is not by "thread"."""
        ...

    def add_pending(self, address: np.ndarray, cta: np.ndarray) -> None:
        """cp.async.mbarrier.arrive without .noinc: one more arrival is pending. No event."""
        ...

    def read_map(self, address: np.ndarray) -> tuple[Value, bool]:
        """The tensor maps at generic addresses (rows,): uint8 (rows, 128), and whether they lie in
        global memory (else in parameters or constants, which nobody writes)."""
        ...

    def assume(self, text: str) -> None:
        """Add to `Trace.assumptions` (once)."""
        ...

    def block(self, ready: np.ndarray, what: str) -> bool:
        """For instructions that may wait, before any effect. True when all lanes of `ready` (bool,
        n or 1) may go on; else the group is split, the meaning returns at once and is called
        again."""
        ...

    def fault(
        self,
        kind: Kind,
        message: str,
        lanes: np.ndarray | None = None,
        policy: Policy = Policy.ANY,
        **more: Any,
    ) -> Fault:
        """Report a fault of this instruction (of the lanes given, all by default)."""
        ...

    def unsupported(self, what: str, hint: str = "") -> Unsupported:
        """An exception to raise, located at this instruction."""
        ...
