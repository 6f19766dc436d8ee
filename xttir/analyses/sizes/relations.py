"""Facts of one launch: what explains its numbers, and how they relate.

They are narrower than the contract: a proof names those that it needed (`SHAPED`), and does not
rest on what is rather an accident (`ACCIDENT`). What explains a number binds every launch that
refutes.
"""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from xttir.analyses.sizes.explain import Numbers
from xttir.analyses.sizes.matching import length_of
from xttir.analyses.sizes.solver import ACCIDENT, COINCIDENT, SHAPED
from xttir.analyses.sizes.terms import Symbol, Term, as_term, at_most, equal, less, modulo

if TYPE_CHECKING:
    from xttir.analyses.sizes.contract import Contract

FEW = 4
"""Sizes up to which one that nothing explains may be a constant of the kernel."""

MOST_RATIO = 16
"""Ratio of two sizes that is taken to be more than an accident."""

_SUM = re.compile(r" [+-] [^\d(]| \+ \(")
"""In a text: of two sizes, or one that a window has made larger, which is as rare."""

LEAST_PRODUCT = 8
"""Smaller sizes are products of two others by accident."""

MOST_DERIVED = 2
"""Ways to make one number of others that are stated."""

COUNTS = re.compile(r"n(?!um_warps|um_stages|um_ctas)", re.IGNORECASE)
"""Names of constants that may count blocks: NT, NUM_BLOCKS."""

Numbered = tuple[str, int, Term | None]
"""A size that no argument gives: name, value, and the symbol that stands for it."""


def explain(
    c: Contract, numbers: Numbers, numbered: list[Numbered], literals: set[int], tiles: set[int]
) -> None:
    """What may be behind numbers that no argument gives.

    `literals`: numbers in the kernel; `tiles`: constants that it goes over something by.
    """
    small = [(str(n), n) for n in sorted(literals) if 1 < n <= MOST_RATIO]
    more = Numbers(numbers.sizes, numbers.constants + small)
    for name, value, own in numbered:
        if value <= 1:
            _one(c, numbers, name, value, own, tiles)
        elif own is None:
            c.agree += [equal(term, value) for _, term in more.of_size(value, own)]
        else:
            _free(c, more, name, value, own, tiles)
    _computed(c, numbers)
    _products(c, numbers, numbered)


def _one(
    c: Contract, numbers: Numbers, name: str, value: int, own: Term | None, tiles: set[int]
) -> None:
    """A size of one: perhaps a number of blocks, which is one here."""
    if own is not None:
        for text, term, v, _ in numbers.quotients():
            if v == 1 and _over_tile(text, numbers, tiles):
                c.fact(f"{name} == {text}", equal(own, term), SHAPED)
        c.fact(f"{name} == {value}", equal(own, value), SHAPED)
    for _, term, v in numbers.sizes:
        blocks = [k for _, k in numbers.constants if k > 1 and k >= v]
        if v > 1 and blocks:
            c.agree.append(at_most(term, min(blocks)))


def _free(c: Contract, numbers: Numbers, name: str, value: int, own: Term, tiles: set[int]) -> None:
    """A size that is a number of its own, unless something explains it."""
    found = numbers.of_size(value, own)
    if value > FEW:
        for text in list(numbers.derived(value, tiles))[:MOST_DERIVED]:
            c.fact(f"{name} == {value} ({text})", equal(own, value), SHAPED)
    for text, term in found:
        level = SHAPED if value > FEW or _over_tile(text, numbers, tiles) else ACCIDENT
        if level == SHAPED and _SUM.search(text):
            level = COINCIDENT
        c.fact(f"{name} == {text}", equal(own, term), level)
    if value <= FEW:
        # A constant of the kernel, if nothing else: two halves, three channels.
        counted = any(own.parts.keys() & {(a,) for a in g.atoms()} for g in c.grid)
        c.fact(f"{name} == {value}", equal(own, value), ACCIDENT if counted else COINCIDENT)
    elif found:
        c.guessed -= {a for a in own.atoms() if isinstance(a, Symbol)}


def _products(c: Contract, numbers: Numbers, numbered: list[Numbered]) -> None:
    """Sizes that are one number times another, neither of which anything else gives: groups and
    what is in one, heads and their size."""
    free = [(n, own, v) for n, v, own in numbered if own is not None and v > 1]
    for name, term, value in numbers.sizes:
        found = [
            (n, t, m, u)
            for (n, t, v), (m, u, w) in combinations(free, 2)
            if v * w == value > LEAST_PRODUCT and t is not u and t * u is not term
        ]
        for n, t, m, u in found[:MOST_DERIVED]:
            c.fact(f"{name} == {n} * {m}", equal(term, t * u), SHAPED)


def _over_tile(text: str, numbers: Numbers, tiles: set[int]) -> bool:
    """Whether a reading is a number of blocks that the kernel goes over."""
    return any(text.endswith(f", {k})") for k, v in numbers.constants if v in tiles)


def _computed(c: Contract, numbers: Numbers) -> None:
    """Constants that the host has computed of arguments: numbers of blocks, lengths."""
    for k, v in numbers.constants:
        if v <= 1 or not COUNTS.match(k):
            continue
        found = [(n, t) for n, t, q, _ in numbers.quotients() if q == v and k not in n]
        for text, term in found[:2]:
            c.fact(f"{text} == {v} ({k})", equal(term, v), SHAPED)
            c.agree.append(equal(term, v))
    for name, tensor in c.tensors.items():
        assert tensor.argument is not None
        value = length_of(tensor.argument.shape, tensor.argument.strides)
        same = [k for k, v in numbers.constants if v == value > FEW]
        if same and len(tensor.shape) > 1:
            c.fact(f"len({name}) == {value} ({same[0]})", equal(tensor.length, value), SHAPED)


def relate(c: Contract, numbers: Numbers, numbered: list[Numbered], tiles: set[int]) -> None:
    """Order, ratios and multiples among sizes and constants, as the launch has them."""
    sizes = list({t: (n, t, v) for n, t, v in reversed(numbers.sizes)}.values())
    constants = sorted({v: k for k, v in numbers.constants if v > 1}.items())
    for name, term, value in sizes:
        for v, k in constants:
            if value % v == 0:
                c.fact(f"{name} % {v} == 0 ({k})", equal(modulo(term, as_term(v)), 0), SHAPED)
        # A block that holds a whole row is its size rounded up; what is gone over by blocks has
        # any number of them.
        for v, k in constants:
            level = ACCIDENT if v in tiles else SHAPED
            if v == value:
                c.fact(f"{name} == {v} ({k})", equal(term, v), level)
            elif v == 1 << (value - 1).bit_length():
                c.fact(f"{name} <= {v} ({k})", at_most(term, v), level)
        for v, k in [e for e in constants if e[0] < value][-1:]:
            c.fact(f"{name} >= {v} ({k})", at_most(v, term), SHAPED)
    sizes.sort(key=lambda e: e[2])
    for (n, t, v), (m, u, w) in pairwise(sizes):
        if v == w:
            c.fact(f"{n} == {m}", equal(t, u), ACCIDENT)
        else:
            c.fact(f"{n} < {m}", less(t, u), ACCIDENT)
    free = {own for _, _, own in numbered if own is not None}
    for (n, t, v), (m, u, w) in combinations(sizes[:24], 2):
        if FEW < v < w and w % v == 0 and w // v <= MOST_RATIO:
            ratio = w // v
            level = COINCIDENT if t in free or u in free else ACCIDENT
            c.fact(f"{m} == {ratio} * {n}", equal(u, t * ratio), level)
