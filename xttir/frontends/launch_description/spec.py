"""What a launch of a compiled kernel consists of, as plain data.

A PTX file says what every thread does; a `LaunchDescription` says with how many threads, on which
memory and with which parameters. Sizes of tensors are in elements, addresses, offsets and shared
memory in bytes. Tensor maps follow `cuTensorMapEncodeTiled` of the CUDA driver API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from xttir.frontends.launch_description.dtypes import DTYPES, DType

Role = Literal["in", "out", "inout", "scratch"]
ROLES = ("in", "out", "inout", "scratch")

SWIZZLES = (
    "none",
    "32B",
    "64B",
    "128B",
    "128B_ATOM_32B",
    "128B_ATOM_32B_FLIP_8B",
    "128B_ATOM_64B",
)
INTERLEAVES = ("none", "16B", "32B")
OOB_FILLS = ("zero", "nan")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in global memory.

    `strides` are in elements. `init`: None for random data (unknown when a kernel is traced), a
    number for all elements, or an array of the tensor's shape (known). `copy_of`: starts with the
    contents of that tensor. `range`: least and greatest value of random integers. `storage`:
    elements allocated, at least up to the last one of the view. `known`: whether the contents may
    decide control flow and addresses (by default: what has an `init`).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: Role = "in"
    init: float | int | np.ndarray | None = None
    range: tuple[int, int] | None = None
    storage: int = 0
    copy_of: str | None = None
    base_align: int = 256

    @property
    def size(self) -> int:
        """Bytes allocated."""
        return self.storage * self.dtype.size

    @property
    def known(self) -> bool:
        return self.init is not None

    @property
    def reads_matter(self) -> bool:
        """Whether the kernel finds defined contents there."""
        return self.role in ("in", "inout") or self.known or self.copy_of is not None

    def view(self, flat: np.ndarray) -> np.ndarray:
        """The tensor, shaped and strided, in its allocation `flat` (1-d, `storage` elements)."""
        steps = tuple(s * flat.itemsize for s in self.strides)
        # Not `as_strided`, which does not know every type of `ml_dtypes`.
        return np.ndarray(self.shape, flat.dtype, flat.view(np.uint8), 0, steps)

    @staticmethod
    def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        """Elements from the first to the last one of a view."""
        if any(n == 0 for n in shape):
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))

    @staticmethod
    def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
        """Row-major strides in elements."""
        strides, step = [], 1
        for n in reversed(shape):
            strides.append(step)
            step *= max(n, 1)
        return tuple(reversed(strides))

    @staticmethod
    def of(name: str, dtype: str, *shape: int, role: Role = "in", **more: Any) -> TensorSpec:
        """A row-major tensor, for descriptions built in Python."""
        strides = TensorSpec.contiguous(shape)
        more.setdefault("storage", TensorSpec.span(shape, strides))
        return TensorSpec(name, DTYPES[dtype], shape, strides, role, **more)


@dataclass(frozen=True)
class PointerParam:
    """A pointer into a tensor, `offset` bytes from its start; None is a null pointer."""

    tensor: str | None
    offset: int = 0

    size = 8


@dataclass(frozen=True)
class ScalarParam:
    """A number. `value` is what it means; `bits` what the kernel sees."""

    type: DType
    value: int | float

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def bits(self) -> bytes:
        """Little-endian bytes."""
        if self.type.is_float:
            return np.array(self.value).astype(self.type.numpy).tobytes()
        width = 8 * self.type.size
        return (int(self.value) % (1 << width)).to_bytes(self.type.size, "little")


@dataclass(frozen=True)
class Im2col:
    """Bounding box of an im2col tensor map, W D H order as in `cuTensorMapEncodeIm2col`."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True)
class TensorMapParam:
    """A tensor map of 128 bytes passed by value. Dimensions innermost first.

    `dims`, `box` and `elem_strides` have `rank` entries, `strides_bytes` rank - 1 (the innermost
    stride is one element). `offset`: bytes from the tensor's start to the map's base address.
    `dtype`: the element type of the map, where it is not the tensor's.
    """

    tensor: str
    box: tuple[int, ...]
    swizzle: str = "none"
    dims: tuple[int, ...] = ()
    strides_bytes: tuple[int, ...] = ()
    elem_strides: tuple[int, ...] = ()
    interleave: str = "none"
    oob: str = "zero"
    offset: int = 0
    dtype: DType = DTYPES["f32"]
    im2col: Im2col | None = None

    size = 128

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True)
class BytesParam:
    """A struct passed by value: `data` with parameters put into it at byte offsets."""

    data: bytes
    fields: tuple[tuple[int, Param], ...] = ()

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class ValueParam:
    """The elements of a tensor by value: only functions of Triton's IR take them."""

    tensor: str
    size = 0


@dataclass(frozen=True)
class PointersParam:
    """A pointer to every element of a tensor: only functions of Triton's IR take them."""

    tensor: str
    size = 0


Param = PointerParam | ScalarParam | TensorMapParam | BytesParam | ValueParam | PointersParam


@dataclass(frozen=True)
class Tolerance:
    """|value - reference| <= atol + rtol * |reference|."""

    rtol: float = 1e-5
    atol: float = 1e-5


@dataclass(frozen=True)
class LaunchDescription:
    """One launch of one kernel.

    `ref`: a torch expression per output, over the tensors before the launch. `smem_base`: the
    address that dynamic shared memory is aligned to (what the kernel assumes; swizzles need it).
    `cooperative`: the grid has a barrier, whose address `%envreg1` and `%envreg2` hold.
    `file` and `text` are what it was read from, for messages.
    """

    entry: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    smem_base: int = 1024
    cooperative: bool = False
    tensors: Mapping[str, TensorSpec] = field(default_factory=dict)
    params: tuple[Param, ...] = ()
    ref: Mapping[str, str] = field(default_factory=dict)
    tolerance: Tolerance = Tolerance()
    note: str = ""
    file: str = ""
    text: str = field(default="", repr=False, compare=False)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid, dtype=np.int64))

    @property
    def blocks_per_cluster(self) -> int:
        return int(np.prod(self.cluster))

    @cached_property
    def capability(self) -> int:
        """Compute capability times 10: 90 for sm_90a."""
        return int("".join(c for c in self.arch if c.isdigit()))

    def tensors_used(self) -> list[str]:
        """Names of the tensors that parameters point to, each once, in order."""
        names: dict[str, None] = {}

        def walk(param: Param) -> None:
            if isinstance(param, BytesParam):
                for _, inner in param.fields:
                    walk(inner)
            elif not isinstance(param, ScalarParam) and param.tensor is not None:
                names.setdefault(param.tensor)

        for param in self.params:
            walk(param)
        return list(names)

    def __str__(self) -> str:
        text = f"grid {self.grid}, block {self.block}"
        return text if self.blocks_per_cluster == 1 else f"{text}, cluster {self.cluster}"
