"""What is said of global memory beside the schedules of a TTGIR module."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xttir.analyses.programs import grid_words, races_of_any, scales_addresses
from xttir.diagnostics import Kind
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module
from xttir.tools import cli

SHARED = Path(os.environ.get("XTTIR_SHARED", "../shared")) / "cases" / "reports"

KERNEL = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, ttg.target = "cuda:90"} {
tt.func public @k(%p: !tt.ptr<f32>, %n: i32, %x: tensor<128xf32, #b>) {
  %c128 = arith.constant SCALE : i32
  %pid = tt.get_program_id x : i32
  %first = arith.muli %pid, FACTOR : i32
  %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32, #b>
  %f = tt.splat %first : i32 -> tensor<128xi32, #b>
  %i = arith.addi %f, %r : tensor<128xi32, #b>
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
  %at = tt.addptr %q, %i : tensor<128x!tt.ptr<f32>, #b>, tensor<128xi32, #b>
  %one = arith.sitofp %f : tensor<128xi32, #b> to tensor<128xf32, #b>
  tt.store %at, %one : tensor<128x!tt.ptr<f32>, #b>
  tt.return
}
}""".replace(", %x: tensor<128xf32, #b>", "")


def races(scale: int, factor: str = "%c128") -> list[Kind]:
    module = parse_module(KERNEL.replace("SCALE", str(scale)).replace("FACTOR", factor), "k.mlir")
    kernel = tt.function_named(module, "k")
    assert kernel is not None
    return [f.kind for f in races_of_any(module, kernel, 20)]


def test_programs_that_overlap():
    assert races(128) == []
    assert set(races(100)) == {Kind.RACE}


def test_strides_that_nobody_gave_are_not_blamed():
    module = parse_module(KERNEL.replace("SCALE", "128").replace("FACTOR", "%n"), "k.mlir")
    kernel = tt.function_named(module, "k")
    assert kernel is not None
    assert scales_addresses(kernel)
    assert races(128, "%n") == []


def test_a_grid_that_is_left_open():
    module = parse_module(KERNEL.replace("SCALE", "128").replace("FACTOR", "%c128"), "k.mlir")
    kernel = tt.function_named(module, "k")
    assert kernel is not None
    words = grid_words(kernel, "n > 3")
    assert words == "n > 3; grid[0] <= 65535; grid[1] == 1; grid[2] == 1"
    assert grid_words(kernel, "grid[0] == 7") == "grid[0] == 7"


RIGHT = {"04": 1, "05": 1, "06": 1, "08": 1, "09": 0}
"""Exit codes of the faulty variants: 09 stores the wrong tile, without any race."""


@pytest.mark.parametrize("case", sorted(RIGHT))
@pytest.mark.parametrize("variant", ["buggy", "fixed"])
def test_reports_at_their_launch(case: str, variant: str, capsys: pytest.CaptureFixture[str]):
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: set XTTIR_SHARED to the folder of shared cases")
    (folder,) = SHARED.glob(f"{case}-*")
    module, launch = folder / f"{variant}.ttgir", folder / f"{variant}.launch.json"
    code = cli.main(["verify", "--no-progress", "--launch", str(launch), str(module)])
    assert code == (RIGHT[case] if variant == "buggy" else 0)
