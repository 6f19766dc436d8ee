# ruff: noqa: E501
"""What shared memory holds does not depend on how programs are batched: drawn programs store and
load whole tiles and parts of them, in branches and loops that programs take differently."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interp.launching import kinds, run
from tests.interp.test_ttg_memory import LOAD, STAGES, STORE, TILE, kernel

PROGRAMS = 5
TENSOR = "tensor<16x32xf32, #blocked>"
PART = "!ttg.memdesc<8x32xf32, #shared, #smem, mutable, 16x32>"
COPIED = "<16x32xf32, #shared, #smem, mutable>"


@dataclass
class Writer:
    """Text of a kernel under construction; `acc` names what has been summed up so far."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def add(self, line: str) -> None:
        self.lines.append("    " + line)


def stage(w: Writer, which: str) -> str:
    """A tile: stage 0 or 1, or one that depends on the program."""
    index = {"0": "%c0", "1": "%c1", "pid": "%odd"}[which]
    tile = w.name()
    w.add(f"{tile} = ttg.memdesc_index %s[{index}] : {STAGES} -> {TILE}")
    return tile


def emit(w: Writer, step: tuple, acc: str) -> str:
    """Write one step; gives the name of the sum after it."""
    kind, *rest = step
    if kind == "store":
        tile = stage(w, rest[0])
        w.add(f"ttg.local_store {acc}, {tile} : {TENSOR} -> {TILE}")
    elif kind == "part":
        tile, part, value = stage(w, rest[0]), w.name(), w.name()
        w.add(f"{part} = ttg.memdesc_subslice {tile}[{rest[1]}, 0] : {TILE} -> {PART}")
        w.add(f"{value} = arith.constant dense<{rest[2]}.0> : tensor<8x32xf32, #blocked>")
        w.add(f"ttg.local_store {value}, {part} : tensor<8x32xf32, #blocked> -> {PART}")
    elif kind == "copy":
        tile, token = stage(w, rest[0]), w.name()
        w.add(
            f"{token} = ttg.async_copy_global_to_local %px, {tile} : tensor<16x32x!tt.ptr<f32>, #blocked> -> {COPIED}"
        )
        group = w.name()
        w.add(f"{group} = ttg.async_commit_group tokens {token}")
    elif kind == "wait":
        w.add(f"{w.name()} = ttg.async_wait {{num = {rest[0]} : i32}}")
    elif kind == "load":
        tile, value, total = stage(w, rest[0]), w.name(), w.name()
        w.add(f"{value} = ttg.local_load {tile} : {TILE} -> {TENSOR}")
        w.add(f"{total} = arith.addf {acc}, {value} : {TENSOR}")
        return total
    elif kind == "if":
        flag, result = w.name(), w.name()
        w.add(f"{flag} = arith.cmpi slt, %pid, %k{rest[0]} : i32")
        w.add(f"{result} = scf.if {flag} -> ({TENSOR}) {{")
        w.add(f"scf.yield {emit_all(w, rest[1], acc)} : {TENSOR}")
        w.add("} else {")
        w.add(f"scf.yield {emit_all(w, rest[2], acc)} : {TENSOR}")
        w.add("}")
        return result
    elif kind == "for":
        result, inner = w.name(), w.name()
        bound = {"same": "%c2_", "pid": "%pid"}[rest[0]]
        w.add(
            f"{result} = scf.for {w.name()} = %c0 to {bound} step %c1 iter_args({inner} = {acc}) -> ({TENSOR}) : i32 {{"
        )
        w.add(f"scf.yield {emit_all(w, rest[1], inner)} : {TENSOR}")
        w.add("}")
        return result
    return acc


def emit_all(w: Writer, steps: list[tuple], acc: str) -> str:
    for step in steps:
        acc = emit(w, step, acc)
    return acc


WHICH = st.sampled_from(["0", "1", "pid"])
SIMPLE = st.one_of(
    st.tuples(st.just("store"), WHICH),
    st.tuples(st.just("part"), WHICH, st.sampled_from([0, 8]), st.integers(1, 9)),
    st.tuples(st.just("load"), WHICH),
    st.tuples(st.just("copy"), WHICH),
    st.tuples(st.just("wait"), st.integers(0, 2)),
)


def blocks(depth: int) -> st.SearchStrategy:
    """Lists of steps that nest branches and loops up to `depth`."""
    if depth == 0:
        return st.lists(SIMPLE, min_size=1, max_size=3)
    inner = blocks(depth - 1)
    branch = st.tuples(st.just("if"), st.integers(0, 4), inner, inner)
    loop = st.tuples(st.just("for"), st.sampled_from(["same", "pid"]), inner)
    return st.lists(st.one_of(SIMPLE, branch, loop, branch), min_size=1, max_size=3)


FIRST = [("store", "0"), ("store", "1")]
LAST = [("load", "0"), ("load", "1")]


@settings(max_examples=25, deadline=None)
@given(blocks(3))
def test_batches_change_nothing(steps: list[tuple]) -> None:
    w = Writer()
    for n in range(5):
        w.add(f"%k{n} = arith.constant {n} : i32")
    w.add("%odd = arith.remsi %pid, %c2_ : i32")
    w.add(f"%s = ttg.local_alloc : () -> {STAGES}")
    out = emit_all(w, [*FIRST, *steps, *LAST], "%v")
    w.add(f"%zero = arith.constant dense<0.0> : {TENSOR}")
    w.add(f"%out = arith.addf {out}, %zero : {TENSOR}")
    text = kernel(LOAD + "\n".join(w.lines) + "\n" + STORE)
    x = np.random.default_rng(0).standard_normal((PROGRAMS, 16, 32)).astype(np.float32)
    seen = []
    for batch in (1, 2, 0):
        y = np.zeros_like(x)
        result = run(text, (PROGRAMS,), {"x": x.copy(), "y": y}, batch=batch)
        seen.append((sorted(set(kinds(result))), y.view(np.int32)))
    for faults, y in seen[1:]:
        assert faults == seen[0][0]
        np.testing.assert_array_equal(y, seen[0][1])
