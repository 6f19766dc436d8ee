"""A kernel of the `ptx` dialect as the executor runs it: blocks of closures and instructions.

Registers become slots, calls are inlined, scalar instructions are bound to closures, and everything
else to the function that gives it a meaning. A plan depends on the kernel alone, not on its launch.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.events import Source
from xttir.diagnostics import Location, Unsupported
from xttir.interp.ptx import cfg, scalar, spins, waits
from xttir.interp.ptx import families as families
from xttir.interp.ptx.code import Block, Do, Run, killed, used
from xttir.interp.ptx.instruction import (
    MEANINGS,
    Ins,
    Meaning,
    lanes_together,
)
from xttir.interp.ptx.reader import Body, Kernel, read_kernel
from xttir.interp.ptx.scalar import Closure


class Plan:
    """Everything about a kernel that its launches share."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.name = kernel.name
        self.arch = kernel.arch
        self.sources: list[Source] = kernel.sources
        self._reachable(kernel.body)
        self._liveness()
        self.containers = [scalar.container(kind) for kind in kernel.kinds]
        self.obstacles: dict[int, str] = {}
        """Branches that cannot be taken both ways, and why (see `unknown`)."""
        self.idle: dict[int, Block] = {}
        """Branches in loops that wait, which say only how long a round takes or when to give up;
        and where they go if not."""
        self.vague: dict[int, tuple[frozenset[int], tuple[int, ...]]] = {}
        """Blocks from which loops that wait are left: the blocks of the loop, and the registers
        that depend on how many rounds there were."""
        self.tensor_ways: dict[int, bool] = {}
        """By block with an unknown branch: whether tensor memory is used on the ways."""
        self.changes: dict[int, int] = {}
        """By block: see `unknown._changes`."""
        self.ways: dict[tuple[int, ...], int] = {}
        """Numbers, from 1, of the ways that are taken after a loop that waits for memory: blocks
        one after the other."""
        self.feeds: set[int] = set()
        """Indices of the atomics and strong reads that decide when a loop that waits ends."""
        self.waits_for_memory = False
        self._joins: list[int] | None = None
        self._compile()
        waits.classify(self)
        spins.classify(self)

    # Blocks ---------------------------------------------------------------------------------------

    def _reachable(self, body: Body) -> None:
        graph = [block.ending.targets for block in body.blocks]
        order, loops = cfg.loop_order(graph)
        place = {old: new for new, old in enumerate(order)}
        self.raw = [body.blocks[old] for old in order]
        self.graph = [[place[t] for t in raw.ending.targets] for raw in self.raw]
        self.loop_blocks = {place[h]: sorted(place[b] for b in bs) for h, bs in loops.items()}
        self.blocks = [Block(n) for n in range(len(order))]

    def _liveness(self) -> None:
        uses, kills = [], []
        for raw in self.raw:
            read = written = 0
            for ins in raw.instructions:
                read |= used(ins) & ~written
                written |= killed(ins)
            if raw.ending.guard is not None:
                read |= (1 << raw.ending.guard.slot) & ~written
            uses.append(read)
            kills.append(written)
        self.live_bits = cfg.live_in(self.graph, uses, kills)

    def _compile(self) -> None:
        for block, raw, live, targets in zip(
            self.blocks, self.raw, self.live_bits, self.graph, strict=True
        ):
            block.live_bits = live
            block.live = cfg.members(live)
            block.ending = raw.ending
            block.targets = [self.blocks[t] for t in targets]
            run: Run | None = None
            for ins in raw.instructions:
                found = self._bind(ins)
                if found is None:
                    continue
                if isinstance(found, tuple):
                    meaning, together = found
                    run = None
                    block.code.append(Do(ins, meaning, together, block, len(block.code)))
                    continue
                if run is None:
                    run = Run([], [])
                    block.code.append(run)
                run.functions.append(found)
                run.instructions.append(ins)

    def _bind(self, ins: Ins) -> Closure | tuple[Meaning, int] | None:
        try:
            meaning = MEANINGS.get(ins.name)
            if meaning is not None:
                return meaning, _together(ins)
            if ins.name in NO_EFFECT:
                return None
            return scalar.lower(ins)
        except Unsupported as error:
            what, hint = error.what, error.hint
            return _refuse(self.location(ins), what, hint), 1

    def location(self, ins: Ins) -> Location | None:
        places = self.sources[ins.index].locations
        return places[0] if places else None

    # Asked for now and then -----------------------------------------------------------------------

    def ending_ins(self, block: Block) -> Ins:
        """The instruction that ends a block, for reports."""
        return Ins(max(block.ending.index, 0), "bra", (), (), ())

    def is_scalar(self, ins: Ins) -> bool:
        """Whether it only works on registers."""
        return ins.name not in MEANINGS

    def live_before(self, do: Do) -> tuple[int, ...]:
        """Slots that are live just before an instruction."""
        return self.live_from(do.block, do.at)

    def live_from(self, block: Block, at: int) -> tuple[int, ...]:
        """Slots that are live before item `at` of a block's code (its end: after the last one)."""
        found = block.live_at.get(at)
        if found is None:
            live = 0
            for target in block.targets:
                live |= target.live_bits
            if block.ending.guard is not None:
                live |= 1 << block.ending.guard.slot
            for item in reversed(block.code[at:]):
                for ins in reversed(item.instructions if isinstance(item, Run) else [item.ins]):
                    live = (live & ~killed(ins)) | used(ins)
            found = block.live_at[at] = cfg.members(live)
        return found

    def join_of(self, block: Block) -> int:
        """The immediate post-dominator's number; len(blocks) for the end."""
        if self._joins is None:
            self._joins = cfg.post_dominators(self.graph)
        return self._joins[block.number]


NO_EFFECT = frozenset(
    ("nanosleep", "prefetch", "prefetchu", "applypriority", "discard", "pmevent", "brkpt")
)
"""Hints about time and caches."""


def _refuse(place: Location | None, what: str, hint: str) -> Meaning:
    """A meaning that says what is missing, when (and only when) the instruction is reached."""

    def refuse(step: Any) -> None:
        raise Unsupported(what, place, hint)

    return refuse


def _together(ins: Ins) -> int:
    warp = ins.has("sync") or ins.has("aligned") or ins.name in ("bar.warp.sync", "elect")
    return max(lanes_together(ins), 32 if warp else 1)


def plan_of(module: ModuleOp, entry: str) -> Plan:
    """The plan of a kernel of the module, made once per module."""
    plans = _PLANS.setdefault(id(module), (module, {}))[1]
    if entry not in plans:
        plans[entry] = Plan(read_kernel(module, entry))
        while len(_PLANS) > _KEPT:
            del _PLANS[next(iter(_PLANS))]
    return plans[entry]


_KEPT = 4
_PLANS: dict[int, tuple[ModuleOp, dict[str, Plan]]] = {}
"""By the module's identity; holding the module keeps that unique."""
