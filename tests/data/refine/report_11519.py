"""A tl.assume in a branch that the loop nest cannot be reached from (triton#11519). bad: 3.8"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(p, out, sink, m, n, BLOCK: tl.constexpr, FLAT: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    if m == 0:
        tl.assume(n > 0)
        acc += tl.load(p + offs)
    else:
        for i in tl.range(0, m, flatten=FLAT):
            for j in range(0, n):
                acc += tl.load(p + j * BLOCK + offs)
                tl.store(sink + (i * 8 + j) * BLOCK + offs, acc)
    tl.store(out + offs, acc)


# A launch that the miscompile does not touch: xttir varies m and n by itself.
BLOCK, m, n = 64, 4, 2
p = torch.randn(BLOCK * n, device="cuda")
out = torch.zeros(BLOCK, device="cuda")
sink = torch.zeros(m * 8 * BLOCK, device="cuda")
kernel[(1,)](p, out, sink, m, n, BLOCK=BLOCK, FLAT=True)
