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

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.policy import CheckCounts, RunPolicy

if TYPE_CHECKING:
    from xttir.interp.memory import Memory
    from xttir.interp.report import FaultLog


class Machine(Interpreter):
    """A batch of program instances of one launch. See the module's docstring."""

    grid: tuple[int, int, int]
    pids: np.ndarray
    memory: Memory
    policy: RunPolicy
    counts: CheckCounts
    log: FaultLog

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
        self.pids = np.zeros(1, np.int64)
        self.tainted = False

    def program_id(self, axis: int) -> np.ndarray:
        """int32[b]: the program id along `axis` (0 x, 1 y, 2 z) of every active program."""
        gx, gy, _ = self.grid
        if axis == 0:
            return (self.pids % gx).astype(np.int32)
        if axis == 1:
            return (self.pids // gx % gy).astype(np.int32)
        return (self.pids // (gx * gy)).astype(np.int32)

    def undefined(
        self, op: Operation, value: np.ndarray, lanes: np.ndarray, why: str
    ) -> Any:
        """Mark `value` undefined where `lanes` holds. `why` reads like "division by zero"."""
        from xttir.interp.taint import taint

        if not self.policy.on("undefined") or not lanes.any():
            return value
        return taint(self, op, value, lanes, Kind.UNDEFINED, why)

    def fault(self, op: Operation, kind: Kind, message: str, **details: Any) -> None:
        """Report a fault at `op` at once. `details` as in `FaultLog.report`."""
        self.log.report(op, kind, message, **details)
