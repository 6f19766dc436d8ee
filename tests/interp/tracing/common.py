"""Modules of a few ops for tests of traces, and what becomes of them."""

from __future__ import annotations

import re

from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Fault, Policy
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch, trace_module
from xttir.interp.tracing.launch import Number

HEAD = """
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#one = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#plain1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
"""  # noqa: E501


def module(
    body: str,
    parameters: str = "",
    *,
    warps: int = 4,
    total: int = 8,
    placed: bool = True,
    others: str = "",
) -> str:
    """A module with the kernel @k. `placed`: shared memory has been allocated. `others`: functions
    beside it."""
    shared = '"ttg.shared" = 65536 : i32, ' if placed else ""
    return f"""{HEAD}
module attributes {{{shared}"ttg.num-warps" = {warps} : i32, "ttg.num-ctas" = 1 : i32,
                   ttg.target = "cuda:90", "ttg.total-num-warps" = {total} : i32,
                   "ttg.threads-per-warp" = 32 : i32}} {{
tt.func public @k({parameters}) {{
{body}
  tt.return
}}
{others}
}}"""


def faults(text: str, arguments: dict[int, Number] | None = None) -> list[Fault]:
    """Those of every schedule that are not of the letter only."""
    found: list[Fault] = []
    for trace in trace_module(
        parse_module(text, "k.mlir"), Launch("k", (1, 1, 1), arguments or {})
    ):
        report = verify_trace(trace)
        assert not report.unknown
        found += [f for f in report.faults if f.policy is not Policy.STRICT]
    return found


def lines_of(text: str, *parts: str) -> set[int]:
    """Numbers of the lines that contain one of `parts`."""
    return {n for n, line in enumerate(text.split("\n"), 1) if any(p in line for p in parts)}


def races(text: str, arguments: dict[int, Number] | None = None) -> set[frozenset[int]]:
    """Pairs of lines that race; nothing else may be at fault."""
    found = faults(text, arguments)
    assert {str(f.kind) for f in found} <= {"race"}, found
    return {frozenset(place.line for place in f.locations) for f in found}


def without(text: str, part: str, which: int = 0) -> str:
    """`text` without the `which`-th line that contains `part`, which becomes a comment."""
    places = [m.start() for m in re.finditer(rf"^.*{re.escape(part)}.*$", text, re.M)]
    at = places[which]
    return text[:at] + "//" + text[at:]


def pair(text: str, first: str, second: str) -> frozenset[int]:
    """The only line that contains `first`, and the only one that contains `second`."""
    (a,), (b,) = lines_of(text, first), lines_of(text, second)
    return frozenset((a, b))
