"""Loads every module that gives instructions a meaning."""

from xttir.interp.ptx import (  # noqa: F401
    addresses,
    atomics,
    control,
    cta_barriers,
    fences,
    load_store,
    mbarrier,
    warp,
)
