"""How numbers of a kernel grow with its iterations, and whether that decides anything.

A number changes by a constant when the iteration is `period` further on, and by another when the
launch has `period` iterations more: its `Rate`. Sums, products with constants, and quotients that
come out even keep that; where both constants are 0 the number repeats itself. Values that events
and branches depend on must repeat themselves, or be the outcome of a comparison that never changes
again (`compared`, for the caller to check on numbers); anything else is a `Refusal`. Integers are
assumed not to overflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from xttir.dialects import arith, cf, scf, tt, ttg
from xttir.dialects.locations import location_of
from xttir.interp.tracing import handlers


class Rate(NamedTuple):
    """By how much a number changes: `period` iterations later, and in a launch with `period`
    iterations more. `wild`: not by a constant."""

    later: int = 0
    more: int = 0
    wild: bool = False


STILL = Rate()
WILD = Rate(wild=True)


class Refusal(Exception):
    """Something may depend on the number of iterations in a way that is not understood."""

    def __init__(self, op: Operation, why: str):
        super().__init__(f"{why} at {location_of(op)}")


_PLACES = frozenset({"coord", "offsets", "x_offsets", "y_offset", "indices"})
"""Operands that say where in global memory an op works."""


class Growth:
    """Rates of the numbers of a kernel. `seeds`: those of arguments of the kernel and of the blocks
    that begin the loops which count iterations (`heads`); other arguments of these repeat
    themselves. Raises `Refusal`."""

    def __init__(self, module: ModuleOp, seeds: dict[SSAValue, Rate], heads: set[Block]):
        self.module = module
        self.heads = heads
        self.seeds = {a: STILL for b in heads for a in b.args} | seeds
        self.rates: dict[SSAValue, Rate] = dict(self.seeds)
        for op in module.walk():
            if isinstance(op, tt.FuncOp) and op.body.blocks:
                for argument in op.body.blocks[0].args:
                    self.rates.setdefault(argument, STILL)
        self.deciding: set[SSAValue] = set()
        """Values that events and branches depend on."""
        self.compared: dict[Operation, Rate] = {}
        """Comparisons that something depends on: the rate of left - right."""
        ops = list(module.walk())
        before = -1
        self._changes = 0
        while before != self._changes:
            before = self._changes
            for op in ops:
                self._flow(op)
        self._decide(ops)

    def rate(self, value: SSAValue) -> Rate:
        return self.rates.get(value, STILL)

    def _join(self, value: SSAValue, source: SSAValue | Rate) -> None:
        """`value` may be `source`."""
        if value in self.seeds:
            return
        rate = source if isinstance(source, Rate) else self.rates.get(source)
        if rate is None:
            return
        old = self.rates.get(value)
        new = rate if old is None or old == rate else WILD
        if new != old:
            self.rates[value] = new
            self._changes += 1

    # Forward --------------------------------------------------------------------------------------

    def _flow(self, op: Operation) -> None:
        """Pass rates from the operands of `op` on."""
        counts = isinstance(op, scf.ForOp) and op.body.block in self.heads
        for value, source in _passed(op):
            if not (counts and value in op.results):
                self._join(value, source)
        if isinstance(op, scf.ForOp):
            index = op.body.block.args[0]
            self._join(index, op.lb)
            if self.rate(op.step) != STILL:
                self._join(index, WILD)
            if counts:
                # What comes out of the loop has gone round as often as the launch says.
                for result, argument in zip(op.results, op.body.block.args[1:], strict=True):
                    rate = self.rate(argument)
                    out = WILD if rate.wild else Rate(0, rate.later + rate.more)
                    self._join(result, out)
            return
        if op.regions or not op.results or isinstance(op, scf.IfOp | scf.WhileOp):
            return
        rates = [self.rates.get(v) for v in op.operands]
        if any(r is None and _is_number(v) for r, v in zip(rates, op.operands, strict=True)):
            return
        for result in op.results:
            self._join(result, self._result(op, [r or STILL for r in rates]))

    def _result(self, op: Operation, rates: Sequence[Rate]) -> Rate:
        if all(r == STILL for r in rates):
            return STILL
        if any(r.wild for r in rates):
            return WILD
        if isinstance(op, arith.CmpiOp):
            return STILL  # `compared` must show that the outcome does not change
        if op.name in _SAME:
            return rates[0]
        if len(rates) == 2:
            a, b = rates
            if isinstance(op, arith.AddiOp):
                return Rate(a.later + b.later, a.more + b.more)
            if isinstance(op, arith.SubiOp):
                return Rate(a.later - b.later, a.more - b.more)
            if isinstance(op, arith.MuliOp):
                for x, y, other in ((a, b, 1), (b, a, 0)):
                    number = _constant(op.operands[other])
                    if number is not None and y == STILL:
                        return Rate(x.later * number, x.more * number)
            number = _constant(op.operands[1])
            if number is not None and b == STILL:
                return _by_constant(op, a, number)
        if isinstance(op, arith.SelectOp) and rates[0] == STILL and rates[1] == rates[2]:
            return rates[1]
        return WILD

    # Backward -------------------------------------------------------------------------------------

    def _decide(self, ops: list[Operation]) -> None:
        """What events and branches depend on must repeat itself."""
        sources: dict[SSAValue, list[SSAValue]] = {}
        arms: dict[SSAValue, SSAValue] = {}
        for op in ops:
            for value, source in _passed(op):
                sources.setdefault(value, []).append(source)
            if isinstance(op, scf.IfOp):
                arms |= {r: op.cond for r in op.results}
        todo: list[tuple[SSAValue, Operation]] = []
        for op in ops:
            todo += ((v, op) for v in self._deciding(op))
        for value, op in todo:
            if self.rate(value) != STILL:
                raise Refusal(op, "something is decided by a number that grows")
        seen = self.deciding
        while todo:
            value, by = todo.pop()
            if value in seen or not _is_number(value):
                continue
            seen.add(value)
            given = sources.get(value, [])
            self._depends(value, given, by)
            needs = [*given, *([arms[value]] if value in arms else [])]
            owner = value.owner
            if isinstance(owner, Operation) and not owner.regions:
                needs += owner.operands
            todo += ((v, by) for v in needs)

    def _depends(self, value: SSAValue, given: Sequence[SSAValue], by: Operation) -> None:
        """What `by` does depends on `value`, which may be one of `given`."""
        if self.rate(value).wild:
            raise Refusal(by, "something depends on a number that grows unevenly")
        owner = value.owner
        if isinstance(owner, Block):
            assert isinstance(value, BlockArgument)
            if owner in self.heads:
                self._head(value, given, by)
        elif isinstance(owner, arith.CmpiOp):
            left, right = (self.rate(v) for v in owner.operands)
            if left.wild or right.wild:
                raise Refusal(owner, "a comparison of numbers that grow unevenly")
            rate = Rate(left.later - right.later, left.more - right.more)
            if rate != STILL:
                self.compared[owner] = rate

    def _deciding(self, op: Operation) -> Iterator[SSAValue]:
        """Numbers that say what `op` does, where that gives events."""
        if isinstance(op, scf.ForOp):
            yield from (op.lb, op.step)
            index = self.rate(op.body.block.args[0])
            if op.body.block not in self.heads:
                yield op.ub
            elif self.rate(op.ub) != Rate(0, index.later):
                raise Refusal(op, "a loop whose bound does not grow as its index does")
        elif isinstance(op, scf.IfOp | scf.ConditionOp | cf.ConditionalBranchOp):
            yield op.operands[0]
        elif isinstance(op, tt.CallOp):
            yield from (v for v in op.operands if _counts(v))
        elif type(op) in handlers.HANDLERS:
            names = _names(op)
            for name, value in zip(names, op.operands, strict=True):
                if name not in _PLACES and _counts(value):
                    yield value

    def _head(self, value: BlockArgument, given: Sequence[SSAValue], by: Operation) -> None:
        """What a counting loop carries comes in as in every launch, and grows as it goes round."""
        seed = self.seeds[value]
        for source in given:
            if self.rate(source) not in (seed, Rate(0, seed.more)):
                raise Refusal(by, "a loop carries a number that does not grow evenly")


def deciding_arguments(module: ModuleOp, kernel: str) -> list[int]:
    """Parameters, by index, that events or branches of `kernel` depend on."""
    handlers.load_all()
    function = tt.function_named(module, kernel)
    assert function is not None
    decide = Growth(module, {}, set()).deciding
    return [n for n, a in enumerate(function.body.blocks[0].args) if a in decide]


_SAME = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"})


def _by_constant(op: Operation, a: Rate, number: int) -> Rate:
    """The rate of an op on a number and a constant."""
    name = op.name
    if name == "arith.shli":
        return Rate(a.later << number, a.more << number)
    if name in ("arith.shrsi", "arith.shrui"):
        number, name = 1 << number, "arith.divsi"
    elif name == "arith.andi" and number > 0 and number & (number + 1) == 0:
        number, name = number + 1, "arith.remsi"
    if number <= 0 or a.later % number or a.more % number:
        return WILD
    if name in ("arith.divsi", "arith.divui", "arith.ceildivsi", "arith.floordivsi"):
        return Rate(a.later // number, a.more // number)
    return STILL if name in ("arith.remsi", "arith.remui") else WILD


def _passed(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(value, source): what control flow passes on."""
    if isinstance(op, scf.ForOp):
        carried, last = op.body.block.args[1:], _last(op.body).operands
        yield from zip(carried, op.iter_args, strict=True)
        yield from zip(carried, last, strict=True)
        yield from zip(op.results, carried, strict=True)
    elif isinstance(op, scf.IfOp):
        for region in op.regions:
            if region.blocks:
                yield from zip(op.results, _last(region).operands, strict=True)
    elif isinstance(op, scf.WhileOp):
        before, after = op.before_region, op.after_region
        yield from zip(before.block.args, op.operands, strict=True)
        yield from zip(before.block.args, _last(after).operands, strict=True)
        kept = _last(before).operands[1:]
        yield from zip(after.block.args, kept, strict=True)
        yield from zip(op.results, kept, strict=True)
    elif isinstance(op, cf.BranchOp):
        yield from zip(op.successor.args, op.operands, strict=True)
    elif isinstance(op, cf.ConditionalBranchOp):
        yield from zip(op.then_block.args, op.then_arguments, strict=True)
        yield from zip(op.else_block.args, op.else_arguments, strict=True)
    elif isinstance(op, ttg.WarpSpecializeOp):
        for region in op.partitions.partition_regions:
            yield from zip(region.blocks[0].args, op.partitions.operands, strict=True)
        for block in op.default_region.blocks:
            if isinstance(block.last_op, ttg.WarpYieldOp):
                yield from zip(op.results, block.last_op.operands, strict=True)


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _counts(value: SSAValue) -> bool:
    """Whether a value is a number that something may be decided by."""
    return isinstance(value.type, IntegerType | IndexType)


def _is_number(value: SSAValue) -> bool:
    """Whether a value is one that numbers which decide something may be made of."""
    return _counts(value) or isinstance(value.type, AnyFloat)


def _last(region: Region) -> Operation:
    last = region.blocks[-1].last_op
    assert last is not None
    return last


def _names(op: Operation) -> list[str]:
    """The ODS name of every operand."""
    found: list[str] = []
    for name, _ in op.get_irdl_definition().operands:  # pyright: ignore
        value: Any = getattr(op, name)
        count = 0 if value is None else len(value) if isinstance(value, list | tuple) else 1
        found += [name] * count
    return found
