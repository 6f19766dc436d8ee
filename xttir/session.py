"""A session: while it is open, every Triton launch of this process runs and is checked here.

`with xttir.sanitize() as s:` opens one; afterwards `s.faults`, `s.launches` and `s.counts` say what
was found, run and left out. The session goes on after faults: a launch is completed where possible
and the user's code continues, so all faults of a run are found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xttir.diagnostics import Fault, Kind, Location, Unsupported
from xttir.policy import CheckCounts, RunPolicy

if TYPE_CHECKING:
    from xttir.interp.launch import Launch, LaunchResult


@dataclass
class LaunchRecord:
    """One launch. `seconds` is the time it took to run and check, `site` the user's line.

    `config`: the autotuner's configuration, or "". `constants`: constexpr arguments by name.
    `completed` is False when it ended before all of its programs did.
    """

    index: int
    kernel: str
    grid: tuple[int, int, int]
    site: Location | None = None
    config: str = ""
    constants: dict[str, Any] = field(default_factory=dict)
    programs: int = 0
    seconds: float = 0.0
    completed: bool = False
    faults: list[Fault] = field(default_factory=list)


class Session:
    """Runs the launches made while it is open. Not reentrant: one per process at a time.

    `policy` may be replaced while the session is open (except its `cc`) and holds for the launches
    that follow. `unsupported`: what had no meaning here, besides being raised to the user's code.
    `interrupted`: the launch that Ctrl-C ended, if one was running.
    """

    def __init__(self, policy: RunPolicy | None = None):
        self.policy = policy or RunPolicy()
        self.launches: list[LaunchRecord] = []
        self.faults: list[Fault] = []
        self.unsupported: list[Unsupported] = []
        self.interrupted: Launch | None = None
        self.before: Callable[[Launch], None] | None = None
        """Called with every launch before it runs."""
        self.counts = CheckCounts()
        self.programs = 0
        self.seconds = 0.0
        self._open = False
        self._repeats = _repeats()
        # Launches come from any thread (autograd, data loaders); memory and shadows are shared.
        self._lock = threading.RLock()

    def __enter__(self) -> Session:
        from xttir.frontends.triton import install, state

        if self._open or state.installed() is not None:
            raise RuntimeError(
                "a session of xttir is open already: sessions do not nest, and a process has one "
                "at a time"
            )
        _preload()
        install(self.policy.cc, self._run, self._host_fault, self._unchecked)
        self._open = True
        return self

    def __exit__(self, *exc: Any) -> None:
        from xttir.frontends.triton import uninstall

        self._open = False
        uninstall()

    def _run(self, launch: Launch) -> None:
        with self._lock:
            record = LaunchRecord(
                launch.index,
                launch.kernel,
                launch.grid,
                launch.site,
                launch.config,
                launch.constants,
            )
            self.launches.append(record)
            if self.policy.on("host"):
                self.counts.add("host")
            if self.before is not None:
                self.before(launch)
            begin = time.perf_counter()
            try:
                result = _run_launch(launch, self.policy)
            except Unsupported as error:
                self.unsupported.append(error)
                raise
            except KeyboardInterrupt:
                self.interrupted = launch
                self.counts.skip("launches interrupted: what they write is incomplete")
                raise
            finally:
                record.seconds = time.perf_counter() - begin
                self.seconds += record.seconds
            if self.policy.on("host"):
                result.faults += self._repeats.after(launch)
            self._take(record, result)

    def _take(self, record: LaunchRecord, result: LaunchResult) -> None:
        """Add what a launch did to what is known."""
        record.programs, record.completed = result.programs, result.completed
        self.programs += result.programs
        for check, n in result.counts.done.items():
            self.counts.add(check, n)
        for reason, n in result.counts.not_done.items():
            self.counts.skip(reason, n)
        for what, n in result.counts.left_out.items():
            self.counts.leave_out(what, n)
        note = f"tuning configuration {record.config}" if record.config else ""
        for fault in result.faults:
            if note and fault.kind is not Kind.MISUSE:
                fault = replace(fault, notes=(*fault.notes, note))
            record.faults.append(fault)
            self.faults.append(fault)

    def _host_fault(self, fault: Fault) -> None:
        with self._lock:
            if self.policy.on("host"):
                self.counts.add("host")
                self.faults.append(fault)

    def _unchecked(self, what: str, *, by_choice: bool = False) -> None:
        with self._lock:
            if by_choice:
                self.counts.leave_out(what)
            else:
                self.counts.skip(what)


def _preload() -> None:
    """Import what every launch needs, so that the first one does not pay for it."""
    from xttir.dialects.syntax.lazy_formats import lazy_formats

    with lazy_formats():
        import xttir.interp.executor
        from xttir.frontends import mlir
        from xttir.interp.heap import reserve_room
        from xttir.interp.registry import implementations

        implementations()
    mlir.preload()
    reserve_room()
    assert xttir.interp.executor


def _repeats() -> Any:
    from xttir.interp.tuning import Repeats

    return Repeats()


def _run_launch(launch: Launch, policy: RunPolicy) -> LaunchResult:
    from xttir.interp import progress
    from xttir.interp.executor import run_launch

    gx, gy, gz = launch.grid
    progress.report(0, gx * gy * gz, launch.kernel)
    return run_launch(launch, policy)


def sanitize(
    *,
    checks: str | None = None,
    cc: int | None = None,
    grid_order: str | None = None,
    seed: int | None = None,
    max_steps: int | None = None,
    batch: int | None = None,
    strict: bool | None = None,
    policy: RunPolicy | None = None,
) -> Session:
    """A session for `with`: launches of Triton kernels run on the CPU and are checked.

    `checks` as on the command line ("all", "bounds,race", "-race"); what is not given comes from
    `policy`, else from the `XTTIR_*` environment variables. Raises ValueError for an unknown check.
    """
    policy = policy or RunPolicy.from_environment()
    given = {
        "cc": cc,
        "grid_order": grid_order,
        "seed": seed,
        "max_steps": max_steps,
        "batch": batch,
        "strict": strict,
    }
    policy = replace(policy, **{k: v for k, v in given.items() if v is not None})
    return Session(policy.with_checks(checks) if checks is not None else policy)
