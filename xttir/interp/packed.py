"""`ttng.packed_arith`: arithmetic on packs of small floats, element by element.

A pack only says how many elements one instruction takes; each result is the exact value of the
operation on its operands, rounded once to nearest even (PTX ISA, mixed precision arithmetic).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.diagnostics import Unsupported
from xttir.dialects import ttng
from xttir.dialects.locations import location_of
from xttir.interp.numerics import exact, floating
from xttir.interp.numerics.floats import from_f64, widen
from xttir.interp.types import numpy_dtype

Args = tuple[Any, ...]


def arithmetic(kind: str, args: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """add, sub, mul, fma, min or max of float arrays as `dtype`, with one rounding.

    min and max take arrays of `dtype`; the others any mixture of f32, f16 and bf16."""
    if kind in ("min", "max"):
        return (floating.min_number if kind == "min" else floating.max_number)(*args)
    first, *rest = (widen(a).astype(np.float64) for a in args)
    if kind in ("mul", "fma"):
        # At most 48 bits: exact in f64.
        first, *rest = first * rest[0], *rest[1:]
    if kind == "sub":
        rest = [-rest[0]]
    for term in rest:
        with np.errstate(invalid="ignore"):
            high, low = exact.two_sum(first, term)
        first = exact.odd(np.ascontiguousarray(high), low)
    return from_f64(first, dtype)


@register_impls
class PackedFunctions(InterpreterFunctions):
    """See the module's docstring."""

    @impl(ttng.PackedArithOp)
    def run_packed(self, interp: Any, op: ttng.PackedArithOp, args: Args) -> Args:
        dtype = numpy_dtype(op.result.type)
        if any(value.dtype.itemsize == 1 for value in (*args, np.empty(0, dtype))):
            # How they saturate is not documented.
            raise Unsupported("packed arithmetic of 8-bit floats", location_of(op))
        kind = ttng.PackedArithOpKind.of(op.op_kind).keyword
        return (arithmetic(kind, args, dtype),)
