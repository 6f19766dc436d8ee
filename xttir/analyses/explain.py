"""What a verified program does, for a reader: its roles, its barriers and what completes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.happens_before import Order
from xttir.analyses.wording import Words


@dataclass(slots=True)
class Role:
    """Threads that do the same: who, and the first and last line of their events."""

    who: str
    events: int
    first: int
    last: int
    does: str


@dataclass(slots=True)
class BarrierUse:
    """An mbarrier: phases completed, lines that update it, lines that wait."""

    where: str
    count: int
    phases: int
    updates: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Explanation:
    clusters: int
    roles: list[Role]
    barriers: list[BarrierUse]
    named: list[str]

    def paragraphs(self) -> Iterator[str]:
        lines = [f"roles of each cluster ({self.clusters} alike):"]
        for r in self.roles:
            lines.append(f"  {r.who}: lines {r.first} to {r.last}, {r.events} events: {r.does}")
        yield "\n".join(lines)
        for b in self.barriers:
            lines = [f"{b.where}: {b.phases} phases complete, {b.count} arrivals each"]
            lines += [f"  updated by {u}" for u in b.updates]
            lines += [f"  waited for by {w}" for w in b.waits] or ["  waited for by nobody"]
            yield "\n".join(lines)
        if self.named:
            yield "\n".join(self.named)


def explained(order: Order, clusters: int) -> Explanation:
    """Roles and barriers of a pass."""
    words = Words(order.blocks.trace)
    return Explanation(
        clusters, _roles(order, words), _barriers(order, words), _named(order, words)
    )


def _roles(order: Order, words: Words) -> list[Role]:
    """Classes with the same lines joined across warps."""
    blocks = order.blocks
    found: dict[int, list[int]] = {}
    for at, view in enumerate(blocks.views):
        for c in order.classes.cast(view).classes.tolist():
            found.setdefault(c, []).append(at)
    groups: dict[tuple[int, ...], list[int]] = {}
    for c, ats in found.items():
        key = tuple(blocks.views[at].event.ins for at in ats)
        groups.setdefault(key, []).append(c)
    out = []
    for key, members in groups.items():
        lanes = np.unique(np.concatenate([order.classes.members[c] for c in members]))
        lines = [order.blocks.trace.line(ins) for ins in set(key)]
        kinds: dict[str, int] = {}
        for at in found[members[0]]:
            name = _kind(blocks.views[at].event)
            if name:
                kinds[name] = kinds.get(name, 0) + 1
        does = ", ".join(f"{n} {k}" for k, n in kinds.items()) or "nothing that orders"
        who = words.group(lanes + blocks.base)
        out.append(Role(who, len(key), min(lines), max(lines), does))
    return out


def _kind(event: ev.Event) -> str:
    match event:
        case ev.AsyncOp():
            return event.engine
        case ev.Arrive():
            return "arrive" if event.by == "thread" else f"{event.by} arrive"
        case ev.Wait():
            return "peek" if event.peek else "wait"
        case ev.NamedBarrier():
            return f"bar.{event.kind}"
        case _:
            return ""


def _barriers(order: Order, words: Words) -> list[BarrierUse]:
    out = []
    for b in order.replayed.barriers:
        where = f"mbarrier at shared {b.address}"
        if order.blocks.count > 1:
            where += f" of block {b.cta} of its cluster"
        use = BarrierUse(where, b.count, b.phase)
        for what, ways in (("updates", use.updates), ("waits", use.waits)):
            seen: dict[int, int] = {}
            for phase in b.phases:
                for touch in phase.touches if what == "updates" else phase.waits:
                    ins = order.blocks.views[touch.view].event.ins
                    seen[ins] = seen.get(ins, 0) + 1
            for ins, times in seen.items():
                line = order.blocks.trace.line(ins)
                ways.append(f"{words.operation(ins)} at line {line} ({times} times)")
        out.append(use)
    return out


def _named(order: Order, words: Words) -> list[str]:
    uses: dict[tuple[int, int], list[int]] = {}
    for g in order.met.generations:
        lines = {order.blocks.trace.line(order.blocks.views[p.view].event.ins) for p in g.parts}
        uses.setdefault((g.cta, g.id), []).extend(sorted(lines))
    out = []
    for (cta, id_), lines in uses.items():
        count = sum(1 for g in order.met.generations if (g.cta, g.id) == (cta, id_))
        where = f"barrier {id_}" + (f" of block {cta}" if order.blocks.count > 1 else "")
        out.append(f"{where}: {count} generations, lines {', '.join(map(str, sorted(set(lines))))}")
    return out
