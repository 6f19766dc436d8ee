"""libdevice by name: nothing that Triton declares is missing, values against mpmath and Python."""

from __future__ import annotations

import importlib.util
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, StringAttr, f32, i1

from tests.interp.op_runner import run, same, tensor, values
from tests.interp.rounding import FORMATS, rounded
from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.interp.libdevice import TABLE, LibdeviceFunctions

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def call(symbol: str, *args: float | int, dtype=np.float32) -> np.ndarray:
    """`symbol` on one element: floats in `dtype`, ints as int32 (int64 where they need it)."""
    arrays = []
    for a in args:
        if isinstance(a, float):
            arrays.append(np.array([a], dtype))
        else:
            arrays.append(np.array([a], np.int32 if -(2**31) <= a < 2**31 else np.int64))
    return TABLE[symbol](*arrays)


def test_everything_that_triton_declares_is_here():
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("triton is not installed")
    source = Path(spec.origin).parent / "language" / "extra" / "cuda" / "libdevice.py"
    names = set(re.findall(r"__nv_\w+", source.read_text()))
    assert len(names) > 300
    assert names <= set(TABLE)


# Functions of mpmath, the range to draw arguments from, and the tolerance in ulp of f64.
SMOOTH = {
    "acos": ("acos", -1, 1, 8), "acosh": ("acosh", 1, 50, 8), "asin": ("asin", -1, 1, 8),
    "asinh": ("asinh", -50, 50, 8), "atan": ("atan", -50, 50, 8), "atanh": ("atanh", -1, 1, 8),
    "cbrt": ("cbrt", 0, 50, 8), "cos": ("cos", -50, 50, 8), "cosh": ("cosh", -50, 50, 8),
    "erf": ("erf", -5, 5, 8), "erfc": ("erfc", -5, 9, 8), "exp": ("exp", -50, 50, 8),
    "expm1": ("expm1", -3, 3, 8), "log": ("log", 0, 50, 8), "log10": ("log10", 0, 50, 8),
    "sin": ("sin", -50, 50, 8), "sinh": ("sinh", -50, 50, 8), "sqrt": ("sqrt", 0, 50, 1),
    "tan": ("tan", -50, 50, 8), "tanh": ("tanh", -50, 50, 8), "erfinv": ("erfinv", -1, 1, 8),
    "normcdf": ("ncdf", -12, 5, 8), "tgamma": ("gamma", 0.1, 34, 16), "sinpi": ("sinpi", -9, 9, 8),
    "cospi": ("cospi", -9, 9, 8),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_smooth_functions(name: str):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 150
    symbol, low, high, ulps = SMOOTH[name]
    true = getattr(mpmath, symbol)
    rng = np.random.default_rng(1)
    x = rng.uniform(low, high, 50)
    for v, r in zip(x.tolist(), TABLE[f"__nv_{name}"](x).tolist(), strict=True):
        t = true(mpmath.mpf(v))
        assert abs(mpmath.mpf(r) - t) <= ulps * mpmath.mpf(float(np.spacing(abs(float(t)))))
    x32 = x.astype(np.float32)
    x32 = x32[(x32 >= low) & (x32 <= high)]
    for v, r in zip(x32.tolist(), TABLE[f"__nv_{name}f"](x32).tolist(), strict=True):
        t = true(mpmath.mpf(v))
        unit = mpmath.mpf(float(np.spacing(np.abs(np.float32(float(t))))))
        assert abs(mpmath.mpf(r) - t) <= 0.501 * unit


BESSEL = {
    "j0": lambda m, x: m.besselj(0, x),
    "j1": lambda m, x: m.besselj(1, x),
    "y0": lambda m, x: m.bessely(0, x),
    "y1": lambda m, x: m.bessely(1, x),
    "cyl_bessel_i0": lambda m, x: m.besseli(0, x),
    "cyl_bessel_i1": lambda m, x: m.besseli(1, x),
}


@pytest.mark.parametrize("name", sorted(BESSEL))
def test_bessel_functions(name: str):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 150
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(0, 1e-3, 10), rng.uniform(0, 40, 40), rng.uniform(0, 300, 9)])
    for v, r in zip(x.tolist(), TABLE[f"__nv_{name}"](x).tolist(), strict=True):
        t = BESSEL[name](mpmath, mpmath.mpf(v))
        assert abs(mpmath.mpf(r) - t) <= 4e-15 * max(1, abs(t))


@pytest.mark.parametrize("order", [0, 1, 2, 5, 17, 40])
def test_bessel_functions_of_any_order(order: int):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 150
    x = np.random.default_rng(order).uniform(0.5, 60, 30)
    n = np.full(30, order, np.int32)
    for symbol, f in (("__nv_jn", mpmath.besselj), ("__nv_yn", mpmath.bessely)):
        for v, r in zip(x.tolist(), TABLE[symbol](n, x).tolist(), strict=True):
            t = f(order, mpmath.mpf(v))
            assert abs(mpmath.mpf(r) - t) <= 1e-14 * max(1, abs(t))
    mixed = np.array([3, order], np.int32)
    both = TABLE["__nv_jn"](mixed, x[:2])
    assert same(both[1:], TABLE["__nv_jn"](n[1:2], x[1:2]))


def test_bessel_functions_of_enormous_order_do_not_loop():
    n, x = np.array([2**31 - 1, 5000], np.int32), np.array([3.0, 20.0])
    assert TABLE["__nv_jn"](n, x).tolist() == [0, 0]
    assert TABLE["__nv_yn"](n, x).tolist() == [-math.inf, -math.inf]
    with pytest.raises(Unsupported, match="order"):
        TABLE["__nv_jn"](n[:1], np.array([1e12]))


def test_bessel_functions_at_the_edges():
    x = np.array([0.0, -1.0, math.inf, -math.inf, math.nan], np.float64)
    assert TABLE["__nv_j0"](x)[[0, 2, 3]].tolist() == [1, 0, 0]
    assert TABLE["__nv_j1"](-np.ones(1))[0] == -TABLE["__nv_j1"](np.ones(1))[0]
    y = TABLE["__nv_y0"](x)
    assert y[0] == -math.inf
    assert y[2] == 0
    assert np.isnan(y[[1, 3, 4]]).all()
    assert TABLE["__nv_cyl_bessel_i1"](x)[[2, 3]].tolist() == [math.inf, -math.inf]


@given(st.floats(-1, 1, width=32))
def test_inverses_undo_their_functions(v: float):
    x = np.array([v], np.float64)
    assert math.isclose(math.erf(TABLE["__nv_erfinv"](x)[0]), v, rel_tol=1e-13, abs_tol=1e-300)
    p = np.array([abs(v)], np.float64)
    if 0 < p[0] < 1:
        z = TABLE["__nv_normcdfinv"](p)
        assert math.isclose(TABLE["__nv_normcdf"](z)[0], p[0], rel_tol=1e-11)
        assert math.isclose(math.erfc(TABLE["__nv_erfcinv"](p)[0]), p[0], rel_tol=1e-11)


def test_edges_of_special_functions():
    inf, nan = math.inf, math.nan
    cases = {
        ("erfinv", 1.0): inf, ("erfinv", -1.0): -inf, ("erfinv", 1.5): nan, ("erfcinv", 0.0): inf,
        ("erfcinv", 2.0): -inf, ("normcdfinv", 0.0): -inf, ("normcdfinv", 1.0): inf,
        ("normcdf", inf): 1.0, ("normcdf", -inf): 0.0, ("erfcx", -inf): inf, ("erfcx", inf): 0.0,
        ("lgamma", 0.0): inf, ("lgamma", -3.0): inf, ("lgamma", -inf): inf, ("tgamma", 0.0): inf,
        ("tgamma", -2.0): nan, ("tgamma", 200.0): inf, ("logb", 0.0): -inf,
        ("logb", -inf): inf, ("logb", 10.0): 3.0, ("sinpi", inf): nan, ("sinpi", 1e10): 0.0,
        ("cospi", 0.5): 0.0, ("rcbrt", 8.0): 0.5, ("exp10", 3.0): 1000.0,
    }  # fmt: skip
    for (name, x), expected in cases.items():
        for symbol, dtype in ((f"__nv_{name}", np.float64), (f"__nv_{name}f", np.float32)):
            got = call(symbol, x, dtype=dtype)
            assert same(got, np.array([expected], dtype)), (symbol, x, got)
    assert call("__nv_tgammaf", -0.0)[0] == -inf
    assert call("__nv_ilogbf", 0.0)[0] == -(2**31)
    assert call("__nv_ilogbf", inf)[0] == 2**31 - 1
    assert call("__nv_saturatef", nan)[0] == 0


finite64 = st.floats(allow_nan=False, allow_infinity=False)


@given(finite64, finite64)
def test_remainder_is_python_s(a: float, b: float):
    got = call("__nv_remainder", a, b, dtype=np.float64)[0]
    if b == 0:
        assert math.isnan(got)
    else:
        assert same(np.array([got]), np.array([math.remainder(a, b)]))


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=4, max_size=4))
def test_norms(parts: list[float]):
    total = math.sqrt(sum(Fraction(p) ** 2 for p in parts[:3]))
    assert math.isclose(call("__nv_norm3d", *parts[:3], dtype=np.float64)[0], total, rel_tol=1e-15)
    total = math.sqrt(sum(Fraction(p) ** 2 for p in parts))
    assert math.isclose(call("__nv_norm4d", *parts, dtype=np.float64)[0], total, rel_tol=1e-15)
    if total:
        inverse = call("__nv_rnorm4d", *parts, dtype=np.float64)[0]
        assert math.isclose(inverse, 1 / total, rel_tol=1e-14)


def test_norm_with_an_infinity_is_infinite_even_with_nan():
    assert call("__nv_norm3df", math.nan, math.inf, 1.0)[0] == math.inf
    assert np.isnan(call("__nv_norm3df", math.nan, 1.0, 1.0)[0])
    assert call("__nv_norm3df", 0.0, 0.0, 0.0)[0] == 0


MODES = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from(sorted(MODES)))
def test_integers_to_floats_in_every_mode(v: int, suffix: str):
    mode = MODES[suffix]
    signed = v < 2**63
    a = np.array([v], np.int64 if signed else np.uint64).view(np.int64)
    kind = "ll" if signed else "ull"
    for name, dtype in (("float", F32), ("double", F64)):
        got = TABLE[f"__nv_{kind}2{name}_{suffix}"](a)
        assert float(got[0]) == rounded(Fraction(v), mode, FORMATS[dtype])
    if -(2**31) <= v < 2**31:
        small = TABLE[f"__nv_int2float_{suffix}"](a.astype(np.int32))
        assert float(small[0]) == rounded(Fraction(v), mode, FORMATS[F32])


@given(st.floats(width=32), st.sampled_from(sorted(MODES)))
def test_floats_to_integers_in_every_mode(v: float, suffix: str):
    rounding = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[suffix]
    for source, dtype in (("float", np.float32), ("double", np.float64)):
        for target, low, high in (
            ("int", -(2**31), 2**31 - 1),
            ("uint", 0, 2**32 - 1),
            ("ll", -(2**63), 2**63 - 1),
            ("ull", 0, 2**64 - 1),
        ):
            got = call(f"__nv_{source}2{target}_{suffix}", v, dtype=dtype)
            width = 8 * got.dtype.itemsize
            bits = int(got[0]) & ((1 << width) - 1)
            if source == "float" and abs(v) < 2.0**-126:
                expected = 0
            elif math.isnan(v):
                expected = 0 if source == "float" and width == 32 else 1 << (width - 1)
            elif math.isinf(v):
                expected = high if v > 0 else low
            else:
                expected = min(max(rounding(v), low), high)
            assert bits == expected & ((1 << width) - 1)


def test_rounded_arithmetic_by_name():
    third = np.float32(1) / np.float32(3)
    assert call("__nv_fdiv_rn", 1.0, 3.0)[0] == third
    assert call("__nv_fdiv_rd", 1.0, 3.0)[0] == np.nextafter(third, np.float32(0))
    assert call("__nv_frcp_rz", 3.0)[0] == np.nextafter(third, np.float32(0))
    assert call("__nv_fsub_ru", 1.0, 1e-30)[0] == 1.0
    assert call("__nv_fsub_rd", 1.0, 1e-30)[0] == np.nextafter(np.float32(1), np.float32(0))
    assert call("__nv_double2float_ru", 0.1, dtype=np.float64)[0] == np.float32(0.1)
    assert call("__nv_double2float_rd", 0.1, dtype=np.float64)[0] < 0.1


def test_subnormal_f32_are_flushed_where_libdevice_does():
    assert call("__nv_fadd_rn", 1e-40, 0.0)[0] == 0
    assert call("__nv_fmul_ru", 1e-30, 1e-10)[0] == 0
    assert call("__nv_float2int_ru", 1e-40)[0] == 0
    assert call("__nv_double2float_ru", 1e-50, dtype=np.float64)[0] == 0
    assert call("__nv_fmaf_rn", 1e-30, 1e-10, 0.0)[0] == np.float32(1e-40)
    assert call("__nv_dmul_rn", 1e-300, 1e-20, dtype=np.float64)[0] == 1e-320
    assert call("__nv_fmaf_rn", 1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60)[0] > 1 + 2.0**-11


ints = st.integers(-(2**31), 2**31 - 1)


def word(symbol: str, *args: int) -> int:
    """The result of an integer function, as an unsigned number."""
    return int(call(symbol, *args)[0]) & 0xFFFFFFFF


@given(ints, ints, ints)
def test_bits_and_integers(a: int, b: int, c: int):
    ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    assert word("__nv_brev", a) == int(f"{ua:032b}"[::-1], 2)
    assert call("__nv_ffs", a)[0] == (ua & -ua).bit_length()
    assert call("__nv_clz", a)[0] == 32 - ua.bit_length()
    assert call("__nv_popc", a)[0] == ua.bit_count()
    assert call("__nv_mulhi", a, b)[0] == (a * b) >> 32
    assert word("__nv_umulhi", a, b) == (ua * ub) >> 32
    assert call("__nv_hadd", a, b)[0] == (a + b) >> 1
    assert call("__nv_rhadd", a, b)[0] == (a + b + 1) >> 1
    assert word("__nv_uhadd", a, b) == (ua + ub) >> 1
    assert word("__nv_sad", a, b, c) == (abs(a - b) + c) & 0xFFFFFFFF
    assert word("__nv_usad", a, b, c) == (abs(ua - ub) + c) & 0xFFFFFFFF
    low = [(v & 0xFFFFFF) - (1 << 24 if v & 0x800000 else 0) for v in (a, b)]
    assert word("__nv_mul24", a, b) == low[0] * low[1] & 0xFFFFFFFF
    unsigned = (ua & 0xFFFFFF) * (ub & 0xFFFFFF) & 0xFFFFFFFF
    assert word("__nv_umul24", a, b) == unsigned
    data = ua.to_bytes(4, "little") + ub.to_bytes(4, "little")
    chosen = bytes(data[(c >> 4 * i) & 7] for i in range(4))
    selector = c & 0x7777
    assert word("__nv_byte_perm", a, b, selector) == int.from_bytes(chosen, "little")
    assert (
        call("__nv_float_as_int", float(call("__nv_int_as_float", 0x3FC00000)[0]))[0] == 0x3FC00000
    )
    wide = TABLE["__nv_hiloint2double"](np.array([a], np.int32), np.array([b], np.int32))
    assert TABLE["__nv_double2hiint"](wide)[0] == a
    assert TABLE["__nv_double2loint"](wide)[0] == b


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_bits(a: int):
    x = np.array([a], np.int64)
    u = a & (2**64 - 1)
    assert int(TABLE["__nv_brevll"](x)[0]) & (2**64 - 1) == int(f"{u:064b}"[::-1], 2)
    assert TABLE["__nv_ffsll"](x)[0] == (u & -u).bit_length()
    assert TABLE["__nv_clzll"](x)[0] == 64 - u.bit_length()
    assert TABLE["__nv_popcll"](x)[0] == u.bit_count()
    assert TABLE["__nv_popcll"](x).dtype == np.int32


def extern(symbol: str) -> tt.ExternElementwiseOp:
    ty = tensor(f32, 4)
    return tt.ExternElementwiseOp(
        operands=[values(ty)],
        result_types=[ty],
        properties={
            "libname": StringAttr(""),
            "libpath": StringAttr(""),
            "symbol": StringAttr(symbol),
            "pure": IntegerAttr(1, i1),
        },
    )


def test_op():
    f = LibdeviceFunctions()
    x = np.array([[0.0, 1.0, -1.0, 2.0]], np.float32)
    (got,) = run(f, extern("__nv_tanhf"), x)
    assert np.allclose(got, np.tanh(x))
    with pytest.raises(Unsupported, match="__nv_no_such_function"):
        run(f, extern("__nv_no_such_function"), x)
