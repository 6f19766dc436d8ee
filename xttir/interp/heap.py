"""Keeps freed memory in the process: the cost of array arithmetic on tiles is page faults.

glibc gives blocks of more than 128 KiB back to the system when they are freed, so every temporary
array is mapped and zeroed anew; numpy code on tiles of half a megabyte then takes three to five
times as long. Two thresholds of malloc change that. Other C libraries are left alone. Room for the
first tiles is mapped ahead in huge pages, which costs a quarter of as many small ones.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import numpy as np

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD
_ROOM = 16 << 20
"""Bytes: a handful of tiles of a batch."""

_reserved: list[np.ndarray] = []


@cache
def keep_freed_memory() -> bool:
    """Raise malloc's thresholds, once for the process. Whether it could be done."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, 32 << 20) and mallopt(_TRIM_THRESHOLD, 256 << 20))


@cache
def reserve_room() -> None:
    """Map room for the temporaries of launches, once for the process, and hold it until the first
    launch (`release_room`), so that no tensor is put there."""
    if keep_freed_memory():
        room = np.empty(_ROOM, np.uint8)  # numpy asks for huge pages
        room[:: 2 << 20] = 0  # one in each maps it
        _reserved.append(room)


def release_room() -> None:
    """Leave the room to malloc, which keeps it."""
    _reserved.clear()
