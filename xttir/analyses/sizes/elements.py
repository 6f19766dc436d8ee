"""What every op on integers, truth values and pointers makes of terms, element by element.

Rules follow MLIR's `arith` and Triton's ODS descriptions. An op on machine integers is the op on
mathematical integers as long as the result fits (an `Obligation`); unsigned ops ask for operands
that are not negative. What has no form here (bitwise ops on unknown bits, say) is an opaque value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Operation, SSAValue

from xttir.analyses.sizes.terms import (
    Cond,
    Opaque,
    Term,
    Unknown,
    as_term,
    at_most,
    both,
    choose,
    either,
    equal,
    floor_div,
    least,
    less,
    modulo,
    most,
    negation,
    term_of,
)
from xttir.analyses.sizes.tiles import (
    Address,
    Element,
    Index,
    Obligation,
    Tile,
    limits,
    linear,
    oblige,
    unravel,
)
from xttir.interp.types import element_type, shape_of

if TYPE_CHECKING:
    from xttir.analyses.sizes.evaluate import Evaluator

Rule = Callable[["Elements", Operation], list[Any]]


class Elements:
    """Gives the rules what they need of the evaluator."""

    def __init__(self, owner: Evaluator):
        self.owner = owner

    def tile(self, value: SSAValue) -> Tile:
        return self.owner.env[value]

    def unknown(self, value: SSAValue, why: str) -> Any:
        return self.owner.unknown(value, why)


def _limits(value: SSAValue) -> tuple[int, int]:
    ty = element_type(value.type)
    assert isinstance(ty, IntegerType | IndexType)
    return limits(ty)


def _bits(value: SSAValue) -> int:
    """Width of an integer type; 0 for what is none."""
    ty = element_type(value.type)
    if isinstance(ty, IndexType):
        return 64
    return ty.width.data if isinstance(ty, IntegerType) else 0


def _elementwise(op: Operation, make: Callable[..., Element], tiles: list[Tile]) -> list[Any]:
    def at(index: Index) -> Element:
        return make(index, *(t.at(index) for t in tiles))

    return [Tile(shape_of(op.results[0].type), at)]


Arithmetic = Callable[[Term, Term], Term]


def _wrapping(compute: Arithmetic) -> Rule:
    """add, sub, mul: exact unless the result leaves the type."""

    def rule(e: Elements, op: Operation) -> list[Any]:
        if not _bits(op.results[0]):
            return [e.unknown(op.results[0], "a float")]
        if _bits(op.results[0]) == 1:
            return _bitwise(e, op)
        low, high = _limits(op.results[0])

        def make(_: Index, a: Term, b: Term) -> Element:
            value = compute(a, b)
            oblige(Obligation(value, low, high, op))
            return value

        return _elementwise(op, make, [e.tile(v) for v in op.operands])

    return rule


def _positive(value: Term, op: Operation, least_value: int = 0) -> None:
    """`value` must be at least `least_value` for what follows to be right."""
    oblige(Obligation(value, least_value, None, op))


def _unsigned(value: Term, op: Operation, bits: int) -> Term:
    """The value of the same bits as an unsigned integer. Of data that may have any sign it is
    known what that is; anything else is asked not to be negative."""
    lone = next(iter(value.atoms())) if len(value.parts) == 1 else None
    data = isinstance(lone, Opaque) and value.parts.get((lone,)) == 1
    if data and _sign(value) == 0:
        return choose(at_most(0, value), value, value + (1 << bits))
    _positive(value, op)
    return value


def _sign(value: Term) -> int:
    """1 if `value` is at least 0, -1 if it is at most 0, 0 if that is not known."""
    low, high = value.bounds()
    if low is not None and low >= 0:
        return 1
    return -1 if high is not None and high <= 0 else 0


def _truncated(a: Term, b: Term) -> Term:
    """a / b rounded towards zero, for b >= 1."""
    if _sign(a) == 1:
        return floor_div(a, b)
    if _sign(a) == -1:
        return -floor_div(-a, b)
    return choose(at_most(0, a), floor_div(a, b), -floor_div(-a, b))


def _signed_remainder(a: Term, b: Term) -> Term:
    """The remainder of that division: of the sign of `a`."""
    if _sign(a) == 1:
        return modulo(a, b)
    if _sign(a) == -1:
        return -modulo(-a, b)
    return choose(at_most(0, a), modulo(a, b), -modulo(-a, b))


def _division(compute: Arithmetic, unsigned: bool) -> Rule:
    def rule(e: Elements, op: Operation) -> list[Any]:
        def make(_: Index, a: Term, b: Term) -> Element:
            _positive(b, op, 1)
            if unsigned:
                _positive(a, op)
            return compute(a, b)

        return _elementwise(op, make, [e.tile(v) for v in op.operands])

    return rule


def _extremum(compute: Arithmetic, unsigned: bool = False) -> Rule:
    def rule(e: Elements, op: Operation) -> list[Any]:
        def make(_: Index, a: Term, b: Term) -> Element:
            if unsigned:
                _positive(a, op)
                _positive(b, op)
            return compute(a, b)

        if _bits(op.results[0]) == 1:
            return [e.unknown(op.results[0], op.name)]
        return _elementwise(op, make, [e.tile(v) for v in op.operands])

    return rule


def _bitwise(e: Elements, op: Operation) -> list[Any]:
    """andi, ori, xori (and add and mul of truth values)."""
    name = op.name.split(".")[1]
    tiles = [e.tile(v) for v in op.operands]
    if _bits(op.results[0]) == 1:

        def truth(_: Index, a: Cond, b: Cond) -> Element:
            if name in ("andi", "muli"):
                return both(a, b)
            if name == "ori":
                return either(a, b)
            return either(both(a, negation(b)), both(negation(a), b))

        return _elementwise(op, truth, tiles)
    low, high = _limits(op.results[0])

    def make(_: Index, a: Term, b: Term) -> Element:
        known = _simple_bits(name, a, b)
        if known is not None:
            return known
        if _sign(a) == 1 and _sign(b) == 1:
            tops = [t.bounds()[1] for t in ((a, b) if name != "andi" else (a, a))]
            most_bits = max(t.bit_length() if t is not None else 63 for t in tops)
            bound = min(high, (1 << most_bits) - 1)
            return term_of(Opaque((name, op, a, b), "bits", 0, bound))
        return term_of(Opaque((name, op, a, b), "bits", low, high))

    return _elementwise(op, make, tiles)


def _simple_bits(name: str, a: Term, b: Term) -> Term | None:
    """A bitwise op that is arithmetic: on constants, with a mask of low or high bits, of numbers
    without a common bit."""
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return as_term({"andi": x & y, "ori": x | y, "xori": x ^ y}[name])
    if x is not None:
        a, b, x, y = b, a, y, x
    if y == 0:
        return as_term(0) if name == "andi" else a
    if y is not None and name == "andi":
        if y > 0 and (y & (y + 1)) == 0:  # also right for negative numbers
            return modulo(a, as_term(y + 1))
        if y < 0 and (-y & (-y - 1)) == 0:
            return a - modulo(a, as_term(-y))
    if name == "ori" and _disjoint(a, b):
        return a + b
    if y is not None and name in ("ori", "xori") and y.bit_count() <= FEW_BITS and y > 0:
        return _with_bits(a, y, name == "xori")
    if y == -1:
        return -a - 1 if name == "xori" else as_term(-1)
    return None


FEW_BITS = 2
"""Bits that are set or turned over one by one."""


def _with_bits(a: Term, bits: int, turned: bool) -> Term:
    """`a` with some bits set, or turned over: each is one of a // 2**n."""
    total = a
    for n in range(bits.bit_length()):
        if bits >> n & 1:
            bit = modulo(floor_div(a, as_term(1 << n)), as_term(2))
            total = total + (1 << n) - bit * ((2 if turned else 1) << n)
    return total


def _disjoint(a: Term, b: Term) -> bool:
    """Whether no bit can be set in both: one is a multiple of a power of two above the other."""
    for x, y in ((a, b), (b, a)):
        high = y.bounds()[1]
        if high is None or _sign(y) != 1 or _sign(x) != 1:
            continue
        unit = 1 << high.bit_length()
        if all(c % unit == 0 for c in x.parts.values()):
            return True
    return False


def _shift_left(e: Elements, op: Operation) -> list[Any]:
    low, high = _limits(op.results[0])

    def make(index: Index, a: Term, b: Term) -> Element:
        n = b.constant
        if n is None or n < 0 or n > 63:
            return term_of(Opaque(("shl", op, a, b), "a shift", low, high))
        value = a * (1 << n)
        oblige(Obligation(value, low, high, op))
        return value

    return _elementwise(op, make, [e.tile(v) for v in op.operands])


def _shift_right(unsigned: bool) -> Rule:
    def rule(e: Elements, op: Operation) -> list[Any]:
        low, high = _limits(op.results[0])

        bits = _bits(op.results[0])

        def make(index: Index, a: Term, b: Term) -> Element:
            n = b.constant
            if n is None or n < 0 or n > 63:
                return term_of(Opaque(("shr", op, a, b), "a shift", low, high))
            if unsigned and n:
                a = _unsigned(a, op, bits)
            return floor_div(a, as_term(1 << n))

        return _elementwise(op, make, [e.tile(v) for v in op.operands])

    return rule


_COMPARE: dict[int, Callable[[Term, Term], Cond]] = {
    0: equal,
    1: lambda a, b: negation(equal(a, b)),
    2: less,
    3: at_most,
    4: lambda a, b: less(b, a),
    5: lambda a, b: at_most(b, a),
    6: less,
    7: at_most,
    8: lambda a, b: less(b, a),
    9: lambda a, b: at_most(b, a),
}


def _compare(e: Elements, op: Operation) -> list[Any]:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    number = predicate.value.data
    compute = _COMPARE[number]
    if _bits(op.operands[0]) == 1:

        def truth(_: Index, a: Cond, b: Cond) -> Element:
            same = either(both(a, b), both(negation(a), negation(b)))
            if number == 0:
                return same
            if number == 1:
                return negation(same)
            return Unknown(("compare", op, a, b), "a comparison")

        return _elementwise(op, truth, [e.tile(v) for v in op.operands])
    if not _bits(op.operands[0]):
        return [e.unknown(op.results[0], "a comparison")]

    bits = _bits(op.operands[0])

    def make(_: Index, a: Term, b: Term) -> Element:
        if number >= 6:
            a, b = _unsigned(a, op, bits), _unsigned(b, op, bits)
        return compute(a, b)

    return _elementwise(op, make, [e.tile(v) for v in op.operands])


def _select(e: Elements, op: Operation) -> list[Any]:
    from xttir.analyses.sizes.evaluate import choose_element

    condition, a, b = (e.tile(v) for v in op.operands)
    scalar = condition.shape == () != a.shape

    def at(index: Index) -> Element:
        return choose_element(condition.at(() if scalar else index), a.at(index), b.at(index))

    return [Tile(a.shape, at)]


def _constant(e: Elements, op: Operation) -> list[Any]:
    value, ty = op.properties["value"], op.results[0].type
    bits = _bits(op.results[0])
    if not bits:
        return [e.unknown(op.results[0], "a float")]
    shape = shape_of(ty)
    if isinstance(value, IntegerAttr):
        number = value.value.data
        return [_number(shape, number, bits)]
    if isinstance(value, DenseIntOrFPElementsAttr):
        if value.is_splat():
            return [_number(shape, int(value.get_values()[0]), bits)]  # pyright: ignore
        numbers = [int(n) for n in value.get_values()]  # pyright: ignore
        low, high = min(numbers), max(numbers)

        def at(index: Index) -> Element:
            position = linear(index, shape)
            known = position.constant
            if known is not None:
                return bool(numbers[known]) if bits == 1 else as_term(numbers[known])
            if bits == 1:
                return Unknown(("constant", op, position), "a constant")
            return term_of(Opaque(("constant", op, position), "a constant", low, high))

        return [Tile(shape, at)]
    return [e.unknown(op.results[0], "a constant")]


def _number(shape: tuple[int, ...], number: int, bits: int) -> Tile:
    if bits == 1:
        truth = number != 0
        return Tile(shape, lambda _: truth)
    term = as_term(number)
    return Tile(shape, lambda _: term)


def _same(e: Elements, op: Operation) -> list[Any]:
    """The operand itself."""
    return [e.tile(op.operands[0])]


def _extend(unsigned: bool) -> Rule:
    def rule(e: Elements, op: Operation) -> list[Any]:
        source = e.tile(op.operands[0])
        if _bits(op.operands[0]) == 1:
            one = as_term(1 if unsigned else -1)
            zero = as_term(0)
            return [Tile(source.shape, lambda i: choose(source.at(i), one, zero))]

        def make(_: Index, a: Term) -> Element:
            return _unsigned(a, op, _bits(op.operands[0])) if unsigned else a

        return _elementwise(op, make, [source])

    return rule


def _truncate(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    if _bits(op.results[0]) == 1:
        two = as_term(2)
        return [Tile(source.shape, lambda i: equal(modulo(source.at(i), two), 1))]
    low, high = _limits(op.results[0])

    def make(_: Index, a: Term) -> Element:
        oblige(Obligation(a, low, high, op))
        return a

    return _elementwise(op, make, [source])


def _add_pointer(e: Elements, op: Operation) -> list[Any]:
    def make(_: Index, pointer: Address, offset: Term) -> Element:
        return Address(pointer.base, pointer.offset + offset)

    return _elementwise(op, make, [e.tile(v) for v in op.operands])


def _bitcast(e: Elements, op: Operation) -> list[Any]:
    """Of pointers to elements of one size: the same pointer. Otherwise anything."""
    from xttir.dialects import tt

    before, after = element_type(op.operands[0].type), element_type(op.results[0].type)
    if isinstance(before, tt.PointerType) and isinstance(after, tt.PointerType):
        one, two = before.pointee_type, after.pointee_type
        sizes = [8 if isinstance(t, IntegerType) and t.width.data == 1 else tt.bit_width(t)
                 for t in (one, two)]  # fmt: skip
        if sizes[0] == sizes[1]:
            return _same(e, op)
    elif _bits(op.operands[0]) == _bits(op.results[0]) > 0:
        return _same(e, op)
    return [e.unknown(op.results[0], "a bitcast")]


def _program_id(e: Elements, op: Operation) -> list[Any]:
    term = term_of(e.owner.pids[_axis(op)])
    return [Tile((), lambda _: term)]


def _num_programs(e: Elements, op: Operation) -> list[Any]:
    term = e.owner.grid[_axis(op)]
    return [Tile((), lambda _: term)]


def _axis(op: Operation) -> int:
    axis = op.properties["axis"]
    assert isinstance(axis, IntegerAttr)
    return axis.value.data


def _make_range(e: Elements, op: Operation) -> list[Any]:
    start = op.properties["start"]
    assert isinstance(start, IntegerAttr)
    first = start.value.data
    return [Tile(shape_of(op.results[0].type), lambda i: i[0] + first)]


def _splat(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    return [Tile(shape_of(op.results[0].type), lambda _: source.at(()))]


def _unsplat(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    zero = as_term(0)
    return [Tile((), lambda _: source.at((zero,) * len(source.shape)))]


def _expand_dims(e: Elements, op: Operation) -> list[Any]:
    source, axis = e.tile(op.operands[0]), _axis(op)
    return [Tile(shape_of(op.results[0].type), lambda i: source.at(i[:axis] + i[axis + 1 :]))]


def _broadcast(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    zero = as_term(0)

    def at(index: Index) -> Element:
        return source.at(
            tuple(zero if n == 1 else i for i, n in zip(index, source.shape, strict=True))
        )

    return [Tile(shape_of(op.results[0].type), at)]


def _trans(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    order = op.properties["order"].get_values()  # pyright: ignore

    def at(index: Index) -> Element:
        back: list[Term] = [as_term(0)] * len(order)
        for position, axis in enumerate(order):
            back[int(axis)] = index[position]
        return source.at(tuple(back))

    return [Tile(shape_of(op.results[0].type), at)]


def _reshape(e: Elements, op: Operation) -> list[Any]:
    if op.properties.get("allow_reorder") is not None or op.properties.get("allowReorder"):
        return [e.unknown(op.results[0], "a reshape that may reorder")]
    source, shape = e.tile(op.operands[0]), shape_of(op.results[0].type)

    def at(index: Index) -> Element:
        return source.at(unravel(linear(index, shape), source.shape))

    return [Tile(shape, at)]


def _join(e: Elements, op: Operation) -> list[Any]:
    from xttir.analyses.sizes.evaluate import choose_element

    a, b = (e.tile(v) for v in op.operands)

    def at(index: Index) -> Element:
        return choose_element(equal(index[-1], 0), a.at(index[:-1]), b.at(index[:-1]))

    return [Tile(shape_of(op.results[0].type), at)]


def _split(e: Elements, op: Operation) -> list[Any]:
    source = e.tile(op.operands[0])
    shape = shape_of(op.results[0].type)

    def half(n: int) -> Tile:
        last = as_term(n)
        return Tile(shape, lambda i: source.at((*i, last)))

    return [half(0), half(1)]


def _nothing(e: Elements, op: Operation) -> list[Any]:
    return [e.unknown(result, "the result of " + op.name) for result in op.results]


ELEMENTS: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addi": _wrapping(lambda a, b: a + b),
    "arith.subi": _wrapping(lambda a, b: a - b),
    "arith.muli": _wrapping(lambda a, b: a * b),
    "arith.divsi": _division(_truncated, False),
    "arith.remsi": _division(_signed_remainder, False),
    "arith.divui": _division(floor_div, True),
    "arith.remui": _division(modulo, True),
    "arith.floordivsi": _division(floor_div, False),
    "arith.ceildivsi": _division(lambda a, b: -floor_div(-a, b), False),
    "arith.ceildivui": _division(lambda a, b: floor_div(a + b - 1, b), True),
    "arith.minsi": _extremum(least),
    "arith.maxsi": _extremum(most),
    "arith.minui": _extremum(least, True),
    "arith.maxui": _extremum(most, True),
    "arith.andi": _bitwise,
    "arith.ori": _bitwise,
    "arith.xori": _bitwise,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right(False),
    "arith.shrui": _shift_right(True),
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.extsi": _extend(False),
    "arith.extui": _extend(True),
    "arith.trunci": _truncate,
    "arith.index_cast": _same,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _bitcast,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "ttg.convert_layout": _same,
}
