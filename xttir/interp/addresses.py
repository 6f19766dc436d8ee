"""Addresses of memory descriptors as the device's instructions see them, once memory is allocated.

Triton's passes say where allocations lie: `allocation.offset` bytes into the shared memory of the
program, columns and rows of tensor memory (a row is 1 << 16). A view's address is that of its first
element. What is not allocated yet has no address.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects.locations import location_of
from xttir.interp import physical
from xttir.interp.batch import merge
from xttir.interp.mbarriers import numbers_of
from xttir.interp.memdesc import Choice, MemDesc
from xttir.interp.views import Layout

_COLUMN_BYTES = 4
_ROW = 1 << 16


def address(op: Operation, desc: MemDesc | Choice) -> np.ndarray:
    """int32[1 or b]: the address of `desc`, an operand of `op`."""
    parts = [(at, _of_view(op, view)) for at, view in desc.each()]
    if parts[0][0] is None:
        return parts[0][1]
    return merge([(at, found) for at, found in parts if at is not None], desc.programs)


def _of_view(op: Operation, view: MemDesc) -> np.ndarray:
    allocation = view.buffer.op
    ty = allocation.results[0].type
    begins = _bytes_before(view, ty)
    if not physical.in_tensor_memory(ty):
        return (_placed(op, allocation, "allocation.offset") + begins).astype(np.int32)
    start = _placed(op, allocation, "tensor_memory_col_offset")
    start += _placed(op, allocation, "tensor_memory_row_offset") * _ROW
    rows, rest = np.divmod(begins, physical.ROW_BYTES)
    return (start + rows * _ROW + rest // _COLUMN_BYTES).astype(np.int32)


def _bytes_before(view: MemDesc, ty: object) -> np.ndarray:
    """int64[1 or b]: how many bytes after its buffer's first the first element of `view` lies."""
    first = view.path[0] if view.path else None
    if isinstance(first, Layout):
        return first.offsets.reshape(first.offsets.shape[0], -1)[:, 0]
    where = physical.byte_offsets(ty).reshape(-1)  # pyright: ignore
    return np.atleast_1d(where[numbers_of(view)])


def _placed(op: Operation, allocation: Operation, name: str) -> int:
    place = allocation.attributes.get(name)
    if not isinstance(place, IntegerAttr):
        raise Unsupported("the address of memory that is not allocated yet", location_of(op))
    return place.value.data
