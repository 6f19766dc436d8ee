"""What is known of a kernel's arguments: which number is whose size or stride, and how they relate.

A contract comes from a captured launch by matching numbers, or from text (`assume`). Sizes and
strides that an argument equals become that argument; what several arguments equal and nothing tells
apart is taken to be one number, which narrows the claim and never guesses. What else holds of the
launch (order, multiples) is kept as facts of a narrower level, and proofs name those they needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType

from xttir.analyses.sizes.evaluate import Descriptor
from xttir.analyses.sizes.matching import (
    axes_used,
    distinct,
    integer_constants,
    is_akin,
    length_of,
    made_unique,
    overlap,
    products_of,
    resemblance,
    same_view,
    tensor_of,
    view,
)
from xttir.analyses.sizes.solver import Fact
from xttir.analyses.sizes.terms import (
    Opaque,
    Symbol,
    Term,
    Unknown,
    as_term,
    at_most,
    equal,
    floor_div,
    less,
    modulo,
    term_of,
    text_of,
)
from xttir.analyses.sizes.tiles import Address, Tile, limits
from xttir.dialects import tt
from xttir.interp.launch import Argument, DescriptorArg, Launch, ScalarArg, TensorArg
from xttir.interp.types import numpy_dtype

GENERAL, SHAPED = 0, 1
"""Levels of facts: of every launch that the contract describes; order and multiples that hold in
this launch, and may be an accident of it."""

FEW = 4
"""Sizes up to which one that nothing explains may be a constant of the kernel."""

MOST_RATIO = 16
"""Ratio of two sizes that is taken to be more than an accident."""

INT32_MAX = (1 << 31) - 1

MOST_ELEMENTS = (1 << 31) - (1 << 16)
"""Elements of a tensor, unless the launch or words say otherwise: offsets have 32 bits as a rule,
and the last block reaches past the end."""


@dataclass(eq=False)
class TensorFacts:
    """A tensor argument. `length`: its elements, up to the last one that the view owns."""

    name: str
    shape: tuple[Term, ...]
    strides: tuple[Term, ...]
    length: Term
    argument: TensorArg | None = None
    bounded: bool = True
    """Whether it is known how long the tensor is, so that bounds can be asked about."""


@dataclass(eq=False)
class Contract:
    """See the module's docstring.

    `parameters`: tiles and descriptors for the kernel's parameters. `below` and `above`: bounds of
    the integers in a tensor (`measured`: those of a launch), each with its words. `overlapping`:
    pairs of tensors that share memory in a way that is not modelled. `text`: the contract, for
    people. `values`: the launch's own numbers. `guessed`: symbols of which the launch does not say
    what determines them.
    """

    parameters: list[Any]
    grid: tuple[Term, Term, Term]
    facts: list[Fact] = field(default_factory=list)
    tensors: dict[str, TensorFacts] = field(default_factory=dict)
    scalars: dict[str, Term] = field(default_factory=dict)
    below: dict[str, list[tuple[Term, str]]] = field(default_factory=dict)
    above: dict[str, list[tuple[Term, str]]] = field(default_factory=dict)
    overlapping: set[frozenset[str]] = field(default_factory=set)
    launch: Launch | None = None
    values: dict[Symbol, int] = field(default_factory=dict)
    measured: bool = False
    certain: bool = True
    """Whether the arguments explain every size and the grid, the latter in one way only."""
    others: list[Contract] = field(default_factory=list)
    guessed: set[Symbol] = field(default_factory=set)
    data: dict[str, np.ndarray] = field(default_factory=dict)
    """uint8[...] by tensor: the integers that the launch has in it."""
    declared: set[str] = field(default_factory=set)
    """Tensors of which words say what integers are in them."""
    short: dict[str, Fact] = field(default_factory=dict)
    """By tensor: that it has at most `MOST_ELEMENTS`."""
    narrow: list[str] = field(default_factory=list)
    """Parts of the contract that may well be an accident of the launch: a grid of one program."""
    text: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the arguments, in order, made unique."""
    bases: dict[str, str] = field(default_factory=dict)
    """By argument: the tensor that it is."""

    def fact(self, text: str, condition: Any, level: int) -> None:
        if condition is not True:
            self.facts.append(Fact(text, condition, level))


MOST_DATA = 1 << 26
"""Bytes of integers that are kept of one tensor."""

MAX_READINGS = 4
"""Ways to read the grid that are considered."""


def from_launch(launch: Launch, function: tt.FuncOp) -> Contract:
    """The contract of a launch, by its numbers; `others` are other readings of the same."""
    first = _FromLaunch(launch, function).build()
    seen = {first.grid}
    for reading in range(1, MAX_READINGS) if not first.certain else ():
        other = _FromLaunch(launch, function, reading).build()
        if other.grid not in seen:
            seen.add(other.grid)
            first.others.append(other)
    return first


class _FromLaunch:
    def __init__(self, launch: Launch, function: tt.FuncOp, reading: int = 0):
        self.launch = launch
        self.reading = reading
        self.function = function
        one = as_term(1)
        self.contract = Contract([], (one, one, one), launch=launch)
        self.numbers: dict[str, tuple[int, int]] = {}
        """Integer arguments: value and bits."""
        self.sizes: list[tuple[str, Term, int]] = []
        """Names, terms and values of everything that may be a size."""
        self.used: set[str] = set()
        """Arguments that the kernel looks at."""
        self.literals: set[int] = set()
        """Numbers in the kernel."""

    def build(self) -> Contract:
        c = self.contract
        parameters = self.function.body.blocks[0].args
        names = c.names = made_unique([a.name for a in self.launch.arguments])
        arguments = list(zip(names, self.launch.arguments, parameters, strict=True))
        self.literals = integer_constants(self.function)
        for name, argument, parameter in arguments:
            if parameter.uses:
                self.used.add(name)
            ty = parameter.type
            if not isinstance(argument, ScalarArg) or not isinstance(ty, IntegerType):
                continue
            if ty.width.data > 1:
                self.numbers[name] = (int(argument.value), ty.width.data)
        owners = self._owners(arguments)
        shapes = {name: self._shape(name, tensor) for name, tensor in owners}
        for name, tensor in owners:
            self._tensor(name, tensor, shapes[name])
        for name in self.numbers:
            inner = name.rpartition(".")[0].endswith(".stride") and self.numbers[name][0] == 1
            if name not in c.scalars and inner:
                # The inner stride of a descriptor.
                c.scalars[name] = as_term(1)
            elif name not in c.scalars:
                free = self._free(name)
                c.guessed |= {a for a in free.atoms() if isinstance(a, Symbol)}
        self.sizes += [(n, t, self.numbers[n][0]) for n, t in c.scalars.items()]
        self._grid()
        for n, (name, argument, parameter) in enumerate(arguments):
            c.parameters.append(self._parameter(n, name, argument, parameter.type, c.bases))
        self._relations()
        for name, tensor in owners:
            self._data(name, tensor)
        c.text.append("sizes and integer arguments that are positive in the launch are so always")
        c.text.append("tensors of different arguments do not overlap")
        return c

    def _owners(self, arguments: list[tuple[str, Argument, Any]]) -> list[tuple[str, TensorArg]]:
        """The tensors among the arguments, each once."""
        owners: list[tuple[str, TensorArg]] = []
        c, bases = self.contract, self.contract.bases
        for name, argument, _ in arguments:
            tensor = tensor_of(argument)
            if tensor is None:
                continue
            same = next((n for n, t in owners if same_view(t, tensor)), None)
            bases[name] = same or name
            if same is not None:
                c.text.append(f"{name} is the same tensor as {same}")
                continue
            for n, t in owners:
                if overlap(t, tensor):
                    c.overlapping.add(frozenset((n, name)))
            owners.append((name, tensor))
        return owners

    def _symbol(self, name: str, value: int, high: int) -> Symbol:
        low = 1 if value >= 1 else 0 if value == 0 else -high - 1
        symbol = Symbol(name, low, high, True)
        self.contract.values[symbol] = value
        return symbol

    def _free(self, name: str) -> Term:
        """The argument is a number of its own."""
        value, bits = self.numbers[name]
        term = term_of(self._symbol(name, value, (1 << (bits - 1)) - 1))
        self.contract.scalars[name] = term
        return term

    def _shape(self, name: str, tensor: TensorArg) -> tuple[Term, ...]:
        return tuple(
            self._dimension(f"{name}.shape[{axis}]", value)
            for axis, value in enumerate(tensor.shape)
        )

    def _dimension(self, name: str, value: int) -> Term:
        """The size of a tensor: the argument that equals it, else a constant, else a symbol."""
        c = self.contract
        if value <= 1:
            return self._fixed(name, value, "")
        same = [n for n, (v, _) in self.numbers.items() if v == value and not self._is_stride(n)]
        if same:
            # What the kernel uses is more likely to be meant than what it does not look at.
            same.sort(key=lambda n: n not in self.used)
            term = c.scalars.get(same[0])
            if term is None:
                term = self._free(same[0])
            self._unify(same[1:], term, same[0])
            c.text.append(f"{name} == {same[0]}")
            if value <= FEW or (same[0] not in self.used and value in self.literals):
                self._doubt(same[0], term, value)
            return term
        constants = [n for n, v in self._constants() if v == value]
        if constants:
            return self._fixed(name, value, f" ({constants[0]})")
        axis = name.rpartition("[")[2]
        for other, term, number in self.sizes:
            if number == value and (value > FEW or other.endswith(f"[{axis}")):
                c.text.append(f"{name} == {other}")
                return term
        symbol = self._symbol(name, value, INT32_MAX)
        c.guessed.add(symbol)
        if value <= FEW and value not in self.launch.grid:
            c.fact(f"{name} == {value}", equal(term_of(symbol), value), SHAPED)
        self.sizes.append((name, term_of(symbol), value))
        return term_of(symbol)

    def _is_stride(self, name: str) -> bool:
        """Whether an argument is called as a stride is: `stride_am`, or `sam` next to `sak`."""
        if "stride" in name.lower():
            return True
        return (
            len(name) == 3
            and name[0] == "s"
            and any(
                len(other) == 3 and other[:2] == name[:2] and other != name
                for other in self.numbers
            )
        )

    def _doubt(self, name: str, term: Term, value: int) -> None:
        """The agreement of two numbers may be an accident, or the kernel has the number in it."""
        c = self.contract
        c.guessed |= {a for a in term.atoms() if isinstance(a, Symbol)}
        if value in self.literals:
            c.fact(f"{name} == {value} (a number in the kernel)", equal(term, value), SHAPED)

    def _unify(self, names: list[str], term: Term, meaning: str) -> None:
        """Arguments that are this term, as far as the launch tells."""
        for name in names:
            if name not in self.contract.scalars:
                self.contract.scalars[name] = term
                self.contract.text.append(f"{name} == {meaning}")

    def _tensor(self, name: str, tensor: TensorArg, dims: tuple[Term, ...]) -> None:
        c = self.contract
        shape, strides = tensor.shape, tensor.strides
        steps: list[Term] = []
        for axis, value in enumerate(strides):
            inner = as_term(1)
            for d in dims[axis + 1 :]:
                inner = inner * d
            packed = value == math.prod(shape[axis + 1 :])
            steps.append(self._stride(name, axis, value, inner if packed else None))
        size = length_of(shape, strides)
        length = as_term(0)
        if size and math.prod(shape) == size:
            length = as_term(1)
            for d in dims:
                length = length * d
            c.text.append(f"{name} has {text_of(length)} elements, without gaps")
        elif size:
            length = as_term(1)
            for d, s in zip(dims, steps, strict=True):
                length = length + (d - 1) * s
            c.text.append(f"the last element of {name} is at {text_of(length - 1)}")
        if size <= MOST_ELEMENTS:
            fact = Fact(
                f"{name} has at most 2**31 - 2**16 elements", at_most(length, MOST_ELEMENTS)
            )
            if fact.condition is not True:
                c.short[name] = fact
                c.facts.append(fact)
        if len(shape) > 1 and size == math.prod(shape):
            self._unify(
                [n for n, (v, _) in self.numbers.items() if v == size], length, f"len({name})"
            )
        order = sorted((a for a in range(len(shape)) if shape[a] > 1), key=lambda a: strides[a])
        for inside, outside in pairwise(order):
            if strides[outside] >= strides[inside] * shape[inside]:
                c.fact(
                    f"rows of {name} do not overlap",
                    at_most(dims[inside] * steps[inside], steps[outside]),
                    GENERAL,
                )
        c.tensors[name] = TensorFacts(name, dims, tuple(steps), length, tensor)

    def _stride(self, name: str, axis: int, value: int, packed: Term | None) -> Term:
        c = self.contract
        if value in (0, 1):
            if packed is None:
                c.text.append(f"{name}.stride({axis}) == {value}")
            return as_term(value)
        same = [n for n, (v, _) in self.numbers.items() if v == value]
        same = (
            [n for n in same if is_akin(name, n)] or [n for n in same if self._is_stride(n)] or same
        )
        if packed is not None:
            self._unify(same, packed, text_of(packed))
            return packed
        if same:
            term = c.scalars.get(same[0])
            if term is None:
                term = self._free(same[0])
            self._unify(same[1:], term, same[0])
            c.text.append(f"{name}.stride({axis}) == {same[0]}")
            return term
        return self._fixed(f"{name}.stride({axis})", value, "")

    def _fixed(self, name: str, value: int, why: str) -> Term:
        """A number that no argument gives: it may depend on one in a way that the launch does not
        show, so that only the launch itself can refute."""
        self.contract.certain = False
        self.contract.text.append(f"{name} == {value}{why}")
        return as_term(value)

    def _constants(self) -> Iterator[tuple[str, int]]:
        for name, value in self.launch.constants.items():
            if isinstance(value, int) and not isinstance(value, bool):
                yield name, value

    def _grid(self) -> None:
        """What explains the numbers of the grid; any number where nothing does."""
        c = self.contract
        terms: list[Term] = []
        asked = axes_used(self.function)
        for axis, value in enumerate(self.launch.grid):
            explained = self._explanation(value) if value > 1 else None
            if explained is None and axis in asked:
                if value == 1:
                    c.narrow.append(f"grid[{axis}] == 1")
                terms.append(self._fixed(f"grid[{axis}]", value, ""))
                continue
            if explained is None:
                c.text.append(f"grid[{axis}] == {value}")
                terms.append(as_term(value))
                continue
            text, term = explained
            c.text.append(f"grid[{axis}] == {text}")
            limit = INT32_MAX if axis == 0 else 65535
            c.fact("the grid is one that a device accepts", at_most(term, limit), GENERAL)
            terms.append(term)
        c.grid = (terms[0], terms[1], terms[2])

    def _explanation(self, value: int) -> tuple[str, Term] | None:
        """A term of the arguments that has this value: the simplest, with names that agree.

        Where several have it, the contract is not `certain`: it may speak of launches that the
        program never makes.
        """
        sizes = distinct(self.sizes)
        units = [(n, t, v, 0) for n, t, v in sizes]
        quotients = self._quotients(sizes)
        flat = self._quotients(
            [
                (f"len({t.name})", t.length, n)
                for t in self.contract.tensors.values()
                if t.argument is not None
                for n in [length_of(t.argument.shape, t.argument.strides)]
                if len(t.shape) > 1 and n > 1
            ]
        )
        factors = [e for e in units + quotients if e[2] > 1 and value % e[2] == 0]
        found = [
            [(n, t) for n, t, v, _ in units if v == value],
            [(n, t) for n, t, v, _ in quotients if v == value],
            products_of(factors, 2, value),
            products_of(factors, 3, value),
            [(n, t) for n, t, v, _ in flat if v == value],
        ]
        readings = {t: (n, t) for group in reversed(found) for n, t in reversed(group)}
        ordered = list(readings.values())[::-1]
        if len(ordered) > 1:
            self.contract.certain = False
        return ordered[min(self.reading, len(ordered) - 1)] if ordered else None

    def _quotients(self, sizes: list[tuple[str, Term, int]]) -> list[tuple[str, Term, int, int]]:
        """Sizes over constants, rounded up; those whose names agree come first."""
        out = [
            (f"cdiv({n}, {k})", floor_div(t + (b - 1), as_term(b)), -(-v // b), resemblance(n, k))
            for n, t, v in sizes
            for k, b in self._constants()
            if b > 1 and v > 1
        ]
        return sorted(out, key=lambda e: -e[3])

    def _parameter(
        self, n: int, name: str, argument: Argument, ty: Any, bases: dict[str, str]
    ) -> Any:
        c = self.contract
        if isinstance(argument, TensorArg):
            # A pointer to elements of another size counts in other units: not followed.
            size = numpy_dtype(ty.pointee_type).itemsize  # pyright: ignore[reportAttributeAccessIssue]
            base = bases[name] if size == argument.dtype.itemsize else ""
            address = Address(base, as_term(0))
            return Tile((), lambda _: address)
        if isinstance(argument, DescriptorArg):
            base = Address(bases[name], as_term(0))
            shape = tuple(
                c.scalars.get(f"{name}.shape.{i}", as_term(v)) for i, v in enumerate(argument.shape)
            )
            strides = tuple(
                c.scalars.get(f"{name}.stride.{i}", as_term(v))
                for i, v in enumerate(argument.strides)
            )
            return Descriptor(base, shape, strides, argument.block_shape)
        if isinstance(ty, tt.PointerType):
            address = Address("", as_term(int(argument.value)))
            return Tile((), lambda _: address)
        if isinstance(ty, IntegerType):
            if ty.width.data == 1:
                key = Unknown(("argument", name), name)
                return Tile((), lambda _: key)
            term = c.scalars[name]
            self._divisible(n, name, term)
            low, high = limits(ty)
            c.fact(f"{name} fits its type", at_most(term, high), GENERAL)
            c.fact(f"{name} fits its type", at_most(low, term), GENERAL)
            return Tile((), lambda _: term)
        return Tile((), lambda _: None)

    def _divisible(self, n: int, name: str, term: Term) -> None:
        attributes = self.function.arg_attrs
        if attributes is None or n >= len(attributes.data):
            return
        divisor = attributes.data[n].data.get("tt.divisibility")
        if isinstance(divisor, IntegerAttr) and divisor.value.data > 1:
            d = divisor.value.data
            self.contract.fact(f"{name} % {d} == 0", equal(modulo(term, as_term(d)), 0), GENERAL)

    def _relations(self) -> None:
        """Order, ratios and multiples among sizes and constants, as the launch has them."""
        c = self.contract
        sizes = list({t: (n, t, v) for n, t, v in reversed(distinct(self.sizes))}.values())
        for name, term, value in sizes:
            constants = sorted({v: k for k, v in self._constants() if v > 1}.items())
            for v, k in constants:
                if value % v == 0:
                    c.fact(f"{name} % {v} == 0 ({k})", equal(modulo(term, as_term(v)), 0), SHAPED)
            # A block that holds a whole row is its size rounded up.
            for v, k in [e for e in constants if value <= e[0] < 2 * value][:1]:
                if v == value:
                    c.fact(f"{name} == {v} ({k})", equal(term, v), SHAPED)
                else:
                    c.fact(f"{name} <= {v} ({k})", at_most(term, v), SHAPED)
            for v, k in [e for e in constants if e[0] < value][-1:]:
                c.fact(f"{name} >= {v} ({k})", at_most(v, term), SHAPED)
        sizes = sorted(sizes, key=lambda e: e[2])
        for (n, t, v), (m, u, w) in pairwise(sizes):
            if v == w:
                c.fact(f"{n} == {m}", equal(t, u), SHAPED)
            else:
                c.fact(f"{n} < {m}", less(t, u), SHAPED)
        for (n, t, v), (m, u, w) in combinations(sizes[:24], 2):
            if FEW < v < w and w % v == 0 and w // v <= MOST_RATIO:
                ratio = w // v
                c.fact(f"{m} == {ratio} * {n}", equal(u, t * ratio), SHAPED)

    def _data(self, name: str, tensor: TensorArg) -> None:
        """Bounds of integer data, as the launch has them."""
        if tensor.dtype.kind not in "iu" or math.prod(tensor.shape) == 0:
            return
        values = view(tensor)
        size = length_of(tensor.shape, tensor.strides) * tensor.dtype.itemsize
        if size <= MOST_DATA:
            self.contract.data[name] = tensor.storage.bytes[
                tensor.offset : tensor.offset + size
            ].copy()
        low, high = int(values.min()), int(values.max())
        c = self.contract
        c.measured = True
        if low >= 0:
            text = f"values of {name} are at least 0"
            c.above.setdefault(name, []).append((as_term(0), text))
        above = sorted((v, n, t) for n, t, v in distinct(self.sizes) if v > high and v > 1)
        for _, n, t in above[:1]:
            c.below.setdefault(name, []).append((t, f"values of {name} are less than {n}"))


def data_facts(contract: Contract, atoms: dict[Opaque, str]) -> list[Fact]:
    """Facts about the loaded integers `atoms` (each with the tensor it comes from)."""
    level = SHAPED if contract.measured else GENERAL
    out: list[Fact] = []
    for atom, name in atoms.items():
        value = term_of(atom)
        for bound, text in contract.below.get(name, []):
            out.append(Fact(text, less(value, bound), level))
        for bound, text in contract.above.get(name, []):
            out.append(Fact(text, at_most(bound, value), level))
    return out
