"""Which ops keep integers, masks and pointers in their lazy forms (`interp.affine`).

A rule gives the result, or None to have the op's ordinary implementation run on arrays. Rules of
sums and products also watch for offsets that wrap: a result that leaves its type is computed with
wrap-around, as the device does, and marked (`interp.taint`) so that an address made of it is
reported.
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
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.plan import Implementations
from xttir.interp.taint import taint
from xttir.interp.types import numpy_dtype, shape_of

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _pair(op: Operation, args: Sequence[Any]) -> tuple[Index | None, Index | None]:
    shape = shape_of(op.operands[0].type)
    return affine.as_index(args[0], shape), affine.as_index(args[1], shape)


def _sum(sign: int) -> Callable[[Machine, Operation, Sequence[Any]], Any]:
    def rule(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
        a, b = _pair(op, args)
        if a is not None and b is not None:
            result = affine.add(a, b, a.dtype, sign)
            if result is not None:
                return result
        return _checked(m, op, args, "sum" if sign == 1 else "difference")

    return rule


def _product(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    a, b = _pair(op, args)
    if a is not None and b is not None:
        result = affine.mul(a, b, a.dtype)
        if result is not None:
            return result
    return _checked(m, op, args, "product")


def _shift_left(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    a, b = _pair(op, args)
    if a is None or b is None or any(b.strides):
        return None
    amount = affine.uniform(b.base)
    if amount is None or not 0 <= amount < 8 * a.dtype.itemsize - 1:
        return None
    factor = Index(np.array([1 << amount], np.int64), b.strides, b.shape, b.dtype)
    return affine.mul(a, factor, a.dtype)


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


def _quotient(remainder: bool) -> Callable[[Machine, Operation, Sequence[Any]], Any]:
    def rule(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
        a, b = _pair(op, args)
        if a is None or b is None:
            return None
        return affine.divide(a, b, a.dtype, remainder)

    return rule


def _cast(unsigned: bool) -> Callable[[Machine, Operation, Sequence[Any]], Any]:
    def rule(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
        a = affine.as_index(args[0], shape_of(op.operands[0].type))
        if a is None:
            return None
        dtype = numpy_dtype(op.results[0].type)
        return None if dtype == np.bool_ else affine.cast(a, dtype, unsigned)

    return rule


def _compare(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    assert isinstance(op, arith.CmpiOp)
    a, b = _pair(op, args)
    if a is None or b is None:
        return None
    return affine.compare(a, b, _PREDICATES[op.predicate.value.data])


def _and(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    if type(args[0]) is not Box and type(args[1]) is not Box:
        return None
    shape = shape_of(op.operands[0].type)
    a, b = affine.as_box(args[0], shape), affine.as_box(args[1], shape)
    return None if a is None or b is None else affine.intersect(a, b)


def _select(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    """Pointers; everything else is arrays."""
    condition, a, b = args
    if type(a) is not Pointer:
        return None
    flag = dense(condition)
    shape = shape_of(op.results[0].type)
    flag = flag.reshape(flag.shape[:1] + (1,) * len(shape)) if flag.ndim == 1 else flag
    if a.region is b.region:
        return Pointer(a.region, np.where(flag, a.dense_offset(), b.dense_offset()))
    return Pointer(None, np.where(flag, a.addresses(), b.addresses()))


def _bitcast(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    return args[0] if type(args[0]) is Pointer else None


def _transpose(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    assert isinstance(op, tt.TransOp)
    (value,) = args
    order = [int(k) for k in op.order.get_values()]
    if type(value) is Index:
        return affine.permute(value, order)
    if type(value) is Box:
        return affine.permute_box(value, order)
    if type(value) is Pointer:
        offset = value.offset
        if type(offset) is Index:
            return Pointer(value.region, affine.permute(offset, order))
        return Pointer(value.region, offset.transpose(0, *(k + 1 for k in order)))
    return None


def _reshape(m: Machine, op: Operation, args: Sequence[Any]) -> Any:
    """Pointers, and integers where only unit axes come and go."""
    (value,) = args
    shape = shape_of(op.results[0].type)
    index = value.offset if type(value) is Pointer else value
    if type(index) is Index and [n for n in index.shape if n > 1] == [n for n in shape if n > 1]:
        strides = iter(s for s, n in zip(index.strides, index.shape, strict=True) if n > 1)
        moved = Index(
            index.base, tuple(next(strides) if n > 1 else 0 for n in shape), shape, index.dtype
        )
        return Pointer(value.region, moved) if type(value) is Pointer else moved
    if type(value) is Pointer:
        source = shape_of(op.operands[0].type)
        offset = value.dense_offset()
        full = np.broadcast_to(offset, (offset.shape[0], *source))
        return Pointer(value.region, full.reshape(offset.shape[0], *shape))
    return None


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
