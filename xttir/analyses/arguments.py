"""Arguments that a launch leaves open, where the events of a module depend on them.

Values are tried that make loops go round more and more often, all open arguments alike, until the
traces differ enough; the verdict speaks for these, and says so. Where the schedule repeats itself
the rest follows (`analyses.trips`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp, i1

from xttir.analyses.events import Trace
from xttir.analyses.trips.growth import deciding_arguments
from xttir.analyses.trips.prove import every_trip, name_of
from xttir.diagnostics import InputError, Unsupported
from xttir.dialects import tt
from xttir.interp.tracing import Launch, trace_module

VALUES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 1024)
"""What an open argument is given."""

ENOUGH = 6
"""Launches whose traces differ in length."""

MOST_EVENTS = 20_000
"""Of all traces together."""

SECONDS = 20.0
"""For each open argument, after which no other launch is tried for it."""


def open_arguments(module: ModuleOp, launch: Launch) -> list[int]:
    """Integer parameters, by index, that events depend on and the launch does not give."""
    kernel = tt.function_named(module, launch.kernel)
    if kernel is None or not kernel.body.blocks:
        return []
    missing = {
        n
        for n, a in enumerate(kernel.body.blocks[0].args)
        if n not in launch.arguments and isinstance(a.type, IntegerType | IndexType)
    }
    if not missing:
        return []
    return [n for n in deciding_arguments(module, launch.kernel) if n in missing]


def is_flag(module: ModuleOp, launch: Launch, number: int) -> bool:
    """Whether a parameter is true or false."""
    kernel = tt.function_named(module, launch.kernel)
    assert kernel is not None
    return kernel.body.blocks[0].args[number].type == i1


def representative(
    module: ModuleOp, launch: Launch, missing: list[int]
) -> Iterator[tuple[Launch, int, list[Trace]]]:
    """(launch, value, its traces) with a value for the `missing` arguments; those whose traces are
    as long as those of one before are left out. Raises `Unsupported` if none can be traced."""
    lengths: set[tuple[int, ...]] = set()
    total, last = 0, None
    began = time.monotonic()
    for value in VALUES:
        given = replace(launch, arguments={**launch.arguments, **dict.fromkeys(missing, value)})
        try:
            traces = trace_module(module, given)
        except (Unsupported, InputError) as error:
            last = error
            continue
        length = tuple(sorted(len(t.events) for t in traces))
        total += sum(length)
        if length not in lengths:
            lengths.add(length)
            yield given, value, traces
        late = time.monotonic() - began > SECONDS
        if len(lengths) >= ENOUGH or total > MOST_EVENTS or late:
            break
    if not lengths and last is not None:
        raise last


def said(module: ModuleOp, launch: Launch, missing: list[int], values: list[int]) -> list[str]:
    """What the verdict assumes of arguments that were not given, `launch` being the last tried."""
    kernel = tt.function_named(module, launch.kernel)
    assert kernel is not None
    names = ", ".join(name_of(kernel, n) for n in missing)
    tried = ", ".join(map(str, values))
    out = [f"values of what was not given ({names}): {tried}"]
    for number in missing:
        found = every_trip(module, launch, number, SECONDS)
        if not found.why:
            out.append(str(found))
    return out
