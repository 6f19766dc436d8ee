"""Named barriers of blocks and barriers of clusters: who has arrived, and which generation it is.

A thread that arrived keeps the number of the generation it waits for, so an instruction that waits
can be looked at again. Rules: PTX ISA 9.1, sections 9.7.13.1 to 9.7.13.4. Everything is arrays over
(block, barrier) or lanes, so that blocks which do the same cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.diagnostics import Kind

NAMED = 16

Fault = Callable[..., Any]
"""(kind, message, lanes or None)."""


class NamedBarriers:
    """Arrays over (block, number), flat: `block * 16 + number`."""

    def __init__(self, ctas: int, threads: int, alive: np.ndarray, progress: Callable[[], None]):
        self.threads = threads
        self.warps = -(-threads // 32)
        self.alive = alive
        self.progress = progress
        size = ctas * NAMED
        self.arrived = np.zeros(size, np.int64)
        """Threads, counted in whole warps."""
        self.count = np.zeros(size, np.int64)
        """Threads that those who wait named; 0: all of the block."""
        self.generation = np.zeros(size, np.int64)
        self.red = np.zeros(size, bool)
        """The open generation is one of barrier.red."""
        self.waits = np.full(alive.size, -1, np.int64)
        """Per lane the generation it waits for (-1: it does not)."""
        self.where = np.zeros(alive.size, np.int64)
        self.mark = np.zeros((alive.size, NAMED), np.int32)
        """Per lane and number: 1 + the last generation it arrived in."""
        self.true = np.zeros((2, size), np.int64)
        self.false = np.zeros((2, size), np.int64)
        self.unknown = np.zeros((2, size), np.int64)
        """Predicates of barrier.red, by the parity of the generation."""

    def arrive(
        self,
        lanes: np.ndarray,
        index: np.ndarray,
        count: np.ndarray,
        wait: bool,
        fault: Fault,
        flags: np.ndarray | None = None,
        known: np.ndarray | None = None,
    ) -> None:
        """Lanes (distinct) arrive at barriers; `flags`: the predicates of barrier.red, of which
        those in `known` (None: all) are known."""
        index = np.broadcast_to(index, lanes.shape)
        count = np.broadcast_to(count, lanes.shape)
        number = index % NAMED
        self._check_use(lanes, index, number, count, flags is not None, fault)
        generation = self.generation[index]
        self.mark[lanes, number] = generation + 1
        if wait:
            self.waits[lanes] = generation
            self.where[lanes] = index
        which, back = np.unique(index, return_inverse=True)
        self.count[which] = 0
        self.count[index] = count
        self.red[which] = flags is not None
        self.arrived[which] += np.bincount(back, minlength=which.size)
        self._absent(lanes, index)
        if flags is not None:
            side = generation & 1
            known = np.ones_like(flags) if known is None else known
            np.add.at(self.true, (side, index), flags & known)
            np.add.at(self.false, (side, index), ~flags & known)
            np.add.at(self.unknown, (side, index), ~known)
        self._complete(which)

    def _check_use(
        self,
        lanes: np.ndarray,
        index: np.ndarray,
        number: np.ndarray,
        count: np.ndarray,
        red: bool,
        fault: Fault,
    ) -> None:
        """What is wrong with these arrivals."""
        opened = self.arrived[index] > 0
        first = np.zeros(self.count.size, np.int64)
        first[index] = count
        if (first[index] != count).any():
            fault(Kind.UNDEFINED, "threads name different thread counts", lanes)
        if not opened.any():
            return
        differs = opened & (self.count[index] != count)
        if differs.any():
            at = int(np.argmax(differs))
            fault(
                Kind.UNDEFINED,
                f"barrier {int(number[at])} with {_named(int(count[at]))}, where others that wait "
                f"there gave {_named(int(self.count[index[at]]))}",
                lanes[differs],
            )
        mixed = opened & (self.red[index] != red)
        if mixed.any():
            fault(Kind.UNDEFINED, "barrier.red and barrier.sync on one barrier", lanes[mixed])
        twice = opened & (self.mark[lanes, number] == self.generation[index] + 1)
        if twice.any():
            fault(
                Kind.PHASE,
                f"arrives at barrier {int(number[twice][0])} a second time before it completed",
                lanes[twice],
            )

    def _absent(self, lanes: np.ndarray, index: np.ndarray) -> None:
        """Places of these warps that no living thread fills count as arrived."""
        cta = lanes // self.threads
        warp = cta.astype(np.int64) * self.warps + ((lanes - cta * self.threads) >> 5)
        distinct, first, counts = np.unique(warp, return_index=True, return_counts=True)
        short = counts < 32
        if not short.any():
            return
        living = self._living()[distinct[short]]
        places = index[first[short]]
        missing = np.where(counts[short] == living, 32 - living, 0)
        np.add.at(self.arrived, places, missing)

    def _living(self) -> np.ndarray:
        """Living threads of every warp of the launch."""
        blocks = self.alive.reshape(-1, self.threads)
        padded = np.zeros((blocks.shape[0], self.warps * 32), bool)
        padded[:, : self.threads] = blocks
        return padded.reshape(-1, 32).sum(axis=1)

    def expected(self, which: np.ndarray) -> np.ndarray:
        """Threads that barriers (flat) wait for, in whole warps."""
        count = self.count[which]
        if (count > 0).all():
            return count
        warps = (self._living().reshape(-1, self.warps) > 0).sum(axis=1)
        return np.where(count > 0, count, 32 * warps[which // NAMED])

    def _complete(self, which: np.ndarray) -> None:
        done = which[(self.arrived[which] > 0) & (self.arrived[which] >= self.expected(which))]
        if not done.size:
            return
        self.generation[done] += 1
        self.arrived[done] = 0
        side = self.generation[done] & 1
        self.true[side, done] = 0
        self.false[side, done] = 0
        self.unknown[side, done] = 0
        self.progress()

    def passed(self, lanes: np.ndarray) -> np.ndarray:
        """Whether the generation that each lane waits for is complete."""
        return self.generation[self.where[lanes]] > self.waits[lanes]

    def results(self, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """barrier.red: how many predicates were true, false and unknown, for lanes that passed."""
        side, where = self.waits[lanes] & 1, self.where[lanes]
        return self.true[side, where], self.false[side, where], self.unknown[side, where]

    def exited(self, lanes: np.ndarray) -> None:
        """Threads have ended: barriers for all threads of a block may complete."""
        opened = np.flatnonzero(self.arrived)
        if not opened.size:
            return
        blocks = np.unique(lanes // self.threads)
        mine = opened[(self.count[opened] == 0) & np.isin(opened // NAMED, blocks)]
        if mine.size:
            self._complete(mine)

    def explain(self, lane: int) -> str:
        one = self.where[lane : lane + 1]
        have, want = int(self.arrived[one][0]), int(self.expected(one)[0])
        return f"barrier {int(one[0]) % NAMED}: {have} of {want} threads have arrived"


def _named(count: int) -> str:
    return f"{count} threads" if count else "all threads"


class ClusterBarriers:
    """One per cluster."""

    def __init__(self, clusters: int, lanes_each: int, alive: np.ndarray, progress: Any):
        self.lanes_each = lanes_each
        self.alive = alive
        self.progress = progress
        self.generation = np.zeros(clusters, np.int64)
        self.arrived = np.full(alive.size, -1, np.int64)
        """The generation that the lane has arrived in and not waited for yet (-1: none)."""

    def arrive(self, lanes: np.ndarray, fault: Fault) -> None:
        twice = self.arrived[lanes] >= 0
        if twice.any():
            fault(Kind.UNDEFINED, "barrier.cluster.arrive twice without a wait", lanes[twice])
        cluster = lanes // self.lanes_each
        self.arrived[lanes] = self.generation[cluster]
        self._complete(np.unique(cluster))

    def _here(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(clusters, lanes): has arrived in the current generation; is alive."""
        rows = self.arrived.reshape(-1, self.lanes_each)[which]
        here = rows == self.generation[which][:, None]
        return here, self.alive.reshape(-1, self.lanes_each)[which]

    def _complete(self, which: np.ndarray) -> None:
        here, alive = self._here(which)
        done = which[here.any(axis=1) & (here | ~alive).all(axis=1)]
        if done.size:
            self.generation[done] += 1
            self.progress()

    def ready(self, lanes: np.ndarray, fault: Fault) -> np.ndarray:
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
        self._complete(np.unique(lanes // self.lanes_each))

    def explain(self, lane: int) -> str:
        here, alive = self._here(np.array([lane // self.lanes_each]))
        missing = int((alive & ~here).sum())
        return f"the cluster barrier: {missing} threads of the cluster have not arrived"
