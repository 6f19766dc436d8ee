"""Words that parameters of encodings and cache policies are spelled with."""

from __future__ import annotations

from xttir.dialects.ods import OdsEnum


class TensorMemoryScalesBlockRepOrder(OdsEnum):
    """In which order blocks of scales follow one another in tensor memory."""

    MN_THEN_K = 0, "mnThenK"
    K_THEN_MN = 1, "kThenMn"


class CacheEvictionPriority(OdsEnum):
    """What a cache of NVIDIA's does with a line (`#ttng.cache_policy`)."""

    NONE = 0, "none"
    EVICT_NORMAL = 1, "evict_normal"
    EVICT_UNCHANGED = 2, "evict_unchanged"
    EVICT_FIRST = 3, "evict_first"
    EVICT_LAST = 4, "evict_last"
    NO_ALLOCATE = 5, "no_allocate"


class SharedKind(OdsEnum):
    """How an op accesses shared memory."""

    GENERIC = 0, "generic"
    ASYNC = 1, "async"
    BARRIER = 2, "barrier"
