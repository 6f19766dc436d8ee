"""Compiles functions to plans: blocks become lists of steps over one flat frame of slots.

The op implementations stay xDSL's (`@impl` methods); a plan only spares the interpreter's
per-op bookkeeping. A frame is a list with one slot for every SSA value of the function, so nested
regions read outer values directly. Integer tensors and masks may be lazy (`interp.affine`): a step
first asks the op's affine rule, and makes operands dense for the implementation otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from sys import getrefcount
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp
from xdsl.interpreter import InterpreterFunctions
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from xttir.diagnostics import Location, Unsupported, XttirError
from xttir.dialects import arith, tt
from xttir.dialects.locations import location_of
from xttir.interp.affine import Box, Index, dense
from xttir.interp.hints import check_of
from xttir.interp.machine import Machine, StepLimit
from xttir.interp.memory import Pointer
from xttir.interp.scalars import shared
from xttir.interp.taint import Tainted, run_tainted
from xttir.interp.types import element_type

Frame = list[Any]
Step = Callable[[Machine, Frame], None]
Memo = dict[tuple[int, ...], tuple[tuple[Any, ...], Any]]
AffineRule = Callable[[Machine, Sequence[Any]], Any]
Lowered = Callable[[Machine, Sequence[Any]], tuple[Any, ...]]
ControlBuilder = Callable[["Compiler", Operation, tuple[int, ...], tuple[int, ...]], Step]


class ExecutionError(XttirError):
    """Running an op failed in a way that is no fault of the program: an error of this tool."""

    def __init__(self, op: Operation, cause: BaseException):
        self.location: Location = location_of(op)
        super().__init__(
            f"{self.location}: internal error while running {op.name}: "
            f"{type(cause).__name__}: {cause}"
        )


@dataclass
class BlockPlan:
    """A block: its argument slots, steps, and the terminator with its operand slots.

    `dead[n]`: slots that nothing reads after step n. Emptying them lets the next value take memory
    that is still in the cache, which matters more to speed than anything else here.
    """

    arguments: tuple[int, ...]
    steps: list[Step]
    dead: list[tuple[int, ...]]
    ops: list[Operation]
    terminator: Operation | None
    operands: tuple[int, ...]
    index: int = 0

    def run(self, m: Machine, frame: Frame) -> None:
        """Run the steps; the terminator's operands are then in their slots."""
        done = 0
        try:
            for step, dead in zip(self.steps, self.dead, strict=True):
                step(m, frame)
                for slot in dead:
                    frame[slot] = None
                done += 1
        except (XttirError, StepLimit):
            raise
        except Exception as error:
            raise ExecutionError(self.ops[done], error) from error

    def results(self, frame: Frame) -> list[Any]:
        return [frame[i] for i in self.operands]


@dataclass
class RegionPlan:
    """A region: its blocks, the slots of the function's values, and whether control flow inside it
    depends on values (`branches`)."""

    region: Region
    blocks: list[BlockPlan]
    slots: Mapping[SSAValue, int]
    branches: bool = False

    @cached_property
    def captured(self) -> tuple[int, ...]:
        """The slots of outer values that it uses. Only programs that part ask for it."""
        inner: set[SSAValue] = set()
        used: set[SSAValue] = set()
        for block in _blocks(self.region):
            inner.update(block.args)
            for op in block.ops:
                inner.update(op.results)
                used.update(op.operands)
        return tuple(self.slots[v] for v in used - inner if v in self.slots)

    @property
    def entry(self) -> BlockPlan:
        return self.blocks[0]


@dataclass
class FunctionPlan:
    """A function: number of slots and its body. `prologue` steps do not depend on the program and
    run once a launch; they are not in the entry block's steps."""

    op: tt.FuncOp
    slots: int
    body: RegionPlan
    prologue: BlockPlan


class Implementations:
    """Op classes and what runs them: `@impl` functions, affine rules, control-flow builders.

    `later`: op or dialect name -> (module, class) of functions to import when first asked for.
    `later_steps`: dialect name -> module whose `register(implementations)` adds builders.
    """

    def __init__(
        self,
        later: Mapping[str, tuple[str, str]] | None = None,
        later_steps: Mapping[str, str] | None = None,
    ) -> None:
        self._later = dict(later or {})
        self._later_steps = dict(later_steps or {})
        self.impls: dict[type[Operation], tuple[InterpreterFunctions, Any]] = {}
        self.rules: dict[type[Operation], Callable[[Any], AffineRule]] = {}
        self.lowered: dict[type[Operation], Callable[[Any], Lowered]] = {}
        """Hot ops: op -> what runs it, with attributes and types looked up once."""
        self.in_place: dict[type[Operation], np.ufunc] = {}
        """Ops of two operands that are this function on f32 and f64, and may overwrite one."""
        self.control: dict[type[Operation], ControlBuilder] = {}

    def register(self, functions: InterpreterFunctions) -> None:
        """Add a dialect's functions. A class may name ops whose implementation takes lazy operands
        in its attribute `lazy`."""
        for op_type, impl in type(functions)._impls():
            self.impls[op_type] = (functions, impl)

    def builder(self, op: Operation) -> ControlBuilder | None:
        """What makes the step of `op`, if it is one with a builder of its own."""
        found = self.control.get(type(op))
        if found is None and self._later_steps:
            dialect = op.name.partition(".")[0]
            if dialect in self._later_steps:
                # An import that fails leaves everything as it was, and is tried again.
                import_module(self._later_steps[dialect]).register(self)
                self._later_steps.pop(dialect, None)
                return self.control.get(type(op))
        return found

    def find(self, op: Operation) -> tuple[InterpreterFunctions, Any] | None:
        """What runs `op`, or None."""
        found = self.impls.get(type(op))
        if found is None:
            for name in (op.name, op.name.partition(".")[0]):
                if name in self._later:
                    module, functions = self._later[name]
                    self.register(getattr(import_module(module), functions)())
                    self._later.pop(name, None)
                    return self.impls.get(type(op))
        return found


class Compiler:
    """Compiles the functions of one module."""

    def __init__(self, module: ModuleOp, implementations: Implementations):
        self.module = module
        self.implementations = implementations
        self.checked: set[int] = set()
        """Ids of integer ops whose wrap-around would corrupt an address."""
        self._functions: dict[str, FunctionPlan] = {}
        self._memos: list[Memo] = []
        self._numbers: list[Memo] = []
        self._checks: frozenset[str] = frozenset()
        self._slots: dict[SSAValue, int] = {}

    def function(self, name: str) -> FunctionPlan:
        """The plan of function `name`, compiled when first asked for."""
        plan = self._functions.get(name)
        if plan is None:
            plan = self._functions[name] = self._compile(self.symbol(name))
        return plan

    def expect(self, checks: frozenset[str]) -> None:
        """A launch begins with these checks. Numbers that were kept from one with others were not
        looked at in the same way."""
        if checks != self._checks:
            self._checks = checks
            for memo in self._numbers:
                memo.clear()

    def forget(self) -> None:
        """Drop results kept between batches: they hold on to the launch's memory. Numbers do not:
        they stay for the next launch, unless they are many and may be of this one only."""
        for memo in self._memos:
            memo.clear()
        for memo in self._numbers:
            if len(memo) > _MEMO_SIZE // 2:
                memo.clear()

    def symbol(self, name: str) -> tt.FuncOp:
        op = tt.function_named(self.module, name)
        if op is None:
            raise Unsupported(f"function @{name} is not in the module")
        return op

    def _compile(self, op: tt.FuncOp) -> FunctionPlan:
        outer = self._slots
        self._slots = {}
        self.checked |= address_ops(op)
        for block in op.walk_blocks():
            for argument in block.args:
                self._slots[argument] = len(self._slots)
            for inner in block.ops:
                for result in inner.results:
                    self._slots[result] = len(self._slots)
        if not op.body.blocks:
            raise Unsupported(f"function @{op.sym_name.data} has no body", location_of(op))
        body = self.region(op.body)
        plan = FunctionPlan(op, len(self._slots), body, _split_prologue(body, op, self._slots))
        self._slots = outer
        return plan

    def slot(self, value: SSAValue) -> int:
        return self._slots[value]

    def region(self, region: Region) -> RegionPlan:
        """Compile a region of the function at hand."""
        blocks = [self.block(block) for block in region.blocks]
        for n, block in enumerate(blocks):
            block.index = n
        nested = any(op.regions for block in region.blocks for op in block.ops)
        return RegionPlan(region, blocks, self._slots, nested or len(blocks) > 1)

    def block(self, block: Block) -> BlockPlan:
        ops: list[Operation] = []
        terminator: Operation | None = None
        for op in block.ops:
            if _is_terminator(type(op)):
                terminator = op
                break
            ops.append(op)
        operands = () if terminator is None else tuple(self._slots[v] for v in terminator.operands)
        dead = self._dead_after(block, ops)
        steps = [self.step(op, slots) for op, slots in zip(ops, dead, strict=True)]
        return BlockPlan(
            tuple(self._slots[a] for a in block.args), steps, dead, ops, terminator, operands
        )

    def _dead_after(self, block: Block, ops: list[Operation]) -> list[tuple[int, ...]]:
        """For each op, slots of values of `block` whose last use it is (or holds)."""
        position = {id(op): n for n, op in enumerate(ops)}
        dead: list[list[int]] = [[] for _ in ops]
        for value in (*block.args, *(r for op in ops for r in op.results)):
            last = -1
            for use in value.uses:
                user: Operation | None = use.operation
                while user is not None and user.parent_block() is not block:
                    user = user.parent_op()
                # The terminator, or an op of another block, may need it: it lives on.
                last = max(last, position.get(id(user), len(ops)))
            if 0 <= last < len(ops):
                dead[last].append(self._slots[value])
        return [tuple(slots) for slots in dead]

    def step(self, op: Operation, dying: tuple[int, ...] = ()) -> Step:
        """What runs `op` on a frame. `dying`: slots that nothing reads after it."""
        step = self._make_step(op, dying)
        check = check_of(op) if op.attributes else None
        if check is None:
            return step
        slot = self._slots[op.results[0]]

        def checked(m: Machine, frame: Frame) -> None:
            step(m, frame)
            frame[slot] = check(m, frame[slot])

        return checked

    def _make_step(self, op: Operation, dying: tuple[int, ...]) -> Step:
        ins = tuple(self._slots[v] for v in op.operands)
        outs = tuple(self._slots[v] for v in op.results)
        build = self.implementations.builder(op)
        if build is not None:
            return build(self, op, ins, outs)
        found = self.implementations.find(op)
        if found is None:
            return _unsupported(op)
        functions, impl = found
        if not op.operands and isinstance(op, arith.ConstantOp | tt.MakeRangeOp):
            return _constant(op, outs[0], functions, impl)
        lower = self.implementations.lowered.get(type(op))
        if lower is not None:
            call = lower(op)
            if _is_pure(op):
                return self._remembered(op, ins, outs, call)
            return _step(op, ins, outs, call)
        make_rule = self.implementations.rules.get(type(op))
        rule = make_rule(op) if make_rule is not None else None
        lazy = type(op) in getattr(functions, "lazy", ())
        thick = () if lazy else tuple(n for n, v in enumerate(op.operands) if _may_be_lazy(v))
        call = _plain(op, functions, impl, rule, thick)
        function = self.implementations.in_place.get(type(op))
        if function is not None and str(element_type(op.results[0].type)) in ("f32", "f64"):
            call = _in_place(function, call, ins[0] in dying, ins[1] in dying)
        elif len(outs) == 1 and ins and (rule is not None or _is_scalar(op)):
            # What has no operands depends on the launch: the number of programs.
            return self._remembered(op, ins, outs, call)
        return _step(op, ins, outs, call)

    def _remembered(
        self, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...], call: Lowered
    ) -> Step:
        """A pure step that looks first whether it has had these operands."""
        memo: Memo = {}
        (self._numbers if _is_scalar(op) else self._memos).append(memo)
        return _recalled(
            ins, outs[0], memo, _step(op, ins, outs, _memoised(call, memo, _is_scalar(op)))
        )


def _unsupported(op: Operation) -> Step:
    """Not an error until it is reached: a branch that is not taken may hold it."""

    def run(m: Machine, frame: Frame) -> None:
        raise Unsupported(f"operation {op.name}", location_of(op))

    return run


def _plain(
    op: Operation,
    functions: InterpreterFunctions,
    impl: Any,
    rule: AffineRule | None,
    thick: tuple[int, ...],
) -> Lowered:
    """What runs `op`: its affine rule, else its implementation on dense operands."""

    def call(m: Machine, args: Sequence[Any]) -> tuple[Any, ...]:
        if rule is not None:
            result = rule(m, args)
            if result is not None:
                return (result,)
        if thick:
            args = list(args)
            for n in thick:
                args[n] = dense(args[n])
        return impl(functions, m, op, tuple(args)).values

    return call


def _constant(op: Operation, slot: int, functions: InterpreterFunctions, impl: Any) -> Step:
    """An op that always gives the same value: made once."""
    value: list[Any] = []

    def run(m: Machine, frame: Frame) -> None:
        if not value:
            value.append(shared(impl(functions, m, op, ()).values[0]))
        frame[slot] = value[0]

    return run


def _in_place(function: np.ufunc, call: Lowered, first_dies: bool, second_dies: bool) -> Lowered:
    """`function` into the memory of an operand that nobody else has: its last use is here, and the
    only references to it are the frame's and ours. The cache need not make room for a third array.
    """
    if not (first_dies or second_dies):
        return call

    def run(m: Machine, args: Sequence[Any]) -> tuple[Any, ...]:
        a, b = args
        if a.size >= _WORTH_REUSING or b.size >= _WORTH_REUSING:
            # Four references: the frame, `args`, `a` (or `b`) and the argument of getrefcount. An
            # operand that stands on both sides has two more.
            alone = 6 if a is b else 4
            if first_dies and a.base is None and getrefcount(a) == alone and _covers(a, b):
                return (function(a, b, out=a),)
            if second_dies and b.base is None and getrefcount(b) == 4 and _covers(b, a):
                return (function(a, b, out=b),)
        return call(m, args)

    return run


_WORTH_REUSING = 4096


def _covers(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the result of an elementwise function of `a` and `b` has the shape of `a`."""
    if a.ndim != b.ndim or not a.flags.writeable:
        return False
    return all(n == k or k == 1 for n, k in zip(a.shape, b.shape, strict=True))


def _memoised(call: Lowered, memo: Memo, scalar: bool) -> Lowered:
    """`call`, which must be pure, with its results kept in `memo` for operands that are the same
    for all programs: batch after batch computes the same masks and offsets from the same objects,
    and loops the same `scalar`s. Of those that programs differ in, as in loops that they leave one
    after the other, a few are kept."""

    def run(m: Machine, args: Sequence[Any]) -> tuple[Any, ...]:
        results = call(m, args)
        if (
            len(memo) >= _MEMO_SIZE
            or not (scalar or m.pids.size > 1)
            or type(results[0]) is Tainted
        ):
            return results
        if not all(map(_is_uniform, args)) and not (
            scalar and len(memo) < _MEMO_FEW and all(type(a) is np.ndarray for a in args)
        ):
            return results
        result = shared(results[0]) if scalar else results[0]
        # The operands are kept as well, so that their ids stay theirs.
        memo[tuple(map(id, args))] = (tuple(args), result)
        return (result,)

    return run


_MEMO_SIZE = 512
_MEMO_FEW = 128


def _recalled(ins: tuple[int, ...], out: int, memo: Memo, step: Step) -> Step:
    """`step`, unless `memo` has its result. What it was computed from is kept there, so that who
    has the same ids is the same."""
    if len(ins) == 2:
        first, second = ins

        def run_two(m: Machine, frame: Frame) -> None:
            known = memo.get((id(frame[first]), id(frame[second])))
            if known is None:
                step(m, frame)
            else:
                frame[out] = known[1]

        return run_two

    def run(m: Machine, frame: Frame) -> None:
        known = memo.get(tuple([id(frame[i]) for i in ins]))
        if known is None:
            step(m, frame)
        else:
            frame[out] = known[1]

    return run


def _is_uniform(value: Any) -> bool:
    """Whether a value is the same for all programs and cheap to keep."""
    if type(value) is np.ndarray:
        return value.size == 1
    if type(value) is Index:
        return value.base.size == 1
    if type(value) is Pointer:
        return type(value.offset) is Index and value.offset.base.size == 1
    return type(value) is Box and value.uniform


def _step(op: Operation, ins: tuple[int, ...], outs: tuple[int, ...], call: Lowered) -> Step:
    def run(m: Machine, frame: Frame) -> None:
        args = [frame[i] for i in ins]
        if m.tainted and any(type(a) is Tainted for a in args):
            results = run_tainted(m, op, tuple(args), lambda a: call(m, a))
        else:
            results = call(m, args)
        for slot, result in zip(outs, results, strict=True):
            frame[slot] = result

    return run


def _may_be_lazy(value: SSAValue) -> bool:
    return isinstance(element_type(value.type), IntegerType)


def _blocks(region: Region) -> Iterator[Block]:
    for block in region.blocks:
        yield from block.walk_blocks()


_PURE_DIALECTS = ("arith.", "math.")
_PURE_TT = {
    tt.SplatOp,
    tt.BroadcastOp,
    tt.ExpandDimsOp,
    tt.MakeRangeOp,
    tt.AddPtrOp,
    tt.GetNumProgramsOp,
    tt.BitcastOp,
}


def _is_pure(op: Operation) -> bool:
    return op.name.startswith(_PURE_DIALECTS) or type(op) in _PURE_TT


@cache
def _is_terminator(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator)


def _is_scalar(op: Operation) -> bool:
    """Whether the op computes a number from numbers."""
    values = (*op.operands, *op.results)
    return _is_pure(op) and all(_is_number(type(v.type)) for v in values)


@cache
def _is_number(kind: type[Attribute]) -> bool:
    return issubclass(kind, (IntegerType, IndexType, AnyFloat))


def _split_prologue(body: RegionPlan, op: tt.FuncOp, slots: dict[SSAValue, int]) -> BlockPlan:
    """Take steps that give the same for every program out of the entry block."""
    entry = body.entry
    same = set(entry.arguments)
    first: list[int] = []
    for n, inner in enumerate(entry.ops):
        if _is_pure(inner) and all(slots[v] in same for v in inner.operands):
            same.update(slots[r] for r in inner.results)
            first.append(n)
    rest = [n for n in range(len(entry.ops)) if n not in set(first)]
    prologue = BlockPlan(
        (),
        [entry.steps[n] for n in first],
        [()] * len(first),
        [entry.ops[n] for n in first],
        None,
        (),
    )
    entry.dead = [tuple(s for s in entry.dead[n] if s not in same) for n in rest]
    entry.steps = [entry.steps[n] for n in rest]
    entry.ops = [entry.ops[n] for n in rest]
    return prologue


_ADDRESS_STEPS = (
    "arith.addi",
    "arith.subi",
    "arith.muli",
    "arith.extsi",
    "arith.extui",
    "arith.shli",
    "tt.splat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.trans",
    "ttg.convert_layout",
)


def address_ops(op: Operation) -> set[int]:
    """Ids of the integer ops that make up offsets of `tt.addptr`: sums and products, and what only
    moves them around. A wrap in one of them is a wrong address."""
    found: set[int] = set()
    todo = [inner.operands[1] for inner in op.walk() if type(inner) is tt.AddPtrOp]
    while todo:
        source = todo.pop().owner
        if not isinstance(source, Operation) or id(source) in found:
            continue
        if source.name in _ADDRESS_STEPS:
            found.add(id(source))
            todo += source.operands
    return found
