"""The checks of global memory accesses: bounds, initialisation, races, lanes in conflict.

`interp.memory_ops` calls these around the accesses themselves. Here is what turns masks and tags
into findings a person can act on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location
from xttir.dialects.locations import locations_of
from xttir.interp.access import WORDS, Access, Piece
from xttir.interp.launch import Storage
from xttir.interp.machine import Machine
from xttir.interp.memory import Region
from xttir.interp.ownership import Intervals, Ownership
from xttir.interp.report import lanes_text
from xttir.interp.shadow import Clocks, Shadow, Tags
from xttir.interp.taint import Origin

_METHODS = {"load": "read", "store": "write", "atomic": "atomic"}
_DONE = {"load": "loaded", "store": "stored", "atomic": "updated atomically"}
_PREPOSITION = {"load": "load from", "store": "store to", "atomic": "atomic on"}


class Sanitizer:
    """Checks of one launch. `sites` are its memory ops in order; `written` the storages that the
    kernel may write (None: all may be)."""

    def __init__(
        self,
        programs: int,
        sites: list[Operation],
        written: set[int] | None,
        clocks: Clocks | None,
    ):
        self.sites = sites
        self.site_of = {id(op): n for n, op in enumerate(sites)}
        self.written = written
        self.clocks = clocks
        self.tags = Tags(programs, len(sites), Clocks.EPOCH_BITS if clocks is not None else 0)
        self.alone = programs == 1
        self._shadows: dict[int, Shadow] = {}
        self._owners: dict[int, Ownership] = {}
        self._fresh: dict[int, tuple[Storage, Intervals]] = {}
        self.batch = 0
        self.batch_pids = np.zeros(0, np.int64)

    def may_write(self, storage: Storage) -> bool:
        return self.written is None or id(storage) in self.written

    def begin_batch(self, pids: np.ndarray) -> None:
        """Programs `pids` start; accesses are theirs until the next batch."""
        self.batch += 1
        self.batch_pids = pids

    def end(self) -> None:
        """The launch is over: bring validity up to date."""
        for storage, intervals in self._fresh.values():
            if storage.valid is not None:
                storage.valid = intervals.settle(storage.valid)
        self._fresh.clear()

    # --- races -----------------------------------------------------------------------------------

    def shadow(self, region: Region) -> Shadow:
        key = id(region.storage)
        found = self._shadows.get(key)
        if found is None:
            granule = region.tensor.dtype.itemsize
            found = self._shadows[key] = Shadow(region.storage, granule, self.tags, self.clocks)
        return found

    def race(self, m: Machine, op: Operation, verb: str, region: Region, piece: Piece) -> None:
        """Check an access for races and record it. `verb`: "load", "store" or "atomic"."""
        m.counts.add("race")
        if self.alone or (verb == "load" and not self.may_write(region.storage)):
            return
        site = self.site_of[id(op)]
        method = _METHODS[verb]
        key = id(region.storage)
        if self.clocks is None and key not in self._shadows:
            owner = self._owners.setdefault(key, Ownership())
            if owner.admit(method, piece, m.pids, site, self.batch, self.batch_pids):
                return
            owner = self._owners.pop(key)
        else:
            owner = None
        shadow = self.shadow(region)
        report = self._race_reporter(m, op, verb, region)
        if owner is not None:
            owner.replay(shadow, report)
        getattr(shadow, method)(piece, m.pids, site, report)

    def _race_reporter(
        self, m: Machine, op: Operation, verb: str, region: Region
    ) -> Callable[[str, Piece, np.ndarray, np.ndarray, Storage], None]:
        def report(
            what: str, part: Piece, lanes: np.ndarray, found: np.ndarray, storage: Storage
        ) -> None:
            theirs = np.broadcast_to(found, lanes.shape)[lanes]
            mine = np.broadcast_to(part.spread(m.pids), lanes.shape)[lanes]
            shadow = self.shadow(region)
            at = np.broadcast_to(part.offsets(), lanes.shape)[lanes]
            at = at // self.tags.dtype.itemsize * shadow.granule
            sites = self.tags.site(theirs)
            programs = self.tags.program(theirs)
            for site in np.unique(sites).tolist():
                chosen = np.flatnonzero(sites == site)
                low = np.minimum(programs[chosen], mine[chosen])
                high = np.maximum(programs[chosen], mine[chosen])
                k = chosen[np.lexsort((at[chosen], high, low))[0]]
                self._report_race(
                    m,
                    region.storage,
                    (op, verb, int(mine[k])),
                    (self.sites[site], _verb_of(self.sites[site], what), int(programs[k])),
                    int(at[k]),
                    chosen.size,
                )

        return report

    def _report_race(
        self,
        m: Machine,
        storage: Storage,
        mine: tuple[Operation, str, int],
        other: tuple[Operation, str, int],
        at: int,
        count: int,
    ) -> None:
        # The writer first; of two writers the one that comes first in the kernel.
        sides = sorted((mine, other), key=lambda s: (s[1] == "load", self.site_of[id(s[0])], s[2]))
        (op, verb, pid), (op2, verb2, pid2) = sides
        # Arguments may share the storage: the first that reaches the element names it.
        regions = [r for r in m.memory.regions if r.storage is storage]
        reach = [r for r in regions if r.low <= at - r.base < r.high]
        region = (reach or regions or [m.memory.whole_region(storage)])[0]
        shared = ", ".join(f"`{r.name}`" for r in reach if r.name != region.name)
        at = (at - region.base) // region.tensor.dtype.itemsize
        element = region.index_text(at)
        first, second = m.log.program(pid), m.log.program(pid2)
        same = op is op2
        places = locations_of(op2)
        others: tuple[Location, ...] = ()
        if places:
            others = (places[0].with_role(f"{verb2} by program {second}"), *places[1:])
        hint = "nothing orders the two programs: give each its own elements, combine with atomics, "
        hint += "or split the work into two launches"
        if "atomic" in (verb, verb2) and verb != verb2:
            hint = "a plain access beside an atomic one: make both atomic, or order them with a "
            hint += "release on one side and an acquire on the other"
        m.log.report(
            op,
            Kind.RACE,
            f"programs race on {region.describe()}{f', also {shared}' if shared else ''}: "
            f"{verb} and {verb2} of the same element",
            key=(id(op2), region.name),
            order=(min(pid, pid2), max(pid, pid2), at),
            others=others,
            role=f"{verb} by program {first}",
            notes=(
                f"{element} is {_DONE[verb]} by program {first} and {_DONE[verb2]} by program "
                f"{second}" + (", by the same statement" if same else ""),
            ),
            hint=hint,
            witness={
                "tensor": region.name,
                "element": at,
                "programs": [list(first), list(second)],
                "accesses": [verb, verb2],
            },
            count=count,
        )

    # --- bounds ----------------------------------------------------------------------------------

    def out_of_bounds(
        self, m: Machine, op: Operation, verb: str, access: Access, itemsize: int
    ) -> None:
        """Report the lanes of `access` that were dropped."""
        for region, lanes, offsets, reason in access.bad:
            where = np.argwhere(lanes)
            program = where[:, 0]
            pid_of = m.pids[program] if m.pids.size > 1 else np.broadcast_to(m.pids, program.shape)
            pid = int(pid_of.min())
            rows = where[pid_of == pid]
            at = offsets[tuple(rows.T)]
            lanes_text = _lanes_text(rows[:, 1:], lanes.shape[1:])
            programs = int(np.unique(pid_of).size)
            message, notes, hint, witness = _bounds_text(region, verb, reason, at, itemsize)
            total = int(where.shape[0])
            spread = f"; {total} elements in {programs} programs" if programs > 1 else ""
            notes = (
                f"program {m.log.program(pid)}{lanes_text}: {notes[0]}{spread}",
                *notes[1:],
            )
            witness |= {
                "program": list(m.log.program(pid)),
                "lanes": rows[:8, 1:].tolist(),
                "offsets": at[:8].tolist(),
            }
            if op.operands and len(op.operands) > 1 and not _has_mask(op):
                hint = hint or f"the {verb} has no mask"
            m.log.report(
                op,
                Kind.OUT_OF_BOUNDS,
                message,
                key=(region.name if region else None, reason),
                order=(pid,),
                role=verb,
                notes=notes,
                hint=hint,
                witness=witness,
                count=total,
            )

    # --- initialisation --------------------------------------------------------------------------

    def uninitialised(self, m: Machine, region: Region, piece: Piece) -> np.ndarray | None:
        """The elements of `piece` that nobody has written (bool, shaped as the piece reads), or
        None if there are none."""
        m.counts.add("init")
        valid = self._valid(region.storage)
        if valid is None:
            return None
        word, ones = WORDS[piece.itemsize]
        found = piece.read(valid, word)
        if (found == ones).all():
            return None
        lanes = (found != ones) & poisoned(region.storage, piece)
        return lanes if lanes.any() else None

    def not_written(
        self, m: Machine, op: Operation, verb: str, region: Region, piece: Piece, lanes: np.ndarray
    ) -> Origin:
        """What to say of a read of the elements `lanes` of `piece`."""
        pids = np.broadcast_to(piece.spread(m.pids), lanes.shape)[lanes]
        at = (piece.offsets()[lanes] - region.base) // region.tensor.dtype.itemsize
        pid = int(pids.min())
        mine = np.unique(at[pids == pid])
        text = region.index_text(int(mine[0]))
        if mine.size > 1:
            text += f" .. {region.index_text(int(mine[-1]))}"
        others: tuple[Location, ...] = ()
        file, _, line = region.storage.created.rpartition(":")
        if line.isdigit():
            others = (Location(file, int(line), 0, "allocated here, never written"),)
        return Origin(
            op,
            Kind.UNINITIALIZED,
            "memory that nobody has written",
            f"{_PREPOSITION[verb]} {region.describe()} of memory that nobody has written",
            others,
            (
                f"program {m.log.program(pid)}: {text}, {mine.size} element"
                f"{'s' if mine.size > 1 else ''}",
            ),
            "start from torch.zeros, or write every element before it is read",
            pid,
            {
                "tensor": region.name,
                "program": list(m.log.program(pid)),
                "elements": mine[:8].tolist(),
            },
        )

    def initialised(
        self, m: Machine, op: Operation, verb: str, region: Region, piece: Piece
    ) -> None:
        """Report elements of `piece` that nobody has written, at once."""
        lanes = self.uninitialised(m, region, piece)
        if lanes is None:
            return
        origin = self.not_written(m, op, verb, region, piece, lanes)
        m.log.report(
            op,
            origin.kind,
            origin.message,
            key=(region.name,),
            order=(origin.pid,),
            role=verb,
            others=origin.others,
            notes=origin.notes,
            hint=origin.hint,
            witness=origin.witness,
            count=int(lanes.sum()),
        )

    def _valid(self, storage: Storage) -> np.ndarray | None:
        """Validity of `storage` with everything in it that the launch has written so far."""
        fresh = self._fresh.pop(id(storage), None)
        if fresh is not None and storage.valid is not None:
            storage.valid = fresh[1].settle(storage.valid)
        return storage.valid

    def written_now(self, region: Region, piece: Piece) -> None:
        """Mark the elements of `piece` as written."""
        storage = region.storage
        if storage.valid is None:
            return
        key = id(storage)
        if key not in self._fresh:
            self._fresh[key] = (storage, Intervals())
        if not self._fresh[key][1].add(piece):
            word, ones = WORDS[piece.itemsize]
            piece.write(storage.valid, word, ones)

    # --- lanes -----------------------------------------------------------------------------------

    def lanes_conflict(
        self,
        m: Machine,
        op: Operation,
        region: Region,
        piece: Piece,
        values: np.ndarray,
        dtype: np.dtype,
    ) -> None:
        """After a store: report lanes of one program that stored different values to one place."""
        m.counts.add("lanes")
        if piece.lanes_injective():
            return
        word = np.dtype(f"u{dtype.itemsize}")
        now = piece.read(region.storage.bytes, word)
        wanted = np.broadcast_to(values, now.shape)
        wanted = np.ascontiguousarray(wanted, dtype).view(word)
        lost = now != wanted
        if not lost.any():
            return
        at = piece.offsets().reshape(-1)
        pids = np.broadcast_to(piece.spread(m.pids), now.shape).reshape(-1)
        bits = wanted.reshape(-1)
        chosen = np.flatnonzero(np.isin(at, at[lost.reshape(-1)]))
        order = chosen[np.lexsort((bits[chosen], at[chosen], pids[chosen]))]
        a, b = order[:-1], order[1:]
        clash = (pids[a] == pids[b]) & (at[a] == at[b]) & (bits[a] != bits[b])
        if not clash.any():
            return
        k = int(np.flatnonzero(clash)[0])
        pid = int(pids[a[k]])
        element = (int(at[a[k]]) - region.base) // region.tensor.dtype.itemsize
        pair = sorted((int(a[k]) % _lanes(piece, now), int(b[k]) % _lanes(piece, now)))
        m.log.report(
            op,
            Kind.UNDEFINED,
            f"lanes of one store write different values to the same element of {region.describe()}",
            key=(region.name,),
            order=(pid,),
            role="store",
            notes=(f"program {m.log.program(pid)}: {region.index_text(element)}",),
            hint="which value stays is undefined: mask all lanes but one, or use an atomic",
            witness={
                "tensor": region.name,
                "program": list(m.log.program(pid)),
                "element": element,
                "lanes": pair,
            },
            count=int(clash.sum()),
        )


def _lanes(piece: Piece, now: np.ndarray) -> int:
    return max(1, now.size // max(1, now.shape[0])) if now.ndim > 1 else max(1, now.size)


def poisoned(storage: Storage, piece: Piece) -> np.ndarray | bool:
    """Which elements of `piece` still hold the pattern that uninitialised memory was filled with.

    Those that lost it were written by the host unseen (through `tensor.data`, numpy, ...). True
    where the pattern cannot tell. Patterns of one byte turn up by chance, so there the majority
    decides.
    """
    pattern = storage.poison
    if pattern is None or piece.itemsize % pattern.size:
        return True
    word, _ = WORDS[piece.itemsize]
    expected = np.tile(pattern, piece.itemsize // pattern.size).view(word)[0]
    held = piece.read(storage.bytes, word) == expected
    if pattern.size == 1 and held.mean() < 0.5:
        return False
    return held


def _verb_of(op: Operation, what: str) -> str:
    if what == "atomic":
        return "atomic"
    return "load" if what == "read" else "store"


def _has_mask(op: Operation) -> bool:
    return getattr(op, "mask", None) is not None


def _lanes_text(rows: np.ndarray, shape: tuple[int, ...]) -> str:
    """Which lanes of one program: a range for one axis, a range per axis for more."""
    if not shape or rows.size == 0:
        return ""
    if len(shape) == 1:
        return lanes_text(rows[:, 0].tolist())
    spans = [f"{rows[:, k].min()}..{rows[:, k].max()}" for k in range(len(shape))]
    return f", lanes ({', '.join(spans)})"


def _bounds_text(
    region: Region | None, verb: str, reason: str, at: np.ndarray, itemsize: int
) -> tuple[str, tuple[str, ...], str, dict[str, object]]:
    """(message, notes, hint, witness) for the offending offsets of one program."""
    low, high = int(at.min()), int(at.max())
    count = int(at.size)
    elements = f"{count} element{'s' if count > 1 else ''}"
    if region is None:
        if reason == "null":
            return (
                f"{verb} through a null pointer",
                (f"address {low:#x}, {elements}",),
                "",
                {},
            )
        return (
            f"{verb} at an address that belongs to no tensor",
            (f"addresses {low:#x}..{high:#x}, {elements}",),
            "",
            {},
        )
    size = region.tensor.dtype.itemsize
    first, last = region.index_text(low // size), region.index_text(high // size)
    span = first if low // size == high // size else f"{first} .. {last}"
    witness: dict[str, object] = {"tensor": region.name, "elements": [low // size, high // size]}
    if reason == "misaligned":
        return (
            f"misaligned {verb} of {itemsize}-byte elements in {region.describe()}",
            (f"byte offset {low}, {elements}",),
            "",
            witness,
        )
    if reason == "gap":
        return (
            f"{_PREPOSITION[verb]} {region.describe()} of elements between those the view owns",
            (f"{span}, {elements}",),
            "the view has gaps: check the strides passed and the mask",
            witness,
        )
    where = "outside"
    detail = ""
    if low >= region.high - itemsize + 1:
        where = "past the end of"
        detail = f", {high + itemsize - region.high} bytes past the end"
    elif high < region.low:
        where = "before the start of"
        detail = f", {region.low - low} bytes before the start"
    return f"{verb} {where} {region.describe()}", (f"{span}, {elements}{detail}",), "", witness
