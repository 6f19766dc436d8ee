"""Limits that are read off a kernel, also off one whose positions are long sums."""

from __future__ import annotations

from xttir.analyses.sizes.covered import limits_of_ids
from xttir.analyses.sizes.terms import Symbol, term_of
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module

KERNEL = """tt.func @k(%n: i32, %m: i32) {
  %pid = tt.get_program_id x : i32
  %b = arith.constant 64 : i32
  %0 = arith.muli %pid, %b : i32
SUMS
  %size = arith.muli %n, %m : i32
  %in = arith.cmpi slt, %LAST, %size : i32
  tt.return }
"""
N, M = Symbol("n", 1, None, True), Symbol("m", 1, None, True)


def limits(sums: str, last: int):
    module = parse_module(KERNEL.replace("SUMS", sums).replace("LAST", str(last)))
    function = tt.function_named(module, "k")
    assert function is not None
    n, m = function.body.blocks[0].args
    return limits_of_ids(function, {n: (term_of(N), 6), m: (term_of(M), 7)})


def test_a_block_and_the_limit_of_its_positions() -> None:
    assert limits("  %1 = arith.addi %0, %m : i32", 1) == {0: [(64, term_of(N) * term_of(M), 42)]}


def test_sums_of_sums_are_followed_once() -> None:
    """As many ways to the last as there are subsets of the sums, and as deep as there are sums."""
    lines = [f"  %{k + 1} = arith.addi %{k}, %{k} : i32" for k in range(3000)]
    assert limits("\n".join(lines), 3000) == {0: [(64, term_of(N) * term_of(M), 42)]}


def test_a_limit_that_is_a_long_sum_is_none() -> None:
    lines = ["  %size0 = arith.addi %n, %n : i32"]
    lines += [f"  %size{k + 1} = arith.addi %size{k}, %size{k} : i32" for k in range(3000)]
    module = parse_module(
        KERNEL.replace("SUMS", "\n".join(lines))
        .replace("LAST", "0")
        .replace("%size = arith.muli %n, %m", "%size = arith.muli %size3000, %m")
    )
    function = tt.function_named(module, "k")
    assert function is not None
    n, m = function.body.blocks[0].args
    assert limits_of_ids(function, {n: (term_of(N), 6), m: (term_of(M), 7)}) == {0: []}
