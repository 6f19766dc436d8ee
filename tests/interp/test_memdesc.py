"""Memory that some programs of a batch store while others are elsewhere: what each of them sees is
what a table of its own would hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from xttir.interp import positions, scalars
from xttir.interp.buffers import Buffer
from xttir.interp.memdesc import MemDesc
from xttir.interp.views import Layout

BATCH = 4
SUBSETS = [positions.same(np.array(at)) for at in ([0], [1, 3], [0, 2], [1, 2, 3], [3], [2, 3])]


def view_of(desc: MemDesc, at: np.ndarray | None) -> MemDesc:
    return desc if at is None else desc.take(at)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_programs_see_what_they_stored(data: st.DataObject) -> None:
    """Whole stages and parts of them, stored and read by all programs or some."""
    buffer = Buffer(ModuleOp([]), np.dtype(np.int32), (2, 3), True, BATCH, None)
    whole = MemDesc(buffer, (2, 3))
    table = np.zeros((BATCH, 2, 3), np.int32)
    for stage in (0, 1):
        whole.stage(stage).write(np.zeros((1, 3), np.int32))
    for turn in range(data.draw(st.integers(1, 14))):
        at: Any = data.draw(st.sampled_from([None, *SUBSETS]))
        rows = np.arange(BATCH) if at is None else at
        stage = data.draw(st.integers(0, 1))
        view = view_of(whole, at).stage(stage)
        match data.draw(st.sampled_from(["store", "store", "part", "read"])):
            case "store":
                value = np.arange(rows.size * 3, dtype=np.int32).reshape(-1, 3) + 100 * turn
                view.write(value)
                table[rows, stage] = value
            case "part":
                view.subslice((1,), (2,)).write(np.full((1, 2), turn, np.int32))
                table[rows, stage, 1:] = turn
            case _:
                value, unwritten, _ = view.read()
                assert unwritten is None
                assert (np.broadcast_to(value, (rows.size, 3)) == table[rows, stage]).all()
    for stage in (0, 1):
        assert (whole.stage(stage).read()[0] == table[:, stage]).all()


ROWS, COLUMNS = np.mgrid[:4, :4]
EVEN = ROWS * 32 + COLUMNS * 4
SWIZZLED = ROWS * 32 + (COLUMNS ^ ROWS) * 4


@pytest.mark.parametrize("offsets", [EVEN, SWIZZLED, EVEN.T])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bytes_and_their_marks(offsets: np.ndarray, data: st.DataObject) -> None:
    """Elements in bytes, twice, evenly spaced or not: what is written is read, whoever reads it,
    and what is not is known not to be."""
    buffer = Buffer(ModuleOp([]), np.dtype(np.uint8), (512,), False, BATCH, None)
    layout = Layout(offsets[None], np.dtype(np.float32), (256,))
    desc = MemDesc(buffer, (4, 4), None, (layout,))
    second = MemDesc(buffer, (4, 4), None, (layout.at(layout.offsets + 256),))
    table, written = np.zeros((BATCH, 4, 4), np.float32), np.zeros((BATCH, 4, 4), bool)
    for turn in range(1, data.draw(st.integers(2, 10))):
        at: Any = data.draw(st.sampled_from([None, *SUBSETS]))
        rows = np.arange(BATCH) if at is None else at
        row = data.draw(st.integers(0, 3))
        value = np.arange(rows.size * 4, dtype=np.float32).reshape(-1, 1, 4) + 100 * turn
        where = None
        if data.draw(st.booleans()):
            where = np.array([[[True, False, True, True]]])
        view_of(desc, at).subslice((row, 0), (1, 4)).write(value, where)
        columns = np.arange(4) if where is None else np.flatnonzero(where[0, 0])
        table[np.ix_(rows, np.array([row]), columns)] = value[:, :, columns]
        written[np.ix_(rows, np.array([row]), columns)] = True
        at = data.draw(st.sampled_from([None, *SUBSETS]))
        rows = np.arange(BATCH) if at is None else at
        for copy in (desc, second):
            held, unwritten, _ = view_of(copy, at).read()
            known = written[rows]
            assert (~known == (np.zeros(1, bool) if unwritten is None else unwritten)).all()
            assert (held[known] == table[rows][known]).all()


def test_a_selection_is_made_once() -> None:
    buffer = Buffer(ModuleOp([]), np.dtype(np.int32), (2, 3), True, BATCH, None)
    whole = MemDesc(buffer, (2, 3))
    one = positions.where(np.array([True, False, True, False]))
    other = positions.same(np.array([0, 2]))
    assert one is other
    assert whole.take(one) is whole.take(other)
    assert whole.take(one).stage(1) is whole.take(other).stage(1)
    ids = np.array([7, 5, 9, 3])
    assert positions.choose(ids, one).tolist() == [7, 9]
    assert positions.positions_in(ids, np.array([3, 7])).tolist() == [3, 0]
    assert positions.who_of(one) == 0b0101


def test_a_number_is_one_array() -> None:
    dtype = np.dtype(np.int8)
    assert scalars.number(3, dtype) is scalars.shared(np.array([3], dtype))
    assert scalars.number(259, dtype).tolist() == [3]
    assert scalars.shared(np.array([3], np.int32)) is not scalars.number(3, dtype)
    several = np.array([3, 4], dtype)
    assert scalars.shared(several) is scalars.shared(several.copy())
    assert scalars.shared(np.array([3, 4], np.int32)) is not scalars.shared(several)
    many = np.zeros(1000, dtype)
    assert scalars.shared(many) is many
