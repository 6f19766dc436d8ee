"""From a launch that a script makes to the PTX that a GPU would run and its launch description.

The kernel is compiled to the end by Triton's own pipeline. Threads, clusters, shared memory and the
order of parameters follow Triton's C launcher (`triton/backends/nvidia/driver.py`, `driver.c`):
host descriptors become a tensor map followed by shape and strides, and two scratch pointers come
last. Contents of integer tensors are taken from the run, since they may decide control flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xttir.diagnostics import Unsupported
from xttir.frontends.launch_description import (
    DTYPES,
    DType,
    LaunchDescription,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    TensorSpec,
)
from xttir.interp.launch import Argument, DescriptorArg, Launch, Storage, TensorArg

SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
"""`CUtensorMapSwizzle` by number."""

_SCALARS = {"i1": "i8", "u1": "u8", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32"}
_SCALARS |= {"fp64": "f64", **{f"{p}{n}": f"{p}{n}" for p in "iu" for n in (8, 16, 32, 64)}}

MAX_KNOWN = 64 << 20
"""Bytes of integer data that are copied from a tensor, no more."""


@dataclass(frozen=True)
class DeviceCode:
    """What the backend made of a kernel. `key` is equal for equal PTX."""

    ptx: str
    name: str
    arch: str
    key: str
    num_warps: int
    num_ctas: int
    shared: int
    global_scratch: tuple[int, int]
    """(bytes per block, alignment)"""
    profile_scratch: tuple[int, int]
    tensor_maps: tuple[dict[str, Any], ...]
    """How each host descriptor is encoded, in order; empty when they are passed as pointers."""


def device_code(launch: Launch) -> DeviceCode:
    """Compile the kernel of `launch` to PTX (once per kernel: Triton caches it)."""
    kernel = launch.compiled.kernel
    full = kernel.full()
    data = full.metadata
    ptx = full.asm["ptx"]
    if isinstance(ptx, bytes):
        ptx = ptx.decode()
    return DeviceCode(
        ptx=ptx,
        name=data.name,
        arch=_target(ptx),
        key=f"{full.hash}",
        num_warps=data.num_warps,
        num_ctas=data.num_ctas,
        shared=data.shared,
        global_scratch=(data.global_scratch_size, data.global_scratch_align),
        profile_scratch=(data.profile_scratch_size, data.profile_scratch_align),
        tensor_maps=tuple(getattr(data, "tensordesc_meta", None) or ()),
    )


def _target(ptx: str) -> str:
    for line in ptx.splitlines():
        if line.startswith(".target"):
            return line.split()[1].rstrip(",")
    return ""


def describe(launch: Launch, code: DeviceCode) -> LaunchDescription:
    """The launch of `code` that `launch` stands for, with memory as it is now."""
    return _Describer(launch, code).description()


class _Describer:
    def __init__(self, launch: Launch, code: DeviceCode):
        self.launch = launch
        self.code = code
        self.tensors: dict[str, TensorSpec] = {}
        self.names: dict[int, str] = {}
        """Tensor by the id of its storage."""
        self.uses: dict[int, list[TensorArg]] = {}
        self.maps = iter(code.tensor_maps)

    def description(self) -> LaunchDescription:
        launch, code = self.launch, self.code
        for argument in launch.arguments:
            tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
            if isinstance(tensor, TensorArg):
                self.uses.setdefault(id(tensor.storage), []).append(tensor)
        written = _written(launch)
        for position, argument in enumerate(launch.arguments):
            tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
            if isinstance(tensor, TensorArg):
                self.tensor(tensor, written is None or position in written)
        types = list(_types(launch.compiled.plan.slots, launch.arguments))
        params = [
            self.param(argument, kind)
            for argument, kind in zip(launch.arguments, types, strict=True)
        ]
        x, y, z = launch.grid
        params.append(self.scratch("global_scratch", *code.global_scratch))
        params.append(self.scratch("profile_scratch", *code.profile_scratch))
        return LaunchDescription(
            entry=code.name,
            arch=code.arch,
            grid=(x * code.num_ctas, y, z),
            block=(32 * code.num_warps, 1, 1),
            cluster=(code.num_ctas, 1, 1),
            dynamic_smem=code.shared,
            tensors=self.tensors,
            params=tuple(params),
            note=f"launch {launch.index} of {launch.kernel}" + _site(launch),
        )

    # Tensors

    def tensor(self, argument: TensorArg, written: bool) -> str:
        """The name of the tensor that stands for the argument's storage."""
        storage = argument.storage
        known = self.names.get(id(storage))
        if known is not None:
            spec = self.tensors[known]
            if written and spec.role == "in":
                self.tensors[known] = _with_role(spec, "inout")
            return known
        name = _identifier(argument.name, self.tensors)
        kind = _dtype(argument.dtype)
        uses = self.uses[id(storage)]
        whole = len({(u.offset, u.shape, u.strides, u.dtype) for u in uses}) == 1
        count = max(len(storage.bytes) // kind.size, 1)
        shape, strides = argument.shape, argument.strides
        if not whole or argument.offset or any(s < 0 for s in strides):
            shape, strides = (count,), (1,)
        filled = _filled(storage)
        self.names[id(storage)] = name
        self.tensors[name] = TensorSpec(
            name=name,
            dtype=kind,
            shape=shape,
            strides=strides,
            role=("inout" if filled else "out") if written else "in",
            init=self.contents(argument, shape, strides, kind) if filled else None,
            storage=max(count, TensorSpec.span(shape, strides)),
        )
        return name

    def contents(
        self, argument: TensorArg, shape: tuple[int, ...], strides: tuple[int, ...], kind: DType
    ) -> np.ndarray | None:
        """A copy of integer data, which may decide control flow; None for floats."""
        data = argument.storage.bytes
        if kind.is_float or len(data) > MAX_KNOWN:
            return None
        flat = data[argument.offset :] if shape == argument.shape else data
        elements = flat[: len(flat) // kind.size * kind.size].view(kind.numpy)
        steps = tuple(s * kind.size for s in strides)
        return np.ndarray(shape, kind.numpy, elements.view(np.uint8), 0, steps).copy()

    # Parameters

    def param(self, argument: Argument, kind: str) -> Param:
        if isinstance(argument, TensorArg):
            return PointerParam(self.names[id(argument.storage)], argument.offset)
        if isinstance(argument, DescriptorArg):
            return self.tensor_map(argument)
        if kind.startswith("*"):
            if argument.value:
                what = f"parameter `{argument.name}` is an address that belongs to no tensor"
                raise Unsupported(what, self.launch.site)
            return PointerParam(None)
        value = argument.value
        assert isinstance(value, int | float)
        return ScalarParam(DTYPES[_SCALARS[kind]], value)

    def tensor_map(self, argument: DescriptorArg) -> TensorMapParam:
        encoded = next(self.maps, None)
        if encoded is None:
            what = f"descriptor `{argument.name}` has no encoding in the kernel's metadata"
            raise Unsupported(what, self.launch.site)
        if encoded.get("is_im2col"):
            raise Unsupported(f"im2col descriptor `{argument.name}`", self.launch.site)
        size = encoded["elem_size"]
        shape = list(argument.shape)
        if encoded.get("fp4_padded"):
            raise Unsupported(
                f"descriptor `{argument.name}` of padded four-bit floats", self.launch.site
            )
        kind = _dtype(argument.tensor.dtype)
        if kind.size != size:
            kind = DTYPES[f"b{8 * size}"]
        return TensorMapParam(
            tensor=self.names[id(argument.tensor.storage)],
            box=tuple(reversed(encoded["block_size"])),
            swizzle=SWIZZLES[encoded["swizzle"]],
            dims=tuple(reversed(shape)),
            strides_bytes=tuple(s * size for s in reversed(argument.strides[:-1])),
            elem_strides=(1,) * len(shape),
            oob="nan" if argument.padding == "nan" else "zero",
            offset=argument.tensor.offset,
            dtype=kind,
        )

    def scratch(self, name: str, size: int, align: int) -> PointerParam:
        """Memory that the launcher allocates for all blocks together."""
        if size <= 0:
            return PointerParam(None)
        x, y, z = self.launch.grid
        total = size * x * y * z * self.code.num_ctas
        name = _identifier(name, self.tensors)
        self.tensors[name] = TensorSpec.of(
            name, "u8", total, role="scratch", base_align=max(align, 1)
        )
        return PointerParam(name)


def _types(slots: list[Any], arguments: tuple[Argument, ...]) -> Iterator[str]:
    """Triton's type of every argument; descriptors are expanded as in `expand_signature`."""
    left = iter(arguments)
    for slot in slots:
        if not slot.type.startswith("tensordesc"):
            next(left)
            yield slot.type
            continue
        first = next(left)
        if isinstance(first, DescriptorArg):
            yield "tensordesc"
            rank = len(first.shape)
        else:
            yield "*"
            rank = _rank(slot.type)
            for kind in ["i64"] * (2 * rank) + ["i1", "i1"]:
                next(left)
                yield kind
        for kind in ["i32"] * rank + ["i64"] * rank:
            next(left)
            yield kind


def _rank(descriptor: str) -> int:
    """Rank of `tensordesc<fp16[128, 64],...>`."""
    return descriptor.partition("[")[2].partition("]")[0].count(",") + 1


def _dtype(held: np.dtype) -> DType:
    for kind in DTYPES.values():
        if kind.numpy == held:
            return kind
    return DTYPES[f"b{8 * held.itemsize}"] if held.itemsize in (1, 2, 4, 8) else DTYPES["u8"]


def _filled(storage: Storage) -> bool:
    """Whether all of the memory has been written."""
    if getattr(storage, "pending", False):
        return False
    return storage.valid is None or bool(storage.valid.all())


def _with_role(spec: TensorSpec, role: Any) -> TensorSpec:
    return replace(spec, role=role)


def _identifier(name: str, taken: Any) -> str:
    word = "".join(c if c.isalnum() else "_" for c in name) or "tensor"
    if word[0].isdigit():
        word = "_" + word
    result, n = word, 1
    while result in taken:
        n += 1
        result = f"{word}_{n}"
    return result


def _written(launch: Launch) -> Any:
    """Positions of the arguments that the kernel may write; None when it cannot be told."""
    try:
        from xttir.interp.executor import plan_of

        return plan_of(launch.module, launch.kernel).effects.written
    except Unsupported:
        return None


def _site(launch: Launch) -> str:
    return f" at {launch.site}" if launch.site else ""
