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
from xttir.analyses.build import Kernel
from xttir.analyses.schedules import settle


@dataclass
class Call:
    agent: int
    method: str
    args: tuple[Any, ...]
    more: dict[str, Any]
    line: int

    def __str__(self) -> str:
        words = [getattr(a, "name", str(a)) for a in self.args]
        words += [f"{k}={v}" for k, v in self.more.items()]
        return f"{self.agent}: {self.method}({', '.join(words)})"


class Pen:
    """Stands for `build.Agent`: every call is recorded for each of its agents."""

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
            for number in self._numbers:
                self._sketch.calls.append(Call(number, method, args, more, line))

        return record


@dataclass
class Sketch:
    kernel: Kernel
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
            if self.calls[later].agent == call.agent:
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
        elif call.method == "arrive":
            if more.get("expect"):
                more["expect"] = max(0, more["expect"] + 16 * by)
            else:
                more["count"] = max(1, more.get("count", 1) + by)
        elif call.method == "wait_group":
            args[0] = max(0, args[0] + by)
        else:
            return
        self.calls[index] = Call(call.agent, call.method, tuple(args), more, call.line)
        self.mutations.append(f"change {call} to {self.calls[index]}")

    # The kernel
    def build(self) -> ev.Trace:
        """The events in the order written, which need not be one that can run."""
        return self._kernel().trace()

    def settled(self) -> ev.Trace:
        """The trace of one schedule; stuck threads are in `blocked`."""
        lanes = [[cta * self.kernel.threads + t for t in tids] for tids, cta in self.groups]
        trace = self._kernel().trace(exits=False)
        for tids, cta in self.groups:
            trace.instructions.append(ev.Source("ret", ()))
            trace.events.append(
                ev.Exit(len(trace.instructions) - 1, self.kernel.agent(tids, cta).lanes)
            )
        return settle(trace, lanes)

    def _kernel(self) -> Kernel:
        base = self.kernel
        kernel = Kernel(
            base.threads, base.ctas, base.cluster, base.arch, base.name, base.shared_bytes
        )
        kernel.buffers = list(base.buffers)
        made: dict[tuple[int, str], int] = {}
        spinning: list[tuple[int, str]] = []
        for call in self.calls:
            tids, cta = self.groups[call.agent]
            agent = kernel.agent(tids, cta)
            ins = made.get((call.line, call.method))
            more = {**call.more, "ins": ins}
            if "observed" in more:
                spinning.append((len(kernel.events), more.pop("observed")))
            event = getattr(agent, call.method)(*call.args, **more)
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
