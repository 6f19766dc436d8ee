"""Collects the faults of one launch: one entry per kind, place and tensor, with one example.

The example kept is that of the lowest program id, so that reports do not depend on how programs
were batched or in which order they ran.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation

from xttir.diagnostics import Fault, Kind, Location, Policy
from xttir.dialects.locations import locations_of
from xttir.policy import CheckCounts


@dataclass
class _Entry:
    kind: Kind
    order: tuple[Any, ...]
    message: str
    locations: tuple[Location, ...]
    policy: Policy
    notes: tuple[str, ...]
    hint: str
    witness: dict[str, Any]
    count: int = 0
    programs: set[int] = field(default_factory=set)


class FaultLog:
    """Faults and check counts of one launch."""

    def __init__(self, kernel: str, grid: tuple[int, int, int], index: int = 1, text: str = ""):
        self.kernel = kernel
        self.grid = grid
        self.index = index
        self.text = text
        self.counts = CheckCounts()
        self._entries: dict[tuple[Any, ...], _Entry] = {}

    def program(self, pid: int) -> tuple[int, int, int]:
        """The program id (x, y, z) of a linear id."""
        gx, gy, _ = self.grid
        return pid % gx, pid // gx % gy, pid // (gx * gy)

    def report(
        self,
        op: Operation,
        kind: Kind,
        message: str,
        *,
        key: tuple[Any, ...] = (),
        order: tuple[Any, ...] = (0,),
        others: tuple[Location, ...] = (),
        role: str = "",
        notes: tuple[str, ...] = (),
        hint: str = "",
        witness: dict[str, Any] | None = None,
        count: int = 1,
        policy: Policy = Policy.ANY,
    ) -> None:
        """Report a fault at `op`.

        Reports with equal (kind, op, key) are one fault; `count` adds up, and the example with the
        least `order` (program ids) is kept. `others`: further places, such as the other side of a
        race.
        """
        name = (kind, id(op), *key)
        entry = self._entries.get(name)
        if entry is None or order < entry.order:
            places = locations_of(op)
            if role and places:
                places = (places[0].with_role(role), *places[1:])
            fresh = _Entry(
                kind, order, message, (*places, *others), policy, notes, hint, witness or {}
            )
            if entry is not None:
                fresh.count = entry.count
            self._entries[name] = entry = fresh
        entry.count += count

    @property
    def any(self) -> bool:
        return bool(self._entries)

    def faults(self) -> list[Fault]:
        """The faults, those of the lowest program ids first within a kind."""
        found = []
        for entry in self._entries.values():
            notes = entry.notes
            found.append(
                Fault(
                    kind=entry.kind,
                    message=entry.message,
                    kernel=self.kernel,
                    locations=entry.locations,
                    policy=entry.policy,
                    notes=notes,
                    hint=entry.hint,
                    witness=entry.witness,
                    count=entry.count,
                    launch=self.index,
                    launch_text=self.text,
                )
            )
        return found


def lanes_text(lanes: list[int]) -> str:
    """ ", lane 3" or ", lanes 0..3, 8", to follow the name of a program."""
    return f", lane{'s' if len(lanes) > 1 else ''} {ranges_text(lanes)}"


def ranges_text(numbers: list[int], limit: int = 4) -> str:
    """Sorted numbers as ranges: "0..3, 8"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    shown = [f"{a}" if a == b else f"{a}..{b}" for a, b in runs[:limit]]
    return ", ".join(shown) + (f", ... ({len(numbers)} in all)" if len(runs) > limit else "")
