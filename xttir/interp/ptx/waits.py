"""Which instructions are waits: loops round try_wait. Found in the plan, before anything runs.

A try_wait is followed along the edges that are taken when its predicate is False: if nothing but
register work happens until it (or another try_wait of the same operands) comes again, the loop is
one blocking wait. Loops that wait for memory are in `spins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx import cfg
from xttir.interp.ptx.code import Block, Do, Run
from xttir.interp.ptx.instruction import UNKNOWN, Ins, Reg, registers
from xttir.interp.ptx.scalar import GROUP

if TYPE_CHECKING:
    from xttir.interp.ptx.plan import Plan

_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_IDLE = frozenset(("mbarrier.try_wait", "mbarrier.test_wait", "call", "trap", "setmaxnreg"))
MAX_BLOCKS = 64


def classify(plan: Plan) -> None:
    every = (item for block in plan.blocks for item in block.code)
    waits = [item for item in every if isinstance(item, Do) and item.ins.name in _WAITS]
    follow = {id(do): _after_false(plan, do) for do in waits}
    for do in waits:
        do.wait = "loop" if _comes_back(id(do), follow) else "peek"


def _comes_back(start: int, follow: dict[int, set[int] | None]) -> bool:
    """Whether trying again for ever is all that can happen: every way leads to a try_wait of the
    same operands that comes back in turn."""
    seen: set[int] = set()
    work = [start]
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        after = follow.get(node)
        if not after:
            return False
        work += after
    return True


class Registers(dict[int, Any]):
    """Registers of which only a few are known. `written`: slots that may have changed, as bits."""

    n = 1
    written = 0

    def __missing__(self, slot: int) -> Any:
        return UNKNOWN

    def special(self, name: str) -> Any:
        return UNKNOWN

    def symbol(self, name: str, offset: int) -> Any:
        return UNKNOWN

    def used_early(self, value: Any, ins: Ins) -> Any:
        return UNKNOWN


def _operands(do: Do) -> tuple[Any, ...]:
    """What a wait waits for: its first two sources, and how they are to be read."""
    modifiers = tuple(m for m in do.ins.modifiers if m == "parity" or m.startswith("shared"))
    return (do.ins.src[:2], modifiers)


def _after_false(plan: Plan, do: Do) -> set[int] | None:
    """The try_waits (by id) of the same operands that come next when this one says False; None if
    anything else can happen."""
    ins = do.ins
    if not ins.dst or not isinstance(ins.dst[0], Reg) or ins.guard is not None:
        return None
    watched = cfg.bits(r.slot for r in registers(ins.src[:2])), _fixed(do)
    found: set[int] = set()
    env = Registers()
    env[GROUP] = env
    env[ins.dst[0].slot] = np.zeros(1, bool)
    work: list[tuple[Block, int, Registers, int]] = [(do.block, do.at + 1, env, 0)]
    while work:
        block, at, env, depth = work.pop()
        if depth > MAX_BLOCKS:
            return None
        stop = _walk(plan, do, block, at, env, watched, found)
        if stop == "other":
            return None
        if stop == "found":
            continue
        targets = _targets(block, env)
        if targets is None:
            return None
        for target in targets:
            copy = Registers(env)
            copy[GROUP] = copy
            copy.written = env.written
            work.append((target, 0, copy, depth + 1))
    return found


def _walk(
    plan: Plan,
    do: Do,
    block: Block,
    at: int,
    env: Any,
    watched: tuple[int, set[int]],
    found: set[int],
) -> str:
    """Through a block: "found" a try_wait, "other" something that counts, "" to its end."""
    operands, fixed = watched
    for item in block.code[at:]:
        if isinstance(item, Run):
            for function, ins in zip(item.functions, item.instructions, strict=True):
                used = cfg.bits(r.slot for r in registers(ins.src))
                if id(ins) not in fixed or used & env.written:
                    env.written |= _writes(ins)
                if env.written & operands:
                    return "other"
                try:
                    with np.errstate(all="ignore"):
                        function(env)
                except Exception:
                    return "other"
            continue
        name = item.ins.name
        if name in _WAITS:
            if _operands(item) == _operands(do):
                found.add(id(item))
                return "found"
            return "other"
        if name in ("trap", "call"):
            return "found" if name == "trap" else "other"
        return "other"
    return ""


def _fixed(do: Do) -> set[int]:
    """Instructions (by id) before a wait in its block that give the same values if they are
    executed again, as long as nothing else changes what they use."""
    found: set[int] = set()
    later = 0
    for item in reversed(do.block.code[: do.at]):
        for ins in reversed(item.instructions) if isinstance(item, Run) else [item.ins]:
            later |= _writes(ins)
            used = cfg.bits(r.slot for r in registers(ins.src))
            if isinstance(item, Run) and ins.guard is None and not used & later:
                found.add(id(ins))
    return found


def _writes(ins: Ins) -> int:
    return cfg.bits(r.slot for r in registers(ins.dst))


def _targets(block: Block, env: Any) -> list[Block] | None:
    """Where the end of a block may lead with what is known of registers."""
    ending = block.ending
    if ending.kind == "goto":
        return block.targets
    if ending.kind != "branch":
        return None
    assert ending.guard is not None
    flag = env[ending.guard.slot]
    if flag.__class__ is np.ndarray:
        return [block.targets[bool(flag[0]) == ending.guard.negated]]
    return block.targets
