"""`tt.dot`: operands made as large as their types say, then `numerics.products`."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls
from xdsl.ir import SSAValue

from xttir.dialects import tt
from xttir.interp.attributes import integer
from xttir.interp.numerics import products
from xttir.interp.types import shape_of

PRECISIONS = {p.value: p.keyword for p in tt.InputPrecision}


def full(a: np.ndarray, value: SSAValue) -> np.ndarray:
    """`a` with the extents of the type of `value`; the batch axis stays as it is."""
    shape = shape_of(value.type)
    if a.shape[1:] == shape:
        return a
    return np.broadcast_to(a, (a.shape[0], *shape))


@register_impls
class DotFunctions(InterpreterFunctions):
    """Implementation of `tt.dot`. `maxNumImpreciseAcc` asks for more accuracy, so does nothing."""

    @impl(tt.DotOp)
    def run_dot(self, interp: Any, op: tt.DotOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b, c = args
        precision = PRECISIONS[integer(op.input_precision)]
        return (products.dot(full(a, op.a), full(b, op.b), c, precision),)
