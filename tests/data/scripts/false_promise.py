"""An index that is promised to be a multiple of 16 and is not; no access hangs on the promise."""

import torch
import triton
import triton.language as tl


@triton.jit
def shifted(x, out, offset):
    n = tl.arange(0, 16)
    first = tl.multiple_of(offset + 0 * tl.num_programs(0), 16)
    tl.store(out + n, tl.load(x + first + n))


X = torch.arange(64, device="cuda", dtype=torch.float32)
OUT = torch.zeros(16, device="cuda")
shifted[(1,)](X, OUT, 3)
