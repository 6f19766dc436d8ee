"""Views of a memory buffer: what `memdesc_index`, `_subslice`, `_trans`, `_reshape` select.

A view is a path of steps from the elements of a cell to those of the view. A step is applied to an
array (b, *s) whose axes have full extent or 1, as values have; most steps are numpy views, so that
reading and writing through a path moves nothing. Applied to element numbers instead of elements, a
path gives the offsets that the view covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np


class ViewStep(Protocol):
    """One step of a path. `static`: it is the same for every program, and hashable."""

    @property
    def static(self) -> bool: ...

    def apply(self, array: np.ndarray) -> np.ndarray:
        """(b, *s) -> (b, *t)."""
        ...

    def take(self, programs: np.ndarray) -> ViewStep:
        """The step for the programs at positions `programs` of the batch."""
        ...


class _Same:
    """A step that is the same for every program."""

    static = True

    def take(self, programs: np.ndarray) -> Any:
        return self


@dataclass(frozen=True)
class Pick(_Same):
    """Element `index` of the first axis."""

    index: int

    def apply(self, array: np.ndarray) -> np.ndarray:
        return array[:, self.index if array.shape[1] > 1 else 0]


@dataclass(frozen=True, eq=False)
class PickEach:
    """Element `index[p]` (int64[b]) of the first axis, for program p."""

    index: np.ndarray
    static = False

    def apply(self, array: np.ndarray) -> np.ndarray:
        if array.shape[1] == 1:
            return array[:, 0]
        if array.shape[0] == 1:
            return array[0][self.index]
        return array[np.arange(self.index.size), self.index]

    def take(self, programs: np.ndarray) -> PickEach:
        return PickEach(self.index[programs])


@dataclass(frozen=True, eq=False)
class Gather:
    """Elements given one by one: `index` int64 (1 or b, *t), numbers in row-major order of a view
    of shape `source`."""

    index: np.ndarray
    source: tuple[int, ...]
    static = False

    def apply(self, array: np.ndarray) -> np.ndarray:
        full = np.broadcast_to(array, (array.shape[0], *self.source))
        return _picked(full.reshape(array.shape[0], -1), self.index)

    def take(self, programs: np.ndarray) -> Gather:
        return Gather(self.index[programs], self.source) if self.index.shape[0] > 1 else self


@dataclass(frozen=True)
class Subslice(_Same):
    """The box of `shape` that begins at `offsets`."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        cut = [slice(None)]
        for offset, extent, full in zip(self.offsets, self.shape, array.shape[1:], strict=True):
            cut.append(slice(None) if full == 1 else slice(offset, offset + extent))
        return array[tuple(cut)]


@dataclass(frozen=True)
class Trans(_Same):
    """Axes permuted: axis k of the view is axis `order[k]`."""

    order: tuple[int, ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        return array.transpose((0, *(n + 1 for n in self.order)))


@dataclass(frozen=True)
class Reshape(_Same):
    """`source` elements in row-major order as `target`."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        if array.size == array.shape[0]:
            return array.reshape(-1, *(1 for _ in self.target))
        full = np.broadcast_to(array, (array.shape[0], *self.source))
        return full.reshape(array.shape[0], *self.target)


class Layout:
    """Elements of `dtype` at byte `offsets` (int64 (1 or b, *s), multiples of the element's size)
    of an array of bytes (b, n). Further steps apply to the offsets: a path has at most this one.

    `copies`: how many bytes further on each element is held again, once for each number; those of
    `replicas` among them are in other blocks of a cluster.
    """

    __slots__ = ("_next", "_strides", "copies", "dtype", "offsets", "replicas")

    def __init__(
        self,
        offsets: np.ndarray,
        dtype: np.dtype,
        copies: tuple[int, ...] = (),
        replicas: tuple[int, ...] = (),
    ):
        self.offsets = offsets
        self.dtype = dtype
        self.copies = copies
        self.replicas = replicas
        self._strides: tuple[int, ...] | bool | None = False
        self._next: dict[ViewStep, Layout] = {}

    @property
    def static(self) -> bool:
        return self.offsets.shape[0] == 1

    def then(self, step: ViewStep) -> Layout:
        """What is seen through `step` of what is seen through this."""
        if not step.static:
            return self.at(step.apply(self.offsets))
        found = self._next.get(step)
        if found is None:
            found = self._next[step] = self.at(step.apply(self.offsets))
        return found

    def at(self, offsets: np.ndarray) -> Layout:
        """The layout with other offsets."""
        return Layout(offsets, self.dtype, self.copies, self.replicas)

    def take(self, programs: np.ndarray) -> Layout:
        return self if self.static else self.at(self.offsets[programs])

    def differ(self, array: np.ndarray) -> bool:
        """Whether some element is not the same in all blocks that hold it, in an array of bytes."""
        for start in self.replicas:
            for k in range(self.dtype.itemsize):
                first = _picked(array, self.offsets + k)
                if not np.array_equal(first, _picked(array, self.offsets + (start + k))):
                    return True
        return False

    def window(self, array: np.ndarray, start: int = 0) -> np.ndarray | None:
        """The elements, `start` bytes further on, as a view (b, *s) of bytes, or of marks of bytes
        (all those of an element as one word); None if they are not evenly spaced."""
        if self._strides is False:
            self._strides = _even(self.offsets[0]) if self.static else None
        if not isinstance(self._strides, tuple) or not array.flags.c_contiguous:
            return None
        dtype = self.dtype
        if array.dtype != np.uint8:
            dtype = np.dtype(f"u{dtype.itemsize}")
        full, strides = (array.shape[0], *self.offsets.shape[1:]), (array.strides[0],)
        begin = start + int(self.offsets.flat[0])
        return np.ndarray(full, dtype, array, begin, (*strides, *self._strides))

    def apply(self, array: np.ndarray) -> np.ndarray:
        size = self.dtype.itemsize
        if array.shape[1] > 1 and (window := self.window(array)) is not None:
            return window if array.dtype == np.uint8 else np.not_equal(window, 0)
        if array.dtype == np.uint8:
            return _picked(np.ascontiguousarray(array).view(self.dtype), self.offsets // size)
        # Marks of bytes: an element has the mark that any of its bytes has.
        marks = _picked(array, self.offsets)
        for k in range(1, size):
            marks = np.logical_or(marks, _picked(array, self.offsets + k))
        return marks


def _even(offsets: np.ndarray) -> tuple[int, ...] | None:
    """The strides of `offsets` (int64[*s]) if they are a sum of one for each axis."""
    first = offsets.flat[0]
    strides = tuple(
        int(np.take(offsets, 1, axis).flat[0] - first) if extent > 1 else 0
        for axis, extent in enumerate(offsets.shape)
    )
    axes = np.ogrid[tuple(slice(extent) for extent in offsets.shape)]
    expected = sum((axis * stride for axis, stride in zip(axes, strides, strict=True)), first)
    return strides if np.array_equal(offsets, np.broadcast_to(expected, offsets.shape)) else None


def _picked(flat: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Elements `index` (1 or b, *s) of `flat` (1 or b, n)."""
    if flat.shape[1] == 1:
        return flat.reshape((-1,) + (1,) * (index.ndim - 1))
    if index.shape[0] == 1:
        return flat[:, index[0]]
    if flat.shape[0] == 1:
        return flat[0][index]
    rows = np.arange(flat.shape[0]).reshape((-1,) + (1,) * (index.ndim - 1))
    return flat[rows, index]


Path = tuple[ViewStep, ...]


def along(path: Path, array: np.ndarray) -> np.ndarray:
    """`array` (b, *s) seen through `path`."""
    for step in path:
        array = step.apply(array)
    return array


def is_static(path: Path) -> bool:
    """Whether the path is the same for every program."""
    return all(step.static for step in path)


def offsets_of(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """int64 (1 or b, *view): for every element of the view its number in a cell of `shape`
    (row-major), or its byte in a cell of bytes."""
    if path and isinstance(path[0], Layout):
        return path[0].offsets
    if is_static(path):
        return _static_offsets(path, shape)
    return along(path, _numbers(shape))


@lru_cache(maxsize=1024)
def _static_offsets(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    return along(path, _numbers(shape))


def _numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(prod(shape), dtype=np.int64).reshape(1, *shape)


def footprint(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """bool (1 or b, n): which elements (or bytes) of a cell the view covers; None for all."""
    if not path:
        return None
    if is_static(path) and not isinstance(path[0], Layout):
        return _static_footprint(path, shape)
    at, size = offsets_of(path, shape), 1
    copies: tuple[int, ...] = ()
    if isinstance(path[0], Layout):
        size, copies = path[0].dtype.itemsize, path[0].copies
    covered = np.zeros((at.shape[0], prod(shape)), bool)
    flat = at.reshape(at.shape[0], -1)
    for start in (0, *copies):
        for k in range(size):
            np.put_along_axis(covered, flat + (start + k), True, axis=1)
    return None if covered.all() else covered


@lru_cache(maxsize=1024)
def _static_footprint(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    covered = np.zeros((1, prod(shape)), bool)
    covered[0, _static_offsets(path, shape).reshape(-1)] = True
    return None if covered.all() else covered
