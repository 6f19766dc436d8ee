"""Events of barriers of `ttg`, `gpu` and `nvvm`, and ops of `ttg` that give none.

Whatever memory `ttg.barrier` is said to order, Triton 3.9 lowers it to the barrier of all threads
of its partition (of one warp: `bar.warp.sync`), which orders all memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.events import Sem
from xttir.diagnostics import Unsupported
from xttir.dialects import gpu, nvvm, tt, ttg
from xttir.dialects.locations import location_of
from xttir.interp.tracing import handlers
from xttir.interp.tracing.handlers import events
from xttir.interp.tracing.scratch import through_scratch
from xttir.interp.tracing.values import UNKNOWN, VARYING, Unknown, View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent


@events(ttg.BarrierOp, gpu.BarrierOp)
def barrier(a: Agent, op: Operation) -> None:
    a.meet(op)


@events(nvvm.BarrierOp)
def named_barrier(a: Agent, op: nvvm.BarrierOp, *operands: Any) -> None:
    """`bar.sync` by number: 0, and all threads of the block, where none is given."""
    rest = list(operands)
    number = a.number(op, rest.pop(0), "a barrier") if op.barrier_id is not None else 0
    count = 0
    if op.number_of_threads is not None:
        count = a.number(op, rest.pop(0), "a number of threads")
    a.pending.clear()
    _come(a, op, number, count or a.tracer.threads)
    id_, threads = np.full(1, number, np.int32), np.full(1, count, np.int32)
    a.emit(ev.NamedBarrier(a.ins(op), a.lanes, id_, threads))


def _come(a: Agent, op: Operation, number: int, count: int) -> None:
    """Wait until as many threads of a block have come to a barrier as it is for."""
    there: dict[int, list[int]] = a.tracer.state.setdefault("named barriers", {})
    state = there.setdefault(number, [0, 0])
    """How often it was complete, and how many threads have come since."""
    state[1] += a.count
    if state[1] >= count:
        state[:] = [state[0] + 1, 0]
        return
    turn = state[0]
    a.wait_until(
        op,
        lambda: state[0] > turn,
        lambda: f"threads at barrier {number}, which is for {count}: {state[1]} have come",
    )


@events(nvvm.ClusterArriveOp)
def cluster_arrive(a: Agent, op: nvvm.ClusterArriveOp) -> None:
    a.emit(ev.ClusterBarrier(a.ins(op), a.lanes, "arrive", Sem.RELEASE))


@events(nvvm.ClusterArriveRelaxedOp)
def cluster_arrive_relaxed(a: Agent, op: nvvm.ClusterArriveRelaxedOp) -> None:
    a.emit(ev.ClusterBarrier(a.ins(op), a.lanes, "arrive", Sem.RELAXED))


@events(nvvm.ClusterWaitOp)
def cluster_wait(a: Agent, op: nvvm.ClusterWaitOp) -> None:
    a.emit(ev.ClusterBarrier(a.ins(op), a.lanes, "wait", Sem.ACQUIRE))


@events(*handlers.VARY, quiet=True)
def varying(a: Agent, op: Operation) -> Any:
    """Numbers that are others in each thread; but of one warp there is one number."""
    return np.zeros(1, np.int32) if isinstance(op, ttg.WarpIdOp) and a.warps == 1 else VARYING


@events(ttg.PredicateStageOp, quiet=True)
def predicate_stage(a: Agent, op: ttg.PredicateStageOp, iv: Any, ub: Any, step: Any) -> Any:
    """Whether the iteration at `iv` is not one that the pipeline begins too late to finish."""
    if any(isinstance(v, Unknown) for v in (iv, ub, step)):
        return VARYING if any(v is VARYING for v in (iv, ub, step)) else UNKNOWN
    return iv < ub - step * iv.dtype.type(op.max_stage.value.data - op.stage.value.data)


@events(ttg.ConvertLayoutOp, quiet=True)
def convert_layout(a: Agent, op: ttg.ConvertLayoutOp, src: Any) -> None:
    if "allocation.offset" in op.attributes:
        through_scratch(a, op)


@events(ttg.Fp4ToFpOp, ttg.GlobalScratchAllocOp, quiet=True)
def nothing(a: Agent, op: Operation, *args: Any) -> None:
    """No events."""


_TOUCHES = re.compile(
    r"\b(bar|barrier|mbarrier|fence|membar|elect|mapa|wgmma|tcgen05|stmatrix|ldmatrix|clc"
    r"|setmaxnreg|griddepcontrol|exit|trap|cp\.async|[a-z.]*\.shared)\b"
)
"""Instructions that events would be needed for."""


@events(tt.ElementwiseInlineAsmOp, ttg.InlineAsmOp)
def inline_asm(a: Agent, op: Any, *args: Any) -> None:
    found = _TOUCHES.search(op.asm_string.data)
    if found or any(isinstance(v, View) for v in args):
        what = f"`{found[0]}`" if found else "a memory descriptor"
        raise Unsupported(f"inline assembly with {what}", location_of(op))
