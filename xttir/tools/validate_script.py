"""`xttir validate script.py`: every kernel that a script launches, pass by pass.

The script runs as under `sanitize`. Before a launch runs, its kernel's passes are captured and its
inputs copied; each kernel is then validated on them and on edge cases made from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xttir.diagnostics import Unsupported, XttirError
from xttir.refine.inputs import case_of
from xttir.refine.pipeline import PassFailed
from xttir.refine.stages import Stage
from xttir.refine.world import Case
from xttir.tools import script
from xttir.tools.collect import watch
from xttir.tools.validate import Settings, Validator, guarded_report, pass_failed
from xttir.tools.validate_report import ValidateReport
from xttir.tools.verify import problem

MAX_BYTES = 1 << 30
"""Memory of a launch that is copied; launches with more are left out, and told."""


@dataclass
class _Kernel:
    """A compiled kernel: its stages, and launches that were used."""

    stages: list[Stage]
    signatures: set[Any] = field(default_factory=set)


@dataclass
class _Capture:
    """Sees every launch before it runs, and validates the distinct ones."""

    run: Validator
    kernels: dict[Any, _Kernel | None] = field(default_factory=dict)

    def __call__(self, launch: Any) -> None:
        from xttir.refine.capture import capture_launch

        report, settings = self.run.report, self.run.settings
        key = launch.plan_key
        if key not in self.kernels:
            try:
                self.kernels[key] = _Kernel(capture_launch(launch, end=settings.end))
            except PassFailed as error:
                self.kernels[key] = _Kernel(error.stages)
                fault = pass_failed(error, (launch.site,) if launch.site else ())
                report.faults.append(replace(fault, kernel=launch.kernel, launch=launch.index))
            except Unsupported as error:
                self.kernels[key] = None
                report.unsupported.append(problem(error))
        kernel = self.kernels[key]
        if kernel is None:
            return
        signature = _signature(launch)
        if signature in kernel.signatures:
            return
        if len(kernel.signatures) >= settings.per_kernel:
            report.counts.leave_out(f"further launches of {launch.kernel}")
            return
        if _bytes(launch) > MAX_BYTES:
            report.counts.skip(f"launches of {launch.kernel} with more than {MAX_BYTES >> 30} GiB")
            return
        first = not kernel.signatures
        kernel.signatures.add(signature)
        self._validate(kernel, launch, case_of(launch), first)

    def _validate(self, kernel: _Kernel, launch: Any, case: Case, first: bool) -> None:
        about = f"launch {launch.index}" + (f" at {launch.site}" if launch.site else "")
        try:
            self.run.subject(
                launch.kernel,
                about,
                kernel.stages,
                [case],
                site=launch.site,
                index=launch.index,
                limit=None if first else 0,
            )
        except Unsupported as error:
            self.run.report.unsupported.append(problem(error))
        except XttirError as error:
            self.run.report.counts.skip(f"{launch.kernel}: {error}")


def _signature(launch: Any) -> Any:
    """Equal for launches that differ in the contents of tensors alone."""
    from xttir.interp.launch import ScalarArg
    from xttir.refine.world import tensor_of

    parts: list[Any] = [launch.grid]
    for argument in launch.arguments:
        tensor = tensor_of(argument)
        if isinstance(argument, ScalarArg):
            parts.append(argument.value)
        elif tensor is not None:
            parts.append((tensor.shape, tensor.strides, str(tensor.dtype)))
    return tuple(parts)


def _bytes(launch: Any) -> int:
    from xttir.refine.world import tensor_of

    tensors = [t for t in map(tensor_of, launch.arguments) if t is not None]
    return sum({id(t.storage): t.storage.bytes.size for t in tensors}.values())


def validate_script(
    words: Sequence[str], settings: Settings, *, bar: bool = False
) -> ValidateReport:
    """Run `python words...` and validate the kernels that it launches."""

    def work(run: Validator) -> None:
        if words[0] == "-m":
            start = script.module_runner(words[1], words[2:])
        else:
            start = script.script_runner(words[0], words[1:])
        policy = settings.policy().with_checks("host")
        watch(start, run.report, policy, _Capture(run), "validate", bar)

    return guarded_report(settings, work)
