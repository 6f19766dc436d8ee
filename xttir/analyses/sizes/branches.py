"""A function's blocks on terms: branches by guards, loops of branches by closed forms.

Blocks go in an order in which whatever leads to one comes before it. A loop has one block that it
is entered by; what it carries is solved as for `scf.for` (`carried`), at an iteration of which
nothing is known but that the branches of the body lead where they lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Block, Operation, Region, SSAValue

from xttir.analyses.sizes.carried import classify, entered, mark_of
from xttir.analyses.sizes.terms import Cond, both, either, negation
from xttir.diagnostics import Unsupported
from xttir.dialects.locations import location_of

if TYPE_CHECKING:
    from xttir.analyses.sizes.evaluate import Evaluator

Way = tuple[Cond, list[Any]]
"""When a block is reached, and with which values."""


@dataclass
class _Graph:
    """Blocks in order, and the blocks of each loop by the block that it is entered by."""

    order: list[Block]
    loops: dict[Block, set[Block]]


@dataclass
class _Ways:
    """Where control goes from some blocks: out of them, back to where they began, out of the
    function."""

    out: list[tuple[Block, Way]] = field(default_factory=list)
    back: list[Way] = field(default_factory=list)
    returned: list[Way] = field(default_factory=list)


def run(owner: Evaluator, region: Region, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a function's blocks; the values of its return."""
    graph = _graph(region)
    ways = _run(owner, graph, graph.order, region.blocks[0], (True, list(arguments)), None)
    return _merged(owner, ways.returned)[1] if ways.returned else []


def _run(
    owner: Evaluator,
    graph: _Graph,
    blocks: list[Block],
    first: Block,
    entry: Way,
    loop: Block | None,
) -> _Ways:
    """Evaluate `blocks` from `first`; `loop`: the loop whose body they are."""
    incoming: dict[Block, list[Way]] = {first: [entry]}
    ways = _Ways()
    done: set[Block] = set()

    def go(target: Block, way: Way, source: Operation) -> None:
        if target is loop:
            ways.back.append(way)
        elif target not in members:
            ways.out.append((target, way))
        elif target in done:
            raise Unsupported("a loop that is entered in two places", location_of(source))
        else:
            incoming.setdefault(target, []).append(way)

    members = set(blocks)
    for block in blocks:
        if block in done or block not in incoming:
            continue
        reached, values = _merged(owner, incoming[block])
        body = graph.loops.get(block)
        if body is not None and block is not loop:
            inner = _loop(owner, graph, [b for b in blocks if b in body], reached, values)
            done |= body
            ways.returned += inner.returned
            for target, way in inner.out:
                go(target, way, _last(block))
            continue
        done.add(block)
        owner.path.append(reached)
        owner.bind(block, values)
        last = owner.ops(block)
        targets = _edges(owner, last)
        owner.path.pop()
        if targets is None:
            ways.returned.append((reached, [owner.value(v) for v in last.operands]))
            continue
        for condition, target, operands in targets:
            way = (both(reached, condition), [owner.value(v) for v in operands])
            go(target, way, last)
    return ways


def _loop(
    owner: Evaluator, graph: _Graph, blocks: list[Block], reached: Cond, inits: list[Any]
) -> _Ways:
    """Evaluate a loop at any one of its iterations."""
    header = blocks[0]
    last = _last(header)
    k = owner.iteration()
    pairs = list(zip(header.args, inits, strict=True))
    marks = [mark_of(owner, header, n, arg, init) for n, (arg, init) in enumerate(pairs)]
    recording, owner.recording = owner.recording, False
    back = _run(owner, graph, blocks, header, (reached, marks), header).back
    if not back:
        raise Unsupported("a loop that never goes round", location_of(last))
    yielded = _merged(owner, back)[1]
    inside = [
        classify(owner, header, n, arg, init, marks[n], yielded[n], k, blocks).inside
        for n, (arg, init) in enumerate(pairs)
    ]
    again = _run(owner, graph, blocks, header, (reached, inside), header).back
    owner.recording = recording
    here = both(reached, entered(owner, k, _merged(owner, again)[0]))
    return _run(owner, graph, blocks, header, (here, inside), header)


def _merged(owner: Evaluator, ways: list[Way]) -> Way:
    """When any of the ways is taken, and with which values then."""
    values = ways[-1][1]
    for condition, others in reversed(ways[:-1]):
        values = [owner.choose(condition, a, b) for a, b in zip(others, values, strict=True)]
    return either(*(c for c, _ in ways)), values


def _edges(owner: Evaluator, op: Operation) -> list[tuple[Cond, Block, Sequence[SSAValue]]] | None:
    if op.name == "cf.br":
        return [(True, op.successors[0], op.operands)]
    if op.name == "cf.cond_br":
        condition = owner.scalar(op.operands[0])
        then, otherwise = op.successors
        count = len(then.args)
        return [
            (condition, then, op.operands[1 : 1 + count]),
            (negation(condition), otherwise, op.operands[1 + count :]),
        ]
    return None


def _last(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def _graph(region: Region) -> _Graph:
    """Blocks in reverse postorder, and the natural loops."""
    order: list[Block] = []
    state: dict[Block, int] = {}
    backward: list[tuple[Block, Block]] = []
    before: dict[Block, list[Block]] = {}
    stack: list[tuple[Block, list[Block]]] = [
        (region.blocks[0], [*_last(region.blocks[0]).successors])
    ]
    state[region.blocks[0]] = 1
    while stack:
        block, rest = stack[-1]
        if not rest:
            stack.pop()
            state[block] = 2
            order.append(block)
            continue
        target = rest.pop()
        before.setdefault(target, []).append(block)
        if state.get(target) == 1:
            backward.append((block, target))
        elif target not in state:
            state[target] = 1
            stack.append((target, [*_last(target).successors]))
    loops: dict[Block, set[Block]] = {}
    for latch, header in backward:
        body = loops.setdefault(header, {header})
        todo = [latch]
        while todo:
            block = todo.pop()
            if block not in body:
                body.add(block)
                todo += before.get(block, [])
    return _Graph(order[::-1], loops)
