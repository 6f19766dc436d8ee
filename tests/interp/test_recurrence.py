"""Which carried values decide whether a loop goes on."""

from __future__ import annotations

import pytest
from xdsl.dialects import scf

from xttir.frontends.mlir import parse_module
from xttir.interp.recurrence import deciding

LOOP = """
module {{
  tt.func public @k(%p: !tt.ptr<i32>, %s: i32) {{
    %c0 = arith.constant 0 : i32
    %c9 = arith.constant 9 : i32
    %i, %sum = scf.while (%a = %c0, %b = %c0) : (i32, i32) -> (i32, i32) {{
      %go = arith.cmpi slt, {tested}, %c9 : i32
      scf.condition(%go) %a, %b : i32, i32
    }} do {{
    ^bb0(%a: i32, %b: i32):
      %q = tt.addptr %p, %a : !tt.ptr<i32>, i32
      %v = tt.load %q : !tt.ptr<i32>
      {extra}
      %b2 = arith.addi %b, %v : i32
      %a2 = arith.addi %a, %s : i32
      scf.yield %a2, %b2 : i32, i32
    }}
    tt.return
  }}
}}
"""
STORE = "tt.store %q, %b : !tt.ptr<i32>"


@pytest.mark.parametrize(
    ("tested", "extra", "expected"),
    [
        ("%a", "", ((0,), False)),
        ("%a", STORE, ((0,), False)),
        ("%b", "", ((0, 1), True)),
        ("%b", STORE, None),
    ],
)
def test_the_slice_of_the_condition(tested: str, extra: str, expected: object) -> None:
    module = parse_module(LOOP.format(tested=tested, extra=extra))
    (loop,) = (op for op in module.walk() if isinstance(op, scf.WhileOp))
    assert deciding(loop) == expected
