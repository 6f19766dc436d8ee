"""The module of a kernel before and after every compiler pass.

Triton's own pipeline runs, one pass at a time: the names `ir`, `passes` and `nvidia` of its NVIDIA
backend are lent stand-ins that record which passes a pass manager is given, and when it is run each
pass runs in a pass manager of its own, with the module printed in between. The result is the same
module, bit for bit. It ends before LLVM. Dumps that a user has made are read by `dumps`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xttir.diagnostics import Unsupported
from xttir.refine.pipeline import pass_name
from xttir.refine.stages import Stage

COMPOSITE = ("tritongpu-automatic-warp-specialization", "nvgpu-warp-specialization")
"""Passes that run pipelines of their own inside."""

_TO_LLVM = "add_to_llvmir"
"""The binding of the pass that leaves Triton's dialects."""

_lock = threading.Lock()


class _Done(Exception):
    """The next pass goes to LLVM."""


class _Manager:
    """Stands in for a pass manager: takes note of passes, runs each in one of its own."""

    def __init__(self, trace: _Trace, context: Any):
        self.trace, self.context = trace, context
        self.added: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []

    def enable_debug(self) -> bool:
        return False

    def get_pipeline_str(self) -> str:
        return ""

    def run(self, module: Any, name: str) -> None:
        trace = self.trace
        for binding, add, arguments in self.added:
            if binding == _TO_LLVM:
                raise _Done
            manager = trace.real.pass_manager(self.context)
            add(manager, *arguments)
            pipeline = manager.get_pipeline_str()
            manager.run(module, name)
            trace.note(module, pipeline)


class _Proxy:
    """A module of bindings whose functions may be given a `_Manager`."""

    def __init__(self, real: Any):
        self._real = real

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if type(value).__name__ == "module":
            return _Proxy(value)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*arguments: Any) -> Any:
            if arguments and isinstance(arguments[0], _Manager):
                arguments[0].added.append((name, value, arguments[1:]))
                return None
            return value(*arguments)

        return call


class _IR:
    """The `ir` bindings with `_Manager`s for pass managers."""

    def __init__(self, trace: _Trace):
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        if name == "pass_manager":
            return lambda context: _Manager(self._trace, context)
        return getattr(self._trace.real, name)


class _Trace:
    """What one compilation left behind."""

    def __init__(self, real: Any):
        self.real = real
        self.stages: list[Stage] = []
        self.part = ""

    def note(self, module: Any, pipeline: str = "") -> None:
        """Keep the module as it is now."""
        text = module.str_nodebug()
        last = self.stages[-1] if self.stages else None
        located = module.str()
        if last is not None and last.text == text:
            text = last.text
        self.stages.append(
            Stage(pass_name(pipeline) if pipeline else "", text, pipeline, self.part, "", located)
        )


@contextmanager
def _recorded(trace: _Trace) -> Iterator[None]:
    """Inside, Triton's NVIDIA backend tells `trace` of its passes."""
    import triton.backends.nvidia.compiler as backend

    names = {
        "ir": _IR(trace),
        "passes": _Proxy(backend.passes),
        "nvidia": _Proxy(backend.nvidia),
    }
    with _lock:
        before = {name: getattr(backend, name) for name in names}
        try:
            for name, value in names.items():
                setattr(backend, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(backend, name, value)


def capture(
    source: Any, target: Any, options: dict[str, Any], *, end: str = "ttgir"
) -> list[Stage]:
    """Compile `source` (Triton's ASTSource or IRSource, or what a launch was compiled from) for
    `target`, and give the module as the front end made it and after every pass.

    `end`: the last of Triton's stages to run: "ttir", "ttgir", or "llir" for the passes of the last
    one that still work on Triton's dialects. Raises what Triton raises where it does not compile.
    """
    import triton.backends.nvidia.compiler as backend
    from triton._C.libtriton import ir

    trace = _Trace(ir)
    compiler = backend.CUDABackend(target)
    parsed = compiler.parse_options({**options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    compiler.load_dialects(context)
    generate = compiler.get_codegen_implementation(parsed)
    with _recorded(trace):
        module = source.make_ir(target, parsed, generate, compiler.get_module_map(), context)
        trace.part = source.ext
        trace.note(module)
        made: dict[str, Any] = {}
        compiler.add_stages(made, parsed, source.language)
        metadata: dict[str, Any] = {"target": target, **parsed.__dict__}
        for name, run in made.items():
            trace.part = name
            try:
                module = run(module, metadata)
            except _Done:
                break
            if name == end:
                break
    return trace.stages


def capture_launch(launch: Any, *, end: str = "ttgir") -> list[Stage]:
    """The stages of the kernel of a launch that the Triton frontend made (see `Launch.compiled`).

    Raises `Unsupported` for kernels that do not come from Triton's front end.
    """
    from xttir.frontends.triton.compile import full_compile, options_of

    kernel = launch.compiled.kernel
    raw = getattr(kernel.metadata, "_raw", kernel.metadata)
    if not hasattr(kernel.src, "make_ir"):
        raise Unsupported("passes of a kernel that was not compiled here", launch.site)
    with full_compile():
        return capture(kernel.src, raw.target, options_of(raw), end=end)
