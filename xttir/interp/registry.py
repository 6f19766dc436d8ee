"""All implementations, gathered once; those that few kernels use are imported when first needed.
Another dialect joins with `register_dialect`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from xttir.interp.plan import Implementations

_LATER: dict[str, tuple[str, str]] = {
    "tt.dot_scaled": ("xttir.interp.dot_scaled", "DotScaledFunctions"),
    "tt.extern_elementwise": ("xttir.interp.libdevice", "LibdeviceFunctions"),
    "tt.elementwise_inline_asm": ("xttir.interp.inline_ptx", "InlineAsmFunctions"),
    "ttng.packed_arith": ("xttir.interp.packed", "PackedFunctions"),
    "llvm": ("xttir.interp.llvm", "LLVMFunctions"),
    "ttg": ("xttir.interp.ttg", "TritonGPUFunctions"),
    "gluon": ("xttir.interp.ttg", "TritonGPUFunctions"),
}
"""Op or dialect name -> (module, class) of implementations that are imported on first use."""

_LATER_STEPS: dict[str, str] = {
    "ttg": "xttir.interp.ttg",
    "ttng": "xttir.interp.ttng",
    "nvws": "xttir.interp.nvws",
    "tti": "xttir.interp.tti",
    "ub": "xttir.interp.ub",
}
"""Dialect -> module whose `register` adds the builders of its ops."""

_extensions: list[Callable[[Implementations], None]] = []


def register_dialect(add: Callable[[Implementations], None]) -> None:
    """Add implementations of a dialect outside this package: `add(implementations)` is called with
    the table to add to (see `Implementations.register`)."""
    _extensions.append(add)
    implementations.cache_clear()


@cache
def implementations() -> Implementations:
    """The table of everything known."""
    from xttir import extend
    from xttir.interp import affine_rules, control, dot, region_ops, tt, tt_memory
    from xttir.interp.arith import IN_PLACE, ArithFunctions
    from xttir.interp.conversions import ConversionFunctions
    from xttir.interp.math import MathFunctions
    from xttir.interp.shape_ops import ShapeFunctions

    table = Implementations(_LATER, _LATER_STEPS)
    for functions in (
        ArithFunctions(),
        MathFunctions(),
        ConversionFunctions(),
        ShapeFunctions(),
        tt.TritonFunctions(),
        tt_memory.TritonMemoryFunctions(),
    ):
        table.register(functions)
    table.in_place |= IN_PLACE
    table.lowered |= tt.LOWERED | tt_memory.LOWERED
    affine_rules.register(table)
    control.register(table)
    region_ops.register(table)
    dot.register(table)
    extend.load()
    for add in _extensions:
        add(table)
    return table
