"""Tensor maps that kernels write into memory themselves (`ttng.tensormap_create`).

The 128 bytes of a map are opaque to programs, so a map is kept beside memory, by its address: what
`ttng.reinterpret_tensor_descriptor` finds there is a descriptor like one of the launch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.interp.descriptors import Descriptor
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer


class TensorMap(NamedTuple):
    """A map of every program that wrote it at one op. `addresses`: int64[b] or [1], of the programs
    `pids`; `shape`: int64[b] or [1] an axis; `strides`: in bytes, the innermost one left out."""

    addresses: np.ndarray
    pids: np.ndarray
    base: Pointer
    shape: list[np.ndarray]
    strides: list[np.ndarray]
    nan: bool


def keep_map(
    m: Machine,
    pointer: Pointer,
    base: Pointer,
    shape: list[np.ndarray],
    strides: list[np.ndarray],
    nan: bool,
) -> None:
    """Remember the map that the active programs write to `pointer`."""
    written = TensorMap(pointer.addresses().reshape(-1), m.pids, base, shape, strides, nan)
    maps: list[TensorMap] = m.tensor_maps
    # Maps that a program writes over and over must not pile up.
    maps[:] = [old for old in maps if not _covers(written, old)]
    maps.append(written)


def _covers(new: TensorMap, old: TensorMap) -> bool:
    if new.addresses.size != old.addresses.size or new.pids.size != old.pids.size:
        return False
    return bool((new.addresses == old.addresses).all() and (new.pids == old.pids).all())


def find_map(
    m: Machine, op: Operation, pointer: Pointer, block: tuple[int, ...], dtype: np.dtype
) -> Descriptor:
    """The descriptor at `pointer`, whose blocks are `block`."""
    wanted = np.broadcast_to(pointer.addresses().reshape(-1), m.pids.shape)
    parts: list[tuple[np.ndarray, Descriptor]] = []
    left = np.arange(m.pids.size)
    for found in reversed(m.tensor_maps):
        rows = np.flatnonzero(np.isin(m.pids[left], found.pids))
        if not rows.size:
            continue
        order = np.argsort(found.pids)
        at = order[np.searchsorted(found.pids, m.pids[left[rows]], sorter=order)]
        same = np.broadcast_to(found.addresses, found.pids.shape)[at] == wanted[left[rows]]
        if not same.any():
            continue
        whole = _descriptor(found, block, dtype)
        at = at[same]
        everyone = at.size == found.pids.size and bool((at == np.arange(at.size)).all())
        parts.append((left[rows[same]], whole if everyone else whole.take(at)))
        left = np.delete(left, rows[same])
        if not left.size:
            break
    if left.size:
        pid = int(m.pids[left].min())
        m.log.report(
            op,
            Kind.UNINITIALIZED,
            "no tensor map has been written at this address",
            order=(pid,),
            notes=(f"program {m.log.program(pid)}",),
            count=int(left.size),
        )
        nothing = [np.zeros(1, np.int64) for _ in block]
        null = Pointer(None, np.zeros(1, np.int64))
        parts.append((left, Descriptor(null, nothing, nothing, block, dtype, False)))
    if len(parts) == 1:
        return parts[0][1]
    return parts[0][1].merge(parts, m.pids.size)


def _descriptor(found: TensorMap, block: tuple[int, ...], dtype: np.dtype) -> Descriptor:
    strides = [s // dtype.itemsize for s in found.strides]
    rank = len(found.shape)
    if len(block) > rank:
        raise ValueError(f"a block of {len(block)} axes in a tensor map of {rank}")
    return Descriptor(
        found.base, found.shape, [*strides, np.ones(1, np.int64)], block, dtype, found.nan
    )
