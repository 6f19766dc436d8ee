"""Runs launches: program instances in batches, or one by one where they depend on one another.

`run_launch` is the one entry. A plan (compiled functions, effects) is made once per module and
kept; a launch binds arguments to regions of memory, runs the part that is the same for all
programs once, then batch after batch.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute

from xttir.diagnostics import InputError
from xttir.dialects import tt, ttng
from xttir.garbage import no_collection
from xttir.interp import progress
from xttir.interp.affine import Index, dense
from xttir.interp.control import run_body
from xttir.interp.descriptors import Descriptor
from xttir.interp.effects import Effects, effects_of
from xttir.interp.heap import keep_freed_memory, release_room
from xttir.interp.launch import (
    Argument,
    DescriptorArg,
    Launch,
    LaunchResult,
    ScalarArg,
    Storage,
    TensorArg,
    ValueArg,
)
from xttir.interp.machine import Machine, StepLimit, Stuck
from xttir.interp.memory import Memory, Pointer, Region
from xttir.interp.plan import Compiler, Frame, FunctionPlan
from xttir.interp.registry import implementations
from xttir.interp.report import FaultLog
from xttir.interp.sanitizer import Sanitizer
from xttir.interp.scalars import shared
from xttir.interp.scheduler import Scheduler, report_endless
from xttir.interp.shadow import Clocks
from xttir.interp.taint import plain
from xttir.interp.tt_memory import shape_of_descriptor
from xttir.interp.types import element_type, numpy_dtype, shape_of
from xttir.policy import RunPolicy

BATCH_ELEMENTS = 1 << 20
"""Elements of the widest value of a batch. More would leave the last-level cache, fewer would have
every op pay for its bookkeeping more often: that code is out of the inner caches by then."""

LARGE_KERNEL_ELEMENTS = 1 << 18
"""The same for kernels of more than `LARGE_KERNEL` float ops, which may hold many values at once:
bounds the memory they take."""

LARGE_KERNEL = 64

MAX_BATCH = 4096


@dataclass
class _Plan:
    compiler: Compiler
    function: FunctionPlan
    effects: Effects


_plans: dict[int, tuple[Any, dict[str, _Plan]]] = {}


def plan_of(module: ModuleOp, kernel: str) -> _Plan:
    """The compiled plan of `kernel`, kept as long as its module lives."""
    key = id(module)
    entry = _plans.get(key)
    if entry is None or entry[0]() is not module:
        entry = _plans[key] = (weakref.ref(module, lambda _: _plans.pop(key, None)), {})
    plan = entry[1].get(kernel)
    if plan is None:
        compiler = Compiler(module, implementations())
        function = compiler.function(kernel)
        plan = entry[1][kernel] = _Plan(compiler, function, effects_of(module, function.op))
    return plan


def run_launch(launch: Launch, policy: RunPolicy) -> LaunchResult:
    """Run every program instance of `launch`, with the checks of `policy`.

    Memory changes in place. Raises `Unsupported` for ops without a meaning here and `InputError`
    where arguments do not fit the kernel's parameters; faults are in the result.
    """
    begin = time.perf_counter()
    keep_freed_memory()
    release_room()
    # A launch makes next to no cycles.
    with np.errstate(all="ignore"), no_collection():
        run = _Run(launch, policy)
        before = run.contents()
        completed = run.go()
        if completed is None:
            # The programs of a batch wait for one another's barriers. Alone they may not be stuck.
            restore(before)
            run = _Run(launch, replace(policy, batch=1))
            completed = run.go()
    result = LaunchResult(counts=run.log.counts, programs=run.programs, completed=bool(completed))
    if not result.completed:
        run.log.counts.skip("programs not run to their end")
    result.results = run.results()
    result.faults = run.log.faults()
    result.trips = run.log.counts.trips
    result.seconds = time.perf_counter() - begin
    return result


Contents = list[tuple[Storage, np.ndarray, np.ndarray | None]]
"""Storages, their bytes and their validity."""


def restore(contents: Contents) -> None:
    """Give storages their former contents."""
    for storage, data, valid in contents:
        storage.bytes[...] = data
        storage.valid = valid


@dataclass
class _Run:
    launch: Launch
    policy: RunPolicy
    programs: int = 0
    log: FaultLog = field(init=False)
    returned: list[tuple[np.ndarray, list[Any]]] = field(default_factory=list)
    """Of functions with results: programs, and what they returned."""

    def __post_init__(self) -> None:
        launch = self.launch
        gx, gy, gz = launch.grid
        self.programs = gx * gy * gz
        self.log = FaultLog(launch.kernel, launch.grid, launch.index, _launch_text(launch))
        self.plan = plan_of(launch.module, launch.kernel)

    def go(self) -> bool | None:
        """Run; whether all programs ended. None if they are stuck because they run as a batch."""
        try:
            return self.run()
        except Stuck as stop:
            from xttir.interp.agents import report_stuck

            if stop.machine.batch.size > 1:
                return None
            report_stuck(self.log, stop)
        except StepLimit as stop:
            report_endless(self.log, stop)
        return False

    def contents(self) -> Contents:
        """What the launch may change, where it may have to be run again."""
        if not self.plan.effects.agents or self._batch_size() == 1:
            return []
        written = self.plan.effects.written
        assert written is not None
        tensors = [_tensor_of(self.launch.arguments[n]) for n in written]
        storages = {id(t.storage): t.storage for t in tensors if t is not None}
        return [
            (s, s.bytes.copy(), None if s.valid is None else s.valid.copy())
            for s in storages.values()
        ]

    def run(self) -> bool:
        if self.programs == 0:
            return True
        effects = self.plan.effects
        self.plan.compiler.expect(self.policy.checks)
        memory = Memory(more=self.launch.memory)
        parameters = self.plan.function.op.body.blocks[0].args
        arguments = self.launch.arguments
        if len(parameters) != len(arguments):
            raise InputError(
                f"kernel {self.launch.kernel} has {len(parameters)} parameters, "
                f"the launch gives {len(arguments)} arguments"
            )
        values = _bind(arguments, [p.type for p in parameters], memory)
        written: set[int] | None = None
        if effects.written is not None:
            tensors = [_tensor_of(arguments[n]) for n in effects.written]
            written = {id(t.storage) for t in tensors if t is not None}
        clocks = Clocks(self.programs) if effects.ordered else None
        sanitizer = Sanitizer(self.programs, list(effects.sites), written, clocks)
        order = self._order()

        def machine() -> Machine:
            m = Machine(self.launch.module, self.launch.grid, self.policy, memory, self.log)
            m.sanitizer = sanitizer
            m.checked = self.plan.compiler.checked
            m.observer = self.launch.observer
            return m

        first = machine()
        first.begin(order[:1])
        base: Frame = [None] * self.plan.function.slots
        for slot, value in zip(self.plan.function.body.entry.arguments, values, strict=True):
            base[slot] = value
        self.plan.function.prologue.run(first, base)
        try:
            if effects.waits:
                return self._run_in_turns(machine, base, order, memory)
            return self._run_in_batches(first, base, order)
        finally:
            sanitizer.end()
            self.plan.compiler.forget()

    def _order(self) -> np.ndarray:
        if self.launch.programs is not None:
            return np.array(self.launch.programs, np.int64)
        order = np.arange(self.programs, dtype=np.int64)
        if self.policy.grid_order == "reversed":
            return order[::-1].copy()
        if self.policy.grid_order == "shuffled":
            return np.random.default_rng(self.policy.seed).permutation(order)
        return order

    def _batch_size(self) -> int:
        effects = self.plan.effects
        if effects.ordered or effects.sequential:
            return 1
        if effects.agents and (effects.written is None or effects.prints):
            # Agents of a batch may come to wait for one another; then the launch runs once more.
            return 1
        if self.policy.batch:
            return self.policy.batch
        large = effects.arithmetic > LARGE_KERNEL
        elements = LARGE_KERNEL_ELEMENTS if large else BATCH_ELEMENTS
        return max(1, min(MAX_BATCH, elements // effects.tile))

    def _run_in_batches(self, m: Machine, base: Frame, order: np.ndarray) -> bool:
        size = self._batch_size()
        tainted = m.tainted
        for start in range(0, len(order), size):
            m.begin(order[start : start + size])
            m.sanitizer.begin_batch(m.pids)
            m.tainted = tainted
            try:
                self._run_program(m, base)
            finally:
                m.flush()
            progress.report(min(start + size, len(order)), len(order), self.launch.kernel)
        return True

    def _run_program(self, m: Machine, base: Frame) -> None:
        values = run_body(m, self.plan.function, list(base))
        if values:
            self.returned.append((m.pids, values))

    def results(self) -> list[np.ndarray]:
        """The results of every program, in the order of program ids."""
        if not self.returned:
            return []
        ids = np.concatenate([pids for pids, _ in self.returned])
        order = np.argsort(ids)
        out = []
        types = self.plan.function.op.function_type.outputs.data
        for n, ty in enumerate(types):
            parts = []
            for pids, values in self.returned:
                held = plain(values[n])
                held = held.addresses() if isinstance(held, Pointer) else dense(held)
                parts.append(np.broadcast_to(held, (pids.size, *shape_of(ty))))
            out.append(np.concatenate(parts)[order])
        return out

    def _run_in_turns(
        self, machine: Callable[[], Machine], base: Frame, order: np.ndarray, memory: Memory
    ) -> bool:
        def start(pid: int) -> tuple[Machine, Callable[[], None]]:
            m = machine()
            m.begin(np.array([pid], np.int64))
            m.watching = True

            def body() -> None:
                try:
                    self._run_program(m, base)
                finally:
                    m.flush()

            return m, body

        def done(count: int) -> None:
            progress.report(count, self.programs, self.launch.kernel)

        scheduler = Scheduler(order.tolist(), start, memory, self.policy, self.log, done)
        return scheduler.run()


def _tensor_of(argument: Argument) -> TensorArg | None:
    if isinstance(argument, DescriptorArg | ValueArg):
        return argument.tensor
    return argument if isinstance(argument, TensorArg) else None


def _bind(arguments: tuple[Argument, ...], types: list[Attribute], memory: Memory) -> list[Any]:
    """Values of the kernel's parameters."""
    values: list[Any] = []
    for argument, ty in zip(arguments, types, strict=True):
        if isinstance(argument, TensorArg):
            region = Region(argument)
            memory.regions.append(region)
            if not isinstance(ty, tt.PointerType):
                raise InputError(f"argument `{argument.name}` is a tensor, the parameter is {ty}")
            values.append(Pointer(region, _zero()))
        elif isinstance(argument, DescriptorArg):
            values.append(_descriptor(argument, ty, memory))
        elif isinstance(argument, ValueArg):
            values.append(_by_value(argument, memory))
        else:
            values.append(_scalar(argument, ty))
    return values


def _by_value(argument: ValueArg, memory: Memory) -> Any:
    value = argument.value[None]
    if argument.tensor is None:
        return value
    region = Region(argument.tensor)
    memory.regions.append(region)
    return Pointer(region, value)


def _zero() -> Index:
    return Index(np.zeros(1, np.int64), (), (), np.dtype(np.int64))


def _scalar(argument: ScalarArg, ty: Attribute) -> Any:
    if isinstance(ty, tt.PointerType):
        return Pointer(None, np.array([int(argument.value)], np.int64))
    dtype = numpy_dtype(ty)
    if isinstance(ty, IntegerType) and ty.width.data > 1:
        bits = ty.width.data
        number = int(argument.value) & ((1 << bits) - 1)
        return shared(np.array([number], np.dtype(f"u{dtype.itemsize}")).view(dtype))
    return shared(np.array([argument.value]).astype(dtype))


def _descriptor(argument: DescriptorArg, ty: Attribute, memory: Memory) -> Descriptor:
    region = Region(argument.tensor)
    memory.regions.append(region)
    block = ty.block if isinstance(ty, ttng.TensorDescIm2ColType) else ty
    pixels = argument.pixels
    if not isinstance(block, tt.TensorDescType) or (block is ty) != (pixels is None):
        raise InputError(f"argument `{argument.name}` is a descriptor, the parameter is {ty}")
    numbers = [np.array([n], np.int64) for n in (*argument.shape, *argument.strides)]
    rank = len(argument.shape)
    base, shape, strides = Pointer(region, _zero()), numbers[:rank], numbers[rank:]
    extents, nan = shape_of_descriptor(block), argument.padding == "nan"
    dtype = numpy_dtype(element_type(block.element_type))
    rounds = argument.round_f32_to_tf32
    found = Descriptor(base, shape, strides, extents, dtype, nan, rounds)
    if pixels is None:
        return found
    from xttir.interp.im2col import Im2Col

    return Im2Col(**vars(found), lower=pixels.lower, upper=pixels.upper, steps=pixels.steps)


def _launch_text(launch: Launch) -> str:
    """Grid and scalars for the header of reports: "grid (8, 1, 1), BLOCK=128, n=1000"."""
    parts = [f"grid {launch.grid}"]
    parts += [f"{name}={value}" for name, value in launch.constants.items()]
    parts += [f"{a.name}={a.value}" for a in launch.arguments if isinstance(a, ScalarArg)]
    return ", ".join(parts)
