"""A module of Triton's GPU dialects as it is once shared memory is allocated and barriers stand.

That is the point at which the schedules of a kernel are decided: what the compiler does later
neither moves memory nor adds waits. A module from before that point is taken there by Triton's own
remaining passes, those between its GPU dialects and LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Location, Unsupported
from xttir.dialects import tt
from xttir.dialects.layouts.placement import capability_at
from xttir.dialects.locations import location_of
from xttir.interp.tracing.tracer import is_allocated
from xttir.refine.stages import Stage

MEMBAR = "triton-nvidia-gpu-membar"
"""The pass that inserts barriers."""

TAKEN = "the module is taken as it is: its shared memory is allocated, and its barriers are all"


@dataclass(frozen=True)
class After:
    """A module after barrier insertion. `how`: how it came to be so, for the scope of a verdict."""

    module: ModuleOp
    how: str


def complete(module: ModuleOp, text: str, file: str) -> After:
    """The module after barrier insertion. `text` is what it was read from, in `file`.

    Raises `Unsupported` where Triton is not installed and `PassFailed` where a pass fails.
    """
    if is_allocated(module):
        return After(module, TAKEN)
    from xttir.refine.capture import capture_module
    from xttir.refine.stages import located

    _needs_triton(module)
    stages = capture_module(Stage("", text, file=file), capability_at(module) or 90, end="llir")
    made = after(located(stages[-1]), [s.name for s in stages if s.name])
    own = made.module.clone()
    _keep_names(module, own)
    return After(own, made.how)


def of_launch(launch: object) -> After:
    """What the kernel of a launch of Triton's is compiled to. Raises as `complete` does."""
    from xttir.refine.capture import capture_launch
    from xttir.refine.stages import located

    stages = capture_launch(launch, end="llir")
    return after(located(stages[-1]), [s.name for s in stages if s.part == "llir"])


def after(stage: Stage, passes: list[str]) -> After:
    """The module of the last stage, that these passes have made."""
    return After(
        stage.module(),
        f"shared memory is allocated and barriers are inserted by Triton {_version()} (its passes "
        f"{passes[0]} to {passes[-1]})",
    )


def _keep_names(before: ModuleOp, after: ModuleOp) -> None:
    """Parameters are called as in the module that was given."""
    functions = {op.sym_name.data: op for op in after.ops if isinstance(op, tt.FuncOp)}
    for op in before.ops:
        if isinstance(op, tt.FuncOp) and op.sym_name.data in functions:
            for old, new in zip(op.args, functions[op.sym_name.data].args, strict=False):
                new.name_hint = old.name_hint or new.name_hint


def _needs_triton(module: ModuleOp) -> None:
    if _version():
        return
    place = location_of(module)
    raise Unsupported(
        "a module before its shared memory is allocated and its barriers are inserted",
        Location(place.file, place.line),
        "its remaining passes are Triton's own: pip install triton, or give the module that "
        f"follows {MEMBAR}",
    )


def _version() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""
