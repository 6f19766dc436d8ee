"""Where the elements of a memory descriptor are, in bytes; and who needs to know.

`memdesc_reinterpret` shows the same bytes under another type, so what it yields depends on the
physical order, which encodings define (`dialects.layouts.to_linear`). Buffers that may reach such
an op are stored as bytes; which those are is found once per module, by following descriptors
through views, regions, branches and calls. Tensor memory is addressed as rows of 512 columns of
four bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator

from xttir.dialects import tt, ttg
from xttir.dialects.layouts.encodings import (
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
from xttir.dialects.layouts.to_linear import (
    allocation_elements,
    linear_layout,
    memory_shape,
    shared_blocks,
    shared_offsets,
    tensor_memory_places,
)
from xttir.interp.types import numpy_dtype
from xttir.interp.views import Layout

ROW_BYTES = 512 * 4
"""Bytes of a row of tensor memory."""

ROWS = 128

SHARED_BYTES = 1 << 18
"""More than one block has of shared memory."""

WARP_ROWS = 32
"""Rows of tensor memory that one warp of a group can reach."""


def in_tensor_memory(ty: Attribute) -> bool:
    """Whether a memory descriptor type lies in tensor memory."""
    assert isinstance(ty, ttg.MemDescType)
    return isinstance(ty.encoding, TensorMemoryEncodingAttr | TensorMemoryScalesEncodingAttr)


@lru_cache(maxsize=1024)
def byte_offsets(ty: Attribute) -> np.ndarray:
    """int64[*shape]: the byte at which each element of a memory descriptor that begins at byte 0
    lies."""
    assert isinstance(ty, ttg.MemDescType)
    size = numpy_dtype(ty.element_type).itemsize
    if in_tensor_memory(ty):
        rows, columns = tensor_memory_places(ty)
        offsets = rows * ROW_BYTES + columns * size
    else:
        offsets = shared_offsets(ty) * size
    return offsets + shared_blocks(ty) * _block_bytes(ty)


def _block_bytes(ty: Attribute) -> int:
    """Bytes from the memory of one block of a cluster to that of the next."""
    return ROWS * ROW_BYTES if in_tensor_memory(ty) else SHARED_BYTES


@lru_cache(maxsize=1024)
def layout_of_memory(ty: Attribute) -> Layout:
    """The layout of a descriptor of type `ty` that begins at byte 0."""
    assert isinstance(ty, ttg.MemDescType)
    warps, replicas = _copies(ty.encoding), _replicas(ty)
    copies = [block + warp for block in (0, *replicas) for warp in (0, *warps)]
    return Layout(byte_offsets(ty)[None], numpy_dtype(ty.element_type), tuple(copies[1:]), replicas)


def _copies(encoding: Attribute) -> tuple[int, ...]:
    """How many bytes further on an element is held again: scales lie in the rows of every warp."""
    if not isinstance(encoding, TensorMemoryScalesEncodingAttr):
        return ()
    return tuple(rows * ROW_BYTES for rows in range(WARP_ROWS, ROWS, WARP_ROWS))


def _replicas(ty: Attribute) -> tuple[int, ...]:
    """The same for the memory of other blocks of a cluster."""
    found = [0]
    for bit, basis in enumerate(_block_bases(ty)):
        if not any(basis):
            found += [start + (_block_bytes(ty) << bit) for start in found]
    return tuple(found[1:])


@lru_cache(maxsize=1024)
def bytes_of_memory(ty: Attribute) -> int:
    """How many bytes an allocation of type `ty` takes."""
    assert isinstance(ty, ttg.MemDescType)
    size = numpy_dtype(ty.element_type).itemsize
    if in_tensor_memory(ty):
        last = ROWS * ROW_BYTES
    else:
        last = allocation_elements(ty.encoding, ty.get_alloc_shape()) * size
    return last + ((1 << len(_block_bases(ty))) - 1) * _block_bytes(ty)


def _block_bases(ty: Attribute) -> tuple[tuple[int, ...], ...]:
    """What each bit of a block's number in the cluster adds to the index of its elements; zeros
    where the blocks hold the same."""
    assert isinstance(ty, ttg.MemDescType)
    layout = linear_layout(ty.encoding, memory_shape(ty.encoding, ty.get_alloc_shape()))
    return tuple(map(tuple, dict(layout.ins).get("block", ())))


@lru_cache(maxsize=1024)
def same_order(source: Attribute, target: Attribute) -> bool:
    """Whether a reinterpretation shows the same elements in the same row-major order."""
    assert isinstance(source, ttg.MemDescType)
    assert isinstance(target, ttg.MemDescType)
    if source.element_type != target.element_type:
        return False
    a, b = byte_offsets(source).reshape(-1), byte_offsets(target).reshape(-1)
    return np.array_equal(a - a.min(initial=0), b)


_KNOWN: weakref.WeakKeyDictionary[ModuleOp, set[SSAValue]] = weakref.WeakKeyDictionary()


def seen_as_bytes(value: SSAValue, module: ModuleOp) -> bool:
    """Whether the buffer that `value` allocates may be reinterpreted somewhere in `module`."""
    known = _KNOWN.get(module)
    if known is None:
        known = _KNOWN[module] = _reinterpreted(module)
    return value in known


def _reinterpreted(module: ModuleOp) -> set[SSAValue]:
    """Descriptors that may be of a buffer some `memdesc_reinterpret` sees in another order."""
    seeds = [
        op.src
        for op in module.walk()
        if isinstance(op, ttg.MemDescReinterpretOp) and not same_order(op.src.type, op.result.type)
    ]
    if not seeds:
        return set()
    near: dict[SSAValue, list[SSAValue]] = {}
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, tt.FuncOp)}
    for op in module.walk():
        for group in _aliases(op, functions):
            for value in group[1:]:
                near.setdefault(group[0], []).append(value)
                near.setdefault(value, []).append(group[0])
    found: set[SSAValue] = set(seeds)
    todo: list[SSAValue] = list(seeds)
    while todo:
        for value in near.get(todo.pop(), ()):
            if value not in found:
                found.add(value)
                todo.append(value)
    return found


def _is_descriptor(value: SSAValue) -> bool:
    return isinstance(value.type, ttg.MemDescType)


def _aliases(op: Operation, functions: dict[str, tt.FuncOp]) -> list[list[SSAValue]]:
    """Groups of descriptors among which `op` may pass a buffer on."""
    values: list[SSAValue] = [v for v in (*op.operands, *op.results) if _is_descriptor(v)]
    if isinstance(op, tt.CallOp):
        callee = functions.get(op.callee.root_reference.data)
        if callee is not None and callee.body.blocks:
            values += [a for a in callee.body.blocks[0].args if _is_descriptor(a)]
            for inner in callee.walk():
                if isinstance(inner, tt.ReturnOp):
                    values += [v for v in inner.operands if _is_descriptor(v)]
    elif op.name.startswith("ttg.memdesc_") or op.name in ("ttng.tmem_subslice", "arith.select"):
        return [values] if values else []
    elif op.successors:
        for block in op.successors:
            values += [a for a in block.args if _is_descriptor(a)]
    elif op.regions and not isinstance(op, tt.FuncOp | ModuleOp):
        for region in op.regions:
            for block in region.blocks:
                values += [a for a in block.args if _is_descriptor(a)]
                last = block.last_op
                if last is not None and last.has_trait(IsTerminator):
                    values += [v for v in last.operands if _is_descriptor(v)]
    else:
        return []
    return _by_type(values)


def _by_type(values: Iterable[SSAValue]) -> list[list[SSAValue]]:
    groups: dict[Attribute, list[SSAValue]] = {}
    for value in values:
        groups.setdefault(value.type, []).append(value)
    return list(groups.values())
