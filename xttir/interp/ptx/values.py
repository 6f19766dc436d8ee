"""Register contents over the lanes of a group, and how they are cut, joined and combined.

A value is an array (n,), or (1,) when all lanes agree; `UNKNOWN` when it depends on tensor data that
a trace does not have; `Partial` when that holds for some lanes; `Pending` while an asynchronous
operation is going to write it. Everything that is not a plain array takes the slow path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.diagnostics import Policy
from xttir.interp.ptx.instruction import UNKNOWN, Unknown
from xttir.interp.ptx.step import Task


class Partial:
    """Known in the lanes where `known` (bool (n,)) is set; `data` is (n,) or (n, parts)."""

    __slots__ = ("data", "known")

    def __init__(self, data: np.ndarray, known: np.ndarray):
        self.data = data
        self.known = known

    def __repr__(self) -> str:
        return f"partial({int(self.known.sum())} of {self.known.size} lanes known)"


@dataclass(eq=False, slots=True)
class Pending:
    """A register that `task` will write. `result` is what it writes, over the lanes of the step
    that issued it, once it has been performed; `rows` are these lanes of it (None: all)."""

    task: Task
    policy: Policy
    cell: list[Any]
    rows: np.ndarray | None = None
    before: Any = None
    """Guarded: what the other lanes hold, and where the task writes (bool (n,))."""
    mine: np.ndarray | None = None

    def value(self) -> Any:
        """What the task has written; UNKNOWN before that."""
        result = self.cell[0]
        if self.rows is not None:
            result = take(result, self.rows)
        if self.mine is None:
            return result
        return choose(self.mine, result, self.before)


Any_Value = np.ndarray | Unknown | Partial | Pending


def take(value: Any, index: np.ndarray) -> Any:
    """The value in the lanes `index` of a group."""
    if value.__class__ is np.ndarray:
        return value if value.shape[0] == 1 else value[index]
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, Partial):
        known = value.known[index]
        if known.all():
            return take(value.data, index)
        return Partial(take(value.data, index), known) if known.any() else UNKNOWN
    rows = index if value.rows is None else value.rows[index]
    before = None if value.before is None else take(value.before, index)
    mine = None if value.mine is None else value.mine[index]
    return Pending(value.task, value.policy, value.cell, rows, before, mine)


def parts_of(value: Any, n: int) -> tuple[np.ndarray | None, np.ndarray | bool]:
    """(data or None, known) of a value that is not pending; known is True, False or bool (n,)."""
    if value.__class__ is np.ndarray:
        return value, True
    if isinstance(value, Partial):
        return value.data, value.known
    return None, False


def partial(data: np.ndarray | None, known: Any) -> Any:
    """The simplest value that says the same."""
    if data is None or known is False:
        return UNKNOWN
    if known is True or known.all():
        return data
    return Partial(data, known) if known.any() else UNKNOWN


def _full(data: np.ndarray, n: int) -> np.ndarray:
    if data.shape[0] == n:
        return data
    return np.broadcast_to(data, (n, *data.shape[1:]))


def _spread(known: Any, n: int) -> np.ndarray:
    if isinstance(known, np.ndarray):
        return known if known.shape[0] == n else np.broadcast_to(known, (n,))
    return np.full(n, known)


def choose(mask: np.ndarray, new: Any, old: Any) -> Any:
    """`new` in the lanes of `mask` (bool (n,)), `old` in the others."""
    n = mask.shape[0]
    if isinstance(new, Pending) or isinstance(old, Pending):
        raise AssertionError("pending values are resolved before they are combined")
    a, known_a = parts_of(new, n)
    b, known_b = parts_of(old, n)
    if a is None and b is None:
        return UNKNOWN
    if a is None or b is None:
        data = b if a is None else a
    else:
        wide = mask if a.ndim == 1 else mask[:, None]
        data = np.where(wide, a, b.astype(a.dtype, copy=False))
    if known_a is True and known_b is True:
        return data
    return partial(data, np.where(mask, _spread(known_a, n), _spread(known_b, n)))


def widen_rows(value: Any, rows: np.ndarray, n: int, old: Any) -> Any:
    """A value over some lanes of a group as one over all n: `old` in the others."""
    mask = np.zeros(n, bool)
    mask[rows] = True
    return choose(mask, expand(value, rows, n), old)


def expand(value: Any, rows: np.ndarray, n: int) -> Any:
    """A value over the lanes `rows` as one over all n lanes, anything in the others."""
    if value is UNKNOWN:
        return UNKNOWN
    data, known = parts_of(value, rows.size)
    assert data is not None
    if data.shape[0] == 1:
        if known is True:
            return data
        out = data
    else:
        out = np.zeros((n, *data.shape[1:]), data.dtype)
        out[rows] = data
    if known is True:
        return out
    wide = np.zeros(n, bool)
    wide[rows] = known
    return Partial(_full(out, n), wide)


def join(values: Sequence[Any], counts: Sequence[int], order: np.ndarray | None) -> Any:
    """Values of several groups side by side, then permuted by `order` (None: as they stand)."""
    first = values[0]
    if all(v is first for v in values) and (
        first is UNKNOWN or (first.__class__ is np.ndarray and first.shape[0] == 1)
    ):
        return first
    if any(isinstance(v, Pending) for v in values):
        return _join_pending(values, counts, order)
    n = sum(counts)
    pieces = [parts_of(v, c) for v, c in zip(values, counts, strict=True)]
    arrays = [d for d, _ in pieces if d is not None]
    if not arrays:
        return UNKNOWN
    everything = all(k is True for _, k in pieces)
    if everything and all(a.shape[0] == 1 for a in arrays):
        value = arrays[0]
        if all(np.array_equal(a, value) for a in arrays[1:]):
            return value
    shape, dtype = arrays[0].shape[1:], arrays[0].dtype
    data = np.empty((n, *shape), dtype)
    at = 0
    for (piece, _), count in zip(pieces, counts, strict=True):
        data[at : at + count] = 0 if piece is None else piece
        at += count
    if order is not None:
        data = data[order]
    if everything:
        return data
    known = np.concatenate([_spread(k, c) for (_, k), c in zip(pieces, counts, strict=True)])
    return partial(data, known if order is None else known[order])


def _join_pending(values: Sequence[Any], counts: Sequence[int], order: np.ndarray | None) -> Any:
    """Registers in flight of one operation, cut apart and joined again; else what is known of
    each side stays, and the first operation is the one that is named when it is used too early."""
    n = sum(counts)
    starts = np.cumsum([0, *counts])
    rows = np.full(n, -1, np.int64)
    found = next(v for v in values if isinstance(v, Pending))
    same = all(isinstance(v, Pending) and v.cell is found.cell for v in values)
    if same and all(v.mine is None for v in values):
        for v, start, count in zip(values, starts, counts, strict=False):
            rows[start : start + count] = np.arange(count) if v.rows is None else v.rows
        return Pending(found.task, found.policy, found.cell, rows if order is None else rows[order])
    resolved = [v.value() if isinstance(v, Pending) and v is not found else v for v in values]
    at = values.index(found)
    resolved[at] = UNKNOWN if found.before is None else found.before
    others = join(resolved, counts, None)
    mine = np.zeros(n, bool)
    span = slice(int(starts[at]), int(starts[at + 1]))
    mine[span] = True if found.mine is None else found.mine
    rows[:] = 0
    rows[span] = np.arange(counts[at]) if found.rows is None else found.rows
    out = Pending(found.task, found.policy, found.cell, rows, others, mine)
    return out if order is None else take(out, order)


def same(a: Any, b: Any) -> bool:
    """Whether two values over the same lanes are surely equal."""
    if a is b:
        return True
    if a.__class__ is np.ndarray and b.__class__ is np.ndarray:
        return a.dtype == b.dtype and bool(np.all(a == b))
    return False


def either(a: Any, b: Any, n: int) -> Any:
    """Known where both are known and agree: one of two ways was taken."""
    if same(a, b):
        return a
    if isinstance(a, Pending) or isinstance(b, Pending):
        return a if isinstance(a, Pending) else b
    left, known_left = parts_of(a, n)
    right, known_right = parts_of(b, n)
    if left is None or right is None:
        return UNKNOWN
    agree = left == right
    if agree.ndim > 1:
        agree = agree.all(axis=-1)
    known = _spread(known_left, n) & _spread(known_right, n) & agree
    return partial(_full(left, n), known)
