"""Which ops keep integers, masks and pointers in their lazy forms (`interp.affine`).

A rule is made once per op (attributes and types are looked up then) and called with operands; it
gives the result, or None to have the op's ordinary implementation run on arrays. Rules of
sums and products also watch for offsets that wrap: a result that leaves its type is computed with
wrap-around, as the device does, and marked (`interp.taint`) so that an address made of it is
reported. Plain numbers are computed at once: the way to an implementation costs more than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.diagnostics import Kind
from xttir.dialects import arith, tt
from xttir.interp import affine
from xttir.interp.affine import Box, Index, dense
from xttir.interp.batch import choose
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.numerics import integer
from xttir.interp.numerics.choose import select
from xttir.interp.plan import Implementations
from xttir.interp.taint import taint
from xttir.interp.types import numpy_dtype, shape_of

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")

Rule = Callable[[Machine, Sequence[Any]], Any]


def _plain(args: Sequence[Any]) -> bool:
    """Whether both operands are arrays."""
    return type(args[0]) is np.ndarray and type(args[1]) is np.ndarray


def _sum(sign: int) -> Callable[[Operation], Rule]:
    what = "sum" if sign == 1 else "difference"
    compute = integer.add if sign == 1 else integer.sub

    def build(op: Operation) -> Rule:
        shape = shape_of(op.operands[0].type)
        assert isinstance(op, arith.AddiOp | arith.SubiOp)
        promises = bool(op.overflow_flags.data)

        def rule(m: Machine, args: Sequence[Any]) -> Any:
            if not shape and _plain(args):
                # Numbers gain nothing from a lazy form.
                if promises or id(op) in m.checked:
                    return _checked(m, op, args, what)
                return compute(args[0], args[1])
            a, b = affine.as_index(args[0], shape), affine.as_index(args[1], shape)
            if a is not None and b is not None:
                result = affine.add(a, b, a.dtype, sign)
                if result is not None:
                    return result
            return _checked(m, op, args, what)

        return rule

    return build


def _product(op: Operation) -> Rule:
    shape = shape_of(op.operands[0].type)

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        if not shape and _plain(args):
            return _checked(m, op, args, "product")
        a, b = affine.as_index(args[0], shape), affine.as_index(args[1], shape)
        if a is not None and b is not None:
            result = affine.mul(a, b, a.dtype)
            if result is not None:
                return result
        return _checked(m, op, args, "product")

    return rule


def _shift_left(op: Operation) -> Rule:
    shape = shape_of(op.operands[0].type)

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        a, b = affine.as_index(args[0], shape), affine.as_index(args[1], shape)
        if a is None or b is None or any(b.strides):
            return None
        amount = affine.uniform(b.base)
        if amount is None or not 0 <= amount < 8 * a.dtype.itemsize - 1:
            return None
        factor = Index(np.array([1 << amount], np.int64), b.strides, b.shape, b.dtype)
        return affine.mul(a, factor, a.dtype)

    return rule


def _checked(m: Machine, op: Operation, args: Sequence[Any], what: str) -> Any:
    """A sum or product on the way to an address, computed with its overflow."""
    if id(op) not in m.checked or not m.policy.on("overflow"):
        return None
    a, b = dense(args[0]), dense(args[1])
    m.counts.add("overflow")
    dtype = a.dtype
    with np.errstate(over="ignore"):
        if dtype.itemsize < 8:
            wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
            exact = _apply(what, wide_a, wide_b)
            result = exact.astype(dtype)
            lanes = exact != result
        else:
            result = _apply(what, a, b)
            lanes = _wraps64(what, a, b, result)
    if not lanes.any():
        return result
    why = f"{what} wraps around {8 * dtype.itemsize} bits"
    return taint(m, op, result, lanes, Kind.INT_OVERFLOW, why)


def _apply(what: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b if what == "sum" else a - b if what == "difference" else a * b


def _wraps64(what: str, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
    if what == "sum":
        return ((a ^ result) & (b ^ result)) < 0
    if what == "difference":
        return ((a ^ b) & (a ^ result)) < 0
    estimate = np.abs(a.astype(np.float64) * b.astype(np.float64))
    # Far below the limit no product wraps; near or above it, division tells.
    near = estimate > 2.0**62
    if not near.any():
        return np.zeros(1, bool).reshape((1,) * result.ndim)
    safe = np.where(a == 0, 1, a)
    return near & ((estimate > 2.0**64) | (result // safe != b) | (result % safe != 0))


def _quotient(remainder: bool) -> Callable[[Operation], Rule]:
    def build(op: Operation) -> Rule:
        shape = shape_of(op.operands[0].type)

        def rule(m: Machine, args: Sequence[Any]) -> Any:
            a, b = affine.as_index(args[0], shape), affine.as_index(args[1], shape)
            if a is None or b is None:
                return None
            return affine.divide(a, b, a.dtype, remainder)

        return rule

    return build


def _cast(unsigned: bool) -> Callable[[Operation], Rule]:
    def build(op: Operation) -> Rule:
        shape = shape_of(op.operands[0].type)
        dtype = numpy_dtype(op.results[0].type)
        boolean = dtype == np.bool_

        def rule(m: Machine, args: Sequence[Any]) -> Any:
            a = affine.as_index(args[0], shape)
            return None if a is None or boolean else affine.cast(a, dtype, unsigned)

        return rule

    return build


def _compare(op: Operation) -> Rule:
    assert isinstance(op, arith.CmpiOp)
    shape = shape_of(op.operands[0].type)
    predicate = _PREDICATES[op.predicate.value.data]

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        if not shape and _plain(args):
            return integer.compare(predicate, args[0], args[1])
        a, b = affine.as_index(args[0], shape), affine.as_index(args[1], shape)
        if a is None or b is None:
            return None
        return affine.compare(a, b, predicate)

    return rule


def _and(op: Operation) -> Rule:
    shape = shape_of(op.operands[0].type)

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        if type(args[0]) is not Box and type(args[1]) is not Box:
            return None
        a, b = affine.as_box(args[0], shape), affine.as_box(args[1], shape)
        return None if a is None or b is None else affine.intersect(a, b)

    return rule


def _select(op: Operation) -> Rule:
    """Masks that hold everywhere choose without looking; pointers are chosen by offset, descriptors
    and tokens as wholes."""
    shape = shape_of(op.results[0].type)

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        condition, a, b = args
        if type(a) is np.ndarray and type(condition) is np.ndarray and type(b) is np.ndarray:
            return select(condition, a, b)
        if type(condition) is Box and condition.holds_everywhere():
            return a
        if hasattr(a, "merge"):
            return choose(condition, a, b, m.pids.size)
        if type(a) is not Pointer:
            return None
        flag = dense(condition)
        flag = flag.reshape(flag.shape[:1] + (1,) * len(shape)) if flag.ndim == 1 else flag
        if a.region is b.region:
            return Pointer(a.region, np.where(flag, a.dense_offset(), b.dense_offset()))
        return Pointer(None, np.where(flag, a.addresses(), b.addresses()))

    return rule


def _bitcast(op: Operation) -> Rule:
    return lambda m, args: args[0] if type(args[0]) is Pointer else None


def _transpose(op: Operation) -> Rule:
    assert isinstance(op, tt.TransOp)
    order = [int(k) for k in op.order.get_values()]

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        (value,) = args
        if type(value) is Index:
            return affine.permute(value, order)
        if type(value) is Box:
            return affine.permute_box(value, order)
        if type(value) is Pointer:
            offset = value.offset
            if isinstance(offset, Index):
                return Pointer(value.region, affine.permute(offset, order))
            return Pointer(value.region, offset.transpose(0, *(k + 1 for k in order)))
        return None

    return rule


def _reshape(op: Operation) -> Rule:
    """Pointers, and integers where only unit axes come and go."""
    shape, source = shape_of(op.results[0].type), shape_of(op.operands[0].type)
    squeezed = [n for n in shape if n > 1] == [n for n in source if n > 1]

    def rule(m: Machine, args: Sequence[Any]) -> Any:
        (value,) = args
        index = value.offset if type(value) is Pointer else value
        if type(index) is Index and squeezed:
            strides = iter(s for s, n in zip(index.strides, source, strict=True) if n > 1)
            moved = Index(
                index.base, tuple(next(strides) if n > 1 else 0 for n in shape), shape, index.dtype
            )
            return Pointer(value.region, moved) if type(value) is Pointer else moved
        if type(value) is Pointer:
            offset = value.dense_offset()
            full = np.broadcast_to(offset, (offset.shape[0], *source))
            return Pointer(value.region, full.reshape(offset.shape[0], *shape))
        return None

    return rule


def register(implementations: Implementations) -> None:
    """Add the rules."""
    implementations.rules |= {
        arith.AddiOp: _sum(1),
        arith.SubiOp: _sum(-1),
        arith.MuliOp: _product,
        arith.ShLIOp: _shift_left,
        arith.DivSIOp: _quotient(False),
        arith.DivUIOp: _quotient(False),
        arith.RemSIOp: _quotient(True),
        arith.RemUIOp: _quotient(True),
        arith.ExtSIOp: _cast(False),
        arith.ExtUIOp: _cast(True),
        arith.TruncIOp: _cast(False),
        arith.IndexCastOp: _cast(False),
        arith.CmpiOp: _compare,
        arith.AndIOp: _and,
        arith.SelectOp: _select,
        tt.BitcastOp: _bitcast,
        tt.TransOp: _transpose,
        tt.ReshapeOp: _reshape,
    }
