"""Values while a module is traced.

A scalar is a numpy array with the program axis (size 1 when all programs agree), as in the
interpreter, or `UNKNOWN`. Tensors are `UNKNOWN`, or `Pending` while an asynchronous product writes
them. Memory descriptors are `View`s.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from xttir.analyses.events import Space
from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.to_linear import shared_blocks, shared_offsets, tensor_memory_places
from xttir.dialects.ttg import MemDescType
from xttir.interp.physical import in_tensor_memory
from xttir.interp.types import numpy_dtype

TENSOR_COLUMNS = 512
"""Cells of a row ("lane") of tensor memory."""


class Unknown:
    """A value that depends on data, or on an argument that was not given."""

    def __repr__(self) -> str:
        return "UNKNOWN"


class Varying(Unknown):
    """A number that is not the same in all threads of an agent."""

    def __repr__(self) -> str:
        return "VARYING"


UNKNOWN = Unknown()
VARYING = Varying()


@dataclass(eq=False)
class Pending:
    """A tensor that the asynchronous operation `op` is still writing. `group`: its number among
    those that its agent gave to the engine; what waits for that group makes it a value. `moved`: it
    went through a wait, whose result is the value to use: the registers are those of the result."""

    op: Operation
    group: int
    engine: str
    moved: bool = False


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the elements of a descriptor lie relative to its first byte or cell.

    `at`: int64[*shape]; bytes in shared memory; in tensor memory `row * 2048 + byte` of a row of
    512 cells of 4 bytes. `blocks`: int64[*shape], which block of the cluster holds each. `key`
    tells patterns apart: equal keys are equal patterns.
    """

    key: tuple[Any, ...]
    at: np.ndarray
    blocks: np.ndarray
    memo: dict[Any, Any] = field(default_factory=dict)
    """What has been computed of it, by whoever asked."""

    def derived(self, step: tuple[Any, ...], change: Any) -> Pattern:
        """`change` applied to both arrays; made once for a `step`."""
        found = self.memo.get(step)
        if found is None:
            found = Pattern((*self.key, step), change(self.at), change(self.blocks))
            self.memo[step] = found
        return found


@lru_cache(maxsize=4096)
def pattern_of(ty: Attribute) -> Pattern:
    """The pattern of a descriptor of type `ty` that begins at 0."""
    assert isinstance(ty, MemDescType)
    size = numpy_dtype(ty.element_type).itemsize
    if in_tensor_memory(ty):
        rows, columns = tensor_memory_places(ty)
        at = rows * (TENSOR_COLUMNS * 4) + columns * size
        return Pattern((ty,), at, np.zeros_like(at))
    at = shared_offsets(ty) * size
    return Pattern((ty,), at, np.broadcast_to(shared_blocks(ty), at.shape))


@dataclass(frozen=True, eq=False)
class View:
    """A memory descriptor: `pattern` moved by `shift` bytes (tensor memory: see `Pattern`).

    `ty`: its type. `owner`: the op that allocated the memory. `partial`: whether it is a subslice,
    which does not begin at the first byte of a buffer.
    """

    ty: MemDescType
    pattern: Pattern
    shift: int
    owner: Operation
    partial: bool = False
    outside: Operation | None = None
    """The op that took a buffer that does not exist: nothing may be accessed by this descriptor."""

    @property
    def space(self) -> Space:
        return Space.TENSOR if in_tensor_memory(self.ty) else Space.SHARED

    @property
    def itemsize(self) -> int:
        return numpy_dtype(self.ty.element_type).itemsize

    @property
    def start(self) -> int:
        """The first byte of element (0, ..., 0)."""
        return int(self.pattern.at.reshape(-1)[0]) + self.shift

    def index(self, number: int, ty: MemDescType) -> View:
        """Buffer `number` along the first axis."""
        memo = self.pattern.memo
        if "steps" not in memo:
            at = self.pattern.at
            steps = np.unique(np.diff(at.reshape(at.shape[0], -1), axis=0))
            memo["steps"] = steps.tolist() or [0]
        if len(memo["steps"]) == 1:
            first = self.pattern.derived(("first",), lambda a: a[0])
            shift = self.shift + memo["steps"][0] * number
            return replace(self, ty=ty, pattern=first, shift=shift)
        one = self.pattern.derived(("index", number), lambda a: a[number])
        return replace(self, ty=ty, pattern=one)

    def subslice(self, offsets: list[int], ty: MemDescType) -> View:
        """The box of the shape of `ty` at `offsets` (of the last axes)."""
        shape = ty.get_shape()
        lead = self.pattern.at.ndim - len(shape)
        place = (slice(None),) * lead + tuple(
            slice(o, o + n) for o, n in zip(offsets, shape, strict=True)
        )
        part = self.pattern.derived(("slice", *offsets, *shape), lambda a: a[place])
        return replace(self, ty=ty, pattern=part, partial=self.partial or any(offsets))

    def trans(self, order: tuple[int, ...], ty: MemDescType) -> View:
        turned = self.pattern.derived(("trans", *order), lambda a: a.transpose(order))
        return replace(self, ty=ty, pattern=turned)

    def reshape(self, ty: MemDescType) -> View:
        shape = ty.get_shape()
        return replace(
            self,
            ty=ty,
            pattern=self.pattern.derived(("shape", *shape), lambda a: a.reshape(shape)),
        )

    def reinterpret(self, ty: MemDescType) -> View:
        """Other elements in the same bytes. Raises `Unsupported` for a view of a part of shared
        memory, whose start is kept apart from where it lies."""
        if self.partial and self.space is Space.SHARED:
            raise Unsupported("memdesc_reinterpret of a subslice")
        return replace(self, ty=ty, pattern=pattern_of(ty), shift=self.start)
