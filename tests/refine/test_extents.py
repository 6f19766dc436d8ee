"""Sizes of tensors behind descriptors vary as other sizes do, and the numbers beside them agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from xttir.frontends.mlir import parse_module
from xttir.frontends.module_launch.signature import find_function
from xttir.interp.launch import DescriptorArg
from xttir.refine.inputs import Generator
from xttir.tools.cli import main

# Sums the blocks of a row of blocks, at most LIMIT of them.
SUM = """\
tt.func public @sum(%a: !tt.tensordesc<16x32xf16>, %m: i32, %k: i32, %s0: i64, %s1: i64, %out: !tt.ptr<f16>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %limit = arith.constant LIMIT : i32
  %zero = arith.constant dense<0.0> : tensor<16x32xf16>
  %up = arith.addi %k, %c31 : i32
  %blocks = arith.divsi %up, %c32 : i32
  %n = arith.minsi %blocks, %limit : i32
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<16x32xf16>) : i32 {
    %at = arith.muli %i, %c32 : i32
    %v = tt.descriptor_load %a[%c0, %at] : !tt.tensordesc<16x32xf16> -> tensor<16x32xf16>
    %next = arith.addf %acc, %v : tensor<16x32xf16>
    scf.yield %next : tensor<16x32xf16>
  }
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %row = tt.expand_dims %r {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %r16 = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %column = tt.expand_dims %r16 {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %width = arith.constant dense<32> : tensor<16x1xi32>
  %starts = arith.muli %column, %width : tensor<16x1xi32>
  %rows = tt.broadcast %row : tensor<1x32xi32> -> tensor<16x32xi32>
  %columns = tt.broadcast %starts : tensor<16x1xi32> -> tensor<16x32xi32>
  %offsets = arith.addi %rows, %columns : tensor<16x32xi32>
  %outs = tt.splat %out : !tt.ptr<f16> -> tensor<16x32x!tt.ptr<f16>>
  %p = tt.addptr %outs, %offsets : tensor<16x32x!tt.ptr<f16>>, tensor<16x32xi32>
  tt.store %p, %sum : tensor<16x32x!tt.ptr<f16>>
  tt.return
}
"""  # noqa: E501


def test_the_numbers_beside_a_descriptor_say_what_it_is() -> None:
    module = parse_module(SUM.replace("LIMIT", "99"))
    cases = Generator(module, find_function(module)).cases()
    rounds = set()
    for case in cases:
        descriptor = next(a for a in case.arguments if isinstance(a, DescriptorArg))
        values = case.scalars()
        assert descriptor.shape == (values["m"], values["k"])
        assert descriptor.strides == (values["s0"], values["s1"])
        assert values["s0"] * 2 % 16 == 0
        assert values["k"] >= 1
        rounds.add(-(-int(values["k"]) // 32))
    assert {1, 2, 3, 7} <= rounds


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_loop_over_a_descriptor_that_ends_too_early(limit: int, tmp_path: Path) -> None:
    source, target = tmp_path / "a.mlir", tmp_path / "b.mlir"
    source.write_text(SUM.replace("LIMIT", "99"))
    target.write_text(SUM.replace("LIMIT", str(limit)))
    assert main(["validate", "-q", str(source), str(target)]) == 1
    assert main(["validate", "-q", str(target), str(source)]) == 1
    assert main(["validate", "-q", str(source), str(source)]) == 0


BLOCKS = """
tt.func public @k(%out: !tt.ptr<i32>, %a: i32, %b: i32, %c: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %a1 = arith.addi %a, %c63 : i32
  %b1 = arith.addi %b, %c63 : i32
  %c2 = arith.addi %c, %c63 : i32
  %an = arith.divsi %a1, %c64 : i32
  %bn = arith.divsi %b1, %c64 : i32
  %cn = arith.divsi %c2, %c64 : i32
  scf.for %i = %c0 to %an step %c1 : i32 {
    scf.for %j = %c0 to %bn step %c1 : i32 {
      scf.for %k = %c0 to %cn step %c1 : i32 {
        tt.store %out, %k : !tt.ptr<i32>
      }
    }
  }
  tt.return
}
"""


def test_every_loop_over_blocks_goes_more_than_twice_round_a_ring_of_three() -> None:
    module = parse_module(BLOCKS)
    cases = Generator(module, find_function(module)).cases()
    assert len(cases) <= 32
    most = dict.fromkeys("abc", 0)
    for case in cases:
        rounds = {name: -(-int(value) // 64) for name, value in case.scalars().items()}
        if min(rounds.values()) > 0:
            most = {name: max(most[name], rounds[name]) for name in most}
    assert min(most.values()) >= 7
