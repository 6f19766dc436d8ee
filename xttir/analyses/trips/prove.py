"""From some values of an argument to all of a class: K, K + step, K + 2 step, ...

`step` is how much of the argument makes one iteration. The class is proved when (1) what decides
anything repeats itself after `period` iterations whatever the argument (`growth`), (2) the program
is then in the same state, and a launch with a period more has its events once more (`zone`), (3)
what is `distance` iterations apart is ordered, and what came before the loop is known to whoever
will ever know of it (`distance`), (4) the launches below a number of iterations have been verified,
one by one, and that number leaves room for a period outside of any window in which the order of two
events is decided.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xttir.analyses.trips.distance import Cuts, distance, settled
from xttir.analyses.trips.growth import STILL, WILD, Growth, Rate, Refusal
from xttir.analyses.trips.zone import (
    Heads,
    Run,
    State,
    Zone,
    heads_of,
    inserted,
    stretches,
    zone_of,
)
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Verdict, XttirError
from xttir.dialects import tt
from xttir.interp.tracing import Launch, trace_module
from xttir.interp.tracing.visits import Visits

PERIODS = 16
"""Periods that are looked for."""

STEPS = 1024
"""Numbers that may make one iteration."""

SIZES = (16, 32, 64)
"""Iterations with which the argument is tried."""


@dataclass(frozen=True)
class EveryTrip:
    """The answer for one argument: `why` it was not proved, or "". All launches in which the
    argument is `low` + n * `step`, n >= 0, are verified."""

    argument: int
    name: str
    why: str = ""
    low: int = 0
    step: int = 0
    period: int = 0
    distance: int = 0
    checked: int = 0
    """Launches verified one by one."""

    def __str__(self) -> str:
        if self.why:
            return f"not shown for other values of {self.name}: {self.why}"
        return (
            f"holds for every {self.name} = {self.low} + {self.step} n (n >= 0): the schedule "
            f"repeats itself every {self.period} iteration{'s' * (self.period > 1)}, "
            f"{self.distance} iterations apart everything is ordered, and the {self.checked} "
            "launches below are verified one by one"
        )


def name_of(kernel: tt.FuncOp, argument: int) -> str:
    """What a parameter is called."""
    return kernel.body.blocks[0].args[argument].name_hint or f"argument {argument}"


class _NotShown(Exception):
    pass


def every_trip(module: ModuleOp, launch: Launch, argument: int, seconds: float = 60.0) -> EveryTrip:
    """Whether what is verified for a launch holds for all values of an integer `argument` that
    make more or fewer iterations. `seconds`: after which no other launch is begun."""
    kernel = tt.function_named(module, launch.kernel)
    assert kernel is not None
    parameter = kernel.body.blocks[0].args[argument]
    name = name_of(kernel, argument)
    proof = _Proof(module, launch, argument, parameter, time.monotonic() + seconds)
    try:
        return replace(proof.run(), name=name)
    except _NotShown as reason:
        return EveryTrip(argument, name, str(reason))
    except Refusal as reason:
        return EveryTrip(argument, name, str(reason))
    except XttirError as error:
        return EveryTrip(argument, name, str(error))


class _Proof:
    def __init__(
        self,
        module: ModuleOp,
        launch: Launch,
        argument: int,
        parameter: SSAValue,
        deadline: float,
    ):
        self.module, self.launch, self.argument = module, launch, argument
        self.parameter = parameter
        self.deadline = deadline
        self.runs: dict[int, Run] = {}
        self.keys: dict[int, list[int]] = {}
        self.interned: dict[object, int] = {}

    def traced(self, value: int) -> Run:
        """The launch with the argument at `value`."""
        known = self.runs.get(value)
        if known is None:
            self._in_time()
            arguments = {**self.launch.arguments, self.argument: value}
            visits: list[Visits] = []
            traces = trace_module(self.module, replace(self.launch, arguments=arguments), visits)
            if len(traces) > 1:
                raise _NotShown("programs of the launch go several ways")
            known = self.runs[value] = Run(traces[0], visits[0])
        return known

    def _in_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise _NotShown("out of time")

    def run(self) -> EveryTrip:
        given = int(self.launch.arguments[self.argument])
        step = self._step(given)
        least = given % step
        reason = "no period was found"
        for size in SIZES:
            base = least + step * size
            heads = heads_of([self.traced(base + n * step) for n in range(3)])
            if not heads:
                raise _NotShown("no loop goes round once more when it grows")
            for period in range(1, PERIODS + 1):
                try:
                    return self._with(base, step, heads, period)
                except (Refusal, _NotShown) as why:
                    if not isinstance(why, _NoPeriod):
                        reason = str(why)
        raise _NotShown(reason)

    def _step(self, given: int) -> int:
        """What must be added to the argument for one iteration more."""
        size = 1
        while size <= STEPS:
            runs = [self.traced(given + n * size) for n in range(4)]
            if heads_of(runs):
                return size
            size *= 2
        raise _NotShown("no loop goes round once more when it grows")

    def _with(self, base: int, step: int, heads: Heads, period: int) -> EveryTrip:
        values = [base + n * step for n in range(2 * period)]
        zones = [self._zone(v, step, heads, period) for v in values[:period]]
        for value, zone in zip(values[:period], zones, strict=True):
            self._decides(value, step, heads, zone)
        furthest = 0
        for value, zone in zip(values[:period], zones, strict=True):
            furthest = max(furthest, self._ordered(value, heads, zone))
        for value in values[:period]:
            if not self._verified(value):
                raise _NotShown(f"the launch with {value} is not verified")
        low, checked = base, period
        while low - step >= 0 and self._verified(low - step):
            low -= step
            checked += 1
        return EveryTrip(self.argument, "", "", low, step, period, furthest, checked)

    def _verified(self, value: int) -> bool:
        try:
            return verify_trace(self.traced(value).trace).verdict is Verdict.VERIFIED
        except XttirError:
            return False

    def _keys(self, value: int, heads: Heads) -> list[int]:
        found = self.keys.get(value)
        if found is None:
            found = self.keys[value] = stretches(self.traced(value), heads, self.interned)  # type: ignore[arg-type]
        return found

    def _zone(self, value: int, step: int, heads: Heads, period: int) -> Zone:
        keys = self._keys(value, heads)
        state = State(self.traced(value), heads, period)
        zone, why = zone_of(keys, period, state.differs)
        if zone.length < 2 * period:
            raise _NotShown(why) if why else _NoPeriod
        if not inserted(keys, self._keys(value + period * step, heads), zone):
            raise _NotShown("a longer launch is not the same with some iterations more")
        return zone

    # What decides ---------------------------------------------------------------------------------

    def _decides(self, value: int, step: int, heads: Heads, zone: Zone) -> None:
        """Nothing is decided by what grows; comparisons of it come out as they always will."""
        run, longer = self.traced(value), self.traced(value + zone.period * step)
        seeds: dict[SSAValue, Rate] = {self.parameter: Rate(0, zone.period * step)}
        bounds = {agent: self._bounds(run, heads, agent, zone) for agent in heads}
        for agent, block in heads.items():
            first, last = bounds[agent]
            here, there = run.of(heads, agent), longer.of(heads, agent)
            for n, argument in enumerate(block.args):
                before = [v.values[n] for v in here[first : last + zone.period]]
                other = [v.values[n] for v in there[first : last + zone.period]]
                rate = _rate(before, other, zone.period)
                if rate != STILL:
                    seeds[argument] = rate
        growth = Growth(self.module, seeds, set(heads.values()))
        for op, rate in growth.compared.items():
            for one in run.visits.compared.get(op, ()):
                steps = [v.steps for v in run.of(heads, one.agent)] if one.agent in heads else []
                at = bisect_right(steps, one.steps) - 1
                first, last = bounds.get(one.agent, (0, -1))
                part = -1 if at < first else 1 if at >= last + zone.period else 0
                if not _stays(rate, one.difference, part):
                    raise _changes(op)

    def _bounds(self, run: Run, heads: Heads, agent: str, zone: Zone) -> tuple[int, int]:
        """The zone in visits of `agent`."""
        cuts = run.of(heads, next(iter(heads)))
        at = [v.at for v in run.of(heads, agent)]
        first = bisect_right(at, cuts[zone.first].at)
        last = bisect_right(at, cuts[zone.last - 1].at)
        return first, last

    # Order ----------------------------------------------------------------------------------------

    def _ordered(self, value: int, heads: Heads, zone: Zone) -> int:
        """The distance, with room for windows of it in the zone."""
        self._in_time()
        run = self.traced(value)
        at = [v.at for v in run.of(heads, next(iter(heads)))]
        cuts = Cuts(run.trace, at)
        until = zone.last + zone.period - 1
        most = (zone.length + zone.period - 2 * zone.period - 2) // 3
        found = distance(cuts, zone.first, until, most) if most > 0 else None
        if found is None:
            raise _NotShown(
                f"within {max(most, 0)} iterations not everything is ordered with what follows"
            )
        if not settled(cuts, zone.first, until - found - zone.period, until):
            raise _NotShown("agents still learn of what came before the loop")
        return found


class _NoPeriod(_NotShown):
    pass


def _rate(values: list[object], longer: list[object], period: int) -> Rate:
    """The rate of a number from its values in two launches."""
    if all(type(v) is int for v in (*values, *longer)):
        numbers: list[int] = [v for v in values if isinstance(v, int)]
        others: list[int] = [v for v in longer if isinstance(v, int)]
        later = {b - a for a, b in zip(numbers, numbers[period:], strict=False)}
        more = {b - a for a, b in zip(numbers, others, strict=True)}
        if len(later) == len(more) == 1:
            return Rate(later.pop(), more.pop())
        return WILD
    same = values == longer and values[period:] == values[: len(values) - period]
    return STILL if same else WILD


def _stays(rate: Rate, difference: int, part: int) -> bool:
    """Whether a comparison comes out alike in all longer launches, and in the zone in all later
    iterations. `part`: -1 before the zone, 0 in it, 1 after it."""

    def towards(change: int) -> bool:
        return change == 0 or difference * change > 0

    if part < 0:
        return towards(rate.more)
    if part > 0:
        return towards(rate.later + rate.more)
    if rate.later == 0:
        return towards(rate.more)
    if rate.more == 0:
        return towards(rate.later)
    return rate.later == -rate.more and towards(rate.more)


def _changes(op: Operation) -> Refusal:
    return Refusal(op, "a comparison that comes out differently in longer launches")
