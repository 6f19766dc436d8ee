"""Whether one run refines another: what is allowed to differ between a program and what a pass
makes of it.

The source's run must be defined; where it is not, the target is free, and there is nothing to
compare. Then the target must be defined too, must leave the same memory behind, must not write
bytes that the source does not write, and must not read memory beyond what the source touches: that
memory need not exist. Integers are compared bit for bit. Floats are too, but a difference that
rounding can explain (see `rounding`) is a `rounding` difference, which is told and is not a fault.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from xttir.diagnostics import Fault, Kind
from xttir.interp.launch import TensorArg
from xttir.interp.memory import Region
from xttir.interp.report import ranges_text
from xttir.interp.types import is_float
from xttir.refine.outcome import Outcome
from xttir.refine.rounding import Tolerance, tolerance
from xttir.refine.world import Case, touched

MAX_VALUES = 8
"""Differing values kept as examples."""


@dataclass(frozen=True)
class Value:
    """One element that differs: its name ("out[3]"), and what the two programs leave there."""

    name: str
    source: str
    target: str


@dataclass(frozen=True, eq=False)
class Difference:
    """One way in which the target's run is not what the source's run allows.

    `what`: "undefined", "value", "print", "write", "read", "end" or "rounding". `position` and
    `byte`: a byte of the case's memory where it shows (-1 for none). `fault`: the target's own, for
    "undefined" and "end". `count`: elements or bytes concerned. `values`: examples.
    """

    what: str
    kind: Kind
    message: str
    notes: tuple[str, ...] = ()
    position: int = -1
    byte: int = -1
    fault: Fault | None = None
    count: int = 1
    values: tuple[Value, ...] = ()
    witness: dict[str, Any] = field(default_factory=dict)

    @property
    def is_fault(self) -> bool:
        return self.what != "rounding"


def compare(
    case: Case, source: Outcome, target: Outcome, *, fenced: bool = False
) -> list[Difference]:
    """What is different, worst first; empty when the target's run refines the source's.

    `source` must be defined, and neither run unsupported. `fenced`: the compiler has put in the
    proxy fences between partitions. Where the source has partitions and lacks none, so it has.
    """
    found: list[Difference] = []
    fenced = fenced or source.unfenced == []
    for fault in [*target.faults, *((fenced and target.unfenced) or ())]:
        message, what = fault.message, "undefined"
        role = fault.locations[0].role if fault.locations else ""
        if fault.kind is Kind.DEADLOCK:
            what = "end"
        elif case.tight and fault.kind is Kind.OUT_OF_BOUNDS and role in _ACCESS:
            what, verb = _ACCESS[role]
            message = f"{verb} memory that the source does not touch: {message}"
        found.append(
            Difference(what, fault.kind, message, fault.notes, fault=fault, count=fault.count)
        )
    if not target.completed and not found:
        found.append(Difference("end", Kind.DEADLOCK, "does not end"))
    if target.completed:
        found += _results(source, target)
        found += _prints(source, target)
    for position in range(len(case.memory)):
        if target.completed:
            found += _values(case, position, source, target)
            found += _writes(case, position, source, target)
        found += _reads(case, position, source, target)
    order = ("undefined", "end", "value", "print", "write", "read", "rounding")
    return sorted(found, key=lambda d: order.index(d.what))


_ACCESS = {"load": ("read", "reads"), "store": ("write", "writes"), "atomic": ("write", "writes")}
"""By the role of an access that leaves a buffer that ends where the source's accesses end."""


def _results(source: Outcome, target: Outcome) -> list[Difference]:
    """Differences in what a function returns."""
    found: list[Difference] = []
    for n, (a, b) in enumerate(zip(source.results, target.results, strict=True)):
        if a.shape != b.shape:
            found.append(Difference("value", Kind.MISMATCH, f"result {n} has another shape"))
            continue

        def name(k: int, n: int = n, shape: tuple[int, ...] = a.shape) -> str:
            index = ", ".join(map(str, np.unravel_index(k, shape)[1:]))
            return f"result {n}" + (f"[{index}]" if index else "")

        pair = (np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1))
        held = _elements(*pair, f"result {n}", name, lambda: _tolerance(source, target))
        if held is not None:
            found.append(held[0])
    return found


def _prints(source: Outcome, target: Outcome) -> list[Difference]:
    """Differences in what is printed: numbers may be a little off, as in memory."""
    pairs = itertools.zip_longest(source.printed, target.printed, fillvalue="")
    for a, b in pairs:
        if a != b and not _alike(a, b):
            note = f"prints {b!r}, the source {a!r}" if a and b else f"one alone prints {a or b!r}"
            return [Difference("print", Kind.MISMATCH, "prints something else", (note,))]
    return []


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def _alike(a: str, b: str) -> bool:
    """Whether two lines differ in nothing but floats that are nearly the same."""
    if _NUMBER.split(a) != _NUMBER.split(b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(math.isclose(float(x), float(y), rel_tol=1e-4, abs_tol=1e-5) for x, y in pairs)


def _values(case: Case, position: int, source: Outcome, target: Outcome) -> list[Difference]:
    a, b = source.storages[position].bytes, target.storages[position].bytes
    if np.array_equal(a, b):
        return []
    tensor = _typed_by(case, position)
    dtype = tensor.dtype if tensor is not None else np.dtype(np.uint8)
    size = dtype.itemsize
    start = tensor.offset % size if tensor is not None else 0
    count = (a.size - start) // size
    values = [x[start : start + count * size].view(dtype) for x in (a, b)]
    written = source.written[position][start : start + count * size].reshape(count, size)
    held = _elements(
        values[0],
        values[1],
        f"`{tensor.name}`" if tensor is not None else "memory",
        lambda k: name_of(case, position, start + k * size),
        lambda: _tolerance(source, target),
        np.asarray(written.any(axis=1)),
    )
    if held is not None:
        found, first = held
        return [replace(found, position=position, byte=start + first * size)]
    rest = np.flatnonzero(a[:start] != b[:start])
    return [_unnamed(position, a, b)] if rest.size else []


def _elements(
    a: np.ndarray,
    b: np.ndarray,
    what: str,
    name: Callable[[int], str],
    tolerance: Callable[[], Tolerance],
    written: np.ndarray | None = None,
) -> tuple[Difference, int] | None:
    """How [n] elements `b` differ from `a`, and the first that does; None if they do not.
    `name` names an element. `written`: those that the source computed (all, if None)."""
    dtype = a.dtype
    word = np.dtype(f"u{dtype.itemsize}")
    unequal = a.view(word) != b.view(word)
    floats = is_float(dtype)
    if floats:
        unequal &= ~(_isnan(a) & _isnan(b))
    if not unequal.any():
        return None
    far, allowed, new = unequal, 0.0, ()
    if floats:
        computed = a if written is None else a[written]
        far, allowed = _beyond_rounding(a, b, unequal, computed, tolerance().relative)
        new = tolerance().new
    if new:
        far = unequal
    chosen = np.flatnonzero(far if far.any() else unequal)
    shown = tuple(Value(name(int(k)), _text(a[k]), _text(b[k])) for k in chosen[:MAX_VALUES])
    total = int(unequal.sum())
    notes = [f"{shown[0].name} is {shown[0].target}, in the source {shown[0].source}"]
    if floats:
        with np.errstate(all="ignore"):
            error = np.abs(_wide(a) - _wide(b))[unequal]
        finite = error[np.isfinite(error)]
        largest = float(finite.max()) if finite.size else float("inf")
        explained = f"rounding can explain {allowed:.3g}"
        if new:
            explained = f"it rounds as the source does not ({'; '.join(new)})"
        notes.append(f"largest difference {largest:.3g}; {explained}")
    text = "holds other values" if far.any() else "differs within rounding"
    found = Difference(
        "value" if far.any() else "rounding",
        Kind.MISMATCH,
        f"{what} {text} in {total:,} of {a.size:,} elements",
        tuple(notes),
        count=total,
        values=shown,
        witness={"elements": [v.name for v in shown]},
    )
    return found, int(chosen[0])


def _typed_by(case: Case, position: int) -> TensorArg | None:
    """The argument whose element type the storage is read with: the widest, if they differ."""
    tensors = case.tensors(position)
    return max(tensors, key=lambda t: t.dtype.itemsize) if tensors else None


def _unnamed(position: int, a: np.ndarray, b: np.ndarray) -> Difference:
    byte = int(np.flatnonzero(a != b)[0])
    message = "memory that belongs to no element differs"
    return Difference("value", Kind.MISMATCH, message, position=position, byte=byte)


def name_of(case: Case, position: int, byte: int) -> str:
    """The element at a byte of the case's memory, as the user would write it."""
    for tensor in case.tensors(position):
        region = Region(tensor)
        element, rest = divmod(byte - tensor.offset, tensor.dtype.itemsize)
        if region.low <= byte - tensor.offset < region.high and not rest:
            return _element(tensor, region, element)
    tensors = case.tensors(position)
    if tensors:
        element = (byte - tensors[0].offset) // tensors[0].dtype.itemsize
        return f"{tensors[0].name}[{element}]"
    return f"memory at {case.memory[position].address + byte:#x}"


def _element(tensor: TensorArg, region: Region, element: int) -> str:
    if len(tensor.strides) == 2 and tensor.strides == (-1, 1):
        return f"{tensor.name}[{element}]"
    return region.index_text(element)


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


def _isnan(values: np.ndarray) -> np.ndarray:
    return np.isnan(values if values.dtype.itemsize > 1 else values.astype(np.float32))


def _tolerance(source: Outcome, target: Outcome) -> Tolerance:
    assert source.module is not None
    assert target.module is not None
    return tolerance(source.module, target.module)


def _beyond_rounding(
    a: np.ndarray, b: np.ndarray, unequal: np.ndarray, computed: np.ndarray, relative: float
) -> tuple[np.ndarray, float]:
    """Which of the `unequal` elements rounding cannot explain, and the largest difference that it
    could: `relative` of the largest of the `computed`, and the last place of the element itself."""
    wide = _wide(a)
    finite = _wide(computed)
    finite = finite[np.isfinite(finite)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    info = ml_dtypes.finfo(a.dtype)
    last = float(info.eps) * np.abs(wide) + float(info.smallest_subnormal)
    allowed = relative * scale + last
    with np.errstate(all="ignore"):
        near = np.abs(wide - _wide(b)) <= allowed
    largest = allowed[unequal & np.isfinite(allowed)]
    return unequal & ~near, float(largest.max()) if largest.size else 0.0


def _text(value: Any) -> str:
    number = float(value) if is_float(np.asarray(value).dtype) else int(value)
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def _writes(case: Case, position: int, source: Outcome, target: Outcome) -> list[Difference]:
    extra = target.written[position] & ~source.written[position]
    if not extra.any():
        return []
    return [_footprint("write", "writes", case, position, extra)]


def _reads(case: Case, position: int, source: Outcome, target: Outcome) -> list[Difference]:
    """Reads beyond the bytes between the first and the last that the source touches."""
    extra = target.read[position] & ~source.read[position] & ~source.written[position]
    if not extra.any():
        return []
    low, high = touched([source.read[position], source.written[position]])
    extra[low:high] = False
    if not extra.any():
        return []
    return [_footprint("read", "reads", case, position, extra)]


def _footprint(what: str, verb: str, case: Case, position: int, extra: np.ndarray) -> Difference:
    at = np.flatnonzero(extra)
    tensor = _typed_by(case, position)
    name, size, offset = "memory", 1, 0
    if tensor is not None:
        name, size, offset = tensor.name, tensor.dtype.itemsize, tensor.offset
    elements = np.unique((at - offset) // size)
    span = f"{name}[{ranges_text(elements.tolist())}]"
    return Difference(
        what,
        Kind.MISMATCH,
        f"{verb} elements of `{name}` that the source does not {what}",
        (f"{span}: {elements.size:,} element{'s' if elements.size > 1 else ''}",),
        position,
        int(at[0]),
        count=int(elements.size),
        witness={"tensor": name, "elements": elements[:MAX_VALUES].tolist()},
    )
