"""Footprints of threads and of views against an enumeration of elements, one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType

from xttir.analyses.events import Mode
from xttir.dialects.layouts.to_linear import element_of
from xttir.dialects.ttg import MemDescType
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing.footprints import along, footprint, pieces, whole
from xttir.interp.tracing.values import View, pattern_of

SHAPE = (32, 32)
REGISTERS = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],"
    " order = [1, 0]}>",
    "#ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4],"
    " order = [0, 1]}>",
    # Warps, threads and registers that hold copies.
    "#ttg.blocked<{sizePerThread = [4, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],"
    " order = [1, 0]}>",
    "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2],"
    " instrShape = [16, 8]}>",
    "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0,"
    " warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>",
)
MEMORY = (
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 2, perPhase = 2, maxPhase = 4, order = [0, 1]}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>",
    "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [32, 32]}>",
)
ELEMENTS = {"f16": 2, "f32": 4}


def types(registers: str, memory: str, element: str, buffers: int = 0) -> tuple[TensorType, Any]:
    """A tensor, and a descriptor of memory of its shape (or of several of them)."""
    shape = f"{SHAPE[0]}x{SHAPE[1]}x{element}"
    lead = f"{buffers}x" if buffers else ""
    (function,) = parse_module(
        f"""module attributes {{"ttg.num-warps" = 4 : i32}} {{
        tt.func @f(%a: tensor<{shape}, {registers}>,
                   %b: !ttg.memdesc<{lead}{shape}, {memory}, #ttg.shared_memory, mutable>) {{
          tt.return }} }}""",
        verify=False,
    ).body.ops
    tensor, descriptor = function.regions[0].blocks[0].arg_types
    assert isinstance(tensor, TensorType)
    return tensor, descriptor


def agent(warps: int = 4) -> Any:
    """One block of four warps."""
    lanes = np.arange(warps * 32, dtype=np.int32)
    tracer = SimpleNamespace(state={}, first_block=0)
    return SimpleNamespace(warps=warps, blocks=1, tracer=tracer, lanes=lanes)


def view_of(ty: MemDescType, shift: int = 0) -> View:
    return View(ty, pattern_of(ty), shift, None)  # pyright: ignore[reportArgumentType]


def covered(f: Any, row: int) -> list[int]:
    """Bytes of a row."""
    starts = f.starts[row]
    return sorted(s + i for s in starts[starts >= 0].tolist() for i in range(f.size))


def bytes_of(view: View, index: tuple[int, ...], size: int) -> list[int]:
    at = int(view.pattern.at[index]) + view.shift
    return list(range(at, at + size))


def expected(tensor: TensorType, view: View, size: int) -> list[list[int]]:
    """Bytes of each thread, element by element."""
    table = element_of(tensor)
    out = []
    for warp in range(4):
        for lane in range(32):
            mine = set(map(tuple, table[:, lane, warp, 0].tolist()))
            out.append(sorted(b for index in mine for b in bytes_of(view, index, size)))
    return out


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("registers", REGISTERS)
def test_threads_touch_the_elements_that_they_hold(registers, memory):
    for element, size in ELEMENTS.items():
        if "nvmma" in memory and size != 2:
            continue
        tensor, descriptor = types(registers, memory, element)
        view = view_of(descriptor, shift=512)
        f = footprint(agent(), tensor, view, Mode.READ)
        want = expected(tensor, view, size)
        assert [covered(f, row) for row in range(128)] == want


def test_pieces_are_as_large_as_neighbours_allow():
    tensor, descriptor = types(REGISTERS[0], MEMORY[0], "f16")
    f = footprint(agent(), tensor, view_of(descriptor), Mode.WRITE)
    assert (f.size, f.starts.shape) == (8, (128, 2))
    tensor, descriptor = types(REGISTERS[1], MEMORY[0], "f16")
    assert footprint(agent(), tensor, view_of(descriptor), Mode.WRITE).size == 2


@pytest.mark.parametrize("registers", REGISTERS)
def test_once_is_every_element_by_the_first_who_holds_it(registers):
    tensor, descriptor = types(registers, MEMORY[0], "f16")
    view = view_of(descriptor)
    f = footprint(agent(), tensor, view, Mode.WRITE, once=True)
    every = [covered(f, row) for row in range(128)]
    seen: set[int] = set()
    for mine, want in zip(every, expected(tensor, view, 2), strict=True):
        assert set(mine) == set(want) - seen
        seen |= set(mine)
    assert sum(map(len, every)) == len(seen) == 32 * 32 * 2


@given(
    memory=st.sampled_from(MEMORY[:4]),
    rows=st.sampled_from([(0, 16), (16, 16), (8, 8), (0, 32)]),
    columns=st.sampled_from([(0, 16), (16, 16), (8, 8), (0, 32)]),
    buffer=st.integers(0, 2),
)
def test_views_cover_their_elements_and_nothing_else(memory, rows, columns, buffer):
    _, descriptor = types(REGISTERS[0], memory, "f16", buffers=3)
    all_of_it = view_of(descriptor, shift=1024)
    _, one = types(REGISTERS[0], memory, "f16")
    part = all_of_it.index(buffer, one)
    box = SimpleNamespace(get_shape=lambda: (rows[1], columns[1]))
    pattern = part.subslice([rows[0], columns[0]], box).pattern  # pyright: ignore[reportArgumentType]
    view = View(one, pattern, part.shift, None)  # pyright: ignore[reportArgumentType]
    f = whole(agent(), view, Mode.READ)
    want = [
        b
        for i in range(rows[0], rows[0] + rows[1])
        for j in range(columns[0], columns[0] + columns[1])
        for b in bytes_of(all_of_it, (buffer, i, j), 2)
    ]
    assert f.starts.shape[0] == 1
    assert covered(f, 0) == sorted(want)
    starts, size = pieces(view)
    assert len(starts) * size == len(want)


@pytest.mark.parametrize("axis", [0, 1])
def test_places_that_are_not_known_lie_along_the_axis(axis):
    tensor, descriptor = types(REGISTERS[0], MEMORY[1], "f32")
    view = view_of(descriptor)
    f = along(agent(), tensor, view, axis, Mode.READ)
    table = element_of(tensor)
    assert f.may
    for lane in (0, 9, 31):
        other = {int(table[r, lane, 2, 0, 1 - axis]) for r in range(table.shape[0])}
        want = [
            b
            for o in other
            for n in range(SHAPE[axis])
            for b in bytes_of(view, (n, o) if axis == 0 else (o, n), 4)
        ]
        assert covered(f, 64 + lane) == sorted(want)


def test_equal_footprints_of_a_trace_are_one_object():
    tensor, descriptor = types(REGISTERS[0], MEMORY[0], "f16")
    a, view = agent(), view_of(descriptor)
    again = View(descriptor, view.pattern, 0, None)  # pyright: ignore[reportArgumentType]
    assert footprint(a, tensor, view, Mode.READ) is footprint(a, tensor, again, Mode.READ)
    assert footprint(a, tensor, view, Mode.READ) is not footprint(a, tensor, view, Mode.WRITE)
