"""Whether registers can keep their names when a function is printed.

In the text an instruction reads what was last written to a register. So every use must see its own
value: along the dominator tree the last definition of the register, and at a block where several
definitions of a live register meet, an argument. True of what the parser makes; a transformation
that copies or moves values may break it. (What reads `ptx.undef` may see anything.)
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xttir.diagnostics import Unsupported
from xttir.dialects.locations import location_of
from xttir.dialects.ptx.function import FuncOp, UndefOp
from xttir.dialects.ptx.operands import RegType
from xttir.frontends.ptx.placement import bits_of, place_arguments


def check_registers(func: FuncOp) -> None:
    """Raises Unsupported, located, where a use would see another value of its register."""
    _Checker(func).check()


class _Checker:
    def __init__(self, func: FuncOp):
        self.blocks = list(func.body.blocks)
        self.index = {block: i for i, block in enumerate(self.blocks)}
        self.registers: dict[Attribute, int] = {}
        self.last: list[SSAValue | None] = []

    def check(self) -> None:
        exposed: list[int] = []
        defined: list[int] = []
        for block in self.blocks:
            read, written = self._summary(block)
            exposed.append(read)
            defined.append(written)
        successors = [
            [self.index[target] for target in block.last_op.successors] if block.last_op else []
            for block in self.blocks
        ]
        placement = place_arguments(successors, exposed, defined)
        types = list(self.registers)
        children: list[list[int]] = [[] for _ in self.blocks]
        for i in placement.order:
            missing = placement.arguments[i] & ~self._bits(self.blocks[i].args)
            for register in bits_of(missing):
                raise _conflict(types[register], self.blocks[i].first_op)
            if i != placement.order[0]:
                children[placement.parents[i]].append(i)
        self.last = [None] * len(self.registers)
        self._walk(placement.order[0], children)

    def _register(self, value: SSAValue) -> int:
        return self.registers.setdefault(value.type, len(self.registers))

    def _bits(self, values: Sequence[SSAValue]) -> int:
        bits = 0
        for value in values:
            bits |= 1 << self._register(value)
        return bits

    def _summary(self, block: Block) -> tuple[int, int]:
        read, written = 0, self._bits(block.args)
        for op in block.ops:
            if isinstance(op, UndefOp):
                continue
            used = [value for value in op.operands if not isinstance(value.owner, UndefOp)]
            read |= self._bits(used) & ~written
            written |= self._bits(op.results)
        return read, written

    def _walk(self, root: int, children: list[list[int]]) -> None:
        trail: list[tuple[int, SSAValue | None]] = []
        stack = [(root, -1)]
        while stack:
            i, mark = stack.pop()
            if mark >= 0:
                while len(trail) > mark:
                    register, value = trail.pop()
                    self.last[register] = value
                continue
            stack.append((i, len(trail)))
            self._block(self.blocks[i], trail)
            stack += ((child, -1) for child in children[i])

    def _block(self, block: Block, trail: list[tuple[int, SSAValue | None]]) -> None:
        def define(values: Sequence[SSAValue]) -> None:
            for value in values:
                register = self._register(value)
                trail.append((register, self.last[register]))
                self.last[register] = value

        define(block.args)
        for op in block.ops:
            if isinstance(op, UndefOp):
                continue
            for value in op.operands:
                if isinstance(value.owner, UndefOp):
                    continue
                if self.last[self._register(value)] is not value:
                    raise _conflict(value.type, op)
            define(op.results)


def _conflict(type_: Attribute, op: Operation | None) -> Unsupported:
    name = type_.register if isinstance(type_, RegType) else StringAttr(str(type_))
    place = location_of(op) if op is not None else None
    return Unsupported(f"two values of register {name.data} are needed at once", place)
