"""Which modules are accepted: the same as Triton accepts, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError
from xttir.frontends.mlir import parse_module

DATA = Path(__file__).parent.parent / "data/dialects"


def _lines(name: str) -> list[list[str]]:
    lines = (DATA / name).read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


_TILE = _lines("verifier_cases.txt")
_GPU = _lines("gpu_verifier_cases.txt")
CASES = _TILE[1:] + _GPU[1:]
_SIGNATURE = {ops: _TILE[0][2] for _, _, ops in _TILE} | {ops: _GPU[0][2] for _, _, ops in _GPU}
_GPU_FRAME = """\
#blocked = #ttg.blocked<
  {sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b2 = #ttg.blocked<
  {sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#two = #ttg.blocked<
  {sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
"ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
"""


def module(ops: str) -> str:
    """The case `ops` in its function."""
    signature = _SIGNATURE[ops]
    frame = _GPU_FRAME if "#" in signature else "module {\n"
    return f"{frame}  tt.func @f({signature}) {{\n    {ops}\n    tt.return\n  }}\n}}\n"


@pytest.mark.parametrize(("verdict", "message", "ops"), CASES, ids=[c[2][:50] for c in CASES])
def test_verdict(verdict: str, message: str, ops: str) -> None:
    text = module(ops)
    if verdict == "accept":
        parse_module(text, "case.ttir")
        return
    with pytest.raises(InputError) as error:
        parse_module(text, "case.ttir")
    assert error.value.what == message
    assert error.value.location is not None
    assert error.value.location.file == "case.ttir"
    first = text[: text.index("module")].count("\n")
    assert error.value.location.line - first in (1, 3, 4)


def test_triton_agrees(oracle: Oracle) -> None:
    known = [(verdict, ops) for verdict, _, ops in CASES if oracle.knows(ops)]
    assert len(known) > 0.9 * len(CASES)
    different = [
        ops
        for verdict, ops in known
        if (oracle.parse(module(ops)) is None) != (verdict == "reject")
    ]
    assert different == []


def test_unreachable_blocks_do_not_spoil_dominance() -> None:
    parse_module("""
tt.func @f(%n: i32, %c: i1) {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  tt.return
^bb2:
  cf.br ^bb4
^bb3:
  cf.br ^bb4
^bb4:
  %0 = arith.addi %n, %n : i32
  tt.return
}""")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        # Defined in a block that does not dominate the use.
        (
            """cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %0 = arith.addi %n, %n : i32
  cf.br ^bb2
^bb2:
  %1 = arith.addi %0, %n : i32
  tt.return""",
            7,
        ),
        # Defined in a nested region, used after it.
        (
            """%1 = arith.addi %0, %n : i32
  scf.if %c {
    %0 = arith.addi %n, %n : i32
  }
  tt.return""",
            2,
        ),
        # An operation that uses its own result.
        ("%0 = arith.addi %0, %n : i32\n  tt.return", 2),
    ],
)
def test_dominance(body: str, line: int) -> None:
    with pytest.raises(InputError, match=r"dominate|not visible") as error:
        parse_module(f"tt.func @f(%n: i32, %c: i1) {{\n  {body}\n}}")
    assert error.value.location is not None
    assert error.value.location.line == line


def test_uses_in_a_dominated_block_and_in_nested_regions() -> None:
    parse_module("""
tt.func @f(%n: i32, %c: i1) {
  %0 = arith.addi %n, %n : i32
  cf.br ^bb1
^bb1:
  scf.if %c {
    %1 = arith.addi %0, %n : i32
  }
  tt.return
}""")
