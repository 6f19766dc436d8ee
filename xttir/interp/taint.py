"""Undefined lanes, followed until they matter.

A result that is undefined in some lanes (division by zero, an offset that wrapped) is no fault
while nothing depends on those lanes: a mask may drop them. Such values are `Tainted`: the value
and a mask of bad lanes. Ops pass the mask on; stores, addresses, branches and asserts report it at
the op where it arose. Nothing here costs anything until the first taint of a batch appears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from xttir.diagnostics import Kind, Location
from xttir.dialects import arith, tt
from xttir.dialects.locations import locations_of
from xttir.interp.affine import dense
from xttir.interp.batch import merge, take
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.numerics.choose import align
from xttir.interp.report import lanes_text
from xttir.interp.types import element_type, shape_of


@dataclass(frozen=True)
class Origin:
    """Where and why lanes became undefined.

    `message` is the report's first line, `why` alone what is wrong with the value; `others` and
    `notes` are further places and facts, `hint` what to try. `pid` and `witness` speak of the first
    program concerned, for reports at the op itself.
    """

    op: Operation
    kind: Kind
    why: str
    message: str = ""
    others: tuple[Location, ...] = ()
    notes: tuple[str, ...] = ()
    hint: str = ""
    pid: int = 0
    witness: dict[str, Any] = field(default_factory=dict)


class Tainted:
    """A value whose lanes `bad` (bool (b, *s), broadcastable) are undefined because of `origin`."""

    __slots__ = ("bad", "origin", "value")

    def __init__(self, value: Any, bad: np.ndarray, origin: Origin):
        self.value = value
        self.bad = bad
        self.origin = origin

    def take(self, programs: np.ndarray) -> Tainted:
        return Tainted(take(self.value, programs), take(self.bad, programs), self.origin)

    def dense(self) -> Any:
        return dense(self.value)

    @staticmethod
    def merge_tainted(parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> Tainted:
        origin = next(v.origin for _, v in parts if type(v) is Tainted)
        values = [(where, plain(v)) for where, v in parts]
        bad = [(where, _bad_of(v)) for where, v in parts]
        return Tainted(merge(values, batch), merge(bad, batch), origin)


def plain(value: Any) -> Any:
    """The value without its taint."""
    return value.value if type(value) is Tainted else value


def _bad_of(value: Any) -> np.ndarray:
    if type(value) is Tainted:
        return value.bad
    if type(value) is np.ndarray:
        return np.zeros((1,) * value.ndim, bool)
    if type(value) is Pointer:
        return np.zeros((1,) * value.dense_offset().ndim, bool)
    return np.zeros((1,) * (len(value.shape) + 1), bool)


def taint(
    m: Machine, op: Operation, value: Any, lanes: np.ndarray, kind: Kind, why: str
) -> Tainted:
    """Mark lanes of the result of `op`."""
    if kind is Kind.INT_OVERFLOW:
        message = f"{why} on the way to an address"
        hint = "compute the offset in 64 bits (cast one factor with .to(tl.int64))"
        return taint_with(m, value, lanes, Origin(op, kind, why, message, hint=hint))
    return taint_with(m, value, lanes, Origin(op, kind, why, f"{why}: the result is undefined"))


def taint_with(m: Machine, value: Any, lanes: np.ndarray, origin: Origin) -> Tainted:
    """Mark lanes of a value that `origin` describes."""
    m.tainted = True
    return Tainted(value, lanes, origin)


_DROPS_OVERFLOW = (
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.RemSIOp,
    arith.RemUIOp,
    arith.DivSIOp,
    arith.DivUIOp,
    arith.ShRSIOp,
    arith.ShRUIOp,
    arith.CmpiOp,
    arith.CmpfOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    tt.MulhiUIOp,
    tt.ReduceOp,
    tt.ScanOp,
    tt.StoreOp,
    tt.AtomicRMWOp,
    tt.AtomicCASOp,
)
"""Ops after which a wrapped integer is no offset that wrapped any more: hashes wrap on purpose."""

Runner = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def run_tainted(m: Machine, op: Operation, args: tuple[Any, ...], run: Runner) -> tuple[Any, ...]:
    """Run `op` on arguments of which some may be tainted, and taint its results accordingly."""
    marked = [a for a in args if type(a) is Tainted]
    if not marked:
        return run(args)
    bare = tuple(plain(a) for a in args)
    if isinstance(op, tt.StoreOp | tt.LoadOp | tt.AtomicRMWOp | tt.AtomicCASOp | tt.AssertOp):
        observe(m, op, args)
    elif isinstance(op, _STORES_OF_BLOCKS):
        _observe_block(m, op, args)
    results = run(bare)
    origin = marked[0].origin
    if origin.kind is Kind.INT_OVERFLOW and isinstance(op, _DROPS_OVERFLOW):
        return results
    bad = _rule(m, op, args, bare, run)
    if bad is None or not bad.any():
        return results
    return tuple(
        Tainted(plain(r), np.logical_or(bad, r.bad) if type(r) is Tainted else bad, origin)
        for r in results
    )


def _rule(
    m: Machine, op: Operation, args: tuple[Any, ...], bare: tuple[Any, ...], run: Runner
) -> np.ndarray | None:
    """Bad lanes of the results of `op`."""
    lanes: list[np.ndarray] = [_bad_of(a) for a in args]
    if isinstance(op, tt.LoadOp):
        other = lanes[2] if len(lanes) > 2 else None
        return None if other is None else other & ~dense(bare[1])
    if isinstance(op, arith.SelectOp):
        rank = 1 + len(shape_of(op.results[0].type))
        wrong, condition = align(lanes[0], rank), align(dense(bare[0]), rank)
        return np.asarray(np.logical_or(wrong, np.where(condition, lanes[1], lanes[2])))
    if isinstance(op, arith.AndIOp | arith.OrIOp) and _is_bool(op):
        a, b = dense(bare[0]), dense(bare[1])
        if isinstance(op, arith.OrIOp):
            a, b = ~a, ~b
        return (lanes[0] & (b | lanes[1])) | (lanes[1] & (a | lanes[0]))
    shapes = {shape_of(v.type) for v in (*op.operands, *op.results)}
    if len(shapes) == 1 and not op.regions:
        bad = lanes[0]
        for more in lanes[1:]:
            bad = bad | more
        return bad
    if isinstance(op, _MOVES):
        return dense(run((lanes[0],))[0]).astype(bool)
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        axis = op.axis.value.data + 1
        bad = lanes[0]
        for more in lanes[1:]:
            bad = bad | more
        return np.asarray(bad.any(axis=axis, keepdims=isinstance(op, tt.ScanOp)))
    if isinstance(op, tt.JoinOp | tt.CatOp):
        full = [np.broadcast_to(b, (b.shape[0], *shape_of(op.operands[0].type))) for b in lanes]
        return dense(run(tuple(full))[0]).astype(bool)
    # Anything else mixes lanes: one bad lane of a program makes all of its results bad.
    bad = np.zeros(1, bool)
    for more in lanes:
        bad = bad | more.reshape(more.shape[0], -1).any(axis=1)
    rank = max((len(shape_of(r.type)) for r in op.results), default=0)
    return bad.reshape((-1,) + (1,) * rank)


_STORES_OF_BLOCKS = (tt.DescriptorStoreOp, tt.DescriptorReduceOp, tt.DescriptorScatterOp)


def _observe_block(m: Machine, op: Operation, args: Sequence[Any]) -> None:
    """Report what a store through a descriptor makes observable."""
    from xttir.interp.descriptors import observe_block

    d = plain(args[0])
    if isinstance(op, tt.DescriptorScatterOp):
        *indices, stored = args[1:]
        rows = indices[0]
        if type(rows) is Tainted:
            indices[0] = Tainted(dense(rows.value)[:, :, None], rows.bad[:, :, None], rows.origin)
        else:
            indices[0] = dense(rows)[:, :, None]
        observe_block(m, op, d.with_block(shape_of(op.src.type)), indices, stored)
        return
    assert isinstance(op, tt.DescriptorStoreOp | tt.DescriptorReduceOp)
    stored, *indices = args[1:]
    if type(stored) is Tainted:
        full = (stored.bad.shape[0], *shape_of(op.src.type))
        bad = np.broadcast_to(stored.bad, full).reshape(-1, *d.block)
        stored = Tainted(stored.value, bad, stored.origin)
    observe_block(m, op, d, indices, stored)


_MOVES = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.TransOp, tt.ReshapeOp)


def _is_bool(op: Operation) -> bool:
    ty = element_type(op.results[0].type)
    return isinstance(ty, IntegerType) and ty.width.data == 1


def observe(m: Machine, op: Operation, args: Sequence[Any]) -> None:
    """Report bad lanes that a memory op or an assert makes observable."""
    mask: Any = None
    watched: list[tuple[Any, str]] = []
    if isinstance(op, tt.LoadOp):
        mask = args[1] if len(args) > 1 else None
        watched = [(args[0], "address")]
    elif isinstance(op, tt.StoreOp):
        mask = args[2] if len(args) > 2 else None
        watched = [(args[0], "address"), (args[1], "stored value")]
    elif isinstance(op, tt.AtomicRMWOp):
        mask = args[2] if len(args) > 2 else None
        watched = [(args[0], "address"), (args[1], "operand")]
    elif isinstance(op, tt.AtomicCASOp):
        watched = [(args[0], "address"), (args[1], "operand"), (args[2], "operand")]
    else:
        watched = [(args[0], "condition")]
    if mask is not None:
        watched.append((mask, "mask"))
    _observe_all(m, op, watched, mask)


def observe_access(m: Machine, op: Operation, pointer: Any, mask: Any) -> None:
    """Report bad lanes of a pointer or mask with which `op` accesses memory."""
    watched = [(pointer, "address")]
    if mask is not None:
        watched.append((mask, "mask"))
    _observe_all(m, op, watched, mask)


def _observe_all(m: Machine, op: Operation, watched: list[tuple[Any, str]], mask: Any) -> None:
    for value, role in watched:
        if type(value) is not Tainted:
            continue
        bad = value.bad
        if value.origin.kind is Kind.INT_OVERFLOW and role != "address":
            continue
        if mask is not None and role != "mask":
            held = dense(plain(mask))
            if type(mask) is Tainted:
                held = held & ~mask.bad
            bad = bad & held
        if bad.any():
            report(m, op, value, bad, role)


def observe_branch(m: Machine, op: Operation, value: Any) -> Any:
    """The plain condition or bound of a branch or loop; bad lanes are reported."""
    if type(value) is Tainted:
        if value.bad.any() and value.origin.kind is not Kind.INT_OVERFLOW:
            report(m, op, value, value.bad, "condition")
        return value.value
    return value


def report(m: Machine, op: Operation, value: Tainted, bad: np.ndarray, role: str) -> None:
    """A fault at the origin of `value`, which became observable at `op`."""
    origin = value.origin
    rows = np.argwhere(np.broadcast_to(bad, (max(bad.shape[0], 1), *bad.shape[1:])))
    programs = rows[:, 0]
    pids = m.pids[programs] if bad.shape[0] > 1 else np.broadcast_to(m.pids[:1], programs.shape)
    pid = int(pids.min())
    mine = rows[pids == pid]
    lanes = ""
    if mine.shape[1] == 2 and bad.shape[1] > 1:
        lanes = lanes_text(mine[:, 1].tolist())
    used = locations_of(op)
    others: tuple[Location, ...] = ()
    if used and op is not origin.op:
        others = (used[0].with_role(f"{role} here"),)
    m.log.report(
        origin.op,
        origin.kind,
        origin.message,
        key=(role, origin.message),
        order=(pid,),
        others=(*origin.others, *others),
        notes=(
            *origin.notes,
            f"program {m.log.program(pid)}{lanes}: the bad value is used as {role}",
        ),
        hint=origin.hint,
        witness={
            **origin.witness,
            "program": list(m.log.program(pid)),
            "lanes": mine[:8, 1:].tolist(),
        },
        count=int(rows.shape[0]),
    )
