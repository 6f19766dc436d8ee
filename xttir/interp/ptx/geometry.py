"""Which thread a lane is: launch numbering, blocks of a cluster, and the special registers.

`lane = cta * threads + tid`. Blocks are numbered so that those of a cluster are neighbours, the
rank in the cluster running fastest. Rules: PTX ISA 9.1, chapter 10 (special registers).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Triple = tuple[int, int, int]

SHARED_BITS = 24
"""In the shared::cluster window the memory of rank r starts at r << 24."""


@dataclass(frozen=True)
class Geometry:
    """Sizes in x, y, z: of the grid in blocks, of a block in threads, of a cluster in blocks."""

    grid: Triple
    block: Triple
    cluster: Triple

    @cached_property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @cached_property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @cached_property
    def ranks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @cached_property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // 32)

    @cached_property
    def clusters(self) -> Triple:
        g, c = self.grid, self.cluster
        return (g[0] // c[0], g[1] // c[1], g[2] // c[2])

    def coordinates(self, cta: int) -> Triple:
        """The block (x, y, z) with this linear number."""
        number = np.array([cta])
        x, y, z = (int(self._triple("ctaid", k, number, number)[0]) for k in range(3))  # type: ignore[index]
        return x, y, z

    def special(self, name: str, cta: np.ndarray, tid: np.ndarray) -> np.ndarray | None:
        """Raw bits of a special register, (n,) or (1,); None when it is not one of these.

        `cta`, `tid`: int32 (n,). `laneid` and the like follow from the linear thread number.
        """
        base, _, axis = name.partition(".")
        if axis in ("x", "y", "z"):
            return self._triple(base, "xyz".index(axis), cta, tid)
        value = self._scalar(name, cta, tid)
        if value is None:
            return None
        if isinstance(value, int):
            value = np.array([value])
        return value.astype(np.uint32)

    def _triple(self, base: str, k: int, cta: np.ndarray, tid: np.ndarray) -> np.ndarray | None:
        sizes: dict[str, Triple] = {
            "ntid": self.block,
            "nctaid": self.grid,
            "nclusterid": self.clusters,
            "cluster_nctaid": self.cluster,
        }
        if base in sizes:
            return np.array([sizes[base][k]], np.uint32)
        if base == "tid":
            return _digit(tid, self.block, k)
        if base not in ("ctaid", "clusterid", "cluster_ctaid"):
            return None
        rank = _digit(cta % self.ranks, self.cluster, k)
        if base == "cluster_ctaid":
            return rank
        number = _digit(cta // self.ranks, self.clusters, k)
        if base == "clusterid":
            return number
        return number * np.uint32(self.cluster[k]) + rank

    def _scalar(self, name: str, cta: np.ndarray, tid: np.ndarray) -> np.ndarray | int | None:
        lane = tid & 31
        if name.startswith("lanemask_"):
            one = np.uint64(1) << lane.astype(np.uint64)
            full, below = np.uint64(0xFFFFFFFF), one - np.uint64(1)
            masks = {
                "eq": one,
                "lt": below,
                "le": below | one,
                "ge": full & ~below,
                "gt": full & ~(below | one),
            }
            return masks.get(name.removeprefix("lanemask_"))
        values: dict[str, np.ndarray | int] = {
            "laneid": lane,
            "warpid": tid >> 5,
            "nwarpid": self.warps,
            "cluster_ctarank": cta % self.ranks,
            "cluster_nctarank": self.ranks,
            "is_explicit_cluster": int(self.ranks > 1),
            "nsmid": 1,
        }
        return values.get(name)


def _digit(number: np.ndarray, sizes: Triple, k: int) -> np.ndarray:
    """Coordinate k of a linear number, x fastest."""
    if sizes[k] == 1:
        return np.zeros(1, np.uint32)
    below = int(np.prod(sizes[:k], dtype=np.int64))
    out = number // below if below > 1 else number
    above = int(np.prod(sizes[k + 1 :], dtype=np.int64))
    if above > 1:
        out = out % sizes[k]
    out = out.astype(np.uint32)
    if out.size > 1 and (out == out[0]).all():
        return out[:1]
    return out
