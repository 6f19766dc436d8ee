"""Loads, stores and atomics on resolved accesses: what moves between memory and values.

Plain functions that the op implementations of `interp.tt_memory` call. Every one checks bounds
first, then races and initialisation, and touches only lanes that are inside their tensor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from xttir.interp.access import Access, Flat, Piece, Strided, resolve
from xttir.interp.affine import Box, Index
from xttir.interp.landing import check_load, launched
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer, Region
from xttir.interp.taint import Tainted, taint_with
from xttir.interp.types import BF16, is_float, unsigned

Mask = Box | np.ndarray | None


def _resolve(
    m: Machine,
    op: Operation,
    verb: str,
    pointer: Pointer,
    mask: Mask,
    shape: tuple[int, ...],
    itemsize: int,
) -> Access:
    check = m.policy.on("bounds")
    access = resolve(m.memory, pointer, mask, shape, itemsize, m.pids.size, check)
    if check:
        m.counts.add("bounds")
        if access.bad:
            m.sanitizer.out_of_bounds(m, op, verb, access, itemsize)
    if m.observer is not None:
        m.observer(m, op, verb, access)
    return access


def load(
    m: Machine,
    op: Operation,
    pointer: Pointer,
    mask: Mask,
    other: np.ndarray | None,
    dtype: np.dtype,
    shape: tuple[int, ...],
    volatile: bool = False,
) -> np.ndarray | Tainted:
    """The elements at `pointer`: (b, *shape). Lanes that are masked off or out of bounds give
    `other`, or 0 (what NVIDIA's back end gives). Loads that are the same for all programs give
    b = 1."""
    access = _resolve(m, op, "load", pointer, mask, shape, dtype.itemsize)
    race, init = m.policy.on("race"), m.policy.on("init")
    unwritten: list[tuple[Region, Piece, np.ndarray]] = []
    for region, piece in access.pieces:
        if race:
            m.sanitizer.race(m, op, "atomic" if volatile else "load", region, piece)
            if m.landing:
                check_load(m, op, region.storage, piece)
        if init and m.policy.strict:
            m.sanitizer.initialised(m, op, "load", region, piece)
        elif init:
            lanes = m.sanitizer.uninitialised(m, region, piece)
            if lanes is not None:
                unwritten.append((region, piece, lanes))
    values = _values(m, access, pointer, mask, other, dtype, shape)
    if unwritten:
        return _unwritten(m, op, access, values, unwritten)
    return values


def _unwritten(
    m: Machine,
    op: Operation,
    access: Access,
    values: np.ndarray,
    unwritten: list[tuple[Region, Piece, np.ndarray]],
) -> Tainted:
    """`values` with the lanes marked that were read from memory nobody has written: they are
    reported where they matter (in strict runs, at the load)."""
    bad = np.zeros((access.batch, *values.shape[1:]), bool)
    for _, piece, lanes in unwritten:
        piece.place(bad, lanes)
    region, piece, lanes = unwritten[0]
    origin = m.sanitizer.not_written(m, op, "load", region, piece, lanes)
    return taint_with(m, values, bad, origin)


def _values(
    m: Machine,
    access: Access,
    pointer: Pointer,
    mask: Mask,
    other: np.ndarray | None,
    dtype: np.dtype,
    shape: tuple[int, ...],
) -> np.ndarray:
    """The elements of an access, (b, *shape)."""
    uniform = _same_for_all(pointer, mask)
    if len(access.pieces) == 1:
        region, piece = access.pieces[0]
        if type(piece) is Strided and piece.programs is None and piece.shape == shape:
            if uniform:
                piece = piece.first()
            return _fetch(m, region, piece, dtype)
    batch = access.batch
    if uniform and (other is None or other.shape[0] == 1):
        batch = 1
    out = np.empty((batch, *shape), dtype)
    out[...] = other if other is not None else np.zeros((), dtype)
    for region, piece in access.pieces:
        if batch == 1 and access.batch > 1:
            piece = piece.first()
        piece.place(out, _fetch(m, region, piece, dtype, copy=False))
    return out


def _same_for_all(pointer: Pointer, mask: Mask) -> bool:
    """Whether pointer and mask are the same for every program of the batch."""
    offset = pointer.offset
    if (offset.base.size if type(offset) is Index else offset.shape[0]) != 1:
        return False
    if mask is None:
        return True
    if isinstance(mask, np.ndarray):
        return mask.shape[0] == 1
    return mask.uniform


def _fetch(
    m: Machine, region: Region, piece: Piece, dtype: np.dtype, copy: bool = True
) -> np.ndarray:
    """The elements of `piece`; a copy if the launch may write the storage later."""
    data = region.storage.bytes
    if dtype.kind == "b":
        return (piece.read(data, np.dtype(np.uint8)) & 1).astype(bool)
    values = piece.read(data, dtype)
    if copy and m.sanitizer.may_write(region.storage):
        return values.copy()
    return values


def store(
    m: Machine,
    op: Operation,
    pointer: Pointer,
    mask: Mask,
    values: np.ndarray,
    dtype: np.dtype,
    shape: tuple[int, ...],
    atomic: bool = False,
    lands: bool = False,
) -> None:
    """Store `values` (b, *s) where `mask` holds. `lands`: some time later (see `landing`)."""
    access = _resolve(m, op, "store", pointer, mask, shape, dtype.itemsize)
    if values.dtype == bool:
        values = values.view(np.int8)
        dtype = values.dtype
    race = m.policy.on("race")
    for region, piece in access.pieces:
        if race:
            m.sanitizer.race(m, op, "atomic" if atomic else "store", region, piece)
            if lands:
                launched(m, op, region.storage, piece)
        part = piece.pick(values)
        data = region.storage.bytes
        if m.watching:
            before = np.array(piece.read(data, dtype))
            piece.write(data, dtype, part)
            if not _same_bits(before, piece.read(data, dtype)):
                m.memory.version += 1
        else:
            piece.write(data, dtype, part)
        m.sanitizer.written_now(region, piece)
        if m.policy.on("lanes"):
            m.sanitizer.lanes_conflict(m, op, region, piece, part, dtype)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    word = np.dtype(f"u{a.dtype.itemsize}")
    return bool((np.ascontiguousarray(a).view(word) == np.ascontiguousarray(b).view(word)).all())


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _float_add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.itemsize < 4:
        return (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    return a + b


def _float_extreme(function: Combine) -> Combine:
    def combine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype == BF16:
            return function(a.astype(np.float32), b.astype(np.float32)).astype(BF16)
        return function(a, b)

    return combine


def _signed(function: Combine) -> Combine:
    narrow = _float_extreme(np.fmax if function is np.maximum else np.fmin)
    return lambda a, b: narrow(a, b) if is_float(a.dtype) else function(a, b)


def _unsigned(function: Combine) -> Combine:
    return lambda a, b: function(unsigned(a), unsigned(b)).view(a.dtype)


RMW: dict[str, Combine] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": _float_add,
    "max": _signed(np.maximum),
    "min": _signed(np.minimum),
    "umax": _unsigned(np.maximum),
    "umin": _unsigned(np.minimum),
    "exch": lambda a, b: b,
}
"""Read-modify-write operations by Triton's keyword: new value from (old, operand)."""

_AT: dict[str, np.ufunc] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def atomic_rmw(
    m: Machine,
    op: Operation,
    pointer: Pointer,
    mask: Mask,
    values: np.ndarray,
    kind: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    used: bool,
    plain: bool = False,
) -> np.ndarray:
    """Combine `values` into memory, lanes in order (program by program); gives the old values,
    (b, *shape), 0 for lanes that are off. `used`: whether anybody looks at them. `plain`: the
    atomic's scope is narrower than the grid, so between programs it is a plain access."""
    access = _resolve(m, op, "atomic", pointer, mask, shape, dtype.itemsize)
    out = (
        np.zeros((access.batch, *shape), dtype)
        if used
        else np.zeros((1,) * (len(shape) + 1), dtype)
    )
    for region, piece in access.pieces:
        at, operand, old = _enter_atomic(m, op, region, piece, values, dtype, plain, kind != "exch")
        flat = _typed(region, dtype)
        before = flat[at].copy() if m.watching else None
        if used:
            got = rounds(flat, at, lambda a, k, v=operand: RMW[kind](a, v[k]))
            piece.place(out, got.reshape(old))
        else:
            _combine(flat, at, operand, kind)
        if before is not None and not _same_bits(before, flat[at]):
            m.memory.version += 1
        m.sanitizer.written_now(region, piece)
    return out


def atomic_cas(
    m: Machine,
    op: Operation,
    pointer: Pointer,
    compare: np.ndarray,
    values: np.ndarray,
    dtype: np.dtype,
    shape: tuple[int, ...],
    plain: bool = False,
) -> np.ndarray:
    """Store `values` where memory equals `compare` bit for bit; gives the old values."""
    access = _resolve(m, op, "atomic", pointer, None, shape, dtype.itemsize)
    out = np.zeros((access.batch, *shape), dtype)
    word = np.dtype(f"i{dtype.itemsize}")
    for region, piece in access.pieces:
        at, wanted, old = _enter_atomic(m, op, region, piece, values, dtype, plain, True)
        expected = np.broadcast_to(piece.pick(compare), old).reshape(-1)
        flat = _typed(region, word)
        new, want = wanted.view(word), np.ascontiguousarray(expected).view(word)
        before = flat[at].copy() if m.watching else None
        got = rounds(flat, at, lambda a, k, new=new, want=want: np.where(a == want[k], new[k], a))
        if before is not None and not _same_bits(before, flat[at]):
            m.memory.version += 1
        piece.place(out, got.view(dtype).reshape(old))
        m.sanitizer.written_now(region, piece)
    return out


def _enter_atomic(
    m: Machine,
    op: Operation,
    region: Region,
    piece: Piece,
    values: np.ndarray,
    dtype: np.dtype,
    plain: bool,
    reads: bool,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Checks; then element positions [n], operands [n], and the shape old values have."""
    if m.policy.on("race"):
        if plain:
            m.sanitizer.race(m, op, "load", region, piece)
        m.sanitizer.race(m, op, "store" if plain else "atomic", region, piece)
    if reads and m.policy.on("init"):
        m.sanitizer.initialised(m, op, "atomic", region, piece)
    at = piece.offsets().reshape(-1) // dtype.itemsize
    shape = (at.size,) if type(piece) is Flat else (piece.base.size, *piece.shape)  # pyright: ignore
    operand = np.broadcast_to(piece.pick(values), shape).reshape(-1)
    return at, np.ascontiguousarray(operand), shape


def _typed(region: Region, dtype: np.dtype) -> np.ndarray:
    data = region.storage.bytes
    return np.ndarray((data.nbytes // dtype.itemsize,), dtype, buffer=data)


def _combine(flat: np.ndarray, at: np.ndarray, operand: np.ndarray, kind: str) -> None:
    """flat[at] = kind(flat[at], operand), repeated positions one after the other."""
    narrow = is_float(flat.dtype) and (flat.dtype.itemsize < 4 or kind in ("max", "min"))
    if kind == "exch":
        flat[at] = operand
    elif kind in _AT and not narrow:
        _AT[kind].at(flat, at, operand)
    else:
        rounds(flat, at, lambda a, k: RMW[kind](a, operand[k]))


def rounds(
    flat: np.ndarray, at: np.ndarray, change: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Apply `change(old, lanes)` at positions `at` in lane order; gives the old values.

    Lanes of distinct positions go together; the n-th lane of a position goes in round n.
    """
    old = np.empty(at.shape, flat.dtype)
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((starts, [at.size])))
    rank = np.arange(at.size) - np.repeat(starts, lengths)
    if not rank.any():
        old[...] = flat[at]
        flat[at] = change(old, np.arange(at.size))
        return old
    by_rank = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank))
    begin = 0
    for end in ends.tolist():
        lanes = by_rank[begin:end]
        begin = end
        where = at[lanes]
        now = flat[where]
        old[lanes] = now
        flat[where] = change(now, lanes)
    return old
