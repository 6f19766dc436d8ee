"""Events of tensor core products and of tensor memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from xttir.diagnostics import Kind

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent
    from xttir.interp.tracing.values import Pending


def used_in_flight(a: Agent, op: Operation, value: Pending) -> None:
    """`op` uses a tensor that a product in flight is writing."""
    a.fault(op, Kind.RACE, "uses the result of a product that was not waited for")
