"""What a layout check says of one op: a line, and facts that let a person check it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Finding:
    """A layout that does not fit. `message` is one line without the place."""

    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""


def element(flat: int, shape: tuple[int, ...]) -> str:
    """The element at a row-major offset, as `[3, 5]`."""
    return str([int(i) for i in np.unravel_index(flat, shape)])


def register(at: NDArray[np.int64]) -> str:
    """A place among [registers, lanes, warps, blocks], in words."""
    words = f"register {at[0]} of lane {at[1]} of warp {at[2]}"
    return words if len(at) < 4 or not at[3] else f"{words} of block {at[3]}"
