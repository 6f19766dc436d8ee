"""Ops with a predicate: what runs them only for the programs of the batch in which it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.interp.batch import as_condition, take
from xttir.interp.machine import Machine
from xttir.interp.positions import choose, remembered, where
from xttir.interp.taint import observe_branch

Held = bool | np.ndarray
"""Whether a predicate holds: for all programs alike, or bool[b]."""


def held(m: Machine, op: Operation, value: Any) -> Held:
    """The predicate `value` (None: there is none)."""
    if value is None:
        return True
    if type(value) is np.ndarray:
        return bool(value.item()) if value.size == 1 else _condition(value, value)
    return as_condition(observe_branch(m, op, value))


_condition = remembered(lambda flags, _: as_condition(flags))


def both(a: Held, b: Held) -> Held:
    """Where two predicates hold."""
    if a is True or b is True:
        return b if a is True else a
    if a is False or b is False:
        return False
    return _both(a, b)


_both = remembered(lambda a, b: as_condition(np.logical_and(a, b)))


def where_held(
    m: Machine, predicate: Held, args: Sequence[Any], run: Callable[[Sequence[Any]], None]
) -> None:
    """Call `run` with the operands of the programs for which `predicate` holds, and only those
    active; not at all if there are none."""
    if predicate is True:
        run(args)
    elif predicate is not False:
        for_programs(m, where(predicate), args, run)


def for_programs(
    m: Machine, rows: np.ndarray | None, args: Sequence[Any], run: Callable[[Sequence[Any]], None]
) -> None:
    """Call `run` with only the programs at positions `rows` of the active ones active (None: all of
    them), and their operands."""
    if rows is None:
        run(args)
        return
    before = m.pids
    m.pids = choose(before, rows)
    try:
        run([take(a, rows) for a in args])
    finally:
        m.pids = before
