"""Values of a kernel as functions: a tile gives the term of any one of its elements.

A tile is never expanded: `at(index)` makes the term of the element at `index` (terms, one per
axis), so that expand_dims, broadcast, trans and reshape are changes of the index. What must hold
for the terms to be the machine's values (`Obligation`) is collected along with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from xttir.analyses.sizes.terms import Cond, Symbol, Term, as_term, floor_div, term_of

Index = tuple[Term, ...]


@dataclass(frozen=True)
class Address:
    """An element of the tensor that parameter `base` points to: `offset` in its elements.

    `base` is "" where it is not known which tensor that is.
    """

    base: str
    offset: Term


@dataclass(frozen=True)
class Obligation:
    """`term` must lie in [low, high] for `op` to compute it without wrapping (or at all)."""

    term: Term
    low: int | None
    high: int | None
    op: Operation

    def __hash__(self) -> int:
        return hash((self.term, id(self.op)))


Element = Term | Cond | Address | None
"""Of an integer, a truth value, a pointer; None for what is not followed (floats)."""

_collecting: list[set[Obligation]] = []


def oblige(obligation: Obligation) -> None:
    """Record an obligation of the element that is being made."""
    low, high = obligation.term.bounds()
    above = obligation.low is None or (low is not None and low >= obligation.low)
    below = obligation.high is None or (high is not None and high <= obligation.high)
    if not (above and below) and _collecting:
        _collecting[-1].add(obligation)


class Tile:
    """A tensor (or, with shape (), a scalar) by its elements."""

    __slots__ = ("_make", "_memo", "shape")

    def __init__(self, shape: tuple[int, ...], make: Callable[[Index], Element]):
        self.shape = shape
        self._make = make
        self._memo: dict[Index, tuple[Element, frozenset[Obligation]]] = {}

    def at(self, index: Index) -> Any:
        """The element at `index`."""
        found = self._memo.get(index)
        if found is None:
            _collecting.append(set())
            try:
                element = self._make(index)
            finally:
                obligations = frozenset(_collecting.pop())
            found = self._memo[index] = (element, obligations)
        if _collecting:
            _collecting[-1] |= found[1]
        return found[0]

    def with_obligations(self, index: Index) -> tuple[Any, frozenset[Obligation]]:
        """The element at `index`, and what must hold for it; nobody else is obliged to it."""
        _collecting.append(set())
        try:
            self.at(index)
        finally:
            _collecting.pop()
        return self._memo[index]


def lanes_of(shape: tuple[int, ...]) -> tuple[Symbol, ...]:
    """A symbol for each axis: any element of a tile of this shape."""
    return tuple(Symbol(f"lane{axis}", 0, size - 1) for axis, size in enumerate(shape))


def index_of(lanes: tuple[Symbol, ...]) -> Index:
    """The index that lanes stand for; an axis of size 1 has only 0."""
    return tuple(term_of(lane) if lane.high else as_term(0) for lane in lanes)


def linear(index: Index, shape: tuple[int, ...]) -> Term:
    """The row-major position of `index`."""
    total = as_term(0)
    for position, size in zip(index, shape, strict=True):
        total = total * size + position
    return total


def unravel(position: Term, shape: tuple[int, ...]) -> Index:
    """The index whose row-major position is `position`, which lies inside the shape."""
    out: list[Term] = []
    for size in reversed(shape):
        if len(out) == len(shape) - 1:
            out.append(position)
            break
        rest = floor_div(position, as_term(size))
        out.append(position - rest * size)
        position = rest
    return tuple(reversed(out))


def is_truth(ty: Attribute) -> bool:
    """Whether a scalar type is i1, whose values are conditions."""
    return isinstance(ty, IntegerType) and ty.width.data == 1


def limits(ty: IntegerType | IndexType) -> tuple[int, int]:
    """The least and the greatest value of an integer type, as signed."""
    bits = 64 if isinstance(ty, IndexType) else ty.width.data
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
