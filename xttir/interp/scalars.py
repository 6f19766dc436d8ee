"""Scalars: one array for every number, or for the same numbers of the programs of a batch.

Ring counters, phases and loop variables come back to a few numbers. Where a number is always the
same array, what is computed from it is recognised the next time (see `plan.Compiler`). Values are
never changed in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_known: dict[tuple[str, int], np.ndarray] = {}
_MANY = 4096

_several: dict[tuple[str, bytes], np.ndarray] = {}
_FEW = 1024
_PROGRAMS = 256
"""Numbers of more programs than this are not looked for."""


def number(value: int, dtype: np.dtype) -> np.ndarray:
    """`value` (wrapped to `dtype`, an integer type or bool) as [1]."""
    key = (dtype.char, value)
    found = _known.get(key)
    if found is None:
        found = np.full(1, value, np.int64).astype(dtype)
        found.flags.writeable = False
        if len(_known) < _MANY:
            _known[key] = found
    return found


def shared(value: Any) -> Any:
    """`value`, or the one array for it if it is integers or bools of shape [b]."""
    if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.kind not in "bi":
        return value
    if value.size != 1:
        return _of_several(value) if value.size <= _PROGRAMS else value
    key = (value.dtype.char, value.item())
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MANY:
            return value
        found = _known[key] = value.copy()
        found.flags.writeable = False
    return found


def _of_several(value: np.ndarray) -> np.ndarray:
    key = (value.dtype.char, value.tobytes())
    found = _several.get(key)
    if found is None:
        if len(_several) >= _FEW:
            _several.clear()
        found = _several[key] = value.copy()
        found.flags.writeable = False
    return found
