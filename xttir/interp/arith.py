"""What `arith` ops do. The functions are in `numerics`; docs/semantics.md states the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import arith
from xttir.dialects.constants import constant_value
from xttir.dialects.locations import location_of
from xttir.interp import attributes
from xttir.interp.numerics import casts, choose, floating, integer
from xttir.interp.numerics.floats import round_to, widen
from xttir.interp.types import numpy_dtype, shape_of

if TYPE_CHECKING:
    from xttir.interp.machine import Machine

Args = tuple[Any, ...]

INTEGER_PREDICATES = tuple(p.keyword for p in arith.CmpIPredicate)
FLOAT_PREDICATES = tuple(p.keyword for p in arith.CmpFPredicate)

ROUNDING = {0: "rn", 1: "rm", 2: "rp", 3: "rz", 4: "rna"}
"""`arith.RoundingMode` values as PTX's names for rounding modes."""


def _divided(interp: Machine, op: Operation, args: Args, result: tuple[Any, Any]) -> Args:
    """The result of a division, undefined lanes marked with the reason."""
    value, bad = result
    if bad is None:
        return (value,)
    why = "division by zero" if not np.all(args[1]) else "overflow of the least integer / -1"
    return (interp.undefined(op, value, bad, why),)


def _marked(interp: Machine, op: Operation, result: tuple[Any, Any], why: str) -> Args:
    value, bad = result
    return (value,) if bad is None else (interp.undefined(op, value, bad, why),)


def _wrapped(interp: Machine, op: Any, args: Args, value: np.ndarray) -> Args:
    """`value` of addi, subi, muli or shli; lanes that break a promise (nsw, nuw) are undefined."""
    flags = op.overflow_flags.data
    if not flags:
        return (value,)
    bad = casts.overflows(op.name.removeprefix("arith."), args, value, {str(f) for f in flags})
    return _marked(interp, op, (value, bad), f"overflow of an operation marked {'/'.join(flags)}")


def _exact(interp: Machine, op: Any, value: Any, lost: np.ndarray) -> Args:
    """`value`; if the op is marked `exact`, undefined in the lanes where something is lost."""
    if op.is_exact is None:
        return (value,)
    return _marked(interp, op, (value, integer.any_lane(lost)), "inexact result of an exact op")


@register_impls
class ArithFunctions(InterpreterFunctions):
    """Implementations of `arith` on arrays (see `xttir.interp.types`)."""

    @impl(arith.ConstantOp)
    def run_constant(self, interp: Any, op: arith.ConstantOp, args: Args) -> Args:
        value = constant_value(op.value)  # shape () for scalars and splats
        rank = len(shape_of(op.result.type))
        return (value.reshape((1, *(value.shape or (1,) * rank))),)

    # Integers ------------------------------------------------------------------------------------

    @impl(arith.AddiOp)
    def run_addi(self, interp: Any, op: arith.AddiOp, args: Args) -> Args:
        return _wrapped(interp, op, args, integer.add(*args))

    @impl(arith.SubiOp)
    def run_subi(self, interp: Any, op: arith.SubiOp, args: Args) -> Args:
        return _wrapped(interp, op, args, integer.sub(*args))

    @impl(arith.MuliOp)
    def run_muli(self, interp: Any, op: arith.MuliOp, args: Args) -> Args:
        return _wrapped(interp, op, args, integer.mul(*args))

    @impl(arith.AddUIExtendedOp)
    def run_addui_extended(self, interp: Any, op: Operation, args: Args) -> Args:
        total = integer.add(*args)
        if total.dtype == bool:
            return total, args[0] & args[1]
        return total, integer.compare("ult", total, args[0])

    @impl(arith.MulSIExtendedOp)
    def run_mulsi_extended(self, interp: Any, op: Operation, args: Args) -> Args:
        return integer.mul(*args), integer.mulhi_signed(*args)

    @impl(arith.MulUIExtendedOp)
    def run_mului_extended(self, interp: Any, op: Operation, args: Args) -> Args:
        return integer.mul(*args), integer.mulhi_unsigned(*args)

    @impl(arith.DivSIOp)
    def run_divsi(self, interp: Any, op: arith.DivSIOp, args: Args) -> Args:
        value, bad = integer.div_signed(*args)
        if op.is_exact is not None:
            return _exact(interp, op, value, integer.mul(value, args[1]) != args[0])
        return _divided(interp, op, args, (value, bad))

    @impl(arith.DivUIOp)
    def run_divui(self, interp: Any, op: arith.DivUIOp, args: Args) -> Args:
        value, bad = integer.div_unsigned(*args)
        if op.is_exact is not None:
            return _exact(interp, op, value, integer.mul(value, args[1]) != args[0])
        return _divided(interp, op, args, (value, bad))

    @impl(arith.FloorDivSIOp)
    def run_floordivsi(self, interp: Any, op: Operation, args: Args) -> Args:
        return _divided(interp, op, args, integer.floordiv_signed(*args))

    @impl(arith.CeilDivSIOp)
    def run_ceildivsi(self, interp: Any, op: Operation, args: Args) -> Args:
        return _divided(interp, op, args, integer.ceildiv_signed(*args))

    @impl(arith.CeilDivUIOp)
    def run_ceildivui(self, interp: Any, op: Operation, args: Args) -> Args:
        return _divided(interp, op, args, integer.ceildiv_unsigned(*args))

    @impl(arith.RemSIOp)
    def run_remsi(self, interp: Any, op: Operation, args: Args) -> Args:
        return _divided(interp, op, args, integer.rem_signed(*args))

    @impl(arith.RemUIOp)
    def run_remui(self, interp: Any, op: Operation, args: Args) -> Args:
        return _divided(interp, op, args, integer.rem_unsigned(*args))

    @impl(arith.MaxSIOp)
    def run_maxsi(self, interp: Any, op: Operation, args: Args) -> Args:
        return (integer.max_signed(*args),)

    @impl(arith.MinSIOp)
    def run_minsi(self, interp: Any, op: Operation, args: Args) -> Args:
        return (integer.min_signed(*args),)

    @impl(arith.MaxUIOp)
    def run_maxui(self, interp: Any, op: Operation, args: Args) -> Args:
        return (integer.max_unsigned(*args),)

    @impl(arith.MinUIOp)
    def run_minui(self, interp: Any, op: Operation, args: Args) -> Args:
        return (integer.min_unsigned(*args),)

    @impl(arith.AndIOp)
    def run_andi(self, interp: Any, op: Operation, args: Args) -> Args:
        return (args[0] & args[1],)

    @impl(arith.OrIOp)
    def run_ori(self, interp: Any, op: Operation, args: Args) -> Args:
        return (args[0] | args[1],)

    @impl(arith.XOrIOp)
    def run_xori(self, interp: Any, op: Operation, args: Args) -> Args:
        return (args[0] ^ args[1],)

    @impl(arith.ShLIOp)
    def run_shli(self, interp: Any, op: arith.ShLIOp, args: Args) -> Args:
        value, bad = integer.shl(*args)
        if bad is not None:
            return _marked(interp, op, (value, bad), "shift by the bit width or more")
        return _wrapped(interp, op, args, value)

    @impl(arith.ShRSIOp)
    def run_shrsi(self, interp: Any, op: arith.ShRSIOp, args: Args) -> Args:
        value, bad = integer.shr_signed(*args)
        if bad is None and op.is_exact is not None:
            return _exact(interp, op, value, integer.shl(value, args[1])[0] != args[0])
        return _marked(interp, op, (value, bad), "shift by the bit width or more")

    @impl(arith.ShRUIOp)
    def run_shrui(self, interp: Any, op: arith.ShRUIOp, args: Args) -> Args:
        value, bad = integer.shr_unsigned(*args)
        if bad is None and op.is_exact is not None:
            return _exact(interp, op, value, integer.shl(value, args[1])[0] != args[0])
        return _marked(interp, op, (value, bad), "shift by the bit width or more")

    @impl(arith.CmpiOp)
    def run_cmpi(self, interp: Any, op: arith.CmpiOp, args: Args) -> Args:
        return (integer.compare(INTEGER_PREDICATES[attributes.integer(op.predicate)], *args),)

    @impl(arith.SelectOp)
    def run_select(self, interp: Any, op: Operation, args: Args) -> Args:
        return (choose.select(*args),)

    # Floats --------------------------------------------------------------------------------------

    @impl(arith.AddfOp)
    def run_addf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.add(*args),)

    @impl(arith.SubfOp)
    def run_subf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.sub(*args),)

    @impl(arith.MulfOp)
    def run_mulf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.mul(*args),)

    @impl(arith.DivfOp)
    def run_divf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.div(*args),)

    @impl(arith.RemfOp)
    def run_remf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.rem(*args),)

    @impl(arith.NegfOp)
    def run_negf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.negate(*args),)

    @impl(arith.MaximumfOp)
    def run_maximumf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.maximum(*args),)

    @impl(arith.MinimumfOp)
    def run_minimumf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.minimum(*args),)

    @impl(arith.MaxnumfOp)
    def run_maxnumf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.max_number(*args),)

    @impl(arith.MinnumfOp)
    def run_minnumf(self, interp: Any, op: Operation, args: Args) -> Args:
        return (floating.min_number(*args),)

    @impl(arith.CmpfOp)
    def run_cmpf(self, interp: Any, op: arith.CmpfOp, args: Args) -> Args:
        return (floating.compare(FLOAT_PREDICATES[attributes.integer(op.predicate)], *args),)

    # Casts ---------------------------------------------------------------------------------------

    @impl(arith.ExtSIOp)
    def run_extsi(self, interp: Any, op: arith.ExtSIOp, args: Args) -> Args:
        return (integer.extend_signed(args[0], numpy_dtype(op.result.type)),)

    @impl(arith.ExtUIOp)
    def run_extui(self, interp: Any, op: arith.ExtUIOp, args: Args) -> Args:
        value = integer.extend_unsigned(args[0], numpy_dtype(op.result.type))
        return _non_negative(interp, op, args[0], value)

    @impl(arith.TruncIOp)
    def run_trunci(self, interp: Any, op: arith.TruncIOp, args: Args) -> Args:
        value = integer.truncate(args[0], numpy_dtype(op.result.type))
        flags = {str(f) for f in op.overflow_flags.data}
        if not flags:
            return (value,)
        lost = casts.loses(args[0], value, flags)
        return _marked(interp, op, (value, lost), f"truncation marked {'/'.join(sorted(flags))}")

    @impl(arith.IndexCastOp)
    def run_index_cast(self, interp: Any, op: arith.IndexCastOp, args: Args) -> Args:
        return (integer.extend_signed(args[0], numpy_dtype(op.result.type)),)

    @impl(arith.IndexCastUIOp)
    def run_index_castui(self, interp: Any, op: arith.IndexCastUIOp, args: Args) -> Args:
        value = integer.extend_unsigned(args[0], numpy_dtype(op.result.type))
        return _non_negative(interp, op, args[0], value)

    @impl(arith.ExtFOp)
    def run_extf(self, interp: Any, op: arith.ExtFOp, args: Args) -> Args:
        return (casts.float_to_float(args[0], numpy_dtype(op.result.type)),)

    @impl(arith.TruncFOp)
    def run_truncf(self, interp: Any, op: arith.TruncFOp, args: Args) -> Args:
        dtype = numpy_dtype(op.result.type)
        mode = "rn" if op.roundingmode is None else ROUNDING[attributes.integer(op.roundingmode)]
        if mode == "rn":
            return (casts.float_to_float(args[0], dtype),)
        return (round_to(widen(args[0]), dtype, mode),)

    @impl(arith.SIToFPOp)
    def run_sitofp(self, interp: Any, op: arith.SIToFPOp, args: Args) -> Args:
        return (casts.signed_to_float(args[0], numpy_dtype(op.result.type)),)

    @impl(arith.UIToFPOp)
    def run_uitofp(self, interp: Any, op: arith.UIToFPOp, args: Args) -> Args:
        value = casts.unsigned_to_float(args[0], numpy_dtype(op.result.type))
        return _non_negative(interp, op, args[0], value)

    @impl(arith.FPToSIOp)
    def run_fptosi(self, interp: Any, op: arith.FPToSIOp, args: Args) -> Args:
        result = casts.float_to_signed(args[0], numpy_dtype(op.result.type))
        return _marked(interp, op, result, "conversion of a float out of the integer's range")

    @impl(arith.FPToUIOp)
    def run_fptoui(self, interp: Any, op: arith.FPToUIOp, args: Args) -> Args:
        result = casts.float_to_unsigned(args[0], numpy_dtype(op.result.type))
        return _marked(interp, op, result, "conversion of a float out of the integer's range")

    @impl(arith.BitcastOp)
    def run_bitcast(self, interp: Any, op: arith.BitcastOp, args: Args) -> Args:
        dtype = numpy_dtype(op.result.type)
        if dtype.itemsize != args[0].dtype.itemsize or (dtype == integer.BOOL) != (
            args[0].dtype == bool
        ):
            raise Unsupported(f"bitcast to {op.result.type}", location_of(op))
        return (args[0].view(dtype),)


def _non_negative(interp: Machine, op: Any, source: np.ndarray, value: np.ndarray) -> Args:
    """`value`, undefined where `source` breaks the promise `nneg`."""
    if op.non_neg is None or source.dtype == bool:
        return (value,)
    return _marked(
        interp, op, (value, integer.any_lane(source < 0)), "negative operand marked nneg"
    )


IN_PLACE: dict[type[Operation], np.ufunc] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
}
"""What `floating` does for f32 and f64, for results written over an operand."""
