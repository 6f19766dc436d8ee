"""`device="cuda"` on a torch without CUDA: the memory is the CPU's, tensors only say otherwise.

Factories that are told `device="cuda"` dispatch to the CUDA key, where Python kernels are
registered that allocate on the CPU (so threads, autograd, default devices and C++ callers are
served). Where a tensor is meant to be is a tag on its storage (`storage.py`): CPU for what a
factory made without a device, CUDA for the rest. Results of operations inherit the tag where the
common methods and functions are wrapped (`_PROPAGATE`); a storage without a tag counts as CUDA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from xttir.frontends.triton import storage
from xttir.frontends.triton.patches import Patches

DEVICE = torch.device("cuda", 0)
_CPU_DEVICE = torch.device("cpu")
_BASE = torch._C.TensorBase
_original_device = _BASE.device

FACTORIES = (
    "empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace",
    "logspace", "eye", "empty_strided", "empty_permuted", "scalar_tensor", "normal", "tril_indices",
    "triu_indices", "from_numpy", "frombuffer", "hann_window", "hamming_window", "bartlett_window",
    "blackman_window", "kaiser_window", "from_dlpack",
)  # fmt: skip
LIKE = (
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
)  # fmt: skip
CONVERTING = ("tensor", "as_tensor", "asarray", "sparse_coo_tensor")
NEW = ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided")

_PROPAGATE_METHODS = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__mod__", "__pow__", "__rpow__", "__matmul__", "__neg__",
    "__and__", "__or__", "__xor__", "__invert__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
    "__ne__", "__getitem__", "abs", "add", "sub", "mul", "div", "pow", "matmul", "mm", "bmm", "neg",
    "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu", "softmax", "clamp",
    "sum", "mean", "amax", "amin", "cumsum", "clone", "contiguous", "float", "half", "bfloat16",
    "double", "int", "long", "short", "bool", "reshape", "flatten", "repeat", "round", "floor",
    "ceil", "where", "masked_fill", "index_select", "gather", "repeat_interleave", "roll", "flip",
    "tril", "triu", "__deepcopy__",
)  # fmt: skip
_PROPAGATE_FUNCTIONS = (
    "cat", "stack", "where", "matmul", "mm", "bmm", "einsum", "clone", "abs", "exp", "log", "sqrt",
    "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu", "softmax", "sum", "mean", "clamp", "cumsum",
    "concat", "repeat_interleave", "tril", "triu", "outer", "flip", "roll",
)  # fmt: skip

WRAPPED_FUNCTIONS = (*FACTORIES, *LIKE, *CONVERTING, *_PROPAGATE_FUNCTIONS)
"""What is replaced in `torch` itself."""


def is_cuda_device(device: Any) -> bool:
    """Whether `device`, as a user writes it, names the GPU. Integers are GPU indices."""
    if device is None or isinstance(device, bool):
        return False
    if isinstance(device, int):
        return True
    if isinstance(device, str):
        return device.startswith("cuda")
    return getattr(device, "type", None) == "cuda"


def default_device() -> torch.device:
    """The device of factories that are not told one (`set_default_device`, `with device`)."""
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._device import DeviceContext

    if torch._C._len_torch_function_stack():
        for mode in reversed(_get_current_function_mode_stack()):
            if isinstance(mode, DeviceContext):
                return mode.device
    return _CPU_DEVICE


def check_ordinal(device: Any) -> None:
    """There is one GPU."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0, -1):
        raise RuntimeError("CUDA error: invalid device ordinal")


def _plain(tensor: Any) -> bool:
    """Whether `tensor` is an ordinary dense CPU tensor in C++ terms (no fake, meta, sparse)."""
    return isinstance(tensor, torch.Tensor) and storage.peek(tensor) is not None


def on_cpu(tensor: torch.Tensor) -> bool:
    """Whether the user's program has `tensor` in host memory."""
    return storage.device_of(tensor) in (storage.CPU, storage.PINNED)


# Kernels under the CUDA dispatch key.


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> torch.Tensor:
    check_ordinal(device)
    result = torch.ops.aten.empty.memory_format(
        size, dtype=dtype, layout=layout, device=_CPU_DEVICE, memory_format=memory_format
    )
    return storage.set_device(result, storage.CUDA)


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    check_ordinal(device)
    result = torch.ops.aten.empty_strided.default(
        size, stride, dtype=dtype, layout=layout, device=_CPU_DEVICE
    )
    return storage.set_device(result, storage.CUDA)


def _indices(op: Any) -> Callable[..., torch.Tensor]:
    def kernel(
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
    ) -> torch.Tensor:
        result = op(row, col, offset, dtype=dtype, layout=layout, device=_CPU_DEVICE)
        return storage.set_device(result, storage.CUDA)

    return kernel


def _register_kernels(patches: Patches) -> None:
    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl("empty.memory_format", _empty)
    library.impl("empty_strided", _empty_strided)
    library.impl("tril_indices", _indices(torch.ops.aten.tril_indices.default))
    library.impl("triu_indices", _indices(torch.ops.aten.triu_indices.default))
    patches.on_undo(library._destroy)


# Python functions.


def _compiling() -> bool:
    return torch.compiler.is_compiling()


def _factory(original: Callable[..., Any]) -> Callable[..., Any]:
    """What the CUDA kernels did not tag was made on the CPU."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        if _compiling():
            return original(*args, **kwargs)
        pinned = kwargs.pop("pin_memory", False)
        result = original(*args, **_named_device(kwargs))
        if isinstance(result, torch.Tensor) and storage.device_of(result) is None:
            _tag(result, storage.PINNED if pinned else storage.CPU)
        return result

    return make


def _named_device(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments with a device given by its index spelled out, which C++ cannot do without one."""
    device = kwargs.get("device")
    if isinstance(device, int) and not isinstance(device, bool):
        check_ordinal(device)
        kwargs["device"] = torch.device("cuda", device)
    return kwargs


def raw_device(tensor: torch.Tensor) -> torch.device:
    """The device as C++ has it. (Under a torch function mode the getter asks our property.)"""
    if torch._C._len_torch_function_stack():
        with torch._C.DisableTorchFunction():
            return _original_device.__get__(tensor)
    return _original_device.__get__(tensor)


def _tag(tensor: torch.Tensor, device: str) -> None:
    if tensor.layout is torch.strided and raw_device(tensor).type == "cpu":
        storage.set_device(tensor, device)


def _like(original: Callable[..., Any]) -> Callable[..., Any]:
    """Without a device of its own the result is where its model is."""

    @functools.wraps(original)
    def make(model: Any, *args: Any, **kwargs: Any) -> Any:
        if _compiling() or not isinstance(model, torch.Tensor):
            return original(model, *args, **kwargs)
        kwargs.pop("pin_memory", None)
        result = original(model, *args, **_named_device(kwargs))
        if isinstance(result, torch.Tensor) and storage.device_of(result) is None:
            device = kwargs.get("device")
            on_host = on_cpu(model) if device is None else not is_cuda_device(device)
            _tag(result, storage.CPU if on_host else storage.CUDA)
        return result

    return make


def _converting(original: Callable[..., Any], copies: bool) -> Callable[..., Any]:
    """`torch.tensor` and kin build on the CPU and move in C++, which a CPU build cannot."""

    @functools.wraps(original)
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        if _compiling():
            return original(data, *args, **kwargs)
        device = kwargs.get("device")
        if device is None:
            known = isinstance(data, torch.Tensor) and not copies
            device = data.device if known else default_device()
        if torch.device(device).type not in ("cuda", "cpu"):
            return original(data, *args, **kwargs)
        cuda = is_cuda_device(device)
        kwargs["device"] = _CPU_DEVICE
        kwargs.pop("pin_memory", None)
        result = original(data, *args, **kwargs)
        if isinstance(data, torch.Tensor) and not copies and on_cpu(data) == cuda:
            result = result.clone() if result.data_ptr() == data.data_ptr() else result
        _tag(result, storage.CUDA if cuda else storage.CPU)
        return result

    return make


def _new_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(self: torch.Tensor, data: Any, *args: Any, **kwargs: Any) -> Any:
        if _compiling() or not _is_ordinary(self):
            return original(self, data, *args, **kwargs)
        device = kwargs.pop("device", None)
        cuda = not on_cpu(self) if device is None else is_cuda_device(device)
        result = original(self, data, *args, device=_CPU_DEVICE, **kwargs)
        _tag(result, storage.CUDA if cuda else storage.CPU)
        return result

    return make


def _is_ordinary(tensor: torch.Tensor) -> bool:
    """Strided tensors in C++'s CPU memory; not fake, meta, sparse or functional ones."""
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        dispatch = getattr(type(tensor), "__torch_dispatch__", None)
        if dispatch is not None and dispatch is not torch._C._disabled_torch_dispatch_impl:
            return False
    return tensor.layout is torch.strided and raw_device(tensor).type == "cpu"


_original_to = _BASE.to


def move(tensor: torch.Tensor, cuda: bool, copy: bool = False, **kwargs: Any) -> torch.Tensor:
    """`tensor` where it is asked to be: itself if it is there already, else a copy."""
    there = on_cpu(tensor) != cuda
    result = _original_to(tensor, _CPU_DEVICE, copy=copy or not there, **kwargs)
    if result is not tensor:
        _tag(result, storage.CUDA if cuda else storage.CPU)
    return result


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if _compiling() or not _is_ordinary(self):
        return _original_to(self, *args, **kwargs)
    device, rest = kwargs.get("device"), args
    if (args and isinstance(args[0], torch.Tensor)) or "other" in kwargs:
        other = args[0] if args else kwargs.pop("other")
        device, rest = other.device, args[1:]
        kwargs["dtype"] = other.dtype
    elif args and isinstance(args[0], (str, torch.device, int)):
        device, rest = args[0], args[1:]
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            kwargs["dtype"] = rest[0] or self.dtype
            rest = rest[1:]
    kwargs.pop("device", None)
    if device is None:
        if args and args[0] is None:
            rest = args[1:]
        result = _original_to(self, *rest, **kwargs)
        return _inherit(result, on_cpu(self)) if result is not self else result
    for name, value in zip(("non_blocking", "copy"), rest, strict=False):
        kwargs[name] = value
    if not is_cuda_device(device) and torch.device(device).type != "cpu":
        return _original_to(self, device, **kwargs)
    if is_cuda_device(device):
        check_ordinal(device)
    kwargs.pop("non_blocking", None)
    return move(self, is_cuda_device(device), **kwargs)


def _cuda(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: Any = torch.preserve_format,
) -> torch.Tensor:
    if not _is_ordinary(self):
        return self
    if device is not None:
        check_ordinal(device)
    return move(self, True, memory_format=memory_format)


_original_cpu = _BASE.cpu


def _cpu(self: torch.Tensor, memory_format: Any = torch.preserve_format) -> torch.Tensor:
    if _compiling() or not _is_ordinary(self):
        return _original_cpu(self, memory_format=memory_format)
    return move(self, False, memory_format=memory_format)


def _pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    if storage.device_of(self) == storage.PINNED:
        return self
    result = self.clone()
    _tag(result, storage.PINNED)
    return result


def _is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    return storage.device_of(self) == storage.PINNED


_original_type = _BASE.type


@property
def _device(self: torch.Tensor) -> torch.device:
    device = raw_device(self)
    if device.type != "cpu" or on_cpu(self):
        return device
    return DEVICE


@property
def _is_cuda(self: torch.Tensor) -> bool:
    return self.device.type == "cuda"


@property
def _is_cpu(self: torch.Tensor) -> bool:
    return self.device.type == "cpu"


def _get_device(self: torch.Tensor) -> int:
    device = self.device
    return -1 if device.type == "cpu" else device.index or 0


def _type(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if dtype is None:
        name = _original_type(self)
        return name.replace("torch.", "torch.cuda.", 1) if self.is_cuda else name
    if not isinstance(dtype, torch.dtype):
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
        scalar = getattr(torch, name.rsplit(".", 1)[-1])
        result = _original_to(self, scalar.dtype)
        return move(result, "cuda" in name or "cuda" in str(getattr(dtype, "__module__", "")))
    return _inherit(_original_type(self, dtype, *args, **kwargs), on_cpu(self))


_original_data_ptr = _BASE.data_ptr


def _data_ptr(self: torch.Tensor) -> int:
    # A pointer that leaves torch may come back in a table of pointers: know its storage.
    address = _original_data_ptr(self)
    if address and not _compiling():
        storage.record_of(self)
    return address


def _inherit(result: Any, host: bool) -> Any:
    if host and isinstance(result, torch.Tensor) and storage.device_of(result) is None:
        _tag(result, storage.CPU)
    return result


def _propagating(original: Callable[..., Any], first_is_tensor: bool) -> Callable[..., Any]:
    """Results of CPU tensors are CPU tensors."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if args and isinstance(result, torch.Tensor) and not _compiling():
            model = args[0]
            if not first_is_tensor:
                model = _first_tensor(args)
            if isinstance(model, torch.Tensor) and on_cpu(model):
                _inherit(result, True)
        return result

    return call


def _first_tensor(args: tuple[Any, ...]) -> Any:
    for value in args:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return value[0]
    return None


def _restore(saved: Any, location: str) -> Any:
    """`torch.load` of what was saved from, or is mapped to, the GPU."""
    if location == "cpu" or location.startswith("cuda"):
        check_ordinal(location)
        view = _BASE.set_(torch.empty(0, dtype=torch.uint8), saved)
        storage.set_device(view, storage.CPU if location == "cpu" else storage.CUDA)
        return saved
    return None


def _location(saved: Any) -> str | None:
    record = getattr(saved, "_xttir_storage", None)
    return "cuda:0" if record is not None and record.device == storage.CUDA else None


def _from_worker(rebuild: Callable[..., Any]) -> Callable[..., Any]:
    """Tensors that another process sends (workers of a data loader) are in host memory."""

    @functools.wraps(rebuild)
    def tagged(*args: Any, **kwargs: Any) -> Any:
        result = rebuild(*args, **kwargs)
        if isinstance(result, torch.Tensor) and storage.device_of(result) is None:
            _tag(result, storage.CPU)
        return result

    return tagged


def _set_default_tensor_type(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def set_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if name.startswith("torch.cuda."):
            kind = getattr(torch, name.rsplit(".", 1)[-1])
            torch.set_default_device("cuda")
        original(kind)

    return set_type


def _patch_serialization(patches: Patches) -> None:
    from torch.multiprocessing import reductions

    patches.set(reductions, "rebuild_tensor", _from_worker(reductions.rebuild_tensor))
    registry = torch.serialization._package_registry
    entry = (5, _location, _restore)
    registry.insert(0, entry)

    def undo() -> None:
        if entry in registry:
            registry.remove(entry)

    patches.on_undo(undo)


def install(patches: Patches) -> None:
    """Put everything in place."""
    # The set of functions that follow the default device is made once, of the originals.
    from torch.utils._device import _device_constructors

    _device_constructors()
    _register_kernels(patches)
    for name in FACTORIES:
        if hasattr(torch, name):
            patches.set(torch, name, _factory(getattr(torch, name)))
    for name in LIKE:
        patches.set(torch, name, _like(getattr(torch, name)))
    for name in CONVERTING:
        copies = name in ("tensor", "sparse_coo_tensor")
        patches.set(torch, name, _converting(getattr(torch, name), copies))
    set_type = _set_default_tensor_type(torch.set_default_tensor_type)
    patches.set(torch, "set_default_tensor_type", set_type)
    tensor = torch.Tensor
    for name in NEW:
        patches.set(tensor, name, _like(getattr(tensor, name)))
    patches.set(tensor, "new_tensor", _new_tensor(tensor.new_tensor))
    for name in _PROPAGATE_METHODS:
        patches.set(tensor, name, _propagating(getattr(tensor, name), True))
    for name in _PROPAGATE_FUNCTIONS:
        patches.set(torch, name, _propagating(getattr(torch, name), False))
    for name, value in (
        ("to", _to),
        ("cuda", _cuda),
        ("cpu", _cpu),
        ("pin_memory", _pin_memory),
        ("is_pinned", _is_pinned),
        ("device", _device),
        ("is_cuda", _is_cuda),
        ("is_cpu", _is_cpu),
        ("get_device", _get_device),
        ("type", _type),
        ("data_ptr", _data_ptr),
        ("record_stream", lambda self, stream: None),
    ):
        patches.set(tensor, name, value)
    _patch_serialization(patches)
