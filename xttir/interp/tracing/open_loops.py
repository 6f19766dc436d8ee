"""Loops that go round as often as data says.

Where a round does nothing but what is `REPEATABLE`, and takes from the one before no number that
is known, all rounds are alike. Two accesses with a meeting of all threads of the agent between them
are ordered, others meet as if the rounds between them were left out, so a few rounds show every
pair that there is: the loop is traced with none of the rounds that data asks for, one, two and
three of them, each in a trace of its own. The first may still know the numbers that the loop
began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsTerminator

from xttir.diagnostics import Unsupported
from xttir.dialects import cf, gpu, scf, tt, ttg
from xttir.dialects.locations import location_of
from xttir.dialects.ttg import MemDescType
from xttir.interp.tracing import handlers
from xttir.interp.tracing.evaluate import WITHOUT_EVENTS
from xttir.interp.tracing.values import Pending, Unknown

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

ROUNDS = 3
"""Rounds that are traced after the first whose end is not known."""

END = "loops that go round as long as data says come to an end"

REPEATABLE = (
    ttg.LocalAllocOp,
    ttg.LocalDeallocOp,
    ttg.LocalLoadOp,
    ttg.LocalStoreOp,
    ttg.LocalGatherOp,
    ttg.LocalScatterOp,
    ttg.LocalAtomicScatterRMWOp,
    ttg.BarrierOp,
    gpu.BarrierOp,
    tt.AtomicRMWOp,
    tt.AtomicCASOp,
    tt.AtomicPollOp,
)
"""Ops with events that leave nothing behind which a later round could depend on."""


@dataclass(frozen=True, eq=False)
class Loop:
    """A natural loop of blocks. `kept`: whether each argument of `head` is the same in all
    rounds."""

    head: Block
    blocks: frozenset[Block]
    kept: tuple[bool, ...]


@dataclass
class Rounds:
    """An open loop that an agent is in. `count`: rounds begun since its end was not known."""

    loop: Loop
    count: int = 0


def goes_on(a: Agent, count: int) -> bool:
    """Whether another round is traced after `count` that data asked for."""
    return count < ROUNDS and a.tracer.choose()


def must_repeat(op: Operation, ops: Iterable[Operation], a: Agent) -> None:
    """Raises `Unsupported` if a round of the loop that `op` decides about, which consists of `ops`,
    may leave something to the next one."""
    if END not in a.tracer.assumptions:
        a.tracer.assumptions.append(END)
    for one in ops:
        if isinstance(one, tt.CallOp):
            function = tt.function_named(a.tracer.module, one.callee.root_reference.data)
            inner = () if function is None else function.body.walk()
            must_repeat(op, inner, a)
        elif not _repeats(one):
            raise Unsupported(
                f"{one.name} in a loop whose end depends on data or on an argument that is "
                "not given",
                location_of(op),
                a.tracer.how_to_know(op),
            )


def _repeats(op: Operation) -> bool:
    if isinstance(op, REPEATABLE) or type(op) in handlers.QUIET:
        return True
    if type(op) in handlers.HANDLERS:
        return False
    structured = isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp | scf.ExecuteRegionOp)
    return structured or op.has_trait(IsTerminator) or op.name.partition(".")[0] in WITHOUT_EVENTS


def not_pending(op: Operation, values: Iterable[Any]) -> None:
    """Raises `Unsupported` where a loop carries what is in flight."""
    if any(isinstance(v, Pending) for v in values):
        raise Unsupported(
            "an asynchronous product that is carried through a loop as long as data says",
            location_of(op),
        )


# Loops of blocks ----------------------------------------------------------------------------------


def stays(a: Agent, last: Operation, loop: Loop, into: bool) -> bool:
    """Whether the branch `last`, whose condition is not known, goes on in `loop`. `into`: whether
    it does so where the condition holds. The way it goes is then to be taken as this says."""
    key = (a.frame, loop.head)
    rounds = a.open_loops.get(key)
    if rounds is None:
        must_repeat(last, (op for block in loop.blocks for op in block.walk()), a)
        not_pending(last, [a.value(v) for v in loop.head.args])
        rounds = a.open_loops[key] = Rounds(loop)
    return into == goes_on(a, rounds.count)


def came(a: Agent, last: Operation, target: Block, args: list[Any], lost: Unknown) -> list[Any]:
    """What the arguments of `target` are when the branch `last` goes there with `args`."""
    key = (a.frame, target)
    rounds = a.open_loops.get(key)
    if rounds is None:
        return args
    if last.parent_block() not in rounds.loop.blocks:
        del a.open_loops[key]
        return args
    rounds.count += 1
    not_pending(last, args)
    return [v if keep else lost for v, keep in zip(args, rounds.loop.kept, strict=True)]


def loop_left(a: Agent, last: Operation) -> tuple[Loop, bool] | None:
    """The innermost loop that one target of the branch `last` is in and the other is not, and
    whether the first target is the one inside."""
    region, block = last.parent_region(), last.parent_block()
    assert region is not None
    assert block is not None
    first, second = last.successors
    for loop in _loops(a, region):
        inside = first in loop.blocks
        if block in loop.blocks and inside != (second in loop.blocks):
            return loop, inside
    return None


def _loops(a: Agent, region: Region) -> tuple[Loop, ...]:
    key = ("loops", region)
    if key not in a.tracer.state:
        a.tracer.state[key] = loops_of(region)
    return a.tracer.state[key]


def loops_of(region: Region) -> tuple[Loop, ...]:
    """The natural loops of a region, inner ones before those around them."""
    order = DominanceInfo(region)
    found: dict[Block, set[Block]] = {}
    before: dict[Block, list[Block]] = {}
    for block in region.blocks:
        for target in _targets(block):
            before.setdefault(target, []).append(block)
    for block in region.blocks:
        for head in _targets(block):
            if order.dominates(head, block):
                found.setdefault(head, {head}).update(_body(head, block, before))
    loops = [Loop(h, frozenset(b), _kept(h, b, before)) for h, b in found.items()]
    return tuple(sorted(loops, key=lambda loop: len(loop.blocks)))


def _body(head: Block, end: Block, before: dict[Block, list[Block]]) -> set[Block]:
    """Blocks from which `end` is reached without `head`."""
    seen = {head}
    todo = [end]
    while todo:
        block = todo.pop()
        if block not in seen:
            seen.add(block)
            todo += before.get(block, [])
    return seen


def _kept(head: Block, blocks: set[Block], before: dict[Block, list[Block]]) -> tuple[bool, ...]:
    given = [_given(block, head) for block in blocks.intersection(before[head])]
    return tuple(
        all(
            values[n] is arg or (isinstance(arg.type, MemDescType) and _fresh(values[n]))
            for values in given
        )
        for n, arg in enumerate(head.args)
    )


def _fresh(value: SSAValue | None) -> bool:
    """Whether a descriptor is made from none that a loop carries. (From a number that it carries it
    cannot be made: that is not known.)"""
    if value is None or isinstance(value, BlockArgument):
        return False
    assert isinstance(value.owner, Operation)
    return all(_fresh(v) for v in value.owner.operands if isinstance(v.type, MemDescType))


def _given(block: Block, head: Block) -> list[SSAValue | None]:
    """What a branch from `block` to `head` gives for its arguments; None where it has two ways."""
    last = block.last_op
    if isinstance(last, cf.BranchOp):
        return list(last.operands)
    if isinstance(last, cf.ConditionalBranchOp):
        ways = []
        if last.then_block is head:
            ways.append(last.then_arguments)
        if last.else_block is head:
            ways.append(last.else_arguments)
        if len(ways) == 1:
            return list(ways[0])
    return [None] * len(head.args)


def _targets(block: Block) -> tuple[Block, ...]:
    return () if block.last_op is None else tuple(block.last_op.successors)
