"""Blocks of a plan: runs of scalar closures, and instructions with an effect between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xttir.interp.ptx import cfg
from xttir.interp.ptx.instruction import Ins, Meaning, Operand, registers
from xttir.interp.ptx.reader import Ending
from xttir.interp.ptx.scalar import Closure

if TYPE_CHECKING:
    from xttir.interp.ptx.spins import Spin


@dataclass(slots=True, eq=False)
class Run:
    """Scalar instructions in a row."""

    functions: list[Closure]
    instructions: list[Ins]


@dataclass(slots=True, eq=False)
class Do:
    """An instruction with an effect, or that depends on other lanes."""

    ins: Ins
    meaning: Meaning
    together: int
    """How many neighbouring lanes execute it together: 1, 32 or 128."""
    block: Block
    at: int
    wait: str = ""
    """try_wait and test_wait: "loop" or "peek"; a read or atomic: "spin" when its loop does nothing
    but read again."""
    spin: Spin | None = None
    """Of a read that a loop waits by, where it is understood what ends the loop."""
    hands_on: bool = False
    """Of a store and of loads of shared memory in such a loop: by them one thread tells its block
    what it has read."""


@dataclass(slots=True, eq=False)
class Block:
    """Straight-line code. `number` is its place in the order in which lanes run."""

    number: int
    code: list[Run | Do] = field(default_factory=list)
    ending: Ending = field(default_factory=lambda: Ending("exit"))
    targets: list[Block] = field(default_factory=list)
    live: tuple[int, ...] = ()
    live_bits: int = 0
    live_at: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Slots that are live before items of the code, as far as somebody has asked."""
    spin: frozenset[int] = frozenset()
    """Of the head of a spin loop: the numbers of its blocks, the indices of its instructions."""
    spin_instructions: frozenset[int] = frozenset()
    spin_on: str = "memory"
    """Which kind of progress ends it."""
    peeled: dict[int, frozenset[int]] = field(default_factory=dict)
    """Blocks before it that read first: the indices of their reads."""


def slots_of(operands: tuple[Operand, ...]) -> int:
    """The slots of all registers in operands, as a bit set."""
    return cfg.bits(reg.slot for reg in registers(operands))


def used(ins: Ins) -> int:
    """Slots that an instruction reads, as a bit set."""
    found = ins.cache.get("used")
    if found is None:
        found = slots_of(ins.src)
        if ins.guard is not None:
            found |= 1 << ins.guard.slot
        if ins.guard is not None or ins.cache.get("updates"):
            found |= slots_of(ins.dst)
        ins.cache["used"] = found
    return found


def killed(ins: Ins) -> int:
    """Slots that it surely writes."""
    found = ins.cache.get("killed")
    if found is None:
        found = 0 if ins.guard is not None else slots_of(ins.dst)
        ins.cache["killed"] = found
    return found
