"""Modules of which not all arguments are given: flags go both ways."""

from __future__ import annotations

from xttir.analyses.modules import verify_module
from xttir.diagnostics import Kind, Verdict
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch

HEAD = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
!mem = !ttg.memdesc<512xf32, #s, #smem, mutable>
!bar = !ttg.memdesc<1xi64, #s, #smem, mutable>
module attributes {ttg.shared = 4096 : i32, "ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32,
                   ttg.target = "cuda:90", "ttg.total-num-warps" = 4 : i32} {
tt.func public @k(%x: tensor<512xf32, #a>, %f: i1, %g: i1, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %m = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !mem
"""
STORE = "ttg.local_store %x, %m : tensor<512xf32, #a> -> !mem"
LOAD = "%y = ttg.local_load %m : !mem -> tensor<512xf32, #b>"
MEET = "ttg.barrier local"


def report(body: str, arguments: dict[int, int | float | bool] | None = None):
    module = parse_module(f"{HEAD}{body}\n  tt.return\n}}\n}}", "k.mlir")
    return verify_module(module, Launch("k", arguments=arguments or {}))


def test_a_barrier_behind_a_flag_that_is_not_given():
    body = f"{STORE}\n scf.if %f {{ {MEET} }}\n {LOAD}"
    assert report(body).verdict is Verdict.FAULT
    assert report(body, {1: True}).verdict is Verdict.VERIFIED
    assert report(body, {1: False}).verdict is Verdict.FAULT


def test_flags_need_not_be_alike():
    """With one of them alone nobody meets between the store and the load."""
    body = f"""{STORE}
  scf.if %f {{ {MEET} }} else {{ scf.if %g {{ }} else {{ {MEET} }} }}
  {LOAD}"""
    found = report(body)
    assert found.verdict is Verdict.FAULT
    assert {f.kind for f in found.faults} == {Kind.RACE}
    assert report(body, {1: True}).verdict is Verdict.VERIFIED


def test_a_loop_that_a_flag_keeps_going():
    body = f"""
  cf.br ^head
^head:
  {STORE}
  {MEET}
  {LOAD}
  cf.cond_br %f, ^head, ^end
^end:"""
    assert report(body).verdict is Verdict.FAULT
    assert report(body.replace(LOAD, f"{LOAD}\n{MEET}")).verdict is Verdict.VERIFIED


def test_a_flag_that_must_be_known_is_tried_both_ways():
    """Whether anybody arrives: nobody does where it does not hold."""
    body = """
  %bar = ttg.local_alloc {allocation.offset = 2048 : i32} : () -> !bar
  ttng.init_barrier %bar, 1 : !bar
  ttg.barrier local
  ttng.arrive_barrier %bar, 1, %f : !bar
  ttng.wait_barrier %bar, %c0 : !bar"""
    found = report(body)
    assert {f.kind for f in found.faults} == {Kind.DEADLOCK}
    assert report(body, {1: True}).verdict is Verdict.VERIFIED


def test_numbers_beside_flags_get_values():
    body = f"""scf.for %i = %c0 to %n step %c1 : i32 {{
    scf.if %f {{ {STORE} }}
    {MEET}
  }}
  {LOAD}"""
    found = report(body)
    assert found.verdict is Verdict.VERIFIED
    assert any("not given (n)" in text for text in found.assumptions)
    assert report(body.replace(MEET, "")).verdict is Verdict.FAULT
