"""Lazy integer tensors, masks and pointers: the O(1) forms that make address arithmetic free.

`Index` is an integer tensor base[program] + sum(strides[k] * i_k); `Box` is a mask that holds on an
axis-aligned box lo[k] <= i_k < hi[k] of lanes. Both know their full shape, both turn into arrays
of the form `xttir.interp.types` describes with `dense()`, and every rule that makes one is exact:
where the closed form would not hold (overflow, other shapes) there is no rule and arrays are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Bound = int | np.ndarray
"""A bound of a box along one axis: one for all programs, or int64[b]."""

Group = tuple[np.ndarray | None, list[int], list[int]]
"""Programs of a batch (None for all) that share a box, and its lo and hi."""


def reach(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest of sum(strides[k] * i_k) over 0 <= i_k < shape[k]."""
    low = high = 0
    for stride, extent in zip(strides, shape, strict=True):
        if stride < 0:
            low += stride * (extent - 1)
        else:
            high += stride * (extent - 1)
    return low, high


class Index:
    """An integer tensor `base[p] + sum(strides[k] * i_k)` of shape `shape`.

    `base`: int64[b] with b 1 or the number of programs. Every element lies in the range of `dtype`:
    constructors that cannot be sure of it go through `make_index`.
    """

    __slots__ = ("_dense", "base", "base_range", "dtype", "shape", "strides")

    def __init__(
        self,
        base: np.ndarray,
        strides: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: np.dtype,
        base_range: tuple[int, int] | None = None,
    ):
        self.base = base
        self.strides = strides
        self.shape = shape
        self.dtype = dtype
        self.base_range = base_range
        """The least and the greatest of `base`, where they have been worked out."""
        self._dense: np.ndarray | None = None

    def range(self) -> tuple[int, int]:
        """The least and the greatest element over all programs."""
        low, high = reach(self.strides, self.shape)
        first, last = self.bounds_of_base()
        return first + low, last + high

    def bounds_of_base(self) -> tuple[int, int]:
        """The least and the greatest of `base`."""
        if self.base_range is None:
            base = self.base
            if base.size == 1:
                first = int(base[0])
                self.base_range = (first, first)
            else:
                self.base_range = (int(base.min()), int(base.max()))
        return self.base_range

    def dense(self) -> np.ndarray:
        """The array (b, *s), s_k = 1 where strides[k] = 0."""
        if self._dense is None:
            rank = len(self.shape)
            value = self.base.reshape((-1,) + (1,) * rank)
            for axis, (stride, extent) in enumerate(zip(self.strides, self.shape, strict=True)):
                if stride and extent > 1:
                    steps = np.arange(extent, dtype=np.int64) * stride
                    value = value + steps.reshape(
                        (1,) * (axis + 1) + (-1,) + (1,) * (rank - axis - 1)
                    )
            self._dense = value.astype(self.dtype)
        return self._dense

    def take(self, programs: np.ndarray) -> Index:
        """The same tensor for the chosen programs only (positions in the batch)."""
        if self.base.size == 1:
            return self
        return Index(self.base[programs], self.strides, self.shape, self.dtype)


class Box:
    """A mask of shape `shape` that holds where lo[k] <= i_k < hi[k] for every axis k.

    `empty`: bool[b] or None, programs for which the mask holds nowhere; needed for scalars, which
    have no axis to be empty along.
    """

    __slots__ = ("_dense", "_groups", "empty", "hi", "lo", "shape", "uniform")

    def __init__(
        self,
        lo: Sequence[Bound],
        hi: Sequence[Bound],
        shape: tuple[int, ...],
        empty: np.ndarray | None = None,
    ):
        self.lo = tuple(lo)
        self.hi = tuple(hi)
        self.shape = shape
        self.empty = empty
        self.uniform = (empty is None or empty.size == 1) and all(
            isinstance(b, int) or b.size == 1 for b in (*self.lo, *self.hi)
        )
        """Whether the mask is the same for all programs."""
        self._dense: np.ndarray | None = None
        self._groups: list[Group] | None = None

    def dense(self) -> np.ndarray:
        """The bool array (b, *s), s_k = 1 along axes that the box does not bound."""
        if self._dense is None:
            rank = len(self.shape)
            value = np.ones((1,) * (rank + 1), bool)
            if self.empty is not None:
                value = ~self.empty.reshape((-1,) + (1,) * rank)
            for axis, extent in enumerate(self.shape):
                lanes: np.ndarray | None = None
                form = (1,) * (axis + 1) + (-1,) + (1,) * (rank - axis - 1)
                for bound, is_low in ((self.lo[axis], True), (self.hi[axis], False)):
                    if isinstance(bound, int) and (bound <= 0 if is_low else bound >= extent):
                        continue
                    if lanes is None:
                        lanes = np.arange(extent, dtype=np.int64).reshape(form)
                    edge = np.asarray(bound).reshape((-1,) + (1,) * rank)
                    value = value & (lanes >= edge if is_low else lanes < edge)
            self._dense = value
        return self._dense

    def holds_everywhere(self) -> bool:
        """Whether the mask is true in every lane of every program."""
        if self.empty is not None and self.empty.any():
            return False
        for low, high, extent in zip(self.lo, self.hi, self.shape, strict=True):
            if low > 0 if isinstance(low, int) else (low > 0).any():
                return False
            if high < extent if isinstance(high, int) else (high < extent).any():
                return False
        return True

    def take(self, programs: np.ndarray) -> Box:
        def pick(bound: Bound) -> Bound:
            return bound if isinstance(bound, int) or bound.size == 1 else bound[programs]

        empty = self.empty
        if empty is not None and empty.size > 1:
            empty = empty[programs]
        return Box([pick(b) for b in self.lo], [pick(b) for b in self.hi], self.shape, empty)

    def groups(self, programs: int) -> list[Group] | None:
        """Programs with equal boxes together: (positions or None for all, lo, hi), clipped to the
        shape; groups where nothing is in the box are left out. None when there are too many."""
        if not self.uniform:
            return self._find_groups(programs)
        if self._groups is None:
            self._groups = self._find_groups(1)
        return self._groups

    def _find_groups(self, programs: int) -> list[Group] | None:
        lo = [_clip(b, 0, n) for b, n in zip(self.lo, self.shape, strict=True)]
        hi = [_clip(b, 0, n) for b, n in zip(self.hi, self.shape, strict=True)]
        columns: list[Bound] = [*lo, *hi]
        empty = self.empty
        if empty is not None and empty.size == programs and all(type(c) is int for c in columns):
            some = np.flatnonzero(~empty)
            where = None if some.size == programs else some
            return _group(where, [*columns, int(not some.size)], len(self.shape))
        if self.empty is not None:
            columns.append(self.empty.astype(np.int64))
        else:
            columns.append(0)
        varying = [c for c in columns if not isinstance(c, int)]
        if not varying:
            return _group(None, columns, len(self.shape))
        table = np.stack([np.broadcast_to(np.asarray(c), (programs,)) for c in columns], axis=1)
        if (table == table[0]).all():
            return _group(None, table[0].tolist(), len(self.shape))
        found: list[Group] = []
        left = np.ones(programs, bool)
        for _ in range(_MAX_GROUPS):
            row = table[int(left.argmax())]
            same = (table == row).all(axis=1)
            found += _group(np.flatnonzero(same), row.tolist(), len(self.shape))
            left &= ~same
            if not left.any():
                return found
        return None


_MAX_GROUPS = 8


def _clip(bound: Bound, low: int, high: int) -> Bound:
    if isinstance(bound, int):
        return min(max(bound, low), high)
    return np.clip(bound, low, high) if bound.size > 1 else min(max(int(bound[0]), low), high)


def _group(where: np.ndarray | None, columns: Sequence[Bound], rank: int) -> list[Group]:
    lo, hi = [int(c) for c in columns[:rank]], [int(c) for c in columns[rank : 2 * rank]]
    if columns[2 * rank] or any(a >= b for a, b in zip(lo, hi, strict=True)):
        return []
    return [(where, lo, hi)]


def fits(low: int, high: int, dtype: np.dtype) -> bool:
    """Whether [low, high] lies in the range of the signed integer type `dtype`."""
    limit = 1 << (8 * dtype.itemsize - 1)
    return -limit <= low and high < limit


def make_index(
    base: np.ndarray,
    strides: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: np.dtype,
    base_range: tuple[int, int] | None = None,
) -> Index | None:
    """An `Index`, or None if an element would leave the range of `dtype`."""
    value = Index(base, strides, shape, dtype, base_range)
    return value if fits(*value.range(), dtype) else None


def as_index(value: object, shape: tuple[int, ...]) -> Index | None:
    """`value` as an `Index` of `shape`: itself, or an integer array that is constant along every
    lane axis. None if it has no such form."""
    if type(value) is Index:
        return value
    if type(value) is not np.ndarray or value.dtype.kind != "i":
        return None
    if value.ndim != len(shape) + 1 or value.size != value.shape[0]:
        return None
    base = value.reshape(-1).astype(np.int64)
    return Index(base, (0,) * len(shape), shape, value.dtype)


def as_box(value: object, shape: tuple[int, ...]) -> Box | None:
    """`value` as a `Box` of `shape`: itself, or a bool array constant along every lane axis."""
    if type(value) is Box:
        return value
    if type(value) is not np.ndarray or value.dtype != bool:
        return None
    if value.ndim != len(shape) + 1 or value.size != value.shape[0]:
        return None
    return Box((0,) * len(shape), shape, shape, None if value.all() else ~value.reshape(-1))


def dense(value):
    """Any value as the array form; arrays pass through."""
    return value if type(value) is np.ndarray else value.dense()


# --- rules: each gives the lazy result or None where the closed form does not hold ---------------


def add(a: Index, b: Index, dtype: np.dtype, sign: int = 1) -> Index | None:
    """a + sign * b."""
    if not (_small(a) and _small(b)):
        return None
    base = a.base + b.base if sign == 1 else a.base - b.base
    strides = tuple(x + sign * y for x, y in zip(a.strides, b.strides, strict=True))
    known: tuple[int, int] | None = None
    if a.base.size == 1 or b.base.size == 1:
        (low, high), (first, last) = a.bounds_of_base(), b.bounds_of_base()
        known = (low + first, high + last) if sign == 1 else (low - last, high - first)
    return make_index(base, strides, a.shape, dtype, known)


def mul(a: Index, b: Index, dtype: np.dtype) -> Index | None:
    """a * b where one of them is the same along every lane axis."""
    if any(a.strides):
        if any(b.strides):
            return None
        a, b = b, a
    if not any(b.strides):
        low, high = _product_range(a.range(), b.range())
        if not fits(low, high, np.dtype(np.int64)):
            return None
        return make_index(a.base * b.base, b.strides, b.shape, dtype)
    factor = uniform(a.base)
    if factor is None or not fits(*_product_range((factor, factor), b.range()), np.dtype(np.int64)):
        return None
    low, high = (factor * x for x in b.bounds_of_base())
    known = (min(low, high), max(low, high))
    strides = tuple(factor * s for s in b.strides)
    return make_index(b.base * factor, strides, b.shape, dtype, known)


def uniform(base: np.ndarray) -> int | None:
    """The one value of `base`, or None if programs differ."""
    if base.size == 1:
        return int(base[0])
    first = base[0]
    return int(first) if (base == first).all() else None


def _small(a: Index) -> bool:
    """Whether sums and differences with `a` cannot leave int64."""
    low, high = a.range()
    return low > -_SMALL and high < _SMALL


_SMALL = 1 << 62


def _product_range(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def divide(a: Index, b: Index, dtype: np.dtype, remainder: bool) -> Index | None:
    """a // b or a % b for a >= 0 and one positive divisor, where every program's whole tensor lies
    between two multiples of it (no lane wraps)."""
    if any(b.strides):
        return None
    divisor = uniform(b.base)
    if divisor is None or divisor <= 0 or a.range()[0] < 0:
        return None
    low, high = reach(a.strides, a.shape)
    first = (a.base + low) // divisor
    if ((a.base + high) // divisor != first).any():
        if remainder or any(s % divisor for s in a.strides):
            return None
        # Every stride is a multiple of the divisor: quotients are affine.
        strides = tuple(s // divisor for s in a.strides)
        return make_index(a.base // divisor, strides, a.shape, dtype)
    if remainder:
        return make_index(a.base - first * divisor, a.strides, a.shape, dtype)
    return make_index(first, (0,) * len(a.shape), a.shape, dtype)


def cast(a: Index, dtype: np.dtype, unsigned_source: bool = False) -> Index | None:
    """The same numbers in another integer type."""
    low, high = a.range()
    if (unsigned_source and low < 0) or not fits(low, high, dtype):
        return None
    return Index(a.base, a.strides, a.shape, dtype, a.base_range)


def permute(a: Index, order: Sequence[int]) -> Index:
    """Axes in another order: axis k of the result is axis order[k] of `a`."""
    return Index(
        a.base,
        tuple(a.strides[k] for k in order),
        tuple(a.shape[k] for k in order),
        a.dtype,
        a.base_range,
    )


def expand(a: Index, axis: int) -> Index:
    """A new axis of extent 1."""
    strides = (*a.strides[:axis], 0, *a.strides[axis:])
    return Index(a.base, strides, (*a.shape[:axis], 1, *a.shape[axis:]), a.dtype, a.base_range)


def broadcast(a: Index, shape: tuple[int, ...]) -> Index:
    """Axes of extent 1 stretched to `shape`."""
    strides = tuple(0 if n == 1 else s for s, n in zip(a.strides, a.shape, strict=True))
    return Index(a.base, strides, shape, a.dtype, a.base_range)


def expand_box(a: Box, axis: int) -> Box:
    return Box(
        (*a.lo[:axis], 0, *a.lo[axis:]),
        (*a.hi[:axis], 1, *a.hi[axis:]),
        (*a.shape[:axis], 1, *a.shape[axis:]),
        a.empty,
    )


def broadcast_box(a: Box, shape: tuple[int, ...]) -> Box | None:
    lo: list[Bound] = []
    hi: list[Bound] = []
    empty = a.empty
    for low, high, old, new in zip(a.lo, a.hi, a.shape, shape, strict=True):
        if old == new:
            lo.append(low)
            hi.append(high)
            continue
        # A stretched axis is in the box as a whole or not at all.
        out = np.atleast_1d(np.asarray(low) > 0) | np.atleast_1d(np.asarray(high) < 1)
        if out.any():
            empty = out if empty is None else empty | out
        lo.append(0)
        hi.append(new)
    return Box(lo, hi, shape, empty)


def permute_box(a: Box, order: Sequence[int]) -> Box:
    return Box(
        tuple(a.lo[k] for k in order),
        tuple(a.hi[k] for k in order),
        tuple(a.shape[k] for k in order),
        a.empty,
    )


def intersect(a: Box, b: Box) -> Box:
    """a & b."""

    def pick(x: Bound, y: Bound, f) -> Bound:
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y) if f is np.maximum else min(x, y)
        return f(x, y)

    empty = a.empty if b.empty is None else b.empty if a.empty is None else a.empty | b.empty
    return Box(
        [pick(x, y, np.maximum) for x, y in zip(a.lo, b.lo, strict=True)],
        [pick(x, y, np.minimum) for x, y in zip(a.hi, b.hi, strict=True)],
        a.shape,
        empty,
    )


_NEGATED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}


def compare(a: Index, b: Index, predicate: str) -> Box | None:
    """`a predicate b` as a box, where the difference varies along at most one axis.

    `predicate`: slt, sle, sgt, sge, or the unsigned ones for operands that are not negative.
    """
    if predicate[0] == "u":
        if a.range()[0] < 0 or b.range()[0] < 0:
            return None
        predicate = "s" + predicate[1:]
    if predicate not in _NEGATED or not (_small(a) and _small(b)):
        return None
    strides = tuple(x - y for x, y in zip(a.strides, b.strides, strict=True))
    base = a.base - b.base
    shape = a.shape
    moving = [k for k, s in enumerate(strides) if s and shape[k] > 1]
    if len(moving) > 1:
        return None
    if not moving:
        holds = {"slt": base < 0, "sle": base <= 0, "sgt": base > 0, "sge": base >= 0}[predicate]
        return Box((0,) * len(shape), shape, shape, None if holds.all() else ~holds)
    axis = moving[0]
    stride = strides[axis]
    if stride < 0:
        stride, base, predicate = -stride, -base, _NEGATED[predicate]
    # base + stride * i < 0  <=>  i < ceil(-base / stride), and so on.
    lo: list[Bound] = [0] * len(shape)
    hi: list[Bound] = list(shape)
    if predicate == "slt":
        hi[axis] = _bound(-(base // stride))
    elif predicate == "sle":
        hi[axis] = _bound((-base) // stride + 1)
    elif predicate == "sge":
        lo[axis] = _bound(-(base // stride))
    else:
        lo[axis] = _bound((-base) // stride + 1)
    return Box(lo, hi, shape)


def _bound(edge: np.ndarray) -> Bound:
    return int(edge[0]) if edge.size == 1 else edge
