"""What a loop carries, at any iteration: solved in closed form where it grows by the same step.

A loop's body is evaluated once with a mark for every carried value. What comes out as the mark and
a step that does not vary with the iterations grows by that step; anything else may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from xttir.analyses.sizes.terms import (
    Cond,
    Leaf,
    Opaque,
    Symbol,
    Term,
    Unknown,
    condition_leaves,
    either,
    equal,
    leaves,
    rename_condition,
    term_of,
)
from xttir.analyses.sizes.tiles import (
    Address,
    Element,
    Index,
    Obligation,
    Tile,
    index_of,
    is_truth,
    lanes_of,
    limits,
    oblige,
)
from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.types import element_type

if TYPE_CHECKING:
    from xttir.analyses.sizes.evaluate import Evaluator


@dataclass(eq=False)
class Carried:
    """A value that a loop carries: `inside` at the iteration under way, `grow` per iteration."""

    owner: Evaluator
    op: Operation | Block
    init: Any
    inside: Any
    grow: Tile | None
    why: str

    def after(self, trips: Term, result: SSAValue) -> Any:
        if self.grow is None:
            if self.inside is self.init:
                return self.init
            return self.owner.unknown(result, self.why)
        return _advanced(self.op, result, self.init, self.grow, trips)


def mark_of(owner: Evaluator, op: Operation | Block, n: int, arg: SSAValue, init: Any) -> Any:
    """A stand-in for a carried value, by which it is told how the body changes it."""
    element = element_type(arg.type)
    if not isinstance(init, Tile):
        return init
    if isinstance(element, tt.PointerType):

        def pointer(index: Index) -> Element:
            base = init.at(index).base
            return Address(base, term_of(Opaque(("carried", op, n, index), "carried")))

        return Tile(init.shape, pointer)
    if isinstance(element, IntegerType | IndexType):
        if is_truth(element):
            return Tile(init.shape, lambda i: Unknown(("carried", op, n, i), "carried"))
        low, high = limits(element)
        return Tile(
            init.shape, lambda i: term_of(Opaque(("carried", op, n, i), "carried", low, high))
        )
    return Tile(init.shape, lambda i: None)


def classify(
    owner: Evaluator,
    op: Operation | Block,
    n: int,
    arg: SSAValue,
    init: Any,
    mark: Any,
    yielded: Any,
    k: Term,
    blocks: Sequence[Block] = (),
) -> Carried:
    """How a carried value grows, if it does so by the same step every time.

    `op`: the loop, or the block that a loop of `blocks` is entered by.
    """
    why = "a value that a loop carries"
    if not isinstance(init, Tile) or not isinstance(yielded, Tile):
        if yielded is not mark:
            place = op if isinstance(op, Operation) else op.last_op
            assert place is not None
            raise Unsupported("a descriptor that a loop changes", location_of(place))
        return Carried(owner, op, init, init, None, why)
    index = index_of(lanes_of(init.shape))
    before, now = mark.at(index), yielded.at(index)
    if before is None or before == now:
        return Carried(owner, op, init, init, None, why)
    step = _difference(before, now)
    if step is None or _varies(owner, step, blocks or (op,), k):
        inside = owner.unknown(arg, why, owner.fresh("loop"))
        if isinstance(before, Address) and isinstance(now, Address) and before.base == now.base:
            free = inside
            inside = Tile(init.shape, lambda i: Address(before.base, free.at(i).offset))
        return Carried(owner, op, init, inside, None, why)

    def grow(i: Index) -> Element:
        element, obligations = yielded.with_obligations(i)
        for obligation in obligations:
            if not any(map(_is_mark, leaves(obligation.term))):
                oblige(obligation)
        return _difference(mark.at(i), element)

    growth = Tile(init.shape, grow)
    return Carried(owner, op, init, _advanced(op, arg, init, growth, k), growth, why)


def _is_mark(atom: Leaf) -> bool:
    return isinstance(atom, Opaque | Unknown) and atom.key[0] == "carried"


def _advanced(op: Operation | Block, arg: SSAValue, init: Tile, grow: Tile, times: Term) -> Tile:
    """`init` after so many steps of `grow`. No sum on the way is greater than the last one."""
    element = element_type(arg.type)

    def make(i: Index) -> Element:
        start = init.at(i)
        if isinstance(start, Address):
            return Address(start.base, start.offset + times * grow.at(i))
        total = start + times * grow.at(i)
        assert isinstance(element, IntegerType | IndexType)
        place = op if isinstance(op, Operation) else op.last_op
        assert place is not None
        oblige(Obligation(total, *limits(element), place))
        return total

    return Tile(init.shape, make)


def _difference(before: Element, now: Element) -> Term | None:
    if isinstance(before, Address) and isinstance(now, Address):
        return now.offset - before.offset if before.base == now.base else None
    if isinstance(before, Term) and isinstance(now, Term):
        return now - before
    return None


def _varies(owner: Evaluator, step: Term, loop: Sequence[Operation | Block], k: Term) -> bool:
    """Whether a step may differ from iteration to iteration of `loop`."""
    within = later(owner, k)
    return any(
        leaf in within or (not isinstance(leaf, Symbol) and _made_in(leaf.key, loop))
        for leaf in leaves(step)
    )


def later(owner: Evaluator, k: Term) -> set[Leaf]:
    """The iteration `k` of a loop, and those of the loops inside."""
    counter = next(a for a in k.atoms() if isinstance(a, Symbol))
    return set(owner.iterations[owner.iterations.index(counter) :])


def entered(owner: Evaluator, k: Term, condition: Cond) -> Cond:
    """That iteration `k` is the first one, or that `condition`, by which an iteration leads to the
    next, held in the one before."""
    counter = next(a for a in k.atoms() if isinstance(a, Symbol))
    inner = later(owner, k) - {counter}
    found = condition_leaves(condition)
    if any(not isinstance(a, Symbol) or a in inner for a in found):
        return True
    seen: dict[object, object] = {}
    before = rename_condition(condition, lambda a: k - 1 if a is counter else None, seen)
    return either(equal(k, 0), before)


def _made_in(key: tuple[object, ...], loop: Sequence[Operation | Block]) -> bool:
    """Whether an opaque value is made inside of `loop`."""
    for part in key:
        owner = part.owner if isinstance(part, SSAValue) else part
        if isinstance(owner, Operation | Block) and any(p.is_ancestor(owner) for p in loop):
            return True
    return False
