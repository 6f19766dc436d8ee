"""Memory descriptors: views of buffers in shared or tensor memory, as values of the interpreter.

A buffer is split into cells along its leading axis where that axis numbers the stages of a pipeline
(the type has one axis more than its encoding). A cell holds an array like any value's, (1 or slots,
*s) with extents full or 1, and storing a whole cell just keeps the stored array: a tile that goes
through shared memory is never copied. Only partial stores make a cell an array of its own. Slots
are the programs that were active at the allocation; a descriptor knows the slots of the programs
that are active now, so divergent control flow compresses it like any other value.

Storage is in logical row-major order. Where an op of the module sees the physical order
(`interp.physical`), a buffer is bytes, and a `views.Layout` says where elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xttir.interp.affine import dense
from xttir.interp.batch import merge, take
from xttir.interp.buffers import Buffer, Place
from xttir.interp.cells import Cell, Part
from xttir.interp.machine import Machine
from xttir.interp.positions import choose, positions_in, who_of
from xttir.interp.taint import Origin, Tainted
from xttir.interp.views import (
    Gather,
    Layout,
    Path,
    Pick,
    PickEach,
    Reshape,
    Subslice,
    Trans,
    ViewStep,
    along,
    footprint,
    is_static,
    offsets_of,
)

_MANY = 16
"""Selections of programs for which a descriptor is remembered."""


class MemDesc:
    """A view of `buffer` for the programs that are active.

    `shape`: of the view. `cell`: the cell seen, a number or int64[b]; None for the whole buffer.
    `path`: from the elements of the cell (or the whole buffer) to those of the view. `slots`:
    int64[b] slots of the active programs, None where they are all of the buffer's in order.
    `barrier`: the `MBarrier` it names, once somebody has asked for it.
    """

    __slots__ = (
        "_places",
        "_stages",
        "_taken",
        "barrier",
        "buffer",
        "cell",
        "path",
        "shape",
        "slots",
    )

    def __init__(
        self,
        buffer: Buffer,
        shape: tuple[int, ...],
        cell: int | np.ndarray | None = None,
        path: Path = (),
        slots: np.ndarray | None = None,
    ):
        self.buffer = buffer
        self.shape = shape
        self.cell = cell
        self.path = path
        self.slots = slots
        self.barrier: Any = None
        self._places: tuple[list[Cell], list[Place]] | None = None
        self._stages: dict[int, MemDesc] = {}
        self._taken: dict[int, tuple[np.ndarray, MemDesc]] = {}

    @property
    def dtype(self) -> np.dtype:
        first = self.path[0] if self.path else None
        return getattr(first, "dtype", self.buffer.dtype)

    @property
    def programs(self) -> int:
        """How many programs are active."""
        return self.buffer.slots if self.slots is None else self.slots.size

    # --- views -----------------------------------------------------------------------------------

    def _with(self, step: ViewStep, shape: tuple[int, ...]) -> MemDesc:
        if self.cell is None:
            self.buffer.fuse()
        if self.path and isinstance(self.path[0], Layout):
            return MemDesc(self.buffer, shape, None, (self.path[0].then(step),), self.slots)
        return MemDesc(self.buffer, shape, self.cell, (*self.path, step), self.slots)

    def index(self, number: np.ndarray) -> MemDesc:
        """Element `number` (int[1 or b], in bounds) of the leading axis."""
        if number.size == 1 or (number == number[0]).all():
            return self.stage(int(number[0]))
        inner, number = self.shape[1:], number.astype(np.int64)
        if self.cell is None and not self.path and self.buffer.split:
            return MemDesc(self.buffer, inner, number, (), self.slots)
        return self._with(PickEach(number), inner)

    def stage(self, number: int) -> MemDesc:
        """Element `number` (in bounds) of the leading axis: the same view whenever it is asked for,
        since pipelines come back to a few stages."""
        found = self._stages.get(number)
        if found is None:
            found = self._stages[number] = self._stage(number)
        return found

    def _stage(self, number: int) -> MemDesc:
        inner = self.shape[1:]
        if self.cell is None and not self.path and self.buffer.split:
            return MemDesc(self.buffer, inner, number, (), self.slots)
        return self._with(Pick(number), inner)

    def subslice(self, offsets: Sequence[int], shape: tuple[int, ...]) -> MemDesc:
        """The box of `shape` that begins at `offsets` (in bounds)."""
        if shape == self.shape:
            return self
        return self._with(Subslice(tuple(offsets), shape), shape)

    def trans(self, order: Sequence[int]) -> MemDesc:
        """Axes permuted."""
        return self._with(Trans(tuple(order)), tuple(self.shape[n] for n in order))

    def reshape(self, shape: tuple[int, ...]) -> MemDesc:
        """The same elements in row-major order of another shape."""
        if shape == self.shape:
            return self
        return self._with(Reshape(self.shape, shape), shape)

    def gather(self, index: np.ndarray, shape: tuple[int, ...]) -> MemDesc:
        """The elements numbered `index` (int64 (1 or b, *shape), row-major)."""
        return self._with(Gather(index, self.shape), shape)

    def reinterpret(self, layout: Layout, shape: tuple[int, ...]) -> MemDesc:
        """Other elements in the bytes of the view, which begin where `layout` has byte 0."""
        mine = self.path[0]
        assert isinstance(mine, Layout)
        lanes = tuple(range(1, mine.offsets.ndim))
        start = mine.offsets.min(axis=lanes).reshape((-1,) + (1,) * len(shape))
        moved = layout.at(layout.offsets + start) if start.any() else layout
        return MemDesc(self.buffer, shape, None, (moved,), self.slots)

    # --- batches ---------------------------------------------------------------------------------

    def take(self, programs: np.ndarray) -> MemDesc:
        """The descriptor for the programs at positions `programs` of the active ones: the same for
        every agent that asks."""
        known = self._taken.get(id(programs))
        if known is not None:
            return known[1]
        slots = programs if self.slots is None else choose(self.slots, programs)
        cell = self.cell[programs] if isinstance(self.cell, np.ndarray) else self.cell
        path = self.path
        if not is_static(path):
            path = tuple(step.take(programs) for step in path)
        found = MemDesc(self.buffer, self.shape, cell, path, slots)
        found.barrier = self.barrier
        if len(self._taken) >= _MANY:
            self._taken.clear()
        # The positions are kept as well, so that their id stays theirs.
        self._taken[id(programs)] = (programs, found)
        return found

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> MemDesc | Choice:
        return merge_descs(parts, batch)

    def each(self) -> list[tuple[np.ndarray | None, MemDesc]]:
        """(positions among the active programs, view), one for every buffer seen."""
        return [(None, self)]

    def slot_numbers(self) -> np.ndarray:
        """int64[programs]: the slot of every active program."""
        return np.arange(self.buffer.slots) if self.slots is None else self.slots

    # --- data ------------------------------------------------------------------------------------

    def located(self) -> list[tuple[Cell, Path, np.ndarray | None, np.ndarray | None]]:
        """(cell, path in it, slots, positions among the active programs) of what the view covers;
        None for all slots, all active programs."""
        buffer, cell = self.buffer, self.cell
        if cell is None:
            buffer.fuse()
        if not buffer.split:
            path = self.path
            if cell is not None:
                path = (Pick(cell) if isinstance(cell, int) else PickEach(cell), *path)
            return [(buffer.cells[0], path, self.slots, None)]
        if isinstance(cell, int):
            return [(buffer.cells[cell], self.path, self.slots, None)]
        found: list[tuple[Cell, Path, np.ndarray | None, np.ndarray | None]] = []
        assert cell is not None
        for number in sorted(set(cell.tolist())):
            at = np.flatnonzero(cell == number)
            path = tuple(step.take(at) for step in self.path)
            found.append((buffer.cells[number], path, self.slot_numbers()[at], at))
        return found

    def places(self) -> list[Place]:
        """What the view covers."""
        buffer = self.buffer
        if self._places is not None and self._places[0] is buffer.cells:
            return self._places[1]
        if self.cell is None and not self.path:
            located = [(cell, (), self.slots, None) for cell in buffer.cells]
        else:
            located = self.located()
        found: list[Place] = []
        for cell, path, slots, _ in located:
            who = buffer.everyone if slots is None else who_of(slots)
            found.append(Place(cell, footprint(path, cell.shape), who, slots))
        self._places = (buffer.cells, found)
        return found

    def read(self) -> tuple[np.ndarray, np.ndarray | None, Tainted | None]:
        """The elements (1 or b, *s), which of them nobody has written, and the same value with its
        undefined lanes marked if there are any."""
        if self.buffer.split and isinstance(self.cell, int):
            return self._read_cell(self.buffer.cells[self.cell], self.path, self.slots)
        places = self.located()
        if len(places) == 1 and places[0][3] is None:
            cell, path, slots, _ = places[0]
            return self._read_cell(cell, path, slots)
        parts = [(at, self._read_cell(c, p, s)) for c, p, s, at in places]
        batch = self.programs

        def column(values: list[tuple[Any, Any]]) -> Any:
            return merge(values, batch)

        value = column([(at, v) for at, (v, _, _) in parts])
        unwritten = None
        if any(u is not None for _, (_, u, _) in parts):
            none = np.zeros((1,) * value.ndim, bool)
            unwritten = column([(at, none if u is None else u) for at, (_, u, _) in parts])
        tainted = None
        if any(t is not None for _, (_, _, t) in parts):
            tainted = column([(at, v if t is None else t) for at, (v, _, t) in parts])
        return value, unwritten, tainted

    def replicas_differ(self) -> bool:
        """Whether the view shows one value of an element that blocks of a cluster hold each for
        itself, and they hold different ones."""
        layout = _layout_of(self.path)
        if layout is None or not layout.replicas:
            return False
        data = self.buffer.cells[0].own(self.buffer.slots, self.buffer.dtype)
        return layout.differ(data if self.slots is None else data[self.slots])

    def _read_cell(
        self, cell: Cell, path: Path, slots: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, Tainted | None]:
        if cell.over:
            if slots is None:
                cell.settle(self.buffer.slots, self.buffer.dtype)
            else:
                part = cell.part_of(who_of(slots), self.buffer.slots, self.buffer.dtype)
                if part is not None:
                    return self._seen(part, path, slots)
        value = cell.value
        if value is None:
            size = self.dtype.itemsize
            ones = np.full((1,) * (len(self.shape) + 1) + (size,), 0xFF, np.uint8)
            return ones.view(self.dtype)[..., 0], np.ones((1,) * (len(self.shape) + 1), bool), None

        def seen(array: np.ndarray) -> np.ndarray:
            shared = cell.owned
            if slots is not None and array.shape[0] > 1:
                if _evenly(path, array):
                    return along(path, array)[slots]
                array, shared = array[slots], False
            array = along(path, array) if path else array
            return array.copy() if shared else array

        if slots is not None and value.shape[0] > 1 and not _evenly(path, value):
            value = along(path, cell.taken(slots, value))
        else:
            value = seen(value)
        unwritten = None if cell.unwritten is None else seen(cell.unwritten)
        if unwritten is not None and not unwritten.any():
            unwritten = None
        tainted = None
        if cell.bad is not None and cell.origin is not None:
            bad = seen(cell.bad)
            if bad.any():
                tainted = Tainted(value, bad, cell.origin)
        return value, unwritten, tainted

    def _seen(
        self, over: Part, path: Path, slots: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, Tainted | None]:
        """What `slots`, all of them among those of `over`, see through `path`."""
        rows = None if slots is over.slots else positions_in(over.slots, slots)

        def seen(array: np.ndarray) -> np.ndarray:
            if rows is not None and array.shape[0] > 1:
                array = array[rows]
            return along(path, array) if path else array

        value = seen(over.value)
        if over.bad is None or over.origin is None:
            return value, None, None
        bad = seen(over.bad)
        return value, None, Tainted(value, bad, over.origin) if bad.any() else None

    def write(self, value: Any, where: np.ndarray | None = None) -> None:
        """Store a value (1 or b, *s), which may be tainted, in the lanes where `where` (bool,
        broadcastable) holds."""
        bad = origin = None
        if type(value) is Tainted:
            bad, origin = value.bad, value.origin
            value = value.value
        value = dense(value)
        for cell, path, slots, at in self.located():
            part, marks, chosen = value, bad, where
            if at is not None:
                part = take(part, at)
                marks = None if marks is None else take(marks, at)
                chosen = None if chosen is None else take(chosen, at)
            self._write_cell(cell, path, slots, part, marks, origin, chosen)

    def _write_cell(
        self,
        cell: Cell,
        path: Path,
        slots: np.ndarray | None,
        value: np.ndarray,
        bad: np.ndarray | None,
        origin: Origin | None,
        where: np.ndarray | None,
    ) -> None:
        if not path and where is None:
            if slots is None:
                cell.value, cell.owned, cell.unwritten = value, False, None
                cell.bad, cell.origin, cell.over, cell.rows = bad, origin, [], None
                return
            part = Part(slots, who_of(slots), value, bad, origin)
            cell.lay_over(part, self.buffer.slots, self.buffer.dtype)
            return
        data = cell.own(self.buffer.slots, self.buffer.dtype)
        self._put(data, cell.shape, path, slots, value, where)
        if cell.unwritten is not None:
            no = np.zeros((1,) * value.ndim, bool)
            self._put(cell.unwritten, cell.shape, path, slots, no, where)
        if bad is not None and cell.bad is None:
            cell.bad = np.zeros(data.shape, bool)
        if cell.bad is not None:
            marks = np.zeros((1,) * value.ndim, bool) if bad is None else bad
            self._put(cell.bad, cell.shape, path, slots, marks, where)
            cell.origin = origin or cell.origin

    def elements(
        self,
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Where the elements are, for who changes them one by one: (data [slots, n] of a cell, to
        be changed in place, rows (b, 1..), element numbers in it (b, *s), positions among the
        active programs or None). All of them count as written and defined from now on."""
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]] = []
        for cell, path, slots, at in self.located():
            data = cell.own(self.buffer.slots, self.buffer.dtype)
            for marks in (cell.unwritten, cell.bad):
                if marks is not None:
                    no = np.zeros((1,) * (len(self.shape) + 1), bool)
                    self._put(marks, cell.shape, path, slots, no, None)
            rows = np.arange(data.shape[0]) if slots is None else slots
            offsets = offsets_of(path, cell.shape)
            full = (rows.size, *self.shape)
            offsets = np.broadcast_to(offsets, full)
            flat = data.reshape(data.shape[0], -1)
            if flat.dtype != self.dtype:
                flat, offsets = flat.view(self.dtype), offsets // self.dtype.itemsize
            rows = rows.reshape((-1,) + (1,) * len(self.shape))
            found.append((flat, rows, offsets, at))
        return found

    def _put(
        self,
        data: np.ndarray,
        shape: tuple[int, ...],
        path: Path,
        slots: np.ndarray | None,
        value: np.ndarray,
        where: np.ndarray | None,
    ) -> None:
        """data[slots] seen through `path` = value."""
        layout = _layout_of(path)
        if where is None and layout and _put_evenly(layout, data, slots, value):
            return
        view = None if _layout_of(path) or not is_static(path) else along(path, data)
        if view is not None and slots is None and np.may_share_memory(view, data):
            if where is None:
                view[...] = value
            else:
                np.copyto(view, value, where=np.broadcast_to(where, view.shape))
            return
        rows = np.arange(data.shape[0]) if slots is None else slots
        at = offsets_of(path, shape)
        full = (rows.size, *at.shape[1:])
        at = np.broadcast_to(at, full)
        copies = layout.copies if layout else ()
        rows = np.broadcast_to(rows.reshape((-1,) + (1,) * (at.ndim - 1)), full)
        value = np.broadcast_to(value, full)
        if where is not None:
            held = np.broadcast_to(where, full)
            at, rows, value = at[held], rows[held], value[held]
        flat = data.reshape(data.shape[0], -1)
        size = self.dtype.itemsize
        for start in (0, *copies):
            if data.dtype == np.uint8:
                flat.view(self.dtype)[rows, (at + start) // size] = value
            elif size > 1 and self.buffer.dtype == np.uint8:
                for k in range(size):
                    flat[rows, at + (start + k)] = value
            else:
                flat[rows, at + start] = value


def _layout_of(path: Path) -> Layout | None:
    """Where the elements of a view of bytes are; None for other views."""
    return path[0] if path and isinstance(path[0], Layout) else None


def _evenly(path: Path, array: np.ndarray) -> bool:
    """Whether `array` is one of bytes in which the view's elements are evenly spaced."""
    layout = _layout_of(path)
    return layout is not None and layout.window(array) is not None


def _put_evenly(
    layout: Layout, data: np.ndarray, slots: np.ndarray | None, value: np.ndarray
) -> bool:
    """data[slots] seen through `layout` = value, for data (bytes, or marks of bytes) whose elements
    are evenly spaced; False if they are not."""
    for start in (0, *layout.copies):
        window = layout.window(data, start)
        if window is None:
            return False
        stored = value
        if data.dtype != np.uint8:
            # Each mark for all bytes of its element.
            stored = value * np.frombuffer(b"\1" * window.itemsize, window.dtype)[0]
        if slots is None:
            window[...] = stored
        else:
            window[slots] = stored
    return True


class Choice:
    """Descriptors of several buffers, each for some programs of the batch: (positions, view)."""

    __slots__ = ("parts", "programs")

    def __init__(self, parts: Sequence[tuple[np.ndarray, MemDesc]], programs: int):
        self.parts = tuple(parts)
        self.programs = programs

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0][1].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts[0][1].shape

    def each(self) -> list[tuple[np.ndarray | None, MemDesc]]:
        return list(self.parts)

    def _map(self, change: Callable[[np.ndarray, MemDesc], MemDesc]) -> Choice:
        return Choice([(at, change(at, desc)) for at, desc in self.parts], self.programs)

    def index(self, number: np.ndarray) -> Choice:
        return self._map(lambda at, d: d.index(take(number, at)))

    def subslice(self, offsets: Sequence[int], shape: tuple[int, ...]) -> Choice:
        return self._map(lambda _, d: d.subslice(offsets, shape))

    def trans(self, order: Sequence[int]) -> Choice:
        return self._map(lambda _, d: d.trans(order))

    def reshape(self, shape: tuple[int, ...]) -> Choice:
        return self._map(lambda _, d: d.reshape(shape))

    def reinterpret(self, layout: Layout, shape: tuple[int, ...]) -> Choice:
        return self._map(lambda _, d: d.reinterpret(layout, shape))

    def gather(self, index: np.ndarray, shape: tuple[int, ...]) -> Choice:
        return self._map(lambda at, d: d.gather(take(index, at), shape))

    def take(self, programs: np.ndarray) -> MemDesc | Choice:
        found: list[tuple[np.ndarray, MemDesc]] = []
        for where, desc in self.parts:
            at = np.flatnonzero(np.isin(programs, where))
            if at.size:
                found.append((at, desc.take(np.searchsorted(where, programs[at]))))
        return found[0][1] if len(found) == 1 else Choice(found, programs.size)

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> MemDesc | Choice:
        return merge_descs(parts, batch)


def merge_descs(parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> MemDesc | Choice:
    """One descriptor for all programs of a batch (see `batch.merge`)."""
    flat: list[tuple[np.ndarray, MemDesc]] = []
    for where, desc in parts:
        flat += [(where if at is None else where[at], d) for at, d in desc.each()]
    first = flat[0][1]
    if not all(d.buffer is first.buffer and d.path == first.path for _, d in flat):
        # Positions of a part in order, so that `take` can look them up.
        ordered = [(np.sort(where), d.take(np.argsort(where))) for where, d in flat]
        return Choice(ordered, batch)
    slots: np.ndarray | None = merge([(where, d.slot_numbers()) for where, d in flat], batch)
    if slots is not None and np.array_equal(slots, np.arange(first.buffer.slots)):
        slots = None
    cell = first.cell
    if any(isinstance(d.cell, np.ndarray) or d.cell != cell for _, d in flat):
        numbers = [
            (where, np.broadcast_to(np.asarray(d.cell, np.int64), where.shape)) for where, d in flat
        ]
        cell = merge(numbers, batch)
    return MemDesc(first.buffer, first.shape, cell, first.path, slots)


class Token:
    """The value of an asynchronous token: it only ties ops together in the IR."""

    __slots__ = ()

    def take(self, programs: np.ndarray) -> Token:
        return self

    def merge(self, parts: Sequence[tuple[np.ndarray, Any]], batch: int) -> Token:
        return self


TOKEN = Token()


def allocate(
    m: Machine, op: Operation, dtype: np.dtype, shape: tuple[int, ...], split: bool
) -> MemDesc:
    """A buffer for the active programs. `split`: whether the leading axis numbers its cells."""
    return MemDesc(Buffer(op, dtype, shape, split, m.pids.size, m.positions()), shape)


def allocate_bytes(
    m: Machine, op: Operation, count: int, layout: Layout, shape: tuple[int, ...]
) -> MemDesc:
    """A buffer of `count` bytes for the active programs, seen through `layout`."""
    buffer = Buffer(op, np.dtype(np.uint8), (count,), False, m.pids.size, m.positions())
    return MemDesc(buffer, shape, None, (layout,))
