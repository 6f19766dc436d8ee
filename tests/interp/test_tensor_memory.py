# ruff: noqa: E501
"""Views of tensor memory: stages cut out of several, and the same bytes seen as other elements."""

from __future__ import annotations

import numpy as np

from tests.interp.launching import kinds, run

LINEAR = "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
HEAD = f"""
#linear = {LINEAR}
#bytes = #ttg.linear<{{register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}}>
#chunk = #ttg.linear<{{register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [0, 0]], block = []}}>
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#flat = #ttng.tensor_memory_encoding<blockM = 128, blockN = 4, colStride = 1>
#scales = #ttng.tensor_memory_scales_encoding<>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false}} {{
  tt.func public @k() -> TYPE {{
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
"""
FOOT = "  }\n}\n"
STAGES = "!ttg.memdesc<3x128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
LAST = "!ttg.memdesc<2x128x64xf32, #tmem, #ttng.tensor_memory, mutable, 3x128x64>"
TILE = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
HALF = "!ttg.memdesc<128x32xf32, #tmem, #ttng.tensor_memory, mutable, 128x64>"
WORDS = "!ttg.memdesc<128x64xf16, #tmem, #ttng.tensor_memory, mutable>"


def result_of(lines: str, result: str) -> np.ndarray:
    text = HEAD.replace("TYPE", result) + lines + FOOT
    found = run(text, (1,), {})
    assert kinds(found) == []
    return np.broadcast_to(found.results[0], (1, *found.results[0].shape[1:]))[0]


def constant(name: str, value: float, type_: str) -> str:
    return f"    %{name} = arith.constant dense<{value}> : {type_}\n"


def test_stages_cut_out_of_several() -> None:
    tile = "tensor<128x64xf32, #linear>"
    lines = "".join(constant(f"v{n}", float(n), tile) for n in range(4))
    lines += f"    %m = ttng.tmem_alloc : () -> {STAGES}\n"
    for n in range(3):
        lines += f"    %s{n} = ttg.memdesc_index %m[%c{n}] : {STAGES} -> {TILE}\n"
        lines += f"    ttng.tmem_store %v{n}, %s{n}, %true : {tile} -> {TILE}\n"
    lines += f"""    %last = ttng.tmem_subslice %m {{dim = 0 : i32, offset = 1 : i32}} : {STAGES} -> {LAST}
    %second = ttg.memdesc_index %last[%c1] : {LAST} -> {TILE}
    ttng.tmem_store %v3, %second, %true : {tile} -> {TILE}
"""
    for n in range(3):
        lines += f"    %r{n} = ttng.tmem_load %s{n} : {TILE} -> {tile}\n"
    for n, wanted in enumerate((0, 1, 3)):
        assert (result_of(lines + f"    tt.return %r{n} : {tile}\n", tile) == wanted).all()


def test_the_same_bytes_as_elements_of_half_the_size() -> None:
    tile, words = "tensor<128x64xf32, #linear>", "tensor<128x64xf16, #linear>"
    lines = constant("v", 1.0, tile) + constant("w", 2.0, words)
    lines += f"""    %m = ttng.tmem_alloc %v : ({tile}) -> {TILE}
    %half = ttng.tmem_subslice %m {{offset = 32 : i32}} : {TILE} -> {HALF}
    %words = ttg.memdesc_reinterpret %half : {HALF} -> {WORDS}
    %before = ttng.tmem_load %words : {WORDS} -> {words}
    ttng.tmem_store %w, %words, %true : {words} -> {WORDS}
    %after = ttng.tmem_load %m : {TILE} -> {tile}
"""
    after = result_of(lines + f"    tt.return %after : {tile}\n", tile)
    assert (after[:, :32] == 1).all()
    assert (after[:, 32:].copy().view(np.float16) == 2).all()
    before = result_of(lines + f"    tt.return %before : {words}\n", words)
    assert (before == np.ones(1, np.float32).view(np.float16)[np.arange(64) % 2]).all()


def test_scales_lie_in_the_rows_of_every_warp() -> None:
    scales = "!ttg.memdesc<32x4xi8, #scales, #ttng.tensor_memory, mutable>"
    flat = "!ttg.memdesc<128x4xi8, #flat, #ttng.tensor_memory, mutable>"
    pool = "!ttg.memdesc<128x4xi32, #flat, #ttng.tensor_memory, mutable>"
    small, big = "tensor<32x4xi8, #chunk>", "tensor<128x4xi8, #bytes>"
    lines = f"""    %row = tt.make_range {{start = 0 : i32, end = 32 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 1, parent = #chunk}}>>
    %rows = tt.expand_dims %row {{axis = 1 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 1, parent = #chunk}}>> -> tensor<32x1xi32, #chunk>
    %wide = tt.broadcast %rows : tensor<32x1xi32, #chunk> -> tensor<32x4xi32, #chunk>
    %v = arith.trunci %wide : tensor<32x4xi32, #chunk> to {small}
    %m = ttng.tmem_alloc : () -> {pool}
    %s = ttg.memdesc_reinterpret %m : {pool} -> {scales}
    ttng.tmem_store %v, %s, %true : {small} -> {scales}
    %f = ttg.memdesc_reinterpret %s : {scales} -> {flat}
    %r = ttng.tmem_load %f : {flat} -> {big}
    tt.return %r : {big}
"""
    found = result_of(lines, big)
    assert (found == (np.arange(128) % 32)[:, None]).all()
