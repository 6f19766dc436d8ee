"""Fewer agents for a larger trace: lanes that do the same step together.

Lanes of a warp with the same instructions and barrier operands are one agent; of warps (of
warpgroups, where wgmma joins their lanes) that are alike, the first stands alone and the others
step together, so that two of a kind can still be apart. This leaves schedules out: what is found
is real, what is not found holds for the scaled-down program only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Trace

WARP, GROUP = 32, 128


def collapse(trace: Trace, cluster: int = 0) -> list[list[int]]:
    """Agents for `explore`, of the blocks of one cluster (by position in `trace.ctas`)."""
    size = trace.ctas_per_cluster
    ctas = [int(c) for c in trace.ctas[cluster * size : (cluster + 1) * size]]
    signatures = _signatures(trace, set(ctas))
    wide = {
        int(lane) // GROUP
        for e in trace.events
        if isinstance(e, ev.AsyncOp) and e.unit > WARP
        for lane in e.lanes[:: e.unit]
    }
    agents = []
    for cta in ctas:
        alike: dict[Any, list[list[int]]] = defaultdict(list)
        first, last = cta * trace.threads_per_cta, (cta + 1) * trace.threads_per_cta
        lane = first
        while lane < last:
            width = GROUP if lane // GROUP in wide else WARP
            unit = list(range(lane, min(lane + width, last)))
            alike[width, tuple(signatures[x] for x in unit)].append(unit)
            lane += width
        for units in alike.values():
            agents += _split(units[:1], signatures)
            if len(units) > 1:
                agents += _split(units[1:], signatures)
    return agents


def _split(units: list[list[int]], signatures: dict[int, int]) -> list[list[int]]:
    """The lanes of warps that are alike, by signature."""
    classes: dict[int, list[int]] = defaultdict(list)
    for unit in units:
        for lane in unit:
            classes[signatures[lane]].append(lane)
    return list(classes.values())


def _signatures(trace: Trace, ctas: set[int]) -> dict[int, int]:
    """Per lane a number, equal for lanes that execute the same with the same barrier operands."""
    threads = trace.threads_per_cta
    history: dict[int, int] = {c * threads + t: 0 for c in ctas for t in range(threads)}
    names: dict[Any, int] = {}
    for event in trace.events:
        operands = [
            getattr(event, name)
            for name in ("address", "parity", "id", "count", "mask")
            if isinstance(getattr(event, name, None), np.ndarray)
        ]
        for row, lane in enumerate(event.lanes.tolist()):
            if lane not in history:
                continue
            what = tuple(
                tuple(np.atleast_1d(array[row if len(array) > 1 else 0]).tolist())
                for array in operands
            )
            key = (history[lane], event.ins, what)
            history[lane] = names.setdefault(key, len(names) + 1)
    return history
