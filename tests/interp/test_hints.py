"""Promises to the compiler that do not hold."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.launching import run
from xttir.diagnostics import Kind, Policy

TEXT = """
module {{
  tt.func public @k(%x: !tt.ptr<i32>, %off: i32) {{
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %s = tt.splat %off : i32 -> tensor<16xi32>
    %i = arith.addi %s, %r {{tt.{hint} = dense<{number}> : tensor<1xi32>}} : tensor<16xi32>
    %p = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %q = tt.addptr %p, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    tt.store %q, %i : tensor<16x!tt.ptr<i32>>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("hint", "number", "off", "holds"),
    [
        ("divisibility", 16, 16, True),
        ("divisibility", 16, 3, False),
        ("divisibility", 4, 4, True),
        ("contiguity", 16, 3, True),
        ("constancy", 4, 0, False),
        ("constancy", 1, 0, True),
    ],
)
def test_a_false_promise_is_a_strict_fault(hint: str, number: int, off: int, holds: bool) -> None:
    x = np.zeros(64, np.int32)
    result = run(TEXT.format(hint=hint, number=number), (1,), {"x": x, "off": off})
    found = [(f.kind, f.policy) for f in result.faults]
    assert found == ([] if holds else [(Kind.MISUSE, Policy.STRICT)])
    assert x[off : off + 16].tolist() == list(range(off, off + 16))


POINTERS = """
module {{
  tt.func public @k(%x: !tt.ptr<i32>, %off: i32) {{
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %s = tt.splat %off : i32 -> tensor<16xi32>
    %i = arith.addi %s, %r : tensor<16xi32>
    %p = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %q = tt.addptr %p, %i {{tt.{hint} = dense<16> : tensor<1xi32>}}
      : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    tt.store %q, %i : tensor<16x!tt.ptr<i32>>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("hint", "off", "holds"),
    [("divisibility", 4, True), ("divisibility", 1, False), ("contiguity", 1, True)],
)
def test_pointers_count_bytes_and_elements(hint: str, off: int, holds: bool) -> None:
    block = np.zeros(64, np.int32)
    x = block[(-block.ctypes.data // 4) % 16 :][:40]  # starts at a multiple of 64 bytes
    result = run(POINTERS.format(hint=hint), (1,), {"x": x, "off": off})
    assert [f.kind for f in result.faults] == ([] if holds else [Kind.MISUSE])


@pytest.mark.parametrize("used", [True, False])
def test_a_false_promise_that_counts_where_it_is_used(used: bool) -> None:
    """Late promises: a value that breaks one is undefined, and nothing need come of it."""
    text = TEXT.format(hint="divisibility", number=16)
    if not used:
        text = text.replace("%p, %i :", "%p, %r :").replace("%q, %i :", "%q, %r :")
    x = np.zeros(64, np.int32)
    result = run(text, (1,), {"x": x, "off": 3}, late_promises=True)
    found = [(f.kind, f.witness["promise"]) for f in result.faults]
    assert set(found) == ({(Kind.MISUSE, "multiple_of")} if used else set())
