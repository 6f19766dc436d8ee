"""A persistent matrix product: each program works through tiles, by itself or warp-specialised."""

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_persistent(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    programs = tl.num_programs(0)
    wide = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * wide
    k_tiles = tl.cdiv(K, BK)
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=FLATTEN, warp_specialize=WS):
        om = tile // wide * BM
        on = tile % wide * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(k_tiles):
            x = a.load([om, k * BK])
            y = b.load([on, k * BK])
            acc = tl.dot(x, y.T, acc)
        c.store([om, on], acc.to(tl.float16))


K = int(sys.argv[1]) if len(sys.argv) > 1 else 512
WS = "ws" in sys.argv[1:]
M, N, PROGRAMS = 384, 256, 2
BM, BN, BK = 128, 128, 64
A = torch.randn(M, K, device="cuda", dtype=torch.float16)
B = torch.randn(N, K, device="cuda", dtype=torch.float16)
C = torch.empty(M, N, device="cuda", dtype=torch.float16)
matmul_persistent[(PROGRAMS,)](
    TensorDescriptor.from_tensor(A, [BM, BK]),
    TensorDescriptor.from_tensor(B, [BN, BK]),
    TensorDescriptor.from_tensor(C, [BM, BN]),
    M, N, K, BM, BN, BK, WS, True,
    num_warps=4, num_stages=3,
)  # fmt: skip
torch.testing.assert_close(C.float(), A.float() @ B.float().T, rtol=1e-2, atol=1e-1)
