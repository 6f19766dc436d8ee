"""What is kept of a kernel between its launches depends on nothing but the kernel."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.interp.launching import kinds, launch, tensor
from xttir.interp.executor import run_launch
from xttir.policy import RunPolicy

NUMBER_OF_PROGRAMS = """
tt.func public @k(%o: !tt.ptr<i32>) {
  %n = tt.get_num_programs x : i32
  %c10 = arith.constant 10 : i32
  %m = arith.muli %n, %c10 : i32
  %p = tt.get_program_id x : i32
  %a = tt.addptr %o, %p : !tt.ptr<i32>, i32
  PLACE
  tt.return
}
"""
STORE = "tt.store %a, %m : !tt.ptr<i32>"
IN_A_BRANCH = """%c0 = arith.constant 0 : i32
  %always = arith.cmpi sge, %p, %c0 : i32
  scf.if %always {
    %k = tt.get_num_programs x : i32
    %l = arith.muli %k, %c10 : i32
    tt.store %a, %l : !tt.ptr<i32>
  }"""


@pytest.mark.parametrize("place", [STORE, IN_A_BRANCH])
def test_grids_of_one_kernel_have_their_own_number_of_programs(place: str) -> None:
    out = np.zeros(8, np.int32)
    first = launch(NUMBER_OF_PROGRAMS.replace("PLACE", place), (1,), {"o": tensor(out, "o")})
    for programs in (4, 2, 7):
        out[:] = 0
        # The module stays, and so does its plan.
        one = dataclasses.replace(first, grid=(programs, 1, 1))
        assert kinds(run_launch(one, RunPolicy())) == []
        assert out.tolist() == [10 * programs] * programs + [0] * (8 - programs)


OVERFLOW = """
tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {
  %c = arith.constant 2147483647 : i32
  %s = arith.addi %n, %c : i32
  %t = arith.addi %s, %n : i32
  %a = tt.addptr %x, %t : !tt.ptr<i32>, i32
  %v = tt.load %a : !tt.ptr<i32>
  tt.store %x, %v : !tt.ptr<i32>
  tt.return
}
"""


def test_a_check_is_made_though_a_launch_without_it_came_first() -> None:
    one = launch(OVERFLOW, (1,), {"x": tensor(np.zeros(8, np.int32), "x"), "n": 1})
    without = kinds(run_launch(one, RunPolicy().with_checks("all,-overflow")))
    assert "int-overflow" not in without
    assert "int-overflow" in kinds(run_launch(one, RunPolicy()))
    assert kinds(run_launch(one, RunPolicy().with_checks("all,-overflow"))) == without
