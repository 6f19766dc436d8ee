"""The module of a kernel before and after every compiler pass.

Triton's own pipeline runs, one pass at a time: the names `ir`, `passes` and `nvidia` of its NVIDIA
backend are lent stand-ins that record which passes a pass manager is given, and when it is run each
pass runs in a pass manager of its own, with the module printed in between. The result is the same
module, bit for bit. It ends before LLVM. Dumps that a user has made are read by `dumps`.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from xttir.diagnostics import InputError, Location, Unsupported
from xttir.refine.pipeline import INSTALL, PassFailed, escaped, pass_name, rejected
from xttir.refine.stages import Stage

_TO_LLVM = "add_to_llvmir"
"""The binding of the pass that leaves Triton's dialects."""

TIMEOUT = 300.0
"""Seconds that the front end or a pass may take."""

_lock = threading.Lock()

Sink = Callable[[str, Any], None]


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
            trace.sink("pass", pipeline)
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
    """What one compilation leaves behind, told to `sink` as it comes: ("pass", pipeline) before a
    pass runs, ("stage", stage) for every module."""

    def __init__(self, real: Any, sink: Sink):
        self.real = real
        self.sink = sink
        self.part = ""
        self.last = "", ""

    def note(self, module: Any, pipeline: str = "") -> None:
        """Keep the module as it is now."""
        name = pass_name(pipeline) if pipeline else ""
        text = module.str_nodebug()
        if text != self.last[0]:
            # Printing costs as much as the passes do.
            self.last = text, module.str()
        self.sink("stage", Stage(name, text, pipeline, self.part, "", self.last[1]))


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
    """Compile `source` (what Triton calls a source: ASTSource, IRSource, `ModuleSource`) for
    `target`, and give the module as the front end made it and after every pass. In a process of its
    own, since passes may crash.

    `end`: the last of Triton's stages to run: "ttir", "ttgir", or "llir" for the passes of the last
    one that still work on Triton's dialects. Raises `PassFailed`.
    """

    def work(sink: Sink) -> None:
        _compile(source, target, options, end, sink)

    stages: list[Stage] = []
    running, pipeline = "the front end", ""
    with tempfile.TemporaryFile() as log:
        for what, value in forked(work, log.fileno()):
            if what == "pass":
                running, pipeline = pass_name(value), value
            elif what == "stage":
                stages.append(value)
            else:
                log.seek(0)
                text = log.read().decode(errors="replace")
                first = next((x for x in text.splitlines() if "error:" in x), "")
                why = first.partition("error:")[2].strip() or value
                raise PassFailed(running, what, why, text, stages, pipeline)
    return stages


def forked(
    work: Callable[[Sink], None], errors: int, timeout: float = TIMEOUT
) -> Iterator[tuple[str, Any]]:
    """What `work` tells its sink, from a fork; last ("failed", why), ("crashed", signal) or ("timed
    out", after what time) if it does not come to its end. `errors`: the file descriptor for its
    standard error. `timeout`: seconds until it must have told something again."""
    read, write = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        # The child starts no thread but MLIR's own, and uses nothing of other threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child(work, read, write, errors)
    os.close(write)
    status, late = 0, threading.Event()

    def end() -> None:
        late.set()
        os.kill(pid, signal.SIGKILL)

    try:
        with open(read, "rb") as stream:
            while True:
                clock = threading.Timer(timeout, end)
                clock.start()
                try:
                    told = pickle.load(stream)
                except (EOFError, pickle.UnpicklingError):
                    break
                finally:
                    clock.cancel()
                yield told
    finally:
        _, status = os.waitpid(pid, 0)
    if late.is_set():
        yield "timed out", f"after {timeout:g} s"
    elif os.WIFSIGNALED(status):
        yield "crashed", signal.Signals(os.WTERMSIG(status)).name


def _child(work: Callable[[Sink], None], read: int, write: int, errors: int) -> NoReturn:
    code = 1
    try:
        os.close(read)
        os.dup2(errors, 2)
        with open(write, "wb") as stream:

            def sink(what: str, value: Any) -> None:
                pickle.dump((what, value), stream)
                stream.flush()

            try:
                work(sink)
            except Exception as error:
                sink("failed", str(error))
        code = 0
    finally:
        os._exit(code)


def _compile(source: Any, target: Any, options: dict[str, Any], end: str, sink: Sink) -> None:
    """Triton's `compile`, up to LLVM and without its caches."""
    import triton.backends.nvidia.compiler as backend
    from triton._C.libtriton import ir

    trace = _Trace(ir, sink)
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
        if isinstance(source, ModuleSource):
            made = source.left(made)
        metadata: dict[str, Any] = {"target": target, **parsed.__dict__}
        for name, run in made.items():
            trace.part = name
            try:
                module = run(module, metadata)
            except _Done:
                break
            if name == end:
                break


class ModuleSource:
    """A module text in the place of a kernel's source.

    `ext`: "ttir" or "ttgir". `finished`: whether it is the result of that stage of Triton's, not
    what the stage begins with.
    """

    def __init__(self, text: str, file: str, ext: str, finished: bool):
        from triton.backends.compiler import Language

        self.text, self.file, self.ext, self.finished = text, file, ext, finished
        self.language = Language.TRITON

    def left(self, stages: dict[str, Any]) -> dict[str, Any]:
        """The stages of Triton's that are still to run."""
        names = list(stages)
        return {name: stages[name] for name in names[names.index(self.ext) + self.finished :]}

    def parse_options(self) -> dict[str, Any]:
        """Options that the module says itself."""
        warps = re.search(r'"ttg\.num-warps" = (\d+)', self.text)
        return {"num_warps": int(warps[1])} if warps else {}

    def make_ir(self, target: Any, options: Any, functions: Any, modules: Any, context: Any) -> Any:
        """The module, read by Triton."""
        from triton._C.libtriton import ir

        # The text may come from standard input.
        with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
            path = os.path.join(folder, "module.mlir")
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(self.text)
            module = ir.parse_mlir_module(path, context)
        module.context = context
        return module


_FOLDER = "xttir-module-"
_OWN_PLACE = re.compile(rf'"[^"]*/{_FOLDER}[^"/]*/module\.mlir"')


def capture_module(source: Stage, cc: int, *, end: str = "ttgir") -> list[Stage]:
    """The stages that Triton's own pipeline makes of a module, from where it stands; the first is
    the module as Triton prints it. Raises `PassFailed` and `InputError`."""
    if importlib.util.find_spec("triton") is None:
        raise InputError("Triton's own pipeline needs Triton", hint=INSTALL)
    from triton.backends.compiler import GPUTarget

    gpu = re.search(r"\bttg\.num-warps\b", source.text) is not None
    if gpu and end != "llir":
        raise InputError(
            "the module is in Triton's GPU dialect: Triton's own pipeline has run on it",
            Location(source.file),
            "--passes says which passes to apply; --to llir runs those that come before LLVM",
        )
    ext = "ttgir" if gpu else "ttir"
    module = ModuleSource(source.text, source.file, ext, gpu)
    try:
        made = capture(module, GPUTarget("cuda", cc, 32), {}, end=end)
    except PassFailed as error:
        if error.stages:
            raise
        raise rejected(error.how, error.why, error.log, source.file) from error
    place = f'"{escaped(source.file)}"'
    for stage in made:
        stage.located = _OWN_PLACE.sub(lambda _: place, stage.located)
    return made


def capture_launch(launch: Any, *, end: str = "ttgir") -> list[Stage]:
    """The stages of the kernel of a launch that the Triton frontend made (see `Launch.compiled`).

    Raises `Unsupported` for kernels that do not come from Triton's front end, and `PassFailed`.
    """
    from xttir.frontends.triton.compile import full_compile, options_of

    kernel = launch.compiled.kernel
    raw = getattr(kernel.metadata, "_raw", kernel.metadata)
    if not hasattr(kernel.src, "make_ir"):
        raise Unsupported("passes of a kernel that was not compiled here", launch.site)
    with full_compile():
        return capture(kernel.src, raw.target, options_of(raw), end=end)
