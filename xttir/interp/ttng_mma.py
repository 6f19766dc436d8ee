"""`ttng` ops on tensor cores: wgmma and tcgen05, scaled ones too.

The product is that of `tt.dot` and `tt.dot_scaled`, bit for bit; what differs is where operands lie
and when they are read. An asynchronous product reads and writes when it is issued, which is a legal
order; its accesses carry the stamp of its engine, so that whoever touches their memory before the
product is known to be done races with it. So does whoever uses the registers that it writes: they
are undefined until a wait, and but for the next product that adds to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from xttir.diagnostics import Kind
from xttir.dialects import ttg, ttng
from xttir.dialects.layouts.placement import integer_attribute, module_of
from xttir.interp import phases, shared
from xttir.interp.affine import dense
from xttir.interp.attributes import integer
from xttir.interp.clusters import commits
from xttir.interp.dot import PRECISIONS
from xttir.interp.machine import Machine
from xttir.interp.mbarriers import select
from xttir.interp.memdesc import TOKEN
from xttir.interp.numerics import products
from xttir.interp.order import TCGEN05, Groups, Positions, Released, Stamp
from xttir.interp.physical import in_tensor_memory
from xttir.interp.plan import Compiler, Frame, Implementations, Step
from xttir.interp.positions import numbers_of_bits
from xttir.interp.predicates import Held, both, held, where_held
from xttir.interp.taint import Origin, Tainted, taint_with
from xttir.interp.ttg_memory import dtype_of_memory, shape_of_memory
from xttir.interp.ttng_sync import operand_slots
from xttir.interp.types import shape_of

Slots = tuple[int, ...]

WGMMA = "wgmma"
"""The engine of `ttng.warp_group_dot`."""


def _shape(value: SSAValue) -> tuple[int, ...]:
    ty = value.type
    return shape_of_memory(ty) if isinstance(ty, ttg.MemDescType) else shape_of(ty)


class _Operand(NamedTuple):
    """Where an operand lies, and its shape."""

    in_memory: bool
    shape: tuple[int, ...]


def _operand_of(value: SSAValue) -> _Operand:
    return _Operand(isinstance(value.type, ttg.MemDescType), _shape(value))


def _elements(m: Machine, op: Operation, value: Any, of: _Operand, stamp: Stamp | None) -> Any:
    """The elements of an operand, in memory or registers, with full extents."""
    if of.in_memory:
        value = shared.load(m, op, value, stamp)
    shape = of.shape
    if type(value) is Tainted:
        bad = np.broadcast_to(value.bad, (value.bad.shape[0], *shape))
        return Tainted(_full(dense(value.value), shape), bad, value.origin)
    return _full(dense(value), shape)


def _full(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return value if value.shape[1:] == shape else np.broadcast_to(value, (value.shape[0], *shape))


def _product(args: Sequence[Any], multiply: Any) -> Any:
    """`multiply(a, b, c)`, tainted where rows of a, columns of b or elements of c are."""
    marked = [a for a in args if type(a) is Tainted]
    if not marked:
        return multiply(*args)
    bare = [a.value if type(a) is Tainted else a for a in args]
    value = multiply(*bare)
    bad: Any = False
    for n, a in enumerate(args):
        if type(a) is Tainted:
            axis = (-1, -2)[n] if n < 2 else None
            bad = bad | (a.bad if axis is None else a.bad.any(axis=axis, keepdims=True))
    return Tainted(value, np.asarray(bad), marked[0].origin)


def build_warp_group_dot(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.warp_group_dot."""
    assert isinstance(op, ttng.WarpGroupDotOp)
    slots = operand_slots(c, op)
    precision = PRECISIONS[integer(op.input_precision)]
    asynchronous = bool(op.is_async.value.data)
    left, right = _operand_of(op.a), _operand_of(op.b)

    def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return products.dot(a, b, c, precision)

    def run(m: Machine, frame: Frame) -> None:
        engine = m.clock.engine(WGMMA)
        stamp = engine.stamp()
        a = _elements(m, op, frame[slots["a"]], left, stamp)
        b = _elements(m, op, frame[slots["b"]], right, stamp)
        total = _accumulated(frame[slots["c"]])
        used = held(m, op, None if slots["use_c"] is None else frame[slots["use_c"]])
        total = _kept(total, used)
        value = _product((a, b, total), multiply)
        frame[outs[0]] = _under_way(m, op, value, stamp) if asynchronous else value
        _issued(m, engine, asynchronous)

    return run


@dataclass(frozen=True)
class InFlight(Origin):
    """Why registers that a product still writes are undefined. `stamp`: the product's."""

    stamp: Stamp | None = None


def _under_way(m: Machine, op: Operation, value: Any, stamp: Stamp) -> Any:
    """The registers that the product `op` writes, until it is waited for."""
    if type(value) is Tainted:
        return value
    origin = InFlight(
        op,
        Kind.RACE,
        "registers that a product in flight still writes",
        "registers that a warp_group_dot in flight writes are used before it is waited for",
        hint="wait for it (ttng.warp_group_dot_wait) before its result is used",
        pid=int(m.pids.min()),
        stamp=stamp,
    )
    return taint_with(m, value, np.ones((1,) * value.ndim, bool), origin)


def _accumulated(total: Any) -> Any:
    """What a product adds to: registers in flight too, as the engine keeps its order."""
    if type(total) is Tainted and type(total.origin) is InFlight:
        return total.value
    return total


def _waited(m: Machine, value: Any) -> Any:
    """`value` after a wait, which may have ended the product that writes it."""
    if type(value) is not Tainted or type(value.origin) is not InFlight:
        return value
    assert value.origin.stamp is not None
    components, at = m.clock.components, m.positions()
    running = m.clock.unordered(value.origin.stamp, components.who(at))
    if not running:
        return value.value
    late = np.isin(np.arange(components.batch) if at is None else at, numbers_of_bits(running))
    bad = value.bad & late.reshape((-1,) + (1,) * (value.bad.ndim - 1))
    return Tainted(value.value, bad, value.origin)


def _kept(total: Any, used: Held) -> Any:
    """The accumulator where it is used, else zeros."""
    if used is True:
        return total
    value = total.value if type(total) is Tainted else total
    if used is False:
        return np.zeros((1,) * value.ndim, value.dtype)
    choice = used.reshape((-1,) + (1,) * (value.ndim - 1))
    kept = np.where(choice, value, np.zeros((), value.dtype))
    return Tainted(kept, total.bad & choice, total.origin) if type(total) is Tainted else kept


def _issued(m: Machine, engine: Groups, asynchronous: bool) -> None:
    """The op just issued is a group of its own, awaited at once if it is not asynchronous."""
    at = m.positions()
    engine.commit(at)
    if not asynchronous:
        engine.wait(0, at)


def build_warp_group_dot_wait(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.warp_group_dot_wait."""
    assert isinstance(op, ttng.WarpGroupDotWaitOp)
    outstanding = op.pendings.value.data

    def run(m: Machine, frame: Frame) -> None:
        m.clock.engine(WGMMA).wait(outstanding, m.positions())
        for source, target in zip(ins, outs, strict=True):
            frame[target] = _waited(m, frame[source])

    return run


def _commit(
    m: Machine, op: Operation, engine: Groups, barriers: list[tuple[Any, Held]], arrivals: int
) -> None:
    """The engine arrives at `barriers` (each with a predicate) once it has done all that it was
    given so far."""
    positions = m.positions()
    published: list[tuple[Positions, Released]] = []
    for barrier, predicate in barriers:
        for one, at, _ in select(m.barriers, barrier, positions, predicate):
            if not phases.usable(m, op, one, at):
                continue
            # For the same programs, all are told the same.
            released = next((known for those, known in published if those is at), None)
            if released is None:
                released = engine.told(m.clock.publish(at), 0)
                published.append((at, released))
            phases.update(m, op, one, arrivals, 0, released, True)


def _multiplier(op: Any) -> Callable[[Machine, Sequence[Any], Stamp, Any], None]:
    """d = multiply(a, b, d or zeros), for operands (a, b, d, use_d)."""
    first, second, third = (_operand_of(value) for value in (op.a, op.b, op.d))
    zeros = np.zeros((1,) * (len(third.shape) + 1), dtype_of_memory(op.d.type))
    zeros.flags.writeable = False

    def multiply_into(m: Machine, args: Sequence[Any], stamp: Stamp, multiply: Any) -> None:
        a, b, d, use_d = args
        left = _elements(m, op, a, first, stamp)
        right = _elements(m, op, b, second, stamp)
        used = held(m, op, use_d)
        total = zeros if used is False else _kept(_elements(m, op, d, third, stamp), used)
        shared.store(m, op, d, _product((left, right, total), multiply), stamp=stamp)

    return multiply_into


def build_mma(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tc_gen5_mma and ttng.tc_gen5_mma_scaled."""
    assert isinstance(op, ttng.TCGen5MMAOp | ttng.TCGen5MMAScaledOp)
    slots = operand_slots(c, op)
    scaled = isinstance(op, ttng.TCGen5MMAScaledOp)
    names = ["a", "b", "d", "use_d", *(("a_scale", "b_scale") if scaled else ())]
    operands = [slots[name] for name in names]
    unsigned = not scaled and op.is_unsigned is not None
    precision = "tf32" if not scaled and numpy_dtype_is_f32(op.a) else "ieee"
    multiply_into = _multiplier(op)
    read = [v.type for v in (op.a, op.b) if _is_shared(v)] if op.multicast is not None else []
    arrivals = commits(op, read, op.two_ctas is not None)
    waits = op.is_async is None and not op.barriers
    commits_to = list(zip(slots["barriers"], slots["barrier_preds"], strict=True))
    if scaled:
        from xttir.interp.dot_scaled import ELEMENT_TYPES, dot_scaled

        types = [ELEMENT_TYPES[integer(t)] for t in (op.a_type, op.b_type)]

    def plain_product(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
        if unsigned:
            a, b = a.view(f"u{a.dtype.itemsize}"), b.view(f"u{b.dtype.itemsize}")
        return products.dot(a, b, total, precision)

    def run(m: Machine, frame: Frame) -> None:
        engine = m.clock.engine(TCGEN05)
        predicate = held(m, op, frame[slots["pred"]])

        def issue(args: Sequence[Any]) -> None:
            stamp = engine.stamp()
            if not scaled:
                multiply_into(m, args, stamp, plain_product)
                return
            left, right = (_plain(shared.load(m, op, s, stamp)) for s in args[4:])

            def scaled_product(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
                return dot_scaled(a, left, types[0], True, b, right, types[1], True, total)

            multiply_into(m, args[:4], stamp, scaled_product)

        where_held(m, predicate, [frame[slot] for slot in operands], issue)
        _issued(m, engine, not waits)
        if commits_to and predicate is not False:
            # Where the product is not issued, nothing of it is, its commits included.
            barriers = [
                (frame[barrier], both(predicate, held(m, op, frame[given])))
                for barrier, given in commits_to
            ]
            _commit(m, op, engine, barriers, arrivals)
        for slot in outs:
            frame[slot] = TOKEN

    return run


def numpy_dtype_is_f32(value: SSAValue) -> bool:
    """Whether the elements of a memory operand are f32."""
    return dtype_of_memory(value.type) == np.float32


def _plain(value: Any) -> np.ndarray:
    return value.value if type(value) is Tainted else dense(value)


def build_commit(c: Compiler, op: Operation, ins: Slots, outs: Slots) -> Step:
    """ttng.tc_gen5_commit."""
    assert isinstance(op, ttng.TCGen5CommitOp)
    slots = operand_slots(c, op)
    two_ctas = bool(integer_attribute(module_of(op), "ttng.two-ctas"))
    arrivals = commits(op, [v.type for v in op.descs], two_ctas)

    def run(m: Machine, frame: Frame) -> None:
        predicate = held(m, op, None if slots["pred"] is None else frame[slots["pred"]])
        barriers = [(frame[slots["barrier"]], predicate)]
        _commit(m, op, m.clock.engine(TCGEN05), barriers, arrivals)

    return run


def _is_shared(value: SSAValue) -> bool:
    """Whether an operand lies in shared memory."""
    return isinstance(value.type, ttg.MemDescType) and not in_tensor_memory(value.type)


def register(implementations: Implementations) -> None:
    """Add the ops."""
    implementations.control |= {
        ttng.WarpGroupDotOp: build_warp_group_dot,
        ttng.WarpGroupDotWaitOp: build_warp_group_dot_wait,
        ttng.TCGen5MMAOp: build_mma,
        ttng.TCGen5MMAScaledOp: build_mma,
        ttng.TCGen5CommitOp: build_commit,
    }
