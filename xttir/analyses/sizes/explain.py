"""What a number of a launch may stand for: a size, a size over a block, a product, a sum.

`contract` turns the likeliest reading of a grid axis into its term, and states what explains other
numbers as facts. How a kernel uses its program ids tells readings apart: an id that is multiplied
with a block size counts blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from xttir.analyses.sizes.matching import products_of, resemblance
from xttir.analyses.sizes.terms import Term, as_term, floor_div
from xttir.dialects import tt

Size = tuple[str, Term, int]
"""A name, a term and a value."""

Reading = tuple[str, Term]

MOST_EXPLANATIONS = 3
"""Of a kind, for one number."""

SAME = frozenset(
    {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.splat", "tt.expand_dims",
     "tt.broadcast"}
)  # fmt: skip
"""Ops whose result has the numbers of the operand."""


@dataclass(frozen=True)
class Numbers:
    """What a launch has numbers for: `sizes` (arguments, dimensions, strides) and `constants`."""

    sizes: list[Size]
    constants: list[tuple[str, int]]

    def quotients(self, sizes: list[Size] | None = None) -> list[tuple[str, Term, int, int]]:
        """Sizes over constants, rounded up; those whose names agree come first. The last number
        says how much they do."""
        out = [
            (f"cdiv({n}, {k})", floor_div(t + (b - 1), as_term(b)), -(-v // b), resemblance(n, k))
            for n, t, v in (self.sizes if sizes is None else sizes)
            for k, b in self.constants
            if b > 1 and v > 1
        ]
        return sorted(out, key=lambda e: -e[3])

    def of_grid(self, value: int, blocks: set[int], flat: list[Size]) -> list[Reading]:
        """What the number of programs along an axis may be, the likeliest first.

        `blocks`: constants that the kernel multiplies the program id with. `flat`: the lengths of
        tensors, which kernels of one axis go over.
        """
        units = [(n, t, v, 0) for n, t, v in self.sizes]
        units += [(k, as_term(b), b, -3) for k, b in self.constants if b > 1]
        units += [(n, as_term(v), v, -2) for n, v in self._shares() if v > 1]
        quotients = self.quotients()
        factors = [e for e in units + quotients if e[2] > 1 and value % e[2] == 0]
        over_lengths = self.quotients(flat)
        # Constants alone come last: a number that is free says more.
        exact = [(n, t) for n, t, v, _ in units if v == value]
        found = [
            [e for e in exact if e[1].constant is None],
            [(n, t) for n, t, v, _ in quotients if v == value],
            products_of(factors, 2, value),
            products_of(factors, 3, value),
            [(n, t) for n, t, v, _ in over_lengths if v == value],
            [e for e in exact if e[1].constant is not None],
        ]
        ordered = [e for group in found for e in group]
        if blocks:
            wanted = {k for k, b in self.constants if b in blocks}
            ordered.sort(key=lambda e: not any(f", {k})" in e[0] for k in wanted))
        else:
            # Ids that count blocks of several sizes are taken apart first.
            ordered.sort(key=lambda e: e[0].startswith("cdiv(") and " * " not in e[0])
        readings: dict[Term, Reading] = {}
        for name, term in ordered:
            readings.setdefault(term, (name, term))
        return list(readings.values())

    def _shares(self) -> Iterator[tuple[str, int]]:
        """Constants over constants, rounded up."""
        for n, v in self.constants:
            yield from ((f"cdiv({n}, {k})", -(-v // b)) for k, b in self.constants if 1 < b < v)

    def of_constants(self, value: int, dimensions: list[tuple[str, int]]) -> str:
        """How a number is made of constants and of `dimensions` that are none; "" if it is not."""
        named = dict.fromkeys([*dimensions, *self.constants])
        units = {n: v for n, v in named if v > 1}
        for n, v in dimensions:
            units |= {f"cdiv({n}, {k})": -(-v // b) for k, b in self.constants if 1 < b < v}
        units |= dict(self._shares())
        factors = [(n, v) for n, v in units.items() if value % v == 0][:40]
        # The sizes of one tensor, before those of several.
        found = [
            parts
            for count in (1, 2, 3)
            for parts in combinations(factors, count)
            if math.prod(v for _, v in parts) == value
        ]
        found.sort(key=lambda parts: (len({n.partition(".")[0] for n, _ in parts}), len(parts)))
        return " * ".join(n for n, _ in found[0]) if found else ""

    def derived(self, value: int, tiles: set[int]) -> Iterator[str]:
        """How a number is made of one named constant, or two, that are no `tiles`: halves,
        doubles, products."""
        named = [(n, v) for n, v in self.constants if n.isidentifier() and v > 1]
        fixed = [(n, v) for n, v in named if v not in tiles]
        for n, v in fixed:
            if v == 2 * value:
                yield f"{n} // 2"
            if 2 * v == value:
                yield f"2 * {n}"
        for (n, v), (m, w) in combinations_with_replacement(fixed, 2):
            if v * w == value:
                yield f"{n} * {m}"

    def of_size(self, value: int, own: Term | None) -> list[Reading]:
        """What the size of a tensor may be, other than a size of its own."""
        sizes = [e for e in self.sizes if e[1] != own]
        kinds = [
            [(n, t) for n, t, v, _ in self.quotients(sizes) if v == value],
            list(_sums(sizes, self.constants, value)),
            products_of([(n, t, v, 0) for n, t, v in sizes if v > 1], 2, value),
            _shares(sizes, value),
        ]
        found: dict[Term, Reading] = {}
        for kind in kinds:
            for name, term in kind[:MOST_EXPLANATIONS]:
                if term != own and term.constant is None:
                    found.setdefault(term, (name, term))
        return list(found.values())


def _sums(sizes: list[Size], constants: list[tuple[str, int]], value: int) -> Iterator[Reading]:
    """Sums and differences of two sizes, and of a size and a constant or the number next to it."""
    for (n, t, v), (m, u, w) in combinations(sizes, 2):
        if v + w == value:
            yield f"{n} + {m}", t + u
        if abs(v - w) == value:
            yield (f"{n} - {m}", t - u) if v > w else (f"{m} - {n}", u - t)
    for n, t, v in sizes:
        if abs(v - value) == 1:
            yield f"{n} {'-' if v > value else '+'} 1", t + (value - v)
        for k, b in constants:
            for by, name in ((b, k), (b - 1, f"({k} - 1)"), (2 * b, f"2 * {k}")):
                if by > 1 and abs(v - value) == by:
                    yield f"{n} {'-' if v > value else '+'} {name}", t + (value - v)


def _shares(sizes: list[Size], value: int) -> list[Reading]:
    """One size over another, rounded up."""
    return [
        (f"cdiv({n}, {m})", floor_div(t + u - 1, u))
        for n, t, v in sizes
        for m, u, w in sizes
        if v > w > 1 and value > w and -(-v // w) == value
    ]


def blocks_of_ids(function: tt.FuncOp) -> dict[int, set[int]]:
    """By axis of the grid: the constants that a kernel multiplies its program id with."""
    out: dict[int, set[int]] = {}
    for op in function.walk():
        if isinstance(op, tt.GetProgramIdOp):
            out.setdefault(op.axis.value.data, set()).update(_factors(op.results[0]))
    return out


def tiles_of(function: tt.FuncOp) -> set[int]:
    """Constants that a kernel goes over something by: what it multiplies program ids and iterations
    with, and the steps of its loops."""
    out = set[int]().union(*blocks_of_ids(function).values())
    for op in function.walk():
        if op.name == "scf.for":
            out.update(_factors(op.regions[0].blocks[0].args[0]))
            step = constant_of(op.operands[2])
            out |= {step} if step is not None else set()
    return {n for n in out if n > 1}


def _factors(value: SSAValue) -> Iterator[int]:
    """The constants that a value is multiplied with."""
    for use in value.uses:
        op = use.operation
        if op.name in SAME:
            yield from _factors(op.results[0])
        else:
            scale = scale_of(op, use.index)
            if scale is not None:
                yield scale


def scale_of(op: Operation, index: int) -> int | None:
    """The constant that an operation multiplies its operand with; None if it does not."""
    if op.name not in _SCALES or index > (op.name == "arith.muli"):
        return None
    number = constant_of(op.operands[1 - index])
    return None if number is None else _SCALES[op.name](number)


_SCALES: dict[str, Callable[[int], int]] = {
    "arith.muli": lambda n: n,
    "arith.shli": lambda n: 1 << min(n, 63),
}


def constant_of(value: SSAValue) -> int | None:
    """The integer that a value is, in each element."""
    found = getattr(value.owner, "properties", {}).get("value")
    if isinstance(found, IntegerAttr):
        return found.value.data
    if isinstance(found, DenseIntOrFPElementsAttr) and found.is_splat():
        number = found.get_values()[0]
        return number if isinstance(number, int) else None
    return None


def counted_axes(function: tt.FuncOp) -> set[int]:
    """The axes of the grid whose number of programs a kernel (or one it may call) looks at."""
    module = function.parent_op()
    ops = (module or function).walk()
    return {op.axis.value.data for op in ops if isinstance(op, tt.GetNumProgramsOp)}


def lengths(tensors: list[tuple[str, Term, tuple[int, ...]]]) -> list[Size]:
    """Of tensors of several axes: name, term of the length, shape."""
    return [(f"len({n})", t, math.prod(s)) for n, t, s in tensors if len(s) > 1 and math.prod(s)]
