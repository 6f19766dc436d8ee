"""Ops that pass data between threads through scratch memory of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects.locations import location_of

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent


def through_scratch(a: Agent, op: Operation) -> None:
    """The events of `op`, which has scratch memory (`allocation.offset`, `allocation.size`)."""
    raise Unsupported(f"the scratch memory of {op.name}", location_of(op))
