"""Calls of functions without a body, traps, and what only concerns registers' numbers."""

from __future__ import annotations

import numpy as np

from xttir.diagnostics import Kind
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import Symbol, Vec, meaning


@meaning("trap")
def trap(step: ActualStep) -> None:
    if step.maybe:
        step.assume(f"the trap at {step.place()} is not reached (that depends on data)")
    else:
        step.fault(Kind.ASSERT, "trap is reached")
    step.gone = True


@meaning("call")
def call(step: ActualStep) -> None:
    """vprintf prints nothing here; a failed assertion ends the thread."""
    target = step.ins.src[0]
    name = target.name if isinstance(target, Symbol) else ""
    if name == "vprintf":
        step.assume("printf prints nothing")
        _zero_result(step)
    elif name in ("__assertfail", "__assert_fail"):
        if step.maybe:
            step.assume(f"the assertion at {step.place()} holds (that depends on data)")
        else:
            step.fault(Kind.ASSERT, "an assertion fails")
        step.gone = True
    else:
        raise step.unsupported(f"call of {name or 'a function by address'}")


def _zero_result(step: ActualStep) -> None:
    """The return value, in a .param variable of four bytes."""
    for result in step.ins.dst:
        parts = result.parts if isinstance(result, Vec) else (result,)
        for part in parts:
            if isinstance(part, Symbol):
                address = step.group.symbol(part.name, 0).astype(np.int64)
                value = np.zeros(1, np.uint32)
                address = np.broadcast_to(address, (step.n,))
                step.memory.write("local", address, 4, 1, value, step.lanes)


@meaning("setmaxnreg", "stackrestore")
def no_effect(step: ActualStep) -> None:
    """How many registers a warp may use changes no value."""


@meaning("activemask")
def active_mask(step: ActualStep) -> None:
    """The lanes that are here: which ones is up to the hardware, not to be relied on."""
    from xttir.interp.ptx.warp import Warps

    step.put(step.ins.dst[0], Warps(step).ballot(np.ones(step.n, bool)))


@meaning("createpolicy")
def create_policy(step: ActualStep) -> None:
    """A cache policy: an opaque value."""
    step.put(step.ins.dst[0], np.zeros(1, np.uint64))
