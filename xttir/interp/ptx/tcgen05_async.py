"""tcgen05.commit, cp and shift: what one thread issues beside products.

PTX ISA 9.1, sections 9.7.16.8 (cp, shift) and 9.7.16.11 (commit).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from xttir.analyses.events import (
    Arrive,
    AsyncOp,
    ByCommit,
    Footprint,
    Mode,
    Proxy,
    Scope,
    Sem,
    Space,
)
from xttir.diagnostics import Kind
from xttir.interp.ptx.groups import in_flight
from xttir.interp.ptx.instruction import UNKNOWN, meaning
from xttir.interp.ptx.step import Step, Task
from xttir.interp.ptx.tcgen05_memory import cta_group
from xttir.interp.ptx.tcgen05_mma import UNSIGNED64, blocks_of
from xttir.interp.ptx.tensor_state import TensorMemory, rectangle, tensor_memory
from xttir.interp.ptx.units import Skip, cluster_targets, footprint, memory_operand, variants
from xttir.interp.tensorcore import descriptors
from xttir.interp.tensorcore.tensor_memory import COPIES, LANES, copy_lanes

_MULTICAST = {"warpx2::02_13": "02_13", "warpx2::01_23": "01_23", "warpx4": "x4"}
_DECOMPRESS = {"b6x16_p32": 6, "b4x16_p64": 4}


@meaning("tcgen05.commit")
def commit(step: Step) -> None:
    """One arrival once all earlier operations of the thread (of this cta_group) are complete."""
    ins, n = step.ins, step.lanes.size
    number = cta_group(step)
    where = step.address(memory_operand(step, ins.src[0]))
    offset, block = step.shared(where, "shared::cluster")
    address = np.broadcast_to(offset, (n,))[:, None]
    cta = np.broadcast_to(block, (n,))[:, None]
    if "multicast::cluster" in ins.modifiers:
        mask = np.broadcast_to(step.integers(ins.src[1], "u16"), (n,))
        try:
            cta = cluster_targets(step, step.cta, mask)
        except Skip:
            return
        address = np.where(cta < 0, -1, address)
        cta = np.maximum(cta, 0)
    event = Arrive(
        ins.index,
        step.lanes,
        address,
        cta,
        np.array([1]),
        np.array([0]),
        Sem.RELEASE,
        Scope.CLUSTER,
        by="commit",
        cta_group=number,
    )
    task = Task(event, lambda: step.arrive(address, cta))
    if not step.tracing:
        # Arrivals come in commit order, so an earlier commit is waited for as well.
        flying = in_flight(step, "tcgen05")
        commits = in_flight(step, "tcgen05.commit")
        task.after = [*flying.before(step.lanes), *commits.before(step.lanes)]
        commits.add(task)
    step.submit(task)


@lru_cache(1024)
def _source(value: int, rows: int, columns: int) -> tuple[tuple[np.ndarray, int], np.ndarray]:
    """(pieces, chunks (rows, columns / 4)) of the shared source of a copy; ValueError."""
    d = descriptors.matrix(value, 100)
    size = columns * 4
    return descriptors.touched(d, False, 8, rows, size), descriptors.chunks(d, False, 8, rows, size)


@meaning("tcgen05.cp")
def copy(step: Step) -> None:
    ins = step.ins
    number = cta_group(step)
    shape = next(w for w in ins.modifiers if w in COPIES)
    multicast = next((_MULTICAST[w] for w in ins.modifiers if w in _MULTICAST), "")
    packed = next((_DECOMPRESS[w] for w in ins.modifiers if w in _DECOMPRESS), 0)
    address = step.address(memory_operand(step, ins.src[0]))
    source = step.integers(ins.src[1], "u64")
    for (target, value), which in variants([address, source], step.lanes.size):
        try:
            _copy(step, number, shape, multicast, packed, target, value & UNSIGNED64, which)
        except Skip:
            continue


def _copy(
    step: Step,
    number: int,
    shape: str,
    multicast: str,
    packed: int,
    target: int,
    value: int,
    which: np.ndarray,
) -> None:
    lanes = step.lanes if which.size == step.lanes.size else step.lanes[which]
    count, columns = COPIES[shape]
    try:
        (starts, size), chunks = _source(value, count, columns)
    except ValueError as error:
        raise Skip(step, Kind.MISUSE, str(error), lanes) from None
    except NotImplementedError as error:
        raise step.unsupported(str(error)) from None
    if target >> 16:
        raise Skip(
            step, Kind.MISUSE, f"tcgen05.cp to lane {target >> 16}: it writes from lane 0 on", lanes
        )
    column = target & 0xFFFF
    blocks = blocks_of(step, number, step.cta[which])
    places = copy_lanes(shape, multicast)
    written = tuple(int(x) for x in np.unique(places))
    memory = tensor_memory(step)
    memory.check(
        step, blocks.reshape(-1), written, column, columns, "tcgen05.cp", read=False, write=True
    )
    spread = np.repeat(blocks, starts.size, axis=1) if number == 2 else blocks
    read = footprint(
        Space.SHARED, Mode.READ, np.tile(starts, number)[None], size, spread, Proxy.ASYNC
    )
    event = AsyncOp(
        step.ins.index,
        lanes,
        "tcgen05.cp",
        1,
        (read, rectangle(Mode.WRITE, written, column, columns, blocks)),
        ByCommit(number),
        ("tcgen05.cp", number),
    )
    task = Task(event, lambda: None)
    if step.tracing:
        step.memory.check(read)
    else:
        shared = step.memory
        task.perform = lambda: _move(shared, memory, chunks, places, column, blocks, packed)
        flying = in_flight(step, "tcgen05")
        task.after = flying.before(lanes)
        flying.add(task)
    step.submit(task)


def _move(
    shared: Any,
    memory: TensorMemory,
    chunks: np.ndarray,
    places: np.ndarray,
    column: int,
    blocks: np.ndarray,
    packed: int,
) -> None:
    flat = blocks.reshape(-1)
    starts = np.broadcast_to(chunks.reshape(1, -1), (flat.size, chunks.size))
    data = shared.load(Footprint(Space.SHARED, Mode.READ, starts, 16, Proxy.ASYNC, flat[:, None]))
    if data is UNKNOWN:
        return
    data = np.ascontiguousarray(data)
    if packed:  # 16 elements in front of padding become bytes
        data = descriptors.narrow_elements(data, packed)
    words = np.ascontiguousarray(data).view("<u4").reshape(flat.size, chunks.shape[0], -1)
    for lanes in places:
        memory.store(flat, lanes, column, words)


@meaning("tcgen05.shift")
def shift(step: Step) -> None:
    """Rows of 32 bytes move by one; what lands where is not computed."""
    ins = step.ins
    if not step.tracing:
        raise step.unsupported("running tcgen05.shift")
    number = cta_group(step)
    address = step.address(memory_operand(step, ins.src[0]))
    memory = tensor_memory(step)
    for (value,), which in variants([address], step.lanes.size):
        lanes = step.lanes[which]
        first, column = value >> 16, value & 0xFFFF
        try:
            if first % 32:
                raise Skip(
                    step, Kind.MISUSE, f"lane {first}: tcgen05.shift begins at a window", lanes
                )
            blocks = blocks_of(step, number, step.cta[which])
            rows = tuple(range(first, LANES))
            memory.check(
                step, blocks.reshape(-1), rows, column, 8, "tcgen05.shift", read=True, write=True
            )
        except Skip:
            continue
        places = tuple(rectangle(m, rows, column, 8, blocks) for m in (Mode.READ, Mode.WRITE))
        step.submit(
            Task(
                AsyncOp(
                    ins.index,
                    lanes,
                    "tcgen05.shift",
                    1,
                    places,
                    ByCommit(number),
                    ("tcgen05.shift", number),
                ),
                lambda: None,
            )
        )
