"""Time limits that hold inside of long computations on terms.

Whatever makes terms or formulas calls `check` now and then; past the end of the innermost `until`
it raises `OutOfTime`. z3 and the interpreter keep to the same ends by their own means.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

OUT_OF_TIME = "the time is over (--timeout)"

_EVERY = 256
"""Calls of `check` between two looks at the clock."""

_PATIENCE = 8.0
"""Seconds that may pass for one of CPU time."""

_clock = time.monotonic
_began = (0.0, 0.0)
"""When `cpu_time` was entered, on both clocks."""

_ends: list[float] = [math.inf]
_calls = 0


class OutOfTime(Exception):
    """The time that something was given is over."""


def now() -> float:
    """Seconds on the clock that limits are kept by."""
    return _clock()


@contextmanager
def until(end: float) -> Iterator[None]:
    """What runs inside has until `end` (of `now`), or an earlier end around it."""
    _ends.append(min(end, _ends[-1]))
    try:
        yield
    finally:
        _ends.pop()


@contextmanager
def cpu_time() -> Iterator[None]:
    """Limits inside are kept by CPU time: for tables that shall not depend on other processes."""
    global _clock, _began
    _clock = time.process_time
    _began = time.monotonic(), time.process_time()
    try:
        yield
    finally:
        _clock = time.monotonic


def left() -> float:
    """Seconds until the innermost end, at least 0."""
    return max(0.0, _ends[-1] - now())


def solver_milliseconds(share: float = 1.0) -> int:
    """`share` of the time left, for a solver that looks at the wall clock."""
    patience = 1.0
    if _clock is time.process_time:
        # Other processes slow this one down as much as they have until now.
        wall, cpu = time.monotonic() - _began[0], time.process_time() - _began[1]
        patience = _PATIENCE if share == 1 else min(_PATIENCE, max(1.0, wall / (cpu + 0.01)))
    return max(1, int(min(left(), 1e6) * share * patience * 1000))


def check() -> None:
    """Raise `OutOfTime` when the time is over. Cheap enough for every term that is made."""
    global _calls
    _calls += 1
    if _calls % _EVERY == 0:
        check_now()


def check_now() -> None:
    """The same, looking at the clock."""
    if now() > _ends[-1]:
        raise OutOfTime
