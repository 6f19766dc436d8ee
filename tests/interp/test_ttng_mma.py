# ruff: noqa: E501
"""wgmma, tcgen05 and tensor memory: products are those of `tt.dot`, bit for bit, and whoever reads
or overwrites too early races with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.interp.launching import kinds, run
from xttir.interp.dot_scaled import dot_scaled
from xttir.interp.numerics import products

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#tiles = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#halves = #ttg.blocked<{sizePerThread = [1, 32], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#acc = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared64 = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 8}>
#sharedT = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#scales = #ttng.tensor_memory_scales_encoding<>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
"""
POINTERS = """
    %r_@ = tt.make_range {end = ROWS : i32, start = 0 : i32} : tensor<ROWSxi32, #ttg.slice<{dim = 1, parent = #LAYOUT}>>
    %c_@ = tt.make_range {end = COLUMNS : i32, start = 0 : i32} : tensor<COLUMNSxi32, #ttg.slice<{dim = 0, parent = #LAYOUT}>>
    %re_@ = tt.expand_dims %r_@ {axis = 1 : i32} : tensor<ROWSxi32, #ttg.slice<{dim = 1, parent = #LAYOUT}>> -> tensor<ROWSx1xi32, #LAYOUT>
    %ce_@ = tt.expand_dims %c_@ {axis = 0 : i32} : tensor<COLUMNSxi32, #ttg.slice<{dim = 0, parent = #LAYOUT}>> -> tensor<1xCOLUMNSxi32, #LAYOUT>
    %w_@ = arith.constant dense<COLUMNS> : tensor<ROWSx1xi32, #LAYOUT>
    %rw_@ = arith.muli %re_@, %w_@ : tensor<ROWSx1xi32, #LAYOUT>
    %rb_@ = tt.broadcast %rw_@ : tensor<ROWSx1xi32, #LAYOUT> -> tensor<ROWSxCOLUMNSxi32, #LAYOUT>
    %cb_@ = tt.broadcast %ce_@ : tensor<1xCOLUMNSxi32, #LAYOUT> -> tensor<ROWSxCOLUMNSxi32, #LAYOUT>
    %o_@ = arith.addi %rb_@, %cb_@ : tensor<ROWSxCOLUMNSxi32, #LAYOUT>
    %s_@ = tt.splat %@ : !tt.ptr<TYPE> -> tensor<ROWSxCOLUMNSx!tt.ptr<TYPE>, #LAYOUT>
    %p_@ = tt.addptr %s_@, %o_@ : tensor<ROWSxCOLUMNSx!tt.ptr<TYPE>, #LAYOUT>, tensor<ROWSxCOLUMNSxi32, #LAYOUT>
"""


def pointers(name: str, rows: int, columns: int, kind: str, layout: str = "blocked") -> str:
    """`%p_NAME`: pointers to a matrix that `%NAME` points to."""
    text = POINTERS.replace("@", name).replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    return text.replace("TYPE", kind).replace("LAYOUT", layout)


def loaded(name: str, rows: int, columns: int, kind: str, layout: str = "blocked") -> str:
    """`%NAME_v`: the matrix that `%NAME` points to."""
    load = (
        f"    %{name}_v = tt.load %p_{name} : tensor<{rows}x{columns}x!tt.ptr<{kind}>, #{layout}>\n"
    )
    return pointers(name, rows, columns, kind, layout) + load


def module(parameters: str, body: str) -> str:
    constants = """    %true = arith.constant true
    %false = arith.constant false
    %c0 = arith.constant 0 : i32
"""
    function = f"  tt.func public @k({parameters}) {{\n{constants}{body}    tt.return\n  }}\n}}\n"
    return HEAD + function


def matrix(seed: int, rows: int, columns: int, dtype: type = np.float16) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


# --- wgmma ----------------------------------------------------------------------------------------

OPERANDS = loaded("a", 64, 64, "f16") + loaded("b", 64, 64, "f16")
IN_SHARED = """    %am = ttg.local_alloc %a_v : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
    %bm = ttg.local_alloc %b_v : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
"""
FENCE = "    ttng.fence_async_shared {bCluster = false}\n"
ZERO = "    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>\n"
DOT = "    %d = ttng.warp_group_dot %am, %bm, %zero {inputPrecision = 0 : i32, isAsync = true} : !ttg.memdesc<64x64xf16, #shared, #smem, mutable> * !ttg.memdesc<64x64xf16, #shared, #smem, mutable> -> tensor<64x64xf32, #acc>\n"
DOT_WAIT = "    %e = ttng.warp_group_dot_wait %d {pendings = 0 : i32} : tensor<64x64xf32, #acc>\n"
RESULT = "    tt.store %p_c, %e : tensor<64x64x!tt.ptr<f32>, #acc>\n"
OVERWRITE = "    ttg.local_store %b_v, %am : tensor<64x64xf16, #blocked> -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>\n"
WGMMA = [
    OPERANDS,
    pointers("c", 64, 64, "f32", "acc"),
    IN_SHARED,
    FENCE,
    ZERO,
    DOT,
    DOT_WAIT,
    RESULT,
]
ABC = "%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %c: !tt.ptr<f32>"


def wgmma(lines: list[str]):
    a, b = matrix(1, 64, 64), matrix(2, 64, 64)
    c = np.full((64, 64), -1, np.float32)
    result = run(module(ABC, "".join(lines)), (1,), {"a": a, "b": b, "c": c})
    return result, c, products.dot(a[None], b[None], np.zeros((1, 1, 1), np.float32))[0]


def test_wgmma_is_the_product_of_dot() -> None:
    result, got, wanted = wgmma(WGMMA)
    assert kinds(result) == []
    assert (got == wanted).all()


@pytest.mark.parametrize("waits", [True, False])
def test_operand_of_wgmma_is_overwritten(waits: bool) -> None:
    at = WGMMA.index(DOT_WAIT) + (1 if waits else 0)
    result, _, _ = wgmma([*WGMMA[:at], OVERWRITE, *WGMMA[at:]])
    assert kinds(result) == ([] if waits else ["race"])


@pytest.mark.parametrize("outstanding", [0, 1])
def test_registers_of_wgmma_are_used_too_early(outstanding: int) -> None:
    wait = DOT_WAIT.replace("pendings = 0", f"pendings = {outstanding}")
    result, _, _ = wgmma([wait if line == DOT_WAIT else line for line in WGMMA])
    assert kinds(result) == (["race"] if outstanding else [])


def test_wgmma_may_add_to_registers_in_flight() -> None:
    again = DOT.replace("%d =", "%d2 =").replace("%zero", "%d")
    at = WGMMA.index(DOT_WAIT)
    lines = [*WGMMA[:at], again, DOT_WAIT.replace("%d ", "%d2 "), *WGMMA[at + 1 :]]
    result, got, wanted = wgmma(lines)
    assert kinds(result) == []
    assert np.allclose(got, 2 * wanted)


def test_wgmma_without_a_fence() -> None:
    result, _, _ = wgmma([line for line in WGMMA if line != FENCE])
    assert set(kinds(result)) == {"proxy"}


def test_wgmma_with_the_accumulator_left_out() -> None:
    ones = ZERO.replace("0.0", "1.0")
    dot = DOT.replace("%zero {", "%zero, %false {")
    result, got, wanted = wgmma([{ZERO: ones, DOT: dot}.get(line, line) for line in WGMMA])
    assert kinds(result) == []
    assert (got == wanted).all()


def test_wgmma_of_operands_that_nobody_stored() -> None:
    empty = IN_SHARED.replace("%a_v : (tensor<64x64xf16, #blocked>)", ": ()")
    result, _, _ = wgmma([empty if line == IN_SHARED else line for line in WGMMA])
    assert "uninitialized" in kinds(result)


# --- tcgen05 --------------------------------------------------------------------------------------

TC_OPERANDS = loaded("a", 128, 64, "f16") + loaded("b", 64, 64, "f16")
TC_SHARED = IN_SHARED.replace(
    "%am = ttg.local_alloc %a_v : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64",
    "%am = ttg.local_alloc %a_v : (tensor<128x64xf16, #blocked>) -> !ttg.memdesc<128x64",
)
D = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
AM, BM = (f"!ttg.memdesc<{n}x64xf16, #shared, #smem, mutable>" for n in (128, 64))
BAR = "!ttg.memdesc<1xi64, #bar, #smem, mutable>"
ALLOC = f"    %d = ttng.tmem_alloc : () -> {D}\n"
BARRIER = f"    %f = ttg.local_alloc : () -> {BAR}\n    ttng.init_barrier %f, 1 : {BAR}\n"
MMA = f"    ttng.tc_gen5_mma %am, %bm, %d, %false, %true {{is_async}} : {AM}, {BM}, {D}\n"
AGAIN = MMA.replace("%false", "%true")
COMMIT = f"    ttng.tc_gen5_commit %f : {BAR}\n"
WAIT = f"    ttng.wait_barrier %f, %c0 : {BAR}\n"
READ = f"    %v = ttng.tmem_load %d : {D} -> tensor<128x64xf32, #tiles>\n"
OUT = "    tt.store %p_c, %v : tensor<128x64x!tt.ptr<f32>, #tiles>\n"
START = [TC_OPERANDS, pointers("c", 128, 64, "f32", "tiles"), TC_SHARED, FENCE, ALLOC, BARRIER]
TCGEN05 = [*START, MMA, AGAIN, COMMIT, WAIT, READ, OUT]


def tcgen05(lines: list[str]):
    a, b = matrix(3, 128, 64), matrix(4, 64, 64)
    c = np.full((128, 64), -1, np.float32)
    result = run(module(ABC, "".join(lines)), (1,), {"a": a, "b": b, "c": c})
    once = products.dot(a[None], b[None], np.zeros((1, 1, 1), np.float32))
    return result, c, products.dot(a[None], b[None], once.copy())[0], once[0]


def test_products_accumulate_in_tensor_memory() -> None:
    result, got, wanted, _ = tcgen05(TCGEN05)
    assert kinds(result) == []
    assert (got == wanted).all()


def test_tensor_memory_is_read_before_the_product_is_done() -> None:
    lines = [line for line in TCGEN05 if line not in (WAIT, READ)]
    at = lines.index(OUT)
    result, _, _, _ = tcgen05([*lines[:at], READ, WAIT, *lines[at:]])
    assert kinds(result) == ["race"]


def test_commit_covers_only_what_was_issued_before() -> None:
    result, _, _, _ = tcgen05([*START, MMA, COMMIT, AGAIN, WAIT, READ, OUT])
    assert kinds(result) == ["race"]


@pytest.mark.parametrize("waits", [True, False])
def test_arrival_that_may_come_before_the_commit(waits: bool) -> None:
    """The tensor core arrives later: only who has waited knows that its phase is over."""
    arrive = f"    ttng.arrive_barrier %f, 1 : {BAR}\n"
    result, _, _, _ = tcgen05([*START, MMA, COMMIT, *([WAIT] if waits else []), arrive])
    assert kinds(result) == ([] if waits else ["phase"])


def test_commits_of_one_agent_come_in_order() -> None:
    second = WAIT.replace("%c0", "%c1")
    one = "    %c1 = arith.constant 1 : i32\n"
    result, _, _, _ = tcgen05([*START, one, MMA, COMMIT, AGAIN, COMMIT, second, READ, OUT])
    assert "arrival" not in str(result.faults)


def test_wait_without_a_commit() -> None:
    result, _, _, _ = tcgen05([line for line in TCGEN05 if line != COMMIT])
    assert kinds(result) == ["deadlock"]


def test_barrier_of_the_product_itself() -> None:
    own = AGAIN.replace("%true {is_async}", "%true, %f[%true] {is_async}").rstrip() + f", {BAR}\n"
    result, got, wanted, _ = tcgen05([*START, MMA, own, WAIT, READ, OUT])
    assert kinds(result) == []
    assert (got == wanted).all()


def test_synchronous_product_needs_no_barrier() -> None:
    lines = [line.replace(" {is_async}", "") for line in (MMA, AGAIN)]
    result, got, wanted, _ = tcgen05([*START, *lines, READ, OUT])
    assert kinds(result) == []
    assert (got == wanted).all()


def test_product_whose_predicate_does_not_hold() -> None:
    off = AGAIN.replace("%true, %true", "%true, %false")
    result, got, _, once = tcgen05([*START, MMA, off, COMMIT, WAIT, READ, OUT])
    assert kinds(result) == []
    assert (got == once).all()


@pytest.mark.parametrize("issued", [True, False])
def test_barrier_of_a_product_that_is_not_issued(issued: bool) -> None:
    """The commits of a product are under its predicate."""
    off = MMA.replace("%true {is_async}", "%on, %f[%true] {is_async}").rstrip() + f", {BAR}\n"
    on = f"    %on = arith.constant {str(issued).lower()}\n"
    result, _, _, _ = tcgen05([*START, on, MMA, off, WAIT, READ, OUT])
    assert kinds(result) == ([] if issued else ["deadlock"])


def test_accumulator_that_nobody_wrote() -> None:
    result, _, _, _ = tcgen05([*START, AGAIN, COMMIT, WAIT, READ, OUT])
    assert "uninitialized" in kinds(result)


def test_stores_to_tensor_memory_come_back() -> None:
    ones = "    %ones = arith.constant dense<1.0> : tensor<128x64xf32, #tiles>\n"
    store = f"    ttng.tmem_store %ones, %d, %true : tensor<128x64xf32, #tiles> -> {D}\n"
    result, got, _, once = tcgen05([*START, ones, store, AGAIN, COMMIT, WAIT, READ, OUT])
    assert kinds(result) == []
    a, b = matrix(3, 128, 64), matrix(4, 64, 64)
    assert (got == products.dot(a[None], b[None], np.ones((1, 128, 64), np.float32))[0]).all()
    assert not (got == once).all()


def test_columns_of_tensor_memory() -> None:
    part = "!ttg.memdesc<128x32xf32, #tmem, #ttng.tensor_memory, mutable, 128x64>"
    lines = f"""    %low = ttng.tmem_subslice %d {{offset = 0 : i32}} : {D} -> {part}
    %high = ttng.tmem_subslice %d {{offset = 32 : i32}} : {D} -> {part}
    %x = ttng.tmem_load %low : {part} -> tensor<128x32xf32, #halves>
    ttng.tmem_store %x, %high, %true : tensor<128x32xf32, #halves> -> {part}
"""
    result, got, wanted, _ = tcgen05([*TCGEN05[:-2], lines, READ, OUT])
    assert kinds(result) == []
    assert (got == np.concatenate([wanted[:, :32], wanted[:, :32]], axis=1)).all()


# --- scaled products ------------------------------------------------------------------------------

SCALED_TYPES = "%a: !tt.ptr<f8E4M3FN>, %b: !tt.ptr<f8E4M3FN>, %s: !tt.ptr<i8>, %t: !tt.ptr<i8>, %c: !tt.ptr<f32>"
A8, B8 = (
    f"!ttg.memdesc<{shape}xf8E4M3FN, #{layout}, #smem, mutable>"
    for shape, layout in (("128x64", "shared64"), ("64x64", "shared64"))
)
SM, TM = (f"!ttg.memdesc<{n}x2xi8, #scales, #ttng.tensor_memory, mutable>" for n in (128, 64))
SCALED = f"""{loaded("a", 128, 64, "f8E4M3FN")}{loaded("b", 64, 64, "f8E4M3FN")}{loaded("s", 128, 2, "i8")}{loaded("t", 64, 2, "i8")}
{pointers("c", 128, 64, "f32", "tiles")}
    %am = ttg.local_alloc %a_v : (tensor<128x64xf8E4M3FN, #blocked>) -> {A8}
    %bm = ttg.local_alloc %b_v : (tensor<64x64xf8E4M3FN, #blocked>) -> {B8}
{FENCE}{ALLOC}{BARRIER}
    %sl = ttg.convert_layout %s_v : tensor<128x2xi8, #blocked> -> tensor<128x2xi8, #linear>
    %tl = ttg.convert_layout %t_v : tensor<64x2xi8, #blocked> -> tensor<64x2xi8, #linear64>
    %sm = ttng.tmem_alloc %sl : (tensor<128x2xi8, #linear>) -> {SM}
    %tm = ttng.tmem_alloc %tl : (tensor<64x2xi8, #linear64>) -> {TM}
    ttng.tc_gen5_mma_scaled %am, %bm, %d, %sm, %tm, %false, %true lhs = e4m3 rhs = e4m3 {{is_async}} : {A8}, {B8}, {D}, {SM}, {TM}
{COMMIT}{WAIT}{READ}{OUT}"""
LINEAR = """#linear = #ttg.linear<{register = [[0, 1], [32, 0], [64, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [0, 0]], block = []}>
#linear64 = #ttg.linear<{register = [[0, 1], [32, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 0], [0, 0]], block = []}>
"""


def test_scaled_product_is_that_of_dot_scaled() -> None:
    f8 = ml_dtypes.float8_e4m3fn
    a, b = matrix(5, 128, 64, np.float32).astype(f8), matrix(6, 64, 64, np.float32).astype(f8)
    rng = np.random.default_rng(7)
    s, t = (rng.integers(120, 134, (n, 2)).astype(np.uint8).view(np.int8) for n in (128, 64))
    c = np.full((128, 64), -1, np.float32)
    text = module(SCALED_TYPES, SCALED).replace("module attributes", LINEAR + "module attributes")
    result = run(text, (1,), {"a": a, "b": b, "s": s, "t": t, "c": c})
    assert kinds(result) == []
    zero = np.zeros((1, 128, 64), np.float32)
    operands = (a[None], s[None], "e4m3", True, b[None], t[None], "e4m3", True)
    assert (c == dot_scaled(*operands, zero)[0]).all()
