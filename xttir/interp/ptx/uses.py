"""Where a loaded value goes: the stores that may put it, or what is computed from it, to memory.

A forward data flow over the blocks of a plan, register by register. It ends at the stores; a value
that reaches anything else (an address, a guard, a branch, another lane, an asynchronous operation)
is not followed.
"""

from __future__ import annotations

from xttir.interp.ptx import cfg
from xttir.interp.ptx.code import killed, slots_of
from xttir.interp.ptx.instruction import Ins
from xttir.interp.ptx.plan import NO_EFFECT, Plan
from xttir.interp.ptx.reader import RawBlock

LOADS = frozenset(("ld", "ldu"))
SINKS = frozenset(("st", "red"))


class _Elsewhere(Exception):
    """The value gets to where it is not followed."""


class Uses:
    """`Trace.stores_of` of a kernel."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.blocks = {i.index: b for b, raw in enumerate(plan.raw) for i in raw.instructions}
        self.known: dict[int, frozenset[int] | None] = {}

    def __call__(self, index: int) -> frozenset[int] | None:
        """The stores that what instruction `index` loads can reach; None: it may be used in
        another way, or is no load."""
        if index not in self.known:
            try:
                self.known[index] = self._follow(index)
            except _Elsewhere:
                self.known[index] = None
        return self.known[index]

    def _follow(self, index: int) -> frozenset[int]:
        start = self.blocks.get(index)
        if start is None:
            raise _Elsewhere
        entry: dict[int, int] = {start: 0}
        """By block: the slots that may hold the value where it begins."""
        todo = [start]
        sinks: set[int] = set()
        while todo:
            number = todo.pop()
            left = self._through(self.plan.raw[number], index, entry[number], sinks)
            for target in self.plan.graph[number]:
                mine = left & self.plan.live_bits[target]
                before = entry.get(target, 0)
                if mine & ~before:
                    entry[target] = before | mine
                    todo.append(target)
        return frozenset(sinks)

    def _through(self, raw: RawBlock, index: int, held: int, sinks: set[int]) -> int:
        """The slots that hold the value at the end of a block, given those at its start."""
        for ins in raw.instructions:
            if ins.index == index:
                if ins.name not in LOADS or held & _read(ins):
                    raise _Elsewhere
                held |= slots_of(ins.dst)
            elif held & _read(ins):
                held = self._step(ins, held, sinks)
            else:
                held &= ~killed(ins)
        if raw.ending.guard is not None and held >> raw.ending.guard.slot & 1:
            raise _Elsewhere
        return held

    def _step(self, ins: Ins, held: int, sinks: set[int]) -> int:
        """Past an instruction that reads the value."""
        if self.plan.is_scalar(ins):
            return held if ins.name in NO_EFFECT else held | slots_of(ins.dst)
        guarded = ins.guard is not None and held >> ins.guard.slot & 1
        if ins.name not in SINKS or guarded or not _shared_or_global(ins):
            raise _Elsewhere
        sinks.add(ins.index)
        return held


def _read(ins: Ins) -> int:
    """The slots that an instruction reads, other than to leave them as they are."""
    found = slots_of(ins.src)
    if ins.guard is not None:
        found |= cfg.bits((ins.guard.slot,))
    if ins.cache.get("updates"):
        found |= slots_of(ins.dst)
    return found


def _shared_or_global(ins: Ins) -> bool:
    """Whether every lane that executes the store is in an event of it."""
    return any(m == "global" or m.startswith("shared") for m in ins.modifiers)
