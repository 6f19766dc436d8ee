"""`tt` ops on global memory: loads, stores, atomics, and tensor descriptors.

Thin: operands are evaluated here, `interp.memory_ops` moves the data, `interp.sanitizer` checks.
A descriptor block is an ordinary access whose mask is the descriptor's bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, impl, register_impls
from xdsl.ir import Attribute

from xttir.dialects import tt
from xttir.interp.affine import dense
from xttir.interp.descriptors import Descriptor, block_access, reduction
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.memory_ops import atomic_cas, atomic_rmw, load, store
from xttir.interp.taint import Tainted, plain
from xttir.interp.tt import INT64, Lowered
from xttir.interp.types import element_type, numpy_dtype, shape_of

Args = Sequence[Any]

_ACQUIRES = (tt.MemSemantic.ACQUIRE, tt.MemSemantic.ACQUIRE_RELEASE)
_RELEASES = (tt.MemSemantic.RELEASE, tt.MemSemantic.ACQUIRE_RELEASE)


def _synchronise(
    m: Machine, op: Any, pointer: Pointer, mask: Any, before: bool, read_modify_write: bool = True
) -> None:
    """Acquire (after the access) and release (before it) of an atomic; relaxed stores end release
    sequences."""
    clocks = m.sanitizer.clocks
    if clocks is None or op.scope.value.data == tt.MemSyncScope.CTA:
        return
    addresses = pointer.addresses()
    if mask is not None:
        held = dense(mask)
        addresses = np.broadcast_to(addresses, np.broadcast_shapes(addresses.shape, held.shape))
        addresses = addresses[np.broadcast_to(held, addresses.shape)]
    pid = int(m.pids[0])
    sem = op.sem.value.data
    if before:
        if sem in _RELEASES:
            if m.scheduler is not None:
                m.scheduler.before_release(m)
            clocks.release(pid, addresses.reshape(-1), read_modify_write)
        elif not read_modify_write:
            clocks.relaxed_write(addresses.reshape(-1))
    elif sem in _ACQUIRES:
        clocks.acquire(pid, addresses.reshape(-1))


def _plain(op: Any) -> bool:
    """Whether the atomic's scope is one program, so that it orders nothing between programs."""
    return op.scope.value.data == tt.MemSyncScope.CTA


def _access_type(ty: Attribute) -> np.dtype:
    pointer = element_type(ty)
    assert isinstance(pointer, tt.PointerType)
    if isinstance(pointer.pointee_type, tt.PointerType):
        return INT64
    return numpy_dtype(pointer.pointee_type)


def _stored(value: Any) -> np.ndarray:
    return value.addresses() if type(value) is Pointer else dense(value)


def lower_load(op: tt.LoadOp) -> Lowered:
    shape, dtype = shape_of(op.result.type), _access_type(op.ptr.type)
    volatile = bool(op.is_volatile.value.data)
    has_mask, has_other = op.mask is not None, op.other is not None
    of_pointers = isinstance(element_type(op.result.type), tt.PointerType)

    def run(m: Machine, args: Sequence[Any]) -> tuple[Any, ...]:
        mask = args[1] if has_mask else None
        other = _stored(args[-1]) if has_other else None
        values = load(m, op, args[0], mask, other, dtype, shape, volatile)
        return (_pointers(values) if of_pointers else values,)

    return run


def lower_store(op: tt.StoreOp) -> Lowered:
    shape, dtype = shape_of(op.value.type), _access_type(op.ptr.type)

    def run(m: Machine, args: Sequence[Any]) -> tuple[Any, ...]:
        mask = args[2] if len(args) > 2 else None
        store(m, op, args[0], mask, _stored(args[1]), dtype, shape)
        return ()

    return run


@register_impls
class TritonMemoryFunctions(InterpreterFunctions):
    """See the module's docstring."""

    lazy = frozenset({tt.LoadOp, tt.StoreOp, tt.AtomicRMWOp})

    @impl(tt.LoadOp)
    def load(self, interp: Interpreter, op: tt.LoadOp, args: Args):
        return lower_load(op)(interp, args)

    @impl(tt.StoreOp)
    def store(self, interp: Interpreter, op: tt.StoreOp, args: Args):
        return lower_store(op)(interp, args)

    @impl(tt.AtomicRMWOp)
    def atomic_rmw(self, interp: Interpreter, op: tt.AtomicRMWOp, args: Args):
        assert isinstance(interp, Machine)
        mask = args[2] if len(args) > 2 else None
        kind = tt.RMWOp(op.atomic_rmw_op.value.data).keyword  # pyright: ignore
        dtype, shape = _access_type(op.ptr.type), shape_of(op.val.type)
        used = op.result.first_use is not None
        _synchronise(interp, op, args[0], mask, before=True)
        old = atomic_rmw(
            interp, op, args[0], mask, dense(args[1]), kind, dtype, shape, used, _plain(op)
        )
        _synchronise(interp, op, args[0], mask, before=False)
        return (old,)

    @impl(tt.AtomicCASOp)
    def atomic_cas(self, interp: Interpreter, op: tt.AtomicCASOp, args: Args):
        assert isinstance(interp, Machine)
        dtype, shape = _access_type(op.ptr.type), shape_of(op.val.type)
        _synchronise(interp, op, args[0], None, before=True)
        old = atomic_cas(interp, op, args[0], args[1], args[2], dtype, shape, _plain(op))
        _synchronise(interp, op, args[0], None, before=False)
        return (old,)

    @impl(tt.AtomicLoadOp)
    def atomic_load(self, interp: Interpreter, op: tt.AtomicLoadOp, args: Args):
        assert isinstance(interp, Machine)
        mask = args[1] if len(args) > 1 else None
        dtype, shape = _access_type(op.ptr.type), shape_of(op.result.type)
        values = load(interp, op, args[0], mask, None, dtype, shape, volatile=not _plain(op))
        _synchronise(interp, op, args[0], mask, before=False)
        return (values,)

    @impl(tt.AtomicStoreOp)
    def atomic_store(self, interp: Interpreter, op: tt.AtomicStoreOp, args: Args):
        assert isinstance(interp, Machine)
        mask = args[2] if len(args) > 2 else None
        dtype, shape = _access_type(op.ptr.type), shape_of(op.value.type)
        _synchronise(interp, op, args[0], mask, before=True, read_modify_write=False)
        store(interp, op, args[0], mask, dense(args[1]), dtype, shape, atomic=not _plain(op))
        return ()

    @impl(tt.AtomicPollOp)
    def atomic_poll(self, interp: Interpreter, op: tt.AtomicPollOp, args: Args):
        """Wait until memory holds `expected`. A time-out is taken when nobody else can run."""
        assert isinstance(interp, Machine)
        dtype, shape = _access_type(op.ptr.type), shape_of(op.expected.type)
        patient = op.timeout is None
        while True:
            found = load(interp, op, args[0], None, None, dtype, shape, volatile=not _plain(op))
            equal = plain(found) == dense(args[1])
            if equal.all() or not interp.wait(op, patient):
                break
        _synchronise(interp, op, args[0], None, before=False)
        return (equal,)

    # --- descriptors -----------------------------------------------------------------------------

    @impl(tt.MakeTensorDescOp)
    def make_descriptor(self, interp: Interpreter, op: tt.MakeTensorDescOp, args: Args):
        rank = len(op.shape)
        ty = op.result.type
        assert isinstance(ty, tt.TensorDescType)
        block = shape_of_descriptor(ty)
        numbers = [dense(a).reshape(-1).astype(np.int64) for a in args[1 : 1 + 2 * rank]]
        nan = op.padding.value.data == tt.PaddingOption.PAD_NAN
        dtype = _access_type(op.base.type)
        return (Descriptor(args[0], numbers[:rank], numbers[rank:], block, dtype, nan),)

    @impl(tt.DescriptorLoadOp)
    def descriptor_load(self, interp: Interpreter, op: tt.DescriptorLoadOp, args: Args):
        assert isinstance(interp, Machine)
        d = args[0]
        pointer, mask = block_access(d, args[1:])
        values = d.fetch(interp, op, pointer, mask)
        return (_reshaped(values, d.block, shape_of(op.result.type)),)

    @impl(tt.DescriptorStoreOp)
    def descriptor_store(self, interp: Interpreter, op: tt.DescriptorStoreOp, args: Args):
        assert isinstance(interp, Machine)
        d = args[0]
        pointer, mask = block_access(d, args[2:])
        values = _reshaped(dense(args[1]), shape_of(op.src.type), d.block)
        store(interp, op, pointer, mask, values, d.dtype, d.block)
        return ()

    @impl(tt.DescriptorReduceOp)
    def descriptor_reduce(self, interp: Interpreter, op: tt.DescriptorReduceOp, args: Args):
        assert isinstance(interp, Machine)
        d = args[0]
        pointer, mask = block_access(d, args[2:])
        values = _reshaped(dense(args[1]), shape_of(op.src.type), d.block)
        kind = reduction(op, tt.DescriptorReduceKind(op.kind.value.data), op.desc.type)  # pyright: ignore
        atomic_rmw(interp, op, pointer, mask, values, kind, d.dtype, d.block, used=False)
        return ()

    @impl(tt.DescriptorGatherOp)
    def descriptor_gather(self, interp: Interpreter, op: tt.DescriptorGatherOp, args: Args):
        assert isinstance(interp, Machine)
        d = args[0].with_block(shape_of(op.result.type))
        pointer, mask = block_access(d, [_row_index(args[1]), args[2]])
        return (d.fetch(interp, op, pointer, mask),)

    @impl(tt.DescriptorScatterOp)
    def descriptor_scatter(self, interp: Interpreter, op: tt.DescriptorScatterOp, args: Args):
        assert isinstance(interp, Machine)
        d = args[0].with_block(shape_of(op.src.type))
        pointer, mask = block_access(d, [_row_index(args[1]), args[2]])
        store(interp, op, pointer, mask, dense(args[3]), d.dtype, d.block)
        return ()


def _row_index(rows: Any) -> np.ndarray:
    return dense(rows)[:, :, None]


def shape_of_descriptor(ty: tt.TensorDescType) -> tuple[int, ...]:
    """The block shape of a descriptor type."""
    return ty.get_shape()


def _pointers(values: np.ndarray | Tainted) -> Pointer | Tainted:
    """Addresses read from memory as pointers."""
    if isinstance(values, Tainted):
        return Tainted(Pointer(None, values.value), values.bad, values.origin)
    return Pointer(None, values)


def _reshaped(values: Any, source: tuple[int, ...], target: tuple[int, ...]) -> Any:
    """A block with or without its unit axes."""
    if source == target:
        return values
    if type(values) is Tainted:
        value = _reshaped(values.value, source, target)
        return Tainted(value, _reshaped(values.bad, source, target), values.origin)
    full = np.broadcast_to(values, (values.shape[0], *source))
    return full.reshape(values.shape[0], *target)


LOWERED = {tt.LoadOp: lower_load, tt.StoreOp: lower_store}
"""Hot ops, with types looked up once (see `Implementations.lowered`)."""
