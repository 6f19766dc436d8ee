# ruff: noqa: E501
"""Partitions that hand a ring of buffers to one another: values in every schedule, and the faults
of programs that do it wrong, each a few words away from the program that does it right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interp.launching import kinds, run
from xttir.policy import AGENT_ORDERS

N = 64
SLOTS = 2

RING = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @ring(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %trips: !tt.ptr<i32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %where = tt.addptr %trips, %pid : !tt.ptr<i32>, i32
    %steps = tt.load %where : !tt.ptr<i32>
    %mem = ttg.local_alloc : () -> !ttg.memdesc<2x64xf32, #shared, #smem, mutable>
    %full = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #shared, #smem, mutable> loc("full")
    %empty = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #shared, #smem, mutable> loc("empty")
    %f0 = ttg.memdesc_index %full[%c0] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
    %f1 = ttg.memdesc_index %full[%c1] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
    %e0 = ttg.memdesc_index %empty[%c0] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
    %e1 = ttg.memdesc_index %empty[%c1] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
    ttng.init_barrier %f0, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
    ttng.init_barrier %f1, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
    ttng.init_barrier %e0, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
    ttng.init_barrier %e1, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
    %sum = ttg.warp_specialize(%mem, %full, %empty, %x, %steps, %pid)
    default {
      %zero = arith.constant dense<0.0> : tensor<64xf32, #blocked>
      %two = arith.constant 2 : i32
      %acc = scf.for %i = %c0 to %steps step %c1 iter_args(%a = %zero) -> (tensor<64xf32, #blocked>) : i32 {
        %slot = arith.remsi %i, %two : i32
        %q = arith.divsi %i, %two : i32
        %phase = arith.andi %q, %c1 : i32
        %f = ttg.memdesc_index %full[%slot] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %e = ttg.memdesc_index %empty[%slot] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %m = ttg.memdesc_index %mem[%slot] : !ttg.memdesc<2x64xf32, #shared, #smem, mutable> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>
        ttng.wait_barrier %f, %phase : !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %v = ttg.local_load %m : !ttg.memdesc<64xf32, #shared, #smem, mutable> -> tensor<64xf32, #blocked>
        ttng.arrive_barrier %e, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %next = arith.addf %a, %v : tensor<64xf32, #blocked>
        scf.yield %next : tensor<64xf32, #blocked>
      }
      ttg.warp_yield %acc : tensor<64xf32, #blocked>
    }
    partition0(%pm: !ttg.memdesc<2x64xf32, #shared, #smem, mutable>, %pf: !ttg.memdesc<2x1xi64, #shared, #smem, mutable>, %pe: !ttg.memdesc<2x1xi64, #shared, #smem, mutable>, %px: !tt.ptr<f32>, %n: i32, %p: i32) num_warps(4) {
      %k0 = arith.constant 0 : i32
      %k1 = arith.constant 1 : i32
      %k2 = arith.constant 2 : i32
      %k64 = arith.constant 64 : i32
      %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
      scf.for %i = %k0 to %n step %k1 : i32 {
        %slot = arith.remsi %i, %k2 : i32
        %q = arith.divsi %i, %k2 : i32
        %ph = arith.andi %q, %k1 : i32
        %phase = arith.xori %ph, %k1 : i32
        %e = ttg.memdesc_index %pe[%slot] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %f = ttg.memdesc_index %pf[%slot] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %m = ttg.memdesc_index %pm[%slot] : !ttg.memdesc<2x64xf32, #shared, #smem, mutable> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>
        ttng.wait_barrier %e, %phase : !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %at = arith.addi %i, %p : i32
        %row = arith.muli %at, %k64 : i32
        %b = tt.addptr %px, %row : !tt.ptr<f32>, i32
        %s = tt.splat %b : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
        %a = tt.addptr %s, %r : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
        %v = tt.load %a : tensor<64x!tt.ptr<f32>, #blocked>
        ttg.local_store %v, %m : tensor<64xf32, #blocked> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>
        ttng.arrive_barrier %f, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>
      }
      ttg.warp_return
    } : (!ttg.memdesc<2x64xf32, #shared, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared, #smem, mutable>, !tt.ptr<f32>, i32, i32) -> tensor<64xf32, #blocked>
    %row = arith.muli %pid, %c64 : i32
    %b = tt.addptr %o, %row : !tt.ptr<f32>, i32
    %s = tt.splat %b : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
    %a = tt.addptr %s, %r : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
    tt.store %a, %sum : tensor<64x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
"""

WAIT_FULL = "        ttng.wait_barrier %f, %phase : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
LOAD = "        %v = ttg.local_load %m : !ttg.memdesc<64xf32, #shared, #smem, mutable> -> tensor<64xf32, #blocked>\n"
ARRIVE_EMPTY = "        ttng.arrive_barrier %e, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
WAIT_EMPTY = "        ttng.wait_barrier %e, %phase : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
STORE = "        ttg.local_store %v, %m : tensor<64xf32, #blocked> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>\n"
ARRIVE_FULL = "        ttng.arrive_barrier %f, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"


def changed(*pairs: tuple[str, str]) -> str:
    text = RING
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def outcome(text: str, trips: list[int], **policy: Any):
    """The launch's result, the sums, and those that are right."""
    count = len(trips)
    x = np.arange((count + max(trips)) * N, dtype=np.float32).reshape(-1, N)
    o = np.full((count, N), -1, np.float32)
    arguments: dict[str, object] = {"x": x, "o": o, "trips": np.array(trips, np.int32)}
    result = run(text, (count,), arguments, **policy)
    wanted = np.stack([x[n : n + k].sum(axis=0) for n, k in enumerate(trips)])
    return result, o, wanted


@pytest.mark.parametrize("order", AGENT_ORDERS)
@pytest.mark.parametrize("batch", [1, 2, 0])
def test_ring_hands_over_every_row(order: str, batch: int) -> None:
    result, got, wanted = outcome(RING, [7, 7, 7], agent_order=order, batch=batch)
    assert kinds(result) == []
    assert result.completed
    assert (got == wanted).all()


BARRIER = "!ttg.memdesc<1xi64, #shared, #smem, mutable>"
TOLD_MORE = changed(
    (
        "    %f0 = ttg.memdesc_index",
        f"""    %more = ttg.local_alloc : () -> {BARRIER} loc("more")
    ttng.init_barrier %more, 1 : {BARRIER}
    %f0 = ttg.memdesc_index""",
    ),
    ("%x, %steps, %pid)", "%x, %steps, %pid, %more)"),
    ("%n: i32, %p: i32)", f"%n: i32, %p: i32, %told: {BARRIER})"),
    ("!tt.ptr<f32>, i32, i32) ->", f"!tt.ptr<f32>, i32, i32, {BARRIER}) ->"),
    (
        WAIT_EMPTY,
        f"""        %first = arith.cmpi eq, %p, %k0 : i32
        ttng.arrive_barrier %told, 1, %first : {BARRIER}
{WAIT_EMPTY}""",
    ),
)
"""The partition of one program arrives once more in every round, at a barrier of its own."""


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_programs_of_a_batch_may_have_done_differently_much(order: str) -> None:
    result, got, wanted = outcome(TOLD_MORE, [7, 7, 7], agent_order=order)
    assert kinds(result) == []
    assert (got == wanted).all()


@pytest.mark.parametrize("seed", range(4))
def test_programs_of_a_batch_may_go_round_differently_often(seed: int) -> None:
    trips = np.random.default_rng(seed).integers(0, 9, 6).tolist()
    result, got, wanted = outcome(RING, trips, agent_order="random", seed=seed, batch=6)
    assert kinds(result) == []
    assert (got == wanted).all()


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_read_before_the_wait(order: str) -> None:
    text = changed((WAIT_FULL + LOAD, LOAD + WAIT_FULL))
    result, _, _ = outcome(text, [7], agent_order=order)
    assert "race" in kinds(result)


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_wait_for_the_wrong_parity(order: str) -> None:
    wrong = WAIT_FULL.replace("%phase", "%wrong")
    flip = "        %wrong = arith.xori %phase, %c1 : i32\n"
    result, _, _ = outcome(changed((WAIT_FULL, flip + wrong)), [7], agent_order=order)
    assert set(kinds(result)) & {"race", "uninitialized", "phase", "deadlock"}


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_stage_is_filled_again_before_it_is_read(order: str) -> None:
    # Filled over and over before the first read, the phases pass the reader by.
    result, _, _ = outcome(changed((WAIT_EMPTY, "")), [7], agent_order=order)
    assert set(kinds(result)) & {"race", "phase", "deadlock"}


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_told_before_it_is_filled(order: str) -> None:
    text = changed((STORE + ARRIVE_FULL, ARRIVE_FULL + STORE))
    result, _, _ = outcome(text, [7], agent_order=order)
    assert "race" in kinds(result)


@pytest.mark.parametrize("batch", [1, 2])
def test_stage_is_never_given_back(batch: int) -> None:
    result, _, _ = outcome(changed((ARRIVE_EMPTY, "")), [7, 7], batch=batch)
    assert kinds(result) == ["deadlock"]
    assert not result.completed
    (fault,) = result.faults
    text = "\n".join(fault.notes)
    assert "the default partition waits for the phase of parity 1 of `full`[0]" in text or (
        "partition 0 waits for the phase of parity 0 of `empty`[0]: 1 of 1 arrival missing" in text
    )


def test_few_stages_need_no_giving_back() -> None:
    result, got, wanted = outcome(changed((ARRIVE_EMPTY, "")), [SLOTS])
    assert kinds(result) == []
    assert (got == wanted).all()


def test_barrier_waits_for_more_arrivals_than_come() -> None:
    text = changed(("ttng.init_barrier %f0, 1", "ttng.init_barrier %f0, 2"))
    result, _, _ = outcome(text, [7])
    assert kinds(result) == ["deadlock"]
    assert "1 of 2 arrivals missing" in "\n".join(result.faults[0].notes)


def test_more_arrivals_than_the_barrier_waits_for() -> None:
    text = changed((ARRIVE_FULL, ARRIVE_FULL.replace(", 1 :", ", 2 :")))
    result, _, _ = outcome(text, [7])
    assert "phase" in kinds(result)


def test_barrier_that_nobody_initialised() -> None:
    line = "    ttng.init_barrier %e1, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
    result, _, _ = outcome(changed((line, "")), [7])
    assert "lifetime" in kinds(result)


def test_barrier_initialised_twice() -> None:
    line = "    ttng.init_barrier %e1, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
    result, _, _ = outcome(changed((line, line + line)), [7])
    assert kinds(result) == ["lifetime"]


def test_barrier_initialised_by_an_agent_beside_its_users() -> None:
    line = "    ttng.init_barrier %f0, 1 : !ttg.memdesc<1xi64, #shared, #smem, mutable>\n"
    start = "      %two = arith.constant 2 : i32\n"
    result, _, _ = outcome(changed((line, ""), (start, start + line)), [7])
    assert "race" in kinds(result)


def test_checks_can_be_switched_off() -> None:
    text = changed((WAIT_FULL + LOAD, LOAD + WAIT_FULL))
    result, _, _ = outcome(text, [7], checks="bounds")
    assert kinds(result) == []


def test_loop_of_a_partition_that_never_ends_is_reported() -> None:
    text = changed(
        (
            WAIT_EMPTY,
            WAIT_EMPTY
            + """        %go = arith.constant true
        scf.while (%w = %k0) : (i32) -> i32 {
          scf.condition(%go) %w : i32
        } do {
        ^bb0(%w: i32):
          scf.yield %w : i32
        }
""",
        )
    )
    result, _, _ = outcome(text, [2])
    assert kinds(result) == ["deadlock"]


OUTSIDE = """        %far = arith.addi %slot, %two : i32
        %g = ttg.memdesc_index %empty[%far] : !ttg.memdesc<2x1xi64, #shared, #smem, mutable> -> !ttg.memdesc<1xi64, #shared, #smem, mutable>
        %held = arith.constant HELD
        ttng.arrive_barrier %g, 1, %held : !ttg.memdesc<1xi64, #shared, #smem, mutable>
"""


@pytest.mark.parametrize("held", [False, True])
def test_stage_that_does_not_exist_is_a_fault_where_it_is_used(held: bool) -> None:
    extra = OUTSIDE.replace("HELD", "true" if held else "false")
    result, got, wanted = outcome(changed((WAIT_FULL, WAIT_FULL + extra)), [4])
    if held:
        assert "out-of-bounds" in kinds(result)
    else:
        assert kinds(result) == []
        assert (got == wanted).all()


@pytest.mark.parametrize("order", AGENT_ORDERS)
def test_undefined_values_are_undefined_for_the_partition_that_gets_them(order: str) -> None:
    load = "        %v = tt.load %a : tensor<64x!tt.ptr<f32>, #blocked>\n"
    buffer = "!ttg.memdesc<64xf32, #shared, #smem, mutable>"
    fresh = (
        f"        %fresh = ttg.local_alloc : () -> {buffer}\n"
        f"        %v = ttg.local_load %fresh : {buffer} -> tensor<64xf32, #blocked>\n"
    )
    narrow = (
        "        %half = arith.truncf %v : tensor<64xf32, #blocked> to tensor<64xf16, #blocked>\n"
        "        %w = arith.extf %half : tensor<64xf16, #blocked> to tensor<64xf32, #blocked>\n"
    )
    text = changed((load, fresh), (LOAD, LOAD + narrow), ("%a, %v", "%a, %w"))
    result, _, _ = outcome(text, [3, 2], agent_order=order)
    assert kinds(result) == ["uninitialized"]
    assert "used as stored value" in " ".join(result.faults[0].notes)
