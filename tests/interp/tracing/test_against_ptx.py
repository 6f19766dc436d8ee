"""Traces of modules against those of the PTX that Triton lowers them to: the same bytes of shared
memory by each warp between the same barriers; scratch memory stands for at least what is used."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xttir.analyses import events as ev
from xttir.frontends.launch_description import LaunchDescription, PointerParam, TensorSpec
from xttir.frontends.mlir import parse_module
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.trace import trace
from xttir.interp.tracing import Launch, trace_module

HEAD = """
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
                      order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4],
                         order = [0, 1]}>
#copies = #ttg.blocked<{sizePerThread = [4, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1],
                        order = [1, 0]}>
#own = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1],
                     order = [0, 1]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2],
                        instrShape = [16, 8]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#swizzled = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#turned = #ttg.swizzled_shared<{vec = 2, perPhase = 2, maxPhase = 4, order = [0, 1]}>
#padded = #ttg.padded_shared<[32:+4] {order = [1, 0], shape = [32, 64]}>
#twice = #ttg.padded_shared<[32:+4, 128:+2] {order = [1, 0], shape = [32, 64]}>
#eight = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1],
                       order = [1, 0]}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#line_memory = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func public @k(%p: !tt.ptr<f16>, %q: !tt.ptr<i32>) {
"""

Round = dict[tuple[str, int], set[int]]


def module(body: str) -> str:
    return f"{HEAD}{body}\n  tt.return\n}}\n}}"


def tile(name: str, element: str, layout: str, shape: str = "32x64") -> str:
    """Load %name from global memory."""
    pointers = f"tensor<{shape}x!tt.ptr<{element}>, {layout}>"
    base = "%p" if element == "f16" else "%q"
    return f"""  %{name}p = tt.splat {base} : !tt.ptr<{element}> -> {pointers}
  %{name} = tt.load %{name}p : {pointers}
"""


def keep(name: str, element: str, layout: str, shape: str = "32x64") -> str:
    """Store %name to global memory."""
    pointers = f"tensor<{shape}x!tt.ptr<{element}>, {layout}>"
    base = "%p" if element == "f16" else "%q"
    return f"""
  %{name}q = tt.splat {base} : !tt.ptr<{element}> -> {pointers}
  tt.store %{name}q, %{name} : {pointers}"""


@lru_cache(maxsize=1)
def compiler() -> tuple[Any, Any, Any, Any]:
    library: Any = pytest.importorskip("triton._C.libtriton", reason="Triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    if not hasattr(library.nvidia.passes.ttgpuir, "add_membar"):
        pytest.skip("this Triton inserts barriers while it lowers")
    backend: Any = make_backend(GPUTarget("cuda", 90, 32))
    return library.ir, library.passes, library.nvidia, backend


def lowered(text: str, path: Path) -> tuple[str, str]:
    """The module after barrier insertion, and its PTX."""
    ir, passes, nvidia, backend = compiler()
    path.write_text(text)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)

    def parsed() -> Any:
        made = ir.parse_mlir_module(str(path), context)
        made.context = context
        return made

    early = parsed()
    manager = ir.pass_manager(context)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.convert.add_scf_to_cf(manager)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, 90, 88)
    nvidia.passes.ttgpuir.add_membar(manager, 90, 88)
    manager.run(early, "test")
    options = backend.parse_options({"num_warps": 4, "num_ctas": 1, "enable_fp_fusion": True})
    metadata: dict[str, Any] = {}
    lower = backend.make_llir(parsed(), metadata, options, 90)
    return str(early), backend.make_ptx(lower, metadata, options, 90)


def rounds(found: ev.Trace) -> list[Round | str]:
    """Barriers, and what each warp touches in shared memory between them."""
    out: list[Round | str] = [{}]
    for event in found.events:
        if isinstance(event, ev.NamedBarrier | ev.WarpSync):
            out += [type(event).__name__, {}]
        elif isinstance(event, ev.Access | ev.AsyncOp):
            current = out[-1]
            assert isinstance(current, dict)
            for f in event.footprints:
                if f.space is ev.Space.SHARED:
                    _add(current, f, event.lanes)
    return [part for part in out if part]


def _add(current: Round, f: ev.Footprint, lanes: np.ndarray) -> None:
    starts = np.broadcast_to(f.starts, (lanes.size, f.starts.shape[1]))
    for warp in np.unique(lanes // 32).tolist():
        mine = np.unique(starts[lanes // 32 == warp])
        places = (mine[mine >= 0][:, None] + np.arange(f.size)).reshape(-1)
        if places.size:
            current.setdefault((str(f.mode), warp), set()).update(places.tolist())


def both(text: str, path: Path) -> tuple[list[Round | str], list[Round | str]]:
    """Of the module, and of its PTX."""
    early, ptx = lowered(text, path / "k.ttgir")
    mine, theirs = of_both(early, ptx)
    return rounds(mine), rounds(theirs)


def of_both(early: str, ptx: str) -> tuple[ev.Trace, ev.Trace]:
    """The traces of a module and of its PTX."""
    (mine,) = trace_module(parse_module(early, "k.mlir", verify=False), Launch("k"))
    shared = re.search(r"ttg.shared = (\d+)", early)
    assert shared is not None
    zeros = np.zeros(1 << 16, np.uint32)
    names = ("p", "q", "scratch", "profile")
    tensors = {n: TensorSpec.of(n, "u32", zeros.size, role="inout", init=zeros) for n in names}
    launch = LaunchDescription(
        entry="k",
        arch="sm_90a",
        grid=(1, 1, 1),
        block=(mine.threads_per_cta, 1, 1),
        cluster=(1, 1, 1),
        dynamic_smem=int(shared[1]),
        tensors=tensors,
        params=tuple(PointerParam(n) for n in names),
    )
    return mine, trace(parse_ptx(ptx, "k.ptx"), launch)


STORES = [
    ("#rows", "#columns", "#plain", "f16"),
    ("#mma", "#rows", "#swizzled", "f16"),
    ("#columns", "#mma", "#turned", "i32"),
    ("#rows", "#mma", "#wide", "f16"),
    ("#copies", "#rows", "#swizzled", "i32"),
    ("#rows", "#copies", "#plain", "f16"),
    ("#rows", "#columns", "#padded", "f16"),
    ("#eight", "#mma", "#padded", "i32"),
    ("#columns", "#mma", "#twice", "f16"),
]


def through_memory(source: str, target: str, memory: str, element: str) -> str:
    """A module that stores a tile into shared memory and loads it in another layout."""
    descriptor = f"!ttg.memdesc<32x64x{element}, {memory}, #smem, mutable>"
    return module(
        tile("v", element, source)
        + f"""  %a = ttg.local_alloc %v : (tensor<32x64x{element}, {source}>) -> {descriptor}
  %w = ttg.local_load %a : {descriptor} -> tensor<32x64x{element}, {target}>"""
        + keep("w", element, target)
    )


@pytest.mark.parametrize(("source", "target", "memory", "element"), STORES)
def test_loads_and_stores(source, target, memory, element, tmp_path):
    text = through_memory(source, target, memory, element)
    mine, theirs = both(text, tmp_path)
    assert mine == theirs
    assert [r for r in mine if isinstance(r, str)] == ["NamedBarrier"]


@pytest.mark.parametrize(
    ("layout", "memory", "element", "width"),
    [
        ("#eight", "#padded", "f16", 16),
        ("#eight", "#padded", "i32", 0),
        ("#rows", "#padded", "f16", 0),
        ("#rows", "#twice", "f16", 8),
        ("#rows", "#twice", "i32", 16),
        ("#columns", "#twice", "i32", 0),
    ],
)
def test_vectors_that_padding_moves(layout, memory, element, width, tmp_path):
    text = through_memory(layout, layout, memory, element)
    mine, theirs = of_both(*lowered(text, tmp_path / "k.ttgir"))
    ours, real = ([f.message for f in trace.faults] for trace in (mine, theirs))
    assert len(ours) == 2 * bool(width)
    assert bool(real) == bool(width)
    assert all(f"access of {width} bytes" in text for text in ours)
    assert all(f"not a multiple of {width} (misaligned)" in text for text in real)


def test_a_part_of_a_buffer(tmp_path):
    whole = "!ttg.memdesc<3x32x64xf16, #swizzled, #smem, mutable>"
    one = "!ttg.memdesc<32x64xf16, #swizzled, #smem, mutable>"
    part = "!ttg.memdesc<32x32xf16, #swizzled, #smem, mutable, 32x64>"
    text = module(
        tile("v", "f16", "#rows", "32x32")
        + f"""  %a = ttg.local_alloc : () -> {whole}
  %i = arith.constant 2 : i32
  %b = ttg.memdesc_index %a[%i] : {whole} -> {one}
  %c = ttg.memdesc_subslice %b[0, 32] : {one} -> {part}
  ttg.local_store %v, %c : tensor<32x32xf16, #rows> -> {part}
  %w = ttg.local_load %c : {part} -> tensor<32x32xf16, #mma>"""
        + keep("w", "f16", "#mma", "32x32")
    )
    mine, theirs = both(text, tmp_path)
    assert mine == theirs


@pytest.mark.parametrize("layout", ["#rows", "#copies"])
def test_asynchronous_copies(layout, tmp_path):
    descriptor = "!ttg.memdesc<32x64xi32, #swizzled, #smem, mutable>"
    pointers = f"tensor<32x64x!tt.ptr<i32>, {layout}>"
    text = module(
        f"""  %a = ttg.local_alloc : () -> {descriptor}
  %v = tt.splat %q : !tt.ptr<i32> -> {pointers}
  %t = ttg.async_copy_global_to_local %v, %a {{contiguity = 4 : i32}} : {pointers} -> <32x64xi32, #swizzled, #smem, mutable>
  %g = ttg.async_commit_group tokens %t
  %d = ttg.async_wait %g {{num = 0 : i32}}
  %w = ttg.local_load %a : {descriptor} -> tensor<32x64xi32, #columns>"""  # noqa: E501
        + keep("w", "i32", "#columns")
    )
    mine, theirs = both(text, tmp_path)
    assert mine == theirs


@pytest.mark.parametrize("element", ["f16", "i32"])
def test_a_conversion_within_warps(element, tmp_path):
    text = module(
        tile("v", element, "#rows", "16x32")
        + f"  %w = ttg.convert_layout %v : tensor<16x32x{element}, #rows> -> "
        + f"tensor<16x32x{element}, #own>"
        + keep("w", element, "#own", "16x32")
    )
    mine, theirs = both(text, tmp_path)
    assert [r for r in mine if isinstance(r, str)] == ["WarpSync"]
    assert set(theirs[1::2]) == {"WarpSync"}
    first, last = theirs[0], theirs[-1]
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    # Each warp reads what it has written itself, and no two use one byte.
    for warp in range(4):
        assert first["write", warp] == last["read", warp]
    every = [b for warp in range(4) for b in first["write", warp]]
    assert len(every) == len(set(every))


LINE = "tensor<256xi32, #line>"
FOLD = """"{0}"(%v) <{{axis = 0 : i32{1}}}> ({{
  ^bb0(%l: i32, %r: i32):
    %s = arith.addi %l, %r : i32
    {0}.return %s : i32
  }}) : ({2}) -> """
SCRATCH = {
    "convert": tile("v", "i32", "#rows")
    + "  %w = ttg.convert_layout %v : tensor<32x64xi32, #rows> -> tensor<32x64xi32, #columns>"
    + keep("w", "i32", "#columns"),
    "reduce": tile("v", "i32", "#rows")
    + "  %w = "
    + FOLD.format("tt.reduce", "", "tensor<32x64xi32, #rows>")
    + "tensor<64xi32, #ttg.slice<{dim = 0, parent = #rows}>>"
    + keep("w", "i32", "#ttg.slice<{dim = 0, parent = #rows}>", "64"),
    "scan": tile("v", "i32", "#line", "256")
    + "  %w = "
    + FOLD.format("tt.scan", ", reverse = false", LINE)
    + LINE
    + keep("w", "i32", "#line", "256"),
    "histogram": tile("v", "i32", "#line", "256")
    + f"  %w = tt.histogram %v : {LINE} -> tensor<64xi32, #line>"
    + keep("w", "i32", "#line", "64"),
    "gather": tile("v", "i32", "#line", "256")
    + f"  %w = tt.gather %v[%v] {{axis = 0 : i32}} : ({LINE}, {LINE}) -> {LINE}"
    + keep("w", "i32", "#line", "256"),
    "atomic": """  %c = arith.constant 1 : i32
  %m = arith.constant true
  %w = tt.atomic_rmw add, acq_rel, gpu, %q, %c, %m : (!tt.ptr<i32>, i32, i1) -> i32
  tt.store %q, %w : !tt.ptr<i32>""",
}


@pytest.mark.parametrize("name", SCRATCH)
def test_scratch_memory(name, tmp_path):
    """It is written, read and, between the two, passed by a barrier; no byte besides is used. (The
    two repeat where the memory is too small for all at once.)"""
    mine, theirs = both(module(SCRATCH[name]), tmp_path)
    shape = [r if isinstance(r, str) else {mode for mode, _ in r} for r in mine]
    real = [r if isinstance(r, str) else {mode for mode, _ in r} for r in theirs]
    assert real[: len(shape)] == shape
    assert real[-1] == {"read"}
    allowed = {b for r in mine if isinstance(r, dict) for places in r.values() for b in places}
    used = {b for r in theirs if isinstance(r, dict) for places in r.values() for b in places}
    assert used <= allowed
