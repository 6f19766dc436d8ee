"""Whether lanes hold the same value, when nobody knows which: every register has a number by lane.

Equal numbers mean equal values. A number stands for the term that made the value (instruction and
numbers of its operands, the contents of a place of memory), so that it is the same in lanes that do
the same with the same data, as replicas of a tile do. What is not followed gets numbers that no
other lane has. Terms are hashed to 64 bits, as in hash consing (Ershov, 1958).

Only weak accesses give contents a number: without a race they read, in every schedule, what they
read in the traced one. Values that depend on the way through an unknown branch get new numbers.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx.instruction import Imm, Ins, Operand, Reg, Special, Symbol, Vec
from xttir.interp.ptx.values import Partial

if TYPE_CHECKING:
    from xttir.analyses.events import Footprint, Space
    from xttir.interp.ptx.actual_step import ActualStep
    from xttir.interp.ptx.group import Group
    from xttir.interp.ptx.memory import LaunchMemory
    from xttir.interp.ptx.regions import Region

MOST_BYTES = 1 << 25
"""Of a region whose contents are followed: there are eight bytes for each."""
COLLECTIVE = frozenset(("vote", "match", "redux", "mma", "movmatrix"))
"""What a lane gets depends on the operands of all lanes of its warp, on its place in it, and on
nothing else."""
SHARED_RESULT = frozenset(("vote", "redux"))
"""Of these, lanes with the same member mask (the last operand) get the same."""
COMMUTATIVE = frozenset(("add", "mul", "mad", "fma", "min", "max", "and", "or", "xor"))
"""In the first two operands."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser (Steele, Lea, Flood, 2014): uint64 to uint64, one to one."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def chained(total: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The number of a sequence with one more item."""
    return mix(total * _STEP + more)


def folded(numbers: np.ndarray) -> np.ndarray:
    """The number of the sequences along the last axis."""
    total = np.full((1,) * (numbers.ndim - 1), numbers.shape[-1], np.uint64)
    for k in range(numbers.shape[-1]):
        total = chained(total, numbers[..., k])
    return total


def of_text(text: str) -> np.ndarray:
    """(1,)"""
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), np.uint64)


def of_bits(value: np.ndarray) -> np.ndarray:
    """Of known register contents, (n,) or (1,)."""
    numbers = mix(value.astype(np.uint64) + _STEP)
    return numbers if numbers.ndim == 1 else folded(numbers)


class Fingerprints:
    """The numbers of all registers and of memory, while a launch is traced."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.registers: dict[int, np.ndarray] = {}
        self.memory: dict[int, np.ndarray | None] = {}
        """By region: uint64 for each byte; None: too large."""
        self.touched: set[int] = set()
        """Tensors that somebody has written to."""
        self.count = 0

    def fresh(self, where: np.ndarray) -> np.ndarray:
        """Numbers that nothing else has, by lane or address."""
        self.count += 1
        start = mix(np.array([self.count], np.uint64) * _STEP)
        return mix(start + mix(where.astype(np.uint64)))

    # Registers ------------------------------------------------------------------------------------

    def of(self, group: Group, operand: Operand) -> np.ndarray:
        """uint64 (n,) or (1,)."""
        if isinstance(operand, Reg):
            value, slot = group.env.get(operand.slot), operand.slot
            if value.__class__ is np.ndarray:
                numbers = of_bits(value)  # type: ignore[arg-type]
            else:
                numbers = self._register(slot)[group.lanes]
                if isinstance(value, Partial):
                    numbers = np.where(value.known, of_bits(value.data), numbers)
            return chained(numbers, of_text("not")) if operand.negated else numbers
        if isinstance(operand, Imm):
            return of_text(operand.text)
        if isinstance(operand, Vec):
            return folded(np.stack(self.parts(group, operand), axis=-1))
        if isinstance(operand, Special | Symbol):
            if isinstance(operand, Special):
                value = group.special(operand.name)
            else:
                value = group.symbol(operand.name, operand.offset)
            if value.__class__ is np.ndarray:
                return of_bits(value)
        return self.fresh(group.lanes)

    def parts(self, group: Group, operand: Operand) -> list[np.ndarray]:
        """Of each register of a vector, (n,)."""
        operands = operand.parts if isinstance(operand, Vec) else (operand,)
        return [np.broadcast_to(self.of(group, p), (group.n,)) for p in operands]

    def _register(self, slot: int) -> np.ndarray:
        found = self.registers.get(slot)
        if found is None:
            found = self.registers[slot] = self.fresh(np.arange(self.lanes))
        return found

    def define(self, lanes: np.ndarray, operand: Operand, numbers: np.ndarray | None) -> None:
        """A register, or those of a vector: (n,), (1,) or (n, parts). None: new ones."""
        if isinstance(operand, Vec):
            for k, part in enumerate(operand.parts):
                mine = numbers
                if numbers is not None:
                    mine = numbers[:, k] if numbers.ndim > 1 else mix(numbers + np.uint64(k))
                self.define(lanes, part, mine)
        elif isinstance(operand, Reg):
            mine = self.fresh(lanes) if numbers is None else numbers
            self._register(operand.slot)[lanes] = mine[:, 0] if mine.ndim > 1 else mine

    def lost(self, group: Group, slots: Any) -> None:
        """Registers whose values are somebody else's from here on."""
        for slot in slots:
            self._register(slot)[group.lanes] = self.fresh(group.lanes)

    # Instructions ---------------------------------------------------------------------------------

    def scalar(self, group: Group, ins: Ins) -> None:
        """An instruction on registers, before it is executed."""
        if group.way is not None:
            numbers = None
        else:
            numbers = self._term(group, ins)
        for k, operand in enumerate(ins.dst):
            mine = None if numbers is None else mix(numbers + np.uint64(k))
            self.define(group.lanes, operand, mine)

    def _term(self, group: Group, ins: Ins) -> np.ndarray:
        total = _operation(ins)
        numbers = [self.of(group, operand) for operand in ins.src]
        if ins.name in COMMUTATIVE and len(numbers) > 1:
            # The lanes of a butterfly have the same sums, but each has its own part first.
            first, second = numbers[:2]
            numbers[:2] = np.minimum(first, second), np.maximum(first, second)
        for number in numbers:
            total = chained(total, number)
        if ins.guard is not None:
            total = chained(total, self.of(group, ins.guard))
        if ins.guard is not None or ins.cache.get("updates"):
            for operand in ins.dst:
                total = chained(total, self.of(group, operand))
        return total

    def _together(self, step: ActualStep) -> np.ndarray:
        """What the lanes of a warp put into an instruction, and the place of each: (n,)."""
        operands = [self._of_step(step, operand) for operand in step.ins.src]
        total = _operation(step.ins)
        for number in operands:
            total = chained(total, number)
        total = np.broadcast_to(total, (step.n,))
        if step.ins.name in SHARED_RESULT and len(operands) > 1:
            return chained(self.of_warps(step, total, placed=False), operands[-1])
        return self.of_warps(step, total)

    def of_warps(self, step: ActualStep, numbers: np.ndarray, placed: bool = True) -> np.ndarray:
        """Those of all lanes of a warp in one, and (`placed`) the place of each lane: (n,)."""
        lane = (step.tid & 31).astype(np.uint64)
        each = mix(numbers + mix(lane))
        warp = (step.cta.astype(np.int64) << 32) + (step.tid >> 5)
        starts = np.concatenate([[True], warp[1:] != warp[:-1]])
        sums = np.add.reduceat(each, np.flatnonzero(starts))
        sums = mix(sums)[np.cumsum(starts) - 1]
        return mix(sums + lane) if placed else sums

    def _of_step(self, step: ActualStep, operand: Operand) -> np.ndarray:
        numbers = self.of(step.group, operand)
        return numbers if step.rows is None or numbers.shape[0] == 1 else numbers[step.rows]

    def before(self, step: ActualStep) -> None:
        """An instruction that may have an effect is about to be executed."""
        if step.ins.name in COLLECTIVE and not step.maybe:
            numbers = self._together(step)
            for k, operand in enumerate(step.ins.dst):
                step.named.append((operand, mix(numbers + np.uint64(k))))

    def after(self, step: ActualStep) -> None:
        """It has been: registers that it did not name have new numbers."""
        named = {id(operand) for operand, _ in step.named}
        for operand in step.ins.dst:
            if id(operand) not in named:
                self.define(step.lanes, operand, None)
        for operand, numbers in step.named:
            self.define(step.lanes, operand, numbers)

    # Memory ---------------------------------------------------------------------------------------

    def _bytes(self, region: Region) -> np.ndarray | None:
        found = self.memory.get(id(region))
        if found is None and id(region) not in self.memory:
            if region.allocated <= MOST_BYTES and not region.base:
                found = self.fresh(np.arange(region.allocated))
            self.memory[id(region)] = found
        return found

    def changed(self, region: Region, index: Any) -> None:
        """Bytes of a region, by number, have been written."""
        if region.base:
            self.touched.add(id(region))
            return
        numbers = self._bytes(region)
        if numbers is not None:
            numbers[index] = self.fresh(np.asarray(index))

    def contents(
        self,
        memory: LaunchMemory,
        space: Space | str,
        address: np.ndarray,
        size: int,
        parts: int,
        cta: np.ndarray | None,
    ) -> np.ndarray | None:
        """Of `parts` elements of `size` bytes at addresses (n,) or (1,): (n or 1, parts). None if
        they are in several regions, or not followed."""
        with memory.silent():
            places = memory.locate(space, address, size * parts, cta)
        if len(places) != 1 or places[0][2] is not None:
            return None
        region, offset, _ = places[0]
        first = offset.reshape(-1, 1) + size * np.arange(parts)
        if region.base:
            # What the launch found there, as long as nobody has written to the tensor.
            if id(region) in self.touched:
                return None
            start = np.array([region.base + size], np.uint64)
            return mix(first.astype(np.uint64) + mix(start))
        numbers = self._bytes(region)
        if numbers is None:
            return None
        return folded(numbers[first[..., None] + np.arange(size)])

    def pieces(self, memory: LaunchMemory, footprint: Footprint) -> np.ndarray | None:
        """Of the piece of every row of a footprint (n, 1), (n,); 0 where there is none."""
        starts, live = footprint.starts[:, 0], footprint.starts[:, 0] >= 0
        cta = footprint.cta
        if cta is not None:
            cta = np.broadcast_to(cta, footprint.starts.shape)[live, 0]
        found = self.contents(memory, footprint.space, starts[live], footprint.size, 1, cta)
        if found is None:
            return None
        numbers = np.zeros(len(starts), np.uint64)
        numbers[live] = found[:, 0]
        return numbers

    def stored(
        self,
        memory: LaunchMemory,
        space: Space | str,
        address: np.ndarray,
        size: int,
        numbers: np.ndarray,
        cta: np.ndarray | None,
    ) -> None:
        """Values with these numbers (n, parts) have been written, `size` bytes each; one value to
        each place."""
        parts = numbers.shape[1]
        with memory.silent():
            places = memory.locate(space, address, size * parts, cta)
        if len(places) != 1 or places[0][2] is not None or places[0][0].base:
            return
        region, offset, _ = places[0]
        kept = self._bytes(region)
        if kept is None:
            return
        at = offset.reshape(-1, 1, 1) + size * np.arange(parts)[:, None] + np.arange(size)
        each = mix(numbers[..., None] + np.arange(size, dtype=np.uint64))
        kept[np.broadcast_to(at, each.shape)] = each


def _operation(ins: Ins) -> np.ndarray:
    found = ins.cache.get("operation")
    if found is None:
        found = ins.cache["operation"] = of_text(" ".join((ins.name, *ins.modifiers)))
    return found
