"""Matrix products through BLAS, on one thread.

Tiles are small, so BLAS's own threads cost more than they give, and how they split a product could
change its rounding. numpy's wheels bring OpenBLAS with entry points to set the number of threads;
with another BLAS nothing is changed.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

# OpenBLAS starts threads from about this many multiplications on.
_WORTH_THREADS = 1 << 17

_lock = threading.Lock()
_depth = 0
_threads_before = 1


@cache
def _openblas() -> tuple[Any, Any] | None:
    """(get, set) of the number of threads of numpy's OpenBLAS, or None."""
    package = Path(np.__file__).parent
    folders = [package.parent / "numpy.libs", package / ".dylibs", package / ".libs"]
    for folder in folders:
        for path in sorted(folder.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for prefix in ("scipy_openblas", "openblas"):
                for suffix in ("64_", ""):
                    try:
                        return (
                            getattr(library, f"{prefix}_get_num_threads{suffix}"),
                            getattr(library, f"{prefix}_set_num_threads{suffix}"),
                        )
                    except AttributeError:
                        continue
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run BLAS on the calling thread only; the number of threads is set back at the end."""
    global _depth, _threads_before
    calls = _openblas()
    if calls is None:
        yield
        return
    get, set_ = calls
    with _lock:
        if _depth == 0:
            _threads_before = get()
            set_(1)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                set_(_threads_before)


def _rows(a: np.ndarray) -> np.ndarray:
    """`a` with contiguous rows that do not overlap, copied if need be (transposed views are)."""
    rows, row, item = a.shape[-2], a.strides[-2], a.strides[-1]
    if item == a.itemsize and (rows == 1 or row >= a.shape[-1] * item):
        return a
    return np.ascontiguousarray(a)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b for stacks of f32 or f64 matrices (.., m, k) @ (.., k, n), stacks broadcasting.

    Every product of the stack is one BLAS call of the same shape, so a product does not depend on
    what it is computed together with. BLAS rounds differently for transposed operands, and in
    products with vectors for different strides: such operands are copied first, so that the
    result depends on values alone. The order of accumulation along k is BLAS's.
    """
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if m == 1 or n == 1:
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    else:
        a, b = _rows(a), _rows(b)
    if m * k * n < _WORTH_THREADS:
        return np.matmul(a, b)
    with one_thread():
        return np.matmul(a, b)
