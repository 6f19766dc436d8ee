"""Control flow on batches: structured (scf), unstructured (cf in function bodies) and calls.

Where all programs of the batch agree, a branch is a Python branch. Where they differ, the programs
that take it are compressed into a batch of their own, run, and merged back; in a control-flow
graph, groups of programs wait for one another at the earliest block and merge there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import cf, scf, tt
from xttir.dialects.locations import location_of
from xttir.interp import recurrence
from xttir.interp.affine import dense
from xttir.interp.batch import as_condition, merge, take
from xttir.interp.machine import Machine
from xttir.interp.plan import (
    BlockPlan,
    Compiler,
    Frame,
    FunctionPlan,
    Implementations,
    RegionPlan,
    Step,
)
from xttir.interp.positions import choose, same
from xttir.interp.scalars import number as number_of
from xttir.interp.taint import observe_branch
from xttir.interp.types import numpy_dtype

Part = tuple[np.ndarray, list[Any]]


def _compressed(captured: tuple[int, ...], frame: Frame, programs: np.ndarray) -> Frame:
    """A frame in which the slots `captured` are those of the chosen programs only."""
    inner = list(frame)
    for slot in captured:
        inner[slot] = take(frame[slot], programs)
    return inner


def with_programs(m: Machine, programs: np.ndarray, run: Callable[[], Any]) -> Any:
    """Run with only the chosen programs active."""
    before = m.pids
    m.pids = choose(before, programs)
    try:
        return run()
    finally:
        m.pids = before


def merge_results(parts: list[Part], batch: int, used: Sequence[bool] = ()) -> list[Any]:
    """The values of all programs; None for those of which `used` says that nobody reads them."""
    count = len(parts[0][1])
    return [
        merge([(where, values[k]) for where, values in parts], batch)
        if not used or used[k]
        else None
        for k in range(count)
    ]


def _used(op: Operation) -> list[bool]:
    return [result.first_use is not None for result in op.results]


def build_if(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """scf.if."""
    then = c.region(op.regions[0])
    other = c.region(op.regions[1]) if op.regions[1].blocks else None

    def arm(m: Machine, frame: Frame, region: RegionPlan | None) -> list[Any]:
        return [] if region is None else run_single_exit(m, region, frame)

    def run(m: Machine, frame: Frame) -> None:
        condition = as_condition(observe_branch(m, op, frame[ins[0]]))
        if isinstance(condition, bool):
            results = arm(m, frame, then if condition else other)
        else:
            parts: list[Part] = []
            for region, chosen in ((then, condition), (other, ~condition)):
                programs = np.flatnonzero(chosen)
                if region is None:
                    continue
                inner = _compressed(region.captured, frame, programs)
                parts.append(
                    (
                        programs,
                        with_programs(m, programs, lambda r=region, f=inner: arm(m, f, r)),
                    )
                )
            results = merge_results(parts, m.pids.size) if outs else []
        for slot, value in zip(outs, results, strict=True):
            frame[slot] = value

    return run


def run_single_exit(m: Machine, region: RegionPlan, frame: Frame) -> list[Any]:
    """Run a region to its terminator (scf.yield and the like); gives the values yielded."""
    if len(region.blocks) == 1:
        region.entry.run(m, frame)
        return region.entry.results(frame)
    return run_graph(m, region, frame)


def build_for(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """scf.for. The loop variable and the bounds are signed unless the op says unsigned."""
    assert isinstance(op, scf.ForOp)
    region = c.region(op.body)
    body = region.entry
    variable, *carried = body.arguments
    dtype = numpy_dtype(op.body.block.args[0].type)
    used = _used(op)
    unsigned = "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes

    def bound(m: Machine, value: Any) -> np.ndarray:
        array = dense(observe_branch(m, op, value)).reshape(-1).astype(np.int64)
        return array & ((1 << (8 * dtype.itemsize)) - 1) if unsigned else array

    def run(m: Machine, frame: Frame) -> None:
        low, high, step = (bound(m, frame[i]) for i in ins[:3])
        values = [frame[i] for i in ins[3:]]
        if step.min() <= 0:
            raise Unsupported("scf.for with a step that is not positive", location_of(op))
        same = all(a.size == 1 or (a == a[0]).all() for a in (low, high, step))
        if same:
            m.count_trips(op, max(0, -(-(int(high[0]) - int(low[0])) // int(step[0]))))
            for number in range(int(low[0]), int(high[0]), int(step[0])):
                frame[variable] = number_of(number, dtype)
                for slot, value in zip(carried, values, strict=True):
                    frame[slot] = value
                # The frame alone shall hold them, so that the body may reuse their memory.
                value, values = None, []
                values = run_single_exit(m, region, frame)
        else:
            values = _divergent_for(m, frame, low, high, step, values)
        for slot, value in zip(outs, values, strict=True):
            frame[slot] = value

    def _divergent_for(
        m: Machine,
        frame: Frame,
        low: np.ndarray,
        high: np.ndarray,
        step: np.ndarray,
        values: list[Any],
    ) -> list[Any]:
        batch = m.pids.size
        alike = all((a == a[0]).all() for a in (low, step))
        low, high, step = (np.broadcast_to(a, (batch,)) for a in (low, high, step))

        trips = -(-(high - low) // step)
        least = (np.arange(0), 0)

        def going(at: np.ndarray, iteration: int) -> bool | np.ndarray:
            nonlocal least
            if least[0] is not at:
                least = (at, int(choose(trips, at).min()))
            return True if least[1] > iteration else choose(trips, at) > iteration

        def advance(inner: Frame, at: np.ndarray, iteration: int, values: list[Any]) -> Advanced:
            if alike:
                inner[variable] = number_of(int(low[0] + iteration * step[0]), dtype)
            else:
                inner[variable] = (low[at] + iteration * step[at]).astype(dtype)
            for slot, value in zip(carried, values, strict=True):
                inner[slot] = value
            values = run_single_exit(m, region, inner)
            return going(at, iteration + 1), values

        m.count_trips(op, max(0, int(trips.max())))
        flag = going(np.arange(batch), 0)
        return _divergent_loop(m, region.captured, frame, flag, values, 0, advance, used)

    return run


Advanced = tuple[bool | np.ndarray, list[Any]]
"""After an iteration: which programs go on (bool for all alike), and their values."""


def _divergent_loop(
    m: Machine,
    captured: tuple[int, ...],
    frame: Frame,
    flag: bool | np.ndarray,
    values: list[Any],
    iteration: int,
    advance: Callable[[Frame, np.ndarray, int, list[Any]], Advanced],
    used: Sequence[bool],
) -> list[Any]:
    """Iterate the programs for which `flag` holds, until it holds for none; those that are done
    leave the batch. Gives the values with which each left, as far as they are `used`.

    `captured`: slots of outer values that the loop reads. `iteration` is the number of the first
    iteration; `advance(frame, positions, iteration, values)` does one for those still in.
    """
    batch = m.pids.size
    at = np.arange(batch)
    inner = list(frame)
    done: list[Part] = []
    before = m.pids
    try:
        while True:
            if flag is not True:
                going = np.broadcast_to(flag, at.shape)
                count = np.count_nonzero(going)
                if not count:
                    done.append((at, values))
                    break
                if count < at.size:
                    leave, stay = same(np.flatnonzero(~going)), same(np.flatnonzero(going))
                    done.append((at[leave], [take(v, leave) for v in values]))
                    at = choose(at, stay)
                    values = [take(v, stay) for v in values]
                    inner = _compressed(captured, inner, stay)
                    m.pids = choose(before, at)
            flag, values = advance(inner, at, iteration, values)
            iteration += 1
    finally:
        m.pids = before
    return merge_results(done, batch, used)


def build_while(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """scf.while: the before region ends in scf.condition(flag, values...)."""
    head, tail = c.region(op.regions[0]), c.region(op.regions[1])
    arguments = head.entry.arguments
    decides = recurrence.deciding(op)
    used = _used(op)

    def test_values(m: Machine, frame: Frame, values: list[Any]) -> Advanced:
        for slot, value in zip(arguments, values, strict=True):
            frame[slot] = value
        flag, *passed = run_single_exit(m, head, frame)
        return as_condition(observe_branch(m, op, flag)), passed

    def body(
        m: Machine, frame: Frame, values: list[Any], iteration: int, watch: recurrence.Watch
    ) -> list[Any]:
        for slot, value in zip(tail.entry.arguments, values, strict=True):
            frame[slot] = value
        values = run_single_exit(m, tail, frame)
        m.step(op, values, iteration)
        watch.see(m, values, iteration)
        return values

    def run(m: Machine, frame: Frame) -> None:
        values = [frame[i] for i in ins]
        passed: list[Any] = []
        iteration = 0
        watch = recurrence.Watch(m, op, decides)
        while True:
            iteration += 1
            flag, passed = test_values(m, frame, values)
            if flag is False:
                break
            if flag is True:
                values = body(m, frame, passed, iteration, watch)
                continue

            def advance(
                inner: Frame, at: np.ndarray, iteration: int, passed: list[Any]
            ) -> Advanced:
                return test_values(m, inner, body(m, inner, passed, iteration, watch))

            captured = tuple({*head.captured, *tail.captured})
            passed = _divergent_loop(m, captured, frame, flag, passed, iteration, advance, used)
            break
        for slot, value in zip(outs, passed, strict=True):
            frame[slot] = value

    return run


MAX_DEPTH = 64
"""Calls of one function inside of each other: more are a recursion that kernels do not have."""


def build_call(c: Compiler, op: Operation, ins: tuple[int, ...], outs: tuple[int, ...]) -> Step:
    """tt.call. The callee is compiled when it is first called."""
    assert isinstance(op, tt.CallOp)
    name = op.callee.root_reference.data
    depth = 0

    def run(m: Machine, frame: Frame) -> None:
        nonlocal depth
        if depth == MAX_DEPTH:
            raise Unsupported(f"calls of @{name} more than {MAX_DEPTH} deep", location_of(op))
        depth += 1
        try:
            results = run_function(m, c.function(name), [frame[i] for i in ins])
        finally:
            depth -= 1
        for slot, value in zip(outs, results, strict=True):
            frame[slot] = value

    return run


def run_function(m: Machine, plan: FunctionPlan, arguments: list[Any]) -> list[Any]:
    """Run a function on arguments; gives its results."""
    frame: Frame = [None] * plan.slots
    for slot, value in zip(plan.body.entry.arguments, arguments, strict=True):
        frame[slot] = value
    plan.prologue.run(m, frame)
    return run_body(m, plan, frame)


def run_body(m: Machine, plan: FunctionPlan, frame: Frame) -> list[Any]:
    """Run a function's body in a frame whose prologue has run."""
    return run_single_exit(m, plan.body, frame)


def run_graph(m: Machine, region: RegionPlan, frame: Frame) -> list[Any]:
    """Run a region of several blocks to its exit.

    Groups of programs wait at blocks; the group at the earliest block runs next, with every other
    group waiting there merged into it.
    """
    batch = m.pids.size
    before = m.pids
    waiting: dict[int, list[tuple[np.ndarray, Frame]]] = {0: [(np.arange(batch), list(frame))]}
    done: list[Part] = []
    blocks = {id(b): n for n, b in enumerate(_ir_blocks(region))}
    back = 0
    try:
        while waiting:
            index = min(waiting)
            at, inner = _join(waiting.pop(index))
            m.pids = before[at]
            block = region.blocks[index]
            block.run(m, inner)
            for programs, target, values in _successors(m, block, inner, blocks):
                if target is None:
                    done.append((at[programs], values))
                    continue
                moved = inner if programs.size == at.size else [_take(v, programs) for v in inner]
                if moved is inner:
                    moved = list(inner)
                for slot, value in zip(region.blocks[target].arguments, values, strict=True):
                    moved[slot] = value
                if target <= index and block.terminator is not None:
                    back += 1
                    m.step(block.terminator, values, back)
                waiting.setdefault(target, []).append((at[programs], moved))
    finally:
        m.pids = before
    return merge_results(done, batch)


def _take(value: Any, programs: np.ndarray) -> Any:
    return None if value is None else take(value, programs)


def _ir_blocks(region: RegionPlan):
    first = region.blocks[0].terminator
    assert first is not None
    block = first.parent
    assert block is not None
    parent = block.parent
    assert parent is not None
    return list(parent.blocks)


def _join(groups: list[tuple[np.ndarray, Frame]]) -> tuple[np.ndarray, Frame]:
    """Groups of programs that wait at one block, as one group in program order."""
    if len(groups) == 1:
        return groups[0]
    at = np.concatenate([g[0] for g in groups])
    order = np.argsort(at, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    parts: list[np.ndarray] = []
    start = 0
    for positions, _ in groups:
        parts.append(rank[start : start + positions.size])
        start += positions.size
    frame: Frame = []
    for slot in range(len(groups[0][1])):
        values = [g[1][slot] for g in groups]
        # A value that some group has not computed is not live here.
        if any(v is None for v in values):
            frame.append(None)
        elif all(v is values[0] for v in values) and _is_uniform(values[0]):
            frame.append(values[0])
        else:
            frame.append(merge(list(zip(parts, values, strict=True)), at.size))
    return at[order], frame


def _is_uniform(value: Any) -> bool:
    base = value.base if hasattr(value, "base") and hasattr(value, "strides") else value
    return isinstance(base, np.ndarray) and base.shape[:1] == (1,)


def _successors(
    m: Machine, block: BlockPlan, frame: Frame, blocks: dict[int, int]
) -> list[tuple[np.ndarray, int | None, list[Any]]]:
    """Where programs go after `block`: (positions, block number or None for the exit, values)."""
    op = block.terminator
    everyone = np.arange(m.pids.size)
    if isinstance(op, cf.BranchOp):
        return [(everyone, blocks[id(op.successor)], block.results(frame))]
    if isinstance(op, cf.ConditionalBranchOp):
        slots = dict(zip(op.operands, block.operands, strict=True))
        condition = as_condition(observe_branch(m, op, frame[slots[op.cond]]))
        arms = (
            (op.then_block, [frame[slots[v]] for v in op.then_arguments]),
            (op.else_block, [frame[slots[v]] for v in op.else_arguments]),
        )
        if isinstance(condition, bool):
            target, values = arms[0 if condition else 1]
            return [(everyone, blocks[id(target)], values)]
        found: list[tuple[np.ndarray, int | None, list[Any]]] = []
        for (target, values), chosen in zip(arms, (condition, ~condition), strict=True):
            programs = np.flatnonzero(chosen)
            found.append((programs, blocks[id(target)], [take(v, programs) for v in values]))
        return found
    if op is not None and op.successors:
        raise Unsupported(f"terminator {op.name}", location_of(op))
    return [(everyone, None, block.results(frame))]


def register(implementations: Implementations) -> None:
    """Add the control-flow ops."""
    implementations.control |= {
        scf.IfOp: build_if,
        scf.ForOp: build_for,
        scf.WhileOp: build_while,
        tt.CallOp: build_call,
    }
