"""A small kernel and a launch description that fits it."""

import copy
from typing import Any

import pytest

PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry scale(
    .param .align 64 .b8 map[128],
    .param .u64 .ptr .global .align 16 out,
    .param .u32 n,
    .param .f32 factor
)
.reqntid 128
{
    .shared .align 16 .b8 stage[2048];
    ret;
}
.visible .entry other() { ret; }
"""

DESCRIPTION: dict[str, Any] = {
    "entry": "scale",
    "arch": "sm_90a",
    "grid": [2, 1, 1],
    "block": [128, 1, 1],
    "cluster": [1, 1, 1],
    "dynamic_smem": 1024,
    "tensors": {
        "x": {"dtype": "bf16", "shape": [64, 64], "strides": [64, 1], "role": "in"},
        "out": {"dtype": "f32", "shape": [8], "role": "out"},
        "index": {"dtype": "i64", "shape": [4], "init": [3, 1, 2, 0], "range": [0, 3]},
    },
    "params": [
        {"tensormap": "x", "box": [64, 64], "swizzle": "128B"},
        {"pointer": "out"},
        {"i32": 8},
        {"f32": 0.5},
    ],
    "ref": {"out": "x[0, :8].float() * 0.5"},
}


@pytest.fixture
def data() -> dict[str, Any]:
    """A description that is right, to be spoilt."""
    return copy.deepcopy(DESCRIPTION)
