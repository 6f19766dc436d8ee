"""The enum of `tti` (TritonInstrumentAttrDefs.td)."""

from __future__ import annotations

from xttir.dialects.ods import OdsEnum


class MemType(OdsEnum):
    """The memory that a buffer lies in."""

    SHARED_MEM = 0, "shared_mem"
    TENSOR_MEM = 1, "tensor_mem"
