"""Normalisation layers of torch in half precision, as accurate as on a GPU.

torch's CPU kernels of layer and group norm add up half-precision gradients in half precision: for a
thousand rows the weight gradients are off by a tenth, where a GPU, which adds in f32, is right to
the last bit or two. Scripts compare Triton kernels with these functions, so tensors that are meant
to be on the GPU get them computed in f32 and rounded once, forward and backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from xttir.frontends.triton.torch_cuda import on_cpu

_NARROW = (torch.float16, torch.bfloat16)
_NAMES = ("layer_norm", "group_norm", "rms_norm")
"""Not batch and instance norm: they update running statistics, which must be the caller's own."""


def install(patches: Any) -> None:
    """Wrap the functions of `torch.nn.functional` that modules call."""
    for name in _NAMES:
        original = getattr(torch.nn.functional, name, None)
        if original is not None:
            patches.set(torch.nn.functional, name, _in_f32(original))


def _in_f32(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def call(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not isinstance(input, torch.Tensor) or input.dtype not in _NARROW or on_cpu(input):
            return original(input, *args, **kwargs)
        wide = [_wide(a) for a in args]
        named = {name: _wide(value) for name, value in kwargs.items()}
        return original(input.float(), *wide, **named).to(input.dtype)

    return call


def _wide(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value
