"""Every check finds its fault, and is silent on the twin that does not have it."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from tests.interp.launching import kinds, run, tensor
from xttir.interp.launch import LaunchResult, ScalarArg, Storage

TTIR = pathlib.Path(__file__).parent.parent / "data" / "ttir"


def go(name: str, grid: int, arguments: dict[str, object], **policy: object) -> LaunchResult:
    return run((TTIR / f"{name}.ttir").read_text(), (grid,), arguments, **policy)


def zeros(n: int, dtype: type = np.int32) -> np.ndarray:
    return np.zeros(n, dtype)


@pytest.mark.parametrize("order", ["forward", "reversed", "shuffled"])
def test_a_lock_orders_its_critical_sections(order: str) -> None:
    x = np.arange(20, dtype=np.float32)
    acc = zeros(1, np.float32)
    result = go("spin_lock", 20, {"lock": zeros(1), "acc": acc, "x": x}, grid_order=order)
    assert result.faults == []
    assert acc[0] == x.sum()


def test_a_lock_that_is_kept_is_a_deadlock() -> None:
    arguments = {"lock": zeros(1), "acc": zeros(1, np.float32), "x": zeros(3, np.float32)}
    result = go("spin_lock_kept", 3, arguments)
    assert kinds(result) == ["deadlock"]
    assert not result.completed
    (fault,) = result.faults
    assert "2" not in fault.notes[0].split("ended")[0].split(";")[1].split("of")[0]
    assert fault.count == 2
    assert fault.locations[0].line > 0


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_release_and_acquire_order_a_message(order: str) -> None:
    o = zeros(1)
    arguments = {"data": zeros(1), "flag": zeros(1), "o": o}
    assert go("message", 2, arguments, grid_order=order).faults == []
    assert o[0] == 42


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_relaxed_atomics_order_nothing(order: str) -> None:
    arguments = {"data": zeros(1), "flag": zeros(1), "o": zeros(1)}
    assert kinds(go("message_relaxed", 2, arguments, grid_order=order)) == ["race"]


@pytest.mark.parametrize("order", ["forward", "reversed", "shuffled"])
def test_the_last_block_may_read_what_all_stored(order: str) -> None:
    x = np.arange(16 * 9, dtype=np.float32)
    o = zeros(1, np.float32)
    arguments = {
        "x": x,
        "partial": zeros(9, np.float32),
        "count": zeros(1),
        "o": o,
        "n": 9,
    }
    assert go("last_block", 9, arguments, grid_order=order).faults == []
    assert o[0] == x.sum()


@pytest.mark.parametrize("order", ["forward", "reversed"])
@pytest.mark.parametrize("name", ["relay", "relay_hasty"])
def test_a_slot_is_free_only_once_it_was_read(name: str, order: str) -> None:
    """The sender could always be ahead: that it never is in one schedule does not order it."""
    x, o = np.arange(8, dtype=np.int32) + 1, zeros(8)
    arguments = {"x": x, "buffer": zeros(2), "full": zeros(1), "empty": zeros(1), "o": o, "n": 8}
    result = go(name, 2, arguments, grid_order=order)
    if name == "relay":
        assert result.faults == []
        assert (o == x).all()
    else:
        assert set(kinds(result)) == {"race"}


@pytest.mark.parametrize("free", [1, 2])
@pytest.mark.parametrize("order", ["forward", "shuffled"])
def test_a_semaphore_is_a_lock_if_it_lets_one_in(free: int, order: str) -> None:
    acc = zeros(1)
    result = go("semaphore", 100, {"free": zeros(1) + free, "acc": acc}, grid_order=order)
    assert set(kinds(result)) == ({"race"} if free == 2 else set())
    assert free == 2 or acc[0] == 100


def test_a_loop_that_repeats_itself_is_found_before_the_limit() -> None:
    result = go("counts_up", 1, {"x": zeros(1), "o": zeros(1)})
    assert kinds(result) == ["deadlock"]
    assert "repeats" in result.faults[0].message
    assert not result.completed


def test_an_endless_loop_stops_at_the_limit() -> None:
    result = go("counts_up", 1, {"x": zeros(1), "o": zeros(1)}, max_steps=50)
    assert kinds(result) == ["deadlock"]
    assert "50" in result.faults[0].message
    o = zeros(1)
    assert go("counts_up", 1, {"x": zeros(1) + 1, "o": o}, max_steps=500).faults == []
    assert o[0] == -1


def test_lanes_that_store_different_values_to_one_place() -> None:
    x = np.arange(16, dtype=np.int32)
    result = go("one_place", 1, {"x": x, "o": zeros(1), "n": 16})
    assert kinds(result) == ["undefined"]
    assert "lanes of one store" in result.faults[0].message
    assert go("one_place", 1, {"x": x * 0 + 5, "o": zeros(1), "n": 16}).faults == []
    o = zeros(1)
    assert go("one_place_masked", 1, {"x": x, "o": o, "n": 16}).faults == []
    assert o[0] == 3


def test_division_by_zero_counts_where_its_result_is_stored() -> None:
    x, y = np.arange(16, dtype=np.int32) + 10, np.arange(16, dtype=np.int32) % 5
    result = go("quotient", 2, {"x": x, "y": y, "o": zeros(16), "n": 16})
    assert kinds(result) == ["undefined"]
    assert result.faults[0].witness["program"] == [0, 0, 0]
    assert result.faults[0].witness["lanes"] == [[0], [5]]
    assert result.faults[0].count == 4
    o = zeros(16)
    assert go("quotient_masked", 2, {"x": x, "y": y, "o": o, "n": 16}).faults == []
    assert (o == np.where(y == 0, 0, x // np.where(y == 0, 1, y))).all()


def test_an_offset_that_wraps_on_the_way_to_an_address() -> None:
    x = zeros(64, np.float32)
    big = 1_500_000_000
    result = go("far_row", 3, {"x": x, "o": zeros(24, np.float32), "stride": big})
    assert "int-overflow" in kinds(result)
    wide = go("far_row_wide", 3, {"x": x, "o": zeros(24, np.float32), "stride": big})
    assert wide.faults == []
    small = go("far_row", 3, {"x": x, "o": zeros(24, np.float32), "stride": 8})
    assert small.faults == []


def test_pointers_from_memory_are_looked_up() -> None:
    rows = np.arange(32, dtype=np.float32).reshape(4, 8)
    table = np.array([rows.ctypes.data + 32 * k for k in (2, 0, 3)], np.int64)
    o = zeros(24, np.float32)
    text = (TTIR / "through_table.ttir").read_text()
    from xttir.frontends.mlir import parse_module
    from xttir.interp.executor import run_launch
    from xttir.interp.launch import Launch
    from xttir.policy import RunPolicy

    def go_with(table: np.ndarray) -> LaunchResult:
        storage = tensor(rows, "rows").storage
        launch = Launch(
            parse_module(text),
            "through_table",
            (3, 1, 1),
            (tensor(table, "table"), tensor(o, "o")),
            memory=lambda: [storage],
        )
        return run_launch(launch, RunPolicy())

    assert go_with(table).faults == []
    assert (o.reshape(3, 8) == rows[[2, 0, 3]]).all()
    table[1] = 0
    (fault,) = go_with(table).faults
    assert fault.kind.value == "out-of-bounds"
    assert "null" in fault.message
    table[1] = rows.ctypes.data + rows.nbytes + 4096
    assert "no tensor" in go_with(table).faults[0].message


COPY = """
module {
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {
    %c = arith.constant 8 : i32
    %z = arith.constant dense<0> : tensor<8xi32>
    %p = tt.get_program_id x : i32
    %b = arith.muli %p, %c : i32
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %s = tt.splat %b : i32 -> tensor<8xi32>
    %i = arith.addi %s, %r : tensor<8xi32>
    %t = tt.splat %n : i32 -> tensor<8xi32>
    %m = arith.cmpi slt, %i, %t : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %xi = tt.addptr %xs, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %v = tt.load %xi, %m, %z : tensor<8x!tt.ptr<i32>>
    %os = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %oi = tt.addptr %os, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %oi, %v, %m : tensor<8x!tt.ptr<i32>>
    tt.return
  }
}
"""


def test_bounds_are_those_of_the_view() -> None:
    base = np.arange(40, dtype=np.int32)
    o = zeros(40)
    assert run(COPY, (5,), {"x": base, "o": o, "n": 40}).faults == []
    assert (o == base).all()
    # A view of the middle: elements of the same storage on both sides are out of bounds.
    result = run(COPY, (5,), {"x": base[4:20], "o": o, "n": 20})
    assert kinds(result) == ["out-of-bounds"]
    assert result.faults[0].witness["elements"] == [16, 19]
    assert result.faults[0].count == 4
    # Every other element: what lies between is not the view's.
    gaps = run(COPY, (1,), {"x": base[::2], "o": o, "n": 4})
    assert kinds(gaps) == ["out-of-bounds"]
    assert "between" in gaps.faults[0].message


def test_out_of_bounds_lanes_are_dropped_not_followed() -> None:
    base = np.arange(16, dtype=np.int32)
    target = np.full(24, -1, np.int32)
    result = run(COPY, (2,), {"x": base, "o": target[:10], "n": 16})
    assert kinds(result) == ["out-of-bounds"]
    assert target.tolist() == [*range(10), *[-1] * 14]


def test_memory_nobody_wrote() -> None:
    base = np.arange(16, dtype=np.int32)
    valid = np.ones(64, bool)
    valid[20:28] = False
    x = tensor(base, "x")
    fresh = Storage(x.storage.bytes, x.storage.address, valid, "script.py:3")
    broken = type(x)("x", fresh, 0, (16,), (1,), base.dtype)
    o = zeros(16)
    result = run(COPY, (2,), {"x": broken, "o": o, "n": 16})
    assert kinds(result) == ["uninitialized"]
    (fault,) = result.faults
    assert fault.count == 2
    assert "x[5] .. x[6]" in fault.notes[0]
    assert ("script.py", 3) in [(p.file, p.line) for p in fault.locations]
    strict = run(COPY, (2,), {"x": broken, "o": o, "n": 16}, strict=True)
    assert strict.faults[0].witness["elements"] == [5, 6]
    assert run(COPY, (2,), {"x": broken, "o": o, "n": 5}).faults == []


def test_unwritten_memory_that_is_masked_out_again_is_no_fault_unless_strict() -> None:
    text = COPY.replace(
        "    tt.store %oi, %v, %m",
        """    %five = arith.constant dense<5> : tensor<8xi32>
    %low = arith.cmpi slt, %i, %five : tensor<8xi32>
    %w = arith.select %low, %v, %z : tensor<8xi1>, tensor<8xi32>
    tt.store %oi, %w, %m""",
    )
    base = np.arange(16, dtype=np.int32)
    x = tensor(base, "x")
    valid = np.ones(64, bool)
    valid[20:28] = False
    broken = type(x)("x", Storage(x.storage.bytes, 0, valid), 0, (16,), (1,), base.dtype)
    assert run(text, (2,), {"x": broken, "o": zeros(16), "n": 16}).faults == []
    strict = run(text, (2,), {"x": broken, "o": zeros(16), "n": 16}, strict=True)
    assert kinds(strict) == ["uninitialized"]


def test_a_store_makes_memory_valid() -> None:
    o = zeros(16)
    target = tensor(o, "o")
    target.storage.valid = np.zeros(64, bool)
    x = np.arange(16, dtype=np.int32)
    assert run(COPY, (2,), {"x": x, "o": target, "n": 12}).faults == []
    assert target.storage.valid is not None
    assert target.storage.valid.tolist() == [True] * 48 + [False] * 16
    assert run(COPY, (2,), {"x": x, "o": target, "n": 16}).faults == []
    assert target.storage.valid is None


def test_arguments_must_fit_the_parameters() -> None:
    from xttir.diagnostics import InputError

    with pytest.raises(InputError, match="3 parameters"):
        run(COPY, (1,), {"x": zeros(8), "o": zeros(8)})
    with pytest.raises(InputError, match="is a tensor"):
        run(COPY, (1,), {"x": zeros(8), "o": zeros(8), "n": zeros(8)})
    null = run(COPY, (1,), {"x": ScalarArg("x", 0), "o": zeros(8), "n": 8})
    assert kinds(null) == ["out-of-bounds"]


ASSUME = """
module {
  tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
    %c = arith.constant 16 : i32
    %0 = arith.cmpi sge, %n, %c : i32
    llvm.intr.assume %0 : i1
    tt.store %x, %n : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_a_broken_assumption() -> None:
    assert kinds(run(ASSUME, (1,), {"x": zeros(1), "n": 8})) == ["assert"]
    assert run(ASSUME, (1,), {"x": zeros(1), "n": 16}).faults == []


_CHOSEN_BY_A_SCALAR = """
tt.func public @k(%d: !tt.ptr<i32>, %o: !tt.ptr<i32>, %most: i32) {
  %pid = tt.get_program_id x : i32
  %lane = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %two = arith.constant dense<2> : tensor<4xi32>
  %from = tt.splat %d : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %at = tt.addptr %from, %lane : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
  %divisor = tt.load %at : tensor<4x!tt.ptr<i32>>
  %quotient = arith.divsi %two, %divisor : tensor<4xi32>
  %wanted = arith.cmpi sgt, %pid, %most : i32
  %chosen = arith.select %wanted, %quotient, %two : tensor<4xi32>
  %four = arith.constant 4 : i32
  %row = arith.muli %pid, %four : i32
  %base = tt.addptr %o, %row : !tt.ptr<i32>, i32
  %into = tt.splat %base : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %out = tt.addptr %into, %lane : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
  tt.store %out, %chosen : tensor<4x!tt.ptr<i32>>
  tt.return
}
"""


@pytest.mark.parametrize("programs", [3, 4])
@pytest.mark.parametrize("most", [0, 9])
def test_a_scalar_chooses_between_defined_and_undefined_tensors(programs: int, most: int) -> None:
    out = zeros(4 * programs)
    divisors = np.array([1, 2, 1, 0], np.int32)
    result = run(_CHOSEN_BY_A_SCALAR, (programs,), {"d": divisors, "o": out, "most": most})
    assert kinds(result) == (["undefined"] if most == 0 else [])
    if most == 0:
        assert result.faults[0].count == programs - 1
    assert out[:4].tolist() == [2, 2, 2, 2]
