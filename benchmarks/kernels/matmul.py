"""1024x1024x1024 float16 matmul in 64x64x32 tiles, accumulated in float32, grouped tile order."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))
SIZE = 1024


@triton.jit
def tile_matmul_kernel(
    a, b, c, m, n, k, am, ak, bk, bn, cm, cn,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(m, TM)
    tiles_n = tl.cdiv(n, TN)
    pid = tl.program_id(0)
    per_group = GROUP * tiles_n
    first = pid // per_group * GROUP
    height = min(tiles_m - first, GROUP)
    tile_m = first + pid % per_group % height
    tile_n = pid % per_group // height

    rows = (tile_m * TM + tl.arange(0, TM)) % m
    cols = (tile_n * TN + tl.arange(0, TN)) % n
    depth = tl.arange(0, TK)
    a_tile = a + rows[:, None] * am + depth[None, :] * ak
    b_tile = b + depth[:, None] * bk + cols[None, :] * bn
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, TK)):
        left = k - step * TK
        a_part = tl.load(a_tile, mask=depth[None, :] < left, other=0.0)
        b_part = tl.load(b_tile, mask=depth[:, None] < left, other=0.0)
        acc = tl.dot(a_part, b_part, acc)
        a_tile += TK * ak
        b_tile += TK * bk

    rows = tile_m * TM + tl.arange(0, TM)
    cols = tile_n * TN + tl.arange(0, TN)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * cm + cols[None, :] * cn, acc.to(tl.float16), mask=inside)


torch.manual_seed(0)
a = (torch.rand(SIZE, SIZE, device=DEVICE) - 0.5).half()
b = (torch.rand(SIZE, SIZE, device=DEVICE) - 0.5).half()
c = torch.empty(SIZE, SIZE, device=DEVICE, dtype=torch.float16)
with timed():
    for _ in range(LAUNCHES):
        tile_matmul_kernel[(triton.cdiv(SIZE, 64) * triton.cdiv(SIZE, 64),)](
            a, b, c, SIZE, SIZE, SIZE, *a.stride(), *b.stride(), *c.stride(),
            TM=64, TN=64, TK=32, GROUP=8,
        )  # fmt: skip

same = torch.allclose(c.float(), a.float() @ b.float(), atol=2e-2, rtol=1e-3)
assert same or not LAUNCHES, "wrong product"
