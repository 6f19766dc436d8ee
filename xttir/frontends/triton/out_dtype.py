"""`torch.mm(..., out_dtype=)` and its relatives, which torch has for CUDA only.

Products of half-precision tensors with results in f32: the operands are widened first, which is
exact, so that the result is what the CUDA kernel gives up to the order of its sums.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_NAMES = ("mm", "bmm", "addmm", "baddbmm")


def install(patches: Any) -> None:
    """Give the products of `torch` their `out_dtype` on the CPU."""
    for name in _NAMES:
        patches.set(torch, name, _widening(getattr(torch, name)))


def _widening(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = kwargs.pop("out_dtype", None)
        if dtype is None and args and isinstance(args[-1], torch.dtype):
            *args, dtype = args  # type: ignore[assignment]
        if dtype is None:
            return original(*args, **kwargs)
        wide = [a.to(dtype) if isinstance(a, torch.Tensor) else a for a in args]
        named = {
            k: v.to(dtype) if isinstance(v, torch.Tensor) and k != "out" else v
            for k, v in kwargs.items()
        }
        return original(*wide, **named)

    return call
