"""`ub`: values that nothing may depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from xttir.dialects import tt, ttg
from xttir.dialects.ub import PoisonOp
from xttir.interp.machine import Machine
from xttir.interp.memdesc import TOKEN
from xttir.interp.memory import Pointer
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.types import element_type, numpy_dtype, shape_of


def undefined(m: Machine, op: Operation, ty: Attribute) -> Any:
    """A value of type `ty`, undefined in all lanes."""
    if isinstance(ty, ttg.AsyncTokenType):
        return TOKEN
    shape = (1,) * (len(shape_of(ty)) + 1)
    value: Any
    if isinstance(element_type(ty), tt.PointerType):
        value = Pointer(None, np.zeros(shape, np.int64))
    else:
        value = np.zeros(shape, numpy_dtype(ty))
    return m.undefined(op, value, np.ones(shape, bool), "a value that no path defines")


def build_poison(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """ub.poison."""
    ty = op.results[0].type
    if isinstance(ty, ttg.MemDescType):
        # Memory that nobody writes: whoever reads it is told so.
        from xttir.interp.ttg_memory import allocator

        make = allocator(c, op.results[0])

        def give(m: Machine, frame: Frame) -> None:
            frame[outs[0]] = make(m)

        return give

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = undefined(m, op, ty)

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control[PoisonOp] = build_poison
