"""Results written over operands: only where nobody else has the operand."""

from __future__ import annotations

import numpy as np

from tests.interp.launching import run

# `y` is the same array as `x` (the mask holds everywhere), dies in the sum, and `x` is used later.
ALIAS = """
module {
  tt.func public @k(%p: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %one = arith.constant dense<1.000000e+00> : tensor<4096xf32>
    %zero = arith.constant dense<0.000000e+00> : tensor<4096xf32>
    %i = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32>
    %t = tt.splat %n : i32 -> tensor<4096xi32>
    %m = arith.cmpi slt, %i, %t : tensor<4096xi32>
    %ps = tt.splat %p : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>>
    %pi = tt.addptr %ps, %i : tensor<4096x!tt.ptr<f32>>, tensor<4096xi32>
    %v = tt.load %pi : tensor<4096x!tt.ptr<f32>>
    %x = arith.mulf %v, %v : tensor<4096xf32>
    %y = arith.select %m, %x, %zero : tensor<4096xi1>, tensor<4096xf32>
    %z = arith.addf %y, %one : tensor<4096xf32>
    %w = arith.subf %z, %x : tensor<4096xf32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>>
    %oi = tt.addptr %os, %i : tensor<4096x!tt.ptr<f32>>, tensor<4096xi32>
    tt.store %oi, %w : tensor<4096x!tt.ptr<f32>>
    tt.return
  }
}
"""

# The loop's value is its own operand; `v` is read from memory that must not change.
LOOP = """
module {
  tt.func public @k(%p: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %i = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32>
    %ps = tt.splat %p : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>>
    %pi = tt.addptr %ps, %i : tensor<4096x!tt.ptr<f32>>, tensor<4096xi32>
    %v = tt.load %pi : tensor<4096x!tt.ptr<f32>>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%a = %v) -> (tensor<4096xf32>)  : i32 {
      %d = arith.addf %a, %a : tensor<4096xf32>
      %e = arith.addf %d, %v : tensor<4096xf32>
      scf.yield %e : tensor<4096xf32>
    }
    %s = arith.subf %r, %v : tensor<4096xf32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>>
    %oi = tt.addptr %os, %i : tensor<4096x!tt.ptr<f32>>, tensor<4096xi32>
    tt.store %oi, %s : tensor<4096x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_an_alias_keeps_its_value() -> None:
    x = np.arange(4096, dtype=np.float32)
    o = np.zeros(4096, np.float32)
    assert run(ALIAS, (1,), {"p": x, "o": o, "n": 5000}).faults == []
    with np.errstate(all="ignore"):
        assert (o == (x * x + np.float32(1)) - x * x).all()
    assert (x == np.arange(4096)).all()


def test_values_carried_round_a_loop() -> None:
    x = np.arange(4096, dtype=np.float32)
    for n in (0, 1, 4):
        o = np.zeros(4096, np.float32)
        assert run(LOOP, (2,), {"p": x, "o": o, "n": n}, checks="none").faults == []
        expected = x.copy()
        for _ in range(n):
            expected = expected + expected + x
        assert (o == expected - x).all()
        assert (x == np.arange(4096)).all()
