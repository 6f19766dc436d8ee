"""Loops that do nothing but read memory until they see something. Found in the plan.

In such a loop every round is like the one before unless memory changes: it may go on to read, to
pass what it read to its own block, and to change registers that only say how long to sleep. What
decides that it ends is traced back to where its registers come from (`leaving` evaluates it).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xttir.interp.ptx import cfg
from xttir.interp.ptx.code import Block, Do, Run, slots_of, used
from xttir.interp.ptx.instruction import Ins, Reg, Special, Symbol

if TYPE_CHECKING:
    from xttir.interp.ptx.plan import Plan

_STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio", "acq_rel"))
_HARMLESS = frozenset(
    (
        "membar", "fence", "activemask", "barrier.sync", "bar.warp.sync", "shfl", "vote", "elect",
        "trap",
    )
)  # fmt: skip
"""What a loop that waits may do besides: it tells others nothing."""
_CLOCKS = ("clock", "globaltimer")
_ADDRESSES = frozenset(("cvta", "mapa", "isspacep", "getctarank"))
"""What only computes with addresses."""
_PLAIN = _ADDRESSES | {"ld", "ldu"}
"""Beside scalar instructions, what gives the same values in every schedule of a program without
races."""


@dataclass(frozen=True, slots=True, eq=False)
class Spin:
    """A read that a loop waits by. `head`: of the loop. `origin`: index of the one atomic or strong
    read whose result decides together with this one when the loop ends; -1: none."""

    head: Block
    origin: int
    slots: int
    """Registers that decide, bits."""


def classify(plan: Plan) -> None:
    """Find the loops, and mark their reads and heads."""
    origins = _Origins(plan)
    for head, blocks in plan.loop_blocks.items():
        _loop(plan, head, blocks, origins)


def _loop(plan: Plan, head: int, blocks: list[int], origins: _Origins) -> None:
    found = _round(plan, blocks, origins)
    if found is None or not found.reads or found.loads - found.stores:
        return
    reads, stores, written = found.reads, found.stores, found.written
    if stores and not _separated(plan, blocks, found.passing):
        return
    changing = written & plan.live_bits[head] | _clocks(plan, blocks)
    if changing and not _idle(plan, blocks, changing):
        return
    plan.waits_for_memory = True
    block = plan.blocks[head]
    block.spin = frozenset(blocks)
    block.spin_on = "global" if stores else "memory"
    block.spin_instructions = frozenset(found.instructions)
    for do in reads:
        do.wait = "spin"
    if len(reads) == 1 and (not stores or _handed_on(found.passing)):
        deciding = _deciding(plan, blocks) & ~written
        origin = origins.of(deciding)
        spin = None
        if origin is not None:
            spin = reads[0].spin = Spin(block, origin, deciding)
            if origin >= 0:
                plan.feeds.add(origin)
        peeled = _peeled(plan, block, reads[0])
        if peeled is not None:
            peeled.spin = spin


@dataclass(slots=True)
class _Round:
    """What a round of a loop does. `written`: registers, bits; `stores`, `loads`: places in shared
    memory, and `passing` the instructions."""

    reads: list[Do] = field(default_factory=list)
    stores: set[Any] = field(default_factory=set)
    loads: set[Any] = field(default_factory=set)
    passing: list[Do] = field(default_factory=list)
    written: int = 0
    instructions: set[int] = field(default_factory=set)


def _round(plan: Plan, blocks: list[int], origins: _Origins) -> _Round | None:
    """None: others could notice it."""
    out = _Round()
    for item, ins in _instructions(plan, blocks):
        out.written |= slots_of(ins.dst)
        if not isinstance(item, Do):
            continue
        out.instructions.add(ins.index)
        if _polls(ins):
            out.reads.append(item)
        elif ins.name in ("ld", "st") and _shared(ins):
            (out.loads if ins.name == "ld" else out.stores).add(_place(ins.src[0], origins))
            out.passing.append(item)
        elif ins.name not in _HARMLESS and ins.name not in _ADDRESSES:
            return None
    return out


def _separated(plan: Plan, blocks: list[int], passing: list[Do]) -> bool:
    """Whether a barrier stands on each way from a load of what is told to the next time that it is
    told: else who is late reads the next round's, which a trace of one round does not show."""
    names = {ins.name for _, ins in _instructions(plan, blocks)}
    barrier = "barrier.sync" if "barrier.sync" in names else "bar.warp.sync"
    work = [(do.block, do.at + 1) for do in passing if do.ins.name == "ld"]
    seen: set[int] = set()
    while work:
        block, at = work.pop()
        for item in block.code[at:]:
            if not isinstance(item, Do):
                continue
            if item.ins.name == barrier and item.ins.guard is None:
                break
            if item in passing and item.ins.name == "st":
                return False
        else:
            for target in block.targets:
                if target.number in blocks and target.number not in seen:
                    seen.add(target.number)
                    work.append((target, 0))
    return True


def _handed_on(passing: list[Do]) -> bool:
    """Whether one store of a register hands something on, to loads of just that; marks them."""
    values = [do.ins.src[1] if do.ins.name == "st" else do.ins.dst[0] for do in passing]
    types = {v.type if isinstance(v, Reg) else "" for v in values}
    widths = {int(do.ins.modifiers[-1].lstrip("busf")) for do in passing}
    guarded = any(do.ins.guard is not None for do in passing if do.ins.name == "ld")
    one = sum(do.ins.name == "st" for do in passing) == 1
    if not one or guarded or len(types) > 1 or "" in types or len(widths) > 1:
        return False
    for do in passing:
        do.hands_on = True
    return True


def _instructions(plan: Plan, blocks: Iterable[int]) -> Iterable[tuple[Run | Do, Ins]]:
    for number in blocks:
        for item in plan.blocks[number].code:
            for ins in [item.ins] if isinstance(item, Do) else item.instructions:
                yield item, ins


def _deciding(plan: Plan, blocks: list[int]) -> int:
    """Registers on which anything depends that a round computes or decides, bits."""
    slots = 0
    for item, ins in _instructions(plan, blocks):
        if isinstance(item, Run) or item.hands_on:
            slots |= used(ins)
    for number in blocks:
        guard = plan.blocks[number].ending.guard
        slots |= 0 if guard is None else 1 << guard.slot
    return slots


def _idle(plan: Plan, blocks: list[int], changing: int) -> bool:
    """Whether registers that differ between rounds decide nothing but how long a round takes: not
    what is read, nor when the loop ends. What they leave behind differs between schedules."""
    inside = set(blocks)
    changing = _spread(plan, blocks, changing)
    for item, ins in _instructions(plan, blocks):
        if isinstance(item, Do) and ins.name != "trap" and used(ins) & changing:
            return False
    idle: dict[int, Block] = {}
    vague: dict[int, tuple[frozenset[int], tuple[int, ...]]] = {}
    for number in blocks:
        block = plan.blocks[number]
        leaving = [t for t in block.targets if t.number not in inside and not _traps(plan, t)]
        left = 0
        for target in leaving:
            left |= target.live_bits & changing
        if left:
            vague[number] = (frozenset(inside), cfg.members(left))
        guard = block.ending.guard
        if guard is not None and changing >> guard.slot & 1:
            if leaving:
                return False
            idle[number] = min(
                (t for t in block.targets if t.number in inside), key=lambda t: _traps(plan, t)
            )
    plan.idle |= idle
    plan.vague |= vague
    return True


def _spread(plan: Plan, blocks: list[int], changing: int) -> int:
    """All registers that depend on those, by what is computed from them and by branches."""
    inside = set(blocks)
    before = -1
    while changing != before:
        before = changing
        for _, ins in _instructions(plan, blocks):
            if used(ins) & changing:
                changing |= slots_of(ins.dst)
        for number in blocks:
            block = plan.blocks[number]
            guard = block.ending.guard
            if sum(not _traps(plan, target) for target in block.targets) < 2:
                continue
            if guard is not None and changing >> guard.slot & 1:
                for _, ins in _instructions(plan, _arms(plan, number, inside)):
                    changing |= slots_of(ins.dst)
    return changing


def _clocks(plan: Plan, blocks: list[int]) -> int:
    """Registers that a round reads clocks into, bits."""
    slots = 0
    for _, ins in _instructions(plan, blocks):
        if any(isinstance(s, Special) and s.name.startswith(_CLOCKS) for s in ins.src):
            slots |= slots_of(ins.dst)
    return slots


def _arms(plan: Plan, number: int, inside: set[int]) -> set[int]:
    """Blocks of a loop that are entered or not by what a branch decides."""
    return cfg.between(plan.graph, number, plan.join_of(plan.blocks[number])) & inside


def _traps(plan: Plan, block: Block) -> bool:
    """Whether a block ends the program as a failure: a wait that took too long."""
    return any(isinstance(item, Do) and item.ins.name == "trap" for item in block.code)


def _place(operand: Any, origins: _Origins) -> Any:
    """An address that can be compared: a variable and an offset, or a register and an offset."""
    base = operand.base
    if isinstance(base, Reg):
        base = origins.symbol(base) or base
    if isinstance(base, Symbol):
        return base.name, base.offset + operand.offset
    return base, operand.offset


def _shared(ins: Ins) -> bool:
    return any(m.startswith("shared") for m in ins.modifiers)


def _polls(ins: Ins) -> bool:
    if ins.name == "atom":
        return True
    return _strong(ins)


def _strong(ins: Ins) -> bool:
    return ins.name == "ld" and bool(_STRONG & set(ins.modifiers))


def _peeled(plan: Plan, head: Block, read: Do) -> Do | None:
    """A first read before the loop, as loop rotation leaves it: the same instruction, and where it
    does not lead into the loop, it leads where the loop ends."""
    exits = {
        target.number
        for number in head.spin
        for target in plan.blocks[number].targets
        if target.number not in head.spin
    }
    found = None
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
                found = item
    return found


class _Origins:
    """Where the values of registers come from, over all of a kernel."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self._writers: dict[int, list[Ins]] | None = None

    @property
    def writers(self) -> dict[int, list[Ins]]:
        """By slot: the instructions that write it."""
        if self._writers is None:
            self._writers = {}
            for raw in self.plan.raw:
                for ins in raw.instructions:
                    for slot in cfg.members(slots_of(ins.dst)):
                        self._writers.setdefault(slot, []).append(ins)
        return self._writers

    def symbol(self, reg: Reg) -> Symbol | None:
        """The variable whose address a register is all along, if it is one's."""
        found = self.writers.get(reg.slot, ())
        only = found[0] if len(found) == 1 else None
        if only is None or only.name != "mov" or not isinstance(only.src[0], Symbol):
            return None
        return only.src[0]

    def of(self, slots: int) -> int | None:
        """The one atomic or strong read that registers depend on: its index; -1: none. None: there
        are several, or something else that may differ between schedules."""
        found = -1
        seen = 0
        work = list(cfg.members(slots))
        while work:
            slot = work.pop()
            if seen >> slot & 1:
                continue
            seen |= 1 << slot
            for ins in self.writers.get(slot, ()):
                if (ins.name == "atom" or _strong(ins)) and found in (-1, ins.index):
                    found = ins.index
                elif self.plan.is_scalar(ins) or (ins.name in _PLAIN and not _strong(ins)):
                    work += cfg.members(used(ins))
                else:
                    return None
        return found
