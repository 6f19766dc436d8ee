"""Every schedule of kernels in Triton's GPU dialects: modules, and the kernels that a script
launches.

What is verified is the module after barrier insertion. The report says how it came to be so, and at
which grid, scalars and integer data.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.passes import has_layouts, is_kernel
from xttir.analyses.programs import faults_at, grid_words, races_of_any
from xttir.diagnostics import Fault, InputError, Location, Policy, Unsupported, Verdict
from xttir.dialects import tt
from xttir.dialects.locations import location_of
from xttir.frontends.launch_description import LaunchDescription
from xttir.frontends.module_launch import bind, find_function, known
from xttir.interp.tracing import Launch
from xttir.refine import after_barriers
from xttir.refine.after_barriers import After
from xttir.refine.pipeline import PassFailed
from xttir.tools.places import Places
from xttir.tools.static_report import Outcome, StaticReport
from xttir.tools.verify import Settings, guarded

SCOPE = (
    "grid, scalars and integer data are those of the launch; other data may be anything",
    "shared memory, tensor memory and barriers are looked at as the module has them",
    "ops mean what Triton's own lowering makes of them",
)

SCHEDULES = (
    "what programs do to each other's global memory is not looked at (every size of the TTIR is "
    "about that)"
)
RACES = (
    "of what programs do to each other's global memory only races are asked for, and only where no "
    "argument scales an address"
)
RUN = (
    "programs were run in one order at this launch, every access to global memory checked; and "
    "asked whether they conflict at other sizes"
)


class ModuleVerifier:
    """Verifies modules after barrier insertion and adds what it finds to `report`, which says of
    global memory `globally`."""

    def __init__(self, settings: Settings, report: StaticReport, globally: str = SCHEDULES):
        self.settings = settings
        self.report = report
        self.globally = globally

    def kernel(self, after: After, launch: Launch, file: str, index: int = 0) -> None:
        """One kernel at one launch. Raises `InputError` and `Unsupported`."""
        from xttir.analyses.modules import verify_module

        settings, report, began = self.settings, self.report, time.perf_counter()
        text = known.text_of(launch, after.module)
        outcome = Outcome(
            launch.kernel, file, text, index=index, level="ttgir", blocks=launch.programs
        )
        report.outcomes.append(outcome)
        report.launches += 1
        places = Places(file)
        explain = settings.explain
        pair = explain if isinstance(explain, tuple) else None
        try:
            result = verify_module(after.module, launch, strict=settings.strict, pair=pair)
            report.assume([*SCOPE, self.globally, after.how, *result.assumptions])
            for fault in result.faults:
                shown = replace(
                    places.presented(fault), launch=index, launch_text=text, confirmed=False
                )
                report.faults.append(shown)
            letter = [f for f in result.faults if f.policy is Policy.STRICT]
            outcome.warnings = 0 if settings.strict else len(letter)
            outcome.faults = len(result.faults) - outcome.warnings
            for reason in result.unknown:
                report.counts.skip(reason)
            outcome.finished = not result.unknown
            outcome.done = {n: v for n, v in result.stats.items() if isinstance(v, int)}
            if settings.every_trip and result.verdict is Verdict.VERIFIED:
                outcome.result = _every_trip(after.module, launch, settings.timeout)
            if settings.explain:
                outcome.details = list(result.explain())
        finally:
            outcome.seconds = time.perf_counter() - began
            report.seconds += outcome.seconds
            report.programs += launch.programs


@dataclass(frozen=True)
class Asked:
    """What a command says of a launch of a module: a `description`, or `words` about `entry`."""

    module: ModuleOp
    description: LaunchDescription | None
    words: str
    entry: str

    def known(self) -> Launch:
        """What is known of the launch. Raises `InputError`."""
        if self.description is not None:
            return known.from_description(self.module, self.description)
        return known.from_words(self.module, self.words, self.entry)

    def sure_faults(self, seconds: float) -> list[Fault]:
        """What programs do to each other's global memory (`analyses.programs`): at the launch and
        at those that keep to its contract, or in any launch where nothing is said."""
        if self.description is not None:
            return faults_at(bind(self.module, self.description).launch, seconds)
        if self.words:
            return []
        return races_of_any(self.module, find_function(self.module, self.entry), seconds)


def asked(module: ModuleOp, launch: str, words: str, entry: str) -> Asked:
    """`launch`: the file of a description, "" for none. Raises `InputError`."""
    from xttir.frontends.launch_description import load

    return Asked(module, load(launch, module=True) if launch else None, words, entry)


def _every_trip(module: ModuleOp, launch: Launch, seconds: float) -> list[str]:
    """A line for every argument that says how often a loop goes round."""
    from xttir.analyses.trips.growth import deciding_arguments
    from xttir.analyses.trips.prove import every_trip

    arguments = deciding_arguments(module, launch.kernel)
    numbers = [n for n in arguments if type(launch.arguments.get(n)) is int]
    return [str(every_trip(module, launch, n, seconds)) for n in numbers]


def verify_file(path: str, words: str, launch: str, entry: str, settings: Settings) -> StaticReport:
    """`xttir verify K.ttgir`, "-" for standard input: a launch from a description, or from words
    (`frontends.module_launch.known`)."""
    from xttir.frontends.mlir import parse_module
    from xttir.tools.run_module import read_text

    began = time.monotonic()
    report = StaticReport(policy=settings.policy())
    with guarded(report):
        text = read_text(path)
        file = "<stdin>" if path == "-" else path
        module = parse_module(text, file)
        if has_layouts(module):
            question = asked(module, launch, words, entry)
            given = question.known()
            with guarded(report):
                report.faults += question.sure_faults(settings.timeout)
            with guarded(report):
                after = completed(lambda: after_barriers.complete(module, text, file))
                globally = RUN if launch else SCHEDULES if words else RACES
                ModuleVerifier(settings, report, globally).kernel(after, given, file)
        else:
            _every_size(module, words, launch, settings, report)
    report.wall = time.monotonic() - began
    return report


def _every_size(
    module: ModuleOp, words: str, launch: str, settings: Settings, report: StaticReport
) -> None:
    from xttir.analyses.sizes.assume import from_words
    from xttir.tools.every_size import EverySizes

    if launch:
        raise InputError("--launch is for TTGIR: TTIR is verified for every size", Location(launch))
    kernels = [op for op in module.ops if isinstance(op, tt.FuncOp) and is_kernel(op)]
    if not kernels:
        raise InputError("the module has no kernel", location_of(module))
    sizes = EverySizes(report, replace(settings, assume=""))
    sizes.contracts += [
        (0, from_words(module, kernel, grid_words(kernel, words))) for kernel in kernels
    ]
    sizes.prove()


def completed(make: Any) -> After:
    """What `make` gives; a pass of Triton's that fails leaves nothing to verify."""
    try:
        return make()
    except PassFailed as error:
        raise Unsupported(f"a module on which Triton's {error}") from error


class ScriptModules:
    """The kernels of a script, each distinct launch with what is known of it."""

    def __init__(self, report: StaticReport, settings: Settings):
        self.verifier = ModuleVerifier(settings, report)
        self.report = report
        self.launches: list[tuple[Any, Launch]] = []
        self.seen: set[str] = set()

    def take(self, launch: Any) -> None:
        """Note a launch that is about to run."""
        given = known.from_launch(launch)
        key = hashlib.sha256(f"{_source(launch)} {given.grid} {given.arguments}".encode())
        for index, tensor in given.tensors.items():
            key.update(f"{index} {tensor.shape} {tensor.strides} {tensor.offset}".encode())
            key.update(tensor.storage.bytes.tobytes())
        if key.digest().hex() not in self.seen:
            self.seen.add(key.digest().hex())
            self.launches.append((launch, given))

    def verify(self) -> None:
        """Verify all of them; the outcomes go into the report."""
        made: dict[str, After] = {}
        for launch, given in self.launches:
            with guarded(self.report):
                source = _source(launch)
                if source not in made:
                    made[source] = completed(lambda x=launch: after_barriers.of_launch(x))
                file = launch.site.file if launch.site is not None else launch.kernel
                self.verifier.kernel(made[source], given, file, launch.index)


def _source(launch: Any) -> str:
    """Equal for launches of one compiled kernel."""
    kernel = launch.compiled.kernel
    return f"{kernel.name} {kernel.hash}"
