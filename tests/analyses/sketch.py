"""Programs as lists of calls that can be changed before they are made into traces.

A sketch records calls of `build.Agent` methods. A mutation deletes a call, exchanges two of one
agent, or changes a parity, a count, a byte count, a barrier id; then `build` makes the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.build import Agent, Kernel
from xttir.analyses.schedules import settle
from xttir.diagnostics import Location


@dataclass
class Call:
    agents: tuple[int, ...]
    method: str
    args: tuple[Any, ...]
    more: dict[str, Any]
    line: int

    def __str__(self) -> str:
        words = [getattr(a, "name", str(a)) for a in self.args]
        words += [f"{k}={v}" for k, v in self.more.items()]
        who = ",".join(map(str, self.agents))
        return f"{who}: {self.method}({', '.join(words)})"


class Pen:
    """Stands for `build.Agent`: every call is recorded for each of its agents, a warp barrier for
    all of them together."""

    def __init__(self, sketch: Sketch, numbers: list[int]):
        self._sketch, self._numbers = sketch, numbers

    @property
    def mask(self) -> int:
        """The lanes of the agents in their warp, of blocks of one warp."""
        groups = self._sketch.groups
        return sum(1 << t for n in self._numbers for t in groups[n][0])

    def __getattr__(self, method: str):
        def record(*args: Any, **more: Any) -> None:
            line = len(self._sketch.calls)
            together = method == "warp_sync"
            for agents in [tuple(self._numbers)] if together else [(n,) for n in self._numbers]:
                self._sketch.calls.append(Call(agents, method, args, more, line))

        return record


@dataclass
class Sketch:
    kernel: Kernel
    warps: bool = False
    """Each thread of an agent stands for the first of a warp, whose others only come to barriers.
    Threads that named barriers count must be whole warps."""
    groups: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    """Threads of an agent, and its block."""
    calls: list[Call] = field(default_factory=list)
    mutations: list[str] = field(default_factory=list)

    def agent(self, tids: int | Iterable[int], cta: int = 0) -> Pen:
        group = ((tids,) if isinstance(tids, int) else tuple(tids), cta)
        if group not in self.groups:
            self.groups.append(group)
        return Pen(self, [self.groups.index(group)])

    def agents(self, tids: Iterable[int], cta: int = 0) -> Pen:
        """Threads that do the same, each on its own."""
        return Pen(self, [n for t in tids for n in self.agent(t, cta)._numbers])

    def everybody(self) -> Pen:
        """All agents made so far."""
        return Pen(self, list(range(len(self.groups))))

    # Mutations
    def delete(self, index: int) -> None:
        self.mutations.append(f"delete {self.calls[index]}")
        del self.calls[index]

    def swap(self, index: int) -> None:
        """Exchange a call with the next one of its agent."""
        call = self.calls[index]
        for later in range(index + 1, len(self.calls)):
            if set(self.calls[later].agents) & set(call.agents):
                self.mutations.append(f"swap {call} and {self.calls[later]}")
                self.calls[index], self.calls[later] = self.calls[later], call
                return

    def repeat(self, index: int) -> None:
        self.mutations.append(f"repeat {self.calls[index]}")
        self.calls.insert(index, self.calls[index])

    def change(self, index: int, by: int) -> None:
        """Change the number in a call, where it has one, by `by` (+1 or -1)."""
        call = self.calls[index]
        args, more = list(call.args), dict(call.more)
        if call.method == "wait":
            args[1] ^= 1
        elif call.method in ("init", "sync") and len(args) > 1:
            args[1] = max(0 if call.method == "sync" else 1, args[1] + by)
        elif call.method in ("expect_tx", "complete_tx"):
            args[1] = max(16, args[1] + 16 * by)
        elif call.method == "arrive" and more.get("by", "thread") == "thread":
            if more.get("expect"):
                more["expect"] = max(0, more["expect"] + 16 * by)
            else:
                more["count"] = max(1, more.get("count", 1) + by)
        elif call.method == "wait_group":
            args[0] = max(0, args[0] + by)
        else:
            return
        self.calls[index] = Call(call.agents, call.method, tuple(args), more, call.line)
        self.mutations.append(f"change {call} to {self.calls[index]}")

    # The kernel
    def build(self) -> ev.Trace:
        """The events in the order written, which need not be one that can run."""
        return self._kernel().trace()

    def settled(self) -> ev.Trace:
        """The trace of one schedule; stuck threads are in `blocked`."""
        kernel = self._kernel()
        trace = kernel.trace(exits=False)
        trace.instructions.append(ev.Source("ret", (Location("built.ptx", 999),)))
        for number in range(len(self.groups)):
            lanes = np.array(self.lanes(number), np.int32)
            trace.events.append(ev.Exit(len(trace.instructions) - 1, lanes))
        return settle(trace, [self.lanes(n) for n in range(len(self.groups))])

    def lanes(self, agent: int, all_: bool = True) -> list[int]:
        """Of an agent, in launch numbering."""
        tids, cta = self.groups[agent]
        width = 32 if self.warps else 1
        first = [width * (cta * self.kernel.threads + t) for t in tids]
        return [f + i for f in first for i in range(width if all_ else 1)]

    @property
    def together(self) -> list[list[int]] | None:
        """Lanes that the explorer may step together: those of a warp."""
        if not self.warps:
            return None
        return [
            lanes[i : i + 32]
            for lanes in map(self.lanes, range(len(self.groups)))
            for i in range(0, len(lanes), 32)
        ]

    def _kernel(self) -> Kernel:
        base = self.kernel
        width = 32 if self.warps else 1
        kernel = Kernel(
            base.threads * width, base.ctas, base.cluster, base.arch, base.name, base.shared_bytes
        )
        kernel.buffers = list(base.buffers)
        made: dict[tuple[int, str], int] = {}
        spinning: list[tuple[int, str]] = []
        for call in self.calls:
            everyone = call.method in ("sync", "warp_sync", "cluster_arrive", "cluster_wait")
            lanes = [lane for a in call.agents for lane in self.lanes(a, everyone)]
            agent = Agent(kernel, np.array(sorted(lanes), np.int32))
            args = list(call.args)
            if call.method == "sync" and len(args) > 1:
                args[1] *= width
            more = {**call.more, "ins": made.get((call.line, call.method))}
            if "observed" in more:
                spinning.append((len(kernel.events), more.pop("observed")))
            event = getattr(agent, call.method)(*args, **more)
            made[call.line, call.method] = event.ins
        for index, name in spinning:
            self._observe(kernel, index, name)
        return kernel

    @staticmethod
    def _observe(kernel: Kernel, index: int, name: str) -> None:
        """The spinning read sees the strong write of that name; where there is none, itself: that
        is, it never ends."""
        event = kernel.events[index]
        assert isinstance(event, ev.Access)
        writes = [
            i
            for i, e in enumerate(kernel.events)
            if isinstance(e, ev.Access)
            and e.sem is not ev.Sem.WEAK
            and kernel.sources[e.ins].text == f"write {name}"
        ]
        event.observed = np.full(len(event.lanes), writes[0] if writes else index, np.int32)

    def __str__(self) -> str:
        head = [f"{i}: threads {t} of block {c}" for i, (t, c) in enumerate(self.groups)]
        return "\n".join([*head, *map(str, self.calls), "mutations:", *self.mutations])
