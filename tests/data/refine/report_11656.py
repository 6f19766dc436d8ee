"""An inner loop whose upper bound may be below its lower bound (triton#11656). bad: 3.8"""

import torch
import triton
import triton.language as tl


@triton.jit
def flattened(out, end):
    total = 0
    for _ in tl.range(0, 4, flatten=True):
        for _ in tl.range(5, end):
            total += 1
    tl.store(out, total)


out = torch.zeros(1, dtype=torch.int32, device="cuda")
flattened[(1,)](out, 7)
