"""The driver: everything of Triton above it behaves as with a GPU."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.frontends.triton import kernels
from tests.frontends.triton.conftest import Recorder
from xttir.diagnostics import Kind
from xttir.frontends.triton import driver


def cuda(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device="cuda")


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(1000, meta["B"]),)


CONFIGS = [triton.Config({"B": b}, num_warps=w) for b, w in ((128, 2), (256, 4), (512, 8))]


def tuned(configs: list[triton.Config] = CONFIGS, **options: Any) -> Any:
    return triton.autotune(configs=configs, key=["n"], **options)(kernels.add)


def test_every_configuration_runs_once_and_one_is_chosen(gpu: Recorder) -> None:
    x, o = cuda(1000), cuda(1000)
    kernel = tuned()
    kernel[grid](x, o, 1000)
    assert [launch.grid[0] for launch in gpu.launches] == [8, 4, 2, 8]
    assert [launch.constants["B"] for launch in gpu.launches] == [128, 256, 512, 128]
    assert gpu.launches[1].config == "B=256, num_warps=4, num_ctas=1, num_stages=3"
    assert kernel.best_config is CONFIGS[0]
    kernel[grid](x, o, 1000)
    assert len(gpu.launches) == 5
    kernel[grid](x, o, 900)
    assert len(gpu.launches) == 9
    assert gpu.launches[0].site is not None
    assert gpu.launches[0].site.file == __file__


def test_tuning_reads_and_restores_as_on_a_gpu(running: Recorder) -> None:
    x = torch.ones(1000, device="cuda")
    tuned(restore_value=["x"])[grid](x, x, 1000)
    assert x.tolist() == [2.0] * 1000
    o = torch.full((1000,), 7.0, device="cuda")
    seen: list[float] = []
    running.run = lambda launch: seen.append(
        float(launch.arguments[1].storage.bytes.view(np.float32)[0]),
    )
    tuned(reset_to_zero=["o"])[grid](x, o, 1000)
    assert seen == [0.0] * 4
    # Without either, a kernel that updates its input does so once per configuration and once more.
    x = torch.ones(1000, device="cuda")
    from xttir.interp.executor import run_launch
    from xttir.policy import RunPolicy

    running.run = lambda launch: run_launch(launch, RunPolicy(checks=frozenset()))
    tuned()[grid](x, x, 1000)
    assert x[0] == 5.0


def test_configurations_that_do_not_fit_are_passed_over(gpu: Recorder) -> None:
    x, o = cuda(1000), cuda(1000)
    configs = [triton.Config({"B": 256}, num_warps=64), triton.Config({"B": 128})]
    kernel = tuned(configs)
    kernel[grid](x, o, 1000)
    assert kernel.best_config is configs[1]
    assert gpu.faults == []
    assert len(gpu.launches) == 2


def test_hooks_of_configurations_and_functions(gpu: Recorder) -> None:
    calls: list[str] = []
    config = triton.Config({"B": 256}, pre_hook=lambda args: calls.append(f"config {args['n']}"))
    x = cuda(1000)
    kernels.add.add_pre_run_hook(lambda *a, **k: calls.append("run"))
    try:
        tuned([config])[grid](x, x, 1000)
    finally:
        kernels.add.pre_run_hooks.clear()
    assert calls == ["config 1000", "run"]


def test_launch_hooks_see_metadata(gpu: Recorder) -> None:
    order: list[Any] = []
    gpu.run = lambda launch: order.append("launch")

    def enter(metadata: Any) -> None:
        order.append(metadata.get()["name"])

    def leave(metadata: Any) -> None:
        order.append("exit")

    runtime = triton.knobs.runtime
    runtime.launch_enter_hook.add(enter)
    runtime.launch_exit_hook.add(leave)
    try:
        x = cuda(16)
        kernels.add[(1,)](x, x, 16, B=16)
    finally:
        runtime.launch_enter_hook.remove(enter)
        runtime.launch_exit_hook.remove(leave)
    assert order == ["add", "launch", "exit"]


def test_heuristics(gpu: Recorder) -> None:
    x = cuda(1000)
    kernel = triton.heuristics({"B": lambda a: triton.next_power_of_2(a["n"])})(kernels.add)
    kernel[(1,)](x, x, 1000)
    assert gpu.launches[0].constants == {"B": 1024}


def test_cpu_tensor(gpu: Recorder) -> None:
    x, o = torch.randn(256) * 2, cuda(256)
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        kernels.add[(1,)](x, o, 256, B=256)
    (fault,) = gpu.faults
    assert fault.kind is Kind.MISUSE
    assert "`x`" in fault.message
    assert fault.kernel == "add"
    assert fault.locations[0].file == __file__
    line = Path(__file__).read_text().splitlines()[fault.locations[0].line - 1]
    assert "kernels.add[(1,)](x, o" in line
    assert gpu.launches == []
    kernels.add[(1,)](x.cuda(), o, 256, B=256)
    kernels.add[(1,)](x.pin_memory(), o, 256, B=256)
    kernels.add[(1,)](torch.empty(0), o, 256, B=256)
    assert len(gpu.launches) == 3


@pytest.mark.parametrize("shape", [(1, 70000), (1, 1, 65536), (1 << 31,), (-1, -1, 1)])
def test_grid_beyond_the_device(gpu: Recorder, shape: tuple[int, ...]) -> None:
    x = cuda(16)
    with pytest.raises(RuntimeError, match="invalid argument"):
        kernels.add[shape](x, x, 16, B=16)
    (fault,) = gpu.faults
    assert fault.kind is Kind.RESOURCE
    assert fault.locations[0].file == __file__


def test_grids_at_the_limits(gpu: Recorder) -> None:
    x = cuda(16)
    kernels.add[(1, 65535)](x, x, 16, B=16)
    kernels.add[((1 << 31) - 1,)](x, x, 16, B=16)
    assert [launch.grid for launch in gpu.launches] == [(1, 65535, 1), ((1 << 31) - 1, 1, 1)]
    for empty in ((0,), (4, 0), (0, 70000)):
        kernels.add[empty](x, x, 16, B=16)
    assert len(gpu.launches) == 2
    assert gpu.faults == []


def test_what_is_no_pointer(gpu: Recorder) -> None:
    @triton.jit
    def store(p: tl.pointer_type(tl.float32), v):
        tl.store(p, v)

    x = cuda(16)
    with pytest.raises(TypeError):
        kernels.add["x"](x, x, 16, B=16)
    with pytest.raises(TypeError):
        kernels.add[(1.5,)](x, x, 16, B=16)


def test_descriptors_in_the_kernel_need_an_allocator(gpu: Recorder) -> None:
    x = cuda(32, 32)
    with pytest.raises(RuntimeError, match="no allocator was set"):
        kernels.device_descriptor[(1,)](x, 32, 32, B=32)
    assert [f.kind for f in gpu.faults] == [Kind.MISUSE]
    asked: list[tuple[int, int]] = []

    def allocate(size: int, align: int, stream: int | None) -> torch.Tensor:
        asked.append((size, align))
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
    try:
        kernels.device_descriptor[(3,)](x, 32, 32, B=32)
    finally:
        triton.set_allocator(triton.runtime._allocation.NullAllocator())
    assert asked == [(3 * 128, 128)]
    assert len(gpu.launches) == 1


@pytest.mark.parametrize("gpu", [80], indirect=True)
def test_older_devices_need_none(gpu: Recorder) -> None:
    kernels.device_descriptor[(1,)](cuda(32, 32), 32, 32, B=32)
    assert len(gpu.launches) == 1


def test_descriptor_that_no_tensor_map_can_hold(gpu: Recorder) -> None:
    a = cuda(64, 64, dtype=torch.float16)
    narrow = TensorDescriptor.from_tensor(a, [16, 4])
    with pytest.raises(RuntimeError, match="tensor map descriptor"):
        kernels.copy_tile[(1, 1)](narrow, narrow, BM=16, BN=4)
    (fault,) = gpu.faults
    assert fault.kind is Kind.MISUSE
    assert "`a`" in fault.message
    assert "8 bytes wide" in fault.message


def test_launches_of_a_graph_run_when_it_is_replayed(running: Recorder) -> None:
    x, o = cuda(16), cuda(16)
    kernels.add[(1,)](x, o, 16, B=16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.add[(1,)](o, o, 16, B=16)
    assert o[0] == 1
    for _ in range(3):
        graph.replay()
    assert o[0] == 4
    assert [launch.index for launch in running.launches] == [1, 2, 3, 4]


def test_launches_from_another_thread(gpu: Recorder) -> None:
    def work() -> None:
        x = cuda(16)
        kernels.add[(1,)](x, x, 16, B=16)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(gpu.launches) == 1


def test_what_a_launch_raises_reaches_the_user(gpu: Recorder) -> None:
    def stop(launch: object) -> None:
        raise KeyboardInterrupt

    gpu.run = stop
    x = cuda(16)
    with pytest.raises(KeyboardInterrupt):
        kernels.add[(1,)](x, x, 16, B=16)


def test_the_active_driver(gpu: Recorder) -> None:
    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    assert active.get_active_torch_device() == torch.device("cuda", 0)
    assert active.get_device_interface() is torch.cuda
    assert active.map_python_to_cpp_type("*fp32") == "CUdeviceptr"
    assert active.get_current_stream(0) == 0


def test_benchmarks_run_once(gpu: Recorder) -> None:
    calls: list[int] = []
    bench = triton.testing.do_bench
    assert bench(lambda: calls.append(1)) > 0
    assert len(bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8])) == 3
    assert len(bench(lambda: calls.append(1), warmup=5, rep=5, return_mode="all")) == 1
    assert len(calls) == 3

    def timed(size: int, provider: str) -> float:
        raise AssertionError("run")

    names = {"x_names": ["size"], "x_vals": [1 << 28], "line_arg": "provider"}
    lines = {"line_vals": ["t"], "line_names": ["T"], "plot_name": "p", "args": {}}
    mark = triton.testing.perf_report(triton.testing.Benchmark(**names, **lines))(timed)
    assert mark.run(print_data=True) is None
    assert gpu.unchecked == [driver.BENCHMARKS]
