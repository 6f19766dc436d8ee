"""A module after barrier insertion and the PTX that it is lowered to have the same verdict: as they
are, and with any one op deleted that orders something. Where scratch memory of ops is concerned the
module may be refuted and its PTX be verified: which thread touches which byte of it is the
lowering's own business, and two ops may happen to agree in that."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xttir.analyses.launches import verify_launch
from xttir.analyses.modules import verify_module
from xttir.diagnostics import Fault, Kind, Policy
from xttir.dialects.syntax.printer import module_text
from xttir.frontends.launch_description.match import match
from xttir.frontends.mlir import parse_module
from xttir.frontends.ptx import parse_ptx
from xttir.interp.tracing import Launch
from xttir.refine.capture import capture_module
from xttir.refine.stages import Stage
from xttir.refine.to_ptx import launch_of, lower

pytest.importorskip("triton")

SHARED = Path(os.environ.get("XTTIR_SHARED", Path(__file__).parents[3] / "shared"))
ORDER = (
    "ttg.barrier",
    "ttg.async_commit_group",
    "ttng.wait_barrier",
    "ttng.arrive_barrier",
    "ttng.barrier_expect",
    "ttng.fence_async_shared",
    "ttng.async_tma_store_wait",
    "ttng.init_barrier",
)
"""Ops that order something and can be deleted."""
SCRATCH = ("ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather", "tt.histogram")
"""Ops that pass data through scratch memory of their own."""

HEAD = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#l = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#nv = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
                   ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
"""  # noqa: E501

CONVERT = """
tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %i = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #a>
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #a>
  %q = tt.addptr %p, %i : tensor<512x!tt.ptr<f32>, #a>, tensor<512xi32, #a>
  %v = tt.load %q : tensor<512x!tt.ptr<f32>, #a>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %v) -> (tensor<512xf32, #a>) : i32 {
    %y = ttg.convert_layout %acc : tensor<512xf32, #a> -> tensor<512xf32, #b>
    %j = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #b>
    %f = arith.sitofp %j : tensor<512xi32, #b> to tensor<512xf32, #b>
    %z = arith.addf %y, %f : tensor<512xf32, #b>
    %w = ttg.convert_layout %z : tensor<512xf32, #b> -> tensor<512xf32, #a>
    scf.yield %w : tensor<512xf32, #a>
  }
  tt.store %q, %r : tensor<512x!tt.ptr<f32>, #a>
  tt.return
}}
"""

THROUGH_MEMORY = """
tt.func public @k(%x: !tt.ptr<f32>) {
  %m = ttg.local_alloc : () -> !ttg.memdesc<512xf32, #s, #smem, mutable>
  %i = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #a>
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #a>
  %q = tt.addptr %p, %i : tensor<512x!tt.ptr<f32>, #a>, tensor<512xi32, #a>
  %v = tt.load %q : tensor<512x!tt.ptr<f32>, #a>
  ttg.local_store %v, %m : tensor<512xf32, #a> -> !ttg.memdesc<512xf32, #s, #smem, mutable>
  %l = ttg.local_load %m : !ttg.memdesc<512xf32, #s, #smem, mutable> -> tensor<512xf32, #b>
  %d = arith.addf %l, %l : tensor<512xf32, #b>
  ttg.local_store %d, %m : tensor<512xf32, #b> -> !ttg.memdesc<512xf32, #s, #smem, mutable>
  %e = ttg.local_load %m : !ttg.memdesc<512xf32, #s, #smem, mutable> -> tensor<512xf32, #a>
  tt.store %q, %e : tensor<512x!tt.ptr<f32>, #a>
  tt.return
}}
"""

HOST_DESCRIPTOR = """
tt.func public @k(%d: !tt.tensordesc<64x64xf16, #nv>, %h: i32, %w: i32, %sh: i64, %sw: i64,
                  %x: !tt.ptr<f16>) {
  %c0 = arith.constant 0 : i32
  %true = arith.constant true
  %m = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #nv, #smem, mutable>
  %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #s, #smem, mutable>
  ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #s, #smem, mutable>
  ttng.barrier_expect %f, 8192, %true : !ttg.memdesc<1xi64, #s, #smem, mutable>
  ttng.async_tma_copy_global_to_local %d[%c0, %c0] %m, %f, %true : !tt.tensordesc<64x64xf16, #nv>, !ttg.memdesc<1xi64, #s, #smem, mutable> -> !ttg.memdesc<64x64xf16, #nv, #smem, mutable>
  ttng.wait_barrier %f, %c0 : !ttg.memdesc<1xi64, #s, #smem, mutable>
  %v = ttg.local_load %m : !ttg.memdesc<64x64xf16, #nv, #smem, mutable> -> tensor<64x64xf16, #l>
  ttng.inval_barrier %f : !ttg.memdesc<1xi64, #s, #smem, mutable>
  %c64 = arith.constant dense<64> : tensor<64x1xi32, #l>
  %i = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #l}>>
  %j = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #l}>>
  %ii = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<64x1xi32, #l>
  %jj = tt.expand_dims %j {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x64xi32, #l>
  %i64 = arith.muli %ii, %c64 : tensor<64x1xi32, #l>
  %ib = tt.broadcast %i64 : tensor<64x1xi32, #l> -> tensor<64x64xi32, #l>
  %jb = tt.broadcast %jj : tensor<1x64xi32, #l> -> tensor<64x64xi32, #l>
  %o = arith.addi %ib, %jb : tensor<64x64xi32, #l>
  %p = tt.splat %x : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #l>
  %q = tt.addptr %p, %o : tensor<64x64x!tt.ptr<f16>, #l>, tensor<64x64xi32, #l>
  tt.store %q, %v : tensor<64x64x!tt.ptr<f16>, #l>
  tt.return
}}
"""  # noqa: E501


@dataclass(frozen=True)
class Case:
    """TTGIR before barrier insertion, and the numbers it is launched with."""

    name: str
    text: str
    arguments: dict[int, int] = field(default_factory=dict)
    cc: int = 90


def shared_case(path: str, cc: int, **arguments: int) -> Case:
    file = SHARED / path
    text = file.read_text() if file.exists() else ""
    return Case(path, text, {int(k[1:]): v for k, v in arguments.items()}, cc)


CASES = [
    Case("convert", HEAD + CONVERT, {1: 2}),
    Case("through memory", HEAD + THROUGH_MEMORY),
    Case("host descriptor", HEAD + HOST_DESCRIPTOR, {1: 128, 2: 128, 3: 128, 4: 1}),
    shared_case("cases/reports/20-gluon-ws-late-wait/fixed.ttgir", 90),
]


def after_barriers(case: Case) -> str:
    if not case.text:
        pytest.skip("the shared folder is not there")
    return capture_module(Stage("", case.text, file="k.ttgir"), case.cc, end="llir")[-1].text


def faults_of_module(module: ModuleOp, launch: Launch) -> list[Fault]:
    return counted(verify_module(module, launch).faults)


def faults_of_ptx(module: ModuleOp, launch: Launch, cc: int) -> list[Fault]:
    made = lower(module_text(module), cc)
    parsed = parse_ptx(made.ptx, "k.ptx")
    description = match(launch_of(module, launch, made), parsed)
    return counted(verify_launch(parsed, description)[1].faults)


def counted(faults: list[Fault]) -> list[Fault]:
    """Faults of schedules; sizes of tensors are made up here."""
    kinds = (Kind.OUT_OF_BOUNDS, Kind.UNINITIALIZED)
    return [f for f in faults if f.policy is not Policy.STRICT and f.kind not in kinds]


def coarse(fault: Fault) -> bool:
    """Whether scratch memory of an op is on one side."""
    return any(f"{name} of" in fault.message for name in SCRATCH)


def kernel_of(text: str) -> str:
    return text.partition("tt.func public @")[2].partition("(")[0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_module_and_ptx_agree(case: Case) -> None:
    text = after_barriers(case)
    launch = Launch(kernel_of(text), (1, 1, 1), dict(case.arguments))
    count = sum(op.name in ORDER for op in parse_module(text, verify=False).walk())
    assert count
    refuted = 0
    for deleted in range(-1, count):
        module = parse_module(text, "k.mlir", verify=False).clone()
        there = [op for op in module.walk() if op.name in ORDER]
        what = "nothing"
        if deleted >= 0:
            what = f"{deleted}: {there[deleted].name}"
            there[deleted].detach()
            there[deleted].erase()
        mine, other = faults_of_module(module, launch), faults_of_ptx(module, launch, case.cc)
        assert not (mine and deleted < 0), mine
        exact = [f for f in mine if not coarse(f)]
        assert bool(exact) <= bool(other) <= bool(mine), f"with {what} deleted: {mine}, {other}"
        refuted += bool(mine)
    assert refuted, "no deletion was refuted"
