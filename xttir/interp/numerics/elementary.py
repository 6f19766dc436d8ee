"""Elementary functions: exp, log, sin, erf and the rest, rounded from f64.

f32 functions are evaluated in f64 and rounded, which gives 0.50001 ulp at worst. numpy's own f32
loops are two to three times faster but up to 4 ulp off where they are vectorised (exp 2.4, exp2
2.8, log 3.4, log2 1.9, sin 1.5), and differ from machine to machine. f64 functions are numpy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from xttir.interp.numerics import floating
from xttir.interp.numerics.floats import F32, F64, from_f64, widen

Function = Callable[..., np.ndarray]


# Elements a step of `in_blocks`: a few f64 temporaries of this size stay in the cache.
_BLOCK = 1 << 14


def in_blocks(f: Function) -> Function:
    """`f` of one array, elementwise, evaluated block by block so that temporaries stay small."""

    def compute(x: np.ndarray) -> np.ndarray:
        if x.size <= 2 * _BLOCK:
            return f(x)
        flat = np.ascontiguousarray(x).reshape(-1)
        out: np.ndarray | None = None
        for start in range(0, flat.size, _BLOCK):
            part = f(flat[start : start + _BLOCK])
            if out is None:
                out = np.empty(flat.size, part.dtype)
            out[start : start + _BLOCK] = part
        assert out is not None
        return out.reshape(x.shape)

    return compute


def rounded_from_f64(f: Function) -> Function:
    """`f` on f64 arrays made to work on every float type, with one rounding at the end."""

    def compute(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        if dtype == F64:
            return f(*args)
        if dtype == F32:
            if isinstance(f, np.ufunc):  # numpy casts through small buffers
                out = np.empty(np.broadcast_shapes(*(a.shape for a in args)), np.float32)
                return f(*args, out=out, dtype=np.float64, casting="same_kind")
            return f(*(a.astype(np.float64) for a in args)).astype(np.float32)
        return from_f64(f(*(widen(a).astype(np.float64) for a in args)), dtype)

    return compute


def exactly(f: Function) -> Function:
    """`f`, whose results are exact in the operands' type (floor, abs), on every float type."""

    def compute(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        if dtype in (F32, F64):
            return f(*args)
        return f(*(widen(a) for a in args)).astype(dtype)

    return compute


def _sin64(x: np.ndarray) -> np.ndarray:
    """sin by tan(x/2), three times faster than numpy's f64 sin, to f32 accuracy and a little."""
    t = np.tan(x * 0.5)
    return 2 * t / (1 + t * t)


def _cos64(x: np.ndarray) -> np.ndarray:
    t = np.tan(x * 0.5)
    return (1 - t) * (1 + t) / (1 + t * t)


def _by_precision(narrow_f: Function, f64: Function) -> Function:
    """`narrow_f` (on f64 arrays, to f32 accuracy) for f32 and less, `f64` for f64."""
    rounded = in_blocks(rounded_from_f64(narrow_f))
    return lambda x: f64(x) if x.dtype == F64 else rounded(x)


def _round_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(whole + np.copysign(np.abs(x - whole) >= 0.5, x), x).astype(x.dtype)


# erf ----------------------------------------------------------------------------------------------

_ERF_CELLS = 512  # of |x| < 4, beyond which erf is 1 in f32
_ERF_SCALE = _ERF_CELLS / 4
_ERF_DEGREE = 3


@cache
def _erf_table() -> np.ndarray:
    """float64[degree + 1, cells]: polynomials for erf(x) / x, x = (cell + (1 + t) / 2) / scale.

    Interpolation in Chebyshev points of a smooth positive function: the error is below 1e-11.
    """
    n = _ERF_DEGREE + 1
    nodes = np.cos((np.arange(n) + 0.5) * np.pi / n)
    x = (np.arange(_ERF_CELLS)[:, None] + (1 + nodes) / 2) / _ERF_SCALE
    values = np.array([[math.erf(v) / v for v in row] for row in x])
    return np.linalg.solve(np.vander(nodes, n), values.T)


def _erf64(x: np.ndarray) -> np.ndarray:
    """erf to f32 accuracy (relative error below 1e-11), on f64 arrays."""
    size = np.minimum(np.abs(x), 4.0 - 1e-9) * _ERF_SCALE
    cell = np.where(np.isnan(x), 0, size).astype(np.int32)
    t = 2 * (size - cell) - 1
    table = _erf_table()
    total = np.take(table[0], cell)
    for row in table[1:]:
        total *= t
        total += np.take(row, cell)
    out = total * x
    return np.where(np.abs(x) < 4, out, np.sign(x))


def each(f: Callable[[float], float], domain_error: float = math.nan) -> Function:
    """A function of Python floats, element by element: for rare functions only."""

    def safe(x: float) -> float:
        try:
            return f(x)
        except ValueError:
            return math.nan if math.isnan(x) else domain_error
        except OverflowError:
            return math.inf

    vector = np.frompyfunc(safe, 1, 1)
    return lambda x: np.asarray(vector(x)).astype(np.float64)


# Tables -------------------------------------------------------------------------------------------

UNARY: dict[str, Function] = {
    "acos": rounded_from_f64(np.arccos),
    "acosh": rounded_from_f64(np.arccosh),
    "asin": rounded_from_f64(np.arcsin),
    "asinh": rounded_from_f64(np.arcsinh),
    "atan": rounded_from_f64(np.arctan),
    "atanh": rounded_from_f64(np.arctanh),
    "cbrt": rounded_from_f64(np.cbrt),
    "cos": _by_precision(_cos64, np.cos),
    "cosh": rounded_from_f64(np.cosh),
    "erf": _by_precision(_erf64, each(math.erf)),
    "erfc": rounded_from_f64(each(math.erfc)),
    "exp": rounded_from_f64(np.exp),
    "exp2": rounded_from_f64(np.exp2),
    "expm1": rounded_from_f64(np.expm1),
    "log": rounded_from_f64(np.log),
    "log10": rounded_from_f64(np.log10),
    "log1p": rounded_from_f64(np.log1p),
    "log2": rounded_from_f64(np.log2),
    "rsqrt": in_blocks(rounded_from_f64(lambda x: 1 / np.sqrt(x))),
    "sin": _by_precision(_sin64, np.sin),
    "sinh": rounded_from_f64(np.sinh),
    "sqrt": floating.sqrt,
    "tan": rounded_from_f64(np.tan),
    "tanh": rounded_from_f64(np.tanh),
    "absf": exactly(np.abs),
    "ceil": exactly(np.ceil),
    "floor": exactly(np.floor),
    "round": exactly(_round_away),
    "roundeven": exactly(np.rint),
    "trunc": exactly(np.trunc),
}
"""Functions of one float by the names of `math`'s ops."""

BINARY: dict[str, Function] = {
    "atan2": rounded_from_f64(np.arctan2),
    "copysign": exactly(np.copysign),
    "powf": rounded_from_f64(np.power),
}
"""Functions of two floats by the names of `math`'s ops."""


def power_integer(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """x ** n for a float x and an integer n."""
    if x.dtype == F64:
        return np.power(x, n.astype(np.float64))
    return from_f64(np.power(widen(x).astype(np.float64), n.astype(np.float64)), x.dtype)
