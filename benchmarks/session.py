"""Measure cases under peers, reusing what a file remembers of earlier measurements of peers.

Only peers are ever reused, never xttir, and only while the script's text and the peer's packages
are the same as when they were measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.measure import Cost, run_once
from benchmarks.peers import PYTHON, Peer

LIMIT = 1800.0
"""Seconds of wall time after which one run of a script is given up."""


@dataclass
class Session:
    """`repeat`: runs of each command. `reuse`: file of earlier costs, or None."""

    repeat: int = 3
    threads: int = 1
    reuse: Path | None = None
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    stored: dict[str, dict] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.reuse and self.reuse.exists():
            self.stored = json.loads(self.reuse.read_text())

    def cost(self, peer: Peer, script: str, launches: int) -> Cost:
        """Run `script` under `peer` with so many launches, `repeat` times."""
        key = f"{peer.name}/{script}/{launches}/threads={self.threads}"
        version = peer.version(script)
        known = self.stored.get(key)
        if known and known["version"] == version and peer.name not in ("xttir", "python"):
            self.reused.add(peer.name)
            return Cost(known["cpu"], known["inside"], known["peak"])
        self.say(f"  {peer.name}: {script}, {launches} launches")
        cost = Cost()
        for _ in range(self.repeat):
            environment = peer.environment(launches, self.threads)
            cost.add(run_once(peer.command_for(script), environment, LIMIT))
            if cost.failures:
                self.say(f"    {cost.failures[-1]}")
                return cost
        if self.reuse and peer.name != "xttir":
            self.stored[key] = {"version": version, **cost.to_json()}
            self.reuse.write_text(json.dumps(self.stored, indent=1))
        return cost


@dataclass
class Measured:
    """A case under one peer: `busy` with the launches, `idle` without (or with the base number)."""

    peer: str
    busy: Cost
    idle: Cost
    unchecked: list[str] | None = None

    @property
    def failed(self) -> str:
        return next(iter([*self.busy.failures, *self.idle.failures]), "")

    def net(self, pick: Callable[[list[float]], float] = min) -> float:
        """CPU seconds of the launches, as the script measured them around its launches.

        Never below 0.1 ms, so that a ratio exists.
        """
        idle = pick(self.idle.inside) if self.idle.inside else 0.0
        return max(1e-4, pick(self.busy.inside) - idle)

    def outside(self) -> float:
        """The same as the difference of whole processes: coarse, but nothing can hide from it."""
        return self.busy.best - self.idle.best


def measure_case(session: Session, case: Case, peers: list[Peer]) -> dict[str, Measured]:
    """Every peer's cost of `case`, by peer name."""
    found = {}
    for peer in peers:
        idle = session.cost(peer, case.script, case.base)
        busy = session.cost(peer, case.script, case.launches)
        found[peer.name] = Measured(peer.name, busy, idle)
        if peer.name == "xttir" and not found[peer.name].failed:
            found[peer.name].unchecked = _left_unchecked(peer, case, session.threads)
    return found


def _left_unchecked(peer: Peer, case: Case, threads: int) -> list[str]:
    """What xttir says it did not check in this case, and needed checks that it did not do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        run_once(peer.command_for(case.script, path), peer.environment(1, threads), LIMIT)
        report = json.loads(path.read_text())
    done = report["stats"].get("checks", {})
    missing = [f"{name}: not done" for name in case.needs if not done.get(name)]
    return missing + [str(entry) for entry in report["not_checked"]]


def measure_start_up(session: Session, peers: list[Peer]) -> dict[str, Cost]:
    """CPU time of an empty script under each peer, and of importing torch and Triton (`python`)."""
    costs = {
        peer.name: session.cost(peer, "empty", 1) for peer in peers if peer.name != "interpret"
    }
    costs["python"] = session.cost(PYTHON, "imports", 1)
    return costs
