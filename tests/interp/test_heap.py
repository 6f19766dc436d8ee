"""Freed memory stays with the process: large temporaries cost no page faults."""

from __future__ import annotations

import resource
import sys

import numpy as np
import pytest

from xttir.interp.heap import keep_freed_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a property of glibc's malloc")
def test_large_temporaries_are_reused():
    if not keep_freed_memory():
        pytest.skip("the C library has no mallopt")
    np.ones(1 << 20, np.float32)  # 4 MiB, then free
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(1 << 20, np.float32)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 20 * 1024 / 2  # one for each page of 4 KiB, were they mapped anew
