"""One run of a module on a case, and all that can be seen of it from outside.

Seen from outside are the memory after the run, which bytes were read and which were written, what
was printed, and whether anything was undefined on the way. Registers, shared memory and layouts are
not.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xttir.diagnostics import Fault, Kind, Policy, Unsupported
from xttir.dialects import tt, ttg
from xttir.interp.access import WORDS, Access, Piece
from xttir.interp.executor import run_launch
from xttir.interp.launch import Storage
from xttir.interp.machine import Machine
from xttir.interp.memory import Region
from xttir.policy import RunPolicy
from xttir.refine.world import Case, instantiate

POLICY = replace(
    RunPolicy().with_checks("bounds,race,init,undefined,lanes,assert,hints"), late_promises=True
)
"""What makes a run undefined. A promise to the compiler may be broken by a value that nothing uses:
passes compute values ahead that the source may not come to. Integers wrap by the rules of the IR,
and a wrapped offset that leads astray shows in what is accessed, so `overflow` is not among them.
"""

MAX_TRIPS = 200_000
"""Iterations of all loops of a batch after which generated inputs are given up."""


@dataclass(eq=False)
class Outcome:
    """What a run did. `storages` are in the order of the case's memory; `read` and `written` say
    which of their bytes were accessed (bool[n] each). `trips`: iterations of loops."""

    storages: list[Storage]
    read: list[np.ndarray]
    written: list[np.ndarray]
    faults: list[Fault] = field(default_factory=list)
    completed: bool = True
    unsupported: Unsupported | None = None
    trips: int = 0
    results: list[np.ndarray] = field(default_factory=list)
    """What a function returned, [programs, *shape] each; kernels return nothing."""
    module: ModuleOp | None = None
    """What was run."""
    printed: tuple[str, ...] = ()
    """The lines that the kernel printed, program by program."""
    unfenced: list[Fault] | None = None
    """Where a partition's asynchronous read may not see what another one stored, for lack of a
    proxy fence; None where there are no partitions. Fences are put in by a pass of their own, so
    that lacking one is wrong only from there on (see `compare`)."""

    @property
    def defined(self) -> bool:
        """Whether the run came to its end with nothing undefined on the way."""
        return self.completed and not self.faults and self.unsupported is None


class _Footprint:
    """Observer that marks the bytes accessed."""

    def __init__(self) -> None:
        self.read: dict[int, np.ndarray] = {}
        self.written: dict[int, np.ndarray] = {}

    def __call__(self, m: Machine, op: Operation, verb: str, access: Access) -> None:
        for region, piece in access.pieces:
            if verb != "store":
                _mark(self.read, region, piece)
            if verb != "load":
                _mark(self.written, region, piece)


def _mark(found: dict[int, np.ndarray], region: Region, piece: Piece) -> None:
    storage = region.storage
    mask = found.get(id(storage))
    if mask is None:
        mask = found[id(storage)] = np.zeros(storage.bytes.size, bool)
    word, ones = WORDS[piece.itemsize]
    piece.write(mask, word, ones)


def run_case(
    case: Case, module: ModuleOp, kernel: tt.FuncOp, trips: int = 0, policy: RunPolicy = POLICY
) -> Outcome:
    """Run `kernel` on a copy of the memory of `case`. `trips`: iterations of loops after which it
    is given up as not ending, 0 for no limit. Raises `InputError` when arguments do not fit."""
    footprint = _Footprint()
    launch, storages = instantiate(case, module, kernel, footprint)
    outcome = Outcome(storages, [], [], module=module)
    policy = replace(policy, max_trips=trips)
    partitioned = _has(module, ttg.WarpSpecializeOp)
    if partitioned:
        policy = replace(policy, checks=policy.checks | {"proxy"})
    if trips:
        policy = replace(policy, max_steps=min(policy.max_steps, trips))
    out = io.StringIO()
    try:
        # Others may print meanwhile: their output is let through unless the kernel prints.
        with (
            contextlib.redirect_stdout(out)
            if _has(module, tt.PrintOp)
            else contextlib.nullcontext()
        ):
            result = run_launch(launch, policy)
        apart = (Kind.INT_OVERFLOW, Kind.PROXY)
        outcome.faults = [f for f in result.faults if f.kind not in apart]
        if partitioned:
            # The compiler puts the others by itself on the way to LLVM.
            found = [f for f in result.faults if f.kind is Kind.PROXY]
            outcome.unfenced = [f for f in found if f.policy is not Policy.STRICT]
        outcome.completed = result.completed
        outcome.trips = result.trips
        outcome.results = result.results
    except Unsupported as error:
        outcome.unsupported = error
        outcome.completed = False
    outcome.printed = tuple(sorted(out.getvalue().splitlines(), key=_program))
    for found, into in ((footprint.read, outcome.read), (footprint.written, outcome.written)):
        for storage in storages:
            mask = found.get(id(storage))
            into.append(np.zeros(storage.bytes.size, bool) if mask is None else mask)
    return outcome


_known: WeakKeyDictionary[ModuleOp, dict[type[Operation], bool]] = WeakKeyDictionary()


def _has(module: ModuleOp, kind: type[Operation]) -> bool:
    """Whether there is such an op in `module`."""
    known = _known.setdefault(module, {})
    if kind not in known:
        known[kind] = any(isinstance(op, kind) for op in module.walk())
    return known[kind]


def _program(line: str) -> str:
    """The program that printed a line: what others print in between depends on how they run."""
    return line.split(")")[0]


@dataclass(frozen=True, eq=False)
class Toucher:
    """An op that accessed a byte, and for which program. `verb`: load, store or atomic."""

    op: Operation
    verb: str
    program: tuple[int, int, int]


def who_touches(
    case: Case,
    module: ModuleOp,
    kernel: tt.FuncOp,
    position: int,
    byte: int,
    wanted: Callable[[str], bool],
) -> list[Toucher]:
    """The accesses to one byte of the storage at `position`, in order, of the verbs that are
    `wanted`. Runs the kernel again."""
    found: list[Toucher] = []
    target: list[Storage] = []

    def observer(m: Machine, op: Operation, verb: str, access: Access) -> None:
        if not wanted(verb):
            return
        for region, piece in access.pieces:
            if region.storage is not target[0]:
                continue
            at = piece.offsets()
            hit = (at <= byte) & (byte < at + piece.itemsize)
            if hit.any():
                pids = np.broadcast_to(piece.spread(m.pids), hit.shape)[hit]
                found.append(Toucher(op, verb, m.log.program(int(pids[-1]))))

    launch, storages = instantiate(case, module, kernel, observer)
    target.append(storages[position])
    with contextlib.suppress(Unsupported):
        run_launch(launch, replace(POLICY, max_trips=MAX_TRIPS if not case.user else 0))
    return found
