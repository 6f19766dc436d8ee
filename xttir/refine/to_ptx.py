"""The PTX of a module after barrier insertion: Triton's own lowering from that point on.

The passes of the last stage before LLVM that have run already are left out; all else of that stage,
and PTX, are made as in a compilation. So a module that was changed after barrier insertion can be
looked at as PTX, too. In a process of its own, since a lowering may crash.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp

from xttir.diagnostics import Unsupported
from xttir.dialects import tt
from xttir.dialects.layouts.placement import capability_at
from xttir.dialects.locations import location_of
from xttir.dialects.ttng import TensorDescIm2ColType
from xttir.frontends.launch_description import (
    Im2col,
    LaunchDescription,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    TensorSpec,
)
from xttir.frontends.launch_description.dtypes import DTYPES
from xttir.frontends.module_launch.signature import (
    element_dtype,
    find_function,
    held_as,
)
from xttir.frontends.triton.describe import SWIZZLES
from xttir.interp.tracing import Launch
from xttir.refine.capture import ModuleSource, Sink, forked

FIRST = "add_to_llvmir"
"""The binding of the first pass that still has to run."""
ROOM = 1 << 30
"""Bytes of a tensor whose size nobody says."""


@dataclass(frozen=True)
class Lowered:
    """`ptx`, and what its launch needs: warps of a block, bytes of shared memory, blocks of a
    cluster, bytes of scratch memory in global memory for a block. `maps`: how the tensor maps of
    its descriptors are encoded, in their order."""

    ptx: str
    warps: int
    shared: int
    ctas: int
    scratch: int
    maps: tuple[dict[str, Any], ...] = ()


class _Skipping:
    """Stands in for a module of bindings: adds no pass before `FIRST`."""

    def __init__(self, real: Any, state: set[str]):
        self._real, self._state = real, state

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if type(value).__name__ == "module":
            return _Skipping(value, self._state)
        if not name.startswith("add_"):
            return value
        if name == FIRST:
            self._state.add(name)
        return value if self._state else lambda *_: None


def lower(text: str, cc: int) -> Lowered:
    """The PTX of the module. Raises `Unsupported` when Triton's lowering fails or crashes."""

    def work(sink: Sink) -> None:
        sink("ptx", _lower(text, cc))

    with tempfile.TemporaryFile() as log:
        for what, value in forked(work, log.fileno()):
            if what == "ptx":
                return value
            log.seek(0)
            said = log.read().decode(errors="replace")
            first = next((x for x in said.splitlines() if "error:" in x), "")
            why = first.partition("error:")[2].strip() or str(value).split("\n")[0]
            raise Unsupported(f"a module that Triton does not lower: {why}")
    raise Unsupported("a module that Triton does not lower")


def _lower(text: str, cc: int) -> Lowered:
    import triton.backends.nvidia.compiler as backend
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget

    warnings.simplefilter("ignore")
    source = ModuleSource(text, "module.mlir", "ttgir", True)
    compiler = backend.CUDABackend(GPUTarget("cuda", cc, 32))
    ctas = re.search(r'"ttg\.num-ctas" = (\d+)', text)
    given = {**source.parse_options(), "num_ctas": int(ctas[1]) if ctas else 1}
    options = compiler.parse_options(given)
    context = ir.context()
    ir.load_dialects(context)
    compiler.load_dialects(context)
    module = source.make_ir(None, options, None, None, context)
    maps = tuple(dict(known) for known in module.get_tensordesc_metadata())
    metadata: dict[str, Any] = {"target": compiler.target, **options.__dict__}
    names = ("passes", "nvidia")
    before = {name: getattr(backend, name) for name in names}
    state: set[str] = set()
    for name, real in before.items():
        setattr(backend, name, _Skipping(real, state))
    llvm = compiler.make_llir(module, metadata, options, cc)
    for name, real in before.items():
        setattr(backend, name, real)
    ptx = compiler.make_ptx(llvm, metadata, options, cc)
    return Lowered(
        ptx,
        metadata["num_warps"],
        metadata["shared"] or 0,
        metadata["num_ctas"],
        metadata["global_scratch_size"],
        maps,
    )


def launch_of(
    module: ModuleOp, launch: Launch, made: Lowered, room: int = ROOM
) -> LaunchDescription:
    """The launch of the PTX that stands for a launch of its module: scalars that are not given are
    0, every pointer and descriptor has a tensor of its own, of `room` bytes. Raises `Unsupported`
    for descriptors of im2col, of padded four-bit floats, and of sizes that are not given."""
    op = find_function(module, launch.kernel)
    capability = capability_at(module) or 90
    tensors: dict[str, TensorSpec] = {}
    params: list[Param] = []
    maps = iter(made.maps)
    for index, argument in enumerate(op.args):
        ty = argument.type
        if isinstance(ty, tt.PointerType):
            name = f"arg{index}"
            given = launch.tensors.get(index)
            if given is None:
                tensors[name] = TensorSpec.of(name, "u8", room, role="inout")
            else:
                values = given.storage.bytes.view(given.dtype)
                kind = held_as(given.dtype)
                tensors[name] = TensorSpec.of(name, kind.name, len(values), init=values)
            params.append(PointerParam(name))
        elif isinstance(ty, IntegerType | AnyFloat):
            value = launch.arguments.get(index, 0)
            params.append(ScalarParam(element_dtype(ty), value))
        elif (
            isinstance(ty, tt.TensorDescType | TensorDescIm2ColType)
            and (encoded := next(maps, None)) is not None
        ):
            name = f"arg{index}"
            tensors[name] = TensorSpec.of(name, "u8", ROOM, role="inout")
            params.append(_tensor_map(op, name, index, launch, encoded))
        else:
            raise Unsupported(f"a parameter of type {ty} in PTX", location_of(op))
    params += [PointerParam(None), PointerParam(None)]
    if made.scratch:
        size = made.scratch * launch.programs * made.ctas
        tensors["scratch"] = TensorSpec.of("scratch", "u8", size, role="scratch")
        params[-2] = PointerParam("scratch")
    x, y, z = launch.grid
    arch = re.search(r"\.target (\w+)", made.ptx)
    return LaunchDescription(
        entry=launch.kernel,
        arch=arch[1] if arch else f"sm_{capability}",
        grid=(x * made.ctas, y, z),
        block=(32 * made.warps, 1, 1),
        cluster=(made.ctas, 1, 1),
        dynamic_smem=made.shared,
        tensors=tensors,
        params=tuple(params),
    )


def _tensor_map(
    op: tt.FuncOp, name: str, index: int, launch: Launch, encoded: dict[str, Any]
) -> TensorMapParam:
    """The tensor map of parameter `index`, whose extents and strides are the next parameters."""
    if encoded.get("fp4_padded"):
        raise Unsupported("a tensor map of padded floats", location_of(op))
    box, size = encoded["block_size"], encoded["elem_size"]
    im2col = None
    rank = len(box)
    if encoded.get("is_im2col"):
        kinds = [str(argument.type) for argument in list(op.args)[index + 1 :]]
        rank = next((n for n, kind in enumerate(kinds) if kind != "i32"), len(kinds))
        # Where the pixels lie decides nothing about shared memory.
        corner = (0,) * (rank - 2)
        im2col = Im2col(corner, corner, channels=box[1], pixels=box[0])
        box = ()
    numbers = [launch.arguments.get(n) for n in range(index + 1, index + 1 + 2 * rank)]
    if not all(isinstance(n, int) for n in numbers):
        raise Unsupported("a tensor map of unknown extents", location_of(op))
    known = [int(n) for n in numbers if n is not None]
    dims, strides = known[:rank], known[rank:]
    return TensorMapParam(
        tensor=name,
        box=tuple(reversed(box)),
        swizzle=SWIZZLES[encoded["swizzle"]],
        dims=tuple(reversed(dims)),
        strides_bytes=tuple(s * size for s in reversed(strides[:-1])),
        elem_strides=(1,) * rank,
        dtype=DTYPES[f"b{8 * size}"],
        im2col=im2col,
    )
