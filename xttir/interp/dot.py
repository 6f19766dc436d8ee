"""`tt.dot`: operands made as large as their types say, then `numerics.products`.

Compilers split a dot along k into dots of slices of its operands in shared memory, which add up
one onto the other. Such dots in f32 are one product along all of their k, taken at the last of
them, as the dot was that they are parts of: a kernel gives the same bits whether split or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from xttir.dialects import tt, ttg
from xttir.interp.affine import dense
from xttir.interp.attributes import integer
from xttir.interp.batch import take
from xttir.interp.machine import Machine
from xttir.interp.numerics import products
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.taint import Tainted, plain
from xttir.interp.types import element_type, shape_of

PRECISIONS = {p.value: p.keyword for p in tt.InputPrecision}


def full(a: np.ndarray, value: SSAValue) -> np.ndarray:
    """`a` with the extents of the type of `value`; the batch axis stays as it is."""
    shape = shape_of(value.type)
    if a.shape[1:] == shape:
        return a
    return np.broadcast_to(a, (a.shape[0], *shape))


class Sum:
    """Products still to be taken: `a` @ `b` + `c`, each perhaps tainted."""

    __slots__ = ("a", "b", "c")

    def __init__(self, a: Any, b: Any, c: Any):
        self.a = a
        self.b = b
        self.c = c

    def and_then(self, a: Any, b: Any) -> Sum:
        """With the product of `a` and `b` on top."""
        return Sum(_joined(self.a, a, -1), _joined(self.b, b, -2), self.c)

    def take(self, programs: np.ndarray) -> Sum:
        return Sum(take(self.a, programs), take(self.b, programs), take(self.c, programs))

    def value(self, m: Machine, precision: str) -> Any:
        a, b, c = (dense(plain(value)) for value in (self.a, self.b, self.c))
        total = products.dot(a, b, c, precision)
        if not m.tainted:
            return total
        marked = [v for v in (self.a, self.b, self.c) if type(v) is Tainted]
        if not marked:
            return total
        bad = np.zeros((1,) * total.ndim, bool)
        for value, axis in ((self.a, -1), (self.b, -2), (self.c, None)):
            if type(value) is Tainted:
                lanes = value.bad
                bad = bad | (lanes if axis is None else lanes.any(axis=axis, keepdims=True))
        return Tainted(total, bad, marked[0].origin) if bad.any() else total


def _joined(a: Any, b: Any, axis: int) -> Any:
    if type(a) is not Tainted and type(b) is not Tainted:
        return products.side_by_side(a, b, axis)
    marks: list[np.ndarray] = []
    for value in (a, b):
        shape = plain(value).shape
        bad = value.bad if type(value) is Tainted else np.zeros((1,) * len(shape), bool)
        marks.append(np.broadcast_to(bad, (bad.shape[0], *shape[1:])))
    origin = a.origin if type(a) is Tainted else b.origin
    both = products.side_by_side(plain(a), plain(b), axis)
    return Tainted(both, products.side_by_side(marks[0], marks[1], axis), origin)


def _goes_on(op: tt.DotOp) -> bool:
    """Whether the result of `op` only is what the dot of the next slice accumulates onto."""
    use = op.results[0].get_user_of_unique_use()
    if not isinstance(use, tt.DotOp) or use.parent is not op.parent or use.c is not op.results[0]:
        return False
    if not (_is_later_slice(use.a, -1) or _is_later_slice(use.b, -2)):
        return False
    if not isinstance(element_type(op.results[0].type), Float32Type):
        return False
    return _kind(use) == _kind(op)


def _is_later_slice(operand: SSAValue, axis: int) -> bool:
    """Whether an operand is loaded, and perhaps converted, from a slice of a buffer that does not
    begin at 0 along `axis`."""
    op = operand.owner
    while isinstance(op, Operation) and op.operands and not op.regions:
        if isinstance(op, ttg.LocalLoadOp):
            view = op.src.owner
            return isinstance(view, ttg.MemDescSubsliceOp) and view.offsets.get_values()[axis] > 0
        if len(op.operands) > 1:
            return False
        op = op.operands[0].owner
    return False


def _kind(op: tt.DotOp) -> tuple[Any, ...]:
    return element_type(op.a.type), element_type(op.b.type), integer(op.input_precision)


def build_dot(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """tt.dot. `maxNumImpreciseAcc` asks for more accuracy, so does nothing."""
    assert isinstance(op, tt.DotOp)
    precision = PRECISIONS[integer(op.input_precision)]
    goes_on = _goes_on(op)

    def operand(value: Any, of: SSAValue) -> Any:
        if type(value) is Tainted:
            return Tainted(full(dense(value.value), of), value.bad, value.origin)
        return full(dense(value), of)

    def run(m: Machine, frame: Frame) -> None:
        a, b = operand(frame[ins[0]], op.a), operand(frame[ins[1]], op.b)
        before = frame[ins[2]]
        products_of = before.and_then(a, b) if type(before) is Sum else Sum(a, b, before)
        frame[outs[0]] = products_of if goes_on else products_of.value(m, precision)

    return run


def register(implementations: Implementations) -> None:
    """Add the op."""
    implementations.control[tt.DotOp] = build_dot
