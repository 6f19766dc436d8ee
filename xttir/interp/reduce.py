"""`tt.reduce`: the combine region recognised, and the reduction of values.

The executor compiles the region into a function of arrays and calls `reduce_values`. Where
`match_combine` knows the region, the named function runs instead, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, Region, SSAValue

from xttir.dialects import arith
from xttir.interp.numerics import fold

Arrays = fold.Arrays
Combine = fold.Combine


def _without_repeats(arrays: Sequence[np.ndarray], axis: int) -> list[np.ndarray]:
    """The arrays with axes along which all of them only repeat themselves cut to size 1."""
    cut = [
        n != axis and all(a.shape[n] == 1 or a.strides[n] == 0 for a in arrays)
        for n in range(arrays[0].ndim)
    ]
    where = tuple(slice(0, 1) if c else slice(None) for c in cut)
    return [a[where] for a in arrays]


def reduce_values(
    arrays: Sequence[np.ndarray], axis: int, combine: Combine, name: str | None = None
) -> Arrays:
    """Reduce values (b, *s) along `axis` (counting the batch axis), which has its full extent.

    `combine` takes and returns tuples of arrays (b, ...), one element for each pair. `name`: from
    `match_combine`, or None. Returns arrays without the axis, (b, *rest), in which size-1 dims
    stand for extents along which everything is the same; (b,) for a result that is a scalar.
    """
    arrays = _without_repeats(arrays, axis)
    n = arrays[0].shape[axis]
    if n & (n - 1) == 0 and all(a.strides[axis] == 0 for a in arrays):
        here = (*(slice(None),) * axis, slice(0, 1))
        step = combine if name is None else fold.combine_of(name)
        return fold.reduce_equal([a[here] for a in arrays], n, axis, step)
    if name is not None:
        return fold.reduce_named(name, arrays, axis)
    return fold.reduce_any(arrays, axis, combine)


# Recognising combine regions ----------------------------------------------------------------------

_COMMUTATIVE = {
    *(f"arith.{name}" for name in fold.ELEMENTWISE),
    "arith.cmpf.oeq",
    "arith.cmpi.eq",
}


def _term(value: SSAValue, depth: int = 12) -> Any:
    """The expression of `value` over the region's arguments, as nested tuples; None if too deep."""
    if isinstance(value, BlockArgument):
        return value.index if value.block.parent is not None else None
    op = value.owner
    if not isinstance(op, Operation) or len(op.results) != 1 or depth == 0:
        return None
    name = op.name
    if isinstance(op, arith.CmpfOp | arith.CmpiOp):
        name += "." + _predicate(op)
    elif not name.startswith("arith.") or isinstance(op, arith.ConstantOp):
        return None
    parts = [_term(v, depth - 1) for v in op.operands]
    if any(p is None for p in parts):
        return None
    if name in _COMMUTATIVE:
        parts.sort(key=repr)
    return (name, *parts)


def _predicate(op: Any) -> str:
    kinds = arith.CmpFPredicate if isinstance(op, arith.CmpfOp) else arith.CmpIPredicate
    assert isinstance(op.predicate, IntegerAttr)
    return kinds.of(op.predicate).keyword


def _sorted(name: str, *parts: Any) -> tuple[Any, ...]:
    return (name, *sorted(parts, key=repr)) if name in _COMMUTATIVE else (name, *parts)


def _known() -> dict[Any, str]:
    """Terms of the returned values, by which regions are recognised."""
    table: dict[Any, str] = {}
    for name in fold.ELEMENTWISE:
        table[(_sorted(f"arith.{name}", 0, 1),)] = name
    # Arguments: value 0, index 1 on the left, value 2, index 3 on the right.
    compare = {"float": "arith.cmpf.o", "signed": "arith.cmpi.s", "unsigned": "arith.cmpi.u"}
    for name in fold.SELECTIONS:
        which, type_, tie = name.split("_")
        first: Any = (compare[type_] + ("gt" if which == "argmax" else "lt"), 0, 2)
        if tie == "left":
            equal = _sorted("arith.cmpf.oeq" if type_ == "float" else "arith.cmpi.eq", 0, 2)
            first = _sorted(
                "arith.ori", first, _sorted("arith.andi", equal, ("arith.cmpi.slt", 1, 3))
            )
        table[(("arith.select", first, 0, 2), ("arith.select", first, 1, 3))] = name
    return table


_KNOWN = _known()


def match_combine(region: Region) -> str | None:
    """The name (see `fold.ELEMENTWISE`, `fold.SELECTIONS`) of what a combine region computes."""
    if len(region.blocks) != 1:
        return None
    terminator = region.block.last_op
    if terminator is None:
        return None
    return _KNOWN.get(tuple(_term(v) for v in terminator.operands))
