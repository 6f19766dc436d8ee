"""What `math` ops do. The functions are in `numerics`; docs/semantics.md states the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.interpreter import InterpreterFunctions, impl, register_impls
from xdsl.ir import Operation

from xttir.interp.numerics import exact, integer
from xttir.interp.numerics.elementary import BINARY, UNARY, power_integer

Args = tuple[Any, ...]


def _unary(op_class: type[Operation]) -> Any:
    f = UNARY[op_class.name.removeprefix("math.")]

    def run(self: Any, interp: Any, op: Operation, args: Args) -> Args:
        return (f(args[0]),)

    return impl(op_class)(run)


def _binary(op_class: type[Operation]) -> Any:
    f = BINARY[op_class.name.removeprefix("math.")]

    def run(self: Any, interp: Any, op: Operation, args: Args) -> Args:
        return (f(*args),)

    return impl(op_class)(run)


@register_impls
class MathFunctions(InterpreterFunctions):
    """Implementations of `math` on arrays (see `xttir.interp.types`)."""

    run_absf = _unary(math.AbsFOp)
    run_acos = _unary(math.AcosOp)
    run_acosh = _unary(math.AcoshOp)
    run_asin = _unary(math.AsinOp)
    run_asinh = _unary(math.AsinhOp)
    run_atan = _unary(math.AtanOp)
    run_atanh = _unary(math.AtanhOp)
    run_cbrt = _unary(math.CbrtOp)
    run_ceil = _unary(math.CeilOp)
    run_cos = _unary(math.CosOp)
    run_cosh = _unary(math.CoshOp)
    run_erf = _unary(math.ErfOp)
    run_exp = _unary(math.ExpOp)
    run_exp2 = _unary(math.Exp2Op)
    run_expm1 = _unary(math.ExpM1Op)
    run_floor = _unary(math.FloorOp)
    run_log = _unary(math.LogOp)
    run_log10 = _unary(math.Log10Op)
    run_log1p = _unary(math.Log1pOp)
    run_log2 = _unary(math.Log2Op)
    run_round = _unary(math.RoundOp)
    run_roundeven = _unary(math.RoundEvenOp)
    run_rsqrt = _unary(math.RsqrtOp)
    run_sin = _unary(math.SinOp)
    run_sinh = _unary(math.SinhOp)
    run_sqrt = _unary(math.SqrtOp)
    run_tan = _unary(math.TanOp)
    run_tanh = _unary(math.TanhOp)
    run_trunc = _unary(math.TruncOp)

    run_atan2 = _binary(math.Atan2Op)
    run_copysign = _binary(math.CopySignOp)
    run_powf = _binary(math.PowFOp)

    @impl(math.FmaOp)
    def run_fma(self, interp: Any, op: math.FmaOp, args: Args) -> Args:
        return (exact.fma(*args),)

    @impl(math.FPowIOp)
    def run_fpowi(self, interp: Any, op: math.FPowIOp, args: Args) -> Args:
        return (power_integer(*args),)

    @impl(math.IPowIOp)
    def run_ipowi(self, interp: Any, op: math.IPowIOp, args: Args) -> Args:
        value = integer.power(*args)
        bad = integer.any_lane((args[0] == 0) & (args[1] < 0))
        if bad is None:
            return (value,)
        return (interp.undefined(op, value, bad, "zero to a negative power"),)

    @impl(math.AbsIOp)
    def run_absi(self, interp: Any, op: math.AbsIOp, args: Args) -> Args:
        return (args[0] if args[0].dtype == bool else np.abs(args[0]),)

    @impl(math.CtPopOp)
    def run_ctpop(self, interp: Any, op: math.CtPopOp, args: Args) -> Args:
        return (integer.popcount(args[0]),)

    @impl(math.CountLeadingZerosOp)
    def run_ctlz(self, interp: Any, op: math.CountLeadingZerosOp, args: Args) -> Args:
        return (integer.leading_zeros(args[0]),)

    @impl(math.CountTrailingZerosOp)
    def run_cttz(self, interp: Any, op: math.CountTrailingZerosOp, args: Args) -> Args:
        return (integer.trailing_zeros(args[0]),)
