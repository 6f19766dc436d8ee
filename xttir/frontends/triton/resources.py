"""Shared memory, tensor memory and registers of a kernel, without making its binary if possible.

`fill` bounds shared memory from the TTIR. The bound counts what Triton's passes can allocate:
buffers for dot operands and for pipelined loads (once per stage), staging for descriptors, and the
scratch of one layout conversion, reduction or scan at a time. When the bound fits the device no
check can fail and nothing more is done; otherwise the passes up to the allocation are run and the
figures are the compiler's.
"""

from __future__ import annotations

import re
import struct
from typing import Any

FIGURES = (
    "shared",
    "tmem_size",
    "num_warps",
    "global_scratch_size",
    "global_scratch_align",
    "profile_scratch_size",
    "profile_scratch_align",
    "tensordesc_meta",
)
"""Metadata that only lowering knows."""

_TENSOR = re.compile(r"tensor<((?:\d+x)+)(!tt\.ptr|[a-zA-Z]\w*)")
_POINTERS = re.compile(r"tensor<((?:\d+x)+)!tt\.ptr<([a-zA-Z]\w*)")
_DESC = re.compile(r"tensordesc<((?:\d+x)+)([a-zA-Z]\w*)")
_OP = re.compile(r"^(\s*)(?:(%[\w.$-]+)[^=]* = )?\"?([a-z_]+\.[a-z_0-9]+)")
_VALUE = re.compile(r"%[\w.$-]+")
_STAGES = re.compile(r"tt\.num_stages = (\d+)")
_BITS = re.compile(r"(\d+)")
_SLACK = 4096
"""Bytes for barriers, captures and small reductions."""


def _bytes(shape: str, element: str) -> int:
    count = 1
    for n in shape.split("x")[:-1]:
        count *= int(n)
    if element == "!tt.ptr":
        return 8 * count
    bits = 8 if element.startswith("f8") else int((_BITS.search(element) or [0, "64"])[1])
    return max(1, bits // 8) * count


def _tensors(line: str) -> list[int]:
    found = _TENSOR.findall(line) + _DESC.findall(line)
    return [_bytes(shape, element) for shape, element in found]


_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
_DOT_INPUTS = {"tt.dot": 2, "tt.dot_scaled": 4}
_STAGED = ("tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.atomic")
_SCRATCH_EXTRA = ("tt.reduce", "tt.scan", "tt.histogram", "tt.gather", "tt.cat", "tt.split")


def shared_bound(ttir: str, num_stages: int) -> int | None:
    """Bytes of shared memory that no lowering of this TTIR exceeds; None when it cannot be told.

    Text is scanned line by line: TTIR prints one op a line and nests by two spaces.
    """
    if "warp_specialize" in ttir:
        return None
    stages = max([num_stages, *map(int, _STAGES.findall(ttir))])
    live = scratch = 0
    loops: list[int] = []
    buffered: set[str] = set()  # values that are in shared memory already
    for line in ttir.splitlines():
        match = _OP.match(line)
        if match is None:
            continue
        indent, result, op = len(match[1]), match[2], match[3]
        while loops and indent <= loops[-1]:
            loops.pop()
        if op in ("scf.for", "scf.while"):
            loops.append(indent)
        sizes = _tensors(line)
        if not sizes:
            continue
        scratch = max(scratch, max(sizes) * 5 // 4)
        if op.startswith(_SCRATCH_EXTRA):
            scratch = max(scratch, 2 * sum(sizes))
        if op in _LOADS and (loops or op != "tt.load"):
            live += _loaded_bytes(line) * (stages if loops else 1)
            buffered.add(result)
        elif op == "tt.trans" and _operands(line)[0] in buffered:
            buffered.add(result)
        elif op.startswith("tt.dot"):
            pairs = zip(_operands(line), sizes, strict=False)
            inputs = list(pairs)[: _DOT_INPUTS[op]]
            live += sum(size for value, size in inputs if value not in buffered)
        elif op.startswith(_STAGED):
            live += max(sizes)
    return live + scratch + _SLACK


def _operands(line: str) -> list[str]:
    """The SSA names to the right of the op."""
    return _VALUE.findall(line.split(" = ", 1)[-1])


def _loaded_bytes(line: str) -> int:
    """What a load gives: the pointees of the pointer tensor, or the last tensor type."""
    shape, element = (_POINTERS.findall(line) or _TENSOR.findall(line))[-1]
    return _bytes(shape, element)


def tensor_memory_bound(ttir: str) -> int:
    """Columns of tensor memory that the dots of this TTIR can take, twice for double buffering."""
    columns = 0
    for line in ttir.splitlines():
        if "tt.dot" in line:
            for shape, _ in _TENSOR.findall(line):
                m, n = [1, 1, *map(int, shape.split("x")[:-1])][-2:]
                columns += 2 * max(1, -(-m // 128)) * n
    return columns


def fill(
    backend: Any,
    module: Any,
    metadata: dict[str, Any],
    options: Any,
    capability: int,
    make_ttgir: Any,
) -> None:
    """Put resource figures into `metadata`; `xttir_exact` says whether they are the compiler's.

    `make_ttgir`: the stage that lowers TTIR, None when `module` is TTGIR already (Gluon).
    """
    from xttir.frontends.triton.devices import DEVICES

    device = DEVICES.get(capability)
    text = str(module)
    bound = shared_bound(text, options.num_stages) if make_ttgir is not None else None
    fits = bound is not None and (device is None or bound <= device.shared_per_block_optin)
    columns = tensor_memory_bound(text) if capability // 10 == 10 else 0
    metadata["xttir_exact"] = False
    metadata["tmem_size"] = None
    metadata["profile_scratch_size"], metadata["profile_scratch_align"] = 0, 1
    # A descriptor made in the kernel lives in 128 bytes of scratch per program.
    descriptors = text.count("make_tensor_descriptor") if capability >= 90 else 0
    metadata["global_scratch_size"] = 128 * descriptors
    metadata["global_scratch_align"] = 128 if descriptors else 1
    if fits and columns <= 512:
        metadata["shared"] = bound
        return
    if make_ttgir is not None:
        module = make_ttgir(module, metadata)
    _allocate(backend, module, metadata, options, capability)


def _allocate(
    backend: Any, module: Any, metadata: dict[str, Any], options: Any, capability: int
) -> None:
    """Run the passes of `make_llir` up to the allocations and read what they decided."""
    from triton._C.libtriton import ir, nvidia, passes
    from triton.backends.nvidia import compiler

    pm = ir.pass_manager(module.context)
    try:
        version = compiler.get_ptx_version_from_options(options, backend.target.arch)
        passes.ttgpuir.add_combine_tensor_select_and_if(pm)
        _add(passes.ttgpuir.add_allocate_warp_groups, pm, False)
        passes.convert.add_scf_to_cf(pm)
        passes.gluon.add_inliner(pm)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(pm, capability, version)
        nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(pm)
        pm.run(module, "xttir_allocate")
    except (AttributeError, TypeError):
        # Another Triton with other passes: its own lowering says it as well, only slower.
        backend.make_llir(module, metadata, options, capability)
        return
    warps = module.get_int_attr("ttg.total-num-warps")
    if warps is not None:
        metadata["num_warps"] = warps
    metadata["shared"] = module.get_int_attr("ttg.shared") or 0
    metadata["tmem_size"] = module.get_int_attr("ttg.tensor_memory_size")


def _add(add: Any, pm: Any, *extra: Any) -> None:
    try:
        add(pm, *extra)
    except TypeError:
        add(pm)


def register_usage(cubin: bytes) -> tuple[int, int]:
    """(registers, spilled registers) of an ELF cubin with one kernel; (0, 0) if it does not say.

    Section `.nv.info` is a list of attributes; 0x2f (EIATTR_REGCOUNT) and 0x11 (EIATTR_FRAME_SIZE)
    hold a symbol and a number each. Functions that are called count as well: the most is used.
    """
    if cubin[:4] != b"\x7fELF":
        return 0, 0
    offset = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        if cubin[start : cubin.index(b"\0", start)] == b".nv.info":
            most = _attributes(cubin[header[4] : header[4] + header[5]])
            return most.get(0x2F, 0), most.get(0x11, 0) // 4
    return 0, 0


def _attributes(info: bytes) -> dict[int, int]:
    """The largest number of each (symbol, number) attribute: format, attribute, size, payload."""
    at, most = 0, {}
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form != 4:
            at += 4
            continue
        if size >= 8:
            number = struct.unpack_from("<I", info, at + 8)[0]
            most[attribute] = max(most.get(attribute, 0), number)
        at += 4 + size
    return most
