"""Who runs next, and when asynchronous operations are performed.

`Merged` runs everything that stands at the same place together and performs operations at issue:
what a trace is, and the schedule "first". `Interleaved` runs warps, and may change between them at
every event: at random, against the program, or as a witness file says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xttir.analyses.events import Event
from xttir.interp.ptx.step import Task

if TYPE_CHECKING:
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group


class Schedule:
    """See `Merged`, the default behaviour."""

    interleaves = False

    def start(self, executor: Executor, group: Group) -> None:
        """A batch of blocks begins."""
        executor.push(group)

    def pick(self, executor: Executor) -> Group | None:
        return executor.pop()

    def entered(self, executor: Executor, group: Group) -> Group | None:
        """A group is at the start of a block: it goes on, unless another one comes first."""
        queue = executor.queue
        if queue and queue[0] <= group.block.number:
            executor.push(group)
            return None
        return group

    def after(self, executor: Executor, group: Group) -> Group | None:
        """An instruction with an effect is done."""
        return group

    def parking(self, group: Group) -> Any:
        """Groups with the same key wait as one."""
        return (group.block.number, group.at, group.way)

    def happened(self, event: Event) -> None:
        pass

    def at_once(self, executor: Executor, task: Task) -> bool:
        return True

    def release(self, executor: Executor) -> bool:
        """Nothing can run: perform an operation that is in flight; False when there is none."""
        if not executor.tasks:
            return False
        task, step = executor.tasks[0]
        executor.perform(task, step)
        return True


class Merged(Schedule):
    """Everybody together, lowest block first; operations are performed when they are issued."""
