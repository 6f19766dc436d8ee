"""The launch of a module's PTX: tensor maps stand for descriptors that the host passes."""

from __future__ import annotations

import pytest

from xttir.diagnostics import Unsupported
from xttir.frontends.launch_description import TensorMapParam
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch
from xttir.refine.to_ptx import Lowered, launch_of

HEAD = """
#nv = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
"""
TILED = f"""{HEAD}
tt.func public @k(%d: !tt.tensordesc<64x64xf16, #nv>, %h: i32, %w: i32, %sh: i64, %sw: i64) {{
  tt.return
}}}}"""
IM2COL = f"""{HEAD}
tt.func public @k(%d: !ttng.tensordesc_im2col<16x64xf16, #nv>, %n: i32, %h: i32, %w: i32, %c: i32,
                  %sn: i64, %sh: i64, %sw: i64, %sc: i64) {{
  tt.return
}}}}"""
MAP = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "fp4_padded": False}


def tensor_map(text: str, numbers: list[int], **encoded: object) -> TensorMapParam:
    made = Lowered("", 4, 0, 1, 0, ({**MAP, **encoded},))
    module = parse_module(text, "k.mlir", verify=False)
    launch = Launch("k", (1, 1, 1), dict(enumerate(numbers, 1)))
    found = launch_of(module, launch, made).params[0]
    assert isinstance(found, TensorMapParam)
    return found


def test_a_tile_of_the_extents_and_strides_that_follow():
    found = tensor_map(TILED, [100, 200, 256, 1], block_size=[64, 32])
    assert (found.box, found.dims, found.strides_bytes) == ((32, 64), (200, 100), (512,))
    assert (found.swizzle, found.dtype.size, found.im2col) == ("128B", 2, None)


def test_pixels_and_channels_of_a_tensor_of_four_dimensions():
    numbers = [2, 8, 8, 64, 4096, 512, 64, 1]
    found = tensor_map(IM2COL, numbers, block_size=[16, 64], is_im2col=True)
    assert (found.dims, found.strides_bytes) == ((64, 8, 8, 2), (128, 1024, 8192))
    assert found.im2col is not None
    assert (found.im2col.pixels, found.im2col.channels) == (16, 64)
    assert len(found.im2col.lower) == len(found.im2col.upper) == 2


@pytest.mark.parametrize(
    ("numbers", "encoded", "what"),
    [([100, 200], {}, "unknown extents"), ([1, 1, 1, 1], {"fp4_padded": True}, "padded floats")],
)
def test_what_is_not_known_is_said(numbers: list[int], encoded: dict[str, object], what: str):
    with pytest.raises(Unsupported, match=what):
        tensor_map(TILED, numbers, block_size=[64, 32], **encoded)
