"""`tt.extern_elementwise`: functions of NVIDIA's libdevice by name, from one table.

Functions that libdevice defines exactly (conversions, bit operations, roundings) give its bits.
The rest are computed in f64 and rounded, so they are within the error CUDA documents for its own
(Mathematical Functions, CUDA Programming Guide), and at most 0.501 ulp off for f32 (1 ulp for the
error and gamma functions). f32 functions take subnormal operands and results for zero, since that
is how Triton links libdevice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.numerics import bessel, bits, casts, exact, floating, integer, special
from xttir.interp.numerics.elementary import BINARY, UNARY, rounded_from_f64
from xttir.interp.numerics.integer import unsigned

Function = Callable[..., np.ndarray]

TABLE: dict[str, Function] = {}
"""Functions of arrays by symbol. Integers come and go as signed numpy integers."""

I32 = np.dtype(np.int32)
I64 = np.dtype(np.int64)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)


def register(symbol: str, f: Function) -> None:
    """Let `tt.extern_elementwise` of `symbol` compute `f` (of arrays, elementwise)."""
    TABLE[symbol] = f


def _pair(base: str, f: Function) -> None:
    """`f` works on f32 and f64 alike."""
    register(f"__nv_{base}", f)
    register(f"__nv_{base}f", f)


def _wide(f: Function) -> Function:
    """`f` in f64, rounded to the type of the last operand (earlier ones may be integers)."""

    def compute(*args: np.ndarray) -> np.ndarray:
        dtype = args[-1].dtype
        out = f(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in args))
        return out.astype(dtype)

    return compute


# Elementary functions -----------------------------------------------------------------------------

_ELEMENTARY = (
    "acos, acosh, asin, asinh, atan, atanh, cbrt, ceil, cos, cosh, erf, erfc, exp, exp2, expm1, "
    "floor, log, log10, log1p, log2, round, rsqrt, sin, sinh, sqrt, tan, tanh, trunc"
)
_SPECIAL = "sinpi, cospi, erfinv, erfcinv, erfcx, normcdf, normcdfinv, lgamma, tgamma"

for _name in _ELEMENTARY.split(", "):
    _pair(_name, UNARY[_name])
_pair("fabs", UNARY["absf"])
_pair("rint", UNARY["roundeven"])
_pair("nearbyint", UNARY["roundeven"])
_pair("exp10", rounded_from_f64(lambda x: np.power(10.0, x)))
_pair("rcbrt", rounded_from_f64(lambda x: 1 / np.cbrt(x)))

for _name in _SPECIAL.split(", "):
    _pair(_name, _wide(getattr(special, _name)))
for _name in ("j0", "j1", "y0", "y1"):
    _pair(_name, _wide(getattr(bessel, _name)))
_pair("jn", _wide(bessel.jn))
_pair("yn", _wide(bessel.yn))
_pair("cyl_bessel_i0", _wide(bessel.i0))
_pair("cyl_bessel_i1", _wide(bessel.i1))

_pair("atan2", BINARY["atan2"])
_pair("copysign", BINARY["copysign"])
_pair("pow", BINARY["powf"])
_pair("fmod", np.fmod)
_pair("remainder", _wide(special.remainder))
_pair("nextafter", np.nextafter)
_pair("fmax", floating.max_number)
_pair("fmin", floating.min_number)
_pair("fma", exact.fma)
_pair("hypot", rounded_from_f64(np.hypot))
_pair("rhypot", _wide(lambda x, y: 1 / np.hypot(x, y)))
for _dims, _suffix in ((3, "3d"), (4, "4d")):
    _pair(f"norm{_suffix}", _wide(special.norm))
    _pair(f"rnorm{_suffix}", _wide(lambda *parts: 1 / special.norm(*parts)))


def _fdim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.where(x > y, x - y, x.dtype.type(0)))


def _ldexp(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    # f64 holds every f32 scaled this far, so that only the last step rounds.
    if x.dtype == F32:
        return np.ldexp(x.astype(np.float64), np.clip(n, -400, 400)).astype(np.float32)
    return np.ldexp(x, n)


def _powi(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.power(x.astype(np.float64), n.astype(np.float64)).astype(x.dtype)


def _logb(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    _, e = np.frexp(np.where(np.isfinite(x), x, 1))
    out = np.where(np.isfinite(x), (e - 1).astype(x.dtype), size)
    return np.where(x == 0, x.dtype.type(-np.inf), out)


def _ilogb(x: np.ndarray) -> np.ndarray:
    _, e = np.frexp(np.where(np.isfinite(x), x, 1))
    low, high = np.int32(-(2**31)), np.int32(2**31 - 1)
    out = np.where(np.isinf(x), high, (e - 1).astype(np.int32))
    return np.where((x == 0) | np.isnan(x), low, out)


_pair("fdim", _fdim)
_pair("ldexp", _ldexp)
_pair("scalbn", _ldexp)
_pair("powi", _powi)
register("__nv_powif", _powi)
_pair("logb", _logb)
_pair("ilogb", _ilogb)
_pair("llrint", lambda x: casts.convert_to_integer(x, "rn", I64))
_pair("llround", lambda x: casts.convert_to_integer(x, "rna", I64))
register("__nv_saturatef", lambda x: np.where(np.isnan(x), np.float32(0), np.clip(x, 0, 1)))
register(
    "__nv_rcp64h",
    lambda x: ((1 / x).view(np.int64) & np.int64(-(1 << 32))).view(np.float64),
)

# The fast functions, as CUDA defines them through ex2.approx, lg2.approx and a product or two.
_LOG2_E, _LOG2_10 = np.float32(1.4426950408889634), np.float32(3.321928094887362)
_LOG_2, _LOG10_2 = np.float32(0.6931471805599453), np.float32(0.30102999566398120)


def _fast_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y, but 0 (NaN for an infinite x) where 2^126 < |y| < infinity."""
    size = np.abs(y)
    return np.where(
        (size > 2.0**126) & np.isfinite(size), x * np.copysign(y.dtype.type(0), y), x / y
    )


register("__nv_fast_sinf", UNARY["sin"])
register("__nv_fast_cosf", UNARY["cos"])
register("__nv_fast_tanf", lambda x: _fast_divide(UNARY["sin"](x), UNARY["cos"](x)))
register("__nv_fast_expf", lambda x: UNARY["exp2"](x * _LOG2_E))
register("__nv_fast_exp10f", lambda x: UNARY["exp2"](x * _LOG2_10))
register("__nv_fast_log2f", UNARY["log2"])
register("__nv_fast_logf", lambda x: UNARY["log2"](x) * _LOG_2)
register("__nv_fast_log10f", lambda x: UNARY["log2"](x) * _LOG10_2)
register("__nv_fast_powf", lambda x, y: UNARY["exp2"](y * UNARY["log2"](x)))
register("__nv_fast_fdividef", _fast_divide)


def _flag(f: Function) -> Function:
    return lambda x: f(x).astype(np.int32)


for _name, _f in (("isnan", np.isnan), ("isinf", np.isinf), ("signbit", np.signbit)):
    register(f"__nv_{_name}f", _flag(_f))
    register(f"__nv_{_name}d", _flag(_f))
register("__nv_finitef", _flag(np.isfinite))
register("__nv_isfinited", _flag(np.isfinite))

# Roundings ----------------------------------------------------------------------------------------

_MODES = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}


def _rounded(f: Function, mode: str) -> Function:
    return lambda *args: f(*args, mode)


def _double_to_float(mode: str) -> Function:
    return lambda x: exact.to_f32_directed(x, mode)


def _to_integer(mode: str, dtype: np.dtype) -> Function:
    back = np.dtype(f"int{8 * dtype.itemsize}")
    return lambda x: casts.convert_to_integer(x, mode, dtype).view(back)


def _from_integer(mode: str, signed: bool, dtype: np.dtype) -> Function:
    if signed:
        return lambda a: casts.convert_from_integer(a, mode, dtype)
    return lambda a: casts.convert_from_integer(unsigned(a), mode, dtype)


for _suffix, _mode in _MODES.items():
    for _op, _f in (("add", exact.add), ("mul", exact.mul), ("div", exact.div)):
        register(f"__nv_f{_op}_{_suffix}", _rounded(_f, _mode))
        register(f"__nv_d{_op}_{_suffix}", _rounded(_f, _mode))
    for _kind in "fd":
        register(f"__nv_{_kind}sub_{_suffix}", lambda a, b, m=_mode: exact.add(a, -b, m))
        register(f"__nv_{_kind}rcp_{_suffix}", _rounded(exact.reciprocal, _mode))
        register(f"__nv_{_kind}sqrt_{_suffix}", _rounded(exact.sqrt, _mode))
    register(f"__nv_fmaf_{_suffix}", _rounded(exact.fma_directed, _mode))
    register(f"__nv_fma_{_suffix}", _rounded(exact.fma_directed, _mode))
    register(f"__nv_double2float_{_suffix}", _double_to_float(_mode))
    for _source in ("float", "double"):
        register(f"__nv_{_source}2int_{_suffix}", _to_integer(_mode, I32))
        register(f"__nv_{_source}2uint_{_suffix}", _to_integer(_mode, np.dtype(np.uint32)))
        register(f"__nv_{_source}2ll_{_suffix}", _to_integer(_mode, I64))
        register(f"__nv_{_source}2ull_{_suffix}", _to_integer(_mode, np.dtype(np.uint64)))
    for _target, _dtype in (("float", F32), ("double", F64)):
        for _source, _signed in (("int", True), ("uint", False), ("ll", True), ("ull", False)):
            register(f"__nv_{_source}2{_target}_{_suffix}", _from_integer(_mode, _signed, _dtype))
register("__nv_frsqrt_rn", UNARY["rsqrt"])

# Integers and bits --------------------------------------------------------------------------------


def _unsigned_op(f: Function) -> Function:
    """`f` on the operands' bits as unsigned integers; results in the signed type of that width."""

    def compute(*args: np.ndarray) -> np.ndarray:
        out = f(*(unsigned(a) for a in args))
        return out.view(f"i{out.dtype.itemsize}")

    return compute


def _int32(f: Function) -> Function:
    return lambda *args: f(*args).astype(np.int32)


register("__nv_clz", integer.leading_zeros)
register("__nv_clzll", _int32(integer.leading_zeros))
register("__nv_popc", integer.popcount)
register("__nv_popcll", _int32(integer.popcount))
register("__nv_ffs", _unsigned_op(bits.first_set))
register("__nv_ffsll", _unsigned_op(bits.first_set))
register("__nv_brev", _unsigned_op(bits.reverse_bits))
register("__nv_brevll", _unsigned_op(bits.reverse_bits))
register(
    "__nv_byte_perm",
    _unsigned_op(lambda a, b, s: bits.permute_bytes(a, b, s & np.uint32(0x7777))),
)
register("__nv_mulhi", integer.mulhi_signed)
register("__nv_umulhi", integer.mulhi_unsigned)
register("__nv_mul64hi", integer.mulhi_signed)
register("__nv_umul64hi", integer.mulhi_unsigned)
register("__nv_mul24", bits.mul24)
register("__nv_umul24", _unsigned_op(bits.mul24))
register("__nv_sad", bits.absolute_difference)
register("__nv_usad", _unsigned_op(bits.absolute_difference))
register("__nv_abs", np.abs)
register("__nv_llabs", np.abs)
register("__nv_hadd", lambda a, b: bits.average(a, b, False))
register("__nv_uhadd", _unsigned_op(lambda a, b: bits.average(a, b, False)))
register("__nv_rhadd", lambda a, b: bits.average(a, b, True))
register("__nv_urhadd", _unsigned_op(lambda a, b: bits.average(a, b, True)))
for _prefix in ("", "ll"):
    register(f"__nv_{_prefix}max", integer.max_signed)
    register(f"__nv_{_prefix}min", integer.min_signed)
    register(f"__nv_u{_prefix}max", integer.max_unsigned)
    register(f"__nv_u{_prefix}min", integer.min_unsigned)


def _view(dtype: np.dtype) -> Function:
    return lambda a: a.view(dtype)


for _name in ("int_as_float", "uint_as_float"):
    register(f"__nv_{_name}", _view(F32))
for _name in ("float_as_int", "float_as_uint"):
    register(f"__nv_{_name}", _view(I32))
register("__nv_longlong_as_double", _view(F64))
register("__nv_double_as_longlong", _view(I64))


def _halves_to_double(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    both = (high.astype(np.int64) << 32) | unsigned(low).astype(np.int64)
    return both.view(np.float64)


register("__nv_hiloint2double", _halves_to_double)
register("__nv_double2loint", lambda x: x.view(np.int64).astype(np.int32))
register("__nv_double2hiint", lambda x: (x.view(np.int64) >> 32).astype(np.int32))


# Flushing -----------------------------------------------------------------------------------------

# f32 functions that keep subnormal numbers. Triton links libdevice with __nvvm_reflect("ftz") = 1.
_KEEP_SUBNORMALS = (
    "fmaf, fmaf_rn, copysignf, isnanf, isinff, signbitf, finitef, ldexpf, scalbnf, ilogbf, logbf, "
    "int_as_float, uint_as_float, float_as_int, float_as_uint, nextafterf, expf, powf, rhypotf, "
    "rnorm3df, rnorm4df, erfinvf, erfcxf, j1f, y0f, y1f"
)
_FLUSH_OPERANDS = ("__nv_fmodf", "__nv_remainderf")


def _flushed(a: np.ndarray) -> np.ndarray:
    if a.dtype != F32:
        return a
    tiny = np.abs(a) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.float32(0), a), a) if tiny.any() else a


def _flushing(f: Function, results: bool) -> Function:
    """`f` with subnormal f32 operands (and results) taken for zeros of their sign."""
    if not results:
        return lambda *args: f(*(_flushed(a) for a in args))
    return lambda *args: _flushed(f(*(_flushed(a) for a in args)))


for _symbol, _f in list(TABLE.items()):
    if _symbol.removeprefix("__nv_") not in _KEEP_SUBNORMALS.split(", "):
        register(_symbol, _flushing(_f, _symbol not in _FLUSH_OPERANDS))


@register_impls
class LibdeviceFunctions(InterpreterFunctions):
    """Implementation of `tt.extern_elementwise`."""

    @impl(tt.ExternElementwiseOp)
    def run_extern(
        self, interp: Any, op: tt.ExternElementwiseOp, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        symbol = op.symbol.data
        f = TABLE.get(symbol)
        if f is None:
            raise Unsupported(f"external function {symbol}", location_of(op))
        return (f(*args),)
