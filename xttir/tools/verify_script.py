"""`xttir verify script.py`: every distinct launch of a script, as PTX for the device asked for,
and every size of each kernel that it launches.

The script runs as under `sanitize`, so that sizes, scalars and index data are the ones it really
uses; each launch is described before it runs and verified once the script has ended.
`tools.every_size` generalises the launches, `tools.verify_ttgir` looks at their TTGIR.
"""

from __future__ import annotations

import hashlib
import linecache
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xttir.diagnostics import InputError, Location, Unsupported
from xttir.frontends.launch_description import LaunchDescription, dump, to_dict
from xttir.frontends.launch_description.write import text as as_text
from xttir.tools import script
from xttir.tools.collect import watch
from xttir.tools.every_size import EverySizes
from xttir.tools.static_report import StaticReport
from xttir.tools.verify import Settings, Verifier, guarded, problem
from xttir.tools.verify_ttgir import ScriptModules


@dataclass(frozen=True)
class Captured:
    """A launch that a script made: PTX under a file name, and its description."""

    index: int
    name: str
    ptx: str
    launch: LaunchDescription
    site: Location | None


class Capture:
    """Sees every launch before it runs, and keeps the distinct ones."""

    def __init__(
        self,
        report: StaticReport,
        sizes: EverySizes | None,
        modules: ScriptModules | None,
        schedules: bool,
    ):
        self.report = report
        self.sizes = sizes
        self.modules = modules
        self.schedules = schedules
        self.found: list[Captured] = []
        self.seen: set[str] = set()
        self.names: dict[str, str] = {}
        """File name by key of the code."""

    def __call__(self, launch: Any) -> None:
        from xttir.frontends.triton.describe import describe, device_code

        if self.sizes is not None:
            self.sizes.take(launch)
        if self.modules is not None:
            self.modules.take(launch)
        if not self.schedules:
            return
        code = device_code(launch)
        try:
            description = describe(launch, code)
        except Unsupported as error:
            self.report.unsupported.append(problem(error))
            return
        key = code.key + _digest(replace(description, note=""))
        if key in self.seen:
            return
        self.seen.add(key)
        name = self.names.get(code.key)
        if name is None:
            name = _free(code.name, set(self.names.values()))
            self.names[code.key] = name
        self.found.append(Captured(launch.index, name, code.ptx, description, launch.site))


def _digest(description: LaunchDescription) -> str:
    def hashed(_: str, contents: np.ndarray) -> str:
        return hashlib.sha256(contents.tobytes()).hexdigest()

    return as_text(to_dict(description, hashed))


def _free(name: str, taken: set[str]) -> str:
    """A file name for a kernel that no other kernel has."""
    stem, n, result = name[:80], 1, name[:80]
    while f"{result}.ptx" in taken:
        n += 1
        result = f"{stem}.{n}"
    return f"{result}.ptx"


def verify_script(
    path: str, args: Sequence[str], settings: Settings, *, bar: bool = False
) -> StaticReport:
    """Run `python path args...` and verify what it launches."""
    return _verify(lambda: script.script_runner(path, args), settings, bar)


def verify_module(
    name: str, args: Sequence[str], settings: Settings, *, bar: bool = False
) -> StaticReport:
    """Run `python -m name args...` and verify what it launches."""
    return _verify(lambda: script.module_runner(name, args), settings, bar)


def _verify(
    runner: Callable[[], Callable[[], None]], settings: Settings, bar: bool
) -> StaticReport:
    began = time.monotonic()
    report = StaticReport(policy=settings.policy())
    with guarded(report):
        sizes = EverySizes(report, settings) if settings.every_size else None
        asks = settings.every_schedule and settings.level != "ptx"
        modules = ScriptModules(report, settings) if asks else None
        captured = _run(runner(), settings, report, bar, sizes, modules)
        _verify_all(captured, settings, report)
        if modules is not None:
            modules.verify()
        if sizes is not None:
            sizes.prove()
    report.wall = time.monotonic() - began
    return report


def _run(
    start: Callable[[], None],
    settings: Settings,
    report: StaticReport,
    bar: bool,
    sizes: EverySizes | None,
    modules: ScriptModules | None,
) -> list[Captured]:
    """Run the script; what ended it early goes into `report`."""
    ptx = settings.every_schedule and settings.level != "ttgir"
    capture = Capture(report, sizes, modules, ptx)
    watch(start, report, settings.policy().with_checks("host"), capture, "verify", bar)
    return capture.found


def _verify_all(captured: list[Captured], settings: Settings, report: StaticReport) -> None:
    from xttir.frontends.launch_description.match import match
    from xttir.frontends.ptx import parse_ptx

    verifier = Verifier(settings, report)
    folder = Path(settings.dump) if settings.dump else None
    modules: dict[str, Any] = {}
    for item in captured:
        file, command = item.name, ""
        if folder is not None:
            file, command = _dump(item, folder)
        else:
            lines = item.ptx.splitlines(keepends=True)
            linecache.cache[file] = (len(item.ptx), None, lines, file)
        with guarded(report):
            if file not in modules:
                modules[file] = parse_ptx(item.ptx, file)
            launch = match(replace(item.launch, file=file), modules[file])
            verifier.kernel(modules[file], file, launch, command, item.index)
    if settings.every_schedule:
        what = "every schedule: launches, sizes and integer data are those of this run"
        report.assume([what + " of the script"])


def _dump(item: Captured, folder: Path) -> tuple[str, str]:
    """Write PTX and launch description; returns the PTX file and the command that runs it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ptx = folder / item.name
        ptx.write_text(item.ptx)
        launch = folder / f"{ptx.stem}.{item.index}.launch.json"
        dump(item.launch, launch)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write: {reason}", Location(str(folder))) from error
    return str(ptx), f"xttir run {ptx} --launch {launch}"
