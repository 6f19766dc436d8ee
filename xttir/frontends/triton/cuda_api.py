"""The functions of `torch.cuda` (and what tells of CUDA elsewhere in torch), for one fake GPU."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import torch

from xttir.frontends.triton import cuda_streams as streams
from xttir.frontends.triton import storage, torch_cuda
from xttir.frontends.triton.devices import Device
from xttir.frontends.triton.patches import Patches

_Original = torch._C.Generator

CUDA_VERSION = "12.8"


class _GeneratorType(type(_Original)):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Original)


class Generator(_Original, metaclass=_GeneratorType):
    """`torch.Generator` that may be on the GPU; it draws the CPU's numbers."""

    _on_cuda: bool

    def __new__(cls, device: Any = None) -> Any:
        cuda = torch_cuda.is_cuda_device(device)
        make: Any = super().__new__
        self = make(cls, "cpu" if cuda or device is None else device)
        self._on_cuda = cuda
        return self

    def __init__(self, device: Any = None) -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch_cuda.DEVICE if self._on_cuda else super().device

    def clone_state(self) -> Any:
        """A generator of its own in the same state."""
        copy = Generator("cuda" if self._on_cuda else "cpu")
        copy.set_state(self.get_state())
        return copy


class DeviceProperties:
    """What `torch.cuda.get_device_properties` returns."""

    def __init__(self, device: Device):
        self.name = device.name
        self.major, self.minor = device.capability
        self.total_memory = device.memory
        self.multi_processor_count = device.sms
        self.warp_size = device.warp_size
        self.max_threads_per_multi_processor = device.threads_per_sm
        self.max_threads_per_block = device.max_threads
        self.regs_per_multiprocessor = device.registers
        self.shared_memory_per_block = device.shared_per_block
        self.shared_memory_per_block_optin = device.shared_per_block_optin
        self.shared_memory_per_multiprocessor = device.shared_per_sm
        self.L2_cache_size = device.l2
        self.clock_rate = device.sm_clock
        self.memory_clock_rate = device.mem_clock
        self.memory_bus_width = device.bus_width
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.uuid = "00000000-0000-0000-0000-000000000000"
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _always(value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return answer


def _set_device(device: Any) -> None:
    if not isinstance(device, int) or device >= 0:
        torch_cuda.check_ordinal(device)


class DeviceContext:
    """`with torch.cuda.device(0)`."""

    def __init__(self, device: Any):
        if isinstance(device, (int, str, torch.device)):
            _set_device(device)
        self.idx, self.prev_idx = 0, 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> bool:
        return False


def _stats() -> dict[str, int]:
    now, peak = storage.allocated(), storage.peak()
    kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    result = {}
    for kind in kinds:
        for part in ("all", "large_pool", "small_pool"):
            result[f"{kind}.{part}.current"] = now
            result[f"{kind}.{part}.peak"] = peak
            result[f"{kind}.{part}.allocated"] = peak
            result[f"{kind}.{part}.freed"] = peak - now
    result.update(num_alloc_retries=0, num_ooms=0, num_device_alloc=0, num_device_free=0)
    return result


def _memory(device: Device) -> dict[str, Any]:
    def reset(*args: Any) -> None:
        storage.reset_peak()

    def now(*args: Any, **kwargs: Any) -> int:
        return storage.allocated()

    def peak(*args: Any, **kwargs: Any) -> int:
        return storage.peak()

    return {
        "memory_allocated": now,
        "memory_reserved": now,
        "memory_cached": now,
        "max_memory_allocated": peak,
        "max_memory_reserved": peak,
        "max_memory_cached": peak,
        "reset_peak_memory_stats": reset,
        "reset_accumulated_memory_stats": _nothing,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "memory_stats": lambda *a, **k: _stats(),
        "memory_stats_as_nested_dict": lambda *a, **k: {},
        "memory_summary": lambda *a, **k: f"allocated: {now()} B, peak: {peak()} B",
        "memory_snapshot": lambda *a, **k: [],
        "mem_get_info": lambda *a, **k: (device.memory - now(), device.memory),
        "empty_cache": _nothing,
        "set_per_process_memory_fraction": _nothing,
        "get_per_process_memory_fraction": _always(1.0),
        "list_gpu_processes": _always(""),
        "caching_allocator_enable": _nothing,
        "device_memory_used": now,
    }


def _random() -> dict[str, Any]:
    generator = torch.default_generator

    def seed_with(seed: int) -> None:
        generator.manual_seed(int(seed))

    def seed(*args: Any) -> None:
        generator.seed()

    def get(device: Any = "cuda") -> torch.Tensor:
        return generator.get_state()

    def put(state: torch.Tensor, device: Any = "cuda") -> None:
        generator.set_state(state)

    return {
        "manual_seed": seed_with,
        "manual_seed_all": seed_with,
        "seed": seed,
        "seed_all": seed,
        "initial_seed": lambda: generator.initial_seed(),
        "get_rng_state": get,
        "set_rng_state": put,
        "get_rng_state_all": lambda: [get()],
        "set_rng_state_all": lambda states: put(next(iter(states))),
    }


def _device_queries(device: Device) -> dict[str, Any]:
    arch = f"sm_{device.cc}"
    return {
        "is_available": _always(True),
        "is_initialized": _always(True),
        "_is_compiled": _always(True),
        "_lazy_init": _nothing,
        "_lazy_call": lambda callable, **kwargs: callable(),
        "init": _nothing,
        "device_count": _always(1),
        "current_device": _always(0),
        "set_device": _set_device,
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "device": DeviceContext,
        "device_of": DeviceContext,
        "_DeviceGuard": DeviceContext,
        "get_device_name": _always(device.name),
        "get_device_capability": _always(device.capability),
        "get_device_properties": _always(DeviceProperties(device)),
        "can_device_access_peer": _always(False),
        "get_arch_list": _always([arch]),
        "get_gencode_flags": _always(f"-gencode compute=compute_{device.cc},code={arch}"),
        "is_bf16_supported": _always(device.cc >= 80),
        "is_tf32_supported": _always(device.cc >= 80),
        "synchronize": _nothing,
        "ipc_collect": _nothing,
        "current_blas_handle": _always(0),
        "set_sync_debug_mode": _nothing,
        "get_sync_debug_mode": _always(0),
        "utilization": _always(0),
        "memory_usage": _always(0),
        "temperature": _always(40),
        "power_draw": _always(100000),
        "clock_rate": _always(device.sm_clock // 1000),
        "default_generators": (torch.default_generator,),
        "_sleep": _nothing,
        "cudart": _always(None),
    }


def _stream_functions() -> dict[str, Any]:
    return {
        "Stream": streams.Stream,
        "ExternalStream": streams.ExternalStream,
        "Event": streams.Event,
        "StreamContext": streams.StreamContext,
        "stream": streams.StreamContext,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "set_stream": streams.set_stream,
        "CUDAGraph": streams.CUDAGraph,
        "graph": streams.graph,
        "graph_pool_handle": _always((0, 1)),
        "make_graphed_callables": streams.make_graphed_callables,
        "is_current_stream_capturing": lambda: streams.capturing() is not None,
    }


def _mirror_autocast(patches: Patches) -> None:
    """Autocast for "cuda" is autocast for the CPU too: that is where the tensors are."""
    for name in ("set_autocast_enabled", "set_autocast_dtype"):
        original = getattr(torch, name)

        def mirrored(*args: Any, _original: Any = original) -> Any:
            if args and args[0] == "cuda":
                _original("cpu", *args[1:])
            return _original(*args)

        patches.set(torch, name, mirrored)


class _LegacyType(type):
    """`torch.cuda.FloatTensor` and kin: constructors that answer `isinstance`."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype is cls.dtype
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            return torch.tensor(args[0], dtype=cls.dtype, device="cuda")
        return torch.empty(*(args or (0,)), dtype=cls.dtype, device="cuda")


def _legacy_types() -> dict[str, Any]:
    kinds = {
        "FloatTensor": torch.float32,
        "DoubleTensor": torch.float64,
        "HalfTensor": torch.float16,
        "BFloat16Tensor": torch.bfloat16,
        "LongTensor": torch.int64,
        "IntTensor": torch.int32,
        "ShortTensor": torch.int16,
        "CharTensor": torch.int8,
        "ByteTensor": torch.uint8,
        "BoolTensor": torch.bool,
    }
    return {
        name: _LegacyType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
        for name, dtype in kinds.items()
    }


def _accelerator() -> dict[str, Any]:
    return {
        "is_available": _always(True),
        "device_count": _always(1),
        "current_accelerator": _always(torch.device("cuda")),
        "current_device_index": _always(0),
        "current_device_idx": _always(0),
        "set_device_index": _set_device,
        "set_device_idx": _set_device,
        "current_stream": streams.current_stream,
        "set_stream": streams.set_stream,
        "synchronize": _nothing,
    }


def _c_functions() -> dict[str, Any]:
    """What a CPU build of `torch._C` lacks and Inductor imports."""

    def raw_stream(device: int) -> int:
        return streams.current_stream().cuda_stream

    return {
        "_cuda_getCurrentRawStream": raw_stream,
        "_cuda_getDevice": _always(0),
        "_cuda_setDevice": _set_device,
        "_cuda_getDeviceCount": _always(1),
        "_cuda_synchronize": _nothing,
        "_cuda_exchangeDevice": _always(0),
        "_cuda_maybeExchangeDevice": _always(0),
        "_cuda_isInBadFork": _always(False),
        "_cuda_init": _nothing,
        "_cuda_emptyCache": _nothing,
    }


@contextlib.contextmanager
def _nvtx_range(*args: Any, **kwargs: Any) -> Any:
    yield


def _nvtx() -> dict[str, Any]:
    return {
        "range_push": _always(0),
        "range_pop": _always(0),
        "range_start": _always(0),
        "range_end": _nothing,
        "mark": _nothing,
        "range": _nvtx_range,
    }


def _own(value: Any) -> Any:
    """A function object of its own: Dynamo keeps rules by object and wants one name for each."""
    if not isinstance(value, types.FunctionType):
        return value
    copy = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__
    )
    copy.__kwdefaults__ = value.__kwdefaults__
    return copy


def install(patches: Patches, device: Device) -> None:
    """Replace the functions. `torch.cuda.X` also stands in the submodule that defines X."""
    cuda = torch.cuda
    modules = [cuda, cuda.memory, cuda.random, cuda.streams, cuda.graphs]
    functions = {
        **_device_queries(device),
        **_memory(device),
        **_random(),
        **_stream_functions(),
        **_legacy_types(),
    }
    for name, shared in functions.items():
        value = _own(shared)
        patches.set(cuda, name, value)
        for module in modules[1:]:
            if name in vars(module):
                patches.set(module, name, value)
    for name, value in _c_functions().items():
        patches.set(torch._C, name, _own(value))
    for name, value in _nvtx().items():
        patches.set(cuda.nvtx, name, _own(value))
    if hasattr(torch, "accelerator"):
        for name, value in _accelerator().items():
            if hasattr(torch.accelerator, name):
                patches.set(torch.accelerator, name, _own(value))
    patches.set(torch, "Generator", Generator)
    patches.set(torch.version, "cuda", CUDA_VERSION)
    _mirror_autocast(patches)
