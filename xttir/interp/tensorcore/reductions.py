"""Reductions in memory (cp.reduce.async.bulk, red.async): new contents from old ones and operands.

PTX ISA 9.1, sections 9.7.9.25.5 and 9.7.9.27.2. f16 and bf16 sums round to nearest even with
subnormals kept; f32 sums in global memory flush none either.
"""

from __future__ import annotations

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np

_TYPES = {
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "b32": np.dtype(np.uint32),
    "b64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}

OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def element_size(type_: str) -> int:
    """Bytes of an element; KeyError for an unknown type."""
    return _TYPES[type_].itemsize


def reduce(op: str, type_: str, old: np.ndarray, operand: np.ndarray) -> np.ndarray:
    """uint8 (.., size) of `op` on the elements in uint8 `old` and `operand` (last axis: bytes)."""
    dtype = _TYPES[type_]
    a, b = (np.ascontiguousarray(x).view(dtype) for x in (old, operand))
    with np.errstate(all="ignore"):
        out = _combine(op, a, b)
    return np.ascontiguousarray(out.astype(dtype)).view(np.uint8)


def _combine(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if op == "add":
        return a + b
    if op in ("min", "max"):
        if a.dtype.kind in "iu":
            return np.minimum(a, b) if op == "min" else np.maximum(a, b)
        # A NaN gives way to a number.
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        return np.fmin(wide_a, wide_b) if op == "min" else np.fmax(wide_a, wide_b)
    if op == "inc":
        return np.where(a >= b, 0, a + 1)
    if op == "dec":
        return np.where((a == 0) | (a > b), b, a - 1)
    if op == "and":
        return a & b
    if op == "or":
        return a | b
    if op == "xor":
        return a ^ b
    raise KeyError(op)
