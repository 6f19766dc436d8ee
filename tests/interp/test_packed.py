"""Packed arithmetic rounds once, whatever the mixture of types."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.interp.launching import kinds, run
from xttir.interp.numerics import exact
from xttir.interp.packed import arithmetic

F16, BF16, F32 = (np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32))


def nearest(value: Fraction, dtype: np.dtype) -> float:
    """`value` rounded once, by trying the neighbours of what a rounded float gives."""
    guess = np.array([float(value)]).astype(dtype)
    bits = guess.view(np.dtype(f"i{dtype.itemsize}"))
    near = [(bits + k).view(dtype).astype(np.float64)[0] for k in (-1, 0, 1)]
    best = min(
        near, key=lambda v: (abs(Fraction(v) - value), int(np.array(v, dtype).view(bits.dtype)) & 1)
    )
    return best


SIGNATURES = [
    ("add", F32, (F16, F32)),
    ("add", F16, (F32, F32)),
    ("sub", BF16, (F32, F32)),
    ("mul", F16, (F16, BF16)),
    ("mul", BF16, (F32, F32)),
    ("fma", F32, (BF16, F32, F32)),
    ("fma", F16, (F16, F16, F16)),
    ("fma", BF16, (BF16, BF16, BF16)),
]


@pytest.mark.parametrize(("kind", "result", "types"), SIGNATURES)
def test_one_rounding(kind: str, result: np.dtype, types: tuple[np.dtype, ...]) -> None:
    rng = np.random.default_rng(7)
    args = [(rng.uniform(0.5, 2, 300) * 2.0 ** rng.integers(-6, 4, 300)).astype(t) for t in types]
    got = arithmetic(kind, args, result)
    assert got.dtype == result
    for n in range(300):
        x = [Fraction(float(a[n])) for a in args]
        value = {"add": lambda x: x[0] + x[1], "sub": lambda x: x[0] - x[1]}.get(
            kind, lambda x: x[0] * x[1] + (x[2] if len(x) > 2 else 0)
        )(x)
        assert float(got[n]) == nearest(value, result), (n, x)


def test_a_tie_that_a_far_smaller_term_breaks() -> None:
    tie, small = np.float32(1 + 2.0**-11), np.float32(2.0**-90)
    args = [np.array([tie]), np.array([small])]
    assert arithmetic("add", args, F16)[0] == np.float16(1 + 2.0**-10)
    assert arithmetic("sub", args, F16)[0] == np.float16(1)


def test_special_values() -> None:
    a = np.array([np.inf, np.nan, -0.0, 65504], F16)
    b = np.array([-np.inf, 1, -0.0, 65504], F16)
    got = arithmetic("add", [a, b], F16)
    assert np.isnan(got[:2]).all()
    assert np.signbit(got[2])
    assert got[3] == np.inf
    assert arithmetic("max", [a, b], F16)[1] == 1


def test_f32_fma_agrees_with_that_of_math() -> None:
    rng = np.random.default_rng(8)
    args = [rng.standard_normal(1000).astype(F32) for _ in range(3)]
    assert (arithmetic("fma", args, F32) == exact.fma(*args)).all()


TILES_IN_A_COMBINE = """
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>) {
    %pid = tt.get_program_id x : i32
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %p = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %q = tt.addptr %p, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %v = tt.load %q : tensor<8x!tt.ptr<i32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %m = tt.splat %a : i32 -> tensor<1xi32>
      %n = tt.splat %b : i32 -> tensor<1xi32>
      %c = arith.addi %m, %n : tensor<1xi32>
      %d = tt.unsplat %c : tensor<1xi32>
      %e = arith.addi %d, %pid : i32
      tt.reduce.return %e : i32
    }) : (tensor<8xi32>) -> i32
    %w = tt.addptr %o, %pid : !tt.ptr<i32>, i32
    tt.store %w, %s : !tt.ptr<i32>
    tt.return
  }
}
"""


@pytest.mark.parametrize("batch", [0, 1])
def test_a_combine_that_computes_with_tiles(batch: int) -> None:
    x, o = np.arange(8, dtype=np.int32), np.zeros(3, np.int32)
    result = run(TILES_IN_A_COMBINE, (3,), {"x": x, "o": o}, batch=batch)
    assert kinds(result) == []
    assert o.tolist() == [28, 28 + 7, 28 + 14]
