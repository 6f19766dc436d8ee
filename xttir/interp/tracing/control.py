"""Control flow of a traced module: regions, structured loops, branches between blocks, calls.

What decides must be a number (`Agent.number`). A branch on data is passed over where nothing in it
gives events; otherwise it is taken both ways, in traces of their own (`Tracer.choose`): control
flow of these dialects is that of a whole program, so all of its threads go the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from xttir.analyses.events import Access, Footprint, Mode, Space
from xttir.diagnostics import Unsupported
from xttir.dialects import cf, scf, tt, ttg
from xttir.dialects.locations import location_of
from xttir.interp.tracing import handlers, open_loops
from xttir.interp.tracing.agents import Agent
from xttir.interp.tracing.evaluate import WITHOUT_EVENTS
from xttir.interp.tracing.values import UNKNOWN, VARYING, Pending, Unknown

MOST_ITERATIONS = 1 << 20

Values = list[Any]


def is_scalar(ty: Attribute) -> bool:
    """Whether a parameter of this type is a number that control flow may depend on."""
    return isinstance(ty, IntegerType | IndexType)


def run_region(a: Agent, region: Region, args: Values | None) -> Values:
    """Run a region from its first block with `args` (None: they are in the environment) to a
    terminator without successors; the values of that one's operands."""
    block = region.blocks[0]
    steps = 0
    while True:
        if args is not None:
            for argument, value in zip(block.args, args, strict=True):
                a.env[argument] = value
        last = _run_block(a, block)
        if last is None:
            return []
        if not last.successors:
            return [a.value(v) for v in last.operands]
        block, args = _next(a, last)
        args = open_loops.came(a, last, block, args, _lost(a)) if a.open_loops else args
        if a.tracer.visits is not None:
            a.tracer.visits.note(a, block, args)
        steps += 1
        if steps > MOST_ITERATIONS:
            raise Unsupported(f"more than {MOST_ITERATIONS} branches", location_of(last))


def _run_block(a: Agent, block: Block) -> Operation | None:
    last = block.last_op
    for op in block.ops:
        if op is last and op.has_trait(IsTerminator):
            return op
        run_op(a, op)
    return None


def run_op(a: Agent, op: Operation) -> None:
    """Execute one op: its values are then in the environment."""
    args = [a.value(v) for v in op.operands]
    a.steps += 1
    if a.tracer.visits is not None:
        a.tracer.visits.compare(a, op, args)
    if any(type(v) is Pending for v in args):
        not_in_flight(a, op, args)
    handler = handlers.HANDLERS.get(type(op))
    if handler is not None:
        try:
            result = handler(a, op, *args)
        except Unsupported as error:
            error.location = error.location or location_of(op)
            raise
        _set(a, op, result)
        return
    structured = _STRUCTURED.get(type(op))
    if structured is not None:
        _set(a, op, tuple(structured(a, op, args)))
        return
    if op.name.partition(".")[0] not in WITHOUT_EVENTS:
        raise Unsupported(f"the events of {op.name}", location_of(op))
    if "allocation.offset" in op.attributes:
        from xttir.interp.tracing.scratch import through_scratch

        through_scratch(a, op)
    for result, value in zip(op.results, a.tracer.evaluator.results(op, args), strict=True):
        a.env[result] = value


def _set(a: Agent, op: Operation, result: Any) -> None:
    results = op.results
    if len(results) == 1 and not isinstance(result, tuple):
        result = (result,)
    elif result is None:
        result = (None,) * len(results)
    for ssa, value in zip(results, result, strict=True):
        a.env[ssa] = UNKNOWN if value is None else value


def not_in_flight(a: Agent, op: Operation, args: Values) -> None:
    """Registers that an operation in flight writes are nobody else's before its wait. Control flow
    only passes them on."""
    if type(op) in handlers.IN_FLIGHT or type(op) in _STRUCTURED:
        return
    from xttir.interp.tracing.ttng_mma import used_in_flight

    for value in args:
        if isinstance(value, Pending):
            used_in_flight(a, op, value)


# Structured ---------------------------------------------------------------------------------------


def _for(a: Agent, op: Operation, args: Values) -> Values:
    assert isinstance(op, scf.ForOp)
    low, high, step, *carried = args
    if any(isinstance(v, Unknown) for v in (low, high, step)):
        if is_quiet(op.body):
            return [_lost(a)] * len(carried)
        if all(v is not VARYING for v in (low, high, step)):
            return _open_for(a, op, carried)
    first, end, by = (
        a.number(op, v, f"the {name} of a loop")
        for v, name in ((low, "lower bound"), (high, "upper bound"), (step, "step"))
    )
    if by <= 0:
        raise Unsupported("scf.for with a step that is not positive", location_of(op))
    kind = op.body.block.args[0].type
    if (end - first) // by > MOST_ITERATIONS:
        raise Unsupported(f"a loop of more than {MOST_ITERATIONS} iterations", location_of(op))
    visits = a.tracer.visits
    for number in range(first, end, by):
        index = a.tracer.evaluator.constant(number, kind)
        if visits is not None:
            visits.note(a, op.body.block, [index, *carried])
        carried = run_region(a, op.body, [index, *carried])
    return carried


def _open_for(a: Agent, op: scf.ForOp, carried: Values) -> Values:
    """A loop whose bounds depend on data."""
    open_loops.must_repeat(op, op.body.walk(), a)
    kept = [v is arg for v, arg in zip(_yielded(op.body), op.body.block.args[1:], strict=True)]
    rounds = 0
    while open_loops.goes_on(a, rounds):
        carried = _carried(a, op, run_region(a, op.body, [_lost(a), *carried]), carried, kept)
        rounds += 1
    return carried


def _yielded(region: Region) -> Sequence[SSAValue]:
    last = region.blocks[-1].last_op
    return () if last is None else last.operands


def _carried(a: Agent, op: Operation, now: Values, before: Values, kept: list[bool]) -> Values:
    """What an open loop carries into its next round, or out of the last."""
    open_loops.not_pending(op, (*now, *before))
    return [v if keep else _lost(a) for v, keep in zip(now, kept, strict=True)]


def _if(a: Agent, op: Operation, args: Values) -> Values:
    assert isinstance(op, scf.IfOp)
    if isinstance(args[0], Unknown):
        if all(is_quiet(r) for r in op.regions):
            return [_lost(a)] * len(op.results)
        holds = _chosen(a, op, args[0])
    else:
        holds = bool(a.number(op, args[0], "a condition"))
    region = op.true_region if holds else op.false_region
    return run_region(a, region, []) if region.blocks else []


def _while(a: Agent, op: Operation, args: Values) -> Values:
    assert isinstance(op, scf.WhileOp)
    if all(is_quiet(r) for r in op.regions) and not _decided(a, op, args):
        return [_lost(a)] * len(op.results)
    rounds = 0
    for _ in range(MOST_ITERATIONS):
        holds, *args = run_region(a, op.before_region, args)
        known = not isinstance(holds, Unknown)
        if known or holds is VARYING:
            if not a.number(op, holds, "the condition of a loop"):
                return args
        elif rounds == 0:
            open_loops.must_repeat(op, (o for r in op.regions for o in r.walk()), a)
        if not known and not open_loops.goes_on(a, rounds):
            return args
        before, args = args, run_region(a, op.after_region, args)
        if not known or rounds:
            rounds += 1
            args = _carried(a, op, args, before, [False] * len(args))
    raise Unsupported(f"a loop of more than {MOST_ITERATIONS} iterations", location_of(op))


def _chosen(a: Agent, op: Operation, condition: Any) -> bool:
    """Which way a branch goes whose condition depends on data."""
    if condition is VARYING:
        a.number(op, condition, "a condition")
    return a.tracer.choose()


def _lost(a: Agent) -> Unknown:
    """What control flow gives that is passed over."""
    state = a.tracer.state
    if "lost" not in state:
        varies = any(isinstance(op, handlers.VARY) for op in a.tracer.module.walk())
        state["lost"] = VARYING if varies else UNKNOWN
    return state["lost"]


def _decided(a: Agent, op: Operation, args: Values) -> bool:
    """Whether all that a loop starts with is known."""
    return not any(isinstance(v, Unknown) for v in args)


def _execute_region(a: Agent, op: Operation, args: Values) -> Values:
    return run_region(a, op.regions[0], [])


def _call(a: Agent, op: Operation, args: Values) -> Values:
    assert isinstance(op, tt.CallOp)
    function = tt.function_named(a.tracer.module, op.callee.root_reference.data)
    if function is None or not function.body.blocks:
        raise Unsupported(f"a call of {op.callee}, which has no body", location_of(op))
    outer = a.env, a.base, a.frame
    offset = op.attributes.get("allocation.offset")
    a.env, a.frame = {}, (*a.frame, op)
    a.base += offset.value.data if isinstance(offset, IntegerAttr) else 0
    try:
        return run_region(a, function.body, args)
    finally:
        a.env, a.base, a.frame = outer


def _warp_specialize(a: Agent, op: Operation, args: Values) -> Values:
    """The default region goes on in the warps that were there, the partitions in others. All of
    them meet before the first op and after the last (the lowering's own barriers). What partitions
    capture comes to them through scratch memory."""
    assert isinstance(op, ttg.WarpSpecializeOp)
    t = a.tracer
    holder = op.partitions
    captures = [a.value(v) for v in holder.operands]
    offset, size = (op.attributes.get(f"allocation.{name}") for name in ("offset", "size"))
    passed = None
    if captures and isinstance(offset, IntegerAttr) and isinstance(size, IntegerAttr):
        at = np.full((1, 1), a.base + offset.value.data, np.int64)
        passed = (Footprint(Space.SHARED, Mode.WRITE, at, size.value.data),)
        a.emit(Access(a.ins(op), a.lanes, passed, equal=True))
    a.meet_all(op)
    partners: list[Agent] = []
    counts = op.partition_num_warps.get_values()
    starts = first_warps(op, t.warps)
    for number, region in enumerate(holder.partition_regions):
        agent = Agent(t, f"partition {number}", starts[number], counts[number], 2 + number)
        agent.base, agent.frame = a.base, a.frame
        partners.append(agent)
        if passed is not None:
            agent.emit(Access(a.ins(op), agent.lanes, (replace(passed[0], mode=Mode.READ),)))

        def body(one: Agent = agent, r: Region = region) -> None:
            run_region(one, r, list(captures))

        t.start(agent, body)
    a.meet_all(op)
    results = run_region(a, op.default_region, [])
    a.wait_until(op, lambda: all(p.thread.dead for p in partners), lambda: "the partitions to end")
    a.meet_all(op)
    return results


def first_warps(op: ttg.WarpSpecializeOp, warps: int) -> list[int]:
    """The first warp of each partition: as the op says, else after the default ones in order."""
    if op.warp_group_start_ids is not None:
        return [int(n) for n in op.warp_group_start_ids.get_values()]
    starts, at = [], warps
    for count in op.partition_num_warps.get_values():
        starts.append(at)
        at += int(count)
    return starts


_STRUCTURED = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.ExecuteRegionOp: _execute_region,
    tt.CallOp: _call,
    ttg.WarpSpecializeOp: _warp_specialize,
}

# Branches between blocks --------------------------------------------------------------------------


def _next(a: Agent, last: Operation) -> tuple[Block, Values]:
    """Where control goes after a terminator, and with which arguments."""
    if isinstance(last, cf.BranchOp):
        return last.successor, [a.value(v) for v in last.operands]
    if isinstance(last, cf.ConditionalBranchOp):
        condition = a.value(last.cond)
        if isinstance(condition, Unknown):
            join = _quiet_join(last)
            if join is not None:
                return join, [_lost(a)] * len(join.args)
            left = open_loops.loop_left(a, last)
            if condition is VARYING or (left is None and _in_cycle(last)):
                a.number(last, condition, "the condition of a loop")
            holds = a.tracer.choose() if left is None else open_loops.stays(a, last, *left)
        else:
            holds = bool(a.number(last, condition, "a condition"))
        if holds:
            return last.then_block, [a.value(v) for v in last.then_arguments]
        return last.else_block, [a.value(v) for v in last.else_arguments]
    raise Unsupported(f"the branch {last.name}", location_of(last))


def _reachable(start: Iterable[Block]) -> set[Block]:
    seen: set[Block] = set()
    todo = list(start)
    while todo:
        block = todo.pop()
        if block not in seen:
            seen.add(block)
            if block.last_op is not None:
                todo += block.last_op.successors
    return seen


def _in_cycle(last: Operation) -> bool:
    """Whether a branch may be reached again from one of its targets but not from the other: it
    decides whether a loop goes on."""
    block = last.parent_block()
    around = [block in _reachable([target]) for target in last.successors]
    return any(around) and not all(around)


def _quiet_join(last: Operation) -> Block | None:
    """The first block that every path from a branch comes to, if nothing before it gives events."""
    then, other = (_reachable([b]) for b in last.successors)
    both = then & other
    for join in (b for b in _in_order(last) if b in both):
        between = _until(last.successors, join)
        if between is None:
            continue
        if all(is_quiet_block(b) for b in between):
            return join
        return None
    return None


def _in_order(last: Operation) -> list[Block]:
    """Blocks by their distance from a branch."""
    seen: dict[Block, None] = {}
    todo = list(last.successors)
    while todo:
        block = todo.pop(0)
        if block not in seen:
            seen[block] = None
            if block.last_op is not None:
                todo += block.last_op.successors
    return list(seen)


def _until(starts: Iterable[Block], join: Block) -> set[Block] | None:
    """Blocks on the way to `join`; None if some path ends without coming to it."""
    seen: set[Block] = set()
    todo = [b for b in starts if b is not join]
    while todo:
        block = todo.pop()
        if block in seen:
            continue
        seen.add(block)
        last = block.last_op
        if last is None or not last.successors:
            return None
        todo += [b for b in last.successors if b is not join]
    return seen


# What gives no events -----------------------------------------------------------------------------


def is_quiet(region: Region) -> bool:
    """Whether nothing in a region gives events."""
    return all(is_quiet_block(block) for block in region.blocks)


def is_quiet_block(block: Block) -> bool:
    return all(_is_quiet_op(op) for op in block.walk())


def _is_quiet_op(op: Operation) -> bool:
    if isinstance(op, tt.CallOp) or "allocation.offset" in op.attributes:
        return False
    if type(op) in handlers.HANDLERS:
        return type(op) in handlers.QUIET
    return op.has_trait(IsTerminator) or op.name.partition(".")[0] in (*WITHOUT_EVENTS, "scf")
