"""ld and st in all their forms, and where addresses lead. Rules: PTX ISA 9.1, 9.7.9.8 to 9.7.9.13.

Shared and global accesses are events; local memory and parameters are nobody else's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xttir.analyses.events import Access, Bounds, Footprint, Mode, Scope, Sem, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx import replicas
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import UNKNOWN, Mem, Reg, Symbol, Vec, meaning
from xttir.interp.ptx.leaving import Leaving
from xttir.interp.ptx.memory import footprint
from xttir.interp.ptx.overlay import forgotten, read_back, stored
from xttir.interp.ptx.regions import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_SIZE,
    shared_place,
)
from xttir.interp.ptx.spans import MOST, Span, span
from xttir.interp.ptx.spread import Spread
from xttir.interp.ptx.values import Partial, partial, take
from xttir.interp.ptx_scalar import width_of

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
SEMS = {
    "volatile": Sem.VOLATILE,
    "mmio": Sem.VOLATILE,
    "relaxed": Sem.RELAXED,
    "acquire": Sem.ACQUIRE,
    "release": Sem.RELEASE,
    "acq_rel": Sem.ACQ_REL,
}


@dataclass(frozen=True, slots=True)
class Form:
    """What the modifiers of an access say. `space`: global, shared::cta, shared::cluster, local,
    param, const or "" (generic). `size` bytes of an element, `parts` of them."""

    space: str
    type: str
    size: int
    parts: int
    sem: Sem
    scope: Scope

    @property
    def total(self) -> int:
        return self.size * self.parts

    @property
    def signed(self) -> bool:
        return self.type.startswith("s")


def form_of(step: ActualStep) -> Form:
    found = step.ins.cache.get("form")
    if found is None:
        found = step.ins.cache["form"] = _form(step.ins.modifiers)
    return found


def _form(modifiers: tuple[str, ...]) -> Form:
    space, sem, scope, parts = "", Sem.WEAK, Scope.CTA, 1
    for m in modifiers:
        base = m.partition("::")[0]
        if base in ("global", "local", "param", "const"):
            space = base
        elif base == "shared":
            space = "shared::cluster" if m == "shared::cluster" else "shared::cta"
        elif m in SEMS:
            sem = SEMS[m]
        elif m in SCOPES:
            scope = SCOPES[m]
        elif m in ("v2", "v4", "v8"):
            parts = int(m[1])
    if sem is Sem.VOLATILE:
        scope = Scope.SYS
    type_ = modifiers[-1]
    if type_ == "b128":
        return Form(space, type_, 8, 2, sem, scope)
    return Form(space, type_, max(width_of(type_) // 8, 1), parts, sem, scope)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Addresses in one space: `rows` of the step (None: all). `block`: whose memory, as memory
    wants it; `cta`: the same for a footprint (None: the lane's own)."""

    space: Space | str
    address: np.ndarray
    rows: np.ndarray | None
    block: np.ndarray | None
    cta: np.ndarray | None
    span: Span | None = None
    """Where the address depends on data: somewhere in it."""
    spread: Spread | None = None


def places(step: ActualStep, operand: Mem, space: str, total: int) -> list[Place]:
    """Where a memory operand leads, aligned (or reported) addresses."""
    vague = step.spread(operand.base) if isinstance(operand.base, Reg) else None
    if vague is not None:
        return [somewhere(step, vague, operand.offset, space, total)]
    address = step.address(operand)
    misaligned = address & (total - 1) != 0 if total & (total - 1) == 0 else address % total != 0
    if misaligned.any():
        which = None if address.shape[0] == 1 else step.lanes[misaligned]
        where = int(address[misaligned][0])
        step.fault(
            Kind.UNDEFINED, f"address {where:#x} is not a multiple of {total} (misaligned)", which
        )
        address = address - address % total
    if space == "param" and isinstance(operand.base, Symbol):
        place = step.executor.layout.places.get(operand.base.name)
        if place is not None and place[0] == "local":
            space = "local"
    if space:
        return [_place(step, space, address, None)]
    return _generic(step, address)


def _place(step: ActualStep, space: str, address: np.ndarray, rows: np.ndarray | None) -> Place:
    if space in ("global", "const", "param"):
        if space == "param":
            return Place("param", address - PARAM_WINDOW, rows, None, None)
        return Place(Space.GLOBAL, address, rows, None, None)
    if space == "local":
        lanes = step.lanes if rows is None else step.lanes[rows]
        return Place("local", address, rows, lanes, None)
    if step.executor.geometry.ranks == 1:
        if rows is None:
            return Place(Space.SHARED, address, None, step.rows_cta, None)
        return Place(Space.SHARED, address, rows, take(step.rows_cta, rows), None)
    cta = step.cta if rows is None else step.cta[rows]
    offset, block = shared_place(address, cta, step.executor.geometry.ranks, space)
    remote = block is not cta
    return Place(Space.SHARED, offset, rows, block, block if remote else None)


def somewhere(step: ActualStep, vague: Spread, offset: int, space: str, total: int) -> Place:
    """Where an address leads that depends on data."""
    known = vague.known + offset
    if not space:
        space, base = "global", 0
        for name, window in (("shared::cluster", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if ((known >= window) & (known < window + WINDOW_SIZE)).all():
                space, base = name, window
        known = known - base
    if space in ("param", "const"):
        raise step.unsupported(f"a .{space} address that depends on data")
    place = _place(step, space, known, None)
    address = place.address if place.space == Space.SHARED else known
    spread = Spread(address, vague.low, vague.high, vague.step, vague.datum)
    found = span(step, place.space, spread, total, place.block)
    count = np.unique(step.cta).size if place.space == Space.GLOBAL else step.n
    if found.size // total * count > MOST:
        raise step.unsupported(
            f"an address that depends on data, in {found.size:,} bytes",
            "a smaller tensor, a declared `range` or fewer blocks show the same",
        )
    start = np.array([found.region.base + found.start])
    return replace(place, address=start, span=found, spread=spread)


def _generic(step: ActualStep, address: np.ndarray) -> list[Place]:
    """Generic addresses by the window they are in."""
    windows = (
        ("shared::cluster", SHARED_WINDOW),
        ("local", LOCAL_WINDOW),
        ("param", PARAM_WINDOW),
    )
    if (address >= GLOBAL_BASE).all() or (address < LOCAL_WINDOW).all():
        return [_place(step, "global", address, None)]
    out = []
    rest = np.ones(address.shape, bool)
    for space, base in windows:
        inside = (address >= base) & (address < base + WINDOW_SIZE)
        if not inside.any():
            continue
        inner = address if space == "param" else address - base
        if inside.all():
            return [_place(step, space, inner, None)]
        rest &= ~inside
        rows = np.flatnonzero(inside)
        out.append(_place(step, space, inner[rows], rows))
    if rest.any():
        rows = np.flatnonzero(rest)
        out.append(_place(step, "global", address[rows], rows))
    return out


# Reading and writing one place --------------------------------------------------------------------


def read(step: ActualStep, place: Place, size: int, parts: int) -> Any:
    """Raw bits, (n,) or (n, parts), UNKNOWN or Partial."""
    memory = step.executor.memory
    if place.space == "param":
        return _read_param(step, place.address, size, parts)
    if size * parts <= 16:
        return memory.read(place.space, place.address, size, parts, place.block)
    each = 16 // size
    pieces = [
        memory.read(place.space, place.address + 16 * k, size, each, place.block)
        for k in range(parts // each)
    ]
    known: Any = True
    arrays = []
    for piece in pieces:
        if piece is UNKNOWN:
            return UNKNOWN
        if isinstance(piece, Partial):
            known = piece.known if known is True else known & piece.known
            piece = piece.data
        arrays.append(piece)
    return partial(np.concatenate(arrays, axis=-1), known)


def _read_param(step: ActualStep, offset: np.ndarray, size: int, parts: int) -> Any:
    region = step.executor.memory.param
    total = size * parts
    if (offset < 0).any() or (offset + total > region.size).any():
        step.fault(Kind.OUT_OF_BOUNDS, f"{step.ins.name} past the kernel's parameters")
        offset = np.zeros_like(offset)
    index = offset[:, None] + np.arange(total)
    raw = np.ascontiguousarray(region.data()[index]).view(f"u{size}")
    return raw[:, 0] if parts == 1 else raw


def write(
    step: ActualStep, place: Place, size: int, parts: int, value: Any, weak: bool = False
) -> None:
    memory = step.executor.memory
    if place.span is not None:
        memory.forget(place.span)
        return
    if place.space == "param":
        raise step.unsupported("a store to a kernel's parameters")
    if size * parts <= 16:
        memory.write(place.space, place.address, size, parts, value, place.block, weak=weak)
        return
    each = 16 // size
    for k in range(parts // each):
        piece = value
        if value is not UNKNOWN:
            span = slice(k * each, (k + 1) * each)
            piece = (
                Partial(value.data[:, span], value.known)
                if isinstance(value, Partial)
                else value[:, span]
            )
        address = place.address + 16 * k
        memory.write(place.space, address, size, each, piece, place.block, weak=weak)


def print_of(step: ActualStep, place: Place, mode: Mode, size: int) -> Footprint:
    n = step.n if place.rows is None else place.rows.size
    assert isinstance(place.space, Space)
    if place.span is not None:
        assert place.spread is not None
        s = place.spread
        bounds = Bounds(s.first, s.last, s.step, s.datum, size) if s.finite else Bounds()
        whole = np.broadcast_to(place.address[:, None], (n, 1))
        cta = None if place.cta is None else place.cta[:, None]
        return Footprint(
            place.space, mode, whole, place.span.size, cta=cta, may=True, bounds=bounds
        )
    return footprint(place.space, mode, place.address, size, n, place.cta, step.maybe)


def _lanes(step: ActualStep, place: Place) -> np.ndarray:
    return step.lanes if place.rows is None else step.lanes[place.rows]


# Instructions -------------------------------------------------------------------------------------


@meaning("ld", "ldu")
def load(step: ActualStep) -> None:
    form = form_of(step)
    operand = step.ins.src[0]
    assert isinstance(operand, Mem)
    if form.space == "const" and step.tracing and _looked_up(step, operand):
        step.put(step.ins.dst[0], UNKNOWN)
        return
    found = places(step, operand, form.space, form.total)
    values = []
    for place in found:
        value = _value(step, place, form)
        way = None if place.span is not None else step.group.way
        if way is not None and value.__class__ not in (np.ndarray, Spread):
            lanes = _lanes(step, place)
            value = read_back(way, place, lanes, form.size, form.parts, value)
        values.append(value)
        if isinstance(place.space, Space) and form.space != "const":
            _emit_load(step, place, form, value)
    value = values[0] if found[0].rows is None else _together(step, found, values)
    kept = step.executor.fingerprints
    if kept is not None and _plain(step, form, found[0]):
        place = found[0]
        numbers = kept.contents(
            step.memory, place.space, place.address, form.size, form.parts, place.block
        )
        if numbers is not None:
            step.named.append((step.ins.dst[0], numbers))
    step.put(step.ins.dst[0], value, form.signed)


def _plain(step: ActualStep, form: Form, place: Place) -> bool:
    """Whether all lanes access places in one window that are known, in all schedules alike."""
    weak = form.sem is Sem.WEAK and not step.maybe
    return weak and place.span is None and place.rows is None and place.space != "param"


def _value(step: ActualStep, place: Place, form: Form) -> Any:
    """What a load gives."""
    if place.span is not None:
        check_somewhere(step, place, form.total)
        return UNKNOWN
    value = read(step, place, form.size, form.parts)
    if value is UNKNOWN and step.tracing and form.parts == 1 and place.space == Space.GLOBAL:
        return step.executor.memory.bounds(place.address, form.size) or UNKNOWN
    return value


def check_somewhere(step: ActualStep, place: Place, size: int) -> None:
    """A read of a place that data chooses: whether it may be one that somebody has written."""
    if place.span is None or step.maybe:
        return
    n = step.n if place.rows is None else place.rows.size
    if not step.executor.memory.check_somewhere(place.span, n, place.spread, size):
        step.assume(f"what data chooses to read at {step.place()} has been written before")


def _looked_up(step: ActualStep, operand: Mem) -> bool:
    """Whether a constant is looked up by an unknown address. Nobody writes constants, so that all
    there is to it is whether the address is inside."""
    if not isinstance(operand.base, Reg) or step.raw(operand.base).__class__ is np.ndarray:
        return False
    step.assume(f"constants looked up by data at {step.place()} are in bounds")
    return True


def _emit_load(step: ActualStep, place: Place, form: Form, value: Any) -> None:
    lanes = _lanes(step, place)
    observed, more = None, {}
    if form.sem is not Sem.WEAK and step.tracing and place.span is None:
        observed = step.executor.memory.observe(
            place.space, place.address, place.block, form.total, None, lanes.size
        )
        more = waited(step, lanes) if form.parts == 1 else {}
        if step.executor.plan.waits_for_memory and form.parts == 1:
            more["value"] = number(value)
    step.emit(
        Access(
            step.ins.index,
            lanes,
            (print_of(step, place, Mode.READ, form.total),),
            form.sem,
            form.scope,
            observed,
            step.do.wait == "spin",
            **more,
        )
    )


def waited(step: ActualStep, lanes: np.ndarray) -> dict[str, Any]:
    """For an access that a loop waits by: what ends the loop."""
    spin = step.do.spin
    if spin is None or step.group.way is not None:
        return {}
    origin = step.executor.origins.of(spin.origin, lanes)
    return {"leaves": Leaving(step.executor, step.group, step.do), "origin": origin}


def number(value: Any) -> np.ndarray | None:
    """A value of one word as uint64 (n,) or (1,), if it is known in all lanes."""
    if value.__class__ is not np.ndarray or value.ndim > 1:
        return None
    return value.astype(np.uint64)


def _together(step: ActualStep, found: list[Place], values: list[Any]) -> Any:
    """Values of different windows for all lanes."""
    from xttir.interp.ptx.values import join

    rows = [p.rows for p in found if p.rows is not None]
    order = np.argsort(np.concatenate(rows), kind="stable")
    return join(values, [r.size for r in rows], order)


@meaning("st")
def store(step: ActualStep) -> None:
    form = form_of(step)
    operand, source = step.ins.src[0], step.ins.src[1]
    assert isinstance(operand, Mem)
    if isinstance(source, Vec) and len(source.parts) == 1:
        source = source.parts[0]
    value = step.raw(source, form.type)
    if value.__class__ is np.ndarray:
        value = value.astype(f"u{form.size}", copy=False)
    numbers = step.fingerprints(source)
    for place in places(step, operand, form.space, form.total):
        mine = value if place.rows is None else take(value, place.rows)
        if place.span is not None:
            forgotten(step, place)
        elif step.maybe and step.tracing:
            stored(step, place, form.size, form.parts, mine)
            mine = UNKNOWN
        more = {}
        if step.tracing and isinstance(place.space, Space) and place.span is None:
            more = _change(step, place, form, mine)
        write(step, place, form.size, form.parts, mine, form.sem is Sem.WEAK)
        if not isinstance(place.space, Space):
            continue
        known = numbers if _plain(step, form, place) else None
        one = _emit_store(step, place, form, mine if known is None else known, more)
        kept = step.executor.fingerprints
        if kept is not None and known is not None and one:
            kept.stored(step.memory, place.space, place.address, form.size, known, place.block)


def _change(step: ActualStep, place: Place, form: Form, value: Any) -> dict[str, Any]:
    """What a store of a number does to the one that is there."""
    if not step.executor.plan.waits_for_memory or form.parts > 1 or step.maybe:
        return {}
    operand = number(value)
    if operand is None:
        return {}
    if form.sem is Sem.WEAK:
        return {"operation": "set", "operand": operand}
    memory = step.executor.memory
    with memory.silent():
        before = memory.read(place.space, place.address, form.size, 1, place.block)
    return {"operation": "set", "operand": operand, "value": number(before)}


def _emit_store(
    step: ActualStep, place: Place, form: Form, value: Any, more: dict[str, Any]
) -> bool:
    """`value`: what is known of the contents, or fingerprints. Returns whether each place gets one
    value, as far as that is known."""
    if step.tracing and place.span is None:
        strong = form.sem is not Sem.WEAK
        step.executor.memory.written(
            place.space,
            place.address,
            place.block,
            form.total,
            step.next_event() if strong else None,
        )
    written = print_of(step, place, Mode.WRITE, form.total)
    if step.tracing and place.span is None:
        rows = slice(None) if place.rows is None else place.rows
        more = more | replicas.repeated(written, value, step.cta[rows], step.tid[rows])
    step.emit(
        Access(
            step.ins.index,
            _lanes(step, place),
            (written,),
            form.sem,
            form.scope,
            **more,
        )
    )
    return more.get("equal", False)


@meaning("st.bulk")
def store_bulk(step: ActualStep) -> None:
    """Zeros in shared memory."""
    ins = step.ins
    operand = ins.src[0]
    assert isinstance(operand, Mem)
    sizes = step.integers(ins.src[1], "u64")
    for size in np.unique(sizes):
        for place in places(step, operand, "shared::cta", 8):
            if place.rows is not None:
                raise step.unsupported("st.bulk to generic addresses")
            address = np.broadcast_to(place.address, (step.n,)).copy()
            address[np.broadcast_to(sizes != size, (step.n,))] = -1
            cta = np.broadcast_to(step.cta, (step.n,))[:, None]
            mode = Mode.WRITE
            written = Footprint(Space.SHARED, mode, address[:, None], int(size), cta=cta)
            step.memory.store(written, np.zeros((1, 1, 1), np.uint8))
            step.emit(Access(ins.index, step.lanes, (written,)))
