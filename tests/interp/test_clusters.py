# ruff: noqa: E501
"""Programs of several CTAs: arrivals and bytes at their barriers, and launch control."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.launching import kinds, run
from tests.interp.test_ttng_tma import FOOT, HEAD, RIGHT, descriptor
from xttir.diagnostics import Unsupported
from xttir.dialects.context import make_context
from xttir.dialects.syntax.parser import TTParser
from xttir.frontends.mlir import parse_module
from xttir.interp.clusters import ORDER, commits, part_bytes

SPLIT, SAME = "[[1, 0]]", "[[0, 0]]"


def two_ctas(text: str, tile: str, barriers: int) -> str:
    """A module of one CTA as one of two: tiles spread by the bases `tile`, with a barrier for each
    CTA or one for both."""
    bar = "[[1]]" if barriers == 2 else "[[0]]"
    text = text.replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2')
    text = text.replace("order = [1, 0]}", f"order = [1, 0], CGALayout = {tile}}}")
    text = text.replace("elementBitWidth = 32}", f"elementBitWidth = 32, CGALayout = {tile}}}")
    text = text.replace("order = [0]}", f"order = [0], CGALayout = {bar}}}")
    return text.replace("<1xi64", f"<{barriers}xi64")


@pytest.mark.parametrize("tile", [SPLIT, SAME])
@pytest.mark.parametrize("barriers", [2, 1])
@pytest.mark.parametrize("right", [True, False])
def test_each_cta_waits_for_its_part(tile: str, barriers: int, right: bool) -> None:
    part = 1024 if tile == SPLIT else 2048
    size = part if right else 3072 - part
    a = np.arange(40 * 36, dtype=np.float32).reshape(40, 36)
    b = np.full_like(a, -1)
    text = HEAD + "".join(RIGHT).replace(", 2048,", f", {size},") + FOOT
    text = two_ctas(text, tile, barriers)
    result = run(text, (3,), {"a": descriptor("a", a), "b": descriptor("b", b)})
    assert kinds(result) == ([] if right else ["deadlock"])
    assert result.counts.left_out[ORDER] == 1
    if right:
        assert (b[:, 8:] == 2 * a[:, 8:]).all()


def memory(bases: str) -> str:
    shared = f"#ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16, CGALayout = {bases}}}>"
    return f"!ttg.memdesc<256x128xf16, {shared}, #ttg.shared_memory, mutable>"


def type_of(text: str):
    return TTParser(make_context(), text).parse_type()


@pytest.mark.parametrize(
    ("bases", "two", "wanted"),
    [
        ([], False, 1),
        # Rows of a and columns of b over two CTAs each: who shares a row or a column of four.
        (["[[1, 0], [0, 0]]", "[[0, 0], [0, 1]]"], False, 3),
        (["[[1, 0], [0, 0]]", "[[0, 0], [0, 1]]"], True, 2),
        (["[[1, 0], [2, 0]]", "[[0, 0], [0, 0]]"], False, 4),
        (["[[1, 0], [2, 0]]"], False, 1),
    ],
)
def test_ctas_that_arrive_at_a_barrier(bases: list[str], two: bool, wanted: int) -> None:
    module = parse_module('module attributes {"ttg.num-ctas" = 4 : i32} {}')
    assert commits(module, [type_of(memory(b)) for b in bases], two) == wanted


def test_bytes_of_a_part() -> None:
    assert part_bytes(type_of(memory("[[1, 0], [0, 0]]"))) == 256 * 128 * 2 // 2
    assert part_bytes(type_of(memory("[[1, 0], [2, 0]]"))) == 256 * 128 * 2 // 4


REPLICAS = """
#same = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0], CGALayout = [[0, 0]]}>
#split = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0], CGALayout = [[1, 0]]}>
#rsame = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0], CGALayout = [[0, 0]]}>
#rsplit = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0], CGALayout = [[1, 0]]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
    LOAD
    %s = ttg.local_alloc %v : (tensor<FROM>) -> !ttg.memdesc<MFROM, #smem, mutable>
    %t = ttg.memdesc_reinterpret %s : !ttg.memdesc<MFROM, #smem, mutable> -> !ttg.memdesc<MTO, #smem, mutable>
    %w = ttg.local_load %t : !ttg.memdesc<MTO, #smem, mutable> -> tensor<TO>
    STORE
    tt.return
  }
}
"""


def pointers(name: str, rows: int, layout: str) -> str:
    """Pointers `%p` + name to the rows of a tensor of 32 columns."""
    return f"""
    %r{name} = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32, #ttg.slice<{{dim = 1, parent = {layout}}}>>
    %e{name} = tt.expand_dims %r{name} {{axis = 1 : i32}} : tensor<{rows}xi32, #ttg.slice<{{dim = 1, parent = {layout}}}>> -> tensor<{rows}x1xi32, {layout}>
    %n{name} = arith.constant dense<32> : tensor<{rows}x1xi32, {layout}>
    %m{name} = arith.muli %e{name}, %n{name} : tensor<{rows}x1xi32, {layout}>
    %b{name} = tt.broadcast %m{name} : tensor<{rows}x1xi32, {layout}> -> tensor<{rows}x32xi32, {layout}>
    %c{name} = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 0, parent = {layout}}}>>
    %f{name} = tt.expand_dims %c{name} {{axis = 0 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 0, parent = {layout}}}>> -> tensor<1x32xi32, {layout}>
    %g{name} = tt.broadcast %f{name} : tensor<1x32xi32, {layout}> -> tensor<{rows}x32xi32, {layout}>
    %o{name} = arith.addi %b{name}, %g{name} : tensor<{rows}x32xi32, {layout}>
    %s{name} = tt.splat %{name} : !tt.ptr<f32> -> tensor<{rows}x32x!tt.ptr<f32>, {layout}>
    %p{name} = tt.addptr %s{name}, %o{name} : tensor<{rows}x32x!tt.ptr<f32>, {layout}>, tensor<{rows}x32xi32, {layout}>"""


def reinterpreted(source: tuple[int, str], target: tuple[int, str]) -> str:
    """A kernel that stores a tile (rows, "same" or "split") and reads the memory as another."""
    (rows, kind), (rows_to, kind_to) = source, target
    load = pointers("x", rows, f"#r{kind}")
    load += f"\n    %v = tt.load %px : tensor<{rows}x32x!tt.ptr<f32>, #r{kind}>"
    store = pointers("y", rows_to, f"#r{kind_to}")
    store += f"\n    tt.store %py, %w : tensor<{rows_to}x32x!tt.ptr<f32>, #r{kind_to}>"
    text = REPLICAS.replace("LOAD", load).replace("STORE", store)
    text = text.replace("MFROM", f"{rows}x32xf32, #{kind}").replace(
        "MTO", f"{rows_to}x32xf32, #{kind_to}"
    )
    return text.replace("FROM", f"{rows}x32xf32, #r{kind}").replace(
        "TO", f"{rows_to}x32xf32, #r{kind_to}"
    )


def test_memory_that_both_ctas_hold_is_seen_twice() -> None:
    x = np.arange(512, dtype=np.float32).reshape(16, 32)
    y = np.full((32, 32), -1, np.float32)
    result = run(reinterpreted((16, "same"), (32, "split")), (1,), {"x": x, "y": y})
    assert not result.faults
    assert (y == np.concatenate((x, x))).all()


def test_halves_of_two_ctas_are_one_value_only_if_they_are_alike() -> None:
    half = np.arange(512, dtype=np.float32).reshape(16, 32)
    x = np.concatenate((half, half))
    y = np.full((16, 32), -1, np.float32)
    text = reinterpreted((32, "split"), (16, "same"))
    assert not run(text, (1,), {"x": x, "y": y}).faults
    assert (y == half).all()
    x[20, 5] += 1
    with pytest.raises(Unsupported, match="several CTAs"):
        run(text, (1,), {"x": x, "y": y})


CONTROL = """
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%o: !tt.ptr<i32>) {
    %c0 = arith.constant 0 : i32
    %true = arith.constant true
    %pid = tt.get_program_id x : i32
    %p = tt.addptr %o, %pid : !tt.ptr<i32>, i32
    %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %r = ttg.local_alloc : () -> !ttg.memdesc<2xi64, #bar, #smem, mutable>
    ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.clc_try_cancel %r, %f : !ttg.memdesc<2xi64, #bar, #smem, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.barrier_expect %f, 16, %true : !ttg.memdesc<1xi64, #bar, #smem, mutable>
WAIT
    %a = ttng.clc_load_result %r : !ttg.memdesc<2xi64, #bar, #smem, mutable> -> i128
    %more = ttng.clc_is_canceled %a : i128 -> i1
    %next = ttng.clc_get_program_id %a, x : i128 -> i32
    %v = arith.select %more, %next, %pid : i32
    tt.store %p, VALUE : !tt.ptr<i32>
    tt.return
  }
}
"""
WAIT = "    ttng.wait_barrier %f, %c0 : !ttg.memdesc<1xi64, #bar, #smem, mutable>"


@pytest.mark.parametrize("value", ["%v", "%next"])
@pytest.mark.parametrize("waits", [True, False])
def test_launch_control_hands_nothing_over(value: str, waits: bool) -> None:
    o = np.full(3, -1, np.int32)
    text = CONTROL.replace("WAIT", WAIT if waits else "").replace("VALUE", value)
    result = run(text, (3,), {"o": o})
    wanted = [] if waits else ["race"]
    assert kinds(result) == sorted(wanted + (["undefined"] if value == "%next" else []))
    if value == "%v":
        assert o.tolist() == [0, 1, 2]


def test_launch_control_before_it_is_lowered() -> None:
    """The answer as a value, which is put into memory."""
    head, rest = CONTROL.split("    %f = ")
    layout = (
        "#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], "
        "order = [0]}>\n"
    )
    ask = (
        "    %s = ttng.clc_try_cancel_sync : tensor<2xi64, #row>\n"
        "    %r = ttg.local_alloc %s : (tensor<2xi64, #row>) "
        "-> !ttg.memdesc<2xi64, #bar, #smem, mutable>\n"
    )
    text = layout + head + ask + "    %a =" + rest.split("%a =")[1].replace("VALUE", "%v")
    o = np.full(3, -1, np.int32)
    assert kinds(run(text, (3,), {"o": o})) == []
    assert o.tolist() == [0, 1, 2]
