"""`tt` ops that place values: program ids, ranges, splats, pointers arithmetic, and print/assert.

Memory ops are in `interp.tt_memory`, products in `interp.dot`, shapes in `interp.shape_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation

from xttir.diagnostics import Kind
from xttir.dialects import tt
from xttir.interp import affine
from xttir.interp.affine import Index, dense
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.report import lanes_text
from xttir.interp.types import element_type, numpy_dtype, shape_of, unsigned

INT64 = np.dtype(np.int64)

Lowered = Callable[[Any, Sequence[Any]], tuple[Any, ...]]
"""What runs one op: (machine, operands) -> results."""


def pointee_size(ty: Attribute) -> int:
    """Bytes of what a pointer type (or tensor of pointers) points to."""
    pointer = element_type(ty)
    assert isinstance(pointer, tt.PointerType)
    if isinstance(pointer.pointee_type, tt.PointerType):
        return 8
    return numpy_dtype(pointer.pointee_type).itemsize


def add_offset(pointer: Pointer, offset: Any, size: int, shape: tuple[int, ...]) -> Pointer:
    """`pointer` moved by `offset` elements of `size` bytes."""
    old = affine.as_index(pointer.offset, shape)
    new = affine.as_index(offset, shape)
    if old is not None and new is not None:
        (low, high), (first, last) = new.range(), old.range()
        if low > -_FAR and high < _FAR and first > -_FAR and last < _FAR:
            # Within these bounds nothing can leave 64 bits.
            base, known = old.base, old.base_range
            if new.base.size > 1 or new.base[0]:
                base = base + new.base * size
                known = None
                if old.base.size == 1 or new.base.size == 1:
                    a, b = old.bounds_of_base(), new.bounds_of_base()
                    known = (a[0] + b[0] * size, a[1] + b[1] * size)
            strides = tuple(x + size * y for x, y in zip(old.strides, new.strides, strict=True))
            return Pointer(pointer.region, Index(base, strides, shape, INT64, known))
    with np.errstate(over="ignore"):
        moved_array = pointer.dense_offset() + dense(offset).astype(np.int64) * np.int64(size)
    return Pointer(pointer.region, moved_array)


_FAR = 1 << 55
"""Offsets and sizes (of at most 64 bytes) below this cannot overflow when they are combined."""


def lower_splat(op: tt.SplatOp) -> Lowered:
    shape = shape_of(op.result.type)
    form = (-1,) + (1,) * len(shape)
    still = (0,) * len(shape)

    def run(m: Interpreter, args: Sequence[Any]) -> tuple[Any, ...]:
        (value,) = args
        if type(value) is Pointer:
            index = affine.as_index(value.offset, ())
            if index is not None:
                moved = Index(index.base, still, shape, INT64, index.base_range)
                return (Pointer(value.region, moved),)
            return (Pointer(value.region, value.dense_offset().reshape(form)),)
        if type(value) is Index:
            return (Index(value.base, still, shape, value.dtype, value.base_range),)
        value = dense(value)
        if value.dtype.kind == "i":
            return (Index(value.astype(np.int64), still, shape, value.dtype),)
        return (value.reshape(form),)

    return run


def lower_broadcast(op: tt.BroadcastOp) -> Lowered:
    shape = shape_of(op.result.type)

    def run(m: Interpreter, args: Sequence[Any]) -> tuple[Any, ...]:
        (value,) = args
        if type(value) is Pointer:
            offset = value.offset
            if type(offset) is Index:
                return (Pointer(value.region, affine.broadcast(offset, shape)),)
            return (value,)
        if type(value) is Index:
            return (affine.broadcast(value, shape),)
        if type(value) is affine.Box:
            return (affine.broadcast_box(value, shape),)
        return (value,)

    return run


def lower_expand_dims(op: tt.ExpandDimsOp) -> Lowered:
    axis = op.axis.value.data

    def run(m: Interpreter, args: Sequence[Any]) -> tuple[Any, ...]:
        (value,) = args
        if type(value) is Pointer:
            offset = value.offset
            if type(offset) is Index:
                return (Pointer(value.region, affine.expand(offset, axis)),)
            return (Pointer(value.region, np.expand_dims(value.dense_offset(), axis + 1)),)
        if type(value) is Index:
            return (affine.expand(value, axis),)
        if type(value) is affine.Box:
            return (affine.expand_box(value, axis),)
        return (np.expand_dims(value, axis + 1),)

    return run


def lower_addptr(op: tt.AddPtrOp) -> Lowered:
    size, shape = pointee_size(op.result.type), shape_of(op.result.type)

    def run(m: Interpreter, args: Sequence[Any]) -> tuple[Any, ...]:
        return (add_offset(args[0], args[1], size, shape),)

    return run


@register_impls
class TritonFunctions(InterpreterFunctions):
    """See the module's docstring."""

    lazy = frozenset(
        {tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.AddPtrOp, tt.UnsplatOp, tt.PtrToIntOp}
    )

    @impl(tt.GetProgramIdOp)
    def program_id(self, interp: Interpreter, op: tt.GetProgramIdOp, args: PythonValues):
        assert isinstance(interp, Machine)
        return (interp.program_id(op.axis.value.data),)

    @impl(tt.GetNumProgramsOp)
    def num_programs(self, interp: Interpreter, op: tt.GetNumProgramsOp, args: PythonValues):
        assert isinstance(interp, Machine)
        return (np.array([interp.grid[op.axis.value.data]], np.int32),)

    @impl(tt.MakeRangeOp)
    def make_range(self, interp: Interpreter, op: tt.MakeRangeOp, args: PythonValues):
        start, end = op.start.value.data, op.end.value.data
        dtype = numpy_dtype(op.result.type)
        return (Index(np.array([start], np.int64), (1,), (end - start,), dtype),)

    @impl(tt.SplatOp)
    def splat(self, interp: Interpreter, op: tt.SplatOp, args: PythonValues):
        return lower_splat(op)(interp, args)

    @impl(tt.UnsplatOp)
    def unsplat(self, interp: Interpreter, op: tt.UnsplatOp, args: PythonValues):
        (value,) = args
        if type(value) is Pointer:
            return (Pointer(value.region, value.dense_offset().reshape(-1)),)
        return (dense(value).reshape(-1),)

    @impl(tt.BroadcastOp)
    def broadcast(self, interp: Interpreter, op: tt.BroadcastOp, args: PythonValues):
        return lower_broadcast(op)(interp, args)

    @impl(tt.ExpandDimsOp)
    def expand_dims(self, interp: Interpreter, op: tt.ExpandDimsOp, args: PythonValues):
        return lower_expand_dims(op)(interp, args)

    @impl(tt.AddPtrOp)
    def addptr(self, interp: Interpreter, op: tt.AddPtrOp, args: PythonValues):
        return lower_addptr(op)(interp, args)

    @impl(tt.IntToPtrOp)
    def int_to_ptr(self, interp: Interpreter, op: tt.IntToPtrOp, args: PythonValues):
        return (Pointer(None, dense(args[0]).astype(np.int64)),)

    @impl(tt.PtrToIntOp)
    def ptr_to_int(self, interp: Interpreter, op: tt.PtrToIntOp, args: PythonValues):
        dtype = numpy_dtype(op.results[0].type)
        return (args[0].addresses().astype(dtype),)

    @impl(tt.PrintOp)
    def print(self, interp: Interpreter, op: tt.PrintOp, args: PythonValues):
        assert isinstance(interp, Machine)
        prefix = op.prefix.data
        signed = op.is_signed.get_values()
        for number, (value, ty) in enumerate(zip(args, op.operand_types, strict=True)):
            array = value.addresses() if type(value) is Pointer else dense(value)
            if not signed[number] and isinstance(element_type(ty), IntegerType):
                array = unsigned(array)
            shape = (interp.pids.size, *shape_of(ty))
            full = np.broadcast_to(array, shape)
            operand = f" (operand {number})" if len(args) > 1 else ""
            for pid, part in zip(interp.pids.tolist(), full, strict=True):
                interp.show(pid, prefix + operand, part, bool(op.hex.value.data))
        if not args:
            for pid in interp.pids.tolist():
                interp.show(pid, prefix, None, False)
        return ()

    @impl(tt.AssertOp)
    def check(self, interp: Interpreter, op: tt.AssertOp, args: PythonValues):
        assert isinstance(interp, Machine)
        message = op.message.data
        text = "device assert failed" + (f": {message}" if message else "")
        check_condition(interp, op, args[0], shape_of(op.condition.type), text)
        return ()

    @impl(tt.GridDependencyWaitOp)
    def wait(self, interp: Interpreter, op: tt.GridDependencyWaitOp, args: PythonValues):
        return ()

    @impl(tt.GridDependencyLaunchDependentsOp)
    def launch_dependents(self, interp: Interpreter, op: Any, args: PythonValues):
        return ()


def check_condition(
    m: Machine, op: Operation, condition: Any, shape: tuple[int, ...], text: str
) -> None:
    """Report programs and lanes in which `condition` is false."""
    m.counts.add("assert")
    array = dense(condition)
    if not m.policy.on("assert") or array.all():
        return
    rows = np.argwhere(~np.broadcast_to(array, (m.pids.size, *shape)))
    pids = m.pids[rows[:, 0]]
    pid = int(pids.min())
    mine = rows[pids == pid]
    lanes = ""
    if mine.shape[1] == 2:
        lanes = lanes_text(mine[:, 1].tolist())
    m.fault(
        op,
        Kind.ASSERT,
        text,
        order=(pid,),
        notes=(f"program {m.log.program(pid)}{lanes}",),
        witness={"program": list(m.log.program(pid)), "lanes": mine[:8, 1:].tolist()},
        count=len(rows),
    )


LOWERED: dict[type[Any], Callable[[Any], Lowered]] = {
    tt.SplatOp: lower_splat,
    tt.BroadcastOp: lower_broadcast,
    tt.ExpandDimsOp: lower_expand_dims,
    tt.AddPtrOp: lower_addptr,
}
"""Hot ops, with types looked up once (see `Implementations.lowered`)."""
