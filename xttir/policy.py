"""What is checked and how a launch is run. One object, looked up where it is needed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

CHECKS: dict[str, str] = {
    "bounds": "accesses outside the tensor (or the elements a view owns), null, misaligned",
    "race": "conflicting accesses of two program instances that nothing orders",
    "init": "reads of memory that nobody wrote",
    "undefined": "division by zero, shifts and conversions out of range",
    "overflow": "int32 and int64 offsets that wrap on the way to an address",
    "lanes": "lanes of one store that write different values to one address",
    "assert": "tl.device_assert and tl.assume",
    "hints": "tl.multiple_of, tl.max_contiguous and specialisation facts that are false",
    "phase": "mbarriers whose phases are not the same in every schedule",
    "proxy": "shared memory that asynchronous operations may read before they see what was stored",
    "host": "devices, grid, shared memory and descriptors as the driver would check them",
}
"""Names for `--checks`, with what each one looks for."""

GRID_ORDERS = ("forward", "reversed", "shuffled")

AGENT_ORDERS = ("fair", "first", "last", "random")
"""Which partition of a warp-specialised program goes on when several can: in turns, always the
first or the last one (the default partition is the first), or drawn at random after every wait."""


def _env(name: str, default: str) -> str:
    return os.environ.get(f"XTTIR_{name}", default)


def _one_of(name: str, known: tuple[str, ...]) -> str:
    value = _env(name, known[0])
    if value not in known:
        raise ValueError(f"XTTIR_{name} is '{value}', not one of {', '.join(known)}")
    return value


@dataclass(frozen=True)
class RunPolicy:
    """How launches run and what they are checked for.

    `batch`: program instances per batch, 0 chooses by tile size. `max_steps`: iterations of one
    loop after which it is reported as not ending; `max_trips`: of all counted loops of a launch
    together, 0 for no limit. `late_promises`: a false promise (`tl.multiple_of`) makes the value
    undefined, which is a fault where it is used, rather than being a fault where it is made.
    `values_only` turns every check off.
    """

    checks: frozenset[str] = frozenset(CHECKS)
    cc: int = 90
    grid_order: str = "forward"
    seed: int = 0
    max_steps: int = 1_000_000
    max_trips: int = 0
    batch: int = 0
    strict: bool = False
    agent_order: str = "fair"
    late_promises: bool = False

    def on(self, check: str) -> bool:
        return check in self.checks

    def with_checks(self, text: str) -> RunPolicy:
        """`text` as given to `--checks`: "all", "none", "bounds,race", "all,-race", "-race"."""
        words = [w.strip() for w in text.split(",") if w.strip()]
        chosen: set[str] = set(CHECKS) if not words or words[0].startswith("-") else set()
        for word in words:
            name, remove = word.removeprefix("-"), word.startswith("-")
            group = set(CHECKS) if name == "all" else set() if name == "none" else {name}
            if not group <= set(CHECKS):
                raise ValueError(f"unknown check '{name}'; known: {', '.join(CHECKS)}, all, none")
            chosen = chosen - group if remove else chosen | group
        return replace(self, checks=frozenset(chosen))

    def without(self, check: str) -> RunPolicy:
        """The same less one check."""
        return replace(self, checks=self.checks - {check})

    @classmethod
    def from_environment(cls) -> RunPolicy:
        """The defaults, as changed by the `XTTIR_*` variables that mirror the flags."""
        policy = cls(
            cc=int(_env("CC", "90")),
            grid_order=_env("GRID_ORDER", "forward"),
            seed=int(_env("SEED", "0")),
            max_steps=int(_env("MAX_STEPS", "1000000")),
            batch=int(_env("BATCH", "0")),
            strict=_env("STRICT", "") not in ("", "0"),
            agent_order=_one_of("AGENT_ORDER", AGENT_ORDERS),
        )
        checks = _env("CHECKS", "")
        return policy.with_checks(checks) if checks else policy


@dataclass
class CheckCounts:
    """How many times each check was done, and what was not done, in words.

    `not_done`: what could not be checked, so that the verdict is no more than `unknown`.
    `left_out`: what is not looked at on purpose (benchmarks, the order of the CTAs of a cluster),
    which is only said.
    """

    done: dict[str, int] = field(default_factory=dict)
    not_done: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    trips: int = 0
    """Iterations of counted loops."""

    def add(self, check: str, n: int = 1) -> None:
        self.done[check] = self.done.get(check, 0) + n

    def skip(self, reason: str, n: int = 1) -> None:
        self.not_done[reason] = self.not_done.get(reason, 0) + n

    def leave_out(self, what: str, n: int = 1) -> None:
        self.left_out[what] = self.left_out.get(what, 0) + n
