"""Modules before the allocation of shared memory: threads of one partition are taken to meet."""

from __future__ import annotations

from tests.interp.tracing.common import lines_of, module, pair, races, without
from xttir.analyses.verify import verify_trace
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module
from xttir.interp.tracing.barriers_to_come import TAKEN

TILE = "!ttg.memdesc<32x32xf16, #plain, #smem, mutable>"
ROWS, COLUMNS = "tensor<32x32xf16, #rows>", "tensor<32x32xf16, #columns>"
POINTERS = "tensor<32x32x!tt.ptr<f16>, #rows>"


def early(body: str, parameters: str = "") -> str:
    return module(body, parameters, placed=False)


ORDINARY = early(
    f"""  %a = ttg.local_alloc %v : ({ROWS}) -> {TILE}
  %x = ttg.local_load %a : {TILE} -> {COLUMNS}
  ttg.local_store %v, %a : {ROWS} -> {TILE}
  %b = ttg.local_alloc %v : ({ROWS}) -> {TILE}""",
    f"%v: {ROWS}",
)


def assumptions(text: str) -> list[str]:
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    return verify_trace(trace).assumptions


def test_accesses_of_one_partition_are_ordered_by_barriers_to_come():
    assert races(ORDINARY) == set()
    assert TAKEN in assumptions(ORDINARY)


def test_that_is_not_assumed_where_no_barrier_is_needed():
    text = early(f"  %a = ttg.local_alloc %v : ({ROWS}) -> {TILE}", f"%v: {ROWS}")
    assert TAKEN not in assumptions(text)


COPY = early(
    f"""  %a = ttg.local_alloc : () -> {TILE}
  %t = ttg.async_copy_global_to_local %p, %a : {POINTERS} -> {TILE} // copy
  %g = ttg.async_commit_group tokens %t
  %q = ttg.async_wait %g {{num = 0 : i32}} // wait
  %x = ttg.local_load %a : {TILE} -> {COLUMNS} // load""",
    f"%p: {POINTERS}",
)


def test_copies_must_be_waited_for_all_the_same():
    assert races(COPY) == set()
    assert races(without(COPY, "// wait")) == {pair(COPY, "// copy", "// load")}
    late = COPY.replace("num = 0", "num = 1")
    assert races(late) == {pair(COPY, "// copy", "// load")}


def test_partitions_are_not_ordered():
    line = "!ttg.memdesc<32xf32, #plain1, #smem, mutable>"
    text = early(
        f"""  %a = ttg.local_alloc : () -> {line}
  ttg.warp_specialize(%a) default {{
    %v = arith.constant dense<1.0> : tensor<32xf32, #line>
    ttg.local_store %v, %a : tensor<32xf32, #line> -> {line} // store
    ttg.warp_yield
  }}
  partition0(%b: {line}) num_warps(4) {{
    %x = ttg.local_load %b : {line} -> tensor<32xf32, #line> // load
    ttg.warp_return
  }} : ({line}) -> ()"""
    )
    assert races(text) == {pair(text, "// store", "// load")}


def test_buffers_are_apart():
    text = early(
        f"""  %a = ttg.local_alloc : () -> {TILE}
  %b = ttg.local_alloc : () -> {TILE}
  %t = ttg.async_copy_global_to_local %p, %a : {POINTERS} -> {TILE} // copy
  %x = ttg.local_load %b : {TILE} -> {COLUMNS} // load""",
        f"%p: {POINTERS}",
    )
    assert races(text) == set()


def test_every_call_has_buffers_of_its_own():
    callee = f"""tt.func private @f(%p: {POINTERS}) {{
  %a = ttg.local_alloc : () -> {TILE}
  %t = ttg.async_copy_global_to_local %p, %a : {POINTERS} -> {TILE} // copy
  tt.return
}}"""
    call = f"  tt.call @f(%p) : ({POINTERS}) -> ()\n"
    once = module(call, f"%p: {POINTERS}", placed=False, others=callee)
    assert races(once) == set()
    twice = module(call + call, f"%p: {POINTERS}", placed=False, others=callee)
    assert races(twice) == set()
    loop = module(
        f"""  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  scf.for %i = %c0 to %c2 step %c1 : i32 {{
  {call}
  }}""",
        f"%p: {POINTERS}",
        placed=False,
        others=callee,
    )
    (line,) = lines_of(loop, "// copy")
    assert races(loop) == {frozenset((line,))}


def test_engines_wait_for_the_barriers_to_come():
    """A product reads what all threads have stored, and the next store comes after all threads have
    waited for it: with the wait, not without."""
    tile = "!ttg.memdesc<64x64xf16, #wide, #smem, mutable>"
    text = early(
        f"""  %a = ttg.local_alloc %v : (tensor<64x64xf16, #rows>) -> {tile}
  %d = ttng.warp_group_dot %a, %a, %c {{inputPrecision = 0 : i32, isAsync = true}} : {tile} * {tile} -> tensor<64x64xf32, #mma> // product
  %e:2 = ttng.warp_group_dot_wait %d, %a {{pendings = 0 : i32}} : tensor<64x64xf32, #mma>, {tile} // wait
  ttg.local_store %v, %a : tensor<64x64xf16, #rows> -> {tile} // store""",  # noqa: E501
        "%v: tensor<64x64xf16, #rows>, %c: tensor<64x64xf32, #mma>",
    ).replace(
        "#smem =",
        "#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false,"
        " elementBitWidth = 16}>\n#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0,"
        " warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>\n#smem =",
    )
    (trace,) = trace_module(parse_module(text, "k.mlir"), Launch("k"))
    kinds = [type(e).__name__ for e in trace.events]
    assert kinds.index("NamedBarrier") < kinds.index("AsyncOp")
    found = verify_trace(trace).faults
    assert "race" not in {str(f.kind) for f in found}
    (late,) = trace_module(parse_module(without(text, "// wait"), "k.mlir"), Launch("k"))
    lines = [{p.line for p in f.locations} for f in verify_trace(late).faults]
    assert set(pair(text, "// product", "// store")) in lines
