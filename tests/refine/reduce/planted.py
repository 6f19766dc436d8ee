"""Passes that go wrong on purpose: what a reduction is to bring out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp

from xttir.dialects import arith, scf, tt
from xttir.frontends.mlir import parse_module
from xttir.refine.reduce.build import before, constant, module_text
from xttir.refine.stages import Stage


def planted(change: Callable[[ModuleOp], None]) -> Callable[[str], Sequence[Stage]]:
    """A transform as `MeaningChanges` takes it, made of a change of a module."""

    def run(text: str) -> Sequence[Stage]:
        module = parse_module(text).clone()
        change(module)
        return [Stage("", text), Stage("planted", module_text(module))]

    return run


def mask_lost(module: ModuleOp) -> None:
    """Stores lose their masks."""
    for op in module.walk():
        if isinstance(op, tt.StoreOp) and op.mask is not None:
            op.operands = op.operands[:2]


def one_trip_short(module: ModuleOp) -> None:
    """Loops that carry a tensor run to one step before their end."""
    for op in list(module.walk()):
        if isinstance(op, scf.ForOp) and any("tensor" in str(r.type) for r in op.results):
            op.operands[1] = before(op, arith.SubiOp(op.ub, op.step))


def difference_swapped(module: ModuleOp) -> None:
    """`a - b` becomes `b - a` for floats."""
    for op in module.walk():
        if isinstance(op, arith.SubfOp):
            op.operands = tuple(reversed(op.operands))


def assumes_equal(module: ModuleOp) -> None:
    """Comparisons for equality of program ids with constants are taken to hold."""
    for op in list(module.walk()):
        if isinstance(op, arith.CmpiOp) and op.predicate.value.data == 0:
            new = constant(op.results[0].type, 1)
            assert new is not None
            op.results[0].replace_all_uses_with(before(op, new))
