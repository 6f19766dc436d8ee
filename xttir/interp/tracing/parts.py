"""What engines touch of memory that several blocks hold: by the blocks that work on one operation.

A descriptor's elements are dealt to the blocks of a program in boxes, all alike; within its own box
each block does the same. Where a layout repeats elements over blocks, each has a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import TensorMemoryScalesEncodingAttr
from xttir.dialects.layouts.parameters import cga_of, shape_per_block
from xttir.dialects.layouts.to_linear import allocation_blocks, linear_layout, memory_shape
from xttir.dialects.ttg import MemDescType
from xttir.interp.physical import ROW_BYTES, ROWS
from xttir.interp.tracing.footprints import Pieces, copies, merged, placed, used
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

Units = tuple[tuple[int, ...], ...]
"""For each operation that is issued, the ranks of the blocks that work on it."""

Choose = Callable[[np.ndarray], np.ndarray]


def local(view: View, rank: int = 0) -> np.ndarray:
    """`Pattern.at` of the elements that a block holds, in their shape within the block."""
    memo = view.pattern.memo
    free = copies(view.ty)
    key = ("local", view.ty.encoding, rank & ~free)
    found = memo.get(key)
    if found is None:
        found = memo[key] = _local(view, rank & ~free, free)
    return found


def _local(view: View, rank: int, free: int) -> np.ndarray:
    at = view.pattern.at
    if view.space is Space.TENSOR:
        # The same cells in every block: those of the first one's elements.
        shape = view.ty.get_shape()
        inner = memory_shape(view.ty.encoding, shape)
        part = shape_per_block(cga_of(view.ty.encoding), inner)
        box = (*shape[: len(shape) - len(inner)], *part)
        return at[tuple(slice(size) for size in box)]
    mine = view.pattern.blocks & ~free == rank
    part = at[_box(mine)]
    inner = memory_shape(view.ty.encoding, at.shape)
    if part.shape[at.ndim - len(inner) :] != tuple(
        shape_per_block(cga_of(view.ty.encoding), inner)
    ):
        raise Unsupported("a view of memory that other blocks hold than its type says")
    return part


def _box(mine: np.ndarray) -> tuple[np.ndarray, ...]:
    """Indices of the elements that are `mine`, a box."""
    held = [
        np.flatnonzero(mine.any(axis=tuple(j for j in range(mine.ndim) if j != i)))
        for i in range(mine.ndim)
    ]
    box = np.ix_(*held)
    if not mine[box].all():
        raise Unsupported("memory whose elements are not dealt to blocks in boxes")
    return box


def dealt(view: View, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """`Pattern.at` of the elements that the type of a view in shared memory deals to a block, and
    the blocks that hold them: others where it is a slice of memory whose type deals the whole."""
    shape, free = view.ty.get_shape(), copies(view.ty)
    blocks = np.broadcast_to(allocation_blocks(view.ty.encoding, shape), shape)
    box = _box(blocks & ~free == rank & ~free)
    return view.pattern.at[box], view.pattern.blocks[box] & ~free | rank & free


def gathered(
    a: Agent,
    view: View,
    units: Units,
    mode: Mode,
    proxy: Proxy = Proxy.GENERIC,
    step: Hashable = "whole",
    choose: Choose | None = None,
) -> Footprint:
    """What each operation touches of `view`: `choose(local(...))` of each of its blocks. `step`
    tells choices apart."""

    def build() -> tuple[np.ndarray, np.ndarray]:
        rows, owners = [], []
        for ranks in units:
            parts = []
            for rank in ranks:
                at = local(view, rank)
                parts.append(_everywhere(view, at if choose is None else choose(at)))
            rows.append(np.concatenate(parts))
            owners.append(np.repeat(np.asarray(ranks), [p.size for p in parts]))
        return np.stack(rows), np.stack(owners)

    return built(a, view, mode, proxy, (units, step), build)


def built(
    a: Agent,
    view: View,
    mode: Mode,
    proxy: Proxy,
    step: Hashable,
    build: Callable[[], tuple[np.ndarray, np.ndarray]],
) -> Footprint:
    """The footprint with the places of `view` (see `Pattern`) that `build()` names, and the rank of
    the block that holds each, both (rows, elements). `step` tells them apart, and fixes them."""
    used(a, view)
    known = a.tracer.state.setdefault("built", {})
    short = (view.pattern, view.shift, id(view.ty), mode, step)
    made = known.get(short)
    if made is None:
        memo = view.pattern.memo
        key = ("built", view.ty.encoding, step, view.shift % 4)
        found: Pieces | None = memo.get(key)
        if found is None:
            at, owner = build()
            found = memo[key] = merged(at, owner if a.blocks > 1 else None, view)
        made = known[short] = placed(a, view, found, mode, proxy)
    return made


def block_copies(ty: MemDescType) -> int:
    """Bits of a block's rank that do not matter to which elements its memory holds."""
    shape = memory_shape(ty.encoding, ty.get_shape())
    bases = linear_layout(ty.encoding, shape).bases("block")
    return sum(1 << i for i, basis in enumerate(bases) if not any(basis))


def _everywhere(view: View, at: np.ndarray) -> np.ndarray:
    """Places of elements, flat; of scale factors, in all four quarters of the rows."""
    at = at.reshape(-1)
    if not isinstance(view.ty.encoding, TensorMemoryScalesEncodingAttr):
        return at
    quarters = np.arange(4) * (ROWS // 4 * ROW_BYTES)
    return (at[:, None] + quarters).reshape(-1)
