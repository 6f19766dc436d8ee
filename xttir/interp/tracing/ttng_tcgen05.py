"""Events of tcgen05 products, commits and copies, which one thread issues.

It is the first of the agent: of every block, or, where pairs of blocks work together, of the even
ones. A product is an operation for each tile of the accumulator; who waits for a later commit of
the same thread knows that it is complete. Rules: `MMAv5.cpp`, `TensorMemoryToLLVM.cpp` of Triton
3.9; PTX ISA 9.1, section 9.7.16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from xttir.analyses import events as ev
from xttir.analyses.events import Footprint, Mode, Proxy, Scope, Sem, Space
from xttir.diagnostics import Unsupported
from xttir.dialects import ttng
from xttir.dialects.layouts.encodings import TensorMemoryEncodingAttr
from xttir.dialects.locations import location_of
from xttir.dialects.tt.enums import ScaleDotElemType
from xttir.dialects.ttg import MemDescType
from xttir.interp.tracing import kernel
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.mbarriers import ONE, ZERO, barrier_of, known_view, live, update
from xttir.interp.tracing.parts import Units, block_copies, gathered, local
from xttir.interp.tracing.values import UNKNOWN, Unknown, View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

MMA, COPY = "tcgen05.mma", "tcgen05.cp"

Product = ttng.TCGen5MMAOp | ttng.TCGen5MMAScaledOp


def _issuers(a: Agent) -> tuple[np.ndarray, Units, int]:
    """(threads that issue, the blocks that work on what each issues, `cta_group`)."""
    group = kernel.cta_group(a)
    units = tuple(tuple(range(r, r + group)) for r in range(0, a.blocks, group))
    return a.leader()[::group], units, group


@events(ttng.PackedArithOp, quiet=True)
def packed_arith(a: Agent, op: ttng.PackedArithOp, *_: Any) -> None:
    return None


# Products -----------------------------------------------------------------------------------------


@events(ttng.TCGen5MMAOp)
def tc_gen5_mma(a: Agent, op: ttng.TCGen5MMAOp, *_: Any) -> Any:
    return _product(a, op, _kind(op.a.type), ())


@events(ttng.TCGen5MMAScaledOp)
def tc_gen5_mma_scaled(a: Agent, op: ttng.TCGen5MMAScaledOp, *_: Any) -> Any:
    types = [ScaleDotElemType.of(t) for t in (op.a_type, op.b_type)]
    kind = "mxf4" if all(t is ScaleDotElemType.E2M1 for t in types) else "mxf8f6f4"
    return _product(a, op, kind, (op.a_scale, op.b_scale))


def _kind(ty: Attribute) -> str:
    """What sort of instruction multiplies elements of a type."""
    assert isinstance(ty, MemDescType)
    element = ty.element_type
    if isinstance(element, Float16Type | BFloat16Type):
        return "f16"
    if isinstance(element, Float32Type):
        return "tf32"
    return "i8" if isinstance(element, IntegerType) else "f8f6f4"


def _product(a: Agent, op: Product, kind: str, scales: Sequence[SSAValue]) -> Any:
    result = UNKNOWN if op.results else ()
    if op.is_async is None and not op.barriers and not _commits(a):
        raise Unsupported(
            f"{op.name} whose completion nobody can wait for",
            location_of(op),
            "lower it to a barrier's wait (triton-nvidia-mma-lowering)",
        )
    if op.barriers:
        a.meet(op)
    if not a.held(op, a.value(op.pred)):
        return result
    lanes, units, group = _issuers(a)
    left, right, total = (known_view(op, a.value(v)) for v in (op.a, op.b, op.d))
    factors = [gathered(a, known_view(op, a.value(v)), units, Mode.READ) for v in scales]
    use_d = a.value(op.use_d)
    accumulate = isinstance(use_d, Unknown) or a.held(op, use_d)
    across, down, shape = _tiles(total)
    for m in range(down):
        for n in range(across):
            to = _tile(a, total, units, Mode.WRITE, (m, n), (down, across))
            places = [
                _operand(a, left, units, 0, m, down),
                _operand(a, right, units, 1, n, across),
                *factors,
                *((_tile(a, total, units, Mode.READ, (m, n), (down, across)),) * accumulate),
                to,
            ]
            order = (MMA, int(to.starts.min()), *shape, kind, False, group)
            done = ev.ByCommit(group)
            a.emit(ev.AsyncOp(a.ins(op), lanes, MMA, 1, tuple(places), done, order))
    for barrier, pred in zip(op.barriers, op.barrier_preds, strict=True):
        if a.held(op, a.value(pred)):
            _commit(a, op, a.value(barrier), _completed(op), lanes, group)
    return result


def _commits(a: Agent) -> bool:
    """Whether the module has commits of its own: products are then asynchronous all the same."""
    t = a.tracer
    known = t.state.get("commits")
    if known is None:
        found = any(isinstance(op, ttng.TCGen5CommitOp) for op in t.module.walk())
        known = t.state["commits"] = found or t.placed
    return known


def _tiles(total: View) -> tuple[int, int, tuple[int, int]]:
    """How many instructions an accumulator takes along N and M in each block, and their shape."""
    encoding = total.ty.encoding
    assert isinstance(encoding, TensorMemoryEncodingAttr)
    rows, columns = local(total).shape
    m, n = encoding.number("blockM"), min(encoding.number("blockN"), columns)
    return -(-columns // n), -(-rows // m), (m, n)


def _tile(
    a: Agent,
    total: View,
    units: Units,
    mode: Mode,
    at: tuple[int, int],
    counts: tuple[int, int],
) -> Footprint:
    def choose(part: np.ndarray) -> np.ndarray:
        return _slice(_slice(part, 0, at[0], counts[0]), 1, at[1], counts[1])

    return gathered(a, total, units, mode, step=("tile", at, counts), choose=choose)


def _operand(a: Agent, view: View, units: Units, axis: int, at: int, count: int) -> Footprint:
    """What tile `at` of `count` along M (`axis` 0, of A) or N (1, of B) reads of its operand."""

    def choose(part: np.ndarray) -> np.ndarray:
        return _slice(part, axis, at, count)

    proxy = Proxy.ASYNC if view.space is Space.SHARED else Proxy.GENERIC
    return gathered(a, view, units, Mode.READ, proxy, ("operand", axis, at, count), choose)


def _slice(part: np.ndarray, axis: int, at: int, count: int) -> np.ndarray:
    size = part.shape[axis] // count
    place = [slice(None)] * part.ndim
    place[axis] = slice(at * size, (at + 1) * size)
    return part[tuple(place)]


# Commits ------------------------------------------------------------------------------------------


def _completed(op: Product) -> list[Attribute]:
    """The types of operands whose copies in other blocks a product's barriers speak for."""
    if op.multicast is None:
        return []
    scales = (op.a_scale, op.b_scale) if isinstance(op, ttng.TCGen5MMAScaledOp) else ()
    return [v.type for v in (op.a, op.b, *scales)]


@events(ttng.TCGen5CommitOp)
def tc_gen5_commit(a: Agent, op: ttng.TCGen5CommitOp, *_: Any) -> None:
    a.meet(op)
    if op.pred is None or a.held(op, a.value(op.pred)):
        lanes, _, group = _issuers(a)
        _commit(a, op, a.value(op.barrier), [v.type for v in op.descs], lanes, group)


def _commit(
    a: Agent,
    op: Operation,
    barrier: Any,
    operands: Sequence[Attribute],
    lanes: np.ndarray,
    group: int,
) -> None:
    """An arrival for all that the threads have issued, in every block that shares the operands."""
    b = barrier_of(a, op, barrier)
    live(a, op, b)
    cta = _signalled(a, lanes, operands, group)
    address = np.full(cta.shape, b.offset, np.int64)
    update(a, op, b, cta, 1, 0)
    a.emit(
        ev.Arrive(
            a.ins(op),
            lanes,
            address,
            cta,
            ONE,
            ZERO,
            Sem.RELEASE,
            Scope.CLUSTER,
            by="commit",
            cta_group=group,
        )
    )


def _signalled(
    a: Agent, lanes: np.ndarray, operands: Sequence[Attribute], group: int
) -> np.ndarray:
    """int32 (n, k): the blocks that each thread's commit arrives in."""
    first = a.tracer.first_block
    rank = a.block_of(lanes) - first
    masks = [_copied(ty) | (group - 1) for ty in operands] or [group - 1]
    masks = [m for m in masks if m]
    if not masks:
        return a.block_of(lanes)[:, None]
    ranks = np.arange(a.blocks)
    reached = np.zeros((lanes.size, a.blocks), bool)
    for mask in masks:
        reached |= ranks[None, :] & ~mask == rank[:, None] & ~mask
    counts = reached.sum(axis=1)
    assert (counts == counts[0]).all()
    return (np.nonzero(reached)[1].reshape(lanes.size, -1) + first).astype(np.int32)


def _copied(ty: Attribute) -> int:
    assert isinstance(ty, MemDescType)
    return block_copies(ty)


# Copies -------------------------------------------------------------------------------------------


@events(ttng.TMEMCopyOp)
def tmem_copy(a: Agent, op: ttng.TMEMCopyOp, src: Any, dst: Any) -> None:
    lanes, units, group = _issuers(a)
    read = gathered(a, known_view(op, src), units, Mode.READ, Proxy.ASYNC)
    write = gathered(a, known_view(op, dst), units, Mode.WRITE)
    done = ev.ByCommit(group)
    a.emit(ev.AsyncOp(a.ins(op), lanes, COPY, 1, (read, write), done, (COPY, group)))
