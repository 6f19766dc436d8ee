"""A kernel's memory accesses as terms over program ids, lanes, iterations and arguments.

Every op that makes integers, truth values or pointers gives a tile of terms; floats are not
followed. Loops are not unrolled: a loop has an iteration symbol, what it carries is solved in
closed form where it grows by the same step every time, and is any value otherwise. A branch adds
its condition to the guard of what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import is_side_effect_free

from xttir.analyses.sizes import branches
from xttir.analyses.sizes.carried import Carried, classify, entered, mark_of
from xttir.analyses.sizes.elements import ELEMENTS, Elements
from xttir.analyses.sizes.terms import (
    Cond,
    Opaque,
    Symbol,
    Term,
    Unknown,
    as_term,
    at_most,
    both,
    choose,
    either,
    floor_div,
    less,
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
    index_of,
    is_truth,
    lanes_of,
    limits,
)
from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.interp.types import element_type, shape_of

HARMLESS = frozenset(
    {
        "gpu.barrier",
        "llvm.intr.assume",
        "tt.assert",
        "tt.grid_dependency_launch_dependents",
        "tt.grid_dependency_wait",
        "tt.print",
        "ttg.barrier",
    }
)
"""Ops with an effect, but none on global memory."""

MAX_DEPTH = 64
"""Calls inside calls, beyond which a kernel is taken to be recursive."""


@dataclass(frozen=True, eq=False)
class Access:
    """One op on global memory, by any one of its lanes.

    `kind`: "read", "write" or "atomic". `guard`: when the lane makes the access. `path`: the part
    of it that does not depend on the mask. `obligations`: without which the terms are not the
    machine's values; those of `mask_obligations` must hold for inactive lanes too.
    """

    op: Operation
    kind: str
    base: str
    offset: Term
    guard: Cond
    path: Cond
    lanes: tuple[Symbol, ...]
    obligations: frozenset[Obligation]
    mask_obligations: frozenset[Obligation]
    ordered: bool = False
    """An atomic that acquires or releases, or a poll."""


@dataclass(eq=False)
class Descriptor:
    """A tensor descriptor: a block of `base` with sizes and strides (elements)."""

    base: Address
    shape: tuple[Term, ...]
    strides: tuple[Term, ...]
    block: tuple[int, ...]
    obligations: frozenset[Obligation] = frozenset()


@dataclass
class Evaluator:
    """Runs a function on terms. `accesses` is what it is for.

    `calls`: the calls under way. An op of a function that is called twice makes two values, so
    they are part of what names a value.
    """

    module: ModuleOp
    grid: tuple[Term, Term, Term]
    accesses: list[Access] = field(default_factory=list)
    env: dict[SSAValue, Any] = field(default_factory=dict)
    path: list[Cond] = field(default_factory=list)
    recording: bool = True
    counter: int = 0
    iterations: list[Symbol] = field(default_factory=list)
    """Of loops, the outer ones first."""
    calls: tuple[Operation, ...] = ()
    loads: dict[tuple[object, ...], str] = field(default_factory=dict)
    """The tensor that the data of an opaque value comes from, by its key."""

    def __post_init__(self) -> None:
        self.pids = tuple(
            Symbol(f"pid_{axis}", 0, (high - 1) if high is not None else 2**31 - 2)
            for axis, high in zip("xyz", (g.bounds()[1] for g in self.grid), strict=True)
        )
        self.elements = Elements(self)

    def kernel(self, function: tt.FuncOp, arguments: Sequence[Any]) -> None:
        """Evaluate `function`; `arguments` are tiles and descriptors for its parameters."""
        self._body(function.body, arguments)

    def fresh(self, what: str) -> str:
        self.counter += 1
        return f"{what}{self.counter}"

    def iteration(self) -> Term:
        """Any iteration of a loop that is about to be evaluated."""
        self.iterations.append(Symbol(self.fresh("iteration"), 0, None))
        return term_of(self.iterations[-1])

    def guard(self) -> Cond:
        return both(*self.path)

    # Structure.

    def _body(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Run the blocks of a function; the values of its return."""
        if len(region.blocks) == 1:
            return self._block(region.blocks[0], arguments)
        return branches.run(self, region, arguments)

    def _block(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Run a block; the values of its terminator's operands."""
        self.bind(block, arguments)
        last = self.ops(block)
        return [self.value(v) for v in last.operands]

    def bind(self, block: Block, values: Sequence[Any]) -> None:
        self.env.update(zip(block.args, values, strict=True))

    def ops(self, block: Block) -> Operation:
        """Evaluate all ops but the terminator, which is returned."""
        last = block.last_op
        assert last is not None
        for op in block.ops:
            if op is last:
                break
            self._op(op)
        return last

    def value(self, value: SSAValue) -> Any:
        return self.env[value]

    def _op(self, op: Operation) -> None:
        structure = _STRUCTURE.get(op.name)
        if structure is not None:
            structure(self, op)
            return
        rule = ELEMENTS.get(op.name)
        if rule is not None:
            results = rule(self.elements, op)
            for result, value in zip(op.results, results, strict=True):
                self.env[result] = value
            return
        if op.regions or not _harmless(op):
            raise Unsupported(f"every size of a kernel with {op.name}", location_of(op))
        self._results(op)

    def _results(self, op: Operation) -> None:
        """The results of `op` may be anything; it touches no memory."""
        for result in op.results:
            self.env[result] = self.unknown(result, "the result of " + op.name)

    def scalar(self, value: SSAValue) -> Any:
        """The term or condition of a scalar that decides what is executed: what must hold for it
        to be the machine's value is required wherever execution comes by."""
        element, obligations = self.value(value).with_obligations(())
        for obligation in obligations:
            self.require(obligation)
        return element

    def unknown(self, value: SSAValue, why: str, *more: object) -> Any:
        """Any value of the type of `value`."""
        shape, element = shape_of(value.type), element_type(value.type)
        name = (why, value, *self.calls, *more)
        if isinstance(element, tt.PointerType):
            return Tile(shape, lambda i: Address("", term_of(Opaque((*name, i), why))))
        if isinstance(element, IntegerType | IndexType):
            if is_truth(element):
                return Tile(shape, lambda i: Unknown((*name, i), why))
            low, high = limits(element)
            return Tile(shape, lambda i: term_of(Opaque((*name, i), why, low, high)))
        return Tile(shape, lambda i: None)

    def choose(self, condition: Cond, a: Any, b: Any) -> Any:
        if a is b:
            return a
        if not isinstance(a, Tile) or not isinstance(b, Tile):
            raise Unsupported("a choice between descriptors")
        return Tile(a.shape, lambda i: choose_element(condition, a.at(i), b.at(i)))

    # Control flow.

    def _call(self, op: Operation) -> None:
        assert isinstance(op, tt.CallOp)
        name = op.callee.string_value()
        function = tt.function_named(self.module, name)
        if function is None:
            raise Unsupported(f"a call of {name}, which is not in the module", location_of(op))
        if len(self.calls) > MAX_DEPTH:
            raise Unsupported("recursion", location_of(op))
        outer, self.calls = self.calls, (*self.calls, op)
        results = self._body(function.body, [self.value(v) for v in op.operands])
        self.calls = outer
        self.env.update(zip(op.results, results, strict=True))

    def _if(self, op: Operation) -> None:
        condition = self.scalar(op.operands[0])
        values: list[list[Any]] = []
        for region, holds in zip(op.regions, (condition, negation(condition)), strict=True):
            if not region.blocks:
                continue
            self.path.append(holds)
            values.append(self._block(region.blocks[0], []))
            self.path.pop()
        for n, result in enumerate(op.results):
            self.env[result] = self.choose(condition, values[0][n], values[1][n])

    def _for(self, op: Operation) -> None:
        if "unsignedCmp" in op.properties:
            raise Unsupported("every size of a loop that compares as unsigned", location_of(op))
        low, high, step = (self.scalar(v) for v in op.operands[:3])
        inits = [self.value(v) for v in op.operands[3:]]
        block = op.regions[0].blocks[0]
        k = self.iteration()
        if (step.bounds()[0] or 0) < 1:
            oblige_step = Obligation(step, 1, None, op)
            if step.constant is not None:
                raise Unsupported("a loop whose step is not positive", location_of(op))
            self.require(oblige_step)
        variable = low + k * step
        self.path.append(less(variable, high))
        induction = Tile((), lambda _: variable)
        carried = self._solve(op, block, induction, inits, k)
        self._block(block, [induction, *(c.inside for c in carried)])
        self.path.pop()
        trips = most(as_term(0), _ceil_div(high - low, step))
        for result, c in zip(op.results, carried, strict=True):
            self.env[result] = c.after(trips, result)

    def require(self, obligation: Obligation) -> None:
        """An obligation of the whole kernel: kept as that of an access without a tensor."""
        if self.recording:
            guard = self.guard()
            self.accesses.append(
                Access(
                    obligation.op, "none", "", as_term(0), guard, guard, (),
                    frozenset({obligation}), frozenset(),
                )
            )  # fmt: skip

    def _solve(
        self, op: Operation, block: Block, induction: Tile, inits: list[Any], k: Term
    ) -> list[Carried]:
        """What is known of every value that a loop carries, at iteration `k`."""
        marks = [mark_of(self, op, n, arg, init) for n, (arg, init) in
                 enumerate(zip(block.args[1:], inits, strict=True))]  # fmt: skip
        recording, self.recording = self.recording, False
        yielded = self._block(block, [induction, *marks])
        self.recording = recording
        out: list[Carried] = []
        for n, (arg, init) in enumerate(zip(block.args[1:], inits, strict=True)):
            out.append(classify(self, op, n, arg, init, marks[n], yielded[n], k))
        return out

    def _while(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        k = self.iteration()
        pairs = [(arg, self.value(v)) for arg, v in zip(before.args, op.operands, strict=True)]
        marks = [mark_of(self, op, n, arg, init) for n, (arg, init) in enumerate(pairs)]

        def round_of(values: Sequence[Any]) -> tuple[Cond, list[Any], list[Any]]:
            """Whether an iteration goes on, what it hands to the body, and to the next one."""
            self.bind(before, values)
            last = self.ops(before)
            condition = self.scalar(last.operands[0])
            handed = [self.value(v) for v in last.operands[1:]]
            self.path.append(condition)
            yielded = self._block(after, handed)
            self.path.pop()
            return condition, handed, yielded

        recording, self.recording = self.recording, False
        yielded = round_of(marks)[2]
        inside = [
            classify(self, op, n, arg, init, marks[n], yielded[n], k).inside
            for n, (arg, init) in enumerate(pairs)
        ]
        condition = round_of(inside)[0]
        self.recording = recording
        self.path.append(entered(self, k, condition))
        handed = round_of(inside)[1]
        self.path.pop()
        for result, value in zip(op.results, handed, strict=True):
            self.env[result] = value

    # Memory.

    def _load(self, op: Operation) -> None:
        assert isinstance(op, tt.LoadOp)
        self.access(op, "read", op.ptr, op.mask)
        self.env[op.result] = self._loaded(op.result, op.ptr, op.mask, op.other)

    def _loaded(
        self, result: SSAValue, ptr: SSAValue, mask: SSAValue | None, other: SSAValue | None
    ) -> Any:
        """What was loaded: data of a tensor, with the bounds that the contract has for it."""
        fallback = self.unknown(result, "data")
        element = element_type(result.type)
        if not isinstance(element, IntegerType) or is_truth(element):
            return fallback
        pointers = self.value(ptr)
        masks = self.value(mask) if mask is not None else None
        others = self.value(other) if other is not None else None
        low, high = limits(element)
        name = ("data", result, *self.calls)

        def make(index: Index) -> Element:
            base = pointers.at(index).base
            key = (*name, index)
            value = term_of(Opaque(key, f"data of {base or 'memory'}", low, high))
            self.loads[key] = base
            if masks is None:
                return value
            if others is None:
                inactive = term_of(Opaque((*key, "masked"), "undefined", low, high))
            else:
                inactive = others.at(index)
            return choose(masks.at(index), value, inactive)

        return Tile(fallback.shape, make)

    def _store(self, op: Operation) -> None:
        assert isinstance(op, tt.StoreOp)
        self.access(op, "write", op.ptr, op.mask)

    def _atomic(self, op: Operation) -> None:
        mask = getattr(op, "mask", None)
        semantics = tt.MemSemantic.of(op.properties["sem"])  # pyright: ignore[reportArgumentType]
        ordered = semantics is not tt.MemSemantic.RELAXED
        self.access(op, "atomic", op.operands[0], mask, ordered)
        self._results(op)

    def access(
        self,
        op: Operation,
        kind: str,
        ptr: SSAValue,
        mask: SSAValue | None,
        ordered: bool = False,
    ) -> None:
        """Record an access through (a tensor of) pointers."""
        if not self.recording:
            return
        pointers = self.value(ptr)
        lanes = lanes_of(pointers.shape)
        index = index_of(lanes)
        masked: Cond = True
        mask_obligations: frozenset[Obligation] = frozenset()
        if mask is not None:
            masked, mask_obligations = self.value(mask).with_obligations(index)
        address, obligations = pointers.with_obligations(index)
        path = self.guard()
        self.accesses.append(
            Access(
                op,
                kind,
                address.base,
                address.offset,
                both(path, masked),
                path,
                lanes,
                obligations - mask_obligations,
                mask_obligations,
                ordered,
            )
        )

    def _make_descriptor(self, op: Operation) -> None:
        assert isinstance(op, tt.MakeTensorDescOp)
        found: set[Obligation] = set()

        def scalar(value: SSAValue) -> Any:
            element, obligations = self.value(value).with_obligations(())
            found.update(obligations)
            return element

        ty = op.result.type
        assert isinstance(ty, tt.TensorDescType)
        self.env[op.result] = Descriptor(
            scalar(op.base),
            tuple(scalar(v) for v in op.shape),
            tuple(scalar(v) for v in op.strides),
            tuple(ty.block_type.get_shape()),
            frozenset(found),
        )

    def _descriptor(self, op: Operation) -> None:
        kind = {
            "tt.descriptor_load": "read",
            "tt.descriptor_gather": "read",
            "tt.descriptor_reduce": "atomic",
        }.get(op.name, "write")
        descriptor = self.value(op.operands[0])
        for result in op.results:
            self.env[result] = self.unknown(result, "data")
        if not self.recording or not isinstance(descriptor, Descriptor):
            if not isinstance(descriptor, Descriptor):
                raise Unsupported("a descriptor that is not made here", location_of(op))
            return
        lanes = lanes_of(descriptor.block)
        index = index_of(lanes)
        found = set(descriptor.obligations)
        coordinates: list[Term] = []
        if op.name in ("tt.descriptor_gather", "tt.descriptor_scatter"):
            rows = self.value(op.operands[1])
            lanes = lanes_of((rows.shape[0], descriptor.block[1]))
            index = index_of(lanes)
            row, more = rows.with_obligations(index[:1])
            column, also = self.value(op.operands[2]).with_obligations(())
            found |= more | also
            coordinates = [row, column + index[1]]
        else:
            indices: Sequence[SSAValue] = op.indices  # pyright: ignore[reportAttributeAccessIssue]
            for n, value in enumerate(indices):
                start, more = self.value(value).with_obligations(())
                found |= more
                coordinates.append(start + index[n])
        guard = self.guard()
        inside: Cond = True
        offset = descriptor.base.offset
        for c, size, stride in zip(coordinates, descriptor.shape, descriptor.strides, strict=True):
            inside = both(inside, at_most(0, c), less(c, size))
            offset = offset + c * stride
        self.accesses.append(
            Access(
                op, kind, descriptor.base.base, offset, both(guard, inside), guard, lanes,
                frozenset(), frozenset(found),
            )
        )  # fmt: skip


def _harmless(op: Operation) -> bool:
    """Whether `op` is known to touch no global memory."""
    pure = op.properties.get("pure")
    says = isinstance(pure, IntegerAttr) and pure.value.data != 0
    return says or op.name in HARMLESS or is_side_effect_free(op)


def choose_element(condition: Cond, a: Element, b: Element) -> Element:
    """`a` where the condition holds, otherwise `b`."""
    if a is None or b is None:
        return None
    if isinstance(a, Address) and isinstance(b, Address):
        if a.base == b.base:
            return Address(a.base, choose(condition, a.offset, b.offset))
        if condition is True or condition is False:
            return a if condition else b
        return Address("", term_of(Opaque(("choice", a.base, b.base, condition), "a pointer")))
    if isinstance(a, Term) and isinstance(b, Term):
        return choose(condition, a, b)
    assert not isinstance(a, Term | Address)
    assert not isinstance(b, Term | Address)
    return either(both(condition, a), both(negation(condition), b))


def _ceil_div(a: Term, b: Term) -> Term:
    return floor_div(a + b - 1, b)


_STRUCTURE: dict[str, Any] = {
    "tt.call": Evaluator._call,
    "scf.if": Evaluator._if,
    "scf.for": Evaluator._for,
    "scf.while": Evaluator._while,
    "tt.load": Evaluator._load,
    "tt.store": Evaluator._store,
    "tt.atomic_rmw": Evaluator._atomic,
    "tt.atomic_cas": Evaluator._atomic,
    "tt.atomic_load": Evaluator._atomic,
    "tt.atomic_store": Evaluator._atomic,
    "tt.atomic_poll": Evaluator._atomic,
    "tt.make_tensor_descriptor": Evaluator._make_descriptor,
    "tt.descriptor_load": Evaluator._descriptor,
    "tt.descriptor_store": Evaluator._descriptor,
    "tt.descriptor_reduce": Evaluator._descriptor,
    "tt.descriptor_gather": Evaluator._descriptor,
    "tt.descriptor_scatter": Evaluator._descriptor,
    "tt.reduce": Evaluator._results,
    "tt.scan": Evaluator._results,
    "tt.map_elementwise": Evaluator._results,
}
