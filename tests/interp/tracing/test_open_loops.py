"""Loops that go round as often as data says: a few rounds show what any number of them does."""

from __future__ import annotations

import random

import pytest

from tests.interp.tracing.common import module, pair, races
from xttir.diagnostics import Unsupported
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module

PARAMETERS = "%x: tensor<64xf32, #wide>, %p: !tt.ptr<i32>, %n: i32"
LAYOUT = (
    "#wide = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], "
    "order = [0]}>\n#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], "
    "warpsPerCTA = [2], order = [0]}>"
)
MEMORY = "!ttg.memdesc<64xf32, #plain1, #smem, mutable>"
ALLOC = f"""
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {MEMORY}
  %b = ttg.local_alloc {{allocation.offset = 256 : i32}} : () -> {MEMORY}"""
MEET = "ttg.barrier local"


def store(to: str) -> str:
    return f"ttg.local_store %x, %{to} : tensor<64xf32, #wide> -> {MEMORY}"


def load(of: str, name: str) -> str:
    return f"%{name} = ttg.local_load %{of} : {MEMORY} -> tensor<64xf32, #far>"


DATA = "%more = tt.load %p : !tt.ptr<i32>\n  %go = arith.cmpi ne, %more, %c0 : i32"


def blocks(before: str, body: str, after: str, decide: str = DATA) -> str:
    return kernel(f"""{before}
  cf.br ^head(%c0 : i32)
^head(%i: i32):
  {decide}
  cf.cond_br %go, ^body, ^end
^body:
  {body}
  %next = arith.addi %i, %c1 : i32
  cf.br ^head(%next : i32)
^end:
  {after}""")


def structured(before: str, body: str, after: str, bound: str) -> str:
    return kernel(f"""{before}
  %end = {bound}
  scf.for %i = %c0 to %end step %c1 : i32 {{
    {body}
  }}
  {after}""")


def kernel(body: str) -> str:
    text = module(f"{ALLOC}\n{body}", PARAMETERS, warps=2, total=2)
    return text.replace("\nmodule", f"\n{LAYOUT}\nmodule", 1)


FROM_DATA = "tt.load %p : !tt.ptr<i32>"
KNOWN = "arith.addi %n, %c0 : i32"


def test_a_barrier_that_the_second_round_needs():
    once = f"{store('a')}\n{MEET}\n{load('a', 'y')}"
    for text in (blocks("", once, ""), structured("", once, "", FROM_DATA)):
        assert races(text) == {pair(text, "local_store", "local_load")}
        assert races(text.replace(load("a", "y"), f"{load('a', 'y')}\n{MEET}")) == set()


def test_a_loop_may_not_go_round_at_all():
    text = blocks(store("a"), MEET, load("a", "y"))
    assert races(text) == {pair(text, "local_store", "local_load")}


def test_a_loop_whose_end_stands_last_goes_round_once():
    text = kernel(f"""{store("a")}
  cf.br ^body
^body:
  {MEET}
  {DATA}
  cf.cond_br %go, ^body, ^end
^end:
  {load("a", "y")}""")
    assert races(text) == set()


def test_a_loop_within_a_loop():
    inner = f"""
  cf.br ^outer(%c0 : i32)
^outer(%o: i32):
  %again = arith.cmpi slt, %o, %n : i32
  cf.cond_br %again, ^inside, ^out
^inside:
  cf.br ^head
^head:
  {DATA}
  cf.cond_br %go, ^body, ^end
^body:
  {store("a")}
  {MEET}
  cf.br ^head
^end:
  {load("a", "y")}
  %more_o = arith.addi %o, %c1 : i32
  cf.br ^outer(%more_o : i32)
^out:"""
    text = kernel(inner)
    assert races(text, {2: 1}) == set()
    assert races(text, {2: 2}) == {pair(text, "local_store", "local_load")}


def test_what_a_round_leaves_behind_is_not_supported():
    copy = "%t = ttg.async_commit_group\n  ttg.async_wait {num = 1 : i32}"
    text = blocks("", copy, "")
    with pytest.raises(Unsupported, match="async_commit_group in a loop whose end"):
        trace_module(parse_module(text, "k.mlir"), Launch("k"))


def test_a_number_that_grows_with_the_rounds_is_not_known():
    many = "!ttg.memdesc<2x64xf32, #plain1, #smem, mutable>"
    turn = f"""%slot = arith.andi %i, %c1 : i32
  %v = ttg.memdesc_index %ring[%slot] : {many} -> {MEMORY}
  ttg.local_store %x, %v : tensor<64xf32, #wide> -> {MEMORY}"""
    ring = f"%ring = ttg.local_alloc {{allocation.offset = 512 : i32}} : () -> {many}"
    with pytest.raises(Unsupported, match="number of a buffer that depends on data"):
        trace_module(parse_module(blocks(ring, turn, ""), "k.mlir"), Launch("k"))


@pytest.mark.parametrize("seed", range(24))
def test_against_loops_of_every_length(seed: int):
    rng = random.Random(seed)
    parts = [drawn(rng, part) for part in ("before", "body", "after")]
    numbers = {2: 0}
    open_ = races(blocks(*parts))
    known: set[frozenset[int]] = set()
    counted = blocks(
        *parts, decide="%one = arith.addi %n, %c0 : i32\n  %go = arith.cmpi slt, %i, %n : i32"
    )
    for n in range(7):
        known |= races(counted, {**numbers, 2: n})
    assert open_ == known
    assert races(structured(*parts, FROM_DATA)) == {
        pair_ for n in range(7) for pair_ in races(structured(*parts, KNOWN), {2: n})
    }


def drawn(rng: random.Random, part: str) -> str:
    ops = [MEET, MEET, store("a"), store("b"), "a", "b"]
    lines = []
    for number in range(rng.randrange(5)):
        op = rng.choice(ops)
        lines.append(load(op, f"{part}{number}") if op in "ab" else op)
    return "\n  ".join(lines)
