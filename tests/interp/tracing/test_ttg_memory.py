"""Events of ops on shared memory: what is ordered, and what becomes a race without its barrier."""

from __future__ import annotations

import pytest

from tests.interp.tracing.common import faults, module, pair, races, without
from xttir.diagnostics import Kind, Unsupported
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module

TILE = "!ttg.memdesc<32x32xf16, #plain, #smem, mutable>"
RING = "!ttg.memdesc<3x32x32xf16, #plain, #smem, mutable>"
AT = "{allocation.offset = 0 : i32}"
ROWS, COLUMNS = "tensor<32x32xf16, #rows>", "tensor<32x32xf16, #columns>"
DATA = f"%v: {ROWS}, %w: {COLUMNS}"

STORE_LOAD = module(
    f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  ttg.barrier local
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load""",
    DATA,
)


def test_a_store_and_a_load_of_other_threads():
    assert races(STORE_LOAD) == set()
    assert races(without(STORE_LOAD, "ttg.barrier")) == {pair(STORE_LOAD, "// store", "// load")}


def test_a_thread_needs_no_barrier_for_its_own_elements():
    text = STORE_LOAD.replace(COLUMNS + " // load", ROWS + " // load")
    assert races(without(text, "ttg.barrier")) == set()


def test_lanes_that_load_by_matrices_need_one():
    """ldmatrix reads rows of 16 bytes for lanes that hold a word of them each."""
    words, tile = "tensor<256xf32, #line>", "!ttg.memdesc<256xf32, #plain1, #smem, mutable>"
    text = module(
        f"""  %a = ttg.local_alloc {AT} : () -> {tile}
  ttg.local_store %v, %a : {words} -> {tile} // store
  ttg.barrier local
  %x = ttg.local_load %a : {tile} -> {words} // load""",
        f"%v: {words}",
    )
    assert races(text) == set()
    assert races(without(text, "ttg.barrier")) == {pair(text, "// store", "// load")}
    assert races(without(text, "ttg.barrier").replace("cuda:90", "cuda:70")) == set()


def test_an_allocation_with_contents_is_a_store():
    text = module(
        f"""  %a = ttg.local_alloc %v {AT} : ({ROWS}) -> {TILE} // store
  ttg.barrier local
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load""",
        DATA,
    )
    assert races(text) == set()
    assert races(without(text, "ttg.barrier")) == {pair(text, "// store", "// load")}


def test_memory_that_is_used_again():
    text = module(
        f"""  %a = ttg.local_alloc %v {AT} : ({ROWS}) -> {TILE}
  ttg.barrier local
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load
  ttg.local_dealloc %a : {TILE}
  ttg.barrier local // again
  %b = ttg.local_alloc %v {AT} : ({ROWS}) -> {TILE} // store""",
        DATA,
    )
    assert races(text) == set()
    assert races(without(text, "// again")) == {pair(text, "// load", "// store")}
    apart = text.replace(f"%b = ttg.local_alloc %v {AT}", "%b = ttg.local_alloc %v "
                         "{allocation.offset = 2048 : i32}")  # fmt: skip
    assert races(without(apart, "// again")) == set()


def test_copies_of_one_element_are_stored_as_one_value():
    """32 elements in four warps: all of them store."""
    memory = "!ttg.memdesc<32xf32, #plain1, #smem, mutable>"
    text = module(f"  %a = ttg.local_alloc %v {AT} : (tensor<32xf32, #line>) -> {memory}",
                  "%v: tensor<32xf32, #line>")  # fmt: skip
    assert races(text) == set()


PARTS = module(
    f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  %b = ttg.memdesc_subslice %a[0, 0] : {TILE} -> !ttg.memdesc<32x16xf16, #plain, #smem, mutable, 32x32>
  %c = ttg.memdesc_subslice %a[0, 16] : {TILE} -> !ttg.memdesc<32x16xf16, #plain, #smem, mutable, 32x32>
  ttg.local_store %v, %b : tensor<32x16xf16, #rows> -> !ttg.memdesc<32x16xf16, #plain, #smem, mutable, 32x32> // store
  %x = ttg.local_load %c : !ttg.memdesc<32x16xf16, #plain, #smem, mutable, 32x32> -> tensor<32x16xf16, #columns> // load""",  # noqa: E501
    "%v: tensor<32x16xf16, #rows>",
)


def test_subslices_that_interleave_are_apart():
    assert races(PARTS) == set()
    meeting = PARTS.replace("%a[0, 16]", "%a[0, 0]")
    assert races(meeting) == {pair(meeting, "// store", "// load")}


def test_a_transposed_view_shows_the_same_bytes():
    turned = TILE.replace("#plain", "#turned")
    text = module(
        f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  %t = ttg.memdesc_trans %a {{order = array<i32: 1, 0>}} : {TILE} -> {turned}
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  %x = ttg.local_load %t : {turned} -> {COLUMNS} // load""",
        DATA,
    ).replace("#smem =", "#turned = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1,"
              " order = [0, 1]}>\n#smem =")  # fmt: skip
    # The layout is turned as well: each thread takes what it has stored.
    assert races(text) == set()
    other = text.replace(COLUMNS + " // load", ROWS + " // load")
    assert races(other) == {pair(other, "// store", "// load")}


def test_reinterpreted_memory_is_the_same_memory():
    line = "!ttg.memdesc<512xf32, #plain1, #smem, mutable>"
    text = module(
        f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  %b = ttg.memdesc_reinterpret %a : {TILE} -> {line}
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  ttg.barrier local
  %x = ttg.local_load %b : {line} -> tensor<512xf32, #line> // load""",
        DATA,
    )
    assert races(text) == set()
    assert races(without(text, "ttg.barrier")) == {pair(text, "// store", "// load")}


# Buffers ------------------------------------------------------------------------------------------


def buffers(first: str, second: str) -> str:
    return module(
        f"""  %r = ttg.local_alloc {AT} : () -> {RING}
  %i = arith.constant {first} : i32
  %j = arith.constant {second} : i32
  %a = ttg.memdesc_index %r[%i] : {RING} -> {TILE} // first
  %b = ttg.memdesc_index %r[%j] : {RING} -> {TILE} // second
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  %x = ttg.local_load %b : {TILE} -> {COLUMNS} // load""",
        DATA,
    )


def test_buffers_of_a_ring_are_apart():
    assert races(buffers("0", "2")) == set()
    text = buffers("1", "1")
    assert races(text) == {pair(text, "// store", "// load")}


@pytest.mark.parametrize("number", ["5", "-1"])
def test_a_buffer_that_does_not_exist_must_not_be_accessed(number):
    (fault,) = faults(buffers("0", number))
    assert fault.kind is Kind.OUT_OF_BOUNDS
    assert fault.locations[0].line in pair(buffers("0", number), "// second", "// second")
    unused = without(buffers("0", number), "// load")
    assert faults(unused) == []


CHOICE = module(
    f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  %b = ttg.local_alloc {{allocation.offset = 2048 : i32}} : () -> {TILE}
  %s = arith.select %c, %a, %b : {TILE}
  ttg.local_store %v, %a : {ROWS} -> {TILE} // store
  %x = ttg.local_load %s : {TILE} -> {COLUMNS} // load""",
    f"%c: i1, {DATA}",
)


def test_a_choice_between_buffers():
    assert races(CHOICE, {0: 0}) == set()
    assert races(CHOICE, {0: 1}) == {pair(CHOICE, "// store", "// load")}


def test_a_choice_that_depends_on_an_argument_that_is_not_given():
    with pytest.raises(Unsupported):
        faults(CHOICE)


# Asynchronous copies ------------------------------------------------------------------------------

POINTERS = "tensor<32x32x!tt.ptr<f16>, #rows>"
COPY = module(
    f"""  %a = ttg.local_alloc {AT} : () -> {TILE}
  %t = ttg.async_copy_global_to_local %p, %a : {POINTERS} -> {TILE} // copy
  %g = ttg.async_commit_group tokens %t
  %q = ttg.async_wait %g {{num = 0 : i32}} // wait
  ttg.barrier local
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load""",
    f"%p: {POINTERS}",
)


def test_a_copy_that_is_waited_for():
    assert races(COPY) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        without(COPY, "ttg.barrier"),
        without(COPY, "// wait"),
        without(COPY, "async_commit_group").replace("async_wait %g", "async_wait"),
        COPY.replace("num = 0", "num = 1"),
    ],
    ids=["no barrier", "no wait", "no group", "one group may be open"],
)
def test_a_copy_that_is_not(wrong):
    assert races(wrong) == {pair(COPY, "// copy", "// load")}


def test_each_thread_waits_for_its_own_copies():
    """Without a barrier, what one thread has copied itself may be used by it."""
    own = COPY.replace(COLUMNS + " // load", ROWS + " // load")
    assert races(without(own, "ttg.barrier")) == set()


def test_only_one_thread_copies_what_several_hold():
    memory = "!ttg.memdesc<32xf32, #plain1, #smem, mutable>"
    text = module(
        f"""  %a = ttg.local_alloc {AT} : () -> {memory}
  %t = ttg.async_copy_global_to_local %p, %a : tensor<32x!tt.ptr<f32>, #line> -> {memory}""",
        "%p: tensor<32x!tt.ptr<f32>, #line>",
    )
    assert races(text) == set()
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    assert [e.lanes.size for e in trace.events if hasattr(e, "engine")] == [32]


def ring(stages: int, ahead: int, pending: int) -> str:
    """A loop that copies `ahead` iterations ahead into a ring of buffers."""
    memory = f"!ttg.memdesc<{stages}x32x32xf16, #plain, #smem, mutable>"
    copy = f"""ttg.async_copy_global_to_local %p, %{{0}} : {POINTERS} -> {TILE} // copy {{1}}"""
    begin = "\n".join(
        f"""  %n{i} = arith.constant {i} : i32
  %b{i} = ttg.memdesc_index %r[%n{i}] : {memory} -> {TILE}
  %t{i} = {copy.format(f"b{i}", f"before {i}")}
  %g{i} = ttg.async_commit_group tokens %t{i}"""
        for i in range(ahead)
    )
    return module(
        f"""  %r = ttg.local_alloc {AT} : () -> {memory}
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %end = arith.constant 9 : i32
  %ahead = arith.constant {ahead} : i32
  %stages = arith.constant {stages} : i32
{begin}
  scf.for %i = %c0 to %end step %c1 : i32 {{
    %q = ttg.async_wait {{num = {pending} : i32}}
    ttg.barrier local
    %m = arith.remsi %i, %stages : i32
    %b = ttg.memdesc_index %r[%m] : {memory} -> {TILE}
    %x = ttg.local_load %b : {TILE} -> {COLUMNS} // load
    %j = arith.addi %i, %ahead : i32
    %n = arith.remsi %j, %stages : i32
    %d = ttg.memdesc_index %r[%n] : {memory} -> {TILE}
    %t = {copy.format("d", "within")}
    %g = ttg.async_commit_group tokens %t
  }}""",
        f"%p: {POINTERS}",
    )


def test_a_ring_with_enough_buffers():
    assert races(ring(3, 2, 1)) == set()
    assert races(ring(4, 3, 2)) == set()


def test_a_ring_with_too_few_buffers():
    text = ring(2, 2, 1)
    assert pair(text, "// copy within", "// load") in races(text)


def test_a_ring_that_waits_for_too_few_copies():
    text = ring(3, 2, 2)
    found = races(text)
    assert pair(text, "// copy within", "// load") in found
    assert pair(text, "// copy before 0", "// load") in found


# Unknown places -----------------------------------------------------------------------------------

LINE = "!ttg.memdesc<128xi32, #plain1, #smem, mutable>"
INTS = "tensor<128xi32, #line>"


def indexed(op: str) -> str:
    return module(
        f"""  %a = ttg.local_alloc {AT} : () -> {LINE}
  ttg.local_store %v, %a : {INTS} -> {LINE} // store
  ttg.barrier local // first
  {op} // indexed
  ttg.barrier local // second
  %x = ttg.local_load %a : {LINE} -> {INTS} // load""",
        f"%v: {INTS}, %i: {INTS}",
    )


GATHER = f"%y = ttg.local_gather %a[%i] {{axis = 0 : i32}} : {LINE}, {INTS} -> {INTS}"
SCATTER = f"ttg.local_scatter %a[%i], %v {{axis = 0 : i32}} : {LINE}, {INTS}, {INTS}"
ATOMIC = (
    "%y = ttg.local_atomic_scatter_rmw add, %a[%i], %v {axis = 0 : i32} : "
    f"({LINE}, {INTS}, {INTS}) -> {INTS}"
)


@pytest.mark.parametrize("op", [GATHER, SCATTER, ATOMIC], ids=["gather", "scatter", "atomic"])
def test_places_that_depend_on_data_may_be_anywhere_along_the_axis(op):
    text = indexed(op)
    assert races(text) == set()
    assert races(without(text, "// first")) == {pair(text, "// store", "// indexed")}
    after = races(without(text, "// second"))
    assert after == (set() if op == GATHER else {pair(text, "// indexed", "// load")})


def test_atomics_do_not_race_with_each_other():
    text = indexed(f"{ATOMIC}\n  {ATOMIC.replace('%y', '%z')}")
    assert races(text) == set()
    both = indexed(f"{SCATTER} // one\n  {SCATTER}")
    assert races(both) == {pair(both, "// one", "// indexed")}


# Calls --------------------------------------------------------------------------------------------


def calls(first: int, second: int) -> str:
    callee = f"""tt.func private @f(%v: {ROWS}) {{
  %a = ttg.local_alloc %v {AT} : ({ROWS}) -> {TILE} // store
  ttg.barrier local
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load
  tt.return
}}"""
    return module(
        f"""  tt.call @f(%v) {{allocation.offset = {first} : i32}} : ({ROWS}) -> ()
  tt.call @f(%v) {{allocation.offset = {second} : i32}} : ({ROWS}) -> ()""",
        DATA,
        others=callee,
    )


def test_memory_of_a_function_is_where_its_call_says():
    assert races(calls(0, 2048)) == set()
    text = calls(1024, 1024)
    assert races(text) == {pair(text, "// store", "// load")}


# Barriers and blocks ------------------------------------------------------------------------------


def test_a_barrier_that_does_not_exist():
    ring = "!ttg.memdesc<2x1xi64, #plain1, #smem, mutable>"
    one = "!ttg.memdesc<1xi64, #plain1, #smem, mutable>"
    text = module(
        f"""  %r = ttg.local_alloc {AT} : () -> {ring}
  %i = arith.constant {{0}} : i32
  %b = ttg.memdesc_index %r[%i] : {ring} -> {one}
  ttng.init_barrier %b, 1 : {one}"""
    )
    assert faults(text.replace("{0}", "1")) == []
    (fault,) = faults(text.replace("{0}", "2"))
    assert fault.kind is Kind.OUT_OF_BOUNDS


@pytest.mark.parametrize(
    "use",
    [
        "ttng.arrive_barrier %b, 1, %p",
        "ttng.barrier_expect %b, 16, %p",
        "ttng.wait_barrier %b, %i, %p",
    ],
)
def test_a_barrier_that_does_not_exist_and_is_not_used(use: str):
    """Predicates keep the first rounds of pipelines from what is before the first buffer."""
    ring = "!ttg.memdesc<2x1xi64, #plain1, #smem, mutable>"
    one = "!ttg.memdesc<1xi64, #plain1, #smem, mutable>"
    text = module(
        f"""  %r = ttg.local_alloc {AT} : () -> {ring}
  %p = arith.constant false
  %i = arith.constant -1 : i32
  %b = ttg.memdesc_index %r[%i] : {ring} -> {one}
  {use} : {one}"""
    )
    assert faults(text) == []
    (fault,) = faults(text.replace("constant false", "constant true"))[:1]
    assert fault.kind is Kind.OUT_OF_BOUNDS


CLUSTER = """
#split = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
                       order = [1, 0], CGALayout = [[1, 0]]}>
#other = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
                       order = [1, 0], CGALayout = [[0, 1]]}>
#memory = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0],
                                CGALayout = [[1, 0]]}>
#smem = #ttg.shared_memory
module attributes {ttg.shared = 65536 : i32, "ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 2 : i32,
                   ttg.target = "cuda:90", "ttg.total-num-warps" = 4 : i32,
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func public @k(%v: tensor<64x64xf16, #split>, %w: tensor<64x64xf16, #other>) {
BODY
  ttng.cluster_barrier
  tt.return
}
}"""
HALVES = "!ttg.memdesc<64x64xf16, #memory, #smem, mutable>"


def test_a_store_into_the_memory_of_another_block_needs_a_cluster_barrier():
    """Triton lowers it to st.shared::cluster."""
    text = CLUSTER.replace(
        "BODY",
        f"""  %a = ttg.local_alloc %w {AT} : (tensor<64x64xf16, #other>) -> {HALVES} // store
  BARRIER
  %x = ttg.local_load %a : {HALVES} -> tensor<64x64xf16, #split> // load""",
    )
    assert races(text.replace("BARRIER", "ttng.cluster_barrier")) == set()
    assert races(text.replace("BARRIER", "ttg.barrier local")) == {
        pair(text, "// store", "// load")
    }
    own = text.replace("%w {", "%v {").replace("(tensor<64x64xf16, #other>)",
                                               "(tensor<64x64xf16, #split>)")  # fmt: skip
    assert races(own.replace("BARRIER", "ttg.barrier local")) == set()


def test_a_conversion_between_blocks_meets_the_cluster_and_reads_all_of_it():
    split, other = "tensor<64x64xf16, #split>", "tensor<64x64xf16, #other>"
    scratch = "{allocation.offset = 0 : i32, allocation.size = 4096 : i32}"
    text = CLUSTER.replace(
        "BODY",
        f"""  %x = ttg.convert_layout %v {scratch} : {split} -> {other} // convert
  BARRIER
  %a = ttg.local_alloc %v {AT} : ({split}) -> {HALVES} // store""",
    )
    assert races(text.replace("BARRIER", "ttng.cluster_barrier")) == set()
    found = races(text.replace("BARRIER", "ttg.barrier local"))
    assert found == {pair(text, "// convert", "// store")}
