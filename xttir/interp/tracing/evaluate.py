"""Scalars of a traced module: ops without effects are computed by the interpreter's functions.

A function is called when all operands are numbers; its result is a number for every program of the
launch (one array). Where an operand is unknown the result is, except where the other operands
decide alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp
from xdsl.ir import BlockArgument, Operation

from xttir.diagnostics import XttirError
from xttir.dialects import arith, tt
from xttir.interp.affine import Box, Index, dense
from xttir.interp.effects import accessed_arguments, effects_of
from xttir.interp.launch import TensorArg
from xttir.interp.machine import Machine
from xttir.interp.memory import Memory, Pointer, Region
from xttir.interp.plan import Compiler
from xttir.interp.registry import implementations
from xttir.interp.report import FaultLog
from xttir.interp.sanitizer import Sanitizer
from xttir.interp.taint import Tainted
from xttir.interp.tracing.launch import Launch
from xttir.interp.tracing.values import UNKNOWN, VARYING, Unknown
from xttir.interp.types import numpy_dtype
from xttir.policy import RunPolicy

PURE = ("arith", "math", "tt", "ub")
"""Dialects whose ops have no events unless the table of handlers says so."""

WITHOUT_EVENTS = (*PURE, "llvm", "builtin")
"""The same, with those whose results are not computed."""


ROUNDED = "numbers that are made of floating-point ones are rounded as on this machine"
ELSEWHERE = "what the kernel stores where data says does not change integers of the launch"


class Evaluator:
    """Computes scalars for all programs of a launch."""

    def __init__(self, module: ModuleOp, launch: Launch):
        policy = RunPolicy().with_checks("bounds")
        log = FaultLog(launch.kernel, launch.grid)
        self.machine = Machine(module, launch.grid, policy, Memory(), log)
        self.machine.begin(np.arange(max(launch.programs, 1)))
        self.machine.sanitizer = Sanitizer(max(launch.programs, 1), [], set(), None)
        self.launch = launch
        self.table = implementations()
        self.compiler = Compiler(module, self.table)
        self._calls: dict[Operation, Any] = {}
        self._written: list[int] = []
        self.assumptions: list[str] = []
        if launch.tensors:
            kernel = tt.function_named(module, launch.kernel)
            assert kernel is not None
            self._written = accessed_arguments(module, launch.kernel)[1]
            if effects_of(module, kernel).written is None:
                self.assumptions.append(ELSEWHERE)

    def argument(self, number: int, argument: BlockArgument) -> Any:
        """The value of a parameter of the kernel."""
        tensor = self.launch.tensors.get(number)
        if tensor is not None:
            return UNKNOWN if self._is_written(tensor) else self._pointer(tensor)
        given = self.launch.arguments.get(number)
        if given is None:
            return UNKNOWN
        try:
            dtype = numpy_dtype(argument.type)
        except XttirError:
            return UNKNOWN
        return np.array([given]).astype(dtype)

    def _is_written(self, tensor: TensorArg) -> bool:
        """Whether the kernel may write to the storage of `tensor`. A tensor that is not among
        those of the launch may share it: what the launch gives is taken to be all there is."""
        others = (self.launch.tensors.get(n) for n in self._written)
        return any(t is not None and t.storage is tensor.storage for t in others)

    def _pointer(self, tensor: TensorArg) -> Pointer:
        region = Region(tensor)
        self.machine.memory.regions.append(region)
        return Pointer(region, Index(np.zeros(1, np.int64), (), (), np.dtype(np.int64)))

    def constant(self, value: int, like: Any) -> np.ndarray:
        """A number of an integer or index type."""
        return np.array([value]).astype(numpy_dtype(like))

    def results(self, op: Operation, args: list[Any]) -> list[Any]:
        """The values of the results of an op without events."""
        if not all(_is_number(r.type) for r in op.results):
            return [UNKNOWN] * len(op.results)
        if not all(type(a) in (np.ndarray, Pointer) for a in args):
            return self._partly(op, args)
        call = self._calls.get(op)
        if call is None:
            call = self._calls[op] = self._call(op)
        if call is UNKNOWN:
            return [UNKNOWN] * len(op.results)
        found = self._loaded(op, call, args) if isinstance(op, tt.LoadOp) else call(args)
        if isinstance(op, arith.FPToSIOp | arith.FPToUIOp) and ROUNDED not in self.assumptions:
            self.assumptions.append(ROUNDED)
        return [_plain(v) for v in found]

    def _loaded(self, op: Operation, call: Any, args: list[Any]) -> list[Any]:
        """What a load gives; unknown if it leaves the tensor for some program of the launch."""
        log = self.machine.log = FaultLog(self.launch.kernel, self.launch.grid)
        found = call(args)
        return [UNKNOWN] if log.faults() else found

    def _call(self, op: Operation) -> Any:
        if op.name in _EFFECTS:
            return UNKNOWN
        lower = self.table.lowered.get(type(op))
        if lower is not None:
            call = lower(op)
            return lambda args: call(self.machine, args)
        found = self.table.find(op)
        if found is None or op.name.partition(".")[0] not in PURE:
            return UNKNOWN
        functions, impl = found
        return lambda args: impl(functions, self.machine, op, tuple(args)).values

    def _partly(self, op: Operation, args: list[Any]) -> list[Any]:
        """Some operand is unknown."""
        if isinstance(op, arith.SelectOp) and not isinstance(args[0], Unknown):
            chosen = args[1:] if np.all(args[0]) else args[2:] if not np.any(args[0]) else ()
            return [chosen[0] if chosen else UNKNOWN]
        if isinstance(op, arith.AndIOp | arith.MuliOp):
            for a in args:
                if type(a) is np.ndarray and not a.any():
                    return [np.zeros_like(a)]
        if isinstance(op, arith.OrIOp):
            for a in args:
                if type(a) is np.ndarray and a.dtype == np.bool_ and a.all():
                    return [a]
        return [VARYING if any(a is VARYING for a in args) else UNKNOWN] * len(op.results)


_EFFECTS = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert")


def _plain(value: Any) -> Any:
    if type(value) is Tainted:
        return UNKNOWN
    return dense(value) if isinstance(value, Index | Box) else value


def _is_number(ty: Any) -> bool:
    """Whether a value of this type is a scalar that the tracer computes."""
    return isinstance(ty, IntegerType | IndexType | AnyFloat | tt.PointerType)
