"""What the ops do to values, and which accesses they make: what is checked follows from those."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from tilekit.dialect import BumpOp, ReverseOp, SquareSumOp
from xttir.interp import memory_ops, shared
from xttir.interp.affine import dense
from xttir.interp.machine import Machine
from xttir.interp.types import numpy_dtype


def square_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In float32, rounded once."""
    wide = a.astype(np.float32)
    return (wide * wide + b.astype(np.float32)).astype(a.dtype)


@register_impls
class TilekitFunctions(InterpreterFunctions):
    """See `xttir.interp.machine` for what an implementation gets and may use."""

    @impl(SquareSumOp)
    def square_sum(self, interp: Machine, op: SquareSumOp, args: Any) -> tuple[Any, ...]:
        return (square_sum(*args),)

    @impl(BumpOp)
    def bump(self, interp: Machine, op: BumpOp, args: Any) -> tuple[Any, ...]:
        pointer, amount = args
        dtype = numpy_dtype(op.amount.type)
        old = memory_ops.load(interp, op, pointer, None, None, dtype, ())
        memory_ops.store(interp, op, pointer, None, old + dense(amount), dtype, ())
        return ()

    @impl(ReverseOp)
    def reverse(self, interp: Machine, op: ReverseOp, args: Any) -> tuple[Any, ...]:
        row = shared.load(interp, op, args[0])
        shared.store(interp, op, args[0], row[..., ::-1])
        return ()
