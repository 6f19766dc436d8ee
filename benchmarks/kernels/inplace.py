"""x = 2 x + 1 in place over 8.4 million float32: every element is read and written."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))
N = 8_400_000


@triton.jit
def affine_kernel(x, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < n
    tl.store(x + where, tl.load(x + where, mask=inside) * 2.0 + 1.0, mask=inside)


x = torch.ones(N, device=DEVICE)
with timed():
    for _ in range(LAUNCHES):
        affine_kernel[(triton.cdiv(N, 1024),)](x, N, BLOCK=1024)

low, high = float(x.min()), float(x.max())
assert low == high == 2.0 ** (LAUNCHES + 1) - 1, (low, high)
