"""tt.fp_to_fp for all codes of 8 and 16 bits and at every rounding boundary; bitcasts, clamps."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i16, i32

from tests.interp.op_runner import bits, run, same, tensor, values
from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.interp.conversions import ConversionFunctions, fp_to_fp
from xttir.interp.numerics import floats
from xttir.interp.numerics.floats import (
    BF16,
    E4M3B11FNUZ,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    F16,
    F32,
    F64,
)

F = ConversionFunctions()
BYTES = [E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E4M3B11FNUZ]
NARROW = [F16, BF16, *BYTES]


def codes(dtype: np.dtype) -> np.ndarray:
    """Every value of a type of 8 or 16 bits."""
    return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)


def boundaries(dtype: np.dtype) -> np.ndarray:
    """f32: every value of `dtype`, every midpoint, their neighbours, and the ends of the range."""
    finite = codes(dtype).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    middle = (finite[1:] + finite[:-1]) / 2
    largest = finite[-1]
    ends = np.array([largest * (1 + k / 64) for k in range(64)] + [1e30, math.inf, math.nan])
    x = np.concatenate([finite, middle, ends, -ends]).astype(np.float32)
    return np.concatenate(
        [x, np.nextafter(x, np.float32(9e38)), np.nextafter(x, np.float32(-9e38))]
    )


@pytest.mark.parametrize("source", NARROW)
@pytest.mark.parametrize("target", [F32, F64])
def test_widening_is_exact(source: np.dtype, target: np.dtype):
    x = codes(source)
    assert same(fp_to_fp(x, target), x.astype(target))


@pytest.mark.parametrize("target", NARROW)
def test_nearest_even_agrees_with_ml_dtypes(target: np.dtype):
    x = boundaries(target)
    got = fp_to_fp(x, target)
    largest = float(ml_dtypes.finfo(target).max)
    clipped = np.clip(x, -largest, largest) if target.itemsize == 1 else x
    assert same(got, clipped.astype(target))


@pytest.mark.parametrize("target", NARROW)
def test_truncation_is_the_largest_value_not_beyond(target: np.dtype):
    x = boundaries(target)
    x = x[np.isfinite(x)]
    got = fp_to_fp(x, target, "rtz").astype(np.float64)
    finite = codes(target).astype(np.float64)
    finite = np.unique(np.abs(finite[np.isfinite(finite)]))
    expected = finite[np.searchsorted(finite, np.abs(x).astype(np.float64), side="right") - 1]
    assert np.array_equal(np.abs(got), expected)
    assert np.array_equal(np.sign(got), np.sign(x) * (expected != 0))


def test_truncation_keeps_infinities_and_nan():
    x = np.array([math.inf, -math.inf, math.nan, 1e30], np.float32)
    got = fp_to_fp(x, E5M2, "rtz").astype(np.float64)
    assert got[:2].tolist() == [math.inf, -math.inf]
    assert math.isnan(got[2])
    assert got[3] == 57344


def test_saturation_of_infinities_and_nan():
    x = np.array([math.inf, -math.inf, math.nan], np.float32)
    assert fp_to_fp(x, E4M3FN).astype(float)[:2].tolist() == [448, -448]
    assert fp_to_fp(x, E5M2).astype(float)[:2].tolist() == [57344, -57344]
    assert np.isnan(fp_to_fp(x, E4M3FN).astype(float)[2])
    assert bits(fp_to_fp(x, E5M2))[2] & 0x7F == 0x7F


@pytest.mark.parametrize("source", [F16, BF16, *BYTES])
@pytest.mark.parametrize("target", [F16, BF16, *BYTES])
def test_between_narrow_types_rounds_once(source: np.dtype, target: np.dtype):
    x = codes(source)
    expected = x if source == target else fp_to_fp(x.astype(np.float32), target)
    assert same(fp_to_fp(x, target), expected)


@pytest.mark.parametrize("target", [BF16, *BYTES])
def test_from_f64_rounds_once(target: np.dtype):
    finite = codes(target).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    middle = (finite[1:] + finite[:-1]) / 2
    above, below = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    assert np.array_equal(fp_to_fp(above, target).astype(np.float64), finite[1:])
    assert np.array_equal(fp_to_fp(below, target).astype(np.float64), finite[:-1])


@pytest.mark.parametrize("target", [F16, E4M3FN, E5M2])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 1e3])
def test_large_arrays_take_a_fast_path_with_the_same_bits(target: np.dtype, scale: float):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(100_000) * scale).astype(np.float32)
    x[::1000] = np.nan
    x[1::1000] = np.inf
    assert same(
        fp_to_fp(x, target), np.concatenate([fp_to_fp(p, target) for p in np.split(x, 100)])
    )
    largest = float(ml_dtypes.finfo(target).max)
    clipped = np.clip(x, -largest, largest) if target.itemsize == 1 else x
    assert same(fp_to_fp(x, target), clipped.astype(target))
    wide = x.astype(target)
    assert same(floats.widen(wide), wide.astype(np.float32))


def test_torch_agrees_on_float8():
    torch = pytest.importorskip("torch")
    for dtype, name in ((E4M3FN, torch.float8_e4m3fn), (E5M2, torch.float8_e5m2)):
        x = boundaries(dtype)
        x = x[np.abs(x) <= float(ml_dtypes.finfo(dtype).max)]
        theirs = torch.from_numpy(x).to(name).view(torch.uint8).numpy()
        assert np.array_equal(bits(fp_to_fp(x, dtype)), theirs)


def test_fp_to_fp_takes_its_rounding():
    (x,) = values(tensor(f32, 2))
    a = np.array([[1.0 + 2**-10 + 2**-12, 70000.0]], np.float32)
    op = tt.FpToFpOp(operands=[x], result_types=[tensor(f16, 2)])
    assert run(F, op, a)[0].astype(float).tolist() == [[1 + 2**-10, math.inf]]
    op.rounding = tt.RoundingMode.RTZ.attr
    assert run(F, op, a)[0].astype(float).tolist() == [[1 + 2**-10, 65504.0]]


def test_bitcast():
    (x,) = values(tensor(f16, 1))
    op = tt.BitcastOp(operands=[x], result_types=[tensor(i16, 1)])
    assert run(F, op, np.array([[1.0]], np.float16))[0].tolist() == [[0x3C00]]
    wrong = tt.BitcastOp(operands=[x], result_types=[tensor(i32, 1)])
    with pytest.raises(Unsupported, match="bitcast"):
        run(F, wrong, np.array([[1.0]], np.float16))


@pytest.mark.parametrize(
    ("nan", "expected"),
    [(tt.PropagateNan.NONE, [-1, 1, 0.5, -1]), (tt.PropagateNan.ALL, [-1, 1, 0.5, math.nan])],
)
def test_clamp(nan: tt.PropagateNan, expected: list[float]):
    ty = tensor(f32, 4)
    op = tt.ClampFOp(
        operands=values(ty, ty, ty), result_types=[ty], properties={"propagateNan": nan.attr}
    )
    x = np.array([[-3, 7, 0.5, math.nan]], np.float32)
    one = np.ones((1, 1), np.float32)
    assert same(run(F, op, x, -one, one)[0], np.array([expected], np.float32))


def test_mulhi_and_precise_ops():
    ty = tensor(i32, 2)
    op = tt.MulhiUIOp(operands=values(ty, ty), result_types=[ty])
    a = np.array([[-1, 0x10000]], np.int32)
    assert run(F, op, a, a)[0].tolist() == [[-2, 1]]
    fy = tensor(f32, 1)
    x = np.array([[2.0]], np.float32)
    root = tt.PreciseSqrtOp(operands=values(fy), result_types=[fy])
    assert run(F, root, x)[0].tolist() == [[float(np.float32(math.sqrt(2)))]]
    for cls in (tt.PreciseDivFOp, tt.ApproxDivFOp):
        quotient = cls(operands=values(fy, fy), result_types=[fy])
        assert run(F, quotient, x, x * 1.5)[0].tolist() == [[float(np.float32(2 / 3))]]
