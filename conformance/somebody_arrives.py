"""Waits of test programs that nobody ever ends: somebody from outside arrives.

Tests of barrier insertion wait for barriers that nobody arrives at or announces bytes for, so that
nothing behind the wait would ever run. Here what a phase lacks comes from the first thread of those
that wait, right before they do. Barriers that nobody initialises are initialised at the beginning.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation

from xttir.analyses import events as ev
from xttir.analyses.modules import verify_module
from xttir.analyses.verify import Report
from xttir.diagnostics import Kind, Location
from xttir.dialects import tt, ttg, ttng
from xttir.dialects.layouts.placement import integer_attribute
from xttir.dialects.locations import location_of
from xttir.interp.tracing import Launch, handlers
from xttir.interp.tracing.agents import Agent
from xttir.interp.tracing.mbarriers import barrier_of, update

MOST = 8
"""Waits of a program that are ended."""


BARRIER_USERS = (ttng.WaitBarrierOp, ttng.ArriveBarrierOp, ttng.BarrierExpectOp)


class Somebody:
    """Arrives for the waits in a test program that would never end."""

    def __init__(self) -> None:
        handlers.load_all()
        self.waits: set[tuple[str, int, int]] = set()
        self._wait = handlers.HANDLERS[ttng.WaitBarrierOp]

    def verified(self, module: ModuleOp, launch: Launch) -> Report:
        """The verdict on a launch, all waits ended that can be."""
        handlers.HANDLERS[ttng.WaitBarrierOp] = self._arrive_and_wait
        try:
            report = verify_module(module, launch)
            for _ in range(MOST):
                stuck = {_place(f.locations[0]) for f in report.faults if f.kind is Kind.DEADLOCK}
                if stuck <= self.waits:
                    break
                self.waits |= stuck
                report = verify_module(module, launch)
            return report
        finally:
            handlers.HANDLERS[ttng.WaitBarrierOp] = self._wait

    def _arrive_and_wait(self, a: Agent, op: ttng.WaitBarrierOp, *args: Any) -> Any:
        predicate = None if op.pred is None else a.value(op.pred)
        if _place(location_of(op)) in self.waits and a.held(op, predicate):
            self._arrive(a, op)
        return self._wait(a, op, *args)

    def _arrive(self, a: Agent, op: ttng.WaitBarrierOp) -> None:
        m, b = a.tracer.mbarriers, barrier_of(a, op, a.value(op.alloc))
        phase = a.number(op, a.value(op.phase), "the phase of a barrier")
        index = b.index(a)
        if not m.live[index].all() or (m.phase[index] & 1 != phase & 1).any():
            return
        lanes = b.held(a, a.leader())
        address, cta = b.places(a, lanes)
        count, expect = m.pending[index].copy(), -m.tx[index]
        update(a, op, b, cta, count[:, None], expect[:, None])
        a.emit(ev.Arrive(a.ins(op), lanes, address, cta, count, expect))


def _place(location: Location) -> tuple[str, int, int]:
    return location.file, location.line, location.column


def initialise(module: ModuleOp, name: str) -> None:
    """Initialise at the beginning of a function what it uses as barriers and does not."""
    function = tt.function_named(module, name)
    assert function is not None
    block = function.body.blocks[0]
    done = {op.operands[0] for op in function.walk() if isinstance(op, ttng.InitBarrierOp)}
    late = [
        op
        for op in block.ops
        if isinstance(op, ttg.LocalAllocOp)
        and op.result not in done
        and not any(isinstance(use.operation, ttg.MemDescIndexOp) for use in op.result.uses)
        and any(
            isinstance(use.operation, BARRIER_USERS) and use.index == 0 for use in op.result.uses
        )
    ]
    for alloc in late:
        alloc.detach()
        first = block.first_op
        assert first is not None
        ones: dict[str, Any] = {"count": IntegerAttr(1, 32)}
        made: list[Operation] = [alloc]
        made.append(ttng.InitBarrierOp.create(operands=[alloc.result], properties=ones))
        if (integer_attribute(module, "ttg.num-ctas") or 1) > 1:
            made += [ttng.FenceMBarrierInitReleaseClusterOp.create(), _cluster_barrier()]
        made.append(ttg.BarrierOp.create(properties={"addrSpace": IntegerAttr(1, 32)}))
        block.insert_ops_before(made, first)


def _cluster_barrier() -> Operation:
    return ttng.ClusterBarrierOp.create(properties={"relaxed": IntegerAttr(0, 1)})
