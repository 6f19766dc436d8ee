"""Lanes that stand at the same instruction, with their registers.

Groups split where lanes part and join where they meet again; a register is only carried along while
it is live. `way` names the arm of an unknown branch that the group is in (None: none): the lanes of
a group are then on both arms at once, and such groups are not joined with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx.instruction import UNKNOWN, Ins
from xttir.interp.ptx.scalar import GROUP
from xttir.interp.ptx.step import Task
from xttir.interp.ptx.values import Pending, join, take

if TYPE_CHECKING:
    from xttir.interp.ptx.code import Block
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.unknown import Way


class Group:
    """`lanes`, `cta`, `tid`: int32 (n,), lanes ascending. `block`, `at`: the next instruction."""

    __slots__ = (
        "at",
        "block",
        "complete",
        "cta",
        "env",
        "executor",
        "fenced",
        "forced",
        "held",
        "lanes",
        "n",
        "one_cta",
        "round",
        "rows_cta",
        "seen",
        "specials",
        "tid",
        "version",
        "waits_for",
        "way",
        "what",
        "whole",
    )

    def __init__(self, executor: Executor, lanes: np.ndarray, block: Block, at: int = 0):
        self.executor = executor
        self.lanes = lanes
        self.n = lanes.size
        threads = executor.threads_per_cta
        self.cta = lanes // threads
        self.tid = lanes - self.cta * threads
        first = int(self.cta[0])
        self.one_cta = first == int(self.cta[-1])
        self.rows_cta = self.cta[:1] if self.one_cta else self.cta
        """The block of every lane, size 1 when it is the same."""
        self.block = block
        self.at = at
        self.env: dict[int, Any] = {GROUP: self}
        self.specials: dict[Any, Any] = {}
        self.complete = -1
        self.whole = 0
        """At which count of `executor.exits` all its units of `whole` lanes were complete."""
        self.forced = False
        """Goes on though lanes of its warps are missing (which has been reported)."""
        self.way: Way | None = None
        self.what = ""
        self.waits_for = ""
        self.version = -1
        self.seen = -1
        self.round = -1
        """In a loop that waits: where its events began, and the state of memory then."""
        self.held: dict[int, Task] = {}
        """Slots that an asynchronous operation still reads."""
        self.fenced: dict[int, Any] = {}
        """Values of the registers that wgmma may use, as they were at the last wgmma.fence."""

    # What closures ask for ------------------------------------------------------------------------

    def special(self, name: str) -> Any:
        """Raw bits of a special register."""
        value = self.specials.get(name)
        if value is None:
            value = self.executor.special(name, self)
            if name not in _CHANGING:
                self.specials[name] = value
        return value

    def symbol(self, name: str, offset: int) -> Any:
        """The address of a variable in its own space, uint64 (32 bits are cut where used)."""
        key = (name, offset)
        value = self.specials.get(key)
        if value is None:
            value = self.specials[key] = self.executor.symbol(name, offset, self)
        return value

    def used_early(self, value: Pending, ins: Ins) -> Any:
        """A register in flight is used: a fault; what the operation has written, if it has."""
        return self.executor.used_early(self, value, ins)

    # Parting and meeting --------------------------------------------------------------------------

    def part(self, index: np.ndarray, live: Iterable[int]) -> Group:
        """The lanes `index` of this group as one of their own, at the same place."""
        out = Group(self.executor, self.lanes[index], self.block, self.at)
        mine, env = self.env, out.env
        for slot in live:
            env[slot] = take(mine[slot], index)
        self._carry(out)
        for slot, value in self.fenced.items():
            if mine.get(slot) is value and slot in env:
                out.fenced[slot] = env[slot]
        return out

    def twin(self, live: Iterable[int]) -> Group:
        """The same lanes once more, for the other arm of an unknown branch."""
        out = Group(self.executor, self.lanes, self.block, self.at)
        for slot in live:
            out.env[slot] = self.env[slot]
        self._carry(out)
        out.fenced = dict(self.fenced)
        return out

    def _carry(self, out: Group) -> None:
        out.way = self.way
        out.forced = self.forced
        out.what, out.waits_for, out.version = self.what, self.waits_for, self.version
        out.held = dict(self.held)
        out.seen, out.round = self.seen, self.round

    def prune(self, live: Sequence[int]) -> None:
        """Forget registers that are not live."""
        env = self.env
        self.env = {slot: env[slot] for slot in live}
        self.env[GROUP] = self


_CHANGING = ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi")


def merge(groups: Sequence[Group], live: Sequence[int]) -> Group:
    """Groups that stand at the same place as one."""
    lanes = np.concatenate([g.lanes for g in groups])
    order = None
    if (lanes[1:] < lanes[:-1]).any():
        order = np.argsort(lanes, kind="stable")
        lanes = lanes[order]
    first = groups[0]
    out = Group(first.executor, lanes, first.block, first.at)
    counts = [g.n for g in groups]
    for slot in live:
        out.env[slot] = join([g.env.get(slot, UNKNOWN) for g in groups], counts, order)
    for g in groups:
        out.held.update(g.held)
    for slot in first.fenced:
        if slot in out.env and all(
            slot in g.fenced and g.env.get(slot) is g.fenced[slot] for g in groups
        ):
            out.fenced[slot] = out.env[slot]
    first._carry(out)
    for g in groups[1:]:
        out.held.update(g.held)
    out.forced = all(g.forced for g in groups)
    out.version = min(g.version for g in groups)
    out.seen = min(g.seen for g in groups)
    out.round = min(g.round for g in groups)
    return out
