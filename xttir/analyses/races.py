"""Races: a sweep over the accesses in trace order, which is a linear extension of happens-before.

Every atom of memory remembers the accesses that are not covered by a later one. A new access asks
once for each of those whether it is ordered after it: by representatives, a matrix of classes; only
where lanes of a template differ, by lanes and bytes. An access that is ordered before a later one
which conflicts with everything that it conflicts with is forgotten: order is transitive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from xttir.analyses.bounds import VAGUE, certain
from xttir.analyses.clocks import Clocks
from xttir.analyses.events import Mode, Scope
from xttir.analyses.grid import MEMBER
from xttir.analyses.ground import Ground
from xttir.analyses.proxies import LETTER, MAP, WARPS, Need, in_order, needs, table
from xttir.analyses.records import Nature, Record
from xttir.analyses.unused import WHY, Used
from xttir.diagnostics import Kind, Policy

ENOUGH = 16
"""Pairs of instructions with the same opcodes that are reported for lacking the same; of what only
the letter of the rules asks for, one."""

PASSED = "a value that another thread wrote"
"""Ordered if a value-passing edge of this schedule holds in all."""
ITSELF = "itself"
"""In place of a level: the two accesses are one, by several lanes."""
UNUSED = "unused"
"""In place of a level: the order is lacking, but nothing depends on what is read."""

MOST_PAIRS = 1 << 21
"""Of rows and granules that are looked at one by one."""
MANY = 8
"""Readers of one place from which on it pays to look closer whether some are covered."""


@dataclass(slots=True)
class Conflict:
    """Two accesses of one place that lack something. `x` comes first in the trace; rows, and a
    place that both touch; `clock`: what happens before the later one, in time."""

    x: Record
    y: Record
    x_row: int
    y_row: int
    place: int
    need: Need
    clock: np.ndarray
    undecided: str = ""
    """Why it may be none: `PASSED` or `bounds.VAGUE`."""


@dataclass(slots=True)
class Rows:
    """Clocks of the actors of the access at hand: index of reps, or tables of their own."""

    first: np.ndarray
    second: np.ndarray
    tables: np.ndarray | None = None
    """(levels, actors, chains), for units."""


Order = tuple[np.ndarray, np.ndarray]
"""bool (actors of x, actors of y): before, for one lane or actors of different classes; and for
different lanes of one class."""


class Sweep:
    """The accesses to one ground. `report` gets every pair that lacks something."""

    def __init__(
        self,
        ground: Ground,
        clocks: Clocks,
        threads: int,
        cluster: int,
        names: list[int],
        report: Callable[[Conflict], None],
    ):
        self.ground = ground
        self.clocks = clocks
        self.threads = threads
        self.cluster = cluster
        """Lanes of a block, of a cluster."""
        self.names = names
        """By instruction: a number for its opcode."""
        self.report = report
        self.states: list[tuple[Record, ...]] = [()]
        self.numbers: dict[tuple[int, ...], int] = {(): 0}
        self.rows = Rows(np.zeros(0, np.int32), np.zeros(0, np.int32))
        self.reported: set[tuple[int, int, str]] = set()
        self.told: dict[tuple[int, int, str, Policy], int] = {}
        """How many pairs of instructions with the same opcodes lack the same."""
        self.cached: dict[tuple[int, str], Order] = {}
        self.used: Used | None = None
        """Whether what is read is used; None: it is."""
        self.vain: set[int] = set()
        """Loads of a conflict that is by the letter only. Those in `doubtful` stand for no other
        read, which may be used."""
        self.doubtful: frozenset[int] = frozenset()

    def touch(self, y: Record, rows: Rows) -> None:
        """The next access."""
        self.rows = rows
        self.cached = {}
        atoms = y.print.atoms
        if not len(atoms):
            return
        self.inside(y)
        states = self.ground.state[atoms]
        first = int(states[0])
        if (states == first).all():
            self.step(y, first, atoms)
            return
        for state in np.unique(states).tolist():
            self.step(y, state, atoms[states == state])

    def step(self, y: Record, state: int, atoms: np.ndarray) -> None:
        """`y` touches `atoms`, all in `state`."""
        members = self.states[state]
        kept = []
        partly: list[tuple[int, np.ndarray]] = []
        for x in members:
            dropped = self.relate(x, y, atoms, members)
            if dropped is True:
                if not y.nature.writes:
                    y.over |= x.over
                continue
            if dropped is not False:
                partly.append((len(kept), dropped))
            kept.append(x)
        if not partly:
            self.ground.state[atoms] = self.number((*kept, y))
            return
        pattern = np.zeros(len(atoms), np.int64)
        for i, (_, dropped) in enumerate(partly):
            pattern |= dropped.astype(np.int64) << i
        for code in np.unique(pattern).tolist():
            gone = {k for i, (k, _) in enumerate(partly) if code >> i & 1}
            left = (*(x for k, x in enumerate(kept) if k not in gone), y)
            self.ground.state[atoms[pattern == code]] = self.number(left)

    def number(self, members: tuple[Record, ...]) -> int:
        key = tuple(id(x) for x in members)
        known = self.numbers.get(key)
        if known is None:
            known = self.numbers[key] = len(self.states)
            self.states.append(members)
        return known

    # Order ------------------------------------------------------------------------------------

    def order(self, x: Record, y: Record, level: str) -> Order:
        """By actors; cached while `y` is the access at hand."""
        key = (id(x), level)
        known = self.cached.get(key)
        if known is None:
            known = self.cached[key] = self.compute(x, y, level)
        return known

    def compute(self, x: Record, y: Record, level: str) -> Order:
        if level == MAP:
            return self.by_map(x, y)
        if level == WARPS:
            both = [self.at_least(self.clocks.levels.used, *end) for end in x.waits]
            same, other = map(np.logical_and.reduce, zip(*both, strict=True))
            return same, other
        index = table(self.clocks.levels, level)
        before = self.reached(x, index)
        if level == "used_or_tensor":
            other = self.reached(x, self.clocks.levels.tensor)
            before = (before[0] | other[0], before[1] | other[1])
        if x.at == y.at and x.nature.engine:
            # One operation reads before it writes.
            before = (before[0] | np.eye(len(x.chain), dtype=bool), before[1])
        issued = in_order(x, y) if x.issued is not None and y.issued is not None else None
        if issued is not None and (issued is Policy.ANY or not level.endswith("strict")):
            assert x.issued is not None
            tensor = self.clocks.levels.tensor
            same, other = self.at_least(tensor, *x.issued)
            before = (before[0] | same, before[1] | other)
        return before

    def by_map(self, x: Record, y: Record) -> Order:
        """Whether fences that name the tensor maps which each actor of `y` uses are on the way."""
        shape = (len(x.chain), len(y.chain))
        same, other = np.ones(shape, bool), np.ones(shape, bool)
        levels = self.clocks.levels
        starts = y.print.starts & ((1 << MEMBER) - 1)
        for address in np.unique(starts[y.print.starts >= 0]).tolist():
            rows = ((starts == address) & (y.print.starts >= 0)).any(axis=1)
            actors = np.unique(y.actor[rows])
            numbers = levels.map_numbers.get(address, ())
            if not numbers:
                same[:, actors] = other[:, actors] = False
            for number in numbers:
                s, o = self.reached(x, levels.maps[number])
                same[:, actors] &= s[:, actors]
                other[:, actors] &= o[:, actors]
        return same, other

    def reached(self, x: Record, level: int) -> Order:
        same, other = self.at_least(level, x.chain, x.value)
        if x.seen is not None:
            s, o = self.at_least(level, *x.seen)
            same, other = same | s, other | o
        for chain, value in x.more:
            s, o = self.at_least(level, chain, value)
            same, other = same & s, other & o
        return same, other

    def at_least(self, level: int, chain: np.ndarray, value: np.ndarray) -> Order:
        rows = self.rows
        if rows.tables is not None:
            same = rows.tables[level][:, chain] >= value
            return same.T, same.T
        current = self.clocks.table[level]
        same = (current[rows.first[:, None], chain] >= value).T
        if rows.first is rows.second:
            return same, same
        return same, (current[rows.second[:, None], chain] >= value).T

    # Pairs ------------------------------------------------------------------------------------

    def relate(
        self, x: Record, y: Record, atoms: np.ndarray, members: tuple[Record, ...]
    ) -> bool | np.ndarray:
        """Report what the pair lacks; whether `x` can be forgotten (bool, or bool by atom)."""
        a, b = x.nature, y.nature
        if not (a.writes or b.writes):
            if (b.strong and not a.strong) or a.proxy is not b.proxy or y.may:
                return False
            if y.ins in self.doubtful and not self.again(x, y):
                return False
            return self.covered(x, y, atoms, len(members))
        if a.role == "dealloc" or b.role == "dealloc" or a.role == "init":
            return self.lifetime(x, y, atoms)
        far = len(x.ctas | y.ctas) > 1
        if a.strong and b.strong and self.morally(x, y):
            if y.may or (a.mode is Mode.READ) is not (b.mode is Mode.READ):
                return False
            return self.covered(x, y, atoms, len(members))
        wanted = needs(a, b, far)
        if b.writes and self.through_reader(x, y, atoms, members, wanted):
            return not y.may and not (b.strong and not a.strong)
        forget = self.check(x, y, atoms, wanted[0])
        letter = self.clocks.levels.letter != self.clocks.levels.visible
        for need in wanted[1:]:
            if need.level == LETTER and not letter:
                continue
            # Without the order the rest says nothing more.
            if forget is False or self.seen(x, y, wanted[0]):
                break
            forget = self.check(x, y, atoms, need) or need.policy is Policy.STRICT
        if not b.writes:
            if forget and a.writes and not y.may and self.plain(x, y, wanted[0], atoms):
                y.over.add(id(x))
            return False
        return not (y.may or (b.strong and not a.strong))

    def plain(self, x: Record, y: Record, need: Need, atoms: np.ndarray) -> bool:
        """Whether all of `x` is before all of `y`, whatever the lanes; where they are of several
        blocks, those that meet in `atoms`."""
        same, other = self.order(x, y, need.level)
        if bool(same.all()) and (other is same or bool(other.all()) or not self.shared(x, y)):
            return True
        if len(x.ctas | y.ctas) == 1:
            return False
        return not len(self.lanes(x, y, atoms, same, other)[0])

    def through_reader(
        self,
        x: Record,
        y: Record,
        atoms: np.ndarray,
        members: tuple[Record, ...],
        wanted: tuple[Need, ...],
    ) -> bool:
        """Whether a reader of what `x` wrote, properly after it, is before the write `y`."""
        for r in members:
            if id(x) not in r.over:
                continue
            first = needs(r.nature, y.nature, len(r.ctas | y.ctas) > 1)[0]
            if not self.plain(r, y, first, atoms):
                continue
            # A fence that the reader did not need must, by the letter, still come before an
            # asynchronous write. What a generic read has seen is past whatever delays it: on an
            # H200 such a write was never overtaken, and without the read it was (docs/trust.md).
            if r.nature.proxy is not y.nature.proxy:
                for need in wanted[1:]:
                    if need.policy is Policy.ANY and not self.plain(r, y, need, atoms):
                        strict = replace(need, policy=Policy.STRICT, why=f"{need.why}, only a read")
                        self.check(x, y, atoms, strict)
            return True
        return False

    def seen(self, x: Record, y: Record, need: Need) -> bool:
        return (x.ins, y.ins, need.level) in self.reported

    def enough(self, x: Record, y: Record, need: Need) -> bool:
        """Whether as many pairs like this one have been reported as anybody will read."""
        kind = (self.names[x.ins], self.names[y.ins], need.level, need.policy)
        return self.told.get(kind, 0) >= (ENOUGH if need.policy is Policy.ANY else 1)

    def morally(self, x: Record, y: Record) -> bool:
        """Both strong, each in the other's scope, for all lanes of both."""
        scope = min(_scope(x.nature), _scope(y.nature))
        if scope >= Scope.GPU:
            return True
        blocks = x.ctas | y.ctas
        if len(blocks) == 1:
            return True
        per = self.cluster // self.threads
        return scope >= Scope.CLUSTER and len({b // per for b in blocks}) == 1

    def check(self, x: Record, y: Record, atoms: np.ndarray, need: Need) -> bool:
        """Report the pair if `need` is not met somewhere in `atoms`; whether it is met."""
        same, other = self.order(x, y, need.level)
        if same.all() and (other is same or other.all() or not self.shared(x, y)):
            return True
        if self.apart(x, y) and self.diagonal(x, y, same):
            return True
        if self.seen(x, y, need) or self.enough(x, y, need):
            return False
        rx, ry, granules = self.lanes(x, y, atoms, same, other)
        if not len(rx):
            return True
        vain = self.in_vain(x, y, rx, ry, need)
        first = int(np.argmin(vain))
        if vain[first]:
            need = replace(need, level=UNUSED, policy=Policy.STRICT, why=WHY)
        place = self.ground.place(int(granules[first]))
        self.tell(x, y, int(rx[first]), int(ry[first]), place, need)
        return False

    def in_vain(
        self, x: Record, y: Record, rx: np.ndarray, ry: np.ndarray, need: Need
    ) -> np.ndarray:
        """bool for pairs of rows: one reads, and does nothing with the value."""
        out = np.zeros(len(rx), bool)
        if self.used is None or need.kind not in (Kind.RACE, Kind.PROXY):
            return out
        for record, rows in ((x, rx), (y, ry)):
            nature = record.nature
            if nature.mode is Mode.READ and not nature.engine and not nature.role:
                used = self.used.by_lane(record.ins)
                if used is not None:
                    unused = ~used[record.lanes[rows]]
                    if unused.any():
                        self.vain.add(record.ins)
                        out |= unused
        return out

    def tell(self, x: Record, y: Record, x_row: int, y_row: int, place: int, need: Need) -> None:
        key = (x.ins, y.ins, need.level)
        if key in self.reported or self.enough(x, y, need):
            return
        self.reported.add(key)
        kind = (self.names[x.ins], self.names[y.ins], need.level, need.policy)
        self.told[kind] = self.told.get(kind, 0) + 1
        actor = int(y.actor[y_row])
        levels = self.clocks.levels
        if self.rows.tables is not None:
            clock = self.rows.tables[levels.happens][actor].copy()
        else:
            clock = self.clocks.table[levels.happens, self.rows.first[actor]].copy()
        undecided = ""
        if levels.perhaps != levels.visible and need.kind is Kind.RACE and need.level != LETTER:
            same, other = self.reached(x, levels.perhaps)
            undecided = PASSED if same.all() and other.all() else ""
        if not undecided and (x.bounds is not None or y.bounds is not None):
            sure = certain(x.bounds, x_row, y.bounds, y_row, place, self.ground.period)
            undecided = "" if sure else VAGUE
        self.report(Conflict(x, y, x_row, y_row, place, need, clock, undecided))

    def shared(self, x: Record, y: Record) -> bool:
        """Whether two lanes of one class may meet."""
        mine = x.classes[~x.alone]
        return bool(len(mine)) and bool(np.isin(mine, y.classes[~y.alone]).any())

    def apart(self, x: Record, y: Record) -> bool:
        """Whether every lane touches the same places in both, and no other lane touches them."""
        if x.print is not y.print or not np.array_equal(x.lanes, y.lanes):
            return False
        if x.print.doubled < 0:
            self.ground.twice(x.print)
        return x.print.doubled == 0

    def again(self, x: Record, y: Record) -> bool:
        """Whether every lane reads by the same instruction what it has read before."""
        if x.ins != y.ins or x.print is not y.print or not np.array_equal(x.lanes, y.lanes):
            return False
        return self.diagonal(x, y, self.order(x, y, "used")[0])

    def diagonal(self, x: Record, y: Record, same: np.ndarray) -> bool:
        """Whether every lane's own access is before its later one."""
        if len(x.classes) != len(y.classes) or (x.classes != y.classes).any():
            return False
        return bool(np.diagonal(same).all())

    def covered(self, x: Record, y: Record, atoms: np.ndarray, many: int) -> bool | np.ndarray:
        """Whether what comes after all of `y` also comes after all of `x`."""
        if (x.print is y.print and np.array_equal(x.lanes, y.lanes)) or (
            len(x.classes) == 1 and len(y.classes) == 1 and x.alone[0] and y.alone[0]
        ):
            if not x.nature.engine and not y.nature.engine:
                same, _ = self.order(x, y, "used")
                if self.diagonal(x, y, same):
                    return True
            elif (
                len(x.chain) == len(y.chain)
                and (x.chain == y.chain).all()
                and (x.value <= y.value).all()
                and not x.more
            ):
                return True
        same, other = self.order(x, y, "used")
        if same.all() and (other is same or other.all() or not self.shared(x, y)):
            return True
        if many < MANY:
            return False
        return self.covered_lanes(x, y, atoms, same, other)

    # Lanes and bytes --------------------------------------------------------------------------

    def meet(self, x: Record, y: Record, atoms: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rows of x, rows of y and granules, for every granule that two rows have in common; of
        granules of an atom that the same rows cover, for one, where all rows do or there are many
        such pairs. Both cover all of `atoms`."""
        if x.print.uniform and y.print.uniform:
            first = self.ground.first[atoms]
            nx, ny = x.print.starts.shape[0], y.print.starts.shape[0]
            rx, ry = np.divmod(np.arange(nx * ny), ny)
            times = len(first)
            return np.tile(rx, times), np.tile(ry, times), np.repeat(first, nx * ny)
        gx, rx = self.ground.within(x.print, atoms)
        gy, ry = self.ground.within(y.print, atoms)
        order = np.argsort(gx, kind="stable")
        gx, rx = gx[order], rx[order]
        low = np.searchsorted(gx, gy, "left")
        times = np.searchsorted(gx, gy, "right") - low
        if int(times.sum()) > MOST_PAIRS:
            some = self.ground.examples(gx, rx, gy, ry)
            kept = np.isin(gy, some)
            gy, ry, low, times = gy[kept], ry[kept], low[kept], times[kept]
        index = np.repeat(low - np.cumsum(times) + times, times) + np.arange(int(times.sum()))
        return rx[index], np.repeat(ry, times), np.repeat(gy, times)

    def ordered(
        self,
        x: Record,
        y: Record,
        rx: np.ndarray,
        ry: np.ndarray,
        same: np.ndarray,
        other: np.ndarray,
    ) -> np.ndarray:
        """bool for pairs of rows."""
        ax, ay = x.actor[rx], y.actor[ry]
        alike = (x.classes[ax] == y.classes[ay]) & (x.classes[ax] >= 0)
        alike &= x.lanes[rx] != y.lanes[ry]
        return np.where(alike, other[ax, ay], same[ax, ay])

    def lanes(
        self, x: Record, y: Record, atoms: np.ndarray, same: np.ndarray, other: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of rows that meet out of order, with the granules where they do; of atoms that
        are alike in that, for one."""
        if x.print.uniform and y.print.uniform:
            atoms = atoms[:1]
        rx, ry, granules = self.meet(x, y, atoms)
        bad = ~self.ordered(x, y, rx, ry, same, other)
        return rx[bad], ry[bad], granules[bad]

    def covered_lanes(
        self, x: Record, y: Record, atoms: np.ndarray, same: np.ndarray, other: np.ndarray
    ) -> bool | np.ndarray:
        """By atom: every row of x there has a row of y after it, at every granule."""
        if x.print.uniform and y.print.uniform and len(atoms) > 1:
            first = self.covered_lanes(x, y, atoms[:1], same, other)
            return True if first is True else np.full(len(atoms), np.all(first))
        rx, ry, granules = self.meet(x, y, atoms)
        fine = self.ordered(x, y, rx, ry, same, other)
        pairs = granules.astype(np.int64) * (int(rx.max(initial=0)) + 1) + rx
        wanted, where = np.unique(pairs, return_inverse=True)
        reached = np.zeros(len(wanted), bool)
        reached[where[fine]] = True
        lost = np.unique(self.ground.atom_of[granules[~reached[where]]])
        if not len(lost):
            return True
        return ~np.isin(atoms, lost)

    # One access alone, and lifetimes ------------------------------------------------------------

    def inside(self, y: Record) -> None:
        """Several lanes of one access write one place."""
        if not y.nature.writes or y.nature.mode is Mode.RMW or y.nature.role:
            return
        if y.print.doubled == 0 or len(y.lanes) < 2 or y.equal:
            return
        double = self.ground.twice(y.print)
        if not len(double):
            return
        spread, rows = self.ground.granules(y.print)
        mine = np.isin(spread, double)
        spread, rows = spread[mine], rows[mine]
        order = np.lexsort((rows, spread))
        spread, rows = spread[order], rows[order]
        pair = (spread[1:] == spread[:-1]) & (rows[1:] != rows[:-1])
        a, b = rows[:-1][pair], rows[1:][pair]
        if y.nature.strong and self.morally(y, y):
            return
        warps = y.lanes[a] // 32 != y.lanes[b] // 32
        # Which lane of a warp stays is not defined, but the same for warps that are copies.
        apart = warps.any() and not y.copied
        policy = Policy.ANY if apart or y.nature.engine else Policy.STRICT
        first = int(np.argmax(warps))
        why = "several lanes of one instruction write one place"
        need = Need(ITSELF, Kind.RACE, policy, why)
        place = self.ground.place(int(spread[1:][pair][first]))
        self.tell(y, y, int(a[first]), int(b[first]), place, need)

    def lifetime(self, x: Record, y: Record, atoms: np.ndarray) -> bool:
        """Pairs in which memory begins or ends; `x` can be forgotten."""
        a, b = x.nature, y.nature
        if a.role == "dealloc":
            if b.role == "":
                why = "tensor memory is used after it has been freed"
                self.first_pair(x, y, atoms, Need("freed", Kind.LIFETIME, Policy.ANY, why))
                return False
            return True
        if a.role == "init":
            if b.role == "":
                why = "a data access to a live mbarrier"
                self.first_pair(x, y, atoms, Need("alive", Kind.LIFETIME, Policy.ANY, why))
                return False
            return b.role in ("init", "inval")
        if a.role != "alloc":
            why = "tensor memory is freed while it may be in use"
            met = self.check(x, y, atoms, Need("tensor", Kind.LIFETIME, Policy.ANY, why))
            if met:
                why = "tensor memory is freed without tcgen05 fences between the use and the end"
                need = Need("tensor_strict", Kind.LIFETIME, Policy.STRICT, why)
                self.check(x, y, atoms, need)
        return True

    def first_pair(self, x: Record, y: Record, atoms: np.ndarray, need: Need) -> None:
        rx, ry, granules = self.meet(x, y, atoms)
        if len(rx):
            self.tell(x, y, int(rx[0]), int(ry[0]), self.ground.place(int(granules[0])), need)


def _scope(nature: Nature) -> Scope:
    if nature.engine or nature.sem.value == "volatile":
        return Scope.SYS if not nature.engine else Scope.GPU
    return nature.scope
