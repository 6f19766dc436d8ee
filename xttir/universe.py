"""What xttir adds to xDSL's drivers, found through the `xdsl.universe` entry point.

With xttir installed, plain `xdsl-opt` knows the dialects below in any MLIR text, reads `.ttir`,
`.ttgir` and `.ptx` files, and writes them with `-t ttir` and `-t ptx`. Two universes may not define
the same dialect, so in `.mlir` files `xdsl-opt` still uses xDSL's own `arith`, `gpu`, `math`, `scf`
and `llvm`, whose comparisons, selects and casts take no tensors, and its own parser, which misreads
`dense<0xFF800000>` and stops at location aliases that are defined at the end. Name such a file
`.ttir`, pass `-f ttir`, or use `xttir-opt`, where ours stand in everywhere.
"""

from __future__ import annotations

from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from xttir.dialects.context import NEW


def _frontend() -> type[Frontend]:
    from xttir.frontends.opt import TritonFrontend

    return TritonFrontend


def _ptx_frontend() -> type[Frontend]:
    from xttir.frontends.ptx.opt import PtxFrontend

    return PtxFrontend


def _ptx_target() -> type[Target]:
    from xttir.frontends.ptx.opt import PtxTarget

    return PtxTarget


def _verify_races() -> type[ModulePass]:
    from xttir.tools.verify_races import VerifyRacesPass

    return VerifyRacesPass


def _check_layouts() -> type[ModulePass]:
    from xttir.analyses.layout_checks import CheckLayoutsPass

    return CheckLayoutsPass


def _sanitize() -> type[ModulePass]:
    from xttir.analyses.run_pass import SanitizePass

    return SanitizePass


def _triton() -> type[ModulePass]:
    from xttir.refine.triton_pass import TritonPass

    return TritonPass


def _target() -> type[Target]:
    from xttir.frontends.opt import TritonTarget

    return TritonTarget


XTTIR_UNIVERSE = Universe(
    all_dialects=dict(NEW),
    all_frontends={"ttir": _frontend, "ttgir": _frontend, "ptx": _ptx_frontend},
    all_targets={"ttir": _target, "ptx": _ptx_target},
    all_passes={
        "check-layouts": _check_layouts,
        "sanitize": _sanitize,
        "triton": _triton,
        "verify-races": _verify_races,
    },
)
