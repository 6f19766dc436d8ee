"""Which bytes the threads of an agent touch: layouts of registers met with patterns of memory.

A tensor's encoding says which elements each thread holds, a descriptor's pattern where each element
lies. Both are linear over bits, so that what a thread touches falls into runs of neighbouring bytes
that are alike in all threads; they are found once for each pair and only moved afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from xttir.analyses.events import Footprint, Mode, Proxy, Space
from xttir.diagnostics import Kind, Unsupported
from xttir.dialects.layouts.encodings import (
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.to_linear import flat_element_of, linear_layout, memory_shape
from xttir.dialects.ttg import MemDescType
from xttir.interp.tracing.values import View

if TYPE_CHECKING:
    from xttir.interp.tracing.agents import Agent

CELL = 4
"""Bytes of a cell of tensor memory."""

_BLOCK_BITS = 40
"""Places are sorted with the block that holds them above this many bits of address."""

Pieces = tuple[np.ndarray, int, np.ndarray | None]
"""Starts int64 (rows, k) (negative: none), size of each, and the rank of the block that holds each
piece, int32 (rows, k), or None where it is the toucher's own. Bytes; cells in tensor memory."""


def footprint(
    a: Agent,
    ty: TensorType,
    view: View,
    mode: Mode,
    proxy: Proxy = Proxy.GENERIC,
    *,
    once: bool = False,
    may: bool = False,
) -> Footprint:
    """What each thread of `a` (rows in order of `a.lanes`) touches to load a tensor of type `ty`
    from `view`, or to store it there, every thread the elements that it holds.

    `once`: of threads of a block that hold copies of an element only the first touches it. A tensor
    without a layout may be held by anybody: then threads of every warp touch all.
    """
    if isinstance(ty.encoding, NoneAttr):
        return _by_anybody(a, whole(a, view, mode, proxy, may=may), 2 * a.warps if once else 1)
    used(a, view)
    # Hashing a type costs more than all the rest: types of a module live as long as its trace.
    known = a.tracer.state.setdefault("footprints", {})
    short = (view.pattern, view.shift, id(view.ty), id(ty), a.warps, mode, proxy, once, may)
    made = known.get(short)
    if made is None:
        memo = view.pattern.memo
        key = ("threads", ty, view.ty.encoding, a.warps, a.blocks, once, view.shift % CELL)
        found = memo.get(key)
        if found is None:
            found = memo[key] = _by_thread(a, ty, view, once)
        made = known[short] = placed(a, view, found, mode, proxy, may)
    return made


def touched(a: Agent, ty: TensorType, view: View, mode: Mode, *, since: int) -> Footprint:
    """`footprint`, and where the access may be made by matrices (ldmatrix, stmatrix; from
    capability `since` on), by a neighbour in the warp, too.

    These instructions take rows of 16 bytes through other lanes than the holders of the elements:
    what only the holder has waited for is not there for them. Every order among a warp's lanes is
    one of them all, so that one lane more stands for any.
    """
    own = footprint(a, ty, view, mode)
    if a.tracer.arch < since or not _by_matrices(a, ty, view):
        return own
    known = a.tracer.state.setdefault("neighbours", {})
    made = known.get(id(own))
    if made is None:
        shape = own.starts.shape

        def doubled(x: np.ndarray) -> np.ndarray:
            x = np.broadcast_to(x, shape)
            turned = np.roll(x.reshape(-1, 32, shape[1]), 1, axis=1).reshape(shape)
            return np.concatenate([x, turned], axis=1)

        cta = None if own.cta is None else doubled(own.cta)
        # Keeping `own` keeps its id.
        made = known[id(own)] = (own, replace(own, starts=doubled(own.starts), cta=cta))
    return made[1]


def _by_matrices(a: Agent, ty: TensorType, view: View) -> bool:
    """Whether rows of 16 bytes are spread over 4 lanes a word each, or over 8 lanes an element each
    (transposed)."""
    if isinstance(ty.encoding, NoneAttr) or view.itemsize > CELL or view.space is Space.TENSOR:
        return False
    memo = view.pattern.memo
    key = ("matrices", ty, view.ty.encoding, a.warps, view.shift % 16)
    found = memo.get(key)
    if found is None:
        at = view.pattern.at.reshape(-1)[held_by_threads(a, ty)[:32]] + view.shift % 16
        rows = [frozenset(lane) for lane in (at // 16).tolist()]
        words = all(len(set(rows[n : n + 4])) == 1 for n in range(0, 32, 4))
        turned = view.itemsize < CELL and all(len(set(rows[n::4])) == 1 for n in range(4))
        found = memo[key] = words or turned
    return found


def whole(
    a: Agent,
    view: View,
    mode: Mode,
    proxy: Proxy = Proxy.GENERIC,
    *,
    lanes: np.ndarray | None = None,
    ranks: tuple[int, ...] | None = None,
    may: bool = False,
) -> Footprint:
    """All bytes of `view`, for each row: by engines, or where it is not known which bytes.

    Each row touches what its own block holds; `ranks`: what the blocks of the program with these
    ranks hold, whoever asks. `lanes`: those of the event, or the first ones of its units (default:
    all threads of `a`).
    """
    used(a, view)
    known = a.tracer.state.setdefault("footprints", {})
    if ranks is None:
        lanes = a.lanes if lanes is None else lanes
        blocks = tuple((a.block_of(lanes) - a.tracer.first_block).tolist()) if a.blocks > 1 else 0
        short = (view.pattern, view.shift, id(view.ty), "own", blocks, mode, proxy, may)
    else:
        blocks = 0
        short = (view.pattern, view.shift, id(view.ty), "ranks", ranks, mode, proxy, may)
    made = known.get(short)
    if made is None:
        found = _own(view, blocks or (0,)) if ranks is None else _of(view, ranks)
        made = known[short] = placed(a, view, found, mode, proxy, may)
    return made


def along(a: Agent, ty: TensorType, view: View, axis: int, mode: Mode) -> Footprint:
    """What each thread may touch where the elements that it holds are taken from, or put at, places
    along `axis` that are not known."""
    if isinstance(ty.encoding, NoneAttr):
        return _by_anybody(a, whole(a, view, mode, may=True))
    used(a, view)
    memo = view.pattern.memo
    key = ("along", ty, view.ty.encoding, a.warps, a.blocks, axis)
    found = memo.get(key)
    if found is None:
        shape = view.pattern.at.shape
        grid = np.indices(ty.get_shape()).reshape(len(shape), -1)
        elements = held_by_threads(a, ty)
        many = []
        for place in range(shape[axis]):
            grid[axis] = place
            many.append(np.ravel_multi_index(tuple(grid), shape)[elements])
        table = np.concatenate(many, axis=1)
        at = view.pattern.at.reshape(-1)[table]
        found = memo[key] = merged(at, _owner(a, view, table), view)
    return placed(a, view, found, mode, Proxy.GENERIC, True)


def _by_anybody(a: Agent, f: Footprint, halves: int = 1) -> Footprint:
    """All, by the first thread of every `halves` half warps."""
    first = np.arange(a.lanes.size) % (16 * halves) == 0
    return replace(f, starts=np.where(first[:, None], f.starts, -1))


def used(a: Agent, view: View) -> None:
    """Called where `view` is accessed."""
    if view.outside is not None:
        a.fault(
            view.outside,
            Kind.OUT_OF_BOUNDS,
            "an index of a buffer that does not exist, and the buffer is accessed",
        )


def pieces(view: View, rank: int = 0) -> tuple[np.ndarray, int]:
    """The bytes of `view` that block `rank` of the program holds, relative to `view.shift`: starts
    int64 (k,), and the size of each. Cells in tensor memory."""
    memo = view.pattern.memo
    free = copies(view.ty)
    key = ("pieces", rank & ~free, free, view.shift % CELL)
    found = memo.get(key)
    if found is None:
        at, blocks = view.pattern.at.reshape(-1), view.pattern.blocks.reshape(-1)
        if view.space is Space.SHARED:
            at = at[blocks & ~free == rank & ~free]
        starts, size, _ = merged(at[None], None, view)
        found = memo[key] = (starts[0], size)
    return found


def _own(view: View, blocks: tuple[int, ...]) -> Pieces:
    """See `whole`: rows by the blocks that ask."""
    parts = {b: pieces(view, b) for b in dict.fromkeys(blocks)}
    size = int(np.gcd.reduce([n for _, n in parts.values()]))
    cut = {b: _cut(s, n, size) for b, (s, n) in parts.items()}
    first, *rest = cut.values()
    if all(np.array_equal(first, other) for other in rest):
        return first[None], size, None
    wide = max(len(s) for s in cut.values())
    table = {b: np.pad(s, (0, wide - len(s)), constant_values=-1) for b, s in cut.items()}
    return np.stack([table[b] for b in blocks]), size, None


def _of(view: View, ranks: tuple[int, ...]) -> Pieces:
    """See `whole`: one row, the parts of all `ranks`."""
    many = [pieces(view, rank) for rank in ranks]
    size = int(np.gcd.reduce([n for _, n in many]))
    starts = [_cut(s, n, size) for s, n in many]
    owner = np.repeat(np.asarray(ranks, np.int32), [len(s) for s in starts])
    return np.concatenate(starts)[None], size, owner[None]


def _cut(starts: np.ndarray, size: int, into: int) -> np.ndarray:
    """Pieces of `size` cut into pieces of `into`."""
    return (starts[:, None] + np.arange(0, size, into)).reshape(-1) if size != into else starts


def placed(
    a: Agent, view: View, found: Pieces, mode: Mode, proxy: Proxy, may: bool = False
) -> Footprint:
    """The pieces moved to where the view begins."""
    starts, size, owner = found
    shift = view.shift // CELL if view.space is Space.TENSOR else view.shift
    if shift:
        starts = np.where(starts >= 0, starts + shift, -1)
    cta = None if owner is None else owner + np.int32(a.tracer.first_block)
    return Footprint(view.space, mode, starts, size, proxy, cta, may)


def _by_thread(a: Agent, ty: TensorType, view: View, once: bool) -> Pieces:
    """See `footprint`."""
    pattern = view.pattern
    if tuple(ty.get_shape()) != pattern.at.shape:
        raise Unsupported(f"{ty} in memory of shape {'x'.join(map(str, pattern.at.shape))}")
    elements = held_by_threads(a, ty)
    at = pattern.at.reshape(-1)[elements]
    if once:
        block = np.repeat(np.arange(a.blocks), elements.size // a.blocks)
        flat = block * pattern.at.size + elements.reshape(-1)
        _, first = np.unique(flat, return_index=True)
        kept = np.zeros(flat.size, bool)
        kept[first] = True
        at = np.where(kept.reshape(at.shape), at, -1)
    owner = _owner(a, view, elements)
    return merged(at, owner, view)


def held_by_threads(a: Agent, ty: TensorType) -> np.ndarray:
    """int64 (threads, registers): which element of a tensor, row-major, each thread holds."""
    held = flat_element_of(ty)
    if held.shape[1:] != (32, a.warps, a.blocks):
        raise Unsupported(
            f"{ty}, laid out for {held.shape[2]} warps of {held.shape[1]} threads in "
            f"{held.shape[3]} blocks, in {a.warps} warps of {a.blocks} blocks"
        )
    return held.transpose(3, 2, 1, 0).reshape(-1, held.shape[0])


def _owner(a: Agent, view: View, elements: np.ndarray) -> np.ndarray | None:
    """The rank of the block whose memory each thread uses for each element; None: its own."""
    if view.space is Space.TENSOR or a.blocks == 1:
        return None
    free = copies(view.ty)
    own = np.repeat(np.arange(a.blocks), elements.shape[0] // a.blocks)[:, None]
    holder = view.pattern.blocks.reshape(-1)[elements]
    owner = (holder & ~free) | (own & free)
    return None if (owner == own).all() else owner


def merged(at: np.ndarray, owner: np.ndarray | None, view: View) -> Pieces:
    """Elements at `at` (bytes, (rows, elements); negative: none) as pieces of one size, the
    largest that all runs of neighbours are made of."""
    unit = view.itemsize
    if view.space is Space.TENSOR:
        # The shift is a multiple of a cell, but what it moves may begin within one.
        at = np.where(at >= 0, (at + view.shift % CELL) // CELL, -1)
        unit = max(unit // CELL, 1)
    keys = (
        at if owner is None else np.where(at >= 0, at + (owner.astype(np.int64) << _BLOCK_BITS), -1)
    )
    keys = np.sort(keys, axis=1)
    fresh = keys >= 0
    fresh[:, 1:] &= keys[:, 1:] != keys[:, :-1]
    row, column = np.nonzero(fresh)
    flat = keys[row, column]
    if not flat.size:
        return np.full((at.shape[0], 1), -1, np.int64), unit, None
    begins = np.ones(flat.size, bool)
    begins[1:] = (flat[1:] - flat[:-1] != unit) | (row[1:] != row[:-1])
    edges = np.append(np.flatnonzero(begins), flat.size)
    run = int(np.gcd.reduce(np.diff(edges)))
    within = np.arange(flat.size) - np.repeat(edges[:-1], np.diff(edges))
    heads = within % run == 0
    row, flat = row[heads], flat[heads]
    count = np.bincount(row, minlength=at.shape[0])
    place = np.arange(flat.size) - np.repeat(np.cumsum(count) - count, count)
    starts = np.full((at.shape[0], int(count.max())), -1, np.int64)
    starts[row, place] = flat
    if owner is None:
        return starts, run * unit, None
    ranks = np.where(starts >= 0, starts >> _BLOCK_BITS, 0).astype(np.int32)
    return np.where(starts >= 0, starts & ((1 << _BLOCK_BITS) - 1), -1), run * unit, ranks


def copies(ty: MemDescType) -> int:
    """Bits of a block's rank that do not matter to what its memory holds."""
    return _copies(ty.encoding, memory_shape(ty.encoding, ty.get_alloc_shape()))


@lru_cache(maxsize=1024)
def _copies(encoding: Attribute, shape: tuple[int, ...]) -> int:
    if isinstance(encoding, TensorMemoryEncodingAttr | TensorMemoryScalesEncodingAttr):
        return 0
    bases = linear_layout(encoding, shape).bases("block")
    return sum(1 << i for i, basis in enumerate(bases) if not any(basis))
