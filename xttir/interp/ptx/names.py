"""What registers and addresses of a launch stand for, and how lanes are named in reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.analyses.events import Footprint, Mode, Space
from xttir.diagnostics import Kind, Unsupported
from xttir.frontends.launch_description import LaunchDescription
from xttir.interp.ptx.geometry import SHARED_BITS, Geometry
from xttir.interp.ptx.instruction import UNKNOWN
from xttir.interp.ptx.launch_setup import Contents, Layout
from xttir.interp.ptx.memory import LaunchMemory
from xttir.interp.ptx.regions import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_SIZE,
)

if TYPE_CHECKING:
    from xttir.interp.ptx.actual_step import ActualStep
    from xttir.interp.ptx.group import Group


class Names:
    """The part of an executor that does not change while it runs."""

    launch: LaunchDescription
    geometry: Geometry
    layout: Layout
    memory: LaunchMemory
    contents: Contents
    threads_per_cta: int
    tracing: bool
    clock: int

    def who(self, lanes: np.ndarray) -> str:
        """Lanes in words."""
        first = int(lanes[0])
        cta, tid = divmod(first, self.threads_per_cta)
        place = self.geometry.coordinates(cta)
        text = f"thread {tid} of block {place}"
        return text if lanes.size == 1 else f"{lanes.size} threads, first {text}"

    # What registers and addresses stand for -------------------------------------------------------

    def special(self, name: str, group: Group) -> Any:
        value = self.geometry.special(name, group.cta, group.tid)
        if value is not None:
            return value
        wide = name in ("clock64", "globaltimer")
        if name.startswith(("clock", "globaltimer")):
            self.clock += 1
            if self.tracing:
                return UNKNOWN
            high = name.endswith("_hi")
            return np.array([0 if high else self.clock], np.uint64 if wide else np.uint32)
        sizes = {
            "dynamic_smem_size": self.launch.dynamic_smem,
            "total_smem_size": self.layout.shared_bytes,
            "aggr_smem_size": self.layout.shared_bytes,
        }
        if name in sizes:
            return np.array([sizes[name]], np.uint32)
        if name in ("envreg1", "envreg2"):
            if not self.launch.cooperative:
                raise Unsupported(
                    f"special register %{name} (the grid's barrier) in a launch that is not "
                    "cooperative",
                    hint='the launch description needs `"cooperative": true`',
                )
            half = self.contents.workspace >> (32 if name == "envreg1" else 0) & 0xFFFFFFFF
            return np.array([half], np.uint32)
        if name in ("smid", "gridid", "pm0", "pm1", "pm2", "pm3", "current_graph_exec"):
            if self.tracing:
                return UNKNOWN
            return np.zeros(1, np.uint64 if name in ("gridid", "current_graph_exec") else np.uint32)
        raise Unsupported(f"special register %{name}")

    def symbol(self, name: str, offset: int, group: Group) -> Any:
        place = self.layout.places.get(name)
        if place is None:
            raise Unsupported(f"the address of {name}")
        space, at = place
        at += offset
        if space == "param":
            at += PARAM_WINDOW
        if space == "shared" and self.geometry.ranks > 1:
            rank = (group.rows_cta % self.geometry.ranks).astype(np.uint64)
            return np.uint64(at) + (rank << np.uint64(SHARED_BITS))
        return np.array([at], np.uint64)

    def shared_of_generic(self, address: np.ndarray, step: ActualStep) -> np.ndarray:
        """shared::cluster addresses of generic ones."""
        inside = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW_SIZE)
        if not inside.all():
            if (address < LOCAL_WINDOW).all():
                return address
            step.fault(Kind.UNDEFINED, "the address is not one of shared memory")
        return np.where(inside, address - SHARED_WINDOW, address & 0xFFFFFFFF)

    def read_map(self, step: ActualStep, address: np.ndarray) -> tuple[Any, bool]:
        """See `Step.read_map`."""
        first = int(address[0])
        if first >= GLOBAL_BASE:
            value = self.memory.load(Footprint(Space.GLOBAL, Mode.READ, address[:, None], 128))
            known = value if value is UNKNOWN else value[:, 0, :]
            return known, not self.contents.is_constant(first)
        index = (address - PARAM_WINDOW)[:, None] + np.arange(128)
        region = self.memory.param
        if index.min() < 0 or index.max() >= region.size:
            raise step.unsupported(f"a tensor map at {first:#x}")
        return region.data()[index], False


def ranges(lanes: np.ndarray) -> list[list[int]]:
    """Runs of neighbouring lanes: [[first, last], ..]."""
    breaks = np.flatnonzero(np.diff(lanes) != 1)
    starts = np.concatenate([[0], breaks + 1])
    ends = np.concatenate([breaks, [lanes.size - 1]])
    return [[int(lanes[a]), int(lanes[b])] for a, b in zip(starts, ends, strict=True)]
