"""Floats that the user's launch does not have: NaN, infinities, zeros."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xttir.interp.launch import Argument, ScalarArg, Storage, TensorArg
from xttir.refine import unusual
from xttir.refine.stages import Stage, validate
from xttir.refine.status import MATCH, MISMATCH
from xttir.refine.world import Case

RELU = """
tt.func public @relu(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
  %zero = arith.constant dense<0.0> : tensor<1024xf32>
  %range = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %px = tt.addptr %xs, %range : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %py = tt.addptr %ys, %range : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %px : tensor<1024x!tt.ptr<f32>>
  %w = arith.maxnumf %v, %zero : tensor<1024xf32>
  tt.store %py, %w : tensor<1024x!tt.ptr<f32>>
  tt.return
}
"""
SELECT = """  %above = arith.cmpf ogt, %v, %zero : tensor<1024xf32>
  %w = arith.select %above, %v, %zero : tensor<1024xi1>, tensor<1024xf32>"""


def buffer(name: str, data: np.ndarray, address: int) -> TensorArg:
    storage = Storage(data.view(np.uint8), address)
    return TensorArg(name, storage, 0, data.shape, (1,), data.dtype)


def launched(*arguments: Argument, programs: int = 1) -> Case:
    memory = tuple(a.storage for a in arguments if isinstance(a, TensorArg))
    return Case("launch", (programs, 1, 1), arguments, memory, user=True)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("arith.maxnumf", "arith.maximumf", MISMATCH),
        ("arith.maxnumf %v, %zero", "arith.maxnumf %zero, %v", MATCH),
        ("  %w = arith.maxnumf %v, %zero : tensor<1024xf32>", SELECT, MATCH),
        (
            "  %w = arith.maxnumf %v, %zero : tensor<1024xf32>",
            SELECT.replace("ogt", "ugt"),
            MISMATCH,
        ),
    ],
)
def test_what_becomes_of_nan_is_tried(old: str, new: str, status: str) -> None:
    rng = np.random.default_rng(0)
    x = buffer("x", rng.standard_normal(1024).astype(np.float32), 0x5000_0000)
    y = buffer("y", np.zeros(1024, np.float32), 0x6000_0000)
    assert old in RELU
    target = RELU.replace(old, new)
    stages = [Stage("", RELU, file="a.mlir"), Stage("", target, file="b.mlir")]
    assert validate(stages, [launched(x, y)]).rows[1].status == status


def test_nothing_but_floats_is_changed() -> None:
    floats = np.ones(5000, np.float32)
    bytes_ = np.ones(5000, ml_dtypes.float8_e4m3fn)
    numbers = np.ones(5000, np.int32)
    arrays = (floats, numbers, bytes_)
    tensors = [buffer(f"t{n}", a, 0x5000_0000 + (n << 24)) for n, a in enumerate(arrays)]
    (made,) = unusual.floats(launched(*tensors))
    changed = [
        (s.bytes != a.view(np.uint8)).sum() for s, a in zip(made.memory, arrays, strict=True)
    ]
    assert changed[0]
    assert not changed[1]
    assert changed[2]
    assert (floats == 1).all()
    assert not made.user
    assert unusual.floats(launched(tensors[1])) == []


IGNORED = """
tt.func public @rows(%y: !tt.ptr<i64>, %x: !tt.ptr<f32>, %ignored: i32, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %pid = tt.get_program_id x : i32
  %py = tt.addptr %y, %pid : !tt.ptr<i64>, i32
  %class = tt.load %py : !tt.ptr<i64>
  %wide = arith.extsi %ignored : i32 to i64
  %skip = arith.cmpi eq, %class, %wide : i64
  %start = arith.muli %pid, %n : i32
  %row = tt.addptr %x, %start : !tt.ptr<f32>, i32
  scf.if %skip {
    scf.for %i = %c0 to %n step %c1 : i32 {
      %p = tt.addptr %row, %i : !tt.ptr<f32>, i32
      tt.store %p, %zero : !tt.ptr<f32>
    }
  } else {
    %p = tt.addptr %row, %class : !tt.ptr<f32>, i64
    tt.store %p, %zero : !tt.ptr<f32>
  }
  tt.return
}
"""


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("for %i = %c0 to %n", "for %i = %c1 to %n", MISMATCH),
        ("cmpi eq, %class, %wide", "cmpi eq, %wide, %class", MATCH),
    ],
)
def test_what_the_kernel_looks_for_is_there(old: str, new: str, status: str) -> None:
    """No row of the launch is ignored."""
    y = buffer("y", np.array([3, 0, 2, 3, 1, 2]), 0x5000_0000)
    x = buffer("x", np.ones(24, np.float32), 0x6000_0000)
    case = launched(y, x, ScalarArg("ignored", -100), ScalarArg("n", 4), programs=6)
    stages = [
        Stage("", IGNORED, file="a.mlir"),
        Stage("", IGNORED.replace(old, new), file="b.mlir"),
    ]
    found = validate(stages, [case], limit=8)
    assert "-100 among the integers that are asked for it" in [c.label for c in found.cases]
    assert found.rows[1].status == status


BLOCKS = """
tt.func public @rows(%y: !tt.ptr<i64>, %x: !tt.ptr<f32>, %ignored: i64, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<16xf32>
  %range = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %pid = tt.get_program_id x : i32
  %py = tt.addptr %y, %pid : !tt.ptr<i64>, i32
  %class = tt.load %py : !tt.ptr<i64>
  %skip = arith.cmpi eq, %class, %ignored : i64
  %start = arith.muli %pid, %n : i32
  %row = tt.addptr %x, %start : !tt.ptr<f32>, i32
  %rows = tt.splat %row : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  scf.if %skip {
    scf.for %k = %c0 to %n step %c16 : i32 {
      %ks = tt.splat %k : i32 -> tensor<16xi32>
      %i = arith.addi %ks, %range : tensor<16xi32>
      %in = arith.cmpi slt, %i, %ns : tensor<16xi32>
      %p = tt.addptr %rows, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
      tt.store %p, %zero, %in : tensor<16x!tt.ptr<f32>>
    }
  }
  tt.return
}
"""


def test_other_data_and_another_size_together() -> None:
    """The step is wrong from the second block on, of rows that the launch does not have."""
    y = buffer("y", np.array([93, 90, 92, 93, 91, 92]), 0x5000_0000)
    x = buffer("x", np.ones(24, np.float32), 0x6000_0000)
    case = launched(y, x, ScalarArg("ignored", -100), ScalarArg("n", 4), programs=6)
    wrong = BLOCKS.replace("arith.constant 16", "arith.constant 17")
    stages = [Stage("", BLOCKS, file="a.mlir"), Stage("", wrong, file="b.mlir")]
    found = validate(stages, [case], limit=16)
    assert found.rows[1].status == MISMATCH
    assert all("among the integers" in f.case.label for f in found.findings)
