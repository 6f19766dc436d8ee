"""Softmax over the rows of a 1823x781 float32 matrix, 264 programs that stride over the rows."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))
ROWS, COLS, PROGRAMS = 1823, 781, 264


@triton.jit
def strided_softmax_kernel(dst, src, dst_stride, src_stride, rows, cols, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    inside = col < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        scores = tl.load(src + row * src_stride + col, mask=inside, other=-float("inf"))
        weights = tl.exp(scores - tl.max(scores, axis=0))
        total = tl.sum(weights, axis=0)
        tl.store(dst + row * dst_stride + col, weights / total, mask=inside)


torch.manual_seed(0)
x = torch.randn(ROWS, COLS, device=DEVICE)
y = torch.empty_like(x)
block = triton.next_power_of_2(COLS)
with timed():
    for _ in range(LAUNCHES):
        strided_softmax_kernel[(PROGRAMS,)](
            y, x, y.stride(0), x.stride(0), ROWS, COLS, BLOCK=block, num_warps=8
        )

same = torch.allclose(y, torch.softmax(x, dim=1), rtol=1e-5, atol=1e-7)
assert same or not LAUNCHES, "wrong softmax"
