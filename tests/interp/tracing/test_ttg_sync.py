"""Barriers: which threads meet where, and values that differ between threads."""

from __future__ import annotations

import pytest

from tests.interp.tracing.common import faults, module, pair, races, without
from xttir.analyses import events as ev
from xttir.diagnostics import Unsupported
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module

TILE = "!ttg.memdesc<32x32xf16, #plain, #smem, mutable>"
LINE = "!ttg.memdesc<32xf32, #plain1, #smem, mutable>"
AT = "{allocation.offset = 0 : i32}"
ROWS, COLUMNS = "tensor<32x32xf16, #rows>", "tensor<32x32xf16, #columns>"


def around(op: str) -> str:
    return module(
        f"""  %a = ttg.local_alloc %v {AT} : ({ROWS}) -> {TILE} // store
  {op}
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load""",
        f"%v: {ROWS}",
        total=4,
    )


@pytest.mark.parametrize(
    "op",
    [
        "ttg.barrier local",
        "ttg.barrier none",
        "ttg.barrier global_read|global_write",
        "ttg.barrier tensor_read",
        "ttg.barrier all",
        "gpu.barrier",
        "nvvm.barrier",
        "%id = arith.constant 3 : i32\n  %n = arith.constant 128 : i32\n"
        "  nvvm.barrier id = %id number_of_threads = %n",
    ],
)
def test_every_barrier_orders_all_memory(op):
    assert races(around(op)) == set()


def test_no_barrier():
    text = around("")
    assert races(text) == {pair(text, "// store", "// load")}


def test_a_barrier_for_more_threads_than_come():
    op = "%id = arith.constant 3 : i32\n  %n = arith.constant 256 : i32\n" \
        "  nvvm.barrier id = %id number_of_threads = %n"  # fmt: skip
    assert {str(f.kind) for f in faults(around(op))} == {"deadlock"}


def partitions(default: str, first: str, warps: int = 4) -> str:
    return module(
        f"""  %a = ttg.local_alloc {AT} : () -> {LINE}
  ttg.warp_specialize(%a) default {{
    {default}
    ttg.warp_yield
  }}
  partition0(%b: {LINE}) num_warps({warps}) {{
    {first}
    ttg.warp_return
  }} : ({LINE}) -> ()
  %x = ttg.local_load %a : {LINE} -> tensor<32xf32, #line> // load""",
        "",
        total=4 + warps,
    )


STORE = "%{0} = arith.constant dense<1.0> : tensor<32xf32, {1}>\n" \
    "    ttg.local_store %{0}, %{2} : tensor<32xf32, {1}> -> " + LINE + " // {3}"  # fmt: skip


def test_partitions_meet_others_only_at_their_beginning_and_end():
    mine = STORE.format("v", "#line", "a", "default")
    others = STORE.format("w", "#line", "b", "partition")
    assert races(partitions("", others)) == set()
    assert races(partitions(mine, "")) == set()
    text = partitions(mine, others)
    assert races(text) == {pair(text, "// default", "// partition")}
    barriers = partitions(mine + "\n ttg.barrier local", "ttg.barrier local\n" + others)
    assert races(barriers) == {pair(barriers, "// default", "// partition")}


def test_each_partition_has_a_barrier_of_its_own():
    text = partitions("ttg.barrier local", "ttg.barrier local")
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    met = [(int(e.id[0]), int(e.count[0])) for e in trace.events if isinstance(e, ev.NamedBarrier)]
    assert sorted(m for m in met if m[0] != 1) == [(0, 128), (2, 128)]
    assert {m for m in met if m[0] == 1} == {(1, 256)}
    one = partitions("ttg.barrier local", "ttg.barrier local", warps=1)
    (trace,) = trace_module(parse_module(one, "k.mlir"), Launch("k"))
    assert [e.lanes.tolist() for e in trace.events if isinstance(e, ev.WarpSync)] == [
        list(range(128, 160))
    ]


def test_a_loop_in_a_partition_needs_its_barriers():
    body = f"""%c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 : i32 {{
      {STORE.format("w", "#line", "b", "write")}
      ttg.barrier local // first
      %y = ttg.local_load %b : {LINE} -> tensor<32xf32, #line> // read
      ttg.barrier local // second
    }}"""
    text = partitions("", body)
    assert races(text) == set()
    # All warps store the same, but not before others have read.
    for barrier in ("// first", "// second"):
        assert races(without(text, barrier)) == {pair(text, "// write", "// read")}


# Values that differ between threads ---------------------------------------------------------------

WARP = """%w = ttg.warp_id
  %c0 = arith.constant 0 : i32
  %f = arith.cmpi eq, %w, %c0 : i32
  """


def test_a_branch_that_only_some_warps_take_is_not_traced():
    with pytest.raises(Unsupported, match="not the same in all threads"):
        faults(around(f"{WARP} scf.if %f {{ ttg.barrier local }}"))
    with pytest.raises(Unsupported, match="not the same in all threads"):
        faults(around(f"{WARP} scf.for %i = %c0 to %w step %w : i32 {{ ttg.barrier local }}"))


def test_one_that_gives_no_events_is_passed_over():
    text = around(WARP + "%s = scf.if %f -> (i32) { scf.yield %w : i32 } else { "
                  "scf.yield %c0 : i32 }")  # fmt: skip
    assert races(text) == {pair(text, "// store", "// load")}
    used = around(WARP + "%s = scf.if %f -> (i32) { scf.yield %w : i32 } else { "
                  "scf.yield %c0 : i32 }\n %g = arith.cmpi eq, %s, %c0 : i32\n"
                  " scf.if %g { ttg.barrier local }")  # fmt: skip
    with pytest.raises(Unsupported, match="not the same in all threads"):
        faults(used)


def test_of_one_warp_there_is_one_number():
    body = f"""{WARP} scf.if %f {{ ttg.barrier local }}"""
    text = module("  " + body, "", warps=1, total=1)
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    assert sum(isinstance(e, ev.WarpSync) for e in trace.events) == 1


def test_inline_assembly():
    quiet = 'tt.elementwise_inline_asm "{0}" {{constraints = "=r,r", packed_element = 1 : i32, ' \
        'pure = true}} %w : i32 -> i32'  # fmt: skip
    fine = around(f"{WARP} %r = " + quiet.format("mov.b32 $0, $1;"))
    assert len(races(fine)) == 1
    for word in ("bar.sync 0;", "st.shared.b32 [$1], 0;", "mbarrier.arrive.b64 _, [$1];"):
        with pytest.raises(Unsupported, match="inline assembly"):
            faults(around(f"{WARP} %r = " + quiet.format(word)))


def test_partitions_may_meet_at_a_barrier_by_number():
    mine, others = (
        STORE.format("v", "#line", "a", "default"),
        f"%y = ttg.local_load %b : {LINE} -> tensor<32xf32, #line> // partition",
    )
    meet = "%id{0} = arith.constant 5 : i32\n    %n{0} = arith.constant 256 : i32\n" \
        "    nvvm.barrier id = %id{0} number_of_threads = %n{0}"  # fmt: skip
    text = partitions(f"{mine}\n    {meet.format(0)}", f"{meet.format(1)}\n    {others}")
    assert races(text) == set()
    late = partitions(f"{meet.format(0)}\n    {mine}", f"{meet.format(1)}\n    {others}")
    assert races(late) == {pair(late, "// default", "// partition")}
