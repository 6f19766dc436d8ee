"""Fabricated faults and sessions for tests of the tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xttir.diagnostics import Fault, Kind, Location, Policy, Unsupported
from xttir.policy import CheckCounts, RunPolicy

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, o, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x + offs, mask=offs < n)
    y = tl.load(
        y + offs,
        mask=offs < n,
    )
    tl.store(o + offs, x + y)
"""

LAUNCH = "grid (8, 1, 1), BLOCK=128, n=1000"


def kernel_file(folder: Path) -> str:
    path = folder / "add.py"
    path.write_text(KERNEL)
    return str(path)


def out_of_bounds(file: str, launch: int = 1, **changes: Any) -> Fault:
    fields: dict[str, Any] = {
        "kind": Kind.OUT_OF_BOUNDS,
        "message": "store past the end of `o` (float32[1000])",
        "kernel": "add_kernel",
        "locations": (Location(file, 13, 5, "store", "add_kernel"),),
        "notes": ("program (7, 0, 0), lanes 104..127: o[1000..1023], 24 elements",),
        "hint": "the store has no mask; `mask=offs < n` covers exactly the tensor",
        "witness": {"program": (7, 0, 0), "lanes": [104, 127]},
        "count": 24,
        "launch": launch,
        "launch_text": LAUNCH,
    }
    return Fault(**(fields | changes))


def race(file: str, launch: int = 1) -> Fault:
    return Fault(
        Kind.RACE,
        "two programs access `y`, one of them writes",
        "add_kernel",
        (
            Location(file, 13, 5, "store by program (0, 0, 0)", "add_kernel"),
            Location(file, 9, 9, "load by program (1, 0, 0)", "add_kernel"),
        ),
        launch=launch,
        launch_text=LAUNCH,
    )


def strict(file: str, launch: int = 1) -> Fault:
    return Fault(
        Kind.UNDEFINED,
        "a masked lane has no value",
        "add_kernel",
        (Location(file, 8, 9, "load", "add_kernel"),),
        policy=Policy.STRICT,
        launch=launch,
        launch_text=LAUNCH,
    )


@dataclass
class FakeSession:
    """What the tools use of a session."""

    policy: RunPolicy = field(default_factory=RunPolicy)
    faults: list[Fault] = field(default_factory=list)
    unsupported: list[Unsupported] = field(default_factory=list)
    launches: list[Any] = field(default_factory=list)
    counts: CheckCounts = field(default_factory=CheckCounts)
    programs: int = 0
    seconds: float = 0.0
    interrupted: Any = None

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def launch(self, *faults: Fault, programs: int = 8) -> None:
        """As if a kernel had been launched."""
        self.launches.append(object())
        self.programs += programs
        self.seconds += 0.25
        self.faults += faults
        self.counts.add("bounds", 100)

    __hash__ = object.__hash__
