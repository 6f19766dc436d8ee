"""Room around the buffers of a user's launch: other sizes than the user's may reach further.

Pointers that come from several tensors are looked up by address, so buffers with their room must
not overlap. They are moved apart, in the same order and with the same alignment; where the kernel
may get addresses from elsewhere than its arguments, they stay, and have what room there is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xttir.dialects import tt
from xttir.interp.launch import Argument, DescriptorArg, Storage
from xttir.refine.world import Case, region_of, tensor_of, with_tensor

ROOM = 1 << 16
"""Elements around each buffer."""

_GAP = 1 << 21
"""Buffers that are moved stand further apart than this."""


def widened(case: Case, module: ModuleOp) -> Case:
    """`case` with room around its buffers, filled with what they hold. `module`: the kernel's."""
    fixed = _takes_addresses(module)
    storages: dict[int, Storage] = {}
    shifts: dict[int, int] = {}
    order = sorted(range(len(case.memory)), key=lambda n: case.memory[n].address)
    end = 0
    for n in order:
        storage = case.memory[n]
        tensors, size = case.tensors(n), storage.bytes.size
        before = after = 0
        if tensors and size:
            room = ROOM * max(t.dtype.itemsize for t in tensors)
            before = after = -(-room // size) * size
        address = storage.address - before
        if fixed:
            before, after = _what_there_is(case, n, before, after)
            address = storage.address - before
        elif end:
            address = (end // _GAP + 2) * _GAP + address % _GAP
        end = address + before + size + after
        shifts[id(storage)] = before
        storages[id(storage)] = _with_room(storage, address, before, after)

    def moved(argument: Argument) -> Argument:
        tensor = tensor_of(argument)
        if tensor is None:
            return argument
        storage, shift = storages[id(tensor.storage)], shifts[id(tensor.storage)]
        new = replace(tensor, storage=storage, offset=tensor.offset + shift)
        if isinstance(argument, DescriptorArg):
            return replace(argument, tensor=new)
        return with_tensor(argument, region_of(new, 0, storage.bytes.size))

    arguments = tuple(moved(a) for a in case.arguments)
    memory = tuple(storages[id(s)] for s in case.memory)
    return replace(case, arguments=arguments, memory=memory)


def _with_room(storage: Storage, address: int, before: int, after: int) -> Storage:
    if not before and not after:
        return replace(storage, address=address)
    data, size = storage.bytes, storage.bytes.size
    # Position k of the new bytes holds byte (k - before) of the old ones, over and over.
    start = -before % size
    around = np.tile(data, -(-(start + before + size + after) // size))
    wide = around[start : start + before + size + after].copy()
    return Storage(wide, address, None, storage.created)


def _what_there_is(case: Case, n: int, before: int, after: int) -> tuple[int, int]:
    """As much of the bytes `before` and `after` storage `n` as no other storage needs: half of what
    lies between them."""
    mine = case.memory[n]
    start, end = mine.address, mine.address + mine.bytes.size
    for other in case.memory:
        if other is mine:
            continue
        if other.address >= end:
            after = min(after, (other.address - end) // 2)
        elif other.address + other.bytes.size <= start:
            before = min(before, (start - other.address - other.bytes.size) // 2)
        else:
            return 0, 0
    return before, after


def _takes_addresses(module: ModuleOp) -> bool:
    """Whether the kernel may get an address from elsewhere than its arguments: from memory, or as a
    number."""
    return any(isinstance(op, tt.IntToPtrOp) for op in module.walk())
