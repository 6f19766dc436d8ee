"""Why a module stays verified when its barriers are stripped: each reason found by a check.

A launch at which the stripped module is refuted is looked for first: other integers in tensors,
larger numbers. Then it is asked what the barriers are for, if for anything: loops that would need
them if they went round more often than any launch of ours makes them; what only the letter of the
rules leaves open; layouts in which threads meet what is not their own. What remains
orders nothing that the module accesses.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, i1
from xdsl.ir import Operation

from conformance.other_threads import permute
from xttir.analyses.modules import verify_module
from xttir.analyses.trips.growth import deciding_arguments
from xttir.analyses.trips.prove import every_trip
from xttir.diagnostics import Fault, Kind, Policy, XttirError
from xttir.dialects import cf, tt
from xttir.interp.launch import Storage, TensorArg
from xttir.interp.tracing import Launch
from xttir.interp.tracing.agents import Agent
from xttir.interp.tracing.open_loops import loops_of

BARRIERS = ("ttg.barrier", "gpu.barrier")
FACTORS = (4, 64)
"""By which integers of a launch are raised."""
SLOW = 4.0
"""CPU time of a launch after which no larger one is tried."""
STEP = 192
"""Between integers of tensors that are made to grow."""
MOST_RAISED = 8
"""Integers that are raised one by one."""

LARGER = "a larger launch"
LETTER = "the letter of the rules: what hardware orders by itself"
WITHIN = "what barriers in the lowering of other ops order as well"
DATA = "other integers in tensors"
ROUNDS = "loops that go round more often than at any launch tried"
EVERY = "nothing: verified without them for every number of iterations"
LAYOUTS = "layouts in which threads meet what is not their own"
NOTHING = "nothing: the module has no shared memory, its barriers are for global memory"
OWN = "nothing: no two threads access what is another's across them"


def stripped(module: ModuleOp) -> int:
    """Take the barriers out of `module`; how many there were."""
    barriers = [op for op in module.walk() if op.name in BARRIERS]
    for op in barriers:
        op.detach()
        op.erase()
    return len(barriers)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Threads do not meet within the lowering of other ops than barriers."""
    meet, meet_all = Agent.meet, Agent.meet_all

    def at_barriers(self: Agent, op: Operation) -> None:
        if op.name in BARRIERS:
            meet(self, op)

    def nowhere(self: Agent, op: Operation, barrier: int = 1) -> None:
        pass

    Agent.meet, Agent.meet_all = at_barriers, nowhere
    try:
        yield
    finally:
        Agent.meet, Agent.meet_all = meet, meet_all


def needed_for(
    module: ModuleOp, whole: ModuleOp, launch: Launch, seconds: float, larger: bool = True
) -> dict[str, Any]:
    """What the barriers that were taken out of `module` are needed for, `whole` being the module
    with them. `found`: "fault" if a launch shows it, "redundant", or "" if that could not be found
    out; `for`: one of the texts above. `seconds`: CPU time after which nothing else is tried;
    `larger`: whether larger launches are, which may take any time."""
    asked = _Asked(time.process_time() + seconds)
    if not any("allocation.offset" in op.attributes for op in module.walk()):
        return {"found": "redundant", "for": NOTHING}
    for what, other in launches(launch):
        if what == LARGER and (asked.slowest > SLOW or not larger):
            asked.unsure = True
            break
        if asked.refuted(module, other):
            changed = {n: v for n, v in other.arguments.items() if launch.arguments[n] != v}
            return {"found": "fault", "for": what, "raised": changed}
    if asked.letters(module, launch) - asked.letters(whole, launch):
        return {"found": "redundant", "for": LETTER}
    with apart():
        if asked.races(module, launch) - asked.races(whole, launch):
            return {"found": "redundant", "for": WITHIN}
    if not launch.tensors and asked.for_every_trip(module, launch):
        return {"found": "redundant", "for": EVERY}
    asked.unsure = False
    if any(asked.refuted(one, launch) for one in freed(module)):
        return {"found": "redundant", "for": ROUNDS}
    permuted = module.clone()
    permute(permuted)
    if any(asked.refuted(one, launch) for one in (permuted, *freed(permuted))):
        return {"found": "redundant", "for": LAYOUTS}
    return {"found": "" if asked.unsure else "redundant", "for": OWN}


class _Asked:
    def __init__(self, until: float):
        self.until = until
        self.unsure = False
        """Whether something could not be decided."""
        self.slowest = 0.0
        """CPU time that a launch took, at most."""

    def faults(self, module: ModuleOp, launch: Launch) -> list[Fault]:
        began = time.process_time()
        if began < self.until:
            try:
                return verify_module(module, launch).faults
            except XttirError:
                pass
            finally:
                self.slowest = max(self.slowest, time.process_time() - began)
        self.unsure = True
        return []

    def for_every_trip(self, module: ModuleOp, launch: Launch) -> bool:
        """Whether the verdict holds for every number of iterations."""
        numbers = deciding_arguments(module, launch.kernel)
        seconds = max(self.until - time.process_time(), 0) / max(len(numbers), 1)
        return all(
            type(launch.arguments.get(n)) is int and not every_trip(module, launch, n, seconds).why
            for n in numbers
        )

    def refuted(self, module: ModuleOp, launch: Launch) -> bool:
        """Whether a launch has a fault that is not of the letter only."""
        return any(f.policy is not Policy.STRICT for f in self.faults(module, launch))

    def races(self, module: ModuleOp, launch: Launch) -> set[str]:
        """Races and lifetimes, equal for equal places."""
        found = self.faults(module, launch)
        return {
            f"{f.kind} {f.locations}"
            for f in found
            if f.policy is not Policy.STRICT and f.kind in (Kind.RACE, Kind.LIFETIME)
        }

    def letters(self, module: ModuleOp, launch: Launch) -> set[str]:
        """Faults of the letter, equal for equal places."""
        found = self.faults(module, launch)
        return {f"{f.kind} {f.message} {f.locations}" for f in found}


def launches(launch: Launch) -> Iterator[tuple[str, Launch]]:
    """Launches at which loops may go round more often, and in what they are others."""
    integers = {n: v for n, v in launch.arguments.items() if type(v) is int and v > 0}
    others = [launch]
    if launch.tensors:
        others += (replace(launch, tensors=t) for t in ({}, growing(launch), growing(launch, 2)))
    for one in others[1:]:
        yield DATA, one
    for factor in FACTORS:
        raised = {n: factor * v for n, v in integers.items()}
        for one in others:
            yield LARGER, replace(one, arguments={**launch.arguments, **raised})
    for factor in FACTORS:
        for number in list(integers)[:MOST_RAISED]:
            more = {number: factor * integers[number]}
            yield LARGER, replace(launch, arguments={**launch.arguments, **more})


def growing(launch: Launch, which: int = 1) -> dict[int, TensorArg]:
    """The tensors of a launch with integers that grow evenly, as offsets of parts do; every
    `which`-th tensor, the others as they are."""
    found = dict(launch.tensors)
    for index in list(found)[::which]:
        old = found[index]
        values = (np.arange(old.shape[0]) * STEP).astype(old.dtype)
        storage = Storage(values.view("uint8"), old.storage.address)
        found[index] = TensorArg(old.name, storage, 0, old.shape, old.strides, old.dtype)
    return found


def freed(module: ModuleOp) -> Iterator[ModuleOp]:
    """The module with one loop after the other going round as often as data says."""
    deciding = [_deciding(op) for op in module.walk() if isinstance(op, tt.FuncOp)]
    for number in range(sum(len(found) for found in deciding)):
        copy = module.clone()
        functions = [op for op in copy.walk() if isinstance(op, tt.FuncOp)]
        branches = [branch for function in functions for branch in _deciding(function)]
        last = branches[number]
        block = last.parent_block()
        assert block is not None
        data = UnrealizedConversionCastOp.get([], [i1])
        block.insert_op_before(data, last)
        last.operands[0] = data.results[0]
        yield copy


def _deciding(function: tt.FuncOp) -> list[Operation]:
    """Branches on whether a loop goes on."""
    loops = loops_of(function.body)
    return [
        last
        for block in function.body.blocks
        if isinstance(last := block.last_op, cf.ConditionalBranchOp)
        and any(
            (last.then_block in loop.blocks) != (last.else_block in loop.blocks)
            for loop in loops
            if block in loop.blocks
        )
    ]
