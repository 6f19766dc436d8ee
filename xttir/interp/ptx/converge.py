"""Instructions that lanes of a warp (or warpgroup) execute together.

Lanes that come to one without their mates wait at it. When nothing else can happen any more, they
diverged: that is reported, and they go on alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xttir.diagnostics import Kind
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.scalar import getter

if TYPE_CHECKING:
    from xttir.interp.ptx.code import Do
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group


def gather(executor: Executor, group: Group, do: Do) -> Group | None:
    """The lanes that have everybody they need, as one group; the others wait."""
    key = (do.block.number, do.at, group.way)
    there = executor.gathering.pop(key, None)
    if there is not None:
        group = executor.merged([there, group])
    missing = incomplete(executor, group, do)
    if missing is None:
        group.complete, group.whole = executor.exits, do.together
        return group
    if not missing.any():
        return group
    live = executor.plan.live_before(do)
    if missing.all():
        executor.gathering[key] = group
        return None
    executor.gathering[key] = group.part(np.flatnonzero(missing), live)
    return group.part(np.flatnonzero(~missing), live)


def incomplete(executor: Executor, group: Group, do: Do) -> np.ndarray | None:
    """Which lanes lack a mate; None when the group consists of whole units."""
    threads = executor.threads_per_cta
    size = do.together
    per_cta = -(-threads // size)
    unit = group.cta.astype(np.int64) * per_cta + group.tid // size
    first, last = int(unit[0]), int(unit[-1])
    present = np.bincount(unit - first, minlength=last - first + 1)
    low = (first // per_cta) * threads + (first % per_cta) * size
    alive = low + np.flatnonzero(executor.alive[low : (last // per_cta + 1) * threads])
    cta = alive // threads
    theirs = cta * per_cta + (alive - cta * threads) // size - first
    wanted = np.bincount(theirs[theirs <= last - first], minlength=last - first + 1)
    if group.way is not None:
        wanted = np.minimum(wanted, _in_fork(group, first, last, per_cta, size, threads))
    short = (present < wanted) & (present > 0)
    if not short.any():
        return None
    return short[unit - first] & _by_mask(executor, group, do, unit)


def _in_fork(
    group: Group, first: int, last: int, per_cta: int, size: int, threads: int
) -> np.ndarray:
    """Lanes per unit that are on this way of an unknown branch."""
    assert group.way is not None
    lanes = group.way.fork.lanes
    cta = lanes // threads
    unit = cta.astype(np.int64) * per_cta + (lanes - cta * threads) // size - first
    unit = unit[(unit >= 0) & (unit <= last - first)]
    return np.bincount(unit, minlength=last - first + 1)


_MASKS = {"shfl": 3, "vote": 1, "match": 1, "redux": 1, "elect": 0, "bar.warp.sync": 0}
"""Which source is the mask of the lanes that take part."""


def _by_mask(executor: Executor, group: Group, do: Do, unit: np.ndarray) -> np.ndarray:
    """Lanes whose mask names one that is not here; all where there is no mask."""
    at = _MASKS.get(do.ins.name)
    if at is None or at >= len(do.ins.src):
        return np.ones(group.n, bool)
    mask = member_mask(group, do, at)
    if mask is None:
        return np.ones(group.n, bool)
    lane = (group.tid % 32).astype(np.uint64)
    present = np.zeros(int(unit[-1] - unit[0]) + 1, np.uint64)
    np.bitwise_or.at(present, unit - unit[0], np.uint64(1) << lane)
    threads = executor.threads_per_cta
    base = group.lanes - group.tid % 32
    alive = np.zeros(group.n, np.uint64)
    for k in range(32):
        index = np.minimum(base + k, executor.alive.size - 1)
        inside = (group.tid - group.tid % 32 + k) < threads
        alive |= (executor.alive[index] & inside).astype(np.uint64) << np.uint64(k)
    return (mask & alive & ~present[unit - unit[0]]) != 0


def member_mask(group: Group, do: Do, at: int) -> np.ndarray | None:
    """uint64 mask of the lanes that take part."""
    value = getter(do.ins.src[at], "b32", do.ins)(group.env)
    if value is UNKNOWN or value.__class__ is not np.ndarray:
        return None
    return value.astype(np.uint64)


def force(executor: Executor) -> bool:
    """Nothing else can happen: lanes that wait for mates go on without them, unless the mates are
    blocked themselves (then it is a deadlock)."""
    blocked = [group.lanes for group in executor.waiting.values()]
    stuck = np.concatenate(blocked) if blocked else np.zeros(0, np.int32)
    for key in sorted(executor.gathering, key=lambda k: k[:2]):
        group = executor.gathering[key]
        do = group.block.code[group.at]
        assert hasattr(do, "together")
        size = do.together  # type: ignore[union-attr]
        units = np.unique(_units(executor, group.lanes, size))
        if np.isin(_units(executor, stuck, size), units).any():
            continue
        del executor.gathering[key]
        executor.fault(
            Kind.DIVERGENCE,
            f"{do.ins.name} is executed by only some threads of a {_word(size)}",  # type: ignore[union-attr]
            do.ins,  # type: ignore[union-attr]
            group.lanes,
        )
        group.forced = True
        executor.push(group)
        return True
    return False


def _units(executor: Executor, lanes: np.ndarray, size: int) -> np.ndarray:
    """The warp (warpgroup) of every lane, numbered over the launch."""
    threads = executor.threads_per_cta
    cta = lanes.astype(np.int64) // threads
    return cta * (-(-threads // size)) + (lanes - cta * threads) // size


def _word(size: int) -> str:
    return "warp" if size == 32 else "warpgroup"
