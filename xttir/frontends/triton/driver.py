"""A GPU driver for Triton with no GPU behind it: launches become `Launch`es.

Triton asks its active driver for the target, device properties, a launcher class and a benchmarker
(`triton/backends/nvidia/driver.py`); everything above the driver (autotuner, heuristics, hooks,
warm-up, resource checks) stays Triton's own. The order of events in a launch, and what is raised
when, follow `driver.c`.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import Fault, InputError, Kind
from xttir.frontends.triton import cuda_streams, state, uninit
from xttir.frontends.triton.callsite import Site, Tuner, user_site
from xttir.frontends.triton.launch import CPU_TENSOR, ArgumentPlan, BadDescriptor, CpuTensor
from xttir.interp.launch import Argument, Launch

_TUNER = Tuner(Autotuner._bench.__code__, Autotuner.run.__code__)


def launch_site(depth: int = 2) -> Site:
    """The user's line that launches, with the tuning configuration in force."""
    return user_site(depth + 1, _TUNER)


def report(kind: Kind, message: str, kernel: str, site: Site, raises: str, **details: Any) -> None:
    """Tell the session about a fault of the host side, for which `raises` is raised next."""
    details["witness"] = {**details.get("witness", {}), "raises": raises}
    if site.config:
        details["notes"] = (*details.get("notes", ()), f"tuning configuration {site.config}")
    fault = Fault(kind, message, kernel=kernel, locations=(site.location(),), **details)
    state.current().on_fault(fault)


class Launcher:
    """What `kernel.run` is. Made once per compiled kernel, called once per launch."""

    def __init__(self, src: Any, metadata: Any):
        self.src = src
        self.metadata = metadata
        self.kernel: Any = None
        self.module: ModuleOp | None = None
        self.constants: dict[str, Any] = {}
        self.plan: ArgumentPlan | None = None

    def bind(self, kernel: Any) -> None:
        """Give the launcher its compiled kernel (the driver interface passes only metadata)."""
        self.kernel = kernel
        self.name = kernel.name
        raw = getattr(kernel.metadata, "_raw", kernel.metadata)
        self.num_warps, self.num_ctas = raw.num_warps, raw.num_ctas
        self.scratch = raw.global_scratch_size, raw.global_scratch_align
        self.cc = raw.target.arch
        self.constants = _named_constants(self.src)
        self.plan = ArgumentPlan(self.src.signature, "!tt.tensordesc" not in kernel.ir_text)

    def __call__(
        self,
        grid_x: Any,
        grid_y: Any,
        grid_z: Any,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], Any] | None,
        exit_hook: Callable[[Any], Any] | None,
        *values: Any,
    ) -> None:
        site = launch_site()
        grid = operator.index(grid_x), operator.index(grid_y), operator.index(grid_z)
        self._allocate_scratch(grid, stream, site)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        arguments = self._arguments(values, site)
        if grid[0] * grid[1] * grid[2] > 0:
            self._check_grid(grid, site)
            graph = cuda_streams.capturing()
            if graph is None:
                state.current().on_launch(self._launch(grid, arguments, site))
            else:
                graph.add(lambda: self._replay(grid, values, site))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _replay(self, grid: tuple[int, int, int], values: tuple[Any, ...], site: Site) -> None:
        """What a captured launch does when its graph is replayed."""
        arguments = self._arguments(values, site)
        state.current().on_launch(self._launch(grid, arguments, site))

    def _arguments(self, values: tuple[Any, ...], site: Site) -> tuple[Argument, ...]:
        assert self.plan is not None
        try:
            return self.plan.arguments(values)
        except CpuTensor as error:
            shape = ", ".join(map(str, error.tensor.shape))
            report(
                Kind.MISUSE,
                f"CPU tensor `{error.name}` is passed to a kernel that runs on the GPU",
                self.name,
                site,
                notes=(f"`{error.name}` is a {error.tensor.dtype} tensor of shape ({shape})",),
                raises="ValueError",
                hint='move it first: .to("cuda")',
                witness={"argument": error.name},
            )
            raise ValueError(CPU_TENSOR) from None
        except BadDescriptor as error:
            found = {"argument": error.name}
            report(Kind.MISUSE, error.why, self.name, site, "RuntimeError", witness=found)
            raise RuntimeError(
                "Triton Error [CUDA]: Failed to create tensor map descriptor: invalid argument"
            ) from None

    def _launch(self, grid: tuple[int, int, int], arguments: Any, site: Site) -> Launch:
        module = self.module
        if module is None:
            module = self.module = self.kernel.ir
            _check_count(module, self.name, arguments)
        return Launch(
            module=module,
            kernel=self.name,
            grid=grid,
            arguments=arguments,
            num_warps=self.num_warps,
            cc=self.cc,
            index=next(state.current().launches),
            constants=self.constants,
            plan_key=self.kernel.hash,
            memory=uninit.reachable,
            site=site.location(),
            config=site.config,
            tuning=site.tuning,
            compiled=self,
        )

    def _check_grid(self, grid: tuple[int, int, int], site: Site) -> None:
        """`cuLaunchKernelEx` refuses grids beyond the device's limits."""
        limits = state.current().device.max_grid
        sizes = grid[0] * self.num_ctas, grid[1], grid[2]
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if not 0 < size <= limit:
                report(
                    Kind.RESOURCE,
                    f"grid.{axis} is {size}, the device allows {limit}",
                    self.name,
                    site,
                    raises="RuntimeError",
                    hint="put the long dimension on axis 0, or loop inside the kernel",
                    witness={"grid": list(grid), "limit": list(limits)},
                )
                raise RuntimeError("Triton Error [CUDA]: invalid argument")

    def _allocate_scratch(self, grid: tuple[int, int, int], stream: Any, site: Site) -> None:
        """Descriptors made in the kernel need scratch from the user's allocator."""
        size, align = self.scratch
        if size <= 0:
            return
        allocate = _allocation._allocator.get()
        if isinstance(allocate, _allocation.NullAllocator):
            report(
                Kind.MISUSE,
                "the kernel makes tensor descriptors and no allocator was set",
                self.name,
                site,
                raises="RuntimeError",
                hint="call triton.set_allocator(lambda size, align, stream: "
                'torch.empty(size, device="cuda", dtype=torch.int8))',
            )
        programs = max(0, grid[0] * grid[1] * grid[2])
        allocate(programs * self.num_ctas * size, align, stream)


def _named_constants(src: Any) -> dict[str, Any]:
    """Constexpr arguments by parameter name; functions and types by their names."""
    names = list(src.signature)
    found = {}
    for path, value in getattr(src, "constants", {}).items():
        path = path if isinstance(path, tuple) else (path,)
        first = names[path[0]] if isinstance(path[0], int) else path[0]
        name = ".".join([str(first), *map(str, path[1:])])
        value = getattr(value, "value", value)
        simple = value is None or isinstance(value, (bool, int, float, str))
        found[name] = value if simple else getattr(value, "__name__", str(value))
    return found


def _check_count(module: ModuleOp, kernel: str, arguments: tuple[Any, ...]) -> None:
    for op in module.body.block.ops:
        symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
        if symbol is not None and getattr(symbol, "data", "") == kernel:
            blocks = op.regions[0].blocks if op.regions else ()
            expected = len(blocks[0].args) if blocks else 0
            if expected != len(arguments):
                raise InputError(
                    f"`{kernel}` has {expected} parameters in the IR and got {len(arguments)}"
                )


class Utils:
    """`driver.active.utils`: the C helpers of Triton's driver."""

    def __init__(self, device: Any):
        self._device = device

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        return self._device.triton_properties()

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self._device.capability

    def load_binary(
        self, name: str, binary: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """(module, function, registers, spills, maximum threads)"""
        return 1, 1, 0, 0, self._device.max_threads

    def unload_module(self, module: Any) -> None:
        pass

    def get_current_device(self) -> int:
        return torch.cuda.current_device()

    def set_current_device(self, device: int) -> None:
        torch.cuda.set_device(device)

    def get_default_stream(self, device: int) -> int:
        return 0

    def is_stream_capturing(self, stream: int) -> bool:
        return False

    def set_printf_fifo_size(self, size: int) -> None:
        pass

    def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:
        return self._device.sms


class Driver(DriverBase):
    """The active driver while xttir is installed."""

    def __init__(self) -> None:
        device = state.current().device
        self._device = device
        self.utils = Utils(device)
        self.launcher_cls = Launcher
        self.get_device_capability = self.utils.get_device_capability

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._device.cc, self._device.warp_size)

    def get_current_device(self) -> int:
        return torch.cuda.current_device()

    def set_current_device(self, device: int) -> None:
        torch.cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        return torch.cuda.current_stream(device).cuda_stream

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def get_benchmarker(self) -> Any:
        return run_once

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        pass

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        return torch.zeros(size, dtype=torch.int8, device="cuda")

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


def run_once(fn: Callable[[], Any], quantiles: Any = None, **_: Any) -> Any:
    """The autotuner's benchmark: every configuration runs once, and all are equally fast.

    So a fault in any configuration is found, and the first one that runs is chosen.
    """
    fn()
    return [1.0] * len(quantiles) if quantiles else 1.0


def always_tune(tuner: Any, key: Any, configs: Any, benchmark: Callable[[], Any]) -> bool:
    """`Autotuner.check_disk_cache`: no cached timings, or a second run would check less."""
    benchmark()
    return False


def time_once(
    fn: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **_: Any
) -> Any:
    """`triton.testing.do_bench` with one run. The time, in ms, says nothing about a GPU."""
    start = time.perf_counter()
    fn()
    elapsed = max((time.perf_counter() - start) * 1e3, 1e-6)
    if quantiles is not None:
        times = [elapsed] * len(quantiles)
        return times[0] if len(times) == 1 else times
    return [elapsed] if return_mode == "all" else elapsed


BENCHMARKS = "benchmarks of triton.testing.perf_report (XTTIR_BENCHMARKS=1 runs them)"


def skip_benchmarks(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `triton.testing.Mark.run`: times of a CPU are no use, and the sizes are a GPU's.

    Still run: with `XTTIR_BENCHMARKS=1`, and where the caller wants the data.
    """

    @functools.wraps(run)
    def wrapped(self: Any, *args: Any, return_df: bool = False, **kwargs: Any) -> Any:
        if return_df or os.environ.get("XTTIR_BENCHMARKS", "0") not in ("", "0"):
            return run(self, *args, return_df=return_df, **kwargs)
        state.current().on_unchecked(BENCHMARKS, by_choice=True)
        return None

    return wrapped


def out_of_resources(error: Any, kernel: str) -> None:
    """Report an `OutOfResources` that reaches the user. The autotuner takes it as an answer."""
    site = launch_site(3)
    if _tuning():
        return
    report(
        Kind.RESOURCE,
        f"out of resource: {error.name}, required {error.required}, the device has {error.limit}",
        kernel,
        site,
        raises="OutOfResources",
        hint="reduce block sizes or num_stages",
        witness={"resource": error.name, "required": error.required, "limit": error.limit},
    )


def _tuning() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _TUNER.bench:
            return True
        frame = frame.f_back
    return False


def set_active(driver: Driver) -> Callable[[], None]:
    """Make `driver` Triton's driver; returns what undoes it."""
    config = triton.runtime.driver
    before = config._active, config._default
    config._active = config._default = driver

    def undo() -> None:
        config._active, config._default = before

    return undo
