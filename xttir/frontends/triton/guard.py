"""A device guard for CUDA that does nothing.

C++ code that meets a tensor on `cuda` (fake tensors of Dynamo and Inductor, autograd metadata of
such tensors) asks c10's registry for CUDA's device guard and throws, in places through `noexcept`
functions, when there is none (a CPU build) or when it finds no driver (a CUDA build without a
GPU). The meta device's guard does nothing on every call, so its entry stands in.
"""

from __future__ import annotations

import ctypes
import os

import torch

from xttir.frontends.triton.patches import Patches

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA, _META, _SLOTS = 1, 14, 22
"""c10::DeviceType values, and how many there are at least."""


def lend(patches: Patches) -> bool:
    """Replace CUDA's entry; False when the registry is not to be found (nothing is done)."""
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        registry = (ctypes.c_void_p * _SLOTS).in_dll(ctypes.CDLL(path), _REGISTRY)
    except (OSError, ValueError):
        return False
    own = registry[_CUDA]
    if registry[_META] is None:
        return False
    registry[_CUDA] = registry[_META]

    def take_back() -> None:
        registry[_CUDA] = own

    patches.on_undo(take_back)
    return True
