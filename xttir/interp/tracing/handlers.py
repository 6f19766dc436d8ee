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

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent  # noqa: F401

Handler = Callable[..., Any]
_H = TypeVar("_H", bound=Handler)

HANDLERS: dict[type[Operation], Handler] = {}
QUIET: set[type[Operation]] = set()
"""Ops whose handlers emit nothing and wait for nothing: they may stand where it is not known
whether they are executed."""


def events(*ops: type[Operation], quiet: bool = False) -> Callable[[_H], _H]:
    """Registers the handler of `ops`. `quiet`: it only computes its result."""

    def register(handler: _H) -> _H:
        for op in ops:
            HANDLERS[op] = handler
            if quiet:
                QUIET.add(op)
        return handler

    return register


def load_all() -> None:
    """Import every module of handlers."""
    from xttir.interp.tracing import scratch, ttg_memory, ttg_sync, ttng_mma, ttng_sync, ttng_tma

    del scratch, ttg_memory, ttg_sync, ttng_mma, ttng_sync, ttng_tma
