"""What every edit of a module is made from: replacing values, function arguments, tidying up.

Modules are changed in place; an edit works on a clone that nobody else has. Nothing here checks
that the result is valid: the verifier does, for every candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsolatedFromAbove, IsTerminator
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from xttir.dialects import arith, constants, scf, tt
from xttir.dialects.syntax.printer import module_text as module_text


def op_count(module: ModuleOp) -> int:
    """Ops inside the module: functions, terminators and constants are counted, too."""
    return sum(1 for _ in module.walk()) - 1


def inner_ops(module: ModuleOp) -> list[Operation]:
    """All ops but functions and terminators, in order."""
    return [
        op
        for op in module.walk()
        if not isinstance(op, ModuleOp | tt.FuncOp) and not op.has_trait(IsTerminator)
    ]


def droppable(module: ModuleOp) -> list[int]:
    """Positions in `inner_ops` of what is dropped for itself. A constant goes when nothing uses it:
    other numbers in its place would make another program, not a smaller one."""
    ops = inner_ops(module)
    return [n for n, op in enumerate(ops) if not isinstance(op, arith.ConstantOp)]


def function_of(op: Operation) -> tt.FuncOp | None:
    """The function that an op stands in."""
    up: Operation | None = op
    while up is not None and not isinstance(up, tt.FuncOp):
        up = up.parent_op()
    return up


def erase(op: Operation) -> None:
    """Take an op whose results have no uses out of the module, with everything in it."""
    op.detach()
    op.erase()


# Values -------------------------------------------------------------------------------------------


def constant(ty: Attribute, number: int = 0) -> arith.ConstantOp | None:
    """`number` as a value of a type (all elements of a tensor); None where there is no such."""
    element = ty.element_type if isinstance(ty, TensorType) else ty
    if isinstance(element, IntegerType | IndexType):
        width = element.width.data if isinstance(element, IntegerType) else 64
        number = number & ((1 << width) - 1)
        signed = number - (1 << width) if width > 1 and number >> (width - 1) else number
        if not isinstance(ty, TensorType):
            return arith.ConstantOp(IntegerAttr(signed, element))
        size = max(1, -(-width // 8))
        return arith.ConstantOp(constants.splat(ty, number.to_bytes(size, "little")), ty)
    if isinstance(element, AnyFloat):
        bits = constants.float_to_bits(float(number), element)
        if not isinstance(ty, TensorType):
            return arith.ConstantOp(constants.float_attr_from_bits(bits, element))
        data = bits.to_bytes(element.bitwidth // 8, "little")
        return arith.ConstantOp(constants.splat(ty, data), ty)
    return None


def before(op: Operation, new: Operation) -> SSAValue:
    """Put `new` in front of `op`; gives its result."""
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new.results[0]


def instead_of(op: Operation, index: int) -> SSAValue | None:
    """An operand (or a value yielded) that can stand for result `index` of `op`, or None."""
    ty = op.results[index].type
    if isinstance(op, scf.ForOp):
        return op.iter_args[index]
    for region in op.regions:
        end = region.block.last_op if len(region.blocks) == 1 else None
        if end is not None and index < len(end.operands) and end.operands[index].type == ty:
            value = end.operands[index]
            if not _inside(value, op):
                return value
    return next((v for v in op.operands if v.type == ty), None)


def _inside(value: SSAValue, op: Operation) -> bool:
    up = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    while up is not None:
        if up is op:
            return True
        up = up.parent_op()
    return False


def visible_before(op: Operation, ty: Attribute) -> SSAValue | None:
    """The latest value of a type that is defined before `op`: in its block, or around it."""
    at: Operation | None = op
    while at is not None and at.parent is not None:
        found: SSAValue | None = None
        for other in at.parent.ops:
            if other is at:
                break
            found = next((r for r in other.results if r.type == ty), found)
        found = found or next((a for a in at.parent.args if a.type == ty), None)
        if found is not None:
            return found
        at = at.parent.parent_op()
        if at is None or at.has_trait(IsolatedFromAbove):
            return None
    return None


# Functions ----------------------------------------------------------------------------------------


def _argument_attributes(function: tt.FuncOp) -> list[DictionaryAttr]:
    held = function.arg_attrs.data if function.arg_attrs is not None else ()
    missing = len(function.args) - len(held)
    return [*held, *(DictionaryAttr({}) for _ in range(missing))]


def _set_signature(function: tt.FuncOp, attributes: Sequence[DictionaryAttr]) -> None:
    outputs = function.function_type.outputs.data
    function.properties["function_type"] = FunctionType.from_lists(
        [a.type for a in function.args], outputs
    )
    if any(a.data for a in attributes):
        function.properties["arg_attrs"] = ArrayAttr(attributes)
    else:
        function.properties.pop("arg_attrs", None)


def set_argument_attributes(function: tt.FuncOp, index: int, held: DictionaryAttr) -> None:
    """Give parameter `index` other attributes."""
    attributes = _argument_attributes(function)
    attributes[index] = held
    _set_signature(function, attributes)


def add_argument(function: tt.FuncOp, ty: Attribute) -> BlockArgument:
    """A new last parameter of a function that nobody calls."""
    attributes = _argument_attributes(function)
    block = function.body.blocks[0]
    argument = block.insert_arg(ty, len(block.args))
    _set_signature(function, [*attributes, DictionaryAttr({})])
    return argument


def remove_argument(function: tt.FuncOp, index: int) -> None:
    """Take away a parameter without uses of a function that nobody calls."""
    attributes = _argument_attributes(function)
    del attributes[index]
    block = function.body.blocks[0]
    block.erase_arg(block.args[index])
    _set_signature(function, attributes)


def called(module: ModuleOp) -> set[str]:
    """Names of functions that are called."""
    return {op.callee.root_reference.data for op in module.walk() if isinstance(op, tt.CallOp)}


def bodies(module: ModuleOp) -> Iterator[tt.FuncOp]:
    """Functions with a body."""
    for op in module.ops:
        if isinstance(op, tt.FuncOp) and not op.is_declaration:
            yield op


# Tidying up ---------------------------------------------------------------------------------------


def remove_dead(module: ModuleOp) -> bool:
    """Erase ops without effect whose results are not used. Whether there were any."""
    changed = False
    while True:
        dead = [op for op in module.walk(reverse=True) if op.parent and is_trivially_dead(op)]
        for op in dead:
            if op.parent is not None and all(r.first_use is None for r in op.results):
                erase(op)
        if not dead:
            return changed
        changed = True


def share_constants(module: ModuleOp) -> None:
    """Equal constants of a function (of its parts that are isolated from one another) become one,
    at the start."""
    first: dict[tuple[int, Attribute], Operation] = {}
    for op in list(module.walk()):
        if not isinstance(op, arith.ConstantOp):
            continue
        block = _outermost(op)
        key = (id(block), op.value)
        kept = first.get(key)
        if kept is None:
            first[key] = op
            if block.first_op is not op:
                op.detach()
                _insert_first(block, op)
        else:
            op.results[0].replace_all_uses_with(kept.results[0])
            erase(op)


def _outermost(op: Operation) -> Block:
    """The block at whose start constants for `op` may stand."""
    at: Operation = op
    while True:
        block = at.parent
        assert block is not None
        up = block.parent_op()
        if up is None or up.has_trait(IsolatedFromAbove):
            region = block.parent
            return region.blocks[0] if region is not None else block
        at = up


def _insert_first(block: Block, op: Operation) -> None:
    after = None
    for other in block.ops:
        if not isinstance(other, arith.ConstantOp):
            break
        after = other
    if after is not None:
        block.insert_op_after(op, after)
    elif block.first_op is not None:
        block.insert_op_before(op, block.first_op)
    else:
        block.add_op(op)


def inline_before(block: Block, op: Operation, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Move the ops of a block in front of `op`, its arguments replaced; gives what its terminator,
    which is erased, was given."""
    end = block.last_op
    assert end is not None
    given = list(end.operands)
    substitutes = dict(zip(block.args, arguments, strict=True))
    erase(end)
    Rewriter.inline_block(block, InsertPoint.before(op), list(arguments))
    return [substitutes.get(v, v) if isinstance(v, BlockArgument) else v for v in given]
