"""Inputs to validate a pass with: the user's launches, and edge cases made for the kernel.

What decides control flow and masks (`slices`) takes the values that miscompiled loops trip over:
0, 1, -1, small and negative numbers, and the constants it is compared with; every pair of values of
two arguments occurs. The rest stays as the user has it, or is drawn. Buffers are generous at first:
the source is run, and then they are cut to what it touches, so that a target that reaches further
leaves them. A case on which the source itself is undefined says nothing and is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported
from xttir.dialects import scf, tt
from xttir.frontends.module_launch.signature import Parameter, parameters
from xttir.interp.launch import (
    Argument,
    DescriptorArg,
    Launch,
    ScalarArg,
    Storage,
    TensorArg,
    ValueArg,
)
from xttir.interp.types import element_type, is_float, is_float_type, numpy_dtype, shape_of
from xttir.refine import unusual
from xttir.refine.outcome import Outcome
from xttir.refine.slices import Decisions, decisions
from xttir.refine.widening import widened
from xttir.refine.world import Case, moved_to, region_of, tensor_of, touched, with_tensor

SMALL = (2, 0, 1, -1)
"""What scalars that decide something are set to, after the natural value."""

LESS = (3, -3, 5)
"""What they are set to after the numbers that they are compared with."""

FEW, ROUNDS = 5, 7
"""Iterations of loops: more than a pipeline has stages; more than twice round a ring of three, so
that parities of its phases return."""

MAX_ROUNDS = 16
"""Iterations at most of a loop whose bound is set to a constant that it is compared with."""

BLOCKS = 16
"""Blocks that a scalar reaches over in some cases."""

MAX_NATURAL = 1 << 10
"""The greatest block that a scalar is made to reach over by itself."""

MAX_VALUES = 12
"""Values tried for one scalar."""

MAX_EXTENT = 1 << 12
"""The greatest extent of a tensor behind a descriptor."""

LIMIT = 32
"""Cases made for one kernel, unless asked for more."""

LEAST = 8
"""Cases drawn at least, for what depends on the contents of memory alone."""

DATA, INDICES, SIZES = "data", "indices", "sizes"
"""What integers in memory are for: nothing but data, addresses, or deciding something."""

BEFORE, AFTER = 1 << 12, 1 << 18
"""Elements of a drawn buffer before and after the address that the kernel gets."""

DRAWN = 32_749
"""Elements after which drawn contents repeat: a prime, so that blocks of tensors differ."""

GRID = (3, 2, 2)
LONG, LONGER = 9, 130
"""Programs along the axes of a drawn grid, and along one of them alone (where they do little)."""

ROW = 256
"""What strides are set to."""
STRIDES = (64, 256, 1024, 4096)
"""What some of them are set to in every second case: planes lie further apart than rows."""

_FIRST_ADDRESS = 0x7F0000000000
_GAP = 1 << 21
"""Drawn buffers stand far apart, at multiples of this."""


def case_of(launch: Launch, label: str = "") -> Case:
    """The inputs of a launch, as its memory is now (copied)."""
    storages: dict[int, Storage] = {}
    for argument in launch.arguments:
        tensor = tensor_of(argument)
        if tensor is not None:
            _copy_into(storages, tensor.storage)
    arguments = tuple(moved_to(a, storages) for a in launch.arguments)
    if launch.memory is not None:
        for storage in launch.memory():
            _copy_into(storages, storage)
    label = label or f"launch {launch.index}"
    return Case(label, launch.grid, arguments, tuple(storages.values()), True, False, launch)


def _copy_into(storages: dict[int, Storage], storage: Storage) -> None:
    if id(storage) not in storages:
        valid = None if storage.valid is None else storage.valid.copy()
        storages[id(storage)] = Storage(
            storage.bytes.copy(), storage.address, valid, storage.created, True, storage.poison
        )


def cut(case: Case, outcome: Outcome) -> Case:
    """`case` with every buffer cut to the bytes that a run of it touched."""
    storages: dict[int, Storage] = {}
    ranges: dict[int, tuple[int, int]] = {}
    for n, storage in enumerate(case.memory):
        low, high = touched([outcome.read[n], outcome.written[n]])
        tensors = case.tensors(n)
        if low < high and tensors:
            low = min([low, *(t.offset for t in tensors)])
            size = max(t.dtype.itemsize for t in tensors)
            low -= low % size
        ranges[id(storage)] = (low, high)
        valid = None if storage.valid is None else storage.valid[low:high]
        storages[id(storage)] = Storage(
            storage.bytes[low:high], storage.address + low, valid, storage.created
        )

    def tightened(argument: Argument) -> Argument:
        tensor = tensor_of(argument)
        if tensor is None:
            return argument
        low, high = ranges[id(tensor.storage)]
        new = replace(tensor, storage=storages[id(tensor.storage)], offset=tensor.offset - low)
        return with_tensor(argument, region_of(new, 0, high - low))

    arguments = tuple(tightened(a) for a in case.arguments)
    return replace(case, arguments=arguments, memory=tuple(storages.values()), tight=True)


def trimmed(outcome: Outcome, case: Case, tight: Case) -> Outcome:
    """The outcome of a run of `case` as one of `tight`, which `cut` made of it."""
    storages: list[Storage] = []
    read: list[np.ndarray] = []
    written: list[np.ndarray] = []
    for n, (old, new) in enumerate(zip(case.memory, tight.memory, strict=True)):
        low = new.address - old.address
        part = slice(low, low + new.bytes.size)
        after = outcome.storages[n]
        storages.append(replace(after, bytes=after.bytes[part], address=new.address))
        read.append(outcome.read[n][part])
        written.append(outcome.written[n][part])
    return replace(outcome, storages=storages, read=read, written=written)


@dataclass
class Generator:
    """Makes cases for one kernel. `base`: a case of the user's to vary, or None to draw all.

    `seed` decides what is drawn; the same seed gives the same cases.
    """

    module: ModuleOp
    kernel: tt.FuncOp
    base: Case | None = None
    seed: int = 0
    last: tuple[ModuleOp, tt.FuncOp] | None = None
    """What passes have made of the kernel."""

    def __post_init__(self) -> None:
        self.parameters = parameters(self.kernel)
        if self.base is not None and len(self.base.arguments) == len(self.parameters):
            held = zip(self.parameters, self.base.arguments, strict=True)
            self.parameters = tuple(replace(p, name=a.name) for p, a in held)
        self.extents, self.strides = ({}, {}) if self.base else _numbers(self.parameters)
        self.decisions: Decisions = decisions(self.module, self.kernel)
        if self.last is not None:
            self.decisions.add(decisions(*self.last))

    def cases(self, limit: int = LIMIT) -> list[Case]:
        """At most `limit` cases, the plainest first."""
        axes = self._axes()
        names = list(axes)
        out: list[Case] = []
        if self.base is not None and limit:
            out += unusual.floats(self.base, self.seed)
            met = unusual.integers(self.base, self.decisions)
            # What is done then may be a loop over blocks.
            out += [*met, *(self._longer(case) for case in met[:1])]
            del out[max(1, limit // 4) :]
        limit -= len(out)
        chosen = covering([len(axes[n]) for n in names], limit, self.seed)[:limit]
        if self.base is None:
            # The contents of memory are drawn anew for each case.
            chosen += chosen[:1] * (min(limit, LEAST) - len(chosen))
        for number, row in enumerate(chosen):
            values = {name: axes[name][k] for name, k in zip(names, row, strict=True)}
            out.append(self.case(values, number))
        return out

    def _axes(self) -> dict[str, list[int | float]]:
        """Values to try, by the name of the scalar."""
        held = {} if self.base is None else self.base.scalars()
        axes: dict[str, list[int | float]] = {}
        for parameter in self.parameters:
            if not isinstance(parameter.type, IntegerType):
                continue
            constants = self.decisions.arguments.get(parameter.index)
            if constants is None or parameter.name.endswith((".padding", ".roundF32ToTF32")):
                continue
            if self.base is not None and parameter.name not in held:
                continue
            if parameter.index in self.strides:
                continue
            unit = self.decisions.bounds.get(parameter.index, 0)
            natural = held.get(parameter.name)
            extent = self.extents.get(parameter.index)
            if extent is not None:
                owner, axis = extent
                natural = _shape(self.parameters[owner].type)[axis]
            wanted = _values(parameter, constants, natural, unit)
            axes[parameter.name] = [n for n in wanted if self._fits(parameter.name, n)]
        return axes

    def _longer(self, case: Case) -> Case:
        """`case` with sizes that make loops over blocks go round more than twice."""
        held = case.scalars()
        units = {p.name: (self.decisions.bounds.get(p.index, 0), p) for p in self.parameters}
        values: dict[str, int | float] = {
            name: _up(2 * unit + 1, p.divisibility)
            for name, (unit, p) in units.items()
            if unit > 1 and name in held
        }
        made = self.case(values, base=case)
        return replace(made, label=f"{made.label}, {case.label}")

    def case(
        self, values: dict[str, int | float], number: int = 0, base: Case | None = None
    ) -> Case:
        """The case in which scalars are as `values` says, the rest as in `base` (the user's, if
        there is one), or drawn with `number`."""
        rng = np.random.default_rng((self.seed, number))
        label = ", ".join(f"{k}={v}" for k, v in values.items()) or "drawn"
        chosen = tuple(values.items())
        base = base or self.base
        if base is None:
            made = self._drawn(values, label, rng, number)
            return replace(made, values=chosen, number=number)
        arguments = tuple(
            replace(a, value=values[a.name]) if isinstance(a, ScalarArg) and a.name in values else a
            for a in base.arguments
        )
        made = replace(
            base, label=label, arguments=arguments, user=False, values=chosen, number=number
        )
        return widened(made, self.module)

    def simpler(self, case: Case) -> Iterator[Case]:
        """Cases like a generated one in which one scalar is plainer: nearer to the user's value, or
        to 0 and 1."""
        held = {} if self.base is None else self.base.scalars()
        chosen = dict(case.values)
        for name, value in chosen.items():
            plain = [held[name]] if name in held else []
            plain += [n for n in (0, 1, 2, -1, value // 2) if n not in plain]
            for better in plain:
                if better == value:
                    break
                if self._fits(name, better):
                    yield self.case({**chosen, name: better}, case.number)

    def _fits(self, name: str, value: int | float) -> bool:
        found = next((p for p in self.parameters if p.name == name), None)
        if found is None:
            return True
        # No descriptor can be empty along an axis.
        extent = found.index not in self.extents or 1 <= value <= MAX_EXTENT
        return value % found.divisibility == 0 and extent

    def _drawn(
        self, values: dict[str, int | float], label: str, rng: np.random.Generator, number: int
    ) -> Case:
        memory: list[Storage] = []
        arguments: list[Argument] = []
        shapes = self._shapes(values)
        given: dict[int, int] = {}
        for index, (owner, axis) in self.extents.items():
            given[index] = shapes[owner][axis]
        for index, (owner, axis) in self.strides.items():
            given[index] = _strides(shapes[owner], _item_size(self.parameters[owner]))[axis]
        for parameter in self.parameters:
            ty = parameter.type
            if parameter.index in given:
                arguments.append(ScalarArg(parameter.name, given[parameter.index]))
            elif isinstance(ty, tt.PointerType):
                arguments.append(_buffer(parameter.name, ty, memory, rng, self._kind(parameter)))
            elif isinstance(ty, TensorType):
                arguments.append(_by_value(parameter, ty, memory, rng))
            elif isinstance(ty, tt.TensorDescType):
                arguments.append(_descriptor(parameter, shapes[parameter.index], memory, rng))
            else:
                value = values.get(parameter.name)
                drawn = self._scalar(parameter, rng, number) if value is None else value
                arguments.append(ScalarArg(parameter.name, drawn))
        return Case(label, _grid(self.module, number), tuple(arguments), tuple(memory))

    def _shapes(self, values: dict[str, int | float]) -> dict[int, tuple[int, ...]]:
        """The shape of each descriptor, by position: as the numbers that follow it are to say."""
        shapes = {
            p.index: list(_shape(p.type))
            for p in self.parameters
            if isinstance(p.type, tt.TensorDescType)
        }
        for index, (owner, axis) in self.extents.items():
            chosen = values.get(self.parameters[index].name)
            if chosen is not None and chosen >= 1:
                shapes[owner][axis] = int(chosen)
        return {index: tuple(shape) for index, shape in shapes.items()}

    def _kind(self, parameter: Parameter) -> str:
        """What integers in a buffer are for."""
        if parameter.index in self.decisions.loaded:
            return SIZES
        return INDICES if parameter.index in self.decisions.indices else DATA

    def _scalar(self, parameter: Parameter, rng: np.random.Generator, number: int) -> int | float:
        """A value for a scalar that decides nothing: a stride, a scale, a seed."""
        if is_float_type(parameter.type):
            return float(np.float32(rng.standard_normal()))
        if not isinstance(parameter.type, IntegerType):
            raise Unsupported(f"an argument of type {parameter.type}")
        width, step = parameter.type.width.data, parameter.divisibility
        if width == 1:
            return int(rng.integers(0, 2))
        if parameter.index in self.decisions.addresses:
            stride = int(rng.choice(STRIDES)) if number % 2 else ROW
            return _up(stride, step)
        return int(rng.integers(-(1 << (width - 1)) // step, (1 << (width - 1)) // step)) * step


def _values(
    parameter: Parameter, constants: Iterable[int], natural: int | float | None, unit: int
) -> Iterator[int]:
    """Distinct values for an integer parameter, its natural one first. `unit`: how much greater it
    is for one more iteration of a loop, 0 if it reaches no loop."""
    assert isinstance(parameter.type, IntegerType)
    width, step = parameter.type.width.data, parameter.divisibility
    if width == 1:
        yield from (0, 1)
        return
    largest = max((ROUNDS + 1) * unit, MAX_ROUNDS) if unit else MAX_NATURAL
    constants = sorted((c for c in constants if abs(c) > 1), key=abs, reverse=True)
    near = [c for c in constants if abs(c) <= largest]
    block = near[0] if near else 0
    wanted: list[int] = []
    if natural is not None:
        wanted.append(int(natural))
    elif unit:
        wanted.append(_up(3 * unit - 1 if unit > 1 else FEW, step))
    elif block > 1:
        # One block and a bit, and so many that programs which take several of them are full.
        wanted += [_up(block + block // 2, step), _up(BLOCKS * block - 1, step)]
    if unit > 1:
        # Below minus a block a division tells signed numbers from unsigned ones.
        # More rounds than a ring has slots come early: where an index wraps shows only then.
        wanted += [_up(ROUNDS * unit, step)]
        wanted += [n * step for n in SMALL if n >= 0] + [_up(-2 * unit - 1, step)]
        wanted += [_up(unit + 1, step), _up(unit, step)]
    wanted += [n * step for n in SMALL]
    wanted += [n for c in near[:1] for n in (c, c + step, c - step)]
    wanted += near[1:]
    wanted += [] if unit else constants[: len(constants) - len(near)]
    wanted += [n * step for n in LESS]
    seen: set[int] = set()
    for value in wanted:
        fits = -(1 << (width - 1)) <= value < 1 << width
        if value not in seen and value % step == 0 and fits and len(seen) < MAX_VALUES:
            seen.add(value)
            yield value


def _up(value: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-value // step) * step


def covering(sizes: Sequence[int], limit: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Rows of one index per axis: all combinations if they are few, else rows that cover as many
    pairs of two axes' indices as `limit` rows can. The first row is all zeros."""
    total = 1
    for size in sizes:
        total *= size
        if total > limit:
            break
    if total <= limit:
        rows = list(itertools.product(*(range(n) for n in sizes)))
        return sorted(rows, key=lambda row: sum(k > 0 for k in row))
    rng = np.random.default_rng(seed)
    first: tuple[int, ...] = (0,) * len(sizes)
    rows: list[tuple[int, ...]] = [first]
    open_pairs = {
        (i, a, j, b)
        for i, j in itertools.combinations(range(len(sizes)), 2)
        for a in range(sizes[i])
        for b in range(sizes[j])
    }
    open_pairs -= _pairs(first)
    while len(rows) < limit and open_pairs:
        i, a, j, b = min(open_pairs, key=_distance)
        candidates: list[tuple[int, ...]] = []
        for k in range(12):
            row = [0 if k == 0 else int(rng.integers(n)) for n in sizes]
            row[i], row[j] = a, b
            candidates.append(tuple(row))
        best = max(candidates, key=lambda row: (len(_pairs(row) & open_pairs), row))
        rows.append(best)
        open_pairs -= _pairs(best)
    return rows


def _distance(pair: tuple[int, int, int, int]) -> tuple[int, tuple[int, int, int, int]]:
    """How soon two indices of two axes are to occur together: early ones first, one that is beside
    the first of the other axis twice as soon, so that all occur."""
    _, a, _, b = pair
    return (2 if a and b else 1) * (a + b), pair


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)}


def _grid(module: ModuleOp, number: int) -> tuple[int, int, int]:
    """A few programs along the axes that the module asks for; in every second case many along one
    of them, so that blocks come to the end of what constants limit."""
    used = {
        op.axis.value.data
        for op in module.walk()
        if isinstance(op, tt.GetProgramIdOp | tt.GetNumProgramsOp)
    }
    grid = [n if axis in used else 1 for axis, n in enumerate(GRID)]
    if number % 2 and used:
        grid = [1, 1, 1]
        large = any(isinstance(op, scf.ForOp | scf.WhileOp | tt.DotOp) for op in module.walk())
        grid[sorted(used)[number // 2 % len(used)]] = LONG if large else LONGER
    x, y, z = grid
    return x, y, z


def _address(memory: Sequence[Storage]) -> int:
    end = _FIRST_ADDRESS
    if memory:
        end = memory[-1].address + memory[-1].bytes.size
    return (end // _GAP + 2) * _GAP


def _buffer(
    name: str,
    ty: tt.PointerType,
    memory: list[Storage],
    rng: np.random.Generator,
    kind: str,
) -> TensorArg:
    pointee = ty.pointee_type
    if isinstance(pointee, tt.PointerType):
        inner = _buffer(f"{name}[]", pointee, memory, rng, kind)
        address = inner.storage.address + inner.offset
        data = np.full(BEFORE + AFTER, address, np.int64)
    else:
        data = draw(element_type(pointee), BEFORE + AFTER, rng, kind)
    storage = Storage(data.view(np.uint8), _address(memory))
    memory.append(storage)
    size = data.dtype.itemsize
    tensor = TensorArg(name, storage, BEFORE * size, (AFTER,), (1,), data.dtype)
    return region_of(tensor, 0, storage.bytes.size)


def _by_value(
    parameter: Parameter, ty: TensorType[Attribute], memory: list[Storage], rng: np.random.Generator
) -> ValueArg:
    """A tensor as an argument, which only functions of test modules have; pointers lead to
    consecutive elements of a buffer."""
    shape, element = shape_of(ty), ty.element_type
    count = int(np.prod(shape))
    if not isinstance(element, tt.PointerType):
        values = draw(element, count, rng).reshape(shape)
        if numpy_dtype(element).kind == "b":
            values = values.view(bool)
        return ValueArg(parameter.name, values)
    base = _buffer(parameter.name, element, memory, rng, DATA)
    offsets = np.arange(count, dtype=np.int64).reshape(shape) * base.dtype.itemsize
    return ValueArg(parameter.name, offsets, base)


def draw(ty: Attribute, count: int, rng: np.random.Generator, kind: str = DATA) -> np.ndarray:
    """[count] elements of a type. Floats are normal, with a few special values among them in every
    fourth buffer; integers are of all sizes where they are data, else small and not negative."""
    if count > DRAWN:
        return np.resize(draw(ty, DRAWN, rng, kind), count)
    dtype = numpy_dtype(ty)
    if is_float(dtype):
        values = rng.standard_normal(count, np.float32)
        if rng.integers(4) == 0:
            at = rng.integers(0, count, -(-count // int(rng.choice((16, 256)))))
            values[at] = rng.choice(np.array(SPECIAL, np.float32), at.size)
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(np.int8)
    if kind == SIZES:
        return rng.integers(0, 4, count).astype(dtype)
    if kind == INDICES:
        return rng.integers(0, 16, count).astype(dtype)
    small = rng.integers(-8, 8, count).astype(dtype)
    info = np.iinfo(dtype)
    wide = rng.integers(info.min, info.max, count, dtype, endpoint=True)
    return np.where(rng.integers(0, 2, count).astype(bool), small, wide)


SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, 3e38, 1.0)


def _block(ty: tt.TensorDescType) -> tuple[int, ...]:
    from xttir.interp.tt_memory import shape_of_descriptor

    return shape_of_descriptor(ty)


def _shape(ty: Attribute) -> tuple[int, ...]:
    """Two blocks and a bit along each axis."""
    assert isinstance(ty, tt.TensorDescType)
    return tuple(2 * n + (n // 2 if n > 1 else 1) for n in _block(ty))


def _item_size(parameter: Parameter) -> int:
    """Bytes of an element of a descriptor."""
    assert isinstance(parameter.type, tt.TensorDescType)
    return numpy_dtype(element_type(parameter.type.element_type)).itemsize


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Of rows that begin at multiples of 16 bytes, as TMA asks for; `size`: bytes of an element."""
    strides = [1]
    for n in reversed(shape[1:]):
        row = strides[-1] * n
        strides.append(_up(row, max(1, 16 // size)))
    return tuple(reversed(strides))


def _descriptor(
    parameter: Parameter, shape: tuple[int, ...], memory: list[Storage], rng: np.random.Generator
) -> DescriptorArg:
    ty = parameter.type
    assert isinstance(ty, tt.TensorDescType)
    strides = _strides(shape, _item_size(parameter))
    data = draw(element_type(ty.element_type), shape[0] * strides[0], rng)
    storage = Storage(data.view(np.uint8), _address(memory))
    memory.append(storage)
    tensor = TensorArg(parameter.name, storage, 0, shape, strides, data.dtype)
    return DescriptorArg(parameter.name, tensor, shape, strides, _block(ty))


_Places = dict[int, tuple[int, int]]


def _numbers(found: Sequence[Parameter]) -> tuple[_Places, _Places]:
    """The parameters (by position) that are a descriptor's shape, and those that are its strides,
    each with the position of the descriptor and the axis. Shape (i32) and strides (i64) follow a
    descriptor; they must say what it says."""
    extents: _Places = {}
    strides: _Places = {}
    for parameter in found:
        if not isinstance(parameter.type, tt.TensorDescType):
            continue
        rank = len(_block(parameter.type))
        after = found[parameter.index + 1 : parameter.index + 1 + 2 * rank]
        kinds = [p.type.width.data if isinstance(p.type, IntegerType) else 0 for p in after]
        if kinds == [32] * rank + [64] * rank:
            for axis in range(rank):
                extents[after[axis].index] = parameter.index, axis
                strides[after[rank + axis].index] = parameter.index, axis
    return extents, strides
