"""A matrix product through tensor descriptors made on the host, one tile a program."""

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM
    on = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = a.load([om, k * BK])
        y = b.load([on, k * BK])
        acc = tl.dot(x, y.T, acc)
    c.store([om, on], acc.to(tl.float16))


K = int(sys.argv[1]) if len(sys.argv) > 1 else 512
M = N = 256
BM, BN, BK = 128, 128, 64
A = torch.randn(M, K, device="cuda", dtype=torch.float16)
B = torch.randn(N, K, device="cuda", dtype=torch.float16)
C = torch.empty(M, N, device="cuda", dtype=torch.float16)
matmul_tma[(M // BM, N // BN)](
    TensorDescriptor.from_tensor(A, [BM, BK]),
    TensorDescriptor.from_tensor(B, [BN, BK]),
    TensorDescriptor.from_tensor(C, [BM, BN]),
    K, BM, BN, BK, num_stages=3,
)  # fmt: skip
torch.testing.assert_close(C.float(), A.float() @ B.float().T, rtol=1e-2, atol=1e-1)
