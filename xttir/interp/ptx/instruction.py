"""A PTX instruction as the executor sees it: registers are slots, the rest is decoded once.

`xttir.interp.ptx.plan` makes these from the ops of the `ptx` dialect; the functions that give them
a meaning are registered with `@meaning("family")` and see a `Step` (one instruction, one group).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Unknown:
    """A register whose value depends on tensor data, when a kernel is traced and not run.

    There is one, `UNKNOWN`: an instruction with an unknown source has unknown results, an unknown
    branch is explored on both sides where that is harmless, an unknown address stops the trace.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()

Value = np.ndarray | Unknown
"""Register contents over the lanes of a group: (n,), or (1,) when all agree. Raw bits: bool for
predicates, uint16/uint32/uint64 by width (`.b8` values live in uint16 and wider registers);
`.b128` is uint64 with a last axis of 2. Never written in place."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register, read or written. `type` is its declared type without the dot (`b32`, `pred`)."""

    slot: int
    type: str
    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """An immediate: an int, or the float it spells; `bits(type)` gives the raw value."""

    value: int | float
    text: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without the percent sign: `tid.x`, `laneid`, `cluster_ctarank`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or parameter, plus an offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """{a, b, ..}."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Mem:
    """[base + offset], or [map, {c0, c1, ..}] with the coordinates (and what follows) in `more`."""

    base: Reg | Symbol | Imm
    offset: int = 0
    more: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: the result is not wanted."""


@dataclass(frozen=True, slots=True)
class Label:
    name: str


Operand = Reg | Imm | Special | Symbol | Vec | Mem | Sink | Label


@dataclass(slots=True)
class Ins:
    """One instruction.

    `name` is the family, what a meaning is registered under: the leading words that say which
    operation it is (`add`, `ld`, `cp.async.bulk.tensor`, `mbarrier.try_wait`, `tcgen05.ld`,
    `wgmma.mma_async`, `barrier.cluster.arrive`; `bar.sync` and `barrier.cta.sync` are
    `barrier.sync`). `modifiers` are the other words in source order, types included.
    `dst` holds what it defines, in source order, `src` the rest.
    """

    index: int
    """Into `Trace.instructions`."""
    name: str
    modifiers: tuple[str, ...]
    dst: tuple[Operand, ...]
    src: tuple[Operand, ...]
    guard: Reg | None = None
    op: Any = None
    """The op of the `ptx` dialect."""
    cache: dict[str, Any] = field(default_factory=dict)
    """What a meaning worked out from the modifiers, kept for the next time."""

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers


def lanes_together(ins: Ins) -> int:
    """How many neighbouring lanes must execute an instruction together: 1, 32 or 128."""
    if ins.name.startswith("wgmma."):
        return 128
    return 32 if "aligned" in ins.modifiers else 1


Meaning = Callable[[Any], None]
"""Of a `Step`."""
MEANINGS: dict[str, Meaning] = {}


def meaning(*families: str) -> Callable[[Meaning], Meaning]:
    """Register the one function that says what the instructions of these families do."""

    def register(function: Meaning) -> Meaning:
        for family in families:
            MEANINGS[family] = function
        return function

    return register


def registers(operands: tuple[Operand, ...]) -> Iterator[Reg]:
    """All registers in `operands`, in source order."""
    for operand in operands:
        if isinstance(operand, Reg):
            yield operand
        elif isinstance(operand, Vec):
            yield from registers(operand.parts)
        elif isinstance(operand, Mem):
            if isinstance(operand.base, Reg):
                yield operand.base
            yield from registers(operand.more)
