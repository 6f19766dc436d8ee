"""Products of tiles against results recorded on a GPU's tensor cores.

`data/dots_h200.npz`: 19 kernels compiled by Triton 3.9 for sm_90 and run on an NVIDIA H200 (driver
580): `tl.dot` in every type and input precision, `tl.dot_scaled` in its packings. `texts` is TTIR,
`operands` names pools (uint32[pool, 4096]); `results` uint32[kernel, n] is every 7th element.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.interp.launching import launch
from xttir.interp.executor import run_launch
from xttir.policy import RunPolicy

DATA = Path(__file__).parent / "data" / "dots_h200.npz"

# Agreement, relative to the largest element. Tensor cores keep 25 bits of partial sums of f16, bf16
# and tf32, 13 of fp8; the last rounding to f16 is one step of its 11 bits.
TOLERANCE = {"float8e4nv": 4e-4, "float8e5": 4e-4, "f16acc": 1e-3, "int8": 0.0}
USUAL = 6e-7


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return {name: data[name] for name in data.files}


@pytest.mark.parametrize("name", recorded()["names"].tolist())
def test_dots_agree_with_tensor_cores(name: str):
    data = recorded()
    n = data["names"].tolist().index(name)
    dtype = np.dtype(np.int32 if name == "int8" else np.float32)
    pools = dict(zip(data["pool_names"].tolist(), data["pools"], strict=True))
    arguments: dict[str, object] = {}
    for letter, pool in zip("xyz", str(data["operands"][n]).split(), strict=False):
        kind = np.float32 if pool.startswith("fp32") else np.int32
        arguments[f"p{letter}"] = pools[pool].view(kind).copy()
    ours = np.zeros(4096, dtype)
    text = str(data["texts"][n])
    result = run_launch(
        launch(text, (1,), {**arguments, "o": ours}), RunPolicy().with_checks("none")
    )
    assert result.completed
    theirs = data["results"][n].view(dtype).astype(np.float64)
    error = np.abs(ours[::7] - theirs).max() / np.abs(theirs).max()
    assert error <= TOLERANCE.get(name, USUAL)
