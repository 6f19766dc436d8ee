"""Verification that names the op at fault, for modules just parsed.

xDSL's `verify` prints the whole module into its exception, and checks neither that definitions
come before uses nor that they dominate them. Here the first op that does not verify is reported
with its position in the text.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException


class InvalidOp(Exception):
    """`op` breaks a rule; the message is one line that begins with the op's name."""

    def __init__(self, op: Operation, message: str):
        super().__init__(f"'{op.name}' op {' '.join(message.split())}")
        self.op = op


def verify(op: Operation) -> None:
    """Verify `op` and all it holds. Raises InvalidOp for the first that does not verify."""
    try:
        _check_place(op)
        op.verify_()
    except VerifyException as error:
        raise InvalidOp(op, str(error)) from error
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is None and len(region.blocks) == 1 and not op.has_trait(NoTerminator):
                raise InvalidOp(op, "has an empty block where at least a terminator is needed")
            for inner in block.ops:
                verify(inner)


def _check_place(op: Operation) -> None:
    """Terminators end blocks; successors lie in the same region."""
    block = op.parent
    region = None if block is None else block.parent
    if op.successors:
        if block is None or block.last_op is not op:
            raise VerifyException("has successors, so it must end its block")
        for successor in op.successors:
            if successor.parent is not region:
                raise VerifyException("branches to a block of another region")
    if block is None or region is None or block.last_op is not op:
        return
    if op.has_trait(IsTerminator):
        return
    parent = region.parent
    if len(region.blocks) > 1 or (parent is not None and not parent.has_trait(NoTerminator)):
        raise VerifyException("ends its block but is not a terminator")


class Dominance:
    """Which blocks of a region dominate which. Blocks that no path reaches are dominated by all."""

    def __init__(self, region: Region):
        entry = region.blocks[0]
        predecessors: dict[Block, list[Block]] = {entry: []}
        order: list[Block] = []
        stack = [entry]
        while stack:
            block = stack.pop()
            order.append(block)
            for successor in block.last_op.successors if block.last_op else ():
                if successor not in predecessors:
                    predecessors[successor] = []
                    stack.append(successor)
                predecessors[successor].append(block)
        self.dominators = {block: set(order) for block in order}
        self.dominators[entry] = {entry}
        changed = True
        while changed:
            changed = False
            for block in order[1:]:
                new = set.intersection(*(self.dominators[p] for p in predecessors[block]))
                new.add(block)
                if new != self.dominators[block]:
                    self.dominators[block], changed = new, True

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path to `b` goes through `a`."""
        return b not in self.dominators or a in self.dominators[b]


def check_dominance(module: Operation, forward: Iterable[SSAValue]) -> None:
    """Check that every definition dominates its uses.

    In text, a value that is used before its definition is known to the parser (`forward`). All
    others are defined earlier in the text, hence dominate unless they lie in another block of a
    region of several blocks.
    """
    infos: dict[Region, Dominance] = {}
    for value in forward:
        for use in value.uses:
            _check_use(value, use.operation, infos)
    for op in module.walk():
        for region in op.regions:
            if len(region.blocks) > 1:
                for inner in region.walk():
                    for operand in inner.operands:
                        if operand.owner is not inner.parent:
                            _check_use(operand, inner, infos)


def _check_use(value: SSAValue, user: Operation, infos: dict[Region, Dominance]) -> None:
    home: Block | None = value.owner if isinstance(value.owner, Block) else value.owner.parent
    at: Operation | None = user
    region = None if home is None else home.parent
    while at is not None and at.parent_region() is not region:
        at = at.parent_op()
    if at is None or home is None or region is None or at.parent is None:
        raise InvalidOp(user, "uses a value that is not visible there")
    if at.parent is home:
        if not isinstance(value, OpResult) or value.op.is_before_in_block(at):
            return
    else:
        info = infos.get(region)
        if info is None:
            info = infos[region] = Dominance(region)
        if info.dominates(home, at.parent):
            return
    name = f" %{value.name_hint}" if value.name_hint else ""
    raise InvalidOp(user, f"uses a value{name} whose definition does not dominate it")
