"""Keeps freed memory in the process: the cost of array arithmetic on tiles is page faults.

glibc gives blocks of more than 128 KiB back to the system when they are freed, so every temporary
array is mapped and zeroed anew; numpy code on tiles of half a megabyte then takes three to five
times as long. Two thresholds of malloc change that. Other C libraries are left alone.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD


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
