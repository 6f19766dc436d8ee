"""tt.dot in every operand type, against exact sums; independence of the batch and of layout."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32, f64, i8, i32

from tests.interp.launching import kinds
from tests.interp.launching import run as run_module
from tests.interp.launching import tensor as launching_tensor
from tests.interp.op_runner import same, tensor, values
from xttir.dialects import tt
from xttir.interp.dot import build_dot
from xttir.interp.numerics import blas, products
from xttir.interp.numerics.floats import BF16, E4M3FN, E5M2
from xttir.interp.types import numpy_dtype

FLOATS = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64), E4M3FN, E5M2]


def draw(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 64, 16), (1, 8, 4)])
def test_float_dots_are_sums_of_exact_products(dtype: np.dtype, shape):
    m, k, n = shape
    a, b = draw((3, m, k), dtype, 1), draw((3, k, n), dtype, 2)
    out = np.float64 if dtype == np.float64 else np.float32
    c = draw((3, m, n), np.dtype(out), 3)
    got = products.dot(a, b, c)
    assert got.dtype == out
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = np.matmul(wide_a, wide_b) + c
    bound = np.matmul(np.abs(wide_a), np.abs(wide_b)) + np.abs(c)
    assert (np.abs(got - exact) <= bound * (k + 2) * np.finfo(out).eps).all()


def test_narrow_accumulators_round_once():
    a, b = draw((1, 16, 16), np.dtype(np.float16), 1), draw((1, 16, 16), np.dtype(np.float16), 2)
    c = draw((1, 16, 16), np.dtype(np.float16), 3)
    wide = products.dot(a, b, c.astype(np.float32))
    assert same(products.dot(a, b, c), wide.astype(np.float16))


@pytest.mark.parametrize("k", [16, 1024, 4096])
def test_int8_dots_are_exact_and_wrap(k: int):
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (2, 4, k)), rng.integers(-128, 128, (2, k, 8))
    a[0, 0], b[0, :, 0] = -128, -128
    c = np.full((2, 4, 8), 2**31 - 1, np.int32)
    got = products.dot(a.astype(np.int8), b.astype(np.int8), c)
    expected = (np.matmul(a, b) + 2**31 - 1 + 2**31) % 2**32 - 2**31
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_wider_integer_dots_wrap(dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    a = rng.integers(info.min, info.max, (1, 4, 16), endpoint=True)
    b = rng.integers(info.min, info.max, (1, 16, 4), endpoint=True)
    got = products.dot(a.astype(dtype), b.astype(dtype), np.zeros((1, 4, 4), np.int32))
    expected = [
        [sum(int(x) * int(y) for x, y in zip(r, s, strict=True)) for s in b[0].T] for r in a[0]
    ]
    wrapped = [[(v + 2**31) % 2**32 - 2**31 for v in row] for row in expected]
    assert got[0].tolist() == wrapped


def test_nan_and_infinities_propagate():
    a, b = np.ones((1, 16, 16), np.float16), np.ones((1, 16, 16), np.float16)
    a[0, 0, 0], a[0, 1, 1], b[0, 1, 2] = np.nan, np.inf, 0
    with np.errstate(all="ignore"):
        got = products.dot(a, b, np.zeros((1, 1, 1), np.float32))
    assert np.isnan(got[0, 0]).all()
    assert np.isinf(got[0, 1, 0])
    assert np.isnan(got[0, 1, 2])  # inf * 0
    assert (got[0, 2:, 0] == 16).all()


def test_tf32_truncates_and_the_rounded_form_ties_away():
    x = np.array([1 + 2**-11, 1 + 2**-12, -(1 + 2**-11), np.inf, np.nan, 1e-45], np.float32)
    assert products.tf32_truncate(x)[:4].tolist() == [1.0, 1.0, -1.0, np.inf]
    assert products.tf32_round(x)[:4].tolist() == [1 + 2**-10, 1.0, -(1 + 2**-10), np.inf]
    assert np.isnan(products.tf32_round(x)[4])


@pytest.mark.parametrize(
    ("precision", "bits"),
    [("ieee", 22), ("tf32", 9), ("tf32x3", 19), ("bf16x3", 15), ("bf16x6", 21)],
)
def test_input_precisions(precision: str, bits: int):
    a, b = draw((2, 32, 16), np.dtype(np.float32), 5), draw((2, 16, 32), np.dtype(np.float32), 6)
    got = products.dot(a, b, np.zeros((1, 1, 1), np.float32), precision)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(got - wide_a @ wide_b) / (np.abs(wide_a) @ np.abs(wide_b))
    assert error.max() <= 2.0**-bits
    if precision in ("tf32", "bf16x3"):  # and no better than that: the operands did lose bits
        assert error.max() > 2.0 ** (-bits - 6)


def test_splitting_drops_the_nan_of_infinite_operands():
    a, b = np.ones((1, 16, 16), np.float32), np.ones((1, 16, 16), np.float32)
    a[0, 0, 0] = np.inf
    with np.errstate(all="ignore"):
        for precision in ("tf32x3", "bf16x3", "bf16x6"):
            got = products.dot(a, b, np.zeros((1, 1, 1), np.float32), precision)
            assert np.isinf(got[0, 0]).all()
            assert (got[0, 1:] == 16).all()


sizes = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


@given(sizes, sizes, sizes, st.integers(1, 4), st.sampled_from(FLOATS), st.integers(0, 99))
def test_a_product_does_not_depend_on_its_company_or_layout(m, k, n, programs, dtype, seed):
    a, b = draw((programs, m, k), dtype, seed), draw((programs, k, n), dtype, seed + 1)
    c = np.zeros((1, 1, 1), np.float64 if dtype == np.float64 else np.float32)
    together = products.dot(a, b, c)
    alone = [products.dot(a[p : p + 1].copy(), b[p : p + 1].copy(), c) for p in range(programs)]
    assert same(together, np.concatenate(alone))
    uniform = products.dot(a, b[:1], c)
    assert same(uniform[:1], together[:1])
    turned = products.dot(a, np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2), c)
    assert same(turned, together)
    wide = np.zeros((programs, m, 2 * k + 1), dtype)
    wide[:, :, 1 : k + 1] = a
    assert same(products.dot(wide[:, :, 1 : k + 1], b, c), together)


def test_products_do_not_depend_on_threads():
    a, b = (
        draw((2, 256, 128), np.dtype(np.float32), 1),
        draw((2, 128, 256), np.dtype(np.float32), 2),
    )
    with blas.one_thread():
        inner = np.matmul(a, b)
    assert same(blas.matmul(a, b), inner)


@pytest.mark.parametrize(
    ("ta", "tc"), [(f16, f32), (bf16, f32), (f32, f32), (f64, f64), (i8, i32), (f16, f16)]
)
@pytest.mark.parametrize("stack", [(), (2,)])
def test_op_takes_lazy_operands_and_stacks(ta, tc, stack):
    a, b, c = values(
        tensor(ta, *stack, 16, 8), tensor(ta, *stack, 8, 32), tensor(tc, *stack, 16, 32)
    )
    op = tt.DotOp(operands=[a, b, c], result_types=[c.type])
    one = np.ones((1,) * (len(stack) + 3), numpy_dtype(ta))
    zero = np.zeros((1,) * (len(stack) + 3), numpy_dtype(tc))
    frame = [one, one, zero, None]
    build_dot(None, op, (0, 1, 2), (3,))(SimpleNamespace(tainted=False), frame)  # type: ignore
    got = frame[3]
    assert got.shape == (1, *stack, 16, 32)
    assert (got.astype(np.float64) == 8).all()


CHAIN = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#right = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:80"} {
  tt.func public @k(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %c: !tt.ptr<f32>) {
    %m = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %k = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %kd = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %n = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
    %m1 = tt.expand_dims %m {axis = 1 : i32} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<16x1xi32, #blocked>
    %n0 = tt.expand_dims %n {axis = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x16xi32, #blocked>
    %k0 = tt.expand_dims %k {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x64xi32, #blocked>
    %k1 = tt.expand_dims %kd {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>> -> tensor<64x1xi32, #blocked>
    %width = arith.constant dense<64> : tensor<16x1xi32, #blocked>
    %n16 = arith.constant dense<16> : tensor<64x1xi32, #blocked>
    %m16 = arith.constant dense<16> : tensor<16x1xi32, #blocked>
    %acc0 = arith.constant dense<0.0> : tensor<16x16xf32, #blocked>
    %as = tt.splat %a : !tt.ptr<f16> -> tensor<16x64x!tt.ptr<f16>, #blocked>
    %bs = tt.splat %b : !tt.ptr<f16> -> tensor<64x16x!tt.ptr<f16>, #blocked>
    %mw = arith.muli %m1, %width : tensor<16x1xi32, #blocked>
    %mb = tt.broadcast %mw : tensor<16x1xi32, #blocked> -> tensor<16x64xi32, #blocked>
    %kb = tt.broadcast %k0 : tensor<1x64xi32, #blocked> -> tensor<16x64xi32, #blocked>
    %ao = arith.addi %mb, %kb : tensor<16x64xi32, #blocked>
    %kn = arith.muli %k1, %n16 : tensor<64x1xi32, #blocked>
    %kbb = tt.broadcast %kn : tensor<64x1xi32, #blocked> -> tensor<64x16xi32, #blocked>
    %nb = tt.broadcast %n0 : tensor<1x16xi32, #blocked> -> tensor<64x16xi32, #blocked>
    %bo = arith.addi %kbb, %nb : tensor<64x16xi32, #blocked>
    %pa = tt.addptr %as, %ao : tensor<16x64x!tt.ptr<f16>, #blocked>, tensor<16x64xi32, #blocked>
    %pb = tt.addptr %bs, %bo : tensor<64x16x!tt.ptr<f16>, #blocked>, tensor<64x16xi32, #blocked>
    %x = tt.load %pa : tensor<16x64x!tt.ptr<f16>, #blocked>
    %y = tt.load %pb : tensor<64x16x!tt.ptr<f16>, #blocked>
    %sx = ttg.local_alloc %x : (tensor<16x64xf16, #blocked>) -> !ttg.memdesc<16x64xf16, #shared, #smem>
    %sy = ttg.local_alloc %y : (tensor<64x16xf16, #blocked>) -> !ttg.memdesc<64x16xf16, #shared, #smem>
STEPS
    %cm = arith.muli %m1, %m16 : tensor<16x1xi32, #blocked>
    %cmb = tt.broadcast %cm : tensor<16x1xi32, #blocked> -> tensor<16x16xi32, #blocked>
    %cnb = tt.broadcast %n0 : tensor<1x16xi32, #blocked> -> tensor<16x16xi32, #blocked>
    %co = arith.addi %cmb, %cnb : tensor<16x16xi32, #blocked>
    %cs = tt.splat %c : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>, #blocked>
    %pc = tt.addptr %cs, %co : tensor<16x16x!tt.ptr<f32>, #blocked>, tensor<16x16xi32, #blocked>
    tt.store %pc, %accLAST : tensor<16x16x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
"""  # noqa: E501

STEP = """
    %sxN = ttg.memdesc_subslice %sx[0, OFF] : !ttg.memdesc<16x64xf16, #shared, #smem> -> !ttg.memdesc<16xKKxf16, #shared, #smem, 16x64>
    %syN = ttg.memdesc_subslice %sy[OFF, 0] : !ttg.memdesc<64x16xf16, #shared, #smem> -> !ttg.memdesc<KKx16xf16, #shared, #smem, 64x16>
    %xN = ttg.local_load %sxN : !ttg.memdesc<16xKKxf16, #shared, #smem, 16x64> -> tensor<16xKKxf16, #left>
    %yN = ttg.local_load %syN : !ttg.memdesc<KKx16xf16, #shared, #smem, 64x16> -> tensor<KKx16xf16, #right>
    %accNEXT = tt.dot %xN, %yN, %accN : tensor<16xKKxf16, #left> * tensor<KKx16xf16, #right> -> tensor<16x16xf32, #blocked>
"""  # noqa: E501


def product(steps: str, last: int, k: int, valid: np.ndarray | None = None):
    """A 16x64 by 64x16 product in `last` dots, which `steps` is the text of."""
    text = CHAIN.replace("STEPS", steps).replace("LAST", str(last)).replace("KK", str(k))
    a, b = draw((16, 64), np.dtype(np.float16), 5), draw((64, 16), np.dtype(np.float16), 6)
    c = np.zeros((16, 16), np.float32)
    given = a if valid is None else launching_tensor(a, "a", valid)
    return run_module(text, (1,), {"a": given, "b": b, "c": c}), c, (a, b)


def split_product(pieces: int, valid: np.ndarray | None = None):
    """The product along k in so many dots of slices that accumulate one onto the other."""
    k = 64 // pieces
    steps = ""
    for n in range(pieces):
        step = STEP.replace("NEXT", str(n + 1)).replace("OFF", str(n * k))
        steps += re.sub(r"N(?=[ ,])", str(n), step)
    return product(steps, pieces, k, valid)[:2]


def test_dots_that_no_compiler_split_round_one_after_the_other() -> None:
    """Two dots of the source stay two, wherever a pass puts them."""
    whole = STEP.replace("OFF", "0").replace("KK", "64")
    lines = re.sub(r"N(?=[ ,])", "0", whole.replace("NEXT", "1"))
    again = lines.splitlines()[-1].replace("%acc0", "%acc1").replace("%acc1 =", "%acc2 =")
    result, got, (a, b) = product(f"{lines}{again}\n", 2, 64)
    assert not result.faults
    wide = a.astype(np.float32)[None], b.astype(np.float32)[None]
    once = products.dot(*wide, np.zeros((1, 16, 16), np.float32))
    np.testing.assert_array_equal(got, products.dot(*wide, once)[0])


def test_dots_split_along_k_give_the_same_bits() -> None:
    result, whole = split_product(1)
    assert not result.faults
    for pieces in (2, 4):
        _, parts = split_product(pieces)
        np.testing.assert_array_equal(parts.view(np.int32), whole.view(np.int32))


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_undefined_operands_of_split_dots(pieces: int) -> None:
    """One element of `a` that nobody wrote spoils its row of the product."""
    valid = np.ones(16 * 64 * 2, bool)
    valid[2 * (64 * 3 + 40) :][:2] = False
    result, _ = split_product(pieces, valid)
    assert kinds(result) == ["uninitialized"]
    assert result.faults[0].witness["lanes"][0][0] == 3
