"""`gpu`: upstream's ops, with the pretty form of `gpu.barrier`, which AMD's pipelines still use."""

from __future__ import annotations

from xdsl.dialects import gpu as upstream
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of a block meet."""

    name = "gpu.barrier"
    address_spaces = opt_prop_def(ArrayAttr)
    assembly_format = "(`memfence` $address_spaces^)? attr-dict"


_OURS: tuple[type[Operation], ...] = (BarrierOp,)

GPU = Dialect(
    "gpu",
    [
        *(op for op in upstream.GPU.operations if op.name not in {o.name for o in _OURS}),
        *_OURS,
    ],
    list(upstream.GPU.attributes),
)
