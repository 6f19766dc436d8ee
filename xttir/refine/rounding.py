"""How far apart rounding may take what two modules compute.

A pass may compute a number otherwise (`x * (1 / c)` for `x / c`, a sum in another order), but in
the formats of the source: results then differ by some units in the last place, at the magnitude of
what was added up. A module that rounds to a format, or in a direction, in which the source does not
round has changed what is computed, and no difference is put down to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xttir.dialects import arith, tt
from xttir.interp.attributes import integer
from xttir.interp.types import is_float_type, numpy_dtype

ROUNDINGS = {32: 64, 64: 64, 16: 8, 8: 2, 4: 1}
"""Units in the last place that may separate two results computed in a format of so many bits. What
is computed in few bits is rounded there once or twice; only sums are long."""

NEAREST = "rtne"

_EXACT = frozenset(
    f"arith.{name}"
    for name in ("bitcast", "constant", "extf", "maximumf", "maxnumf", "minimumf", "minnumf")
) | {"arith.select", "arith.negf", "math.absf", "math.copysign"}
"""Ops on floats that do not round."""

_MOVES = frozenset(
    (
        "tt.broadcast",
        "tt.expand_dims",
        "tt.reshape",
        "tt.splat",
        "tt.trans",
        "ttg.convert_layout",
        "ttg.local_alloc",
        "ttg.memdesc_trans",
    )
)
_STORES = frozenset(
    (
        "tt.store",
        "tt.descriptor_store",
        "tt.descriptor_scatter",
        "ttng.async_tma_copy_local_to_global",
        "ttng.async_tma_scatter",
        "ttg.local_dealloc",
    )
)


@dataclass(frozen=True)
class Rounds:
    """What a module rounds. `formats`: to which format (its name) in which direction. `computed`:
    names of formats that go on being computed with, not only stored."""

    formats: frozenset[tuple[str, str]]
    computed: frozenset[str]


@dataclass(frozen=True)
class Tolerance:
    """What rounding may explain. `relative`: of the largest number that is about. `new`: formats
    and directions in which only the target rounds, as text: then it explains nothing."""

    relative: float
    new: tuple[str, ...] = ()


def unit(name: str) -> float:
    """Half the distance from 1 to the next number of the format `name` (numpy's)."""
    return float(ml_dtypes.finfo(np.dtype(name)).eps) / 2


def roundings(name: str) -> float:
    """How much computing in the format `name` may change, relative to the largest number."""
    return ROUNDINGS[8 * np.dtype(name).itemsize] * unit(name)


_known: WeakKeyDictionary[ModuleOp, Rounds] = WeakKeyDictionary()


def rounds(module: ModuleOp) -> Rounds:
    """What a module rounds."""
    found = _known.get(module)
    if found is None:
        found = _known[module] = _rounds(module)
    return found


def _rounds(module: ModuleOp) -> Rounds:
    formats: set[tuple[str, str]] = set()
    computed: set[str] = set()
    for op in module.walk():
        for name, direction, result in _rounded(op):
            formats.add((name, direction))
            if name not in computed and _goes_on(result):
                computed.add(name)
    return Rounds(frozenset(formats), frozenset(computed))


def _rounded(op: Operation) -> Iterator[tuple[str, str, SSAValue]]:
    """(format, direction, result) for what `op` rounds."""
    if op.name in _EXACT or not op.results:
        return
    result = op.results[0]
    if not is_float_type(result.type):
        return
    if isinstance(op, arith.TruncFOp | tt.FpToFpOp):
        yield _format(result), _direction(op), result
    elif op.name.startswith(("arith.", "math.", "tt.precise_", "tt.approx_", "tt.extern_")):
        yield _format(result), NEAREST, result
    elif op.name in ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot"):
        yield _format(result), NEAREST, result
        precise = isinstance(op, tt.DotOp) and tt.InputPrecision(integer(op.input_precision))
        if precise and "x" in precise.keyword:
            # Made of products of numbers in few bits, by a pass.
            yield "bfloat16", NEAREST, result


def _format(value: SSAValue) -> str:
    return numpy_dtype(value.type).name


def _direction(op: arith.TruncFOp | tt.FpToFpOp) -> str:
    if isinstance(op, tt.FpToFpOp):
        return NEAREST if op.rounding is None else tt.RoundingMode(integer(op.rounding)).keyword
    if op.roundingmode is None:
        return NEAREST
    mode = arith.RoundingMode(integer(op.roundingmode)).keyword
    return {"to_nearest_even": NEAREST, "toward_zero": "rtz"}.get(mode, mode)


def _goes_on(value: SSAValue) -> bool:
    """Whether a value is used for more than being stored."""
    for use in value.uses:
        op = use.operation
        if op.name in _STORES:
            continue
        if op.name not in _MOVES or any(_goes_on(result) for result in op.results):
            return True
    return False


def tolerance(source: ModuleOp, target: ModuleOp) -> Tolerance:
    """What rounding may explain of a difference between runs of two modules."""
    a, b = rounds(source), rounds(target)
    relative = max((roundings(name) for name in a.computed | b.computed), default=0.0)
    finest = min((unit(name) for name, _ in a.formats), default=0.0)
    new = [
        f"{name}, {direction}"
        for name, direction in sorted(b.formats - a.formats)
        if direction != NEAREST or unit(name) > finest
    ]
    return Tolerance(relative, tuple(new))
