"""The events of an asynchronous program: what every analysis of schedules reads, and nothing else.

A kernel is run once, along one schedule that completes, with addresses, predicates and barrier
operands concrete and tensor data unknown. What remains is a `Trace`: events in the order they
happened. An event is a template over the threads ("lanes") that executed one instruction together;
its operands are arrays over those lanes. PTX ops give events at thread granularity; another dialect
joins by giving the same events. Rules: PTX ISA 9.1, sections 8 and 9.7.

Lanes are numbered over the launch: `lane = cta * threads_per_cta + tid`, `cta` the linear block
index ordered so that the blocks of a cluster are neighbours, `tid = x + ntid.x * (y + ntid.y * z)`.
Arrays over lanes have the event's lane count n as first axis, or size 1 there when all agree.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from xttir.diagnostics import Fault, Location


class Space(enum.StrEnum):
    GLOBAL = "global"
    SHARED = "shared"
    TENSOR = "tensor memory"


class Proxy(enum.StrEnum):
    """The path by which memory is reached; accesses through different ones need a proxy fence."""

    GENERIC = "generic"
    ASYNC = "async"
    TENSORMAP = "tensormap"


class Mode(enum.StrEnum):
    READ = "read"
    WRITE = "write"
    RMW = "read-modify-write"
    """Atomic: two of them in a common scope do not race with each other."""


class Sem(enum.StrEnum):
    WEAK = "weak"
    VOLATILE = "volatile"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"


class Scope(enum.IntEnum):
    """Ordered: a larger scope includes the smaller ones."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Of an access to some place of its footprint: where each lane's own access may begin.

    `first`, `last`: int64 (rows,) or (1,), None: anywhere; every `step` bytes. `datum`: int64
    (rows,) or (1,), the address of the one datum that decides, all of whose values are possible;
    0 or None: not all of these places need be possible."""

    first: np.ndarray | None = None
    last: np.ndarray | None = None
    step: int = 1
    datum: np.ndarray | None = None
    size: int = 1
    """Bytes of a lane's own access."""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Bytes that an event touches: row i, piece k covers [starts[i, k], starts[i, k] + size).

    Shared addresses are offsets in the owning block's shared memory (no window base), global ones
    virtual addresses. In tensor memory the unit is the 32-bit cell `lane * 512 + column`, so that
    `size` counts neighbouring columns. Rows belong to the lanes of the event, or to its units
    (`AsyncOp.unit`), in order.
    """

    space: Space
    mode: Mode
    starts: np.ndarray
    """int64 (rows, pieces); a negative start is no piece (a lane with fewer of them)."""
    size: int
    proxy: Proxy = Proxy.GENERIC
    cta: np.ndarray | None = None
    """int32, broadcastable to `starts`: the block whose shared or tensor memory it is. None: the
    issuing lane's own."""
    may: bool = False
    """Depends on data that is not known: the access may or may not happen."""
    bounds: Bounds | None = None
    """The address depends on such data: somewhere in the piece, which is the same in all rows."""


@dataclass(slots=True, eq=False)
class Event:
    """An instruction executed by `lanes` (int32, ascending); `ins` indexes `Trace.instructions`."""

    ins: int
    lanes: np.ndarray


@dataclass(slots=True, eq=False)
class Access(Event):
    """A synchronous access: ld, st, atom, red, ldmatrix, stmatrix, tcgen05.alloc's store, ..."""

    footprints: tuple[Footprint, ...]
    sem: Sem = Sem.WEAK
    scope: Scope = Scope.CTA
    observed: np.ndarray | None = None
    """int32 per lane, for strong reads and atomics: index in `Trace.events` of the strong write the
    lane reads from in this schedule, -1 the initial value."""
    spins: bool = False
    """The lane loops until it reads a certain value; this is the read that saw it."""
    equal: bool = False
    """Lanes that write one place write one value to it."""
    copied: bool = False
    """Warps that write one place write the same values to it, from the same lanes."""
    reduces: bool = False
    """An atomic without a result (red)."""
    operation: str = ""
    """What a strong write to one word of up to 8 bytes does to its value, where that is a number:
    "add" or "set", with `operand`; "take": set if it was something certain (cas); "keep": nothing.
    "": something else, or not known."""
    operand: np.ndarray | None = None
    """uint64 (n,) or (1,)."""
    value: np.ndarray | None = None
    """uint64 (n,) or (1,): for strong accesses to one word, its value before them, if known."""
    leaves: Leaves | None = None
    """For a spin: which values end the loop."""
    origin: np.ndarray | None = None
    """int32 per lane, for a spin: index in `Trace.events` of the atomic or strong read of whose
    result it depends what ends the loop; -1: none. None: that is not known."""


class Leaves(Protocol):
    """Which values a loop that waits for memory ends on."""

    def __call__(
        self, lane: int, values: np.ndarray, results: np.ndarray | None
    ) -> tuple[np.ndarray, bool] | None:
        """int by value: 0 where the loop of `lane` (launch number) goes on when it reads this, else
        the number of the way that the lane then takes. `values`: uint64 (m,); `results` the same,
        if there is an `origin`: what that one gave. Also whether with some of the results the lane
        does not come to the loop. None: that cannot be said."""
        ...

    def registers(self, lanes: np.ndarray) -> list[np.ndarray]:
        """What it depends on: rows by lane."""
        ...


# Asynchronous operations --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ByGroup:
    """Completes through the async groups of the issuing thread (wgmma: of its warpgroup)."""


@dataclass(frozen=True, slots=True, eq=False)
class ByBytes:
    """Completes by complete_tx on mbarriers; bytes are counted in pieces of any multiple of 16."""

    address: np.ndarray
    """int64 (units, k): shared offsets of the barriers; multicast gives k > 1; negative: none."""
    cta: np.ndarray
    """int32, like `address`: the block that holds the barrier."""
    bytes: np.ndarray
    """int64, broadcastable to `address`."""


@dataclass(frozen=True, slots=True, eq=False)
class ByCommit:
    """tcgen05.mma, cp and shift: complete for who waits on a later commit of the same thread."""

    cta_group: int


@dataclass(frozen=True, slots=True, eq=False)
class ByTensorWait:
    """tcgen05.ld and tcgen05.st: complete at the thread's next tcgen05.wait::ld or ::st."""

    which: str


Completion = ByGroup | ByBytes | ByCommit | ByTensorWait


@dataclass(slots=True, eq=False)
class AsyncOp(Event):
    """The issue of an asynchronous operation, with the reads and writes it will do by itself.

    `engine`: "cp.async", "bulk" (with and without tensor maps, and reductions), "wgmma",
    "tcgen05.mma", "tcgen05.cp", "tcgen05.shift", "tcgen05.ld", "tcgen05.st", "st.async",
    "red.async", "clc" (try_cancel). `unit` lanes issue one operation together (1, 32 or 128);
    footprint rows are per unit. `pipeline` identifies what orders neighbours: for an MMA
    (accumulator cell, shape, kind), equal for operations that the hardware runs in issue order.
    """

    engine: str
    unit: int
    footprints: tuple[Footprint, ...]
    completion: Completion
    pipeline: Any = None


@dataclass(slots=True, eq=False)
class GroupCommit(Event):
    """`engine`: "cp.async", "bulk" or "wgmma"."""

    engine: str


@dataclass(slots=True, eq=False)
class GroupWait(Event):
    """Returns when at most `pending` of the newest groups are not complete.

    `read` (bulk only): their sources are read, their writes may be outstanding. `everything`: also
    what is not committed.
    """

    engine: str
    pending: int
    read: bool = False
    everything: bool = False


# Barriers -----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class BarrierInit(Event):
    address: np.ndarray
    count: np.ndarray


@dataclass(slots=True, eq=False)
class BarrierInval(Event):
    address: np.ndarray


@dataclass(slots=True, eq=False)
class Arrive(Event):
    """An arrival on mbarriers, after `expect` bytes have been announced (both one instruction).

    `by`: "thread"; "cp.async" (arrives when the lane's earlier cp.async are complete; `noinc` False
    raises the pending count at issue, net 0); "commit" (tcgen05.commit: when the lane's earlier
    MMAs and copies of `cta_group` are complete).
    """

    address: np.ndarray
    """int64 (n, k); negative: none (multicast masks that differ between lanes)."""
    cta: np.ndarray
    """int32, like `address`."""
    count: np.ndarray
    """int64 (n,) or (1,)."""
    expect: np.ndarray
    """int64 (n,) or (1,)."""
    sem: Sem = Sem.RELEASE
    scope: Scope = Scope.CTA
    drop: bool = False
    no_complete: bool = False
    by: str = "thread"
    noinc: bool = False
    cta_group: int = 0


@dataclass(slots=True, eq=False)
class ExpectTx(Event):
    """Announces bytes (int64, positive); `CompleteTx` in the other direction. No arrival."""

    address: np.ndarray
    cta: np.ndarray
    bytes: np.ndarray


@dataclass(slots=True, eq=False)
class CompleteTx(Event):
    address: np.ndarray
    cta: np.ndarray
    bytes: np.ndarray


@dataclass(slots=True, eq=False)
class Wait(Event):
    """A wait on own-block mbarriers that returned True. A loop around try_wait is one of these.

    `phase` is what the token of a non-parity wait names (-1: a parity wait). `peek`: the test was
    made once, as a hint, and its result was taken to be False; when True it acquires, so it must
    name its phase as a wait does.
    """

    address: np.ndarray
    parity: np.ndarray
    phase: np.ndarray
    sem: Sem = Sem.ACQUIRE
    scope: Scope = Scope.CTA
    peek: bool = False


@dataclass(slots=True, eq=False)
class NamedBarrier(Event):
    """bar/barrier.cta on `id` (int32 per lane): `kind` "sync", "arrive" or "red"; `count` threads
    expected (0: all threads of the block). A sync or red event has returned."""

    id: np.ndarray
    count: np.ndarray
    kind: str = "sync"
    aligned: bool = True


@dataclass(slots=True, eq=False)
class WarpSync(Event):
    """bar.warp.sync: lanes of one warp named by `mask` (uint32 per lane) wait for each other."""

    mask: np.ndarray


@dataclass(slots=True, eq=False)
class Together(Event):
    """elect.sync, shfl.sync, vote.sync, ..: lanes of one warp named by `mask` (uint32 per lane or
    1) execute it together. It orders no memory, but who goes on knows that the others have come."""

    mask: np.ndarray


@dataclass(slots=True, eq=False)
class ClusterBarrier(Event):
    """barrier.cluster: `kind` "arrive" or "wait" (has returned)."""

    kind: str
    sem: Sem


# Fences -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Fence(Event):
    """fence and membar. `only`: "" everything, "mbarrier_init", "shared" (sync_restrict)."""

    sem: Sem
    scope: Scope
    only: str = ""


@dataclass(slots=True, eq=False)
class ProxyFence(Event):
    """fence.proxy.*: `proxy` is the other side of generic. `spaces` it covers. For tensor maps
    `address` (int64 per lane) is what an acquire names, and `sem` its direction."""

    proxy: Proxy
    spaces: frozenset[Space]
    sem: Sem = Sem.ACQ_REL
    scope: Scope = Scope.CTA
    address: np.ndarray | None = None


@dataclass(slots=True, eq=False)
class TensorFence(Event):
    """tcgen05.fence::before_thread_sync (`before`) or ::after_thread_sync."""

    before: bool


# Lifetimes ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TensorWait(Event):
    """tcgen05.wait::ld or ::st (`which`)."""

    which: str


@dataclass(slots=True, eq=False)
class TensorAlloc(Event):
    """tcgen05.alloc by a warp: `columns` from column `base`, in the block of the lanes.

    Its store of the address is an `Access` of its own.
    """

    base: int
    columns: int
    cta_group: int


@dataclass(slots=True, eq=False)
class TensorDealloc(Event):
    base: int
    columns: int
    cta_group: int


@dataclass(slots=True, eq=False)
class TensorRelinquish(Event):
    """tcgen05.relinquish_alloc_permit."""

    cta_group: int


@dataclass(slots=True, eq=False)
class GridDependency(Event):
    """griddepcontrol: `kind` "wait" or "launch_dependents"."""

    kind: str


@dataclass(slots=True, eq=False)
class Exit(Event):
    """The threads end."""


# The trace ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """Where an instruction stands.

    `locations[0]` is the PTX line, then the user's source lines from inside out. `text` is the
    instruction as written.
    """

    text: str
    locations: tuple[Location, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Blocked:
    """Threads that cannot go on: what they wait for, and why it will not come (one line)."""

    ins: int
    lanes: np.ndarray
    what: str
    witness: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Trace:
    """One complete schedule of a launch, or of some whole clusters of it.

    Asynchronous operations take effect where they stand (at issue). `ctas` are the linear block
    indices covered. `blocked` is not empty when this schedule got stuck: a deadlock.
    """

    kernel: str
    arch: int
    """Compute capability times 10: 80, 90, 100, 103."""
    threads_per_cta: int
    ctas_per_cluster: int
    ctas: np.ndarray
    instructions: list[Source]
    events: list[Event] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    shared_bytes: int = 0
    """Size of a block's shared memory, offsets from 0."""
    buffers: list[tuple[str, int, int]] = field(default_factory=list)
    """(name, first global address, size in bytes) of the tensors, for messages."""
    assumptions: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """Found on the way: out of bounds, reads of what nobody wrote, registers in flight, traps."""
    spins: bool = False
    """Some loop waits for memory: what strong writes do to values counts."""
    stores_of: Callable[[int], frozenset[int] | None] | None = None
    """For a load: the stores to shared and global memory that its value can reach, by way of
    registers. None: it may get anywhere. Lanes that execute such a store are in an event of it."""

    def line(self, ins: int) -> int:
        """The line that an instruction stands at, 0 if none is known."""
        locations = self.instructions[ins].locations
        return locations[0].line if locations else 0
