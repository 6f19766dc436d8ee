"""Control flow of traced modules: which programs share a trace, and what is not known."""

from __future__ import annotations

import numpy as np
import pytest

from xttir.analyses import events as ev
from xttir.diagnostics import Unsupported
from xttir.frontends.mlir import parse_module
from xttir.interp.launch import Storage, TensorArg
from xttir.interp.tracing import Launch, trace_module

HEAD = """
module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, ttg.target = "cuda:90",
                   "ttg.total-num-warps" = 8 : i32} {
"""

MEET = """ttg.warp_specialize() default { ttg.warp_yield }
    partition0() num_warps(4) { ttg.warp_return } : () -> ()"""
"""Three barriers of all threads."""


def traces(body: str, programs: int = 1, arguments=None, tensors=None, arrays: str = ""):
    text = f"""{HEAD}
tt.func public @k(%n: i32, %p: !tt.ptr<i32>, %q: !tt.ptr<i32>) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %pid = tt.get_program_id x : i32
  {body}
}}
{arrays}
}}"""
    launch = Launch("k", (programs, 1, 1), arguments or {}, tensors or {})
    return trace_module(parse_module(text, "k.mlir"), launch)


def meetings(trace: ev.Trace) -> int:
    """How often `MEET` is executed."""
    names = [s.text.split()[0] for s in trace.instructions]
    met = sum(
        isinstance(e, ev.NamedBarrier) and names[e.ins] == "ttg.warp_specialize"
        for e in trace.events
    )
    assert met % 3 == 0
    return met // 3


LOOP = f"scf.for %i = %c0 to %x step %c1 : i32 {{ {MEET} }} tt.return"


def test_programs_that_decide_alike_share_a_trace():
    body = f"%x = arith.remsi %pid, %n : i32 {LOOP}"
    found = traces(body, 7, {0: 3})
    assert sorted((int(t.ctas[0]), meetings(t)) for t in found) == [(0, 0), (1, 1), (2, 2)]


def test_one_trace_where_nothing_depends_on_the_program():
    found = traces(f"%x = arith.muli %n, %n : i32 {LOOP}", 1000, {0: 3})
    assert [meetings(t) for t in found] == [9]


def test_an_argument_that_is_not_given_is_named():
    with pytest.raises(Unsupported, match=r"warp_specialize in a loop.*#0 \(n\)"):
        traces(f"%x = arith.addi %n, %c1 : i32 {LOOP}")


def test_a_branch_on_data_is_traced_both_ways():
    body = f"""
  %x = tt.load %p : !tt.ptr<i32>
  %b = arith.cmpi sgt, %x, %c0 : i32
  scf.if %b {{ {MEET} }}
  scf.if %b {{ {MEET} }} else {{ {MEET} {MEET} }}
  tt.return"""
    assert sorted(meetings(t) for t in traces(body)) == [1, 2, 2, 3]


def test_what_gives_no_events_is_passed_over():
    body = f"""
  %x = tt.load %p : !tt.ptr<i32>
  %r = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c0) -> (i32) : i32 {{
    %y = arith.addi %a, %i : i32
    scf.yield %y : i32
  }}
  %b = arith.cmpi sgt, %r, %c0 : i32
  %z = scf.if %b -> (i32) {{ scf.yield %r : i32 }} else {{ scf.yield %c1 : i32 }}
  {MEET}
  tt.return"""
    assert [meetings(t) for t in traces(body)] == [1]


def test_loops_of_blocks():
    body = f"""
  cf.br ^head(%c0 : i32)
^head(%i: i32):
  %more = arith.cmpi slt, %i, %n : i32
  cf.cond_br %more, ^body, ^end
^body:
  {MEET}
  %next = arith.addi %i, %c1 : i32
  cf.br ^head(%next : i32)
^end:
  tt.return"""
    assert [meetings(t) for t in traces(body, 4, {0: 5})] == [5]
    with pytest.raises(Unsupported, match="warp_specialize in a loop"):
        traces(body)


def test_blocks_passed_over_on_data():
    body = f"""
  %x = tt.load %p : !tt.ptr<i32>
  %b = arith.cmpi sgt, %x, %c0 : i32
  cf.cond_br %b, ^one, ^join(%c0 : i32)
^one:
  %y = arith.addi %x, %x : i32
  cf.br ^join(%y : i32)
^join(%r: i32):
  {MEET}
  tt.return"""
    assert [meetings(t) for t in traces(body)] == [1]


def test_calls_see_their_arguments_alone():
    body = """
  tt.call @f(%n, %pid) : (i32, i32) -> ()
  tt.return"""
    callee = f"""
tt.func private @f(%x: i32, %pid: i32) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  {LOOP}
}}"""
    assert [meetings(t) for t in traces(body, 3, {0: 2}, arrays=callee)] == [2]


def integers(values: list[int]) -> TensorArg:
    data = np.array(values, np.int32)
    storage = Storage(data.view(np.uint8), 1 << 20)
    return TensorArg("p", storage, 0, data.shape, (1,), data.dtype)


LENGTHS = f"""
  %at = tt.addptr %p, %pid : !tt.ptr<i32>, i32
  %x = tt.load %at : !tt.ptr<i32>
  {LOOP}"""


def test_integers_that_the_launch_gives_are_known():
    found = traces(LENGTHS, 4, tensors={1: integers([2, 0, 2, 5])})
    assert sorted((int(t.ctas[0]), meetings(t)) for t in found) == [(0, 2), (1, 0), (3, 5)]


def test_integers_that_the_kernel_writes_are_not_known():
    body = f"tt.store %q, %c0 : !tt.ptr<i32> {LENGTHS}"
    shared = integers([2, 0, 2, 5])
    with pytest.raises(Unsupported, match="in a loop whose end depends on data"):
        traces(body, 4, tensors={1: shared, 2: shared})
    assert len(traces(body, 4, tensors={1: shared, 2: integers([1])})) == 3


def test_integers_outside_of_their_tensor_are_not_known():
    with pytest.raises(Unsupported, match="in a loop whose end depends on data"):
        traces(LENGTHS, 5, tensors={1: integers([2, 0, 2, 5])})


def test_what_is_stored_where_data_says_is_assumed_to_be_elsewhere():
    body = f"""
  %address = tt.load %q : !tt.ptr<i32>
  %wide = arith.extsi %address : i32 to i64
  %there = tt.int_to_ptr %wide : i64 -> !tt.ptr<i32>
  tt.store %there, %c0 : !tt.ptr<i32> {LENGTHS}"""
    found = traces(body, 4, tensors={1: integers([2, 0, 2, 5])})
    assert len(found) == 3
    assert all(any("where data says" in text for text in t.assumptions) for t in found)


def test_numbers_that_are_made_of_floats():
    """As `tl.cdiv` of a float, or a ceiling of a quotient, makes a bound."""
    body = f"""
  %f = arith.sitofp %n : i32 to f32
  %half = arith.constant 5.000000e-01 : f32
  %g = arith.mulf %f, %half : f32
  %up = math.ceil %g : f32
  %x = arith.fptosi %up : f32 to i32
  {LOOP}"""
    (trace,) = traces(body, 1, {0: 5})
    assert meetings(trace) == 3
    assert any("floating-point" in text for text in trace.assumptions)
