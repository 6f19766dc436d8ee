"""Room around the user's buffers: they never overlap, and hold what they held."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xttir.frontends.mlir import parse_module
from xttir.interp.launch import Storage, TensorArg
from xttir.interp.memory import Region
from xttir.refine.widening import widened
from xttir.refine.world import Case

PLAIN = """
tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) {
  tt.return
}
"""
FROM_MEMORY = """
tt.func public @k(%a: !tt.ptr<i64>, %b: !tt.ptr<f32>) {
  %v = tt.load %a : !tt.ptr<i64>
  %p = tt.int_to_ptr %v : i64 -> !tt.ptr<f32>
  %w = tt.load %p : !tt.ptr<f32>
  tt.store %b, %w : !tt.ptr<f32>
  tt.return
}
"""
LAYOUTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=5)


def laid_out(gaps: list[tuple[int, int]]) -> Case:
    """Storages one after the other: (bytes between, elements) in units of 64 bytes and 1."""
    memory: list[Storage] = []
    at = 0x5000_0040
    for n, (gap, count) in enumerate(gaps):
        at += 64 * gap
        data = np.arange(count, dtype=np.float32) + 100 * n
        memory.append(Storage(data.view(np.uint8), at))
        at += -(-4 * count // 64) * 64
    arguments = tuple(
        TensorArg(f"t{n}", s, 0, (s.bytes.size // 4,), (1,), np.dtype(np.float32))
        for n, s in enumerate(memory)
    )
    return Case("user", (1, 1, 1), arguments, tuple(memory))


def check(case: Case, wide: Case) -> None:
    spans = sorted((s.address, s.address + s.bytes.size) for s in wide.memory)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    for old, new, was, now in zip(
        case.arguments, wide.arguments, case.memory, wide.memory, strict=True
    ):
        assert isinstance(old, TensorArg)
        assert isinstance(new, TensorArg)
        assert new.storage is now
        held = now.bytes[new.offset : new.offset + was.bytes.size]
        assert held.tobytes() == was.bytes.tobytes()
        if old.shape[0]:
            assert (Region(new).address - Region(old).address) % 4096 == 0


@given(LAYOUTS)
def test_buffers_are_moved_apart(gaps: list[tuple[int, int]]) -> None:
    case = laid_out(gaps)
    wide = widened(case, parse_module(PLAIN, "plain"))
    check(case, wide)
    for was, now in zip(case.memory, wide.memory, strict=True):
        assert not was.bytes.size or now.bytes.size >= was.bytes.size + 2 * 4 * 65536


@given(LAYOUTS)
def test_addresses_stay_where_memory_may_hold_them(gaps: list[tuple[int, int]]) -> None:
    case = laid_out(gaps)
    wide = widened(case, parse_module(FROM_MEMORY, "addresses"))
    check(case, wide)
    for old, new in zip(case.arguments, wide.arguments, strict=True):
        assert isinstance(old, TensorArg)
        assert isinstance(new, TensorArg)
        assert Region(new).address == Region(old).address
