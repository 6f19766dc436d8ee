"""Compiles stop after the IR that is run; everything else is there on demand."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton
from triton.runtime.errors import OutOfResources

from tests.frontends.triton import kernels
from tests.frontends.triton.conftest import Recorder
from xttir.diagnostics import Kind
from xttir.frontends.triton import compile as xcompile
from xttir.frontends.triton import install, resources, uninstall


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    half = {"device": "cuda", "dtype": torch.float16}
    return torch.zeros(m, k, **half), torch.zeros(k, n, **half), torch.zeros(m, n, device="cuda")


def matmul(m: int, n: int, k: int, stages: int, **options: int) -> object:
    a, b, c = operands(m, n, 2 * k)
    blocks = {"BM": m, "BN": n, "BK": k, "STAGES": stages}
    return kernels.matmul[(1,)](a, b, c, 2 * k, **blocks, **options)


def test_stops_after_ttir(gpu: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = torch.zeros(16, device="cuda")
    kernel = kernels.add[(1,)](x, x, 16, B=16)
    made = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert ".ttir" in made
    assert not made & {".ttgir", ".llir", ".ptx"}
    assert "tt.func public @add" in kernel.asm["ttir"]
    # The other stages are made by the stock pipeline when somebody asks.
    assert "ptx" in kernel.asm
    assert ".visible .entry add" in kernel.asm["ptx"]
    assert "ttg.num-warps" in kernel.asm["ttgir"]
    assert kernel.asm["cubin"][:4] == b"\x7fELF"
    assert kernel.kernel == kernel.asm["cubin"]
    assert {"ttir", "ttgir", "llir", "ptx", "cubin"} <= set(kernel.asm.keys())
    with pytest.raises(KeyError):
        kernel.asm["nonsense"]


def test_disk_cache_hits_and_is_not_polluted(
    gpu: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = torch.zeros(16, device="cuda")
    kernel = kernels.add[(1,)](x, x, 16, B=16)
    ours = {p.parent.name for p in tmp_path.rglob("*.cubin")}
    assert kernel.asm["ptx"]
    theirs = {p.parent.name for p in tmp_path.rglob("*.cubin")} - ours
    assert len(theirs) == 1
    for place in theirs:
        (binary,) = (tmp_path / place).glob("*.cubin")
        assert binary.read_bytes()[:4] == b"\x7fELF"
    kernels.add.device_caches.clear()
    hits: list[bool] = []
    monkeypatch.setattr(
        triton.knobs.compilation, "listener", lambda **found: hits.append(found["cache_hit"])
    )
    kernels.add[(1,)](x, x, 16, B=16)
    assert hits == [True]


def test_resource_figures_are_exact(gpu: Recorder) -> None:
    kernel = matmul(64, 64, 32, 3)
    full = kernel.full()
    assert full.metadata.shared > 0
    assert kernel.metadata.shared == full.metadata.shared
    assert kernel.metadata.num_warps == 4
    assert 16 < kernel.n_regs <= 255
    assert kernel.n_spills == 0
    registers, spills = resources.register_usage(full.asm["cubin"])
    assert (kernel.n_regs, kernel.n_spills) == (registers, spills)


def test_small_kernels_need_no_lowering(gpu: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("lowered")

    monkeypatch.setattr(resources, "_allocate", fail)
    monkeypatch.setattr(triton.knobs.compilation, "always_compile", True)
    matmul(32, 32, 32, 3)
    x = torch.zeros(4, 4096, device="cuda")
    kernels.row_sum[(4,)](x, x, 4096, B=4096)
    assert len(gpu.launches) == 2


SHAPES = [(64, 64, 32, 3), (128, 128, 64, 4), (128, 256, 64, 3), (64, 128, 128, 5), (16, 16, 16, 2)]


@pytest.mark.parametrize("gpu", [80, 90, 100], indirect=True)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bound_is_a_bound(gpu: Recorder, shape: tuple[int, int, int, int]) -> None:
    a, b, c = operands(shape[0], shape[1], 2 * shape[2])
    m, n, k, stages = shape
    kernel = kernels.matmul.warmup(
        a, b, c, 2 * k, BM=m, BN=n, BK=k, STAGES=stages, num_warps=8, grid=(1,)
    )
    bound = resources.shared_bound(kernel.asm["ttir"], 3)
    assert bound is not None
    exact = kernel.full().metadata
    assert exact.shared <= bound
    if exact.tmem_size:
        assert exact.tmem_size <= resources.tensor_memory_bound(kernel.asm["ttir"])


@pytest.mark.parametrize("block", [64, 1024, 16384])
def test_the_bound_holds_for_reductions(gpu: Recorder, block: int) -> None:
    x = torch.zeros(1, block, device="cuda")
    kernel = kernels.row_sum.warmup(x, x, block, B=block, grid=(1,))
    assert kernel.full().metadata.shared <= resources.shared_bound(kernel.asm["ttir"], 3)


def test_out_of_shared_memory(gpu: Recorder) -> None:
    for _ in range(2):
        with pytest.raises(OutOfResources, match=r"shared memory, Required: 524288, .*232448"):
            matmul(256, 256, 128, 4)
    assert gpu.launches == []
    assert [fault.kind for fault in gpu.faults] == [Kind.RESOURCE] * 2
    fault = gpu.faults[0]
    assert "524288" in fault.message
    assert fault.locations[0].file == __file__
    assert fault.locations[0].function == "matmul"


def test_fits_one_device_and_not_another() -> None:
    for cc, fits in ((90, True), (86, False)):
        launches: list[object] = []
        install(cc, launches.append)
        try:
            if fits:
                matmul(128, 128, 64, 5)
            else:
                with pytest.raises(OutOfResources):
                    matmul(128, 128, 64, 5)
        finally:
            uninstall()
        assert len(launches) == fits


def test_too_many_threads(gpu: Recorder) -> None:
    x = torch.zeros(16, device="cuda")
    with pytest.raises(OutOfResources, match="threads, Required: 2048, Hardware limit: 1024"):
        kernels.add[(1,)](x, x, 16, B=16, num_warps=64)
    assert gpu.faults[0].kind is Kind.RESOURCE


def test_equal_functions_of_two_files_keep_their_places(gpu: Recorder, tmp_path: Path) -> None:
    text = "import triton, triton.language as tl\n\n@triton.jit\ndef k(x):\n    tl.store(x, 1.0)\n"
    x = torch.zeros(1, device="cuda")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(text)
        kernel = load(tmp_path / name).k[(1,)](x)
        assert str(tmp_path / name) in kernel.asm["ttir"]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_ir_files(gpu: Recorder, tmp_path: Path, stage: str) -> None:
    x = torch.zeros(16, device="cuda")
    text = kernels.add[(1,)](x, x, 16, B=16).asm[stage]
    path = tmp_path / f"add.{stage}"
    path.write_text(text)
    kernel = triton.compile(str(path))
    assert ".entry add" in kernel.asm["ptx"]
    kernel[(1, 1, 1)](x, x, 16)
    names = [a.name for a in gpu.launches[-1].arguments]
    assert names == ["arg0", "arg1", "arg2"]
    assert gpu.launches[-1].kernel == "add"


def test_stage_hook_of_the_user_sees_every_stage(
    gpu: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def hook(*args: object) -> object:
        if not args:
            return "key", "hash"
        stages = args[1]
        assert isinstance(stages, dict)
        for name, stage in list(stages.items()):
            stages[name] = lambda s, m, n=name, f=stage: (seen.append(n), f(s, m))[1]
        return None

    monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", hook)
    x = torch.zeros(16, device="cuda")
    kernels.add[(1,)](x, x, 16, B=16)
    assert seen == ["ttir", "ttgir", "llir", "ptx", "cubin"]
    assert len(gpu.launches) == 1


def test_warm_up_then_ask_for_figures(gpu: Recorder) -> None:
    """As in Triton's fused softmax tutorial."""
    x = torch.zeros(8, 1024, device="cuda")
    kernel = kernels.row_sum.warmup(x, x, 1024, B=1024, num_warps=8, grid=(1,))
    kernel._init_handles()
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] == 132
    assert kernel.n_regs > 0
    assert kernel.metadata.shared > 0
    kernel[(8, 1, 1)](x, x, 1024, 1024)
    assert gpu.launches[0].grid == (8, 1, 1)
    assert [a.name for a in gpu.launches[0].arguments] == ["x", "o", "N"]


def test_gluon_hands_over_ttgir(gpu: Recorder, tmp_path: Path) -> None:
    (tmp_path / "glue.py").write_text(
        "from triton.experimental import gluon\n"
        "from triton.experimental.gluon import language as gl\n\n"
        "@gluon.jit\n"
        "def k(x, n, B: gl.constexpr):\n"
        "    at: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])\n"
        "    i = gl.arange(0, B, layout=at)\n"
        "    gl.store(x + i, gl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
    )
    x = torch.zeros(16, device="cuda")
    kernel = load(tmp_path / "glue.py").k[(1,)](x, 16, B=128)
    assert "ttg.blocked" in kernel.ir_text
    assert gpu.launches[0].module is kernel.ir


def test_compile_errors_are_tritons(gpu: Recorder, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import triton, triton.language as tl\n\n"
        "@triton.jit\ndef k(x):\n    tl.static_assert(False, 'no')\n"
    )
    with pytest.raises(triton.CompilationError):
        load(tmp_path / "wrong.py").k[(1,)](torch.zeros(1, device="cuda"))


def test_full_compile_is_the_stock_one(gpu: Recorder) -> None:
    x = torch.zeros(16, device="cuda")
    kernel = kernels.add[(1,)](x, x, 16, B=16, num_warps=2)
    assert kernel.full().metadata.num_warps == 2
    with xcompile.full_compile():
        stock = triton.compile(kernel.src, target=kernel.metadata.target, options={"num_warps": 2})
    assert stock.asm["ptx"] == kernel.asm["ptx"]
    assert stock.hash == kernel.full().hash != kernel.hash
    assert not any(k.startswith("xttir") for k in stock.metadata._fields)
    assert os.path.basename(kernels.__file__) in kernel.asm["ttir"]


def test_the_bound_holds_for_kernels_in_the_wild(shared_dir: Path) -> None:
    """Against the figures of stock compiles of 51 kernels of published packages."""
    seen = 0
    for meta in (shared_dir / "corpus" / "triton").rglob("meta.json"):
        text = (meta.parent / "ttir.loc.mlir").read_text()
        known = json.loads(meta.read_text())
        bound = resources.shared_bound(text, known.get("num_stages") or 3)
        assert bound is None or known["shared"] <= bound, meta.parent
        seen += 1
    assert seen > 40
