"""Reductions and scans of arrays in a fixed order, along one axis and independent of all others.

`reduce` combines eight equal parts of a long row in turn, as a thread does with its registers; what
is left pairs element i with element i + ceil(n/2), then does the same again: a halving tree. `scan`
goes in doubling steps. Both take any associative function of several arrays; names of the usual
functions choose faster code with the same bits. Integer results do not depend on order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from xttir.interp.numerics import floating, integer
from xttir.interp.numerics.floats import F32, F64, widen

Arrays = tuple[np.ndarray, ...]
Combine = Callable[[Arrays, Arrays], Sequence[np.ndarray]]
"""Takes the arrays (b, ...) of the left and of the right operands, one element per pair."""

ELEMENTWISE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "addf": floating.add,
    "mulf": floating.mul,
    "maximumf": floating.maximum,
    "minimumf": floating.minimum,
    "maxnumf": floating.max_number,
    "minnumf": floating.min_number,
    "addi": integer.add,
    "muli": integer.mul,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": integer.max_signed,
    "minsi": integer.min_signed,
    "maxui": integer.max_unsigned,
    "minui": integer.min_unsigned,
}
"""Functions of one value by arith's names."""

SELECTIONS = tuple(
    f"{which}_{type_}_{tie}"
    for which in ("argmax", "argmin")
    for type_ in ("float", "signed", "unsigned")
    for tie in ("left", "any")
)
"""Functions of a value and its index, as `tl.argmax` and `tl.argmin` make them."""

# A row of so many elements or more is combined in so many parts, one after the other.
_LONG = 512
_PARTS = 8

# Inner loops shorter than so many elements cost more than to make them longer.
_INNER = 64

# Where a row is this short, pairs of whole columns are combined instead of parts of rows.
_SHORT = 16

_ACCUMULATORS: dict[str, np.ufunc] = {
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "addi": np.add,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
}
"""ufuncs whose own reduction gives the same value in any order (NaN and -0 apart)."""


# Any function -------------------------------------------------------------------------------------


def _rows_second(arrays: Sequence[np.ndarray], axis: int) -> list[np.ndarray]:
    """Arrays (b, ...) of equal shape with `axis` moved next to the batch axis."""
    return [np.ascontiguousarray(np.moveaxis(a, axis, 1)) for a in np.broadcast_arrays(*arrays)]


def _apply(
    combine: Combine, left: Sequence[np.ndarray], right: Sequence[np.ndarray]
) -> list[np.ndarray]:
    results = combine(tuple(left), tuple(right))
    return [np.broadcast_to(r, left[0].shape) for r in results]


def reduce_any(arrays: Sequence[np.ndarray], axis: int, combine: Combine) -> Arrays:
    """Reduce along `axis` by any associative and commutative `combine`; the axis goes away."""
    parts = _rows_second(arrays, axis)
    n = parts[0].shape[1]
    long = n >= _LONG
    while long and n % _PARTS == 0:
        n //= _PARTS
        done = [p[:, :n] for p in parts]
        for start in range(n, _PARTS * n, n):
            done = _apply(combine, done, [p[:, start : start + n] for p in parts])
        parts = done
    while n > 1:
        half, start = n // 2, n - n // 2
        done = _apply(combine, [p[:, :half] for p in parts], [p[:, start:n] for p in parts])
        if start > half:
            pairs = zip(done, parts, strict=True)
            done = [np.concatenate([d, p[:, half:start]], 1) for d, p in pairs]
        parts, n = done, start
    return tuple(p[:, 0] for p in parts)


def reduce_equal(arrays: Sequence[np.ndarray], n: int, axis: int, combine: Combine) -> Arrays:
    """What `reduce_any` gives for n (a power of two) equal elements; `axis` has size 1 here."""
    arrays = _rows_second(arrays, axis)
    long = n >= _LONG
    while long and n % _PARTS == 0:
        element = arrays
        for _ in range(1, _PARTS):
            arrays = _apply(combine, arrays, element)
        n //= _PARTS
    while n > 1:
        arrays = _apply(combine, arrays, arrays)
        n //= 2
    return tuple(a[:, 0] for a in arrays)


def scan_any(
    arrays: Sequence[np.ndarray], axis: int, combine: Combine, reverse: bool = False
) -> Arrays:
    """Inclusive scan along `axis` by any associative `combine`; from the end if `reverse`."""
    parts = _rows_second(arrays, axis)
    if reverse:
        parts = [p[:, ::-1] for p in parts]
    parts = _scan_rows(parts, combine)
    if reverse:
        parts = [p[:, ::-1] for p in parts]
    return tuple(np.moveaxis(p, 1, axis) for p in parts)


def _scan_rows(parts: Sequence[np.ndarray], combine: Combine) -> list[np.ndarray]:
    """Scan arrays (b, n, ...) along n, in doubling steps as the lanes of a warp do: after the step
    of distance d, element i holds the combination of the last 2 d elements up to i. So no result
    is rounded more than log2(n) times."""
    n = parts[0].shape[1]
    now = list(parts)
    distance = 1
    while distance < n:
        earlier = [p[:, :-distance] for p in now]
        later = [p[:, distance:] for p in now]
        heads = [p[:, :distance] for p in now]
        found = _apply(combine, earlier, later)
        now = [np.concatenate(pair, axis=1) for pair in zip(heads, found, strict=True)]
        distance *= 2
    return now


# Functions by name --------------------------------------------------------------------------------


def _tree(a: np.ndarray, axis: int, f: Callable[[np.ndarray, np.ndarray], np.ndarray]):
    """What `reduce_any` does, with an elementwise `f` and without flattening."""
    function = _UFUNCS.get(id(f)) if a.dtype in (F32, F64) else None
    if a.shape[axis] >= _LONG:
        a, axis = _in_parts(a, axis, f, function)
    n = a.shape[axis]
    before: tuple[slice, ...] = (slice(None),) * axis
    if function is not None:
        a, n = _halved(a, axis, function)
    while n > 1:
        if n <= _SHORT and axis == a.ndim - 1 and axis > 0 and a.size > 8 * n:
            a = np.ascontiguousarray(np.moveaxis(a, axis, 0))
            axis, before = 0, ()
        half, start = n // 2, n - n // 2
        done = f(a[(*before, slice(0, half))], a[(*before, slice(start, n))])
        if start > half:
            done = np.concatenate([done, a[(*before, slice(half, start))]], axis)
        a, n = done, start
    return np.squeeze(a, axis)


def _in_parts(
    a: np.ndarray,
    axis: int,
    f: Callable[[np.ndarray, np.ndarray], np.ndarray],
    function: np.ufunc | None,
) -> tuple[np.ndarray, int]:
    """Rows combined in parts while they split evenly; also gives the axis they then lie along.

    `function` is what `f` is here, if it is a ufunc."""
    while a.shape[axis] % _PARTS == 0:
        n = a.shape[axis] // _PARTS
        if axis and n * prod(a.shape[axis + 1 :]) < _INNER:
            a, axis = np.ascontiguousarray(np.moveaxis(a, axis, 0)), 0
        parts = a.reshape(*a.shape[:axis], _PARTS, n, *a.shape[axis + 1 :])
        # The reduction of a ufunc goes part by part, unless a part is a single number.
        if function is not None and parts.size > _PARTS:
            # The start of a sum would be 0, which loses the sign of a sum of -0.
            start: dict[str, Any] = {"initial": -0.0} if function is np.add else {}
            a = function.reduce(parts, axis=axis, **start)
            continue
        before = (slice(None),) * axis
        a = parts[(*before, 0)]
        for k in range(1, _PARTS):
            a = f(a, parts[(*before, k)])
    return a, axis


def _halved(a: np.ndarray, axis: int, function: np.ufunc) -> tuple[np.ndarray, int]:
    """The first steps of the tree, while they halve evenly, each but the first in place."""
    n = a.shape[axis]
    before: tuple[slice, ...] = (slice(None),) * axis
    fresh = False
    while n > _SHORT and n % 2 == 0:
        n //= 2
        low, high = a[(*before, slice(0, n))], a[(*before, slice(n, 2 * n))]
        a = function(low, high, out=low) if fresh else function(low, high)
        fresh = True
    return a, n


_UFUNCS: dict[int, np.ufunc] = {id(floating.add): np.add, id(floating.mul): np.multiply}
"""What the functions are on f32 and f64, by identity."""


def _tied_at_zero(name: str, out: np.ndarray) -> bool:
    """Whether `out`, from a ufunc that takes -0 and +0 for equal, may have the wrong zero."""
    if out.dtype not in (F32, F64):
        return False
    bits = out.view(np.int32 if out.dtype == F32 else np.int64)
    wrong = 0 if name.startswith("min") else np.iinfo(bits.dtype).min
    return bool((bits == wrong).any())


def _reduce_elementwise(name: str, a: np.ndarray, axis: int) -> np.ndarray:
    f = ELEMENTWISE[name]
    dtype = a.dtype
    accumulate = _ACCUMULATORS.get(name)
    usable = dtype in (F32, F64) or (dtype.kind == "i" and dtype.itemsize >= 4)
    if accumulate is not None and usable and (axis < a.ndim - 1 or a.shape[axis] >= 128):
        out = accumulate.reduce(a, axis=axis, dtype=dtype)
        if not _tied_at_zero(name, out):
            return out
    return _tree(a, axis, f)


def _selected(name: str, values: np.ndarray, indices: np.ndarray, axis: int) -> Arrays | None:
    """argmax and argmin by numpy, where the order cannot matter: no NaN, indices that rise."""
    which, type_, tie = name.split("_")
    others = [n for n in range(indices.ndim) if n != axis]
    if tie != "left" or any(indices.shape[n] > 1 and indices.strides[n] for n in others):
        return None
    row = indices[tuple(slice(None) if n == axis else 0 for n in range(indices.ndim))]
    if not (row[1:] > row[:-1]).all():
        return None
    keys = integer.unsigned(values) if type_ == "unsigned" else values
    if type_ == "float":
        keys = widen(values)
        if np.isnan(keys.sum(axis=axis)).any() and np.isnan(keys).any():
            return None
    where = (np.argmax if which == "argmax" else np.argmin)(keys, axis=axis)
    value = np.take_along_axis(values, np.expand_dims(where, axis), axis)
    return np.squeeze(value, axis), row[where]


def selection_step(name: str) -> Combine:
    """The combine function of `tl.argmax` and `tl.argmin`, as one function of arrays."""
    which, type_, tie = name.split("_")
    sign = "gt" if which == "argmax" else "lt"

    def combine(left: Arrays, right: Arrays) -> Arrays:
        (v1, i1), (v2, i2) = left, right
        if type_ == "float":
            first, equal = floating.compare("o" + sign, v1, v2), floating.compare("oeq", v1, v2)
        else:
            first = integer.compare(("s" if type_ == "signed" else "u") + sign, v1, v2)
            equal = v1 == v2
        if tie == "left":
            first = first | (equal & (i1 < i2))
        return np.where(first, v1, v2), np.where(first, i1, i2)

    return combine


def _pairwise(name: str) -> Combine:
    f = ELEMENTWISE[name]
    return lambda left, right: (f(left[0], right[0]),)


def combine_of(name: str) -> Combine:
    """The function called `name` (see `ELEMENTWISE` and `SELECTIONS`)."""
    return _pairwise(name) if name in ELEMENTWISE else selection_step(name)


def reduce_named(name: str, arrays: Sequence[np.ndarray], axis: int) -> Arrays:
    """`reduce_any` with the function called `name`, faster and bit for bit the same (but NaN)."""
    if name in ELEMENTWISE:
        return (_reduce_elementwise(name, arrays[0], axis),)
    found = _selected(name, arrays[0], arrays[1], axis)
    return reduce_any(arrays, axis, selection_step(name)) if found is None else found


def scan_named(name: str, arrays: Sequence[np.ndarray], axis: int, reverse: bool) -> Arrays:
    """`scan_any` with the function called `name`, faster and bit for bit the same (but NaN)."""
    if name not in ELEMENTWISE:
        return scan_any(arrays, axis, selection_step(name), reverse)
    a = np.flip(arrays[0], axis) if reverse else arrays[0]
    out = _scan_elementwise(name, a, axis)
    return (np.flip(out, axis) if reverse else out,)


def _scan_elementwise(name: str, a: np.ndarray, axis: int) -> np.ndarray:
    accumulate = _ACCUMULATORS.get(name)
    if accumulate is not None and (a.dtype.kind == "i" or a.dtype in (F32, F64)):
        out = accumulate.accumulate(a, axis=axis, dtype=a.dtype)
        if not _tied_at_zero(name, out):
            return out
    rows = np.ascontiguousarray(np.moveaxis(a, axis, 0))[np.newaxis]
    (out,) = _scan_rows([rows], _pairwise(name))
    return np.moveaxis(out[0], 0, axis)
