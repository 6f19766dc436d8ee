"""Products of microscaled operands: blocks of 16 or 32 elements along k that share a scale.

Elements and scales are multiplied exactly in f32 (OCP Microscaling Formats 1.0: e8m0 code s is
2^(s - 127), 255 is NaN), and the product is taken as in `numerics.products`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from xttir.interp.numerics.floats import BF16, E2M1, E2M3, E3M2, E4M3FN, E5M2, F16, widen

ELEMENTS: dict[str, np.dtype] = {
    "e4m3": E4M3FN,
    "e5m2": E5M2,
    "e2m3": E2M3,
    "e3m2": E3M2,
    "e2m1": E2M1,
    "bf16": BF16,
    "fp16": F16,
}
"""Element types by the keywords of `tt.dot_scaled`; two e2m1 share a byte, the rest stand alone."""


@cache
def _pairs() -> np.ndarray:
    """float32[256, 2]: the two e2m1 values of a byte, low half first."""
    codes = np.arange(256, dtype=np.uint8)
    halves = np.stack([codes & 15, codes >> 4], axis=-1)
    return halves.view(E2M1).astype(np.float32)


@cache
def _scales() -> np.ndarray:
    """float32[256]: the values of e8m0 codes."""
    values = np.ldexp(np.ones(256), np.arange(256) - 127)
    values[255] = np.nan
    return values.astype(np.float32)


def elements(a: np.ndarray, type_: str, packed_axis: int) -> np.ndarray:
    """The values of `a` (.., rows, columns) as f32; e2m1 unpacks along `packed_axis` (-2 or -1)."""
    if type_ != "e2m1":
        dtype = ELEMENTS[type_]
        return widen(a if a.dtype == dtype else a.view(dtype))
    pairs = np.take(_pairs(), a.view(np.uint8), axis=0)
    if packed_axis == -2:
        pairs = pairs.swapaxes(-1, -2)  # (.., rows, 2, columns)
        return pairs.reshape(*a.shape[:-2], 2 * a.shape[-2], a.shape[-1])
    return pairs.reshape(*a.shape[:-1], 2 * a.shape[-1])


def scale_values(scale: np.ndarray) -> np.ndarray:
    """Scales as f32: bytes are e8m0, floats (e4m3 for nvfp4) their value."""
    if scale.dtype.kind in "iu":
        return np.take(_scales(), scale.view(np.uint8))
    return widen(scale)


def scaled_rows(a: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """f32 a (.., m, k) times its scales (.., m, k / group)."""
    blocks = scale.shape[-1]
    grouped = a.reshape(*a.shape[:-1], blocks, a.shape[-1] // blocks)
    return (grouped * scale_values(scale)[..., np.newaxis]).reshape(
        *np.broadcast_shapes(a.shape[:-1], scale.shape[:-1]), a.shape[-1]
    )
