"""Directed rounding and fused multiply-add against exact rationals."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np
import pytest

from tests.interp.rounding import FORMATS, floats, rounded
from xttir.interp.numerics import exact
from xttir.interp.numerics.floats import BF16, F16, round_to

TYPES = [np.dtype(np.float32), np.dtype(np.float64)]
N = 600


def check(got: np.ndarray, true_of, args, mode: str, form) -> None:
    for r, *values in zip(got.tolist(), *(a.tolist() for a in args), strict=True):
        if not all(map(math.isfinite, values)):
            continue
        expected = rounded(true_of(*map(Fraction, values)), mode, form)
        assert r == expected, (mode, values, r, expected)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic_in_every_mode(mode: str, dtype: np.dtype):
    rng = np.random.default_rng(1)
    form = FORMATS[dtype]
    a, b, c = (floats(rng, dtype, N) for _ in range(3))
    near_a = (-a * (1 + rng.standard_normal(N) * 1e-8)).astype(dtype)
    scatter = 1 + rng.standard_normal(N) * 10.0 ** -rng.integers(0, 20, N)
    near_product = (-(a * b) * scatter).astype(dtype)
    near_product = np.where(np.isfinite(near_product), near_product, c)
    nonzero = np.where(b == 0, dtype.type(3), b)
    check(exact.add(a, c, mode), operator.add, (a, c), mode, form)
    check(exact.add(a, near_a, mode), operator.add, (a, near_a), mode, form)
    check(exact.mul(a, b, mode), operator.mul, (a, b), mode, form)
    check(exact.div(a, nonzero, mode), operator.truediv, (a, nonzero), mode, form)
    for last in (c, near_product):
        got = exact.fma_directed(a, b, last, mode)
        check(got, lambda x, y, z: x * y + z, (a, b, last), mode, form)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_square_roots_in_every_mode(mode: str, dtype: np.dtype):
    a = np.abs(floats(np.random.default_rng(2), dtype, N))
    roots = exact.sqrt(a, mode)
    below, above = np.nextafter(roots, dtype.type(0)), np.nextafter(roots, dtype.type(np.inf))
    for x, r, lower, upper in zip(a, roots, below, above, strict=True):
        square, r, lower, upper = (Fraction(float(v)) for v in (x, r, lower, upper))
        if mode in ("rz", "rm"):
            assert r * r <= square < upper * upper
        elif mode == "rp":
            assert lower * lower < square or square == 0
            assert square <= r * r
        else:
            assert ((lower + r) / 2) ** 2 <= square <= ((r + upper) / 2) ** 2


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_signs_of_zero_and_special_values(mode: str, dtype: np.dtype):
    one, zero = np.ones(1, dtype), np.zeros(1, dtype)
    cancelled = exact.add(one, -one, mode)
    assert np.signbit(cancelled[0]) == (mode == "rm")
    assert not np.signbit(exact.add(zero, zero, mode)[0])
    assert np.signbit(exact.add(-zero, -zero, mode)[0])
    assert np.signbit(exact.fma_directed(one, one, -one, mode)[0]) == (mode == "rm")
    inf = np.full(1, np.inf, dtype)
    assert exact.add(inf, one, mode)[0] == np.inf
    assert np.isnan(exact.add(inf, -inf, mode)[0])
    assert exact.mul(inf, -one, mode)[0] == -np.inf
    assert np.isnan(exact.fma_directed(inf, zero, one, mode)[0])
    assert exact.div(one, zero, mode)[0] == np.inf


def test_f64_fma_at_the_bottom_of_the_range():
    tiny = 2.0**-1074
    a = np.array([2.0**-600, 2.0**-600, 3 * 2.0**-537, 2.0**-537, 2.0**-537])
    b = np.array([2.0**-600, -(2.0**-600), 2.0**-538, 2.0**-538, 2.0**-538])
    c = np.array([tiny, tiny, 0.0, 0.0, tiny])
    for mode in exact.MODES:
        check(
            exact.fma_f64(a, b, c, mode),
            lambda x, y, z: x * y + z,
            (a, b, c),
            mode,
            FORMATS[TYPES[1]],
        )


@pytest.mark.parametrize(("dtype", "form"), [(F16, (11, -14, 15)), (BF16, (8, -126, 127))])
def test_fma_of_16_bit_floats_rounds_once(dtype: np.dtype, form):
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(0, 1 << 16, N).astype(np.uint16).view(dtype) for _ in range(3))
    product = a.astype(np.float32) * b.astype(np.float32)
    near = (-product * (1 + rng.standard_normal(N) * 1e-2)).astype(np.float32).astype(dtype)
    for last in (c, near):
        got = exact.fma(a, b, last).astype(np.float64)
        args = [v.astype(np.float64) for v in (a, b, last)]
        check(got, lambda x, y, z: x * y + z, args, "rn", form)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("dtype", "form"), [(F16, (11, -14, 15)), (BF16, (8, -126, 127))])
def test_rounding_to_16_bits_in_every_mode(mode: str, dtype: np.dtype, form):
    x = floats(np.random.default_rng(4), np.dtype(np.float32), N)
    x = np.concatenate([x, np.linspace(-7e4, 7e4, N, dtype=np.float32)])
    got = round_to(x, dtype, mode).astype(np.float64)
    check(got, lambda v: v, (x,), mode, form)
