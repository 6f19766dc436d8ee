"""Loops that can never end, found long before the step limit.

Whether a `scf.while` goes on depends on some of the values it carries: the backward slice of its
condition. Once these are what they were in an earlier iteration, and nothing else that the slice
reads can have changed, the loop repeats for ever. The state to compare with is renewed at
iterations that are powers of two (Brent, 1980), so one comparison an iteration finds every cycle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator, Pure

from xttir.interp.affine import Box, Index
from xttir.interp.machine import Machine, Repeats
from xttir.interp.memory import Pointer

FIRST = 64
"""Iterations before states are compared: most loops are over by then."""

_HARMLESS = frozenset({"tt.load", "tt.print", "tt.assert", "scf.if", "scf.for", "scf.while"})
"""Ops without the trait `Pure` that do not change memory (structured ones: beside their bodies)."""


def deciding(loop: Operation) -> tuple[tuple[int, ...], bool] | None:
    """Positions of the carried values that the loop's end depends on, and whether it depends on
    memory too. None where that cannot be told: no `scf.while`, unstructured bodies, and slices that
    read what the loop may change."""
    if not isinstance(loop, scf.WhileOp):
        return None
    before, after = loop.before_region, loop.after_region
    if len(before.blocks) != 1 or len(after.blocks) != 1:
        return None
    condition, yielded = before.block.last_op, after.block.last_op
    if not isinstance(condition, scf.ConditionOp) or yielded is None:
        return None
    found: set[int] = set()
    seen: set[SSAValue] = set()
    reads = False
    work: list[SSAValue] = [condition.condition]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = _owner_inside(value, loop)
        if op is None:
            continue
        if op is loop:
            assert isinstance(value, BlockArgument)
            if value.block is before.block:
                found.add(value.index)
                work.append(yielded.operands[value.index])
            else:
                work.append(condition.args[value.index])
            continue
        for inner in op.walk():
            work.extend(inner.operands)
            if inner.name == "tt.load":
                reads = True
            elif not _keeps_memory(inner):
                return None
    if reads and not all(_keeps_memory(op) for op in loop.walk()):
        return None
    return tuple(sorted(found)), reads


def _owner_inside(value: SSAValue, loop: Operation) -> Operation | None:
    """The op in `loop` (or `loop` itself, for its block arguments) that makes `value`; None if it
    comes from outside."""
    if isinstance(value, OpResult):
        op = value.op
        return op if op is not loop and loop.is_ancestor(op) else None
    owner = value.owner
    assert isinstance(owner, Block)
    op = owner.parent_op()
    return op if op is not None and (op is loop or loop.is_ancestor(op)) else None


def _keeps_memory(op: Operation) -> bool:
    if op.name in _HARMLESS or op.name.startswith(("arith.", "math.")):
        return True
    return op.has_trait(Pure) or op.has_trait(IsTerminator)


class Watch:
    """Compares the states of one execution of `loop`. `decides` as `deciding` gives it. Does
    nothing where repeating would say nothing: where `decides` is None, or others that run in turns
    may change the memory that the loop reads."""

    def __init__(self, m: Machine, loop: Operation, decides: tuple[tuple[int, ...], bool] | None):
        self._loop = loop
        self._positions: tuple[int, ...] | None = None
        if decides is not None and not (decides[1] and m.scheduler is not None):
            self._positions = decides[0]
        self._kept: list[Any] | None = None
        self._pids: np.ndarray | None = None

    def see(self, m: Machine, values: list[Any], iteration: int) -> None:
        """After `iteration`, which carries `values` into the next one. Raises `Repeats`."""
        if iteration < FIRST or self._positions is None:
            return
        state = [values[k] for k in self._positions]
        if self._kept is not None and m.pids is self._pids and same_values(self._kept, state):
            raise Repeats(self._loop, m, iteration)
        if self._kept is None or m.pids is not self._pids or iteration & (iteration - 1) == 0:
            self._kept, self._pids = state, m.pids


def same_values(a: list[Any], b: list[Any]) -> bool:
    """Whether values are the same bit for bit."""
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if type(x) is np.ndarray:
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()
    if type(x) is Index:
        return x.strides == y.strides and bool((x.base == y.base).all())
    if type(x) is Pointer:
        return x.region is y.region and _equal(x.offset, y.offset)
    if type(x) is Box:
        return _equal(x.dense(), y.dense())
    return False
