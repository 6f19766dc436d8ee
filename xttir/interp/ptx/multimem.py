"""Accesses to multicast memory (`multimem`), seen from one device: one copy of what it stands for.

A multimem address names the same place on several devices; a store or reduction goes to all of
them, a load combines what they have. A launch runs on one, so that a store is a store, and what a
load combines is one value. PTX ISA 9.1, 9.7.9.14 to 9.7.9.16 and 9.7.9.25.4.
"""

from __future__ import annotations

from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.atomics import atomic
from xttir.interp.ptx.bulk import cp_async_bulk
from xttir.interp.ptx.instruction import meaning
from xttir.interp.ptx.load_store import load, store


def _one_copy(step: ActualStep) -> None:
    step.assume(
        "multimem addresses stand for one copy of their tensor: what other devices do to theirs, "
        "and what they do to this one, is not looked at"
    )


@meaning("multimem.ld_reduce")
def load_reduce(step: ActualStep) -> None:
    _one_copy(step)
    load(step)


@meaning("multimem.st")
def multimem_store(step: ActualStep) -> None:
    _one_copy(step)
    store(step)


@meaning("multimem.red")
def reduce(step: ActualStep) -> None:
    _one_copy(step)
    atomic(step)


@meaning("multimem.cp.async.bulk", "multimem.cp.reduce.async.bulk")
def copy(step: ActualStep) -> None:
    _one_copy(step)
    if step.ins.has("cp_mask"):
        raise step.unsupported("multimem.cp.async.bulk with a byte mask")
    cp_async_bulk(step)
