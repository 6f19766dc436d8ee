"""The states of a small asynchronous program, and what one step does to them.

Barriers are their counters, agents are positions, copies in flight are a set. Beside them each
agent carries what it *knows*: the accesses whose effects are ordered before whatever it does next.
Arrivals hand knowledge to the phase, a wait takes what completed phases hold, a fence for the
async proxy marks what is known so far (PTX ISA 9.1, 8.9 and 9.7.13, applied to one schedule after
another and never to a graph). An access that conflicts with one made and not known is a race.
"""

from __future__ import annotations

from collections.abc import Callable

from xttir.analyses.events import Scope, Sem
from xttir.analyses.explore_state import Bar, Move, Position
from xttir.analyses.explore_types import ACQUIRING, RELEASING, Do, Part, Step, bits
from xttir.diagnostics import Kind

LIMIT = (1 << 20) - 1
"""Of an mbarrier's arrivals and bytes."""


class World(Position):
    """A state that can be stepped."""

    __slots__ = ()

    # Moves ----------------------------------------------------------------------------------------

    def go(self, agent: int) -> None:
        """The agent's next step, which is enabled."""
        pc = self.pcs[agent]
        step = self.program.steps[agent][pc]
        move = (agent, pc)
        self.log.append(move)
        if step.do is Do.MEET:
            self._meet(agent, step, move)
            return
        self.pcs[agent] = pc + 1
        self.done.append(move)
        _DO[step.do](self, agent, step, move)

    def land(self, signal: int) -> None:
        """Bytes of a copy, all that are left, or a deferred arrival."""
        s = self.program.signals[signal]
        move = (-1, signal)
        self.log.append(move)
        self.flying &= ~(1 << signal)
        carried, self.carried[signal] = self.carried[signal], 0
        place = (s.lane, s.event)
        bar = self._barrier(s.barrier, place, None)
        if bar is None:
            return
        self._noted(move, bar[0], s.barrier, place)
        cur = bar[4] | s.publishes | carried
        if s.bytes:
            bar = (*bar[:3], bar[3] - s.bytes, cur, *bar[5:])
        else:
            bar = (*bar[:2], bar[2] - 1, bar[3], cur, *bar[5:])
        self._put(s.barrier, bar, place)

    def local(self) -> None:
        """Run all steps whose order with others makes no difference."""
        steps, pcs = self.program.steps, self.pcs
        again = True
        while again and not self.trapped:
            again = False
            for agent, mine in enumerate(steps):
                while (
                    pcs[agent] < len(mine) and not mine[pcs[agent]].objects and self.enabled(agent)
                ):
                    again = True
                    self.go(agent)
                    if self.trapped:
                        return

    def _noted(
        self, move: Move, phase: int, barrier: int, place: tuple[int, int], firm: bool = True
    ) -> None:
        """An update or wait takes part in a phase. `firm` False: a test that failed."""
        wrong = self.note(move, phase, firm)
        if wrong:
            self.find(Kind.PHASE, f"{self._name(barrier)}: {wrong}", place)

    # Accesses -------------------------------------------------------------------------------------

    def _check(self, agent: int, step: Step, known: int) -> None:
        """Races of the accesses of `step` with those made."""
        n = self.program.n
        missing = step.need & (self.made | self.made << n) & ~known
        if missing:
            for part in step.parts:
                for bit in bits(self.program.needs[part.index] & missing):
                    other = self.program.parts[bit % n]
                    if part.writes and known >> other.index + 2 * n & 1:
                        left = part.granules & other.granules & ~self._read(known, other)
                        if not left:
                            continue
                    kind = Kind.RACE if bit < n or not known >> bit - n & 1 else Kind.PROXY
                    self._race(kind, step, part, other)
        for part in step.parts:
            for writers in self.program.writers.get(part.index, ()):
                if not writers & self.made:
                    self.find(
                        Kind.UNINITIALIZED,
                        "reads shared memory that nobody has written",
                        (step.lanes[0], step.event),
                    )
                    break

    def _read(self, known: int, write: Part) -> int:
        """Granules of a write that reads which are over have read: a write after them is after it
        too, whatever delays what others see of it."""
        found = 0
        for p in self.program.parts:
            if not p.writes and known >> p.index & 1 and p.granules & write.granules:
                found |= p.granules
        return found

    def _race(self, kind: Kind, step: Step, part: Part, other: Part) -> None:
        lanes = self.program.lanes[(other.agents & -other.agents).bit_length() - 1]
        words = "is not ordered after" if kind is Kind.RACE else "lacks a proxy fence after"
        self.find(
            kind,
            f"{part.mode} of {part.space} {words} the {other.mode} of event {other.event}",
            (step.lanes[0], step.event),
            (lanes[0], other.event),
        )

    def _reaches(self, step: Step) -> None:
        """Shared memory of blocks that are gone, and words that hold a live barrier."""
        place = (step.lanes[0], step.event)
        for cta in {p.cta for p in step.parts if p.cta >= 0}:
            if self.dead(cta):
                self.find(Kind.LIFETIME, f"block {cta} has exited", place)
        for barrier in step.barriers:
            if self.objs[barrier] is not None:
                self.find(Kind.LIFETIME, f"touches the live {self._name(barrier)}", place)

    def _nothing(self, agent: int, step: Step, move: Move) -> None:
        pass

    def _touch(self, agent: int, step: Step, move: Move) -> None:
        self._reaches(step)
        known = self.known[agent]
        self._check(agent, step, known)
        self.made |= step.bits
        self.known[agent] = known | step.bits | (known & step.sees) << 2 * self.program.n

    def _strong(self, agent: int, step: Step, move: Move) -> None:
        places = [o for o in bits(step.objects) if self.program.things[o].kind == "place"]
        reads = any(not p.writes or p.mode == "read-modify-write" for p in step.parts)
        writes = any(p.writes for p in step.parts)
        for place in places:
            if reads and self.objs[place]:
                if step.sem in ACQUIRING:
                    self.known[agent] |= self.objs[place]
                else:
                    self.acquired[agent] |= self.objs[place]
        self._touch(agent, step, move)
        if writes:
            gives = self.known[agent] if step.sem in RELEASING else self.released[agent]
            for place in places:
                self.objs[place] = gives | (self.objs[place] if reads else 0)

    def _issue(self, agent: int, step: Step, move: Move) -> None:
        known = self.known[agent]
        if step.unit >= 0:
            came, gathered = self.objs[step.unit]
            came, known = came | 1 << agent, gathered | known
            self.objs[step.unit] = (came, known)
            if came != self.program.things[step.unit].agents:
                return
        self._reaches(step)
        self._check(agent, step, known)
        self.made |= step.bits
        known |= (known & step.sees) << 2 * self.program.n
        if step.flag:
            self.behind[agent] |= known & ~self.program.generic_writes
        self._send(step, known)

    def _send(self, step: Step, known: int) -> None:
        """What an operation's completion gives beside its own accesses: what it started after,
        as far as that is over by then (writes of other threads through the generic proxy need
        not be visible, completed operations and reads are done)."""
        self.flying |= step.signals
        for s in bits(step.signals):
            signal = self.program.signals[s]
            if self._barrier(signal.barrier, (signal.lane, signal.event), known) is None:
                self.flying &= ~(1 << s)
                continue
            self.carried[s] = known & ~self.program.generic_writes
            if signal.bytes:
                self._early(signal.barrier, (signal.lane, signal.event))

    def _collect(self, agent: int, step: Step, move: Move) -> None:
        self.known[agent] |= step.mask

    def _proxy(self, agent: int, step: Step, move: Move) -> None:
        self.known[agent] |= (self.known[agent] & step.mask) << self.program.n

    def _fence(self, agent: int, step: Step, move: Move) -> None:
        if not self.program.relaxed:
            return
        if step.kind == "mbarrier_init":
            self.released[agent] |= self.known[agent] & self.program.inits
            return
        if step.sem in ACQUIRING:
            self.known[agent] |= self.acquired[agent]
        if step.sem in RELEASING:
            self.released[agent] |= self.known[agent]

    # mbarriers ------------------------------------------------------------------------------------

    def _barrier(self, barrier: int, place: tuple[int, int], known: int | None) -> Bar | None:
        """The barrier, if it can be used; `known`: of the thread that uses it."""
        thing = self.program.things[barrier]
        if (known is None or thing.cta in self.program.remote) and self.dead(thing.cta):
            if self.program.cta_of_agent[self.program.agent_of[place[0]]] != thing.cta:
                self.find(Kind.LIFETIME, f"block {thing.cta} has exited", place)
            return None
        bar = self.objs[barrier]
        if bar is None:
            self.find(Kind.LIFETIME, f"{self._name(barrier)} is not initialised", place)
            self.trapped = True
            return None
        if known is not None and not known >> bar[8] & 1:
            init = self.program.parts[bar[8]]
            lane = self.program.lanes[(init.agents & -init.agents).bit_length() - 1][0]
            self.find(
                Kind.RACE,
                f"the initialisation of {self._name(barrier)} is not ordered before its use",
                place,
                (lane, init.event),
            )
        return bar

    def _put(self, barrier: int, bar: Bar, place: tuple[int, int]) -> None:
        phase, expected, pending, tx, cur, far, done, done_far, init = bar
        if pending < 0 or abs(tx) > LIMIT:
            what = "more arrivals than expected" if pending < 0 else "too many bytes outstanding"
            self.find(Kind.PHASE, f"{self._name(barrier)}: {what} in phase {phase}", place)
            self.trapped = True
            return
        if pending == 0 and tx == 0:
            bar = (phase + 1, expected, expected, 0, 0, 0, done | cur, done_far | far, init)
        self.objs[barrier] = bar
        self._early(barrier, place)

    def _early(self, barrier: int, place: tuple[int, int]) -> None:
        """All arrivals are in and some bytes of the copies in flight would complete the phase."""
        bar = self.objs[barrier]
        if bar is None or bar[2] or bar[3] <= 0:
            return
        flying = self.flying & self.program.flights.get(barrier, 0)
        sizes = [self.program.signals[s].bytes for s in bits(flying)]
        if bar[3] < sum(sizes) and _can_land(sizes, bar[3]):
            self.find(
                Kind.PHASE,
                f"{self._name(barrier)}: phase {bar[0]} can complete after {bar[3]} of the"
                f" {sum(sizes)} bytes in flight",
                place,
            )

    def _init(self, agent: int, step: Step, move: Move) -> None:
        place = (step.lanes[0], step.event)
        self._check(agent, step, self.known[agent])
        self.made |= step.bits
        self.known[agent] |= step.bits
        for barrier, count, part in step.items:
            if self.objs[barrier] is not None:
                self.find(Kind.LIFETIME, f"{self._name(barrier)} is initialised again", place)
            if not 1 <= count <= LIMIT:
                self.find(Kind.PHASE, f"{self._name(barrier)} expects {count} arrivals", place)
                self.trapped = True
            self.objs[barrier] = (0, count, count, 0, 0, 0, 0, 0, part)

    def _inval(self, agent: int, step: Step, move: Move) -> None:
        self._check(agent, step, self.known[agent])
        self.made |= step.bits
        self.known[agent] |= step.bits
        for barrier, _, _ in step.items:
            bar = self._barrier(barrier, (step.lanes[0], step.event), self.known[agent])
            if bar is not None:
                self.objs[barrier] = None

    def _arrive(self, agent: int, step: Step, move: Move) -> None:
        place = (step.lanes[0], step.event)
        known = self.known[agent]
        gives = self.released[agent] if step.sem is Sem.RELAXED else known
        self.flying |= step.signals
        for s in bits(step.signals):
            if self._barrier(self.program.signals[s].barrier, place, known) is None:
                return
            self.carried[s] = self.behind[agent]
        for barrier, count, expect, far in step.items:
            bar = self._barrier(barrier, place, known)
            if bar is None:
                if self.trapped:
                    return
                continue
            self._noted(move, bar[0], barrier, place)
            phase, expected, pending, tx, cur, cur_far, done, done_far, init = bar
            if far:
                cur |= gives & ~self.program.generic_writes
                cur_far |= gives if step.scope >= Scope.CLUSTER else 0
            elif count > 0:
                cur |= gives
            if step.kind == "drop":
                expected -= count
            if expect and pending == 0 and tx + expect == 0:
                self.find(
                    Kind.PHASE,
                    f"{self._name(barrier)}: phase {phase} completes before the arrival",
                    place,
                )
            bar = (
                phase,
                expected,
                pending - count,
                tx + expect,
                cur,
                cur_far,
                done,
                done_far,
                init,
            )
            self._put(barrier, bar, place)
            if self.trapped:
                return
            if step.flag and self.objs[barrier][0] != phase:
                self.find(Kind.PHASE, f"{self._name(barrier)}: noComplete completes a phase", place)

    def _tx(self, agent: int, step: Step, move: Move) -> None:
        place = (step.lanes[0], step.event)
        for barrier, size, _ in step.items:
            bar = self._barrier(barrier, place, self.known[agent])
            if bar is None:
                return
            self._noted(move, bar[0], barrier, place)
            self._put(barrier, (*bar[:3], bar[3] + size, *bar[4:]), place)

    def _wait(self, agent: int, step: Step, move: Move) -> None:
        place = (step.lanes[0], step.event)
        for barrier, parity, _ in step.items:
            bar = self._barrier(barrier, place, self.known[agent])
            if bar is None:
                return
            if step.flag:
                passes = bar[0] & 1 != parity
                self._noted(move, bar[0] - passes, barrier, place, passes)
                continue
            self._noted(move, bar[0] - 1, barrier, place)
            takes = bar[6] | (bar[7] if step.scope >= Scope.CLUSTER else 0)
            if step.sem is Sem.RELAXED:
                self.acquired[agent] |= takes
            else:
                self.known[agent] |= takes

    # Other barriers -------------------------------------------------------------------------------

    def _meet(self, agent: int, step: Step, move: Move) -> None:
        thing, count, weight = step.items[0]
        place = (step.lanes[0], step.event)
        number, expects, threads, came, waiting, gathered = self.objs[thing]
        if came and expects != count:
            self.find(Kind.DEADLOCK, f"{self._name(thing)} is used with two thread counts", place)
            self.trapped = True
            return
        if came >> agent & 1:
            self.find(Kind.DEADLOCK, f"a thread comes to {self._name(thing)} twice at once", place)
            self.trapped = True
            return
        wrong = self.note(move, number, True)
        if wrong:
            self.find(Kind.PHASE, f"{self._name(thing)}: {wrong}", place)
        if step.kind == "arrive":
            self.done.append(move)
            self.pcs[agent] += 1
        else:
            waiting |= 1 << agent
        came |= 1 << agent
        self.objs[thing] = (
            number,
            count,
            threads + weight,
            came,
            waiting,
            gathered | (self.known[agent] if step.kind != "together" else 0),
        )
        self._meeting(thing, place)

    def _meeting(self, thing: int, place: tuple[int, int]) -> None:
        """Let the threads go when all have come."""
        number, count, threads, came, waiting, gathered = self.objs[thing]
        t = self.program.things[thing]
        if not came:
            return
        if t.kind in ("warp", "together"):
            need = sum(1 << a for a in bits(t.agents) if not self.gone(a))
            if came & need != need:
                return
        else:
            left = [a for a, c in enumerate(self.program.cta_of_agent) if c == t.cta]
            expected = count or sum(
                len(self.program.lanes[a]) for a in left if not self.gone(a) or came >> a & 1
            )
            if threads > expected:
                self.find(Kind.DEADLOCK, f"{threads} threads come to {self._name(thing)}", place)
                self.trapped = True
                return
            if threads < expected:
                return
        for agent in bits(waiting):
            self.done.append((agent, self.pcs[agent]))
            self.pcs[agent] += 1
            self.known[agent] |= gathered
        self.objs[thing] = (number + 1, 0, 0, 0, 0, 0)

    def _cluster_arrive(self, agent: int, step: Step, move: Move) -> None:
        thing = step.items[0][0]
        number, came, cur, done = self.objs[thing]
        self._in_turn(step)
        if came >> agent & 1:
            self.trapped = True
            return
        gives = self.released[agent] if step.sem is Sem.RELAXED else self.known[agent]
        self.objs[thing] = (number, came | 1 << agent, cur | gives, done)
        self._cluster(thing)

    def _in_turn(self, step: Step) -> None:
        if step.flag:
            words = "arrive and wait do not alternate at the cluster barrier"
            self.find(Kind.UNDEFINED, words, (step.lanes[0], step.event))

    def _cluster(self, thing: int) -> None:
        number, came, cur, done = self.objs[thing]
        need = [a for a in bits(self.program.things[thing].agents) if not self.gone(a)]
        if came and all(came >> a & 1 for a in need):
            self.objs[thing] = (number + 1, 0, 0, done | cur)

    def _cluster_wait(self, agent: int, step: Step, move: Move) -> None:
        self._in_turn(step)
        self.known[agent] |= self.objs[step.items[0][0]][3]

    # Tensor memory, exit --------------------------------------------------------------------------

    def _alloc(self, agent: int, step: Step, move: Move) -> None:
        thing, base, columns = step.items[0]
        self._touch(agent, step, move)
        self.objs[thing] = tuple(sorted((*self.objs[thing], (base, columns))))

    def _dealloc(self, agent: int, step: Step, move: Move) -> None:
        thing, base, columns = step.items[0]
        self._touch(agent, step, move)
        if (base, columns) not in self.objs[thing]:
            place = (step.lanes[0], step.event)
            self.find(Kind.LIFETIME, "frees tensor memory that is not allocated", place)
            return
        self.objs[thing] = tuple(x for x in self.objs[thing] if x != (base, columns))

    def _exit(self, agent: int, step: Step, move: Move) -> None:
        cta = self.program.cta_of_agent[agent]
        place = (step.lanes[0], step.event)
        for i, thing in enumerate(self.program.things):
            if thing.kind == "cluster":
                self._cluster(i)
            elif thing.kind in ("named", "warp", "together") and thing.cta == cta:
                self._meeting(i, place)
            elif thing.kind == "tensor" and thing.cta == cta and self.dead(cta) and self.objs[i]:
                self.find(Kind.RESOURCE, "tensor memory is never freed", place)
        if self.dead(cta):
            self._end_of_block(cta)

    def _end_of_block(self, cta: int) -> None:
        known = 0
        for a, home in enumerate(self.program.cta_of_agent):
            if home == cta:
                known |= self.known[a]
        for p in self.program.parts:
            if p.outlives and p.cta == cta and (self.made & ~known) >> p.index & 1:
                lane = self.program.lanes[(p.agents & -p.agents).bit_length() - 1][0]
                self.find(
                    Kind.LIFETIME,
                    f"block {cta} exits before the {p.mode} of event {p.event} is over",
                    (lane, p.event),
                )
        for s in bits(self.flying):
            signal = self.program.signals[s]
            if signal.far and self.program.things[signal.barrier].cta == cta:
                self.find(
                    Kind.LIFETIME,
                    f"block {cta} exits before a signal from another block has come",
                    (signal.lane, signal.event),
                )


_DO: dict[Do, Callable[[World, int, Step, Move], None]] = {
    Do.NOTHING: World._nothing,
    Do.TOUCH: World._touch,
    Do.STRONG: World._strong,
    Do.ISSUE: World._issue,
    Do.COLLECT: World._collect,
    Do.PROXY: World._proxy,
    Do.FENCE: World._fence,
    Do.INIT: World._init,
    Do.INVAL: World._inval,
    Do.ARRIVE: World._arrive,
    Do.TX: World._tx,
    Do.WAIT: World._wait,
    Do.CLUSTER_ARRIVE: World._cluster_arrive,
    Do.CLUSTER_WAIT: World._cluster_wait,
    Do.ALLOC: World._alloc,
    Do.DEALLOC: World._dealloc,
    Do.EXIT: World._exit,
}


def _can_land(sizes: list[int], amount: int) -> bool:
    """Whether `amount` bytes can have landed: any multiples of 16 of each copy of at least 16
    bytes (what is not a multiple of 16 comes last), smaller ones as a whole."""
    free = sum(s // 16 * 16 for s in sizes)
    sums = {0}
    for s in sizes:
        if s % 16:
            sums |= {t + s % 16 for t in sums}
    return any(0 <= amount - t <= free and (amount - t) % 16 == 0 for t in sums)
