"""Static layout checks: a wrong module of each kind is found, right ones are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dialects.layouts.modules import OPS, Case
from tests.dialects.triton_oracle import Oracle
from xttir.analyses.layout_checks import check_layouts
from xttir.diagnostics import InputError, Kind
from xttir.frontends.mlir import parse_module
from xttir.tools.xttir_opt import main


def blocked(size: str, threads: str, warps: str, order: str = "1, 0") -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{threads}], "
        f"warpsPerCTA = [{warps}], order = [{order}]}}>"
    )


B = blocked("1, 4", "8, 4", "4, 1")
BT = blocked("4, 1", "4, 8", "1, 4", "0, 1")
WIDE = blocked("1, 1", "1, 32", "4, 1")
PAIRS = blocked("1, 4, 2", "8, 4, 1", "4, 1, 1", "2, 1, 0")
APART = blocked("1, 4, 1", "8, 2, 2", "4, 1, 1", "2, 1, 0")
FP4 = blocked("1, 8", "8, 4", "4, 1")
TALL = blocked("1, 1", "32, 1", "4, 1")
ROWS = blocked("1, 64", "32, 1", "4, 1", "0, 1")
COLUMNS = blocked("1, 16", "32, 1", "1, 4", "0, 1")
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
SMEM, TMEM = "#ttg.shared_memory", "#ttng.tensor_memory"


def swizzled(vec: int, order: str = "[1, 0]", max_phase: int = 8) -> str:
    return (
        f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = 1, maxPhase = {max_phase}, "
        f"order = {order}}}>"
    )


def nvmma(swizzle: int, bits: int = 16, transposed: str = "false") -> str:
    return (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = {transposed}, "
        f"elementBitWidth = {bits}}}>"
    )


def slice_(dim: int, parent: str = B) -> str:
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"


def module(body: str, arguments: str) -> str:
    return (
        'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
        '"ttg.threads-per-warp" = 32 : i32} {\n'
        f"  tt.func public @f({arguments}) {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


def one(op: str, source: str, result: str, attributes: str = "") -> str:
    """A module of one op in generic form, on one argument."""
    attributes = f" <{{{attributes}}}>" if attributes else ""
    return module(f'%r = "{op}"(%a){attributes} : ({source}) -> {result}', f"%a: {source}")


def t(shape: str, layout: str, element: str = "f16") -> str:
    return f"tensor<{shape}x{element}, {layout}>"


def m(shape: str, layout: str, element: str = "f16", space: str = SMEM, alloc: str = "") -> str:
    tail = f", {alloc}" if alloc else ""
    return f"!ttg.memdesc<{shape}x{element}, {layout}, {space}, mutable{tail}>"


ORDER = "order = array<i32: 1, 0>"


def reduce(axis: int, result: str) -> str:
    source = t("64x32", B)
    body = (
        f'%r = "tt.reduce"(%a) <{{axis = {axis} : i32}}> ({{\n    ^bb0(%x: f16, %y: f16):\n'
        "      %z = arith.addf %x, %y : f16\n      tt.reduce.return %z : f16\n"
        f"    }}) : ({source}) -> {result}"
    )
    return module(body, f"%a: {source}")


def split(result: str) -> str:
    source = t("64x32x2", PAIRS)
    return module(f'%r, %q = "tt.split"(%a) : ({source}) -> ({result}, {result})', f"%a: {source}")


def index(result: str) -> str:
    source = m("3x64x64", swizzled(8))
    body = "%i = arith.constant 0 : i32\n    "
    body += f'%r = "ttg.memdesc_index"(%a, %i) : ({source}, i32) -> {result}'
    return module(body, f"%a: {source}")


def join(operand: str, result: str) -> str:
    types = f"({operand}, {operand}) -> {result}"
    return module(f'%r = "tt.join"(%a, %b) : {types}', f"%a: {operand}, %b: {operand}")


def add(one_: str, other: str) -> str:
    body = f'%r = "arith.addf"(%a, %b) : ({one_}, {other}) -> {one_}'
    return module(body, f"%a: {one_}, %b: {other}")


def store(value: str, memory: str) -> str:
    body = f'"ttg.local_store"(%a, %b) : ({value}, {memory}) -> ()'
    return module(body, f"%a: {value}, %b: {memory}")


def tma(desc: str, memory: str) -> str:
    bar = m("1", swizzled(1, "[0]", 1), "i64")
    body = (
        "%t = arith.constant true\n    %c = arith.constant 0 : i32\n"
        '    "ttng.async_tma_copy_global_to_local"(%d, %c, %c, %bar, %m, %t) '
        "<{isVolatile = false, operandSegmentSizes = array<i32: 1, 2, 0, 1, 1, 1>}> : "
        f"({desc}, i32, i32, {bar}, {memory}, i1) -> ()"
    )
    return module(body, f"%d: {desc}, %bar: {bar}, %m: {memory}")


def wgmma(a: str, b: str) -> str:
    mma = (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
        "instrShape = [16, 64, 16]}>"
    )
    d = t("64x64", mma, "f32")
    body = (
        '%r = "ttng.warp_group_dot"(%a, %b, %c) <{inputPrecision = 0 : i32, isAsync = false, '
        f"maxNumImpreciseAcc = 0 : i32}}> : ({a}, {b}, {d}) -> {d}"
    )
    return module(body, f"%a: {a}, %b: {b}, %c: {d}")


def subslice(offsets: str, source: str, result: str) -> str:
    return one("ttg.memdesc_subslice", source, result, f"offsets = array<i32: {offsets}>")


def tmem_load(layout: str) -> str:
    tensor_memory = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>"
    memory = m("128x64", tensor_memory, "f32", TMEM)
    return one("ttng.tmem_load", memory, t("128x64", layout, "f32"))


SQUARE, FLAT = m("64x64", swizzled(8)), m("64x64", swizzled(8, "[0, 1]"))

PLAIN = m("64x64", swizzled(1, "[1, 0]", 1))

PAIRS_OF = {
    "trans": (
        one("tt.trans", t("64x32", B), t("32x64", BT), ORDER),
        one("tt.trans", t("64x32", B), t("32x64", B), ORDER),
    ),
    "reshape": (
        one("tt.reshape", t("64x32", B), t("64x32", B)),
        one("tt.reshape", t("64x32", B), t("32x64", B)),
    ),
    "reshape with reorder": (
        one("tt.reshape", t("64x32", B), t("32x64", B), "allow_reorder"),
        one("tt.reshape", t("64x32", B), t("32x64", TALL), "allow_reorder"),
    ),
    "expand_dims": (
        one("tt.expand_dims", t("64", slice_(1)), t("64x1", B), "axis = 1 : i32"),
        one("tt.expand_dims", t("64", slice_(1)), t("64x1", WIDE), "axis = 1 : i32"),
    ),
    "broadcast": (
        one("tt.broadcast", t("64x1", B), t("64x32", B)),
        one("tt.broadcast", t("64x1", B), t("64x32", WIDE)),
    ),
    "join": (
        join(t("64x32", B), t("64x32x2", PAIRS)),
        join(t("64x32", WIDE), t("64x32x2", PAIRS)),
    ),
    "join of pairs apart": (
        join(t("64x32", B), t("64x32x2", PAIRS)),
        join(t("64x32", B), t("64x32x2", APART)),
    ),
    "split": (split(t("64x32", B)), split(t("64x32", WIDE))),
    "fp4_to_fp": (
        one("ttg.fp4_to_fp", t("64x16", B, "i8"), t("64x32", FP4), "axis = 1 : i32"),
        one("ttg.fp4_to_fp", t("64x16", B, "i8"), t("64x32", WIDE), "axis = 1 : i32"),
    ),
    "reduce": (reduce(1, t("64", slice_(1))), reduce(1, t("64", slice_(1, WIDE)))),
    "elementwise": (add(t("64x32", B), t("64x32", B)), add(t("64x32", B), t("64x32", WIDE))),
    "memdesc_trans": (
        one("ttg.memdesc_trans", SQUARE, FLAT, ORDER),
        one("ttg.memdesc_trans", SQUARE, m("64x64", swizzled(4, "[0, 1]")), ORDER),
    ),
    "memdesc_trans of nvmma": (
        one("ttg.memdesc_trans", m("64x64", nvmma(128)), m("64x64", nvmma(128, 16, "true")), ORDER),
        one("ttg.memdesc_trans", m("64x64", nvmma(128)), m("64x64", nvmma(128)), ORDER),
    ),
    "memdesc_reshape": (
        one("ttg.memdesc_reshape", PLAIN, m("4096", swizzled(1, "[0]", 1))),
        one("ttg.memdesc_reshape", m("64x64", swizzled(8)), m("32x128", swizzled(8))),
    ),
    "memdesc_index": (index(SQUARE), index(FLAT)),
    "memdesc_subslice": (
        subslice("0, 32", SQUARE, m("64x32", swizzled(8), alloc="64x64")),
        subslice("0, 16", SQUARE, m("64x32", swizzled(8), alloc="64x64")),
    ),
    "memdesc_subslice in another layout": (
        subslice("0, 32", SQUARE, m("64x32", swizzled(8), alloc="64x64")),
        subslice("0, 32", SQUARE, m("64x32", swizzled(4), alloc="64x64")),
    ),
    "memdesc_reinterpret": (
        one("ttg.memdesc_reinterpret", SQUARE, m("64x32", swizzled(4), "f32")),
        one("ttg.memdesc_reinterpret", SQUARE, m("64x64", swizzled(4), "f32")),
    ),
    "local_store": (
        store(t("64x64", B), SQUARE),
        store(t("64x64", B, "f32"), SQUARE),
    ),
    "tma swizzle": (
        tma(f"!tt.tensordesc<64x64xf16, {nvmma(128)}>", m("64x64", nvmma(128))),
        tma(f"!tt.tensordesc<64x64xf16, {nvmma(128)}>", m("64x64", nvmma(64))),
    ),
    "tma element size": (
        tma(f"!tt.tensordesc<64x64xf16, {nvmma(128)}>", m("64x64", nvmma(128))),
        tma(f"!tt.tensordesc<64x64xf16, {nvmma(128)}>", m("64x64", nvmma(128), "f32")),
    ),
    "wgmma element size": (
        wgmma(m("64x64", nvmma(128)), m("64x64", nvmma(128))),
        wgmma(m("64x64", nvmma(128)), m("64x64", nvmma(128, 32))),
    ),
    "tmem_load": (tmem_load(ROWS), tmem_load(COLUMNS)),
}


def faults(text: str):
    return check_layouts(parse_module(text, verify=False)).faults


@pytest.mark.parametrize("kind", PAIRS_OF)
def test_right_and_wrong(kind: str) -> None:
    right, wrong = PAIRS_OF[kind]
    assert not faults(right), faults(right)
    (found,) = faults(wrong)
    assert found.kind is Kind.MISMATCH
    assert found.kernel == "f"
    line = wrong.splitlines()[found.locations[0].line - 1]
    assert line.startswith("    ")
    assert "arith.constant" not in line


def test_a_report_names_the_first_place_that_is_wrong() -> None:
    (found,) = faults(PAIRS_OF["trans"][1])
    assert found.message == (
        "tt.trans moves no data, but the layout of its result says that lanes hold other elements: "
        "1984 of 2048 registers"
    )
    assert found.notes[0] == (
        "register 0 of lane 0 of warp 1 holds element [0, 8] of the result; its layout says [8, 0]"
    )


def test_a_layout_that_loses_elements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the verifier of attributes rejects, where it is switched off; the pass's exit code."""
    lost = (
        "#ttg.linear<{register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [4, 0]], "
        "warp = [[1, 0], [1, 0]], block = []}>"
    )
    file = tmp_path / "lost.ttgir"
    file.write_text(one("ttg.convert_layout", t("8x32", B), t("8x32", lost)))
    assert main(["--disable-verify", "--check-layouts", str(file)]) == 1
    assert "loses 128 of 256 elements" in capsys.readouterr().err
    file.write_text(PAIRS_OF["trans"][0])
    assert main(["--check-layouts", str(file)]) == 0
    assert "tt.trans" in capsys.readouterr().out


def test_layouts_to_be_inferred_are_not_judged() -> None:
    type_ = t("64x32", "#gluon.auto_encoding")
    report = check_layouts(parse_module(add(type_, type_), verify=False))
    assert not report.faults
    assert sum(report.unjudged.values()) == 1


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    """Triton's parser; tests are skipped where Triton is not installed."""
    return Oracle()


@pytest.mark.parametrize("op", OPS)
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_nothing_is_found_where_triton_accepts(
    oracle: Oracle, op: str, data: st.DataObject
) -> None:
    case: Case = data.draw(OPS[op])
    try:
        module_ = parse_module(case.text, verify=False)
    except InputError:
        return
    if check_layouts(module_).faults:
        assert oracle.parse(case.text) is None, case.text


SHARED = Path(os.environ.get("XTTIR_SHARED", Path(__file__).parents[3] / "shared"))


def kernels() -> list[Path]:
    return sorted(SHARED.glob("corpus/triton/*/*/ttgir.loc.mlir"))[::8]


@pytest.mark.skipif(not kernels(), reason="needs the corpus of kernels (XTTIR_SHARED)")
def test_nothing_is_found_in_compiled_kernels() -> None:
    for path in kernels():
        report = check_layouts(parse_module(path.read_text(), str(path)))
        assert not report.faults, report.faults[0]
        assert report.judged > 10
        assert not report.unjudged
