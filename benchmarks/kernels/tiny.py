"""A kernel of one program and 128 elements, launched again and again."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))


@triton.jit
def count_kernel(x, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + where, tl.load(x + where, mask=where < n) + 1.0, mask=where < n)


x = torch.zeros(100, device=DEVICE)
with timed():
    for _ in range(LAUNCHES):
        count_kernel[(1,)](x, 100, BLOCK=128)

low, high = float(x.min()), float(x.max())
assert low == high == LAUNCHES, (low, high)
