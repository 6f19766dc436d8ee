"""A function's statements to blocks of SSA.

Registers become values; a block takes as arguments the live registers for which definitions meet in
it. What is read before it is written on some path is a `ptx.undef` at the entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xttir.dialects.ptx.control import EndOp, FallthroughOp
from xttir.dialects.ptx.function import DirectiveOp, UndefOp, VariableOp
from xttir.dialects.ptx.instruction import Mnemonic
from xttir.frontends.ptx.ast import Body, Label, Register, Statement, Text
from xttir.frontends.ptx.placement import Placement, bits_of, place_arguments

_TERMINATORS = frozenset(["bra", "brx.idx", "ret", "exit"])
_EMPTY = ArrayAttr([])
_UNIT = UnitAttr()


@dataclass(slots=True)
class _Block:
    items: list[Statement | Label | Text] = field(default_factory=list)
    terminator: Statement | None = None
    successors: list[int] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    exposed: int = 0
    """Bits of the registers read before they are written here."""
    defined: int = 0


def build(body: Body, variables: list[VariableOp]) -> list[Block]:
    """The blocks of the function, in the order of the text; variables stand first in the entry."""
    blocks = _split(body)
    for block in blocks:
        _summarize(block, body)
    placement = _place(blocks)
    return _Emitter(body, blocks, variables).emit(placement.parents, placement.order)


def _split(body: Body) -> list[_Block]:
    """Blocks begin at labels that are branched to and behind terminators."""
    blocks = [_Block()]
    if body.items and isinstance(body.items[0], Label) and body.items[0].target:
        blocks.append(_Block())
        blocks[0].successors = [1]
    current = blocks[-1]
    fresh = True
    for item in body.items:
        if isinstance(item, Label) and item.target:
            if not fresh or len(blocks) == 1:
                if current.terminator is None and not current.successors:
                    current.successors = [len(blocks)]
                current = _Block()
                blocks.append(current)
                fresh = True
            item.block = len(blocks) - 1
            continue
        if current.terminator is not None:
            current = _Block()
            blocks.append(current)
        fresh = False
        if isinstance(item, Statement) and item.mnemonic.op.family in _TERMINATORS:
            current.terminator = item
            if item.guard is not None:
                current.successors = [len(blocks)]
        else:
            current.items.append(item)
    last = blocks[-1]
    if last.terminator is not None and last.terminator.guard is not None:
        blocks.append(_Block())
    for block in blocks:
        if block.terminator is not None:
            targets = [label.block for label in block.terminator.labels]
            block.successors = targets + block.successors
    return blocks


def _summarize(block: _Block, body: Body) -> None:
    exposed = defined = 0
    statements = [item for item in block.items if isinstance(item, Statement)]
    if block.terminator is not None:
        statements.append(block.terminator)
        if block.terminator.mnemonic.op.family == "ret" and body.results:
            block.terminator.uses += body.results
    for statement in statements:
        for register in statement.uses:
            bit = 1 << register.index
            if not defined & bit:
                exposed |= bit
        if statement.guard is not None:
            exposed |= (1 << statement.guard.index) & ~defined
        if statement.defs:
            bits = 0
            for register in statement.defs:
                bits |= 1 << register.index
            if statement.keeps_old:
                exposed |= bits & ~defined
            defined |= bits
    block.exposed, block.defined = exposed, defined


def _place(blocks: list[_Block]) -> Placement:
    found = place_arguments(
        [block.successors for block in blocks],
        [block.exposed for block in blocks],
        [block.defined for block in blocks],
    )
    for block, bits in zip(blocks, found.arguments, strict=True):
        block.arguments = bits_of(bits)
    return found


class _Emitter:
    def __init__(self, body: Body, blocks: list[_Block], variables: list[VariableOp]):
        self.body = body
        self.blocks = blocks
        self.variables = variables
        registers = body.registers
        self.results = [
            Block(arg_types=[registers[index].type for index in block.arguments])
            for block in blocks
        ]
        for register in body.parameters:
            self.results[0].insert_arg(register.type, len(self.results[0].args))
        self.current: list[SSAValue | None] = [None] * len(registers)
        self.undefined: dict[int, UndefOp] = {}
        self.sizes: dict[tuple[int, int, int, int], DenseArrayBase] = {}
        self.modifiers: dict[Mnemonic, tuple[ArrayAttr, StringAttr | None]] = {}
        self.trail: list[tuple[int, SSAValue | None]] = []

    def emit(self, parents: list[int], order: list[int]) -> list[Block]:
        """Fill the blocks, each behind its dominator, so that values are made before their uses."""
        children: list[list[int]] = [[] for _ in self.blocks]
        for index in order[1:]:
            children[parents[index]].append(index)
        reached = set(order)
        roots = [0, *(i for i in range(len(self.blocks)) if i not in reached)]
        for root in roots:
            self.current = [None] * len(self.body.registers)
            self._walk(root, children)
        entry = self.results[0]
        first = entry.first_op
        head: list[Operation] = [*self.variables, *self.undefined.values()]
        if first is None:
            entry.add_ops(head)
        else:
            entry.insert_ops_before(head, first)
        return self.results

    def _walk(self, root: int, children: list[list[int]]) -> None:
        stack: list[tuple[int, int]] = [(root, -1)]
        while stack:
            index, mark = stack.pop()
            if mark >= 0:
                while len(self.trail) > mark:
                    register, value = self.trail.pop()
                    self.current[register] = value
                continue
            stack.append((index, len(self.trail)))
            self._fill(index)
            stack += ((child, -1) for child in reversed(children[index]))

    def _fill(self, index: int) -> None:
        block, result = self.blocks[index], self.results[index]
        registers = block.arguments
        if index == 0:
            registers = [*registers, *(register.index for register in self.body.parameters)]
        for register, value in zip(registers, result.args, strict=True):
            self._define(register, value)
        ops = [
            self._make(item, [], []) if isinstance(item, Statement) else _directive(item)
            for item in block.items
        ]
        ops.append(self._terminator(block))
        result.add_ops(ops)

    def _define(self, register: int, value: SSAValue) -> None:
        self.trail.append((register, self.current[register]))
        self.current[register] = value

    def _read(self, register: Register) -> SSAValue:
        value = self.current[register.index]
        if value is None:
            op = self.undefined.get(register.index)
            if op is None:
                op = UndefOp.create(result_types=[register.type])
                op.results[0].name_hint = _hint(register.name)
                self.undefined[register.index] = op
            value = op.results[0]
        return value

    def _make(
        self, statement: Statement, targets: list[SSAValue], successors: list[Block]
    ) -> Operation:
        read = self._read
        operands = [read(register) for register in statement.uses]
        old = 0
        if statement.keeps_old:
            old = len(statement.defs)
            operands += [read(register) for register in statement.defs]
        guard = statement.guard
        if guard is not None:
            operands.append(read(guard))
        operands += targets
        sizes = (len(statement.uses), old, int(guard is not None), len(targets))
        modifiers, spelled = self._words(statement.mnemonic)
        properties: dict[str, Attribute] = {
            "modifiers": modifiers,
            "dst": statement.dst,
            "src": statement.src,
            "operandSegmentSizes": self._sizes(sizes),
        }
        if statement.negated:
            properties["negated"] = _UNIT
        if spelled is not None:
            properties["spelled"] = spelled
        op = statement.mnemonic.op.create(
            operands=operands,
            result_types=[register.type for register in statement.defs],
            properties=properties,
            successors=successors,
            location=statement.location,
        )
        for register, value in zip(statement.defs, op.results, strict=True):
            self._define(register.index, value)
            value.name_hint = _hint(register.name)
        return op

    def _terminator(self, block: _Block) -> Operation:
        targets: list[SSAValue] = []
        for successor in block.successors:
            for index in self.blocks[successor].arguments:
                targets.append(self._read(self.body.registers[index]))
        successors = [self.results[successor] for successor in block.successors]
        if block.terminator is not None:
            return self._make(block.terminator, targets, successors)
        properties: dict[str, Attribute] = {
            "modifiers": _EMPTY,
            "dst": _EMPTY,
            "src": _EMPTY,
            "operandSegmentSizes": self._sizes((0, 0, 0, len(targets))),
        }
        cls = FallthroughOp if successors else EndOp
        return cls.create(operands=targets, properties=properties, successors=successors)

    def _words(self, mnemonic: Mnemonic) -> tuple[ArrayAttr, StringAttr | None]:
        found = self.modifiers.get(mnemonic)
        if found is None:
            words = ArrayAttr([StringAttr(word) for word in mnemonic.modifiers])
            spelled = StringAttr(mnemonic.spelled) if mnemonic.spelled else None
            found = self.modifiers[mnemonic] = (words, spelled)
        return found

    def _sizes(self, sizes: tuple[int, int, int, int]) -> DenseArrayBase:
        found = self.sizes.get(sizes)
        if found is None:
            found = self.sizes[sizes] = DenseArrayBase.from_list(i32, sizes)
        return found


def _hint(name: str) -> str:
    return name.lstrip("%").replace(".", "_")


def _directive(item: Text | Label) -> Operation:
    if isinstance(item, Label):
        return DirectiveOp(properties={"text": StringAttr(f"{item.name}:")})
    op = DirectiveOp(properties={"text": StringAttr(item.text)})
    op.location = item.location
    return op
