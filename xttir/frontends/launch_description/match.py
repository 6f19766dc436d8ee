"""Whether a launch description fits its kernel, and a blank description for a kernel.

A launch that the driver would refuse, or that passes parameters the kernel does not have, never
runs: it is an input error with the place in the description, not a fault of the kernel. Limits:
CUDA C++ Programming Guide, technical specifications per compute capability; PTX ISA, section 11.4
(performance directives) and 11.1.2 (targets).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr

from xttir.diagnostics import InputError, Unsupported
from xttir.dialects.locations import location_of
from xttir.dialects.ptx.function import DeclAttr, FuncOp, VariableOp
from xttir.dialects.ptx.instruction import Instruction
from xttir.dialects.ptx.targets import missing
from xttir.frontends.launch_description.dtypes import near
from xttir.frontends.launch_description.fields import Document, Key
from xttir.frontends.launch_description.spec import (
    BytesParam,
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorMapParam,
    ValueParam,
)

STATIC_LIMIT = 48 * 1024
_SHARED = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 101: 227}
_SHARED |= {103: 227, 110: 227, 120: 99, 121: 99}
"""KiB of shared memory that a block can have, by compute capability; 48 for older ones."""


@dataclass(frozen=True)
class Target:
    """`sm_90a` taken apart. `suffix`: "" runs on later devices, "f" in its family, "a" on it."""

    name: str
    capability: int
    suffix: str

    @staticmethod
    def of(name: str) -> Target:
        match = re.fullmatch(r"sm_(\d+)([af]?)", name)
        return Target(name, int(match[1]), match[2]) if match else Target(name, 0, "")

    def runs_on(self, device: Target) -> bool:
        """Whether code for this target can run on `device`."""
        if self.suffix == "a":
            return device.capability == self.capability
        if self.suffix == "f":
            same = device.capability // 10 == self.capability // 10
            return same and device.capability >= self.capability
        return device.capability >= self.capability


def entries(module: ModuleOp) -> list[FuncOp]:
    """The kernels of a PTX module."""
    return [op for op in module.ops if isinstance(op, FuncOp) and op.is_entry]


def target_of(module: ModuleOp) -> Target:
    words = module.attributes.get("ptx.target")
    first = next(iter(words), None) if isinstance(words, ArrayAttr) else None
    return Target.of(first.data if isinstance(first, StringAttr) else "")


def shared_limit(capability: int) -> int:
    """Bytes of shared memory that one block may have in all."""
    return 1024 * _SHARED.get(capability, 48)


def static_shared(module: ModuleOp, kernel: FuncOp) -> int:
    """Bytes of the shared variables that `kernel` and its module declare with a size."""
    total = 0
    for op in (*module.ops, *(op for block in kernel.body.blocks for op in block.ops)):
        if isinstance(op, VariableOp) and op.decl.space.data == "shared":
            align = op.decl.alignment
            total = -(-total // align) * align + op.decl.bytes
    return total


def match(description: LaunchDescription, module: ModuleOp) -> LaunchDescription:
    """Check that `description` fits its kernel in `module`.

    Returns it with the architecture filled in. Raises `InputError` at the key to change.
    """
    return _Matcher(description, module).run()


class _Matcher:
    def __init__(self, description: LaunchDescription, module: ModuleOp):
        self.description = description
        self.module = module
        self.document = Document(description.file, description.text)

    def wrong(self, path: tuple[Key, ...], what: str, hint: str = "") -> NoReturn:
        name = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path).lstrip(".")
        where = self.document.location(path)
        raise InputError(f"{name}: {what}" if name else what, where, hint)

    def run(self) -> LaunchDescription:
        d = self.description
        kernels = {op.sym_name.data: op for op in entries(self.module)}
        if d.entry not in kernels:
            known = ", ".join(kernels) or "none"
            what = f"the PTX has no kernel '{d.entry}'{near(d.entry, kernels)}"
            self.wrong(("entry",), what, f"kernels of the PTX: {known}")
        kernel = kernels[d.entry]
        self._header(kernel)
        d = self._architecture(d)
        self._instructions()
        self._threads(kernel, d)
        self._cluster(kernel, d)
        self._shared(kernel, d)
        self._params(kernel, d)
        return d

    def _header(self, kernel: FuncOp) -> None:
        """A target is named, and addresses have 64 bits."""
        if not target_of(self.module).capability:
            what = "the PTX names no target"
            raise InputError(what, location_of(kernel), "`.target sm_90a`, say, at its beginning")
        size = self.module.attributes.get("ptx.address_size")
        if isinstance(size, IntegerAttr) and size.value.data != 64:
            raise Unsupported(f"addresses of {size.value.data} bits", location_of(kernel))

    def _architecture(self, d: LaunchDescription) -> LaunchDescription:
        target = target_of(self.module)
        if not d.arch:
            return replace(d, arch=target.name)
        device = Target.of(d.arch)
        if not target.runs_on(device):
            what = f"the PTX is for {target.name}, which does not run on {d.arch}"
            self.wrong(("arch",), what, f'"arch": "{target.name}", or PTX compiled for {d.arch}')
        # What the kernel may use follows from its own target.
        return d

    def _instructions(self) -> None:
        """Every instruction must exist on the target that the PTX names."""
        target = target_of(self.module)
        for op in self.module.walk():
            if isinstance(op, Instruction) and target.capability:
                needed = missing(op.family, target.capability)
                if needed:
                    what = f"{op.family} needs {needed}; the PTX is for {target.name}"
                    raise InputError(what, location_of(op), f".target {needed} or later")

    def _threads(self, kernel: FuncOp, d: LaunchDescription) -> None:
        required = _extent(kernel.directive("reqntid"))
        if required is not None and required != d.block:
            what = f"the kernel requires {list(required)} threads (.reqntid), not {list(d.block)}"
            self.wrong(("block",), what)
        most = _extent(kernel.directive("maxntid"))
        if most is not None and d.threads > most[0] * most[1] * most[2]:
            limit = most[0] * most[1] * most[2]
            what = f"the kernel allows {limit} threads (.maxntid), the block has {d.threads}"
            self.wrong(("block",), what)

    def _cluster(self, kernel: FuncOp, d: LaunchDescription) -> None:
        required = _extent(kernel.directive("reqnctapercluster"))
        if required is not None and required != d.cluster:
            what = (
                f"the kernel requires clusters of {list(required)} blocks (.reqnctapercluster), "
                f"not {list(d.cluster)}"
            )
            self.wrong(("cluster",), what, f'"cluster": {list(required)}')
        most = kernel.directive("maxclusterrank")
        if most and d.blocks_per_cluster > int(most[0]):
            what = f"the kernel allows {most[0]} blocks in a cluster (.maxclusterrank)"
            self.wrong(("cluster",), what)
        capability = d.capability
        if d.blocks_per_cluster > 1 and capability < 90:
            self.wrong(("cluster",), f"clusters need sm_90 or later, not {d.arch}")

    def _shared(self, kernel: FuncOp, d: LaunchDescription) -> None:
        static, limit = static_shared(self.module, kernel), shared_limit(d.capability)
        if static + d.dynamic_smem > limit:
            what = (
                f"{static} static and {d.dynamic_smem} dynamic bytes of shared memory are more "
                f"than the {limit} that a block can have on {d.arch}"
            )
            self.wrong(("dynamic_smem",), what)

    def _params(self, kernel: FuncOp, d: LaunchDescription) -> None:
        declared = list(kernel.params)
        if len(declared) != len(d.params):
            what = f"the kernel has {len(declared)} parameters, the description {len(d.params)}"
            listed = "; ".join(f"{i}: {shown(decl)}" for i, decl in enumerate(declared))
            self.wrong(("params",), what, f"parameters of the kernel: {listed}")
        for i, (decl, param) in enumerate(zip(declared, d.params, strict=True)):
            why = _misfit(decl, param, d)
            if why:
                self.wrong(("params", i), f"the kernel declares {shown(decl)}; {why}")


def _extent(words: tuple[int | str, ...] | None) -> tuple[int, int, int] | None:
    if not words:
        return None
    x, y, z = (*map(int, words), 1, 1)[:3]
    return x, y, z


def shown(decl: DeclAttr) -> str:
    """The declaration as in the PTX: `.b8 x[128]`."""
    lengths = "".join(f"[{n}]" for n in decl.lengths)
    align = f".align {decl.align.data} " if decl.lengths and decl.align.data else ""
    return f"{align}.{decl.kind.data} {decl.symbol.data}{lengths}"


def _misfit(decl: DeclAttr, param: Param, d: LaunchDescription) -> str:
    """Why `param` cannot be passed as `decl`; empty: it can."""
    if isinstance(param, ValueParam | PointersParam):
        return "tensors by value are for functions of Triton's IR"
    if param.size != decl.bytes:
        return f"this has {param.size} bytes, not {decl.bytes}"
    aggregate = bool(decl.lengths)
    floating = decl.kind.data.startswith(("f", "bf"))
    if isinstance(param, TensorMapParam):
        if decl.alignment < 64:
            return "a tensor map is aligned to 64 bytes"
    elif isinstance(param, BytesParam):
        if not aggregate:
            return "a struct is passed as an array of .b8"
    elif isinstance(param, PointerParam):
        return _bad_pointer(decl, param, d, aggregate or floating)
    elif isinstance(param, ScalarParam):
        if aggregate and decl.bytes > 8:
            return "this is a scalar"
        typed = decl.kind.data[0] in "usf"
        if typed and not aggregate and floating != param.type.is_float and param.type.kind != "b":
            return f"this is {param.type.name}"
    return ""


def _bad_pointer(decl: DeclAttr, param: PointerParam, d: LaunchDescription, other: bool) -> str:
    if other and decl.kind.data != "b8":
        return "this is a pointer"
    words = decl.pointer.data.split()
    align = int(words[words.index("align") + 1]) if "align" in words else 1
    if param.tensor is not None:
        tensor = d.tensors[param.tensor]
        if param.offset % align or tensor.base_align % align:
            return f"the pointer must be aligned to {align} bytes"
    return ""


# Templates ----------------------------------------------------------------------------------------


def template(module: ModuleOp, entry: str = "") -> dict[str, Any]:
    """A description to fill in, made from the signature of a kernel (the first one by default)."""
    kernels = {op.sym_name.data: op for op in entries(module)}
    if not kernels:
        raise InputError("the PTX has no kernel (.entry)")
    if entry and entry not in kernels:
        raise InputError(f"the PTX has no kernel '{entry}'{near(entry, kernels)}")
    kernel = kernels[entry] if entry else next(iter(kernels.values()))
    block = _extent(kernel.directive("reqntid")) or _extent(kernel.directive("maxntid"))
    tensors: dict[str, Any] = {}
    params = [_blank(decl, tensors) for decl in kernel.params]
    return {
        "entry": kernel.sym_name.data,
        "arch": target_of(module).name,
        "grid": [1, 1, 1],
        "block": list(block or (128, 1, 1)),
        "cluster": list(_extent(kernel.directive("reqnctapercluster")) or (1, 1, 1)),
        "dynamic_smem": 0,
        "tensors": tensors,
        "params": params,
        "ref": {},
        "note": "fill in: grid, dynamic_smem, dtype, shape and role of every tensor, box and "
        "swizzle of tensor maps, values of scalars; ref: {output: torch expression}, optional",
    }


def _blank(decl: DeclAttr, tensors: dict[str, Any]) -> dict[str, Any]:
    """A parameter of the declared kind, with a tensor for every pointer."""

    def tensor(shape: list[int]) -> str:
        name = f"t{len(tensors)}"
        tensors[name] = {"dtype": "f16", "shape": shape, "role": "inout"}
        return name

    kind = decl.kind.data
    if decl.bytes == 128 and decl.alignment >= 64:
        return {"tensormap": tensor([64, 64]), "box": [64, 64], "swizzle": "128B"}
    if decl.lengths:
        return {"bytes": decl.bytes, "fields": []}
    if decl.bytes == 8 and kind != "f64":
        return {"pointer": tensor([1024])}
    if kind.startswith(("f", "bf")):
        return {kind: 1.0}
    return {f"i{8 * decl.bytes}": 1}
