"""Ops that pass data through scratch memory: barriers that they contain, and that they need."""

from __future__ import annotations

import pytest

from tests.interp.tracing.common import lines_of, module, pair, races, without
from xttir.analyses import events as ev
from xttir.analyses.events import Mode
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module

TILE = "!ttg.memdesc<16x32xf32, #plain, #smem, mutable>"
ROWS, COLUMNS = "tensor<16x32xf32, #rows>", "tensor<16x32xf32, #columns>"
OWN = "tensor<16x32xf32, #own>"
"""As #rows, each warp has four rows: a conversion moves nothing between warps."""
SCRATCH = "allocation.offset = 4096 : i32, allocation.size = 2048 : i32"
LINE = "tensor<128xi32, #line>"
INTS = "tensor<128x!tt.ptr<i32>, #line>"
SUM = """"tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tt.reduce.return %s : f32
  })"""
SCAN = SUM.replace("tt.reduce", "tt.scan").replace(
    "axis = 0 : i32", "axis = 0 : i32, reverse = false"
)
OPS = {
    "convert": f"%y = ttg.convert_layout %v {{{SCRATCH}}} : {ROWS} -> {COLUMNS}",
    "reduce": f"%y = {SUM} {{{SCRATCH}}} : ({ROWS}) -> tensor<32xf32, #ttg.slice<{{dim = 0, parent = #rows}}>>",  # noqa: E501
    "scan": f"%y = {SCAN} {{{SCRATCH}}} : ({ROWS}) -> {ROWS}",
    "histogram": f"%y = tt.histogram %i {{{SCRATCH}}} : {LINE} -> tensor<64xi32, #line>",
    "gather": f"%y = tt.gather %i[%i] {{axis = 0 : i32, {SCRATCH}}} : ({LINE}, {LINE}) -> {LINE}",
    "scalar atomic": f"%y = tt.atomic_rmw add, relaxed, gpu, %p, %n, %m {{{SCRATCH}}} : (!tt.ptr<i32>, i32, i1) -> i32",  # noqa: E501
}
WITHIN = f"%y = ttg.convert_layout %v {{{SCRATCH}}} : {ROWS} -> {OWN}"
PARAMETERS = f"%v: {ROWS}, %i: {LINE}, %p: !tt.ptr<i32>, %n: i32, %m: i1, %q: {INTS}"


def text_of(body: str) -> str:
    return module(body, PARAMETERS).replace(
        "#smem =",
        "#own = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [1, 32],"
        " warpsPerCTA = [4, 1], order = [0, 1]}>\n#smem =",
    )


def around(op: str) -> str:
    """A store, the op, and a load of other threads of the same buffer."""
    return text_of(
        f"""  %a = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {TILE}
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  {op}
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load"""
    )


@pytest.mark.parametrize("name", OPS)
def test_a_barrier_within_orders_what_is_around(name):
    assert races(around(OPS[name])) == set()


@pytest.mark.parametrize("name", ["convert", "reduce"])
def test_an_op_without_scratch_memory_contains_none(name):
    text = around(OPS[name].replace(f"{{{SCRATCH}}}", ""))
    assert races(text) == {pair(text, "// store", "// load")}


def test_a_conversion_within_warps_contains_none():
    text = around(WITHIN)
    assert races(text) == {pair(text, "// store", "// load")}


def after(op: str) -> str:
    """The op, and a buffer that takes the place of its scratch memory."""
    return text_of(
        f"""  {op}
  ttg.barrier local
  %a = ttg.local_alloc %v {{allocation.offset = 4096 : i32}} : ({ROWS}) -> {TILE} // store"""
    )


def before(op: str) -> str:
    """A buffer that is read, and the op, whose scratch memory takes its place."""
    return text_of(
        f"""  %a = ttg.local_alloc %v {{allocation.offset = 4096 : i32}} : ({ROWS}) -> {TILE}
  ttg.barrier local // first
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load
  ttg.barrier local // second
  {op}"""
    )


@pytest.mark.parametrize("name", OPS)
def test_the_end_of_an_op_is_a_read_of_its_scratch_memory(name):
    text = after(OPS[name])
    assert races(text) == set()
    (found,) = races(without(text, "ttg.barrier"))
    (line,) = lines_of(text, "// store")
    assert line in found


@pytest.mark.parametrize("name", OPS)
def test_its_beginning_is_a_write(name):
    text = before(OPS[name])
    assert races(text) == set()
    (found,) = races(without(text, "// second"))
    (line,) = lines_of(text, "// load")
    assert line in found


def test_a_conversion_within_warps_uses_memory_that_others_use():
    """What was there was read by other warps; what comes is written by them."""
    for text, barrier in ((after(WITHIN), "ttg.barrier"), (before(WITHIN), "// second")):
        assert races(text) == set()
        assert len(races(without(text, barrier))) == 1


# Atomics ------------------------------------------------------------------------------------------


def atomic(sem: str) -> str:
    return (
        f"%y = tt.atomic_rmw add, {sem}, gpu, %q, %i, %ms : ({INTS}, {LINE}, "
        f"tensor<128xi1, #line>) -> {LINE} // atomic"
    )


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
def test_an_atomic_that_acquires_or_releases_contains_a_barrier(sem):
    text = around("%ms = tt.splat %m : i1 -> tensor<128xi1, #line>\n  " + atomic(sem))
    assert races(text) == ({pair(text, "// store", "// load")} if sem == "relaxed" else set())


def test_one_thread_passes_the_result_of_a_scalar_atomic():
    text = text_of(f"  {OPS['scalar atomic']}".replace("size = 2048", "size = 4"))
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    touched = [(e.footprints[0].mode, e.lanes.size) for e in trace.events
               if isinstance(e, ev.Access)]  # fmt: skip
    assert touched == [(Mode.WRITE, 1), (Mode.READ, 128)]
