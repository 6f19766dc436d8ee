"""`tt` ops that convert or compute element by element: fp_to_fp, bitcast, clamp, precise and
approximate division, square root, and the upper half of a product."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.attributes import integer as integer_of
from xttir.interp.numerics import casts, floating, integer
from xttir.interp.numerics.floats import round_to, satfinite, widen
from xttir.interp.types import numpy_dtype

Args = tuple[Any, ...]

ROUNDINGS = {m.value: m.keyword for m in tt.RoundingMode}


def fp_to_fp(a: np.ndarray, dtype: np.dtype, rounding: str = "rtne") -> np.ndarray:
    """`a` as `dtype` by Triton's rules: "rtne" to 8-bit types saturates, NaN staying NaN.

    "rtz" does not saturate infinities, and turns no finite value into one. Wider types follow
    IEEE in both modes.
    """
    if rounding == "rtz":
        return round_to(widen(a), dtype, "rz")
    if dtype.itemsize == 1 and dtype != a.dtype:
        return satfinite(widen(a), dtype)
    return casts.float_to_float(a, dtype)


@register_impls
class ConversionFunctions(InterpreterFunctions):
    """Implementations on arrays; bitcasts of pointers are the executor's."""

    @impl(tt.FpToFpOp)
    def run_fp_to_fp(self, interp: Any, op: tt.FpToFpOp, args: Args) -> Args:
        rounding = "rtne" if op.rounding is None else ROUNDINGS[integer_of(op.rounding)]
        return (fp_to_fp(args[0], numpy_dtype(op.result.type), rounding),)

    @impl(tt.BitcastOp)
    def run_bitcast(self, interp: Any, op: tt.BitcastOp, args: Args) -> Args:
        (a,) = args
        dtype = numpy_dtype(op.result.type)
        if dtype.itemsize != a.dtype.itemsize or (dtype == integer.BOOL) != (a.dtype == bool):
            raise Unsupported(f"bitcast of {op.src.type} to {op.result.type}", location_of(op))
        return (a.view(dtype),)

    @impl(tt.ClampFOp)
    def run_clampf(self, interp: Any, op: tt.ClampFOp, args: Args) -> Args:
        propagate = integer_of(op.propagate_nan) == tt.PropagateNan.ALL.value
        x, low, high = args
        return (floating.clamp(x, low, high, propagate),)

    @impl(tt.PreciseSqrtOp)
    def run_precise_sqrt(self, interp: Any, op: tt.PreciseSqrtOp, args: Args) -> Args:
        return (floating.sqrt(args[0]),)

    @impl(tt.PreciseDivFOp)
    def run_precise_divf(self, interp: Any, op: tt.PreciseDivFOp, args: Args) -> Args:
        return (floating.div(*args),)

    @impl(tt.ApproxDivFOp)
    def run_approx_divf(self, interp: Any, op: tt.ApproxDivFOp, args: Args) -> Args:
        return (floating.div(*args),)

    @impl(tt.MulhiUIOp)
    def run_mulhiui(self, interp: Any, op: tt.MulhiUIOp, args: Args) -> Args:
        return (integer.mulhi_unsigned(*args),)
