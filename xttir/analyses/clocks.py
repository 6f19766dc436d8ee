"""Vector clocks of the representatives, one table for every notion of "before".

A row is a rep, a column a chain: the epochs of every rep (an epoch ends with each release), the
completed phases of every mbarrier and named barrier, and what each asynchronous engine of a thread
has completed. An event X of chain c at value v is before Y, by a level, when Y's clock at c is at
least v. Levels differ in which synchronisation counts; a level that a trace cannot tell from
another one shares its table. Rules: PTX ISA 9.1, sections 8.9 and 9.7.13; 9.7.16.6 for tcgen05.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class Levels:
    """Indices of the tables.

    `happens`: before in time, in every schedule (relaxed signals and completions included).
    `visible`: before by release and acquire; writes before are seen.
    `used`: as `visible`, but a signal to another block needs no cluster scope. Good for what has
    only been read, and for completed asynchronous operations.
    `ready`: as `visible`, with fence.mbarrier_init and relaxed cluster arrivals. For inits.
    `shared_fenced`, `global_fenced`: `visible`, with a proxy fence after the access on the way.
    `writer_fenced`: the fence stands in the writing thread.
    `map_released`: half of the two tensor map fences; the whole of them, by the number of the map
    that the second one names: `maps`.
    `tensor`: `visible`, or relaxed with tcgen05 fences. `tensor_strict`: with both tcgen05 fences.
    `perhaps`: `visible`, with value-passing edges that hold in this schedule only.
    `letter`: `visible`, but a fence serves the atomics of its own thread alone; elsewhere it counts
    also for those that a barrier of the block puts after it (a release) or before it.
    """

    happens: int = 0
    visible: int = 1
    used: int = 1
    ready: int = 1
    shared_fenced: int = 1
    global_fenced: int = 1
    writer_fenced: int = 1
    map_released: int = 1
    maps: tuple[int, ...] = ()
    tensor: int = 1
    tensor_strict: int = 1
    perhaps: int = 1
    letter: int = 1
    count: int = 2
    map_numbers: dict[int, set[int]] = field(default_factory=dict)
    """By address of a map that an acquire names: its numbers."""

    @classmethod
    def needed(
        cls,
        remote: bool,
        cluster_barrier: bool,
        proxies: bool,
        tensor_maps: int,
        tensor_memory: bool,
        values: bool,
        fences: bool,
    ) -> Levels:
        """The tables that a trace with these features needs. `tensor_maps`: how many of them are
        named by fences; -1: no access needs one. `fences`: of values, with barriers between."""
        levels = cls()

        def table() -> int:
            levels.count += 1
            return levels.count - 1

        if remote:
            levels.used = table()
        if cluster_barrier:
            levels.ready = table()
        if proxies:
            levels.shared_fenced = table()
            levels.global_fenced = table()
            levels.writer_fenced = table()
        if tensor_maps >= 0:
            levels.map_released = table()
            levels.maps = tuple(table() for _ in range(tensor_maps))
        if tensor_memory:
            levels.tensor = table()
            levels.tensor_strict = table()
        if values:
            levels.perhaps = table()
        if fences:
            levels.letter = table()
        return levels

    @property
    def own(self) -> np.ndarray:
        """Tables in which a thread's own earlier events are before."""
        fenced = {self.shared_fenced, self.global_fenced, self.writer_fenced}
        fenced |= {self.map_released, *self.maps}
        own = set(range(self.count)) - fenced | {self.happens, self.visible}
        return np.array(sorted(own))

    @property
    def weak(self) -> np.ndarray:
        """Tables to which a signal of too small a scope still counts."""
        kept = {self.happens}
        if self.used != self.visible:
            kept.add(self.used)
        if self.tensor != self.visible:
            kept.add(self.tensor)
        return np.array(sorted(kept))


Reps = np.ndarray | slice
Fences = list[tuple[dict[int, np.ndarray], int, np.ndarray]]
"""See `Clocks.fences`: (table of released or of pending, scope, joined row)."""


class Clocks:
    """`table`: int32 (levels, reps, chains). Messages are (levels, chains)."""

    def __init__(self, reps: int, chains: int, levels: Levels):
        self.levels = levels
        self.table = np.zeros((levels.count, reps, chains), np.int32)
        self.own = levels.own
        self.epoch = np.ones(reps, np.int32)
        index = np.arange(reps)
        self.table[self.own[:, None], index, index] = 1
        self.strict = levels.tensor_strict if levels.tensor_strict != levels.visible else -1
        """Table that tcgen05 fences alone fill; -1: none."""
        shape = (reps, chains)
        few = self.strict >= 0
        self.before = np.zeros(shape if few else (0, 0), np.int32)
        """Strict tensor clock at the last fence::before_thread_sync."""
        self.before_tensor = np.zeros(shape if few else (0, 0), np.int32)
        self.after = np.zeros(shape if few else (0, 0), np.int32)
        """What fence::after_thread_sync will add, strict and by relaxed waits."""
        self.after_tensor = np.zeros(shape if few else (0, 0), np.int32)
        self.released: dict[int, np.ndarray] = {}
        """By scope: tables as of each rep's last release fence of at least that scope."""
        self.pending: dict[int, np.ndarray] = {}
        """By scope: what an acquire fence of that scope will add."""
        self.inits: np.ndarray | None = None
        """`ready` as of the last fence.mbarrier_init."""
        self.log: list[tuple[int, np.ndarray]] = []
        """Where epochs ended: (position of the event, reps)."""

    # Epochs -----------------------------------------------------------------------------------

    def bump(self, reps: np.ndarray, at: int) -> None:
        """Later events of `reps` are not part of what they have released so far."""
        if not len(reps):
            return
        self.epoch[reps] += 1
        self.table[self.own[:, None], reps, reps] = self.epoch[reps]
        self.log.append((at, reps))

    # Sending ----------------------------------------------------------------------------------

    def message(self) -> np.ndarray:
        return np.zeros((self.table.shape[0], self.table.shape[2]), np.int32)

    def full(self, pick: Reps) -> np.ndarray:
        """What a release of `pick` publishes."""
        out = self.table[:, pick].max(axis=1)
        if self.strict >= 0:
            out[self.strict] = self.before[pick].max(axis=0)
        return out

    def weak(self, pick: Reps) -> np.ndarray:
        """What a signal of too small a scope publishes."""
        out = self.message()
        for level in self.levels.weak:
            out[level] = self.table[level, pick].max(axis=0)
        return out

    def weak_part(self, message: np.ndarray) -> np.ndarray:
        """The part of a message to another block that needs no cluster scope: time alone."""
        out = np.zeros_like(message)
        out[self.levels.happens] = message[self.levels.happens]
        return out

    def relaxed(self, pick: Reps, scope: int) -> np.ndarray:
        """What a relaxed signal publishes: what was before the last release fence."""
        out = self.message()
        stored = self.released.get(scope)
        if stored is not None:
            np.maximum(out, stored[:, pick].max(axis=1), out=out)
        self.in_time(out, pick)
        if self.strict >= 0:
            level = self.levels.tensor
            np.maximum(out[level], self.before_tensor[pick].max(axis=0), out=out[level])
            out[self.strict] = self.before[pick].max(axis=0)
        return out

    def in_time(self, out: np.ndarray, pick: Reps) -> None:
        """Add that it happens later, and nothing more."""
        happens = self.levels.happens
        np.maximum(out[happens], self.table[happens, pick].max(axis=0), out=out[happens])

    # Receiving --------------------------------------------------------------------------------

    def acquire(self, pick: Reps, message: np.ndarray) -> None:
        if self.strict >= 0:
            self.after[pick] = np.maximum(self.after[pick], message[self.strict])
            kept = self.table[self.strict, pick].copy()
            self.table[:, pick] = np.maximum(self.table[:, pick], message[:, None])
            self.table[self.strict, pick] = kept
        else:
            self.table[:, pick] = np.maximum(self.table[:, pick], message[:, None])

    def acquire_relaxed(self, pick: Reps, message: np.ndarray, scope: int) -> None:
        """Now only in time; the rest at an acquire fence, or for tcgen05 at its own fence."""
        happens = self.levels.happens
        self.table[happens, pick] = np.maximum(self.table[happens, pick], message[happens])
        store = self.pending.get(scope)
        if store is None:
            store = self.pending[scope] = np.zeros_like(self.table)
        store[:, pick] = np.maximum(store[:, pick], message[:, None])
        if self.strict >= 0:
            level = self.levels.tensor
            self.after[pick] = np.maximum(self.after[pick], message[self.strict])
            self.after_tensor[pick] = np.maximum(self.after_tensor[pick], message[level])

    # Fences -----------------------------------------------------------------------------------

    def fence_release(self, pick: Reps, scope: int) -> None:
        for smaller in range(scope + 1):
            store = self.released.get(smaller)
            if store is None:
                store = self.released[smaller] = np.zeros_like(self.table)
            store[:, pick] = self.table[:, pick]
            if self.strict >= 0:
                store[self.strict] = 0

    def fence_acquire(self, pick: Reps, scope: int) -> None:
        for needed, store in self.pending.items():
            if needed <= scope:
                strict = self.table[self.strict, pick].copy() if self.strict >= 0 else None
                self.table[:, pick] = np.maximum(self.table[:, pick], store[:, pick])
                if strict is not None:
                    self.table[self.strict, pick] = strict

    def fences(self, pick: Reps) -> Fences:
        """What fences of `pick` have done for atomics that a barrier puts after them, and what they
        will do for atomics before it; by the letter, nothing."""
        out: Fences = []
        if self.levels.letter != self.levels.visible:
            for store in (self.released, self.pending):
                for scope, rows in store.items():
                    joined = rows[:, pick].max(axis=1)
                    joined[self.levels.letter] = 0
                    out.append((store, scope, joined))
        return out

    def pass_on(self, pick: Reps, fences: Fences) -> None:
        """`pick` come after a barrier at which `fences` were those of who arrived."""
        for store, scope, joined in fences:
            rows = store[scope]
            rows[:, pick] = np.maximum(rows[:, pick], joined[:, None])

    def fence_inits(self, pick: Reps) -> None:
        if self.inits is None:
            self.inits = np.zeros(self.table.shape[1:], np.int32)
        self.inits[pick] = self.table[self.levels.ready, pick]

    def fence_proxy(self, pick: Reps, level: int) -> None:
        """Everything visible is now fenced."""
        visible = self.table[self.levels.visible, pick]
        self.table[level, pick] = np.maximum(self.table[level, pick], visible)

    def fence_map(self, pick: Reps, number: int) -> None:
        """What has been released to tensor maps may now be used as the map of this number."""
        released = self.table[self.levels.map_released, pick]
        level = self.levels.maps[number]
        self.table[level, pick] = np.maximum(self.table[level, pick], released)

    def fence_own(self, reps: np.ndarray, chains: np.ndarray) -> None:
        """The writer's side of a proxy fence: what a rep has done itself (column `chains`)."""
        level = self.levels.writer_fenced
        self.table[level, reps, chains] = self.table[self.levels.visible, reps, chains]

    def fence_tensor(self, pick: Reps, before: bool) -> None:
        if self.strict < 0:
            return
        tensor = self.levels.tensor
        if before:
            self.before[pick] = self.table[self.strict, pick]
            self.before_tensor[pick] = self.table[tensor, pick]
        else:
            now = self.table[self.strict, pick]
            self.table[self.strict, pick] = np.maximum(now, self.after[pick])
            now = self.table[tensor, pick]
            self.table[tensor, pick] = np.maximum(now, self.after_tensor[pick])
