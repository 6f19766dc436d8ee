"""Register contents over the lanes of a group, and how they are cut, joined and combined.

A value is an array (n,), or (1,) when all lanes agree; `UNKNOWN` when it depends on tensor data
that a trace does not have; `Partial` when that holds for some lanes, `Spread` when something is
known of it; `Pending` while an asynchronous operation is going to write it. Everything that is not
a plain array takes the slow path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xttir.diagnostics import Policy
from xttir.interp.ptx import spread
from xttir.interp.ptx.instruction import UNKNOWN, Unknown
from xttir.interp.ptx.spread import Spread
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
    """What the other lanes hold (it may be in flight, too), and which lanes the task writes (bool
    (n,), None: all)."""
    mine: np.ndarray | None = None

    def value(self) -> Any:
        """What the task has written; UNKNOWN before that."""
        result = self.cell[0]
        if self.rows is not None:
            result = take(result, self.rows)
        if self.mine is None:
            return result
        before = self.before.value() if isinstance(self.before, Pending) else self.before
        return choose(self.mine, result, UNKNOWN if before is None else before)


Any_Value = np.ndarray | Unknown | Partial | Pending


def take(value: Any, index: np.ndarray) -> Any:
    """The value in the lanes `index` of a group."""
    if value.__class__ is np.ndarray:
        return value if value.shape[0] == 1 else value[index]
    if value is UNKNOWN:
        return UNKNOWN
    if value.__class__ is Spread:
        return value.take(index)
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
    if new.__class__ is Spread or old.__class__ is Spread:
        return spread.select(mask, new, old)
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
    if value.__class__ is Spread:
        return spread.expand(value, rows, n)
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
    if any(v.__class__ is Spread for v in values):
        return spread.together(list(values), list(counts), order)
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
    """Registers in flight, of one operation or several: a chain with a link for each."""
    n = sum(counts)
    starts = np.cumsum([0, *counts])
    links: dict[int, Pending] = {}
    bases = []
    for value, start, count in zip(values, starts, counts, strict=False):
        for link in chain(value):
            found = links.get(id(link.cell))
            if found is None:
                found = Pending(link.task, link.policy, link.cell, np.zeros(n, np.int64))
                found.mine = np.zeros(n, bool)
                links[id(link.cell)] = found
            assert found.rows is not None
            assert found.mine is not None
            span = slice(start, start + count)
            found.mine[span] = True if link.mine is None else link.mine
            found.rows[span] = np.arange(count) if link.rows is None else link.rows
        bases.append(_base(value))
    out = join(bases, counts, None)
    for link in links.values():
        assert link.mine is not None
        if link.mine.all():
            link.mine, out = None, None
        link.before = out
        out = link
    return out if order is None else take(out, order)


def chain(value: Any) -> list[Pending]:
    """The operations that write a register, for some of its lanes each; the last ones first.

    Links of which the lanes have none are left out.
    """
    out = []
    while isinstance(value, Pending):
        if value.mine is None or value.mine.any():
            out.append(value)
        value = value.before
    return out


def _base(value: Any) -> Any:
    while isinstance(value, Pending):
        value = UNKNOWN if value.before is None else value.before
    return value


def settle(value: Any, done: set[int]) -> Any:
    """The value when the operations with these ids are complete and were waited for."""
    if not isinstance(value, Pending):
        return value
    before = settle(value.before, done)
    if id(value.task) not in done and (value.mine is None or value.mine.any()):
        if before is value.before:
            return value
        return Pending(value.task, value.policy, value.cell, value.rows, before, value.mine)
    if value.mine is not None and not value.mine.any():
        return before
    if isinstance(before, Pending) and value.mine is not None:
        # Another operation still has other lanes: it goes on top of what is known now.
        under = Pending(value.task, value.policy, value.cell, value.rows, _base(before), value.mine)
        out = under.value()
        for link in reversed(chain(before)):
            mine = ~value.mine if link.mine is None else link.mine & ~value.mine
            out = Pending(link.task, link.policy, link.cell, link.rows, out, mine)
        return out
    return Pending(value.task, value.policy, value.cell, value.rows, before, value.mine).value()


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
    if a.__class__ is Spread or b.__class__ is Spread:
        return spread.union(a, b)
    left, known_left = parts_of(a, n)
    right, known_right = parts_of(b, n)
    if left is None or right is None:
        return UNKNOWN
    agree = left == right
    if agree.ndim > 1:
        agree = agree.all(axis=-1)
    known = _spread(known_left, n) & _spread(known_right, n) & agree
    if known_left is True and known_right is True and not known.any():
        return spread.union(a, b)
    return partial(_full(left, n), known)
