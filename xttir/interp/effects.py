"""What a kernel does to memory, read off its IR once: what it may write, and how its programs may
depend on one another.

Pointers are followed without regard to control flow: values that may hold the same pointer fall in
one class (union-find); a class that holds a pointer from nowhere known (loaded, cast from an
integer) may point anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from xttir.dialects import scf, tt, ttg, ttng
from xttir.dialects.memory_access import GlobalAccess, global_accesses
from xttir.dialects.tt.memory import (
    AtomicCASForm,
    AtomicLoadForm,
    AtomicRMWForm,
    AtomicStoreForm,
)
from xttir.interp.types import element_type, is_float_type, shape_of

_ATOMICS = (AtomicRMWForm, AtomicCASForm, AtomicLoadForm, AtomicStoreForm, tt.AtomicPollOp)
_LOADS = (
    tt.LoadOp,
    tt.DescriptorLoadOp,
    tt.DescriptorGatherOp,
    ttg.AsyncCopyGlobalToLocalOp,
    ttng.AsyncTMACopyGlobalToLocalOp,
    ttng.AsyncTMAGatherOp,
)
_STORES = (
    tt.StoreOp,
    tt.DescriptorStoreOp,
    tt.DescriptorScatterOp,
    tt.DescriptorReduceOp,
    ttng.AsyncTMACopyLocalToGlobalOp,
    ttng.AsyncTMAScatterOp,
    ttng.AsyncTMAReduceOp,
)
_REDUCTIONS = (tt.DescriptorReduceOp, ttng.AsyncTMAReduceOp)
_MEMORY = (*_ATOMICS, *_LOADS, *_STORES)


@dataclass(frozen=True)
class Effects:
    """Facts on one kernel.

    `sites`: every op of the module that accesses memory. `written`: positions of the kernel's
    arguments that may be written, None if any memory may be. `ordered`: programs exchange values
    through atomics, so they run one at a time under vector clocks. `waits`: a loop may wait for
    another program. `sequential`: the result of float atomics depends on the order of programs, so
    they run one at a time. `tile`: the greatest number of elements of a value. `arithmetic`: how
    many ops compute float tensors. `agents`: programs wait for barriers. `prints`: they print.
    """

    sites: tuple[Operation, ...]
    written: frozenset[int] | None
    ordered: bool
    waits: bool
    sequential: bool
    tile: int
    arithmetic: int
    agents: bool = False
    prints: bool = False


def effects_of(module: ModuleOp, kernel: tt.FuncOp) -> Effects:
    """Analyse `kernel` and everything in its module."""
    classes, sites = _accesses(module)
    tile = 1
    arithmetic = 0
    agents = prints = False
    for op in module.walk():
        kind = type(op)
        agents |= kind is ttng.WaitBarrierOp or kind is ttg.WarpSpecializeOp
        prints |= kind is tt.PrintOp
        for result in op.results:
            if type(result.type) is TensorType:
                tile = max(tile, prod(shape_of(result.type)))
                arithmetic += op.name.startswith(("arith.", "math.")) and is_float_type(result.type)
    targets = _places(classes, sites, written=True)
    written: frozenset[int] | None
    if any(classes.anywhere(t) for t in targets):
        written = None
    else:
        written = frozenset(_positions(kernel, classes, targets))
    ordered = any(_is_atomic(op) and op.results and _used(op) for op in sites)
    waits = any(_waits(op, classes, targets) for op in sites)
    floats = [op for op in sites if _adds_floats(op)]
    sequential = len(floats) > 1 or any(_in_loop(op) for op in floats)
    return Effects(
        tuple(sites),
        written,
        ordered or waits,
        waits,
        sequential,
        tile,
        arithmetic,
        agents,
        prints,
    )


def accessed_arguments(module: ModuleOp, kernel: str) -> tuple[list[int], list[int]]:
    """Positions of the arguments that `kernel` may read, and of those that it may write."""
    classes, sites = _accesses(module)
    read = _places(classes, sites, written=False)
    written = _places(classes, sites, written=True)
    op = tt.function_named(module, kernel)
    if op is None:
        return [], []
    return _positions(op, classes, read), _positions(op, classes, written)


def _accesses(module: ModuleOp) -> tuple[_Classes, list[Operation]]:
    """Which pointers may be the same, and the ops that access memory, in order."""
    classes = _Classes()
    sites: list[Operation] = []
    for op in module.walk():
        _connect(classes, module, op)
        if _accesses_memory(type(op)):
            sites.append(op)
    return classes, sites


@cache
def _accesses_memory(kind: type[Operation]) -> bool:
    return issubclass(kind, _MEMORY) or kind.has_trait(GlobalAccess, value_if_unregistered=False)


def _positions(kernel: tt.FuncOp, classes: _Classes, chosen: set[SSAValue]) -> list[int]:
    """Positions of the arguments of `kernel` whose class is among `chosen`."""
    arguments = kernel.body.blocks[0].args
    return [n for n, argument in enumerate(arguments) if classes.find(argument) in chosen]


def _places(classes: _Classes, sites: list[Operation], *, written: bool) -> set[SSAValue]:
    """Classes of the pointers that `sites` write through, or read through."""
    found: set[SSAValue] = set()
    for op in sites:
        declared = list(global_accesses(op))
        if not declared and (_writes(op) if written else _reads(op)):
            found.add(classes.find(pointer_of(op)))
        for verb, pointer in declared:
            if verb != ("load" if written else "store"):
                found.add(classes.find(pointer))
    return found


def _is_atomic(op: Operation) -> bool:
    return isinstance(op, _ATOMICS) or any(verb == "atomic" for verb, _ in global_accesses(op))


def _reads(op: Operation) -> bool:
    return not isinstance(op, _STORES) or isinstance(op, _REDUCTIONS)


def _writes(op: Operation) -> bool:
    return not isinstance(op, (*_LOADS, AtomicLoadForm))


def pointer_of(op: Operation) -> SSAValue:
    """The pointer or descriptor operand of a memory op."""
    for operand in op.operands:
        if _is_pointer(operand):
            return operand
    raise ValueError(f"{op.name} has no pointer operand")


def _used(op: Operation) -> bool:
    return any(r.first_use is not None for r in op.results)


def _adds_floats(op: Operation) -> bool:
    if isinstance(op, AtomicRMWForm):
        return op.atomic_rmw_op.value.data == tt.RMWOp.FADD
    if isinstance(op, _REDUCTIONS):
        return op.kind.value.data == tt.DescriptorReduceKind.ADD
    return False


def _in_loop(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, tt.FuncOp):
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            return True
        parent = parent.parent_op()
    return parent is not None and len(parent.regions[0].blocks) > 1


def _waits(op: Operation, classes: _Classes, targets: set[SSAValue]) -> bool:
    """Whether `op` looks at memory that others may change, in a loop that may go on for ever."""
    if isinstance(op, tt.AtomicPollOp):
        return True
    if not (isinstance(op, tt.LoadOp) or _is_atomic(op)) or not op.results:
        return False
    where = classes.find(pointer_of(op))
    if isinstance(op, tt.LoadOp) and where not in targets and not classes.anywhere(where):
        return False
    parent: Operation | None = op.parent_op()
    while parent is not None and not isinstance(parent, tt.FuncOp):
        if isinstance(parent, scf.WhileOp):
            return True
        parent = parent.parent_op()
    return parent is not None and _on_cycle(op, parent)


def _on_cycle(op: Operation, function: Operation) -> bool:
    """Whether the block of the function's body that holds `op` can be reached from itself."""
    region = function.regions[0]
    if len(region.blocks) == 1:
        return False
    parent = op.parent_block()
    block = region.find_ancestor_block_in_region(parent) if parent is not None else None
    if block is None:
        return True
    seen: set[int] = set()
    todo = _next_blocks(block)
    while todo:
        at = todo.pop()
        if at is block:
            return True
        if id(at) not in seen:
            seen.add(id(at))
            todo += _next_blocks(at)
    return False


def _next_blocks(block: Block) -> list[Block]:
    last = block.last_op
    return list(last.successors) if last is not None else []


def _is_pointer(value: SSAValue) -> bool:
    ty = value.type
    return type(ty.element_type if type(ty) is TensorType else ty) in _POINTERS


# Asked for every value of a module: exact types are compared, since `isinstance` goes through the
# abstract base classes of attributes and ops.
_POINTERS = frozenset((tt.PointerType, tt.TensorDescType, ttng.TensorDescIm2ColType))


class _Classes:
    """Union-find over SSA values, with a mark for classes that may point anywhere."""

    def __init__(self) -> None:
        self._parent: dict[SSAValue, SSAValue] = {}
        self._anywhere: set[SSAValue] = set()

    def find(self, value: SSAValue) -> SSAValue:
        root = value
        while (above := self._parent.get(root, root)) is not root:
            root = above
        while (above := self._parent.get(value, value)) is not value:
            self._parent[value] = root
            value = above
        return root

    def join(self, values: Iterable[SSAValue]) -> None:
        roots = [self.find(v) for v in values]
        for other in roots[1:]:
            first = self.find(roots[0])
            if other is not first and self.find(other) is not first:
                other = self.find(other)
                self._parent[other] = first
                if other in self._anywhere:
                    self._anywhere.add(first)

    def mark(self, value: SSAValue) -> None:
        self._anywhere.add(self.find(value))

    def anywhere(self, value: SSAValue) -> bool:
        return self.find(value) in self._anywhere


def _connect(classes: _Classes, module: ModuleOp, op: Operation) -> None:
    """Join the classes of values among which `op` passes pointers."""
    for block, values in zip(op.successors, _successor_operands(op), strict=False):
        _join_pairs(classes, block.args, values)
    kind = type(op)
    if kind is tt.CallOp:
        _connect_call(classes, module, op)  # pyright: ignore[reportArgumentType]
    elif kind is ttng.TensormapCreateOp:
        classes.join([op.desc_ptr, op.global_address])  # pyright: ignore[reportAttributeAccessIssue]
    elif kind is ttg.GlobalScratchAllocOp:
        # Memory of its own: it holds tensor maps, whose pointers join its class.
        return
    elif op.regions and kind is not ModuleOp and kind is not tt.FuncOp:
        _join_carried(classes, op, _carried(op))
    else:
        results = [r for r in op.results if _is_pointer(r)]
        sources = [v for v in op.operands if _is_pointer(v)]
        if results and (not sources or isinstance(op, tt.LoadOp)):
            for result in results:
                classes.mark(result)
        elif results:
            classes.join([*results, *sources])


def _connect_call(classes: _Classes, module: ModuleOp, op: tt.CallOp) -> None:
    """Arguments with parameters, results with what the callee returns."""
    name = op.callee.root_reference.data
    for callee in module.body.block.ops:
        if not isinstance(callee, tt.FuncOp) or callee.sym_name.data != name:
            continue
        if callee.body.blocks:
            _join_pairs(classes, callee.body.blocks[0].args, op.operands)
        for inner in callee.walk():
            if isinstance(inner, tt.ReturnOp):
                _join_pairs(classes, op.results, inner.operands)


def _carried(op: Operation) -> list[SSAValue]:
    """Pointers that enter, leave or go round a structured op."""
    found = [v for v in (*op.operands, *op.results) if _is_pointer(v)]
    for region in op.regions:
        for block in region.blocks:
            found += [a for a in block.args if _is_pointer(a)]
            if block.last_op is not None and block.last_op.has_trait(IsTerminator):
                found += [v for v in block.last_op.operands if _is_pointer(v)]
    return found


def _join_carried(classes: _Classes, op: Operation, pointers: list[SSAValue]) -> None:
    """For structured ops, values at corresponding positions; where positions are not known,
    everything of one type."""
    if isinstance(op, scf.ForOp):
        block = op.body.block
        inits = op.operands[3:]
        yielded = block.last_op.operands if block.last_op is not None else ()
        for group in (block.args[1:], yielded, op.results):
            _join_pairs(classes, inits, group)
        return
    if isinstance(op, ttg.WarpSpecializePartitionsOp):
        for region in op.partition_regions:
            _join_pairs(classes, op.operands, region.blocks[0].args)
        return
    if isinstance(op, ttg.WarpSpecializeOp):
        last = op.default_region.blocks[-1].last_op
        _join_pairs(classes, op.results, last.operands if last is not None else ())
        return
    if isinstance(op, scf.IfOp):
        for region in op.regions:
            for block in region.blocks:
                if block.last_op is not None:
                    _join_pairs(classes, op.results, block.last_op.operands)
        return
    by_type: dict[str, list[SSAValue]] = {}
    for value in pointers:
        by_type.setdefault(str(element_type(value.type)), []).append(value)
    for group in by_type.values():
        classes.join(group)


def _join_pairs(classes: _Classes, left: Iterable[SSAValue], right: Iterable[SSAValue]) -> None:
    for a, b in zip(left, right, strict=False):
        if _is_pointer(a):
            classes.join([a, b])


def _successor_operands(op: Operation) -> list[Iterable[SSAValue]]:
    if not op.successors:
        return []
    if len(op.successors) == 1:
        return [op.operands]
    if hasattr(op, "then_arguments"):
        return [op.then_arguments, op.else_arguments]  # pyright: ignore
    return [()] * len(op.successors)
