"""What a launch puts where: parameters, tensors, variables, shared memory.

Parameters lie one after the other in a window of their own, as the kernel declares them; a tensor
map is its 128-byte image there. Shared memory has the static variables first, then the dynamic
part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xttir.diagnostics import InputError, Unsupported
from xttir.dialects.ptx.function import WIDTHS
from xttir.dialects.ptx.operands import ImmAttr, SymbolAttr
from xttir.frontends.launch_description import (
    BytesParam,
    LaunchDescription,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    materialise,
)
from xttir.interp.ptx.memory import LaunchMemory
from xttir.interp.ptx.reader import Kernel, Variable
from xttir.interp.ptx.regions import DEFAULT, KNOWN, LOCAL_WINDOW, SHARED_WINDOW, WRITTEN
from xttir.interp.tensorcore.tensor_maps import TensorMap, encode


@dataclass(slots=True)
class Layout:
    """Where variables are: (space, address) by name; sizes of a block's and a lane's memory."""

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0
    static_shared: int = 0


def lay_out(kernel: Kernel, launch: LaunchDescription) -> Layout:
    """Addresses of parameters, shared and local variables."""
    out = Layout()
    at = 0
    for param in kernel.params:
        at = _up(at, param.align)
        out.places[param.name] = ("param", at)
        at += param.size
    for variable in kernel.variables.values():
        if variable.space == "shared" and variable.size:
            out.shared_bytes = _up(out.shared_bytes, variable.align)
            out.places[variable.name] = ("shared", out.shared_bytes)
            out.shared_bytes += variable.size
        elif variable.space == "local":
            out.local_bytes = _up(out.local_bytes, variable.align)
            out.places[variable.name] = ("local", out.local_bytes)
            out.local_bytes += variable.size
    out.static_shared = out.shared_bytes
    dynamic = [v for v in kernel.variables.values() if v.space == "shared" and not v.size]
    align = max([v.align for v in dynamic], default=16)
    if dynamic or launch.dynamic_smem:
        start = _up(out.shared_bytes, max(align, launch.smem_base))
        for variable in dynamic:
            out.places[variable.name] = ("shared", start)
        out.shared_bytes = start + launch.dynamic_smem
    return out


def _up(at: int, align: int) -> int:
    return -(-at // align) * align if align else at


class Contents:
    """Fills the memory of a launch; afterwards has the addresses of tensors."""

    def __init__(
        self,
        kernel: Kernel,
        launch: LaunchDescription,
        layout: Layout,
        memory: LaunchMemory,
        data: Mapping[str, np.ndarray] | None,
    ):
        self.kernel = kernel
        self.launch = launch
        self.layout = layout
        self.memory = memory
        self.tensors: dict[str, int] = {}
        self.constants: list[tuple[int, int]] = []
        self._tensors(data)
        self.workspace = 0
        """Address of what cooperative groups keep of a grid: its size, 4 bytes on its barrier."""
        if launch.cooperative:
            zeros = np.zeros(16, np.uint8)
            self.workspace = memory.add_tensor("barrier of the grid", 16, KNOWN, zeros)
        self._variables()
        self._parameters()

    def _tensors(self, data: Mapping[str, np.ndarray] | None) -> None:
        """`data` None: a trace, where only what has an `init` is known."""
        known: Mapping[str, np.ndarray]
        if data is None:
            names = [t.name for t in self.launch.tensors.values() if t.known]
            known = materialise(self.launch, only=names) if names else {}
        else:
            known = data
        for spec in self.launch.tensors.values():
            flat = known.get(spec.name)
            raw = None
            if flat is not None:
                raw = np.ascontiguousarray(flat).reshape(-1).view(np.uint8)
            if not spec.reads_matter:
                first = DEFAULT
            else:
                first = KNOWN if raw is not None else WRITTEN
            address = self.memory.add_tensor(spec.name, spec.size, first, raw)
            self.tensors[spec.name] = address
            if spec.range is not None and spec.dtype.kind in "iu" and first == WRITTEN:
                region = self.memory.region_at(address)
                low, high = spec.range
                region.bounds = (int(low), int(high))
                region.element = np.dtype(spec.dtype.numpy).itemsize

    def _variables(self) -> None:
        pending = []
        for variable in self.kernel.variables.values():
            if variable.space not in ("global", "const"):
                continue
            base = self.memory.add_tensor(variable.name, max(variable.size, 1), KNOWN)
            self.layout.places[variable.name] = (variable.space, base)
            if variable.space == "const":
                self.constants.append((base, variable.size))
            if variable.init is not None:
                pending.append((variable, base))
        for variable, base in pending:
            raw = self._initial(variable)
            self.memory.region_at(base).data()[: raw.size] = raw

    def _initial(self, variable: Variable) -> np.ndarray:
        size = max(WIDTHS[variable.decl.kind.data] // 8, 1)
        out = bytearray()

        def walk(value: Any) -> None:
            if hasattr(value, "data") and isinstance(value.data, tuple):
                for part in value.data:
                    walk(part)
            elif hasattr(value, "parts"):
                for part in value.parts:
                    walk(part)
            elif isinstance(value, ImmAttr):
                out.extend(self._number(value, variable.decl.kind.data, size))
            elif isinstance(value, SymbolAttr):
                out.extend(self._address_of(value).to_bytes(8, "little")[:size])
            else:
                raise Unsupported(f"initial value of {variable.name}")

        walk(variable.init)
        return np.frombuffer(bytes(out[: variable.size]), np.uint8)

    @staticmethod
    def _number(value: ImmAttr, kind: str, size: int) -> bytes:
        number = value.value
        if kind in ("f32", "f64"):
            return np.array([number], np.float32 if kind == "f32" else np.float64).tobytes()
        return (int(number) % (1 << (8 * size))).to_bytes(size, "little")

    def _address_of(self, value: SymbolAttr) -> int:
        place = self.layout.places.get(value.symbol.data)
        if place is None:
            raise Unsupported(f"the address of {value.symbol.data} as an initial value")
        space, at = place
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
        return at + value.offset.data + (window if value.wrapper.data == "generic" else 0)

    # Parameters -----------------------------------------------------------------------------------

    def _parameters(self) -> None:
        declared, given = self.kernel.params, self.launch.params
        if len(declared) != len(given):
            raise InputError(
                f"kernel `{self.kernel.name}` has {len(declared)} parameters, the launch "
                f"description gives {len(given)}"
            )
        size = 0
        for param, value in zip(declared, given, strict=True):
            at = self.layout.places[param.name][1]
            size = at + param.size
            if value.size > param.size and not isinstance(value, ScalarParam):
                raise InputError(
                    f"parameter {param.name} has {param.size} bytes, the launch description gives "
                    f"{value.size}"
                )
        region = self.memory.param
        region.size = size
        for param, value in zip(declared, given, strict=True):
            self._parameter(self.layout.places[param.name][1], value, param.size)

    def _parameter(self, at: int, value: Param, size: int) -> None:
        data = self.memory.param.data()
        if isinstance(value, ScalarParam):
            raw = value.bits[:size]
            data[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
        elif isinstance(value, PointerParam):
            address = 0 if value.tensor is None else self.tensors[value.tensor] + value.offset
            data[at : at + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
        elif isinstance(value, TensorMapParam):
            image = encode(self._map(value))
            data[at : at + len(image)] = np.frombuffer(image, np.uint8)
        else:
            assert isinstance(value, BytesParam)
            data[at : at + len(value.data)] = np.frombuffer(value.data, np.uint8)
            for offset, inner in value.fields:
                self._parameter(at + offset, inner, inner.size)

    def _map(self, value: TensorMapParam) -> TensorMap:
        im2col = value.im2col
        return TensorMap(
            address=self.tensors[value.tensor] + value.offset,
            element=_ELEMENTS.get(value.dtype.name, value.dtype.name),
            dims=tuple(value.dims),
            strides=tuple(value.strides_bytes),
            box=tuple(value.box) if im2col is None else (1,) * value.rank,
            element_strides=tuple(value.elem_strides),
            swizzle=_SWIZZLES.get(value.swizzle, value.swizzle),
            interleave=value.interleave,
            fill=value.oob,
            mode="tile" if im2col is None else "im2col",
            lower=() if im2col is None else im2col.lower,
            upper=() if im2col is None else im2col.upper,
            channels=0 if im2col is None else im2col.channels,
            pixels=0 if im2col is None else im2col.pixels,
        )

    def is_constant(self, address: int) -> bool:
        """Whether a global address is of a constant, which nobody writes."""
        return any(base <= address < base + size for base, size in self.constants)


_ELEMENTS = {"i8": "u8", "i16": "u16", "i32": "s32", "i64": "s64", "bool": "u8"}
_ELEMENTS |= {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64"}
_ELEMENTS |= dict.fromkeys(("f8e4m3", "f8e5m2", "f8e8m0"), "u8")
_SWIZZLES = {
    "128B_ATOM_32B": "128B_atom32B",
    "128B_ATOM_32B_FLIP_8B": "128B_atom32B_flip8B",
    "128B_ATOM_64B": "128B_atom64B",
}
"""Names of a launch description that tensor maps have others for."""
