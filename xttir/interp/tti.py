"""`tti` ops: what Triton's sanitizers insert into kernels, run as what it is.

The concurrency sanitizer's ops are addresses of buffers, a lock and assertions; those of the float
sanitizer compute in its ring (`numerics.fpsan`). The global sanitizer's atomics are those of `tt`;
what it writes down for itself, and the races that it would report, are left out: `--checks race`
finds them. Rules: `InstrumentationToLLVM.cpp`, `FpSanToLLVM.cpp`, `GSanToLLVM.cpp` in Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Unsupported
from xttir.dialects import tti
from xttir.dialects.layouts.placement import blocks_at
from xttir.dialects.locations import location_of
from xttir.interp import shared
from xttir.interp.addresses import address
from xttir.interp.affine import dense
from xttir.interp.agents import wait_until
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.memory_ops import load, store
from xttir.interp.numerics.fpsan import embed, unembed
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.predicates import held, where_held
from xttir.interp.taint import Tainted, observe_branch
from xttir.interp.tt import check_condition
from xttir.interp.tt_memory import TritonMemoryFunctions
from xttir.interp.ttg_memory import gathered
from xttir.interp.ttng_sync import operand_slots
from xttir.interp.types import numpy_dtype, shape_of

Slots = tuple[int, ...]

GLOBAL = "what Triton's global sanitizer records and reports"

_MASKS = {tti.MemType.SHARED_MEM: (1 << 24) - 1, tti.MemType.TENSOR_MEM: (1 << 32) - 1}
"""The bits of an address that do not depend on the CTA."""


def build_assert(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_assert_uniform."""
    assert isinstance(op, tti.ExperimentalAssertUniformOp)
    text = f"device assert failed: {op.message.data}"

    def run(m: Machine, frame: Frame) -> None:
        check_condition(m, op, observe_branch(m, op, frame[ins[0]]), (), text)

    return run


def build_descriptors(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_buffer_descriptors: int64[1, n], the length above the address. Addresses
    begin at 0 in each memory."""
    assert isinstance(op, tti.ExperimentalBufferDescriptorsOp)
    words = [np.array(a.get_values(), np.int32) for a in (op.offsets, op.lengths)]
    offsets, lengths = (word.view(np.uint32).astype(np.uint64) for word in words)
    mask = np.uint64(_MASKS[tti.MemType(op.mem_type.value.data)])
    table = ((offsets & mask) | lengths << np.uint64(32)).view(np.int64)[None]
    table.flags.writeable = False

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = table

    return run


def build_address(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_memdesc_to_i32."""

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = address(op, frame[ins[0]])

    return run


def build_offset(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_memory_offset_to_i32."""
    assert isinstance(op, tti.ExperimentalMemoryOffsetToI32Op)
    kept = op.offset.value.data & _MASKS[tti.MemType(op.mem_type.value.data)]
    place = np.array([kept], np.uint32).view(np.int32)

    def run(m: Machine, frame: Frame) -> None:
        frame[outs[0]] = place

    return run


def build_cta(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_cluster_cta_id: of a program of one CTA; others have no single one."""
    several = blocks_at(op) > 1

    def run(m: Machine, frame: Frame) -> None:
        if several:
            raise Unsupported("a value that differs between the CTAs of a cluster", location_of(op))
        frame[outs[0]] = np.zeros(1, np.int32)

    return run


def build_gather(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_local_gather: `ttg.local_gather`, all indices shifted by `offsets`."""
    assert isinstance(op, tti.ExperimentalLocalGatherOp)
    slots = operand_slots(c, op)
    axis, ty = op.axis.value.data, op.indices.type

    def run(m: Machine, frame: Frame) -> None:
        shifts = [dense(observe_branch(m, op, frame[slot])) for slot in slots["offsets"]]
        view = gathered(m, op, frame[slots["src"]], ty, axis, frame[slots["indices"]], shifts)
        frame[outs[0]] = shared.load(m, op, view)

    return run


def _with_lock(c: Compiler, op: Operation, act: Callable[[Machine, Any], None]) -> Step:
    """`act(m, lock)` for the programs for which the predicate of `op` holds."""
    slots = operand_slots(c, op)

    def run(m: Machine, frame: Frame) -> None:
        predicate = None if slots["pred"] is None else frame[slots["pred"]]
        lock = [frame[slots["lock"]]]
        where_held(m, held(m, op, predicate), lock, lambda args: act(m, args[0]))

    return run


def build_acquire(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_lock_acquire: other agents run until the lock is 0; then it is 1."""
    one = np.ones(1, np.int32)

    def acquire(m: Machine, lock: Any) -> None:
        if np.unique(lock.addresses()).size < m.pids.size:
            raise Unsupported("a lock that several programs share", location_of(op))

        def free() -> bool:
            word = load(m, op, lock, None, None, one.dtype, (), True)
            return not dense(observe_branch(m, op, word)).any()

        wait_until(m, op, free, lambda: "a lock to be released")
        store(m, op, lock, None, one, one.dtype, (), atomic=True)

    return _with_lock(c, op, acquire)


def build_release(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_lock_release: the lock is 0."""
    zero = np.zeros(1, np.int32)

    def release(m: Machine, lock: Any) -> None:
        store(m, op, lock, None, zero, zero.dtype, (), atomic=True)

    return _with_lock(c, op, release)


def build_dot(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.dot_i8: products are exact in f64, sums wrap in i32."""
    assert isinstance(op, tti.DotI8Op)
    kinds = ["i1" if flag.value.data else "u1" for flag in (op.a_signed, op.b_signed)]
    shapes = [shape_of(value.type) for value in (op.a, op.b)]

    def operand(value: np.ndarray, n: int) -> np.ndarray:
        full = np.broadcast_to(dense(value), (value.shape[0], *shapes[n]))
        return np.ascontiguousarray(full).view(kinds[n]).astype(np.float64)

    def run(m: Machine, frame: Frame) -> None:
        def product(a: Any, b: Any, total: Any) -> np.ndarray:
            found = operand(a, 0) @ operand(b, 1)
            with np.errstate(over="ignore"):
                return found.astype(np.int64).astype(np.int32) + dense(total)

        frame[outs[0]] = marked(product, [frame[slot] for slot in ins])

    return run


def marked(compute: Any, args: Sequence[Any]) -> Any:
    """`compute` of the operands, all of it undefined for programs of which some lane was."""
    origins = [a for a in args if type(a) is Tainted]
    value = compute(*(a.value if type(a) is Tainted else a for a in args))
    if not origins:
        return value
    bad: Any = False
    for a in origins:
        bad = bad | a.bad.any(axis=tuple(range(1, a.bad.ndim)), keepdims=True)
    return Tainted(value, bad.reshape(-1, *(1,) * (value.ndim - 1)), origins[0].origin)


def build_ring(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """tti.experimental_fpsan_embed and tti.experimental_fpsan_unembed."""
    embeds = isinstance(op, tti.ExperimentalFPSanEmbedOp)
    dtype = numpy_dtype(op.results[0].type)

    def change(value: Any) -> np.ndarray:
        value = dense(value)
        return embed(value) if embeds else unembed(value, dtype)

    def run(m: Machine, frame: Frame) -> None:
        value = frame[ins[0]]
        if type(value) is Tainted:
            frame[outs[0]] = Tainted(change(value.value), value.bad, value.origin)
        else:
            frame[outs[0]] = change(value)

    return run


def build_record(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """Ops with which the global sanitizer keeps its own books."""

    def run(m: Machine, frame: Frame) -> None:
        m.counts.leave_out(GLOBAL)

    return run


def _atomic(name: str) -> Any:
    """The builder of an atomic that is `tt`'s, checked by the global sanitizer too."""
    functions = TritonMemoryFunctions()
    call = getattr(functions, name)

    def build(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
        def run(m: Machine, frame: Frame) -> None:
            m.counts.leave_out(GLOBAL)
            args = [observe_branch(m, op, frame[slot]) for slot in ins]
            results = call(m, op, [a if type(a) is Pointer else dense(a) for a in args]).values
            for slot, value in zip(outs, results, strict=True):
                frame[slot] = value

        return run

    return build


def register(implementations: Implementations) -> None:
    """Add the ops."""
    records = (
        tti.ExperimentalGSanInitOp,
        tti.ExperimentalGSanKernelExitOp,
        tti.ExperimentalGSanGridDependencyWaitOp,
        tti.ExperimentalGSanClusterBarrierInitOp,
        tti.ExperimentalGSanClusterBarrierSyncOp,
        tti.ExperimentalGSanMBarrierTableInitOp,
        tti.ExperimentalGSanMBarrierInitOp,
        tti.ExperimentalGSanMBarrierArriveOp,
        tti.ExperimentalGSanMBarrierWaitOp,
        tti.ExperimentalGSanTensorDescAccessOp,
        tti.ExperimentalGSanIndexedTensorDescAccessOp,
        tti.ExperimentalGSanAtomicTensorDescAccessOp,
        tti.ExperimentalGSanTensorAccessOp,
        tti.ExperimentalGSanAtomicTensorAccessOp,
        tti.ExperimentalGSanAtomicPollOp,
    )
    implementations.control |= dict.fromkeys(records, build_record)
    implementations.control |= {
        tti.ExperimentalAssertUniformOp: build_assert,
        tti.ExperimentalBufferDescriptorsOp: build_descriptors,
        tti.ExperimentalMemDescToI32Op: build_address,
        tti.ExperimentalMemoryOffsetToI32Op: build_offset,
        tti.ExperimentalClusterCTAIdOp: build_cta,
        tti.ExperimentalLocalGatherOp: build_gather,
        tti.ExperimentalLockAcquireOp: build_acquire,
        tti.ExperimentalLockReleaseOp: build_release,
        tti.DotI8Op: build_dot,
        tti.ExperimentalFPSanEmbedOp: build_ring,
        tti.ExperimentalFPSanUnembedOp: build_ring,
        tti.ExperimentalGSanAtomicLoadOp: _atomic("atomic_load"),
        tti.ExperimentalGSanAtomicStoreOp: _atomic("atomic_store"),
        tti.ExperimentalGSanAtomicRMWOp: _atomic("atomic_rmw"),
        tti.ExperimentalGSanAtomicCASOp: _atomic("atomic_cas"),
    }
