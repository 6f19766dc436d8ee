"""Which targets have which instructions: the target notes of PTX ISA 9.1, sections 9.7.*.

Only families that came with compute capability 7.0 or later are listed; all others run anywhere.
"""

from __future__ import annotations

from functools import cache

_SINCE: tuple[tuple[str, int], ...] = (
    ("tcgen05.", 100),
    ("clusterlaunchcontrol.", 100),
    ("cp.async.bulk", 90),
    ("cp.reduce.async.bulk", 90),
    ("st.async", 90),
    ("red.async", 90),
    ("mbarrier.try_wait", 90),
    ("mbarrier.expect_tx", 90),
    ("mbarrier.complete_tx", 90),
    ("barrier.cluster.", 90),
    ("fence.mbarrier_init", 90),
    ("tensormap.", 90),
    ("wgmma.", 90),
    ("setmaxnreg", 90),
    ("elect", 90),
    ("mapa", 90),
    ("getctarank", 90),
    ("griddepcontrol", 90),
    ("stmatrix", 90),
    ("mbarrier.", 80),
    ("cp.async", 80),
    ("redux", 80),
    ("ldmatrix", 75),
    ("movmatrix", 75),
    ("mma", 70),
)
"""Prefixes of families and the first compute capability; the first prefix that fits counts."""


@cache
def missing(family: str, capability: int) -> str:
    """What a target needs for instructions of `family` that it lacks (`sm_90`); empty: nothing."""
    if family.startswith("wgmma.") and capability != 90:
        return "sm_90a"
    for prefix, since in _SINCE:
        if family.startswith(prefix):
            return f"sm_{since}" if capability < since else ""
    return ""
