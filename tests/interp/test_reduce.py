"""tt.reduce and tt.scan: order, equality of the named functions with the tree, recognition."""

from __future__ import annotations

import operator
from functools import reduce as fold_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.parser import Parser

from tests.interp.op_runner import same
from xttir.dialects.context import make_context
from xttir.interp.numerics import fold
from xttir.interp.reduce import match_combine, reduce_values
from xttir.interp.scan import scan_values

FLOAT_NAMES = ["addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf"]
INT_NAMES = [n for n in fold.ELEMENTWISE if n not in FLOAT_NAMES]


def in_order(row: list, f) -> object:
    """The documented order, on Python values."""
    long = len(row) >= 512
    while long and len(row) % 8 == 0:
        size = len(row) // 8
        row = [fold_left(f, row[i::size]) for i in range(size)]
    while len(row) > 1:
        half, start = len(row) // 2, len(row) - len(row) // 2
        row = [f(row[i], row[start + i]) for i in range(half)] + row[half:start]
    return row[0]


def data(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name in INT_NAMES:
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    x = rng.standard_normal(shape).astype(np.float32)
    x[rng.random(shape) < 0.3] = 0.0
    x[rng.random(shape) < 0.3] *= -1
    return x


@given(
    st.integers(1, 40) | st.sampled_from([256, 512, 520, 1000, 1020, 1024, 4096, 8192]),
    st.integers(0, 1000),
)
def test_order_of_a_sum(n: int, seed: int):
    row = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    (got,) = reduce_values((row[None],), 1, fold.combine_of("addf"), "addf")
    assert got.shape == (1,)
    assert got[0] == in_order(list(row), operator.add)


@pytest.mark.parametrize("name", list(fold.ELEMENTWISE))
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 8), 1), ((2, 256), 1), ((5, 16, 4), 1), ((5, 4, 16), 2), ((70, 3, 8), 2), ((2, 7), 1),
     ((2, 1), 1), ((1, 130, 2), 1), ((3, 2048), 1), ((1, 512), 1), ((2, 1024, 3), 1),
     ((2, 3, 8192), 2)],
)  # fmt: skip
def test_named_reductions_and_scans_equal_the_generic_ones(name, shape, axis):
    x = data(name, shape, 1)
    combine = fold.combine_of(name)
    with np.errstate(all="ignore"):
        (fast,) = reduce_values((x,), axis, combine, name)
        (slow,) = reduce_values((x,), axis, combine)
        assert same(fast, np.ascontiguousarray(slow))
        for reverse in (False, True):
            (fast,) = scan_values((x,), axis, combine, reverse, name)
            (slow,) = scan_values((x,), axis, combine, reverse)
            assert same(fast, slow)


@pytest.mark.parametrize("name", ["addf", "mulf"])
@pytest.mark.parametrize("n", [64, 512, 1024, 8192])
def test_order_does_not_depend_on_strides(name: str, n: int):
    x = 1 + 0.01 * np.random.default_rng(n).standard_normal((3, n, 2)).astype(np.float32)
    combine = fold.combine_of(name)
    (expected,) = reduce_values((x,), 1, combine)
    reversed_ = np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    rows = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    columns = np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1)
    for laid_out in (x, reversed_, rows, rows[::-1][::-1], columns):
        assert same(reduce_values((laid_out,), 1, combine, name)[0], expected)


@pytest.mark.parametrize("name", fold.SELECTIONS)
@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((3, 16), 1), ((2, 4, 64), 2), ((2, 64, 3), 1)])
def test_argmax_and_argmin(name: str, nan: bool, shape, axis):
    rng = np.random.default_rng(2)
    values = rng.integers(-5, 5, shape)
    values = values.astype(np.float32) if "float" in name else values.astype(np.int32)
    if nan and "float" in name:
        values[rng.random(shape) < 0.1] = np.nan
    index = np.arange(shape[axis], dtype=np.int32)
    index = index.reshape([-1 if n == axis else 1 for n in range(len(shape))])
    index = np.broadcast_to(index, (1, *shape[1:]))
    fast = reduce_values((values, index), axis, fold.combine_of(name), name)
    slow = reduce_values((values, index), axis, fold.combine_of(name))
    assert all(same(f, np.ascontiguousarray(s)) for f, s in zip(fast, slow, strict=True))
    if not nan and name.endswith("left"):
        keys = values.view(np.uint32) if "unsigned" in name else values
        expected = (np.argmax if "argmax" in name else np.argmin)(keys, axis)
        assert np.array_equal(fast[1], expected)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 64])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_an_associative_function_that_does_not_commute(n: int, reverse: bool):
    # x -> a x + b, composed: the pair (a, b), exact in wrapping integers.
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-99, 99, (2, n)).astype(np.int32) for _ in range(2))

    def compose(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    got = scan_values((a, b), 1, compose, reverse)
    for p in range(2):
        pairs = list(zip(a[p].tolist(), b[p].tolist(), strict=True))
        if reverse:
            pairs.reverse()
        for k in range(n):
            total = fold_left(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), pairs[: k + 1])
            at = n - 1 - k if reverse else k
            wrapped = tuple((v + 2**31) % 2**32 - 2**31 for v in total)
            assert (got[0][p, at], got[1][p, at]) == wrapped


@pytest.mark.parametrize("n", [64, 4096])
def test_a_row_of_equal_elements_is_combined_as_such(n: int):
    x = np.broadcast_to(np.array([[[0.1], [3.3]]], np.float32), (1, 2, n))
    full = np.ascontiguousarray(x)
    for name in ("addf", None):
        (lazy,) = reduce_values((x,), 2, fold.combine_of("addf"), name)
        (real,) = reduce_values((full,), 2, fold.combine_of("addf"), name)
        assert same(np.ascontiguousarray(lazy), np.ascontiguousarray(real))


def test_repeated_axes_stay_repeated():
    x = np.broadcast_to(np.arange(8, dtype=np.float32).reshape(1, 1, 8), (1, 16, 8))
    (got,) = reduce_values((x,), 2, fold.combine_of("addf"), "addf")
    assert got.shape == (1, 1)
    assert got[0, 0] == 28


@given(
    st.sampled_from(list(fold.ELEMENTWISE)),
    st.integers(1, 6),
    st.sampled_from([1, 2, 8, 64, 256, 512, 2048]),
)
def test_one_program_at_a_time_or_together(name: str, programs: int, n: int):
    x = data(name, (programs, n, 3), n)
    combine = fold.combine_of(name)
    with np.errstate(all="ignore"):
        (together,) = reduce_values((x,), 1, combine, name)
        alone = [reduce_values((x[p : p + 1],), 1, combine, name)[0] for p in range(programs)]
        assert same(together, np.concatenate(alone))
        (together,) = scan_values((x,), 1, combine, False, name)
        alone = [scan_values((x[p : p + 1],), 1, combine, False, name)[0] for p in range(programs)]
        assert same(together, np.concatenate(alone))


REGIONS = {
    "addf": ("f32", "%r = arith.addf %a, %b : f32"),
    "maxnumf": ("f32", "%r = arith.maxnumf %b, %a : f32"),
    "maxui": ("i32", "%r = arith.maxui %a, %b : i32"),
    "xori": ("i32", "%r = arith.xori %a, %b : i32"),
    None: ("f32", "%r = arith.subf %a, %b : f32"),
}


@pytest.mark.parametrize("name", list(REGIONS))
def test_single_op_regions_are_recognised(name):
    type_, line = REGIONS[name]
    text = f"""
    %x = "test.op"() : () -> tensor<8x{type_}>
    %y = "tt.reduce"(%x) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: {type_}, %b: {type_}):
      {line}
      tt.reduce.return %r : {type_}
    }}) : (tensor<8x{type_}>) -> {type_}
    """
    assert match_combine(parse_reduce(text).combine_op) == name


def parse_reduce(text: str):
    context = make_context()
    for dialect in ("arith", "tt", "test"):
        context.load_registered_dialect(dialect)
    module = Parser(context, text).parse_module()
    return next(op for op in module.walk() if op.name == "tt.reduce")


@pytest.mark.parametrize("which", ["max", "min"])
@pytest.mark.parametrize("tie", ["left", "any"])
@pytest.mark.parametrize("type_", ["float", "signed", "unsigned"])
def test_arg_extrema_are_recognised_as_triton_prints_them(which: str, tie: str, type_: str):
    element = "f32" if type_ == "float" else "i32"
    sign = "gt" if which == "max" else "lt"
    compare = {"float": "cmpf o", "signed": "cmpi s", "unsigned": "cmpi u"}[type_] + sign
    equal = "cmpf oeq" if type_ == "float" else "cmpi eq"
    first = f"%g = arith.{compare}, %v, %w : {element}"
    chosen = "%g"
    if tie == "left":
        first = f"""
          %t = arith.{equal}, %v, %w : {element}
          %s = arith.cmpi slt, %i, %j : i32
          %u = arith.andi %t, %s : i1
          {first}
          %h = arith.ori %g, %u : i1"""
        chosen = "%h"
    text = f"""
    %x, %n = "test.op"() : () -> (tensor<8x{element}>, tensor<8xi32>)
    %y:2 = "tt.reduce"(%x, %n) <{{axis = 0 : i32}}> ({{
    ^bb0(%v: {element}, %i: i32, %w: {element}, %j: i32):
      {first}
      %p = arith.select {chosen}, %v, %w : {element}
      %q = arith.select {chosen}, %i, %j : i32
      tt.reduce.return %p, %q : {element}, i32
    }}) : (tensor<8x{element}>, tensor<8xi32>) -> ({element}, i32)
    """
    assert match_combine(parse_reduce(text).combine_op) == f"arg{which}_{type_}_{tie}"
