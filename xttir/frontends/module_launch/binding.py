"""From a launch description and data to the `Launch` that the executor runs.

Every tensor is one allocation; parameters that name the same tensor share it. Nothing is allocated
when the description is made: `bind` may be called again for a fresh copy of the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

from xttir.diagnostics import InputError, Location
from xttir.dialects import tt
from xttir.dialects.layouts.placement import capability_at
from xttir.frontends.launch_description import (
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorMapParam,
    TensorSpec,
    ValueParam,
    materialise,
)
from xttir.frontends.module_launch.signature import (
    Parameter,
    element_dtype,
    find_function,
    held_as,
    parameters,
    warps_of,
)
from xttir.interp.launch import (
    Argument,
    DescriptorArg,
    Launch,
    Observer,
    ScalarArg,
    Storage,
    TensorArg,
    ValueArg,
)
from xttir.interp.types import numpy_dtype, shape_of


@dataclass(frozen=True, eq=False)
class ModuleLaunch:
    """A launch ready to run, and its memory.

    `data`: the allocation of every tensor by name (1-d, see `TensorSpec.view`), which the launch
    changes in place. `storages`: the same as the executor sees it.
    """

    launch: Launch
    description: LaunchDescription
    data: dict[str, np.ndarray]
    storages: dict[str, Storage]

    def tensor(self, name: str) -> np.ndarray:
        """The tensor in its allocation, shaped."""
        return self.description.tensors[name].view(self.data[name])


def of_module(description: LaunchDescription, parameters: int) -> LaunchDescription:
    """A launch of a function with so many parameters, from one of the PTX that its module is
    compiled to: that has two parameters more, for scratch memory, and a grid of blocks."""
    if len(description.params) != parameters + 2:
        return description
    x, y, z = description.grid
    return replace(
        description,
        params=description.params[:parameters],
        grid=(x // description.cluster[0], y, z),
    )


def bind(
    module: ModuleOp,
    description: LaunchDescription,
    *,
    seed: int = 0,
    data: Mapping[str, np.ndarray] | None = None,
    observer: Observer | None = None,
    index: int = 1,
) -> ModuleLaunch:
    """Put the inputs of `description` into memory. `seed`: of random contents; `data`: allocations
    to use as they are instead of fresh ones. Raises `InputError` where the description does not fit
    the function's parameters."""
    function = find_function(module, description.entry)
    signature = parameters(function)
    description = of_module(description, len(signature))
    if len(signature) != len(description.params):
        listed = ", ".join(f"{p.name}: {p.type}" for p in signature)
        raise InputError(
            f"the function has {len(signature)} parameters, the launch {len(description.params)}",
            _place(description),
            f"parameters: {listed or 'none'}",
        )
    held = dict(data) if data is not None else {}
    missing = [name for name in description.tensors if name not in held]
    for name, array in materialise(description, seed, missing).items():
        held[name] = aligned(array, description.tensors[name].base_align)
    storages = {name: _storage(array, description.tensors[name]) for name, array in held.items()}
    binder = _Binder(description, held, storages)
    arguments = tuple(
        binder.argument(parameter, param)
        for parameter, param in zip(signature, description.params, strict=True)
    )
    capability = capability_at(module) or (description.capability if description.arch else None)
    launch = Launch(
        module=module,
        kernel=function.sym_name.data,
        grid=description.grid,
        arguments=arguments,
        num_warps=warps_of(module),
        cc=capability or 90,
        index=index,
        memory=lambda: list(storages.values()),
        observer=observer,
    )
    return ModuleLaunch(launch, description, held, storages)


def aligned(array: np.ndarray, alignment: int) -> np.ndarray:
    """A copy of a 1-d array that starts at a multiple of `alignment` bytes."""
    room = np.empty(array.nbytes + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    out = room[start : start + array.nbytes].view(array.dtype)
    out[:] = array
    return out


def _storage(array: np.ndarray, spec: TensorSpec) -> Storage:
    raw = array.view(np.uint8)
    valid = None if spec.reads_matter else np.zeros(raw.size, bool)
    return Storage(raw, int(raw.ctypes.data), valid)


def _place(description: LaunchDescription) -> Location | None:
    return Location(description.file) if description.file else None


@dataclass(frozen=True, eq=False)
class _Binder:
    description: LaunchDescription
    data: dict[str, np.ndarray]
    storages: dict[str, Storage]

    def argument(self, parameter: Parameter, param: Param) -> Argument:
        name, ty = parameter.name, parameter.type
        if isinstance(param, PointerParam):
            if not isinstance(ty, tt.PointerType):
                self.misfit(parameter, "a pointer")
            if param.tensor is None:
                return ScalarArg(name, param.offset)
            return self.tensor(name, param.tensor, param.offset, ty.pointee_type)
        if isinstance(param, ScalarParam):
            if isinstance(ty, TensorType | tt.PointerType | tt.TensorDescType):
                self.misfit(parameter, "a number")
            return ScalarArg(name, param.value)
        if isinstance(param, TensorMapParam):
            if not isinstance(ty, tt.TensorDescType):
                self.misfit(parameter, "a tensor map")
            return self.descriptor(parameter, ty, param)
        if isinstance(param, ValueParam | PointersParam):
            if not isinstance(ty, TensorType):
                self.misfit(parameter, "a tensor by value")
            return self.value(parameter, ty, param)
        self.misfit(parameter, "a struct")

    def misfit(self, parameter: Parameter, what: str) -> NoReturn:
        raise InputError(
            f"params[{parameter.index}]: parameter `{parameter.name}` is {parameter.type}, "
            f"the launch gives {what}",
            _place(self.description),
        )

    def tensor(self, name: str, key: str, offset: int, pointee: Attribute) -> TensorArg:
        spec, storage = self.description.tensors[key], self.storages[key]
        dtype = spec.dtype.numpy
        kind = element_dtype(pointee)
        if kind.numpy != dtype and kind.size == spec.dtype.size:
            # Bounds are the tensor's; elements are shown as the kernel sees them.
            dtype = numpy_dtype(pointee) if kind.name[0] != "u" else kind.numpy
        return TensorArg(name, storage, offset, spec.shape, spec.strides, dtype)

    def descriptor(
        self, parameter: Parameter, ty: tt.TensorDescType, param: TensorMapParam
    ) -> DescriptorArg:
        block = ty.get_shape()
        if len(block) != param.rank:
            self.misfit(parameter, f"a tensor map of {param.rank} dimensions")
        held = numpy_dtype(ty.element_type)
        size = held.itemsize
        strides = (*(s // size for s in reversed(param.strides_bytes)), 1)
        spec = self.description.tensors[param.tensor]
        if spec.dtype.size != size:
            self.misfit(parameter, f"elements of {spec.dtype.size} bytes")
        base = TensorArg(
            parameter.name,
            self.storages[param.tensor],
            param.offset,
            spec.shape,
            spec.strides,
            held_as(held).numpy,
        )
        return DescriptorArg(
            parameter.name, base, tuple(reversed(param.dims)), strides, block, param.oob
        )

    def value(
        self, parameter: Parameter, ty: TensorType, param: ValueParam | PointersParam
    ) -> ValueArg:
        spec = self.description.tensors[param.tensor]
        if spec.shape != shape_of(ty):
            self.misfit(parameter, f"a tensor of shape {list(spec.shape)}")
        if isinstance(param, PointersParam):
            element = ty.element_type
            if not isinstance(element, tt.PointerType):
                self.misfit(parameter, "pointers")
            base = self.tensor(parameter.name, param.tensor, 0, element.pointee_type)
            numbers = np.arange(spec.storage, dtype=np.int64) * spec.dtype.size
            return ValueArg(parameter.name, spec.view(numbers), base)
        held = numpy_dtype(ty)
        if spec.dtype.size != held.itemsize:
            self.misfit(parameter, f"elements of {spec.dtype.size} bytes")
        view = spec.view(self.data[param.tensor].view(held))
        return ValueArg(parameter.name, np.array(view))
