"""Whole reductions: planted faults, and faults of real passes, come out of large programs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from tests.refine.reduce import planted
from xttir.diagnostics import InputError, Kind
from xttir.frontends.mlir import parse_module
from xttir.refine.reduce import reduce_text
from xttir.refine.reduce.build import op_count
from xttir.refine.reduce.predicates import (
    Arguments,
    CheckFails,
    CommandSucceeds,
    MeaningChanges,
    PassFails,
    failing_pass,
    first_bad_pass,
    pipeline_transform,
    shrink_arguments,
)

DATA = Path(__file__).parents[2] / "data"
FUSE = "tritongpu-fuse-nested-loops"

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)


def release() -> tuple[int, ...]:
    if importlib.util.find_spec("triton") is None:
        return (0, 0)
    return tuple(map(int, importlib.metadata.version("triton").split(".")[:2]))


def only_in(*versions: tuple[int, int]) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        release() not in versions, reason=f"the fault is in Triton {versions} only"
    )


def read(name: str) -> str:
    return (DATA / name).read_text()


SOFTMAX = """
tt.func public @softmax(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32, %rows: i32, %stride: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %low = arith.constant dense<0xFF800000> : tensor<32xf32>
  %pid = tt.get_program_id x : i32
  %count = tt.get_num_programs x : i32
  %lanes = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %limit = tt.splat %n : i32 -> tensor<32xi32>
  %inside = arith.cmpi slt, %lanes, %limit : tensor<32xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  %os = tt.splat %out : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
  scf.for %row = %pid to %rows step %count : i32 {
    %start = arith.muli %row, %stride : i32
    %starts = tt.splat %start : i32 -> tensor<32xi32>
    %offsets = arith.addi %starts, %lanes : tensor<32xi32>
    %p = tt.addptr %xs, %offsets : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %v = tt.load %p, %inside, %low : tensor<32x!tt.ptr<f32>>
    %max = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %m = arith.maxnumf %a, %b : f32
      tt.reduce.return %m : f32
    }) : (tensor<32xf32>) -> f32
    %maxs = tt.splat %max : f32 -> tensor<32xf32>
    %shifted = arith.subf %v, %maxs : tensor<32xf32>
    %e = math.exp %shifted : tensor<32xf32>
    %sum = "tt.reduce"(%e) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<32xf32>) -> f32
    %sums = tt.splat %sum : f32 -> tensor<32xf32>
    %r = arith.divf %e, %sums : tensor<32xf32>
    %q = tt.addptr %os, %offsets : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.store %q, %r, %inside : tensor<32x!tt.ptr<f32>>
  }
  tt.return
}
"""

RUNNING_SUM = """
tt.func public @sum(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32, %scale: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<16xf32>
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %scales = tt.splat %scale : f32 -> tensor<16xf32>
  %acc:2 = scf.for %i = %c0 to %n step %c1
      iter_args(%a = %zero, %k = %c0) -> (tensor<16xf32>, i32) : i32 {
    %o = arith.muli %i, %c16 : i32
    %os = tt.splat %o : i32 -> tensor<16xi32>
    %at = arith.addi %os, %lanes : tensor<16xi32>
    %p = tt.addptr %xs, %at : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %v = tt.load %p : tensor<16x!tt.ptr<f32>>
    %w = arith.mulf %v, %scales : tensor<16xf32>
    %b = arith.addf %a, %w : tensor<16xf32>
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %b, %k1 : tensor<16xf32>, i32
  }
  %os = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %q = tt.addptr %os, %lanes : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  tt.store %q, %acc#0 : tensor<16x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.parametrize(
    ("text", "change", "most", "kept"),
    [
        (
            read("modules/add.ttir").replace("%oq, %s :", "%oq, %s, %5 :"),
            planted.mask_lost,
            6,
            "store",
        ),
        (SOFTMAX, planted.mask_lost, 6, "tt.store"),
        (SOFTMAX, planted.difference_swapped, 7, "arith.subf"),
        (RUNNING_SUM, planted.one_trip_short, 10, "scf.for"),
    ],
)
def test_a_planted_fault_comes_out(text, change, most, kept) -> None:
    predicate = MeaningChanges(planted.planted(change), "planted")
    assert predicate.examine(text)
    result = reduce_text(text, predicate.holds)
    assert result.complete
    assert result.ops == op_count(parse_module(result.text)) <= most
    assert kept in result.text
    assert predicate.holds(result.text)


def test_a_pass_that_is_right_is_nothing_to_reduce() -> None:
    predicate = MeaningChanges(planted.planted(lambda module: None), "right")
    with pytest.raises(InputError, match="does not change the meaning"):
        predicate.examine(SOFTMAX)


REPORTS = [
    pytest.param("matmul_assume.ttgir", "llvm.intr.assume", marks=only_in((3, 8)), id="11519"),
    pytest.param("matmul_inverted.ttgir", "scf.for", marks=only_in((3, 8)), id="11656"),
    pytest.param("grouped_matmul.ttgir", "tt.load", marks=only_in((3, 8), (3, 9)), id="11601"),
]


@pytest.mark.parametrize(("name", "kept"), REPORTS)
def test_faults_of_fusing_nested_loops(name, kept) -> None:
    text = read(f"reduce/{name}")
    predicate = MeaningChanges(pipeline_transform(FUSE), FUSE)
    predicate.examine(text)
    result = reduce_text(text, predicate.holds)
    assert result.ops <= 16
    assert kept in result.text
    assert "tt.flatten" in result.text
    assert predicate.command("F.mlir", result.text) == f"xttir validate F.mlir --passes '{FUSE}'"


@only_in((3, 8), (3, 9))
def test_the_pass_at_fault_is_found_in_a_pipeline() -> None:
    pipeline = f"canonicalize,{FUSE},cse"
    predicate = MeaningChanges(pipeline_transform(pipeline), pipeline)
    _, single = first_bad_pass(read("reduce/grouped_matmul.ttgir"), pipeline, predicate)
    assert single == FUSE


@only_in((3, 8))
def test_a_crash_comes_out() -> None:
    text = read("reduce/flattened_while.ttir")
    failed = failing_pass(text, f"cse,{FUSE}")
    assert failed is not None
    assert failed[1] == FUSE
    predicate = PassFails(FUSE)
    predicate.examine(text)
    assert reduce_text(text, predicate.holds).ops <= 12


@needs_triton
def test_a_pass_that_does_not_fail() -> None:
    assert failing_pass(SOFTMAX, "cse,canonicalize") is None
    with pytest.raises(InputError, match="does not fail"):
        PassFails("cse").examine(SOFTMAX)


def test_a_race_comes_out_with_the_least_grid() -> None:
    text = read("modules/add.ttir").replace("%c = arith.constant 64", "%c = arith.constant 32")
    predicate = CheckFails(frozenset({Kind.RACE}), Arguments({"n": "100"}, (4, 1, 1), 1))
    assert predicate.examine(text).startswith("race: programs race on `out`")
    result = reduce_text(text, predicate.holds)
    shrink_arguments(predicate, result.text)
    assert result.ops <= 5
    assert predicate.arguments == Arguments({}, (2, 1, 1), 1)
    assert predicate.command("F", result.text) == "xttir run F --grid 2 --seed 1"


def test_arguments_stay_with_their_parameters() -> None:
    """The store is out of bounds for the size that is given, not for any other."""
    predicate = CheckFails(
        frozenset({Kind.OUT_OF_BOUNDS}), Arguments({"out": "zeros:[100]", "n": "100"}, (2, 1, 1))
    )
    text = read("modules/add.ttir")
    predicate.examine(text)
    result = reduce_text(text, predicate.holds)
    assert "tt.store" in result.text
    assert "%out" in result.text
    assert "%n" not in result.text


def test_a_command_decides(tmp_path) -> None:
    script = tmp_path / "judge.py"
    script.write_text("import sys\nsys.exit('arith.divf' not in open(sys.argv[1]).read())\n")
    predicate = CommandSucceeds([sys.executable, str(script)])
    predicate.examine(SOFTMAX)
    result = reduce_text(SOFTMAX, predicate.holds)
    assert "arith.divf" in result.text
    assert result.ops <= 6
    with pytest.raises(InputError, match="does not end with status 0"):
        predicate.examine("module {}")


def test_a_command_that_does_not_end_is_stopped() -> None:
    predicate = CommandSucceeds([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.5)
    assert not predicate.holds("module {}")


def test_the_time_limit_ends_it_with_what_there_is() -> None:
    result = reduce_text(SOFTMAX, lambda text: True, seconds=0)
    assert not result.complete
    assert result.ops == result.before


def test_what_is_not_interesting_is_refused() -> None:
    with pytest.raises(InputError, match="does not show"):
        reduce_text(SOFTMAX, lambda text: False)


def test_no_candidate_is_tried_twice() -> None:
    tried: list[str] = []

    def interesting(text: str) -> bool:
        tried.append(text)
        return "tt.store" in text

    reduce_text(SOFTMAX, interesting)
    assert len(tried) == len(set(tried))
