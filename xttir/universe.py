"""What xttir adds to xDSL's drivers, found through the `xdsl.universe` entry point.

With xttir installed, plain `xdsl-opt` knows the dialects below in any MLIR text, reads `.ttir` and
`.ttgir` files, and writes them with `-t ttir`. Two universes may not define the same dialect, so in
`.mlir` files `xdsl-opt` still uses xDSL's own `arith`, `math`, `scf` and `llvm`, whose comparisons,
selects and casts take no tensors, and its own parser, which misreads `dense<0xFF800000>` and stops
at location aliases that are defined at the end. Name such a file `.ttir`, pass `-f ttir`, or use
`xttir-opt`, where ours stand in everywhere.
"""

from __future__ import annotations

from xdsl.universe import Universe
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from xttir.dialects.context import NEW


def _frontend() -> type[Frontend]:
    from xttir.frontends.opt import TritonFrontend

    return TritonFrontend


def _target() -> type[Target]:
    from xttir.frontends.opt import TritonTarget

    return TritonTarget


XTTIR_UNIVERSE = Universe(
    all_dialects=dict(NEW),
    all_frontends={"ttir": _frontend, "ttgir": _frontend},
    all_targets={"ttir": _target},
)
