"""From what a pass found to `Fault`s: one line, both places, numbers, and a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xttir.analyses import events as ev
from xttir.analyses.events import Space
from xttir.analyses.grid import FarConflict
from xttir.analyses.happens_before import Order
from xttir.analyses.lifetimes import LifetimeFault
from xttir.analyses.phases import PhaseFault
from xttir.analyses.races import Conflict
from xttir.analyses.replay import Barrier, Touch, Trouble
from xttir.analyses.state import MeetingFault
from xttir.analyses.unused import WHY
from xttir.analyses.witness import ANY, Writer
from xttir.analyses.wording import Words, launch_lane
from xttir.diagnostics import Fault, Kind, Location, Policy

WITNESSES = 12
"""Faults of one pass that get a schedule."""


class Reporter:
    """Faults of one pass. `members`: first lanes of the clusters it speaks for."""

    def __init__(self, order: Order, members: list[int]):
        self.order = order
        self.blocks = order.blocks
        self.trace = order.blocks.trace
        self.words = Words(self.trace)
        self.members = members
        self.writer: Writer | None = None
        self.written = 0

    def all(self) -> Iterator[Fault]:
        for conflict in self.order.conflicts:
            if not conflict.undecided:
                yield self.conflict(conflict)
        seen: set[Any] = set()
        for fault in self.order.certifier.faults:
            key = (fault.what, self.ins(fault.touch) if fault.touch else -1)
            if key not in seen:
                seen.add(key)
                yield self.phase(fault)
        for trouble in self.order.replayed.troubles:
            key = (trouble.what, self.blocks.views[trouble.view].event.ins)
            if key not in seen:
                seen.add(key)
                found = self.trouble(trouble)
                if found is not None:
                    yield found
        for meeting in self.order.meetings:
            key = (meeting.what, self.blocks.views[meeting.part.view].event.ins)
            if key not in seen:
                seen.add(key)
                yield self.meeting(meeting)
        for lifetime in self.order.lifetimes.faults:
            key = (lifetime.what, self.blocks.views[lifetime.at].event.ins)
            if key not in seen:
                seen.add(key)
                yield self.lifetime(lifetime)

    def ins(self, touch: Touch) -> int:
        return self.blocks.views[touch.view].event.ins

    def witness(
        self, clock: np.ndarray | None, second: Any, first: Any, swap: Any, before: bool = False
    ) -> dict:
        if clock is None or self.written >= WITNESSES:
            return {}
        self.written += 1
        if self.writer is None:
            self.writer = Writer(self.order)
        return self.writer.schedule(clock, second, first, swap, before)

    def fault(
        self, kind: Kind, policy: Policy, message: str, places: tuple[Location, ...], **more: Any
    ) -> Fault:
        return Fault(kind, message, self.trace.kernel, places, policy, confirmed=False, **more)

    # Races ------------------------------------------------------------------------------------

    def conflict(self, c: Conflict) -> Fault:
        words, stride = self.words, self.stride(c.x.nature.space)
        x_lane = launch_lane(self.blocks, self.members, c.x, c.x_row)
        y_lane = launch_lane(self.blocks, self.members, c.y, c.y_row)
        x_op, y_op = words.operation(c.x.ins), words.operation(c.y.ins)
        place = words.memory(c.x.nature.space, c.place, 1, self.blocks.count, stride)
        x_who, y_who = words.who(x_lane), words.who(y_lane)
        x_does, y_does = words.verb(c.x), words.verb(c.y)
        where = _space(c.x.nature.space)
        match c.need.level:
            case "itself":
                message = f"{y_op} writes one place of {where} with several threads"
            case "freed":
                message = f"{y_op} uses tensor memory that {x_op} has freed"
            case "alive":
                message = f"{y_op} accesses the word of a live mbarrier"
            case _:
                first = f"{x_op} of {x_who}"
                if c.y.nature.role or c.x.nature.role:
                    message = f"{y_op} of {y_who} {y_does} and {first} {x_does}: {c.need.why}"
                else:
                    message = (
                        f"{y_op} of {y_who} {y_does} {where} that {first} {x_does}: {c.need.why}"
                    )
        kind = c.need.kind
        both = c.x.nature.strong and c.y.nature.strong
        if kind is Kind.RACE and both and not c.x.nature.engine and not c.y.nature.engine:
            kind = Kind.SCOPE
        notes = (
            f"{y_who} {y_does} {words.range_of(c.y, c.y_row, stride, self.blocks.count)}",
            f"{x_who} {x_does} {words.range_of(c.x, c.x_row, stride, self.blocks.count)}",
            f"both touch {place}",
        )
        places = words.places(c.y.ins, f"{y_op}: {y_who} {y_does}")
        if c.y.ins != c.x.ins or c.need.level != "itself":
            places += words.places(c.x.ins, f"{x_op}: {x_who} {x_does}")
        witness: dict[str, Any] = {}
        shows = kind in (Kind.RACE, Kind.LIFETIME, Kind.PROXY) and c.need.policy is Policy.ANY
        if shows and c.x is not c.y:
            witness = self.race_witness(c)
        return self.fault(kind, c.need.policy, message, places, notes=notes, witness=witness)

    def race_witness(self, c: Conflict) -> dict[str, Any]:
        y_lanes = self.lanes_of(c.y, c.y_row)
        x_lanes = self.lanes_of(c.x, c.x_row)
        swap = []
        classes = self.order.classes
        for lanes in (y_lanes, x_lanes):
            # Another lane of the class of y is where the second rep is, as all but the first are.
            if len(lanes) == 1 and (
                lanes is y_lanes or classes.of[lanes[0]] != classes.of[y_lanes[0]]
            ):
                lane = int(classes.lane[2 * int(classes.of[lanes[0]])])
                if lane >= 0 and lane != lanes[0]:
                    swap.append((lane, lanes[0]))
        actor = int(c.x.actor[c.x_row])
        chain, both = int(c.x.chain[actor]), (int(classes.of[y_lanes[0]]), int(c.x.classes[actor]))
        if both[0] == both[1] and x_lanes != y_lanes and not c.x.nature.engine:
            chain += 1  # the clock is that of the first rep of the class: x is as the second one
        if c.need.kind is Kind.PROXY or c.clock[chain] >= c.x.value[actor]:
            found = self.witness(c.clock, (c.y.at, y_lanes), None, swap)
            return {"steps": [], **found, "stale": True}
        first = (c.x.at, x_lanes) if c.x.at != c.y.at else None
        return self.witness(c.clock, (c.y.at, y_lanes), first, swap)

    def lanes_of(self, record: Any, row: int) -> list[int]:
        event = self.blocks.views[record.at].event
        unit = event.unit if isinstance(event, ev.AsyncOp) else 1
        if isinstance(event, ev.TensorAlloc | ev.TensorDealloc):
            unit = 32
        lanes = self.blocks.views[record.at].lanes
        start = int(np.searchsorted(lanes, record.lanes[row]))
        return lanes[start : start + unit].tolist()

    def stride(self, space: Space) -> int:
        return max(self.order.layout.shared_stride, 1) if space is Space.SHARED else 128 * 512

    # Phases -----------------------------------------------------------------------------------

    def barrier(self, barrier: Barrier) -> str:
        text = f"mbarrier at shared {barrier.address}"
        return text if self.blocks.count == 1 else f"{text} of block {barrier.cta}"

    def touch_place(self, touch: Touch, role: str = "") -> tuple[Location, ...]:
        return self.words.places(self.ins(touch), role or self.touch_role(touch))

    def touch_role(self, touch: Touch) -> str:
        view = self.blocks.views[touch.view]
        lanes = view.lanes
        if touch.rows is not None:
            unit = view.event.unit if isinstance(view.event, ev.AsyncOp) else 1
            lanes = view.lanes[::unit][touch.rows]
        who = self.words.group(lanes + self.blocks.base)
        if touch.wait:
            return f"wait for phase {touch.phase} by {who}"
        parts = []
        if touch.arrivals:
            parts.append(f"{touch.arrivals} arrival{'s' if touch.arrivals > 1 else ''}")
        if touch.expect:
            parts.append(f"announces {touch.expect} bytes")
        if touch.landed:
            parts.append(f"delivers {touch.landed} bytes")
        return f"{', '.join(parts) or 'update'} by {who}"

    def phase(self, f: PhaseFault) -> Fault:
        name = self.barrier(f.barrier)
        touch = f.touch
        assert touch is not None
        op = self.words.operation(self.ins(touch))
        kind = Kind.PHASE
        match f.what:
            case "early update":
                message = (
                    f"{op} is meant for phase {f.phase} of the {name}, but can come before phase "
                    f"{f.phase - 1} is complete"
                )
            case "early completion":
                message = f"phase {f.phase} of the {name} can complete before all of its updates"
            case "early wait":
                message = (
                    f"wait for phase {f.phase} of the {name} can run one phase early, and then "
                    "returns at once"
                )
            case "late wait":
                message = (
                    f"wait for phase {f.phase} of the {name} can be overtaken: phase {f.phase + 1} "
                    "can complete before it returns, and then it blocks or sees another phase"
                )
            case "no init":
                message = f"{op} uses the {name} without being ordered after its initialisation"
            case "no wait":
                message = (
                    f"{op} arrives for phase {f.phase} of the {name} before any wait for phase "
                    f"{f.phase - 1} has returned"
                )
            case "limit":
                message = f"phase {f.phase} of the {name} has more bytes pending than it can count"
            case _:
                raise AssertionError(f.what)
        places = self.touch_place(touch)
        if f.rep >= 0:
            mine = self.order.classes.members[f.rep // 2] + self.blocks.base
            role = places[0].role
            if " by " in role:
                role = f"{role.rsplit(' by ', 1)[0]} by {self.words.group(mine)}"
                places = self.touch_place(touch, role)
        if f.what == "no init":
            init = self.blocks.views[f.barrier.view]
            who = self.words.who(int(init.lanes[f.barrier.row]) + self.blocks.base)
            places += self.words.places(init.event.ins, f"initialised by {who}")
        for other in f.others:
            places += self.touch_place(other)
        notes = []
        if f.what == "early completion" and f.numbers:
            notes.append(
                f"with all arrivals in and {f.numbers[0]} bytes announced, up to {f.numbers[1]} "
                "bytes can have landed"
            )
        witness = self.phase_witness(f, touch)
        policy = Policy.STRICT if f.what == "no wait" else Policy.ANY
        return self.fault(
            kind, policy, message, _unique(places), notes=tuple(notes), witness=witness
        )

    def phase_witness(self, f: PhaseFault, touch: Touch) -> dict[str, Any]:
        if f.rep < 0:
            return {}
        lane = int(self.order.classes.lane[f.rep])
        match f.what:
            case "early update" | "early wait" | "no init":
                return self.witness(f.clock, (touch.view, [lane]), None, None)
            case "late wait" if f.others:
                last = f.others[-1]
                lanes = [int(self.blocks.views[last.view].lanes[0])]
                return self.witness(f.clock, (last.view, lanes), (touch.view, [lane]), None)
            case "early completion":
                return self.completion_witness(f, touch, lane)
        return {}

    def completion_witness(self, f: PhaseFault, late: Touch, lane: int) -> dict[str, Any]:
        """Hold back the update that comes too late, let the copies land and the waiting threads
        go on."""
        found = self.witness(f.clock, (late.view, [lane]), None, None, before=True)
        writer = self.writer
        if not found or writer is None:
            return {}
        views = self.blocks.views
        for touch in f.others:
            if touch.landed and touch.view < late.view and touch.view in writer.numbers:
                found["steps"] += writer.complete(touch.view, touch.rows)
        arrivals = [t for t in f.others if t.arrivals and not t.late]
        for touches in (arrivals, f.barrier.phases[f.phase].waits):
            lanes = [
                views[t.view].lanes[slice(None) if t.rows is None else t.rows] for t in touches
            ]
            if lanes:
                found["steps"] += writer.onwards(np.setdiff1d(np.concatenate(lanes), [lane]))
        return found

    def trouble(self, t: Trouble) -> Fault | None:
        view = self.blocks.views[t.view]
        op = self.words.operation(view.event.ins)
        lanes = view.lanes if t.rows is None else view.lanes[t.rows[t.rows < len(view.lanes)]]
        who = self.words.group(lanes + self.blocks.base)
        kind, places = Kind.PHASE, self.words.places(view.event.ins, f"{op} by {who}")
        name = self.barrier(t.barrier) if t.barrier is not None else ""
        match t.what:
            case "no barrier":
                kind = Kind.UNINITIALIZED
                message = f"{op} on shared {t.numbers[1]}, where no mbarrier has been initialised"
            case "over-arrival":
                message = (
                    f"{op} arrives at the {name} when no arrival is pending"
                    f"{', only ' + str(t.numbers[1]) + ' bytes' if t.numbers[1] else ''}"
                )
            case "dropped":
                message = f"{op} drops more arrivals than the {name} expects"
            case "noComplete":
                message = f"{op} with .noComplete completes a phase of the {name}"
            case "range":
                message = f"{op} leaves {t.numbers[0]} bytes pending at the {name}: out of range"
            case "many inits":
                kind, message = Kind.RACE, f"{op} of several threads initialises one mbarrier"
            case _:
                return None
        return self.fault(kind, Policy.ANY, message, places)

    # Named barriers, lifetimes ------------------------------------------------------------------

    def meeting(self, m: MeetingFault) -> Fault:
        g, view = m.generation, self.blocks.views[m.part.view]
        op = self.words.operation(view.event.ins)
        who = self.words.group(m.part.lanes + self.blocks.base)
        places = self.words.places(
            view.event.ins, f"{op} by {who}, {m.part.count} threads expected"
        )
        notes: tuple[str, ...] = ()
        if m.what == "early":
            message = f"{op} by {who} on barrier {g.id} can come before its use {g.index} is over"
            kind = Kind.PHASE
            last = next((p for p in reversed(self.previous(g)) if p.waits), None)
            others = [p for p in self.previous(g) if p.view != m.part.view][:2]
            for p in others or ([last] if last else []):
                other = self.blocks.views[p.view]
                role = f"{self.words.operation(other.event.ins)} of the use before"
                places += self.words.places(other.event.ins, role)
        elif m.what == "nobody":
            message = f"nobody waits for use {g.index} of barrier {g.id}: all {g.count} arrive"
            kind = Kind.MISUSE
            if m.other is not None:
                other = self.blocks.views[m.other.view]
                places += self.words.places(other.event.ins, self.words.operation(other.event.ins))
        else:
            assert m.other is not None
            other = self.blocks.views[m.other.view]
            counts = f"{m.part.count} and with {m.other.count}"
            message = f"barrier {g.id} is used with {counts} threads at once"
            kind = Kind.DEADLOCK
            role = f"{m.other.count} threads expected"
            places += self.words.places(other.event.ins, role)
            notes = ("undefined in PTX; hardware traps or hangs",)
        witness = ANY
        if m.what == "early":
            witness = self.witness(m.clock, (m.part.view, m.part.lanes[:32].tolist()), None, None)
        return self.fault(kind, Policy.ANY, message, _unique(places), notes=notes, witness=witness)

    def previous(self, g: Any) -> list[Any]:
        for other in self.order.met.generations:
            if other.chain == g.chain and other.index == g.index - 1:
                return other.parts
        return []

    def lifetime(self, f: LifetimeFault) -> Fault:
        view = self.blocks.views[f.at]
        op = self.words.operation(view.event.ins)
        places = self.words.places(view.event.ins, op)
        block = self.blocks.first + f.cta
        match f.what:
            case "exit":
                who = self.words.who(f.lanes[0] + self.blocks.base)
                what = "signal to an mbarrier" if f.signal else "access to shared memory"
                message = f"{op} of {who}: its {what} of block {block} may outlive the block"
                ends = [v for v in self.blocks.views if isinstance(v.event, ev.Exit)]
                mine = [v for v in ends if (v.lanes // self.blocks.threads == f.cta).any()]
                for v in mine[-1:]:
                    places += self.words.places(v.event.ins, f"block {block} ends")
            case "leak":
                base, columns = f.numbers
                message = f"{op}: tensor memory columns [{base}, {base + columns}) are never freed"
            case "not allocated":
                base, columns = f.numbers
                message = (
                    f"{op} frees columns [{base}, {base + columns}), which are not allocated so"
                )
            case "arrives twice" | "waits without arriving":
                who = self.words.who(f.lanes[0] + self.blocks.base)
                message = f"{who} {f.what} at the cluster barrier: arrive and wait alternate"
                kind = Kind.DEADLOCK if f.what == "arrives twice" else Kind.UNDEFINED
                return self.fault(kind, Policy.ANY, message, places)
            case "second init":
                message = f"{op} initialises an mbarrier that is live; mbarrier.inval comes first"
            case _:
                message = f"{op} ends an mbarrier that may still be in use"
        if f.other >= 0:
            other = self.blocks.views[f.other]
            places += self.words.places(other.event.ins, self.words.operation(other.event.ins))
        witness = self.exit_witness(f) if f.what == "exit" else ANY
        return self.fault(Kind.LIFETIME, Policy.ANY, message, _unique(places), witness=witness)

    def exit_witness(self, f: LifetimeFault) -> dict[str, Any]:
        """Let the block end as soon as it can, before the access."""
        blocks = self.blocks
        mine = np.arange(f.cta * blocks.threads, (f.cta + 1) * blocks.threads)
        clock = self.order.lifetimes.ended[f.cta]
        for at in range(len(blocks.views) - 1, -1, -1):
            view = blocks.views[at]
            if isinstance(view.event, ev.Exit):
                lanes = np.intersect1d(view.lanes, mine)
                if lanes.size:
                    found = self.witness(clock, (at, lanes.tolist()), None, None)
                    if found and self.writer is not None:
                        found["steps"] += self.writer.onwards(mine)
                    return found
        return {}


def far_fault(words: Words, c: FarConflict) -> Fault:
    """A conflict between clusters that nothing orders."""
    trace = words.trace
    x, y = trace.events[c.x], trace.events[c.y]
    x_op, y_op = words.operation(x.ins), words.operation(y.ins)
    x_who, y_who = words.who(c.x_lane), words.who(c.y_lane)
    does = {ev.Mode.READ: "reads", ev.Mode.WRITE: "writes", ev.Mode.RMW: "updates"}
    x_does, y_does = does[c.x_print.mode], does[c.y_print.mode]
    if c.scope:
        why = "the scope of these strong accesses does not reach the other block"
    elif c.unused:
        why = f"nothing orders the blocks, {WHY.partition(', ')[2]}"
    else:
        why = "nothing orders the blocks"
    message = f"{y_op} of {y_who} {y_does} global memory that {x_op} of {x_who} {x_does}: {why}"
    place = words.memory(Space.GLOBAL, c.address, 1, 1, 1)
    places = words.places(y.ins, f"{y_op}: {y_who} {y_does}")
    places += words.places(x.ins, f"{x_op}: {x_who} {x_does}")
    kind = Kind.SCOPE if c.scope else Kind.RACE
    policy = Policy.STRICT if c.unused else Policy.ANY
    notes = (f"both touch {place}",)
    return Fault(kind, message, trace.kernel, places, policy, notes=notes, confirmed=False)


def blocked_fault(words: Words, trace: ev.Trace) -> Iterator[Fault]:
    """Threads that cannot go on in the schedule of the trace."""
    seen: dict[int, list[np.ndarray]] = {}
    what: dict[int, str] = {}
    for entry in trace.blocked:
        seen.setdefault(entry.ins, []).append(entry.lanes)
        what.setdefault(entry.ins, entry.what)
    if not seen:
        return
    places: tuple[Location, ...] = ()
    notes = []
    for ins, sets in seen.items():
        lanes = np.unique(np.concatenate(sets))
        who = words.group(lanes)
        places += words.places(ins, f"{words.operation(ins)}: {who} waits for ever")
        notes.append(f"{who}: {what[ins]}")
    first = next(iter(seen))
    message = f"{words.operation(first)} never returns: {what[first]}"
    yield Fault(
        Kind.DEADLOCK,
        message,
        trace.kernel,
        _unique(places),
        notes=tuple(notes),
        witness=ANY,
        confirmed=True,
    )


def _space(space: Space) -> str:
    return "tensor memory" if space is Space.TENSOR else f"{space.value} memory"


def _unique(places: tuple[Location, ...]) -> tuple[Location, ...]:
    """Without repetitions of a place in one role."""
    return tuple(dict.fromkeys(places))
