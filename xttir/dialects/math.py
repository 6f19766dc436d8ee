"""`math`: upstream's ops, and those that xDSL lacks: erfc, `is...`, clampf, sincos.

Triton itself emits few of them (exp, exp2, log, log2, sin, cos, sqrt, rsqrt, fma, erf, absf, absi,
floor, ceil, trunc); hand-written IR may hold any.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import math as upstream
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.math import (
    AbsFOp,
    AbsIOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    Atan2Op,
    AtanhOp,
    AtanOp,
    CbrtOp,
    CeilOp,
    CopySignOp,
    CoshOp,
    CosOp,
    CountLeadingZerosOp,
    CountTrailingZerosOp,
    CtPopOp,
    ErfOp,
    Exp2Op,
    ExpM1Op,
    ExpOp,
    FloatingPointLikeUnaryMathOperation,
    FloorOp,
    FmaOp,
    FPowIOp,
    IPowIOp,
    Log1pOp,
    Log2Op,
    Log10Op,
    LogOp,
    PowFOp,
    RoundEvenOp,
    RoundOp,
    RsqrtOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanhOp,
    TanOp,
    TruncOp,
)
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xttir.dialects.arith import FLOAT_LIKE
from xttir.dialects.ods import Derived, same_shape_i1

_NO_FASTMATH = FastMathFlagsAttr("none")
_I1 = Derived("T", same_shape_i1, "result is not i1 in the operand's shape")
_PREDICATE = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """1 - erf(x)."""

    name = "math.erfc"
    traits = traits_def(Pure())


@irdl_op_definition
class IsNaNOp(IRDLOperation):
    """Whether x is a NaN."""

    name = "math.isnan"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(_I1)
    assembly_format = _PREDICATE
    traits = traits_def(Pure())


@irdl_op_definition
class IsInfOp(IRDLOperation):
    """Whether x is an infinity."""

    name = "math.isinf"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(_I1)
    assembly_format = _PREDICATE
    traits = traits_def(Pure())


@irdl_op_definition
class IsFiniteOp(IRDLOperation):
    """Whether x is neither an infinity nor a NaN."""

    name = "math.isfinite"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(_I1)
    assembly_format = _PREDICATE
    traits = traits_def(Pure())


@irdl_op_definition
class IsNormalOp(IRDLOperation):
    """Whether x is normal: not zero, subnormal, infinite or NaN."""

    name = "math.isnormal"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(_I1)
    assembly_format = _PREDICATE
    traits = traits_def(Pure())


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """minimumf(maximumf(value, min), max)."""

    name = "math.clampf"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    value = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    result = result_def(T)
    assembly_format = (
        "$value `to` ` ` `[` $min `,` $max `]` (`fastmath` `` $fastmath^)?"
        " attr-dict `:` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class SincosOp(IRDLOperation):
    """sin(x) and cos(x)."""

    name = "math.sincos"
    T: ClassVar = VarConstraint("T", FLOAT_LIKE)
    operand = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FASTMATH)
    sin = result_def(T)
    cos = result_def(T)
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"
    traits = traits_def(Pure())


_OURS: tuple[type[Operation], ...] = (
    ClampFOp,
    ErfcOp,
    IsFiniteOp,
    IsInfOp,
    IsNaNOp,
    IsNormalOp,
    SincosOp,
)

Math = Dialect(
    "math",
    [
        *(op for op in upstream.Math.operations if op.name not in {o.name for o in _OURS}),
        *_OURS,
    ],
    list(upstream.Math.attributes),
)

__all__ = [
    "AbsFOp",
    "AbsIOp",
    "AcosOp",
    "AcoshOp",
    "AsinOp",
    "AsinhOp",
    "Atan2Op",
    "AtanOp",
    "AtanhOp",
    "CbrtOp",
    "CeilOp",
    "ClampFOp",
    "CopySignOp",
    "CosOp",
    "CoshOp",
    "CountLeadingZerosOp",
    "CountTrailingZerosOp",
    "CtPopOp",
    "ErfOp",
    "ErfcOp",
    "Exp2Op",
    "ExpM1Op",
    "ExpOp",
    "FPowIOp",
    "FloorOp",
    "FmaOp",
    "IPowIOp",
    "IsFiniteOp",
    "IsInfOp",
    "IsNaNOp",
    "IsNormalOp",
    "Log1pOp",
    "Log2Op",
    "Log10Op",
    "LogOp",
    "Math",
    "PowFOp",
    "RoundEvenOp",
    "RoundOp",
    "RsqrtOp",
    "SinOp",
    "SincosOp",
    "SinhOp",
    "SqrtOp",
    "TanOp",
    "TanhOp",
    "TruncOp",
]
