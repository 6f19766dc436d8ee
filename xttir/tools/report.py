"""What one command found: the data that text, JSON and SARIF are rendered from.

A `Report` is plain data; parts made in other processes (pytest workers, children of the script)
are merged into one. Here the verdict is decided, and the order and grouping of faults: the likely
cause first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from xttir.diagnostics import EXIT_CODES, Fault, Kind, Location, Policy, Verdict
from xttir.policy import CHECKS, CheckCounts, RunPolicy

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it."""

_RANK: dict[Kind, int] = {
    kind: rank
    for rank, kinds in enumerate(
        (
            (Kind.MISUSE, Kind.RESOURCE),
            (Kind.INT_OVERFLOW,),
            (Kind.OUT_OF_BOUNDS,),
            (Kind.LIFETIME, Kind.SCOPE, Kind.PROXY, Kind.PHASE),
            (Kind.RACE,),
            (Kind.UNINITIALIZED,),
            (Kind.UNDEFINED,),
            (Kind.DEADLOCK, Kind.DIVERGENCE),
            (Kind.ASSERT,),
            (Kind.MISMATCH,),
        )
    )
    for kind in kinds
}
"""Within one launch, what may be the cause of the rest comes first: a wrapped offset leads out of
bounds, a stray access leads to undefined values, and those fail assertions and comparisons."""


@dataclass(frozen=True)
class Problem:
    """Something other than a fault that ended or spoilt the run. `where` is for people."""

    what: str
    location: Location | None = None
    hint: str = ""


@dataclass(frozen=True)
class ScriptError:
    """An exception of the user's own that nothing caught. `traceback` has the user's frames.

    `refused`: it was raised in place of the driver, which refused a launch.
    """

    type: str
    message: str
    traceback: str
    location: Location | None = None
    refused: bool = False


@dataclass(frozen=True)
class Group:
    """Faults of one kind at one place.

    `first` is shown in full. `others`: those at the same place whose message differs, one per
    message. `count`: elements or occurrences, all together. `launches`: the ones that hit it.
    """

    first: Fault
    count: int
    launches: tuple[int, ...]
    others: tuple[Fault, ...] = ()


@dataclass
class Report:
    """The outcome of one command, or of a part of it (see `merge`).

    `seconds`: time inside launches and checks. `wall`: of the whole command. `tests`: outcomes of
    a pytest run by name, empty for a script.
    """

    command: str = "sanitize"
    policy: RunPolicy = field(default_factory=RunPolicy)
    faults: list[Fault] = field(default_factory=list)
    counts: CheckCounts = field(default_factory=CheckCounts)
    launches: int = 0
    programs: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    unsupported: list[Problem] = field(default_factory=list)
    internal: list[Problem] = field(default_factory=list)
    input_error: Problem | None = None
    script_error: ScriptError | None = None
    script_exit: int | None = None
    exit_place: Location | None = None
    interrupted: str = ""
    tests: dict[str, int] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    """What a module that was run left in memory and returned, a line each."""

    def merge(self, other: Report) -> None:
        """Add what a part (another process, one test) found."""
        self.faults += other.faults
        self.launches += other.launches
        self.programs += other.programs
        self.seconds += other.seconds
        self.unsupported += other.unsupported
        self.internal += other.internal
        self.interrupted = self.interrupted or other.interrupted
        for check, n in other.counts.done.items():
            self.counts.add(check, n)
        for reason, n in other.counts.not_done.items():
            self.counts.skip(reason, n)
        for what, n in other.counts.left_out.items():
            self.counts.leave_out(what, n)
        for name, n in other.tests.items():
            self.tests[name] = self.tests.get(name, 0) + n

    @property
    def errors(self) -> list[Fault]:
        """Faults that decide the verdict: all, or without those of policy strict."""
        return [f for f in self.faults if self.policy.strict or f.policy is not Policy.STRICT]

    @property
    def verdict(self) -> Verdict:
        if self.errors:
            return Verdict.FAULT
        if self.input_error or self.script_error or self.script_exit:
            return Verdict.ERROR
        if self.unsupported:
            return Verdict.UNSUPPORTED
        if self.internal or self.interrupted or self.counts.not_done:
            return Verdict.UNKNOWN
        return Verdict.VERIFIED

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.interrupted else EXIT_CODES[self.verdict]

    def not_checked(self) -> list[dict[str, Any]]:
        """What was left out: {"what", "reason", "count"} each, in the words of a summary."""
        out = [
            {"what": name, "reason": "switched off", "count": 0}
            for name in CHECKS
            if not self.policy.on(name)
        ]
        return out + self.left_out()

    def left_out(self) -> list[dict[str, Any]]:
        """What could not be checked or was left out by choice, in the same form."""
        out = [
            {"what": what, "reason": "could not be checked", "count": n}
            for what, n in self.counts.not_done.items()
        ]
        out += [
            {"what": what, "reason": "left out by choice", "count": n}
            for what, n in self.counts.left_out.items()
        ]
        missing = Counter(p.what for p in self.unsupported)
        out += [{"what": w, "reason": "unsupported", "count": n} for w, n in missing.items()]
        return out

    def assumptions(self) -> list[str]:
        """What the verdict rests on."""
        policy = self.policy
        return [
            "the inputs of this run: other data, sizes or grids can behave differently",
            f"compute capability {policy.cc // 10}.{policy.cc % 10}",
            f"program instances started in {policy.grid_order} order; "
            "the race check holds for every order",
        ]


def ordered(faults: Iterable[Fault]) -> list[Fault]:
    """The likely cause first: host misuse, then launch by launch in the order of `_RANK`;
    strict ones (portability) after those that show in practice. Stable otherwise."""

    def rank(fault: Fault) -> tuple[int, int, int, int]:
        host = fault.kind in (Kind.MISUSE, Kind.RESOURCE)
        strict = fault.policy is Policy.STRICT
        # Launch 0 means "not in a launch": the host's own asserts come after every launch.
        launch = 0 if host else fault.launch or 1 << 62
        return (strict, not host, launch, _RANK[fault.kind])

    return sorted(faults, key=rank)


def distinct(faults: Iterable[Fault]) -> list[tuple[Fault, tuple[int, ...]]]:
    """Faults in order of likely cause, one per `Fault.key`: its first occurrence with the counts
    of all of them added, and the launches in which it was seen."""
    same: dict[Any, list[Fault]] = {}
    for fault in ordered(faults):
        same.setdefault(fault.key, []).append(fault)
    return [
        (
            replace(seen[0], count=sum(f.count for f in seen)),
            tuple(sorted({f.launch for f in seen if f.launch})),
        )
        for seen in same.values()
    ]


def grouped(faults: Iterable[Fault]) -> list[Group]:
    """Faults in order of likely cause, those of one kind at one place as one group."""
    places: dict[Any, list[tuple[Fault, tuple[int, ...]]]] = {}
    for fault, launches in distinct(faults):
        place = (fault.kind, fault.policy, fault.kernel, fault.locations)
        places.setdefault(place, []).append((fault, launches))
    return [
        Group(
            first=same[0][0],
            count=sum(fault.count for fault, _ in same),
            launches=tuple(sorted({n for _, launches in same for n in launches})),
            others=tuple(fault for fault, _ in same[1:]),
        )
        for same in places.values()
    ]
