"""arith on arrays against Python integers and exact rational arithmetic."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64

from tests.interp.op_runner import Bench, run, same, tensor, values
from xttir.dialects import arith
from xttir.interp.arith import ArithFunctions
from xttir.interp.numerics import casts, choose, floating, integer
from xttir.interp.numerics.floats import BF16, E4M3FN, E5M2

F = ArithFunctions()
INTS = {8: i8, 16: i16, 32: i32, 64: i64}


def wrap(x: int, width: int, signed: bool = True) -> int:
    x &= (1 << width) - 1
    return x - (1 << width) if signed and x >> (width - 1) else x


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def interesting(width: int) -> st.SearchStrategy[int]:
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    edge = st.sampled_from([low, low + 1, -2, -1, 0, 1, 2, width - 1, width, width + 1, high])
    return st.one_of(edge, st.integers(low, high), st.integers(-20, 20).filter(lambda v: v >= low))


pairs = st.sampled_from([8, 16, 32, 64]).flatmap(
    lambda w: st.tuples(st.just(w), interesting(w), interesting(w))
)


def one(fn, width: int, a: int, b: int):
    dtype = np.dtype(f"int{width}")
    with np.errstate(all="ignore"):
        return fn(np.array([a], dtype), np.array([b], dtype))


@given(pairs)
def test_integer_arithmetic_wraps(case):
    w, a, b = case
    assert one(integer.add, w, a, b)[0] == wrap(a + b, w)
    assert one(integer.sub, w, a, b)[0] == wrap(a - b, w)
    assert one(integer.mul, w, a, b)[0] == wrap(a * b, w)
    assert one(integer.mulhi_signed, w, a, b)[0] == (a * b) >> w
    ua, ub = wrap(a, w, False), wrap(b, w, False)
    assert one(integer.mulhi_unsigned, w, a, b)[0] == wrap((ua * ub) >> w, w)


@given(pairs)
def test_division_and_remainder(case):
    w, a, b = case
    ua, ub = wrap(a, w, False), wrap(b, w, False)
    low = -(1 << (w - 1))
    signed_bad = b == 0 or (a == low and b == -1)
    for fn, expected in (
        (integer.div_signed, lambda: trunc_div(a, b)),
        (integer.rem_signed, lambda: a - trunc_div(a, b) * b),
        (integer.floordiv_signed, lambda: a // b),
        (integer.ceildiv_signed, lambda: -(-a // b)),
    ):
        value, bad = one(fn, w, a, b)
        assert (bad is not None and bool(bad[0])) == signed_bad
        if not signed_bad:
            assert value[0] == expected()
    for fn, expected in (
        (integer.div_unsigned, lambda: ua // ub),
        (integer.rem_unsigned, lambda: ua % ub),
        (integer.ceildiv_unsigned, lambda: -(-ua // ub)),
    ):
        value, bad = one(fn, w, a, b)
        assert (bad is not None and bool(bad[0])) == (b == 0)
        if b:
            assert value[0] == wrap(expected(), w)


@given(pairs)
def test_shifts(case):
    w, a, b = case
    ub = wrap(b, w, False)
    ua = wrap(a, w, False)
    for fn, inside, beyond in (
        (integer.shl, lambda: wrap(a << ub, w), 0),
        (integer.shr_unsigned, lambda: wrap(ua >> ub, w), 0),
        (integer.shr_signed, lambda: a >> ub, -1 if a < 0 else 0),
    ):
        value, bad = one(fn, w, a, b)
        assert (bad is not None) == (ub >= w)
        assert value[0] == (inside() if ub < w else beyond)


@given(pairs)
def test_comparisons_extrema_and_bits(case):
    w, a, b = case
    ua, ub = wrap(a, w, False), wrap(b, w, False)
    for name, expected in {
        "eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
        "ult": ua < ub, "ule": ua <= ub, "ugt": ua > ub, "uge": ua >= ub,
    }.items():  # fmt: skip
        assert one(lambda x, y, p=name: integer.compare(p, x, y), w, a, b)[0] == expected
    assert one(integer.max_signed, w, a, b)[0] == max(a, b)
    assert one(integer.min_signed, w, a, b)[0] == min(a, b)
    assert one(integer.max_unsigned, w, a, b)[0] == wrap(max(ua, ub), w)
    assert one(integer.min_unsigned, w, a, b)[0] == wrap(min(ua, ub), w)
    x = np.array([a], f"int{w}")
    assert integer.popcount(x)[0] == ua.bit_count()
    assert integer.leading_zeros(x)[0] == w - ua.bit_length()
    assert integer.trailing_zeros(x)[0] == (w if ua == 0 else (ua & -ua).bit_length() - 1)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_i1_is_one_bit(a: bool, b: bool):
    x, y = np.array([a]), np.array([b])
    sa, sb = -int(a), -int(b)
    assert integer.add(x, y)[0] == (a ^ b) == integer.sub(x, y)[0]
    assert integer.mul(x, y)[0] == (a & b)
    assert integer.compare("slt", x, y)[0] == (sa < sb)
    assert integer.compare("ult", x, y)[0] == (int(a) < int(b))
    assert integer.max_signed(x, y)[0] == (max(sa, sb) != 0)
    assert integer.min_signed(x, y)[0] == (min(sa, sb) != 0)
    assert integer.max_unsigned(x, y)[0] == (a | b)
    assert integer.extend_signed(x, np.dtype(np.int32))[0] == sa
    assert integer.extend_unsigned(x, np.dtype(np.int32))[0] == int(a)
    assert casts.signed_to_float(x, np.dtype(np.float32))[0] == sa
    assert casts.unsigned_to_float(x, np.dtype(np.float32))[0] == int(a)


def test_division_marks_lanes_and_says_why():
    op = arith.DivSIOp(*values(tensor(i32, 4), tensor(i32, 4)))
    bench = Bench()
    a = np.array([[7, -7, 5, 9]], np.int32)
    (value,) = run(F, op, a, np.array([[2, 2, 0, 3]], np.int32), bench=bench)
    assert value.tolist() == [[3, -3, -1, 3]]
    ((lanes, why),) = bench.marked
    assert lanes.tolist() == [[False, False, True, False]]
    assert why == "division by zero"


def test_broken_promises_are_undefined():
    a, b = values(i32, i32)
    op = arith.AddiOp(a, b, overflow=arith.IntegerOverflowAttr((_flag("nsw"),)))
    bench = Bench()
    big = np.array([2**31 - 1, 5], np.int32)
    run(F, op, big, np.array([1, 1], np.int32), bench=bench)
    assert bench.marked[0][0].tolist() == [True, False]


def _flag(name: str):
    from xdsl.dialects.arith import IntegerOverflowFlag

    return IntegerOverflowFlag(name)


@given(pairs, st.sampled_from(["addi", "subi", "muli", "shli"]))
def test_overflow_lanes(case, name):
    w, a, b = case
    if name == "shli":
        b = wrap(b, w, False) % w
    value = {
        "addi": operator.add,
        "subi": operator.sub,
        "muli": operator.mul,
        "shli": operator.lshift,
    }[name]
    x, y = np.array([a], f"int{w}"), np.array([b], f"int{w}")
    got = np.array([wrap(value(a, b), w)], f"int{w}")
    low, high = -(1 << (w - 1)), (1 << (w - 1)) - 1
    signed = casts.overflows(name, (x, y), got, {"nsw"}) is not None
    assert signed == (not low <= value(a, b) <= high)
    ua, ub = wrap(a, w, False), wrap(b, w, False)
    unsigned = casts.overflows(name, (x, y), got, {"nuw"}) is not None
    assert unsigned == (not 0 <= value(ua, ub) < 1 << w)


# Floats -------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-40, 65504.0]


@pytest.mark.parametrize("x", SPECIAL)
@pytest.mark.parametrize("y", SPECIAL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16])
def test_extrema_on_nan_and_signed_zeros(x: float, y: float, dtype):
    with np.errstate(all="ignore"):
        a, b = np.array([x]).astype(dtype), np.array([y]).astype(dtype)
        x, y = float(a[0]), float(b[0])
        number_max = max(x, y, key=lambda v: (v, math.copysign(1, v)))
        number_min = min(x, y, key=lambda v: (v, math.copysign(1, v)))
        if math.isnan(x) or math.isnan(y):
            other = y if math.isnan(x) else x
            cases = [
                (floating.maximum, math.nan),
                (floating.minimum, math.nan),
                (floating.max_number, other),
                (floating.min_number, other),
            ]
        else:
            cases = [
                (floating.maximum, number_max),
                (floating.minimum, number_min),
                (floating.max_number, number_max),
                (floating.min_number, number_min),
            ]
        for fn, expected in cases:
            assert same(fn(a, b), np.array([expected]).astype(dtype)), fn


@pytest.mark.parametrize("predicate", [p.keyword for p in arith.CmpFPredicate])
def test_float_predicates(predicate: str):
    a = np.array([1.0, 2.0, 1.0, math.nan, 1.0, math.nan, 0.0], np.float32)
    b = np.array([2.0, 1.0, 1.0, 1.0, math.nan, math.nan, -0.0], np.float32)
    less, greater = a < b, a > b
    unordered = np.isnan(a) | np.isnan(b)
    equal = (a == b) & ~unordered
    relation = {"eq": equal, "gt": greater, "ge": greater | equal, "lt": less, "le": less | equal}
    relation["ne"] = less | greater
    if predicate in ("true", "false"):
        expected = np.full(a.shape, predicate == "true")
    elif predicate == "ord":
        expected = ~unordered
    elif predicate == "uno":
        expected = unordered
    else:
        expected = relation[predicate[1:]] | (unordered if predicate[0] == "u" else False)
    assert floating.compare(predicate, a, b).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16, E4M3FN, E5M2])
@pytest.mark.parametrize(
    ("fn", "exact"),
    [(floating.add, operator.add), (floating.mul, operator.mul), (floating.div, operator.truediv)],
)
def test_narrow_arithmetic_rounds_once(dtype, fn, exact):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256**dtype.itemsize, (2, 500)).astype(f"u{dtype.itemsize}")
    a, b = codes[0].view(dtype), codes[1].view(dtype)
    with np.errstate(all="ignore"):
        got = fn(a, b).astype(np.float64)
        largest = float(ml_dtypes.finfo(dtype).max)
        exact_a, exact_b = a.astype(float), b.astype(float)
    for x, y, r in zip(exact_a, exact_b, got, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)) or (y == 0 and exact is operator.truediv):
            continue
        true = exact(Fraction(x), Fraction(y))
        if not math.isfinite(r):
            assert abs(true) > largest
            continue
        here = np.array([r]).astype(dtype)
        for to in (np.inf, -np.inf):
            near = float(_step(here, to)[0])
            if math.isfinite(near):
                assert abs(true - Fraction(r)) <= abs(true - Fraction(near))


def _step(a: np.ndarray, to: float) -> np.ndarray:
    """The neighbour of a narrow float in the direction of `to`."""
    return np.nextafter(a, np.array([to]).astype(a.dtype))


# Casts --------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**64 - 1) | st.integers(-(2**20), 2**20).map(lambda v: v << 40 | 1))
def test_integers_to_floats_round_once(v: int):
    for dtype in (np.dtype(np.float32), np.dtype(np.float64), BF16, np.dtype(np.float16)):
        with np.errstate(all="ignore"):
            if v < 2**63:
                got = casts.signed_to_float(np.array([v], np.int64), dtype)
            else:
                got = casts.unsigned_to_float(np.array([v], np.uint64).view(np.int64), dtype)
        r = float(got[0].astype(np.float64))
        if not math.isfinite(r):
            assert abs(v) >= 65520
            continue
        for to in (np.inf, -np.inf):
            near = float(_step(got, to)[0])
            if math.isfinite(near):
                assert abs(v - Fraction(r)) <= abs(v - Fraction(near))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_floats_to_integers_saturate_and_are_undefined_out_of_range(width: int, dtype):
    low, high = -(2 ** (width - 1)), 2 ** (width - 1)
    xs = [
        0.0,
        -0.9,
        0.9,
        1.5,
        -1.5,
        low,
        low - 1.0,
        low - 0.5,
        high,
        high - 1.0,
        high - 0.5,
        2 * high,
    ]
    xs += [2 * high - 1.0, math.nan, math.inf, -math.inf, 1e30, -1e30, 3e4]
    with np.errstate(all="ignore"):
        a = np.array(xs).astype(dtype)
        exact = a.astype(np.float64)
        signed, bad = casts.float_to_signed(a, np.dtype(f"int{width}"))
        unsigned, ubad = casts.float_to_unsigned(a, np.dtype(f"int{width}"))
    for n, x in enumerate(exact):
        for value, lanes, lo, hi in ((signed, bad, low, high), (unsigned, ubad, 0, 2 * high)):
            inside = math.isfinite(x) and lo <= math.trunc(x) < hi
            assert bool(lanes[n]) == (not inside)
            highest = dtype is np.float64 or width == 64
            nan = 1 << (width - 1) if highest else 0
            clamped = nan if math.isnan(x) else (hi - 1 if x > 0 else lo)
            expected = math.trunc(x) if inside else clamped
            assert int(value[n]) == wrap(expected, width)


def test_truncf_takes_its_rounding_mode():
    (x,) = values(tensor(f32, 2))
    a = np.array([[1.0 + 2**-9, -(1.0 + 2**-9)]], np.float32)
    step = 2**-7
    for mode, expected in {
        None: (1.0, -1.0),
        arith.RoundingMode.TO_NEAREST_EVEN: (1.0, -1.0),
        arith.RoundingMode.DOWNWARD: (1.0, -1.0 - step),
        arith.RoundingMode.UPWARD: (1.0 + step, -1.0),
        arith.RoundingMode.TOWARD_ZERO: (1.0, -1.0),
    }.items():
        op = arith.TruncFOp(x, tensor(bf16, 2))
        if mode is not None:
            op.roundingmode = mode.attr
        (got,) = run(F, op, a)
        assert got.astype(float).tolist() == [list(expected)]
    tie = np.array([[1.0 + 2**-8, -(1.0 + 2**-8)]], np.float32)
    op = arith.TruncFOp(x, tensor(bf16, 2))
    op.roundingmode = arith.RoundingMode.TO_NEAREST_AWAY.attr
    assert run(F, op, tie)[0].astype(float).tolist() == [[1 + step, -1 - step]]


def test_f64_to_bf16_rounds_once():
    # Just above a bf16 midpoint, by less than f32 can see.
    a = np.array([1.0 + 2**-8 + 2**-40, 1.0 + 2**-8])
    assert casts.float_to_float(a, BF16).astype(float).tolist() == [1.0 + 2**-7, 1.0]


def test_bitcast_and_widths():
    (x,) = values(tensor(f32, 1))
    (got,) = run(F, arith.BitcastOp(x, tensor(i32, 1)), np.array([[1.0]], np.float32))
    assert got.tolist() == [[0x3F800000]]
    (y,) = values(tensor(i1, 2))
    (ext,) = run(F, arith.ExtSIOp(y, tensor(i8, 2)), np.array([[True, False]]))
    assert ext.tolist() == [[-1, 0]]
    (z,) = values(tensor(i64, 1))
    (cut,) = run(F, arith.TruncIOp(z, tensor(i1, 1)), np.array([[2]], np.int64))
    assert cut.tolist() == [[False]]


@pytest.mark.parametrize("size", [7, 5000])
@pytest.mark.parametrize("ty", [i8, i32, i64, f16, bf16, f32, f64, i1])
def test_select_is_where(size: int, ty):
    from xttir.interp.types import numpy_dtype

    rng = np.random.default_rng(size)
    a, b = (rng.integers(0, 2, (1, size)).astype(numpy_dtype(ty)) for _ in range(2))
    cond = rng.random((1, size)) < 0.5
    assert same(choose.select(cond, a, b), np.where(cond, a, b))
    column = rng.random((6, 1)) < 0.5
    assert same(choose.select(column, a, b[:, :1]), np.where(column, a, b[:, :1]))
    programs = np.array([True, False, True])
    expected = np.where(programs[:, None], a, b)
    assert same(np.broadcast_to(choose.select(programs, a, b), expected.shape), expected)


@given(st.integers(1, 5), st.integers(1, 9))
def test_one_program_at_a_time_or_together(programs: int, n: int):
    rng = np.random.default_rng(programs * 100 + n)
    a, b = (rng.integers(-50, 50, (programs, n)).astype(np.int32) for _ in range(2))
    x, y = (rng.standard_normal((programs, n)).astype(np.float32) for _ in range(2))
    ints, floats = values(tensor(i32, n), tensor(i32, n)), values(tensor(f32, n), tensor(f32, n))
    for cls in (arith.DivSIOp, arith.RemSIOp, arith.MuliOp, arith.MaxUIOp, arith.ShLIOp):
        _same_in_batches(cls(*ints), a, b)
    for cls in (arith.AddfOp, arith.DivfOp, arith.RemfOp, arith.MaximumfOp, arith.MinnumfOp):
        _same_in_batches(cls(*floats), x, y)


def _same_in_batches(op, a: np.ndarray, b: np.ndarray) -> None:
    (together,) = run(F, op, a, b)
    alone = np.concatenate([run(F, op, a[i : i + 1], b[i : i + 1])[0] for i in range(len(a))])
    assert same(together, alone)
    (uniform,) = run(F, op, a, b[:1])
    assert same(uniform, run(F, op, a, np.broadcast_to(b[:1], b.shape))[0])


def test_constants_have_one_program_and_lazy_splats():
    from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr

    def constant(attr) -> np.ndarray:
        return run(F, arith.ConstantOp(attr))[0]

    assert same(constant(IntegerAttr(-3, i32)), np.array([-3], np.int32))
    assert same(constant(FloatAttr(0.5, bf16)), np.array([0.5]).astype(BF16))
    splat = DenseIntOrFPElementsAttr.from_list(tensor(f32, 4, 8), [2.0])
    assert same(constant(splat), np.full((1, 1, 1), 2.0, np.float32))
    listed = DenseIntOrFPElementsAttr.from_list(tensor(i32, 2, 2), [1, 2, 3, 4])
    assert same(constant(listed), np.array([[[1, 2], [3, 4]]], np.int32))
