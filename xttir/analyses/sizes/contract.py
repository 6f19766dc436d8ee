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
from itertools import pairwise
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType

from xttir.analyses.sizes import relations
from xttir.analyses.sizes.covered import Limit, limits_of_ids
from xttir.analyses.sizes.evaluate import Descriptor
from xttir.analyses.sizes.explain import Numbers, blocks_of_ids, counted_axes, lengths, tiles_of
from xttir.analyses.sizes.matching import (
    axes_used,
    distinct,
    integer_constants,
    is_akin,
    length_of,
    made_unique,
    overlap,
    same_view,
    tensor_of,
    view,
)
from xttir.analyses.sizes.relations import FEW
from xttir.analyses.sizes.solver import ACCIDENT, GENERAL, SHAPED, Fact
from xttir.analyses.sizes.terms import (
    Cond,
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

FEW_PROGRAMS = 4096
"""Programs along an axis whose number nothing explains, where offsets would wrap for more."""

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
    agree: list[Cond] = field(default_factory=list)
    """What else explains the numbers of the launch: a launch that refutes must agree with all."""
    readings: int = 1
    """Ways to read the grid."""
    others: list[Contract] = field(default_factory=list)
    guessed: set[Symbol] = field(default_factory=set)
    data: dict[str, np.ndarray] = field(default_factory=dict)
    """uint8[...] by tensor: the integers that the launch has in it."""
    declared: set[str] = field(default_factory=set)
    """Tensors of which words say what integers are in them."""
    short: dict[str, Fact] = field(default_factory=dict)
    """By tensor: that it has at most `MOST_ELEMENTS`."""
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
    for reading in range(1, min(first.readings, MAX_READINGS)):
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
        self.tiles: set[int] = set()
        """Constants that the kernel goes over something by."""
        self.numbered: list[tuple[str, int, Term | None]] = []
        """Sizes that no argument gives: name, value, and the symbol that stands for it."""

    def build(self) -> Contract:
        c = self.contract
        parameters = self.function.body.blocks[0].args
        names = c.names = made_unique([a.name for a in self.launch.arguments])
        arguments = list(zip(names, self.launch.arguments, parameters, strict=True))
        self.literals = integer_constants(self.function)
        self.tiles = tiles_of(self.function)
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
                if self.numbers[name][0] > 1:
                    self.numbered.append((name, self.numbers[name][0], free))
        self.sizes += [(n, t, self.numbers[n][0]) for n, t in c.scalars.items()]
        self._grid()
        for n, (name, argument, parameter) in enumerate(arguments):
            c.parameters.append(self._parameter(n, name, argument, parameter.type, c.bases))
        numbers = Numbers(distinct(self.sizes), list(self._constants()))
        relations.explain(c, numbers, self.numbered, self.literals, self.tiles)
        relations.relate(c, numbers, self.numbered, self.tiles)
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
            if value == 1 and self._one_block():
                # One block of something here, and any number in other launches.
                symbol = self._symbol(name, value, INT32_MAX)
                c.agree.append(equal(term_of(symbol), value))
                self.numbered.append((name, value, term_of(symbol)))
                return term_of(symbol)
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
        self.sizes.append((name, term_of(symbol), value))
        self.numbered.append((name, value, term_of(symbol)))
        return term_of(symbol)

    def _one_block(self) -> bool:
        """Whether an argument is a size that one of the kernel's blocks holds."""
        return any(
            1 < value <= max(self.tiles, default=0)
            for name, (value, _) in self.numbers.items()
            if name in self.used and not self._is_stride(name)
        )

    def _is_stride(self, name: str) -> bool:
        """Whether an argument is called as a stride is: `stride_am`, `sa` of `a`, or `sam` next to
        `sak`."""
        if "stride" in name.lower():
            return True
        if name[:1] == "s" and name[1:] in self.contract.names:
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
            if value == 0:
                # A view that repeats its rows.
                zero = [n for n, (v, _) in self.numbers.items() if v == 0]
                akin = [n for n in zero if is_akin(name, n)]
                self._unify(akin or [n for n in zero if self._is_stride(n)], as_term(0), "0")
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
        """A number that no argument gives. It may depend on one in a way that this launch does not
        show: `_explain` looks for such ways."""
        self.contract.text.append(f"{name} == {value}{why}")
        self.numbered.append((name, value, None))
        return as_term(value)

    def _constants(self) -> Iterator[tuple[str, int]]:
        for name, value in self.launch.constants.items():
            if isinstance(value, int) and not isinstance(value, bool):
                yield name, value

    def _grid(self) -> None:
        """What explains the numbers of the grid; any number where nothing does."""
        c = self.contract
        terms: list[Term] = []
        asked, counted = axes_used(self.function), counted_axes(self.function)
        blocks = blocks_of_ids(self.function)
        parameters = zip(c.names, self.function.body.blocks[0].args, strict=True)
        covered = limits_of_ids(
            self.function,
            {p: (c.scalars[n], self.numbers[n][0]) for n, p in parameters if n in self.numbers},
        )
        limited = {axis for axis, found in covered.items() if any(b > 1 for b, _, _ in found)}
        for axis, value in enumerate(self.launch.grid):
            name = f"grid[{axis}]"
            limit = INT32_MAX if axis == 0 else 65535
            counts = blocks.get(axis, set()) & {v for _, v in self._constants()}
            readings = self._covering(value, covered.get(axis, []))
            if axis not in limited and any(v == value for n, _, v in self.sizes if n in self.used):
                # An index of rows, with their length, rather than of blocks.
                counts = set[int]()
            likely = {term for _, term in readings}
            readings += [r for r in self._readings(value, counts) if r[1] not in likely]
            fixed = self._made_of(value, counts, bool(readings))
            # An id that counts no blocks rather goes over sizes that are fixed.
            if value == 1 or not readings or (fixed and not counts and "cdiv" in readings[0][0]):
                if axis not in asked:
                    c.text.append(f"{name} == {value}")
                    terms.append(as_term(value))
                    continue
                # Any number of programs; this one, or what explains it, where that is needed.
                symbol = self._symbol(name, value, limit)
                if axis in counted:
                    c.guessed.add(symbol)
                term = term_of(symbol)
                for text, other in readings[: value == 1]:
                    c.fact(f"{name} == {text}", equal(term, other), SHAPED)
                c.agree += [equal(term, other) for _, other in readings]
                if value <= FEW_PROGRAMS:
                    c.fact(f"{name} <= {FEW_PROGRAMS}", at_most(term, FEW_PROGRAMS), SHAPED)
                text = f"{name} == {value}{fixed and f' ({fixed})'}"
                c.fact(text, equal(term, value), SHAPED if fixed else ACCIDENT)
                terms.append(term)
                continue
            text, term = readings[min(self.reading, len(readings) - 1)]
            c.readings = max(c.readings, len(readings))
            c.agree += [equal(term, other) for _, other in readings if other != term]
            c.text.append(f"{name} == {text}")
            c.fact("the grid is one that a device accepts", at_most(term, limit), GENERAL)
            terms.append(term)
        c.grid = (terms[0], terms[1], terms[2])

    def _made_of(self, value: int, blocks: set[int], read: bool) -> str:
        """How a grid axis is made of constants and of sizes that are fixed; "" if it is not.

        `blocks`: constants that the kernel multiplies the id with; `read`: whether an argument may
        be what they are blocks of.
        """
        dimensions = [(n, v) for n, v, own in self.numbered if own is None and ".shape" in n]
        if value > 1:
            numbers = Numbers([], list(self._constants()))
            return numbers.of_constants(value, dimensions)
        held = [
            f"cdiv({n}, {k})"
            for n, v in dimensions
            for k, b in self._constants()
            if b in blocks and FEW < v <= b
        ]
        several = {t.name for t in self.contract.tensors.values() if len(t.shape) > 1}
        ones = [n for n, v in dimensions if v == 1 and n.partition(".shape")[0] in several]
        return next(iter([*held, *([] if read else ones)]), "")

    def _covering(self, value: int, limits: list[Limit]) -> list[tuple[str, Term]]:
        """Numbers of blocks that the kernel's own limits have, where they are that of an axis."""
        names = {v: k for k, v in reversed(list(self._constants()))}
        found: dict[Term, str] = {}
        for block, limit, number in limits:
            if -(-number // block) == value > 1 and (block == 1 or block in names):
                text = text_of(limit)
                name = text if block == 1 else f"cdiv({text}, {names[block]})"
                found.setdefault(floor_div(limit + (block - 1), as_term(block)), name)
        return [(name, term) for term, name in found.items()]

    def _readings(self, value: int, blocks: set[int]) -> list[tuple[str, Term]]:
        """Terms of the arguments that have the value of a grid axis, the likeliest first."""
        numbers = Numbers(distinct(self.sizes), list(self._constants()))
        if value == 1:
            wanted = {k for k, b in numbers.constants if b in blocks}
            return [
                (n, t)
                for n, t, v, _ in numbers.quotients()
                if v == 1 and any(n.endswith(f", {k})") for k in wanted)
            ]
        tensors = [
            (t.name, t.length, t.argument.shape)
            for t in self.contract.tensors.values()
            if t.argument is not None
            and length_of(t.argument.shape, t.argument.strides) == math.prod(t.argument.shape)
        ]
        return numbers.of_grid(value, blocks, lengths(tensors))

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
            self.contract.fact(f"{name} % {d} == 0", equal(modulo(term, as_term(d)), 0), SHAPED)

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
    out: list[Fact] = []
    for atom, name in atoms.items():
        value = term_of(atom)
        level = SHAPED if contract.measured and name not in contract.declared else GENERAL
        for bound, text in contract.below.get(name, []):
            out.append(Fact(text, less(value, bound), level))
        for bound, text in contract.above.get(name, []):
            out.append(Fact(text, at_most(bound, value), level))
    return out
