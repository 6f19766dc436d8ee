"""Causal attention forward, Z=1, H=2, N=256, D=64, float16, online softmax in 64x32 tiles."""

import os

import torch
import triton
import triton.language as tl
from bench_clock import timed

DEVICE = os.environ.get("BENCH_DEVICE", "cuda")
LAUNCHES = int(os.environ.get("BENCH_LAUNCHES", "1"))
Z, H, N, D = 1, 2, 256, 64


@triton.jit
def attention_kernel(
    q, k, v, out, lse, scale, head_stride, row_stride, n,
    TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * head_stride
    rows = tile * TM + tl.arange(0, TM)
    dims = tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * row_stride + dims[None, :])
    high = tl.full([TM], -float("inf"), tl.float32)
    total = tl.zeros([TM], tl.float32)
    acc = tl.zeros([TM, D], tl.float32)
    to_base_2 = scale * 1.44269504
    for start in range(0, (tile + 1) * TM, TN):
        keys = start + tl.arange(0, TN)
        key = tl.load(k + base + keys[None, :] * row_stride + dims[:, None])
        scores = tl.dot(query, key) * to_base_2
        scores = tl.where(rows[:, None] >= keys[None, :], scores, -1.0e6)
        new_high = tl.maximum(high, tl.max(scores, 1))
        weights = tl.math.exp2(scores - new_high[:, None])
        shrink = tl.math.exp2(high - new_high)
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        value = tl.load(v + base + keys[:, None] * row_stride + dims[None, :])
        acc = tl.dot(weights.to(tl.float16), value, acc)
        high = new_high
    acc = acc / total[:, None]
    tl.store(lse + head * n + rows, high + tl.math.log2(total))
    tl.store(out + base + rows[:, None] * row_stride + dims[None, :], acc.to(tl.float16))


torch.manual_seed(0)
q, k, v = ((torch.randn(Z, H, N, D, device=DEVICE) * 0.5).half() for _ in range(3))
out = torch.empty_like(q)
lse = torch.empty(Z, H, N, device=DEVICE)
with timed():
    for _ in range(LAUNCHES):
        attention_kernel[(N // 64, Z * H)](
            q, k, v, out, lse, D**-0.5, q.stride(1), q.stride(2), N, TM=64, TN=32, D=D
        )

scores = q.float() @ k.float().transpose(2, 3) * D**-0.5
above = torch.triu(torch.ones(N, N, dtype=torch.bool, device=DEVICE), diagonal=1)
ref = torch.softmax(scores.masked_fill(above, -float("inf")), dim=-1) @ v.float()
same = torch.allclose(out.float(), ref, atol=1e-2, rtol=0)
assert same or not LAUNCHES, "wrong attention"
