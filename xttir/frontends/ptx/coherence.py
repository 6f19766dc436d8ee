"""Whether registers can keep their names: of the values of one register only one is alive at once.

True of what the parser makes; a transformation that copies or hoists values may break it.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from xttir.diagnostics import Unsupported
from xttir.dialects.locations import location_of
from xttir.dialects.ptx.function import FuncOp
from xttir.dialects.ptx.instruction import Instruction


def check_registers(func: FuncOp) -> None:
    """Raises Unsupported, located, where two values of one register are alive at once."""
    blocks = list(func.body.blocks)
    numbers: dict[SSAValue, int] = {}
    for block in blocks:
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            numbers[value] = len(numbers)
    values = list(numbers)
    live = _live_in(blocks, numbers)
    for block in blocks:
        out = 0
        last = block.last_op
        for successor in last.successors if last is not None else ():
            out |= live[successor]
        alive: dict[object, SSAValue] = {}
        for index in _bits(out):
            _enter(alive, values[index], last)
        for op in reversed(list(block.ops)):
            _check_op(op, alive)
        for arg in block.args:
            _define(alive, arg, block.first_op)


def _check_op(op: Operation, alive: dict[object, SSAValue]) -> None:
    for result in op.results:
        _define(alive, result, op)
    for operand in op.operands:
        _enter(alive, operand, op)
    if isinstance(op, Instruction):
        # All operands of an instruction are read at once, but for what it passes to a block.
        read = {value.type: value for value in (*op.uses, *op.old)}
        for value in (*op.uses, *op.old, *op.targets):
            if read.get(value.type, value) is not value:
                raise _overlap(value, op)


def _enter(alive: dict[object, SSAValue], value: SSAValue, op: Operation | None) -> None:
    if alive.setdefault(value.type, value) is not value:
        raise _overlap(value, op)


def _define(alive: dict[object, SSAValue], value: SSAValue, op: Operation | None) -> None:
    if alive.pop(value.type, value) is not value:
        raise _overlap(value, op)


def _overlap(value: SSAValue, op: Operation | None) -> Unsupported:
    name = value.type.register.data  # type: ignore
    place = location_of(op) if op is not None else None
    return Unsupported(f"two values of register {name} are alive at once", place)


def _live_in(blocks: list[Block], numbers: dict[SSAValue, int]) -> dict[Block, int]:
    """For each block the bits of the values that are alive at its start, arguments left out."""
    exposed: dict[Block, int] = {}
    for block in blocks:
        bits = 0
        own: set[SSAValue] = set(block.args)
        for op in block.ops:
            for operand in op.operands:
                if operand not in own:
                    bits |= 1 << numbers[operand]
            own.update(op.results)
        exposed[block] = bits
    defined = {
        block: sum(
            1 << numbers[value]
            for value in (*block.args, *(result for op in block.ops for result in op.results))
        )
        for block in blocks
    }
    live = dict(exposed)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out = 0
            last = block.last_op
            for successor in last.successors if last is not None else ():
                out |= live[successor]
            new = exposed[block] | (out & ~defined[block])
            if new != live[block]:
                live[block] = new
                changed = True
    return live


def _bits(bits: int) -> list[int]:
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
