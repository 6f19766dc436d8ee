"""`nvws` ops: what stands between the parts of a kernel while Triton specialises it by warps.

An aref is a ring of buffers. Its positions are counted: the n-th `put` fills buffer n modulo the
depth, the n-th `get` of each consumer reads what the n-th `put` has put there. Ops with a stage
name the buffer themselves. A token array is a pair of barriers for each buffer, "full" and
"empty". The groups of `nvws.warp_group` are agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.dialects import nvws
from xttir.interp import phases, shared
from xttir.interp.affine import dense
from xttir.interp.agents import run_agents, wait_until
from xttir.interp.descriptors import Descriptor, block_access
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import MBarrier
from xttir.interp.order import Components, Known, Positions, Released
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.taint import observe_branch
from xttir.interp.tma import with_shape
from xttir.interp.ttg_memory import dtype_of_memory, shape_of_memory
from xttir.interp.ttng_sync import missing, operand_slots, passed, wanted_of

Slots = tuple[int, ...]

LOADS = "bulk loads"
"""The engine of loads that an agent waits for at once."""


Count = int | np.ndarray
"""A number for all programs of the batch, or int64[batch]."""


def _changed(old: Count, new: Count, at: Positions, batch: int) -> Count:
    """`old` with `new` (a number, or int64[active]) for the programs at `at`."""
    if at is None:
        if isinstance(new, np.ndarray) and (new == new[0]).all():
            return int(new[0])
        return new
    result = np.empty(batch, np.int64)
    result[...] = old
    result[at] = new
    return result


def _chosen(count: Count, at: Positions) -> Count:
    """The counts of the programs at `at`."""
    return count[at] if at is not None and isinstance(count, np.ndarray) else count


class _Shared:
    """A value that is the same object for all programs of the batch."""

    def take(self, programs: np.ndarray) -> Any:
        return self

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> Any:
        return self


class Aref(_Shared):
    """A ring of buffers: memory descriptors whose leading axis is its depth.

    `counts`: how often each end of the ring was entered and left, by ("put" or consumer, "enter" or
    "exit"). `released`: what was done before the puts, and the gets, that are over.
    """

    def __init__(self, buffers: list[Any], depth: int, components: Components):
        self.buffers = buffers
        self.depth = depth
        self.batch = components.batch
        self.counts: dict[tuple[Any, str], Count] = {}
        self.released = {"put": Known(components), "get": Known(components)}

    def count(self, end: Any, event: str) -> Count:
        return self.counts.get((end, event), 0)

    def advance(self, end: Any, event: str, at: Positions) -> Count:
        """One more event; gives how many there were before, for the programs at `at`."""
        old = self.count(end, event)
        before = _chosen(old, at)
        self.counts[end, event] = _changed(old, before + 1, at, self.batch)
        return before

    def views(self, stage: Count) -> list[Any]:
        """The buffers of a stage (a number, or int64[active])."""
        return [buffer.index(np.atleast_1d(np.asarray(stage))) for buffer in self.buffers]


class ArefToken(_Shared):
    """What `enter` gives: the stage entered, int64[active] or a number."""

    def __init__(self, stage: Count):
        self.stage = stage

    def take(self, programs: np.ndarray) -> ArefToken:
        stage = self.stage
        return ArefToken(stage[programs] if isinstance(stage, np.ndarray) else stage)

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> ArefToken:
        stage = np.zeros(batch, np.int64)
        for at, token in parts:
            stage[at] = token.stage if isinstance(token, ArefToken) else 0
        return ArefToken(int(stage[0]) if (stage == stage[0]).all() else stage)


def build_create(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.aref.create."""
    assert isinstance(op, nvws.ArefCreateOp)
    depth = shape_of_memory(op.buffers[0].type)[0]

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = Aref([frame[slot] for slot in ins], depth, m.clock.components)

    return run


def _consumer(op: Operation) -> Any:
    """Which consumer an op belongs to: every partition reads each put once."""
    return str(op.attributes.get("ttg.partition"))


def _stage(m: Machine, op: Operation, value: Any, position: Count, depth: int) -> Count:
    if value is None:
        return position % depth
    stage = dense(observe_branch(m, op, value)).reshape(-1).astype(np.int64)
    return int(stage[0]) if (stage == stage[0]).all() else stage


def build_enter(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.aref.put.enter and nvws.aref.get.enter: wait until the buffer is empty, or full."""
    assert isinstance(op, nvws.ArefPutEnterOp | nvws.ArefGetEnterOp)
    slots = operand_slots(c, op)
    putting = isinstance(op, nvws.ArefPutEnterOp)
    end = "put" if putting else _consumer(op)
    *buffers, token = outs

    def run(m: Machine, frame: Frame) -> None:
        aref: Aref = frame[slots["aref"]]
        at = m.positions()
        position = aref.advance(end, "enter", at)

        def full() -> bool:
            return bool(np.all(_chosen(aref.count("put", "exit"), at) > position))

        if not putting:
            wait_until(m, op, full, lambda: "a buffer to be filled")
        released = aref.released["get" if putting else "put"]
        m.clock.learn(released.within(m.clock.components.who(at)))
        stage = _stage(
            m, op, None if slots["stage"] is None else frame[slots["stage"]], position, aref.depth
        )
        for slot, view in zip(buffers, aref.views(stage), strict=True):
            frame[slot] = view
        frame[token] = ArefToken(stage)

    return run


def build_exit(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.aref.put.exit and nvws.aref.get.exit: what was done is over for the other end. The
    asynchronous operations that the op names are awaited, here all that are under way."""
    assert isinstance(op, nvws.ArefPutExitOp | nvws.ArefGetExitOp)
    slots = operand_slots(c, op)
    putting = isinstance(op, nvws.ArefPutExitOp)
    end = "put" if putting else _consumer(op)

    def run(m: Machine, frame: Frame) -> None:
        aref: Aref = frame[slots["aref"]]
        at = m.positions()
        aref.advance(end, "exit", at)
        aref.released["put" if putting else "get"].learn(_everything(m, at))

    return run


def _everything(m: Machine, at: Positions) -> Released:
    """What the agent has done, and what it has given its engines to do."""
    released = m.clock.publish(at)
    for engine in m.clock.groups.values():
        released = engine.told(released, -1)
    return released


def build_buffer(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.aref.buffer: the buffers that a token was given for."""
    assert isinstance(op, nvws.ArefBufferOp)
    slots = operand_slots(c, op)

    def run(m: Machine, frame: Frame) -> None:
        aref: Aref = frame[slots["aref"]]
        token = frame[slots["token"]]
        entered = token.stage if isinstance(token, ArefToken) else 0
        given = None if slots["stage"] is None else frame[slots["stage"]]
        stage = entered if given is None else _stage(m, op, given, entered, aref.depth)
        for slot, view in zip(outs, aref.views(stage), strict=True):
            frame[slot] = view

    return run


def build_phi(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.aref.phi: the local value; the remote one is the same seen by another partition."""

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = frame[ins[0]]

    return run


def build_load(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.descriptor_load and nvws.descriptor_gather, over when they return."""
    assert isinstance(op, nvws.DescriptorLoadOp | nvws.DescriptorGatherOp)
    slots = operand_slots(c, op)
    shape = shape_of_memory(op.result.type)
    gathers = isinstance(op, nvws.DescriptorGatherOp)

    def run(m: Machine, frame: Frame) -> None:
        d: Descriptor = frame[slots["desc"]]
        if gathers:
            rows = dense(observe_branch(m, op, frame[slots["x_offsets"]]))[:, :, None]
            indices = [rows, observe_branch(m, op, frame[slots["y_offset"]])]
            d = d.with_block(shape)
        else:
            indices = [observe_branch(m, op, frame[slot]) for slot in slots["indices"]]
        pointer, mask = block_access(d, indices)
        value = d.fetch(m, op, pointer, mask)
        engine, at = m.clock.engine(LOADS), m.positions()
        shared.store(m, op, frame[slots["result"]], with_shape(value, shape), stamp=engine.stamp())
        engine.commit(at)
        engine.wait(0, at)

    return run


def build_try_cancel(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.clc_try_cancel: the answer that hands no program over, there when it returns (see
    `launch_control`)."""
    assert isinstance(op, nvws.CLCTryCancelOp)
    ty = op.result.type
    nothing = np.zeros((1,) * (1 + len(shape_of_memory(ty))), dtype_of_memory(ty))

    def run(m: Machine, frame: Frame) -> None:
        engine, at = m.clock.engine(LOADS), m.positions()
        shared.store(m, op, frame[ins[0]], nothing, stamp=engine.stamp())
        engine.commit(at)
        engine.wait(0, at)

    return run


class Tokens(_Shared):
    """`nvws.create_token`: for every buffer a barrier that it is full, and one that it is empty."""

    def __init__(self, m: Machine, op: Operation, count: int):
        components = m.clock.components
        self.full = [MBarrier(f"full[{n}]", op, components) for n in range(count)]
        self.empty = [MBarrier(f"empty[{n}]", op, components) for n in range(count)]
        for barrier in (*self.full, *self.empty):
            barrier.init(1, m.clock.now(), None)


def build_tokens(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.create_token."""
    assert isinstance(op, nvws.CreateTokenOp)
    count = op.num_buffers.value.data

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = Tokens(m, op, count)

    return run


def _barriers(
    m: Machine, op: Operation, barriers: list[MBarrier], index: Any
) -> list[tuple[MBarrier, Positions, np.ndarray | None]]:
    """Barrier `index` of each active program: (barrier, positions in the batch, rows)."""
    number = dense(observe_branch(m, op, index)).reshape(-1)
    positions = m.positions()
    if number.size == 1 or (number == number[0]).all():
        return [(barriers[int(number[0])], positions, None)]
    found: list[tuple[MBarrier, Positions, np.ndarray | None]] = []
    for one in sorted(set(number.tolist())):
        rows = np.flatnonzero(number == one)
        found.append((barriers[one], rows if positions is None else positions[rows], rows))
    return found


def build_token_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.producer_acquire waits until a buffer is empty, nvws.consumer_wait until it is full."""
    acquire = isinstance(op, nvws.ProducerAcquireOp)

    def run(m: Machine, frame: Frame) -> None:
        tokens: Tokens = frame[ins[0]]
        chosen_ = _barriers(m, op, tokens.empty if acquire else tokens.full, frame[ins[1]])
        phase = dense(observe_branch(m, op, frame[ins[2]])).reshape(-1).astype(np.int64)
        # A fresh buffer counts as emptied before.
        wanted = wanted_of(chosen_, phase ^ 1 if acquire else phase)
        wait_until(m, op, lambda: passed(wanted), lambda: missing(wanted))
        for barrier, at, _ in chosen_:
            phases.waited(m, op, barrier, at)

    return run


def build_token_arrive(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.producer_commit says that a buffer is full, nvws.consumer_release that it is empty."""
    commit = isinstance(op, nvws.ProducerCommitOp)

    def run(m: Machine, frame: Frame) -> None:
        tokens: Tokens = frame[ins[0]]
        for barrier, at, _ in _barriers(
            m, op, tokens.full if commit else tokens.empty, frame[ins[1]]
        ):
            phases.update(m, op, barrier, 1, 0, _everything(m, at), bool(m.clock.groups))

    return run


def build_warp_group(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """nvws.warp_group: the groups as agents; the first gives the results."""
    assert isinstance(op, nvws.WarpGroupOp)
    regions = [c.region(region) for region in op.partition_regions]

    def run(m: Machine, frame: Frame) -> None:
        bodies = [(f"group {n}", region, list(frame)) for n, region in enumerate(regions)]
        results = run_agents(m, bodies)
        for slot, value in zip(outs, results, strict=True):
            frame[slot] = value

    return run


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        nvws.ArefCreateOp: build_create,
        nvws.ArefPutEnterOp: build_enter,
        nvws.ArefGetEnterOp: build_enter,
        nvws.ArefPutExitOp: build_exit,
        nvws.ArefGetExitOp: build_exit,
        nvws.ArefBufferOp: build_buffer,
        nvws.ArefPhiOp: build_phi,
        nvws.DescriptorLoadOp: build_load,
        nvws.DescriptorGatherOp: build_load,
        nvws.CLCTryCancelOp: build_try_cancel,
        nvws.CreateTokenOp: build_tokens,
        nvws.ProducerAcquireOp: build_token_wait,
        nvws.ConsumerWaitOp: build_token_wait,
        nvws.ProducerCommitOp: build_token_arrive,
        nvws.ConsumerReleaseOp: build_token_arrive,
        nvws.WarpGroupOp: build_warp_group,
    }
