"""Time limits that hold inside of long computations on terms.

Whatever makes terms or formulas calls `check` now and then; past the end of the innermost `until`
it raises `OutOfTime`. z3 and the interpreter keep to the same ends by their own means.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY = 256
"""Calls of `check` between two looks at the clock."""

_ends: list[float] = [math.inf]
_calls = 0


OUT_OF_TIME = "the time is over (--timeout)"


class OutOfTime(Exception):
    """The time that something was given is over."""


@contextmanager
def until(end: float) -> Iterator[None]:
    """What runs inside has until `end` (of `time.monotonic`), or an earlier end around it."""
    _ends.append(min(end, _ends[-1]))
    try:
        yield
    finally:
        _ends.pop()


def left() -> float:
    """Seconds until the innermost end, at least 0."""
    return max(0.0, _ends[-1] - time.monotonic())


def check() -> None:
    """Raise `OutOfTime` when the time is over. Cheap enough for every term that is made."""
    global _calls
    _calls += 1
    if _calls % _EVERY == 0:
        check_now()


def check_now() -> None:
    """The same, looking at the clock."""
    if time.monotonic() > _ends[-1]:
        raise OutOfTime
