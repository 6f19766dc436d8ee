"""Triton ops against results recorded on a GPU: TTIR here, the PTX that Triton made of it there.

`data/triton_ops_h200.npz`: 233 small kernels compiled by Triton 3.9 for sm_90 without fp fusion and
run on an NVIDIA H200 (driver 580), one program of 512 lanes. `bodies` is the kernel's expression
over its loads x, y, z, `texts` its TTIR; `operands` names the pools (uint64[pool, lane]) they come
from; `results` uint64[kernel, lane].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.interp.launching import launch
from xttir.interp.executor import run_launch
from xttir.policy import RunPolicy

DATA = Path(__file__).parent / "data" / "triton_ops_h200.npz"

DTYPES = {
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint32": np.dtype(np.int32),
    "uint64": np.dtype(np.int64),
}


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return {name: data[name] for name in data.files}


def cases() -> list[str]:
    """Names such as "div int32 int32"."""
    return recorded()["names"].tolist()


def load(n: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """(operands, our result, the GPU's result) of kernel `n`."""
    data = recorded()
    pools = dict(zip(data["pool_names"].tolist(), data["pools"], strict=True))
    operands = []
    for name in str(data["operands"][n]).split():
        dtype = DTYPES[name.split("_")[0]]
        operands.append(pools[name].astype(f"u{dtype.itemsize}").view(dtype))
    dtype = DTYPES[str(data["types"][n])]
    theirs = data["results"][n].astype(f"u{dtype.itemsize}").view(dtype)
    ours = np.zeros(512, dtype)
    arguments: dict[str, object] = {
        f"p{v}": a.copy() for v, a in zip("xyz", operands, strict=False)
    }
    result = run_launch(
        launch(str(data["texts"][n]), (1,), {**arguments, "o": ours}),
        RunPolicy().with_checks("none"),
    )
    assert result.completed
    return operands, ours, theirs


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Lanes with equal bits, any NaN equal to any NaN."""
    equal = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    return equal | ((a != a) & (b != b))


def close(a: np.ndarray, b: np.ndarray, ulps: int) -> np.ndarray:
    """Lanes that are the same, or floats at most `ulps` apart."""
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return same(a, b) | (np.abs(a.astype(np.float64) - b) <= ulps * unit.astype(np.float64))


def _subnormal(x: np.ndarray) -> np.ndarray:
    return (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0)


# What Triton's code for an NVIDIA GPU computes less exactly than the op's meaning, in ulp.
ULPS = {
    "exp": 50, "exp2": 2, "log": 2, "log2": 2, "sin": 2, "cos": 2, "sqrt": 1, "rsqrt": 1, "erf": 2,
    "sigmoid": 50, "f16div": 2, "bf16div": 2, "randn": 8,
}  # fmt: skip

# Lanes that are not compared: undefined results, and subnormal f32 that the GPU takes for zero.
Skip = Callable[[list[np.ndarray]], np.ndarray]
FLUSHES = ("floor", "ceil", "sqrt", "rsqrt", "exp", "exp2", "erf", "sin", "log", "log2")


def skipped(name: str, operands: list[np.ndarray], ours: np.ndarray) -> np.ndarray:
    first = name.split()[0]
    none = np.zeros(512, bool)
    if first in ("div", "mod", "cdiv") and operands[1].dtype.kind == "i":
        return operands[1] == 0
    if first.startswith(("toint", "touint")):
        width = int(first.removeprefix("to").removeprefix("u").removeprefix("int"))
        low, high = (
            (0.0, 2.0**width) if "u" in first else (-(2.0 ** (width - 1)), 2.0 ** (width - 1))
        )
        return ~((np.trunc(operands[0]) >= low) & (np.trunc(operands[0]) < high))
    if first in FLUSHES and operands[0].dtype == np.float32:
        return _subnormal(operands[0]) | _subnormal(ours)
    if first == "float8e5b":  # e5m2 to bf16 forgets about NaN and infinities before sm_100
        return ~np.isfinite(operands[0])
    return none


@pytest.mark.parametrize("part", range(16))
def test_ops_agree_with_the_gpu(part: int):
    wrong = {}
    for n in range(part, len(cases()), 16):
        name = cases()[n]
        first = name.split()[0]
        if first == "rem":  # fmod here; x - trunc(x / y) * y there
            continue
        operands, ours, theirs = load(n)
        fine = close(ours, theirs, ULPS[first]) if first in ULPS else same(ours, theirs)
        lanes = np.flatnonzero(~(fine | skipped(name, operands, ours)))
        if lanes.size:
            k = lanes[0]
            wrong[name] = ([a[k] for a in operands], ours[k], theirs[k], len(lanes))
    assert not wrong


def test_most_kernels_agree_bit_for_bit():
    """The exceptions above are few."""
    assert sum(n.split()[0] not in (*ULPS, "rem") for n in cases()) >= 190
