"""Rearranging ops against numpy, on full arrays and on arrays whose size-1 dims stand for more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32

from tests.interp import launching
from tests.interp.op_runner import Bench, run, same, tensor, values
from xttir.diagnostics import Kind, Policy
from xttir.dialects import tt
from xttir.interp.numerics import rearrange
from xttir.interp.shape_ops import ShapeFunctions

F = ShapeFunctions()


def lazy(shape: tuple[int, ...], cut: list[bool], batch: int, seed: int = 0) -> np.ndarray:
    """An array (batch, *shape) with the dims in `cut` of size 1."""
    sizes = tuple(1 if c else n for n, c in zip(shape, cut, strict=True))
    return np.random.default_rng(seed).integers(0, 1000, (batch, *sizes)).astype(np.int32)


powers = st.sampled_from([1, 2, 4, 8])
shapes = st.lists(powers, min_size=1, max_size=4)


@given(shapes, st.data())
def test_reshape(old, data):
    total = math.prod(old)
    new = []
    while math.prod(new) < total or data.draw(st.booleans()):
        new.append(
            data.draw(
                st.sampled_from([n for n in (1, 2, 4, 8) if total % (math.prod(new) * n) == 0])
            )
        )
        if len(new) > 6:
            break
    if math.prod(new) != total or not new:
        new = [total]
    cut = data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old)))
    a = lazy(tuple(old), cut, data.draw(st.integers(1, 3)))
    got = rearrange.reshape(a, tuple(old), tuple(new))
    full = np.broadcast_to(a, (a.shape[0], *old)).reshape(a.shape[0], *new)
    assert np.array_equal(np.broadcast_to(got, full.shape), full)


def test_reshape_keeps_what_repeats_small():
    a = np.arange(4, dtype=np.int32).reshape(1, 1, 4)
    assert rearrange.reshape(a, (64, 4), (8, 8, 4)).shape == (1, 1, 1, 4)
    assert rearrange.reshape(a[:, :, :1], (64, 4), (256,)).shape == (1, 1)


def test_trans():
    a = lazy((2, 4, 8), [False, True, False], 3)
    op = tt.TransOp(
        operands=values(tensor(i32, 2, 4, 8)),
        result_types=[tensor(i32, 8, 2, 4)],
        properties={"order": DenseArrayBase.from_list(i32, [2, 0, 1])},
    )
    (got,) = run(F, op, a)
    full = np.broadcast_to(a, (3, 2, 4, 8)).transpose(0, 3, 1, 2)
    assert np.array_equal(np.broadcast_to(got, full.shape), full)


@given(
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.sampled_from([(1, 1), (1, 3), (3, 1), (3, 3)]),
)
def test_cat_join_split(cut, batches):
    a, b = lazy((4, 8), cut, batches[0], 1), lazy((4, 8), [False, cut[0]], batches[1], 2)
    batch = max(batches)
    full_a, full_b = (np.broadcast_to(x, (batch, 4, 8)) for x in (a, b))
    assert np.array_equal(rearrange.cat(a, b, (4, 8)), np.concatenate([full_a, full_b], 1))
    joined = rearrange.join(a, b)
    expected = np.stack([full_a, full_b], -1)
    assert np.array_equal(np.broadcast_to(joined, expected.shape), expected)
    left, right = rearrange.split(joined)
    assert np.array_equal(np.broadcast_to(left, full_a.shape), full_a)
    assert np.array_equal(np.broadcast_to(right, full_b.shape), full_b)
    same_twice = rearrange.split(lazy((4, 2), [False, True], 1))
    assert np.array_equal(*same_twice)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis: int):
    shape, index_shape = (8, 4), ((16, 4) if axis == 0 else (8, 16))
    rng = np.random.default_rng(axis)
    source = rng.standard_normal((3, *shape)).astype(np.float32)
    indices = rng.integers(0, shape[axis], (1, *index_shape)).astype(np.int32)
    op = tt.GatherOp(
        operands=values(tensor(i32, *shape), tensor(i32, *index_shape)),
        result_types=[tensor(i32, *index_shape)],
        properties={"axis": IntegerAttr(axis, i32)},
    )
    (got,) = run(F, op, source, indices)
    full = np.broadcast_to(indices, (3, *index_shape))
    assert same(got, np.take_along_axis(source, full.astype(int), axis + 1))


def test_gather_out_of_range_is_undefined_there():
    op = tt.GatherOp(
        operands=values(tensor(i32, 4), tensor(i32, 3)),
        result_types=[tensor(i32, 3)],
        properties={"axis": IntegerAttr(0, i32)},
    )
    bench = Bench()
    a = np.arange(4, dtype=np.int32)[None] + 10
    (got,) = run(F, op, a, np.array([[3, 4, -1]], np.int32), bench=bench)
    assert got.tolist() == [[13, 10, 10]]
    assert bench.marked[0][0].tolist() == [[False, True, True]]


@given(st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_histogram(programs: int, seed: int, masked: bool):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 8, (programs, 64)).astype(np.int32)
    mask = rng.random((programs, 64)) < 0.5 if masked else None
    got, bad = rearrange.histogram(a, mask, 64, 8, np.dtype(np.int32))
    assert bad is None
    for p in range(programs):
        row = a[p] if mask is None else a[p][mask[p]]
        assert got[p].tolist() == np.bincount(row, minlength=8).tolist()


HISTOGRAM = """
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>) {
    %pid = tt.get_program_id x : i32
    %four = arith.constant 4 : i32
    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %start = arith.muli %pid, %four : i32
    %s = tt.splat %start : i32 -> tensor<4xi32>
    %i = arith.addi %s, %r : tensor<4xi32>
    %px = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %qx = tt.addptr %px, %i : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %v = tt.load %qx : tensor<4x!tt.ptr<i32>>
    %zero = arith.constant dense<0> : tensor<4xi32>
    %m = arith.cmpi sge, %v, %zero : tensor<4xi32>
    %h = tt.histogram %v, %m : tensor<4xi32> -> tensor<2xi32>
    %r2 = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %two = arith.constant 2 : i32
    %start2 = arith.muli %pid, %two : i32
    %s2 = tt.splat %start2 : i32 -> tensor<2xi32>
    %i2 = arith.addi %s2, %r2 : tensor<2xi32>
    %po = tt.splat %o : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
    %qo = tt.addptr %po, %i2 : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
    tt.store %qo, %h : tensor<2x!tt.ptr<i32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("batch", [0, 1])
def test_values_without_a_bin_count_nowhere_and_are_a_strict_fault(batch: int):
    x = np.array([[0, 1, 1, 1], [0, 0, -1, -1], [0, 9, 2, -1]], np.int32)
    o = np.full((3, 2), -7, np.int32)
    result = launching.run(HISTOGRAM, (3,), {"x": x, "o": o}, batch=batch)
    assert o.tolist() == [[1, 3], [2, 0], [1, 0]]
    (fault,) = result.faults
    assert (fault.kind, fault.policy, fault.count) == (Kind.UNDEFINED, Policy.STRICT, 2)
    assert fault.notes == ("program (2, 0, 0), lane 1: the value is 9; not counted",)
    again = launching.run(HISTOGRAM, (2,), {"x": x, "o": o}, batch=batch)
    assert again.faults == []


def test_histogram_of_a_splat():
    op = tt.HistogramOp(operands=[values(tensor(i32, 4))[0], []], result_types=[tensor(i32, 2)])
    (got,) = run(F, op, np.array([[1]], np.int32))
    assert got.tolist() == [[0, 4]]


@given(st.sampled_from([(8,), (4, 2), (1,), (3,), ()]), st.sampled_from([1, 2, 4]))
def test_packs(shape: tuple[int, ...], pack: int):
    a = np.arange(2 * math.prod(shape), dtype=np.int32).reshape(2, *shape)
    parts = rearrange.packs(a, shape, pack)
    assert len(parts) == pack
    assert same(rearrange.unpack(parts, shape), a)
    if len(shape) and math.prod(shape) >= 2 and pack == 2:
        assert parts[1][0, 0] == 1
