"""Checks of what the program promises to the compiler: `tl.multiple_of`, `tl.max_contiguous`,
`tl.max_constancy`.

They arrive as attributes of the op that makes the value. A false promise changes nothing here, but
compiled code may use wider accesses than the data allow, so it is reported with policy strict.
Divisibility (in bytes, for pointers) speaks of the first element of every run of consecutive
elements (Triton's AxisInfo), so that is where it is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation

from xttir.diagnostics import Kind, Policy
from xttir.dialects.tt import PointerType
from xttir.interp.affine import Box, Index, dense
from xttir.interp.machine import Machine
from xttir.interp.memory import Pointer
from xttir.interp.taint import Origin, Tainted, plain, taint_with
from xttir.interp.tt import pointee_size
from xttir.interp.types import element_type, shape_of

_NAMES = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}

Check = Callable[[Machine, Any], Any]
"""Gives the value to go on with."""


def check_of(op: Operation) -> Check | None:
    """What checks the result of `op`, or None if nothing is promised of it."""
    promised = {
        name: _numbers(op.attributes[attribute])
        for attribute, name in _NAMES.items()
        if attribute in op.attributes
    }
    if not promised or len(op.results) != 1:
        return None
    shape = shape_of(op.results[0].type)
    unit = _unit(op.results[0].type)

    def check(m: Machine, given: Any) -> Any:
        if not m.policy.on("hints"):
            return given
        m.counts.add("hints")
        value = plain(given)
        if type(value) is Box:
            return given
        if type(value) is Pointer:
            array = value.addresses()
        else:
            array = value.dense() if type(value) is Index else dense(value)
        if array.dtype.kind != "i":
            return given
        array = np.broadcast_to(array, (array.shape[0], *shape)).astype(np.int64)
        for name, numbers in promised.items():
            for axis, number in enumerate(numbers[: max(1, len(shape))]):
                bad = _TESTS[name](array, axis + 1 if shape else 0, number, unit if shape else 0)
                if not bad.any():
                    continue
                if m.policy.late_promises:
                    given = _undefined(m, op, name, number, array, bad, given)
                else:
                    _report(m, op, name, number, array, bad)
        return given

    return check


def _numbers(attribute: Any) -> list[int]:
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return [int(v) for v in attribute.get_values()]
    return [int(attribute.value.data)]


def _unit(ty: Attribute) -> int:
    """What consecutive elements differ by: bytes of the pointee for pointers, 1 for integers."""
    return pointee_size(ty) if isinstance(element_type(ty), PointerType) else 1


def _not_divisible(a: np.ndarray, axis: int, number: int, unit: int) -> np.ndarray:
    if number <= 1:
        return np.zeros(a.shape, bool)
    bad = a % number != 0
    if unit:
        # Only the first element of a run of consecutive numbers must be a multiple.
        follows = np.zeros(a.shape, bool)
        later = [slice(None)] * a.ndim
        later[axis] = slice(1, None)
        follows[tuple(later)] = np.diff(a, axis=axis) == unit
        bad &= ~follows
    return bad


def _not_contiguous(a: np.ndarray, axis: int, number: int, unit: int) -> np.ndarray:
    return _breaks(a, axis, number, unit) if unit else np.zeros(a.shape, bool)


def _not_constant(a: np.ndarray, axis: int, number: int, unit: int) -> np.ndarray:
    return _breaks(a, axis, number, 0) if unit else np.zeros(a.shape, bool)


def _breaks(a: np.ndarray, axis: int, number: int, step: int) -> np.ndarray:
    """Where, inside aligned groups of `number`, an element is not its neighbour plus `step`."""
    bad = np.zeros(a.shape, bool)
    if number <= 1:
        return bad
    later = [slice(None)] * a.ndim
    later[axis] = slice(1, None)
    inside = np.arange(1, a.shape[axis]) % number != 0
    form = [1] * a.ndim
    form[axis] = -1
    bad[tuple(later)] = (np.diff(a, axis=axis) != step) & inside.reshape(form)
    return bad


_TESTS = {
    "multiple_of": _not_divisible,
    "max_contiguous": _not_contiguous,
    "max_constancy": _not_constant,
}


def _undefined(
    m: Machine,
    op: Operation,
    name: str,
    number: int,
    array: np.ndarray,
    bad: np.ndarray,
    value: Any,
) -> Tainted:
    """`value`, undefined where the promise is false."""
    message, notes, witness, pid, _ = _about(m, name, number, array, bad)
    if type(value) is Tainted:
        bad, value = bad | value.bad, value.value
    origin = Origin(op, Kind.MISUSE, message, message, (), notes, _HINT, pid, witness)
    return taint_with(m, value, bad, origin)


_HINT = "the compiler may use wider accesses than the addresses allow: drop the hint"


def _about(
    m: Machine, name: str, number: int, array: np.ndarray, bad: np.ndarray
) -> tuple[str, tuple[str, ...], dict[str, Any], int, int]:
    """(message, notes, witness, first program, lanes concerned) of a false promise."""
    rows = np.argwhere(bad)
    pids = m.pids[rows[:, 0]] if bad.shape[0] > 1 else np.broadcast_to(m.pids[:1], len(rows))
    pid = int(pids.min())
    first = rows[pids == pid][0]
    lane = f", lane {tuple(first[1:].tolist())}" if first.size > 1 else ""
    value = int(array[tuple(first)])
    return (
        f"tl.{name}(..., {number}) is false here",
        (f"program {m.log.program(pid)}{lane}: the value is {value}",),
        {"program": list(m.log.program(pid)), "value": value, "promise": name},
        pid,
        len(rows),
    )


def _report(
    m: Machine, op: Operation, name: str, number: int, array: np.ndarray, bad: np.ndarray
) -> None:
    message, notes, witness, pid, count = _about(m, name, number, array, bad)
    m.log.report(
        op,
        Kind.MISUSE,
        message,
        key=(name,),
        order=(pid,),
        notes=notes,
        hint=_HINT,
        witness=witness,
        count=count,
        policy=Policy.STRICT,
    )
