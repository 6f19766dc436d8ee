"""Branches on data that a trace does not have: both ways are taken, and accesses become `may`.

Allowed where the two ways meet again (at the immediate post-dominator) with nothing between that
other threads could notice but plain accesses. Registers that differ are unknown afterwards. Of a
loop that ends when data says so, a round is executed twice, with all that the loop changes unknown:
the second time what the first one has stored is unknown, too, so that no later round does more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.diagnostics import Unsupported
from xttir.interp.ptx import cfg, uniform
from xttir.interp.ptx.code import Do, slots_of
from xttir.interp.ptx.group import Group, merge
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.overlay import Overlay
from xttir.interp.ptx.spread import anywhere, as_spread
from xttir.interp.ptx.values import Partial, either

if TYPE_CHECKING:
    from xttir.interp.ptx.code import Block
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.plan import Plan

HARMLESS = frozenset(
    (
        "ld", "ldu", "st", "atom", "red", "cvta", "isspacep", "mapa", "getctarank", "call", "trap",
        "activemask", "alloca", "stacksave", "stackrestore", "createpolicy",
        "shfl", "vote", "match", "redux", "elect",
    )
)  # fmt: skip
"""Instructions that may be executed or not without others having to know."""


ROUNDS = 2
"""How often a loop is gone round."""


class Fork:
    """An unknown branch: the same lanes go both ways."""

    def __init__(self, lanes: np.ndarray, join: int, way: Way | None, number: int, loop: bool):
        self.number = number
        """Of the block that ends in the branch."""
        self.loop = loop
        """It may come again before the ways meet."""
        self.lanes = lanes
        self.join = join
        self.outer = way
        self.ways = (Way(self), Way(self))


class Way:
    """One of the two: the groups that have arrived at the join, and lanes that ended before."""

    def __init__(self, fork: Fork):
        self.fork = fork
        self.join = fork.join
        self.arrived: list[Group] = []
        self.missing = fork.lanes.size
        self.overlay = Overlay()

    def arrive(self, executor: Executor, group: Group) -> Group | None:
        """A group has come to the join; what goes on from there, when all have."""
        self.arrived.append(group)
        self.missing -= group.n
        return self.check(executor)

    def lost(self, lanes: np.ndarray) -> None:
        """Lanes that end on this way."""
        self.missing -= lanes.size

    def check(self, executor: Executor) -> Group | None:
        if any(way.missing for way in self.fork.ways):
            return None
        return _joined(executor, self.fork)


def _joined(executor: Executor, fork: Fork) -> Group | None:
    plan = executor.plan
    at_end = fork.join >= len(plan.blocks)
    live: tuple[int, ...] = () if at_end else plan.blocks[fork.join].live
    sides = [merge(w.arrived, live) if w.arrived else None for w in fork.ways]
    first, second = sides
    if first is None or second is None:
        whole = first if second is None else second
    elif first.n == fork.lanes.size and second.n == fork.lanes.size:
        whole = first
        for slot in live:
            whole.env[slot] = either(first.env[slot], second.env[slot], first.n)
        whole.fenced = {s: v for s, v in first.fenced.items() if second.fenced.get(s) is v}
        whole.held.update(second.held)
    else:
        whole = _uneven(first, second, live)
    if whole is None:
        executor.end(fork.lanes, 0, silent=True)
        return None
    whole.way = fork.outer
    whole.at = 0
    if whole.n < fork.lanes.size:
        gone = np.setdiff1d(fork.lanes, whole.lanes, assume_unique=True)
        if fork.outer is None:
            executor.end(gone, 0, silent=True)
        else:
            fork.outer.lost(gone)
    if at_end:
        return executor.finish_lanes(whole, whole.block.ending.index)
    if fork.outer is not None and fork.outer.join == fork.join:
        return fork.outer.arrive(executor, whole)
    whole.block = plan.blocks[fork.join]
    return executor.schedule.entered(whole)


def _uneven(first: Group, second: Group, live: tuple[int, ...]) -> Group:
    """Some lanes ended on one of the ways: for them the other one was taken."""
    both = np.intersect1d(first.lanes, second.lanes, assume_unique=True)
    parts = []
    for side in (first, second):
        alone = np.flatnonzero(~np.isin(side.lanes, both))
        if alone.size:
            parts.append(side.part(alone, live))
    if both.size:
        a, b = (s.part(np.flatnonzero(np.isin(s.lanes, both)), live) for s in (first, second))
        for slot in live:
            a.env[slot] = either(a.env[slot], b.env[slot], a.n)
        parts.append(a)
    return merge(parts, live)


def branch(executor: Executor, group: Group, block: Block, flag: Any) -> Group | None:
    """A branch whose flag is unknown, for all lanes or some."""
    guard = block.ending.guard
    assert guard is not None
    idle = executor.plan.idle.get(block.number)
    if idle is not None:
        place = executor.plan.location(executor.plan.ending_ins(block))
        executor.assumptions[f"waiting does not take so long that it is given up ({place})"] = None
        return executor.go(group, idle, block)
    if isinstance(flag, Partial):
        sure = np.flatnonzero(flag.known)
        live = tuple({*block.targets[0].live, *block.targets[1].live, guard.slot})
        known = group.part(sure, live)
        rest = group.part(np.flatnonzero(~flag.known), live)
        data = flag.data if flag.data.shape[0] == 1 else flag.data[sure]
        following = executor.divide(
            known, block, np.broadcast_to(data == guard.negated, sure.shape)
        )
        if following is not None:
            executor.push(following)
        return _fork(executor, rest, block)
    assert flag is UNKNOWN
    return _fork(executor, group, block)


def _fork(executor: Executor, group: Group, block: Block) -> Group | None:
    plan = executor.plan
    join = plan.join_of(block)
    reason = _obstacle(plan, block, join)
    if not reason and plan.tensor_ways.get(block.number) and uniform.under_way(executor, group):
        reason = "loads or stores of tensor memory that have not been waited for"
    if reason:
        places = plan.sources[block.ending.index].locations
        raise Unsupported(
            "control flow that depends on data", places[0] if places else None, reason
        )
    changes = _changes(plan, block, join)
    if changes:
        rounds, way = 0, group.way
        while way is not None:
            rounds += way.fork.number == block.number
            way = way.fork.outer
        _vary(group, changes)
        if rounds == ROUNDS:
            assert group.way is not None
            return _leap(executor, group, group.way)
    fork = Fork(group.lanes, join, group.way, block.number, bool(changes))
    for way, target in zip(fork.ways, block.targets, strict=True):
        live = target.live
        if join < len(plan.blocks) and target.number == join:
            live = plan.blocks[join].live
        twin = group.twin(live)
        twin.way = way
        following = executor.go(twin, target, block)
        if following is not None:
            executor.push(following)
    return None


def _changes(plan: Plan, block: Block, join: int) -> int:
    """Registers that are written between a branch and the join of its ways, bits, if it may come
    again on the way; 0: it does not."""
    known = plan.changes.get(block.number)
    if known is None:
        region = cfg.between(plan.graph, block.number, join)
        known = 0
        if block.number in region:
            for number in region:
                for ins in plan.raw[number].instructions:
                    known |= slots_of(ins.dst)
        plan.changes[block.number] = known
    return known


def _vary(group: Group, changes: int) -> None:
    """What rounds of a loop change may have any value; addresses stay in their tensors."""
    for slot, value in group.env.items():
        if slot < 0 or not changes >> slot & 1:
            continue
        place = as_spread(value)
        group.env[slot] = UNKNOWN if place is None else anywhere(place.known)
        if group.executor.fingerprints is not None:
            group.executor.fingerprints.lost(group, (slot,))


def _leap(executor: Executor, group: Group, way: Way) -> Group | None:
    """To the join of a way: what stands before it has been executed, or is on another way."""
    blocks = executor.plan.blocks
    group.at = 0
    if way.join < len(blocks):
        group.block = blocks[way.join]
        for slot in group.block.live:
            group.env.setdefault(slot, UNKNOWN)
    return way.arrive(executor, group)


def _obstacle(plan: Plan, block: Block, join: int) -> str:
    """Why both ways of a branch cannot be taken, or ""."""
    known = plan.obstacles.get(block.number)
    if known is not None:
        return known
    region = cfg.between(plan.graph, block.number, join)
    reason = ""
    again = "as often as data says" if block.number in region else "or not, as data says"
    for number in region:
        for item in plan.blocks[number].code:
            if isinstance(item, Do) and item.wait == "spin":
                reason = (
                    f"{item.ins.name} at {plan.location(item.ins)} waits for memory whose contents "
                    "are not known: give it an `init`"
                )
        for ins in plan.raw[number].instructions:
            if ins.name in HARMLESS or plan.is_scalar(ins):
                continue
            if ins.name in uniform.TENSOR and block.number not in region:
                if uniform.uniform(plan, block):
                    reason = uniform.obstacle(plan, number) or reason
                    continue
                again += " (and not seen to be the same for all lanes of a warp)"
            reason = (
                f"{ins.name} at {plan.location(ins)} is executed {again}: give the tensors that "
                "decide it an `init`"
            )
    plan.obstacles[block.number] = reason
    plan.tensor_ways[block.number] = any(
        ins.name in uniform.TENSOR for number in region for ins in plan.raw[number].instructions
    )
    return reason
