"""`torch.compile` on the fake GPU: Inductor makes Triton kernels, which run here like any others.

Tensors report `cuda:0`, so Dynamo's fake tensors are CUDA tensors and Inductor generates Triton.
What a CPU build lacks on that way is lent: a device guard (`guard.py`), `empty_strided_cuda`,
benchmarks that run once. Graphs that need gradients (autograd on
fake CUDA tensors needs a CUDA build) and graphs that Inductor cannot compile run eagerly, and that
is counted as not checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from xttir.frontends.triton import state, storage
from xttir.frontends.triton.patches import Patches

EAGER = "compiled by Inductor, run eagerly"

_REMEMBERING = ("torch.utils._triton", "torch._inductor.utils")

_CONFIG = {
    # Workers and caches would carry our stand-ins to where they do not belong.
    "compile_threads": 1,
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "autotune_local_cache": False,
    "autotune_remote_cache": False,
    "bundle_triton_into_fx_graph_cache": False,
    # Choices by timing say nothing here.
    "max_autotune": False,
    "max_autotune_pointwise": False,
    "max_autotune_gemm": False,
    "coordinate_descent_tuning": False,
    "triton.cudagraphs": False,
    "use_static_cuda_launcher": False,
    "use_static_triton_launcher": False,
    "cpp_wrapper": False,
}


def _needs_gradients(model: Any, inputs: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += model.parameters()
    return any(t.requires_grad for t in tensors)


def _on_gpu(model: Any, inputs: Any) -> bool:
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    return not tensors or any(t.is_cuda for t in tensors)


class _Lent:
    """What is put in place when the first graph reaches Inductor."""

    def __init__(self, patches: Patches):
        self.patches = patches
        self.ready = False

    def prepare(self) -> None:
        if self.ready:
            return
        self.ready = True
        _retarget_interface(self.patches)
        _forget_answers()
        self.patches.on_undo(_forget_answers)
        from torch._C._dynamo import guards
        from torch._inductor.runtime import benchmarking

        self.patches.set(guards, "_empty_strided_cuda", _empty_strided_cuda)

        for kind in vars(benchmarking).values():
            if isinstance(kind, type) and issubclass(kind, benchmarking.Benchmarker):
                for name in ("benchmark", "benchmark_gpu", "benchmark_cpu"):
                    if name in vars(kind):
                        self.patches.set(kind, name, _benchmark)


def _retarget_interface(patches: Patches) -> None:
    """Dynamo's view of `torch.cuda` holds the functions that stood there when it was imported."""
    from torch._dynamo import device_interface

    interface = device_interface.CudaInterface
    for name, value in list(vars(interface).items()):
        inner = {"exchange_device": "_exchange_device", "maybe_exchange_device": "_exchange_device"}
        function = getattr(torch.cuda, inner.get(name, name), None)
        if isinstance(value, staticmethod) and function is not None:
            if value.__func__.__module__ != device_interface.__name__:
                patches.set(interface, name, staticmethod(function))
        elif name in ("Event", "Stream", "device"):
            patches.set(interface, name, function)
    patches.set(interface, "get_raw_stream", staticmethod(torch._C._cuda_getCurrentRawStream))
    patches.set(device_interface, "_device_initialized", False)
    device_interface.caching_worker_device_properties.pop("cuda", None)


def _forget_answers() -> None:
    """Clear what torch remembers about whether there is a GPU and which."""
    hints = sys.modules.get("torch._inductor.runtime.hints")
    answers = [getattr(getattr(hints, "DeviceProperties", None), "create", None)]
    for name in _REMEMBERING:
        if name in sys.modules:
            answers += vars(sys.modules[name]).values()
    for answer in answers:
        clear = getattr(answer, "cache_clear", None)
        if callable(clear):
            clear()
    interface = sys.modules.get("torch._dynamo.device_interface")
    if interface is not None:
        interface.caching_worker_device_properties.pop("cuda", None)


def _benchmark(self: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    if args and isinstance(args[0], tuple):
        fn(*args[0], **(args[1] if len(args) > 1 else {}))
    else:
        fn()
    return 1.0


def _empty_strided_cuda(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def install(patches: Patches) -> None:
    """Wrap the backend that `torch.compile` calls for each graph."""
    lent = _Lent(patches)
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    def compile_graph(self: Any, model: Any, inputs: Any, *, config_patches: Any = None) -> Any:
        if not _on_gpu(model, inputs):
            return _on_host(original(self, model, inputs, config_patches=config_patches))
        if _needs_gradients(model, inputs):
            return _eagerly(model)
        from torch._inductor import config

        known = config.get_config_copy()
        ours = {k: v for k, v in _CONFIG.items() if k in known}
        lent.prepare()
        try:
            self.config, kept = {**self.config, **ours}, self.config
            try:
                with config.patch(ours):
                    return original(self, model, inputs, config_patches=config_patches)
            finally:
                self.config = kept
        except Exception:
            if os.environ.get("XTTIR_DEBUG"):
                raise
            return _eagerly(model)

    patches.set(wrapper, "__call__", compile_graph)

    def forget() -> None:
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset_code_caches()

    patches.on_undo(forget)


def _on_host(compiled: Any) -> Any:
    """What compiled code made of CPU tensors is on the CPU."""

    def run(*args: Any) -> Any:
        results = compiled(*args)
        for result in results if isinstance(results, (list, tuple)) else (results,):
            if isinstance(result, torch.Tensor) and storage.device_of(result) is None:
                storage.set_device(result, storage.CPU)
        return results

    return run


def _eagerly(model: Any) -> Any:
    def run(*args: Any) -> Any:
        now = state.installed()
        if now is not None:
            now.on_unchecked(EAGER)
        return model(*args)

    return run
