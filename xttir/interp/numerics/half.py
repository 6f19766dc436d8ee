"""f16 to and from f32 with the processor's own conversion, where torch is loaded.

numpy converts half precision one element at a time. torch has the vector instructions, ten times as
fast, and gives the same bits (round to nearest even, subnormals kept); it is used when the
program has imported it anyway. Where torch has threads, work goes in chunks below its threshold for
them: they would cost more CPU time than they save.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

_CHUNK = 32768
_QUIET = np.uint16(0x7E00)


def _torch() -> Any:
    return sys.modules.get("torch")


def _copied(a: np.ndarray, dtype: type) -> np.ndarray | None:
    """`a` converted by torch."""
    torch = _torch()
    if torch is None:
        return None
    if not (a.flags.c_contiguous and a.flags.writeable):
        a = np.array(a, order="C")
    out = np.empty(a.shape, dtype)
    source, target = a.reshape(-1), out.reshape(-1)
    # The functions of the C module: those of `torch` may be wrapped to look like a GPU's.
    wrap, copy = torch._C._VariableFunctions.from_numpy, torch._C.TensorBase.copy_
    chunk = _CHUNK if torch.get_num_threads() > 1 else max(1, a.size)
    for start in range(0, a.size, chunk):
        copy(wrap(target[start : start + chunk]), wrap(source[start : start + chunk]))
    return out


def widen(a: np.ndarray) -> np.ndarray | None:
    """f16 `a` as f32, or None without torch."""
    return _copied(a, np.float32)


def narrow(x: np.ndarray) -> np.ndarray | None:
    """f32 `x` rounded to f16, every NaN the quiet one; None without torch."""
    out = _copied(x, np.float16)
    if out is None:
        return None
    if x.size and np.isnan(x.max()):  # the maximum is NaN where any element is
        out.view(np.uint16)[np.isnan(x)] = _QUIET
    return out
