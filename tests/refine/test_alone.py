"""Sizes that the user did not launch: where programs then get in each other's way, one runs."""

from __future__ import annotations

import numpy as np
import pytest

from xttir.interp.launch import ScalarArg, Storage, TensorArg
from xttir.refine import inputs
from xttir.refine.stages import Stage, validate
from xttir.refine.status import MATCH, MISMATCH
from xttir.refine.world import Case

ROWS = """
tt.func public @rows(%y: !tt.ptr<f32>, %stride: i32, %cols: i32) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %pid = tt.get_program_id x : i32
  %at = arith.muli %pid, %stride : i32
  %row = tt.addptr %y, %at : !tt.ptr<f32>, i32
  %rows = tt.splat %row : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %limit = tt.splat %cols : i32 -> tensor<64xi32>
  scf.for %k = %c0 to %cols step %c64 : i32 {
    %start = tt.splat %k : i32 -> tensor<64xi32>
    %i = arith.addi %start, %range : tensor<64xi32>
    %in = arith.cmpi slt, %i, %limit : tensor<64xi32>
    %p = tt.addptr %rows, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %p, %one, %in : tensor<64x!tt.ptr<f32>>
  }
  tt.return
}
"""


def launched() -> Case:
    """Three rows of 64 elements, one after the other: with more columns they overlap."""
    data = np.zeros((3, 64), np.float32)
    storage = Storage(data.reshape(-1).view(np.uint8), 0x5000_0000)
    y = TensorArg("y", storage, 0, (192,), (1,), np.dtype(np.float32))
    arguments = (y, ScalarArg("stride", 64), ScalarArg("cols", 64))
    return Case("launch", (3, 1, 1), arguments, (storage,), user=True)


def status(target: str) -> str:
    stages = [Stage("", ROWS, file="a.mlir"), Stage("", target, file="b.mlir")]
    return validate(stages, [launched()]).rows[1].status


def test_a_step_that_is_wrong_from_the_second_block_on_is_found() -> None:
    # The user's launch goes round the loop once.
    assert status(ROWS.replace("arith.constant 64", "arith.constant 65")) == MISMATCH


def test_another_walk_over_the_blocks_is_none() -> None:
    halves = ROWS.replace("64xf32", "32xf32").replace("64x!", "32x!").replace("64xi32", "32xi32")
    halves = halves.replace("end = 64", "end = 32").replace(
        "arith.constant 64", "arith.constant 32"
    )
    assert status(halves) == MATCH


def test_a_division_that_takes_sizes_as_unsigned_is_found() -> None:
    head = """
  %c1 = arith.constant 1 : i32
  %c63 = arith.constant 63 : i32
  %up = arith.addi %cols, %c63 : i32
  %blocks = arith.divsi %up, %c64 : i32
  scf.for %n = %c0 to %blocks step %c1 : i32 {
    %k = arith.muli %n, %c64 : i32"""
    source = ROWS.replace("\n  scf.for %k = %c0 to %cols step %c64 : i32 {", head)
    target = source.replace("arith.divsi", "arith.divui")
    assert target != source != ROWS
    stages = [Stage("", source, file="a.mlir"), Stage("", target, file="b.mlir")]
    assert validate(stages, [launched()]).rows[1].status == MISMATCH
    assert validate(stages).rows[1].status == MISMATCH


def test_programs_that_do_little_are_many() -> None:
    """A limit of 128 rows that is left out shows from the 129th program on."""
    source = """
tt.func public @row(%x: !tt.ptr<i32>) {
  %last = arith.constant 127 : i32
  %pid = tt.get_program_id y : i32
  %row = arith.minsi %pid, %last : i32
  %p = tt.addptr %x, %pid : !tt.ptr<i32>, i32
  tt.store %p, %row : !tt.ptr<i32>
  tt.return
}
"""
    target = source.replace("store %p, %row", "store %p, %pid")
    assert validate([Stage("", source), Stage("wrong", target)]).rows[1].status == MISMATCH


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_blocks_come_to_the_end_of_what_a_constant_limits(axis: str) -> None:
    """Blocks of 32 of 128 columns: only a fifth program meets column 128."""
    source = f"""
tt.func public @columns(%x: !tt.ptr<f32>) {{
  %c32 = arith.constant 32 : i32
  %end = arith.constant dense<128> : tensor<32xi32>
  %one = arith.constant dense<1.0> : tensor<32xf32>
  %a = tt.get_program_id x : i32
  %b = tt.get_program_id y : i32
  %c = tt.get_program_id z : i32
  %pid = tt.get_program_id {axis} : i32
  %first = arith.muli %pid, %c32 : i32
  %starts = tt.splat %first : i32 -> tensor<32xi32>
  %range = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32>
  %i = arith.addi %starts, %range : tensor<32xi32>
  %in = arith.cmpi slt, %i, %end : tensor<32xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %p = tt.addptr %xs, %i : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
  tt.store %p, %one, %in : tensor<32x!tt.ptr<f32>>
  tt.return
}}
"""
    stages = [Stage("", source), Stage("wrong", source.replace("slt", "sle"))]
    assert validate(stages).rows[1].status == MISMATCH


@pytest.mark.parametrize("sizes", [(12, 12), (10, 10), (12, 9, 12), (8, 8, 8, 8, 8)])
def test_all_but_every_value_of_every_size_occurs(sizes: tuple[int, ...]) -> None:
    rows = inputs.covering(sizes, inputs.LIMIT)
    assert len(rows) == inputs.LIMIT
    seen = {(axis, value) for row in rows for axis, value in enumerate(row)}
    assert sum(sizes) - len(seen) <= 1
