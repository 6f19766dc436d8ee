"""tt.dot_scaled in every element type and packing, against exact sums in f64."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, bf16, f32, i1, i8

from tests.interp.op_runner import run, same, tensor, values
from xttir.dialects import tt
from xttir.interp.dot_scaled import DotScaledFunctions, dot_scaled
from xttir.interp.numerics.microscaling import ELEMENTS

M, N, K, GROUP = 16, 32, 64, 32


def operand(type_: str, shape: tuple[int, ...], axis: int, seed: int):
    """(stored operand, its exact values in f64); e2m1 is packed along `axis`."""
    rng = np.random.default_rng(seed)
    if type_ != "e2m1":
        x = rng.standard_normal(shape).astype(np.float32).astype(ELEMENTS[type_])
        return x, x.astype(np.float64)
    codes = rng.integers(0, 16, shape).astype(np.uint8)
    exact = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    low, high = (
        np.take(codes, range(0, shape[axis], 2), axis),
        np.take(codes, range(1, shape[axis], 2), axis),
    )
    return (low | high << 4).view(np.int8), exact


def e8m0(shape: tuple[int, ...], seed: int):
    codes = np.random.default_rng(seed).integers(120, 134, shape)
    return codes.astype(np.uint8).view(np.int8), 2.0 ** (codes - 127)


@pytest.mark.parametrize(
    ("a_type", "b_type"),
    [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"), ("e2m1", "e4m3"), ("bf16", "e2m1"),
     ("e4m3", "fp16"), ("e5m2", "bf16")],
)  # fmt: skip
@pytest.mark.parametrize("a_k", [True, False])
@pytest.mark.parametrize("b_k", [True, False])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_values(a_type: str, b_type: str, a_k: bool, b_k: bool, stack):
    batch = (3, *stack)
    a, a_true = operand(a_type, (*batch, M, K), -1 if a_k else -2, 1)
    b, b_true = operand(b_type, (*batch, K, N), -2 if b_k else -1, 2)
    a_scale, sa = e8m0((*batch, M, K // GROUP), 3)
    b_scale, sb = e8m0((*batch, N, K // GROUP), 4)
    if a_type in ("bf16", "fp16"):
        a_scale, sa = None, np.ones((*batch, M, K // GROUP))
    if b_type in ("bf16", "fp16"):
        b_scale, sb = None, np.ones((*batch, N, K // GROUP))
    c = np.random.default_rng(5).standard_normal((3, *stack, M, N)).astype(np.float32)
    got = dot_scaled(a, a_scale, a_type, a_k, b, b_scale, b_type, b_k, c)
    left = a_true * np.repeat(sa, GROUP, -1)
    right = b_true * np.repeat(sb, GROUP, -1).swapaxes(-1, -2)
    bound = np.abs(left) @ np.abs(right) + np.abs(c)
    assert (np.abs(got - (left @ right + c)) <= bound * K * 2.0**-24).all()


def test_nan_scale_and_groups_of_16():
    a, a_true = operand("e2m1", (1, M, K), -1, 1)
    b, b_true = operand("e2m1", (1, K, N), -2, 2)
    scale = np.full((1, M, K // 16), 1.5, np.float32).astype(ml_dtypes.float8_e4m3fn)
    c = np.zeros((1, 1, 1), np.float32)
    got = dot_scaled(a, scale, "e2m1", True, b, None, "e2m1", True, c)
    assert np.allclose(got, 1.5 * (a_true @ b_true))
    bad = np.full((1, M, K // GROUP), 127, np.uint8)
    bad[0, 3, 1] = 255
    got = dot_scaled(a, bad.view(np.int8), "e2m1", True, b, None, "e2m1", True, c)
    assert np.isnan(got[0, 3]).all()
    assert not np.isnan(got[0, 2]).any()


def build(a_type, b_type, a_ty, b_ty, scales):
    operands = values(a_ty, b_ty, tensor(f32, M, N), *scales)
    given = iter(operands[3:])
    return tt.DotScaledOp(
        operands=[
            *operands[:3],
            [next(given)] if scales else [],
            [next(given)] if len(scales) > 1 else [],
        ],
        result_types=[tensor(f32, M, N)],
        properties={
            "a_elem_type": tt.ScaleDotElemType.of_keyword(a_type).attr,
            "b_elem_type": tt.ScaleDotElemType.of_keyword(b_type).attr,
            "fastMath": IntegerAttr(0, i1),
            "lhs_k_pack": IntegerAttr(1, i1),
            "rhs_k_pack": IntegerAttr(1, i1),
        },
    )


def test_op_with_and_without_scales_and_in_any_batch():
    f = DotScaledFunctions()
    scale_type = tensor(i8, M, K // GROUP)
    both = build(
        "e2m1", "e2m1", tensor(i8, M, K // 2), tensor(i8, K // 2, N), [scale_type, tensor(i8, N, 2)]
    )
    left = build("e2m1", "bf16", tensor(i8, M, K // 2), tensor(bf16, K, N), [scale_type])
    a, _ = operand("e2m1", (3, M, K), -1, 1)
    b, _ = operand("e2m1", (3, K, N), -2, 2)
    wide, _ = operand("bf16", (3, K, N), -2, 2)
    sa, sb = e8m0((3, M, 2), 3)[0], e8m0((3, N, 2), 4)[0]
    c = np.zeros((1, 1, 1), np.float32)
    for op, args in ((both, (a, b, c, sa, sb)), (left, (a, wide, c, sa))):
        (together,) = run(f, op, *args)
        for p in range(3):
            (alone,) = run(f, op, *(x if x is c else x[p : p + 1] for x in args))
            assert same(alone, together[p : p + 1])
    uniform = np.full((1, 1, 1), 127, np.int8)
    (got,) = run(f, both, a, b, c, uniform, uniform)
    full = [np.full(s, 127, np.int8) for s in ((3, M, 2), (3, N, 2))]
    assert same(got, run(f, both, a, b, c, *full)[0])


def test_element_types_are_all_known():
    assert set(ELEMENTS) == {t.keyword for t in tt.ScaleDotElemType}
    assert len(list(itertools.product(ELEMENTS, ELEMENTS))) == 49
