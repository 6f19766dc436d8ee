"""Tensor maps that fences name: an acquire makes one object of 128 bytes usable, no other.

PTX ISA 9.1, 9.7.13.4: fence.proxy.tensormap::generic.acquire takes the address of the map. Maps
are numbered by the addresses of the cluster at hand; other clusters with the same events name
theirs in the same place, so that their addresses get the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.classes import Cast
from xttir.analyses.events import Proxy, Sem
from xttir.analyses.project import Blocks, View


class Maps:
    """`count` of maps; `numbers`: by address, those of the maps it may stand for (more than one
    where clusters name one map in different places)."""

    def __init__(self, blocks: Blocks):
        self.numbers: dict[int, set[int]] = {}
        self._own: dict[int, int] = {}
        """By address, for the cluster at hand."""
        size = blocks.lanes
        for view in blocks.views:
            event = view.event
            if not isinstance(event, ev.ProxyFence) or event.address is None:
                continue
            if event.proxy is not Proxy.TENSORMAP or event.sem is Sem.RELEASE:
                continue
            address = event.address
            for own in np.unique(view.rows(address)).tolist():
                number = self._own.setdefault(own, len(self._own))
                self.numbers.setdefault(own, set()).add(number)
            if address.shape[0] > 1 and len(view.lanes) < len(event.lanes):
                self._others(view, address, size, blocks.base)

    def _others(self, view: View, address: np.ndarray, size: int, base: int) -> None:
        """Addresses that other clusters name where this one names its own."""
        inside = (view.event.lanes - base) % size
        mine = np.minimum(np.searchsorted(view.lanes, inside), len(view.lanes) - 1)
        alike = view.lanes[mine] == inside
        pairs = np.stack((view.rows(address)[mine[alike]], address[alike]))
        for own, other in np.unique(pairs, axis=1).T.tolist():
            self.numbers.setdefault(other, set()).add(self._own[own])

    @property
    def count(self) -> int:
        return len(self._own)

    def named(
        self, view: View, event: ev.ProxyFence, cast: Cast
    ) -> Iterator[tuple[int, np.ndarray]]:
        """(number of a map, reps whose lanes all name it). Without an address: every map."""
        if event.address is None:
            for number in range(self.count):
                yield number, cast.reps
            return
        address = np.broadcast_to(view.rows(event.address), view.lanes.shape)
        for own in np.unique(address).tolist():
            others = np.unique(cast.actor[address != own])
            actors = np.setdiff1d(np.arange(len(cast.first)), others)
            if len(actors):
                yield self._own[own], np.unique(np.append(cast.first[actors], cast.second[actors]))
