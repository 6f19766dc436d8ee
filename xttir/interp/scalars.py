"""Scalars that are the same for all programs: one array for every number.

Ring counters, phases and loop variables come back to a few numbers. Where a number is always the
same array, what is computed from it is recognised the next time (see `plan.Compiler`). Values are
never changed in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_known: dict[tuple[str, int], np.ndarray] = {}
_MANY = 4096


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
    """`value`, or the one array for it if it is an integer or bool of shape [1]."""
    if type(value) is not np.ndarray or value.shape != (1,) or value.dtype.kind not in "bi":
        return value
    key = (value.dtype.char, value.item())
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MANY:
            return value
        found = _known[key] = value.copy()
        found.flags.writeable = False
    return found
