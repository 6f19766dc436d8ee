"""What verification passes raise, and which functions of a module they look at."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from xttir.diagnostics import Fault
from xttir.dialects import tt


class Refuted(DiagnosticException):
    """A verification pass found faults: `faults`, all of them."""

    def __init__(self, name: str, faults: list[Fault]):
        self.name = name
        self.faults = faults
        first = faults[0]
        place = f"{first.locations[0]}: " if first.locations else ""
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        super().__init__(f"{place}error[{first.kind}]: {first.message}{more}")


LAYOUT_DIALECTS = ("ttg", "ttng", "nvws", "gluon")


def is_kernel(function: tt.FuncOp) -> bool:
    """Whether a function is launched rather than called."""
    visibility = function.sym_visibility
    return bool(function.body.blocks) and (visibility is None or visibility.data == "public")


def has_layouts(module: ModuleOp) -> bool:
    """Whether layouts have been chosen: the module is TTGIR, or Gluon's."""
    if "ttg.num-warps" in module.attributes:
        return True
    return any(op.name.partition(".")[0] in LAYOUT_DIALECTS for op in module.walk())
