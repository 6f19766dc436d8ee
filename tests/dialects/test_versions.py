"""What Triton 3.8 spells differently, and which ops only one of 3.8 and 3.9 has."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import pytest

from xttir.dialects import gluon, nvws, tt, ttg, tti, ttng
from xttir.dialects.tt.versions import ADDED, REMOVED
from xttir.frontends.mlir import parse_module

Complaint = Callable[[str], str]
DIALECTS = (tt.TT, ttg.TTG, ttng.TTNG, nvws.NVWS, gluon.GLUON, tti.TTI)
TMEM = """\
#t = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#m = #ttng.tensor_memory
!a = !ttg.memdesc<128x64xf32, #t, #m, mutable>
!b = !ttg.memdesc<128x32xf32, #t, #m, mutable, 128x64>
tt.func @f(%x: !a) {
  OP
  tt.return
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            TMEM.replace("OP", "%0 = ttng.tmem_subslice %x {N = 32 : i32} : !a -> !b"),
            TMEM.replace("OP", "%0 = ttng.tmem_subslice %x {offset = 32 : i32} : !a -> !b"),
        ),
        (
            TMEM.replace("OP", '%0 = "ttng.tmem_subslice"(%x) <{N = 32 : i32}> : (!a) -> !b'),
            TMEM.replace("OP", "%0 = ttng.tmem_subslice %x {offset = 32 : i32} : !a -> !b"),
        ),
        ("tt.func private @f(!tt.ptr<f32, 1>)", "tt.func private @f(!tt.ptr<f32>)"),
        ("tt.func private @f(!tt.ptr<f32, 4>)", 'tt.func private @f(!tt.ptr<f32, "constant">)'),
        (
            "tt.func @f(%p: !tt.ptr<f32>) {\n"
            "  %0 = tt.load %p evictionPolicy = evict_last cacheModifier = cg : !tt.ptr<f32>\n"
            "  tt.return\n}",
            "tt.func @f(%p: !tt.ptr<f32>) {\n"
            "  %0 = tt.load %p {cachePolicy = #tt.cache_policy<"
            "cache_modifier = cg, eviction_policy = evict_last>} : !tt.ptr<f32>\n"
            "  tt.return\n}",
        ),
    ],
)
def test_old_spellings_mean_the_new(old: str, new: str) -> None:
    assert parse_module(old).is_structurally_equivalent(parse_module(new))


def test_removed_ops_parse() -> None:
    module = parse_module(
        """
module attributes {"ttg.num-ctas" = 2 : i32} {
  tt.func @f(%p: !tt.ptr<f32>, %d: !tt.tensordesc<32x32xf32>) {
    ttng.cluster_arrive {relaxed = true}
    ttng.cluster_wait
    tti.experimental_gsan_atomic_tensor_access relaxed, gpu, %p : !tt.ptr<f32>
    %0:2 = tti.experimental_gsan_tensordesc_info %d : !tt.tensordesc<32x32xf32> -> !tt.ptr<f32>, i64
    tt.return
  }
}"""
    )
    assert {op.name for op in module.walk()} >= REMOVED


@pytest.fixture(scope="module")
def complaint() -> Complaint:
    """What the installed Triton complains of when it parses a text."""
    libtriton = pytest.importorskip("triton._C.libtriton", reason="Triton is not installed")
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    if getattr(libtriton, "nvidia", None) is None:
        pytest.skip("Triton without its NVIDIA backend")
    libtriton.nvidia.load_dialects(context)

    def parse(text: str) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(text)
            file.flush()
            with tempfile.TemporaryFile() as sink:
                saved = os.dup(2)
                os.dup2(sink.fileno(), 2)
                try:
                    libtriton.ir.parse_mlir_module(file.name, context)
                except RuntimeError:
                    pass
                finally:
                    os.dup2(saved, 2)
                    os.close(saved)
                sink.seek(0)
                return sink.read().decode(errors="replace")

    return parse


def test_tables_of_ops(complaint: Complaint) -> None:
    """Whichever release is installed has what the tables say."""
    import triton

    release = tuple(map(int, triton.__version__.split(".")[:2]))
    if release not in ((3, 8), (3, 9)):
        pytest.skip(f"Triton {triton.__version__} is neither 3.8 nor 3.9")
    absent = ADDED if release == (3, 8) else REMOVED
    names = {op.name for dialect in DIALECTS for op in dialect.operations}
    assert absent <= names
    # An op that is there complains of its missing operands, if of anything, or is a terminator.
    probes = [*sorted(absent), "tt.load", "ttg.local_load", "ttng.init_barrier", "nvws.aref.create"]
    found = {
        name: complaint(f'module {{ tt.func @f() {{ "{name}"() : () -> () }} }}') for name in probes
    }
    unknown = {
        name for name, text in found.items() if "unregistered dialect" in text or "unknown" in text
    }
    assert unknown == absent
