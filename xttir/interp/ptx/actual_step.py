"""The `Step` that meanings see: one instruction, the lanes of a group that execute it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xttir.analyses.events import Access, AsyncOp, Event, Footprint
from xttir.diagnostics import Fault, Kind, Policy, Unsupported
from xttir.interp.ptx import scalar
from xttir.interp.ptx.fingerprints import folded
from xttir.interp.ptx.instruction import UNKNOWN, Imm, Ins, Mem, Operand, Reg, Sink, Symbol, Vec
from xttir.interp.ptx.regions import shared_place
from xttir.interp.ptx.scalar import GROUP
from xttir.interp.ptx.spread import Spread
from xttir.interp.ptx.step import Task
from xttir.interp.ptx.values import Partial, Pending, chain, either, partial, take, widen_rows
from xttir.interp.ptx_scalar import width_of

if TYPE_CHECKING:
    from xttir.interp.ptx.code import Do
    from xttir.interp.ptx.executor import Executor
    from xttir.interp.ptx.group import Group


class ActualStep:
    """See `step.Step`. `rows`: indices of the executing lanes in the group, None for all."""

    __slots__ = (
        "cta",
        "do",
        "doubtful",
        "executor",
        "gone",
        "group",
        "ins",
        "lanes",
        "maybe",
        "n",
        "named",
        "ready",
        "rows",
        "rows_cta",
        "tid",
    )

    def __init__(self, executor: Executor, group: Group, do: Do, rows: np.ndarray | None):
        self.executor = executor
        self.group = group
        self.do = do
        self.ins: Ins = do.ins
        self.rows = rows
        if rows is None:
            self.lanes, self.cta, self.tid = group.lanes, group.cta, group.tid
            self.rows_cta = group.rows_cta
        else:
            self.lanes, self.cta, self.tid = group.lanes[rows], group.cta[rows], group.tid[rows]
            self.rows_cta = self.cta[:1] if group.one_cta else self.cta
        self.n = self.lanes.size
        self.ready: np.ndarray | None = None
        """Set by `block`: the lanes that may go on."""
        self.gone = False
        """The lanes end here."""
        self.maybe = group.way is not None
        """The instruction may or may not be executed: it depends on unknown data."""
        self.doubtful = False
        """Its own guard is unknown: results are either new or old."""
        self.named: list[tuple[Operand, np.ndarray]] = []
        """Results whose fingerprints are known: (n,), (1,) or (n, parts)."""

    @property
    def arch(self) -> int:
        return self.executor.arch

    @property
    def tracing(self) -> bool:
        return self.executor.tracing

    @property
    def memory(self) -> Any:
        return self.executor.memory

    @property
    def threads_per_cta(self) -> int:
        return self.executor.threads_per_cta

    @property
    def ctas_per_cluster(self) -> int:
        return self.executor.geometry.ranks

    @property
    def ctas(self) -> int:
        return self.executor.geometry.ctas

    @property
    def state(self) -> dict[str, Any]:
        return self.executor.state

    # Operands -------------------------------------------------------------------------------------

    def raw(self, operand: Operand, type_: str = "b32") -> Any:
        """`get`, but some lanes may be known and others not (`Partial`)."""
        if operand.__class__ is Reg:
            value = self.group.env[operand.slot]  # type: ignore[union-attr]
            if value.__class__ is not np.ndarray and isinstance(value, Pending):
                value = self.executor.used_early(self.group, value, self.ins)
            if operand.negated:  # type: ignore[union-attr]
                value = scalar._not(value)
        elif isinstance(operand, Vec):
            return self._vector(operand, type_)
        else:
            value = scalar.getter(operand, type_, self.ins)(self.group.env)
        if value.__class__ is Spread:
            return UNKNOWN
        return value if self.rows is None else take(value, self.rows)

    def spread(self, operand: Operand) -> Spread | None:
        """What is known of an address or index that depends on data; None: all or nothing."""
        if operand.__class__ is not Reg:
            return None
        value = self.group.env[operand.slot]  # type: ignore[union-attr]
        if value.__class__ is not Spread:
            return None
        return value if self.rows is None else value.take(self.rows)

    def get(self, operand: Operand, type_: str = "b32") -> Any:
        value = self.raw(operand, type_)
        if value.__class__ is not np.ndarray:
            return UNKNOWN
        if type_ == "pred" or type_ == "b128":
            return value
        dtype = np.dtype(f"uint{max(width_of(type_), 8)}")
        return value if value.dtype == dtype else scalar.fit(value, dtype, False)

    def _vector(self, operand: Vec, type_: str) -> Any:
        """(n, parts): every part read as `type_`."""
        parts = [self.raw(p, type_) for p in operand.parts]
        known: Any = True
        arrays = []
        for part in parts:
            if part is UNKNOWN:
                return UNKNOWN
            if isinstance(part, Partial):
                known = part.known if known is True else known & part.known
                part = part.data
            arrays.append(part)
        return partial(np.stack(np.broadcast_arrays(*arrays), axis=-1), known)

    def integers(self, operand: Operand, type_: str = "u32") -> np.ndarray:
        value = self.get(operand, type_)
        if value is UNKNOWN:
            raise self.unsupported(
                f"operand {_name(operand)} that depends on data", _hint(self.executor)
            )
        if value.dtype == bool:
            return value.astype(np.int64)
        if type_.startswith("s"):
            return value.view(f"i{value.dtype.itemsize}").astype(np.int64)
        return value.astype(np.int64)

    def address(self, operand: Operand) -> np.ndarray:
        assert isinstance(operand, Mem)
        base = operand.base
        if isinstance(base, Imm):
            return np.array([int(base.value) + operand.offset], np.int64)
        if isinstance(base, Symbol):
            value = self.group.symbol(base.name, base.offset)
            value = value if self.rows is None else take(value, self.rows)
        else:
            value = self.raw(base)
        if value.__class__ is not np.ndarray:
            raise self.unsupported(
                f"address {_name(base)} that depends on data", _hint(self.executor)
            )
        narrow = value.dtype.itemsize == 4
        value = value.astype(np.int64)
        if not operand.offset:
            return value
        # A 32-bit address wraps: `[%r + 252]` with %r below zero is in the window.
        return value + operand.offset & 0xFFFFFFFF if narrow else value + operand.offset

    def fingerprints(self, operand: Operand, together: bool = False) -> np.ndarray | None:
        kept = self.executor.fingerprints
        if kept is None or self.maybe:
            return None
        numbers = np.stack(kept.parts(self.group, operand), axis=-1)
        numbers = numbers if self.rows is None else numbers[self.rows]
        return kept.of_warps(self, folded(numbers))[:, None] if together else numbers

    def name_contents(self, operand: Operand, footprint: Footprint) -> None:
        kept = self.executor.fingerprints
        if kept is None or self.maybe:
            return
        numbers = kept.pieces(self.memory, footprint)
        if numbers is not None:
            self.named.append((operand, kept.of_warps(self, numbers)))

    # Results --------------------------------------------------------------------------------------

    def put(self, operand: Operand, value: Any, signed: bool = False) -> None:
        if isinstance(operand, Reg):
            self._put_register(operand, value, signed)
        elif isinstance(operand, Vec):
            if value is UNKNOWN:
                for part in operand.parts:
                    self.put(part, UNKNOWN)
                return
            data, known = (value.data, value.known) if isinstance(value, Partial) else (value, True)
            if data.ndim == 1:  # {a}
                data = data[:, None]
            for k, part in enumerate(operand.parts):
                self.put(part, partial(data[..., k], known), signed)
        elif not isinstance(operand, Sink):
            raise self.unsupported(f"result operand {operand}")

    def _put_register(self, operand: Reg, value: Any, signed: bool) -> None:
        group, slot = self.group, operand.slot
        if group.held and slot in group.held:
            self.executor.overwritten(group, slot, self.ins)
        dtype = scalar.container(operand.type)
        if value.__class__ is np.ndarray:
            if value.dtype != dtype:
                value = scalar.fit(value, dtype, signed)
        elif isinstance(value, Partial) and value.data.dtype != dtype:
            value = Partial(scalar.fit(value.data, dtype, signed), value.known)
        if self.rows is not None:
            old = group.env.get(slot, UNKNOWN)
            if isinstance(old, Pending):
                old = self.executor.used_early(group, old, self.ins)
            value = widen_rows(value, self.rows, group.n, old)
        if self.doubtful:
            value = either(value, group.env.get(slot, UNKNOWN), group.n)
        group.env[slot] = value

    def put_pending(
        self, operand: Operand, task: Task, policy: Policy = Policy.ANY
    ) -> Callable[[Any], None]:
        cells = []
        for reg in scalar_registers(operand):
            cell = [UNKNOWN]
            cells.append((cell, scalar.container(reg.type)))
            group = self.group
            old = group.env.get(reg.slot, UNKNOWN)
            if self.rows is None:
                group.env[reg.slot] = Pending(task, policy, cell)
            else:
                mine = np.zeros(group.n, bool)
                mine[self.rows] = True
                rows = np.zeros(group.n, np.int64)
                rows[self.rows] = np.arange(self.n)
                group.env[reg.slot] = Pending(task, policy, cell, rows, old, mine)

        def write(value: Any) -> None:
            for k, (cell, dtype) in enumerate(cells):
                if value is UNKNOWN:
                    cell[0] = UNKNOWN
                    continue
                part = value if value.ndim == 1 else value[..., k]
                cell[0] = scalar.fit(part, dtype, False)

        return write

    def pending(self, operand: Operand) -> list[Task]:
        found: dict[int, Task] = {}
        for reg in scalar_registers(operand):
            for link in chain(self.group.env.get(reg.slot)):
                found[id(link.task)] = link.task
        return list(found.values())

    def hold(self, operand: Operand, task: Task) -> None:
        for reg in scalar_registers(operand):
            self.group.held[reg.slot] = task

    def finish(self, tasks: Iterable[Task]) -> None:
        self.executor.finish(self.group, tasks)

    def fence_registers(self) -> None:
        self.group.fenced = {s: v for s, v in self.group.env.items() if s != GROUP}

    def unfenced(self, operand: Operand) -> bool:
        env, fenced = self.group.env, self.group.fenced
        for reg in scalar_registers(operand):
            value = env.get(reg.slot)
            if isinstance(value, Pending):
                continue
            if reg.slot not in fenced or fenced[reg.slot] is not value:
                return True
        return False

    def shared(self, address: np.ndarray, window: str = "shared::cta") -> tuple[Any, Any]:
        return shared_place(address, self.cta, self.executor.geometry.ranks, window)

    # Effects --------------------------------------------------------------------------------------

    def emit(self, event: Event) -> int:
        if self.maybe and isinstance(event, Access | AsyncOp):
            event.footprints = tuple(replace(f, may=True) for f in event.footprints)
        return self.executor.emit(event)

    def next_event(self) -> int:
        """The index that `emit` is going to return."""
        return self.executor.next_event

    def submit(self, task: Task) -> None:
        self.emit(task.event)
        self.executor.submit(task, self)

    def complete_tx(self, address: np.ndarray, cta: np.ndarray, bytes_: np.ndarray) -> None:
        already = self.executor.already
        if already is not None:
            bytes_ = bytes_ - already
        self.executor.barriers.complete_tx(self, address, cta, bytes_)

    def arrive(self, address: np.ndarray, cta: np.ndarray) -> None:
        self.executor.barriers.arrive_later(self, address, cta)

    def add_pending(self, address: np.ndarray, cta: np.ndarray) -> None:
        self.executor.barriers.add_pending(self, address, cta)

    def read_map(self, address: np.ndarray) -> tuple[Any, bool]:
        return self.executor.read_map(self, address)

    def assume(self, text: str) -> None:
        self.executor.assumptions[text] = None

    def place(self) -> str:
        """Where the instruction stands, in words."""
        return str(self.executor.plan.location(self.ins) or self.ins.name)

    def block(self, ready: np.ndarray, what: str, on: str = "") -> bool:
        """`on`: the kind of progress that may change `ready` ("" anything)."""
        if ready.all():
            return True
        self.ready = np.broadcast_to(ready, (self.n,))
        self.group.what, self.group.waits_for = what, on
        return False

    def fault(
        self,
        kind: Kind,
        message: str,
        lanes: np.ndarray | None = None,
        policy: Policy = Policy.ANY,
        **more: Any,
    ) -> Fault:
        return self.executor.fault(
            kind, message, self.ins, self.lanes if lanes is None else lanes, policy, **more
        )

    def report(self, kind: Kind, message: str, rows: Any = None, **more: Any) -> None:
        """`fault` as memory calls it: `rows` index the lanes of this step (None: all)."""
        lanes = self.lanes
        if rows is not None and rows.size and rows.max() < lanes.size:
            lanes = lanes[rows]
        more.pop("count", None)
        self.fault(kind, f"{self.ins.name} {message}", lanes, **more)

    def unsupported(self, what: str, hint: str = "") -> Unsupported:
        return Unsupported(what, self.executor.plan.location(self.ins), hint)


def scalar_registers(operand: Operand) -> list[Reg]:
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Vec):
        return [r for p in operand.parts for r in scalar_registers(p)]
    return []


def _name(operand: Operand) -> str:
    if isinstance(operand, Reg):
        return operand.name
    if isinstance(operand, Mem):
        return _name(operand.base)
    return str(operand)


def _hint(executor: Executor) -> str:
    if not executor.tracing:
        return ""
    return "give the tensors that it is read from an `init`"
