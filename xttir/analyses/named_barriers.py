"""Generations of named barriers (bar, barrier.cta): who meets whom in this schedule.

A warp's arrival counts as 32 threads; a generation is over when the counts of its warps add up to
the number given. Every schedule has the same generations if each is over before anybody arrives
for the next one (the rule of WEFT, Sharma et al., PLDI 2015); `happens_before` checks that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.project import Blocks

WARP = 32


@dataclass(slots=True, eq=False)
class Part:
    """One event's share of a generation. `rows`: rows of the event's lanes."""

    view: int
    rows: np.ndarray
    lanes: np.ndarray
    warps: tuple[int, ...]
    count: int
    waits: bool


@dataclass(slots=True, eq=False)
class Generation:
    """`chain` numbers the barrier, `index` the generation on it (from 0)."""

    chain: int
    cta: int
    id: int
    index: int
    count: int
    parts: list[Part] = field(default_factory=list)
    threads: int = 0
    met: bool = False
    """A clock of its own is known: the first waiting event has been handled."""

    @property
    def full(self) -> bool:
        return self.threads >= self.count

    @property
    def warps(self) -> set[int]:
        return {w for p in self.parts for w in p.warps}


@dataclass(slots=True)
class Meetings:
    """`of`: by position in the views, the generations an event takes part in, with its part."""

    of: dict[int, list[tuple[Generation, Part]]] = field(default_factory=dict)
    generations: list[Generation] = field(default_factory=list)
    chains: int = 0


def meetings(blocks: Blocks) -> Meetings:
    """Generations of all named barriers. A warp takes the first one after its last that is open."""
    out = Meetings()
    by_barrier: dict[tuple[int, int], list[Generation]] = {}
    last: dict[tuple[int, int, int], tuple[int, int]] = {}
    """By (block, id, warp): its last generation, and the lanes that are in it as bits."""
    shapes: dict[tuple[int, bytes, bytes, str], list[tuple[int, int, int, np.ndarray]]] = {}
    for at, view in enumerate(blocks.views):
        event = view.event
        if not isinstance(event, ev.NamedBarrier):
            continue
        ids, counts = view.rows(event.id), view.rows(event.count)
        key = (view.key, ids.tobytes(), counts.tobytes(), event.kind)
        shape = shapes.get(key)
        if shape is None:
            shape = shapes[key] = _by_warp(blocks, view.lanes, ids, counts)
        joined: dict[Generation, list[tuple[int, np.ndarray]]] = {}
        for warp, id_, count, rows in shape:
            cta = warp // _warps(blocks)
            line = by_barrier.setdefault((cta, id_), [])
            index, before = last.get((cta, id_, warp), (-1, -1))
            bits = _bits(view.lanes[rows] - cta * blocks.threads)
            again = bool(bits & before)
            if again:
                index, before = index + 1, 0
                while index < len(line) and line[index].full:
                    index += 1
            if index >= len(line):
                chain = out.chains if not line else line[0].chain
                out.chains += not line
                line.append(Generation(chain, cta, id_, len(line), count))
                out.generations.append(line[-1])
            generation = line[index]
            if count % WARP:
                # Not a count that PTX allows: threads as they are.
                generation.threads += len(rows)
            elif again:
                generation.threads += WARP
            last[cta, id_, warp] = (index, before | bits)
            joined.setdefault(generation, []).append((warp, rows))
        for generation, warps in joined.items():
            rows = np.sort(np.concatenate([r for _, r in warps]))
            names = tuple(w for w, _ in warps)
            count = int(counts[rows[0] if counts.shape[0] > 1 else 0]) or blocks.threads
            waits = event.kind != "arrive"
            part = Part(at, rows, view.lanes[rows], names, count, waits)
            generation.parts.append(part)
            out.of.setdefault(at, []).append((generation, part))
    return out


def _bits(lanes: np.ndarray) -> int:
    return int(np.bitwise_or.reduce(np.int64(1) << (lanes.astype(np.int64) % WARP)))


def _warps(blocks: Blocks) -> int:
    """Warps of a block."""
    return -(-blocks.threads // WARP)


def _by_warp(
    blocks: Blocks, lanes: np.ndarray, ids: np.ndarray, counts: np.ndarray
) -> list[tuple[int, int, int, np.ndarray]]:
    """(warp in the blocks, id, threads expected, rows) of each warp, in order."""
    cta = lanes // blocks.threads
    warp = cta * _warps(blocks) + (lanes - cta * blocks.threads) // WARP
    ids = np.broadcast_to(ids, lanes.shape)
    counts = np.broadcast_to(counts, lanes.shape)
    code = warp.astype(np.int64) * 64 + ids
    values, where = np.unique(code, return_inverse=True)
    out = []
    for i, value in enumerate(values.tolist()):
        rows = np.flatnonzero(where == i)
        count = int(counts[rows[0]])
        whole = -(-blocks.threads // WARP) * WARP
        out.append((value // 64, value % 64, count if count else whole, rows))
    return out
