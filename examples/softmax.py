"""Row-wise softmax after Triton's tutorial, with one slip: the store has lost its mask.

Every row is computed in a block of the next power of two. Without a mask the store writes the
whole block, so each row's padding lands in the row below, and the last one's beyond the tensor.
The check at the end may well pass: later programs write the rows over again, and what lies behind
the tensor is nobody's to check.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out, x, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    values = tl.load(x + row * stride + cols, mask=mask, other=-float("inf"))
    shifted = values - tl.max(values, axis=0)
    numerator = tl.exp(shifted)
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out + row * stride + cols, result)


def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, cols = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](out, x, x.stride(0), cols, BLOCK=triton.next_power_of_2(cols))
    return out


torch.manual_seed(0)
x = torch.randn(64, 781, device="cuda")
y = softmax(x)
print("largest difference from torch:", (y - torch.softmax(x, dim=1)).abs().max().item())
