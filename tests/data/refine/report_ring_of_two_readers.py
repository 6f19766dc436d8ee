"""A tile that the loop both loads from shared memory and multiplies by: its ring has two slots, and
the copy of two iterations ahead goes to the one that wgmma still reads (cc 90). bad: all
pass: tritongpu-pipeline"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, out, sums, K, BLOCK_K: tl.constexpr):
    rows, columns, depth = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, BLOCK_K)
    product = tl.zeros([64, 32], dtype=tl.float32)
    total = tl.zeros([BLOCK_K, 32], dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        y = tl.load(b + (k + depth)[:, None] * 32 + columns[None, :])
        total += y
        product += tl.dot(x, y)
    tl.store(out + rows[:, None] * 32 + columns[None, :], product)
    tl.store(sums + depth[:, None] * 32 + columns[None, :], total)


K = 256
torch.manual_seed(0)
a = torch.randn(64, K, device="cuda").bfloat16()
b = torch.randn(K, 32, device="cuda").bfloat16()
out = torch.zeros(64, 32, device="cuda")
sums = torch.zeros(32, 32, device="cuda")
kernel[(1,)](a, b, out, sums, K, BLOCK_K=32, num_stages=3)
