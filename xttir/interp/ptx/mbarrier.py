"""mbarrier instructions: PTX ISA 9.1, section 9.7.13.15; their state is in `mbarrier_state`."""

from __future__ import annotations

import numpy as np

from xttir.analyses.events import (
    Arrive,
    BarrierInit,
    BarrierInval,
    CompleteTx,
    ExpectTx,
    Scope,
    Sem,
    Wait,
)
from xttir.diagnostics import Kind, Policy
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import UNKNOWN, Sink, meaning
from xttir.interp.ptx.mbarrier_state import MBarriers, token_pending, token_phase

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
_SEMS = {"relaxed": Sem.RELAXED, "acquire": Sem.ACQUIRE, "release": Sem.RELEASE}


def _places(step: ActualStep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(offset (n or 1,), block, flat index (n,)) of the barrier operand."""
    ins = step.ins
    address = step.address(ins.src[0])
    generic = not any(m.startswith("shared") for m in ins.modifiers)
    if generic:
        address = step.executor.shared_of_generic(address, step)
    window = "shared::cluster" if generic or ins.has("shared::cluster") else "shared::cta"
    offset, block = step.shared(address, window)
    if step.executor.geometry.ranks == 1:
        block = step.rows_cta
    index = _barriers(step).place(offset, block, step.fault)
    if step.memory.any_ended:
        step.memory.check_ended(np.where(offset >= 0, block, -1), step.report)
    return offset, block, np.broadcast_to(index, (step.n,))


def _barriers(step: ActualStep) -> MBarriers:
    return step.executor.barriers.m


def _column(value: np.ndarray, n: int) -> np.ndarray:
    """(n, 1) as events want it."""
    return np.broadcast_to(value, (n,))[:, None]


def _sem(step: ActualStep, default: Sem) -> tuple[Sem, Scope]:
    sem, scope = default, Scope.CTA
    for m in step.ins.modifiers:
        if m in _SEMS:
            sem = _SEMS[m]
        elif m in SCOPES:
            scope = SCOPES[m]
    return sem, scope


@meaning("mbarrier.init")
def init(step: ActualStep) -> None:
    offset, _, index = _places(step)
    count = step.integers(step.ins.src[1])
    if index.size > 1 and np.unique(index).size < index.size:
        step.fault(Kind.LIFETIME, "several threads initialise one mbarrier")
    good = index >= 0
    _barriers(step).init(index[good], np.broadcast_to(count, index.shape)[good], step.fault)
    step.emit(BarrierInit(step.ins.index, step.lanes, np.broadcast_to(offset, (step.n,)), count))


@meaning("mbarrier.inval")
def inval(step: ActualStep) -> None:
    offset, _, index = _places(step)
    _barriers(step).inval(index[index >= 0], step.fault)
    step.emit(BarrierInval(step.ins.index, step.lanes, np.broadcast_to(offset, (step.n,))))


def _live(step: ActualStep, index: np.ndarray) -> bool:
    """Tracing: an operation on a barrier comes after its initialisation, in this schedule."""
    if not step.tracing:
        return True
    live = _barriers(step).live[index] | (index < 0)
    return step.block(live, "an mbarrier that is not initialised", "mbarrier")


@meaning("mbarrier.expect_tx", "mbarrier.complete_tx")
def transaction(step: ActualStep) -> None:
    ins = step.ins
    offset, block, index = _places(step)
    if not _live(step, index):
        return
    bytes_ = step.integers(ins.src[1])
    good = index >= 0
    announce = ins.name == "mbarrier.expect_tx"
    signed = np.broadcast_to(bytes_ if announce else -bytes_, index.shape)[good]
    _barriers(step).update(index[good], 0, signed, step.fault)
    n = step.n
    event = ExpectTx if announce else CompleteTx
    step.emit(event(ins.index, step.lanes, _column(offset, n), _column(block, n), bytes_))


@meaning("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(step: ActualStep) -> None:
    ins = step.ins
    offset, block, index = _places(step)
    if not _live(step, index):
        return
    one = np.ones(1, np.int64)
    count, expect = one, np.zeros(1, np.int64)
    if ins.has("expect_tx"):
        expect = step.integers(ins.src[1])
    elif len(ins.src) > 1:
        count = step.integers(ins.src[1])
    if any(m.startswith("multicast") for m in ins.modifiers):
        raise step.unsupported("mbarrier.arrive with .multicast")
    drop = ins.name == "mbarrier.arrive_drop"
    good = index >= 0
    shape = index.shape
    tokens = np.zeros(shape, np.uint64)
    if good.any():
        tokens[good] = _barriers(step).update(
            index[good],
            np.broadcast_to(count, shape)[good],
            np.broadcast_to(expect, shape)[good],
            step.fault,
            drop,
        )
    if ins.has("noComplete"):
        tokens |= np.uint64(1)
    sem, scope = _sem(step, Sem.RELEASE)
    n = step.n
    step.emit(
        Arrive(
            ins.index,
            step.lanes,
            _column(offset, n),
            _column(block, n),
            count,
            expect,
            sem,
            scope,
            drop=drop,
            no_complete=ins.has("noComplete"),
        )
    )
    if ins.dst and not isinstance(ins.dst[0], Sink):
        step.put(ins.dst[0], tokens)


MAX_PEEKS = 200_000
"""Tests of an mbarrier by one instruction, each taken to fail, until it is taken for a loop."""


@meaning("mbarrier.test_wait", "mbarrier.try_wait")
def wait(step: ActualStep) -> None:
    ins = step.ins
    offset, _, index = _places(step)
    if not _live(step, index):
        return
    state = _barriers(step)
    good = index >= 0
    if not good.all() or not step.tracing:
        state.check_live(index[good], step.fault)
    parity_form = ins.has("parity")
    if parity_form:
        parity = step.integers(ins.src[1])
        phase = np.full(1, -1, np.int64)
        if ((parity != 0) & (parity != 1)).any():
            # The hardware looks at the lowest bit alone (seen on an H200): a bit widened with its
            # sign does.
            message = f"a wait for parity {int(parity.max())}"
            step.fault(Kind.UNDEFINED, message, policy=Policy.STRICT)
            parity = parity & 1
    else:
        token = step.get(ins.src[1], "b64")
        if token is UNKNOWN:
            raise step.unsupported("a barrier state that depends on data")
        phase = token_phase(token)
        parity = phase & 1
    passed = state.passed(index, parity) | ~good
    mode = step.do.wait
    peek = mode != "loop"
    sem, scope = _sem(step, Sem.ACQUIRE)
    if not peek:
        if not step.block(passed, "mbarrier", "mbarrier"):
            return
        result = np.ones(1, bool)
    elif step.tracing or step.executor.schedule.peeks_false:
        result = np.zeros(1, bool)
        ins.cache["peeks"] = ins.cache.get("peeks", 0) + 1
        if ins.cache["peeks"] > MAX_PEEKS:
            raise step.unsupported("a loop round a test of an mbarrier that does something else")
    else:
        result = passed
    n = step.n
    event = Wait(
        ins.index,
        step.lanes,
        np.broadcast_to(offset, (n,)),
        np.broadcast_to(parity, (n,)),
        phase,
        sem,
        scope,
        peek=peek,
    )
    step.emit(event)
    step.put(ins.dst[0], result)


@meaning("mbarrier.pending_count")
def pending_count(step: ActualStep) -> None:
    token = step.get(step.ins.src[0], "b64")
    step.put(step.ins.dst[0], UNKNOWN if token is UNKNOWN else token_pending(token))
