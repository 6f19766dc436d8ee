"""Runs one op's implementation on arrays, with a stand-in for the machine that notes what is
undefined. Used by the tests of the op implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import builtin, test
from xdsl.interpreter import InterpreterFunctions
from xdsl.ir import Attribute, Operation, SSAValue

from xttir.policy import CheckCounts, RunPolicy


class Bench:
    """A machine without memory or programs. `marked` is what ops called undefined, and why."""

    def __init__(self) -> None:
        self.policy = RunPolicy()
        self.counts = CheckCounts()
        self.marked: list[tuple[np.ndarray, str]] = []

    def undefined(self, op: Operation, value: Any, lanes: np.ndarray, why: str) -> Any:
        self.marked.append((np.broadcast_to(lanes, value.shape), why))
        return value


def values(*types: Attribute) -> list[SSAValue]:
    """SSA values of the given types, to build ops on."""
    return list(test.TestOp(result_types=types).results)


def tensor(element: Attribute, *shape: int) -> builtin.TensorType:
    return builtin.TensorType(element, shape)


def run(
    functions: InterpreterFunctions, op: Operation, *args: np.ndarray, bench: Bench | None = None
) -> tuple[Any, ...]:
    """The results of `op` on `args`."""
    impls = dict(type(functions)._impls())
    with np.errstate(all="ignore"):
        return impls[type(op)](functions, bench or Bench(), op, args).values


def bits(a: np.ndarray) -> np.ndarray:
    """The bits of an array, to compare floats by."""
    return np.ascontiguousarray(a).view(
        {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.itemsize]
    )


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shapes, types and bits, any NaN equal to any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    equal = bits(a) == bits(b)
    if a.dtype.kind in "fV":
        equal |= (a != a) & (b != b)
    return bool(equal.all())
