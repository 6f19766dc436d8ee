"""Dropping ops: a set of them at once, their results replaced by something that is there anyway.

What stands for a result is, by `Style`: an operand or a value yielded of the same type (a loop's
initial value, a pointer without its offset), a value defined before, a constant, or a new function
argument.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from xttir.dialects import tt
from xttir.refine.reduce.build import (
    add_argument,
    before,
    called,
    constant,
    erase,
    function_of,
    inner_ops,
    instead_of,
    visible_before,
)


class Style(enum.Enum):
    """What is tried first to stand for a result."""

    OPERAND = "operand"
    ZERO = "0"
    ONE = "1"
    EARLIER = "earlier"
    ARGUMENT = "argument"


Edit = Callable[[ModuleOp], bool]
"""Changes a module in place; False if it does not apply."""


def drop(indices: Collection[int], style: Style = Style.OPERAND) -> Edit:
    """Drop the ops at positions `indices` of `inner_ops`. Those that cannot be dropped stay."""

    def edit(module: ModuleOp) -> bool:
        ops = inner_ops(module)
        chosen = {id(ops[n]) for n in indices if n < len(ops)}
        dropped = 0
        for op in reversed(ops):
            if id(op) in chosen and op.parent is not None:
                dropped += _drop(module, op, style)
        return dropped > 0

    return edit


def _drop(module: ModuleOp, op: Operation, style: Style) -> bool:
    substitutes: list[SSAValue | None] = []
    for n, result in enumerate(op.results):
        if result.first_use is None:
            substitutes.append(None)
            continue
        found = substitute(module, op, n, style)
        if found is None:
            return False
        substitutes.append(found)
    for result, value in zip(op.results, substitutes, strict=True):
        if value is not None:
            result.replace_all_uses_with(value)
    erase(op)
    return True


def substitute(module: ModuleOp, op: Operation, index: int, style: Style) -> SSAValue | None:
    """A value for result `index` of `op`, made where it is needed."""
    ty = op.results[index].type
    makers = {
        Style.OPERAND: lambda: instead_of(op, index),
        Style.ZERO: lambda: _constant(op, index, 0),
        Style.ONE: lambda: _constant(op, index, 1),
        Style.EARLIER: lambda: visible_before(op, ty),
        Style.ARGUMENT: lambda: _argument(module, op, index),
    }
    for make in (makers[style], *makers.values()):
        value = make()
        if value is not None:
            return value
    return None


def _constant(op: Operation, index: int, number: int) -> SSAValue | None:
    if op.name == "arith.constant":
        return None
    new = constant(op.results[index].type, number)
    return None if new is None else before(op, new)


def _argument(module: ModuleOp, op: Operation, index: int) -> SSAValue | None:
    """A new argument; for a tensor of pointers, of its elements' type, and splat."""
    ty = op.results[index].type
    function = function_of(op)
    if function is None or function.sym_name.data in called(module):
        return None
    if op.name == "arith.constant":
        return None
    if not isinstance(ty, TensorType):
        if constant(ty) is None and not isinstance(ty, tt.PointerType | tt.TensorDescType):
            return None
        return add_argument(function, ty)
    if op.name == "tt.splat" or not isinstance(ty.element_type, tt.PointerType):
        return None
    scalar = visible_before(op, ty.element_type) or add_argument(function, ty.element_type)
    return before(op, tt.SplatOp.build(operands=[scalar], result_types=[ty]))
