"""Named barriers of blocks and barriers of clusters: who has arrived, and which generation it is.

A thread that arrived keeps the number of the generation it waits for, so an instruction that waits
can be looked at again. Rules: PTX ISA 9.1, sections 9.7.13.1 to 9.7.13.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.diagnostics import Kind

NAMED = 16


class NamedBarriers:
    """Arrays over (block, id), flat: `block * 16 + id`."""

    def __init__(self, ctas: int, threads: int, alive: np.ndarray, progress: Callable[[], None]):
        self.threads = threads
        self.warps = -(-threads // 32)
        self.alive = alive
        self.progress = progress
        size = ctas * NAMED
        self.arrived = np.zeros(size, np.int64)
        """Threads, counted in whole warps."""
        self.count = np.full(size, -1, np.int64)
        """Threads expected; 0 all of the block; -1 nobody has arrived."""
        self.generation = np.zeros(size, np.int64)
        self.kind = np.zeros(size, np.int8)
        """1: only sync and arrive so far, 2: only red."""
        self.waits = np.full(alive.size, -1, np.int64)
        """Per lane the generation it waits for (-1: it does not)."""
        self.where = np.zeros(alive.size, np.int64)
        self.here: dict[int, list[np.ndarray]] = {}
        """Lanes that have arrived in the current generation."""
        self.sums = np.zeros(size, np.int64)
        self.falses = np.zeros(size, np.int64)
        self.results: dict[tuple[int, int], tuple[int, int, int]] = {}

    def arrive(
        self,
        lanes: np.ndarray,
        index: np.ndarray,
        count: np.ndarray,
        wait: bool,
        fault: Any,
        flags: np.ndarray | None = None,
    ) -> None:
        """Lanes (distinct) arrive at barriers; `flags`: the predicates of barrier.red."""
        for one in np.unique(index):
            mine = np.flatnonzero(index == one) if index.size > 1 else slice(None)
            who = lanes[mine]
            counts = count if count.size == 1 else count[mine]
            threads = int(counts[0])
            if (counts != threads).any():
                fault(Kind.UNDEFINED, "threads name different thread counts", who)
            here = self.here.setdefault(int(one), [])
            if here and self.count[one] != threads:
                fault(
                    Kind.UNDEFINED,
                    f"barrier {int(one) % NAMED} with {_named(threads)}, where others that wait "
                    f"there gave {_named(int(self.count[one]))}",
                    who,
                )
            kind = 1 if flags is None else 2
            if here and self.kind[one] != kind:
                fault(Kind.UNDEFINED, "barrier.red and barrier.sync on one barrier", who)
            if here:
                twice = np.isin(who, np.concatenate(here))
                if twice.any():
                    fault(
                        Kind.PHASE,
                        f"arrives at barrier {int(one) % NAMED} a second time before it completed",
                        who[twice],
                    )
            self.kind[one] = kind
            self.count[one] = threads
            here.append(who)
            if wait:
                self.waits[who] = self.generation[one]
                self.where[who] = one
            self.arrived[one] += who.size + self._absent(who)
            if flags is not None:
                mine_flags = np.broadcast_to(flags, lanes.shape)[mine]
                self.sums[one] += int(mine_flags.sum())
                self.falses[one] += int((~mine_flags).sum())
            self._check(int(one))

    def _absent(self, who: np.ndarray) -> int:
        """Places of these warps that no living thread fills: they count as arrived."""
        cta = who // self.threads
        tid = who - cta * self.threads
        warp = cta.astype(np.int64) * self.warps + (tid >> 5)
        total = 0
        distinct, counts = np.unique(warp, return_counts=True)
        for w, c in zip(distinct[counts < 32], counts[counts < 32], strict=True):
            base = int(w // self.warps) * self.threads + int(w % self.warps) * 32
            end = min(base + 32, (int(w // self.warps) + 1) * self.threads)
            living = int(self.alive[base:end].sum())
            if c == living:
                total += 32 - living
        return total

    def _expected(self, one: int) -> int:
        if self.count[one] > 0:
            return int(self.count[one])
        cta = one // NAMED
        alive = self.alive[cta * self.threads : (cta + 1) * self.threads]
        padded = np.zeros(self.warps * 32, bool)
        padded[: alive.size] = alive
        return 32 * int(padded.reshape(-1, 32).any(axis=1).sum())

    def _check(self, one: int) -> None:
        if not self.here.get(one) or self.arrived[one] < self._expected(one):
            return
        generation = int(self.generation[one])
        if self.kind[one] == 2:
            total = int(self.sums[one])
            self.results[one, generation] = (total, int(self.falses[one]), total)
            self.results.pop((one, generation - 2), None)
            self.sums[one] = self.falses[one] = 0
        self.generation[one] += 1
        self.arrived[one] = 0
        self.count[one] = -1
        self.here[one] = []
        self.progress()

    def passed(self, lanes: np.ndarray) -> np.ndarray:
        """Whether the generation that each lane waits for is complete."""
        return self.generation[self.where[lanes]] > self.waits[lanes]

    def exited(self, lanes: np.ndarray) -> None:
        """Threads have ended: barriers for all threads of a block may complete."""
        for cta in np.unique(lanes // self.threads):
            for one in range(int(cta) * NAMED, (int(cta) + 1) * NAMED):
                if self.here.get(one) and self.count[one] == 0:
                    self._check(one)

    def explain(self, lane: int) -> str:
        one = int(self.where[lane])
        have, want = int(self.arrived[one]), self._expected(one)
        return f"barrier {one % NAMED}: {have} of {want} threads have arrived"


def _named(count: int) -> str:
    return f"{count} threads" if count else "all threads"


class ClusterBarriers:
    """One per cluster. Per lane: `arrived` in generation g (-1: not), waiting ones come back."""

    def __init__(self, clusters: int, lanes_each: int, alive: np.ndarray, progress: Any):
        self.lanes_each = lanes_each
        self.alive = alive
        self.progress = progress
        self.generation = np.zeros(clusters, np.int64)
        self.arrived = np.full(alive.size, -1, np.int64)
        """The generation that the lane has arrived in and not waited for yet."""

    def arrive(self, lanes: np.ndarray, fault: Any) -> None:
        twice = self.arrived[lanes] >= 0
        if twice.any():
            fault(Kind.UNDEFINED, "barrier.cluster.arrive twice without a wait", lanes[twice])
        cluster = lanes // self.lanes_each
        self.arrived[lanes] = self.generation[cluster]
        for one in np.unique(cluster):
            self._check(int(one))

    def _check(self, one: int) -> None:
        span = slice(one * self.lanes_each, (one + 1) * self.lanes_each)
        here = self.arrived[span] == self.generation[one]
        if here.any() and (here | ~self.alive[span]).all():
            self.generation[one] += 1
            self.progress()

    def ready(self, lanes: np.ndarray, fault: Any) -> np.ndarray:
        """Whether the generation that each lane arrived in is complete."""
        generation = self.arrived[lanes]
        if (generation < 0).any():
            fault(
                Kind.UNDEFINED,
                "barrier.cluster.wait of a thread that has not arrived",
                lanes[generation < 0],
            )
        return self.generation[lanes // self.lanes_each] > generation

    def leave(self, lanes: np.ndarray) -> None:
        self.arrived[lanes] = -1

    def exited(self, lanes: np.ndarray) -> None:
        for one in np.unique(lanes // self.lanes_each):
            self._check(int(one))

    def explain(self, lane: int) -> str:
        one = lane // self.lanes_each
        span = slice(one * self.lanes_each, (one + 1) * self.lanes_each)
        here = self.arrived[span] == self.generation[one]
        missing = int((self.alive[span] & ~here).sum())
        return f"the cluster barrier: {missing} threads of the cluster have not arrived"
