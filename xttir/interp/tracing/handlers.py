"""Which op gives which events: a table that the modules of events fill.

    @events(ttg.LocalLoadOp)
    def local_load(a: Agent, op: ttg.LocalLoadOp, view: View) -> Any: ...

A handler is called with the agent that executes the op, the op, and the values of its operands in
order. It emits events, may wait, and returns the value of the op's result (a tuple of values for
several), or None for `UNKNOWN` ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

from xttir.dialects import nvvm, ttg

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent  # noqa: F401

VARY = (
    ttg.WarpIdOp,
    *(op for op in nvvm.NVVM.operations if op.name.startswith("nvvm.read.ptx.sreg.")),
)
"""Ops whose results differ between threads."""

Handler = Callable[..., Any]
_H = TypeVar("_H", bound=Handler)

HANDLERS: dict[type[Operation], Handler] = {}
QUIET: set[type[Operation]] = set()
"""Ops whose handlers emit nothing and wait for nothing: they may stand where it is not known
whether they are executed."""


IN_FLIGHT: set[type[Operation]] = set()
"""Ops that may be given what an operation in flight is still writing."""


def events(
    *ops: type[Operation], quiet: bool = False, in_flight: bool = False
) -> Callable[[_H], _H]:
    """Registers the handler of `ops`. `quiet`: it only computes its result. `in_flight`: it
    takes `Pending` operands, and sees to it that they may be used."""

    def register(handler: _H) -> _H:
        for op in ops:
            HANDLERS[op] = handler
            if quiet:
                QUIET.add(op)
            if in_flight:
                IN_FLIGHT.add(op)
        return handler

    return register


def load_all() -> None:
    """Import every module of handlers."""
    from xttir.interp.tracing import (
        scratch,
        tensor_memory,
        ttg_memory,
        ttg_sync,
        ttng_clusters,
        ttng_mma,
        ttng_sync,
        ttng_tcgen05,
        ttng_tma,
    )

    del scratch, ttg_memory, ttg_sync
    del tensor_memory, ttng_clusters, ttng_mma, ttng_sync, ttng_tcgen05, ttng_tma
