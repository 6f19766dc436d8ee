"""Floats that the user's launch does not have: NaN, infinities, zeros."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xttir.interp.launch import Storage, TensorArg
from xttir.refine.inputs import special
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


def launched(*tensors: TensorArg) -> Case:
    return Case("launch", (1, 1, 1), tensors, tuple(t.storage for t in tensors), user=True)


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
    (made,) = special(launched(*tensors))
    changed = [
        (s.bytes != a.view(np.uint8)).sum() for s, a in zip(made.memory, arrays, strict=True)
    ]
    assert changed[0]
    assert not changed[1]
    assert changed[2]
    assert (floats == 1).all()
    assert not made.user
    assert special(launched(tensors[1])) == []
