"""Lazy integers and masks against the arrays they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xttir.interp import affine
from xttir.interp.affine import Box, Index

I32 = np.dtype(np.int32)
SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 8]), max_size=3).map(tuple)


def full(value: Index | Box, batch: int) -> np.ndarray:
    return np.broadcast_to(value.dense(), (batch, *value.shape))


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...], batch: int, limit: int = 50) -> Index:
    size = draw(st.sampled_from([1, batch]))
    numbers = st.integers(-limit, limit)
    base = np.array(draw(st.lists(numbers, min_size=size, max_size=size)), np.int64)
    strides = tuple(draw(st.lists(st.integers(-9, 9), min_size=len(shape), max_size=len(shape))))
    return Index(base, strides, shape, I32)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Index, Index, int]:
    shape, batch = draw(SHAPES), draw(st.integers(1, 5))
    return draw(indices(shape, batch)), draw(indices(shape, batch)), batch


@given(pairs())
def test_sums_and_products(case: tuple[Index, Index, int]) -> None:
    a, b, batch = case
    for sign in (1, -1):
        result = affine.add(a, b, I32, sign)
        assert result is not None
        assert (full(result, batch) == full(a, batch) + sign * full(b, batch)).all()
    product = affine.mul(a, b, I32)
    if product is not None:
        assert (full(product, batch) == full(a, batch) * full(b, batch)).all()


@given(pairs(), st.integers(1, 40))
def test_quotients(case: tuple[Index, Index, int], divisor: int) -> None:
    a, _, batch = case
    b = Index(np.array([divisor], np.int64), (0,) * len(a.shape), a.shape, I32)
    for remainder in (False, True):
        result = affine.divide(a, b, I32, remainder)
        if result is not None:
            expected = full(a, batch) % divisor if remainder else full(a, batch) // divisor
            assert (full(result, batch) == expected).all()
            assert full(a, batch).min() >= 0


COMPARE = {
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": np.less,
    "uge": np.greater_equal,
}


@given(pairs(), st.sampled_from(sorted(COMPARE)))
def test_comparisons_are_boxes(case: tuple[Index, Index, int], predicate: str) -> None:
    a, b, batch = case
    box = affine.compare(a, b, predicate)
    if box is not None:
        assert (full(box, batch) == COMPARE[predicate](full(a, batch), full(b, batch))).all()


@given(pairs(), st.data())
def test_boxes_intersect_and_group(case: tuple[Index, Index, int], data: st.DataObject) -> None:
    a, b, batch = case
    words = st.sampled_from(["slt", "sge", "sle", "sgt"])
    first, second = (affine.compare(a, b, data.draw(words)), affine.compare(b, a, data.draw(words)))
    zero = Index(np.zeros(1, np.int64), (0,) * len(a.shape), a.shape, I32)
    first = first or affine.compare(a, zero, "slt")
    second = second or affine.compare(b, zero, "sge")
    if first is None or second is None:
        return
    both = affine.intersect(first, second)
    expected = full(first, batch) & full(second, batch)
    assert (full(both, batch) == expected).all()
    groups = both.groups(batch)
    if groups is None:
        return
    covered = np.zeros((batch, *a.shape), bool)
    for programs, lo, hi in groups:
        where = np.arange(batch) if programs is None else programs
        cut = tuple(slice(x, y) for x, y in zip(lo, hi, strict=True))
        covered[(where, *cut)] = True
    assert (covered == expected).all()


@given(pairs(), st.data())
def test_shapes_change(case: tuple[Index, Index, int], data: st.DataObject) -> None:
    a, b, batch = case
    axis = data.draw(st.integers(0, len(a.shape)))
    longer = affine.expand(a, axis)
    assert (full(longer, batch) == np.expand_dims(full(a, batch), axis + 1)).all()
    target = (*a.shape[:axis], 4, *a.shape[axis:])
    wide = affine.broadcast(longer, target)
    expected = np.broadcast_to(np.expand_dims(full(a, batch), axis + 1), (batch, *target))
    assert (full(wide, batch) == expected).all()
    box = affine.compare(a, b, "slt")
    if box is not None:
        wide_box = affine.broadcast_box(affine.expand_box(box, axis), target)
        assert wide_box is not None
        expected = np.broadcast_to(np.expand_dims(full(box, batch), axis + 1), (batch, *target))
        assert (full(wide_box, batch) == expected).all()
    order = data.draw(st.permutations(range(len(a.shape))))
    turned = affine.permute(a, order)
    assert (full(turned, batch) == full(a, batch).transpose(0, *(k + 1 for k in order))).all()


@given(pairs(), st.data())
def test_programs_can_be_chosen(case: tuple[Index, Index, int], data: st.DataObject) -> None:
    a, b, batch = case
    some = data.draw(st.lists(st.integers(0, batch - 1), min_size=1, unique=True).map(sorted))
    chosen = np.array(some)
    assert (full(a.take(chosen), len(some)) == full(a, batch)[chosen]).all()
    box = affine.compare(a, b, "slt")
    if box is not None:
        assert (full(box.take(chosen), len(some)) == full(box, batch)[chosen]).all()


def test_no_closed_form_beyond_the_type() -> None:
    a = Index(np.array([2**31 - 4], np.int64), (1,), (4,), I32)
    one = Index(np.array([1], np.int64), (0,), (4,), I32)
    assert affine.add(a, one, I32) is None
    assert affine.add(a, one, I32, -1) is not None
    assert affine.mul(a, Index(np.array([2], np.int64), (0,), (4,), I32), I32) is None
    wide = Index(np.array([2**62], np.int64), (0,), (4,), np.dtype(np.int64))
    assert affine.add(wide, wide, np.dtype(np.int64)) is None


@pytest.mark.parametrize("value", [np.zeros((2, 3), np.int32), np.zeros(2, np.float32)])
def test_only_lane_constant_integers_have_an_index(value: np.ndarray) -> None:
    assert affine.as_index(value, (3,)) is None
