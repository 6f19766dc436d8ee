"""Which instructions are waits: loops round try_wait, and loops that only read until they see
something. Found in the plan, before anything runs.

A try_wait is followed along the edges that are taken when its predicate is False: if nothing but
register work happens until it (or another try_wait of the same operands) comes again, the loop is
one blocking wait. A loop that does nothing but read strongly, and leaves its registers as they
were, is a spin: every round is like the one before unless memory changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx import cfg
from xttir.interp.ptx.code import Block, Do, Run
from xttir.interp.ptx.instruction import UNKNOWN, Ins, Reg, Symbol, registers
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
    for head, blocks in plan.loop_blocks.items():
        _spin(plan, head, blocks)


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


class _Registers(dict[int, Any]):
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
    env = _Registers()
    env[GROUP] = env
    env[ins.dst[0].slot] = np.zeros(1, bool)
    work: list[tuple[Block, int, _Registers, int]] = [(do.block, do.at + 1, env, 0)]
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
            copy = _Registers(env)
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


# Loops that only read -----------------------------------------------------------------------------

_STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio", "acq_rel"))
_HARMLESS = frozenset(
    ("membar", "fence", "activemask", "barrier.sync", "bar.warp.sync", "shfl", "vote", "elect")
)
"""What a loop that waits may do besides: it tells others nothing."""


def _spin(plan: Plan, head: int, blocks: list[int]) -> None:
    """Mark the head of a loop that waits for memory to change, and its reads.

    Registers are the same in every round, and the only stores pass what was read to the other
    threads of the block, through shared memory, in the same round.
    """
    reads: list[Do] = []
    stores: set[Any] = set()
    loads: set[Any] = set()
    written = 0
    instructions = set()
    addresses: dict[int, tuple[str, int]] = {}
    for number in blocks:
        for item in plan.blocks[number].code:
            for ins in [item.ins] if isinstance(item, Do) else item.instructions:
                written |= _writes(ins)
                if ins.name == "mov" and isinstance(ins.src[0], Symbol):
                    for reg in registers(ins.dst):
                        addresses[reg.slot] = (ins.src[0].name, ins.src[0].offset)
            if not isinstance(item, Do):
                continue
            ins = item.ins
            instructions.add(ins.index)
            if _polls(ins):
                reads.append(item)
            elif ins.name in ("ld", "st") and _shared(ins):
                (loads if ins.name == "ld" else stores).add(_place(ins.src[0], addresses))
            elif ins.name not in _HARMLESS:
                return
    if not reads or written & plan.live_bits[head] or loads - stores:
        return
    block = plan.blocks[head]
    block.spin = frozenset(blocks)
    block.spin_on = "global" if stores else "memory"
    block.spin_instructions = frozenset(instructions)
    for do in reads:
        do.wait = "spin"
    if len(reads) == 1 and not stores:
        _peeled(plan, block, reads[0])


def _place(operand: Any, addresses: dict[int, tuple[str, int]]) -> Any:
    """An address that can be compared: a variable and an offset, or a register and an offset."""
    base = operand.base
    if isinstance(base, Symbol):
        return base.name, base.offset + operand.offset
    if isinstance(base, Reg) and base.slot in addresses:
        name, offset = addresses[base.slot]
        return name, offset + operand.offset
    return base, operand.offset


def _shared(ins: Ins) -> bool:
    return any(m.startswith("shared") for m in ins.modifiers)


def _polls(ins: Ins) -> bool:
    if ins.name == "atom":
        return True
    return ins.name == "ld" and bool(_STRONG & set(ins.modifiers))


def _peeled(plan: Plan, head: Block, read: Do) -> None:
    """A first read before the loop, as loop rotation leaves it: the same instruction, and where it
    does not lead into the loop, it leads where the loop ends."""
    exits = {
        target.number
        for number in head.spin
        for target in plan.blocks[number].targets
        if target.number not in head.spin
    }
    for block in plan.blocks:
        if block.number in head.spin or head not in block.targets or len(exits) != 1:
            continue
        if {t.number for t in block.targets} - {head.number} != exits:
            continue
        for n, item in enumerate(block.code):
            if not isinstance(item, Do) or any(isinstance(i, Do) for i in block.code[n + 1 :]):
                continue
            mine, theirs = item.ins, read.ins
            if (mine.name, mine.modifiers, mine.src) == (theirs.name, theirs.modifiers, theirs.src):
                item.wait = "spin"
                head.peeled[block.number] = frozenset((mine.index,))
