"""What the programs of a grid axis cover: a kernel that multiplies its program id with a block and
compares positions with a limit has as many programs as the limit has blocks.

The limit is read off the kernel, as a polynomial of its integer arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xdsl.ir import SSAValue

from xttir.analyses.sizes.explain import SAME, constant_of, scale_of
from xttir.analyses.sizes.terms import Term, as_term
from xttir.dialects import tt

Number = tuple[Term, int]
"""A term, and its value in a launch."""

Limit = tuple[int, Term, int]
"""A block, and the limit of what is gone over by it, with its value in a launch."""

MOST_STEPS = 32
"""Ops, one on another, that a limit is followed through."""

_OPERATIONS: dict[str, Callable[[Number, Number], Number]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[0], a[1] - b[1]),
    "arith.muli": lambda a, b: (a[0] * b[0], a[1] * b[1]),
}

_LESS, _GREATER = (2, 6), (4, 8)
"""Predicates of `arith.cmpi`: slt and ult; sgt and ugt."""


def limits_of_ids(
    function: tt.FuncOp, arguments: Mapping[SSAValue, Number]
) -> dict[int, list[Limit]]:
    """By axis of the grid: limits that positions of its blocks are compared with."""
    out: dict[int, list[Limit]] = {}
    known: dict[SSAValue, Number | None] = dict(arguments)
    for op in function.walk():
        if isinstance(op, tt.GetProgramIdOp):
            found = out.setdefault(op.axis.value.data, [])
            for block, value in _compared(op.results[0]):
                limit = _number(value, known, MOST_STEPS)
                if limit is not None and limit[0].constant is None:
                    found.append((block, *limit))
    return out


def _compared(index: SSAValue) -> Iterator[tuple[int, SSAValue]]:
    """What positions made of an id, so many elements a unit, are said to be less than."""
    waiting: list[tuple[SSAValue, int]] = [(index, 1)]
    seen = set(waiting)
    while waiting:
        value, block = waiting.pop(0)
        for use in value.uses:
            op = use.operation
            scale = block
            if op.name == "arith.cmpi":
                predicate = op.properties["predicate"].value.data  # pyright: ignore
                if predicate in (_LESS, _GREATER)[use.index]:
                    yield block, op.operands[1 - use.index]
                continue
            if op.name not in SAME and op.name != "arith.addi":
                scale = scale_of(op, use.index) if block == 1 else None
            if scale is None:
                continue
            made: tuple[SSAValue, int] = (op.results[0], scale)
            if made not in seen:
                seen.add(made)
                waiting.append(made)


def _number(value: SSAValue, known: dict[SSAValue, Number | None], steps: int) -> Number | None:
    """A value as a polynomial of arguments; None if it is none, or one of many `steps`."""
    if value not in known:
        known[value] = _made_of(value, known, steps - 1) if steps else None
    return known[value]


def _made_of(value: SSAValue, known: dict[SSAValue, Number | None], steps: int) -> Number | None:
    number = constant_of(value)
    if number is not None:
        return as_term(number), number
    op = value.owner
    name = getattr(op, "name", "")
    if name in SAME:
        return _number(op.operands[0], known, steps)  # pyright: ignore
    if name not in _OPERATIONS:
        return None
    a, b = (_number(o, known, steps) for o in op.operands)  # pyright: ignore
    return None if a is None or b is None else _OPERATIONS[name](a, b)
