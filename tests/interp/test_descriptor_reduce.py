# ruff: noqa: E501
"""Reductions through tensor descriptors: which of two integers is less is a matter of the
descriptor's elements, as those of tensors have no sign."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interp.launching import kinds, run, tensor
from xttir.diagnostics import Unsupported
from xttir.interp.launch import DescriptorArg

TILES = """
  tt.func public @k(%a: !tt.tensordesc<8x16xELEMENT>, %b: !tt.tensordesc<8x16xELEMENT>) {
    %c0 = arith.constant 0 : i32
    %v = tt.descriptor_load %a[%c0, %c0] : !tt.tensordesc<8x16xELEMENT> -> tensor<8x16xi32>
    tt.descriptor_reduce KIND, %b[%c0, %c0], %v : !tt.tensordesc<8x16xELEMENT>, tensor<8x16xi32>
    tt.return
  }
"""
TMA = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 32}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%a: !tt.tensordesc<8x16xELEMENT, #shared>, %b: !tt.tensordesc<8x16xELEMENT, #shared>) {
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %m = ttg.local_alloc : () -> !ttg.memdesc<8x16xi32, #shared, #smem, mutable>
    %f = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.init_barrier %f, 1 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.barrier_expect %f, 512, %true : !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.async_tma_copy_global_to_local %a[%c0, %c0] %m, %f, %true : !tt.tensordesc<8x16xELEMENT, #shared>, !ttg.memdesc<1xi64, #bar, #smem, mutable> -> !ttg.memdesc<8x16xi32, #shared, #smem, mutable>
    ttng.wait_barrier %f, %c0 : !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.async_tma_reduce KIND, %b[%c0, %c0] %m : !tt.tensordesc<8x16xELEMENT, #shared>, !ttg.memdesc<8x16xi32, #shared, #smem, mutable>
    ttng.async_tma_store_wait {pendings = 0 : i32}
    tt.return
  }
}
"""
FUNCTIONS = {"min": np.minimum, "max": np.maximum, "add": np.add, "xor": np.bitwise_xor}


def outcome(text: str, kind: str, element: str):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-(2**31), 2**31, (8, 16)).astype(np.int32) for _ in range(2))
    before = b.copy()
    arguments: dict[str, object] = {
        name: DescriptorArg(name, tensor(array, name), array.shape, (16, 1), (8, 16), "zero")
        for name, array in (("a", a), ("b", b))
    }
    text = text.replace("ELEMENT", element).replace("KIND", kind)
    return run(text, (1,), arguments), a, before, b


@pytest.mark.parametrize("text", [TILES, TMA], ids=["tt", "ttng"])
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("element", ["si32", "ui32"])
def test_integers_have_the_sign_of_the_descriptor(text: str, kind: str, element: str) -> None:
    result, a, before, b = outcome(text, kind, element)
    assert kinds(result) == []
    as_seen = np.uint32 if element == "ui32" else np.int32
    assert (b.view(as_seen) == FUNCTIONS[kind](a.view(as_seen), before.view(as_seen))).all()


@pytest.mark.parametrize("text", [TILES, TMA], ids=["tt", "ttng"])
def test_an_order_of_integers_without_a_sign_is_not_guessed(text: str) -> None:
    with pytest.raises(Unsupported, match="neither signed nor unsigned"):
        outcome(text, "max", "i32")
    result, a, before, b = outcome(text, "add", "i32")
    assert kinds(result) == []
    assert (b == a + before).all()
