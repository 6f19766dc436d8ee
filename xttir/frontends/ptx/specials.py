"""Special registers: PTX ISA 9.1, chapter 10."""

from __future__ import annotations

_VECTORS = "tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid"
_SCALARS = (
    "laneid warpid nwarpid smid nsmid gridid is_explicit_cluster cluster_ctarank cluster_nctarank "
    "lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64 "
    "pm0_64 globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size "
    "dynamic_smem_size reserved_smem_offset_begin reserved_smem_offset_end "
    "reserved_smem_offset_cap reserved_smem_offset_0 reserved_smem_offset_1 current_graph_exec"
)
SPECIALS = frozenset(
    [f"{name}.{axis}" for name in _VECTORS.split() for axis in "xyzw"]
    + _VECTORS.split()
    + _SCALARS.split()
    + [f"envreg{i}" for i in range(32)]
    + [f"pm{i}" for i in range(8)]
    + [f"pm{i}_64" for i in range(8)]
)
"""Names without the percent sign."""
