"""Matrix multiplication that splits the long dimension over programs, and adds without atomics.

Two programs of the same tile both load the tile of `c`, add their part and store the sum: one of
the two additions is lost whenever they overlap. Where they happen not to, the result is right.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, c, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    tile, part = tl.program_id(0), tl.program_id(1)
    m = tile * BM + tl.arange(0, BM)[:, None]
    n = tl.arange(0, BM)[None, :]
    acc = tl.zeros((BM, BM), tl.float32)
    for k in range(part * BK, K, SPLIT * BK):
        i = k + tl.arange(0, BK)
        left = tl.load(a + m * K + i[None, :], mask=m < M)
        right = tl.load(b + i[:, None] * N + n, mask=n < N)
        acc = tl.dot(left, right, acc)
    sums = c + m * N + n
    inside = (m < M) & (n < N)
    tl.store(sums, tl.load(sums, mask=inside) + acc, mask=inside)


torch.manual_seed(0)
M, N, K = 64, 32, 256
a = torch.randn(M, K, device="cuda", dtype=torch.float16)
b = torch.randn(K, N, device="cuda", dtype=torch.float16)
c = torch.zeros(M, N, device="cuda")
matmul_kernel[(M // 32, 4)](a, b, c, M, N, K, SPLIT=4, BM=32, BK=32)
print("largest difference from torch:", (c - a.float() @ b.float()).abs().max().item())
