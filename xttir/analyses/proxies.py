"""Which order two accesses of one place need, and which proxy fence on the way.

PTX ISA 9.1, 8.9.5 and 9.7.13: a generic write is seen by the async proxy only past a proxy fence;
what an asynchronous operation has written is seen by who has observed its completion. Each need
says whether shipped code depends on it (`Policy.ANY`) or only the text asks for it (`STRICT`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xttir.analyses.clocks import Levels
from xttir.analyses.events import Mode, Proxy, Space
from xttir.analyses.records import TENSOR_ENGINES, Nature, Record
from xttir.diagnostics import Kind, Policy

MAP = "map"
"""In place of a level: tensor map fences that name the map which is used."""


WARPS = "warps"
"""In place of a level: every warp of the warpgroup has waited for the wgmma."""


LETTER = "letter"
"""A level of its own only where fences pass values over barriers."""


@dataclass(frozen=True, slots=True)
class Need:
    """`level`: name of a table of `Levels`, `MAP` or `WARPS`. `why`: what is missing when it is
    not met."""

    level: str
    kind: Kind
    policy: Policy
    why: str


@cache
def needs(x: Nature, y: Nature, far: bool) -> tuple[Need, ...]:
    """What a pair that conflicts needs, x first; the order itself comes first. `far`: lanes of
    more than one block take part."""
    if x.space is Space.TENSOR:
        return (
            Need("tensor", Kind.RACE, Policy.ANY, "not ordered"),
            Need(
                "tensor_strict",
                Kind.RACE,
                Policy.STRICT,
                "ordered without tcgen05.fence::before_thread_sync and ::after_thread_sync",
            ),
        )
    done = x.engine or x.mode is Mode.READ
    level = ("used_or_tensor" if y.tensor else "used") if done else "visible"
    out = [Need(level, Kind.RACE, Policy.ANY, "not ordered")]
    if level == "visible":
        why = (
            "a fence and the atomic that it is for are in different threads, with a barrier between"
        )
        out.append(Need(LETTER, Kind.RACE, Policy.STRICT, why))
    shared = x.space is Space.SHARED
    fenced = "shared_fenced" if shared else "global_fenced"
    across = x.proxy is Proxy.GENERIC and y.proxy is Proxy.ASYNC
    if across and x.writes:
        why = "no proxy fence between the generic write and the asynchronous access"
        policy = Policy.STRICT if _fed_by_copies(x, y) else Policy.ANY
        out.append(Need(fenced, Kind.PROXY, policy, why))
        if shared:
            why = "the proxy fence is on the reader's side of the synchronisation"
            out.append(Need("writer_fenced", Kind.PROXY, Policy.STRICT, why))
    elif across and y.writes:
        why = "no proxy fence between the generic read and the asynchronous write"
        out.append(Need(fenced, Kind.PROXY, Policy.STRICT, why))
    elif far and not shared and x.writes and x.proxy is y.proxy is Proxy.ASYNC:
        why = "no proxy fence before another block's asynchronous access"
        out.append(Need(fenced, Kind.PROXY, Policy.ANY, why))
    if x.engine == "wgmma" and y.writes and y.engine != "wgmma":
        why = "not all warps of the warpgroup have waited for the wgmma"
        out.append(Need(WARPS, Kind.RACE, Policy.STRICT, why))
    if y.proxy is Proxy.TENSORMAP and x.writes and x.proxy is Proxy.GENERIC:
        why = "no tensor map fences (release, then acquire of this map) between write and use"
        out.append(Need(MAP, Kind.PROXY, Policy.ANY, why))
    return tuple(out)


def _fed_by_copies(x: Nature, y: Nature) -> bool:
    """Tensor-core operations over what `cp.async` has copied: CUTLASS's pipelines have no fence
    there for wgmma and tcgen05, and an H200 showed no stale operand."""
    return x.engine == "cp.async" and y.engine.startswith(("wgmma", "tcgen05"))


def table(levels: Levels, name: str) -> int:
    """Index of a level by name."""
    return getattr(levels, "used" if name == "used_or_tensor" else name)


def in_order(x: Record, y: Record) -> Policy | None:
    """Whether the hardware runs two tcgen05 operations in the order of their issue, and who says
    so: `ANY`, the text; `STRICT`, only shipped code relies on it. PTX ISA 9.7.16.6.2."""
    a, b = x.nature.engine, y.nature.engine
    if a not in TENSOR_ENGINES or b not in TENSOR_ENGINES or x.group != y.group:
        return None
    pair = (a.removeprefix("tcgen05."), b.removeprefix("tcgen05."))
    if pair == ("mma", "mma"):
        return Policy.ANY if x.pipeline is not None and x.pipeline == y.pipeline else None
    if pair in (("cp", "mma"), ("shift", "mma"), ("mma", "shift"), ("shift", "cp")):
        return Policy.ANY
    return Policy.STRICT if pair == ("mma", "cp") else None
