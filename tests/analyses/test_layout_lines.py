"""Lines of a module that tell whether its layouts have been judged before: they differ where a
judgement may, and in little else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xttir.analyses.layout_checks import Signature, check_layouts
from xttir.analyses.layout_checks.text import lines_with_layouts
from xttir.diagnostics import InputError
from xttir.frontends.mlir import parse_module

MODULE = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#slice = #ttg.slice<{dim = 1, parent = #blocked}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
  tt.func @k(%arg0: i32, %arg1: tensor<32x32xf32, #blocked>) {
    %cst = arith.constant dense<1.000000e+00> : tensor<32x32xf32, #blocked>
    %0 = arith.addf %arg1, %cst : tensor<32x32xf32, #blocked>
    %1 = tt.trans %0 {loop.stage = 1 : i32, order = array<i32: 1, 0>} : tensor<32x32xf32, #blocked> -> tensor<32x32xf32, #blocked1>
    %2 = "tt.reduce"(%0) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %3 = arith.addf %a, %b : f32
      tt.reduce.return %3 : f32
    }) : (tensor<32x32xf32, #blocked>) -> tensor<32xf32, #slice>
    tt.return
  }
}
"""  # noqa: E501
LINES = lines_with_layouts(MODULE)
DATA = Path(__file__).parents[1] / "data"
TEXTS = [MODULE, (DATA / "reduce/matmul_assume.ttgir").read_text()]


def changed(old: str, new: str) -> frozenset[str]:
    assert old in MODULE
    return lines_with_layouts(MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%0", "%other"),
        ("dense<1.000000e+00>", "dense<2.000000e+00>"),
        ("loop.stage = 1 : i32, ", ""),
        ("#blocked1", "#layout"),
        ("#slice", "#ttg.slice<{dim = 1, parent = #blocked}>"),
        ("%3 = arith.addf %a, %b", "%3 = arith.maxnumf %a, %b"),
    ],
)
def test_what_no_judgement_hangs_on(old: str, new: str) -> None:
    text = MODULE
    if old == "#slice":
        text = MODULE.replace("#slice = #ttg.slice<{dim = 1, parent = #blocked}>\n", "")
    assert lines_with_layouts(text.replace(old, new)) == LINES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axis = 1", "axis = 0"),
        ("dim = 1", "dim = 0"),
        ("sizePerThread = [4, 1]", "sizePerThread = [2, 1]"),
        ("order = array<i32: 1, 0>", "order = array<i32: 0, 1>"),
        (
            "-> tensor<32xf32, #slice>",
            "-> tensor<32xf32, #ttg.slice<{dim = 1, parent = #blocked1}>>",
        ),
        ("32x32", "64x32"),
    ],
)
def test_what_a_judgement_hangs_on(old: str, new: str) -> None:
    assert not changed(old, new) <= LINES


def test_another_layout_anywhere_is_seen() -> None:
    """Each use of an alias in turn replaced by another: where ops are to be judged that were not
    judged before, there are new lines."""
    known = signatures(MODULE)
    seen = 0
    for use in re.finditer(r"#\w+(?=>)", MODULE):
        for other in ("#blocked", "#blocked1", "#slice"):
            new = MODULE[: use.start()] + other + MODULE[use.end() :]
            try:
                asked = signatures(new)
            except InputError:
                continue
            if not asked <= known:
                seen += 1
                assert not lines_with_layouts(new) <= LINES
    assert seen


def signatures(text: str) -> set[Signature]:
    return {
        Signature.of(op)
        for op in parse_module(text, verify=False).walk()
        if any("#" in str(v.type) for v in (*op.operands, *op.results))
    }


def test_layouts_of_every_text_are_judged_the_same_twice() -> None:
    for text in TEXTS:
        first, again = (check_layouts(parse_module(text, name, verify=False)) for name in "ab")
        assert first.judged == again.judged > 0
        assert first.unjudged == again.unjudged
        assert [f.message for f in first.faults] == [f.message for f in again.faults]
