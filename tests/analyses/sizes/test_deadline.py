"""A time limit holds within a tenth, whatever is under way when it is over."""

from __future__ import annotations

import time

import pytest

from xttir.analyses.sizes import deadline
from xttir.analyses.sizes.assume import from_words
from xttir.analyses.sizes.prove import prove
from xttir.analyses.sizes.terms import Symbol, as_term, at_most, choose, term_of
from xttir.diagnostics import Verdict
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module

HARD = """
module { tt.func public @k(%x: !tt.ptr<f32>, %n: i64, %m: i64, %s: i64) {
  %v = arith.constant 0.0 : f32
  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %a = arith.extsi %p : i32 to i64
  %b = arith.extsi %q : i32 to i64
  %0 = arith.muli %a, %n : i64
  %1 = arith.remsi %0, %m : i64
  %2 = arith.muli %1, %s : i64
  %3 = arith.muli %b, %m : i64
  %4 = arith.divsi %3, %n : i64
  %5 = arith.muli %4, %b : i64
  %6 = arith.addi %2, %5 : i64
  %7 = arith.muli %6, %a : i64
  %8 = tt.addptr %x, %7 : !tt.ptr<f32>, i64
  tt.store %8, %v : !tt.ptr<f32>
  tt.return } }
"""
WORDS = (
    "len(x) == n * m * s; n >= 2; m >= 2; s >= 1; n * m * s <= 2 ** 30; grid[0] == n; grid[1] == m"
)


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_questions_that_nobody_can_decide_end_in_time(seconds: float) -> None:
    module = parse_module(HARD)
    function = tt.function_named(module, "k")
    assert function is not None
    contract = from_words(module, function, WORDS)
    # CPU time, of which there is less than of the other where processes wait for one another.
    began = time.process_time()
    found = prove(contract, seconds)
    taken = time.process_time() - began
    assert taken <= 1.1 * seconds + 0.1
    assert found.verdict is not Verdict.VERIFIED
    if found.verdict is Verdict.UNKNOWN:
        assert all(why and place.line for place, why in found.open)


def test_making_terms_is_stopped() -> None:
    def make() -> None:
        term = term_of(Symbol("a", 0, None))
        for k in range(10_000_000):
            term = choose(at_most(term, k), term + k, term * 2 - as_term(k))

    began = time.monotonic()
    with deadline.until(began + 0.2), pytest.raises(deadline.OutOfTime):
        make()
    assert time.monotonic() - began < 2


def test_an_outer_end_comes_first() -> None:
    began = time.monotonic()
    with deadline.until(began), deadline.until(began + 100), pytest.raises(deadline.OutOfTime):
        deadline.check_now()
