"""`install` and `uninstall`: everything the frontend puts in place, at one entry.

To be called before the user's code is imported (a test module may ask for the device's capability
at import). It imports torch and triton.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from typing import Any

from xttir.diagnostics import Fault
from xttir.interp.launch import Launch


def _ignore(_: Any, **details: Any) -> None:
    pass


def install(
    cc: int,
    on_launch: Callable[[Launch], Any],
    on_fault: Callable[[Fault], Any] = _ignore,
    on_unchecked: Callable[..., Any] = _ignore,
) -> None:
    """Make this process look like one with a GPU of compute capability `cc` (90 is a H100).

    `on_launch` is called for every launch, in the thread that launches, and runs it; what it raises
    reaches the user's code. `on_fault` hears of launches that the driver would refuse, before the
    exception a GPU raises is raised. `on_unchecked` hears, in words, of code that runs without
    being checked (`by_choice=True`: that is not run, on purpose). Raises RuntimeError if installed
    already.
    """
    from xttir.frontends.triton import state
    from xttir.frontends.triton.devices import device_for

    if state.installed() is not None:
        raise RuntimeError("xttir is installed already; uninstall it first")
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise RuntimeError("TRITON_INTERPRET is set: kernels would not be compiled; unset it")
    import torch  # noqa: F401

    now = state.State(device_for(cc), on_launch, on_fault, on_unchecked)
    state.set_current(now)
    try:
        _install(now)
    except BaseException:
        uninstall()
        raise


def _install(now: Any) -> None:
    from xttir.frontends.triton import (
        cuda_api,
        guard,
        half_norms,
        inductor,
        out_dtype,
        tables,
        torch_cuda,
        uninit,
    )

    guard.lend(now.patches)
    torch_cuda.install(now.patches)
    cuda_api.install(now.patches, now.device)
    uninit.install(now.patches)
    tables.install(now.patches)
    inductor.install(now.patches)
    half_norms.install(now.patches)
    out_dtype.install(now.patches)
    _install_triton(now)


def _install_triton(now: Any) -> None:
    import triton
    import triton.compiler.compiler as compiler
    import triton.experimental.gluon
    import triton.runtime.autotuner
    import triton.runtime.cache
    import triton.testing
    from triton.backends import Backend, backends
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from xttir.frontends.triton import compile as xcompile
    from xttir.frontends.triton import driver, fast_key

    _forget_gpu_kernels()
    patches = now.patches
    patches.set_item(backends, "nvidia", Backend(xcompile.XttirBackend, driver.Driver))
    patches.on_undo(driver.set_active(driver.Driver()))
    patches.set(compiler, "CompiledKernel", xcompile.XttirKernel)
    for module in (triton.runtime.cache, triton.runtime.autotuner):
        patches.set(module, "triton_key", fast_key.triton_key)
    keyed = xcompile.key_with_files(compiler.get_cache_key)
    patches.set(compiler, "get_cache_key", keyed)
    wrapped = xcompile.compile_ir_files_fully(compiler.compile)
    for owner in (compiler, triton.compiler, triton):
        patches.set(owner, "compile", wrapped)
    patches.set(triton.testing, "do_bench", driver.time_once)
    patches.set(triton.testing, "do_bench_cudagraph", driver.time_once)

    patches.set(Autotuner, "check_disk_cache", driver.always_tune)
    mark = triton.testing.Mark
    patches.set(mark, "run", driver.skip_benchmarks(mark.run))
    _forget_kernels(patches, JITFunction, compiler)


def _forget_kernels(patches: Any, jit: Any, compiler: Any) -> None:
    """Kernels are cached per function and device index; none may outlive its installation."""
    functions: list[weakref.ref[Any]] = []
    do_compile = jit._do_compile

    def recording(self: Any, *args: Any, **kwargs: Any) -> Any:
        functions.append(weakref.ref(self))
        return do_compile(self, *args, **kwargs)

    patches.set(jit, "_do_compile", recording)

    def forget() -> None:
        for reference in functions:
            function = reference()
            if function is not None:
                function.device_caches.clear()
        compiler.max_shared_mem.cache_clear()

    patches.on_undo(forget)
    compiler.max_shared_mem.cache_clear()


def _forget_gpu_kernels() -> None:
    """On a machine with a GPU that was used already, forget what was compiled for it."""
    import triton
    from triton.runtime.jit import JITFunction

    if triton.runtime.driver._active is not None:
        for item in gc.get_objects():
            if isinstance(item, JITFunction):
                item.device_caches.clear()


def uninstall() -> None:
    """Take back everything that `install` did. Does nothing when nothing is installed."""
    from xttir.frontends.triton import state

    now = state.installed()
    if now is None:
        return
    try:
        now.patches.undo()
    finally:
        state.set_current(None)
