"""From the arguments of a Triton launch to `xttir.interp.launch.Launch`.

What a kernel's parameters are is decided once per compiled kernel (`ArgumentPlan`); a launch only
reads addresses, shapes and values. The order and the number of arguments follow Triton's own
launcher: constexprs and integers specialised to 1 are dropped, tuples flattened, host descriptors
expanded (`triton/backends/driver.py`, `expand_signature`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch

from xttir.diagnostics import InputError
from xttir.frontends.triton import storage, uninit
from xttir.interp.launch import Argument, DescriptorArg, PixelBox, ScalarArg, TensorArg

NUMPY_DTYPES: dict[Any, np.dtype] = {
    torch.bool: np.dtype(bool),
    torch.uint8: np.dtype(np.uint8),
    torch.uint16: np.dtype(np.uint16),
    torch.uint32: np.dtype(np.uint32),
    torch.uint64: np.dtype(np.uint64),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
    torch.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    torch.float8_e8m0fnu: np.dtype(ml_dtypes.float8_e8m0fnu),
    torch.float4_e2m1fn_x2: np.dtype(np.uint8),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
"""Element types of tensors. Two packed float4 are one byte."""

POINTER_DTYPES: dict[str, np.dtype] = {
    "i1": np.dtype(bool),
    "u1": np.dtype(bool),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "fp8e4b15": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
}
"""Element types by the names that Triton's signatures use ("*fp16")."""

CPU_TENSOR = "Pointer argument cannot be accessed from Triton (cpu tensor?)"
NOT_A_POINTER = "Pointer argument must be either uint64 or have data_ptr method"


class CpuTensor(Exception):
    """A CPU tensor where a pointer to device memory is needed. `name`: the parameter."""

    def __init__(self, name: str, tensor: torch.Tensor):
        super().__init__(name)
        self.name = name
        self.tensor = tensor


class BadDescriptor(Exception):
    """A descriptor that `cuTensorMapEncodeTiled` refuses."""

    def __init__(self, name: str, why: str):
        super().__init__(why)
        self.name = name
        self.why = why


def _pixel_box(descriptor: Any) -> PixelBox | None:
    """The bounding box of an im2col descriptor of Gluon; None for a tiled one."""
    lower = getattr(descriptor, "pixel_box_lower_corner", None)
    if lower is None:
        return None
    spatial = len(lower)
    steps = descriptor.element_strides or [1] * (spatial + 2)
    return PixelBox(
        tuple(map(int, lower)),
        tuple(map(int, descriptor.pixel_box_upper_corner)),
        tuple(map(int, steps[1 : 1 + spatial])),
    )


def _check_descriptor(
    name: str, base: TensorArg, shape: tuple[int, ...], strides: tuple[int, ...], inner: int
) -> None:
    """The driver's conditions on tiled tensor maps (CUDA driver API, cuTensorMapEncodeTiled).

    `inner`: elements of the innermost block dimension.
    """
    size = base.dtype.itemsize
    why = None
    if (base.storage.address + base.offset) % 16:
        why = "its base is not aligned to 16 bytes"
    elif any(not 0 < n <= 1 << 32 for n in shape):
        why = f"its shape {shape} is not between 1 and 2**32 in every dimension"
    elif any(s * size % 16 or not 0 < s * size < 1 << 40 for s in strides[:-1]):
        why = f"its strides {strides} are not multiples of 16 bytes below 2**40"
    elif inner * size < 16:
        why = f"its block is {inner * size} bytes wide in the last dimension, less than 16"
    if why is not None:
        raise BadDescriptor(name, f"no tensor map can be made of descriptor `{name}`: {why}")


def tensor_argument(name: str, tensor: torch.Tensor, dtype: np.dtype | None = None) -> TensorArg:
    """A view as a pointer argument. `dtype`: another element type of the same size to see it as."""
    record = storage.record_of(tensor)
    if record.device == storage.CPU and len(record.bytes):
        raise CpuTensor(name, tensor)
    if record.pending or record.valid is not None:
        uninit.refresh(record, tensor)
    own = NUMPY_DTYPES[tensor.dtype]
    offset = int(tensor.storage_offset()) * own.itemsize
    shape, strides = tuple(tensor.shape), tensor.stride()
    if dtype is not None and dtype.itemsize != own.itemsize:
        shape, strides = _as_elements(shape, strides, own.itemsize, dtype.itemsize)
    return TensorArg(name, record, offset, shape, strides, dtype or own)


def _as_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], own: int, other: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bytes of a view as one row of elements of another size."""
    span = sum(s * (n - 1) for n, s in zip(shape, strides, strict=True)) + 1 if all(shape) else 0
    return (span * own // other,), (1,)


def _pointer(name: str, value: Any, element: str) -> Argument:
    """What a pointer parameter got: a tensor, None, an integer, or anything with `data_ptr`."""
    if isinstance(value, torch.Tensor):
        return tensor_argument(name, value)
    if value is None:
        return ScalarArg(name, 0)
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor):  # triton.reinterpret
        return tensor_argument(name, base, POINTER_DTYPES.get(element.lstrip("k")))
    if isinstance(value, int):
        address = value
    elif hasattr(value, "data_ptr"):
        address = value.data_ptr()
    else:
        raise TypeError(NOT_A_POINTER)
    return _from_address(name, address, element)


def _from_address(name: str, address: int, element: str) -> Argument:
    record = storage.storage_at(address)
    dtype = POINTER_DTYPES.get(element.lstrip("k"))
    if record is None or dtype is None:
        return ScalarArg(name, address)
    offset = address - record.address
    count = (len(record.bytes) - offset) // dtype.itemsize
    return TensorArg(name, record, offset, (count,), (1,), dtype)


def _integer(bits: int) -> Callable[[Any], int]:
    """Integers are passed modulo 2**bits and seen as signed, as the C launcher does."""
    half, modulus = 1 << (bits - 1), 1 << bits

    def read(value: Any) -> int:
        number = operator.index(value)
        if -half <= number < half:
            return number
        return (number + half) % modulus - half

    return read


def _bf16(value: Any) -> float:
    """The launcher drops the low half of the float32, without rounding."""
    bits = np.array(float(value), np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return float(bits.view(np.float32))


_SCALARS: dict[str, Callable[[Any], int | float]] = {
    "i1": lambda value: operator.index(value) & 1,
    "u1": lambda value: operator.index(value) & 1,
    **{f"{p}{n}": _integer(n) for p in "iu" for n in (8, 16, 32, 64)},
    "fp16": lambda value: float(np.float16(float(value))),
    "bf16": _bf16,
    "fp32": lambda value: float(np.float32(float(value))),
    "f32": lambda value: float(np.float32(float(value))),
    "fp64": float,
}


class _Slot:
    """One leaf of the signature: where its value is, its name and its type."""

    __slots__ = ("name", "path", "read", "type")

    def __init__(self, path: tuple[int, ...], name: str, type: str):
        self.path, self.name, self.type = path, name, type
        if type.startswith("*") or type.startswith("tensordesc"):
            self.read = None
        elif type in _SCALARS:
            self.read = _SCALARS[type]
        else:
            raise InputError(f"parameter `{name}` has type {type}, which no launcher can pass")


def _leaves(signature: Any, path: tuple[int, ...], name: str) -> Iterator[_Slot]:
    if isinstance(signature, tuple):
        for i, inner in enumerate(signature):
            yield from _leaves(inner, (*path, i), f"{name}.{i}")
    elif signature != "constexpr":
        yield _Slot(path, name, signature)


class ArgumentPlan:
    """How to turn the bound arguments of one compiled kernel into `Argument`s.

    `decomposed`: descriptors arrive as pointers and numbers (before Hopper) rather than as
    `!tt.tensordesc`.
    """

    def __init__(self, signature: dict[Any, Any], decomposed: bool):
        self.decomposed = decomposed
        self.slots: list[_Slot] = []
        for i, (key, type) in enumerate(signature.items()):
            name = key if isinstance(key, str) else f"arg{key}"
            self.slots += _leaves(type, (i,), name)

    def arguments(self, values: tuple[Any, ...]) -> tuple[Argument, ...]:
        """One argument per parameter of the kernel's `tt.func`. Raises as the C launcher does."""
        result: list[Argument] = []
        for slot in self.slots:
            value: Any = values
            for step in slot.path:
                value = value[step]
            if slot.read is not None:
                result.append(ScalarArg(slot.name, slot.read(value)))
            elif slot.type[0] == "*":
                result.append(_pointer(slot.name, value, slot.type[1:]))
            else:
                result += self._descriptor(slot.name, value)
        return tuple(result)

    def _descriptor(self, name: str, value: Any) -> Iterator[Argument]:
        """`a, a.shape.0, .., a.stride.0, ..`; decomposed, base, extents and flags come first."""
        shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.strides))
        nan = getattr(value, "padding", "zero") == "nan"
        tf32 = bool(getattr(value, "round_f32_to_tf32", False))
        base = _pointer(name, value.base, "")
        if not isinstance(base, TensorArg):
            raise InputError(f"descriptor `{name}` is not made from a tensor")
        extents = [ScalarArg(f"{name}.shape.{i}", n) for i, n in enumerate(shape)]
        extents += [ScalarArg(f"{name}.stride.{i}", n) for i, n in enumerate(strides)]
        if self.decomposed:
            yield base
            yield from extents
            yield ScalarArg(f"{name}.padding", int(nan))
            yield ScalarArg(f"{name}.roundF32ToTF32", int(tf32))
        else:
            padding = "nan" if nan else "zero"
            block = tuple(map(int, value.block_shape))
            _check_descriptor(name, base, shape, strides, block[-1])
            pixels = _pixel_box(value)
            yield DescriptorArg(name, base, shape, strides, block, padding, tf32, pixels)
        yield from extents
