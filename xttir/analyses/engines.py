"""What the asynchronous engines of each thread have completed, as counters on chains.

Every rep has a chain for each engine it uses; the n-th operation is over for whoever knows the
chain at n. Groups complete in the order of their commits, commits track everything before them, so
one number says all. A collective operation counts on the chain of its first lane's rep, and a wait
by any of its lanes covers it: completion is by warp or warpgroup.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast, Classes
from xttir.analyses.project import Blocks

End = tuple[np.ndarray, np.ndarray]
"""(chain, value) by actor."""

WARP = ".warp"
"""Suffix of the chains that count what each warp of a warpgroup has itself waited for."""

READ = ".read"
"""Suffix of the chain that counts bulk operations whose sources have been read."""


class Chains:
    """Columns of the clocks: reps, then mbarriers, named barriers, places through which values are
    passed, engines."""

    def __init__(self, reps: int, barriers: int, named: int, places: int):
        self._barriers = reps
        self._named = reps + barriers
        self._places = reps + barriers + named
        self.count = reps + barriers + named + places
        self.engines: dict[tuple[str, int], int] = {}

    def barrier(self, number: int) -> int:
        return self._barriers + number

    def named(self, number: int) -> int:
        return self._named + number

    def place(self, number: int) -> int:
        return self._places + number

    def engine(self, name: str, rep: int) -> int:
        """The chain of an engine of a rep; new ones only before clocks are made."""
        key = (name, rep)
        known = self.engines.get(key)
        if known is None:
            known = self.engines[key] = self.count
            self.count += 1
        return known

    def of(self, name: str, reps: np.ndarray) -> np.ndarray:
        return np.array([self.engines[name, r] for r in reps.tolist()], np.int64)


def name_of(event: ev.AsyncOp) -> str | None:
    """The engine on whose chain an operation counts; None: it completes on an mbarrier."""
    match event.completion:
        case ev.ByGroup():
            return event.engine
        case ev.ByCommit(cta_group=group):
            return f"commit{group}"
        case ev.ByTensorWait(which=which):
            return which
        case _:
            return None


class Engines:
    """Counters of issued and completed operations, by rep."""

    def __init__(self, blocks: Blocks, classes: Classes, chains: Chains):
        self.classes = classes
        self.chains = chains
        self.issued: dict[str, list[dict[int, int]]] = {}
        """By engine and rep: operations on each chain that the rep takes part in."""
        self.groups: dict[str, list[list[dict[int, int]]]] = {}
        self.warps: dict[int, int] = {}
        """By rep of a warpgroup: the chain of its warp's waits."""
        self.commits: dict[tuple[int, int], int] = {}
        """By rep and cta_group: commits so far."""
        for view in blocks.views:
            event = view.event
            if isinstance(event, ev.AsyncOp) and (name := name_of(event)) is not None:
                for rep in self.owners(classes.cast(view), event.unit).tolist():
                    chains.engine(name, rep)
                    if name == "bulk":
                        chains.engine(name + READ, rep)
                if name == "wgmma":
                    for reps in classes.units(classes.cast(view), event.unit).reps:
                        self._by_warp(reps)

    def _by_warp(self, reps: np.ndarray) -> None:
        first: dict[int, int] = {}
        for rep, lane in zip(reps.tolist(), self.classes.lane[reps].tolist(), strict=True):
            one = first.setdefault(lane // 32, rep)
            self.warps[rep] = self.chains.engine("wgmma" + WARP, one)

    def own_waits(self, cast: Cast, unit: int, value: np.ndarray) -> tuple[End, ...]:
        """What shows that each warp of a wgmma has itself waited; an end for each warp."""
        units = self.classes.units(cast, unit).reps
        chains = [list(dict.fromkeys(self.warps[r] for r in reps.tolist())) for reps in units]
        warps = max(map(len, chains))
        padded = np.array([c + c[-1:] * (warps - len(c)) for c in chains], np.int64)
        return tuple((padded[:, w], value) for w in range(warps))

    def owners(self, cast: Cast, unit: int) -> np.ndarray:
        """Reps whose chains count operations of an event."""
        return cast.reps if unit == 1 else self.classes.units(cast, unit).rep

    def _issued(self, name: str) -> list[dict[int, int]]:
        known = self.issued.get(name)
        if known is None:
            known = self.issued[name] = [{} for _ in range(self.classes.reps)]
        return known

    def issue(self, event: ev.AsyncOp, cast: Cast, rep: np.ndarray) -> dict[str, End]:
        """Count one more operation. Its end by actor (`rep`): "all" of it, what it has "read"."""
        name = name_of(event)
        assert name is not None
        if isinstance(event.completion, ev.ByCommit):
            group = event.completion.cta_group
            value = [self.commits.get((r, group), 0) + 1 for r in rep.tolist()]
            end = (self.chains.of(name, rep), np.array(value, np.int32))
            return {"all": end, "read": end}
        issued = self._issued(name)
        counted: dict[int, int] = {}
        if event.unit == 1:
            for owner in cast.reps.tolist():
                chain = self.chains.engines[name, owner]
                counted[owner] = issued[owner][chain] = issued[owner].get(chain, 0) + 1
        else:
            units = self.classes.units(cast, event.unit)
            for owner, reps in zip(units.rep.tolist(), units.reps, strict=True):
                chain = self.chains.engines[name, owner]
                count = max(issued[r].get(chain, 0) for r in reps.tolist()) + 1
                for r in reps.tolist():
                    issued[r][chain] = count
                counted[owner] = count
        value = np.array([counted[r] for r in rep.tolist()], np.int32)
        out = {"all": (self.chains.of(name, rep), value)}
        out["read"] = (self.chains.of(name + READ, rep), value) if name == "bulk" else out["all"]
        return out

    def commit_group(self, event: ev.GroupCommit, cast: Cast) -> None:
        issued = self._issued(event.engine)
        groups = self._groups(event.engine)
        for rep in cast.reps.tolist():
            groups[rep].append(dict(issued[rep]))

    def _groups(self, name: str) -> list[list[dict[int, int]]]:
        known = self.groups.get(name)
        if known is None:
            known = self.groups[name] = [[] for _ in range(self.classes.reps)]
        return known

    def wait_group(self, event: ev.GroupWait, cast: Cast) -> Iterator[tuple[int, int, int]]:
        """(rep, chain, value) that the reps know afterwards."""
        issued = self._issued(event.engine)
        groups = self._groups(event.engine)
        for rep in cast.reps.tolist():
            if event.everything:
                done = issued[rep]
            elif len(groups[rep]) > event.pending:
                done = groups[rep][-1 - event.pending]
            else:
                continue
            for chain, value in done.items():
                if not event.read:
                    yield rep, chain, value
                if event.engine == "wgmma":
                    yield rep, self.warps[rep], value
                if event.engine == "bulk":
                    yield rep, self.chains.engines["bulk" + READ, rep], value

    def wait_tensor(self, which: str, cast: Cast) -> Iterator[tuple[int, int, int]]:
        issued = self._issued(which)
        for rep in cast.reps.tolist():
            for chain, value in issued[rep].items():
                yield rep, chain, value

    def commit(self, rep: int, group: int) -> tuple[int, int]:
        """One more tcgen05.commit of a rep: (its chain or -1, number of the commit)."""
        self.commits[rep, group] = number = self.commits.get((rep, group), 0) + 1
        return self.chains.engines.get((f"commit{group}", rep), -1), number

    def copied(self, rep: int) -> tuple[int, int]:
        """cp.async of a rep so far: (its chain or -1, their number)."""
        chain = self.chains.engines.get(("cp.async", rep), -1)
        if chain < 0:
            return -1, 0
        return chain, self._issued("cp.async")[rep].get(chain, 0)
