"""All barriers of a launch, and what blocked threads are told to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.interp.ptx.mbarrier_state import MBarriers
from xttir.interp.ptx.named_state import ClusterBarriers, NamedBarriers

if TYPE_CHECKING:
    from xttir.interp.ptx.actual_step import ActualStep
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group


class Barriers:
    """mbarriers, named barriers and cluster barriers."""

    def __init__(self, executor: Executor):
        g = executor.geometry
        lanes = g.ctas * g.threads
        alive = np.zeros(lanes, bool)
        self.alive = alive
        self.m = MBarriers(g.ctas, executor.layout.shared_bytes, lambda: executor.bump("mbarrier"))
        self.named = NamedBarriers(g.ctas, g.threads, alive, lambda: executor.bump("named"))
        self.cluster = ClusterBarriers(
            g.ctas // g.ranks, g.ranks * g.threads, alive, lambda: executor.bump("cluster")
        )

    def exited(self, lanes: np.ndarray) -> None:
        self.named.exited(lanes)
        self.cluster.exited(lanes)

    def complete_tx(
        self, step: ActualStep, address: np.ndarray, cta: np.ndarray, bytes_: np.ndarray
    ) -> None:
        """Bytes that asynchronous operations have brought; negative addresses: none."""
        index, (count,) = self._flat(step, address, cta, bytes_)
        if index.size:
            self.m.update(index, 0, -count, step.fault)

    def arrive_later(self, step: ActualStep, address: np.ndarray, cta: np.ndarray) -> None:
        """One arrival each, of cp.async.mbarrier.arrive and tcgen05.commit."""
        index, _ = self._flat(step, address, cta)
        if index.size:
            self.m.update(index, 1, 0, step.fault)

    def add_pending(self, step: ActualStep, address: np.ndarray, cta: np.ndarray) -> None:
        index, _ = self._flat(step, address, cta)
        self.m.check_live(index, step.fault)
        self.m.add_pending(index)

    def _flat(
        self, step: ActualStep, address: np.ndarray, cta: np.ndarray, *more: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        address, cta, *rest = np.broadcast_arrays(address, cta, *more)
        memory = step.executor.memory
        if memory.any_ended:
            memory.check_ended(np.where(address >= 0, cta, -1), step.report)
        index = self.m.place(address, cta, step.fault).reshape(-1)
        good = index >= 0
        flat = [np.asarray(r).reshape(-1) for r in rest]
        if good.all():
            return index, flat
        return index[good], [r[good] for r in flat]

    def _mbarrier(self, group: Group, item: Any) -> str:
        """The state of the barrier that the first lane waits for."""
        from xttir.interp.ptx.actual_step import ActualStep

        step = ActualStep(group.executor, group, item, np.zeros(1, np.int64))
        offset, block = step.shared(step.address(item.ins.src[0]) & 0xFFFFFFFF)
        slot = int(self.m.slot_of[int(offset[0]) >> 3])
        index = int(block[0]) * self.m.capacity + slot
        place = f"the mbarrier at {int(offset[0]):#x}"
        if slot < 0 or not self.m.live[index]:
            return f"{place}, which is not initialised"
        arrivals, bytes_ = int(self.m.pending[index]), int(self.m.tx[index])
        more = f" and {bytes_} bytes" if bytes_ else ""
        return f"{place}: its phase {int(self.m.phase[index])} lacks {arrivals} arrivals{more}"

    def explain(self, group: Group, item: Any) -> str:
        """What the lanes of a blocked group wait for and why it does not come; "" if not known."""
        name = "" if item is None or not hasattr(item, "ins") else item.ins.name
        lane = int(group.lanes[0])
        if name in ("barrier.sync", "barrier.red"):
            return self.named.explain(lane)
        if name == "barrier.cluster.wait":
            return self.cluster.explain(lane)
        if name in ("mbarrier.try_wait", "mbarrier.test_wait"):
            return self._mbarrier(group, item)
        return ""
