"""The inner loop's bound is loaded in the outer loop, which may not run (triton#11601). bad: all"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(p, q, out, m):
    total = 0
    for _ in tl.range(0, m, flatten=True):
        bound = tl.load(q)
        for j in tl.range(0, bound):
            total += tl.load(p + j)
    tl.store(out, total)


p = torch.arange(4, dtype=torch.int32, device="cuda")
q = torch.tensor([3], dtype=torch.int32, device="cuda")
out = torch.zeros(1, dtype=torch.int32, device="cuda")
kernel[(1,)](p, q, out, 2)
