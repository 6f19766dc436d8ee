"""What holds for some numbers of iterations, and for all: proved where the schedule repeats."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xttir.analyses.modules import verify_module
from xttir.analyses.trips.prove import EveryTrip, every_trip
from xttir.diagnostics import Verdict
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch

TYPES = """
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
!one = !ttg.memdesc<512xf32, #s, #smem, mutable>
!ring = !ttg.memdesc<4x512xf32, #s, #smem, mutable>
!bar = !ttg.memdesc<1xi64, #s, #smem, mutable>
!tile = tensor<512xf32, #b>
"""

HEAD = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %c7 = arith.constant 7 : i32
  %c1000 = arith.constant 1000 : i32
  %far = arith.constant 1.000000e+03 : f32
  %x = arith.constant dense<1.0> : tensor<512xf32, #b>
  %ring = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ring
"""

MEET = "ttg.barrier local"


def index(name: str, number: str) -> str:
    return f"%{name} = ttg.memdesc_index %ring[{number}] : !ring -> !one"


def store(name: str) -> str:
    return f"ttg.local_store %x, %{name} : !tile -> !one"


def load(name: str) -> str:
    return f"%l{name} = ttg.local_load %{name} : !one -> !tile"


def kernel(body: str) -> str:
    return f"""{TYPES}
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32,
                    "ttg.total-num-warps" = 8 : i32, ttg.shared = 8320 : i32,
                    ttg.target = "cuda:90"}} {{
tt.func public @k(%n: i32) {{
  {HEAD}
  {body}
  tt.return
}}
}}"""


def loop(*ops: str) -> str:
    return "scf.for %i = %c0 to %n step %c1 : i32 {\n" + "\n".join(ops) + "\n}"


def asked(body: str, n: int = 5) -> EveryTrip:
    return every_trip(parse_module(kernel(body), "k.mlir"), Launch("k", arguments={0: n}), 0, 600)


def verdict(body: str, n: int) -> Verdict:
    return verify_module(
        parse_module(kernel(body), "k.mlir"), Launch("k", arguments={0: n})
    ).verdict


def turned(name: str) -> str:
    """A load by other threads than those that store."""
    return (
        f"%l{name} = ttg.local_load %{name} : !one -> "
        "tensor<512xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], "
        "warpsPerCTA = [4], order = [0]}>>"
    )


def test_a_loop_with_its_barriers():
    body = loop(index("a", "%c0"), store("a"), MEET, turned("a"), MEET)
    found = asked(body)
    assert found.why == ""
    assert (found.low, found.step, found.period) == (0, 1, 1)
    assert "every n = 0 + 1 n" in str(found)


def test_buffers_in_turn_need_one_barrier():
    body = loop("%s = arith.remsi %i, %c2 : i32", index("a", "%s"), store("a"), MEET, turned("a"))
    assert (asked(body).why, asked(body).period) == ("", 2)
    one = loop(index("a", "%c0"), store("a"), MEET, turned("a"))
    assert verdict(one, 5) is Verdict.FAULT
    assert "is not verified" in asked(one).why


def test_a_quotient_that_comes_round():
    body = loop(
        "%q = arith.divsi %i, %c3 : i32",
        "%s = arith.andi %q, %c1 : i32",
        index("a", "%s"),
        store("a"),
        MEET,
        turned("a"),
        MEET,
    )
    assert (asked(body).why, asked(body).period) == ("", 6)


@pytest.mark.parametrize(
    "condition",
    [
        "%d = arith.cmpi eq, %i, %c1000 : i32",
        "%h = arith.muli %i, %c2 : i32\n%d = arith.cmpi sge, %h, %n : i32",
        "%h = arith.muli %i, %i : i32\n%d = arith.cmpi sge, %h, %n : i32",
        "%h = arith.remsi %n, %c1000 : i32\n%d = arith.cmpi sge, %i, %h : i32",
        "%d = arith.cmpi sge, %i, %c1000 : i32",
        "%f = arith.sitofp %i : i32 to f32\n%d = arith.cmpf oge, %f, %far : f32",
        "%f = arith.sitofp %i : i32 to f32\n%g = arith.mulf %f, %far : f32\n"
        "%h = arith.fptosi %g : f32 to i32\n%d = arith.cmpi sge, %h, %n : i32",
    ],
)
def test_a_barrier_left_out_far_away_is_not_missed(condition: str):
    body = loop(
        index("a", "%c0"),
        condition,
        store("a"),
        f"scf.if %d {{ }} else {{ {MEET} }}",
        turned("a"),
        MEET,
    )
    assert asked(body).why


@pytest.mark.parametrize(("start", "grows"), [("0.000000e+00", True), ("0xFF800000", False)])
def test_a_carried_float_is_no_count(start: str, grows: bool):
    """In steps of 1/8 it would stand still, cut to an integer; minus infinity does."""
    inner = [
        index("a", "%c0"),
        "%d = arith.cmpf oge, %sum, %far : f32",
        store("a"),
        f"scf.if %d {{ }} else {{ {MEET} }}",
        turned("a"),
        MEET,
        "%more = arith.addf %sum, %eighth : f32",
        "scf.yield %more : f32",
    ]
    body = "\n".join(
        [
            f"%start = arith.constant {start} : f32",
            "%eighth = arith.constant 1.250000e-01 : f32",
            "%end = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %start) -> (f32) : i32 {",
            *inner,
            "}",
        ]
    )
    assert bool(asked(body).why) == grows


def test_the_last_iterations_may_differ():
    body = loop(
        "%m = arith.subi %n, %c2 : i32",
        "%d = arith.cmpi slt, %i, %m : i32",
        index("a", "%c0"),
        f"scf.if %d {{ {store('a')} }}",
        MEET,
        turned("a"),
        MEET,
    )
    found = asked(body)
    assert (found.why, found.period) == ("", 1)


def test_memory_of_before_the_loop_that_is_used_after_it():
    before = "\n".join((index("z", "%c3"), store("z")))
    rounds = loop(index("a", "%c0"), store("a"), MEET, turned("a"), MEET)
    assert asked(f"{before}\n{rounds}\n{turned('z')}").low == 1  # without a round there is a race
    empty = loop("%s = arith.remsi %i, %c2 : i32", index("a", "%s"), store("a"), load("a"))
    assert asked(f"{before}\n{empty}\n{turned('z')}").why


RING = """
  %full = ttg.local_alloc {allocation.offset = 8192 : i32} : () -> !bar
  %empty = ttg.local_alloc {allocation.offset = 8200 : i32} : () -> !bar
  ttng.init_barrier %full, 1 : !bar
  ttng.init_barrier %empty, 1 : !bar
  ttg.barrier local
  ttg.warp_specialize(%ring, %full, %empty, %n)
  default {
    %r:1 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %c1) -> (i32) : i32 {
      ttng.wait_barrier %empty, %p : !bar
      %a = ttg.memdesc_index %ring[%c0] : !ring -> !one
      ttg.local_store %x, %a : !tile -> !one
      ttg.barrier local
      ttng.arrive_barrier %full, 1 : !bar
      %q = arith.xori %p, %c1 : i32
      scf.yield %q : i32
    }
    ttg.warp_yield
  }
  partition0(%ring1: !ring, %full1: !bar, %empty1: !bar, %n1: i32) num_warps(4) {
    %d0 = arith.constant 0 : i32
    %d1 = arith.constant 1 : i32
    %r:1 = scf.for %i = %d0 to %n1 step %d1 iter_args(%p = %d0) -> (i32) : i32 {
      ttng.wait_barrier %full1, %p : !bar
      %a = ttg.memdesc_index %ring1[%d0] : !ring -> !one
      %l = ttg.local_load %a : !one -> !tile
      ttg.barrier local
      ttng.arrive_barrier %empty1, 1 : !bar
      %q = arith.xori %p, %d1 : i32
      scf.yield %q : i32
    }
    ttg.warp_return
  } : (!ring, !bar, !bar, i32) -> ()
"""


def test_partitions_that_pass_a_buffer_to_and_fro():
    found = asked(RING)
    assert (found.why, found.low, found.period) == ("", 0, 2)


def test_partitions_that_run_ahead_are_not_verified():
    assert asked(RING.replace("ttng.wait_barrier %empty, %p : !bar", "")).why


CONDITIONS = (
    "",
    "%m = arith.subi %n, %c2 : i32\n%d = arith.cmpi slt, %i, %m : i32",
    "%d = arith.cmpi sge, %i, %c3 : i32",
    "%m = arith.remsi %i, %c3 : i32\n%d = arith.cmpi eq, %m, %c1 : i32",
    "%d = arith.cmpi eq, %i, %c7 : i32",
    "%h = arith.muli %i, %c2 : i32\n%d = arith.cmpi slt, %h, %n : i32",
)
PLACES = (
    ("%c0", ""),
    ("%s", "%s = arith.remsi %i, %c2 : i32"),
    ("%s", "%s = arith.remsi %i, %c4 : i32"),
    ("%s", "%t = arith.divsi %i, %c2 : i32\n%s = arith.remsi %t, %c2 : i32"),
)


@st.composite
def loops(draw) -> str:
    """A loop that stores, meets and loads, in turns and under conditions."""
    number, compute = draw(st.sampled_from(PLACES))
    condition = draw(st.sampled_from(CONDITIONS))
    ops = draw(st.lists(st.sampled_from(["store", "load", "meet"]), min_size=2, max_size=5))
    guarded = draw(st.integers(0, len(ops) - 1))
    lines = [compute, condition, index("a", number)]
    for n, op in enumerate(ops):
        text = {"store": store("a"), "load": turned("a"), "meet": MEET}[op]
        text = text.replace("%la", f"%la{n}")
        lines.append(f"scf.if %d {{ {text} }}" if condition and n == guarded else text)
    return loop(*lines)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(loops(), st.sampled_from([33, 47, 64, 91, 130]))
def test_what_holds_for_every_number_holds_for_larger_ones(body: str, n: int):
    if not asked(body).why:
        assert verdict(body, n) is Verdict.VERIFIED
