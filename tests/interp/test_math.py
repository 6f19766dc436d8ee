"""math on arrays: ulp bounds against f64, exact functions, fma's single rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import f32, i32

from tests.interp.op_runner import run, same, tensor, values
from xttir.interp.math import MathFunctions
from xttir.interp.numerics import exact
from xttir.interp.numerics.elementary import BINARY, UNARY, power_integer
from xttir.interp.numerics.floats import BF16

F = MathFunctions()


def samples(n: int = 60000) -> np.ndarray:
    """f32 over the whole range, and denser where functions bend."""
    rng = np.random.default_rng(11)
    every = np.arange(0, 1 << 32, (1 << 32) // n, dtype=np.uint64).astype(np.uint32)
    parts = [
        every.view(np.float32),
        rng.standard_normal(n).astype(np.float32) * 3,
        rng.standard_normal(n).astype(np.float32) * 60,
        np.linspace(-2, 2, n, dtype=np.float32),
        1 + rng.standard_normal(n).astype(np.float32) * np.float32(1e-4),
        np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45], np.float32),
    ]
    return np.concatenate(parts)


REFERENCE = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cbrt": np.cbrt, "cos": np.cos, "cosh": np.cosh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "tan": np.tan, "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
}  # fmt: skip


def ulp_error(got: np.ndarray, true: np.ndarray) -> float:
    """The largest error of f32 `got` in units of the last place; special values must agree."""
    rounded = true.astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(true))
    finite = np.isfinite(rounded)
    assert np.array_equal(got[~finite & ~np.isnan(got)], rounded[~finite & ~np.isnan(got)])
    assert np.array_equal(
        np.signbit(got[finite & (true == 0)]), np.signbit(true[finite & (true == 0)])
    )
    unit = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    return float(np.max(np.abs(got[finite] - true[finite]) / unit))


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_f32_functions_are_rounded_right_or_nearly(name: str):
    x = samples(2000 if name.startswith("erf") else 60000)
    with np.errstate(all="ignore"):
        assert ulp_error(UNARY[name](x), REFERENCE[name](x.astype(np.float64))) <= 0.501


def test_every_unary_function_is_tested():
    assert set(UNARY) - set(REFERENCE) == {"absf", "ceil", "floor", "round", "roundeven", "trunc"}


@pytest.mark.parametrize("name", ["exp", "log", "sin", "erf", "tanh", "exp2", "cos", "rsqrt"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16])
def test_16_bit_floats_are_rounded_once(name: str, dtype: np.dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        got = UNARY[name](x).astype(np.float64)
        true = REFERENCE[name](x.astype(np.float64))
        up = np.nextafter(UNARY[name](x), np.array(np.inf, dtype)).astype(np.float64)
        down = np.nextafter(UNARY[name](x), np.array(-np.inf, dtype)).astype(np.float64)
    fine = np.isfinite(got) & np.isfinite(up) & np.isfinite(down)
    error = np.abs(got - true)[fine]
    assert (error <= np.abs(up - true)[fine]).all()
    assert (error <= np.abs(down - true)[fine]).all()


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "exp2", "log2", "erf"])
def test_f64_functions(name: str):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 120
    true_of = {"exp2": lambda v: mpmath.power(2, v), "log2": lambda v: mpmath.log(v, 2)}
    reference = true_of.get(name) or getattr(mpmath, name)
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.random(150) * 4, rng.random(150) * 40])
    got = UNARY[name](x)
    for v, g in zip(x.tolist(), got.tolist(), strict=True):
        true = reference(mpmath.mpf(v))
        assert abs(mpmath.mpf(g) - true) <= 4 * np.spacing(abs(float(true)))


def test_exact_functions():
    x = np.array([-2.5, -1.5, -0.5, -0.4, 0.0, 0.4, 0.5, 1.5, 2.5, 8388607.5], np.float32)
    assert UNARY["round"](x).tolist() == [-3, -2, -1, 0, 0, 0, 1, 2, 3, 8388608]
    assert UNARY["roundeven"](x).tolist() == [-2, -2, 0, 0, 0, 0, 0, 2, 2, 8388608]
    assert UNARY["floor"](x).tolist() == [-3, -2, -1, -1, 0, 0, 0, 1, 2, 8388607]
    assert UNARY["trunc"](x).tolist() == [-2, -1, 0, 0, 0, 0, 0, 1, 2, 8388607]
    assert np.signbit(UNARY["round"](x))[:4].all()
    half = x.astype(np.float16)
    assert same(UNARY["ceil"](half), np.ceil(x).astype(np.float16)[: len(x)])


@given(st.integers(-8, 8), st.floats(width=32, min_value=-1e3, max_value=1e3))
def test_powers(n: int, v: float):
    x, k = np.array([v], np.float32), np.array([n], np.int32)
    with np.errstate(all="ignore"):
        got = float(power_integer(x, k)[0])
        assert got == float(BINARY["powf"](x, k.astype(np.float32))[0])
        if v != 0 and math.isfinite(got):
            true = Fraction(v) ** n
            unit = Fraction(float(np.spacing(np.abs(np.float32(got)))))
            assert abs(Fraction(got) - true) <= unit * Fraction(501, 1000)


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(floats32, floats32, floats32)
def test_fma_rounds_once(a: float, b: float, c: float):
    check_fma(a, b, c)


@given(floats32, floats32, st.integers(-40, 40))
def test_fma_rounds_once_under_cancellation(a: float, b: float, k: int):
    with np.errstate(all="ignore"):
        near = float(-(np.float32(a) * np.float32(b)))
        for _ in range(abs(k)):
            near = float(np.nextafter(np.float32(near), np.float32(math.copysign(math.inf, k))))
    if math.isfinite(near):
        check_fma(a, b, near)


def check_fma(a: float, b: float, c: float) -> None:
    x, y, z = (np.array([v], np.float32) for v in (a, b, c))
    with np.errstate(all="ignore"):
        got = exact.fma_f32(x, y, z)[0]
    true = Fraction(a) * Fraction(b) + Fraction(c)
    if np.isinf(got):
        assert abs(true) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    error = abs(Fraction(float(got)) - true)
    for to in (np.inf, -np.inf):
        near = np.nextafter(got, np.float32(to))
        if np.isfinite(near):
            assert error <= abs(Fraction(float(near)) - true)


def test_fma_where_f64_rounds_twice():
    # a * b lies 2^-24 relative above an f32; c decides which way the tie goes.
    a = np.full(3, 1 + 2**-12, np.float32)
    c = np.array([2.0**-60, 0, -(2.0**-60)], np.float32)
    # a * a = 1 + 2^-11 + 2^-24, half way between two f32 values.
    assert exact.fma_f32(a, a, c).tolist() == [1 + 2**-11 + 2**-23, 1 + 2**-11, 1 + 2**-11]
    assert (a.astype(np.float64) * a + c).astype(np.float32)[0] == 1 + 2**-11  # what f64 would say


def test_integer_ops_of_math():
    (x,) = values(tensor(i32, 4))
    a = np.array([[0, 1, -1, -(2**31)]], np.int32)
    assert run(F, math_dialect.CtPopOp(x), a)[0].tolist() == [[0, 1, 32, 1]]
    assert run(F, math_dialect.CountLeadingZerosOp(x), a)[0].tolist() == [[32, 31, 0, 0]]
    assert run(F, math_dialect.CountTrailingZerosOp(x), a)[0].tolist() == [[32, 0, 0, 31]]
    assert run(F, math_dialect.AbsIOp(x), a)[0].tolist() == [[0, 1, 1, -(2**31)]]


@pytest.mark.parametrize("name", sorted(UNARY))
def test_results_do_not_depend_on_what_is_computed_together(name: str):
    rng = np.random.default_rng(9)
    n = 40001 if name not in ("erfc",) else 999
    x = (rng.standard_normal(n) * 5).astype(np.float32)
    with np.errstate(all="ignore"):
        whole = UNARY[name](x)
        pieces = np.concatenate([UNARY[name](x[k : k + 37]) for k in range(0, n, 37)])
        strided = UNARY[name](np.repeat(x, 2)[::2])
    assert same(whole, pieces)
    assert same(whole, strided)


def test_handlers_cover_the_dialect():
    ours = {op.name for op, _ in MathFunctions._impls()}
    assert {op.name for op in math_dialect.Math.operations} == ours
    (x,) = values(tensor(f32, 2))
    (got,) = run(F, math_dialect.ExpOp(x), np.array([[0.0, -np.inf]], np.float32))
    assert got.tolist() == [[1.0, 0.0]]
