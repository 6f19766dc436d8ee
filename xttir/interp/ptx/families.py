"""Loads every module that gives instructions a meaning."""

from xttir.interp.ptx import (  # noqa: F401
    addresses,
    atomics,
    bulk,
    bulk_tensor,
    cluster_launch,
    control,
    cp_async,
    cta_barriers,
    fences,
    load_store,
    matrix,
    mbarrier,
    remote,
    tcgen05_async,
    tcgen05_memory,
    tcgen05_mma,
    tensor_maps,
    warp,
    wgmma,
    wmma,
)
