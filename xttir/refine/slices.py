"""Which arguments of a kernel decide what it does (its loop bounds, branches, masks and promises)
and where (its addresses).

A slice through the IR, backwards from conditions and bounds to parameters. Loop-carried values are
followed to where they start and to what the body yields; calls to what the callee returns;
arguments of partitions to what is captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from xttir.dialects import arith, cf, llvm, scf, tt

_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "ceildivsi", "ceildivui", "floordivsi")
)

_EQUAL = (0, 1)
"""Predicates of comparisons: equal, not equal."""


@dataclass
class Decisions:
    """What decides control flow, masks and addresses of a kernel.

    `arguments`: positions of parameters, with the constants they may be compared with. `loaded`:
    positions of pointer parameters whose contents decide. `bounds`: positions that reach the
    bounds of a loop, so that they must stay small, with how much greater they are for one more
    iteration (a block, where the loop goes over blocks). `addresses`, `indices`: positions of
    scalars that are part of addresses, and of pointers whose contents are. `met`: positions of
    pointers whose contents are asked whether they are equal to something, with what.
    """

    arguments: dict[int, set[int]] = field(default_factory=dict)
    loaded: set[int] = field(default_factory=set)
    bounds: dict[int, int] = field(default_factory=dict)
    addresses: set[int] = field(default_factory=set)
    indices: set[int] = field(default_factory=set)
    met: dict[int, _Slice] = field(default_factory=dict)

    def add(self, other: Decisions) -> None:
        """Take in what another form of the same kernel decides on."""
        for position, constants in other.arguments.items():
            self.arguments.setdefault(position, set()).update(constants)
        for position, unit in other.bounds.items():
            self.bounds[position] = max(unit, self.bounds.get(position, 1))
        self.loaded |= other.loaded
        self.addresses |= other.addresses
        self.indices |= other.indices
        for position, met in other.met.items():
            self.meets(position, met)

    def meets(self, position: int, met: _Slice) -> None:
        """Take in what the contents of a pointer are compared with."""
        known = self.met.setdefault(position, _Slice())
        known.parameters |= met.parameters
        known.constants |= met.constants


def decisions(module: ModuleOp, kernel: tt.FuncOp) -> Decisions:
    """Analyse `kernel` and what it calls."""
    flow = _Flow(module, kernel)
    found = Decisions()
    for op in module.walk():
        places = flow.back(list(_addressing(op)))
        found.addresses |= places.parameters
        found.indices |= places.pointers
        deciding = list(_deciding(op))
        if not deciding:
            continue
        decided = flow.back(deciding)
        if isinstance(op, arith.CmpiOp) and op.predicate.value.data in _EQUAL:
            sides = [flow.back([value]) for value in deciding]
            for loaded, other in (sides, sides[::-1]):
                if not other.pointers:
                    for position in loaded.pointers:
                        found.meets(position, other)
        for position in decided.parameters:
            found.arguments.setdefault(position, set()).update(decided.constants)
        found.loaded |= decided.pointers
        if isinstance(op, scf.ForOp | scf.WhileOp):
            unit = max([1, *decided.divisors]) * _step(op)
            for position in decided.parameters:
                found.bounds[position] = max(unit, found.bounds.get(position, 1))
    return found


def _step(loop: scf.ForOp | scf.WhileOp) -> int:
    """By how much a loop counts on, 1 where that is not known."""
    if isinstance(loop, scf.ForOp) and isinstance(loop.step.owner, arith.ConstantOp):
        return max(1, _number(loop.step.owner) or 1)
    return 1


@dataclass
class _Slice:
    """What values are computed from: positions of parameters, constants, positions of pointer
    parameters that are loaded from, and the constants that something is divided by."""

    parameters: set[int] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)
    pointers: set[int] = field(default_factory=set)
    divisors: set[int] = field(default_factory=set)


def _deciding(op: Operation) -> Iterator[SSAValue]:
    """Operands of `op` that decide what is done."""
    if isinstance(op, scf.ForOp):
        yield from op.operands[:3]
    elif isinstance(op, scf.IfOp | scf.ConditionOp | cf.ConditionalBranchOp | llvm.AssumeOp):
        yield op.operands[0]
    elif isinstance(op, arith.CmpiOp | arith.SelectOp | tt.AssertOp):
        yield from op.operands


def _addressing(op: Operation) -> Iterator[SSAValue]:
    """Operands of `op` that say where memory is accessed, beside its base."""
    if isinstance(op, tt.AddPtrOp):
        yield op.operands[1]
    elif op.name.startswith("tt.descriptor_") or op.name == "tt.make_tensor_descriptor":
        yield from op.operands[1:]
    elif "tma" in op.name or "async_" in op.name:
        yield from op.operands


class _Flow:
    """Where values of a module come from."""

    def __init__(self, module: ModuleOp, kernel: tt.FuncOp):
        self.kernel = kernel
        self.functions = {
            op.sym_name.data: op for op in module.body.block.ops if isinstance(op, tt.FuncOp)
        }
        self.calls: dict[str, list[tt.CallOp]] = {}
        self.branches: dict[Block, list[tuple[SSAValue, ...]]] = {}
        for op in module.walk():
            if isinstance(op, tt.CallOp):
                self.calls.setdefault(op.callee.root_reference.data, []).append(op)
            elif isinstance(op, cf.BranchOp):
                self.branches.setdefault(op.successor, []).append(tuple(op.arguments))
            elif isinstance(op, cf.ConditionalBranchOp):
                self.branches.setdefault(op.then_block, []).append(tuple(op.then_arguments))
                self.branches.setdefault(op.else_block, []).append(tuple(op.else_arguments))

    def back(self, values: list[SSAValue]) -> _Slice:
        """The slice backwards from `values`."""
        seen: set[SSAValue] = set()
        todo = list(values)
        found = _Slice()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, BlockArgument):
                if value.block is self.kernel.body.blocks.first:
                    is_pointer = isinstance(value.type, tt.PointerType | tt.TensorDescType)
                    (found.pointers if is_pointer else found.parameters).add(value.index)
                todo += self._into(value)
                continue
            op = value.owner
            assert isinstance(op, Operation)
            if isinstance(op, arith.ConstantOp):
                number = _number(op)
                if number is not None:
                    found.constants.add(number)
                continue
            if isinstance(op, tt.MakeRangeOp):
                found.constants.add(op.end.value.data)
            elif op.name in _DIVISIONS and isinstance(op.operands[1].owner, arith.ConstantOp):
                found.divisors.add(_number(op.operands[1].owner) or 1)
            todo += op.operands
            todo += self._out_of(value, op)
        return found

    def _into(self, value: BlockArgument) -> list[SSAValue]:
        """Values that a block argument may take."""
        block = value.block
        found = [arguments[value.index] for arguments in self.branches.get(block, ())]
        parent = block.parent_op()
        if isinstance(parent, tt.FuncOp):
            for call in self.calls.get(parent.sym_name.data, ()):
                found.append(call.operands[value.index])
        elif parent is not None and parent.name == "ttg.warp_specialize.partitions":
            found.append(parent.operands[value.index])
        elif isinstance(parent, scf.ForOp):
            if value.index == 0:
                found += parent.operands[:3]
            else:
                found.append(parent.operands[2 + value.index])
                found.append(_last(block).operands[value.index - 1])
        elif isinstance(parent, scf.WhileOp):
            before, after = (r.blocks[0] for r in parent.regions)
            if block is before:
                found += [parent.operands[value.index], _last(after).operands[value.index]]
            else:
                found.append(_last(before).operands[1 + value.index])
        return found

    def _out_of(self, value: SSAValue, op: Operation) -> list[SSAValue]:
        """Values that the regions or the callee of `op` give as `value`."""
        index = list(op.results).index(value)  # pyright: ignore[reportArgumentType]
        if isinstance(op, tt.CallOp):
            function = self.functions.get(op.callee.root_reference.data)
            if function is None:
                return []
            ends = [b.last_op for b in function.body.blocks]
            return [e.operands[index] for e in ends if isinstance(e, tt.ReturnOp)]
        skip = 1 if isinstance(op, scf.WhileOp) else 0
        found: list[SSAValue] = []
        for region in op.regions[: 1 if skip else None]:
            for block in region.blocks:
                end = block.last_op
                if end is not None and len(end.operands) > index + skip:
                    found.append(end.operands[index + skip])
        return found


def _last(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _number(op: arith.ConstantOp) -> int | None:
    value = op.value
    if isinstance(value, IntegerAttr):
        return value.value.data
    if isinstance(value, DenseIntOrFPElementsAttr) and value.is_splat():
        first = next(iter(value.iter_values()), None)
        return first if isinstance(first, int) else None
    return None
